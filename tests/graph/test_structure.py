"""The structural check: every fault by its name, nothing sound refused, unreachable nodes as one warning."""

from __future__ import annotations

import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphkit.constants import END, START
from graphkit.errors import InvalidGraphError, UnreachableNodeWarning
from graphkit.graph.structure import BranchDescription, GraphDescription, check_structure

Ways = tuple[tuple[str, str], ...]


def graph(nodes: str, edges: str = "", **parts: Any) -> GraphDescription:
    """One node per letter; edges like `">a ab b."`, where `>` is START and `.` is END."""
    ends = {">": START, ".": END}
    ways = tuple((ends.get(way[0], way[0]), ends.get(way[1], way[1])) for way in edges.split())
    return GraphDescription(nodes=tuple(nodes), edges=ways, **parts)


def branch(source: str, targets: str | None, name: str = "route") -> BranchDescription:
    return BranchDescription(source, None if targets is None else tuple(targets), name)


def faults(description: GraphDescription) -> list[str]:
    """What is said of each fault."""
    with pytest.raises(InvalidGraphError) as caught:
        check_structure(description)
    lines = str(caught.value).splitlines()
    return lines if len(lines) == 1 else lines[1:]


def unreachable(description: GraphDescription) -> str:
    with pytest.warns(UnreachableNodeWarning) as caught:
        check_structure(description)
    assert len(caught) == 1
    return str(caught[0].message)


# Sound graphs: neither an error nor a warning (warnings are errors here)


@pytest.mark.parametrize(
    "sound",
    [
        graph("a", ">a"),
        graph("a", ">a a."),
        graph("", ">."),
        graph("ab", ">a ab ba"),
        graph("ab", ">a", branches=(branch("a", "b"),)),
        graph("ab", ">a", branches=(branch("a", None),)),
        graph("ab", branches=(branch(START, "ab"),)),
        graph("ab", branches=(branch(START, None),)),
        graph("ab", ">a", branches=(BranchDescription("a", ("b", END), "route"),)),
        graph("ab", ">a", destinations={"a": ("b", END)}),
        graph("ab", ">a", destinations={"a": ("b",)}, dynamic=frozenset("a")),
        graph("abc", ">a >b", joins=((("a", "b"), "c"),)),
        graph("ab", ">a >b", joins=((("a", "b"), END),)),
        graph("ab", ">a", joins=(((START, "a"), "b"),)),
        graph("a", joins=(((START,), "a"),)),
        graph("ab", ">a", joins=((("a", "a"), "b"),)),
        graph("pab", ">p pa pb", joins=((("a", "b"), "p"),)),
        graph("abcd", ">a >b", joins=((("a", "b"), "c"), (("a", "c"), "d"))),
        graph("abc", ">a", branches=(branch("a", None),), joins=((("b", "c"), "a"),)),
        graph("abc", ">a", destinations={"a": ("b",)}, joins=((("a", "b"), "c"),)),
        graph("ab", ">a >b", joins=((("a", "b"), "b"),)),
    ],
    ids=lambda description: " ".join(map("".join, description.edges)) or "no edges",
)
def test_sound_graphs_pass(sound: GraphDescription) -> None:
    check_structure(sound)


# Faults


@pytest.mark.parametrize(
    ("faulty", "said"),
    [
        (
            graph("a", ">a ax"),
            "the edge 'a' -> 'x' leads to 'x', which is no node; add it with add_node('x', ...)",
        ),
        (graph("a", ">a xa"), "the edge 'x' -> 'a' starts at 'x', which is no node"),
        (
            GraphDescription(nodes=("a",), edges=((START, "a"), ("a", "END"))),
            "leads to 'END', which is no node; did you mean graphkit.END, which is '__end__'?",
        ),
        (
            GraphDescription(nodes=("a",), edges=((START, "a"), ("START", "a"))),
            "starts at 'START', which is no node; did you mean graphkit.START, which is '__start__'?",
        ),
        (graph("a", ">a .a"), "the edge '__end__' -> 'a' starts at END"),
        (graph("a", ">a a>"), "the edge 'a' -> '__start__' leads to START"),
        (
            graph("a", ">a", joins=((("a", "x"), "a"),)),
            "the join ['a', 'x'] -> 'a' starts at 'x', which is no",
        ),
        (graph("a", ">a", joins=((("a",), "x"),)), "the join ['a'] -> 'x' leads to 'x', which is no node"),
        (graph("a", ">a", joins=((("a", END), "a"),)), "starts at END"),
        (graph("a", ">a", joins=((("a",), START),)), "leads to START"),
        (graph("a", ">a", joins=(((), "a"),)), "the join into 'a' has no sources"),
        (
            graph("a", ">a", branches=(branch("a", "x"),)),
            "the branch 'route' of 'a' leads to 'x', which is no",
        ),
        (
            graph("a", ">a", branches=(branch("x", "a"),)),
            "the branch 'route' starts at 'x', which is no node",
        ),
        (
            graph("a", ">a", branches=(branch("x", None),)),
            "the branch 'route' starts at 'x', which is no node",
        ),
        (graph("a", ">a", branches=(branch(END, "a"),)), "starts at END"),
        (graph("a", ">a", destinations={"a": ("x",)}), "the destinations of 'a' name 'x', which is no node"),
        (graph("a", ">a", destinations={"x": ("a",)}), "destinations are declared for 'x', which is no node"),
        (graph("a", ">a", destinations={"a": (START,)}), "the destinations of 'a' name START"),
        (graph("a"), "no entry: nothing leads out of START"),
        (graph("ab", "ab ba"), "no entry"),
        (graph("abc", ">a", joins=((("a", "b"), "c"),)), "the join ['a', 'b'] -> 'c' can never be complete"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_each_fault_says_what_and_where(faulty: GraphDescription, said: str) -> None:
    (fault,) = faults(faulty)
    assert said in fault


def test_a_join_is_no_entry_unless_start_alone_completes_it() -> None:
    entry, join = faults(graph("ab", joins=(((START, "a"), "b"),)))
    assert "entry" in entry
    assert "nothing that runs before it leads to 'a'" in join


def test_a_name_that_is_nearly_right_is_suggested() -> None:
    (fault,) = faults(GraphDescription(nodes=("plan", "act"), edges=((START, "plan"), ("plan", "atc"))))
    assert "did you mean 'act'?" in fault


def test_all_faults_are_reported_at_once() -> None:
    description = graph(
        "ab",
        "ax yb",
        joins=((("a", "z"), "b"), ((), "b")),
        branches=(branch("a", "w"), branch("v", "b")),
        destinations={"a": ("u",)},
    )
    said = faults(description)
    for name in "xyzwvu":
        assert any(f"{name!r}, which is no node" in fault for fault in said)
    assert any("no sources" in fault for fault in said)
    assert any("no entry" in fault for fault in said)
    assert any("never be complete" in fault for fault in said)
    assert len(said) == 9


def test_a_fault_comes_without_the_warning() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        faults(graph("ab", ">a ax"))
    assert caught == []


# Joins that can never be complete


@pytest.mark.parametrize(
    ("edges", "parts", "missing"),
    [
        (">a", {"joins": ((("a", "b"), "c"),)}, "'b'"),
        (">a cb", {"joins": ((("a", "b"), "c"),)}, "'b'"),
        (">a", {"joins": ((("a", "c"), "c"),)}, "'c'"),
        (">a", {"joins": ((("b", "c"), "a"),)}, "'b', 'c'"),
        (">a", {"joins": ((("a", "b"), "c"),), "branches": (branch("b", None),)}, "'b'"),
        (">a", {"joins": ((("a", "b"), "c"),), "dynamic": frozenset("b")}, "'b'"),
    ],
)
def test_a_join_without_a_way_to_a_source(edges: str, parts: Any, missing: str) -> None:
    (fault,) = faults(graph("abc", edges, **parts))
    assert f"nothing that runs before it leads to {missing};" in fault
    assert "destinations=" in fault


def test_two_joins_that_wait_for_each_other() -> None:
    one, other = faults(graph("abcd", ">a", joins=((("a", "c"), "b"), (("a", "b"), "c"))))
    assert "['a', 'c'] -> 'b'" in one
    assert "['a', 'b'] -> 'c'" in other


def test_an_incomplete_join_makes_a_later_one_incomplete() -> None:
    _, later = faults(graph("abcd", ">a", joins=((("a", "b"), "c"), (("a", "c"), "d"))))
    assert "leads to 'c'" in later


def test_an_undeclared_goto_may_complete_a_join() -> None:
    description = graph("abc", ">a", joins=((("a", "b"), "c"),), dynamic=frozenset("a"))
    assert "'b', 'c'" in unreachable(description)


# Unreachable nodes


def test_unreachable_nodes_are_one_warning_that_names_them_all() -> None:
    said = unreachable(graph("abcd", ">a bc"))
    assert "'b', 'c', 'd'" in said
    assert "destinations=" in said


@pytest.mark.parametrize(
    "parts",
    [
        {"branches": (branch("b", None),)},
        {"destinations": {"b": ("b",)}},
        {"dynamic": frozenset("a")},
        {"dynamic": frozenset("b")},
    ],
)
def test_what_an_unreachable_node_leads_to_does_not_count(parts: Any) -> None:
    assert "'b'" in unreachable(graph("ab", ">a", **parts))


def compile_like(description: GraphDescription) -> None:
    check_structure(description)


def test_the_warning_points_at_the_caller_of_compile() -> None:
    line = compile_like.__code__.co_firstlineno
    with pytest.warns(UnreachableNodeWarning) as caught:
        compile_like(graph("ab", ">a"))
    assert Path(caught[0].filename) == Path(__file__)
    assert caught[0].lineno > line + 1


# Against a slow, literal statement of the rules


def reached_slowly(description: GraphDescription) -> set[str]:
    done = {START}
    while True:
        more = {target for source, target in description.edges if source in done}
        more |= {target for sources, target in description.joins if done.issuperset(sources)}
        for one in description.branches:
            if one.source in done:
                more |= set(description.nodes if one.targets is None else one.targets)
        for source, targets in description.destinations.items():
            more |= set(targets) if source in done else set()
        if more <= done:
            return done
        done |= more


name = st.sampled_from("abcdef")
start_or_name = st.sampled_from([START, *"abcdef"])
descriptions = st.builds(
    GraphDescription,
    nodes=st.just(tuple("abcdef")),
    edges=st.lists(st.tuples(start_or_name, name), max_size=6).map(lambda edges: ((START, "a"), *edges)),
    joins=st.lists(
        st.tuples(st.lists(start_or_name, min_size=1, max_size=3).map(tuple), name), max_size=4
    ).map(tuple),
    branches=st.lists(
        st.builds(
            BranchDescription, name, st.none() | st.lists(name, max_size=2).map(tuple), st.just("route")
        ),
        max_size=1,
    ).map(tuple),
    destinations=st.dictionaries(name, st.lists(name, max_size=2).map(tuple), max_size=2),
)


@settings(deadline=None)
@given(descriptions)
def test_reachability_is_the_least_fixed_point(description: GraphDescription) -> None:
    done = reached_slowly(description)
    incomplete = [sources for sources, _ in description.joins if not done.issuperset(sources)]
    lost = [node for node in description.nodes if node not in done]
    if incomplete:
        said = faults(description)
        assert len(said) == len(incomplete)
        assert all(f"{list(sources)!r} -> " in fault for sources, fault in zip(incomplete, said, strict=True))
    elif lost:
        assert ", ".join(map(repr, lost)) in unreachable(description)
    else:
        check_structure(description)


def test_a_long_chain_needs_no_recursion() -> None:
    nodes = tuple(f"n{number}" for number in range(5000))
    check_structure(GraphDescription(nodes=nodes, edges=((START, "n0"), *pairwise(nodes))))
