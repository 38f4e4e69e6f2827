"""Door to `graphkit_prebuilt.react.tool_node`, `.injection` and `.wrapping`, and to the error of a call."""

from graphkit.errors import ToolInvocationError
from graphkit_prebuilt.react.injection import InjectedState, InjectedStore, ToolRuntime
from graphkit_prebuilt.react.tool_node import ToolNode, tools_condition
from graphkit_prebuilt.react.wrapping import ToolCallRequest

__all__ = [
    "InjectedState",
    "InjectedStore",
    "ToolCallRequest",
    "ToolInvocationError",
    "ToolNode",
    "ToolRuntime",
    "tools_condition",
]
