"""The events of an orchestrator, in the order of a turn. Names and fields: Strands'."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from graphkit_prebuilt.hooks.event import AsksMixin, BaseHookEvent, HookableEvent


@dataclass(eq=False)
class MultiAgentEvent(HookableEvent):
    """An event in the life of an orchestrator, which is its `source` (also `orchestrator`).

    `invocation_state` is the object that the call was given, in every event. `state` is where the turn stands.
    """

    source: Any
    invocation_state: dict[str, Any] = field(default_factory=dict, kw_only=True)
    state: Any = field(default=None, kw_only=True)

    @property
    def orchestrator(self) -> Any:
        """`source`."""
        return self.source


@dataclass(eq=False)
class MultiAgentInitializedEvent(MultiAgentEvent):
    """An orchestrator is complete: fires once, at the end of its constructor, which waits for async callbacks."""


@dataclass(eq=False, kw_only=True)
class BeforeMultiAgentInvocationEvent(MultiAgentEvent, AsksMixin):
    """A turn begins, or goes on with answers."""


@dataclass(eq=False, kw_only=True)
class AfterMultiAgentInvocationEvent(MultiAgentEvent, AsksMixin):
    """A call of the orchestrator ends: its turn has ended, waits for answers, or has failed (`result` is None)."""

    should_reverse_callbacks: ClassVar = True

    result: Any = None


@dataclass(eq=False, kw_only=True)
class MultiAgentResultEvent(MultiAgentEvent):
    """The call has a result; fires after `AfterMultiAgentInvocationEvent`."""

    result: Any


@dataclass(eq=False, kw_only=True)
class MultiAgentHandoffEvent(MultiAgentEvent, AsksMixin):
    """The nodes `sources` have ended, and `targets` come next: their ids. `message` is what one said to the other."""

    sources: list[str]
    targets: list[str]
    message: str | None = None


@dataclass(eq=False)
class NodeEvent(MultiAgentEvent):
    """An event of one execution of the node `node_id`. If a node is executed several times side by side, `key` says
    which of these it is; the results have it under that."""

    node_id: str
    key: str = field(default="", kw_only=True)

    @property
    def _subject(self) -> str:
        return self.key or self.node_id


@dataclass(eq=False)
class BeforeNodeCallEvent(NodeEvent, AsksMixin):
    """A node is about to be executed.

    Writable: `cancel_node`, also spelled `cancel` (True or a text): it is not executed; its result has the status
    `CANCELLED` and the text for a message. Nodes that depend on it alone are not executed either.
    """

    writable: ClassVar = frozenset({"cancel_node", "cancel"})

    cancel_node: bool | str = field(default=False, kw_only=True)

    @property
    def cancel(self) -> bool | str:
        """`cancel_node`."""
        return self.cancel_node

    @cancel.setter
    def cancel(self, value: bool | str) -> None:
        self.cancel_node = value


@dataclass(eq=False)
class NodeCancelEvent(NodeEvent):
    """A hook has cancelled the node, with this `message`."""

    message: str = field(kw_only=True)


@dataclass(eq=False)
class NodeStreamUpdateEvent(NodeEvent):
    """`event` is one of whatever runs in the node: of its agent, or of its orchestrator."""

    event: BaseHookEvent = field(kw_only=True)


@dataclass(eq=False)
class AfterNodeCallEvent(NodeEvent, AsksMixin):
    """A node was executed: its `result` is complete, failed, or cancelled. Does not fire for one that waits for
    answers."""

    should_reverse_callbacks: ClassVar = True

    result: Any = field(kw_only=True, default=None)


@dataclass(eq=False)
class NodeResultEvent(NodeEvent):
    """A node has its `result`; fires after `AfterNodeCallEvent`."""

    result: Any = field(kw_only=True)
