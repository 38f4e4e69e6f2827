"""A tool that gives a task to something with models of its own: what agents and orchestrators as tools share."""

from __future__ import annotations

import uuid
from abc import abstractmethod
from typing import Any, Final, Protocol

from graphkit.errors import ConcurrencyException
from graphkit.frame import OutsideRunError, current
from graphkit_prebuilt.content import ToolSpec
from graphkit_prebuilt.hooks.event import BaseHookEvent
from graphkit_prebuilt.hooks.registry import HookRegistry
from graphkit_prebuilt.loop.invocation import here
from graphkit_prebuilt.loop.steps import Either, Steps
from graphkit_prebuilt.multiagent.nested import Tell
from graphkit_prebuilt.running import GraphRequest
from graphkit_prebuilt.tools import delegation
from graphkit_prebuilt.tools.context import ToolContext
from graphkit_prebuilt.tools.tool import Progress, StepTool, check_name, unseen

_INPUT: Final = {"type": "string", "description": "What it is to do, in plain words."}


class Nested(Protocol):
    """A request inside of the running task."""

    def steps(self) -> Steps[Any]: ...


class RequestTool(StepTool):
    """`target`, whom a model gives a task, and who answers with what that comes to.

    Each call is a conversation of its own, so that calls may run side by side; with `preserve_context` the calls of
    one conversation of the caller go on with one of the target, one at a time. All that is asked in it, the caller
    asks, and it goes on where it was when the answers are there; it is kept with the caller's conversation. It shares
    the caller's `invocation_state`, and ends when the caller is cancelled. What happens in it is progress of the tool:
    the `event` of `ToolStreamUpdateEvent`s. With `delegate` its answer is the caller's: see `delegation`.

    Raises `InvalidToolUseNameException` for a name no model can call.
    """

    def __init__(
        self, target: Any, name: str, description: str, preserve_context: bool, delegate: bool
    ) -> None:
        self.target = target
        self.preserve_context = preserve_context
        self.delegate = delegate
        self._spec: ToolSpec = {
            "name": check_name(name),
            "description": f"{description}{delegation.TOLD}" if delegate else description,
            "inputSchema": {
                "json": {"type": "object", "properties": {"input": dict(_INPUT)}, "required": ["input"]}
            },
        }

    @property
    def tool_type(self) -> str:
        return "agent"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RequestTool) and (self.target, self._spec, self.preserve_context) == (
            other.target,
            other._spec,
            other.preserve_context,
        )

    def __hash__(self) -> int:
        return hash((id(self.target), self.tool_name))

    def register_hooks(self, registry: HookRegistry) -> None:
        """The agent that this is a tool of hears what it needs to give the answer as its own."""
        if self.delegate:
            delegation.register(self, registry)

    # What a kind says

    @abstractmethod
    def _nested(self, prompt: str, context: ToolContext, tell: Tell | None) -> Nested:
        """A request that is part of the running task."""

    @abstractmethod
    def _request(self, prompt: str, context: ToolContext, thread_id: str | None) -> GraphRequest[Any]:
        """A request on a thread of the target's own."""

    @abstractmethod
    def _forget(self, thread_id: str) -> None:
        """Delete a thread of the target's own."""

    @abstractmethod
    def _answer(self, result: Any, context: ToolContext) -> Any:
        """The result of the tool, or its text. Raises what the model is to be told."""

    # One call

    def take(self, context: ToolContext, progress: Progress) -> Steps[Any]:
        prompt = self._prompt_in(context.tool_use["input"])
        if current.get() is None:
            result = yield from self._apart(prompt, context)
        else:
            result = yield from self._inside(prompt, context, progress)
        return self._answer(result, context)

    def _inside(self, prompt: str, context: ToolContext, progress: Progress) -> Steps[Any]:
        """A call that is part of the running task. Raises `ConcurrencyException`, for the model, if another call has
        the conversation, be it that it waits for an answer."""
        caller = here.get()
        if caller is not None and self.preserve_context:
            call = context.tool_use["toolUseId"]
            if caller.scratch.setdefault(self, call) != call:
                raise ConcurrencyException(
                    f"the agent {self.tool_name!r} serves another call; call it again when that has its result"
                )
        request = self._nested(prompt, context, None if progress is unseen else _told(progress))
        try:
            result = yield from request.steps()
        except Exception:
            if caller is not None:
                caller.scratch.pop(self, None)
            raise
        if caller is not None:
            caller.scratch.pop(self, None)
        return result

    def _prompt_in(self, given: Any) -> str:
        """What the model gives it to do. Raises `ValueError`, for the model."""
        prompt = given.get("input") if isinstance(given, dict) else given
        if not isinstance(prompt, str):
            raise ValueError(f"the agent {self.tool_name!r} takes a text as its 'input', not {prompt!r:.200}")
        return prompt

    def _apart(self, prompt: str, context: ToolContext) -> Steps[Any]:
        """A call in no task of a run: nobody would give the answer to a question."""
        thread_id = None if self.preserve_context else uuid.uuid4().hex
        request = self._request(prompt, context, thread_id)
        try:
            result = yield Either(request.run, request.arun)
        finally:
            if thread_id is not None:
                self._forget(thread_id)
        if result.interrupts:
            raise OutsideRunError("it asks a question, and nobody would give its answer to this call")
        if result.halts:
            raise OutsideRunError(f"it halts ({result.stop_reason!r}), and nobody would resume this call")
        return result


def _told(progress: Progress) -> Tell:
    """What happens inside becomes progress of the task that calls."""
    caller = current.get()

    def tell(event: BaseHookEvent) -> Steps[None]:
        inside = current.get()
        current.set(caller)
        try:
            yield from progress(event)
        finally:
            current.set(inside)

    return tell
