"""`GraphEdge`: one way from a node to another, and when it is open."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from graphkit_prebuilt.loop.steps import Call, Steps
from graphkit_prebuilt.multiagent.nodes import Node, id_of
from graphkit_prebuilt.multiagent.state import MultiAgentState

EdgeCondition = Callable[..., Any]
"""Called with a `MultiAgentState`, and by name with `invocation_state` if it takes that; may be async."""


class GraphEdge:
    """A way from one node to another, open if `condition` holds or there is none.

    `source` and `target` are the ids of the nodes `from_node` and `to_node` (Strands' names), which may be given by
    their ids; then they are these until a graph is made of the edge. Raises `TypeError` for what is no condition.
    """

    __slots__ = ("_takes_state", "condition", "from_node", "source", "target", "to_node")

    def __init__(
        self, from_node: str | Node, to_node: str | Node, condition: EdgeCondition | None = None
    ) -> None:
        source, target = id_of(from_node), id_of(to_node)
        if condition is not None and not callable(condition):
            raise TypeError(
                f"the condition of edge {source!r} -> {target!r} must be a function, not {condition!r:.100}"
            )
        self.from_node = from_node
        self.to_node = to_node
        self.source = source
        self.target = target
        self.condition = condition
        self._takes_state = condition is not None and _takes_state(condition)

    def __repr__(self) -> str:
        when = "" if self.condition is None else f", {self.condition!r}"
        return f"GraphEdge({self.source!r}, {self.target!r}{when})"

    def is_open(self, state: MultiAgentState, invocation_state: dict[str, Any]) -> Steps[bool]:
        """Whether the condition holds now."""
        if self.condition is None:
            return True
        more = {"invocation_state": invocation_state} if self._takes_state else {}
        return bool((yield Call(self.condition, (state,), more)))


def _takes_state(condition: EdgeCondition) -> bool:
    try:
        return "invocation_state" in inspect.signature(condition).parameters
    except (TypeError, ValueError):
        return False
