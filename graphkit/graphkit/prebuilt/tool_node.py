"""Door to `graphkit_prebuilt.react.tool_node` and `.injection`, and to the error of a call."""

from graphkit.errors import ToolInvocationError
from graphkit_prebuilt.react.injection import InjectedState, InjectedStore, ToolRuntime
from graphkit_prebuilt.react.tool_node import ToolNode, tools_condition

__all__ = [
    "InjectedState",
    "InjectedStore",
    "ToolInvocationError",
    "ToolNode",
    "ToolRuntime",
    "tools_condition",
]
