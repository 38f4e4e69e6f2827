"""Door to `graphkit_prebuilt.react`. Names are imported when they are first used: those for tools that ask something of
the graph import LangChain, where it is installed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphkit_prebuilt.react.agent import create_react_agent
    from graphkit_prebuilt.react.injection import InjectedState, InjectedStore, ToolRuntime
    from graphkit_prebuilt.react.review import add_human_in_the_loop
    from graphkit_prebuilt.react.tool_node import ToolNode, tools_condition

_HOMES = {
    "InjectedState": "graphkit_prebuilt.react.injection",
    "InjectedStore": "graphkit_prebuilt.react.injection",
    "ToolNode": "graphkit_prebuilt.react.tool_node",
    "ToolRuntime": "graphkit_prebuilt.react.injection",
    "add_human_in_the_loop": "graphkit_prebuilt.react.review",
    "create_react_agent": "graphkit_prebuilt.react.agent",
    "tools_condition": "graphkit_prebuilt.react.tool_node",
}

__all__ = [
    "InjectedState",
    "InjectedStore",
    "ToolNode",
    "ToolRuntime",
    "add_human_in_the_loop",
    "create_react_agent",
    "tools_condition",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'graphkit.prebuilt' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
