"""Door to tools and their results."""

from graphkit_prebuilt.content import (
    ToolChoice,
    ToolChoiceAny,
    ToolChoiceAnyDict,
    ToolChoiceAuto,
    ToolChoiceAutoDict,
    ToolChoiceTool,
    ToolChoiceToolDict,
    ToolResult,
    ToolResultBlock,
    ToolResultContent,
    ToolResultStatus,
    ToolSpec,
    ToolUse,
)
from graphkit_prebuilt.tools.context import ToolContext
from graphkit_prebuilt.tools.tool import AgentTool, ToolGenerator

__all__ = [
    "AgentTool",
    "ToolChoice",
    "ToolChoiceAny",
    "ToolChoiceAnyDict",
    "ToolChoiceAuto",
    "ToolChoiceAutoDict",
    "ToolChoiceTool",
    "ToolChoiceToolDict",
    "ToolContext",
    "ToolGenerator",
    "ToolResult",
    "ToolResultBlock",
    "ToolResultContent",
    "ToolResultStatus",
    "ToolSpec",
    "ToolUse",
]
