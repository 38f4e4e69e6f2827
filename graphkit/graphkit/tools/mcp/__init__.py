"""Door to tools of MCP servers."""

from graphkit_prebuilt.mcp.client import MCPClient, MCPTransport
from graphkit_prebuilt.mcp.filters import ToolFilters
from graphkit_prebuilt.mcp.tool import MCPAgentTool

__all__ = ["MCPAgentTool", "MCPClient", "MCPTransport", "ToolFilters"]
