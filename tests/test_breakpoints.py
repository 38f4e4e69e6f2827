"""Breakpoints (SEMANTICS 4, L11): static pauses before and after nodes. They ask nothing."""

from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

import pytest

from graphkit.graph import END, START
from graphkit.types import Command, RunnableConfig, Send
from tests.conftest import (
    EMPTY,
    Build,
    Edge,
    Graph,
    Reopen,
    Runner,
    Saver,
    State,
    asks,
    graph_of,
    in_a_row,
    questions,
    says,
)

ABC = {name: says(name) for name in "abc"}
LOOP: list[Edge] = [
    (START, "a"),
    ("a", "b"),
    ("b", lambda state: "a" if len(state["log"]) < 6 else END, ["a", END]),
]


def stops(runner: Runner, graph: Graph, config: RunnableConfig, **options: Any) -> list[tuple[str, ...]]:
    """Run to the end, going on with `None` at every pause; return what was next at each."""
    paused = []
    result = runner.run(graph, EMPTY, config, **options)
    while result.status == "paused":
        paused.append(result.next)
        assert result.interrupts == ()
        result = runner.run(graph, None, config, **options)
    assert (result.status, result.next) == ("completed", ())
    return paused


def test_a_breakpoint_before_a_node(runner: Runner, build: Build, config: RunnableConfig) -> None:
    graph = build(ABC, in_a_row(*ABC), interrupt_before=["b"])

    assert runner.invoke(graph, EMPTY, config) == {"log": ["a"]}

    state = runner.get_state(graph, config)
    assert (state.next, state.values, state.interrupts) == (("b",), {"log": ["a"]}, ())
    assert runner.invoke(graph, None, config) == {"log": ["a", "b", "c"]}
    assert runner.get_state(graph, config).next == ()


def test_a_breakpoint_after_a_node(runner: Runner, build: Build, config: RunnableConfig) -> None:
    graph = build(ABC, in_a_row(*ABC), interrupt_after=["b"])

    assert runner.invoke(graph, EMPTY, config) == {"log": ["a", "b"]}
    assert runner.get_state(graph, config).next == ("c",)
    assert runner.invoke(graph, None, config) == {"log": ["a", "b", "c"]}


def test_a_pause_is_told_from_an_end(runner: Runner, build: Build, config: RunnableConfig) -> None:
    graph = build(ABC, in_a_row(*ABC), interrupt_before=["b"])

    paused = runner.run(graph, EMPTY, config)
    completed = runner.run(graph, None, config)

    assert (paused.status, paused.value, paused.next, paused.interrupts) == (
        "paused",
        {"log": ["a"]},
        ("b",),
        (),
    )
    assert (completed.status, completed.value, completed.next, completed.interrupts) == (
        "completed",
        {"log": ["a", "b", "c"]},
        (),
        (),
    )


def test_the_updates_stream_tells_a_pause_from_an_end(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = build(ABC, in_a_row(*ABC), interrupt_before=["b"])

    assert runner.stream(graph, EMPTY, config) == [{"a": {"log": ["a"]}}, {"__interrupt__": ()}]
    assert runner.stream(graph, None, config) == [{"b": {"log": ["b"]}}, {"c": {"log": ["c"]}}]


def test_a_pause_inside_a_nested_graph_is_shown_once(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = build({"inner": graph_of(ABC, in_a_row(*ABC), interrupt_before=["b"])})
    (around, update), pause = runner.stream(graph, EMPTY, config, subgraphs=True)
    assert (len(around), update) == (1, {"a": {"log": ["a"]}})
    assert pause == ((), {"__interrupt__": ()})


@pytest.mark.parametrize("called", [False, True], ids=["node", "function"])
@pytest.mark.parametrize("keeps", [None, True], ids=["anew", "lasting"])
def test_a_breakpoint_after_the_last_node_of_a_nested_graph(
    runner: Runner,
    build: Build,
    config: RunnableConfig,
    saver: Saver,
    reopen: Reopen,
    called: bool,
    keeps: Any,
) -> None:
    ran: list[str] = []

    def review(state: State) -> State:
        ran.append("review")
        return {"log": ["reviewed"]}

    def call(state: State) -> State:
        result: State = inner.invoke(EMPTY)
        return result

    inner = graph_of({"review": review}, saver=keeps, interrupt_after=["review"])
    nodes: dict[str, Any] = {"inner": call if called else inner, "after": says("after")}
    graph = build(nodes, in_a_row(*nodes))
    for _ in range(2):
        paused = runner.run(graph, EMPTY, config)
        assert (paused.status, paused.next) == ("paused", ("inner",))
        (task,) = runner.get_state(graph, config, subgraphs=True).tasks
        assert task.state.values["log"][-1] == "reviewed"
        saver = reopen(saver)
        graph = build(nodes, in_a_row(*nodes), saver=saver)
        done = runner.run(graph, None, config)
        assert (done.status, done.value["log"][-2:]) == ("completed", ["reviewed", "after"])
        assert ran == ["review"]
        ran.clear()


PLACES: list[tuple[dict[str, Any], list[tuple[str, ...]]]] = [
    ({"interrupt_before": "*"}, [("a",), ("b",), ("c",)]),
    ({"interrupt_before": ["a", "c"]}, [("a",), ("c",)]),
    ({"interrupt_after": ["a", "b"]}, [("b",), ("c",)]),
    ({"interrupt_after": "b"}, [("c",)]),
    ({"interrupt_after": ["a"], "interrupt_before": ["b"]}, [("b",)]),
    ({"interrupt_after": ["a"], "interrupt_before": ["c"]}, [("b",), ("c",)]),
    ({"interrupt_before": []}, []),
]


@pytest.mark.parametrize(("where", "expected"), PLACES, ids=lambda where: str(where))
@pytest.mark.parametrize("when", ["compile time", "run time"])
def test_breakpoints_are_given_when_compiling_or_running(
    runner: Runner,
    build: Build,
    config: RunnableConfig,
    when: str,
    where: dict[str, Any],
    expected: list[tuple[str, ...]],
) -> None:
    compiled, run = (where, {}) if when == "compile time" else ({}, where)
    graph = build(ABC, in_a_row(*ABC), **compiled)

    assert stops(runner, graph, config, **run) == expected
    assert runner.get_state(graph, config).values == {"log": ["a", "b", "c"]}


def test_a_star_after_stops_between_all_neighbours(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = build(ABC, in_a_row(*ABC), interrupt_after="*")

    assert runner.invoke(graph, EMPTY, config) == {"log": ["a"]}
    assert runner.get_state(graph, config).next == ("b",)
    assert runner.invoke(graph, None, config) == {"log": ["a", "b"]}
    assert runner.get_state(graph, config).next == ("c",)
    assert runner.invoke(graph, None, config) == {"log": ["a", "b", "c"]}


@pytest.mark.parametrize("door", ["invoke", "run", "stream"])
def test_run_time_breakpoints_replace_those_of_compile_time_for_one_call(
    runner: Runner, build: Build, config: RunnableConfig, door: str
) -> None:
    graph = build(ABC, in_a_row(*ABC), interrupt_before=["b"], interrupt_after=["b"])
    call = getattr(runner, door)

    call(graph, EMPTY, config, interrupt_before=["a"])
    assert runner.get_state(graph, config).next == ("a",)
    call(graph, None, config, interrupt_before=["c"], interrupt_after=["a"])
    assert runner.get_state(graph, config).next == ("b",)
    call(graph, None, config, interrupt_before=[], interrupt_after=[])
    assert runner.get_state(graph, config).next == ()
    call(graph, EMPTY, config)
    assert runner.get_state(graph, config).next == ("b",)


@pytest.mark.parametrize("kind", ["interrupt_before", "interrupt_after"])
def test_a_breakpoint_at_an_unknown_node_is_an_error_when_compiling(build: Build, kind: str) -> None:
    with pytest.raises(ValueError, match="nowhere"):
        build(ABC, in_a_row(*ABC), **{kind: ["a", "nowhere"]})


@pytest.mark.parametrize("kind", ["interrupt_before", "interrupt_after"])
@pytest.mark.parametrize("door", ["invoke", "run", "stream"])
def test_a_breakpoint_at_an_unknown_node_is_an_error_when_running(
    runner: Runner, build: Build, config: RunnableConfig, kind: str, door: str
) -> None:
    graph = build(ABC, in_a_row(*ABC))

    with pytest.raises(ValueError, match="nowhere"):
        getattr(runner, door)(graph, EMPTY, config, **{kind: ["nowhere"]})

    assert runner.history(graph, config) == []


def test_a_breakpoint_before_fires_in_every_round_of_a_loop(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = build({"a": says("a"), "b": says("b")}, LOOP, interrupt_before=["a"])

    assert stops(runner, graph, config) == [("a",)] * 3
    assert runner.get_state(graph, config).values == {"log": ["a", "b"] * 3}


def test_a_breakpoint_after_fires_in_every_round_of_a_loop(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = build({"a": says("a"), "b": says("b")}, LOOP, interrupt_after=["a"])

    assert stops(runner, graph, config) == [("b",)] * 3
    assert runner.get_state(graph, config).values == {"log": ["a", "b"] * 3}


def test_a_node_that_loops_to_itself_stops_once_per_round(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    again: list[Edge] = [(START, "a"), ("a", lambda state: "a" if len(state["log"]) < 3 else END, ["a", END])]
    graph = build({"a": says("a")}, again, interrupt_before=["a"], interrupt_after=["a"])

    assert runner.invoke(graph, EMPTY, config) == EMPTY
    for round_ in (1, 2):
        assert runner.invoke(graph, None, config) == {"log": ["a"] * round_}
        assert runner.get_state(graph, config).next == ("a",)
    assert runner.invoke(graph, None, config) == {"log": ["a"] * 3}
    assert runner.get_state(graph, config).next == ()


def test_a_breakpoint_before_a_fan_out_stops_all_its_tasks(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    def worker(state: dict[str, int]) -> State:
        return {"log": [state["number"]]}

    edges: list[Edge] = [
        (START, lambda state: [Send("worker", {"number": number}) for number in range(3)], ["worker"])
    ]
    graph = build({"worker": worker}, edges, interrupt_before=["worker"])

    assert stops(runner, graph, config) == [("worker",) * 3]
    assert runner.get_state(graph, config).values == {"log": [0, 1, 2]}


def test_the_state_may_be_edited_at_a_breakpoint(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = build(ABC, in_a_row(*ABC), interrupt_before=["b"])
    runner.invoke(graph, EMPTY, config)

    runner.update_state(graph, config, {"log": ["edited"]})

    assert runner.get_state(graph, config).next == ("b",)
    result = runner.invoke(graph, None, config, interrupt_before=[])
    assert result == {"log": ["a", "edited", "b", "c"]}


def test_another_process_goes_on_from_a_breakpoint(
    runner: Runner, build: Build, config: RunnableConfig, saver: Saver, reopen: Reopen
) -> None:
    graph = build(ABC, in_a_row(*ABC), interrupt_before=["b"])
    runner.invoke(graph, EMPTY, config)

    elsewhere = build(ABC, in_a_row(*ABC), interrupt_before=["b"], saver=reopen(saver))

    assert runner.get_state(elsewhere, config).next == ("b",)
    assert runner.invoke(elsewhere, None, config) == {"log": ["a", "b", "c"]}


# --- breakpoints and questions --------------------------------------------------------------------


def test_a_breakpoint_comes_before_the_questions_of_its_superstep(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = build({"a": says("a"), "ask": asks("q")}, interrupt_before=["a"])

    paused = runner.run(graph, EMPTY, config)
    interrupted = runner.run(graph, None, config)
    completed = runner.run(graph, Command(resume="yes"), config)

    assert (paused.status, paused.value, paused.next) == ("paused", EMPTY, ("a", "ask"))
    assert (interrupted.status, interrupted.next) == ("interrupted", ("ask",))
    assert [question.value for question in interrupted.interrupts] == ["q"]
    assert (completed.status, completed.value) == ("completed", {"log": ["a", "yes"]})


def test_a_breakpoint_before_a_node_that_asks(runner: Runner, build: Build, config: RunnableConfig) -> None:
    graph = build({"a": says("a"), "ask": asks("q")}, in_a_row("a", "ask"), interrupt_before=["ask"])

    inputs: list[Any] = [EMPTY, None, Command(resume="yes")]
    statuses = [runner.run(graph, given, config).status for given in inputs]

    assert statuses == ["paused", "interrupted", "completed"]


def test_a_breakpoint_after_a_node_that_asks_waits_for_the_answer(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = build({"ask": asks("q"), "b": says("b")}, in_a_row("ask", "b"), interrupt_after=["ask"])

    inputs: list[Any] = [EMPTY, Command(resume="yes"), None]
    results = [runner.run(graph, given, config) for given in inputs]

    assert [(result.status, result.next) for result in results] == [
        ("interrupted", ("ask",)),
        ("paused", ("b",)),
        ("completed", ()),
    ]


@pytest.mark.parametrize(
    "edges", [in_a_row("a", "ask"), [(START, "a"), (START, "ask")]], ids=["later", "in the same superstep"]
)
def test_an_answer_at_a_breakpoint_is_never_delivered_to_a_question(
    runner: Runner, build: Build, config: RunnableConfig, edges: list[Edge]
) -> None:
    graph = build({"a": says("a"), "ask": asks("q")}, edges, interrupt_before=["a"])
    runner.invoke(graph, EMPTY, config)

    with pytest.warns(Warning, match="breakpoint"):
        result = runner.invoke(graph, Command(resume="leaked"), config)

    assert list(questions(result)) == ["q"]
    assert runner.invoke(graph, None, config)["__interrupt__"] == result["__interrupt__"]
    assert runner.invoke(graph, Command(resume="yes"), config) == {"log": ["a", "yes"]}


def test_an_answer_at_a_breakpoint_of_a_graph_without_questions_is_dropped(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = build(ABC, in_a_row(*ABC), interrupt_after=["a"])
    runner.invoke(graph, EMPTY, config)

    with pytest.warns(Warning, match="breakpoint"):
        result = runner.invoke(graph, Command(resume=False), config)

    assert result == {"log": ["a", "b", "c"]}


# A breakpoint in one place and a question in another


class Beside:
    """A graph whose nodes `ask` and `child` run side by side; the child pauses before (or after) its node."""

    def __init__(self, build: Build, shape: str, saver: Saver = None, **breakpoint: Any) -> None:
        self.ran: list[str] = []
        nodes = {"first": self.node("first"), "second": self.node("second")}
        child = graph_of(nodes, in_a_row("first", "second"), **breakpoint)
        again = graph_of({"child": child}, in_a_row("child"))
        inner: Any = {"node": child, "two deep": again, "function": self.calls(child)}[shape]
        stored = {} if saver is None else {"saver": saver}
        self.graph = build({"ask": asks("?"), "child": inner, "more": asks("more?")}, **stored)

    def node(self, name: str) -> Any:
        def node(state: State) -> State:
            self.ran.append(name)
            return {"log": [name]}

        return node

    def calls(self, child: Graph) -> Any:
        def call(state: State) -> Any:
            self.ran.append("call")
            return child.invoke(EMPTY)

        return call


@pytest.mark.parametrize("breakpoint", ["interrupt_before", "interrupt_after"])
@pytest.mark.parametrize("shape", ["node", "two deep", "function"])
def test_an_answer_does_not_pass_a_breakpoint_elsewhere(
    runner: Runner,
    build: Build,
    config: RunnableConfig,
    saver: Saver,
    reopen: Reopen,
    shape: str,
    breakpoint: str,
) -> None:
    names = {"interrupt_before": ["second"], "interrupt_after": ["first"]}[breakpoint]
    one = Beside(build, shape, **{breakpoint: names})
    asked = questions(runner.invoke(one.graph, EMPTY, config))
    called = ["call"] if shape == "function" else []
    assert one.ran == [*called, "first"]
    other = Beside(build, shape, reopen(saver), **{breakpoint: names})
    result = runner.run(other.graph, Command(resume={asked["?"].id: "yes"}), config)
    assert (result.status, result.next, other.ran) == ("interrupted", ("child", "more"), [])
    result = runner.run(other.graph, Command(resume={asked["more?"].id: "much"}), config)
    assert (result.status, result.next, other.ran) == ("paused", ("child",), [])
    for question, answer in (("?", "yes"), ("more?", "much")):
        result = runner.run(other.graph, Command(resume={asked[question].id: answer}), config)
        assert (result.status, result.next, other.ran) == ("paused", ("child",), []), "given before"
    log = runner.invoke(other.graph, None, config)["log"]
    assert (log, other.ran) == (["yes", "first", "second", "much"], [*called, "second"])


def test_going_on_passes_a_breakpoint_beside_a_question(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    one = Beside(build, "node", interrupt_before=["second"])
    asked = questions(runner.invoke(one.graph, EMPTY, config))
    assert questions(runner.invoke(one.graph, None, config)) == asked
    assert one.ran == ["first", "second"]
    answers: dict[str, Any] = {question.id: word for word, question in asked.items()}
    assert runner.invoke(one.graph, Command(resume=answers), config)["log"] == [
        "?",
        "first",
        "second",
        "more?",
    ]
    assert one.ran == ["first", "second"]


def test_an_answer_does_not_pass_a_breakpoint_of_the_same_node(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    """Two graphs inside one: the one asks, the other one pauses."""
    ran: list[str] = []
    pausing = graph_of({"work": lambda state: ran.append("work")}, interrupt_before=["work"])
    asking = graph_of(
        {"ask": asks("?"), "close": lambda state: ran.append("close")}, in_a_row("ask", "close")
    )
    graph = build(
        {"child": graph_of({"asking": asking, "pausing": pausing}), "last": says("last")},
        [*in_a_row("child", "last")],
    )
    runner.invoke(graph, EMPTY, config)
    result = runner.run(graph, Command(resume="yes"), config)
    assert (result.status, result.next, ran) == ("paused", ("child",), ["close"])
    assert runner.run(graph, None, config).status == "completed"
    assert ran == ["close", "work"]


def test_an_answer_does_not_pass_a_breakpoint_of_another_call(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    """One function calls both, one after the other in threads of their own, and so runs again with the answer."""
    ran: list[str] = []
    pausing = graph_of({"work": lambda state: ran.append("work")}, interrupt_before=["work"])
    asking = graph_of({"ask": asks("?")})

    def call(state: State) -> State:
        with ThreadPoolExecutor(2) as pool:
            calls = [pool.submit(copy_context().run, child.invoke, EMPTY) for child in (asking, pausing)]
        return {"log": [word for call in calls for word in call.result()["log"]]}

    graph = build({"call": call})
    runner.invoke(graph, EMPTY, config)
    result = runner.run(graph, Command(resume="yes"), config)
    assert (result.status, ran) == ("paused", [])
    assert runner.invoke(graph, None, config)["log"] == ["yes"]
    assert ran == ["work"]
