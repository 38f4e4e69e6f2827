"""Tools of MCP servers, as tools of agents. A client needs the package `mcp` (the extra of that name) to start."""
