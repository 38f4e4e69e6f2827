"""`Graph`: an orchestrator whose members follow each other along edges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from graphkit_prebuilt.content import ContentBlock
from graphkit_prebuilt.loop.steps import Steps
from graphkit_prebuilt.multiagent.base import MultiAgentBase
from graphkit_prebuilt.multiagent.describing import Way
from graphkit_prebuilt.multiagent.edge import EdgeCondition, GraphEdge
from graphkit_prebuilt.multiagent.members import Members, members_of
from graphkit_prebuilt.multiagent.nodes import Node, Visit
from graphkit_prebuilt.multiagent.results import MultiAgentResult, NodeResult, Status
from graphkit_prebuilt.multiagent.state import MultiAgentState
from graphkit_prebuilt.multiagent.structure import check_structure, entries_of, positive
from graphkit_prebuilt.multiagent.turns import Choice, Turn

EdgeTuple = tuple[str | Node, str | Node] | tuple[str | Node, str | Node, EdgeCondition] | GraphEdge


@dataclass(slots=True, kw_only=True)
class GraphResult(MultiAgentResult):
    """What a turn of a `Graph` came to, with how many nodes it has and how many of them ended how."""

    total_nodes: int = 0
    completed_nodes: int = 0
    failed_nodes: int = 0
    interrupted_nodes: int = 0
    cancelled_nodes: int = 0
    edges: list[tuple[Node, Node]] = field(default_factory=list)
    entry_points: list[Node] = field(default_factory=list)

    @classmethod
    def of(cls, team: Any, **fields: Any) -> Self:
        results: Mapping[str, NodeResult] = fields["results"]
        nodes: dict[Status, set[str]] = {status: set() for status in Status}
        for result in results.values():
            nodes[result.status].add(result.node)
        return cls(
            **fields,
            total_nodes=len(team.nodes),
            completed_nodes=len(nodes[Status.COMPLETED]),
            failed_nodes=len(nodes[Status.FAILED]),
            interrupted_nodes=len(nodes[Status.INTERRUPTED]),
            cancelled_nodes=len(nodes[Status.CANCELLED]),
            edges=[(team.nodes[edge.source], team.nodes[edge.target]) for edge in team.edges],
            entry_points=list(team.entry_points),
        )


class Graph(MultiAgentBase[GraphResult]):
    """Members that follow each other along edges; where there are cycles, again and again.

    A node runs when one of its sources (`join="any"`) has ended and the condition of an edge from it holds, or when all
    of them have (`join="all"`) and one condition holds. A source that was cancelled opens no edge; for "all" it counts
    as ended, and so does one that cannot run any more. Nodes that run at the same time do so side by side; they start,
    and are listed, in the order in which they were added. Conditions are asked when all nodes of a step have ended.

    `nodes` (or `agents`) are members or `GraphNode`s, or a dict of them by id; see `GraphBuilder.add_node`. `edges` are
    `GraphEdge`s, or tuples of two nodes or their ids and, perhaps, a condition. Without `entry_points` a turn begins at
    the nodes that no edge leads to. `max_node_executions` bounds a turn; one that reaches it ends with status `FAILED`.
    With `reset_on_revisit` a member that runs again in a turn begins a new conversation. Everything else: see
    `MultiAgentBase`.

    Raises `InvalidGraphError`, a `ValueError`, with all faults of the structure. Behaviour and names: Strands' `Graph`.
    """

    default_id: ClassVar[str] = "default_graph"
    result_type: ClassVar[type[MultiAgentResult]] = GraphResult

    def __init__(
        self,
        nodes: Members | None = None,
        edges: Iterable[EdgeTuple] = (),
        entry_points: Iterable[str | Node] | None = None,
        max_node_executions: int | None = None,
        execution_timeout: float | None = None,
        node_timeout: float | None = None,
        reset_on_revisit: bool = False,
        session_manager: Any = None,
        hooks: Sequence[Any] | None = None,
        id: str | None = None,
        trace_attributes: Mapping[str, Any] | None = None,
        plugins: Sequence[Any] | None = None,
        *,
        agents: Members | None = None,
        checkpointer: Any = None,
        store: Any = None,
    ) -> None:
        members = members_of(_given(nodes, agents))
        self.edges = _edges(edges)
        self.max_node_executions = positive(max_node_executions, "max_node_executions")
        self.reset_on_revisit = reset_on_revisit
        bounded = max_node_executions is not None or execution_timeout is not None
        entries = entries_of(members, self.edges, entry_points)
        check_structure(members, self.edges, entries, bounded)
        self.entry_points = [node for name, node in members.items() if name in entries]
        self._into: dict[str, list[GraphEdge]] = {name: [] for name in members}
        self._after: dict[str, list[str]] = {name: [] for name in members}
        for edge in self.edges:
            edge.from_node, edge.to_node = members[edge.source], members[edge.target]
            self._after[edge.source].append(edge.target)
        self._places = {name: place for place, name in enumerate(members)}
        for edge in sorted(self.edges, key=lambda edge: self._places[edge.source]):
            self._into[edge.target].append(edge)
        self._waiting = [name for name, node in members.items() if node.join == "all" and self._into[name]]
        super().__init__(
            members,
            id=id,
            hooks=hooks,
            plugins=plugins,
            session_manager=session_manager,
            checkpointer=checkpointer,
            store=store,
            execution_timeout=execution_timeout,
            node_timeout=node_timeout,
            trace_attributes=trace_attributes,
        )

    def ways(self) -> Iterator[Way]:
        yield from (Way("", node.node_id) for node in self.entry_points)
        for edge in self.edges:
            yield Way(edge.source, edge.target, conditional=edge.condition is not None)

    # Who is next

    def choose(self, turn: Turn) -> Steps[Choice]:
        """The nodes that have become ready, in the order in which they were added, and those that functions have sent
        for."""
        if turn.begins:
            found = {node.node_id: self._visit(node.node_id, (), turn) for node in self.entry_points}
        else:
            found = yield from self._ready(turn)
        sent = list(turn.sends)
        visits = [found[name] for name in sorted(found, key=self._places.__getitem__)]
        visits = [visit for visit in visits if visit.key not in {one.key for one in sent}] + sent
        done, limit = turn.state.executions, self.max_node_executions
        if visits and limit is not None and done + len(visits) > limit:
            return Choice(failed=f"the limit of {limit} node executions was reached")
        return Choice(visits=visits)

    def _ready(self, turn: Turn) -> Steps[dict[str, Visit]]:
        ended = [turn.state.results[key] for key in turn.ended]
        just = {result.node for result in ended if result.status is Status.COMPLETED}
        found: dict[str, Visit] = {}
        sources = sorted(just, key=self._places.__getitem__)
        for target in dict.fromkeys(target for name in sources for target in self._after[name]):
            if self.nodes[target].join == "any":
                open_from = yield from self._open(target, turn)
                if any(source in just for source in open_from):
                    found[target] = self._visit(target, open_from, turn)
        if self._waiting:
            yield from self._join(found, turn)
        return found

    def _join(self, found: dict[str, Visit], turn: Turn) -> Steps[None]:
        """Add those that have waited for all of their sources."""
        order = [node.node_id for node in turn.state.execution_order]
        last = {name: place for place, name in enumerate(order)}
        pending: dict[str, list[str]] = {}
        for target in self._waiting:
            sources = list(dict.fromkeys(edge.source for edge in self._into[target]))
            since = last.get(target, -1)
            missing = [source for source in sources if last.get(source, -1) <= since]
            if len(missing) < len(sources):
                pending[target] = missing
        sent = [visit.node for visit in turn.sends]
        for target, missing in pending.items():
            if missing and not self._reachable([*found, *sent], without=target).isdisjoint(missing):
                continue
            open_from = yield from self._open(target, turn)
            if any(last[source] > last.get(target, -1) for source in open_from):
                found[target] = self._visit(target, open_from, turn)

    def _open(self, target: str, turn: Turn) -> Steps[list[str]]:
        """The sources that have been completed, and from which an edge is open, in the order of the nodes."""
        state = turn.state
        found: list[str] = []
        for edge in self._into[target]:
            if edge.source in found or not state.is_completed(edge.source):
                continue
            if edge.condition is None or (yield from edge.is_open(state, turn.invocation_state)):
                found.append(edge.source)
        return found

    def _reachable(self, names: Iterable[str], without: str) -> set[str]:
        """These nodes and all that may follow them, but not through `without`."""
        seen: set[str] = set()
        left = list(names)
        while left:
            name = left.pop()
            if name not in seen:
                seen.add(name)
                if name != without:
                    left += self._after[name]
        return seen

    def _visit(self, name: str, sources: Sequence[str], turn: Turn) -> Visit:
        """`sources` are kept as the keys of their results: one that ran several times has several."""
        fresh = self.reset_on_revisit and self.nodes[name] in turn.state.execution_order
        keys = [key for source in sources for key in turn.state.keys_of(source)]
        return Visit(node=name, key=name, about={"from": keys} if keys else {}, fresh=fresh)

    # What a member is given

    def input_for(self, visit: Visit, state: MultiAgentState) -> list[ContentBlock]:
        """The task, and the results that the node depends on. Form: Strands'."""
        if "input" in visit.about:
            return list(visit.about["input"])
        task = state.task
        sources: Sequence[str] = visit.about.get("from", ())
        if not sources:
            return [{"text": task}] if isinstance(task, str) else list(task)
        said = [f"Original Task: {task}"] if isinstance(task, str) else ["Original Task:", *task]
        blocks: list[ContentBlock] = [{"text": one} if isinstance(one, str) else one for one in said]
        blocks.append({"text": "\nInputs from previous nodes:"})
        for key in sources:
            blocks.append({"text": f"\nFrom {key}:"})
            blocks += [{"text": f"  - Agent: {result}"} for result in state.results[key].get_agent_results()]
        return blocks


def _given(nodes: Members | None, agents: Members | None) -> Members:
    if nodes is not None and agents is not None:
        raise TypeError("a Graph is given its members as nodes= or as agents=, not both")
    return nodes or agents or []


def _edges(given: Iterable[EdgeTuple]) -> list[GraphEdge]:
    """The edges, in their order; those of a set in the order of their ids, which is the same in every process."""
    edges = [edge if isinstance(edge, GraphEdge) else _edge(edge) for edge in given]
    if isinstance(given, (set, frozenset)):
        edges.sort(key=lambda edge: (edge.source, edge.target))
    return edges


def _edge(given: Any) -> GraphEdge:
    if isinstance(given, (tuple, list)) and len(given) in (2, 3):
        return GraphEdge(*given)
    raise TypeError(f"an edge is (source, target) or (source, target, condition), not {given!r:.200}")
