"""graphkit: a checkpointed state-graph engine, and agents on it.

The names below are imported when they are first used, so `import graphkit` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphkit.constants import END, START
    from graphkit.func import entrypoint, task
    from graphkit.graph.message import MessagesState, add_messages
    from graphkit.graph.state import StateGraph
    from graphkit.questions import interrupt
    from graphkit.runtime import RunControl
    from graphkit.types import Command, Interrupt, RunResult, Send
    from graphkit_prebuilt.agent import Agent
    from graphkit_prebuilt.plugins import MultiAgentPlugin, Plugin
    from graphkit_prebuilt.result import AgentResult
    from graphkit_prebuilt.retry import ModelRetryStrategy
    from graphkit_prebuilt.snapshots import Snapshot
    from graphkit_prebuilt.tools.context import ToolContext
    from graphkit_prebuilt.tools.decorator import tool

_HOMES = {
    "END": "graphkit.constants",
    "START": "graphkit.constants",
    "Agent": "graphkit_prebuilt.agent",
    "AgentResult": "graphkit_prebuilt.result",
    "Command": "graphkit.types",
    "Interrupt": "graphkit.types",
    "MessagesState": "graphkit.graph.message",
    "ModelRetryStrategy": "graphkit_prebuilt.retry",
    "MultiAgentPlugin": "graphkit_prebuilt.plugins",
    "Plugin": "graphkit_prebuilt.plugins",
    "RunControl": "graphkit.runtime",
    "RunResult": "graphkit.types",
    "Send": "graphkit.types",
    "Snapshot": "graphkit_prebuilt.snapshots",
    "StateGraph": "graphkit.graph.state",
    "ToolContext": "graphkit_prebuilt.tools.context",
    "add_messages": "graphkit.graph.message",
    "entrypoint": "graphkit.func",
    "interrupt": "graphkit.questions",
    "task": "graphkit.func",
    "tool": "graphkit_prebuilt.tools.decorator",
}

__all__ = [
    "END",
    "START",
    "Agent",
    "AgentResult",
    "Command",
    "Interrupt",
    "MessagesState",
    "ModelRetryStrategy",
    "MultiAgentPlugin",
    "Plugin",
    "RunControl",
    "RunResult",
    "Send",
    "Snapshot",
    "StateGraph",
    "ToolContext",
    "add_messages",
    "entrypoint",
    "interrupt",
    "task",
    "tool",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'graphkit' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
