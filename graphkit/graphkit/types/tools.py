"""Door to tools and their results."""

from graphkit_prebuilt.content import (
    ToolChoice,
    ToolChoiceAny,
    ToolChoiceAuto,
    ToolChoiceTool,
    ToolResult,
    ToolResultBlock,
    ToolResultContent,
    ToolResultStatus,
    ToolSpec,
    ToolUse,
)
from graphkit_prebuilt.tools.context import ToolContext
from graphkit_prebuilt.tools.tool import AgentTool

__all__ = [
    "AgentTool",
    "ToolChoice",
    "ToolChoiceAny",
    "ToolChoiceAuto",
    "ToolChoiceTool",
    "ToolContext",
    "ToolResult",
    "ToolResultBlock",
    "ToolResultContent",
    "ToolResultStatus",
    "ToolSpec",
    "ToolUse",
]
