"""Conversation managers: by themselves, on anything that has messages, and as hooks of an agent."""

from __future__ import annotations

import asyncio
import copy
import json
import random
import string
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from graphkit import Agent, tool
from graphkit.agent import (
    ConversationManager,
    NullConversationManager,
    SlidingWindowConversationManager,
    SummarizingConversationManager,
)
from graphkit.checkpoint.sqlite import SqliteSaver
from graphkit.hooks import AfterInvocationEvent, AfterModelCallEvent, HookEvent
from graphkit.models import ScriptedModel
from graphkit.session import SessionManager
from graphkit.types.exceptions import ContextWindowOverflowException
from graphkit_prebuilt.content import Message, assistant, tool_result, user
from graphkit_prebuilt.models.scripted import ToolCall, Turn
from tests.agents.conftest import Door, Session, agent_of, names, script

Overflow = ContextWindowOverflowException
OVERFLOW = Overflow("too long")


def calls(*ids: str) -> Message:
    blocks: list[Any] = [{"toolUse": {"toolUseId": each, "name": "tool", "input": {}}} for each in ids]
    return assistant(*blocks)


def results(*ids: str, text: str = "fine") -> Message:
    blocks: list[Any] = [{"toolResult": tool_result(each, "success", text)} for each in ids]
    return user(*blocks)


def conversation(shape: str) -> list[Message]:
    """u: the user says something, a: the assistant does, c: it calls a tool, r: the result of that."""
    said: list[Message] = []
    for number, kind in enumerate(shape):
        made = {
            "u": user(str(number)),
            "a": assistant(str(number)),
            "c": calls(str(number)),
            "r": results(str(number - 1)),
        }
        said.append(made[kind])
    return said


def holding(messages: list[Message]) -> Any:
    return SimpleNamespace(messages=messages)


def kept(manager: ConversationManager, shape: str, e: Exception | None = None) -> list[int]:
    """Which messages of a conversation are left: of how many, after managing it or after an overflow."""
    said = conversation(shape)
    agent = holding(list(said))
    if e is None:
        manager.apply_management(agent)
    else:
        manager.reduce_context(agent, e=e)
    assert manager.removed_message_count == len(said) - len(agent.messages)
    return [said.index(message) for message in agent.messages]


# --- The window -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "shape", "left"),
    [
        (4, "uaua", [0, 1, 2, 3]),
        (3, "uaua", [2, 3]),
        (2, "uaua", [2, 3]),
        (1, "uaua", [0, 1, 2, 3]),  # nothing that a conversation may begin with is left
        (3, "uaucra", [3, 4, 5]),  # no prompt is left: a call with its result is the next best
        (4, "uaucra", [2, 3, 4, 5]),
        (2, "uaucra", [0, 1, 2, 3, 4, 5]),
        (2, "ucrcrcr", [5, 6]),
        (3, "ucrcrcr", [5, 6]),
        (0, "uaua", []),
        (3, "", []),
    ],
)
def test_the_window_keeps_the_end(window: int, shape: str, left: list[int]) -> None:
    assert kept(SlidingWindowConversationManager(window), shape) == left


@pytest.mark.parametrize(
    ("window", "shape", "left"),
    [
        (40, "uauaua", [2, 3, 4, 5]),
        (40, "ucrua", [3, 4]),
        (2, "uauaua", [4, 5]),
        (40, "ucrcr", [3, 4]),
        (0, "uaua", []),
    ],
)
def test_an_overflow_drops_what_is_outside_of_the_window_or_the_first_two(
    window: int, shape: str, left: list[int]
) -> None:
    assert kept(SlidingWindowConversationManager(window), shape, OVERFLOW) == left


@pytest.mark.parametrize("shape", ["u", "ua", "ucr", "uca"])
def test_an_overflow_that_cannot_be_helped_is_raised(shape: str) -> None:
    with pytest.raises(Overflow) as raised:
        kept(SlidingWindowConversationManager(), shape, OVERFLOW)
    assert raised.value is OVERFLOW


@pytest.mark.parametrize(
    "shape", ["uaua" * 5, "ucra" * 5, "uccrcra".replace("cc", "c") * 4, "ucrcrcrcra" * 3]
)
@pytest.mark.parametrize("window", range(1, 12))
def test_no_result_is_left_without_its_call(window: int, shape: str) -> None:
    said = conversation(shape)
    agent = holding(list(said))
    SlidingWindowConversationManager(window).apply_management(agent)
    left = agent.messages
    assert left == said[len(said) - len(left) :]
    assert len(left) <= window or left == said
    assert "toolResult" not in left[0]["content"][0]
    if left[0]["role"] == "assistant":
        assert "toolUse" in left[0]["content"][0]


@pytest.mark.parametrize(
    ("window", "pin", "shape", "left"),
    [
        (4, 1, "uauaua", [0, 4, 5]),
        (4, 2, "uauauaua", [0, 1, 6, 7]),
        (5, 2, "ucruauaua", [0, 1, 2, 7, 8]),  # a call stays with its result
        (2, 5, "uauaua", [0, 1, 2, 3, 4, 5]),
        (0, 1, "uaua", [0]),
    ],
)
def test_the_first_messages_can_be_pinned(window: int, pin: int, shape: str, left: list[int]) -> None:
    manager = SlidingWindowConversationManager(window, pin_first=pin)
    assert kept(manager, shape) == left


def test_pinned_messages_stay_pinned() -> None:
    said = conversation("ua" * 20)
    agent = holding([])
    manager = SlidingWindowConversationManager(4, pin_first=2)
    for turn in range(0, 40, 2):
        agent.messages += said[turn : turn + 2]
        manager.apply_management(agent)
    assert agent.messages == [*said[:2], *said[-2:]]
    assert manager.removed_message_count == 36


LONG = "a" * 300 + "b" * 400 + "c" * 300


def test_an_overflow_shortens_the_oldest_long_results_first() -> None:
    said = [
        user("0"),
        calls("1"),
        results("1", text=LONG),
        calls("2"),
        results("2", text=LONG),
        assistant("!"),
    ]
    agent = holding(copy.deepcopy(said))
    manager = SlidingWindowConversationManager()
    for place in (2, 4):
        manager.reduce_context(agent, e=OVERFLOW)
        text = agent.messages[place]["content"][0]["toolResult"]["content"][0]["text"]
        assert text == "a" * 200 + "\n[… 600 characters left out …]\n" + "c" * 200
        said[place] = results(str(place // 2), text=text)
        assert agent.messages == said
    manager.reduce_context(agent, e=OVERFLOW)
    assert agent.messages == said[3:]


def test_pictures_in_results_become_a_line() -> None:
    picture = {"image": {"format": "png", "source": {"bytes": b"12345"}}}
    said = [user("0"), calls("1"), user({"toolResult": tool_result("1", "success", picture, "short")})]  # type: ignore[arg-type]
    agent = holding(said)
    SlidingWindowConversationManager().reduce_context(agent, e=OVERFLOW)
    shown = agent.messages[2]["content"][0]["toolResult"]["content"]
    assert shown == [{"text": "[image: png, 5 bytes]"}, {"text": "short"}]


def test_results_can_be_left_as_they_are() -> None:
    said = [user("0"), calls("1"), results("1", text=LONG), user("3"), assistant("4")]
    agent = holding(list(said))
    SlidingWindowConversationManager(should_truncate_results=False).reduce_context(agent, e=OVERFLOW)
    assert agent.messages == said[3:]


def test_pinned_results_are_not_shortened() -> None:
    said = [calls("1"), results("1", text=LONG), user("2"), assistant("3"), user("4")]
    agent = holding(list(said))
    SlidingWindowConversationManager(pin_first=1).reduce_context(agent, e=OVERFLOW)
    assert agent.messages == [*said[:2], said[4]]


@pytest.mark.parametrize(
    "options",
    [
        {"window_size": -1},
        {"window_size": 2.5},
        {"window_size": True},
        {"per_turn": 0},
        {"per_turn": -3},
        {"per_turn": "yes"},
        {"pin_first": -1},
    ],
    ids=str,
)
def test_numbers_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        SlidingWindowConversationManager(**options)


# --- None -----------------------------------------------------------------------------------------------


def test_the_null_manager_does_nothing() -> None:
    manager = NullConversationManager()
    assert kept(manager, "ua" * 100) == list(range(200))
    manager.reduce_context(holding([]))
    with pytest.raises(Overflow):
        manager.reduce_context(holding([]), e=OVERFLOW)


# --- The summary ----------------------------------------------------------------------------------------


def summarized(shape: str, *, e: Exception | None = OVERFLOW, **options: Any) -> tuple[Any, ScriptedModel]:
    """What becomes of a conversation, as places of its messages, and the model that has summarized it."""
    said = conversation(shape)
    model = ScriptedModel(["the summary"])
    agent = SimpleNamespace(messages=list(said), model=model)
    SummarizingConversationManager(**options).reduce_context(agent, e=e)
    left = [said.index(message) if message in said else message for message in agent.messages]
    return left, model


SUMMARY = user("the summary")


@pytest.mark.parametrize(
    ("shape", "options", "left"),
    [
        ("ua" * 10, {}, [SUMMARY, *range(6, 20)]),
        ("ua" * 10, {"summary_ratio": 0.5}, [SUMMARY, *range(10, 20)]),
        ("ua" * 10, {"summary_ratio": 0.5, "preserve_recent_messages": 15}, [SUMMARY, *range(5, 20)]),
        ("ua" * 10, {"summary_ratio": 5}, [SUMMARY, *range(10, 20)]),
        ("ua" * 10, {"summary_ratio": 0}, [SUMMARY, *range(2, 20)]),
        ("ua" * 10, {"pin_first": 2}, [0, 1, SUMMARY, *range(6, 20)]),
        ("uaucruauauauauaua", {}, [SUMMARY, *range(5, 17)]),  # not between a call and its result
        ("uuu", {"preserve_recent_messages": 2}, [SUMMARY, 1, 2]),
    ],
)
def test_the_oldest_messages_are_summarized(shape: str, options: Any, left: list[Any]) -> None:
    found, model = summarized(shape, **options)
    assert found == left
    said = conversation(shape)
    first, gone = options.get("pin_first", 0), len(said) + 1 - len(left)
    assert model.requests[0].messages[:-1] == said[first : first + gone]
    assert model.requests[0].messages[-1]["role"] == "user"
    assert model.requests[0].tool_specs is None
    assert "summar" in (model.requests[0].system_prompt or "")


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ("ua" * 5, {}),
        ("u", {"preserve_recent_messages": 0, "pin_first": 1}),
        ("", {}),
        ("ua" * 10, {"pin_first": 6}),
    ],
)
def test_too_little_to_summarize_is_the_overflow(shape: str, options: Any) -> None:
    with pytest.raises(Overflow) as raised:
        summarized(shape, **options)
    assert raised.value is OVERFLOW
    assert summarized(shape, e=None, **options)[0] == list(range(len(shape)))


@pytest.mark.parametrize(
    "turn", [RuntimeError("no network"), "", [ToolCall("x")]], ids=["error", "empty", "a call"]
)
def test_a_summary_that_fails(turn: Any, caplog: pytest.LogCaptureFixture) -> None:
    said = conversation("ua" * 10)
    for e in (OVERFLOW, None):
        agent = SimpleNamespace(messages=list(said), model=ScriptedModel([turn]))
        manager = SummarizingConversationManager()
        if e is None:
            manager.reduce_context(agent)
            assert "could not be summarized" in caplog.text
        else:
            with pytest.raises(RuntimeError):
                manager.reduce_context(agent, e=e)
        assert agent.messages == said
        assert manager.removed_message_count == 0


def test_a_summary_in_a_summary_is_not_counted_again() -> None:
    agent = SimpleNamespace(messages=conversation("ua" * 10), model=ScriptedModel(["one", "two"]))
    manager = SummarizingConversationManager()
    manager.reduce_context(agent, e=OVERFLOW)
    assert manager.removed_message_count == 6
    manager.reduce_context(agent, e=OVERFLOW)  # 15 messages, of which 4 go: the summary and three others
    assert manager.removed_message_count == 9
    assert agent.messages[0] == user("two")


def test_its_own_prompt_or_agent() -> None:
    agent = SimpleNamespace(messages=conversation("ua" * 10), model=ScriptedModel(["x"]))
    SummarizingConversationManager(summarization_system_prompt="Be brief.").reduce_context(agent, e=OVERFLOW)
    assert agent.model.requests[0].system_prompt == "Be brief."
    with pytest.raises(ValueError, match="both given"):
        SummarizingConversationManager(summarization_agent=object(), summarization_system_prompt="x")


def test_a_summarizing_agent_has_a_conversation_of_its_own() -> None:
    writer = agent_of("the summary", "hi", system_prompt="I summarize")
    agent = SimpleNamespace(messages=conversation("ua" * 10), model=ScriptedModel([]))
    SummarizingConversationManager(summarization_agent=writer).reduce_context(agent, e=OVERFLOW)
    assert agent.messages[0] == SUMMARY
    assert script(writer).requests[0].system_prompt == "I summarize"
    assert writer.messages == []
    writer("hello")
    assert len(writer.messages) == 2


# --- In an agent ----------------------------------------------------------------------------------------


@tool
def look(query: str) -> str:
    """Look something up."""
    return f"found {query}"


def test_the_window_slides_while_an_agent_talks(door: Door, session: Session) -> None:
    manager = SlidingWindowConversationManager(4)
    agent = session.agent(*(f"answer {n}" for n in range(10)), conversation_manager=manager)
    for number in range(10):
        agent = session.agent()
        door(agent, f"prompt {number}")
    assert [message["content"] for message in session.agent().messages] == [
        [{"text": text}] for text in ("prompt 8", "answer 8", "prompt 9", "answer 9")
    ]
    assert len(session.model.requests[-1].messages) == 5
    assert manager.removed_message_count == 16


def test_an_overflow_reduces_and_calls_again(door: Door, session: Session) -> None:
    agent = session.agent(
        "one", "two", OVERFLOW, "three", conversation_manager=SlidingWindowConversationManager()
    )
    for prompt in ("1", "2", "3"):
        agent = session.agent()
        result = door(agent, prompt)
    assert str(result) == "three\n"
    said = [message["content"][0]["text"] for message in session.agent().messages]
    assert said == ["2", "two", "3", "three"]
    assert [len(request.messages) for request in session.model.requests] == [1, 3, 5, 3]


def test_several_overflows_reduce_more_and_more(door: Door) -> None:
    agent = agent_of("one", "two", "three", OVERFLOW, OVERFLOW, "four")
    for prompt in ("1", "2", "3", "4"):
        door(agent, prompt)
    assert [len(request.messages) for request in script(agent).requests[3:]] == [7, 5, 3]


def test_an_overflow_that_cannot_be_helped_is_the_models_error(door: Door) -> None:
    for manager in (
        SlidingWindowConversationManager(),
        NullConversationManager(),
        SummarizingConversationManager(),
    ):
        agent = agent_of(Overflow("too long"), "fine", conversation_manager=manager)
        with pytest.raises(Overflow, match="too long") as raised:
            door(agent, "1")
        assert raised.value.__cause__ is None
        assert str(door(agent)) == "fine\n"


def test_a_long_result_is_shortened_for_the_model(door: Door, session: Session) -> None:
    @tool
    def read() -> str:
        """Read a book."""
        return LONG

    agent = session.agent([ToolCall("read")], OVERFLOW, "read it", tools=[read])
    door(agent, "read")
    seen = session.model.requests[-1].messages[2]["content"][0]["toolResult"]["content"]
    assert "600 characters left out" in seen[0]["text"]
    assert session.agent().messages[2]["content"][0]["toolResult"]["content"] == seen


def test_a_summary_takes_the_place_of_the_oldest_messages(door: Door, session: Session) -> None:
    manager = SummarizingConversationManager(0.5, 2)
    agent = session.agent("one", "two", OVERFLOW, "the summary", "three", conversation_manager=manager)
    for prompt in ("1", "2", "3"):
        agent = session.agent()
        door(agent, prompt)
    assert session.agent().messages[0] == SUMMARY
    said = [message["content"][0]["text"] for message in session.agent().messages]
    assert said == ["the summary", "2", "two", "3", "three"]
    assert [len(request.messages) for request in session.model.requests] == [1, 3, 5, 3, 4]


def test_a_summary_that_fails_is_the_error(door: Door) -> None:
    manager = SummarizingConversationManager(0.5, 1)
    agent = agent_of("one", OVERFLOW, RuntimeError("no network"), "two", conversation_manager=manager)
    door(agent, "1")
    with pytest.raises(RuntimeError, match="no network"):
        door(agent, "2")
    assert str(door(agent)) == "two\n"


class Halving(ConversationManager):
    """A manager of the user's own, which changes the list in place and remembers how often."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit
        self.times = 0

    def apply_management(self, agent: Any, **kwargs: Any) -> None:
        while len(agent.messages) > self.limit:
            self.reduce_context(agent)

    def reduce_context(self, agent: Any, e: Exception | None = None, **kwargs: Any) -> None:
        self.times += 1
        for _ in range(2):
            agent.messages.pop(0)
            self.removed_message_count += 1

    def get_state(self) -> dict[str, Any]:
        return {**super().get_state(), "times": self.times}

    def restore_from_session(self, state: dict[str, Any]) -> None:
        super().restore_from_session(state)
        self.times = state["times"]


def test_a_manager_of_the_users_own(door: Door, session: Session) -> None:
    session.agent("one", "two", OVERFLOW, "three")
    for prompt in ("1", "2", "3"):
        manager = Halving(2)
        agent = session.agent(conversation_manager=manager)
        door(agent, prompt)
    said = [message["content"][0]["text"] for message in session.agent().messages]
    assert said == ["3", "three"]
    assert [len(request.messages) for request in session.model.requests] == [1, 3, 3, 1]
    # What it remembers is kept with the conversation, for another object that goes on with it.
    assert manager.get_state() == {"__name__": "Halving", "removed_message_count": 4, "times": 2}


def test_a_manager_turns_from_one_conversation_to_another() -> None:
    manager = Halving(2)
    agent = agent_of(*["fine"] * 8, conversation_manager=manager)
    counts = []
    for thread in ("a", "a", "b", "a", "b"):
        agent("hi", thread_id=thread)
        counts.append(manager.removed_message_count)
    assert counts == [0, 2, 0, 4, 2]


def test_another_manager_begins_anew(session: Session) -> None:
    session.agent("one", "two", conversation_manager=Halving(0))("1")
    agent = session.agent(conversation_manager=SlidingWindowConversationManager(0))
    agent("2")
    assert agent.messages == []
    assert agent.conversation_manager.removed_message_count == 2


@pytest.mark.parametrize(
    ("given", "at"), [(True, 70), ({"compression_threshold": 0.5}, 50), ({}, 70)], ids=str
)
@pytest.mark.parametrize("limit", [100, None])
def test_a_conversation_is_made_smaller_before_it_is_too_large(
    door: Door, given: Any, at: int, limit: int | None
) -> None:
    """At a share of what its model can read, by what the last call took."""

    def said(tokens: int) -> Turn:
        many = tokens if limit else tokens * 2000
        return Turn(text="fine", usage={"inputTokens": many - 5, "outputTokens": 5, "totalTokens": many})

    model = ScriptedModel([said(at - 6), said(at), said(9), said(9)])
    if limit is not None:
        model.update_config(context_window_limit=limit)
    manager = SlidingWindowConversationManager(proactive_compression=given)
    agent = agent_of(model=model, conversation_manager=manager)
    for prompt in "1234":
        door(agent, prompt)
    assert [len(request.messages) for request in model.requests] == [1, 3, 3, 5]
    assert manager.removed_message_count == 2


def test_a_conversation_is_summarized_before_it_is_too_large(door: Door) -> None:
    usage: Any = {"inputTokens": 90, "outputTokens": 5, "totalTokens": 95}
    model = ScriptedModel(["one", Turn(text="two", usage=usage), "the summary", "three"])
    model.update_config(context_window_limit=100)
    manager = SummarizingConversationManager(0.5, preserve_recent_messages=2, proactive_compression=True)
    agent = agent_of(model=model, conversation_manager=manager)
    for prompt in "123":
        door(agent, prompt)
    assert "the summary" in model.requests[3].messages[0]["content"][0]["text"]


def test_no_event_loop_waits_for_a_summary(door: Door) -> None:
    """Neither in advance nor after an overflow: it takes as long as a call of a model."""

    class Watched(SummarizingConversationManager):
        def reduce_context(self, agent: Any, e: Exception | None = None, **kwargs: Any) -> None:
            with pytest.raises(RuntimeError, match="no running event loop"):
                asyncio.get_running_loop()
            reduced.append(e)
            super().reduce_context(agent, e=e, **kwargs)

    reduced: list[Exception | None] = []
    model = ScriptedModel([OVERFLOW, "a summary", "one", "a summary", "two"])
    said = [user("long " * 20), assistant("answer")] * 3
    manager = Watched(preserve_recent_messages=1)
    agent = agent_of(model=model, conversation_manager=manager, messages=said)
    assert str(door(agent, "1")) == "one\n"
    manager = Watched(preserve_recent_messages=1, proactive_compression={"compression_threshold": 0.0001})
    agent = agent_of(model=model, conversation_manager=manager, messages=said)
    assert str(door(agent, "2")) == "two\n"
    assert reduced == [OVERFLOW, None]


def test_what_cannot_be_made_smaller_in_advance_is_sent(door: Door) -> None:
    class Failing(SlidingWindowConversationManager):
        def reduce_context(self, agent: Any, e: Exception | None = None, **kwargs: Any) -> None:
            tried.append(e)
            raise OSError("no")

    tried: list[Any] = []
    agent = agent_of(
        "one", conversation_manager=Failing(proactive_compression={"compression_threshold": 0.0001})
    )
    script(agent).update_config(context_window_limit=10)
    assert str(door(agent, "a long prompt")) == "one\n" and tried == [None]


@pytest.mark.parametrize("threshold", [0, -1, 1.5, "x"])
def test_a_share_that_is_none_is_refused(threshold: Any) -> None:
    with pytest.raises(ValueError, match="compression_threshold"):
        SlidingWindowConversationManager(proactive_compression={"compression_threshold": threshold})


def test_managers_change_no_message_of_a_conversation_they_did_not_touch(door: Door) -> None:
    agent = agent_of([ToolCall("look", {"query": "x"}, "t")], "fine", tools=[look])
    door(agent, "go")
    shape = [(message["role"], [*message["content"][0]]) for message in agent.messages]
    assert shape == [
        ("user", ["text"]),
        ("assistant", ["toolUse"]),
        ("user", ["toolResult"]),
        ("assistant", ["text"]),
    ]


@pytest.mark.parametrize(
    ("per_turn", "lengths"), [(False, [1, 3, 5, 7]), (True, [1, 2, 2, 2]), (2, [1, 2, 4, 2])]
)
def test_the_window_can_slide_within_a_turn(door: Door, per_turn: Any, lengths: list[int]) -> None:
    turns = [[ToolCall("look", {"query": str(number)})] for number in range(3)]
    manager = SlidingWindowConversationManager(2, per_turn=per_turn)
    agent = agent_of(*turns, "done", tools=[look], conversation_manager=manager)
    door(agent, "go")
    assert [len(request.messages) for request in script(agent).requests] == lengths
    assert all("toolResult" not in request.messages[0]["content"][0] for request in script(agent).requests)


def test_they_come_where_strands_has_them(door: Door) -> None:
    """Reducing comes after the callbacks of `AfterModelCallEvent`, managing before those of `AfterInvocationEvent`."""
    seen: list[Any] = []
    agent = agent_of("one", OVERFLOW, "two", conversation_manager=SlidingWindowConversationManager(2))
    agent.add_hook(
        lambda event: seen.append((type(event).__name__, len(event.agent.messages))),
        [AfterModelCallEvent, AfterInvocationEvent],
    )
    door(agent, "1")
    seen.clear()
    door(agent, "2")
    assert seen == [("AfterModelCallEvent", 3), ("AfterModelCallEvent", 1), ("AfterInvocationEvent", 2)]


def test_the_events_of_an_overflow(door: Door) -> None:
    agent = agent_of("one", OVERFLOW, "two")
    heard: list[Any] = []
    door(agent, "1")
    agent.add_hook(heard.append, HookEvent)
    door(agent, "2")
    kinds = [name for name in names(heard) if name in ("BeforeModelCall", "AfterModelCall", "MessageAdded")]
    assert kinds == ["MessageAdded", *["BeforeModelCall", "AfterModelCall"] * 2, "MessageAdded"]
    tried = [event for event in heard if isinstance(event, AfterModelCallEvent)]
    assert [(event.exception, event.retry) for event in tried] == [(OVERFLOW, True), (None, False)]


# --- What it costs --------------------------------------------------------------------------------------

CHANCE = random.Random(14)


def letters(count: int) -> str:
    return "".join(CHANCE.choices(string.ascii_letters, k=count))


MANAGERS: dict[str, Callable[[], ConversationManager]] = {
    "sliding": lambda: SlidingWindowConversationManager(10),
    "sliding, pinned": lambda: SlidingWindowConversationManager(10, pin_first=2),
    "sliding, per turn": lambda: SlidingWindowConversationManager(10, per_turn=True),
    "the user's own": lambda: Halving(10),
}


@pytest.mark.parametrize("kind", MANAGERS)
def test_a_window_over_many_turns_costs_what_is_said(tmp_path: Path, kind: str) -> None:
    def stored(turns: int) -> int:
        with SqliteSaver(tmp_path / f"{turns}.sqlite", synchronous="NORMAL") as saver:
            agent = Agent(
                model=ScriptedModel([letters(200) for _ in range(turns)]),
                callback_handler=None,
                conversation_manager=MANAGERS[kind](),
                session_manager=SessionManager(saver, "s"),
            )
            for _ in range(turns):
                agent(letters(200))
            assert len(agent.messages) <= 10
            said = agent.graph.get_state(agent.thread().config).values["messages"]
            size: int = saver.usage("s").bytes
            assert size <= 2.2 * len(
                json.dumps(said)
            )  # a window that was stored again would be ten messages a turn
            return size

    assert stored(100) <= 2.1 * stored(50)


def test_an_idle_manager_enters_no_node_and_stores_nothing() -> None:
    agent = agent_of([ToolCall("look", {"query": "x"})], "fine", tools=[look])
    agent("go")
    history = list(agent.graph.get_state_history(agent.thread().config))
    assert [snapshot.next for snapshot in reversed(history)] == [
        ("__start__",),
        ("model",),
        ("tools",),
        ("model",),
        (),
    ]
    assert "plugins" not in history[0].values or history[0].values["plugins"] == {}
    assert json.dumps(history[0].values["messages"]) == json.dumps(agent.messages)


def test_an_agent_may_summarize_itself(door: Door) -> None:
    """In a conversation of its own, whose overflows would be managed too."""
    manager = SummarizingConversationManager(0.5, 1)
    turns = ["one", "two", OVERFLOW, "the summary", "three"]
    agent = agent_of(*turns, conversation_manager=manager)
    manager.summarization_agent = agent
    for prompt in ("1", "2", "3"):
        result = door(agent, prompt)
    assert str(result) == "three\n"
    assert agent.messages[0] == SUMMARY
