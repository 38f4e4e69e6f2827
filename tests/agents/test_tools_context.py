"""What a tool is told of its call, and how it asks: in any graph, without an agent."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from graphkit import interrupt
from graphkit.errors import InvalidResponseError, UnserializableStateError
from graphkit.tools import tool
from graphkit.types import RunnableConfig
from graphkit.types.tools import AgentTool, ToolContext, ToolResult, ToolUse
from graphkit_prebuilt.loop.steps import awaited, blocking
from graphkit_prebuilt.tools.tool import run_tool
from tests.conftest import EMPTY, Build, Graph, Runner, State, response

BuildWith = Callable[..., Graph]


@pytest.fixture
def graph_with(build: Build, runner: Runner) -> BuildWith:
    """A graph with a node that calls these tools, one after the other, and logs their results."""

    def graph_with(*tools: AgentTool) -> Graph:
        calls = [
            (ToolUse(toolUseId=f"t{number}", name=each.tool_name, input={"path": "a"}), each)
            for number, each in enumerate(tools)
        ]

        def node(state: State) -> State:
            return {"log": [blocking(run_tool(each, use))[0] for use, each in calls]}

        async def anode(state: State) -> State:
            return {"log": [(await awaited(run_tool(each, use)))[0] for use, each in calls]}

        return build({"tools": node if runner.colour == "sync" else anode})

    return graph_with


def texts(results: list[ToolResult]) -> list[str]:
    return [block["text"] for result in results for block in result["content"]]


# --- What it is told --------------------------------------------------------------------------------------


def test_a_context_is_a_plain_object() -> None:
    use = ToolUse(toolUseId="t1", name="x", input={})
    state: dict[str, Any] = {}
    signal = threading.Event()
    context = ToolContext(use, "the agent", state, signal)
    assert context.tool_use is use
    assert (context.agent, context.invocation_state) == ("the agent", state)
    assert context.invocation_state is state
    assert context.cancel_signal is signal
    alone = ToolContext(tool_use=use)
    assert (alone.agent, alone.invocation_state, alone.cancel_signal.is_set()) == (None, {}, False)


def test_a_call_can_be_read_and_written_like_an_object() -> None:
    use = ToolUse(toolUseId="t1", name="x", input={"a": 1})
    assert (use.toolUseId, use.tool_use_id, use.name, use.input) == ("t1", "t1", "x", {"a": 1})
    use.toolUseId, use.name, use.input = "t2", "y", {}
    assert use == {"toolUseId": "t2", "name": "y", "input": {}}


def test_a_tool_gets_the_context_of_its_call(runner: Runner, graph_with: BuildWith) -> None:
    @tool(context=True)
    def one(path: str, tool_context: ToolContext) -> str:
        return f"{tool_context.tool_use['toolUseId']} {tool_context.agent}"

    @tool(context="told")
    async def two(path: str, told: Any, agent: Any = "nobody") -> str:
        return f"{told.tool_use['input']} {agent}"

    result = runner.invoke(graph_with(one, two), EMPTY, {"configurable": {"thread_id": "t"}})
    assert texts(result["log"]) == ["t0 None", "{'path': 'a'} None"]


# --- How it asks ------------------------------------------------------------------------------------------


@tool(context=True)
def asks(path: str, tool_context: ToolContext) -> str:
    """Ask."""
    return f"{path}: {tool_context.interrupt('approval', reason={'path': path})}"


@tool(context=True)
async def async_asks(path: str, tool_context: ToolContext) -> str:
    """Ask."""
    return f"{path}: {tool_context.interrupt('approval', reason={'path': path})}"


@tool(context=True)
def stepwise_asks(path: str, tool_context: ToolContext) -> Iterator[str]:
    """Ask between two steps."""
    yield "progress"
    yield f"{path}: {tool_context.interrupt('approval', reason={'path': path})}"


@tool(context=True)
async def async_stepwise_asks(path: str, tool_context: ToolContext) -> AsyncIterator[str]:
    """Ask between two steps."""
    yield "progress"
    yield f"{path}: {tool_context.interrupt('approval', reason={'path': path})}"


@tool
def plainly_asks(path: str) -> str:
    """Ask as nodes do."""
    return f"{path}: {interrupt({'path': path}, name='approval')}"


@tool(context=True, timeout=60)
def asks_in_time(path: str, tool_context: ToolContext) -> str:
    """Ask within a time."""
    return f"{path}: {tool_context.interrupt('approval', reason={'path': path})}"


@tool(context=True)
def cannot_swallow(path: str, tool_context: ToolContext) -> str:
    """Ask where everything is caught."""
    try:
        return f"{path}: {tool_context.interrupt('approval', reason={'path': path})}"
    except Exception:
        return "swallowed"


ASKING = [asks, async_asks, stepwise_asks, async_stepwise_asks, plainly_asks, asks_in_time, cannot_swallow]


@pytest.mark.parametrize("asking", ASKING, ids=lambda made: made.tool_name)
def test_every_kind_of_tool_asks_and_gets_its_answer(
    asking: AgentTool, runner: Runner, graph_with: BuildWith, config: RunnableConfig
) -> None:
    graph = graph_with(asking)
    (question,) = runner.run(graph, EMPTY, config).interrupts
    assert (question.name, question.reason) == ("approval", {"path": "a"})
    assert texts(runner.invoke(graph, [response(question, "yes")], config)["log"]) == ["a: yes"]


@pytest.mark.parametrize("answer", [False, "", 0, None, {"a": [1]}])
def test_every_answer_is_one(
    answer: Any, runner: Runner, graph_with: BuildWith, config: RunnableConfig
) -> None:
    got: list[Any] = []

    @tool(context=True)
    def ask(path: str, tool_context: ToolContext) -> None:
        got.append(tool_context.interrupt("name"))

    graph = graph_with(ask)
    (question,) = runner.run(graph, EMPTY, config).interrupts
    runner.invoke(graph, [response(question, answer)], config)
    assert got == [answer]


def test_one_tool_asks_again_and_again(runner: Runner, graph_with: BuildWith, config: RunnableConfig) -> None:
    ran = []

    @tool(context=True)
    def ask(path: str, tool_context: ToolContext) -> list[str]:
        ran.append(path)
        return [tool_context.interrupt(name) for name in ("first", "second")]

    graph = graph_with(ask)
    (first,) = runner.run(graph, EMPTY, config).interrupts
    (second,) = runner.run(graph, [response(first, 1)], config).interrupts
    assert (first.name, second.name) == ("first", "second")
    assert texts(runner.invoke(graph, [response(second, 2)], config)["log"]) == ["[1, 2]"]
    assert len(ran) == 3


def test_one_name_in_two_calls_is_two_questions(
    runner: Runner, graph_with: BuildWith, config: RunnableConfig
) -> None:
    graph = graph_with(asks, async_asks)
    (first,) = runner.run(graph, EMPTY, config).interrupts
    (second,) = runner.run(graph, [response(first, "1")], config).interrupts
    assert first.name == second.name and first.id != second.id
    assert texts(runner.invoke(graph, [response(second, "2")], config)["log"]) == ["a: 1", "a: 2"]


def test_one_name_twice_in_a_call_is_an_error_for_the_model(
    runner: Runner, graph_with: BuildWith, config: RunnableConfig
) -> None:
    @tool(context=True)
    def ask(path: str, tool_context: ToolContext) -> list[str]:
        return [tool_context.interrupt("same"), tool_context.interrupt("same")]

    graph = graph_with(ask)
    (question,) = runner.run(graph, EMPTY, config).interrupts
    (result,) = runner.invoke(graph, [response(question, 1)], config)["log"]
    assert result["status"] == "error"
    assert "a question named 'same' was asked already" in texts([result])[0]


def test_a_response_that_is_there_asks_nobody(
    runner: Runner, graph_with: BuildWith, config: RunnableConfig
) -> None:
    @tool(context=True)
    def ask(path: str, tool_context: ToolContext) -> str:
        answer: str = tool_context.interrupt("name", reason="?", response="given")
        return answer

    assert texts(runner.invoke(graph_with(ask), EMPTY, config)["log"]) == ["given"]


def test_an_answer_is_checked_by_its_schema(
    runner: Runner, graph_with: BuildWith, config: RunnableConfig
) -> None:
    schema = {"type": "integer"}

    @tool(context=True)
    def ask(path: str, tool_context: ToolContext) -> int:
        answer: int = tool_context.interrupt("name", response_schema=schema)
        return answer

    graph = graph_with(ask)
    (question,) = runner.run(graph, EMPTY, config).interrupts
    assert question.response_schema == schema
    with pytest.raises(InvalidResponseError):
        runner.invoke(graph, [response(question, "no number")], config)
    assert texts(runner.invoke(graph, [response(question, 5)], config)["log"]) == ["5"]


@pytest.mark.parametrize("reason", [object(), {1}, b"x", [float], {"a": {(1, 2): 3}}])
def test_a_reason_is_json(reason: Any, runner: Runner, graph_with: BuildWith, config: RunnableConfig) -> None:
    errors: list[Exception] = []

    @tool(context=True)
    def ask(path: str, tool_context: ToolContext) -> None:
        try:
            tool_context.interrupt("name", reason=reason)
        except UnserializableStateError as error:
            errors.append(error)
            raise

    (result,) = runner.invoke(graph_with(ask), EMPTY, config)["log"]
    assert result["status"] == "error"
    assert "'name'" in str(errors[0])


def test_a_tool_outside_of_a_run_can_ask_nobody() -> None:
    result, error = blocking(run_tool(asks, {"toolUseId": "t1", "name": "asks", "input": {"path": "a"}}))
    assert result["status"] == "error"
    assert isinstance(error, RuntimeError)
    assert "outside of a graph run" in texts([result])[0]
