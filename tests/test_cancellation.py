"""Cancellation: whose it was decides what it means, and it leaves nothing behind."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from typing import Any

import pytest

from graphkit.drivers.loops import standing_loop, submit_to_loop
from graphkit.errors import NodeCancelledError, NodeError
from graphkit.types import RetryPolicy, RunnableConfig
from graphkit_checkpoint.sql import SqlSaver
from tests.conftest import EMPTY, Build, Runner, Saver, State, graph_of, in_a_row, says
from tests.safety.test_cancelled import Held, held

PATIENCE = 20.0


async def raises(state: State) -> State:
    raise asyncio.CancelledError


def raises_blocking(state: State) -> State:
    raise asyncio.CancelledError


async def awaits_what_it_cancelled(state: State) -> State:
    inner = asyncio.create_task(asyncio.Event().wait())
    inner.cancel()
    await inner
    return {}


OWN = pytest.mark.parametrize(
    "node", [raises, raises_blocking, awaits_what_it_cancelled], ids=lambda node: node.__name__
)


# A node's own


@OWN
@pytest.mark.parametrize("alone", [True, False])
def test_a_node_that_raises_a_cancellation_has_failed(
    runner: Runner, saver: Saver, config: RunnableConfig, node: Callable[..., Any], alone: bool
) -> None:
    nodes = {"node": node} if alone else {"node": node, "sibling": says("s")}
    graph = graph_of(nodes, saver=saver)
    with pytest.raises(NodeCancelledError, match="'node'") as caught:
        runner.invoke(graph, EMPTY, config)
    assert caught.value.node == "node"
    assert isinstance(caught.value.__cause__, asyncio.CancelledError)
    state = runner.get_state(graph, config)
    assert state.next == ("node",)
    assert runner.invoke(graph_of({"node": says("mended"), "sibling": says("s")}, saver=saver), None, config)


@OWN
def test_it_reaches_the_error_handler(runner: Runner, node: Callable[..., Any]) -> None:
    def handler(state: State, error: NodeError) -> State:
        return {"log": [type(error.error).__name__]}

    graph = graph_of({"node": node}, node_options={"node": {"error_handler": handler}})
    assert runner.invoke(graph, EMPTY)["log"] == ["NodeCancelledError"]


@OWN
def test_it_is_not_tried_again_unless_asked_for(runner: Runner, node: Callable[..., Any]) -> None:
    runs: list[str] = []

    async def counted(state: State) -> Any:
        runs.append("run")
        result = node(state)
        return await result if asyncio.iscoroutine(result) else result

    for policy, count in [
        (RetryPolicy(initial_interval=0), 1),
        (RetryPolicy(initial_interval=0, jitter=False, retry_on=NodeCancelledError), 3),
    ]:
        runs.clear()
        with pytest.raises(NodeCancelledError):
            runner.invoke(graph_of({"node": counted}, node_options={"node": {"retry_policy": policy}}), EMPTY)
        assert len(runs) == count


@OWN
def test_in_a_nested_graph_it_is_named_where_it_was(runner: Runner, node: Callable[..., Any]) -> None:
    with pytest.raises(NodeCancelledError) as caught:
        runner.invoke(graph_of({"outer": graph_of({"node": node})}), EMPTY)
    assert caught.value.node == "node"


# The caller's


class Waiting:
    """A node that is inside until it is cancelled, or let go."""

    def __init__(self) -> None:
        self.inside = threading.Event()
        self.cancelled = threading.Event()
        self.let_go = threading.Event()

    async def node(self, state: State) -> State:
        self.inside.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return {}

    def blocking(self, state: State) -> State:
        self.inside.set()
        self.let_go.wait()
        return {"log": ["late"]}


@pytest.fixture
def waiting() -> Iterator[Waiting]:
    waiting = Waiting()
    yield waiting
    waiting.let_go.set()


async def cancel_inside(graph: Any, waiting: Waiting, config: RunnableConfig) -> None:
    run = asyncio.create_task(graph.ainvoke(EMPTY, config))
    await asyncio.to_thread(waiting.inside.wait, PATIENCE)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run


@pytest.mark.parametrize("siblings", [0, 2])
@pytest.mark.parametrize("nested", [False, True])
def test_cancelling_a_run_cancels_its_nodes_and_frees_the_thread(
    build: Build, config: RunnableConfig, waiting: Waiting, siblings: int, nested: bool
) -> None:
    inner = graph_of({"waiting": waiting.node}) if nested else waiting.node
    nodes = {"in": inner, **{f"s{n}": says(n) for n in range(siblings)}}
    graph = build(nodes)

    async def through() -> Any:
        await cancel_inside(graph, waiting, config)
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        free = await graph.aupdate_state(config, {"log": ["free"]}, as_node="in")
        return left, free

    left, free = asyncio.run(through())
    assert waiting.cancelled.is_set()
    assert left == []
    assert free


@pytest.mark.parametrize("nested", [False, True])
def test_without_a_saver_too(waiting: Waiting, config: RunnableConfig, nested: bool) -> None:
    inner = graph_of({"waiting": waiting.node}) if nested else waiting.node

    async def through() -> Any:
        await cancel_inside(graph_of({"in": inner, "s": says("s")}), waiting, config)
        return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    assert asyncio.run(through()) == []
    assert waiting.cancelled.is_set()


def test_a_blocking_node_does_not_hold_a_caller_who_is_cancelled(
    build: Build, config: RunnableConfig, waiting: Waiting
) -> None:
    graph = build({"in": waiting.blocking})
    asyncio.run(cancel_inside(graph, waiting, config))
    assert not waiting.let_go.is_set()


def test_a_timeout_around_a_run_is_the_callers(runner: Runner, waiting: Waiting) -> None:
    async def end_once_inside(limit: asyncio.Timeout) -> None:
        await asyncio.to_thread(waiting.inside.wait, PATIENCE)
        limit.reschedule(asyncio.get_running_loop().time())

    async def through() -> None:
        async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as group:
            group.create_task(end_once_inside(limit))
            await graph_of({"in": waiting.node}).ainvoke(EMPTY)

    with pytest.raises(TimeoutError):
        asyncio.run(through())
    assert waiting.cancelled.is_set()


def test_a_cancelled_run_goes_on_where_it_was(
    runner: Runner, build: Build, config: RunnableConfig, waiting: Waiting
) -> None:
    nodes: dict[str, Any] = {"a": says("a"), "in": waiting.node}
    asyncio.run(cancel_inside(build(nodes, in_a_row("a", "in")), waiting, config))
    graph = build({**nodes, "in": says("b")}, in_a_row("a", "in"))
    assert runner.invoke(graph, None, config)["log"] == ["a", "b"]


def test_a_thousand_cancelled_runs_leave_nothing_behind(saver: Saver) -> None:
    """In one process; tests/safety has the same for blocking nodes, in processes of their own."""
    inside: asyncio.Queue[None] = asyncio.Queue()

    async def node(state: State) -> State:
        inside.put_nowait(None)
        await asyncio.Event().wait()
        return {}

    graph = graph_of({"in": node}, saver=saver)

    async def cancel(numbers: range) -> None:
        runs = [asyncio.create_task(graph.ainvoke(EMPTY, thread(number))) for number in numbers]
        for _ in runs:
            await inside.get()
        for run in runs:
            run.cancel()
        ended = await asyncio.gather(*runs, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ended)

    def thread(number: int) -> RunnableConfig:
        return {"configurable": {"thread_id": str(number)}}

    def count() -> Held:
        """What is held beside connections, of which a pool keeps more or fewer."""
        if isinstance(saver, SqlSaver):
            saver.let_go()
            saver.engine.dispose()
        return held()

    async def through() -> None:
        await cancel(range(100))
        before = count()
        for first in range(100, 1100, 100):
            await cancel(range(first, first + 100))
        assert [max(0, now - then) for now, then in zip(count(), before, strict=True)] == [0, 0, 0]

    asyncio.run(through())


def test_a_coroutine_that_is_cancelled_before_it_starts_is_closed() -> None:
    """On a busy machine a node's time may be over before its loop comes to it."""

    async def work() -> None:
        raise AssertionError("started")

    gate, coroutine = threading.Event(), work()
    standing_loop(0).loop.call_soon_threadsafe(gate.wait)
    future = submit_to_loop(coroutine, 0)
    future.stop()
    gate.set()
    wait([future], PATIENCE)
    assert isinstance(future.exception(), asyncio.CancelledError)
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED
