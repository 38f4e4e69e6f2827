"""`on_conflict`: what a run does while another one has the thread."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from graphkit.errors import ConcurrentUpdateError
from graphkit.types import Command, RunnableConfig
from tests.conftest import EMPTY, Build, Graph, Reopen, Runner, Saver, asks, graph_of, says


class Gate:
    """A node that says when it has begun and ends when it is let through."""

    def __init__(self) -> None:
        self.entered, self.open = threading.Event(), threading.Event()

    def __call__(self, state: Any) -> Any:
        self.entered.set()
        assert self.open.wait(30)
        return {"log": ["slow"]}


def occupied(graph: Graph, gate: Gate, config: RunnableConfig) -> threading.Thread:
    """A run on the thread, in a thread of its own, that has begun."""
    run = threading.Thread(target=graph.invoke, args=(EMPTY, config))
    run.start()
    assert gate.entered.wait(30)
    return run


def test_a_run_can_wait_for_its_turn(
    runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig
) -> None:
    gate = Gate()
    first = occupied(graph_of({"slow": gate}, saver=saver), gate, config)
    opening = threading.Timer(0.05, gate.open.set)
    opening.start()
    quick = graph_of({"quick": says("quick")}, saver=reopen(saver), on_conflict="wait")
    assert runner.invoke(quick, EMPTY, config) == {"log": ["slow", "quick"]}
    first.join()


def test_patience_ends(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    gate = Gate()
    graph = graph_of({"slow": gate}, saver=saver)
    first = occupied(graph, gate, config)
    for options in ({}, {"on_conflict": "wait", "conflict_timeout": 0.02}):
        with pytest.raises(ConcurrentUpdateError, match=r"'t'.*owned"):
            runner.invoke(graph, EMPTY, config, **options)
    gate.open.set()
    first.join()
    assert runner.get_state(graph, config).values == {"log": ["slow"]}


def test_a_run_says_for_itself(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    gate = Gate()
    waiting = graph_of({"slow": gate}, saver=saver, on_conflict="wait", conflict_timeout=None)
    first = occupied(waiting, gate, config)
    with pytest.raises(ConcurrentUpdateError):
        runner.invoke(waiting, EMPTY, config, on_conflict="raise")
    with pytest.raises(ConcurrentUpdateError):
        runner.update_state(waiting, config, {"log": ["edit"]}, as_node="slow")
    gate.open.set()
    first.join()


def test_many_that_wait_all_get_their_turn(saver: Saver, build: Build, config: RunnableConfig) -> None:
    graph = build({"n": says("x")}, on_conflict="wait")
    runs = [threading.Thread(target=graph.invoke, args=(EMPTY, config)) for _ in range(8)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert graph.get_state(config).values == {"log": ["x"] * 8}


def test_a_waiting_answer_is_judged_when_its_turn_has_come(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    """Two give the same answer; the second waits, and then there is nothing left to do."""
    gate = Gate()
    graph = graph_of(
        {"ask": asks("sure?"), "slow": gate}, [("__start__", "ask"), ("ask", "slow")], saver=saver
    )
    (question,) = graph.invoke(EMPTY, config)["__interrupt__"]
    first = threading.Thread(target=graph.invoke, args=(Command(resume="yes"), config))
    first.start()
    assert gate.entered.wait(30)
    threading.Timer(0.05, gate.open.set).start()
    again: Any = Command(resume={question.id: "yes"})
    assert runner.invoke(graph, again, config, on_conflict="wait") == {"log": ["yes", "slow"]}
    first.join()


@pytest.mark.parametrize(
    "options",
    [
        {"on_conflict": "sometimes"},
        {"conflict_timeout": 0},
        {"conflict_timeout": "1"},
        {"conflict_timeout": True},
    ],
)
def test_the_options_are_checked(
    runner: Runner, saver: Saver, config: RunnableConfig, options: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        graph_of({"n": says("x")}, saver=saver, **options)
    with pytest.raises(ValueError, match=next(iter(options))):
        runner.invoke(graph_of({"n": says("x")}, saver=saver), EMPTY, config, **options)
