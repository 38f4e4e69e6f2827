"""One tool of an MCP server."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from graphkit_prebuilt.content import ToolSpec
from graphkit_prebuilt.loop.steps import Steps
from graphkit_prebuilt.mcp.connection import on_loop
from graphkit_prebuilt.mcp.elicitation import Question, result_of_answer
from graphkit_prebuilt.mcp.values import content_of
from graphkit_prebuilt.tools.context import ToolContext
from graphkit_prebuilt.tools.tool import Progress, StepTool

if TYPE_CHECKING:
    from mcp.types import Tool

    from graphkit_prebuilt.mcp.client import MCPClient


class MCPAgentTool(StepTool):
    """A tool of an MCP server, as a tool of an agent. `mcp_tool` is what the server says of it. What no model can write
    in the name of a tool, a dot for instance, is "_" in the one that it is told.

    Where its client asks people (`elicitation_callback="ask"`), what the server asks is a question of the graph. When
    it is answered the tool is called again from its top, as every tool is that asks.
    """

    def __init__(self, mcp_tool: Tool, mcp_client: MCPClient, name_override: str | None = None) -> None:
        self.mcp_tool = mcp_tool
        self.mcp_client = mcp_client
        self._spec: ToolSpec = {
            "name": re.sub(r"[^a-zA-Z0-9_-]", "_", name_override or mcp_tool.name)[:64],
            "description": mcp_tool.description or mcp_tool.title or mcp_tool.name,
            "inputSchema": {"json": mcp_tool.input_schema},
        }
        if mcp_tool.output_schema:
            self._spec["outputSchema"] = {"json": mcp_tool.output_schema}

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, MCPAgentTool)
            and self.mcp_client is other.mcp_client
            and self._spec == other._spec
        )

    def __hash__(self) -> int:
        return hash((id(self.mcp_client), self.tool_name))

    @property
    def tool_type(self) -> str:
        return "python"

    def take(self, context: ToolContext, progress: Progress) -> Steps[Any]:
        given = context.tool_use["input"]
        if not isinstance(given, dict):
            raise ValueError(f"the input is no JSON object but {type(given).__name__}: {given!r:.200}")
        call = yield from self.mcp_client.calling(self.mcp_tool.name, given)
        asked: dict[str, int] = {}
        try:
            found = yield on_loop(call.go_on)
            while isinstance(found, Question):
                message = found.params.message
                asked[message] = again = asked.get(message, 0) + 1
                name = f"elicitation: {message}" if again == 1 else f"elicitation {again}: {message}"
                answer = result_of_answer(context.interrupt(name, found.reason))
                found = yield on_loop(lambda answer=answer: call.go_on(answer))  # type: ignore[misc]
        finally:
            call.leave()
        return content_of(found)
