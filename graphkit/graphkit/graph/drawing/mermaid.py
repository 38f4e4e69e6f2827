"""Mermaid text of a drawing.

Mermaid reads some characters and some words as syntax, and labels as Markdown. So a name becomes an
identifier of ASCII letters, digits and underscores, made unique, and is shown through its label; in labels,
whatever could mean something is written as an entity code (`#35;`). START and END are shown without their
underscores, which would make them bold.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from graphkit.constants import END, START

if TYPE_CHECKING:
    from graphkit.graph.draw import Direction, DrawableGraph, DrawEdge, Look, NodeStyles

# words that Mermaid's flowchart grammar takes for itself
_WORDS = frozenset(
    {"_blank", "_parent", "_self", "_top", "accDescr", "accTitle", "call", "class", "classDef", "click"}
    | {"default", "direction", "end", "flowchart", "graph", "href", "interpolate", "linkStyle", "style"}
    | {"subgraph"}
)
# all but letters, digits, harmless signs, and the _ and - inside a word
_UNSAFE = re.compile(r"[^\w ,:=?!'-]|(?<![^\W_])[_-]|[_-](?![^\W_])")


def flowchart(
    graph: DrawableGraph,
    *,
    direction: Direction,
    config: Mapping[str, Any] | None,
    styles: NodeStyles | None,
    words: int,
) -> str:
    """`config` is the frontmatter, `words` how many of them an edge label has in a line."""
    ids = _identifiers(graph)
    lines = [
        *(_frontmatter(config) if config is not None else ()),
        f"graph {direction};",
        *_nodes(graph, ids),
        *(
            f"\t{ids[edge.source]} {_arrow(edge, words)} {ids[edge.target]};"
            for edge in graph.checked_edges()
        ),
        *(_classes(graph, ids, styles) if styles is not None else ()),
    ]
    return "\n".join(lines) + "\n"


def _frontmatter(config: Mapping[str, Any]) -> Iterator[str]:
    """YAML, of which JSON is a part."""
    yield "---"
    for key, value in config.items():
        yield f"{key if key.isidentifier() else json.dumps(key)}: {json.dumps(value)}"
    yield "---"


def _box_key(box_id: str) -> str:
    """Boxes are told from nodes by a colon at the end, which no node has."""
    return f"{box_id}:"


def _identifiers(graph: DrawableGraph) -> dict[str, str]:
    """The Mermaid identifier of every node and box."""
    taken = set(_WORDS)
    ids: dict[str, str] = {}
    for name in (*graph.nodes, *(_box_key(box.id) for box in graph.nesting())):
        plain = re.sub(r"\W", lambda found: f"_{ord(found[0]):x}_", name, flags=re.ASCII) or "_"
        while plain in taken:
            plain += "_"
        taken.add(plain)
        ids[name] = plain
    return ids


def _nodes(
    graph: DrawableGraph, ids: Mapping[str, str], box: str | None = None, indent: str = "\t"
) -> Iterator[str]:
    """The nodes directly in `box` (None is the graph itself), then the boxes in it."""
    for node in graph.nodes.values():
        if _around(node.id) == box:
            yield f"{indent}{ids[node.id]}{_shape(graph, node.id, node.name)}"
    for inner in graph.nesting():
        if _around(inner.id) == box:
            yield f'{indent}subgraph {ids[_box_key(inner.id)]}["{_label(graph, inner.id, inner.name)}"]'
            yield from _nodes(graph, ids, inner.id, indent + "\t")
            yield f"{indent}end"


def _around(node_id: str) -> str | None:
    around, colon, _ = node_id.rpartition(":")
    return around if colon else None


def _shape(graph: DrawableGraph, node_id: str, name: str) -> str:
    if name in (START, END):
        return f'(["{_label(graph, node_id, name.strip("_"))}"])'
    return f'["{_label(graph, node_id, name)}"]'


def _label(graph: DrawableGraph, node_id: str, name: str) -> str:
    notes = graph.notes(node_id)
    small = f"<br/><small>{'<br/>'.join(map(_escaped, notes))}</small>" if notes else ""
    return f"{_escaped(name) or '#160;'}{small}"  # Mermaid knows no empty labels


def _arrow(edge: DrawEdge, words: int) -> str:
    parts = (edge.label or "").split()
    lines = [" ".join(parts[start : start + words]) for start in range(0, len(parts), words)]
    label = "<br/>".join(map(_escaped, lines))
    if edge.conditional:
        return f"-. {label} .->" if label else "-.->"
    return f"-- {label} -->" if label else "-->"


def _escaped(text: str) -> str:
    return _UNSAFE.sub(lambda found: f"#{ord(found[0])};", " ".join(text.split()))


def _classes(graph: DrawableGraph, ids: Mapping[str, str], styles: NodeStyles) -> Iterator[str]:
    members: dict[Look, list[str]] = {"default": [], "first": [], "last": []}
    for place, look in graph.looks().items():
        members.setdefault(look, []).append(ids[place] if place in ids else ids[_box_key(place)])
    for name, places in members.items():
        yield f"\tclassDef {name} {getattr(styles, name)}"
        if places and name != "default":
            yield f"\tclass {','.join(places)} {name}"
