"""A compiled graph as a drawing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from graphkit.compiled import CompiledGraph
from graphkit.constants import END, START, TAG_HIDDEN
from graphkit.engine.program import NodeSpec, Program
from graphkit.engine.request import EVERY, Names
from graphkit.graph.draw import DrawableGraph, DrawEdge, DrawNode
from graphkit.graph.nesting import children_of

HIDDEN = frozenset({TAG_HIDDEN, "langsmith:hidden"})
"""Tags of nodes that are not drawn: ours, and the one that LangGraph's users know."""


def drawable(
    graph: CompiledGraph, xray: bool | int = False, around: tuple[CompiledGraph, ...] = ()
) -> DrawableGraph:
    """Nodes in the order they were added, with START first and END, if anything leads there, last.

    `xray` draws nested graphs in the place of their nodes: True at every depth, a number down to that depth. A node is
    drawn so if it is a graph, or if its function refers to one: to exactly one, which is none of those `around`.
    A `ValueError` if it is negative, a `TypeError` if it is something else. A node tagged as hidden
    (`metadata={"tags": [TAG_HIDDEN]}`) is left out; what led to it leads to what follows it.
    """
    if not isinstance(xray, int):
        raise TypeError(f"xray is True, False or a number of levels, not {xray!r}")
    if xray < 0:
        raise ValueError(f"xray is a number of levels, so it cannot be {xray}")
    drawing = _without_hidden(_described(graph))
    if not xray:
        return drawing
    deeper = xray if isinstance(xray, bool) else xray - 1
    around = (*around, graph)
    for name in graph.program.nodes:
        inside = children_of(graph, name) if name in drawing.nodes else []
        if len(inside) == 1 and inside[0] not in around:
            drawing = _expanded(drawing, name, drawable(inside[0], deeper, around))
    return drawing


def _described(graph: CompiledGraph) -> DrawableGraph:
    program = graph.program
    edges = list(dict.fromkeys(_edges(graph)))
    nodes = [DrawNode(START, START), *(_node(graph, spec) for spec in program.nodes.values())]
    nodes += [DrawNode(END, END)] if any(edge.target == END for edge in edges) else []
    before, after = graph.breakpoints
    return DrawableGraph(
        {node.id: node for node in nodes}, edges, _names(before, program), _names(after, program)
    )


def _node(graph: CompiledGraph, spec: NodeSpec) -> DrawNode:
    added = graph.builder.nodes.get(spec.name) if graph.builder is not None else None
    data = added.action if added is not None else spec.callee.call or spec.callee.acall
    metadata = {**spec.metadata, **({"defer": True} if spec.defer else {})}
    return DrawNode(spec.name, spec.name, data, metadata or None)


def _names(names: Names, program: Program) -> frozenset[str]:
    return frozenset(program.nodes) if names == EVERY else frozenset(names)


def _edges(graph: CompiledGraph) -> Iterator[DrawEdge]:
    program = graph.program
    if (drawn := getattr(graph.builder, "drawn_edges", None)) is not None:
        yield from drawn()
        return
    for spec in (program.entry, *program.nodes.values()):
        edges = [*_static(program, spec), *_chosen(program, spec), *_declared(graph, spec.name)]
        yield from edges
        # the engine needs no edge to END
        if not edges or (graph.builder is not None and (spec.name, END) in graph.builder.edges):
            yield DrawEdge(spec.name, END)


def _static(program: Program, spec: NodeSpec) -> Iterator[DrawEdge]:
    for target in spec.successors:
        yield DrawEdge(spec.name, target)
    for index in spec.joins:
        yield DrawEdge(spec.name, program.joins[index].target)


def _chosen(program: Program, spec: NodeSpec) -> Iterator[DrawEdge]:
    for branch in spec.branches:
        anywhere = {name: name for name in (*program.nodes, END)}
        for label, target in (anywhere if branch.path_map is None else branch.path_map).items():
            yield _conditional(spec.name, target, label)


def _declared(graph: CompiledGraph, name: str) -> Iterator[DrawEdge]:
    """Where the node's commands may go."""
    added = graph.builder.nodes.get(name) if graph.builder is not None else None
    for target, label in (added.destinations if added is not None else {}).items():
        yield _conditional(name, target, label)


def _conditional(source: str, target: str, label: Any) -> DrawEdge:
    return DrawEdge(source, target, None if label is None or str(label) == target else str(label), True)


def _without_hidden(drawing: DrawableGraph) -> DrawableGraph:
    hidden = [key for key, node in drawing.nodes.items() if HIDDEN & _tags(node.metadata)]
    edges: Iterable[DrawEdge] = drawing.edges
    for name in hidden:
        edges = _bridged(list(edges), name)
    return replace(
        drawing,
        nodes={key: node for key, node in drawing.nodes.items() if key not in hidden},
        edges=list(dict.fromkeys(edges)),
        interrupt_before=drawing.interrupt_before.difference(hidden),
        interrupt_after=drawing.interrupt_after.difference(hidden),
    )


def _tags(metadata: Mapping[str, Any] | None) -> frozenset[str]:
    tags = (metadata or {}).get("tags")
    if isinstance(tags, (list, tuple, set, frozenset)):
        return frozenset(tag for tag in tags if isinstance(tag, str))
    return frozenset()


def _bridged(edges: list[DrawEdge], name: str) -> Iterator[DrawEdge]:
    """The edges without those of a node; each that led to it leads to all that followed it."""
    onward = [edge for edge in edges if edge.source == name and edge.target != name]
    for edge in edges:
        if edge.target == name and edge.source != name:
            for other in onward:
                conditional = edge.conditional or other.conditional
                yield DrawEdge(edge.source, other.target, edge.label or other.label, conditional)
        elif name not in (edge.source, edge.target):
            yield edge


def _expanded(drawing: DrawableGraph, name: str, inner: DrawableGraph) -> DrawableGraph:
    """`inner` in the place of a node."""
    first, last = _way_in(inner), _way_out(inner)
    inside = dict(inner.nodes)
    inside.setdefault(END, DrawNode(END, END))  # a graph that seems endless is left somewhere, too
    for end, way in ((START, first), (END, last)):
        if end != way:
            del inside[end]
    nodes: dict[str, DrawNode] = {}
    for key, node in drawing.nodes.items():
        nodes |= {key: node} if key != name else _prefixed(name, inside)
    edges = [
        edge._replace(
            source=f"{name}:{last}" if edge.source == name else edge.source,
            target=f"{name}:{first}" if edge.target == name else edge.target,
        )
        for edge in drawing.edges
    ]
    edges += [
        edge._replace(source=f"{name}:{edge.source}", target=f"{name}:{edge.target}")
        for edge in inner.edges
        if edge.source in inside and edge.target in inside
    ]
    return replace(
        drawing,
        nodes=nodes,
        edges=edges,
        interrupt_before=drawing.interrupt_before | {f"{name}:{key}" for key in inner.interrupt_before},
        interrupt_after=drawing.interrupt_after | {f"{name}:{key}" for key in inner.interrupt_after},
        boxes={**drawing.boxes, name: drawing.nodes[name], **_prefixed(name, inner.boxes)},
    )


def _prefixed(name: str, nodes: Mapping[str, DrawNode]) -> dict[str, DrawNode]:
    return {f"{name}:{key}": node._replace(id=f"{name}:{key}") for key, node in nodes.items()}


def _way_in(inner: DrawableGraph) -> str:
    """START, or the node after it, if START would show nothing but the one edge to it."""
    out = [edge for edge in inner.edges if edge.source == START]
    if len(out) == 1 and out[0].label is None and out[0].target != END:
        target = out[0].target
        if sum(edge.target == target for edge in inner.edges) == 1:
            return target
    return START


def _way_out(inner: DrawableGraph) -> str:
    """END, or the node before it, if END would show nothing but the one edge from it."""
    into = [edge for edge in inner.edges if edge.target == END]
    if len(into) == 1 and into[0].label is None and into[0].source != START:
        source = into[0].source
        if sum(edge.source == source for edge in inner.edges) == 1:
            return source
    return END
