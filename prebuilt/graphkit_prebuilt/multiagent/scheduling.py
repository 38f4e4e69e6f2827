"""The node `__next__`: whoever ran last has ended; says who runs next, or that the turn has."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from graphkit.frame import Frame
from graphkit.types import Command, Send
from graphkit_prebuilt.hooks.firing import fire, heard
from graphkit_prebuilt.loop.steps import Steps
from graphkit_prebuilt.multiagent.edges import end
from graphkit_prebuilt.multiagent.events import BeforeMultiAgentInvocationEvent, MultiAgentHandoffEvent
from graphkit_prebuilt.multiagent.invocation import TeamInvocation
from graphkit_prebuilt.multiagent.nodes import Visit
from graphkit_prebuilt.multiagent.results import Status
from graphkit_prebuilt.multiagent.turns import Choice, Turn

NEXT: Final = "__next__"


def choose_next(inv: TeamInvocation, frame: Frame, view: Mapping[str, Any]) -> Steps[Any]:
    team = inv.source
    begins = bool(view.get("new"))
    state = inv.state(view, frame)
    if begins and heard(inv, BeforeMultiAgentInvocationEvent):
        event = BeforeMultiAgentInvocationEvent(team, invocation_state=inv.invocation_state, state=state)
        yield from fire(inv, event, "before_turn")
    ended: Sequence[str] = view.get("ended") or ()
    choice = yield from _chosen(
        inv,
        view,
        Turn(
            state=state,
            begins=begins,
            ended=ended,
            sends=visits_in(view.get("sends") or ()),
            own=view.get("own") or {},
            invocation_state=inv.invocation_state,
        ),
    )
    spent = inv.spent(view)
    visits = choice.visits
    if visits and team.execution_timeout is not None and spent >= team.execution_timeout * 1000:
        visits, choice.failed = (), f"the execution timeout of {team.execution_timeout} s was reached"
    writes: dict[str, Any] = {"spent": spent}
    if choice.own:
        writes["own"] = dict(choice.own)
    if not visits:
        yield from end(inv, frame, view, writes, choice.failed)
        return Command(update=writes)
    if ended and heard(inv, MultiAgentHandoffEvent):
        handoff = MultiAgentHandoffEvent(
            team,
            sources=list(dict.fromkeys(state.results[key].node for key in ended)),
            targets=list(dict.fromkeys(visit.node for visit in visits)),
            message=choice.message,
            invocation_state=inv.invocation_state,
            state=state,
        )
        yield from fire(inv, handoff, "handoff")
    inv.counted = time.perf_counter()
    limit = _timeout(inv, spent)
    return Command(update=writes, goto=[Send(visit.node, visit.plain, timeout=limit) for visit in visits])


def _chosen(inv: TeamInvocation, view: Mapping[str, Any], turn: Turn) -> Steps[Choice]:
    """Who is next. After a node that was not executed to its end, nobody."""
    failed = [key for key in turn.ended if turn.state.results[key].status is Status.FAILED]
    if failed:
        reasons = [f"node {key!r} failed: {turn.state.results[key]}" for key in failed]
        return Choice(failed="; ".join(reasons))
    choice: Choice = yield from inv.source.choose(turn)
    return choice


def _timeout(inv: TeamInvocation, spent: int) -> float | None:
    """The seconds that a node has: its own, or what is left of the turn's."""
    team = inv.source
    limits = [team.node_timeout] if team.node_timeout is not None else []
    if team.execution_timeout is not None:
        limits.append(team.execution_timeout - spent / 1000)
    return min(limits) if limits else None


def visits_in(sends: Iterable[Mapping[str, Any]]) -> list[Visit]:
    """The executions that functions have sent for, in order. Those of one node run side by side, each under a key of
    its own."""
    found = list(sends)
    several = {node for node, count in Counter(send["node"] for send in found).items() if count > 1}
    numbers: Counter[str] = Counter()
    visits = []
    for send in found:
        node = send["node"]
        key = f"{node}[{numbers[node]}]" if node in several else node
        numbers[node] += 1
        about = {} if send["input"] is None else {"input": send["input"]}
        visits.append(Visit(node=node, key=key, about=about, fresh=True))
    return visits
