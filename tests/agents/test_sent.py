"""What models do to what they are sent: the next call is sent what was said, and what is stored stays as it is."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import pairwise
from operator import is_
from typing import Any

import pytest

from graphkit import Agent, tool
from graphkit.checkpoint.memory import InMemorySaver
from graphkit.hooks import AfterInvocationEvent, BeforeModelCallEvent, HookOrder
from graphkit.middleware import InvokeModelStage
from graphkit.models import ScriptedModel, ToolCall
from graphkit.session import SessionManager
from graphkit.store.memory import InMemoryStore
from graphkit_prebuilt.middleware.contexts import InvokeModelContext
from graphkit_prebuilt.models.sent import Sent
from tests.agents.conftest import Door


@pytest.fixture(params=["call", "invoke_async"])
def door(request: pytest.FixtureRequest) -> Door:
    return Door(request.param)


@tool
def look(query: Any) -> dict[str, Any]:
    """Looks something up."""
    return {"found": [query, {"rank": 1}]}


CALL = ToolCall("look", {"query": {"words": ["a", 1]}})
TURNS: Any = [[CALL], "one", [CALL], "two", [CALL], "three"]


def _input(messages: Any) -> Any:
    return next(
        (block["toolUse"]["input"] for each in messages for block in each["content"] if "toolUse" in block),
        {"query": {"words": [0, 1]}},
    )


SPOILS: dict[str, Callable[[Any], Any]] = {
    "append": lambda messages: messages.append({"role": "user", "content": [{"text": "x"}]}),
    "insert": lambda messages: messages.insert(0, messages[-1]),
    "delete": lambda messages: messages.pop(0),
    "replace": lambda messages: messages.__setitem__(0, {"role": "user", "content": [{"text": "x"}]}),
    "clear": lambda messages: messages.clear(),
    "role": lambda messages: messages[0].update(role="assistant"),
    "more keys": lambda messages: messages[0].update(more=1),
    "no content": lambda messages: messages[-1].pop("content"),
    "other content": lambda messages: messages[0].update(content=[{"text": "x"}]),
    "a block more": lambda messages: messages[-1]["content"].append({"cachePoint": {"type": "default"}}),
    "no block": lambda messages: messages[0]["content"].clear(),
    "a text": lambda messages: messages[0]["content"][0].update(text="x"),
    "deep": lambda messages: _input(messages)["query"]["words"].append("x"),
    "one is true": lambda messages: _input(messages)["query"]["words"].__setitem__(1, True),
    "every message": lambda messages: [each["content"].append({"text": "x"}) for each in messages],
}


class Spoiling(ScriptedModel):
    """Notes what it is sent, and then changes it."""

    def __init__(self, spoil: Callable[[Any], Any]) -> None:
        super().__init__(TURNS)
        self.spoil = spoil
        self.seen: list[Any] = []

    def stream(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        self.seen.append(copy.deepcopy(messages))
        self.spoil(messages)
        return super().stream(messages, *args, **kwargs)


def exactly(value: Any) -> str:
    return repr(value)  # in which 1 is not True


def bare(messages: Any) -> list[Any]:
    return [{key: message[key] for key in ("role", "content")} for message in messages]


def as_it_was() -> tuple[list[Any], list[Any]]:
    """What a model is sent that leaves it as it is, and what is stored then."""
    agent = Agent(Spoiling(lambda messages: None), tools=[look], callback_handler=None)
    for prompt in "abc":
        agent(prompt)
    return agent.model.seen, bare(agent.messages)  # type: ignore[attr-defined]


def hears(event: Any) -> None:
    assert event.agent.messages is not None


@pytest.mark.parametrize("in_hand", [False, True], ids=["alone", "a hook looks"])
@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS)
def test_what_a_model_changes_is_its_own_affair(
    door: Door, spoil: Callable[[Any], Any], in_hand: bool
) -> None:
    model = Spoiling(spoil)
    agent = Agent(model, tools=[look], callback_handler=None)
    if in_hand:
        agent.add_hook(hears, BeforeModelCallEvent)
        agent.add_hook(hears, AfterInvocationEvent)
    for prompt in "abc":
        door(agent, prompt)
    seen, stored = as_it_was()
    for earlier, later in pairwise(model.seen):
        assert exactly(later[: len(earlier)]) == exactly(earlier)
    assert [len(each) for each in model.seen] == [len(each) for each in seen]
    assert exactly(strip_ids(model.seen[-1])) == exactly(strip_ids(seen[-1]))
    assert exactly(strip_ids(bare(agent.messages))) == exactly(strip_ids(stored))


def test_what_a_layer_gives_a_model_it_may_change_from_call_to_call(door: Door) -> None:
    mine: Any = [{"role": "user", "content": [{"text": "mine"}]}]

    def wrap(context: InvokeModelContext, next: Any) -> Any:
        mine[0]["content"].append({"text": str(len(mine[0]["content"]))})
        return (yield from next(context.replace(messages=mine)))

    model = Spoiling(SPOILS["every message"])
    agent = Agent(model, tools=[look], callback_handler=None)
    agent.add_middleware(InvokeModelStage, wrap)
    door(agent, "a")
    texts = [[block["text"] for block in each["content"]] for (each,) in model.seen]
    assert texts == [["mine", "1"], ["mine", "1", "2"]]


def strip_ids(messages: Any) -> Any:
    """Without the ids of calls, which no two conversations share."""
    told = copy.deepcopy(messages)
    for message in told:
        for block in message["content"]:
            for use in block.values():
                if isinstance(use, dict):
                    use.pop("toolUseId", None)
    return told


def test_what_a_model_keeps_and_changes_later_is_its_own_affair_too(door: Door) -> None:
    kept: list[Any] = []
    model = Spoiling(kept.append)
    agent = Agent(model, tools=[look], callback_handler=None)
    door(agent, "a")
    for messages in kept:
        for message in messages:
            message["content"].append({"text": "x"})
    door(agent, "b")
    assert exactly(model.seen[-2][:4]) == exactly(bare(agent.messages[:4]))


def test_what_a_model_is_sent_can_be_stored() -> None:
    """A model that remembers conversations by itself, and one that asks another agent."""
    store, other = InMemoryStore(), Agent(ScriptedModel(["well"]), callback_handler=None)

    def keep(messages: Any) -> None:
        store.put(("said",), "last", {"messages": messages})
        other(messages[:1])
        other.state.set("seen", messages)

    model = Spoiling(keep)
    model.turns = ["fine"]
    agent = Agent(model, callback_handler=None)
    agent("go")
    said = [{"role": "user", "content": [{"text": "go"}]}]
    kept = store.get(("said",), "last")
    assert kept is not None and kept.value == {"messages": said}
    assert other.messages[:1] == other.state.get("seen") == said


def test_a_message_is_copied_once_unless_it_was_changed() -> None:
    messages: Any = [{"role": "user", "content": [{"text": str(number)}]} for number in range(4)]
    sent = Sent()
    first = sent.of(messages[:3])
    second = sent.of(messages)
    assert second is not first and all(map(lambda a, b: a is b, first, second))
    second[1]["content"][0]["text"] = "x"
    third = sent.of(messages)
    assert third == messages
    assert [a is b for a, b in zip(second, third, strict=True)] == [True, False, True, True]
    assert sent.of(messages[2:])[0] is third[2]


# --- What hooks have in their hands -----------------------------------------------------------------------


def in_hands(agent: Agent, change: Callable[[Any], Any], at: int) -> list[Any]:
    """Lets a hook have the messages before every call of the model, and change them before one. Returns what it had."""
    had: list[Any] = []

    def hook(event: BeforeModelCallEvent) -> None:
        had.append(messages := event.agent.messages)
        if len(had) == at:
            change(messages)

    agent.add_hook(hook)
    return had


HOOKED: dict[str, Callable[[Any], Any]] = {
    name: SPOILS[name]
    for name in ("append", "insert", "delete", "a text", "deep", "a block more", "more keys")
} | {"replaced list": lambda messages: messages.__setitem__(slice(None), [messages[-1]])}


@pytest.mark.parametrize("at", [1, 3])
@pytest.mark.parametrize("change", HOOKED.values(), ids=HOOKED)
def test_what_a_hook_changes_is_seen_and_stored(door: Door, change: Callable[[Any], Any], at: int) -> None:
    """Also of messages that it had in an earlier request and only looked at."""
    model, saver = Spoiling(lambda messages: None), InMemorySaver()
    agent = Agent(model, tools=[look], callback_handler=None, session_manager=SessionManager(saver, "s"))
    in_hands(agent, change, at)
    expected: list[Any] = []

    def remember(event: BeforeModelCallEvent) -> None:
        expected.append(copy.deepcopy(event.agent.messages))

    agent.add_hook(remember, order=HookOrder.SDK_LAST)
    for prompt in "ab":
        door(agent, prompt)
    assert [exactly(bare(each)) for each in expected] == [exactly(each) for each in model.seen]
    fresh = Agent(model, callback_handler=None, session_manager=SessionManager(saver, "s"))
    assert fresh.messages == agent.messages
    assert bare(fresh.messages[:-1]) == model.seen[-1]


@pytest.mark.parametrize("change", HOOKED.values(), ids=HOOKED)
def test_what_is_changed_between_requests_in_a_list_of_the_last_one_is_not_meant(
    door: Door, change: Callable[[Any], Any]
) -> None:
    model = Spoiling(lambda messages: None)
    agent = Agent(model, tools=[look], callback_handler=None)
    had = in_hands(agent, change, at=0)
    door(agent, "a")
    stored = copy.deepcopy(agent.messages)
    change(had[-1])
    door(agent, "b")
    assert exactly(model.seen[-2][: len(stored)]) == exactly(bare(stored))
    assert exactly(agent.messages[: len(stored)]) == exactly(stored)


def test_a_hook_that_looks_has_the_same_messages_in_the_next_request(door: Door) -> None:
    """They were copied once, and cost no look at each of them afterwards."""
    agent = Agent(Spoiling(lambda messages: None), tools=[look], callback_handler=None)
    had = in_hands(agent, lambda messages: None, at=0)
    door(agent, "a")
    first = [*had[-1]]
    door(agent, "b")
    assert len(first) == 4 and all(map(is_, first, had[-1]))
    assert had[-1].is_untouched
