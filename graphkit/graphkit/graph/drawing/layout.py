"""Where everything in a drawing stands: a layered layout, from top to bottom, in cells of text.

The layout is Sugiyama's, with a rectangle of its own for every nested graph. Each graph is laid out by itself:
its nodes stand in layers so that edges lead down, except those that close a loop; an edge that passes a layer,
and the label of an edge, have a place in it like a node (`layers.py`). Columns come as near to those of the
neighbours as the order in a layer allows (`columns.py`). Then the edges are led from layer to layer, straight
down or over one horizontal track each (`routing.py`).

So nothing overlaps, whatever the graph: blocks stand apart, no edge runs through a block that is not its own,
no two edges share a piece of their way. Text and pictures have the same layout; what a text measures is asked
of who draws it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphkit.graph.drawing.texts import Line, Measure

if TYPE_CHECKING:
    from graphkit.graph.draw import DrawableGraph, DrawEdge

Point = tuple[int, int]
"""Column and row of a cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A rectangle of cells: a node or a box with its border, or a label, which has none (and no id).

    A box has one line, its title, which starts at the third cell of its upper border.
    """

    id: str
    lines: tuple[Line, ...]
    column: int
    row: int
    width: int
    height: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """An edge's way, from a cell of its source's border to one of its target's; each piece is straight."""

    edge: DrawEdge
    points: tuple[Point, ...]
    label: Block | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """`boxes` come before the boxes in them, nodes and routes in the order of the drawing."""

    width: int
    height: int
    boxes: tuple[Block, ...]
    nodes: tuple[Block, ...]
    routes: tuple[Route, ...]


def layout(graph: DrawableGraph, measure: Measure, words: int | None = None) -> Layout:
    """`words` is the number of them in a line of an edge's label. `ValueError` for an edge to no node."""
    from graphkit.graph.drawing.layers import arrange
    from graphkit.graph.drawing.levels import levels
    from graphkit.graph.drawing.routing import routed

    plan = levels(graph, measure, words)
    arrange(plan, measure)
    return routed(plan)
