"""`Node`: one member of an orchestrator, and how each kind of it is executed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from graphkit.frame import Frame
from graphkit_prebuilt.content import ContentBlock, Message
from graphkit_prebuilt.loop.steps import Steps
from graphkit_prebuilt.multiagent.results import NodeResult
from graphkit_prebuilt.multiagent.state import MultiAgentState

if TYPE_CHECKING:
    from graphkit_prebuilt.multiagent.base import MultiAgentBase
    from graphkit_prebuilt.multiagent.invocation import TeamInvocation
    from graphkit_prebuilt.multiagent.nested import NestedRequest

Join = Literal["any", "all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One execution of a node that is to come. `about` is what the orchestrator wants to know then: plain values, which
    are stored. `key` is what the result is kept under: the node's id, unless it runs several times side by side. One
    that is `fresh` begins a conversation of its own, and any number of those may run side by side. One that had failed
    before `carries` what it has `used`, as `totals` has it, and perhaps what had ended beside it, which leads on with
    it: what is written to `ended` and `sends`."""

    node: str
    key: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)
    fresh: bool = False
    carries: Mapping[str, Any] | None = None

    @property
    def plain(self) -> dict[str, Any]:
        """What is stored of it."""
        plain: dict[str, Any] = {"about": dict(self.about)} if self.about else {}
        if self.key:
            plain["key"] = self.key
        if self.fresh:
            plain["fresh"] = True
        if self.carries is not None:
            plain["carries"] = dict(self.carries)
        return plain

    @classmethod
    def of(cls, node: str, plain: Mapping[str, Any]) -> Visit:
        return cls(
            node=node,
            key=plain.get("key", node),
            about=plain.get("about", {}),
            fresh=plain.get("fresh", False),
            carries=plain.get("carries"),
        )


@dataclass(slots=True, kw_only=True, eq=False)
class NodeCall:
    """One execution of a node while it lasts. `input` is what it is given, `writes` what it adds to the channels
    beside its result. `request` is that of its agent, when it has ended."""

    inv: TeamInvocation
    frame: Frame
    node: Node
    visit: Visit
    state: MultiAgentState
    input: list[ContentBlock] = field(default_factory=list)
    writes: dict[str, Any] = field(default_factory=dict)
    request: NestedRequest | None = None

    @property
    def team(self) -> MultiAgentBase:
        return self.inv.source

    @property
    def said(self) -> Sequence[Message]:
        """The conversation of its agent, when that has ended."""
        return () if self.request is None else self.request.said


class Executor(ABC):
    """What is executed in a node."""

    kind: str = "agent"
    """What the dict events of a stream call it."""

    @abstractmethod
    def run(self, call: NodeCall) -> Steps[NodeResult]:
        """Execute it. What is asked inside leaves as `GraphInterrupt`; what it raises has failed."""

    @property
    def graph(self) -> Any:
        """The graph that it is, to look inside; None if it is none."""
        return None

    def restore(self, result: NodeResult) -> NodeResult:
        """A result of it that was stored, with what only it knows how to make again."""
        return result


def id_of(node: str | Node) -> str:
    """The id of a node that is given by its id, or itself."""
    return node.node_id if isinstance(node, Node) else node


class Node:
    """A member of an orchestrator: `node_id`, and `executor`, the agent, function or orchestrator that was added.

    `join` says when a node with several sources runs: after "any" of them, or after "all". `work` is how it is
    executed; without it, as `GraphBuilder.add_node` says. Raises `TypeError` for what cannot be a member.
    """

    __slots__ = ("executor", "join", "node_id", "work")

    def __init__(self, node_id: str, executor: Any, work: Executor | None = None, join: Join = "any") -> None:
        if work is None:
            from graphkit_prebuilt.multiagent.members import work_of  # which makes nodes

            work = work_of(executor)
        self.node_id = node_id
        self.executor = executor
        self.work = work
        self.join = join

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.node_id!r})"
