"""`agent.tool.name(**input)`: calling a tool without the model."""

from __future__ import annotations

import contextvars
import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NoReturn

from graphkit.drivers.loops import has_loop
from graphkit.errors import ConcurrencyException
from graphkit.frame import Frame, OutsideRunError, current, depth_below
from graphkit_prebuilt.content import Message, ToolResult, ToolUse, assistant, user
from graphkit_prebuilt.conversation import copied
from graphkit_prebuilt.halting import HaltSignal
from graphkit_prebuilt.hooks.catalogue import MessageAddedEvent
from graphkit_prebuilt.hooks.firing import fire, heard
from graphkit_prebuilt.loop.invocation import Invocation, here, invocation_of
from graphkit_prebuilt.loop.steps import Steps, blocking
from graphkit_prebuilt.loop.tools import Settling
from graphkit_prebuilt.tools.context import ToolContext
from graphkit_prebuilt.tools.tool import AgentTool, Progress, run_tool

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

        Hooks hear of it, and may change it, as of a call of the model's; so does middleware. What a callback calls
        itself no callback hears of. The cancellation of the request that it is made in is told to the tool, and does
        not keep it from running. The call is added to the agent's own conversation (what was called, the call, its
        result, and that it was called, each told by a `MessageAddedEvent` before), unless `record_direct_tool_call`
        is False, here or in the agent; `user_message_override` is then put before what was called.

        Raises `RuntimeError` while questions of the conversation are open, and for a tool or a callback that asks or
        halts (or does something else that only a task of a run can do); and what a callback raises: nothing is added
        then. Raises `ConcurrencyException` if the call is to be added while a request runs on that conversation.
        Behaviour: Strands' direct tool calls.
        """
        record = (
            self._agent.record_direct_tool_call
            if record_direct_tool_call is None
            else record_direct_tool_call
        )
        name = self._tool.tool_name
        use = ToolUse(toolUseId=f"tooluse_{uuid.uuid4().hex}", name=name, input=input)
        self._admit(record)
        try:
            # With a context of its own, in which nothing may be asked.
            return contextvars.copy_context().run(self._made, use, record, user_message_override)
        except OutsideRunError as error:
            raise RuntimeError(f"tool {name!r} cannot be called directly: {error}") from error
        except HaltSignal as signal:
            raise RuntimeError(
                f"tool {name!r} cannot be called directly: it halts the agent ({signal.stop_reason!r})"
            ) from signal

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

    def _made(self, use: ToolUse, record: bool, override: str | None) -> ToolResult:
        depth = depth_below()
        inv, frame, heard_of = self._beside(use)
        if not heard_of:
            return blocking(_served(self._tool, use, inv, inv.invocation_state), depth)[0]
        use, result = blocking(_Settling(inv, frame, use).settle(), depth)
        if record:
            messages = self._told(use, result, override)
            if heard(inv, MessageAddedEvent):
                for message in messages:
                    event = MessageAddedEvent(
                        inv.agent, message=message, invocation_state=inv.invocation_state
                    )
                    blocking(fire(inv, event), depth)
            self._agent.thread().add(messages)
        return result

    def _beside(self, use: ToolUse) -> tuple[Invocation, Any, bool]:
        """What the call is made with, beside the request that runs here, if one does, and the task; and whether hooks
        and middleware are to hear of it: not if one of them makes it."""
        agent = self._agent
        request, task = invocation_of(agent), current.get()
        undeclared = self._undeclared(use)
        inv = Invocation(agent=agent, invocation_state=undeclared)
        beside = None if task is None else _Unasking(task)
        if beside is not None:
            current.set(beside)
        if request is not None and beside is not None:
            shared = request.invocation_state
            inv.invocation_state = {**shared, **undeclared} if undeclared else shared
            inv.cancel = request.cancel
            # On a loop nobody can wait: the callback that holds the lock may be waiting for that loop.
            inv.lock = nullcontext() if has_loop() else request.lock
            return inv, beside, here.get() is not request or _in_a_tool(beside.part)
        apart = inv.lock = _Apart(agent, _apart.get())
        _apart.set(apart)
        return inv, apart, _in_a_tool(apart.part)

    def _undeclared(self, use: ToolUse) -> dict[str, Any]:
        """What the schema of the tool has no place for; hooks may have made it a call of another one."""
        tool = self._agent.tool_registry.get(use["name"]) or self._tool
        schema = tool.tool_spec["inputSchema"].get("json") or {}
        properties = schema.get("properties")
        if properties is None or schema.get("additionalProperties"):
            return {}
        return {key: value for key, value in use["input"].items() if key not in properties}

    def _told(self, use: ToolUse, result: ToolResult, override: str | None) -> list[Message]:
        """What is added to the conversation."""
        undeclared = self._undeclared(use)
        said = {key: value for key, value in use["input"].items() if key not in undeclared}
        shown = json.loads(json.dumps(said, default=_named))
        told = f"I have called the tool {use['name']} myself, with the input {json.dumps(shown)}."
        return [
            user(told if override is None else f"{override}\n{told}"),
            assistant({"toolUse": {**use, "input": shown}}),
            user({"toolResult": copied(result)}),
            assistant(f"The tool {use['name']} was called."),
        ]


class _Settling(Settling):
    """A direct call on its way to a result."""

    __slots__ = ()

    def _is_cancelled(self) -> bool:
        return False  # the program makes it, whatever becomes of the request

    def _given(self) -> ToolUse:
        call = self.call  # the values of its input may be the program's own
        return ToolUse({**call, "input": dict(call["input"])})

    def _serve(
        self, tool: Any, use: ToolUse, invocation_state: dict[str, Any], progress: Progress | None
    ) -> Steps[ToolResult]:
        result, self.error = yield from _served(tool, use, self.inv, invocation_state, progress)
        return result


def _served(
    tool: AgentTool,
    use: ToolUse,
    inv: Invocation,
    invocation_state: dict[str, Any],
    progress: Progress | None = None,
) -> Steps[tuple[ToolResult, Exception | None]]:
    """`run_tool`, but that what only a task of a run can do is no error of the tool's."""
    context = ToolContext(use, inv.agent, invocation_state, inv.cancel)
    result, error = yield from run_tool(tool, use, context, progress)
    if isinstance(error, OutsideRunError):
        raise error
    return result, error


def _in_a_tool(part: str) -> bool:
    """Whether the part of a task in which a call is made is that of a tool, and no callback's or middleware's."""
    return not part or part.startswith("inside:")


def _named(value: Any) -> str:
    """What stands in the conversation for something that only this program has."""
    return f"<{type(value).__name__}>"


class _Apart:
    """What a direct call has in the place of a task where no request runs: it keeps nothing. Callbacks run while it is
    held, so `part` tells when one of them, or a middleware, has the word; it begins as that of the call of the same
    agent around it, if there is one."""

    def __init__(self, agent: Agent, around: _Apart | None) -> None:
        self.agent = agent
        self.around = around
        while around is not None and around.agent is not agent:
            around = around.around
        self.part: str = "" if around is None else around.part
        self.kept: Mapping[str, Any] = {}

    def keep(self, key: str, value: Any) -> None:
        """There is no next attempt."""

    def has_begun(self) -> None:
        """No other call waits for it."""

    @contextmanager
    def within(self, part: str) -> Iterator[None]:
        before, self.part = self.part, part
        try:
            yield
        finally:
            self.part = before

    def __enter__(self) -> None:
        self._callbacks = self.within("callbacks")
        self._callbacks.__enter__()

    def __exit__(self, *raised: Any) -> None:
        self._callbacks.__exit__(*raised)


_apart: ContextVar[_Apart | None] = ContextVar("graphkit_direct_call", default=None)
"""The direct call around this one."""


class _Unasking(Frame):
    """The task in which a tool is called directly, but that in it nothing can be asked, and nothing is kept for the
    next attempt, which makes the call anew. Its parts are its own: calls may be made side by side."""

    def __init__(self, task: Frame) -> None:
        self._task = task
        self.part = task.part
        self.named = frozenset()

    def __getattribute__(self, name: str) -> Any:
        if name in _OWN:
            return object.__getattribute__(self, name)
        if name in ("ask", "pass_on", "waits_inside"):
            return _refuse
        if name == "kept":
            return {}
        if name in ("keep", "has_begun"):
            return _forget
        return getattr(object.__getattribute__(self, "_task"), name)


_OWN: Final = frozenset({"part", "within", "next_index", "named"})


def _forget(*args: Any) -> None:
    """Keep nothing, and tell nobody."""


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise OutsideRunError("it asks a question, and nobody would give its answer to this call")
