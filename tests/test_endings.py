"""An attempt ends when everything it started through us has ended; nothing runs on after its run."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from graphkit import START, Command, Send, interrupt
from graphkit.config import get_stream_writer
from graphkit.drivers.pools import WORKERS, pool_at
from graphkit.errors import NodeTimeoutError
from graphkit.types import RunnableConfig
from tests.conftest import EMPTY, Build, Runner, State, graph_of, in_a_row, questions, says

PATIENCE = 20
"""Seconds after which a wait gives up; reached only by a defect."""


class Witness:
    """Whether a coroutine that would run for ever was ended."""

    def __init__(self) -> None:
        self.began, self.cancelled = threading.Event(), threading.Event()

    async def node(self, state: State) -> State:
        get_stream_writer()("began")
        self.began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return {}

    def ended(self) -> bool:
        return self.cancelled.wait(PATIENCE)


@pytest.fixture
def witness() -> Witness:
    return Witness()


def take_one(runner: Runner, graph: Any, config: RunnableConfig) -> None:
    """Stream until the first value that a node writes, then stop."""
    if runner.colour == "sync":
        stream = graph.stream(EMPTY, config, stream_mode="custom")
        next(stream)
        stream.close()
        return

    async def through() -> None:
        stream = graph.astream(EMPTY, config, stream_mode="custom")
        await anext(stream)
        await stream.aclose()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(through())


@pytest.mark.parametrize("stored", [False, True])
def test_a_stream_that_stops_early_ends_what_runs(
    runner: Runner, build: Build, config: RunnableConfig, witness: Witness, stored: bool
) -> None:
    graph = build({"node": witness.node}) if stored else graph_of({"node": witness.node})
    take_one(runner, graph, config)
    assert witness.cancelled.is_set(), "when the stream is closed, its nodes have ended"


def test_what_waits_for_a_thread_is_never_begun(runner: Runner, config: RunnableConfig) -> None:
    begun: list[int] = []
    released = threading.Event()

    def node(number: int) -> State:
        begun.append(number)
        get_stream_writer()("began")
        assert released.wait(PATIENCE)
        return {}

    sends = [Send("node", number) for number in range(2 * WORKERS)]
    graph = graph_of(
        {"plan": lambda state: Command(goto=sends), "node": node},
        [(START, "plan")],
        node_options={"plan": {"destinations": ("node",)}},
    )
    take_one(runner, graph, config)
    released.set()
    pool, barrier = pool_at(0), threading.Barrier(WORKERS)
    for future in [pool.submit(barrier.wait, PATIENCE) for _ in range(WORKERS)]:
        future.result(PATIENCE)  # everybody is here: nobody is at work, and no work was before this
    assert 1 <= len(begun) <= WORKERS


@pytest.mark.parametrize("stored", [False, True])
def test_it_also_ends_what_a_nested_graph_runs_in_another_thread(
    runner: Runner, build: Build, config: RunnableConfig, witness: Witness, stored: bool
) -> None:
    child = graph_of({"node": witness.node})

    def tells(state: State) -> State:
        assert witness.began.wait(PATIENCE)
        get_stream_writer()("told")
        return {}

    def calls(state: State) -> State:
        child.invoke(EMPTY)
        return {}

    nodes = {"calls": calls, "tells": tells}
    take_one(runner, build(nodes) if stored else graph_of(nodes), config)
    assert witness.ended()


@pytest.mark.parametrize("depth", [1, 3])
def test_a_node_timeout_ends_the_graphs_inside(runner: Runner, witness: Witness, depth: int) -> None:
    graph = graph_of({"node": witness.node})
    for _ in range(depth):
        graph = graph_of({"calls": lambda state, graph=graph: graph.invoke(EMPTY)})
    for seconds in (0.05, 0.5, 5.0):
        slow = graph_of({"slow": graph.invoke}, node_options={"slow": {"timeout": seconds}})
        with pytest.raises(NodeTimeoutError):
            runner.invoke(slow, EMPTY)
        if witness.began.is_set():  # a slow machine takes longer to get there
            break
    assert witness.ended()


def test_a_graph_that_was_ended_starts_nothing_more(runner: Runner) -> None:
    ran: list[str] = []
    reached, released, ended = (threading.Event() for _ in range(3))

    def first(state: State) -> State:
        reached.set()
        assert released.wait(PATIENCE)
        return {}

    def second(state: State) -> State:
        ran.append("second")
        return {}

    child = graph_of({"first": first, "second": second}, in_a_row("first", "second"))

    def slow(state: State) -> State:
        try:
            return child.invoke(EMPTY)  # type: ignore[no-any-return]
        finally:
            ended.set()

    graph = graph_of({"slow": slow}, node_options={"slow": {"timeout": 0.05}})
    with pytest.raises(NodeTimeoutError):
        runner.invoke(graph, EMPTY)
    assert reached.is_set()
    released.set()
    assert ended.wait(PATIENCE)
    assert ran == []


def test_gathered_graphs_are_all_waited_for_and_all_questions_are_reported(
    build: Build, config: RunnableConfig
) -> None:
    async def scenario() -> None:
        asked = asyncio.Event()

        async def late(state: State) -> State:
            await asked.wait()
            for _ in range(20):
                await asyncio.sleep(0)
            return {"log": [interrupt("late")]}

        def quick(state: State) -> State:
            asked.set()
            return {"log": [interrupt("quick")]}

        graphs = [graph_of({"node": node}, name=node.__name__) for node in (quick, late)]

        async def node(state: State) -> State:
            results = await asyncio.gather(*(graph.ainvoke(EMPTY) for graph in graphs))
            return {"log": [result["log"] for result in results]}

        graph = build({"node": node})
        result = await graph.ainvoke(EMPTY, config)
        assert asyncio.all_tasks() == {asyncio.current_task()}, "nothing runs on after the run has returned"
        assert list(questions(result)) == ["quick", "late"]
        answers = {question.id: question.value.upper() for question in result["__interrupt__"]}
        result = await graph.ainvoke(Command(resume=answers), config)
        assert result == {"log": [["QUICK"], ["LATE"]]}

    asyncio.run(scenario())


def test_graphs_called_in_threads_are_waited_for(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    asked = threading.Event()

    def late(state: State) -> State:
        assert asked.wait(PATIENCE)
        return {"log": [interrupt("late")]}

    child = graph_of({"late": late})
    pool = concurrent.futures.ThreadPoolExecutor()

    def node(state: State) -> State:
        began = threading.Event()
        context = contextvars.copy_context()

        def call() -> None:
            began.set()
            child.invoke(EMPTY)

        pool.submit(context.run, call)
        assert began.wait(PATIENCE)
        while not _inside(context):
            pass
        asked.set()
        interrupt("own")
        return {}

    result = runner.invoke(build({"node": node}), EMPTY, config)
    assert list(questions(result)) == ["own", "late"]
    pool.shutdown()


def _inside(context: contextvars.Context) -> bool:
    from graphkit.frame import current

    frame = context[current]
    return frame is not None and bool(frame.inside)


def test_a_node_that_does_not_wait_for_its_graph_is_waited_for() -> None:
    ran: list[str] = []

    async def scenario() -> None:
        async def slow(state: State) -> State:
            for _ in range(20):
                await asyncio.sleep(0)
            ran.append("slow")
            return {}

        child = graph_of({"slow": slow})
        tasks: list[Any] = []

        async def node(state: State) -> State:
            tasks.append(asyncio.create_task(child.ainvoke(EMPTY)))
            await asyncio.sleep(0)
            return {"log": ["left"]}

        assert await graph_of({"node": node}).ainvoke(EMPTY) == {"log": ["left"]}
        assert ran == ["slow"]
        await tasks[0]

    asyncio.run(scenario())


@pytest.mark.parametrize("fails", [False, True])
def test_a_stream_that_a_node_leaves_open_ends_with_it(runner: Runner, witness: Witness, fails: bool) -> None:
    child = graph_of({"node": witness.node, "other": says("x")})
    left: list[Any] = []

    def node(state: State) -> State:
        left.append(child.stream(EMPTY, stream_mode="custom"))
        next(left[0])
        if fails:
            raise ValueError("on purpose")
        return {"log": ["done"]}

    graph = graph_of({"node": node})
    if fails:
        with pytest.raises(ValueError, match="on purpose"):
            runner.invoke(graph, EMPTY)
    else:
        assert runner.invoke(graph, EMPTY) == {"log": ["done"]}
    assert witness.ended()


def test_an_async_stream_that_a_node_leaves_open_ends_with_it(witness: Witness) -> None:
    child = graph_of({"node": witness.node, "other": says("x")})
    left: list[Any] = []

    async def node(state: State) -> State:
        left.append(child.astream(EMPTY, stream_mode="custom"))
        await anext(left[0])
        return {"log": ["done"]}

    async def scenario() -> None:
        assert await graph_of({"node": node}).ainvoke(EMPTY) == {"log": ["done"]}
        assert witness.cancelled.is_set()
        await left[0].aclose()

    asyncio.run(scenario())


def test_an_interrupted_caller_ends_what_runs_in_threads(witness: Witness) -> None:
    """Cancelling `ainvoke` reaches a graph that a blocking node runs in its thread."""
    child = graph_of({"node": witness.node})

    async def scenario() -> None:
        call: Callable[..., Any] = child.invoke
        graph = graph_of({"node": lambda state: call(EMPTY), "other": says("x")})
        running = asyncio.create_task(graph.ainvoke(EMPTY))
        while not witness.began.is_set():
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(scenario())
    assert witness.ended()


LEFT_OPEN = """
import asyncio
from graphkit import START, StateGraph

left = []

async def connected():
    try:
        yield
    finally:
        await asyncio.sleep(0)
        print("closed")

async def node(state):
    left.append(connected())
    await anext(left[0])

StateGraph(dict).add_node(node).add_edge(START, "node").compile().invoke({})
print("done")
"""


def test_what_sync_runs_leave_open_is_closed_when_the_process_ends() -> None:
    """As at the end of `asyncio.run`: clients of models and the like are async generators between two runs."""
    program = [sys.executable, "-X", "dev", "-c", LEFT_OPEN]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert (ended.stdout, ended.stderr) == ("done\nclosed\n", "")
