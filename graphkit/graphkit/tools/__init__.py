"""Door to tools: what a model can call."""

from graphkit.errors import InvalidToolUseNameException
from graphkit_prebuilt.tools.adapters import PythonAgentTool
from graphkit_prebuilt.tools.box import ToolProvider
from graphkit_prebuilt.tools.decorator import tool

__all__ = ["InvalidToolUseNameException", "PythonAgentTool", "ToolProvider", "tool"]
