"""What one request has used: tokens, and the seconds of its cycles and tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from graphkit_prebuilt.streaming import Metrics, Usage


@dataclass(slots=True)
class ToolMetrics:
    """The calls of one tool in a request; `tool` is the last of them, `total_time` in seconds."""

    tool: Mapping[str, Any] = field(default_factory=dict)
    call_count: int = 0
    success_count: int = 0
    error_count: int = 0
    total_time: float = 0.0

    def add(self, use: Mapping[str, Any], seconds: float, success: bool) -> None:
        self.tool = use
        self.call_count += 1
        self.total_time += seconds
        if success:
            self.success_count += 1
        else:
            self.error_count += 1


@dataclass(frozen=True, slots=True)
class CycleMetrics:
    """What one call of the model took."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class InvocationMetrics:
    """What all calls of the model in a request took, and each of them."""

    usage: Usage
    cycles: list[CycleMetrics]


class RequestMetrics:
    """Counted in memory, from the start of a request to its end; a request that goes on with answers counts anew.

    A cycle is one call of the model with the tools that it called; `cycle_durations` are the seconds of its calls of
    the model. Names: Strands'. Sums are made when somebody looks.
    """

    __slots__ = ("_calls", "_tools")

    def __init__(self) -> None:
        self._calls: list[tuple[Usage, Metrics, float]] = []
        self._tools: list[tuple[Mapping[str, Any], float, bool]] = []

    def add_call(self, usage: Usage, metrics: Metrics, seconds: float) -> None:
        """The model has answered."""
        self._calls.append((usage, metrics, seconds))

    def add_tool(self, use: Mapping[str, Any], seconds: float, success: bool) -> None:
        """A tool has returned or failed."""
        self._tools.append((use, seconds, success))

    @property
    def cycle_count(self) -> int:
        return len(self._calls)

    @property
    def cycle_durations(self) -> list[float]:
        return [seconds for _, _, seconds in self._calls]

    @property
    def accumulated_usage(self) -> Usage:
        """The tokens of all calls of the model."""
        total: Usage = {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}
        for usage, _, _ in self._calls:
            _add(total, usage)
        return total

    @property
    def accumulated_metrics(self) -> Metrics:
        """The milliseconds of all calls of the model."""
        total: Metrics = {"latencyMs": 0}
        for _, metrics, _ in self._calls:
            _add(total, metrics)
        return total

    @property
    def tool_metrics(self) -> dict[str, ToolMetrics]:
        """The calls of each tool, by its name."""
        found: dict[str, ToolMetrics] = {}
        for use, seconds, success in self._tools:
            found.setdefault(use["name"], ToolMetrics()).add(use, seconds, success)
        return found

    @property
    def agent_invocations(self) -> list[InvocationMetrics]:
        """This request, if it has called the model: a list, as Strands has it."""
        cycles = [CycleMetrics(usage) for usage, _, _ in self._calls]
        return [InvocationMetrics(self.accumulated_usage, cycles)] if cycles else []

    @property
    def latest_agent_invocation(self) -> InvocationMetrics | None:
        return next(iter(self.agent_invocations), None)

    @property
    def latest_context_size(self) -> int | None:
        """The tokens that the last call of the model read, with those that were cached."""
        return tokens_read(self._calls[-1][0]) if self._calls else None

    @property
    def projected_context_size(self) -> int | None:
        """The same with what the model then said: what the next call will read at least."""
        if not self._calls:
            return None
        usage = self._calls[-1][0]
        return tokens_read(usage) + usage["outputTokens"]

    def get_summary(self) -> dict[str, Any]:
        """All of it as one dict that can be written as JSON."""
        durations = self.cycle_durations
        return {
            "total_cycles": self.cycle_count,
            "total_duration": sum(durations),
            "average_cycle_time": sum(durations) / len(durations) if durations else 0,
            "accumulated_usage": dict(self.accumulated_usage),
            "accumulated_metrics": dict(self.accumulated_metrics),
            "tool_usage": {name: _shown(tool) for name, tool in self.tool_metrics.items()},
            "agent_invocations": [asdict(one) for one in self.agent_invocations],
        }


def tokens_read(usage: Usage) -> int:
    """What a call of a model has read. Some providers count what was cached as input, others beside it: the total
    tells which."""
    read = usage["inputTokens"]
    if read + usage["outputTokens"] == usage["totalTokens"]:
        return read
    return read + usage.get("cacheReadInputTokens", 0) + usage.get("cacheWriteInputTokens", 0)


def _add(total: Any, more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        total[key] = total.get(key, 0) + value


def _shown(tool: ToolMetrics) -> dict[str, Any]:
    use = tool.tool
    return {
        "tool_info": {
            "tool_use_id": use.get("toolUseId"),
            "name": use.get("name"),
            "input_params": use.get("input"),
        },
        "execution_stats": {
            "call_count": tool.call_count,
            "success_count": tool.success_count,
            "error_count": tool.error_count,
            "total_time": tool.total_time,
            "average_time": tool.total_time / tool.call_count,
            "success_rate": tool.success_count / tool.call_count,
        },
    }
