"""Drawing: a graph, described by names alone, as Mermaid text or as a networkx graph.

The description says nothing of how a graph runs, so that anything can be drawn that can be described. Nodes
and edges are drawn in the order in which they are given: equal descriptions give equal text.

Mermaid reads some characters and some words as syntax, and labels as Markdown. So a name becomes an
identifier of ASCII letters, digits and underscores, made unique, and is shown through its label; in labels,
whatever could mean something is written as an entity code (`#35;`). START and END are shown without their
underscores, which would make them bold. An id with colons belongs to a nested graph: `"research:search"` is
drawn in a box "research". (No node's name has a colon.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from graphkit.constants import END, START

if TYPE_CHECKING:
    from networkx import MultiDiGraph

__all__ = ["Direction", "DrawEdge", "DrawNode", "DrawableGraph"]

Direction = Literal["TD", "TB", "BT", "LR", "RL"]

# words that Mermaid's flowchart grammar takes for itself
_WORDS = frozenset(
    {"_blank", "_parent", "_self", "_top", "accDescr", "accTitle", "call", "class", "classDef", "click"}
    | {"default", "direction", "end", "flowchart", "graph", "href", "interpolate", "linkStyle", "style"}
    | {"subgraph"}
)
# all but letters, digits, harmless signs, and the _ and - inside a word
_UNSAFE = re.compile(r"[^\w ,:=?!'-]|(?<![^\W_])[_-]|[_-](?![^\W_])")


@dataclass(frozen=True, slots=True)
class DrawNode:
    """A node to draw: `id` is unique in the drawing, `name` is what is shown."""

    id: str
    name: str
    metadata: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class DrawEdge:
    """An edge between two node ids; a `conditional` one may be taken, and says when by its `label`."""

    source: str
    target: str
    conditional: bool = False
    label: str | None = None


@dataclass(frozen=True, slots=True)
class DrawableGraph:
    """A graph to draw: `nodes` by id, `edges` between them, and the ids at which runs pause."""

    nodes: dict[str, DrawNode]
    edges: list[DrawEdge] = field(default_factory=lambda: list[DrawEdge]())
    interrupt_before: frozenset[str] = frozenset()
    interrupt_after: frozenset[str] = frozenset()

    def draw_mermaid(self, *, direction: Direction = "TD") -> str:
        """The graph as a Mermaid flowchart, ending in a newline.

        Conditional edges are dotted; metadata and breakpoints stand below a node's name. `direction` is
        "TD" (or "TB"), "BT", "LR" or "RL"; anything else is a `ValueError`, as is an edge to an id that
        is no node.
        """
        if direction not in get_args(Direction):
            raise ValueError(f"direction is one of {', '.join(get_args(Direction))}, not {direction!r}")
        ids = self._mermaid_ids()
        lines = [f"graph {direction}", *self._mermaid_nodes(ids), *self._mermaid_edges(ids)]
        return "\n".join(lines) + "\n"

    def to_networkx(self) -> MultiDiGraph[str]:
        """The graph as a `networkx.MultiDiGraph` over the node ids.

        Nodes carry `name`, `metadata`, `interrupt_before` and `interrupt_after`; edges `conditional` and
        `label`. An edge to an id that is no node is a `ValueError`.
        """
        from networkx import MultiDiGraph  # 400 ms to import

        graph: MultiDiGraph[str] = MultiDiGraph()
        for node_id, node in self.nodes.items():
            graph.add_node(
                node_id,
                name=node.name,
                metadata=node.metadata,
                interrupt_before=node_id in self.interrupt_before,
                interrupt_after=node_id in self.interrupt_after,
            )
        for edge in self._checked_edges():
            graph.add_edge(edge.source, edge.target, conditional=edge.conditional, label=edge.label)
        return graph

    def _checked_edges(self) -> Iterator[DrawEdge]:
        for edge in self.edges:
            for end in (edge.source, edge.target):
                if end not in self.nodes:
                    raise ValueError(f"the edge {edge.source!r} -> {edge.target!r} needs a node {end!r}")
            yield edge

    def _boxes(self) -> list[str]:
        """The nested graphs, each after the one around it."""
        boxes: dict[str, None] = {}
        for node_id in self.nodes:
            parts = node_id.split(":")[:-1]
            boxes.update(dict.fromkeys(":".join(parts[: depth + 1]) for depth in range(len(parts))))
        return list(boxes)

    def _mermaid_ids(self) -> dict[str, str]:
        """The Mermaid identifier of every node id and, under its id and a colon, of every box."""
        taken = set(_WORDS)
        ids: dict[str, str] = {}
        for name in (*self.nodes, *(f"{box}:" for box in self._boxes())):
            plain = re.sub(r"\W", lambda found: f"_{ord(found[0]):x}_", name, flags=re.ASCII) or "_"
            while plain in taken:
                plain += "_"
            taken.add(plain)
            ids[name] = plain
        return ids

    def _mermaid_nodes(
        self, ids: dict[str, str], box: str | None = None, indent: str = "    "
    ) -> Iterator[str]:
        """The nodes directly in `box` (None is the graph itself), then the boxes in it."""
        for node_id in self.nodes:
            if _box(node_id) == box:
                yield f"{indent}{ids[node_id]}{self._mermaid_shape(node_id)}"
        for inner in self._boxes():
            if _box(inner) == box:
                yield f'{indent}subgraph {ids[f"{inner}:"]}["{_label(inner.rpartition(":")[2])}"]'
                yield from self._mermaid_nodes(ids, inner, indent + "    ")
                yield f"{indent}end"

    def _mermaid_shape(self, node_id: str) -> str:
        node = self.nodes[node_id]
        if node.name in (START, END):
            return f'(["{node.name.strip("_")}"])'
        notes = [f"{key} = {value}" for key, value in (node.metadata or {}).items()]
        notes += ["interrupt before"] if node_id in self.interrupt_before else []
        notes += ["interrupt after"] if node_id in self.interrupt_after else []
        small = f"<br/><small>{'<br/>'.join(map(_escaped, notes))}</small>" if notes else ""
        return f'["{_label(node.name)}{small}"]'

    def _mermaid_edges(self, ids: dict[str, str]) -> Iterator[str]:
        for edge in self._checked_edges():
            yield f"    {ids[edge.source]} {_arrow(edge)} {ids[edge.target]}"


def _box(node_id: str) -> str | None:
    around, colon, _ = node_id.rpartition(":")
    return around if colon else None


def _arrow(edge: DrawEdge) -> str:
    label = _escaped(edge.label or "")
    if edge.conditional:
        return f"-. {label} .->" if label else "-.->"
    return f"-- {label} -->" if label else "-->"


def _label(name: str) -> str:
    return _escaped(name) or "#160;"  # Mermaid knows no empty labels


def _escaped(text: str) -> str:
    return _UNSAFE.sub(lambda found: f"#{ord(found[0])};", " ".join(text.split()))
