"""Door to the parts of messages."""

from graphkit_prebuilt.content import (
    CachePoint,
    ContentBlock,
    Message,
    Messages,
    ReasoningContentBlock,
    ReasoningTextBlock,
    Role,
    SystemContentBlock,
    SystemPrompt,
    TextBlock,
)

__all__ = [
    "CachePoint",
    "ContentBlock",
    "Message",
    "Messages",
    "ReasoningContentBlock",
    "ReasoningTextBlock",
    "Role",
    "SystemContentBlock",
    "SystemPrompt",
    "TextBlock",
]
