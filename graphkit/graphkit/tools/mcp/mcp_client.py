"""Door to clients of MCP servers."""

from graphkit_prebuilt.mcp.client import MCPClient
from graphkit_prebuilt.mcp.filters import ToolFilters

__all__ = ["MCPClient", "ToolFilters"]
