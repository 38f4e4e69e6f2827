"""The edges of a call of an orchestrator: its turn ends, goes on with answers, or comes to rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from graphkit.engine.program import Closing, Seen
from graphkit.frame import Frame
from graphkit.types import Interrupt
from graphkit_prebuilt.halting import halts_in
from graphkit_prebuilt.hooks.firing import fire, heard
from graphkit_prebuilt.loop.steps import Steps
from graphkit_prebuilt.multiagent.events import (
    AfterMultiAgentInvocationEvent,
    BeforeMultiAgentInvocationEvent,
    MultiAgentResultEvent,
)
from graphkit_prebuilt.multiagent.invocation import TeamInvocation
from graphkit_prebuilt.multiagent.outcome import result_of
from graphkit_prebuilt.multiagent.results import Status
from graphkit_prebuilt.plugin_state import end_turn, settle

LEFT: Final = ("ended", "sends", "undone")
"""The channels of the last superstep that say what a turn goes on from."""


def end(
    inv: TeamInvocation, frame: Frame, view: Mapping[str, Any], writes: dict[str, Any], failed: str | None
) -> Steps[None]:
    """The turn has ended: writes what it came to, and tells of it."""
    writes["outcome"] = outcome(failed, view)
    if heard(inv, AfterMultiAgentInvocationEvent, MultiAgentResultEvent):
        yield from _tell(inv, frame, {**view, **{key: writes[key] for key in ("spent", "outcome")}}, ())
    if inv.source.plugins:
        end_turn(inv, writes)


def outcome(failed: str | None, view: Mapping[str, Any]) -> dict[str, Any]:
    """What a turn came to that has ended, or `failed` for this reason: then with what it would go on from."""
    if failed is None:
        return {"status": Status.COMPLETED.value, "reason": None}
    results, left = view.get("results") or {}, {key: view[key] for key in LEFT if view.get(key)}
    if ended := left.get("ended"):
        left["ended"] = [key for key in ended if results[key]["status"] != Status.FAILED.value]
    return {"status": Status.FAILED.value, "reason": failed, "left": left}


def opening(inv: TeamInvocation, frame: Frame, seen: Seen) -> Steps[Any]:
    """The call goes on with what is unfinished. Where that is how a turn begins, `__next__` tells of it."""
    if seen.view.get("new") is None and heard(inv, BeforeMultiAgentInvocationEvent):
        event = BeforeMultiAgentInvocationEvent(
            inv.source, invocation_state=inv.invocation_state, state=inv.state(seen.view, frame)
        )
        yield from fire(inv, event, "before_turn")
    return {}


def closing(inv: TeamInvocation, frame: Frame, seen: Seen) -> Steps[Any]:
    """The call comes to rest: with questions, or with an error. If those are of the turn's end, that was told."""
    why: Closing = seen.arg
    inv.halts = halts_in(why.questions)
    settle(inv, frame)
    yield from _tell(inv, frame, why.view, why.questions, why.error)
    inv.halts = ()
    return {}


def _tell(
    inv: TeamInvocation,
    frame: Frame,
    view: Mapping[str, Any],
    questions: Sequence[Interrupt],
    error: BaseException | None = None,
) -> Steps[None]:
    result = None if error is not None else result_of(inv, view, questions, frame.attempt.scope.namespace)
    state = inv.state(view, frame)
    common: dict[str, Any] = {"invocation_state": inv.invocation_state, "state": state}
    if not inv.closes and heard(inv, AfterMultiAgentInvocationEvent):
        inv.closes = True
        event = AfterMultiAgentInvocationEvent(inv.source, result=result, **common)
        yield from fire(inv, event, "after_turn")
    if result is not None and heard(inv, MultiAgentResultEvent):
        yield from fire(inv, MultiAgentResultEvent(inv.source, result=result, **common), "turn_result")
