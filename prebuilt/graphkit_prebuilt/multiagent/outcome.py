"""What a call of an orchestrator came to, made of its channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphkit.types import Interrupt
from graphkit_prebuilt.halting import halts_in, questions_in
from graphkit_prebuilt.multiagent.invocation import TeamInvocation
from graphkit_prebuilt.multiagent.results import MultiAgentResult, NodeResult, Status
from graphkit_prebuilt.result import AgentResult


def result_of(
    inv: TeamInvocation,
    values: Mapping[str, Any],
    interrupts: Sequence[Interrupt] = (),
    namespace: str = "",
) -> MultiAgentResult:
    """The result of a call that ran in this namespace and has left the channels like this, and these questions open."""
    state = inv.state(values)
    outcome = values.get("outcome") or {}
    results = dict(state.results)
    for node, asked in _by_node(inv, interrupts, namespace).items():
        halts, questions = halts_in(asked), questions_in(asked)
        results[node] = NodeResult(
            node=node,
            status=Status.HALTED if halts else Status.INTERRUPTED,
            interrupts=questions,
            result=AgentResult(
                stop_reason=halts[0].stop_reason if halts else "interrupt",
                message={"role": "assistant", "content": []},
                interrupts=questions or None,
                halts=halts,
                invocation_state=inv.invocation_state,
            ),
        )
    halts = halts_in(interrupts)
    places = {name: place for place, name in enumerate(inv.source.nodes)}
    return inv.source.result_type.of(
        inv.source,
        status=status_of(values, interrupts),
        results=dict(sorted(results.items(), key=lambda item: places.get(item[1].node, 0))),
        accumulated_usage=state.accumulated_usage,
        accumulated_metrics=state.accumulated_metrics,
        execution_count=state.execution_count,
        execution_time=int(values.get("spent") or 0),
        interrupts=questions_in(interrupts),
        halts=halts,
        execution_order=state.execution_order,
        reason=outcome.get("reason"),
        invocation_state=inv.invocation_state,
    )


def status_of(values: Mapping[str, Any], interrupts: Sequence[Interrupt]) -> Status:
    """How a turn stands that has left the channels like this, and these questions open."""
    if halts_in(interrupts):
        return Status.HALTED
    if interrupts:
        return Status.INTERRUPTED
    ended = values.get("outcome")
    if ended is not None:
        return Status(ended["status"])
    failed = Status.FAILED.value
    if any(result["status"] == failed for result in (values.get("results") or {}).values()):
        return Status.FAILED
    return Status.EXECUTING if values else Status.PENDING


def _by_node(
    inv: TeamInvocation, interrupts: Sequence[Interrupt], namespace: str
) -> dict[str, list[Interrupt]]:
    """The questions by the node of this orchestrator that they were asked in, at whatever depth below it."""
    found: dict[str, list[Interrupt]] = {}
    for question in interrupts:
        below = question.namespace[len(namespace) :].lstrip("|")
        node = below.split(":")[0].split("|")[0] if below else question.node
        if node in inv.source.nodes:
            found.setdefault(node, []).append(question)
    return found
