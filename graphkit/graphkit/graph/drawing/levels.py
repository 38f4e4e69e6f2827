"""What the layout works on: a drawing's graphs (`Level`), what stands in them (`Item`), what leads on (`Step`).

A `Level` is one graph: the whole drawing, or a nested graph, whose box is an item of the level around it. An edge
belongs to the innermost level that holds both of its ends. Where it leads out of or into boxes on its way, it
passes a *port* in their borders.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from graphkit.graph.drawing.texts import Line, Measure, label_lines, node_lines, title_line

if TYPE_CHECKING:
    from graphkit.graph.draw import DrawableGraph, DrawEdge

Kind = Literal["node", "box", "label", "bend", "port", "title"]
Side = Literal["top", "bottom"]
Path = tuple[str, ...]
"""An id, split at its colons."""

LOOP = 3
"""Columns that an edge from a node to itself needs beside the node."""


@dataclass(slots=True, eq=False)
class Item:
    """Something with a place in a layer. It covers `left` and `right` columns beside its own `column`."""

    kind: Kind
    id: str = ""
    lines: tuple[Line, ...] = ()
    left: int = 0
    right: int = 0
    height: int = 0
    edge: int | None = None
    level: Level | None = None
    loops: list[Loop] = field(default_factory=lambda: list[Loop]())
    column: float = 0
    row: int = 0

    @property
    def is_line(self) -> bool:
        return self.kind in ("bend", "port")

    @property
    def reach(self) -> int:
        """`right` without what stands beside a node."""
        return self.left if self.kind == "node" else self.right

    def offset(self, edge: int, side: Side) -> float:
        """Where an edge ends, counted from `column`: at a box that depends on its port inside."""
        if self.level is None:
            return 0
        ports = self.level.tops if side == "top" else self.level.bottoms
        return ports[edge].column - self.left


@dataclass(slots=True)
class Loop:
    """An edge from a node to itself: rows beside the node, counted from its first line."""

    edge: int
    lines: tuple[Line, ...]
    first: int
    rows: int


@dataclass(slots=True, eq=False)
class Step:
    """A piece of an edge, between neighbouring layers. A `track` is the row in which it changes its column."""

    edge: int
    upper: Item
    lower: Item
    start: int = 0
    track: int | None = None
    end: int = 0


@dataclass(slots=True, eq=False)
class Level:
    """One graph. `links` are (edge, source, target) by the keys of `items`; `steps[n]` lead from `layers[n]` on.

    The first and the last layer of a nested graph are the borders of its box, with the title and the ports.
    """

    path: Path
    title: Item | None = None
    items: dict[Path, Item] = field(default_factory=lambda: dict[Path, Item]())
    links: list[tuple[int, Path, Path]] = field(default_factory=lambda: list[tuple[int, Path, Path]]())
    layers: list[list[Item]] = field(default_factory=lambda: list[list[Item]]())
    steps: list[list[Step]] = field(default_factory=lambda: list[list[Step]]())
    tops: dict[int, Item] = field(default_factory=lambda: dict[int, Item]())
    bottoms: dict[int, Item] = field(default_factory=lambda: dict[int, Item]())
    width: int = 0


@dataclass(slots=True, eq=False)
class Plan:
    """A drawing on its way to a layout. `levels` are by path, the outermost is `()`; `turned` edges lead up."""

    graph: DrawableGraph
    edges: list[DrawEdge]
    labels: list[tuple[Line, ...]]
    levels: dict[Path, Level]
    turned: set[int] = field(default_factory=lambda: set[int]())


def levels(graph: DrawableGraph, measure: Measure, words: int | None) -> Plan:
    """`ValueError` for an edge to an id that is no node."""
    edges = list(graph.checked_edges())
    plan = Plan(
        graph,
        edges,
        [label_lines(edge.label, measure, words) for edge in edges],
        _levels(graph, measure),
    )
    for number, edge in enumerate(edges):
        source, target = path_of(edge.source), path_of(edge.target)
        level = plan.levels[_common(source, target)]
        if source == target:
            _add_loop(level.items[source], number, plan.labels[number], measure)
        else:
            depth = len(level.path) + 1
            level.links.append((number, item_key(source, depth), item_key(target, depth)))
    return plan


def path_of(node_id: str) -> Path:
    return tuple(node_id.split(":"))


def item_key(node: Path, depth: int) -> Path:
    """The key of the item that is, or holds, a node: boxes end in "", which makes them differ from nodes."""
    return node if len(node) == depth else (*node[:depth], "")


def _common(one: Path, other: Path) -> Path:
    """The innermost level that holds both nodes."""
    depth = 0
    while depth < min(len(one), len(other)) - 1 and one[depth] == other[depth]:
        depth += 1
    return one[:depth]


def _levels(graph: DrawableGraph, measure: Measure) -> dict[Path, Level]:
    levels: dict[Path, Level] = {(): Level(())}
    for box in graph.nesting():
        path, line = path_of(box.id), title_line(graph, box.id, box.name)
        title = Item("title", lines=(line,), right=measure(line) - 1, height=1)
        levels[path] = Level(path, title)
        levels[path[:-1]].items[*path, ""] = Item("box", box.id, level=levels[path])
    for node in graph.nodes.values():
        path, lines = path_of(node.id), node_lines(graph, node.id, node.name, measure)
        # an odd number of columns, so that there is a middle
        half = (max(map(measure, lines)) + 4) // 2
        levels[path[:-1]].items[path] = Item("node", node.id, lines, half, half, 2 + len(lines))
    return levels


def _add_loop(item: Item, edge: int, lines: tuple[Line, ...], measure: Measure) -> None:
    first = sum(loop.rows for loop in item.loops)
    item.loops.append(Loop(edge, lines, first, max(2, len(lines))))
    label = max((measure(line) + 2 for line in lines), default=0)
    item.right = max(item.right, item.left + LOOP + label)
    item.height = max(item.height, 2 + first + item.loops[-1].rows)
