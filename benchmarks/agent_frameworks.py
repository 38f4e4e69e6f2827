"""The two agent frameworks behind one set of names. The names are Strands', which graphkit has as well."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.databases import Databases


@dataclass(frozen=True)
class AgentFramework:
    """`close` lets go of a session's files, where there is something to let go of."""

    name: str
    Agent: Any
    tool: Callable[[Any], Any]
    Model: Any
    NullConversationManager: Any
    FileSessionManager: Any
    close: Callable[[Any], None]


def load_strands(databases: Databases) -> AgentFramework:
    import logging

    from strands import Agent, tool
    from strands.agent.conversation_manager import NullConversationManager
    from strands.models import Model
    from strands.session import FileSessionManager

    logging.getLogger("strands").setLevel(logging.CRITICAL)
    return AgentFramework(
        "Strands", Agent, tool, Model, NullConversationManager, FileSessionManager, lambda session: None
    )


def load_graphkit_agents(databases: Databases) -> AgentFramework:
    from graphkit import Agent, tool
    from graphkit.agent import NullConversationManager
    from graphkit.models import Model
    from graphkit.session import FileSessionManager

    return AgentFramework(
        "graphkit",
        Agent,
        tool,
        Model,
        NullConversationManager,
        FileSessionManager,
        lambda session: session.saver.close(),
    )
