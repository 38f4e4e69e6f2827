"""Door to what a request has used."""

from graphkit_prebuilt.metrics import RequestMetrics as EventLoopMetrics

__all__ = ["EventLoopMetrics"]
