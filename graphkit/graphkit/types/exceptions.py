"""Door to the errors of agents; all others are in `graphkit.errors`."""

from graphkit.errors import (
    ConcurrencyException,
    ContextWindowOverflowException,
    EventLoopException,
    MaxTokensReachedException,
    MCPClientInitializationError,
    ModelThrottledException,
    SessionException,
    SnapshotException,
    StructuredOutputException,
)

__all__ = [
    "ConcurrencyException",
    "ContextWindowOverflowException",
    "EventLoopException",
    "MCPClientInitializationError",
    "MaxTokensReachedException",
    "ModelThrottledException",
    "SessionException",
    "SnapshotException",
    "StructuredOutputException",
]
