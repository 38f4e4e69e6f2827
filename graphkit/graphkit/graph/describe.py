"""A compiled graph as a drawing."""

from __future__ import annotations

from graphkit.compiled import CompiledGraph
from graphkit.constants import END, START
from graphkit.engine.program import NodeSpec, Program
from graphkit.engine.request import EVERY, Names
from graphkit.graph.draw import DrawableGraph, DrawEdge, DrawNode


def drawable(graph: CompiledGraph) -> DrawableGraph:
    """Nodes in the order they were added, with START first and END last."""
    program = graph.program
    nodes = {START: DrawNode(START, START)}
    nodes |= {name: DrawNode(name, name, dict(spec.metadata) or None) for name, spec in program.nodes.items()}
    nodes[END] = DrawNode(END, END)
    edges = [edge for spec in (program.entry, *program.nodes.values()) for edge in _edges(graph, spec)]
    return DrawableGraph(
        nodes,
        list(dict.fromkeys(edges)),
        _names(graph.breakpoints[0], program),
        _names(graph.breakpoints[1], program),
    )


def _names(names: Names, program: Program) -> frozenset[str]:
    return frozenset(program.nodes) if names == EVERY else frozenset(names)


def _edges(graph: CompiledGraph, spec: NodeSpec) -> list[DrawEdge]:
    program, builder = graph.program, graph.builder
    edges = [DrawEdge(spec.name, target) for target in spec.successors]
    edges += [DrawEdge(spec.name, program.joins[index].target) for index in spec.joins]
    for branch in spec.branches:
        if branch.path_map is None:
            edges += [DrawEdge(spec.name, name, True) for name in (*program.nodes, END)]
        else:
            edges += [
                DrawEdge(spec.name, target, True, None if str(label) == target else str(label))
                for label, target in branch.path_map.items()
            ]
    added = builder.nodes.get(spec.name)
    edges += [DrawEdge(spec.name, target, True) for target in (added.destinations if added else ())]
    if not edges or (spec.name, END) in builder.edges:
        edges.append(DrawEdge(spec.name, END))
    return edges
