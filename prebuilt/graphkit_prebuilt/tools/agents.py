"""An agent as a tool of another one."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from graphkit.errors import ConcurrencyException
from graphkit.frame import OutsideRunError, current
from graphkit_prebuilt.content import ToolSpec
from graphkit_prebuilt.hooks.event import BaseHookEvent
from graphkit_prebuilt.loop.invocation import here
from graphkit_prebuilt.loop.steps import Either, Steps
from graphkit_prebuilt.multiagent.nested import NestedRequest, sessionless
from graphkit_prebuilt.request import AgentRequest
from graphkit_prebuilt.result import AgentResult
from graphkit_prebuilt.tools.context import ToolContext
from graphkit_prebuilt.tools.tool import Progress, StepTool, check_name, unseen

if TYPE_CHECKING:
    from graphkit_prebuilt.agent import Agent


class AgentAsTool(StepTool):
    """An agent that the model of another one gives a task, and that answers with the text it comes to.

    Each call is a conversation of its own, that begins with what the agent begins with, so that calls may run side by
    side; with `preserve_context` the calls of one conversation of the caller go on with one of this agent, one at a
    time. All that it asks, the caller asks, and it goes on where it was when the answers are there; its conversation is
    kept with the caller's. It shares the caller's `invocation_state`, and ends when the caller is cancelled.
    What happens in it is progress of the tool: the `event` of `ToolStreamUpdateEvent`s.

    Raises `ValueError` for an agent with a session, `InvalidToolUseNameException` for a name no model can call.

    Behaviour: Strands' `Agent.as_tool`.
    """

    def __init__(self, agent: Agent, name: str, description: str | None, preserve_context: bool) -> None:
        self.agent = sessionless(agent)
        self.preserve_context = preserve_context
        self._spec: ToolSpec = {
            "name": check_name(name),
            "description": description or agent.description or f"Gives a task to the agent {name!r}",
            "inputSchema": {
                "json": {
                    "type": "object",
                    "properties": {
                        "input": {"type": "string", "description": "What the agent is to do, in plain words."}
                    },
                    "required": ["input"],
                }
            },
        }

    @property
    def tool_type(self) -> str:
        return "agent"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AgentAsTool) and (self.agent, self._spec, self.preserve_context) == (
            other.agent,
            other._spec,
            other.preserve_context,
        )

    def __hash__(self) -> int:
        return hash((id(self.agent), self.tool_name))

    def take(self, context: ToolContext, progress: Progress) -> Steps[Any]:
        prompt = self._prompt_in(context.tool_use["input"])
        if current.get() is None:
            result = yield from self._apart(prompt, context)
        else:
            result = yield from self._inside(prompt, context, progress)
        if result.stop_reason == "cancelled" and context.cancel_signal.is_set():
            raise RuntimeError(f"the agent {self.tool_name!r} was cancelled")
        if result.structured_output is not None:
            shown = result.structured_output.model_dump(mode="json")
            return {"status": "success", "content": [{"json": shown}]}
        return str(result)

    def _inside(self, prompt: str, context: ToolContext, progress: Progress) -> Steps[AgentResult]:
        """A call that is part of the running task. Raises `ConcurrencyException`, for the model, if another call has
        the conversation, be it that it waits for an answer."""
        caller = here.get()
        if caller is not None and self.preserve_context:
            call = context.tool_use["toolUseId"]
            if caller.scratch.setdefault(self, call) != call:
                raise ConcurrencyException(
                    f"the agent {self.tool_name!r} serves another call; call it again when that has its result"
                )
        request = NestedRequest(
            self.agent,
            prompt,
            _shared(context),
            keeps=self.preserve_context,
            tell=None if progress is unseen else _told(progress),
            name=self.tool_name,
        )
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

    def _apart(self, prompt: str, context: ToolContext) -> Steps[AgentResult]:
        """A call in no task of a run: nobody would give the answer to a question."""
        thread = self.agent.thread(None if self.preserve_context else uuid.uuid4().hex)
        request = AgentRequest(self.agent, prompt, {**_shared(context), "thread_id": thread.id})
        try:
            result: AgentResult = yield Either(request.run, request.arun)
        finally:
            if not self.preserve_context:
                thread.delete()
        if result.interrupts:
            raise OutsideRunError("it asks a question, and nobody would give its answer to this call")
        return result


def _shared(context: ToolContext) -> dict[str, Any]:
    return {"invocation_state": context.invocation_state, "cancel_signal": context.cancel_signal}


def _told(progress: Progress) -> Any:
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
