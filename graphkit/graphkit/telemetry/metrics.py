"""Door to what a request has used."""

from graphkit_prebuilt.metrics import RequestMetrics as EventLoopMetrics
from graphkit_prebuilt.metrics import ToolMetrics

__all__ = ["EventLoopMetrics", "ToolMetrics"]
