"""Looking into a nested graph, changing it, and going on at one of its checkpoints."""

from __future__ import annotations

import operator
from itertools import count
from typing import Annotated, Any, TypedDict

import pytest

from graphkit import START, Command, StateGraph, interrupt
from graphkit.errors import InvalidUpdateError, StorageUnavailableError
from graphkit.types import RunnableConfig, StateSnapshot, StateUpdate
from tests.conftest import Build, Runner, Saver, in_a_row

Log = Annotated[list[Any], operator.add]


class Inner(TypedDict, total=False):
    private: Log
    answer: str


class Outer(TypedDict, total=False):
    log: Log
    answer: str


class Ran(list[str]):
    """The nodes that ran, in order; emptied when it is looked at."""

    def since(self) -> list[str]:
        names = list(self)
        self.clear()
        return names


@pytest.fixture
def ran() -> Ran:
    return Ran()


@pytest.fixture
def inner(ran: Ran) -> Any:
    """Three nodes: one works, one asks, one closes."""
    return inner_graph(ran)


def inner_graph(ran: Ran, **options: Any) -> Any:
    def work(state: Inner) -> Inner:
        ran.append("work")
        return {"private": ["worked"]}

    def ask(state: Inner) -> Inner:
        answer = interrupt("?")
        ran.append("ask")
        return {"private": [answer], "answer": answer}

    def close(state: Inner) -> Inner:
        ran.append("close")
        return {"answer": f"{state['answer']} after {state['private']}"}

    return StateGraph(Inner).add_sequence([work, ask, close]).add_edge(START, "work").compile(**options)


class Middle(TypedDict, total=False):
    answer: str


def as_node(child: Any) -> Any:
    """A graph of one node, `child`."""
    return StateGraph(Middle).add_node("child", child).add_edge(START, "child").compile()


def around(child: Any, ran: Ran, build: Build, **options: Any) -> Any:
    def before(state: Outer) -> Outer:
        ran.append("before")
        return {"log": ["before"]}

    def after(state: Outer) -> Outer:
        ran.append("after")
        return {"log": [state["answer"]]}

    nodes = {"before": before, "child": child, "after": after}
    return build(nodes, in_a_row("before", "child", "after"), state=Outer, **options)


def calls(child: Any) -> Any:
    """A node whose function calls the graph, after another call of it."""

    def call(state: Outer) -> Outer:
        return {"answer": child.invoke({"private": ["called"]})["answer"]}

    return call


SHAPES: dict[str, Any] = {"node": lambda child: child, "function": calls, "two deep": as_node}


@pytest.fixture(params=SHAPES)
def shape(request: pytest.FixtureRequest) -> Any:
    """The ways in which a graph is inside another one."""
    return SHAPES[request.param]


def inside(runner: Runner, graph: Any, config: RunnableConfig) -> StateSnapshot:
    """The innermost graph that is at work."""
    state = runner.get_state(graph, config, subgraphs=True)
    while state.tasks and isinstance(state.tasks[0].state, StateSnapshot):
        state = state.tasks[0].state
    return state


def past(runner: Runner, graph: Any, state: StateSnapshot, following: str) -> RunnableConfig:
    """The config of the checkpoint in a graph's history that this node followed."""
    (found,) = [s for s in runner.history(graph, at_head(state.config)) if s.next == (following,)]
    return found.config


def at_head(config: RunnableConfig) -> RunnableConfig:
    kept = {key: config["configurable"][key] for key in ("thread_id", "checkpoint_ns")}
    return {"configurable": kept}


# Looking


def test_the_state_of_a_task_is_that_of_the_graph_inside_it(
    runner: Runner, build: Build, config: RunnableConfig, inner: Any, ran: Ran, shape: Any
) -> None:
    graph = around(shape(inner), ran, build)
    runner.invoke(graph, {"log": []}, config)
    (task,) = runner.get_state(graph, config).tasks
    state: Any = task.state
    assert state["configurable"]["checkpoint_ns"].startswith(f"child:{task.id}")
    (task,) = runner.get_state(graph, config, subgraphs=True).tasks
    assert task.state.config["configurable"]["thread_id"] == "t"
    state = inside(runner, graph, config)
    assert (state.next, state.values["private"][-1]) == (("ask",), "worked")
    assert state.interrupts == runner.get_state(graph, config).interrupts


def test_a_task_without_a_graph_has_no_state(
    runner: Runner, build: Build, config: RunnableConfig, inner: Any, ran: Ran
) -> None:
    graph = around(inner, ran, build, interrupt_before=["before"])
    runner.invoke(graph, {"log": []}, config)
    (task,) = runner.get_state(graph, config, subgraphs=True).tasks
    assert task.state is None


def test_a_graph_that_has_not_begun_has_an_empty_state(
    runner: Runner, build: Build, config: RunnableConfig, inner: Any, ran: Ran
) -> None:
    graph = around(inner, ran, build, interrupt_before=["child"])
    runner.invoke(graph, {"log": []}, config)
    (task,) = runner.get_state(graph, config, subgraphs=True).tasks
    assert (task.state.values, task.state.metadata, task.state.tasks) == ({}, None, ())


def test_a_nested_checkpoint_says_which_checkpoints_are_around_it(
    runner: Runner, build: Build, config: RunnableConfig, inner: Any, ran: Ran
) -> None:
    graph = around(as_node(inner), ran, build)
    runner.invoke(graph, {"log": []}, config)
    outer = runner.get_state(graph, config, subgraphs=True)
    middle = outer.tasks[0].state
    innermost = middle.tasks[0].state
    ids = {
        state.config["configurable"]["checkpoint_ns"]: state.config["configurable"]["checkpoint_id"]
        for state in (outer, middle, innermost)
    }
    assert innermost.config["configurable"]["checkpoint_map"] == ids
    assert innermost.parent_config["configurable"]["checkpoint_map"].keys() == ids.keys()
    assert "checkpoint_map" not in outer.config["configurable"]
    assert [(s.metadata or {})["parents"].keys() for s in (outer, middle, innermost)] == [
        set(),
        {""},
        {"", middle.config["configurable"]["checkpoint_ns"]},
    ]


def test_a_checkpoint_map_stands_for_the_checkpoint_id(
    runner: Runner, build: Build, config: RunnableConfig, inner: Any, ran: Ran
) -> None:
    graph = around(inner, ran, build)
    runner.invoke(graph, {"log": []}, config)
    older = past(runner, graph, inside(runner, graph, config), "work")
    mapped = {key: value for key, value in older["configurable"].items() if key != "checkpoint_id"}
    assert runner.get_state(graph, {"configurable": mapped}).next == ("work",)


def test_the_history_of_a_nested_graph_has_its_own_keys_and_nodes(
    runner: Runner, build: Build, config: RunnableConfig, inner: Any, ran: Ran, shape: Any
) -> None:
    graph = around(shape(inner), ran, build)
    runner.invoke(graph, {"log": []}, config)
    history = runner.history(graph, at_head(inside(runner, graph, config).config))
    assert [state.next for state in history] == [("ask",), ("work",), ("__start__",)]
    assert history[0].values["private"][-1] == "worked"


def test_get_subgraphs_names_them_by_their_nodes(runner: Runner, build: Build, inner: Any, ran: Ran) -> None:
    middle = as_node(inner)
    graph = build({"m": middle, "f": calls(inner), "plain": lambda state: None}, state=Outer, saver=None)

    def found(**options: Any) -> list[tuple[str, Any]]:
        return runner._collect(graph, "get_subgraphs", **options)

    assert found() == [("m", middle), ("f", inner)]
    assert found(recurse=True) == [("m", middle), ("m|child", inner), ("f", inner)]
    assert found(namespace="m|child") == [("m|child", inner)]
    assert found(namespace="m") == [("m", middle)]
    assert found(namespace="nobody") == []


# Changing


def test_an_update_inside_goes_on_from_there_and_closes_what_was_asked(
    runner: Runner, build: Build, config: RunnableConfig, inner: Any, ran: Ran, shape: Any
) -> None:
    graph = around(shape(inner), ran, build)
    (question,) = runner.run(graph, {"log": []}, config).interrupts
    ran.clear()
    state = inside(runner, graph, config)
    updated = runner.update_state(graph, state.config, {"answer": "given"}, as_node="ask")
    assert runner.get_state(graph, config).interrupts == ()
    assert runner.get_state(graph, updated).next == ("close",)
    shown = runner.invoke(graph, None, config)
    assert shown["log"][-1].startswith("given after")
    assert ran == ["close", "after"]
    assert question.id not in [q.id for s in runner.history(graph, config) for q in s.interrupts]


def test_an_update_inside_can_make_it_ask_again(
    runner: Runner, build: Build, config: RunnableConfig, inner: Any, ran: Ran, shape: Any
) -> None:
    graph = around(shape(inner), ran, build)
    runner.invoke(graph, {"log": []}, config)
    state = inside(runner, graph, config)
    updated = runner.update_state(graph, state.config, {"private": ["more"]}, as_node="work")
    ran.clear()
    (again,) = runner.run(graph, None, updated).interrupts
    assert again.value == "?"
    shown = runner.invoke(graph, Command(resume="yes"), config)
    assert shown["log"][-1].endswith("'worked', 'more', 'yes']")
    assert ran == ["ask", "close", "after"]


def test_an_update_names_the_nodes_of_the_nested_graph(
    runner: Runner, build: Build, config: RunnableConfig, inner: Any, ran: Ran
) -> None:
    graph = around(inner, ran, build)
    runner.invoke(graph, {"log": []}, config)
    state = inside(runner, graph, config)
    with pytest.raises(InvalidUpdateError, match="it has work, ask, close"):
        runner.update_state(graph, state.config, {"answer": "x"}, as_node="before")
    bulk = [
        [StateUpdate({"private": [1]}, "work")],
        [StateUpdate({"private": [2], "answer": "a"}, "ask")],
    ]
    updated = runner.bulk_update_state(graph, state.config, bulk)
    assert runner.get_state(graph, updated).next == ("close",)
    assert runner.get_state(graph, updated).values["private"] == ["worked", 1, 2]


@pytest.mark.parametrize("namespace", ["nobody:1", "before:1", "child:0"])
def test_a_namespace_of_no_nested_graph_cannot_be_updated_or_run(
    runner: Runner, build: Build, config: RunnableConfig, inner: Any, ran: Ran, namespace: str
) -> None:
    graph = around(inner, ran, build)
    runner.invoke(graph, {"log": []}, config)
    nowhere: RunnableConfig = {"configurable": {**config["configurable"], "checkpoint_ns": namespace}}
    with pytest.raises(ValueError, match=namespace):
        runner.update_state(graph, nowhere, {"answer": "x"}, as_node="ask")
    for given in (None, {"log": ["x"]}):
        with pytest.raises(ValueError, match=f"no nested graph in namespace '{namespace}'"):
            runner.invoke(graph, given, nowhere)
    assert runner.get_state(graph, nowhere).values == {}


def test_a_nested_graph_takes_no_input_from_outside(
    runner: Runner, build: Build, config: RunnableConfig, inner: Any, ran: Ran
) -> None:
    graph = around(inner, ran, build)
    runner.invoke(graph, {"log": []}, config)
    state = inside(runner, graph, config)
    for given in ({"log": ["x"]}, Command(goto="close"), Command(update={"log": ["x"]})):
        with pytest.raises(ValueError, match="takes no input"):
            runner.invoke(graph, given, state.config)


def test_an_answer_may_name_the_nested_graph_that_asked(
    runner: Runner, build: Build, config: RunnableConfig, inner: Any, ran: Ran, shape: Any
) -> None:
    graph = around(shape(inner), ran, build)
    runner.invoke(graph, {"log": []}, config)
    state = inside(runner, graph, config)
    assert runner.invoke(graph, Command(resume="yes"), state.config)["log"][-1].startswith("yes after")


# Going back


def test_going_back_inside_a_nested_graph_repeats_nothing_before_that(
    runner: Runner, build: Build, config: RunnableConfig, inner: Any, ran: Ran, shape: Any
) -> None:
    graph = around(shape(inner), ran, build)
    runner.invoke(graph, {"log": []}, config)
    state = inside(runner, graph, config)
    runner.invoke(graph, Command(resume="first"), config)
    assert ran.since() == ["before", "work", "ask", "close", "after"]

    before_ask = past(runner, graph, state, "ask")
    (again,) = runner.run(graph, None, before_ask).interrupts
    assert (again.value, ran.since()) == ("?", [])
    shown = runner.invoke(graph, Command(resume="second"), config)
    assert ran.since() == ["ask", "close", "after"]
    assert shown["log"] == ["before", shown["answer"]]
    assert shown["answer"].startswith("second after")


def test_going_back_while_the_nested_graph_waits(
    runner: Runner, build: Build, config: RunnableConfig, inner: Any, ran: Ran, shape: Any
) -> None:
    graph = around(shape(inner), ran, build)
    (first,) = runner.run(graph, {"log": []}, config).interrupts
    ran.clear()
    before_work = past(runner, graph, inside(runner, graph, config), "work")
    (second,) = runner.run(graph, None, before_work).interrupts
    assert (ran.since(), first.id != second.id) == (["work"], True)
    runner.invoke(graph, Command(resume={second.id: "yes"}), config)
    assert ran.since() == ["ask", "close", "after"]


def test_going_back_after_an_update_in_the_past(
    runner: Runner, build: Build, config: RunnableConfig, inner: Any, ran: Ran, shape: Any
) -> None:
    graph = around(shape(inner), ran, build)
    runner.invoke(graph, {"log": []}, config)
    state = inside(runner, graph, config)
    runner.invoke(graph, Command(resume="first"), config)
    ran.clear()
    before_close = past(runner, graph, state, "close")
    updated = runner.update_state(graph, before_close, {"answer": "edited"}, as_node="ask")
    shown = runner.invoke(graph, None, updated)
    assert (ran, shown["answer"].startswith("edited after")) == (["close", "after"], True)
    assert shown["log"] == ["before", shown["answer"]]


@pytest.mark.parametrize("written", range(1, 6))
def test_going_back_survives_a_storage_that_breaks_off(
    runner: Runner,
    build: Build,
    config: RunnableConfig,
    inner: Any,
    ran: Ran,
    shape: Any,
    saver: Saver,
    reopen: Any,
    written: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After each number of writes, so that it breaks off between any two of them."""
    graph = around(shape(inner), ran, build)
    runner.invoke(graph, {"log": []}, config)
    state = inside(runner, graph, config)
    runner.invoke(graph, Command(resume="first"), config)
    before_ask = past(runner, graph, state, "ask")
    door = "write" if saver.blocking else "commit"
    write, writes = getattr(type(saver), door), count(1)

    def breaks_off(self: Any, given: Any) -> None:
        if next(writes) > written:
            raise StorageUnavailableError("the storage is gone")
        write(self, given)

    with monkeypatch.context() as patched:
        patched.setattr(type(saver), door, breaks_off)
        try:
            runner.invoke(graph, None, before_ask)
        except StorageUnavailableError:
            assert next(writes) > written
    ran.clear()
    graph = around(shape(inner), ran, build, saver=reopen(saver))
    (again,) = runner.run(graph, None, config).interrupts
    assert (again.value, ran) == ("?", [])
    shown = runner.invoke(graph, Command(resume="second"), config)
    assert ran == ["ask", "close", "after"]
    assert shown["answer"].startswith("second after")


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_going_back_into_a_graph_whose_error_was_caught(
    runner: Runner, build: Build, config: RunnableConfig, ran: Ran, durability: str
) -> None:
    """With durability "exit" the graph around it has gone on since, and stores nothing of that on its way."""

    def work(state: Inner) -> Inner:
        ran.append("work")
        return {"private": ["worked"]}

    def fail(state: Inner) -> Inner:
        ran.append("fail")
        if ran.count("fail") == 1:
            raise ConnectionError("line is down")
        return {"answer": f"up after {state['private']}"}

    child = StateGraph(Inner).add_sequence([work, fail]).add_edge(START, "work").compile()

    def call(state: Outer) -> Outer:
        try:
            return {"answer": child.invoke({"private": []})["answer"]}
        except ConnectionError as error:
            return {"answer": str(error)}

    graph = around(call, ran, build)
    assert runner.invoke(graph, {"log": []}, config, durability=durability)["log"] == [
        "before",
        "line is down",
    ]
    (call_of_it,) = [s for s in runner.history(graph, config) if s.next == ("child",)]
    (stopped,) = [s for s in runner.history(graph, call_of_it.tasks[0].state) if s.next == ("fail",)]
    ran[:] = ["fail"]
    shown = runner.invoke(graph, None, stopped.config, durability=durability)
    assert shown["log"] == ["before", "up after ['worked']"]
    assert ran.since() == ["fail", "fail", "after"]


@pytest.mark.parametrize("durability", ["async", "exit"])
def test_going_back_whatever_the_durability(
    runner: Runner, build: Build, config: RunnableConfig, inner: Any, ran: Ran, shape: Any, durability: str
) -> None:
    graph = around(shape(inner), ran, build)
    runner.invoke(graph, {"log": []}, config, durability=durability)
    state = inside(runner, graph, config)
    runner.invoke(graph, Command(resume="first"), config, durability=durability)
    ran.clear()
    (asking,) = [s for s in runner.history(graph, at_head(state.config)) if s.next == ("ask",)]
    (ended,) = [s for s in runner.history(graph, at_head(state.config)) if s.next == ()]
    shown = runner.invoke(graph, None, ended.config, durability=durability)
    assert (ran.since(), shown["answer"].startswith("first after")) == (["after"], True)
    runner.invoke(graph, None, asking.config, durability=durability)
    shown = runner.invoke(graph, Command(resume="second"), config, durability=durability)
    assert (ran, shown["answer"].startswith("second after")) == (["ask", "close", "after"], True)


def test_going_back_keeps_earlier_calls_of_the_same_node(
    runner: Runner, build: Build, config: RunnableConfig, ran: Ran
) -> None:
    child = inner_graph(ran)

    def call(state: Outer) -> Outer:
        first, second = (child.invoke({"private": [word]})["answer"] for word in ("one", "two"))
        return {"answer": f"{first}; {second}"}

    graph = around(call, ran, build)
    runner.invoke(graph, {"log": []}, config)
    runner.invoke(graph, Command(resume="A"), config)
    state = inside(runner, graph, config)
    assert state.values["private"][0] == "two"
    runner.invoke(graph, Command(resume="B"), config)
    ran.clear()
    runner.invoke(graph, None, past(runner, graph, state, "ask"))
    shown = runner.invoke(graph, Command(resume="C"), config)
    assert ran == ["ask", "close", "after"], "the first call is not made again"
    assert [part[0] for part in shown["answer"].split("; ")] == ["A", "C"]


def test_going_back_inside_a_graph_that_keeps_its_state(
    runner: Runner, build: Build, config: RunnableConfig, ran: Ran
) -> None:
    graph = around(inner_graph(ran, checkpointer=True), ran, build)
    for answer in ("first", "second"):
        runner.invoke(graph, {"log": []}, config)
        state = inside(runner, graph, config)
        runner.invoke(graph, Command(resume=answer), config)
    ran.clear()
    newest = next(s for s in runner.history(graph, at_head(state.config)) if s.next == ("ask",))
    runner.invoke(graph, None, newest.config)
    shown = runner.invoke(graph, Command(resume="third"), config)
    assert ran == ["ask", "close", "after"]
    assert shown["answer"] == "third after ['worked', 'first', 'worked', 'third']"


def test_the_branch_that_was_left_stays_as_it_was(
    runner: Runner, build: Build, config: RunnableConfig, inner: Any, ran: Ran, shape: Any
) -> None:
    graph = around(shape(inner), ran, build)
    runner.invoke(graph, {"log": []}, config)
    state = inside(runner, graph, config)
    runner.invoke(graph, Command(resume="first"), config)
    left, left_inside = runner.history(graph, config), runner.history(graph, at_head(state.config))
    runner.invoke(graph, None, past(runner, graph, state, "ask"))
    runner.invoke(graph, Command(resume="second"), config)
    assert runner.history(graph, config)[-len(left) :] == left
    assert runner.history(graph, at_head(state.config)) == left_inside
