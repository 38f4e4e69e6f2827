"""The conversation: what a log makes of what is written to it, and how later changes of it are kept."""

from __future__ import annotations

import copy
import json
import math
import random
import string
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from graphkit import END, START, StateGraph
from graphkit.channels import MISSING
from graphkit.checkpoint.sqlite import SqliteSaver
from graphkit.errors import InvalidUpdateError
from graphkit.types import Command, Overwrite, RunnableConfig, Send, interrupt
from graphkit_prebuilt.content import Message, assistant, tool_result, user
from graphkit_prebuilt.conversation import at_rest, copied, dangling, edit, length, view
from graphkit_prebuilt.log import DELETED, UNFINISHED, Keyed, Log, answered, unfinished
from graphkit_prebuilt.messages import Messages
from tests.conftest import Graph, Reopen, Runner, Saver

Write = dict[str, Any]


def calls(*ids: str) -> Message:
    blocks: list[Any] = [{"toolUse": {"toolUseId": each, "name": "tool", "input": {}}} for each in ids]
    return assistant(*blocks)


def result(call: str, text: str = "fine") -> Write:
    return {"toolResult": tool_result(call, "success", text)}


def missing(call: str) -> Write:
    return {"toolResult": tool_result(call, "error", UNFINISHED)}


def results(*blocks: Any) -> Message:
    return {"role": "user", "content": list(blocks)}


HELLO, BYE = user("hello"), user("bye")


def log_of(*supersteps: list[Any]) -> Log:
    log = Log()
    for writes in supersteps:
        log.update(writes)
    return log


# --- The log --------------------------------------------------------------------------------------------


def test_messages_are_appended() -> None:
    log = log_of([[HELLO]], [[assistant("hi")], [BYE]])
    assert log.get() == [HELLO, assistant("hi"), BYE]
    assert log.extension == 2


def test_an_empty_log_is_there_and_is_not_stored() -> None:
    assert Log().is_available()
    assert Log().get() == []
    assert Log().checkpoint() is MISSING
    assert not log_of([[]]).update([[]])


def test_what_was_stored_is_not_changed_by_what_is_said_later() -> None:
    stored = log_of([[HELLO]]).checkpoint()
    Log().from_checkpoint(stored).update([[BYE]])
    assert stored == [HELLO]


def test_the_results_of_a_superstep_become_one_message() -> None:
    log = log_of([[HELLO]], [[calls("a", "b")]], [result("a"), result("b")])
    assert log.get()[2:] == [results(result("a"), result("b"))]
    assert log.extension == 1


def test_results_stand_in_the_order_of_their_calls() -> None:
    log = log_of([[calls("a", "b", "c")]], [result("c"), result("a"), result("b")])
    assert log.get()[1:] == [results(result("a"), result("b"), result("c"))]


def test_a_result_may_have_another_id_than_its_call() -> None:
    changed = tool_result("new", "success", "fine")
    log = log_of([[calls("a", "b", "c")]], [result("c"), answered("b", changed)], [[HELLO]])
    assert log.get()[1:] == [results(missing("a"), {"toolResult": changed}, result("c")), HELLO]


def test_an_answer_with_the_id_of_its_call_says_nothing_more() -> None:
    assert answered("a", result("a")["toolResult"]) == result("a")


@pytest.mark.parametrize("done", [[], ["b"], ["c", "a"]], ids=str)
def test_calls_without_results_get_some_when_the_conversation_goes_on(done: list[str]) -> None:
    log = log_of([[calls("a", "b", "c")]], [*map(result, done), [HELLO]])
    blocks = [result(call) if call in done else missing(call) for call in "abc"]
    assert log.get()[1:] == [results(*blocks), HELLO]
    assert log.extension == 2


def test_nothing_said_ends_a_batch_too() -> None:
    log = log_of([[calls("a", "b")]], [result("a"), []])
    assert log.get()[1:] == [results(result("a"), missing("b"))]


def test_some_results_alone_leave_the_others_open() -> None:
    """A look at an unfinished superstep must not show errors for what is still going on."""
    log = log_of([[calls("a", "b")]], [result("b")])
    assert log.get()[1:] == [results(result("b"))]
    assert unfinished(log.get()) is not None
    log.update([result("a")])
    assert log.get()[1:] == [results(result("a"), result("b"))]
    assert log.extension is None


def test_some_results_are_completed_when_the_conversation_goes_on() -> None:
    log = log_of([[calls("a", "b")]], [result("b")], [[HELLO]])
    assert log.get()[1:] == [results(missing("a"), result("b")), HELLO]


def test_results_that_are_said_count() -> None:
    said = results(result("b"), {"text": "and now?"})
    log = log_of([[calls("a", "b")]], [[said, BYE]])
    assert log.get()[1:] == [results(missing("a"), result("b"), {"text": "and now?"}), BYE]
    assert log.extension is None  # what was written is not what was appended
    assert said == results(result("b"), {"text": "and now?"})


def test_results_that_are_said_as_they_should_be_are_only_appended() -> None:
    log = log_of([[calls("a")]], [[results(result("a"))]])
    assert log.get()[1:] == [results(result("a"))]
    assert log.extension == 1


def test_calls_within_what_is_said_get_results() -> None:
    log = log_of([[HELLO, calls("a"), BYE, calls("b")]])
    assert log.get() == [HELLO, calls("a"), results(missing("a")), BYE, calls("b")]


def test_a_result_that_nothing_waits_for_is_refused() -> None:
    with pytest.raises(InvalidUpdateError, match=r"'messages'.*'z', which nothing waits for"):
        log_of([[calls("a")]], [result("z")])
    with pytest.raises(InvalidUpdateError, match="'a', which nothing waits for"):
        log_of([[HELLO]], [result("a")])


@pytest.mark.parametrize(
    "write",
    ["text", 5, HELLO, {"text": "x"}, ["text"], [{"role": "user"}], [{"role": "user", "content": "x"}]],
    ids=str,
)
def test_what_is_no_message_is_refused(write: Any) -> None:
    log = log_of([[HELLO]])
    with pytest.raises(InvalidUpdateError, match="'messages'"):
        log.update([write])
    assert log.get() == [HELLO]


def test_everything_can_be_overwritten() -> None:
    log = log_of([[HELLO, BYE]], [Overwrite([BYE])])
    assert log.get() == [BYE]
    assert log.extension is None


# --- Keys -----------------------------------------------------------------------------------------------


def keyed(*supersteps: list[Any]) -> Keyed:
    channel = Keyed(dict, "state")
    for writes in supersteps:
        channel.update(writes)
    return channel


def test_keys_are_set_and_the_last_write_stays() -> None:
    channel = keyed([{"a": 1, "b": 2}], [{"a": 3}, {"a": 4}])
    assert channel.get() == {"a": 4, "b": 2}
    assert channel.extension == ("a",)


def test_keys_are_taken_away() -> None:
    channel = keyed([{"a": 1, "b": 2}], [{"a": DELETED}])
    assert channel.get() == {"b": 2}
    assert channel.extension is None
    assert not channel.update([{"a": DELETED}])
    channel.update([{"b": DELETED}])
    assert channel.checkpoint() is MISSING


def test_a_key_may_be_taken_away_and_set_again() -> None:
    channel = keyed([{"a": 1, "b": 2}], [{"a": DELETED}, {"a": 3}])
    assert list(channel.get().items()) == [("b", 2), ("a", 3)]
    assert channel.extension is None


def test_all_keys_can_be_overwritten() -> None:
    assert keyed([{"a": 1}], [{"b": 1}, Overwrite({"c": 2}), {"d": 3}]).get() == {"c": 2, "d": 3}


def test_only_dicts_are_taken() -> None:
    with pytest.raises(InvalidUpdateError, match="'state'"):
        keyed([[1]])


# --- Looking at it --------------------------------------------------------------------------------------


class Channels:
    """The two channels of a conversation, written to as the engine does."""

    def __init__(self, *said: Message) -> None:
        self.channels: dict[str, Any] = {"messages": Log(), "edits": Keyed(dict, "edits")}
        if said:
            self.write({"messages": list(said)})

    def write(self, *writes: Mapping[str, Any]) -> None:
        for name, channel in self.channels.items():
            channel.update([write[name] for write in writes if name in write])
            stored = json.loads(json.dumps(channel.checkpoint())) if channel.get() else MISSING
            self.channels[name] = channel.from_checkpoint(stored)

    @property
    def values(self) -> dict[str, Any]:
        return {name: channel.get() for name, channel in self.channels.items()}

    @property
    def seen(self) -> list[Message]:
        return view(self.values)


def test_a_conversation_without_changes_is_its_log() -> None:
    said = Channels(HELLO, BYE)
    assert said.seen == [HELLO, BYE]
    assert said.seen is not said.values["messages"]
    assert length(said.values) == 2
    assert view({}) == []
    assert length({}) == 0


def test_messages_and_blocks_can_be_changed() -> None:
    said = Channels(user("one", "two"), HELLO)
    said.write({"edits": {"0.1": {"text": "2"}, "1": BYE}})
    assert said.seen == [user("one", "2"), BYE]
    assert said.values["messages"] == [user("one", "two"), HELLO]


def test_the_head_stands_for_the_first_messages() -> None:
    said = Channels(*(user(str(number)) for number in range(6)))
    said.write({"edits": {"head": {"parts": [[0, 1], user("summary"), [2, 4]], "first": 5}, "3": BYE}})
    assert said.seen == [user("0"), user("summary"), user("2"), BYE, user("5")]
    assert length(said.values) == 5


@pytest.mark.parametrize(
    ("before", "after", "write"),
    [
        (user("a", "b"), user("a", "c"), {"7.1": {"text": "c"}}),
        (user("a", "b"), user("a"), {"7": user("a")}),
        (user("a"), assistant("a"), {"7": assistant("a")}),
        (user("a"), {**user("a"), "metadata": {}}, {"7": {**user("a"), "metadata": {}}}),
        (user("a"), user("a"), {}),
    ],
)
def test_a_change_costs_the_blocks_that_were_changed(before: Message, after: Message, write: Write) -> None:
    assert edit(7, before, after) == write


def test_a_changed_message_takes_the_place_of_its_changed_blocks() -> None:
    write = edit(7, user("a", "b"), user("c"), {"7.0": {"text": "a"}, "7.1": {"text": "b"}, "77.0": {}})
    assert write == {"7.0": DELETED, "7.1": DELETED, "7": user("c")}


def test_dangling() -> None:
    assert dangling(calls("a"))
    assert not dangling(assistant("a"))
    assert not dangling(user("a"))


@pytest.mark.parametrize(
    ("messages", "rest"),
    [
        ([], 0),
        ([HELLO], 1),
        ([HELLO, assistant("hi")], 2),
        ([HELLO, calls("a")], 1),
        ([HELLO, calls("a"), results(result("a"))], 3),
        ([HELLO, calls("a", "b"), results(result("a"))], 1),
        ([calls("a")], 0),
    ],
)
def test_an_unfinished_turn_is_not_shown_at_rest(messages: list[Message], rest: int) -> None:
    assert list(at_rest(messages)) == messages[:rest]


# --- Changing it ----------------------------------------------------------------------------------------


def test_looking_changes_nothing() -> None:
    said = Channels(HELLO, BYE)
    messages = Messages(said.values)
    assert messages == [HELLO, BYE]
    assert not messages.edited
    assert messages.writes() == {}


def test_it_holds_copies() -> None:
    said = Channels(HELLO)
    Messages(said.values)[0]["content"].append({"text": "more"})
    assert said.seen == [HELLO]


CHANGES: dict[str, tuple[Callable[[list[Any]], Any], Write]] = {
    "append": (lambda messages: messages.append(HELLO), {"messages": [HELLO]}),
    "drop the first": (lambda messages: messages.pop(0), {"edits": {"head": {"parts": [], "first": 1}}}),
    "drop the last": (lambda messages: messages.pop(), {"edits": {"head": {"parts": [[0, 3]], "first": 4}}}),
    "drop one": (
        lambda messages: messages.pop(1),
        {"edits": {"head": {"parts": [[0, 1]], "first": 2}}},
    ),
    "summary": (
        lambda messages: messages.__setitem__(slice(0, 3), [HELLO]),
        {"edits": {"head": {"parts": [HELLO], "first": 3}}},
    ),
    "clear": (lambda messages: messages.clear(), {"edits": {"head": {"parts": [], "first": 4}}}),
    "others": (
        lambda messages: messages.__setitem__(slice(None), [HELLO]),
        {"messages": [HELLO], "edits": {"head": {"parts": [], "first": 4}}},
    ),
    "in place": (
        lambda messages: messages[2]["content"][0].update(text="changed"),
        {"edits": {"2.0": {"text": "changed"}}},
    ),
    "in place and dropped": (
        lambda messages: (messages[2]["content"].append({"text": "more"}), messages.pop(0)),
        {"edits": {"head": {"parts": [], "first": 1}, "2": user("2", "more")}},
    ),
    "reverse": (
        lambda messages: messages.reverse(),
        {"edits": {"head": {"parts": [[3, 4], [2, 3], [1, 2]], "first": 0}}},
    ),
    "the same, made anew": (
        lambda messages: messages.__setitem__(slice(None), json.loads(json.dumps(messages[1:]))),
        {"edits": {"head": {"parts": [], "first": 1}}},
    ),
    "twice": (
        lambda messages: messages.insert(0, messages[3]),
        {"edits": {"head": {"parts": [[3, 4], [0, 3], user("3")], "first": 4}}},
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_are_written(change: str) -> None:
    said = Channels(*(user(str(number)) for number in range(4)))
    messages = Messages(said.values)
    do, _ = CHANGES[change]
    do(messages)
    wanted = copy.deepcopy(list(messages))
    assert messages.edited
    said.write(messages.writes())
    assert said.seen == wanted
    assert not messages.edited
    messages.follow(said.values)
    assert messages == wanted
    assert messages.writes() == {}


@pytest.mark.parametrize("change", [name for name in CHANGES if name not in ("reverse", "twice")])
def test_changes_cost_what_was_changed(change: str) -> None:
    messages = Messages(Channels(*(user(str(number)) for number in range(4))).values)
    do, writes = CHANGES[change]
    do(messages)
    assert messages.writes() == writes


def test_what_was_changed_and_changed_back_is_not_written() -> None:
    messages = Messages(Channels(HELLO, BYE).values)
    messages.append(messages.pop(0))
    messages.insert(0, messages.pop())
    assert messages.writes() == {}


@pytest.mark.parametrize(
    "garbage", ["text", None, {"role": "user"}, {"role": "user", "content": "x"}], ids=str
)
def test_what_is_no_message_is_not_written(garbage: Any) -> None:
    messages = Messages(Channels(HELLO).values)
    messages.append(garbage)
    with pytest.raises(InvalidUpdateError, match=r"agent\.messages"):
        messages.writes()
    assert messages.edited


def test_it_shows_what_is_said_next() -> None:
    said = Channels(HELLO)
    messages = Messages(said.values)
    first = messages[0]
    said.write({"messages": [BYE]})
    messages.follow(said.values)
    assert messages == [HELLO, BYE]
    assert messages[0] is first
    assert not messages.edited


def test_changes_that_were_not_written_stay() -> None:
    said = Channels(HELLO, BYE)
    messages = Messages(said.values)
    messages.pop(0)
    messages[0]["content"][0]["text"] = "changed"
    said.write({"messages": [assistant("hi")]})
    messages.follow(said.values)
    assert messages == [user("changed"), assistant("hi")]
    said.write(messages.writes())
    assert said.seen == [user("changed"), assistant("hi")]


def test_a_message_is_changed_again_and_again() -> None:
    said = Channels(user("a", "b"), HELLO)
    messages = Messages(said.values)
    for text in ("1", "2"):
        messages[0]["content"][1] = {"text": text}
        said.write(messages.writes())
        messages.follow(said.values)
    assert said.seen == [user("a", "2"), HELLO]
    del messages[0]["content"][0]
    said.write(messages.writes())
    assert said.seen == [user("2"), HELLO]
    assert "0.1" not in said.values["edits"]


def test_changes_while_calls_wait_come_before_their_results() -> None:
    said = Channels(HELLO, calls("a"))
    messages = Messages(said.values)
    messages.append(BYE)
    messages.pop(0)
    said.write(messages.writes(), {"messages": result("a")})
    assert said.seen == [calls("a"), BYE, results(result("a"))]
    messages.follow(said.values)
    assert messages == said.seen


def test_two_tasks_of_a_superstep_change_it() -> None:
    """Their writes are applied in the order of the tasks; what one has not seen of the other is written next."""
    said = Channels(HELLO, calls("a", "b"))
    messages = Messages(said.values)
    messages.append(user("of b"))
    of_b = messages.writes()
    messages.append(user("of a"))
    of_a = messages.writes()
    said.write({**of_a, "messages": result("a")})
    said = Channels(HELLO, calls("a", "b"))
    said.write({**of_a, "messages": result("a")}, {**of_b, "messages": result("b")})
    messages.follow(said.values)
    wanted = [HELLO, calls("a", "b"), user("of b"), user("of a"), results(result("a"), result("b"))]
    assert messages == wanted
    said.write(messages.writes())
    assert said.seen == wanted


def test_what_others_write_beside_a_change_stays() -> None:
    """A task changes a call while others append: neither undoes the other."""
    said = Channels(HELLO, calls("a", "b"))
    messages = Messages(said.values)
    messages.append(user("of a"))
    of_a = messages.writes()
    messages.append(user("of b"))
    of_b = messages.writes()
    changed: Any = {"toolUse": {"toolUseId": "new", "name": "tool", "input": {"changed": True}}}
    said.write(
        of_b,
        {"edits": {"1.1": changed}},
        of_a,
        {"messages": result("a")},
        {"messages": answered("b", result("new")["toolResult"])},
    )
    messages.follow(said.values)
    wanted = [HELLO, assistant(calls("a")["content"][0], changed), user("of a"), user("of b")]
    wanted.append(results(result("a"), result("new")))
    assert messages == wanted
    said.write(messages.writes())
    assert said.seen == wanted


def test_at_rest_an_unfinished_turn_is_hidden_and_kept() -> None:
    said = Channels(HELLO, calls("a"))
    messages = Messages(said.values, resting=True)
    assert messages == [HELLO]
    assert messages.writes() == {}
    messages[0]["content"][0]["text"] = "changed"
    messages.append(BYE)
    said.write(messages.writes())
    assert said.seen == [user("changed"), BYE, calls("a")]
    said.write({"messages": result("a")})
    messages.follow(said.values)
    assert messages == [user("changed"), BYE, calls("a"), results(result("a"))]


@pytest.mark.parametrize("done", [[], ["b"]], ids=["no result", "some results"])
def test_a_new_turn_after_a_change_leaves_the_unfinished_one(done: list[str]) -> None:
    said = Channels(HELLO, calls("a", "b"))
    messages = Messages(said.values, resting=True)
    messages.insert(0, BYE)
    said.write(
        *({"messages": result(call)} for call in done),
        messages.writes(new_turn=True),
        {"messages": [user("new")]},
    )
    assert said.seen == [BYE, HELLO, user("new")]
    messages.follow(said.values)
    assert messages == said.seen
    messages.pop()
    said.write(messages.writes(new_turn=True))
    assert said.seen == [BYE, HELLO]


def test_a_new_turn_without_a_change_completes_the_unfinished_one() -> None:
    said = Channels(HELLO, calls("a"))
    said.write(Messages(said.values, resting=True).writes(new_turn=True), {"messages": [BYE]})
    assert said.seen == [HELLO, calls("a"), results(missing("a")), BYE]


def test_what_is_appended_to_an_unfinished_turn_that_is_left_comes_before_the_prompt() -> None:
    said = Channels(HELLO, calls("a"))
    messages = Messages(said.values, resting=True)
    messages.append(assistant("never mind"))
    said.write(messages.writes(new_turn=True), {"messages": [BYE]})
    assert said.seen == [HELLO, assistant("never mind"), BYE]


def change_at_random(chance: random.Random, messages: list[Any], name: str, kinds: int) -> None:
    match chance.randrange(kinds):
        case 0:
            messages.append(user(name))
        case 1 if messages:
            del messages[: chance.randint(1, len(messages))]
        case 2 if messages:
            messages.pop(chance.randrange(len(messages)))
        case 3 if messages:
            chance.choice(messages)["content"][0]["text"] = name
        case 4 if messages:
            chance.choice(messages)["content"].append({"text": name})
        case 5:
            messages.insert(chance.randint(0, len(messages)), assistant(name))
        case 6:
            chance.shuffle(messages)
        case 7:
            messages[:] = copied(messages[chance.randint(0, 2) :])


@pytest.mark.parametrize("tools", [False, True], ids=["talk", "tools"])
@pytest.mark.parametrize("seed", range(60))
def test_any_changes_are_kept(seed: int, tools: bool) -> None:
    """Against a plain list that is changed in the same way. With tools, calls are not made anew or moved: the log would
    give them results."""
    chance = random.Random(seed)
    said, messages = Channels(), Messages()
    messages.follow(said.values)
    model: list[Message] = []
    for step in range(40):
        for number in range(chance.randint(0, 3)):
            change_at_random(chance, messages, f"{step}-{number}", 6 if tools else 8)
        model[:] = copied(list(messages))
        written = messages.writes() if chance.random() < 0.8 else {}
        new: list[Any] = [user(f"said {step}") for _ in range(chance.randint(0, 2))]
        waiting = unfinished(said.values["messages"])
        if waiting is None:
            new += [calls(f"{step}a", f"{step}b")] if tools and chance.random() < 0.3 else []
            model += new
            said.write(written, {"messages": new})
        elif chance.random() < 0.5:
            said.write(written, *({"messages": result(call)} for call in waiting.calls))
            model.append(results(*map(result, waiting.calls)))
        else:
            said.write(written, {"messages": result(waiting.calls[1])}, {"messages": new})
            model += [results(missing(waiting.calls[0]), result(waiting.calls[1])), *new]
        messages.follow(said.values)
        assert messages == model
        if not messages.edited:
            assert said.seen == model
            assert length(said.values) == len(model)
            if chance.random() < 0.2:
                messages = Messages(said.values)


# --- On savers ------------------------------------------------------------------------------------------


class Conversation(TypedDict, total=False):
    messages: Annotated[list[Any], Log]
    edits: Annotated[dict[str, Any], Keyed]
    state: Annotated[dict[str, Any], Keyed]


CHANCE = random.Random(6)
"""Text that does not compress, the same every time."""


def letters(size: int) -> str:
    return "".join(CHANCE.choices(string.ascii_letters, k=size))


def talking(saver: Saver, size: int = 1000) -> Graph:
    """A turn: the prompt, two calls of which a hook changes one, their results, an answer; then a window moves."""
    texts = iter(lambda: letters(size), None)

    def model(state: Conversation) -> Any:
        if "toolResult" in state["messages"][-1]["content"][0]:
            moved = {"head": {"parts": [[0, 1]], "first": max(1, len(state["messages"]) - 8)}}
            return Command(update={"messages": [assistant(next(texts))], "edits": moved}, goto=END)
        sends = [Send("tools", (call, len(state["messages"]))) for call in ("a", "b")]
        return Command(update={"messages": [calls("a", "b")]}, goto=sends)

    def tools(sent: tuple[str, int]) -> Any:
        call, place = sent
        if call == "a":
            return {"messages": result(call, next(texts))}
        changed = {"toolUse": {"toolUseId": "b", "name": "tool", "input": {"changed": True}}}
        return {"messages": result(call, next(texts)), "edits": {f"{place}.1": changed}}

    builder = StateGraph(Conversation).add_node("model", model, destinations=("tools", END))
    builder.add_node("tools", tools).add_edge(START, "model").add_edge("tools", "model")
    return builder.compile(checkpointer=saver)


def talk(saver: Saver, thread_id: str, turns: int, size: int = 1000) -> list[Message]:
    """A conversation of so many turns, each a run of its own; what was said."""
    graph, config = talking(saver, size), {"configurable": {"thread_id": thread_id}}
    for _ in range(turns):
        said: list[Message] = graph.invoke({"messages": [user(letters(size))]}, config)["messages"]
    return said


def test_bytes_are_linear_on_every_saver(saver: Saver) -> None:
    def stored(turns: int) -> int:
        talk(saver, str(turns), turns, 200)
        size: int = saver.usage(str(turns)).bytes
        return size

    assert stored(50) <= 2.1 * stored(25)


def test_a_long_conversation_takes_little_more_than_its_messages(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    with SqliteSaver(path) as saver:
        said = talk(saver, "t", 100)
    assert len(said) == 400
    assert path.stat().st_size <= 1.6 * len(json.dumps(said))
    with SqliteSaver(path) as saver:
        config: RunnableConfig = {"configurable": {"thread_id": "t"}}
        values = talking(saver).get_state(config).values
    assert values["messages"] == said
    seen = view(values)
    assert len(seen) == 10
    assert [seen[0], seen[-1]] == [said[0], said[-1]]
    assert [message["content"][1]["toolUse"]["input"] for message in seen if dangling(message)] == [
        {"changed": True},
        {"changed": True},
    ]


def test_every_checkpoint_shows_what_had_been_said(
    runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig
) -> None:
    graph = talking(saver, 10)
    for _ in range(3):
        said = runner.invoke(graph, {"messages": [user("go")]}, config)["messages"]
    history = runner.history(talking(reopen(saver), 10), config)
    lengths = [len(snapshot.values.get("messages", ())) for snapshot in reversed(history)]
    assert lengths == [0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 8, 9, 10, 11, 12]
    for snapshot in history:
        messages = snapshot.values.get("messages", [])
        assert messages == said[: len(messages)]


def asking(saver: Saver) -> Graph:
    """One batch of three calls, of which the outer two ask, and a key that the one in the middle takes away."""

    def tools(call: str) -> Any:
        if call != "b":
            interrupt(call, name="ask")
            return {"messages": result(call)}
        return {"messages": result(call), "state": {"old": DELETED}}

    def begin(state: Conversation) -> Any:
        sends = [Send("tools", call) for call in "abc"]
        return Command(update={"messages": [calls("a", "b", "c")], "state": {"old": 1, "new": 2}}, goto=sends)

    builder = StateGraph(Conversation).add_node("begin", begin, destinations=("tools",))
    builder.add_node("tools", tools).add_edge(START, "begin")
    return builder.compile(checkpointer=saver)


def test_results_that_come_bit_by_bit_stand_in_the_order_of_their_calls(
    runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig
) -> None:
    asked = runner.run(asking(saver), {"messages": [HELLO]}, config).interrupts
    assert list(at_rest(runner.get_state(asking(saver), config).values["messages"])) == [HELLO]
    for question in reversed(asked):
        graph = asking(reopen(saver))
        values = runner.invoke(graph, Command(resume={question.id: True}), config)
        shown = runner.get_state(graph, config).values["messages"]
    assert values["messages"] == [HELLO, calls("a", "b", "c"), results(*map(result, "abc"))]
    assert shown == values["messages"]
    assert values["state"] == {"new": 2}


def test_a_look_at_open_calls_shows_only_what_has_finished(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    runner.run(asking(saver), {"messages": [HELLO]}, config)
    shown = runner.get_state(asking(saver), config).values["messages"]
    assert shown == [HELLO, calls("a", "b", "c"), results(result("b"))]


def test_a_prompt_leaves_open_calls_behind(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    runner.run(asking(saver), {"messages": [HELLO]}, config)
    values = runner.run(asking(saver), {"messages": [BYE]}, config).value
    said = [HELLO, calls("a", "b", "c"), results(*map(missing, "abc")), BYE, calls("a", "b", "c")]
    assert values["messages"][: len(said)] == said


# --- Changed at rest ------------------------------------------------------------------------------------


CHANGED: dict[str, Callable[[list[Any]], Any]] = {
    "nothing": lambda messages: None,
    "deep": lambda messages: messages[1]["content"][0]["toolUse"]["input"].update(query="x"),
    "one is true": lambda messages: messages[1]["content"][0]["toolUse"]["input"].update(n=True, m=2),
    "a message": lambda messages: messages[0].update(content=[{"text": "x"}]),
    "the list": lambda messages: messages.append(user("x")),
    "results": lambda messages: messages[2]["content"].clear(),
}


@pytest.mark.parametrize("change", CHANGED)
@pytest.mark.parametrize("storable", [True, False], ids=["plain", "with an object"])
def test_what_is_changed_at_rest_is_noticed_once(change: str, storable: bool) -> None:
    def values() -> dict[str, Any]:
        told = {"query": "q", "n": 1, "when": "now" if storable else datetime(2026, 1, 1)}
        call: Any = {"toolUse": {"toolUseId": "a", "name": "look", "input": told}}
        result: Any = {"toolResult": {"toolUseId": "a", "status": "success", "content": []}}
        return {"messages": [user("hi"), assistant(call), user(result), assistant("well")]}

    messages, mine = Messages(resting=True), values()
    messages.follow(mine)
    assert messages == mine["messages"] and not messages.edited
    CHANGED[change](messages)
    assert mine == values()  # what is stored never changes by itself
    assert messages.edited == (change != "nothing")
    messages.follow(values())  # as somebody who looks once more does
    assert bool(messages.writes(new_turn=True)) == (change != "nothing")
    assert not messages.edited and messages.writes(new_turn=True) == {}


@pytest.mark.parametrize("nan", [math.nan, -math.nan])
def test_what_is_no_number_is_no_change(nan: float) -> None:
    result: Any = {"toolUseId": "a", "status": "success", "content": [{"json": {"mean": nan}}]}
    messages = Messages(resting=True)
    messages.follow({"messages": [user("hi"), calls("a"), user({"toolResult": result})]})
    assert not messages.edited and messages.writes(new_turn=True) == {}
