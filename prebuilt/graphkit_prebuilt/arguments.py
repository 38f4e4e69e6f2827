"""What an agent is made of: the arguments of its constructor, checked."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final

from graphkit.errors import InvalidPromptError
from graphkit_checkpoint.base import BaseCheckpointSaver
from graphkit_checkpoint.live import LiveSaver
from graphkit_prebuilt.hooks.registry import HookRegistry
from graphkit_prebuilt.prompts import read_prompt
from graphkit_prebuilt.sessions.manager import DEFAULT_AGENT_ID, HasAgentId, SessionManager
from graphkit_prebuilt.state import AgentState

LONGEST_ID: Final = 255


class Default:
    """Stands for what an agent has unless it is given something else, where None means "none"."""

    def __repr__(self) -> str:
        return "DEFAULT"


DEFAULT: Final = Default()


def agent_id_of(agent_id: Any, id: Any) -> str:
    """The id of an agent, by either of its names. Raises `ValueError`."""
    if agent_id is not None and id is not None and agent_id != id:
        raise ValueError(
            f"agent_id is {agent_id!r} and id is {id!r}; they mean the same, so give one of them"
        )
    given = id if agent_id is None else agent_id
    if given is None:
        return DEFAULT_AGENT_ID
    if not isinstance(given, str) or not given or len(given) > LONGEST_ID or set(given) & set("\0/\\"):
        raise ValueError(
            f"agent_id must be a text of 1 to {LONGEST_ID} characters without NUL, '/' and '\\', not {given!r:.300}"
        )
    return given


def attributes_of(given: Any) -> dict[str, Any]:
    """Raises `TypeError` for what is no dict."""
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(f"trace_attributes must be a dict, not {given!r:.100}")
    return dict(given or {})


def place_of(agent: HasAgentId, session_manager: Any, checkpointer: Any) -> tuple[BaseCheckpointSaver, str]:
    """Where the conversations are kept, and which of them is the agent's own.

    Raises `ValueError`, `TypeError`, and `InvalidThreadIdError`.
    """
    if isinstance(session_manager, SessionManager):
        if checkpointer is not None:
            raise ValueError("an agent has a session_manager or a checkpointer, not both")
        return session_manager.saver, session_manager.thread_of(agent)
    if session_manager is not None and not hasattr(session_manager, "register_hooks"):
        raise TypeError(
            f"session_manager must be a SessionManager or a hook provider, not {session_manager!r:.100}"
        )
    if checkpointer is not None and not isinstance(checkpointer, BaseCheckpointSaver):
        raise TypeError(f"checkpointer must be a saver, not {checkpointer!r:.100}")
    return checkpointer or LiveSaver(), uuid.uuid4().hex


def beginning_of(messages: Any, state: Any) -> dict[str, Any]:
    """What a new conversation begins with, by channel. Raises `ValueError` for what cannot be kept."""
    beginning: dict[str, Any] = {}
    if messages:
        given = read_prompt(messages)
        if given.messages != messages:
            raise InvalidPromptError(f"messages must be a list of messages, not {messages!r:.100}")
        beginning["messages"] = given.messages
    if state is not None:
        initial = state if isinstance(state, AgentState) else AgentState(state)
        if values := initial.get():
            beginning["state"] = values
    return beginning


def register(registry: HookRegistry, hook: Any) -> None:
    """Register a provider or an annotated callback. Raises `ValueError` for what is neither."""
    if hasattr(hook, "register_hooks"):
        registry.add_hook(hook)
    elif callable(hook) and not isinstance(hook, type):
        registry.add_callback(None, hook)
    else:
        raise ValueError(
            f"hooks has {hook!r:.200}, which is neither a callback nor a provider with register_hooks"
        )
