"""`LocalAgent`: what hooks, tools and plugins may rely on of the agent that they belong to."""

from __future__ import annotations

from threading import Event
from typing import Any, Protocol

from graphkit_prebuilt.content import Message, SystemContentBlock, SystemPrompt
from graphkit_prebuilt.hooks.order import HookOrder
from graphkit_prebuilt.hooks.registry import HookRegistry
from graphkit_prebuilt.models.model import Model
from graphkit_prebuilt.state import AgentState
from graphkit_prebuilt.tools.box import ToolRegistry


class LocalAgent(Protocol):
    """An agent of this process, as `event.agent` and `tool_context.agent` are one. Names: Strands'.

    `messages` and `state` are those of the request that runs where they are looked at.
    """

    model: Model
    messages: list[Message]
    state: AgentState
    hooks: HookRegistry
    tool_registry: ToolRegistry

    @property
    def agent_id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def system_prompt(self) -> str | None: ...
    @system_prompt.setter
    def system_prompt(self, prompt: SystemPrompt) -> None: ...
    @property
    def system_prompt_content(self) -> list[SystemContentBlock] | None: ...
    @property
    def tool_names(self) -> list[str]: ...
    @property
    def tool(self) -> Any: ...
    def add_hook(
        self, callback: Any, event_type: Any = None, *, order: float = HookOrder.DEFAULT
    ) -> None: ...
    def add_middleware(self, stage_or_phase: Any, handler: Any) -> None: ...
    @property
    def cancel_signal(self) -> Event: ...
    def cancel(self, message: str | None = None, *, after_current_tools: bool = False) -> None: ...
    def get_plugin_state(self, name: str, *, per_invocation: bool = False) -> Any: ...
    def set_plugin_state(self, name: str, state: Any, *, per_invocation: bool = False) -> None: ...
