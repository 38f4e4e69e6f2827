"""Drawing: a graph, described by names alone, as text, as a picture or as a networkx graph.

The description says nothing of how a graph runs, so that anything can be drawn that can be described. Nodes
and edges are drawn in the order in which they are given: equal descriptions give equal drawings, and nothing
is asked of the network.

An id with colons belongs to a nested graph: `"research:search"` is drawn in a box "research". (No node's name
has a colon.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

if TYPE_CHECKING:
    from os import PathLike

    from networkx import MultiDiGraph

    from graphkit.types import StateSnapshot

__all__ = ["CurveStyle", "Direction", "DrawEdge", "DrawNode", "DrawableGraph", "Labels", "Look", "NodeStyles"]

Direction = Literal["TD", "TB", "BT", "LR", "RL"]
Look = Literal["default", "first", "last", "next", "question"]
Labels = Mapping[Literal["nodes", "edges"], Mapping[str, str]]
"""Other texts for a picture: `nodes` by id, `edges` by the label they have."""

LONGEST_NOTE = 60
MOST_QUESTIONS = 3
"""Questions shown at one node: a fan-out may ask thousands."""


class CurveStyle(Enum):
    """How Mermaid bends an edge."""

    BASIS = "basis"
    BUMP_X = "bumpX"
    BUMP_Y = "bumpY"
    CARDINAL = "cardinal"
    CATMULL_ROM = "catmullRom"
    LINEAR = "linear"
    MONOTONE_X = "monotoneX"
    MONOTONE_Y = "monotoneY"
    NATURAL = "natural"
    STEP = "step"
    STEP_AFTER = "stepAfter"
    STEP_BEFORE = "stepBefore"


@dataclass(frozen=True, slots=True)
class NodeStyles:
    """Looks of nodes, in CSS as Mermaid reads it; pictures take `fill`, `stroke` and `stroke-width` from it.

    `next` is where a thread stands, `question` where it waits for an answer (`DrawableGraph.marked`).
    """

    default: str = "fill:#f2f0ff,line-height:1.2"
    first: str = "fill-opacity:0"
    last: str = "fill:#bfb6fc"
    next: str = "fill:#fff3bf,stroke:#f08c00,stroke-width:2px"
    question: str = "fill:#ffe3e3,stroke:#e03131,stroke-width:2px"


class DrawNode(NamedTuple):
    """A node to draw: `id` is unique in the drawing, `name` is shown, `data` is what the node does."""

    id: str
    name: str
    data: Any = None
    metadata: dict[str, Any] | None = None


class DrawEdge(NamedTuple):
    """An edge between two node ids; a `conditional` one may be taken, and says when by its `label`."""

    source: str
    target: str
    label: str | None = None
    conditional: bool = False

    @property
    def data(self) -> str | None:
        """The `label`, by the name that LangGraph gives it."""
        return self.label


@dataclass(frozen=True, slots=True)
class DrawableGraph:
    """A graph to draw: `nodes` by id, `edges` between them, and the ids at which runs pause.

    `boxes` are the nodes in whose place nested graphs are drawn; they may be paused at and marked, too.
    `next` and `questions` (texts by id) say where a thread stands; `marked` sets them.
    """

    nodes: dict[str, DrawNode]
    edges: list[DrawEdge] = field(default_factory=lambda: list[DrawEdge]())
    interrupt_before: frozenset[str] = frozenset()
    interrupt_after: frozenset[str] = frozenset()
    boxes: dict[str, DrawNode] = field(default_factory=lambda: dict[str, DrawNode]())
    next: frozenset[str] = frozenset()
    questions: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: dict[str, tuple[str, ...]]())

    # Looking

    def first_node(self) -> DrawNode | None:
        """The one node that no edge leads to; None if there is none or several."""
        return _only(self.nodes, {edge.target for edge in self.edges})

    def last_node(self) -> DrawNode | None:
        """The one node that no edge leaves; None if there is none or several."""
        return _only(self.nodes, {edge.source for edge in self.edges})

    def notes(self, node_id: str) -> list[str]:
        """What is shown below the name of a node or box: metadata, breakpoints, position and questions."""
        node = self.nodes.get(node_id) or self.boxes.get(node_id)
        metadata = (node.metadata if node is not None else None) or {}
        notes = [shortened(f"{key} = {_plain(value)}") for key, value in metadata.items()]
        notes += ["interrupt before"] if node_id in self.interrupt_before else []
        notes += ["interrupt after"] if node_id in self.interrupt_after else []
        asked = self.questions.get(node_id, ())
        notes += ["next"] if node_id in self.next and not asked else []
        notes += [f"? {question}" for question in asked[:MOST_QUESTIONS]]
        more = len(asked) - MOST_QUESTIONS
        return [*notes, f"? and {more} more"] if more > 0 else notes

    def looks(self) -> dict[str, Look]:
        """Which of the `NodeStyles` each node and box has, by id; boxes first."""
        looks: dict[str, Look] = dict.fromkeys((*(box.id for box in self.nesting()), *self.nodes), "default")
        if first := self.first_node():
            looks[first.id] = "first"
        if last := self.last_node():
            looks[last.id] = "last"
        looks |= {key: "next" for key in looks if key in self.next}
        return looks | {key: "question" for key in looks if self.questions.get(key)}

    def nesting(self) -> list[DrawNode]:
        """The boxes of the nested graphs, each after the one around it."""
        ids: dict[str, None] = {}
        for node_id in self.nodes:
            parts = node_id.split(":")[:-1]
            ids.update(dict.fromkeys(":".join(parts[: depth + 1]) for depth in range(len(parts))))
        return [self.boxes.get(box) or DrawNode(box, box.rpartition(":")[2]) for box in ids]

    def checked_edges(self) -> Iterator[DrawEdge]:
        """The edges; one that leads from or to an id that is no node is a `ValueError`."""
        for edge in self.edges:
            for end in (edge.source, edge.target):
                if end not in self.nodes:
                    raise ValueError(f"the edge {edge.source!r} -> {edge.target!r} needs a node {end!r}")
            yield edge

    def marked(self, snapshot: StateSnapshot) -> DrawableGraph:
        """The same drawing with a thread's position and open questions in it, in every form it is drawn in.

        `snapshot` is what `get_state` said; a question, and with `get_state(..., subgraphs=True)` every
        position, is marked inside the nested graph, else at the innermost box or node that is drawn.
        """
        from graphkit.graph.drawing.marking import position

        standing, asked = position(self, snapshot)
        return replace(self, next=standing, questions=asked)

    # Text

    def draw_mermaid(
        self,
        *,
        with_styles: bool = True,
        curve_style: CurveStyle | str = CurveStyle.LINEAR,
        node_colors: NodeStyles | None = None,
        wrap_label_n_words: int = 9,
        frontmatter_config: Mapping[str, Any] | None = None,
        direction: Direction = "TD",
    ) -> str:
        """The graph as a Mermaid flowchart, ending in a newline.

        Conditional edges are dotted; notes stand below a node's name. `with_styles=False` leaves out colours
        and configuration. Edge labels are broken after `wrap_label_n_words` words. `frontmatter_config` is
        put at the top, with the curve in it. `direction` is "TD" (or "TB"), "BT", "LR" or "RL". A `ValueError`
        if one of these is unknown, or an edge leads to an id that is no node.
        """
        from graphkit.graph.drawing.mermaid import flowchart

        if direction not in get_args(Direction):
            raise ValueError(f"direction is one of {', '.join(get_args(Direction))}, not {direction!r}")
        return flowchart(
            self,
            direction=direction,
            config=_frontmatter(curve_style, frontmatter_config) if with_styles else None,
            styles=_styles(node_colors) if with_styles else None,
            words=_at_least_one(wrap_label_n_words),
        )

    def draw_ascii(self) -> str:
        """The graph as lines of text, from top to bottom, without a newline at the end.

        Plain edges are drawn with `|` and `-`, conditional ones with `:` and `.`; a line that crosses another
        one is broken at it. What `marked` marks has a frame of `#`. Only names and labels may bring signs
        beyond ASCII.
        """
        from graphkit.graph.drawing.ascii import text

        return text(self)

    def print_ascii(self) -> None:
        """Print what `draw_ascii` returns."""
        print(self.draw_ascii())

    # Pictures

    def draw_png(
        self,
        output_file_path: str | PathLike[str] | None = None,
        fontname: str | None = None,
        labels: Labels | None = None,
    ) -> bytes:
        """The graph as a PNG picture, drawn on this machine; written to `output_file_path` too if it is given.

        Graphviz draws it if pydot and the program `dot` are there, else matplotlib: `pip install
        "graphkit-engine[draw]"`. `ImportError` if neither is there. `labels` replace names and edge labels.
        """
        return self._picture("png", output_file_path, fontname, labels)

    def draw_svg(
        self,
        output_file_path: str | PathLike[str] | None = None,
        fontname: str | None = None,
        labels: Labels | None = None,
    ) -> bytes:
        """The graph as an SVG picture in UTF-8, its text as text; otherwise like `draw_png`."""
        return self._picture("svg", output_file_path, fontname, labels)

    def draw_mermaid_png(
        self,
        *,
        curve_style: CurveStyle | str = CurveStyle.LINEAR,
        node_colors: NodeStyles | None = None,
        wrap_label_n_words: int = 9,
        output_file_path: str | PathLike[str] | None = None,
        draw_method: Any = None,
        background_color: str | None = "white",
        padding: int = 10,
        max_retries: int = 1,
        retry_delay: float = 1.0,
        frontmatter_config: Mapping[str, Any] | None = None,
        base_url: str | None = None,
        proxies: Mapping[str, str] | None = None,
    ) -> bytes:
        """`draw_png` with LangGraph's options.

        Nothing is sent to a Mermaid server, so what configures one or Mermaid itself changes nothing:
        `curve_style`, `draw_method`, `max_retries`, `retry_delay`, `frontmatter_config`, `base_url`, `proxies`.
        `padding` is in points; a `background_color` of None or "transparent" leaves it out.
        """
        from graphkit.graph.drawing.picture import Canvas, picture

        canvas = Canvas(
            styles=_styles(node_colors),
            background=None if background_color == "transparent" else background_color,
            padding=padding,
            words=_at_least_one(wrap_label_n_words),
        )
        return _written(picture(self, "png", canvas), output_file_path)

    def _picture(
        self,
        kind: Literal["png", "svg"],
        path: str | PathLike[str] | None,
        fontname: str | None,
        labels: Labels | None,
    ) -> bytes:
        from graphkit.graph.drawing.picture import Canvas, picture

        return _written(picture(self._relabelled(labels or {}), kind, Canvas(fontname=fontname)), path)

    def _relabelled(self, labels: Labels) -> DrawableGraph:
        names, texts = labels.get("nodes", {}), labels.get("edges", {})
        return replace(
            self,
            nodes={key: node._replace(name=names.get(key, node.name)) for key, node in self.nodes.items()},
            edges=[
                edge if edge.label is None else edge._replace(label=texts.get(edge.label, edge.label))
                for edge in self.edges
            ],
        )

    # Data

    def to_json(self, *, with_schemas: bool = False) -> dict[str, list[dict[str, Any]]]:
        """The graph as JSON values in LangGraph's shape: "nodes" and "edges", in their order.

        A marked node has "next", and "questions" if there are any. Metadata that is no JSON value is shown as
        text. `with_schemas` changes nothing: a node is a function or a graph here, never a schema.
        """
        from graphkit.graph.drawing.interchange import json_form

        return json_form(self)

    def to_networkx(self) -> MultiDiGraph[str]:
        """The graph as a `networkx.MultiDiGraph` over the node ids.

        Nodes carry `name`, `metadata`, `interrupt_before`, `interrupt_after`, `next` and `questions`; edges
        `conditional` and `label`. An edge to an id that is no node is a `ValueError`.
        """
        from graphkit.graph.drawing.interchange import networkx_form

        return networkx_form(self)


def shortened(text: str) -> str:
    """A text as one line of at most `LONGEST_NOTE` characters, cut between words if there is one to cut at."""
    line = " ".join(text.split())
    if len(line) <= LONGEST_NOTE:
        return line
    head = line[: LONGEST_NOTE - 2]
    words = head.rpartition(" ")[0]
    return f"{words if len(words) > LONGEST_NOTE // 2 else head[:-1]}..."


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _only(nodes: Mapping[str, DrawNode], others: set[str]) -> DrawNode | None:
    left = [node for node_id, node in nodes.items() if node_id not in others]
    return left[0] if len(left) == 1 else None


def _styles(colours: Any) -> NodeStyles:
    """LangGraph's `NodeStyles` will do: what it does not have is as usual."""
    usual = NodeStyles()
    return NodeStyles(**{name: getattr(colours, name, getattr(usual, name)) for name in usual.__slots__})


def _frontmatter(curve: CurveStyle | str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Mermaid's configuration, with the curve where Mermaid looks for it. LangGraph's `CurveStyle` will do."""
    config = dict((given or {}).get("config") or {})
    flowchart = {**(config.get("flowchart") or {}), "curve": CurveStyle(getattr(curve, "value", curve)).value}
    return {**(given or {}), "config": {**config, "flowchart": flowchart}}


def _at_least_one(words: int) -> int:
    if words < 1:
        raise ValueError(f"wrap_label_n_words must be at least 1, not {words!r}")
    return words


def _written(data: bytes, path: str | PathLike[str] | None) -> bytes:
    if path is not None:
        Path(path).write_bytes(data)
    return data
