"""The events themselves: their fields, what callbacks may write, which can ask (S71–S87, S102–S116)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import graphkit.hooks
from graphkit.hooks import (
    AfterInvocationEvent,
    AfterModelCallEvent,
    AfterToolCallEvent,
    AfterToolsEvent,
    AgentInitializedEvent,
    AgentResultEvent,
    BaseHookEvent,
    BeforeInvocationEvent,
    BeforeModelCallEvent,
    BeforeToolCallEvent,
    BeforeToolsEvent,
    ContentBlockEvent,
    HookableEvent,
    HookEvent,
    InterruptEvent,
    MessageAddedEvent,
    ModelMessageEvent,
    ModelStreamUpdateEvent,
    ToolResultEvent,
    ToolStreamUpdateEvent,
)
from graphkit_prebuilt.content import TextBlock, ToolResultBlock, ToolUse, assistant, tool_result, user

AGENT: Any = object()
USE = {"tool_use": ToolUse(toolUseId="t1", name="add", input={"a": 1})}
MESSAGE = {"message": assistant("hello")}
RESULT = {"result": tool_result("t1", "success", "3")}

GIVEN: dict[type[HookEvent], Mapping[str, Any]] = {
    AgentInitializedEvent: {},
    BeforeInvocationEvent: {},
    AfterInvocationEvent: {},
    MessageAddedEvent: MESSAGE,
    BeforeModelCallEvent: {},
    AfterModelCallEvent: {},
    BeforeToolsEvent: MESSAGE,
    AfterToolsEvent: MESSAGE,
    BeforeToolCallEvent: {"selected_tool": None, **USE},
    AfterToolCallEvent: {"selected_tool": None, **USE, **RESULT},
    ModelStreamUpdateEvent: {"event": {"messageStart": {"role": "assistant"}}},
    ContentBlockEvent: {"content_block": {"text": "hello"}},
    ModelMessageEvent: {**MESSAGE, "stop_reason": "end_turn"},
    ToolStreamUpdateEvent: {**USE, "event": "half"},
    ToolResultEvent: {**USE, **RESULT},
    AgentResultEvent: {"result": None},
    InterruptEvent: {"interrupt": None},
}
"""What each event is made of, beside its agent."""

WRITABLE = {
    BeforeInvocationEvent: {"messages", "cancel"},
    AfterInvocationEvent: {"resume"},
    BeforeModelCallEvent: {"cancel"},
    AfterModelCallEvent: {"retry"},
    BeforeToolsEvent: {"cancel"},
    AfterToolsEvent: {"end_turn"},
    BeforeToolCallEvent: {"tool_use", "selected_tool", "cancel_tool", "cancel"},
    AfterToolCallEvent: {"result", "retry"},
}

WRITTEN = {"messages": [user("written")], "result": tool_result("t1", "error", "no"), **USE}
"""What is written to those that do not take a text."""

ASKING = {
    BeforeInvocationEvent, AfterInvocationEvent, MessageAddedEvent, BeforeModelCallEvent, AfterModelCallEvent,
    BeforeToolsEvent, AfterToolsEvent, BeforeToolCallEvent, AfterToolCallEvent,
}  # fmt: skip


def made(kind: type[HookEvent]) -> HookEvent:
    return kind(agent=AGENT, **GIVEN[kind])


each = pytest.mark.parametrize("kind", GIVEN, ids=lambda kind: kind.__name__)


def test_these_are_all_events() -> None:
    found = {getattr(graphkit.hooks, name) for name in graphkit.hooks.__all__ if name.endswith("Event")}
    of_agents = {event for event in found if not issubclass(event, graphkit.hooks.MultiAgentEvent)}
    assert of_agents == {*GIVEN, HookEvent, BaseHookEvent, HookableEvent}


@each
def test_an_event_has_what_it_was_made_of_and_documents_itself(kind: type[HookEvent]) -> None:
    event = made(kind)
    assert event.agent is AGENT
    assert isinstance(event, HookableEvent)
    assert {name: getattr(event, name) for name in GIVEN[kind]} == GIVEN[kind]
    assert kind.__name__ in repr(event)
    assert kind.__doc__ and not kind.__doc__.startswith(kind.__name__)
    if kind is not AgentInitializedEvent:
        state: dict[str, Any] = {"connection": object()}
        shared = kind(agent=AGENT, **{**GIVEN[kind], "invocation_state": state})
        assert getattr(shared, "invocation_state", None) is state


@each
def test_only_the_writable_properties_can_be_written(kind: type[HookEvent]) -> None:
    event = made(kind)
    writable = WRITABLE.get(kind, set())
    for name in writable:
        written = WRITTEN.get(name, "written")
        setattr(event, name, written)
        assert getattr(event, name) == written
    readonly = {"agent", "invocation_state", "nonsense", *GIVEN[kind]} - writable
    for name in readonly:
        before = getattr(event, name, None)
        with pytest.raises(AttributeError, match=rf"{kind.__name__}\.{name} cannot be written"):
            setattr(event, name, "written")
        assert getattr(event, name, None) is before


@each
def test_after_events_reverse_their_callbacks(kind: type[HookEvent]) -> None:
    assert made(kind).should_reverse_callbacks is kind.__name__.startswith("After")


@each
def test_every_event_asks_but_those_that_only_tell(kind: type[HookEvent]) -> None:
    event = made(kind)
    if kind is InterruptEvent:  # its `interrupt` is the question
        return
    assert hasattr(event, "interrupt") is (kind in ASKING)
    if kind in ASKING:
        with pytest.raises(RuntimeError, match=rf"{kind.__name__}\.interrupt\(\) was called outside"):
            event.interrupt("approval", reason="May I?")  # type: ignore[attr-defined]


def test_what_a_read_only_error_says() -> None:
    with pytest.raises(AttributeError, match="callbacks may write: result, retry"):
        made(AfterToolCallEvent).exception = ValueError()
    with pytest.raises(AttributeError, match="callbacks may write: nothing"):
        made(AgentResultEvent).result = 1


def test_cancel_and_cancel_tool_are_one() -> None:
    event = made(BeforeToolCallEvent)
    assert isinstance(event, BeforeToolCallEvent)
    assert event.cancel is event.cancel_tool is False
    event.cancel = "no"
    assert str(event.cancel_tool) == "no"
    event.cancel_tool = "never"
    assert str(event.cancel) == "never"


def test_a_result_can_be_written_as_a_block_and_as_nothing_else() -> None:
    event = made(AfterToolCallEvent)
    assert isinstance(event, AfterToolCallEvent)
    event.result = ToolResultBlock("t1", "error", [{"text": "no"}, TextBlock("never")])  # type: ignore
    assert event.result == {
        "toolUseId": "t1",
        "status": "error",
        "content": [{"text": "no"}, {"text": "never"}],
    }
    before = event.result
    for wrong in ("no", None, {"status": "error"}):
        with pytest.raises(
            TypeError, match=r"AfterToolCallEvent\.result must be a dict of toolUseId, status"
        ):
            event.result = wrong  # type: ignore[assignment]
    assert event.result is before


@pytest.mark.parametrize(
    "wrong", [5, object(), "text", [{"text": "a block"}], [{"role": "nobody", "content": []}]]
)
def test_messages_of_a_request_must_be_messages(wrong: Any) -> None:
    event = BeforeInvocationEvent(agent=AGENT, messages=[user("hello")])
    with pytest.raises(TypeError):
        event.messages = wrong
    assert event.messages == [user("hello")]
    event.messages = []
    assert event.messages == []
    event.messages = None
    assert event.messages is None


@pytest.mark.parametrize("wrong", [5, object(), {"text": "x"}, ["x"], [object()]])
def test_what_a_request_goes_on_with_must_be_a_prompt(wrong: Any) -> None:
    event = AfterInvocationEvent(agent=AGENT)
    with pytest.raises(TypeError):
        event.resume = wrong
    assert event.resume is None


def test_a_tool_use_can_be_written_as_a_dict_and_is_read_both_ways() -> None:
    event = made(BeforeToolCallEvent)
    assert isinstance(event, BeforeToolCallEvent)
    event.tool_use = {"toolUseId": "t2", "name": "sub", "input": {}}  # type: ignore[assignment]
    assert (event.tool_use.name, event.tool_use["name"]) == ("sub", "sub")
    event.tool_use.name = "mul"
    event.tool_use["input"]["a"] = 1
    assert event.tool_use == {"toolUseId": "t2", "name": "mul", "input": {"a": 1}}
    for wrong in (None, "sub", {"name": "sub"}):
        with pytest.raises(TypeError, match="tool_use must be a dict of toolUseId, name and input"):
            event.tool_use = wrong  # type: ignore[assignment]


def test_a_content_block_can_be_read_by_both_names() -> None:
    event = made(ContentBlockEvent)
    assert isinstance(event, ContentBlockEvent)
    assert event.block is event.content_block


def test_a_stop_response_is_made_by_its_event_class() -> None:
    response = AfterModelCallEvent.ModelStopResponse(message=assistant("done"), stop_reason="end_turn")
    event = AfterModelCallEvent(agent=AGENT, stop_response=response)
    assert event.stop_response is not None
    assert (event.stop_response.message, event.stop_response.stop_reason) == (assistant("done"), "end_turn")


@pytest.mark.parametrize("name", [None, 5, b"x", ["x"]])
def test_the_name_of_a_question_is_text(name: Any) -> None:
    event = made(BeforeModelCallEvent)
    assert isinstance(event, BeforeModelCallEvent)
    with pytest.raises(TypeError, match=r"BeforeModelCallEvent\.interrupt\(\) needs a name that is text"):
        event.interrupt(name)


def test_the_name_of_a_question_is_not_empty() -> None:
    event = made(BeforeModelCallEvent)
    assert isinstance(event, BeforeModelCallEvent)
    with pytest.raises(ValueError, match="not empty"):
        event.interrupt("")


def test_a_response_that_is_there_is_returned_and_nobody_is_asked() -> None:
    event = made(BeforeModelCallEvent)
    assert isinstance(event, BeforeModelCallEvent)
    answer = {"approved": True}
    assert event.interrupt("approval", reason="May I?", response=answer) is answer


circle: list[Any] = []
circle.append(circle)


@pytest.mark.parametrize(
    "reason",
    [object(), {1, 2}, b"x", {"deep": [object()]}, circle],
    ids=["object", "set", "bytes", "object inside", "circle"],
)
def test_a_reason_must_be_json(reason: Any) -> None:
    event = made(BeforeModelCallEvent)
    assert isinstance(event, BeforeModelCallEvent)
    with pytest.raises(TypeError, match=r"the reason of question 'approval' cannot be written as JSON"):
        event.interrupt("approval", reason=reason)
