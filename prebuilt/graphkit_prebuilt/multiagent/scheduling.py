"""The node `__next__`: whoever ran last has ended; says who runs next, or that the turn has."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from graphkit.engine.program import Seen
from graphkit.errors import InvalidPromptError
from graphkit.frame import Frame
from graphkit.types import Command, Overwrite, Send
from graphkit_prebuilt.hooks.firing import fire, heard
from graphkit_prebuilt.loop.steps import Steps
from graphkit_prebuilt.multiagent.edges import LEFT, end, outcome
from graphkit_prebuilt.multiagent.events import (
    AfterMultiAgentInvocationEvent,
    BeforeMultiAgentInvocationEvent,
    MultiAgentHandoffEvent,
    MultiAgentResultEvent,
)
from graphkit_prebuilt.multiagent.invocation import TeamInvocation
from graphkit_prebuilt.multiagent.nodes import Visit
from graphkit_prebuilt.multiagent.request import ANEW
from graphkit_prebuilt.multiagent.results import Status, total
from graphkit_prebuilt.multiagent.state import MultiAgentState
from graphkit_prebuilt.multiagent.turns import Choice, Turn
from graphkit_prebuilt.prompts import read_prompt

NEXT: Final = "__next__"


def choose_next(inv: TeamInvocation, frame: Frame, view: Mapping[str, Any]) -> Steps[Any]:
    team = inv.source
    view, begun = _begun(view)
    state, is_new = inv.state(view, frame), view.get("new") is not None
    if is_new and heard(inv, BeforeMultiAgentInvocationEvent):
        event = BeforeMultiAgentInvocationEvent(team, invocation_state=inv.invocation_state, state=state)
        yield from fire(inv, event, "before_turn")
    turn = _turn(inv, view, state, is_new and not any(view.get(key) for key in LEFT))
    choice = yield from _chosen(inv, turn)
    settled, visits = _settled(inv, view, choice)
    writes = {**begun, **settled}
    if "own" in begun and "own" in settled:
        writes["own"] = Overwrite(settled["own"])
    if not visits:
        yield from end(inv, frame, view, writes, choice.failed)
        return Command(update=writes)
    if turn.ended and not turn.undone and heard(inv, MultiAgentHandoffEvent):
        handoff = MultiAgentHandoffEvent(
            team,
            sources=list(dict.fromkeys(state.results[key].node for key in turn.ended)),
            targets=list(dict.fromkeys(visit.node for visit in visits)),
            message=choice.message,
            invocation_state=inv.invocation_state,
            state=state,
        )
        yield from fire(inv, handoff, "handoff")
    return _started(inv, writes, visits)


def _begun(view: Mapping[str, Any]) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """Where the turn stands, and what is written of that: where it goes on after it had ended, and where no request has
    begun it, but whoever runs the graph."""
    new, task = view.get("new"), view.get("task")
    if new is False:
        left = (view.get("outcome") or {}).get("left") or {}
        return {**view, **left, "outcome": None}, {"outcome": None}
    if new or view.get("ended"):
        return view, {}
    if read_prompt(task).kind != "messages":
        raise InvalidPromptError(
            f"the graph of an orchestrator is run with {{'task': a text or content blocks}}, not with {task!r:.100}"
        )
    begun = {key: value for key, value in ANEW.items() if key != "new"}
    return {**view, **{key: getattr(value, "value", value) for key, value in ANEW.items()}}, begun


def go_on(inv: TeamInvocation, frame: Frame, seen: Seen, writes: dict[str, Any]) -> Command[Any]:
    """What a node that has ended writes, and what follows: `__next__`. Where it has run alone, nobody hears of what
    follows, and no user code is to be asked, that is said here: a superstep less."""
    team, view = inv.source, seen.view
    if (
        not frame.attempt.alone
        or team.plugins
        or heard(inv, MultiAgentHandoffEvent, AfterMultiAgentInvocationEvent, MultiAgentResultEvent)
    ):
        return Command(update=writes, goto=NEXT)
    after = {
        **view,
        "results": {**(view.get("results") or {}), **writes["results"]},
        "order": [*(view.get("order") or ()), *writes["order"]],
        "own": {**(view.get("own") or {}), **writes.get("own", {})},
        "totals": total(view.get("totals") or {}, writes["totals"]),
        "ended": writes["ended"],
        "sends": writes.get("sends"),
        "undone": writes.get("undone"),
    }
    chosen = _chosen(inv, _turn(inv, after, inv.state(after, frame), False))
    try:
        next(chosen)
    except StopIteration as stop:
        choice: Choice = stop.value
    except Exception:  # it is for `__next__` to fail: the node has not
        return Command(update=writes, goto=NEXT)
    else:
        chosen.close()
        return Command(update=writes, goto=NEXT)
    more, visits = _settled(inv, view, choice)
    own = {**writes.get("own", {}), **more.pop("own", {})}
    writes = {key: value for key, value in writes.items() if key not in LEFT} | more
    if own:
        writes["own"] = own
    if visits:
        return _started(inv, writes, visits)
    writes["outcome"] = outcome(choice.failed, after)
    return Command(update=writes)


def _turn(inv: TeamInvocation, view: Mapping[str, Any], state: MultiAgentState, begins: bool) -> Turn:
    return Turn(
        state=state,
        begins=begins,
        ended=view.get("ended") or (),
        sends=visits_in(view.get("sends") or ()),
        own=view.get("own") or {},
        invocation_state=inv.invocation_state,
        undone=[Visit.of(one["node"], one) for one in view.get("undone") or ()],
    )


def _settled(
    inv: TeamInvocation, view: Mapping[str, Any], choice: Choice
) -> tuple[dict[str, Any], Sequence[Visit]]:
    """What is written of a choice, and whom it lets run: nobody, and the turn has failed, if its time is over."""
    limit, spent, visits = inv.source.execution_timeout, inv.spent(view), choice.visits
    if visits and limit is not None and spent >= limit * 1000:
        visits, choice.failed = (), f"the execution timeout of {limit} s was reached"
    writes: dict[str, Any] = {"spent": spent}
    if choice.own:
        writes["own"] = dict(choice.own)
    return writes, visits


def _started(inv: TeamInvocation, writes: dict[str, Any], visits: Sequence[Visit]) -> Command[Any]:
    inv.counted = time.perf_counter()
    limit = _timeout(inv, writes["spent"])
    return Command(update=writes, goto=[Send(visit.node, visit.plain, timeout=limit) for visit in visits])


def _chosen(inv: TeamInvocation, turn: Turn) -> Steps[Choice]:
    """Who is next. After a node that was not executed to its end, nobody, but when the turn is gone on with that ended
    by it: then this one again."""
    failed = [key for key in turn.ended if turn.state.results[key].status is Status.FAILED]
    if failed:
        reasons = [f"node {key!r} failed: {turn.state.results[key].why}" for key in failed]
        return Choice(failed="; ".join(reasons))
    if turn.undone:
        first, *others = turn.undone
        sends = [{"node": one.node, "input": one.about.get("input")} for one in turn.sends]
        carries = {**(first.carries or {}), "ended": turn.ended, "sends": sends}
        return Choice(visits=[replace(first, carries=carries), *others])
    choice: Choice = yield from inv.source.choose(turn)
    return choice


def _timeout(inv: TeamInvocation, spent: int) -> float | None:
    """The seconds that are left of the turn; None if they do not bound a node more than its own timeout does."""
    team = inv.source
    if team.execution_timeout is None:
        return None
    left = team.execution_timeout - spent / 1000
    return None if team.node_timeout is not None and team.node_timeout <= left else left


def visits_in(sends: Iterable[Mapping[str, Any]]) -> list[Visit]:
    """The executions that functions have sent for, in order. Those of one node run side by side, each under a key of
    its own."""
    if not (found := list(sends)):
        return []
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
