"""What middleware is told of the call, or the calls, that it wraps."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any, ClassVar, Self

from graphkit_prebuilt.content import Message, SystemPrompt, ToolChoice, ToolSpec, ToolUse
from graphkit_prebuilt.conversation import copied
from graphkit_prebuilt.hooks.event import AsksMixin

if TYPE_CHECKING:
    from graphkit_prebuilt.models.model import Model
    from graphkit_prebuilt.tools.tool import AgentTool


@dataclass
class MiddlewareInterruptResult:
    """The answer to a question of middleware."""

    response: Any


class StageContext(AsksMixin):
    """What the contexts of all stages have.

    `invocation_state` is the request's own dict, the same object for hooks, tools and middleware.
    """

    agent: Any
    invocation_state: dict[str, Any]
    replaceable: ClassVar[frozenset[str]]

    def replace(self, **changes: Any) -> Self:
        """A copy in which some attributes are others. Raises `TypeError` for one that cannot be."""
        self.__dict__.setdefault(
            "_asked", set()
        )  # which both have: a name is unique in the layers of one call
        changed = copy.copy(self)
        for name, value in changes.items():
            if name not in self.replaceable:
                can = ", ".join(sorted(self.replaceable))
                raise TypeError(f"{type(self).__name__}.{name} cannot be replaced; these can: {can}")
            setattr(changed, name, value)
        return changed

    def interrupt(
        self, name: str, reason: Any = None, response: Any = None, *, response_schema: Any = None
    ) -> MiddlewareInterruptResult:
        """Pause the agent with a question, as `event.interrupt` does; the answer is the `response` of what is returned.

        With the answer the layers run again from their top. What has run inside of them and has succeeded does not:
        they get its result again. `name` is unique in the layers of one call.
        """
        answer = super().interrupt(name, reason, response, response_schema=response_schema)
        return MiddlewareInterruptResult(answer)


class InvokeModelContext(StageContext):
    """One call of the model. All of it but `agent` may be replaced.

    `messages`, `tool_specs` and `system_prompt` are copies: what is changed in them counts for this call alone.
    `projected_input_tokens` is about how many tokens the model will read.
    """

    replaceable = frozenset(
        {
            "messages",
            "system_prompt",
            "tool_specs",
            "tool_choice",
            "invocation_state",
            "model",
            "projected_input_tokens",
        }
    )
    messages: list[Message]
    system_prompt: SystemPrompt
    tool_specs: list[ToolSpec]

    def __init__(
        self,
        agent: Any,
        messages: list[Message],
        system_prompt: SystemPrompt,
        tool_specs: list[ToolSpec],
        tool_choice: ToolChoice | None,
        invocation_state: dict[str, Any],
        model: Model,
        projected_input_tokens: int | None = None,
    ) -> None:
        self.agent = agent
        self.tool_choice = tool_choice
        self.invocation_state = invocation_state
        self.model = model
        self.projected_input_tokens = projected_input_tokens
        # Those are copied that somebody looks at.
        self._given: dict[str, Any] = {
            "messages": messages,
            "system_prompt": system_prompt,
            "tool_specs": tool_specs,
        }

    def __getattr__(self, name: str) -> Any:
        given = self.__dict__.get("_given", {})
        if name not in given:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        value = self.__dict__[name] = copied(given[name])
        return value

    def given(self, name: str) -> Any:
        """An attribute as it is to be used, without a copy of what nobody has looked at."""
        found = self.__dict__
        return found[name] if name in found else self._given[name]


@dataclass(eq=False)
class ExecuteToolContext(StageContext):
    """One call of a tool. `tool` is None if there is none of this name; `tool` and `tool_use` may be replaced.

    `tool_use` is a copy of its own; what is changed in it is what the tool gets, and not what is said in the
    conversation. `cancel_signal` is set when the request is cancelled.
    """

    replaceable = frozenset({"tool", "tool_use", "invocation_state"})

    agent: Any
    tool: AgentTool | None
    tool_use: ToolUse
    invocation_state: dict[str, Any]
    cancel_signal: Event

    @property
    def _subject(self) -> str:
        return str(self.tool_use.get("toolUseId", ""))


@dataclass(eq=False)
class ExecuteToolsContext(StageContext):
    """All calls of one message. `tool_uses` may be replaced: by fewer, in another order, with another input.

    `next` runs those that its context has, at the same time unless the agent's `tool_executor` says otherwise, each
    as a task of its own; it may be called more than once. `message` is the assistant's, and a copy.
    """

    replaceable = frozenset({"tool_uses"})

    agent: Any
    message: Message
    tool_uses: Sequence[ToolUse]
    invocation_state: dict[str, Any]
    cancel_signal: Event
