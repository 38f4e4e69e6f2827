"""`MultiAgentState`: where a turn of an orchestrator stands, as hooks, edge conditions and functions see it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from graphkit_prebuilt.multiagent.results import NodeResult, Status, no_metrics, no_usage
from graphkit_prebuilt.state import AgentState
from graphkit_prebuilt.streaming import Metrics, Usage

if TYPE_CHECKING:
    from graphkit_prebuilt.multiagent.nodes import Node


_COMPLETED: Final = Status.COMPLETED.value


class Results(Mapping[str, NodeResult]):
    """The results of a turn by node id, made of what is stored when they are looked at. `live` are those that were
    made by this call, which have all that is not stored."""

    def __init__(
        self, nodes: Mapping[str, Node], stored: Mapping[str, Any], live: Mapping[str, NodeResult]
    ) -> None:
        self._nodes = nodes
        self._stored = stored
        self._live = live
        self._made: dict[str, NodeResult] = {}

    def __getitem__(self, key: str) -> NodeResult:
        stored = self._stored[key]
        live = self._live.get(key)
        if live is not None:
            return live
        if key not in self._made:
            made = NodeResult.from_dict(stored)
            node = self._nodes.get(made.node)
            self._made[key] = made if node is None else node.work.restore(made)
        return self._made[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)


class MultiAgentState:
    """Where a turn stands. A look at it, not to be changed, but for `app`.

    `task` is what the turn was given. `results` are those of the nodes executed so far, `execution_order` has a node
    for each execution. `app` is for whoever uses the orchestrator: values by key, kept with the thread from turn to
    turn. Names: Strands'.
    """

    resting: Status | None = None
    """Its status, where it is looked at while no turn runs."""

    def __init__(
        self,
        nodes: Mapping[str, Node],
        values: Mapping[str, Any],
        live: Mapping[str, NodeResult],
        app: AgentState,
    ) -> None:
        self._nodes = nodes
        self.values = values
        self.app = app
        self.results: Mapping[str, NodeResult] = Results(nodes, values.get("results") or {}, live)
        self._keys: dict[str, list[str]] = {}  # what is asked for each edge, found once for each node
        self._completed: dict[str, bool] = {}

    @property
    def task(self) -> Any:
        """A text or content blocks, as given."""
        return self.values.get("task", "")

    @property
    def execution_order(self) -> list[Node]:
        """The node of each execution that has ended, in order."""
        return [self._nodes[name] for name in self.values.get("order") or ()]

    @property
    def executions(self) -> int:
        """How many executions have ended."""
        return len(self.values.get("order") or ())

    def keys_of(self, node_id: str) -> list[str]:
        """The keys of a node's results: its id, and one for each of several executions side by side."""
        keys = self._keys.get(node_id)
        if keys is None:
            stored = self.values.get("results") or {}
            keys = self._keys[node_id] = [node_id] if node_id in stored else []
            while (key := f"{node_id}[{len(keys) - (node_id in stored)}]") in stored:
                keys.append(key)
        return keys

    def is_completed(self, node_id: str) -> bool:
        """Whether one of the node's results is complete."""
        found = self._completed.get(node_id)
        if found is None:
            stored = self.values.get("results") or {}
            found = any(stored[key]["status"] == _COMPLETED for key in self.keys_of(node_id))
            self._completed[node_id] = found
        return found

    @property
    def status(self) -> Status:
        """`EXECUTING` while the turn goes on, else how it has ended or what it waits for."""
        if self.resting is not None:
            return self.resting
        ended = self.values.get("outcome")
        return Status.EXECUTING if ended is None else Status(ended["status"])

    @property
    def accumulated_usage(self) -> Usage:
        """The tokens of the nodes executed so far, with everything inside them."""
        return {**no_usage(), **self._totals.get("usage", {})}

    @property
    def accumulated_metrics(self) -> Metrics:
        """The milliseconds of their calls of models."""
        return {**no_metrics(), **self._totals.get("metrics", {})}

    @property
    def execution_count(self) -> int:
        """How many agents and functions have run in them."""
        count: int = self._totals.get("count", 0)
        return count

    @property
    def _totals(self) -> Mapping[str, Any]:
        return self.values.get("totals") or {}

    @property
    def execution_time(self) -> int:
        """The milliseconds that the turn had taken when this was stored, without those of waiting for answers."""
        return int(self.values.get("spent") or 0)

    @property
    def total_nodes(self) -> int:
        """How many nodes there are."""
        return len(self._nodes)

    @property
    def completed_nodes(self) -> list[Node]:
        """Those of which a result is complete."""
        return self._with(Status.COMPLETED)

    @property
    def failed_nodes(self) -> list[Node]:
        """Those of which a result is a failure."""
        return self._with(Status.FAILED)

    def _with(self, status: Status) -> list[Node]:
        stored = self.values.get("results") or {}
        found = dict.fromkeys(
            result["node"] for result in stored.values() if result["status"] == status.value
        )
        return [self._nodes[name] for name in found]
