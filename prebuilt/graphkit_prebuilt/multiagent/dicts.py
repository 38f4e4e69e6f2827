"""The events of an orchestrator as the dicts that Strands streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from graphkit_prebuilt.hooks.catalogue import AgentResultEvent
from graphkit_prebuilt.hooks.event import BaseHookEvent
from graphkit_prebuilt.multiagent.events import (
    BeforeNodeCallEvent,
    MultiAgentEvent,
    MultiAgentHandoffEvent,
    MultiAgentResultEvent,
    NodeCancelEvent,
    NodeResultEvent,
    NodeStreamUpdateEvent,
)
from graphkit_prebuilt.multiagent.results import MultiAgentResult
from graphkit_prebuilt.running import DictForm
from graphkit_prebuilt.streams import DictStream

Dict = dict[str, Any]


class TeamDicts(DictForm):
    """`multiagent_node_start`, `_stream` (the dicts of whatever runs in the node), `_cancel`, `_stop`,
    `multiagent_handoff`, `multiagent_node_interrupt`, and at the end `{"result": ...}`."""

    def __init__(self) -> None:
        self._inside: dict[str, Any] = {}

    def of(self, event: BaseHookEvent) -> Iterator[Dict]:
        if isinstance(event, NodeStreamUpdateEvent):
            for each in self._of_inner(event):
                yield {"type": "multiagent_node_stream", "node_id": event.node_id, "event": each}
        elif isinstance(event, BeforeNodeCallEvent):
            kind = event.source.nodes[event.node_id].work.kind
            yield {"type": "multiagent_node_start", "node_id": event.node_id, "node_type": kind}
        elif isinstance(event, NodeCancelEvent):
            yield {"type": "multiagent_node_cancel", "node_id": event.node_id, "message": event.message}
        elif isinstance(event, NodeResultEvent):
            self._inside.pop(event.key, None)
            yield {"type": "multiagent_node_stop", "node_id": event.node_id, "node_result": event.result}
        elif isinstance(event, MultiAgentHandoffEvent):
            shown = {
                "type": "multiagent_handoff",
                "from_node_ids": event.sources,
                "to_node_ids": event.targets,
            }
            yield shown if event.message is None else {**shown, "message": event.message}

    def _of_inner(self, event: NodeStreamUpdateEvent) -> Iterator[Dict]:
        inner: Any = event.event
        form = self._inside.get(event.key)
        if form is None:
            form = self._inside[event.key] = form_of(inner, event.invocation_state)
        if isinstance(inner, (AgentResultEvent, MultiAgentResultEvent)):
            yield from form.ended(inner.result)
        else:
            yield from form.of(inner)

    def ended(self, result: MultiAgentResult) -> Iterator[Dict]:
        for node, one in result.results.items():
            if one.interrupts:
                yield {
                    "type": "multiagent_node_interrupt",
                    "node_id": node,
                    "interrupts": one.interrupts,
                }
        yield {"type": "multiagent_result", "result": result}


def form_of(event: Any, invocation_state: Mapping[str, Any]) -> DictForm:
    """How the events of the request that this one is of are shown: of an agent, or of an orchestrator."""
    return TeamDicts() if isinstance(event, MultiAgentEvent) else DictStream(event.agent, invocation_state)
