"""Door to `@tool` and what it makes."""

from graphkit_prebuilt.tools.decorator import tool
from graphkit_prebuilt.tools.function import FunctionTool

__all__ = ["FunctionTool", "tool"]
