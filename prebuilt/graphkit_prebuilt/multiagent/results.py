"""What a turn of an orchestrator came to, and what each of its nodes did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Self, TypeVar, cast

from graphkit.errors import RecordedError
from graphkit.types import Interrupt
from graphkit_prebuilt.halting import Halt, Halted, halts_told
from graphkit_prebuilt.result import AgentResult
from graphkit_prebuilt.streaming import Metrics, Usage


def no_usage() -> Usage:
    return {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}


def no_metrics() -> Metrics:
    return {"latencyMs": 0}


T = TypeVar("T", bound=Mapping[str, Any])


def added(one: T, other: Mapping[str, Any]) -> T:
    """The sum of two, key by key."""
    total: Any = dict(one)
    for key, value in other.items():
        total[key] = total.get(key, 0) + value
    return cast(T, total)


def less(one: T, other: Mapping[str, Any]) -> T:
    """What is left of one without the other, key by key."""
    return added(one, {key: -value for key, value in other.items()})


def most(one: T, other: Mapping[str, Any]) -> T:
    """The greater number of two, key by key."""
    total: Any = dict(one)
    for key, value in other.items():
        total[key] = max(total.get(key, 0), value)
    return cast(T, total)


def total(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The sum of two totals: of numbers, or of dicts of numbers."""
    both = dict(one)
    for key, value in other.items():
        before = both.get(key)
        if before is None:
            both[key] = value
        else:
            both[key] = total(before, value) if isinstance(value, dict) else before + value
    return both


class Status(Enum):
    """Where a node, or a whole turn, stands. Values: Strands', `CANCELLED` and `HALTED`."""

    PENDING = "pending"
    EXECUTING = "executing"
    COMPLETED = "completed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"
    HALTED = "halted"


@dataclass(slots=True)
class NodeResult:
    """What the last execution of the node `node` came to.

    `result` is what its agent returned, what the orchestrator in it came to, or the exception it failed with; of a
    node that was cancelled, an `AgentResult` whose message has the text. `execution_time` is in milliseconds.
    Usage and metrics are those of this execution, with everything inside; `execution_count` counts the agents that
    ran in it. `interrupts` are the open questions of a node that is interrupted.
    """

    result: AgentResult | MultiAgentResult | Exception
    execution_time: int = 0
    status: Status = Status.PENDING
    accumulated_usage: Usage = field(default_factory=no_usage)
    accumulated_metrics: Metrics = field(default_factory=no_metrics)
    execution_count: int = 0
    interrupts: list[Interrupt] = field(default_factory=list)
    node: str = ""

    def __str__(self) -> str:
        return str(self.result)

    @property
    def why(self) -> str:
        """Why it has failed: its exception, or the reason of its orchestrator."""
        inner = self.result
        return inner.reason if isinstance(inner, MultiAgentResult) and inner.reason else str(inner)

    def get_agent_results(self) -> list[AgentResult]:
        """The results of agents in it, at any depth, in order."""
        if isinstance(self.result, AgentResult):
            return [self.result]
        if isinstance(self.result, MultiAgentResult):
            return [one for node in self.result.results.values() for one in node.get_agent_results()]
        return []

    def to_dict(self) -> dict[str, Any]:
        """What is stored of it: plain values."""
        return {
            "result": _plain(self.result),
            "node": self.node,
            "status": self.status.value,
            "execution_time": self.execution_time,
            "accumulated_usage": dict(self.accumulated_usage),
            "accumulated_metrics": dict(self.accumulated_metrics),
            "execution_count": self.execution_count,
            "interrupts": [question.to_dict() for question in self.interrupts],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> NodeResult:
        """The result that `to_dict` was made of; an exception is a `RecordedError`. Raises `TypeError` for a dict of
        something else."""
        if "result" not in data:
            raise TypeError(f"NodeResult.from_dict() was given {data!r:.100}")
        return cls(
            result=_result_in(data["result"]),
            node=data.get("node", ""),
            status=Status(data.get("status", "pending")),
            execution_time=data.get("execution_time", 0),
            accumulated_usage={**no_usage(), **data.get("accumulated_usage", {})},
            accumulated_metrics={**no_metrics(), **data.get("accumulated_metrics", {})},
            execution_count=data.get("execution_count", 0),
            interrupts=_questions_in(data),
        )


@dataclass(slots=True)
class MultiAgentResult(Halted):
    """What a turn of an orchestrator came to.

    `results` are the last ones of the nodes that were executed, by their ids, in the order in which the nodes were
    added; `execution_order` has a node for each execution. Usage, metrics, `execution_count` and `execution_time`
    (milliseconds, without the time in which answers were waited for) are those of the whole turn. `interrupts` are the
    open questions. `halts` are what has halted it or a member, in the order of the nodes: then its status is `HALTED`,
    also beside questions, and the first of them is what `stop_reason`, `data`, `resumable` and `plugin` tell of.
    `reason` says why the turn has ended, where its nodes do not: which limit was reached.
    `invocation_state` is the very object that the call was given.
    """

    status: Status = Status.PENDING
    results: dict[str, NodeResult] = field(default_factory=dict)
    accumulated_usage: Usage = field(default_factory=no_usage)
    accumulated_metrics: Metrics = field(default_factory=no_metrics)
    execution_count: int = 0
    execution_time: int = 0
    interrupts: list[Interrupt] = field(default_factory=list)
    execution_order: list[Any] = field(default_factory=list)
    reason: str | None = None
    invocation_state: dict[str, Any] = field(default_factory=dict)
    halts: Sequence[Halt] = ()

    @property
    def stop_reason(self) -> str | None:
        """That of the halt; None without one."""
        return self.halts[0].stop_reason if self.halts else None

    @classmethod
    def of(cls, team: Any, **fields: Any) -> Self:
        """The result of a call of `team`."""
        return cls(**fields)

    def __str__(self) -> str:
        if self.interrupts:
            return str([question.to_dict() for question in self.interrupts])
        shown = ((node, str(result).removesuffix("\n")) for node, result in self.results.items())
        return "\n".join(f"{node}: {text}" for node, text in shown if text)

    def to_dict(self) -> dict[str, Any]:
        """What can be stored of it: plain values."""
        return {
            "type": "multiagent_result",
            "status": self.status.value,
            "results": {node: result.to_dict() for node, result in self.results.items()},
            "accumulated_usage": dict(self.accumulated_usage),
            "accumulated_metrics": dict(self.accumulated_metrics),
            "execution_count": self.execution_count,
            "execution_time": self.execution_time,
            "interrupts": [question.to_dict() for question in self.interrupts],
            "reason": self.reason,
            "halts": [halt.to_dict() for halt in self.halts],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> MultiAgentResult:
        """The result that `to_dict` was made of, without its order. Raises `TypeError` for a dict of something
        else."""
        if data.get("type") != "multiagent_result":
            raise TypeError(f"MultiAgentResult.from_dict() was given {data!r:.100}")
        return cls(
            status=Status(data["status"]),
            results={node: NodeResult.from_dict(result) for node, result in data.get("results", {}).items()},
            accumulated_usage={**no_usage(), **data.get("accumulated_usage", {})},
            accumulated_metrics={**no_metrics(), **data.get("accumulated_metrics", {})},
            execution_count=data.get("execution_count", 0),
            execution_time=data.get("execution_time", 0),
            interrupts=_questions_in(data),
            reason=data.get("reason"),
            halts=halts_told(data),
        )


def _plain(result: AgentResult | MultiAgentResult | Exception) -> dict[str, Any]:
    if isinstance(result, Exception):
        kind, message = type(result).__name__, str(result)
        if isinstance(result, RecordedError):
            kind = result.kind
        return {"type": "exception", "class": kind, "message": message}
    return result.to_dict()


def _result_in(data: Any) -> AgentResult | MultiAgentResult | Exception:
    kind = data.get("type") if isinstance(data, Mapping) else None
    if kind == "agent_result":
        return AgentResult.from_dict(data)
    if kind == "multiagent_result":
        return MultiAgentResult.from_dict(data)
    if kind == "exception":
        return RecordedError(data.get("class", "Exception"), data["message"])
    raise TypeError(f"NodeResult.from_dict() was given the result {data!r:.100}")


def _questions_in(data: Mapping[str, Any]) -> list[Interrupt]:
    found: Sequence[Mapping[str, Any]] = data.get("interrupts", ())
    return [
        Interrupt(value=one["reason"], id=one["id"], name=one["name"], response=one.get("response"))
        for one in found
    ]
