"""Whether a graph of members can run: every fault of it in one error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from graphkit.errors import InvalidGraphError
from graphkit_prebuilt.multiagent.edge import GraphEdge
from graphkit_prebuilt.multiagent.nodes import Node, id_of


def entries_of(
    nodes: Mapping[str, Node], edges: Sequence[GraphEdge], given: Iterable[str | Node] | None
) -> list[str]:
    """The ids of the nodes that a turn begins at: those given, else those that no edge leads to."""
    named = [id_of(one) for one in given or ()]
    if named:
        return list(dict.fromkeys(named))
    led_to = {edge.target for edge in edges}
    return [name for name in nodes if name not in led_to]


def check_structure(
    nodes: Mapping[str, Node], edges: Sequence[GraphEdge], entries: Sequence[str], bounded: bool
) -> None:
    """Raises `InvalidGraphError` with all faults. A turn that is not `bounded` by a limit must be able to end."""
    faults = [*_unknown(nodes, edges, entries)]
    if not nodes:
        faults.append("it has no nodes")
    elif not entries:
        faults.append("no entry point: edges lead to every node, so name one with set_entry_point(node_id)")
    if not faults and not bounded:
        faults += _endless(edges)
    if faults:
        raise InvalidGraphError("the graph cannot run: " + "; ".join(faults))


def _unknown(nodes: Mapping[str, Node], edges: Sequence[GraphEdge], entries: Sequence[str]) -> list[str]:
    has = f"it has {', '.join(map(repr, nodes))}"
    faults = [
        f"edge {edge.source!r} -> {edge.target!r}: there is no node {end!r} ({has})"
        for edge in edges
        for end in dict.fromkeys((edge.source, edge.target))
        if end not in nodes
    ]
    return faults + [f"entry point {name!r} is no node ({has})" for name in entries if name not in nodes]


def _endless(edges: Sequence[GraphEdge]) -> list[str]:
    """A cycle of edges without a condition is never left."""
    after: dict[str, list[str]] = {}
    for edge in edges:
        if edge.condition is None:
            after.setdefault(edge.source, []).append(edge.target)
    cycle = _cycle(after)
    if cycle is None:
        return []
    shown = " -> ".join(map(repr, [*cycle, cycle[0]]))
    return [
        f"the cycle {shown} has no way out: give one of its edges a condition, or the graph a limit "
        f"(set_max_node_executions, set_execution_timeout)"
    ]


def _cycle(after: Mapping[str, Sequence[str]]) -> list[str] | None:
    """The nodes of a cycle, in its order; None if there is none."""
    done: set[str] = set()
    for start in after:
        path: list[str] = []
        ways = [iter([start])]
        while ways:
            name = next(ways[-1], None)
            if name is None:
                ways.pop()
                if path:
                    done.add(path.pop())
            elif name in path:
                return path[path.index(name) :]
            elif name not in done:
                path.append(name)
                ways.append(iter(after.get(name, ())))
    return None


def positive(given: Any, what: str) -> int | None:
    """A limit. Raises `ValueError` unless it is a whole number of at least 1."""
    if given is not None and (isinstance(given, bool) or not isinstance(given, int) or given < 1):
        raise ValueError(f"{what} must be a whole number of at least 1, or None, not {given!r}")
    return given
