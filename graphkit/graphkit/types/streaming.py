"""Door to what models stream."""

from graphkit_prebuilt.content import Role
from graphkit_prebuilt.streaming import (
    ContentBlockDelta,
    ContentBlockDeltaEvent,
    ContentBlockDeltaToolUse,
    ContentBlockStart,
    ContentBlockStartEvent,
    ContentBlockStartToolUse,
    ContentBlockStopEvent,
    MessageStartEvent,
    MessageStopEvent,
    MetadataEvent,
    Metrics,
    ReasoningContentBlockDelta,
    RedactContentEvent,
    StopReason,
    StreamEvent,
    Usage,
)

__all__ = [
    "ContentBlockDelta",
    "ContentBlockDeltaEvent",
    "ContentBlockDeltaToolUse",
    "ContentBlockStart",
    "ContentBlockStartEvent",
    "ContentBlockStartToolUse",
    "ContentBlockStopEvent",
    "MessageStartEvent",
    "MessageStopEvent",
    "MetadataEvent",
    "Metrics",
    "ReasoningContentBlockDelta",
    "RedactContentEvent",
    "Role",
    "StopReason",
    "StreamEvent",
    "Usage",
]
