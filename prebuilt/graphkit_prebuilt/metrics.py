"""What one request has used: tokens, and the seconds of its cycles and tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graphkit_prebuilt.streaming import Metrics, Usage


@dataclass(slots=True)
class ToolMetrics:
    """The calls of one tool in a request; `total_time` in seconds."""

    call_count: int = 0
    success_count: int = 0
    error_count: int = 0
    total_time: float = 0.0

    def add(self, seconds: float, success: bool) -> None:
        self.call_count += 1
        self.total_time += seconds
        if success:
            self.success_count += 1
        else:
            self.error_count += 1


class RequestMetrics:
    """Counted in memory, from the start of a request to its end; a request that goes on with answers counts anew.

    A cycle is one call of the model with the tools that it called; `cycle_durations` are the seconds of its calls of
    the model. Names: Strands'. Sums are made when somebody looks.
    """

    __slots__ = ("_calls", "_tools")

    def __init__(self) -> None:
        self._calls: list[tuple[Usage, Metrics, float]] = []
        self._tools: list[tuple[str, float, bool]] = []

    def add_call(self, usage: Usage, metrics: Metrics, seconds: float) -> None:
        """The model has answered."""
        self._calls.append((usage, metrics, seconds))

    def add_tool(self, name: str, seconds: float, success: bool) -> None:
        """A tool has returned or failed."""
        self._tools.append((name, seconds, success))

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
        for name, seconds, success in self._tools:
            found.setdefault(name, ToolMetrics()).add(seconds, success)
        return found

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
        }


def _add(total: Any, more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        total[key] = total.get(key, 0) + value


def _shown(tool: ToolMetrics) -> dict[str, Any]:
    return {
        "call_count": tool.call_count,
        "success_count": tool.success_count,
        "error_count": tool.error_count,
        "total_time": tool.total_time,
        "average_time": tool.total_time / tool.call_count if tool.call_count else 0,
        "success_rate": tool.success_count / tool.call_count if tool.call_count else 0,
    }
