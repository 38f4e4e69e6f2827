"""What a callback changes in place, and another one of the same event asks: both run again with the answer, find what
they were shown at first, and so the change is made once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from graphkit import Agent, tool
from graphkit.hooks import (
    AfterModelCallEvent,
    AfterToolCallEvent,
    AfterToolsEvent,
    BeforeInvocationEvent,
    BeforeToolCallEvent,
    BeforeToolsEvent,
    MessageAddedEvent,
)
from graphkit.middleware import ExecuteToolsStage, ExecuteToolStage, InvokeModelStage
from graphkit.models import ToolCall
from graphkit.types.tools import ToolContext
from tests.agents.conftest import Answers, Door, Session

pytestmark = pytest.mark.parametrize("session", ["memory", "sqlite"], indirect=True)
DOORS = pytest.mark.parametrize("door", ["call", "invoke_async"], indirect=True)
EVENTS: list[Any] = [
    BeforeInvocationEvent,
    MessageAddedEvent,
    AfterModelCallEvent,
    BeforeToolsEvent,
    BeforeToolCallEvent,
    AfterToolCallEvent,
    AfterToolsEvent,
]


class Point(BaseModel):
    """A point."""

    x: int


@tool
def show(x: int) -> str:
    """Show a number."""
    return f"{x} shown"


def ask(event: Any) -> None:
    event.interrupt("sure")


def mark(message: Any) -> None:
    """Change everything in a message."""
    for block in message["content"]:
        if "text" in block:
            block["text"] += "#"
        elif "toolUse" in block:
            block["toolUse"]["input"]["x"] += 1
        else:
            mark(block["toolResult"])


def change(event: Any) -> None:
    """Change what an event is about."""
    if isinstance(event, BeforeToolCallEvent):
        event.tool_use["input"]["x"] += 1
    elif isinstance(event, AfterToolCallEvent):
        mark(event.result)
    elif isinstance(event, AfterModelCallEvent):
        mark(event.stop_response and event.stop_response.message)
    elif isinstance(event, BeforeInvocationEvent):
        for message in event.messages or ():
            mark(message)
    else:
        mark(event.message)


def wrap(context: Any, next: Any) -> Any:
    """A middleware of any stage that changes what comes out, and asks."""
    event = yield from next(context)
    if isinstance(getattr(event, "results", None), list):
        for result in event.results:
            mark(result)
    else:
        mark(event.result if hasattr(event, "result") else event.message)
    if context.agent.state.get("asks"):
        context.interrupt("sure")
    return event


def said(agent: Agent) -> list[Any]:
    """Texts, inputs and results of the conversation, in order."""
    found: list[Any] = []
    for message in agent.messages:
        for block in message["content"]:
            if "toolUse" in block:
                found.append(block["toolUse"]["input"]["x"])
            else:
                found.append(block["text"] if "text" in block else block["toolResult"]["content"][0]["text"])
    return found


@pytest.fixture
def holds(door: Door, session: Session, answers: Answers) -> Callable[..., list[Any]]:
    """Holds a conversation, with a fresh agent for each answer; returns what was said."""

    def hold(prompt: Any, hooks: list[tuple[Any, Any]], *turns: Any, **options: Any) -> list[Any]:
        def fresh(*turns: Any) -> Agent:
            agent = session.agent(*turns, tools=[show])
            for callback, event in hooks:
                agent.add_hook(callback, event)
            return agent

        result = door(fresh(*turns), prompt, **options)
        while result.stop_reason == "interrupt":
            result = door(fresh(), answers(result, "yes"), **options)
        return said(fresh())

    return hold


TURNS: list[Any] = [["look", ToolCall("show", {"x": 1}, "a"), ToolCall("show", {"x": 5}, "b")], "done"]
CHANGED: dict[Any, list[Any]] = {
    BeforeInvocationEvent: ["go#", "look", 1, 5, "1 shown", "5 shown", "done"],
    MessageAddedEvent: ["go#", "look#", 2, 6, "2 shown#", "6 shown#", "done#"],
    AfterModelCallEvent: ["go", "look#", 2, 6, "2 shown", "6 shown", "done#"],
    BeforeToolsEvent: ["go", "look#", 2, 6, "2 shown", "6 shown", "done"],
    BeforeToolCallEvent: ["go", "look", 2, 6, "2 shown", "6 shown", "done"],
    AfterToolCallEvent: ["go", "look", 1, 5, "1 shown#", "5 shown#", "done"],
    AfterToolsEvent: ["go", "look", 1, 5, "1 shown#", "5 shown#", "done"],
}


@DOORS
@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
@pytest.mark.parametrize("first", [ask, change], ids=["asked-first", "changed-first"])
def test_a_change_is_made_once(holds: Any, event: Any, first: Any) -> None:
    both = [(first, event), (change if first is ask else ask, event)]
    assert holds("go", both, *TURNS) == CHANGED[event]


@DOORS
def test_events_that_change_what_others_have_changed(holds: Any) -> None:
    """An event whose callbacks have all run is not fired again, and what they have changed stays."""
    asking = [event for event in EVENTS if event is not AfterToolsEvent]
    both = [(callback, event) for event in asking for callback in (change, ask)]
    assert holds("go", both, *TURNS) == [
        "go##",
        "look###",
        5,
        9,
        "5 shown##",
        "9 shown##",
        "done##",
    ]


@DOORS
def test_each_message_of_a_prompt(holds: Any) -> None:
    prompt = [{"role": "user", "content": [{"text": text}]} for text in ("one", "two")]
    both = [(change, MessageAddedEvent), (ask, MessageAddedEvent)]
    assert holds(prompt, both, "done") == ["one#", "two#", "done#"]


@DOORS
def test_an_answer_that_structured_output_insists_after(holds: Any) -> None:
    def marks_texts(event: MessageAddedEvent) -> None:
        for block in event.message["content"]:
            if "text" in block:
                block["text"] += "#"

    both = [(marks_texts, MessageAddedEvent), (ask, MessageAddedEvent)]
    turns = ["text", ToolCall("Point", {"x": 3})]
    found = holds("go", both, *turns, structured_output_model=Point)
    assert [found[0], found[1], found[2][-2:], found[3]] == ["go#", "text#", ".#", 3]


@DOORS
@pytest.mark.parametrize("asks", [False, True])
def test_layers_of_middleware(door: Door, session: Session, answers: Answers, asks: bool) -> None:
    def fresh(*turns: Any) -> Agent:
        agent = session.agent(*turns, tools=[show])
        for stage in (InvokeModelStage, ExecuteToolStage, ExecuteToolsStage):
            agent.add_middleware(stage, wrap)
        return agent

    agent = fresh(*TURNS)
    agent.state.set("asks", asks)
    result = door(agent, "go")
    assert (result.stop_reason == "interrupt") is asks
    while result.stop_reason == "interrupt":
        result = door(fresh(), answers(result, "yes"))
    assert said(fresh()) == ["go", "look#", 2, 6, "2 shown##", "6 shown##", "done#"]


@tool(context=True)
def wait(x: int, tool_context: ToolContext) -> str:
    """Wait for a person."""
    return f"{x} {tool_context.interrupt('how')}"


@DOORS
def test_a_batch_at_rest_is_shown_again_as_it_was(door: Door, session: Session, answers: Answers) -> None:
    """A callback has asked about the results that there were; when it is answered, there are more."""
    shown: list[list[str]] = []

    def check(event: AfterToolsEvent) -> None:
        results = [
            block["toolResult"]["toolUseId"] for block in event.message["content"] if "toolResult" in block
        ]
        if event.interrupt("sure", reason=results) == "yes":
            shown.append(results)

    calls = [ToolCall("show", {"x": 1}, "a"), ToolCall("wait", {"x": 2}, "b")]
    result = door(session.agent(calls, "done", tools=[show, wait], hooks=[check]), "go")
    for names in (["how", "sure"], ["sure"], ["sure"]):
        assert [question.name for question in result.interrupts or ()] == names
        result = door(session.agent(), answers(result, "yes")[:1])
    assert result.stop_reason == "end_turn" and shown == [["a"], ["a", "b"]]
