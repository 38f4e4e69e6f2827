"""What the agent of one execution has used, over all attempts at it and in all processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from graphkit_prebuilt.multiagent.results import added, most, no_metrics, no_usage
from graphkit_prebuilt.streaming import Metrics, Usage

if TYPE_CHECKING:
    from graphkit.frame import Frame
    from graphkit_prebuilt.multiagent.nested import NestedRequest

_KEY = "used"


class Used(NamedTuple):
    """Tokens and milliseconds of calls of the model."""

    usage: Usage
    metrics: Metrics

    @classmethod
    def until_now(cls, frame: Frame, request: NestedRequest) -> Used:
        """What is counted of earlier attempts, and what this one has counted."""
        counted = request.invocation.metrics
        now = cls(counted.accumulated_usage, counted.accumulated_metrics)
        kept: Mapping[str, Any] | None = frame.kept.get(_KEY)
        if kept is None:
            return now
        return cls(added(now.usage, kept["usage"]), added(now.metrics, kept["metrics"]))

    def keep(self, frame: Frame) -> None:
        """The attempt asks or fails: the next one counts from here."""
        frame.keep(_KEY, {"usage": self.usage, "metrics": self.metrics})

    @classmethod
    def of(cls, frame: Frame, request: NestedRequest) -> Used:
        """What the execution has used that has ended. A process that died has kept nothing but the answers that it
        recorded, which are counted then."""
        used = cls.until_now(frame, request)
        attempt = frame.attempt
        if attempt.number == 1 and attempt.past is None:  # the only one
            return used
        recorded = request.recorded()
        if len(recorded) == request.invocation.metrics.cycle_count:  # all are of this attempt
            return used
        usage, metrics = no_usage(), no_metrics()
        for each in recorded:
            usage = added(usage, each.get("usage", {}))
            metrics = added(metrics, each.get("metrics", {}))
        return cls(most(used.usage, usage), most(used.metrics, metrics))
