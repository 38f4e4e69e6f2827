"""A tool: a name, a description for the model, and something to run."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import Any, Final

from graphkit.errors import InvalidToolUseNameException
from graphkit_prebuilt.content import ToolResult, ToolSpec
from graphkit_prebuilt.halting import HaltSignal
from graphkit_prebuilt.loop.steps import OVER, Steps, Stream, awaited
from graphkit_prebuilt.tools.context import ToolContext
from graphkit_prebuilt.tools.values import error_result, result_of

Progress = Callable[[Any], Steps[None]]
ToolGenerator = AsyncGenerator[Any, None]
"""What `stream` of a tool is, written as an async generator: progress, and the result as its last value."""

NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def check_name(name: Any) -> str:
    """`name`. Raises `InvalidToolUseNameException` unless a model can call a tool by it."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InvalidToolUseNameException(
            f"{name!r} is no name for a tool: 1 to 64 letters, digits, '_' and '-' (ASCII)"
        )
    return name


class AgentTool(ABC):
    """Something that a model can call. Subclass it where a function with `@tool` is not enough."""

    @property
    @abstractmethod
    def tool_name(self) -> str:
        """The name that the model calls."""

    @property
    @abstractmethod
    def tool_spec(self) -> ToolSpec:
        """What the model is told."""

    @property
    @abstractmethod
    def tool_type(self) -> str:
        """What kind of tool it is: a word for people."""

    @abstractmethod
    def stream(self, tool_use: Any, invocation_state: dict[str, Any], **kwargs: Any) -> AsyncIterator[Any]:
        """Serve a call. The last value is the result (`result_of` says which values), those before it are progress."""

    def take(self, context: ToolContext, progress: Progress) -> Steps[Any]:
        """The steps of one call, to the value that it returns; what it raises leaves the steps."""
        return (yield from last_of(self.stream(context.tool_use, context.invocation_state), progress))


def last_of(items: Any, progress: Progress) -> Steps[Any]:
    """The last item of a stream; each one before it goes to `progress`."""
    stream = Stream(items)
    last = item = yield stream
    while item is not OVER:
        last = item
        item = yield stream
        if item is not OVER:
            yield from progress(last)
    return None if last is OVER else last


def run_tool(
    tool: AgentTool,
    use: Mapping[str, Any],
    context: ToolContext | None = None,
    progress: Progress | None = None,
) -> Steps[tuple[ToolResult, Exception | None]]:
    """Serve one call of a tool: its result, and the exception that the result tells of, if there is one.

    Whatever the tool raises becomes an error result for the model, and so does input that does not fit. A question
    (`GraphInterrupt`), a halt (`HaltSignal`, also one that the tool returns) and other exceptions that are no
    `Exception` pass. `progress` is given what the tool yields before its end; the tool goes on after the steps that it
    returns.
    """
    try:
        value = yield from tool.take(context or ToolContext(use), progress or unseen)
        if isinstance(value, HaltSignal):
            raise value
        return result_of(value, use["toolUseId"]), None
    except Exception as error:
        return error_result(use["toolUseId"], error), error


def unseen(value: Any) -> Steps[None]:
    """Progress that nobody wants to see."""
    yield from ()


class StepTool(AgentTool):
    """A tool that is served by steps, so that it needs no event loop where it does not wait for one. `_spec` is what
    the model is told."""

    _spec: ToolSpec

    @property
    def tool_name(self) -> str:
        return self._spec["name"]

    @property
    def tool_spec(self) -> ToolSpec:
        return self._spec

    @property
    def tool_type(self) -> str:
        return "function"

    @abstractmethod
    def take(self, context: ToolContext, progress: Progress) -> Steps[Any]:
        """The steps of one call."""

    async def stream(
        self, tool_use: Any, invocation_state: dict[str, Any], **kwargs: Any
    ) -> AsyncIterator[Any]:
        """Serve a call: all progress, then the result."""
        seen: list[Any] = []

        def keep(value: Any) -> Steps[None]:
            seen.append(value)
            yield from ()

        context = ToolContext(tool_use, kwargs.get("agent"), invocation_state)
        result, _ = await awaited(run_tool(self, tool_use, context, keep))
        for value in seen:
            yield value
        yield result
