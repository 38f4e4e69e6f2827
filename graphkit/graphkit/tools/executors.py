"""Door to the ways in which the calls of one message run."""

from graphkit_prebuilt.tools.executors import ConcurrentToolExecutor, SequentialToolExecutor, ToolExecutor

__all__ = ["ConcurrentToolExecutor", "SequentialToolExecutor", "ToolExecutor"]
