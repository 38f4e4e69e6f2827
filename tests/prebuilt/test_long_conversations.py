"""Conversations that grow by a turn at a time: what is read for one answer is not read again for the next, and nothing
that somebody has changed since is missed."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from graphkit.models.scripted import ScriptedModel, ToolCall, Turn
from graphkit.prebuilt import create_react_agent
from graphkit_checkpoint.serde import pack, unpack
from graphkit_prebuilt.react.chat import ChatMessage
from graphkit_prebuilt.react.converse import converse_of
from graphkit_prebuilt.react.past import read
from graphkit_prebuilt.react.writing import style_for
from tests.prebuilt.conftest import said

TURNS = 14
Turns = Callable[[int], list[Any]]


def message(role: str, content: Any, **about: Any) -> ChatMessage:
    return ChatMessage(role=role, content=content, **about)


def calling(*ids: str, content: Any = "") -> ChatMessage:
    calls = [
        {"name": "add", "args": {"a": [1], "b": {"c": 2}}, "id": call_id, "type": "tool_call"}
        for call_id in ids
    ]
    return message("assistant", content, id=f"m-{ids[0]}", tool_calls=calls)


def told(call_id: str, content: Any = "3") -> ChatMessage:
    return message("tool", content, tool_call_id=call_id, name="add", status="success", id=f"r-{call_id}")


def one_call(n: int) -> list[Any]:
    return [calling(f"c{n}"), told(f"c{n}")]


def two_calls(n: int) -> list[Any]:
    return [
        calling(f"c{n}a", f"c{n}b", content="hm"),
        told(f"c{n}b"),
        told(f"c{n}a", [{"type": "text", "text": "x"}]),
    ]


def of_chat_apis(n: int) -> list[Any]:
    made = calling(f"c{n}a")
    called = {"id": f"c{n}b", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
    made["tool_calls"].append(called)
    return [made, told(f"c{n}a"), told(f"c{n}b", [{"type": "text", "text": "x"}])]


def with_users(n: int) -> list[Any]:
    return [*one_call(n), message("user", [{"type": "text", "text": f"and {n}?"}])]


def unanswered(n: int) -> list[Any]:
    return [calling(f"c{n}a", f"c{n}b"), told(f"c{n}a"), message("user", "go on"), *one_call(n)]


def with_system(n: int) -> list[Any]:
    return [*one_call(n), message("system", f"rule {n}"), *one_call(n + 1000)]


def silent(n: int) -> list[Any]:
    return [*one_call(n), message("assistant", "", id=f"s{n}"), told(f"late-{n}")]


def in_blocks(n: int) -> list[Any]:
    use = {"toolUse": {"toolUseId": f"c{n}", "name": "add", "input": {"a": 1}}}
    result = {"toolResult": {"toolUseId": f"c{n}", "status": "success", "content": [{"text": "3"}]}}
    return [message("assistant", [use], id=f"m{n}"), message("user", [result], id=f"r{n}")]


def plain_dicts(n: int) -> list[Any]:
    return [calling(f"c{n}"), {**told(f"c{n}")}]


def beside_objects(n: int) -> list[Any]:
    class Said:
        type, content = "human", f"object {n}"

    return [*one_call(n), Said()]


KINDS: list[Turns] = [
    one_call,
    two_calls,
    of_chat_apis,
    with_users,
    unanswered,
    with_system,
    silent,
    in_blocks,
    plain_dicts,
    beside_objects,
]


def growing(turns: Turns) -> Iterator[list[Any]]:
    """A conversation as it is before each answer."""
    messages: list[Any] = [{"role": "user", "content": "go"}]
    for number in range(TURNS):
        yield [*messages]
        messages += turns(number)
    yield messages


def long(turns: Turns = one_call) -> list[Any]:
    """A conversation of which all but the last turn has been read."""
    for messages in growing(turns):
        read(messages)
    return messages


@pytest.mark.parametrize("turns", KINDS, ids=lambda turns: turns.__name__)
def test_what_is_read_on_is_what_is_read_anew(turns: Turns) -> None:
    for messages in growing(turns):
        for prompt in ([], [{"role": "system", "content": f"It is {len(messages)} o'clock."}]):
            given = [*prompt, *messages]
            found = read(given)
            assert (found.said, found.system) == converse_of(given)
            assert style_for(found.recent) == style_for(given)


@pytest.mark.parametrize("turns", [one_call, of_chat_apis, in_blocks, plain_dicts], ids=lambda t: t.__name__)
def test_an_answer_late_in_a_conversation_costs_as_much_as_an_early_one(turns: Turns) -> None:
    calls: list[int] = []

    def count(frame: Any, event: str, arg: Any) -> None:
        calls[-1] += event == "call"

    gc.collect()
    gc.disable()  # what others have left is finalized in calls of its own
    try:
        for messages in growing(turns):
            calls.append(0)
            sys.setprofile(count)
            read(messages)
            sys.setprofile(None)
    finally:
        gc.enable()
    assert calls[-1] == calls[-2] == calls[-3]


CHANGES: dict[str, Callable[[list[Any]], object]] = {
    "content": lambda messages: messages[4].update(content="changed"),
    "role": lambda messages: messages[0].update(role="assistant"),
    "a call more": lambda messages: messages[4]["tool_calls"].append({"name": "new", "args": {}, "id": "n"}),
    "a call's name": lambda messages: messages[4]["tool_calls"][0].update(name="changed"),
    "arguments": lambda messages: messages[4]["tool_calls"][0].update(args={"z": 1}),
    "in arguments": lambda messages: messages[4]["tool_calls"][0]["args"]["b"].update(c=3),
    "arguments as text": lambda messages: messages[4]["tool_calls"][1]["function"].update(arguments="{}"),
    "status": lambda messages: messages[5].update(status="error"),
    "in a part": lambda messages: messages[6]["content"][0].update(text="changed"),
    "without": lambda messages: messages.pop(5),
    "another": lambda messages: messages.insert(4, message("user", "new")),
    "other order": lambda messages: messages.reverse(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_changed_since_is_read_again(change: str) -> None:
    messages = long(of_chat_apis)
    before = converse_of(messages)
    CHANGES[change](messages)
    found = read(messages)
    assert (found.said, found.system) == converse_of(messages)
    if change != "in arguments":  # which a model is given as they are
        assert found.said != before[0]


def test_what_a_model_does_to_its_messages_does_not_show_in_later_ones() -> None:
    """Nor in the conversation: whatever it changes, it is told the same again."""
    seen: list[Any] = []

    def spoil(request: Any) -> Turn:
        seen.append(copy.deepcopy(request.messages))
        for given in request.messages:
            given["content"][0].pop("text", None)
            given["content"].append({"text": "spoiled"})
            given["role"] = "assistant"
        request.messages.clear()
        return (
            Turn(calls=[ToolCall("add", {"a": len(seen), "b": 1})]) if len(seen) < TURNS else Turn(text="so")
        )

    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    values = create_react_agent(ScriptedModel([spoil] * TURNS), [add]).invoke(said("go"))
    assert len(values["messages"]) == 2 * TURNS
    assert seen[-1] == converse_of(values["messages"][:-1])[0]
    for earlier, later in pairwise(seen):
        assert later[: len(earlier)] == earlier


def test_what_has_been_read_is_no_part_of_a_message() -> None:
    (holder,) = (message for message in long() if getattr(message, "past", None) is not None)
    twins = (
        copy.copy(holder),
        copy.deepcopy(holder),
        pickle.loads(pickle.dumps(holder)),
        unpack(pack(holder)),
    )
    for twin in twins:
        assert type(twin) is ChatMessage and twin == holder and twin.past is None
