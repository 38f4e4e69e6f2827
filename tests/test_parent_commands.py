"""`Command(graph=Command.PARENT)`: a node of a nested graph commands the graph around it."""

from __future__ import annotations

import operator
import threading
from dataclasses import replace
from typing import Annotated, Any, TypedDict

import pytest

from graphkit import START, Command, Send, StateGraph, interrupt
from graphkit.channels import UntrackedValue
from graphkit.errors import InvalidUpdateError, ParentCommand
from graphkit.types import RunnableConfig, StateSnapshot
from tests.conftest import Build, Runner, Saver, graph_of, says

UP: Any = Command(graph=Command.PARENT, update={"log": ["up"]}, goto="target")


LEADS: Any = {"child": {"destinations": ["target"]}}


class Inner(TypedDict, total=False):
    own: Annotated[list[Any], operator.add]


class Locked(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    lock: Annotated[Any, UntrackedValue]


def inner(node: Any, **options: Any) -> Any:
    return StateGraph(Inner).add_node("command", node).add_edge(START, "command").compile(**options)


def around(child: Any, build: Build, **options: Any) -> Any:
    nodes = {"child": child, "target": says("target")}
    return build(nodes, [(START, "child")], node_options=LEADS, **options)


def own_state(runner: Runner, graph: Any, config: RunnableConfig) -> StateSnapshot:
    """The nested graph of the superstep in which `child` ran, from the history."""
    for state in runner.history(graph, config):
        for task in state.tasks:
            if task.name == "child" and task.state is not None:
                return runner.get_state(graph, task.state)
    raise AssertionError("no nested graph ran")


def test_it_reaches_the_nearest_graph_and_may_be_relayed(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    def relay(state: Any) -> Any:
        return Command(graph=Command.PARENT, goto="target", update={"log": ["relayed"]})

    nodes = {"child": inner(lambda state: UP), "target": relay}
    middle = graph_of(nodes, [(START, "child")], node_options=LEADS)
    assert runner.invoke(around(middle, build), {"log": []}, config)["log"] == ["relayed", "target"]


def test_an_update_beside_it_is_applied_to_its_own_graph(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = around(inner(lambda state: [{"own": ["kept"]}, UP]), build)
    assert runner.invoke(graph, {"log": []}, config)["log"] == ["up", "target"]
    state = own_state(runner, graph, config)
    assert (state.values, state.next) == ({"own": ["kept"]}, ())


def test_all_that_command_it_are_heard_in_their_order(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    """Whichever of them has finished first."""
    second_ran = threading.Event()

    def first(state: Any) -> Any:
        assert second_ran.wait(30)
        return Command(graph=Command.PARENT, update={"log": ["first"]}, goto="target")

    def second(state: Any) -> Any:
        second_ran.set()
        return Command(graph=Command.PARENT, update=[("log", ["second"])], goto=[Send("other", {}), "target"])

    nodes = {
        "child": graph_of({"first": first, "second": second}),
        "other": says("other"),
        "target": says("target"),
    }
    options = {"child": {"destinations": ["target", "other"]}}
    graph = build(nodes, [(START, "child")], node_options=options)
    assert runner.invoke(graph, {"log": []}, config)["log"] == ["first", "second", "target", "other"]


def test_it_is_not_lost_beside_a_node_that_fails(
    runner: Runner, build: Build, config: RunnableConfig, saver: Saver, reopen: Any
) -> None:
    runs, tries = [], iter([ConnectionError("line is down"), None])

    def command(state: Any) -> Any:
        runs.append("command")
        return UP

    def fails(state: Any) -> Any:
        if error := next(tries):
            raise error
        return None

    graph = around(graph_of({"command": command, "fails": fails}), build)
    with pytest.raises(ConnectionError):
        runner.invoke(graph, {"log": []}, config)
    graph = around(graph_of({"command": command, "fails": fails}), build, saver=reopen(saver))
    assert runner.invoke(graph, None, config)["log"] == ["up", "target"]


def test_one_node_may_give_several(runner: Runner, build: Build, config: RunnableConfig) -> None:
    more: Any = Command(graph=Command.PARENT, update={"log": ["more"]}, goto=Send("target", {}))
    graph = around(inner(lambda state: [UP, more, Command(graph=Command.PARENT)]), build)
    assert runner.invoke(graph, {"log": []}, config)["log"] == ["up", "more", "target", "target"]


def test_what_cannot_be_said_as_one_is_an_error(runner: Runner, build: Build, config: RunnableConfig) -> None:
    with pytest.raises(InvalidUpdateError, match="several commands"):
        runner.invoke(around(inner(lambda state: [UP, replace(UP, update=7)]), build), {"log": []}, config)


def test_a_graph_that_keeps_its_state_has_ended_with_it(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    runs = iter(range(2))
    child = inner(lambda state: [{"own": [next(runs)]}, UP], checkpointer=True)
    graph = around(child, build)
    for _ in range(2):
        runner.invoke(graph, {"log": []}, config)
    assert own_state(runner, graph, config).values == {"own": [0, 1]}


@pytest.mark.parametrize("kept", [None, True])
def test_it_is_given_again_to_a_task_that_runs_again(
    runner: Runner, build: Build, config: RunnableConfig, saver: Saver, reopen: Any, kept: Any
) -> None:
    """The node that gave it does not run again: it has finished."""
    runs: list[str] = []

    def command(state: Inner) -> Any:
        runs.append("command")
        return UP

    child, tries = inner(command, checkpointer=kept), iter([ConnectionError("line is down"), None])

    def call(state: Any) -> Any:
        try:
            child.invoke({"own": []})
        finally:
            if error := next(tries):
                raise error

    graph = around(call, build)
    with pytest.raises(ConnectionError):
        runner.invoke(graph, {"log": []}, config)
    graph = around(call, build, saver=reopen(saver))
    assert runner.invoke(graph, None, config)["log"] == ["up", "target"]
    assert runs == ["command"]


def test_it_may_carry_what_cannot_be_stored(runner: Runner, build: Build, config: RunnableConfig) -> None:
    def command(state: Inner) -> Any:
        update = {"log": ["up"], "lock": object()}
        return Command(graph=Command.PARENT, goto=Send("target", "arg"), update=update)

    nodes = {"child": inner(command), "target": lambda arg: {"log": [arg]}}
    graph = build(nodes, [(START, "child")], state=Locked, node_options=LEADS)
    assert runner.invoke(graph, {"log": []}, config)["log"] == ["up", "arg"]


def test_after_an_answer_it_leaves_the_graph_that_asked(
    runner: Runner, build: Build, config: RunnableConfig, saver: Saver, reopen: Any
) -> None:
    def command(state: Inner) -> Any:
        return Command(graph=Command.PARENT, update={"log": [interrupt("where to?")]}, goto="target")

    runner.invoke(around(inner(command), build), {"log": []}, config)
    graph = around(inner(command), build, saver=reopen(saver))
    assert runner.invoke(graph, Command(resume="there"), config)["log"] == ["there", "target"]


CHOOSES: Any = [(START, "child"), ("child", lambda state: "then", ["then"])]


@pytest.mark.parametrize("targets", [(), ("target",)], ids=["no goto", "goto"])
def test_the_edges_of_the_commanded_node_are_followed_too(
    runner: Runner, build: Build, config: RunnableConfig, targets: Any
) -> None:
    """As they are if the node itself returns a command."""
    up: Any = Command(graph=Command.PARENT, update={"log": ["up"]}, goto=targets)
    nodes = {"child": inner(lambda state: up), "then": says("then"), "target": says("target")}
    graph = build(nodes, CHOOSES, node_options=LEADS)
    assert runner.invoke(graph, {"log": []}, config)["log"] == ["up", *targets, "then"]


def test_raising_one_is_returning_its_command(runner: Runner, build: Build, config: RunnableConfig) -> None:
    def raises(state: Any) -> Any:
        raise ParentCommand(UP)

    graph = around(inner(raises), build)
    assert runner.invoke(graph, {"log": []}, config)["log"] == ["up", "target"]


def test_a_function_that_calls_a_graph_may_catch_its_command(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    child = inner(lambda state: UP)

    def call(state: Any) -> Any:
        try:
            return child.invoke({})
        except ParentCommand as caught:
            return {"log": [("caught", caught.command.goto)]}

    graph = around(call, build)
    assert runner.invoke(graph, {"log": []}, config)["log"] == [("caught", "target")]


def test_nobody_is_around_the_outermost_graph(runner: Runner, build: Build, config: RunnableConfig) -> None:
    def raises(state: Any) -> Any:
        raise ParentCommand(UP)

    with pytest.raises(InvalidUpdateError, match="no graph is around it"):
        runner.invoke(around(raises, build), {"log": []}, config)
