"""A drawing as data for other programs: JSON in LangGraph's shape, and networkx."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from networkx import MultiDiGraph

    from graphkit.graph.draw import DrawableGraph, DrawNode


def json_form(graph: DrawableGraph) -> dict[str, list[dict[str, Any]]]:
    edges: list[dict[str, Any]] = []
    for edge in graph.checked_edges():
        edges.append({"source": edge.source, "target": edge.target})
        if edge.label is not None:
            edges[-1]["data"] = edge.label
        if edge.conditional:
            edges[-1]["conditional"] = True
    return {"nodes": [_json_node(graph, node) for node in graph.nodes.values()], "edges": edges}


def _json_node(graph: DrawableGraph, node: DrawNode) -> dict[str, Any]:
    form: dict[str, Any] = {"id": node.id}
    if node.data is not None:
        form |= {"type": "runnable", "data": {"id": _qualified(node.data), "name": node.name}}
    pauses = [
        when
        for when, ids in (("before", graph.interrupt_before), ("after", graph.interrupt_after))
        if node.id in ids
    ]
    metadata = {**(node.metadata or {}), **({"__interrupt": ",".join(pauses)} if pauses else {})}
    if metadata:
        form["metadata"] = _plain(metadata)
    if node.id in graph.next:
        form["next"] = True
    if asked := graph.questions.get(node.id):
        form["questions"] = list(asked)
    return form


def _qualified(action: Any) -> list[str]:
    """Where a function, or the class of any other object, is defined."""
    home = action if hasattr(action, "__qualname__") else type(action)
    return [*(getattr(home, "__module__", None) or "").split("."), home.__qualname__]


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value)


def networkx_form(graph: DrawableGraph) -> MultiDiGraph[str]:
    from networkx import MultiDiGraph  # 400 ms to import

    form: MultiDiGraph[str] = MultiDiGraph()
    for node_id, node in graph.nodes.items():
        form.add_node(
            node_id,
            name=node.name,
            metadata=node.metadata,
            interrupt_before=node_id in graph.interrupt_before,
            interrupt_after=node_id in graph.interrupt_after,
            next=node_id in graph.next,
            questions=graph.questions.get(node_id, ()),
        )
    for edge in graph.checked_edges():
        form.add_edge(edge.source, edge.target, conditional=edge.conditional, label=edge.label)
    return form
