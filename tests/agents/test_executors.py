"""The calls of one message: side by side, or one after the other."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from graphkit.agent import Agent
from graphkit.hooks import BeforeToolCallEvent
from graphkit.models.scripted import ScriptedModel, ToolCall
from graphkit.tools import tool
from graphkit.tools.executors import ConcurrentToolExecutor, SequentialToolExecutor
from graphkit.types.tools import ToolContext
from tests.agents.conftest import Answers, Door

CONCURRENT, SEQUENTIAL = ConcurrentToolExecutor(), SequentialToolExecutor()


def agent_of(*turns: Any, **options: Any) -> Agent:
    return Agent(ScriptedModel(turns), callback_handler=None, **options)


def shown(agent: Agent) -> list[str]:
    """The texts of all tool results, in the order of the conversation."""
    return [
        block["toolResult"]["content"][0]["text"]
        for message in agent.messages
        for block in message["content"]
        if "toolResult" in block
    ]


def calls(*names: str) -> list[ToolCall]:
    return [ToolCall(name, {}) for name in names]


def test_calls_run_side_by_side_unless_told_otherwise(door: Door) -> None:
    met = threading.Barrier(2)

    @tool
    def one() -> str:
        met.wait(60)
        return "one"

    @tool
    async def two() -> str:
        await asyncio.to_thread(met.wait, 60)
        return "two"

    for options in ({}, {"tool_executor": CONCURRENT}):
        agent = agent_of(calls("one", "two"), "done", tools=[one, two], **options)
        door(agent, "go")
        assert shown(agent) == ["one", "two"]


def test_results_are_in_the_order_of_the_calls(door: Door) -> None:
    done = threading.Event()

    @tool
    def slow() -> str:
        assert done.wait(60)
        return "slow"

    @tool
    def quick() -> str:
        done.set()
        return "quick"

    agent = agent_of(calls("slow", "quick"), "done", tools=[slow, quick])
    door(agent, "go")
    assert shown(agent) == ["slow", "quick"]


def test_in_order_one_call_begins_when_the_one_before_has_ended(door: Door) -> None:
    log: list[str] = []

    def made(name: str) -> Any:
        @tool(name=name)
        async def act() -> str:
            log.append(f"{name} begins")
            await asyncio.sleep(0)
            log.append(f"{name} ends")
            return name

        return act

    names = ["c", "a", "b"]
    tools = [made(name) for name in names]
    agent = agent_of(calls(*names), "done", tools=tools, tool_executor=SEQUENTIAL)
    door(agent, "go")
    assert log == [f"{name} {at}" for name in names for at in ("begins", "ends")]
    assert shown(agent) == names


@pytest.mark.parametrize("from_hook", [True, False])
def test_in_order_none_begins_after_one_that_asks(from_hook: bool, door: Door, answers: Answers) -> None:
    ran: list[str] = []

    def made(name: str) -> Any:
        @tool(name=name, context=True)
        def act(tool_context: ToolContext) -> str:
            if name == "asks" and not from_hook:
                tool_context.interrupt("approval")
            ran.append(name)
            return name

        return act

    def hook(event: BeforeToolCallEvent) -> None:
        if event.tool_use["name"] == "asks" and from_hook:
            event.interrupt("approval")

    names = ["first", "asks", "last"]
    tools = [made(name) for name in names]
    agent = agent_of(calls(*names), "done", tools=tools, hooks=[hook], tool_executor=SEQUENTIAL)
    result = door(agent, "go")
    assert (result.stop_reason, ran) == ("interrupt", ["first"])
    result = door(agent, answers(result, "y"))
    assert (result.stop_reason, ran) == ("end_turn", names)
    assert shown(agent) == names


def test_side_by_side_the_others_run_and_once(door: Door, answers: Answers) -> None:
    ran: list[str] = []

    @tool(context=True)
    def asks(tool_context: ToolContext) -> str:
        ran.append("asks")
        answer: str = tool_context.interrupt("approval")
        return answer

    @tool
    def runs() -> str:
        ran.append("runs")
        return "ran"

    agent = agent_of(calls("asks", "runs"), "done", tools=[asks, runs])
    result = door(agent, "go")
    assert sorted(ran) == ["asks", "runs"]
    door(agent, answers(result, "y"))
    assert sorted(ran) == ["asks", "asks", "runs"]
    assert shown(agent) == ["y", "ran"]


def test_a_tool_that_fails_stops_no_other(door: Door) -> None:
    @tool
    def fails() -> None:
        raise RuntimeError("no")

    @tool
    def works() -> str:
        return "works"

    for executor in (CONCURRENT, SEQUENTIAL):
        agent = agent_of(calls("fails", "works"), "done", tools=[fails, works], tool_executor=executor)
        door(agent, "go")
        assert shown(agent) == ["Error: no", "works"]


def test_calls_that_cannot_be_served_are_answered(door: Door) -> None:
    """A tool that hangs, one that is unknown, input that does not fit: results for the model, which goes on."""
    free = threading.Event()

    @tool(timeout=0.01)
    def hangs() -> None:
        free.wait(60)

    @tool
    def adds(a: int) -> int:
        return a

    turn = [
        ToolCall("hangs", {}),
        ToolCall("unknown", {}),
        ToolCall("adds", {"a": "x"}),
        ToolCall("adds", {"a": 1}),
    ]
    agent = agent_of(turn, "done", tools=[hangs, adds])
    try:
        result = door(agent, "go")
    finally:
        free.set()
    assert result.stop_reason == "end_turn"
    late, unknown, wrong, right = shown(agent)
    assert late == "Error: the tool did not end within its timeout of 0.01 s"
    assert "nknown tool" in unknown and "unknown" in unknown
    assert wrong.startswith("Error: invalid input for adds:\na: ")
    assert right == "1"
