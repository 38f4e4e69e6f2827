"""`agent.tool.name(**input)`: calling a tool without the model."""

from __future__ import annotations

import contextvars
import json
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from graphkit.errors import ConcurrencyException
from graphkit.frame import Frame, OutsideRunError, current
from graphkit_prebuilt.content import ToolResult, ToolUse, assistant, user
from graphkit_prebuilt.halting import HaltSignal
from graphkit_prebuilt.loop.invocation import invocation_of
from graphkit_prebuilt.loop.steps import blocking, depth_below
from graphkit_prebuilt.tools.context import ToolContext
from graphkit_prebuilt.tools.tool import AgentTool, run_tool

if TYPE_CHECKING:
    from graphkit_prebuilt.agent import Agent


class ToolCaller:
    """The tools of an agent as methods. Names with `-` are called with `_`; `AttributeError` for an unknown one."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def __getattr__(self, name: str) -> DirectCall:
        registry = self._agent.tool_registry
        tool = registry.get(name) or registry.get(name.replace("_", "-"))
        if tool is None:
            raise AttributeError(
                f"agent {self._agent.name!r} has no tool {name!r}; it has {self._agent.tool_names}"
            )
        return DirectCall(self._agent, tool)

    def __dir__(self) -> list[str]:
        return [name.replace("-", "_") for name in self._agent.tool_names]


class DirectCall:
    """A tool of an agent, called by the program instead of the model."""

    def __init__(self, agent: Agent, tool: AgentTool) -> None:
        self._agent = agent
        self._tool = tool

    def __call__(
        self,
        *,
        record_direct_tool_call: bool | None = None,
        user_message_override: str | None = None,
        **input: Any,
    ) -> ToolResult:
        """Run the tool with this input and return its result; what it raises becomes an error result. What the tool
        does not declare as its input is also in its `invocation_state`, and not added to the conversation.

        No hook is called. The call is added to the agent's own conversation (what was called, the call, its result,
        and that it was called), unless `record_direct_tool_call` is False, here or in the agent;
        `user_message_override` is then put before what was called.

        Raises `RuntimeError` while questions of the conversation are open, and for a tool that asks one (or does
        something else that only a task of a run can do): nothing is added then. Raises `ConcurrencyException` if the
        call is to be added while a request runs on that conversation. Behaviour: Strands' direct tool calls.
        """
        record = (
            self._agent.record_direct_tool_call
            if record_direct_tool_call is None
            else record_direct_tool_call
        )
        name = self._tool.tool_name
        use = ToolUse(toolUseId=f"tooluse_{uuid.uuid4().hex}", name=name, input=input)
        self._admit(record)
        # With a context of its own, in which the tool may ask nothing.
        beside = self._undeclared(input)
        result, error = contextvars.copy_context().run(self._run, use, beside)
        if isinstance(error, OutsideRunError):
            raise RuntimeError(f"tool {name!r} cannot be called directly: {error}") from error
        if record:
            said = {key: value for key, value in input.items() if key not in beside}
            self._record(ToolUse({**use, "input": said}), result, user_message_override)
        return result

    def _undeclared(self, input: Mapping[str, Any]) -> dict[str, Any]:
        """What the tool's schema has no place for."""
        schema = self._tool.tool_spec["inputSchema"].get("json") or {}
        properties = schema.get("properties")
        if properties is None or schema.get("additionalProperties"):
            return {}
        return {key: value for key, value in input.items() if key not in properties}

    def _admit(self, record: bool) -> None:
        thread = self._agent.thread()
        running = invocation_of(self._agent) is not None
        called = f"tool {self._tool.tool_name!r} was called directly"
        if record and (running or thread.is_running):
            raise ConcurrencyException(
                f"{called} while a request of the agent runs, to whose conversation the call cannot be added: call it "
                f"with record_direct_tool_call=False"
            )
        if not running and thread.snapshot.interrupts:
            raise RuntimeError(
                f"{called} while the agent waits for answers to its questions, or is halted; go on with that first"
            )

    def _run(self, use: ToolUse, beside: dict[str, Any]) -> tuple[ToolResult, Exception | None]:
        request = invocation_of(self._agent)
        frame, depth = current.get(), depth_below()
        if frame is not None:
            current.set(_Unasking(frame))
        context = ToolContext(use, self._agent, beside)
        if request is not None:
            shared = request.invocation_state
            context.invocation_state = {**shared, **beside} if beside else shared
            context.cancel_signal = request.cancel
        try:
            return blocking(run_tool(self._tool, use, context), depth)
        except HaltSignal as signal:
            raise RuntimeError(
                f"tool {use.name!r} cannot be called directly: it halts the agent ({signal.stop_reason!r})"
            ) from signal

    def _record(self, use: ToolUse, result: ToolResult, override: str | None) -> None:
        shown = json.loads(json.dumps(use.input, default=_named))
        told = f"I have called the tool {use.name} myself, with the input {json.dumps(shown)}."
        call = {**use, "input": shown}
        thread = self._agent.thread()
        thread.add(
            [
                user(told if override is None else f"{override}\n{told}"),
                assistant({"toolUse": call}),
                user({"toolResult": result}),
                assistant(f"The tool {use.name} was called."),
            ]
        )


def _named(value: Any) -> str:
    """What stands in the conversation for something that only this program has."""
    return f"<{type(value).__name__}>"


class _Unasking(Frame):
    """The task in which a tool is called directly, but that the tool can ask nothing in it."""

    __slots__ = ("_task",)

    def __init__(self, task: Frame) -> None:
        self._task = task

    def __getattribute__(self, name: str) -> Any:
        if name in ("ask", "pass_on", "waits_inside"):
            return _refuse
        return getattr(object.__getattribute__(self, "_task"), name)


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise OutsideRunError("it asks a question, and nobody would give its answer to this call")
