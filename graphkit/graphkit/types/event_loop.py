"""Door to what an agent's loop counts."""

from graphkit_prebuilt.streaming import Metrics, StopReason, Usage

__all__ = [
    "Metrics",
    "StopReason",
    "Usage",
]
