"""`GraphBuilder`: collects the members and edges of a `Graph`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from graphkit_prebuilt.multiagent.edge import EdgeCondition, GraphEdge
from graphkit_prebuilt.multiagent.graph import Graph
from graphkit_prebuilt.multiagent.members import member
from graphkit_prebuilt.multiagent.nodes import Join, Node, id_of


class GraphBuilder:
    """Collects what a `Graph` is made of; `build()` checks it and makes the graph. Names: Strands'."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.edges: list[GraphEdge] = []
        self.entry_points: list[str] = []
        self._options: dict[str, Any] = {}

    def add_node(self, executor: Any, node_id: str | None = None, *, join: Join = "any") -> Node:
        """Add an agent, a function or an orchestrator. Without an id, it has that of the executor, or its name.

        A function is called with the node's input (content blocks) and, if it names them, `state` (a
        `MultiAgentState`) and `invocation_state`; without the input, if one of these is its first parameter. It returns
        a text, content blocks, a message or an `AgentResult`, or `Send("node", input)`s, alone or as the `goto` of a
        `Command(update=result)`: each of them executes a node with an input of its own.

        Raises `TypeError` for anything else; `ValueError` for an id that is taken or cannot be one, and for an agent or
        orchestrator that is a node already, or has a session of its own.
        """
        node = member(executor, node_id, self.nodes, join)
        self.nodes[node.node_id] = node
        return node

    def add_edge(
        self, from_node: str | Node, to_node: str | Node, condition: EdgeCondition | None = None
    ) -> GraphEdge:
        """Let a node follow another one; with a `condition`, if that holds when the first has ended. It is called with
        a `MultiAgentState` and, if it names it, `invocation_state`. `build` says whether there are such nodes."""
        edge = GraphEdge(from_node, to_node, condition)
        self.edges.append(edge)
        return edge

    def set_entry_point(self, node_id: str | Node) -> Self:
        """Let a turn begin at this node; called several times, at all of them."""
        self.entry_points.append(id_of(node_id))
        return self

    def reset_on_revisit(self, enabled: bool = True) -> Self:
        """Let a member that runs again in a turn begin a new conversation."""
        return self._set(reset_on_revisit=enabled)

    def set_max_node_executions(self, max_executions: int | None) -> Self:
        """End a turn that would execute more nodes than that."""
        return self._set(max_node_executions=max_executions)

    def set_execution_timeout(self, timeout: float | None) -> Self:
        """End a turn that takes more seconds than that, without those in which answers are waited for."""
        return self._set(execution_timeout=timeout)

    def set_node_timeout(self, timeout: float | None) -> Self:
        """End the execution of a node that takes more seconds than that, and with it the turn."""
        return self._set(node_timeout=timeout)

    def set_graph_id(self, graph_id: str) -> Self:
        """Name the graph, among those of its session."""
        return self._set(id=graph_id)

    def set_session_manager(self, session_manager: Any) -> Self:
        """Keep the graph's thread, with the conversations of its members, in a session."""
        return self._set(session_manager=session_manager)

    def set_hook_providers(self, hooks: Sequence[Any]) -> Self:
        """Register these with the graph."""
        return self._set(hooks=list(hooks))

    def set_plugins(self, plugins: Sequence[Any]) -> Self:
        """Attach these to the graph."""
        return self._set(plugins=list(plugins))

    def _set(self, **options: Any) -> Self:
        self._options.update(options)
        return self

    def build(self) -> Graph:
        """The graph. Raises `InvalidGraphError`, a `ValueError`, with all faults of its structure."""
        return Graph(list(self.nodes.values()), list(self.edges), self.entry_points, **self._options)
