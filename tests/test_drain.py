"""Draining: a run that is asked to stop does so between two supersteps, and is gone on with later."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

import graphkit
from graphkit import Command, StateGraph, interrupt
from graphkit.checkpoint.memory import InMemorySaver
from graphkit.errors import GraphBubbleUp, GraphDrained, GraphkitError, GraphRecursionError
from graphkit.graph import START
from graphkit.runtime import RunControl, Runtime, get_runtime
from graphkit.types import RunnableConfig
from tests.conftest import EMPTY, Build, Runner, Saver, State, asks, graph_of, in_a_row, says

PATIENCE = 20.0


def drains(word: str, reason: str = "stop") -> Callable[[State], State]:
    """A node that asks its own run to drain."""

    def drain(state: State) -> State:
        control = get_runtime().control
        assert control is not None
        control.request_drain(reason)
        return {"log": [word]}

    return drain


def drains_once(word: str, control: list[RunControl]) -> Callable[[State], State]:
    """A node that uses the control it is lent; a run without one is left alone."""

    def drain(state: State) -> State:
        if control:
            control.pop().request_drain()
        return {"log": [word]}

    return drain


# The control


def test_a_control_is_a_name_of_both_modules() -> None:
    assert graphkit.RunControl is RunControl


def test_a_control_remembers_the_reason() -> None:
    control = RunControl()
    assert (control.drain_requested, control.drain_reason) == (False, None)
    control.request_drain()
    assert (control.drain_requested, control.drain_reason) == (True, "shutdown")


def test_a_drained_run_is_an_error_of_ours_and_bubbles_up() -> None:
    error = GraphDrained("deploy")
    assert error.reason == "deploy"
    assert isinstance(error, (GraphkitError, GraphBubbleUp)) and isinstance(error, RuntimeError)


@pytest.mark.parametrize("control", [True, "stop", object()])
def test_what_is_no_control_is_refused(runner: Runner, control: Any) -> None:
    with pytest.raises(TypeError, match="RunControl"):
        runner.invoke(graph_of({"a": says("a")}), EMPTY, control=control)


# Stopping and going on


def test_a_drained_run_stops_after_its_superstep_and_goes_on_later(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    control = RunControl()
    lent = [control]
    nodes = {"a": says("a"), "b": drains_once("b", lent), "c": says("c")}
    graph = graph_of(nodes, in_a_row("a", "b", "c"), saver=saver)
    with pytest.raises(GraphDrained, match="shutdown") as caught:
        runner.invoke(graph, EMPTY, config, control=control)
    assert caught.value.reason == "shutdown"
    state = runner.get_state(graph, config)
    assert (state.values, state.next, state.interrupts) == ({"log": ["a", "b"]}, ("c",), ())
    assert runner.invoke(graph, None, config, control=RunControl()) == {"log": ["a", "b", "c"]}


def test_run_tells_of_a_drained_run_by_its_status(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    control = RunControl()
    graph = graph_of({"a": drains_once("a", [control]), "b": says("b")}, in_a_row("a", "b"), saver=saver)
    result = runner.run(graph, EMPTY, config, control=control)
    assert (result.status, result.value, result.next) == ("drained", {"log": ["a"]}, ("b",))
    assert runner.run(graph, None, result.config).status == "completed"


def test_a_stream_shows_what_was_done_and_raises(runner: Runner) -> None:
    graph = graph_of({"a": drains("a"), "b": says("b")}, in_a_row("a", "b"))
    shown: list[Any] = []
    show = shown.append

    async def through() -> None:
        async for chunk in graph.astream(EMPTY):
            show(chunk)

    with pytest.raises(GraphDrained):
        if runner.colour == "async":
            asyncio.run(through())
        else:
            for chunk in graph.stream(EMPTY):
                show(chunk)
    assert shown == [{"a": {"log": ["a"]}}]


def test_a_control_that_was_used_stops_a_run_before_its_first_node(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    control = RunControl()
    control.request_drain()
    graph = graph_of({"a": says("a")}, saver=saver)
    assert runner.run(graph, EMPTY, config, control=control).status == "drained"
    assert runner.get_state(graph, config).next == ("a",)
    assert runner.run(graph, None, config, control=control).status == "drained"
    assert runner.invoke(graph, None, config) == {"log": ["a"]}


def test_a_conditional_entry_is_gone_on_with(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    control = RunControl()
    control.request_drain()
    graph = graph_of({"a": says("a")}, [(START, lambda state: "a", ["a"])], saver=saver)
    assert runner.run(graph, EMPTY, config, control=control).status == "drained"
    assert runner.invoke(graph, None, config) == {"log": ["a"]}


def test_a_node_asks_its_own_run_to_drain(runner: Runner) -> None:
    graph = graph_of({"a": drains("a", "enough"), "b": says("b")}, in_a_row("a", "b"))
    with pytest.raises(GraphDrained, match="enough"):
        runner.invoke(graph, EMPTY)
    assert runner.run(graph, EMPTY).status == "drained"


def test_a_run_that_has_finished_is_not_drained(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    graph = graph_of({"a": drains("a")}, saver=saver)
    assert runner.invoke(graph, EMPTY, config) == {"log": ["a"]}


def test_all_tasks_of_the_superstep_finish(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    drained = threading.Event()

    def slow(state: State) -> State:
        assert drained.wait(PATIENCE)
        return {"log": ["slow"]}

    def quick(state: State, runtime: Runtime[Any]) -> State:
        assert runtime.control is not None
        runtime.control.request_drain()
        drained.set()
        return {"log": ["quick"]}

    builder = StateGraph(State).add_node("quick", quick).add_node("slow", slow).add_node("last", says("last"))
    builder.add_edge(START, "quick").add_edge(START, "slow").add_edge(["quick", "slow"], "last")
    graph = builder.compile(checkpointer=saver)
    limits: RunnableConfig = {**config, "max_concurrency": 1} if runner.colour == "sync" else config
    result = runner.run(graph, EMPTY, limits)
    assert (result.status, result.value["log"], result.next) == ("drained", ["quick", "slow"], ("last",))


def test_a_node_sees_that_its_run_is_to_drain(runner: Runner) -> None:
    seen: list[Any] = []

    def look(state: State, runtime: Runtime[Any]) -> State:
        seen.append((runtime.drain_requested, runtime.drain_reason))
        assert runtime.control is control
        control.request_drain("now")
        seen.append((runtime.drain_requested, runtime.drain_reason))
        return {}

    control = RunControl()
    runner.invoke(graph_of({"look": look}), EMPTY, control=control)
    assert seen == [(False, None), (True, "now")]


def test_a_drain_costs_no_commit_of_its_own(runner: Runner, config: RunnableConfig) -> None:
    class Counting(InMemorySaver):
        commits = 0

        def commit(self, commit: Any) -> Any:
            self.commits += 1
            return super().commit(commit)

    saver = Counting()
    graph = graph_of({"a": drains("a"), "b": says("b")}, in_a_row("a", "b"), saver=saver)
    assert runner.run(graph, EMPTY, config).status == "drained"
    assert saver.commits == 2


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_everything_is_committed_whatever_the_durability(
    runner: Runner, saver: Saver, config: RunnableConfig, durability: Any
) -> None:
    control = RunControl()
    nodes = {"a": says("a"), "b": drains_once("b", [control]), "c": says("c")}
    graph = graph_of(nodes, in_a_row("a", "b", "c"), saver=saver)
    assert runner.run(graph, EMPTY, config, control=control, durability=durability).status == "drained"
    state = runner.get_state(graph, config)
    assert (state.values, state.next) == ({"log": ["a", "b"]}, ("c",))


# Beside other reasons to stop


def test_an_open_question_comes_first(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    control = RunControl()
    graph = graph_of({"asks": asks("sure?"), "drains": drains_once("d", [control])}, saver=saver)
    result = runner.run(graph, EMPTY, config, control=control)
    assert result.status == "interrupted"
    assert runner.invoke(graph, Command(resume="yes"), config)["log"] == ["yes", "d"]


def test_a_breakpoint_comes_first(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    control = RunControl()
    nodes = {"a": drains_once("a", [control]), "b": says("b")}
    graph = graph_of(nodes, in_a_row("a", "b"), saver=saver, interrupt_before=["b"])
    assert runner.run(graph, EMPTY, config, control=control).status == "paused"
    assert runner.run(graph, None, config).status == "completed"


def test_a_breakpoint_behind_the_place_is_not_passed(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    control = RunControl()
    nodes = {"a": drains_once("a", [control]), "b": says("b"), "c": says("c")}
    graph = graph_of(nodes, in_a_row("a", "b", "c"), saver=saver, interrupt_before=["c"])
    assert runner.run(graph, EMPTY, config, control=control).status == "drained"
    assert runner.run(graph, None, config).status == "paused"


def test_a_failure_comes_first(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    def fails(state: State) -> State:
        raise LookupError("broken")

    control = RunControl()
    graph = graph_of({"fails": fails, "drains": drains_once("d", [control])}, saver=saver)
    with pytest.raises(LookupError):
        runner.invoke(graph, EMPTY, config, control=control)
    assert runner.get_state(graph, config).next == ("fails",)


def test_a_recursion_limit_comes_first(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    control = RunControl()
    graph = graph_of({"a": drains_once("a", [control]), "b": says("b")}, in_a_row("a", "b"), saver=saver)
    with pytest.raises(GraphRecursionError):
        runner.invoke(graph, EMPTY, {**config, "recursion_limit": 1}, control=control)


def test_an_answer_is_kept_by_a_run_that_drains_at_once(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    graph = graph_of({"asks": asks("sure?")}, saver=saver)
    runner.invoke(graph, EMPTY, config)
    control = RunControl()
    control.request_drain()
    assert runner.run(graph, Command(resume="yes"), config, control=control).status == "drained"
    assert runner.invoke(graph, None, config) == {"log": ["yes"]}


# Nested runs


class Counted:
    """Nodes that count how often they run."""

    def __init__(self) -> None:
        self.runs: list[str] = []

    def node(self, name: str, control: list[RunControl] | None = None) -> Callable[[State], State]:
        def run(state: State) -> State:
            self.runs.append(name)
            if control:
                control.pop().request_drain()
            return {"log": [name]}

        return run


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("called", [True, False], ids=["called", "as node"])
def test_a_nested_run_drains_and_goes_on_where_it_was(
    runner: Runner, saver: Saver, config: RunnableConfig, depth: int, called: bool
) -> None:
    control, counted = RunControl(), Counted()
    nodes = {"a": counted.node("a", [control]), "b": counted.node("b")}
    graph: Any = graph_of(nodes, in_a_row("a", "b"))
    for level in range(depth):
        inner = graph
        node = inner if not called else (lambda state, inner=inner: inner.invoke(EMPTY))
        top = level == depth - 1
        outer: dict[str, Any] = {"in": node, "after": counted.node("after")}
        graph = graph_of(outer, in_a_row("in", "after"), saver=saver if top else None)
    result = runner.run(graph, EMPTY, config, control=control)
    assert (result.status, result.next, counted.runs) == ("drained", ("in",), ["a"])
    assert runner.invoke(graph, None, config)["log"] == ["a", "b"] + ["after"] * depth
    assert counted.runs == ["a", "b"] + ["after"] * depth


def test_siblings_of_a_drained_graph_are_not_run_again(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    control, counted = RunControl(), Counted()
    child = graph_of({"a": counted.node("a", [control]), "b": counted.node("b")}, in_a_row("a", "b"))
    graph = graph_of({"child": child, "sibling": counted.node("sibling")}, saver=saver)
    assert runner.run(graph, EMPTY, config, control=control).status == "drained"
    runner.invoke(graph, None, config)
    assert sorted(counted.runs) == ["a", "b", "sibling"]


def test_a_breakpoint_in_a_nested_graph_is_a_pause(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    control = RunControl()
    nodes = {"a": drains_once("a", [control]), "b": says("b")}
    child = graph_of(nodes, in_a_row("a", "b"), interrupt_before=["b"])
    graph = graph_of({"child": child}, saver=saver)
    assert runner.run(graph, EMPTY, config, control=control).status == "paused"
    assert runner.invoke(graph, None, config)["log"] == ["a", "b"]


def test_a_graph_that_stores_nothing_runs_to_its_end_in_one_that_does(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    control, counted = RunControl(), Counted()
    builder = StateGraph(State).add_node("a", counted.node("a", [control])).add_node("b", counted.node("b"))
    child = builder.add_edge(START, "a").add_edge("a", "b").compile(checkpointer=False)
    nodes: dict[str, Any] = {"child": child, "after": says("after")}
    graph = graph_of(nodes, in_a_row("child", "after"), saver=saver)
    result = runner.run(graph, EMPTY, config, control=control)
    assert (result.status, result.next) == ("drained", ("after",))
    runner.invoke(graph, None, config)
    assert counted.runs == ["a", "b"]


def test_a_node_that_catches_errors_does_not_catch_a_drain(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    control = RunControl()
    child = graph_of({"a": drains_once("a", [control]), "b": says("b")}, in_a_row("a", "b"))

    def careful(state: State) -> Any:
        try:
            return child.invoke(EMPTY)
        except Exception:
            return {"log": ["caught"]}

    graph = graph_of({"careful": careful}, saver=saver)
    assert runner.run(graph, EMPTY, config, control=control).status == "drained"
    assert runner.invoke(graph, None, config)["log"] == ["a", "b"]


# From outside


def test_another_thread_may_ask(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    inside, asked = threading.Event(), threading.Event()

    def wait(state: State) -> State:
        inside.set()
        assert asked.wait(PATIENCE)
        return {"log": ["a"]}

    def ask() -> None:
        assert inside.wait(PATIENCE)
        control.request_drain("other thread")
        asked.set()

    control = RunControl()
    other = threading.Thread(target=ask)
    other.start()
    graph = graph_of({"a": wait, "b": says("b")}, in_a_row("a", "b"), saver=saver)
    with pytest.raises(GraphDrained, match="other thread"):
        runner.invoke(graph, EMPTY, config, control=control)
    other.join(PATIENCE)
    assert runner.invoke(graph, None, config)["log"] == ["a", "b"]


def test_a_signal_handler_may_ask(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    control = RunControl()

    def signalled(state: State) -> State:
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, signal.SIGTERM)  # the handler runs when that thread runs Python again
        return {"log": ["a"]}

    def handler(*ignored: Any) -> None:
        control.request_drain("SIGTERM")

    before = signal.signal(signal.SIGTERM, handler)
    try:
        graph = graph_of({"a": signalled, "b": says("b")}, in_a_row("a", "b"), saver=saver)
        with pytest.raises(GraphDrained, match="SIGTERM"):
            runner.invoke(graph, EMPTY, config, control=control)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert runner.invoke(graph, None, config)["log"] == ["a", "b"]


def test_runs_without_a_control_do_not_share_one(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = build({"a": drains("a"), "b": says("b")}, in_a_row("a", "b"))
    other = graph_of({"a": says("a"), "b": says("b")}, in_a_row("a", "b"))
    assert runner.run(graph, EMPTY, config).status == "drained"
    assert runner.run(other, EMPTY).status == "completed"


def test_a_question_in_a_drained_graph_is_still_asked(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    control = RunControl()

    def ask(state: State) -> State:
        return {"log": [interrupt("sure?")]}

    child = graph_of({"a": drains_once("a", [control]), "ask": ask}, in_a_row("a", "ask"))
    graph = graph_of({"child": child}, saver=saver)
    assert runner.run(graph, EMPTY, config, control=control).status == "drained"
    assert runner.run(graph, None, config).status == "interrupted"
    assert runner.invoke(graph, Command(resume="yes"), config)["log"] == ["a", "yes"]
