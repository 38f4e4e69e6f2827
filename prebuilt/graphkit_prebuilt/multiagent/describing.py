"""How an orchestrator's graph is drawn, and which graphs are inside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from graphkit.compiled import CompiledGraph
from graphkit.constants import END, START
from graphkit.graph.draw import DrawEdge

if TYPE_CHECKING:
    from graphkit_prebuilt.multiagent.base import MultiAgentBase


class Way(NamedTuple):
    """`target` may follow `source`, or be first, if that is ""."""

    source: str
    target: str
    conditional: bool = False


@dataclass(slots=True)
class Member:
    """A node as it was added."""

    action: Any
    subgraph: CompiledGraph | None = None
    destinations: Mapping[str, str | None] = field(default_factory=dict)


class Members:
    """Stands for the builder of an orchestrator's graph, for drawings and for views of nested graphs."""

    def __init__(self, team: MultiAgentBase) -> None:
        self._team = team

    @property
    def nodes(self) -> dict[str, Member]:
        return {name: Member(node.executor, node.work.graph) for name, node in self._team.nodes.items()}

    def drawn_edges(self) -> Iterator[DrawEdge]:
        """The ways of the orchestrator, without the node that chooses between them."""
        left = dict.fromkeys(self._team.nodes)
        for way in self._team.ways():
            if not way.conditional:
                left.pop(way.source, None)
            yield DrawEdge(way.source or START, way.target, None, way.conditional)
        yield from (DrawEdge(name, END) for name in left)
