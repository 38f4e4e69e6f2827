"""The layout of drawings: whatever the graph, nothing lies upon anything else.

Only what must hold of every drawing is asserted; whether one is pleasant is for eyes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphkit.constants import END, START
from graphkit.graph.draw import DrawableGraph, DrawEdge, DrawNode
from graphkit.graph.drawing.columns import spread, whole
from graphkit.graph.drawing.layout import Block, Layout, Point, Route, layout
from graphkit.graph.drawing.texts import Line, broken, shown

Cells = set[Point]


def measure(line: Line) -> int:
    return len(line.text)


def drawing(nodes: list[str], edges: list[DrawEdge]) -> DrawableGraph:
    return DrawableGraph({node: DrawNode(node, node.rpartition(":")[2]) for node in nodes}, edges)


def cells_of(block: Block) -> Cells:
    columns = range(block.column, block.column + block.width)
    return {(column, row) for column in columns for row in range(block.row, block.row + block.height)}


def border_of(block: Block) -> Cells:
    right, bottom = block.column + block.width - 1, block.row + block.height - 1
    return {(c, r) for c, r in cells_of(block) if c in (block.column, right) or r in (block.row, bottom)}


def steps_of(route: Route) -> Iterator[tuple[Point, Point]]:
    """The way, cell by cell."""
    for (column, row), (last_column, last_row) in pairwise(route.points):
        assert column == last_column or row == last_row, "every piece is straight"
        length = max(abs(last_column - column), abs(last_row - row))
        across, down = (last_column - column) // length, (last_row - row) // length
        for step in range(length):
            here = (column + across * step, row + down * step)
            yield here, (here[0] + across, here[1] + down)


def way_of(route: Route) -> Cells:
    return {cell for step in steps_of(route) for cell in step}


@st.composite
def drawings(draw: st.DrawFn) -> DrawableGraph:
    boxes = draw(
        st.lists(st.sampled_from(["", "p:", "q:", "p:r:", "p:r:s:", "q:t:"]), min_size=1, max_size=5)
    )
    names = st.sampled_from(["a", "b", "c", "a_rather_long_name_of_a_node_in_a_graph", "three words here"])
    nodes = draw(st.lists(st.builds(lambda box, name: box + name, st.sampled_from(boxes), names), max_size=8))
    every = list(dict.fromkeys([START, *nodes, END]))
    labels = st.sampled_from([None, None, "yes", "a label of many words that is broken into lines"])
    ends = st.tuples(st.sampled_from(every), st.sampled_from(every), labels, st.booleans())
    return drawing(every, [DrawEdge(*edge) for edge in draw(st.lists(ends, max_size=14))])


@settings(max_examples=300)
@given(drawings())
def test_nothing_lies_upon_anything_else(graph: DrawableGraph) -> None:
    plan = layout(graph, measure)
    blocks = [*plan.nodes, *(route.label for route in plan.routes if route.label is not None)]
    for one, other in combinations(blocks, 2):
        assert not cells_of(one) & cells_of(other)
    for route, second in combinations(plan.routes, 2):
        assert not pieces_of(route) & pieces_of(second)
        assert not corners_of(route) & way_of(second)
        assert not corners_of(second) & way_of(route)
    for route in plan.routes:
        for node in plan.nodes:
            touched = way_of(route) & cells_of(node)
            ends = {route.points[0]} if node.id == route.edge.source else set()
            ends |= {route.points[-1]} if node.id == route.edge.target else set()
            assert touched == ends
            assert touched <= border_of(node)
        for second in plan.routes:
            if second.label is not None and second is not route:
                assert not way_of(route) & cells_of(second.label)

        for box in plan.boxes:
            assert not way_of(route) & title_of(box)


def pieces_of(route: Route) -> set[frozenset[Point]]:
    return {frozenset(step) for step in steps_of(route)}


def title_of(box: Block) -> Cells:
    return {(box.column + 1 + place, box.row) for place in range(measure(box.lines[0]) + 2)}


def corners_of(route: Route) -> Cells:
    return set(route.points[1:-1])


@settings(max_examples=150)
@given(drawings())
def test_a_box_holds_its_own_nodes_and_no_others(graph: DrawableGraph) -> None:
    plan = layout(graph, measure)
    boxes = {box.id: box for box in plan.boxes}
    assert list(boxes) == sorted(boxes, key=lambda key: list(boxes).index(key))
    for box in plan.boxes:
        inside = cells_of(box) - border_of(box)
        for other in (*plan.nodes, *plan.boxes):
            if other.id.startswith(f"{box.id}:"):
                assert cells_of(other) <= inside
            elif not box.id.startswith(f"{other.id}:") and other is not box:
                assert not cells_of(other) & cells_of(box)
    for block in (*plan.nodes, *plan.boxes):
        assert block.column >= 0
        assert block.column + block.width <= plan.width
        assert block.row >= 0
        assert block.row + block.height <= plan.height


@given(drawings())
def test_every_text_fits_its_block(graph: DrawableGraph) -> None:
    plan = layout(graph, measure)
    for node in plan.nodes:
        assert max(measure(line) for line in node.lines) + 4 <= node.width + 1
        assert len(node.lines) + 2 <= node.height
    for box in plan.boxes:
        assert measure(box.lines[0]) + 4 <= box.width


@given(drawings())
def test_equal_drawings_have_equal_layouts(graph: DrawableGraph) -> None:
    again = drawing(list(graph.nodes), list(graph.edges))
    assert layout(graph, measure) == layout(again, measure)


def rows(plan: Layout) -> dict[str, int]:
    return {node.id: node.row for node in plan.nodes}


def test_edges_lead_down_except_those_that_close_a_loop() -> None:
    graph = drawing(
        [START, "a", "b", "c", END],
        [DrawEdge(*edge) for edge in [(START, "a"), ("a", "b"), ("b", "c"), ("c", "a"), ("c", END)]],
    )
    plan = layout(graph, measure)
    row = rows(plan)
    assert row[START] < row["a"] < row["b"] < row["c"] < row[END]
    ups = [route.edge for route in plan.routes if route.points[0][1] > route.points[-1][1]]
    assert ups == [DrawEdge("c", "a")]


def test_end_stands_below_everything() -> None:
    graph = drawing(
        [START, END, "a", "b"],
        [DrawEdge(*edge) for edge in [(START, END), (START, "a"), ("a", "b")]],
    )
    row = rows(layout(graph, measure))
    assert row[END] > row["b"]


def test_a_chain_is_a_straight_line() -> None:
    names = [START, "a", "a_longer_name", "b", END]
    plan = layout(drawing(names, [DrawEdge(*edge) for edge in pairwise(names)]), measure)
    assert {len(route.points) for route in plan.routes} == {2}
    assert len({route.points[0][0] for route in plan.routes}) == 1


def test_a_chain_of_a_thousand_nodes_can_be_laid_out() -> None:
    names = [START, *(f"n{number}" for number in range(1000)), END]
    plan = layout(drawing(names, [DrawEdge(*edge) for edge in pairwise(names)]), measure)
    assert len(plan.nodes) == 1002


# Columns


@given(
    st.lists(st.tuples(st.floats(-50, 50), st.floats(0.1, 9)), min_size=1, max_size=8),
    st.lists(st.integers(1, 9), min_size=7, max_size=7),
)
def test_columns_keep_their_gaps_also_when_rounded(
    wishes: list[tuple[float, float]], gaps: list[int]
) -> None:
    gaps = gaps[: len(wishes) - 1]
    columns = [whole(column) for column in spread(wishes, gaps)]
    assert all(other - one >= gap for (one, other), gap in zip(pairwise(columns), gaps, strict=True))


def test_columns_come_as_near_to_the_wishes_as_can_be() -> None:
    assert spread([(0, 1), (10, 1)], [3]) == [0, 10]
    assert spread([(5, 1), (5, 1)], [4]) == [3, 7]
    assert spread([(5, 3), (5, 1)], [4]) == [4, 8]
    assert spread([(5, 1), (5, 1)], [4], low=4) == [4, 8]
    assert spread([(5, 1), (5, 1)], [4], high=6) == [2, 6]


# Text


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("short", ["short"]),
        ("", []),
        ("check_the_facts_of_a_very_long_document", ["check_the_facts_of_a_very_", "long_document"]),
        ("one two three four five six seven", ["one two three four five six", "seven"]),
        ("x" * 60, ["x" * 28, "x" * 28, "x" * 4]),
    ],
)
def test_long_texts_are_broken_where_it_hurts_least(text: str, lines: list[str]) -> None:
    assert list(broken(text, measure)) == lines


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_broken_lines_hold_the_whole_text(text: str) -> None:
    lines = list(broken(text, measure))
    assert all(len(line) <= 28 for line in lines)
    assert "".join("".join(lines).split()) == "".join(shown(text).split())


@pytest.mark.parametrize(
    ("text", "one_line"), [(" a\n b ", "a b"), ("a\x07b", "a?b"), ("a\u202eb", "ab"), ("\u200b", "")]
)
def test_what_would_disturb_a_line_is_not_shown(text: str, one_line: str) -> None:
    assert shown(text) == one_line
