"""`batch` and `abatch`: several runs of one graph, side by side."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from graphkit import START, StateGraph
from graphkit.checkpoint.memory import InMemorySaver
from graphkit.types import RunnableConfig
from tests.conftest import State

Batch = Callable[..., list[Any]]


@pytest.fixture(params=["sync", "async"])
def batch(request: pytest.FixtureRequest) -> Batch:
    if request.param == "sync":
        return lambda graph, *given, **options: graph.batch(*given, **options)
    return lambda graph, *given, **options: asyncio.run(graph.abatch(*given, **options))


def graph_of(node: Any, **options: Any) -> Any:
    return StateGraph(State).add_node("node", node).add_edge(START, "node").compile(**options)


def inputs(*words: Any) -> list[State]:
    return [{"log": [word]} for word in words]


def test_results_have_the_order_of_the_inputs_and_runs_are_side_by_side(batch: Batch) -> None:
    together = threading.Barrier(3)

    def node(state: State) -> State:
        together.wait(10)
        return {"log": [state["log"][0] * 2]}

    found = batch(graph_of(node), inputs(1, 2, 3))
    assert found == [{"log": [1, 2]}, {"log": [2, 4]}, {"log": [3, 6]}]
    assert batch(graph_of(node), []) == []


def test_one_config_for_all_or_one_for_each(batch: Batch) -> None:
    def node(state: State, config: RunnableConfig) -> State:
        return {"log": [config["configurable"]["user"]]}

    graph = graph_of(node, checkpointer=InMemorySaver())
    configs = [{"configurable": {"thread_id": name, "user": name}} for name in ("ada", "bob")]
    assert batch(graph, inputs(1, 2), configs) == [{"log": [1, "ada"]}, {"log": [2, "bob"]}]
    assert graph.get_state(configs[1]).values == {"log": [2, "bob"]}
    shown = batch(graph_of(node), inputs(1), {"configurable": {"user": "eve"}}, stream_mode="updates")
    assert shown == [[{"node": {"log": ["eve"]}}]]
    with pytest.raises(ValueError, match="1 inputs were given, and 2 configs"):
        batch(graph, inputs(1), configs)


def test_as_many_run_at_a_time_as_the_config_allows(batch: Batch) -> None:
    running: list[int] = []

    def node(state: State) -> State:
        running.append(1)
        assert sum(running) == 1
        running.append(-1)
        return {"log": []}

    assert len(batch(graph_of(node), inputs(*range(20)), {"max_concurrency": 1})) == 20


def test_an_error_comes_when_all_have_ended_or_in_the_place_of_a_result(batch: Batch) -> None:
    ran: list[Any] = []

    def node(state: State) -> State:
        ran.append(state["log"][0])
        if state["log"][0] < 0:
            raise ValueError(state["log"][0])
        return {"log": ["fine"]}

    graph = graph_of(node)
    with pytest.raises(ValueError, match="-1"):
        batch(graph, inputs(-1, 2, -3))
    assert sorted(ran) == [-3, -1, 2]
    first, second, third = batch(graph, inputs(-1, 2, -3), return_exceptions=True)
    assert (str(first), second, str(third)) == ("-1", {"log": [2, "fine"]}, "-3")


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_starts_no_more_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Any] = []
    gate, shut_down = threading.Event(), ThreadPoolExecutor.shutdown

    def shutdown(pool: ThreadPoolExecutor, wait: bool = True, *, cancel_futures: bool = False) -> None:
        shut_down(pool, wait=False, cancel_futures=cancel_futures)
        gate.set()
        shut_down(pool, wait=wait)

    def node(state: State) -> State:
        ran.append(state["log"][0])
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        assert gate.wait(20)
        return {"log": []}

    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", shutdown)
    with pytest.raises(KeyboardInterrupt):
        graph_of(node).batch(inputs(1, 2, 3), {"max_concurrency": 1})
    assert ran == [1]
