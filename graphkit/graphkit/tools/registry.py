"""Door to the tools that an agent has, by name."""

from graphkit_prebuilt.tools.box import ToolRegistry

__all__ = ["ToolRegistry"]
