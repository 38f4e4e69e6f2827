"""How an agent's graph is drawn: its nodes choose their way, so the program does not tell where they lead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from graphkit.constants import END, START
from graphkit.graph.draw import DrawEdge

WAYS: Final[Mapping[str, tuple[str, ...]]] = {
    START: ("before",),
    "before": ("model", "after"),
    "model": ("batch", "tools", "after", END),
    "batch": ("tools", "model"),
    "tools": ("model",),
    "after": ("before", END),
}
"""Where each node may lead if the edges of a request are heard."""


class Loop:
    """Stands for the builder of an agent's graph, for drawings."""

    nodes: Final[Mapping[str, Any]] = {}

    def drawn_edges(self) -> Iterator[DrawEdge]:
        """The ways of `WAYS`; where there is a choice, as chosen ones."""
        for source, targets in WAYS.items():
            yield from (DrawEdge(source, target, None, len(targets) > 1) for target in targets)
