"""Nodes on an executor of the caller's: what crosses is one function and its arguments, so even processes do."""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from multiprocessing import get_context
from typing import Annotated, Any, TypedDict

import pytest

from graphkit import START, Command, Send, StateGraph, interrupt
from graphkit.types import RunnableConfig


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    pids: Annotated[list[int], operator.add]
    number: int


def count(state: State) -> State:
    return {"number": 3, "pids": [os.getpid()]}


def spread(state: State) -> list[Send]:
    return [Send("square", {"number": number}) for number in range(state["number"])]


def square(state: State) -> State:
    number = state["number"]
    answer = interrupt(f"is {number} right?") if number == 2 else number
    return {"log": [answer**2], "pids": [os.getpid()]}


def builder() -> StateGraph[State]:
    graph = StateGraph(State).add_node(count).add_node(square).add_edge(START, "count")
    return graph.add_conditional_edges("count", spread, ["square"])


@pytest.fixture(scope="module")
def processes() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        yield pool


def test_nodes_run_in_other_processes_and_ask_there(
    runner: Any, saver: Any, config: RunnableConfig, processes: Executor
) -> None:
    graph = builder().compile(checkpointer=saver)
    paused = runner.run(graph, {"log": []}, config, executor=processes)
    assert [question.value for question in paused.interrupts] == ["is 2 right?"]
    done = runner.run(graph, Command(resume=5), config, executor=processes)
    assert done.value["log"] == [0, 1, 25]
    assert os.getpid() not in done.value["pids"]


def test_who_listens_stays_in_his_process(processes: Executor) -> None:
    """What hears of a run holds locks and connections as a rule."""
    callbacks = pytest.importorskip("langchain_core.callbacks")

    class Handler(callbacks.BaseCallbackHandler):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            self.lock = threading.Lock()
            self.starts: list[Any] = []

        def on_chain_start(self, *given: Any, name: str = "", **more: Any) -> None:
            self.starts.append(name)

    handler = Handler()
    graph = StateGraph(State).add_node(count).add_edge(START, "count").compile()
    done = graph.invoke({"log": []}, {"callbacks": [handler]}, executor=processes)
    assert (done["number"], handler.starts) == (3, ["LangGraph"])


class Recording(Executor):
    """Runs what it is given in the caller's thread, and keeps it."""

    def __init__(self) -> None:
        self.given: list[Any] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.given.append((fn, args, kwargs))
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def test_every_attempt_crosses_as_the_same_function(runner: Any, config: RunnableConfig) -> None:
    pool = Recording()
    runner.invoke(builder().compile(executor=pool), {"log": []})
    assert len(pool.given) == 4
    assert {fn.__name__ for fn, _, _ in pool.given} == {"execute"}
    assert all(len(args) == 1 and not kwargs for _, args, kwargs in pool.given)
