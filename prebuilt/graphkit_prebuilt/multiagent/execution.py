"""The node of a member: what happens around its execution. Each execution is a task of its own."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from graphkit.engine.program import Seen
from graphkit.errors import NodeError
from graphkit.frame import Frame
from graphkit.types import Command
from graphkit_prebuilt.content import assistant
from graphkit_prebuilt.hooks.firing import fire, heard
from graphkit_prebuilt.loop.steps import Steps
from graphkit_prebuilt.multiagent.events import (
    AfterNodeCallEvent,
    BeforeNodeCallEvent,
    NodeCancelEvent,
    NodeResultEvent,
)
from graphkit_prebuilt.multiagent.executors import input_blocks
from graphkit_prebuilt.multiagent.invocation import TeamInvocation
from graphkit_prebuilt.multiagent.nodes import NodeCall, Visit
from graphkit_prebuilt.multiagent.results import NodeResult, Status, total
from graphkit_prebuilt.multiagent.scheduling import NEXT, go_on
from graphkit_prebuilt.result import AgentResult

CANCELLED: Final = "The node was cancelled by a hook"

Writes = dict[str, Any]


def execute(inv: TeamInvocation, frame: Frame, seen: Seen | Mapping[str, Any]) -> Steps[Command[Any]]:
    """Execute the node once. A node that fails has its result stored, and fires what one that ends fires; then its
    exception is raised, and when the turn is gone on with it is executed again, from where it was."""
    seen = _seen(seen)
    call = _call(inv, frame, seen)
    kept = frame.kept
    begun = time.perf_counter()
    if (done := kept.get("result")) is not None:  # somebody has asked after the node had ended
        result = inv.live.get(call.visit.key) or call.node.work.restore(NodeResult.from_dict(done["result"]))
        call.writes.update(done["writes"])
        return go_on(inv, frame, seen, (yield from _ended(call, result, done["result"])))
    try:
        cancelled = yield from _before(call)
        frame.has_begun()
        if cancelled is not None:
            result = _cancelled(call, cancelled)
        else:
            call.input = inv.source.input_for(call.visit, call.state)
            result = yield from call.node.work.run(call)
    except Exception as error:
        yield from _failed(call, _finished(call, _failure(error), begun))
        raise
    except BaseException:
        frame.keep("spent", _milliseconds(call, begun))
        raise
    result = _finished(call, result, begun)
    if own := inv.source.conclude(call, result):
        call.writes["own"] = dict(own)
    plain = result.to_dict()
    frame.keep("result", {"result": plain, "writes": call.writes})
    return go_on(inv, frame, seen, (yield from _ended(call, result, plain)))


def time_out(
    inv: TeamInvocation, frame: Frame, seen: Seen | Mapping[str, Any], failed: NodeError
) -> Steps[Command[Any]]:
    """The node has taken too long: that is its result."""
    call = _call(inv, frame, _seen(seen))
    error = failed.error
    assert isinstance(error, Exception)
    result = _failure(error)
    result.node = call.node.node_id
    policy = frame.attempt.node.timeout
    if policy is not None and isinstance(policy.run_timeout, float):
        result.execution_time = round(policy.run_timeout * 1000)
    return Command(update=(yield from _ended(call, result, result.to_dict())), goto=NEXT)


def _seen(given: Seen | Mapping[str, Any]) -> Seen:
    """What the node is given. Somebody outside, who lets it run with a command, gives the state alone, or an input."""
    if not isinstance(given, Seen):
        return Seen(given, {})
    if isinstance(given.arg, (str, list)):
        return Seen(given.view, {"about": {"input": input_blocks(given.arg)}, "fresh": True})
    return given


def _call(inv: TeamInvocation, frame: Frame, seen: Seen) -> NodeCall:
    visit = Visit.of(frame.attempt.node.name, seen.arg)
    return NodeCall(
        inv=inv,
        frame=frame,
        node=inv.source.nodes[visit.node],
        visit=visit,
        state=inv.state(seen.view, frame),
    )


def _before(call: NodeCall) -> Steps[str | None]:
    """Let hooks look at it. Returns the text with which the node is cancelled."""
    inv = call.inv
    if not heard(inv, BeforeNodeCallEvent):
        return None
    event = BeforeNodeCallEvent(inv.source, **_common(call))
    yield from fire(inv, event, f"before_node:{_tries(call)}")
    if not event.cancel_node:
        return None
    text = event.cancel_node if isinstance(event.cancel_node, str) else CANCELLED
    if heard(inv, NodeCancelEvent):
        yield from fire(inv, NodeCancelEvent(inv.source, message=text, **_common(call)), "cancel_node")
    return text


def _ended(call: NodeCall, result: NodeResult, plain: dict[str, Any]) -> Steps[Writes]:
    """The node has its result, which is stored as `plain`: tell of it. Returns what is written."""
    call.inv.live[call.visit.key] = result
    yield from _tell(call, result)
    key, carries = call.visit.key, call.visit.carries or {}
    writes = dict(call.writes)
    if sends := [*carries.get("sends", ()), *writes.get("sends", ())]:
        writes["sends"] = sends
    totals: dict[str, Any] = {
        "usage": dict(result.accumulated_usage),
        "metrics": dict(result.accumulated_metrics),
        "count": result.execution_count,
    }
    if result.status is Status.FAILED:
        used = total(carries.get("used", {}), totals)
        again = replace(call.visit, carries={"used": used})
        writes["undone"] = [{"node": call.node.node_id, **again.plain}]
    return {
        **writes,
        "results": {key: plain},
        "order": [call.node.node_id],
        "ended": [*carries.get("ended", ()), key],
        "totals": totals,
    }


def _failed(call: NodeCall, result: NodeResult) -> Steps[None]:
    frame = call.frame
    frame.amend("results", {call.visit.key: result.to_dict()})
    frame.keep("spent", result.execution_time)
    call.inv.live[call.visit.key] = result
    yield from _tell(call, result)
    frame.keep("tries", _tries(call) + 1)


def _tell(call: NodeCall, result: NodeResult) -> Steps[None]:
    inv, tries = call.inv, _tries(call)
    if heard(inv, AfterNodeCallEvent):
        event = AfterNodeCallEvent(inv.source, result=result, **_common(call))
        yield from fire(inv, event, f"after_node:{tries}")
    if heard(inv, NodeResultEvent):
        shown = NodeResultEvent(inv.source, result=result, **_common(call))
        yield from fire(inv, shown, f"node_result:{tries}")


def _common(call: NodeCall) -> dict[str, Any]:
    return {
        "node_id": call.node.node_id,
        "key": call.visit.key,
        "invocation_state": call.inv.invocation_state,
        "state": call.state,
    }


def _tries(call: NodeCall) -> int:
    """How often the node has failed before, in this execution."""
    tries: int = call.frame.kept.get("tries", 0)
    return tries


def _cancelled(call: NodeCall, text: str) -> NodeResult:
    message = assistant(text)
    state = call.inv.invocation_state
    result = AgentResult(stop_reason="cancelled", message=message, invocation_state=state)
    return NodeResult(result=result, status=Status.CANCELLED)


def _failure(error: Exception) -> NodeResult:
    return NodeResult(result=error, status=Status.FAILED)


def _finished(call: NodeCall, result: NodeResult, begun: float) -> NodeResult:
    result.node = call.node.node_id
    result.execution_time = _milliseconds(call, begun)
    return result


def _milliseconds(call: NodeCall, begun: float) -> int:
    """The time that the execution has taken, over all attempts at it."""
    before: int = call.frame.kept.get("spent", 0)
    return before + round((time.perf_counter() - begun) * 1000)
