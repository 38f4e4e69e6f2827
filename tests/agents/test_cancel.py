"""Ending a request early: at the next place where that leaves the conversation complete."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from graphkit import Agent, ToolContext, tool
from graphkit.hooks import (
    AfterModelCallEvent,
    AfterToolCallEvent,
    BeforeModelCallEvent,
    BeforeToolCallEvent,
    ContentBlockEvent,
    ModelStreamUpdateEvent,
)
from graphkit.models import ScriptedModel, ToolCall
from graphkit_prebuilt.loop.invocation import Cancel
from graphkit_prebuilt.models.scripted import Turn
from tests.agents.conftest import Answers, Door, Session, agent_of, script

RAN: list[str] = []


@pytest.fixture(autouse=True)
def nothing_has_run() -> Iterator[None]:
    RAN.clear()
    yield


@tool
def work(name: str) -> str:
    """Works."""
    RAN.append(name)
    return name


@tool
def stop(tool_context: ToolContext) -> str:
    """Ends the request while it runs."""
    RAN.append("stop")
    tool_context.agent.cancel()
    assert tool_context.cancel_signal.is_set()
    return "stopped"


def results(agent: Agent) -> list[tuple[str, str]]:
    """Status and text of the last results of tools."""
    for message in reversed(agent.messages):
        if "toolResult" in message["content"][0]:
            found = [block["toolResult"] for block in message["content"]]
            return [(result["status"], result["content"][0]["text"]) for result in found]
    return []


def test_a_cancel_before_a_request_ends_it_and_only_it(door: Door) -> None:
    agent = agent_of("never said", "well")
    script(agent).turns.pop(0)
    agent.cancel()
    result = door(agent, "go")
    assert (result.stop_reason, str(result)) == ("cancelled", "Cancelled by user\n")
    assert script(agent).requests == []
    assert [message["role"] for message in agent.messages] == ["user", "assistant"]
    assert str(door(agent, "again")) == "well\n"


def test_the_message_of_a_cancel_is_what_is_said(door: Door) -> None:
    agent = agent_of("never said")
    agent.cancel("Enough.")
    assert str(door(agent, "go")) == "Enough.\n"


def test_a_signal_of_the_callers(door: Door) -> None:
    signal = threading.Event()
    agent = agent_of("well", "never said")
    assert door(agent, "go", cancel_signal=signal).stop_reason == "end_turn"
    signal.set()
    assert door(agent, "go", cancel_signal=signal).stop_reason == "cancelled"
    assert len(script(agent).requests) == 1


def test_the_signal_of_a_request_can_be_looked_at(door: Door) -> None:
    """Whoever set it: `cancel`, or the caller's own signal."""
    seen: list[bool] = []

    def look(event: BeforeToolCallEvent) -> None:
        seen.append(event.agent.cancel_signal.is_set())
        signal.set()
        seen.append(event.agent.cancel_signal.is_set())

    signal = threading.Event()
    agent = agent_of(ToolCall("stop", {}), "one", tools=[stop], hooks=[look])
    assert not agent.cancel_signal.is_set()
    assert door(agent, "go", cancel_signal=signal).stop_reason == "cancelled"
    assert seen == [False, True] and not agent.cancel_signal.is_set()
    agent.cancel()
    assert agent.cancel_signal.is_set()
    signal.clear()
    assert door(agent, "again").stop_reason == "cancelled" and not agent.cancel_signal.is_set()


def test_in_the_stream_of_the_model_what_it_has_said_is_dropped(door: Door) -> None:
    agent = agent_of(Turn(text="a long answer", chunks=5), "well")
    seen: list[str] = []

    def at_first_text(event: ModelStreamUpdateEvent) -> None:
        if "contentBlockDelta" in event.event:
            seen.append(event.event["contentBlockDelta"]["delta"]["text"])
            event.agent.cancel()

    agent.add_hook(at_first_text)
    result = door(agent, "go")
    assert (result.stop_reason, str(result)) == ("cancelled", "Cancelled by user\n")
    assert len(seen) == 1
    assert len(agent.messages) == 2


@pytest.mark.parametrize("colour", ["async", "plain"])
def test_a_stream_that_is_left_is_closed(door: Door, colour: str) -> None:
    chunk = {"contentBlockDelta": {"delta": {"text": "on and on"}}}
    closed: list[str] = []

    class Endless(ScriptedModel):
        def stream(self, *args: Any, **kwargs: Any) -> Any:
            return self.plain() if colour == "plain" else self.waiting()

        def plain(self) -> Iterator[Any]:
            try:
                while True:
                    yield chunk
            finally:
                closed.append(colour)

        async def waiting(self) -> AsyncIterator[Any]:
            try:
                while True:
                    yield chunk
            finally:
                await asyncio.sleep(0)
                closed.append(colour)

    agent = agent_of(model=Endless([]))
    agent.add_hook(lambda event: event.agent.cancel(), ModelStreamUpdateEvent)
    assert door(agent, "go").stop_reason == "cancelled"
    assert closed == [colour]


def test_after_the_model_no_tool_starts(door: Door) -> None:
    agent = agent_of([ToolCall("work", {"name": "a"}), ToolCall("work", {"name": "b"})], tools=[work])
    agent.add_hook(lambda event: event.agent.cancel(), AfterModelCallEvent)
    heard: list[Any] = []
    agent.add_hook(heard.append, [BeforeToolCallEvent, AfterToolCallEvent])
    result = door(agent, "go")
    assert result.stop_reason == "cancelled"
    assert RAN == [] and heard == []
    assert results(agent) == [("error", "Tool execution cancelled")] * 2
    assert result.message == agent.messages[-2]


def test_a_tool_that_runs_is_let_finish(door: Door) -> None:
    from graphkit.tools.executors import SequentialToolExecutor

    agent = agent_of(
        [ToolCall("work", {"name": "a"}), ToolCall("stop"), ToolCall("work", {"name": "b"})],
        tools=[work, stop],
        tool_executor=SequentialToolExecutor(),
    )
    assert door(agent, "go").stop_reason == "cancelled"
    assert RAN == ["a", "stop"]
    assert results(agent) == [("success", "a"), ("success", "stopped"), ("error", "Tool execution cancelled")]


@pytest.mark.parametrize("message", [None, "that is enough"])
def test_a_tool_ends_the_request_after_the_calls_beside_it(door: Door, message: str | None) -> None:
    """As Strands' `stop` tool does."""
    from graphkit.tools.executors import SequentialToolExecutor

    @tool(context=True)
    def end(tool_context: ToolContext) -> str:
        tool_context.agent.cancel(message=message, after_current_tools=True)
        assert not tool_context.cancel_signal.is_set()
        return "ended"

    calls = [ToolCall("end"), ToolCall("work", {"name": "b"})]
    agent = agent_of(calls, "well", tools=[work, end], tool_executor=SequentialToolExecutor())
    result = door(agent, "go")
    assert result.stop_reason == "cancelled" and RAN == ["b"]
    assert results(agent) == [("success", "ended"), ("success", "b")]
    if message is None:
        assert result.message == agent.messages[-2] and len(agent.messages) == 3
    else:
        assert result.message == agent.messages[-1] and str(result) == f"{message}\n"
    assert str(door(agent, "again")) == "well\n"


def test_a_cancel_after_the_tools_of_a_request_without_any_has_no_effect(door: Door) -> None:
    agent = agent_of("one", "two")
    agent.add_hook(lambda event: event.agent.cancel(after_current_tools=True), BeforeModelCallEvent)
    assert door(agent, "go").stop_reason == "end_turn"
    agent.cancel(after_current_tools=True)
    assert str(door(agent, "go")) == "two\n"


def test_a_conversation_that_was_cancelled_goes_on(door: Door, session: Session) -> None:
    agent = session.agent(ToolCall("stop"), "well", tools=[stop])
    assert door(agent, "go").stop_reason == "cancelled"
    agent = session.agent()
    assert str(door(agent, "again")) == "well\n"
    assert [message["role"] for message in agent.messages] == [
        "user",
        "assistant",
        "user",
        "user",
        "assistant",
    ]


def test_a_cancel_of_a_request_that_goes_on_with_answers(
    door: Door, session: Session, answers: Answers
) -> None:
    def ask(event: BeforeToolCallEvent) -> None:
        event.interrupt("may it")

    agent = session.agent(ToolCall("work", {"name": "a"}), tools=[work], hooks=[ask])
    result = door(agent, "go")
    agent = session.agent()
    agent.cancel()
    assert door(agent, answers(result, "yes")).stop_reason == "cancelled"
    assert RAN == [] and results(agent) == [("error", "Tool execution cancelled")]


def test_a_cancel_in_one_thread_leaves_the_others(door: Door) -> None:
    agent = agent_of("well", "never said")
    agent.thread("b").cancel()
    assert door(agent, "go", thread_id="a").stop_reason == "end_turn"
    assert door(agent, "go", thread_id="b").stop_reason == "cancelled"


def test_a_hook_that_cancels_before_the_model(door: Door) -> None:
    agent = agent_of("never said")
    agent.add_hook(lambda event: event.agent.cancel(), BeforeModelCallEvent)
    heard: list[Any] = []
    agent.add_hook(heard.append, ContentBlockEvent)
    assert door(agent, "go").stop_reason == "cancelled"
    assert heard == []


def test_whoever_waits_for_a_cancel_hears_of_it() -> None:
    """Whichever comes first: the ones that wait, or the cancel."""
    cancel, woken = Cancel(), queue.SimpleQueue[bool]()
    waiting = [threading.Thread(target=lambda: woken.put(cancel.wait(10))) for _ in range(3)]
    for thread in waiting:
        thread.start()
    cancel.set()
    assert [woken.get(timeout=10) for _ in waiting] == [True] * 3
    assert cancel.wait(0)
    assert cancel.is_set()
    assert not Cancel().wait(0)
