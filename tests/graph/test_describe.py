"""What `get_graph` says of a compiled graph."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

import pytest

from graphkit.constants import END, START, TAG_HIDDEN
from graphkit.func import entrypoint
from graphkit.graph.draw import DrawableGraph
from graphkit.graph.state import StateGraph
from graphkit.types import Command


class State(TypedDict, total=False):
    value: str


def nothing(state: State) -> State:
    return {}


def choose(state: State) -> str:
    return END


def to_anywhere(state: State) -> Command[Literal["b", "__end__"]]:
    return Command(goto="b")


Edge = tuple[str | list[str], str]


def built(
    nodes: Mapping[str, Any],
    edges: Sequence[Edge],
    branches: Sequence[tuple[Any, ...]] = (),
    options: Mapping[str, Mapping[str, Any]] | None = None,
    **compile_options: Any,
) -> Any:
    builder = StateGraph(State)
    for name, action in nodes.items():
        builder.add_node(name, action, **(options or {}).get(name, {}))
    for source, target in edges:
        builder.add_edge(source, target)
    for branch in branches:
        builder.add_conditional_edges(*branch)
    return builder.compile(**compile_options)


def edges_of(graph: DrawableGraph) -> list[tuple[str, ...]]:
    """Edges as (source, target), those that may be taken as (source, target, label)."""
    return [
        (e.source, e.target, e.label or "") if e.conditional else (e.source, e.target) for e in graph.edges
    ]


def test_nodes_stand_in_the_order_they_were_added_between_start_and_end() -> None:
    graph = built({"b": nothing, "a": nothing}, [(START, "a"), ("a", "b")]).get_graph()
    assert list(graph.nodes) == [START, "b", "a", END]
    assert edges_of(graph) == [(START, "a"), ("b", END), ("a", "b")]
    assert graph.nodes["b"].data is nothing
    first, last = graph.first_node(), graph.last_node()
    assert first is not None
    assert last is not None
    assert (first.id, last.id) == (START, END)


def test_end_is_drawn_only_if_something_leads_there() -> None:
    graph = built({"a": nothing, "b": nothing}, [(START, "a"), ("a", "b"), ("b", "a")]).get_graph()
    assert list(graph.nodes) == [START, "a", "b"]


def test_joins_branches_and_declared_destinations() -> None:
    graph = built(
        {"a": to_anywhere, "b": nothing, "c": nothing, "d": nothing},
        [(START, "a"), (START, "b"), (["b", "c"], "d")],
        [("b", choose, {"more": "c", "d": "d", True: END})],
        {"c": {"destinations": {"a": "start again", "d": "d"}}},
    ).get_graph()
    assert edges_of(graph) == [
        (START, "a"),
        (START, "b"),
        ("a", "b", ""),
        ("a", END, ""),
        ("b", "d"),
        ("b", "c", "more"),
        ("b", "d", ""),
        ("b", END, "True"),
        ("c", "d"),
        ("c", "a", "start again"),
        ("c", "d", ""),
        ("d", END),
    ]


@pytest.mark.parametrize("destinations", [("b", END), ["b", END]])
def test_destinations_without_labels(destinations: Sequence[str]) -> None:
    graph = built(
        {"a": nothing, "b": nothing}, [(START, "a")], options={"a": {"destinations": destinations}}
    ).get_graph()
    assert edges_of(graph) == [(START, "a"), ("a", "b", ""), ("a", END, ""), ("b", END)]


def test_a_branch_that_says_nothing_may_lead_anywhere() -> None:
    graph = built({"a": nothing, "b": nothing}, [(START, "a")], [("a", choose)]).get_graph()
    assert edges_of(graph) == [(START, "a"), ("a", "a", ""), ("a", "b", ""), ("a", END, ""), ("b", END)]


def test_metadata_deferring_and_breakpoints() -> None:
    graph = built(
        {"a": nothing, "b": nothing},
        [(START, "a"), ("a", "b")],
        options={"a": {"metadata": {"owner": "ops"}}, "b": {"defer": True}},
        interrupt_before="*",
        interrupt_after=["b"],
    ).get_graph()
    assert graph.nodes["a"].metadata == {"owner": "ops"}
    assert graph.nodes["b"].metadata == {"defer": True}
    assert graph.nodes[START].metadata is None
    assert (graph.interrupt_before, graph.interrupt_after) == ({"a", "b"}, {"b"})


# Hidden nodes


@pytest.mark.parametrize("tag", [TAG_HIDDEN, "langsmith:hidden"])
def test_a_hidden_node_is_passed_over(tag: str) -> None:
    graph = built(
        {"a": nothing, "log": nothing, "b": nothing, "c": nothing},
        [(START, "a"), ("a", "log"), ("log", "b"), ("b", "log")],
        [("log", choose, {"more": "c", "done": END})],
        {"log": {"metadata": {"tags": ["x", tag]}}, "c": {"metadata": {"tags": "seq"}}},
        interrupt_before=["log", "b"],
    ).get_graph()
    assert list(graph.nodes) == [START, "a", "b", "c", END]
    assert edges_of(graph) == [
        (START, "a"),
        ("a", "b"),
        ("a", "c", "more"),
        ("a", END, "done"),
        ("b", "b"),
        ("b", "c", "more"),
        ("b", END, "done"),
        ("c", END),
    ]
    assert graph.interrupt_before == {"b"}


def test_a_hidden_graph_is_not_expanded() -> None:
    inner = built({"x": nothing}, [(START, "x")])
    graph = built(
        {"a": nothing, "inner": inner},
        [(START, "a"), ("a", "inner")],
        options={"inner": {"metadata": {"tags": [TAG_HIDDEN]}}},
    ).get_graph(xray=True)
    assert list(graph.nodes) == [START, "a", END]
    assert edges_of(graph) == [(START, "a"), ("a", END)]


# Nested graphs


def chain(*names: str, **options: Any) -> Any:
    nodes = {name: options.pop(name, nothing) for name in names}
    return built(nodes, list(zip((START, *names), (*names, END), strict=True)), **options)


def test_a_nested_graph_is_a_node_unless_it_is_looked_into() -> None:
    inner = chain("x", "y")
    graph = chain("a", "inner", inner=inner)
    for xray in (False, 0):
        drawing = graph.get_graph(xray=xray)
        assert list(drawing.nodes) == [START, "a", "inner", END]
        assert drawing.nodes["inner"].data is inner


def test_a_nested_graph_stands_in_the_place_of_its_node() -> None:
    inner = chain("x", "y", interrupt_after=["y"])
    graph = built(
        {"a": nothing, "inner": inner},
        [(START, "a"), ("inner", "a")],
        [("a", choose, {"deeper": "inner", "done": END})],
        {"inner": {"metadata": {"owner": "ops"}}},
        interrupt_before=["inner"],
    ).get_graph(xray=True)
    assert list(graph.nodes) == [START, "a", "inner:x", "inner:y", END]
    assert [node.name for node in graph.nodes.values()] == [START, "a", "x", "y", END]
    assert all(key == node.id for key, node in graph.nodes.items())
    assert edges_of(graph) == [
        (START, "a"),
        ("a", "inner:x", "deeper"),
        ("a", END, "done"),
        ("inner:y", "a"),
        ("inner:x", "inner:y"),
    ]
    assert (graph.interrupt_before, graph.interrupt_after) == ({"inner"}, {"inner:y"})
    assert graph.notes("inner") == ["owner = ops", "interrupt before"]


def test_start_and_end_inside_are_drawn_if_they_say_more_than_one_edge() -> None:
    inner = built(
        {"x": nothing, "y": nothing},
        [(START, "x"), ("y", "x")],
        [("x", choose, {"more": "y", "done": END})],
    )
    graph = chain("inner", inner=inner).get_graph(xray=True)
    assert list(graph.nodes) == [START, "inner:__start__", "inner:x", "inner:y", "inner:__end__", END]
    assert edges_of(graph) == [
        (START, "inner:__start__"),
        ("inner:__end__", END),
        ("inner:__start__", "inner:x"),
        ("inner:x", "inner:y", "more"),
        ("inner:x", "inner:__end__", "done"),
        ("inner:y", "inner:x"),
    ]


def test_a_graph_that_seems_endless_is_left_all_the_same() -> None:
    inner = built({"x": nothing, "y": nothing}, [(START, "x"), ("x", "y"), ("y", "x")])
    graph = chain("inner", inner=inner).get_graph(xray=True)
    assert ("inner:__end__", END) in edges_of(graph)
    assert "inner:__end__" in graph.nodes


def test_a_node_that_goes_back_to_itself_as_a_graph() -> None:
    graph = built(
        {"inner": chain("x", "y")}, [(START, "inner")], [("inner", choose, {"again": "inner", "": END})]
    )
    assert ("inner:y", "inner:x", "again") in edges_of(graph.get_graph(xray=True))


@pytest.mark.parametrize(
    ("xray", "nodes"),
    [
        (1, ["a", "one:b", "one:two", "one:c"]),
        (2, ["a", "one:b", "one:two:three", "one:c"]),
        (3, ["a", "one:b", "one:two:three:d", "one:c"]),
        (9, ["a", "one:b", "one:two:three:d", "one:c"]),
        (True, ["a", "one:b", "one:two:three:d", "one:c"]),
    ],
)
def test_how_deep_is_looked(xray: bool | int, nodes: list[str]) -> None:
    one = chain("b", "two", "c", two=chain("three", three=chain("d")))
    graph = chain("a", "one", one=one).get_graph(xray=xray)
    assert list(graph.nodes) == [START, *nodes, END]
    assert edges_of(graph)[:3] == [(START, "a"), ("a", nodes[1]), (nodes[3], END)]
    assert list(graph.boxes) == [box.id for box in graph.nesting()]


def test_a_graph_that_a_function_calls_is_drawn_in_its_place() -> None:
    """As LangGraph does; of a function that refers to several, it is not known which it calls when."""
    inner, other = chain("x", "y"), chain("z")

    def call(state: State) -> Any:
        return inner.invoke(state)

    def call_both(state: State) -> Any:
        return other.invoke(inner.invoke(state))

    graph = chain("one", "both", one=call, both=call_both)
    assert list(graph.get_graph().nodes) == [START, "one", "both", END]
    drawn = graph.get_graph(xray=True)
    assert list(drawn.nodes) == [START, "one:x", "one:y", "both", END]
    assert edges_of(drawn) == [(START, "one:x"), ("one:y", "both"), ("both", END), ("one:x", "one:y")]


def test_a_graph_that_calls_itself_is_not_drawn_without_end() -> None:
    made: Any = None

    def again(state: State) -> Any:
        return made.invoke(state)

    made = chain("again", again=again)
    assert list(made.get_graph(xray=True).nodes) == [START, "again", END]


def test_one_graph_in_two_places_has_ids_of_its_own_in_each() -> None:
    inner = chain("x")
    graph = chain("one", "two", one=inner, two=inner).get_graph(xray=True)
    assert edges_of(graph) == [(START, "one:x"), ("one:x", "two:x"), ("two:x", END)]


@pytest.mark.parametrize(("xray", "error"), [(-1, ValueError), ("yes", TypeError), (1.0, TypeError)])
def test_a_wrong_depth_is_refused(xray: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="xray"):
        chain("a").get_graph(xray=xray)


# The doors


def test_both_doors_take_a_config_and_draw_the_same() -> None:
    graph = chain("a", "inner", inner=chain("x"))
    config = {"configurable": {"thread_id": "t"}}
    assert asyncio.run(graph.aget_graph(config, xray=True)) == graph.get_graph(config, xray=True)


def test_an_entrypoint_is_a_node_of_its_own_graph() -> None:
    @entrypoint()
    def workflow(value: str) -> str:
        return value

    graph = workflow.get_graph(xray=True)
    assert edges_of(graph) == [(START, "workflow"), ("workflow", END)]
    assert graph.to_json()["nodes"][1]["id"] == "workflow"


def test_text_is_drawn_without_loading_what_pictures_need() -> None:
    program = (
        "import sys\n"
        "from graphkit import StateGraph, START\n"
        "builder = StateGraph(dict).add_node('a', lambda state: state).add_edge(START, 'a')\n"
        "builder.compile().get_graph().draw_mermaid()\n"
        "print([name for name in ('networkx', 'matplotlib', 'pydot') if name in sys.modules])\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
