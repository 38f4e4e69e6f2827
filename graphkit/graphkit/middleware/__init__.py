"""Door to the stages of an agent's loop and what wraps them."""

from graphkit_prebuilt.hooks.catalogue import ToolResultEvent
from graphkit_prebuilt.middleware.contexts import (
    ExecuteToolContext,
    ExecuteToolsContext,
    InvokeModelContext,
    MiddlewareInterruptResult,
)
from graphkit_prebuilt.middleware.stages import (
    ExecuteToolResult,
    ExecuteToolsResult,
    ExecuteToolsStage,
    ExecuteToolStage,
    InvokeModelResult,
    InvokeModelStage,
    MiddlewareHandler,
    MiddlewareInputHandler,
    MiddlewareInputPhase,
    MiddlewareNext,
    MiddlewareOutputHandler,
    MiddlewareOutputPhase,
    MiddlewareStage,
    MiddlewareWrapPhase,
    ModelStopReason,
    ToolResultsEvent,
    TypedEvent,
)

__all__ = [
    "ExecuteToolContext",
    "ExecuteToolResult",
    "ExecuteToolStage",
    "ExecuteToolsContext",
    "ExecuteToolsResult",
    "ExecuteToolsStage",
    "InvokeModelContext",
    "InvokeModelResult",
    "InvokeModelStage",
    "MiddlewareHandler",
    "MiddlewareInputHandler",
    "MiddlewareInputPhase",
    "MiddlewareInterruptResult",
    "MiddlewareNext",
    "MiddlewareOutputHandler",
    "MiddlewareOutputPhase",
    "MiddlewareStage",
    "MiddlewareWrapPhase",
    "ModelStopReason",
    "ToolResultEvent",
    "ToolResultsEvent",
    "TypedEvent",
]
