"""`Swarm`: agents that hand a task over to each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from graphkit_prebuilt.agent import DEFAULT_NAME, Agent
from graphkit_prebuilt.content import ContentBlock
from graphkit_prebuilt.loop.steps import Steps
from graphkit_prebuilt.multiagent.base import MultiAgentBase
from graphkit_prebuilt.multiagent.handoff import HANDOFF, HandoffTool, handoffs_in
from graphkit_prebuilt.multiagent.members import member
from graphkit_prebuilt.multiagent.nodes import Node, NodeCall, Visit
from graphkit_prebuilt.multiagent.results import MultiAgentResult, NodeResult, Status
from graphkit_prebuilt.multiagent.state import MultiAgentState
from graphkit_prebuilt.multiagent.swarm_state import SHARED, SharedContext, SwarmState
from graphkit_prebuilt.multiagent.turns import Choice, Turn
from graphkit_prebuilt.state import AgentState


@dataclass(slots=True, kw_only=True)
class SwarmResult(MultiAgentResult):
    """What a turn of a swarm came to. `node_history` is its `execution_order`."""

    @property
    def node_history(self) -> list[Any]:
        """`execution_order`, as Strands' swarms call it."""
        return self.execution_order


class Swarm(MultiAgentBase[SwarmResult]):
    """Agents that work on a task one after the other: each decides who goes on, and the turn ends with the one that
    lets nobody go on.

    Every agent can call the tool `handoff_to_agent(agent_name, message, context=None)`. It takes effect when the
    agent's turn has ended: of several that have succeeded in it, the last one asked for says who goes on and with what
    message, and what is in the `context` of all of them is shared with those that come after. One to nobody, or to
    itself, is an error result for the model, which may call again.

    An agent begins with what it was made with, each time it is executed; it is told the task, the message for it, who
    has worked on it, what was shared, and who else there is. `nodes` are agents, and orchestrators, which end the turn
    with what they come to; a list, or a dict by id. The first one begins, or `entry_point` (itself, or its id).

    A turn fails, with a `reason` and without an exception, when it would have more than `max_handoffs` handoffs or
    `max_iterations` executions, when `execution_timeout` or `node_timeout` (seconds; None: without end) have passed,
    and when it is to go on although the last `repetitive_handoff_detection_window` executions were of fewer than
    `repetitive_handoff_min_unique_agents` nodes (a window of 0: never).

    Raises `ValueError` and `TypeError` naming what cannot be used. Behaviour and names: Strands' `Swarm`.
    """

    default_id: ClassVar[str] = "default_swarm"
    result_type: ClassVar[type[MultiAgentResult]] = SwarmResult

    def __init__(
        self,
        nodes: Sequence[Any] | Mapping[str, Any],
        *,
        entry_point: Any = None,
        max_handoffs: int = 20,
        max_iterations: int = 20,
        execution_timeout: float | None = 900.0,
        node_timeout: float | None = 300.0,
        repetitive_handoff_detection_window: int = 0,
        repetitive_handoff_min_unique_agents: int = 0,
        session_manager: Any = None,
        hooks: Sequence[Any] | None = None,
        id: str | None = None,
        trace_attributes: Mapping[str, Any] | None = None,
        plugins: Sequence[Any] | None = None,
        checkpointer: Any = None,
        store: Any = None,
    ) -> None:
        self.max_handoffs = _count(max_handoffs, "max_handoffs")
        self.max_iterations = _count(max_iterations, "max_iterations", least=1)
        self.repetitive_handoff_detection_window = _count(
            repetitive_handoff_detection_window, "repetitive_handoff_detection_window"
        )
        self.repetitive_handoff_min_unique_agents = _count(
            repetitive_handoff_min_unique_agents, "repetitive_handoff_min_unique_agents"
        )
        members = _members(nodes)
        self._tools = {
            name: HandoffTool(name, [other for other in members if other != name]) for name in members
        }
        for name, node in members.items():
            if HANDOFF in getattr(node.executor, "tool_names", ()):
                raise ValueError(
                    f"agent {name!r} has a tool {HANDOFF!r} already, which it gets from the swarm"
                )
        self.entry_point = _entry(entry_point, members)
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

    def choose(self, turn: Turn) -> Steps[Choice]:
        yield from ()
        if turn.begins:
            return Choice(visits=[self._visit(self.entry_point)])
        handoff = turn.own.get("handoff")
        if handoff is None:
            return Choice()
        failed = self._exceeded(turn.state.values.get("order") or ())
        if failed is not None:
            return Choice(failed=failed)
        return Choice(
            visits=[self._visit(handoff["target"], message=handoff["message"])], message=handoff["message"]
        )

    def _visit(self, node: str, **about: Any) -> Visit:
        return Visit(node=node, key=node, about=about, fresh=True)

    def _exceeded(self, history: Sequence[str]) -> str | None:
        """Why nobody may go on after these; None if somebody may."""
        if len(history) > self.max_handoffs:
            return f"max_handoffs reached: {self.max_handoffs}"
        if len(history) >= self.max_iterations:
            return f"max_iterations reached: {self.max_iterations}"
        window = self.repetitive_handoff_detection_window
        if window and len(history) >= window:
            unique = len(set(history[-window:]))
            if unique < self.repetitive_handoff_min_unique_agents:
                return f"repetitive handoffs: only {unique} different nodes in the last {window} executions"
        return None

    def state_of(
        self, values: Mapping[str, Any], live: Mapping[str, NodeResult], app: AgentState
    ) -> SwarmState:
        return SwarmState(self.nodes, values, live, app, self.entry_point)

    @property
    def state(self) -> SwarmState:
        return cast(SwarmState, super().state)

    @property
    def shared_context(self) -> SharedContext:
        """That of its `state`."""
        return self.state.shared_context

    def prepare(self, call: NodeCall, request: Any) -> None:
        tool = self._tools[call.node.node_id]
        request.invocation.extra = {tool.tool_name: tool}

    def conclude(self, call: NodeCall, result: NodeResult) -> Mapping[str, Any]:
        own = call.state.values.get("own") or {}
        found = []
        if result.status is Status.COMPLETED:
            found = list(handoffs_in(call.said, self._tools[call.node.node_id]))
        if not found:
            return {"handoff": None} if own.get("handoff") else {}
        kept: dict[str, Any] = {"handoff": {"target": found[-1].target, "message": found[-1].message}}
        given = {key: value for handoff in found for key, value in handoff.context.items()}
        if given:
            name = f"{SHARED}{call.node.node_id}"
            kept[name] = {**own.get(name, {}), **given}
        return kept

    def input_for(self, visit: Visit, state: MultiAgentState) -> list[ContentBlock]:
        task = state.task
        blocks: list[ContentBlock] = [] if isinstance(task, str) else list(task)
        parts = [*self._told(visit, state), *self._known(visit, state)]
        return [{"text": "\n\n".join(parts)}, *blocks]

    def _told(self, visit: Visit, state: MultiAgentState) -> list[str]:
        """What is to be done."""
        message = visit.about.get("message")
        told = [] if message is None else [f"Message of the agent before you: {message}"]
        if isinstance(state.task, str):
            told.append(f"Task of the user: {state.task}")
        else:
            told.append("The task of the user follows this text.")
        return told

    def _known(self, visit: Visit, state: MultiAgentState) -> list[str]:
        """What there is to know about the team."""
        known = []
        times = Counter(state.values.get("order") or ())
        if times:  # each once, so that it does not grow with the number of handoffs
            before = [name if count == 1 else f"{name} ({count} times)" for name, count in times.items()]
            known.append(f"Agents that have worked on it: {', '.join(before)}")
        own = state.values.get("own") or {}
        shared = [
            f"- {key.removeprefix(SHARED)}: {value}" for key, value in own.items() if key.startswith(SHARED)
        ]
        if shared:
            known.append("\n".join(["What they have found:", *shared]))
        others = [_introduced(name, node) for name, node in self.nodes.items() if name != visit.node]
        if others:
            known.append("\n".join(["The other agents:", *others]))
            known.append(
                f"If one of them should go on with the task, call {HANDOFF}. If you do not, your answer ends it."
            )
        return known


def _members(given: Any) -> dict[str, Node]:
    if not isinstance(given, (list, tuple, Mapping)) or not given:
        raise ValueError(f"a Swarm needs a list of agents, or a dict of them by id, not {given!r:.200}")
    named = given.items() if isinstance(given, Mapping) else ((None, one) for one in given)
    found: dict[str, Node] = {}
    for name, executor in named:
        node = member(executor, _name_of(executor) if name is None else name, found)
        if node.work.kind == "function":
            raise TypeError(
                f"the members of a Swarm are agents and orchestrators, not functions: {executor!r:.200}"
            )
        found[node.node_id] = node
    return found


def _name_of(executor: Any) -> str | None:
    """The name that others hand over to; None for what has its id."""
    return executor.name if isinstance(executor, Agent) and executor.name != DEFAULT_NAME else None


def _introduced(name: str, node: Node) -> str:
    description = getattr(node.executor, "description", None)
    return f"- {name}: {description}" if description else f"- {name}"


def _count(value: Any, name: str, least: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return value


def _entry(given: Any, members: Mapping[str, Node]) -> str:
    """Who begins. Raises `ValueError` for one that is no member."""
    if given is None:
        return next(iter(members))
    for name, node in members.items():
        if given is node.executor or given == name:
            return name
    shown = repr(given) if isinstance(given, str) else repr(getattr(given, "name", given))
    raise ValueError(f"the entry point {shown} is none of the nodes: {', '.join(members)}")
