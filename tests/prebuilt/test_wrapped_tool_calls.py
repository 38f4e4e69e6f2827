"""What is put around the calls of a `ToolNode`: `wrap_tool_call` and `awrap_tool_call`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from graphkit.checkpoint.memory import InMemorySaver
from graphkit.errors import InvalidUpdateError
from graphkit.models.scripted import ToolCall
from graphkit.prebuilt import ToolNode
from graphkit.prebuilt.tool_node import ToolCallRequest
from graphkit.types import Command, RunnableConfig, interrupt
from tests.conftest import Runner
from tests.prebuilt.conftest import agent_of, results, said


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def fail() -> str:
    """Fail."""
    raise OSError("it failed")


SUM = ToolCall("add", {"a": 1, "b": 2}, "c1")


def twice(request: ToolCallRequest, execute: Any) -> Any:
    """Doubles what goes in, and says so."""
    given = request.tool_call["args"]
    changed = request.override(
        tool_call={**request.tool_call, "args": {"a": 2 * given["a"], "b": given["b"]}}
    )
    found = execute(changed)
    assert request.tool_call["args"] == given
    return {**found, "content": f"twice: {found['content']}"}


async def atwice(request: ToolCallRequest, execute: Any) -> Any:
    found = await execute(request)
    return {**found, "content": f"awaited: {found['content']}"}


def outcome(runner: Runner, calls: Any, node: ToolNode) -> list[str]:
    return results(runner.invoke(agent_of([calls, "done"], node), said("go")))


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_call_is_changed_and_so_is_its_result(runner: Runner, version: str) -> None:
    graph = agent_of([[SUM, SUM], "done"], ToolNode([add], wrap_tool_call=twice), version=version)
    assert results(runner.invoke(graph, said("go"))) == ["twice: 4"] * 2


def test_each_colour_has_its_own_if_there_are_both(runner: Runner) -> None:
    node = ToolNode([add], wrap_tool_call=twice, awrap_tool_call=atwice)
    assert outcome(runner, [SUM], node) == ["twice: 4" if runner.colour == "sync" else "awaited: 3"]


def test_the_one_for_coroutines_serves_both(runner: Runner) -> None:
    """A guard is not left out because a program happens not to be asynchronous."""
    assert outcome(runner, [SUM], ToolNode([add], awrap_tool_call=atwice)) == ["awaited: 3"]


def test_without_a_graph() -> None:
    node = ToolNode([add], wrap_tool_call=twice)
    given = {"messages": [{"role": "assistant", "content": "", "tool_calls": [SUM_CALL]}]}
    assert node.invoke(given)["messages"][0]["content"] == "twice: 4"
    assert asyncio.run(node.ainvoke(given))["messages"][0]["content"] == "twice: 4"


SUM_CALL = {"name": "add", "args": {"a": 1, "b": 2}, "id": "c1"}


def test_what_a_request_tells(runner: Runner) -> None:
    seen: list[ToolCallRequest] = []

    def look(request: ToolCallRequest, execute: Any) -> Any:
        seen.append(request)
        return execute(request)

    outcome(runner, [SUM], ToolNode([add], wrap_tool_call=look))
    (request,) = seen
    assert request.tool_call == {**SUM_CALL, "type": "tool_call"}
    assert request.tool is not None and request.tool.tool_name == "add"
    assert request.state["messages"][0].content == "go"
    assert request.runtime.tool_call_id == "c1" and request.runtime.state is request.state


def test_a_tool_need_not_be_called_nor_be_there(runner: Runner) -> None:
    def instead(request: ToolCallRequest, execute: Any) -> Any:
        if request.tool is not None:
            return execute(request)
        return {"role": "tool", "content": "I do it", "tool_call_id": request.tool_call["id"]}

    node = ToolNode([add], wrap_tool_call=instead)
    assert outcome(runner, [ToolCall("nothing", {}), SUM], node) == ["I do it", "3"]


def test_a_tool_may_be_called_again(runner: Runner) -> None:
    tries: list[int] = []

    def fragile() -> str:
        """Fail twice."""
        tries.append(1)
        if len(tries) < 3:
            raise OSError("not yet")
        return "at last"

    def again(request: ToolCallRequest, execute: Any) -> Any:
        while (found := execute(request))["status"] == "error":
            pass
        return found

    node = ToolNode([fragile], wrap_tool_call=again, handle_tool_errors=True)
    assert outcome(runner, [ToolCall("fragile")], node) == ["at last"]


def test_what_it_raises_is_handled_as_what_a_tool_raises(runner: Runner) -> None:
    def refuse(request: ToolCallRequest, execute: Any) -> Any:
        raise PermissionError("not you")

    assert outcome(runner, [SUM], ToolNode([add], wrap_tool_call=refuse, handle_tool_errors=True)) == [
        "Error: not you"
    ]
    with pytest.raises(PermissionError, match="not you"):
        outcome(runner, [SUM], ToolNode([add], wrap_tool_call=refuse))
    with pytest.raises(OSError, match="it failed"):
        outcome(
            runner, [ToolCall("fail")], ToolNode([fail], wrap_tool_call=lambda request, run: run(request))
        )


def test_what_is_no_result_is_refused(runner: Runner) -> None:
    node = ToolNode([add], wrap_tool_call=lambda request, execute: "three")
    with pytest.raises(InvalidUpdateError, match=r"wrap_tool_call.*'add'.*'three'"):
        outcome(runner, [SUM], node)


def test_it_may_ask_and_so_may_the_tool(runner: Runner, config: RunnableConfig) -> None:
    ran: list[str] = []

    def ask() -> str:
        """Ask."""
        answer = interrupt("tool?", name="tool")
        ran.append("tool")
        return f"tool {answer}"

    def review(request: ToolCallRequest, execute: Any) -> Any:
        if interrupt("sure?", name="review") == "no":
            return {"role": "tool", "content": "kept", "tool_call_id": request.tool_call["id"]}
        return execute(request)

    node = ToolNode([ask], wrap_tool_call=review)
    calls = [ToolCall("ask", {}, "c1"), ToolCall("ask", {}, "c2")]
    graph = agent_of([calls, "done"], node, checkpointer=InMemorySaver())
    one, other = runner.invoke(graph, said("go"), config)["__interrupt__"]
    (inner,) = runner.invoke(graph, Command(resume={one.id: "yes", other.id: "no"}), config)["__interrupt__"]
    assert (inner.value, ran) == ("tool?", [])
    assert results(runner.invoke(graph, Command(resume=json.dumps(1)), config)) == ["tool 1", "kept"]
    assert ran == ["tool"]


@pytest.mark.parametrize("option", ["wrap_tool_call", "awrap_tool_call"])
def test_what_cannot_wrap(option: str) -> None:
    with pytest.raises(TypeError, match=option):
        ToolNode([add], **{option: 5})  # type: ignore[arg-type]
