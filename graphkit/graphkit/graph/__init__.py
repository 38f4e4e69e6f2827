"""Building graphs. The names are imported when they are first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphkit.constants import END, START
    from graphkit.graph.message import MessagesState, add_messages
    from graphkit.graph.state import StateGraph

_HOMES = {
    "END": "graphkit.constants",
    "START": "graphkit.constants",
    "MessagesState": "graphkit.graph.message",
    "StateGraph": "graphkit.graph.state",
    "add_messages": "graphkit.graph.message",
}

__all__ = ["END", "START", "MessagesState", "StateGraph", "add_messages"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'graphkit.graph' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
