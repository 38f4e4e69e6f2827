"""`SwarmState`: where a turn of a swarm stands, in the words of Strands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from graphkit_prebuilt.multiagent.nodes import Node
from graphkit_prebuilt.multiagent.results import NodeResult, Status
from graphkit_prebuilt.multiagent.state import MultiAgentState
from graphkit_prebuilt.state import AgentState

SHARED: Final = "shared:"
"""What a member has shared is kept under this and its id."""


@dataclass(frozen=True, slots=True)
class SharedContext:
    """What members have left for those that come after them: by their ids, values by key."""

    context: dict[str, dict[str, Any]]


class SwarmState(MultiAgentState):
    """Where a turn of a swarm stands; it begins at `entry`."""

    def __init__(
        self,
        nodes: Mapping[str, Node],
        values: Mapping[str, Any],
        live: Mapping[str, NodeResult],
        app: AgentState,
        entry: str,
    ) -> None:
        super().__init__(nodes, values, live, app)
        self._entry = entry

    @property
    def _own(self) -> Mapping[str, Any]:
        own: Mapping[str, Any] = self.values.get("own") or {}
        return own

    @property
    def current_node(self) -> Node:
        """Who is at work; at the end, who was last."""
        handoff = self._own.get("handoff")
        if handoff is not None:
            return self._nodes[handoff["target"]]
        return (self.execution_order or [self._nodes[self._entry]])[-1]

    @property
    def node_history(self) -> list[Node]:
        """`execution_order`."""
        return self.execution_order

    @property
    def completion_status(self) -> Status:
        """`status`."""
        return self.status

    @property
    def shared_context(self) -> SharedContext:
        """A look at what was shared so far; members add to it when they hand over."""
        shared = self._own.items()
        return SharedContext(
            {key.removeprefix(SHARED): dict(value) for key, value in shared if key.startswith(SHARED)}
        )
