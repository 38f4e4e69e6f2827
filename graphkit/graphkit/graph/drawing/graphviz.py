"""Pictures by Graphviz, through pydot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pydot

from graphkit.constants import END, START
from graphkit.graph.drawing.picture import Canvas, Kind, Paint, colour, paint
from graphkit.graph.drawing.texts import Line, label_lines, node_lines, title_line

if TYPE_CHECKING:
    from graphkit.graph.draw import DrawableGraph, DrawNode

FONT = "DejaVu Sans,Helvetica,Arial,sans-serif"


def graphviz_picture(graph: DrawableGraph, kind: Kind, canvas: Canvas, program: str) -> bytes:
    """`program` is where `dot` is. `RuntimeError` with what it says if it fails."""
    dot: Any = described(graph, canvas)
    try:
        drawn: bytes = dot.create(prog=program, format=kind, encoding="utf-8")
    except (AssertionError, OSError) as error:  # pydot asserts that the program succeeded
        raise RuntimeError(f"{program} could not draw the graph as {kind}: {error}") from error
    if not drawn:
        raise RuntimeError(f"{program} could not draw the graph as {kind}: it said nothing")
    return drawn


def described(graph: DrawableGraph, canvas: Canvas) -> pydot.Dot:
    """The graph in Graphviz's words. Identifiers are numbers, so that no name can mean anything to Graphviz."""
    font = {"fontname": _quoted(_escaped(canvas.fontname or FONT))}
    top = pydot.Dot(
        "graph",
        graph_type="digraph",
        bgcolor=_quoted(_escaped(colour(canvas.background or "transparent"))),
        pad=str(canvas.padding / 72),  # inches
        dpi="144",
        nodesep="0.4",
        ranksep="0.4",
        newrank="true",  # else boxes are ranked first, and START may end up anywhere
    )
    top.set_node_defaults(shape="box", fontsize="11", **font)
    top.set_edge_defaults(fontsize="9", color=_quoted("#495057"), arrowsize="0.7", **font)
    clusters: dict[str, Any] = {}
    for number, box in enumerate(graph.nesting()):
        clusters[box.id] = _cluster(number, graph, box, canvas, font)
        clusters.get(_around(box.id), top).add_subgraph(clusters[box.id])
    looks = graph.looks()
    for number, node in enumerate(graph.nodes.values()):
        lines = node_lines(graph, node.id, node.name, _length)
        style = _node_style(paint(canvas.styles, looks[node.id]), node.name in (START, END))
        clusters.get(_around(node.id), top).add_node(
            pydot.Node(f"n{number}", label=_quoted(_text(lines)), **style)
        )
    ids = {node_id: f"n{number}" for number, node_id in enumerate(graph.nodes)}
    for edge in graph.checked_edges():
        text = _text(label_lines(edge.label, _length, canvas.words))
        line: dict[str, Any] = {"style": "dashed" if edge.conditional else "solid"}
        line |= {"label": _quoted(f" {text} ")} if text else {}
        top.add_edge(pydot.Edge(ids[edge.source], ids[edge.target], **line))
    return top


def _cluster(
    number: int, graph: DrawableGraph, box: DrawNode, canvas: Canvas, font: dict[str, str]
) -> pydot.Cluster:
    look = graph.looks()[box.id]
    style = paint(canvas.styles, look) if look in ("next", "question") else Paint(None, "#adb5bd", 1.0)
    options: dict[str, Any] = {
        "label": _quoted(_escaped(title_line(graph, box.id, box.name).text)),
        "labeljust": "l",
        "style": "rounded",
        "color": _quoted(style.stroke),
        "penwidth": str(style.width),
        "fontsize": "10",
        **font,
    }
    return pydot.Cluster(f"box{number}", **options)


def _node_style(style: Paint, is_end: bool) -> dict[str, Any]:
    drawn = [*([] if is_end else ["rounded"]), *([] if style.fill is None else ["filled"])]
    return {
        "style": _quoted(",".join(drawn) or "solid"),
        "fillcolor": _quoted(style.fill or "transparent"),
        "color": _quoted(style.stroke),
        "penwidth": str(style.width),
        **({"shape": "oval"} if is_end else {}),
    }


def _around(node_id: str) -> str:
    return node_id.rpartition(":")[0]


def _length(line: Line) -> int:
    return len(line.text)


def _text(lines: tuple[Line, ...]) -> str:
    return r"\n".join(_escaped(line.text) for line in lines)


def _escaped(text: str) -> str:
    """Graphviz reads backslashes and, like HTML, ampersands in every text."""
    return text.replace("\\", r"\\").replace("&", "&amp;").replace('"', r"\"")


def _quoted(text: str) -> str:
    """Quoted by us, since pydot leaves `<...>` and words of the language as they are."""
    return f'"{text}"'
