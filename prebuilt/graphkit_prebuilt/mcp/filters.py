"""Which tools of an MCP server an agent is to have."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from graphkit_prebuilt.mcp.tool import MCPAgentTool

ToolMatcher = str | re.Pattern[str] | Callable[..., bool]
"""The name that the server gives to a tool, a pattern that such a name begins with, or a function of the
`MCPAgentTool`."""


class ToolFilters(TypedDict, total=False):
    """Which tools an `MCPClient` lists: those that one of `allowed` matches (all, where it is left out), less those
    that one of `rejected` matches. Names: Strands'."""

    allowed: list[ToolMatcher]
    rejected: list[ToolMatcher]


def checked_filters(filters: ToolFilters | None) -> ToolFilters:
    """Raises `ValueError` for what are no filters."""
    found: Any = filters or {}
    for key, matchers in found.items():
        if key not in ToolFilters.__annotations__:
            raise ValueError(f"tool_filters= has no {key!r}; there are 'allowed' and 'rejected'")
        if isinstance(matchers, str):
            raise ValueError(f"tool_filters= has one text under {key!r} and needs a list: {matchers!r}")
        for matcher in matchers:
            if not (isinstance(matcher, (str, re.Pattern)) or callable(matcher)):
                raise ValueError(
                    f"tool_filters= has {matcher!r:.200} under {key!r}, which is no name, pattern or function"
                )
    return filters or {}


def is_wanted(tool: MCPAgentTool, filters: ToolFilters) -> bool:
    if "allowed" in filters and not any(_matches(tool, matcher) for matcher in filters["allowed"]):
        return False
    return not any(_matches(tool, matcher) for matcher in filters.get("rejected", ()))


def _matches(tool: MCPAgentTool, matcher: ToolMatcher) -> bool:
    if isinstance(matcher, str):
        return matcher == tool.mcp_tool.name
    if isinstance(matcher, re.Pattern):
        return matcher.match(tool.mcp_tool.name) is not None
    return bool(matcher(tool))
