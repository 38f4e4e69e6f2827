"""Whether everything that users wrote for an orchestrator is awaited.

Then a turn through the blocking door is one run on the standing loop, in the thread of whoever calls it: members side
by side in threads would take the interpreter from each other, and wake two threads each time. A plain function of the
user's is called where no loop runs, as ever: it may block without keeping another member waiting, and run a loop of its
own.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from graphkit_prebuilt.agent import Agent
from graphkit_prebuilt.hooks.registry import HookRegistry
from graphkit_prebuilt.multiagent.edge import GraphEdge
from graphkit_prebuilt.multiagent.executors import AgentExecutor, FunctionExecutor, TeamExecutor
from graphkit_prebuilt.multiagent.nodes import Executor
from graphkit_prebuilt.printing import wanted_by
from graphkit_prebuilt.tools.function import FunctionTool

if TYPE_CHECKING:
    from graphkit_prebuilt.multiagent.base import MultiAgentBase

OURS: Final = "graphkit_prebuilt"


def only_awaits(team: MultiAgentBase) -> bool:
    """Whether a turn calls nothing but what is ours or is awaited, and has not to wait for storage. Of a model whose
    `stream` is no async generator nobody knows. Asked when a turn begins: a callback that is added in the midst of it
    is called on its loop, as in `invoke_async`."""
    return not team.saver.blocking and _is_awaited(team)


def _is_awaited(team: MultiAgentBase) -> bool:
    return (
        _is_ours(team)
        and not team.plugins
        and _hears_by_awaiting(team.hooks)
        and all(
            edge.condition is None or inspect.iscoroutinefunction(edge.condition) for edge in _edges(team)
        )
        and all(_runs_by_awaiting(node.work) for node in team.nodes.values())
    )


def _edges(team: MultiAgentBase) -> Sequence[GraphEdge]:
    edges: Sequence[GraphEdge] = getattr(team, "edges", ())
    return edges


def _runs_by_awaiting(work: Executor) -> bool:
    if type(work) is AgentExecutor:
        return _works_by_awaiting(work.agent)
    if type(work) is FunctionExecutor:
        return inspect.iscoroutinefunction(work.function)
    return type(work) is TeamExecutor and _is_awaited(work.team)


def _works_by_awaiting(agent: Agent) -> bool:
    return (
        type(agent) is Agent
        and inspect.isasyncgenfunction(getattr(agent.model, "stream", None))
        and not agent.plugins
        and not agent.middleware
        and wanted_by(agent.callback_handler) is not None
        and all(
            type(tool) is FunctionTool and not tool.blocks for tool in agent.tool_registry.registry.values()
        )
        and _hears_by_awaiting(agent.hooks)
    )


def _hears_by_awaiting(hooks: HookRegistry) -> bool:
    return all(
        inspect.iscoroutinefunction(entry.callback) or _is_ours(getattr(entry.callback, "__self__", None))
        for entry in hooks.entries
    )


def _is_ours(thing: Any) -> bool:
    """Whether it is of a class of ours, and not of one derived from it."""
    return type(thing).__module__.partition(".")[0] == OURS
