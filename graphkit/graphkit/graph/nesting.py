"""Graphs inside a graph: which there are, and which of them a namespace belongs to."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from graphkit.compiled import CompiledGraph
from graphkit.engine.identity import call_at, call_of


def subgraphs(
    graph: CompiledGraph, namespace: str | None = None, recurse: bool = False
) -> Iterator[tuple[str, CompiledGraph]]:
    """The graphs that nodes are, or that their functions refer to, with their names: those of nodes, joined by "|".

    With `recurse` also those inside them, with `namespace` only those of that name.
    """
    for name, child in _all_children(graph):
        inside, _, rest = (namespace or "").partition("|")
        if namespace is not None and name != inside:
            continue
        if not rest:
            yield name, child
        if rest or (recurse and namespace is None):
            yield from ((f"{name}|{below}", deep) for below, deep in subgraphs(child, rest or None, recurse))


def graph_at(graph: CompiledGraph, namespace: str) -> CompiledGraph | None:
    """The graph that runs in a namespace; None if none is known to, such as one that a function got by argument."""
    found: CompiledGraph | None = graph
    for part in namespace.split("|") if namespace else ():
        node, *rest = part.split(":")
        children = children_of(found, node) if found is not None else []
        if len(rest) > 1:
            called = call_at(rest[1])[1].name
            children = [child for child in children if call_of(child.program.called, "").name == called]
        found = children[0] if children else None
    return found


def children_of(graph: CompiledGraph, node: str) -> list[CompiledGraph]:
    """The graph that a node is, or those that its function, or that of an entrypoint, refers to."""
    if graph.function is not None:
        return _referred_to(graph.function)
    added = graph.builder.nodes.get(node) if graph.builder is not None else None
    if added is None:
        return []
    return [added.subgraph] if added.subgraph is not None else _referred_to(added.action)


def _all_children(graph: CompiledGraph) -> Iterator[tuple[str, CompiledGraph]]:
    for node in graph.program.nodes:
        yield from ((node, child) for child in children_of(graph, node))


def _referred_to(action: Any) -> list[CompiledGraph]:
    """The graphs that a function names: its closure's, its module's, and attributes of the object it is bound to."""
    function = inspect.unwrap(getattr(action, "func", action))
    owner = getattr(function, "__self__", None)
    if not inspect.isfunction(function) and not inspect.ismethod(function):
        owner, function = function, getattr(type(function), "__call__", None)  # noqa: B004
    named: list[Any] = [*vars(owner).values()] if hasattr(owner, "__dict__") else []
    try:
        variables = inspect.getclosurevars(function)
    except TypeError:
        variables = None
    if variables is not None:
        named += [*variables.nonlocals.values(), *variables.globals.values()]
    graphs = {id(value): value for value in named if isinstance(value, CompiledGraph)}
    return list(graphs.values())
