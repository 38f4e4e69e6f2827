"""What somebody puts around the calls of a `ToolNode`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from graphkit.frame import depth_below
from graphkit_prebuilt.loop.steps import Call, Either, Steps, awaited, blocking
from graphkit_prebuilt.react.reading import ToolCall
from graphkit_prebuilt.tools.tool import AgentTool

Wrapper = Callable[["ToolCallRequest", Callable[["ToolCallRequest"], Any]], Any]
"""`(request, execute) -> result`; of an `async def` `execute` returns an awaitable."""


@dataclass(frozen=True, slots=True)
class ToolCallRequest:
    """A call of a tool that is about to be made: `tool_call` is `{"name", "args", "id", "type": "tool_call"}`, `tool`
    is None if there is none of this name, `state` what the node was given, `runtime` the `ToolRuntime`.

    `override(tool_call=..., state=...)` is another request. Names: LangGraph's.
    """

    tool_call: ToolCall
    tool: AgentTool | None
    state: Any
    runtime: Any

    def override(self, **overrides: Any) -> ToolCallRequest:
        """The same request but for these. Raises `TypeError` for what it has not."""
        return replace(self, **overrides)


class Wrapping:
    """The wrappers of a node, one for each colour or one for both."""

    def __init__(self, wrap: Wrapper | None, awrap: Wrapper | None) -> None:
        for option, wrapper in (("wrap_tool_call", wrap), ("awrap_tool_call", awrap)):
            if wrapper is not None and not callable(wrapper):
                raise TypeError(
                    f"{option}= is a function of a request and what executes it, not {wrapper!r:.200}"
                )
        self._wrap = wrap or awrap
        self._awrap = awrap or wrap

    def __bool__(self) -> bool:
        return self._wrap is not None

    def steps(self, request: ToolCallRequest, serve: Callable[[ToolCallRequest], Steps[Any]]) -> Steps[Any]:
        """The steps to what the wrapper makes of the call; `serve` are those of the call itself."""

        def execute(request: ToolCallRequest) -> Any:
            return blocking(serve(request), depth_below())

        async def aexecute(request: ToolCallRequest) -> Any:
            return await awaited(serve(request))

        def call(wrapper: Any) -> Call:
            awaits = inspect.iscoroutinefunction(wrapper)
            return Call(wrapper, (request, aexecute if awaits else execute), blocks=not awaits)

        if self._wrap is self._awrap:
            return (yield call(self._wrap))
        blocks, waits = call(self._wrap), call(self._awrap)
        return (yield Either(lambda: blocks.block(depth_below()), lambda: waits.wait(depth_below())))
