"""The node `tools`: one call of a tool, after as many tries as hooks want. Each call is a task of its own."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from graphkit.engine.program import Seen
from graphkit.frame import Frame
from graphkit.types import Send
from graphkit_prebuilt.content import Message, ToolResult, ToolUse, tool_result, tool_uses
from graphkit_prebuilt.conversation import copied, last
from graphkit_prebuilt.halting import HaltSignal, halt
from graphkit_prebuilt.hooks.catalogue import (
    AfterToolCallEvent,
    BeforeToolCallEvent,
    ToolResultEvent,
    ToolStreamUpdateEvent,
)
from graphkit_prebuilt.hooks.firing import fire, heard
from graphkit_prebuilt.log import answered
from graphkit_prebuilt.loop.directed import completed
from graphkit_prebuilt.loop.invocation import Invocation
from graphkit_prebuilt.loop.steps import Steps
from graphkit_prebuilt.middleware.contexts import ExecuteToolContext
from graphkit_prebuilt.middleware.onion import Onion, checked_result
from graphkit_prebuilt.middleware.registry import Layer
from graphkit_prebuilt.middleware.stages import ExecuteToolStage
from graphkit_prebuilt.tools.adapters import as_tool
from graphkit_prebuilt.tools.context import ToolContext
from graphkit_prebuilt.tools.tool import Progress, run_tool

CANCELLED = "Tool execution cancelled"
DENIED = "The call of the tool was cancelled by a hook"


def to_tools(calls: int) -> str | list[Send]:
    """Where a message with so many calls leads: to a task for each, which is told which one it is if there are more."""
    return "tools" if calls == 1 else [Send("tools", index) for index in range(calls)]


def tools(inv: Invocation, frame: Frame, seen: Seen | Mapping[str, Any]) -> Steps[dict[str, Any]]:
    view, index = (seen.view, seen.arg) if isinstance(seen, Seen) else (seen, 0)
    log: list[Message] = view["messages"]
    message = last(view)
    call = tool_uses(message)[index]
    asked: str = call["toolUseId"] if message is log[-1] else tool_uses(log[-1])[index]["toolUseId"]
    use, result = yield from settled(inv, frame, call)
    writes: dict[str, Any] = {"messages": answered(asked, result)}
    if use != call:
        writes["edits"] = {f"{len(log) - 1}.{block_of(message, index)}": {"toolUse": dict(use)}}
    return inv.settled(writes)


def settled(inv: Invocation, frame: Frame, call: ToolUse) -> Steps[tuple[ToolUse, ToolResult]]:
    """A call as hooks have left it, and its result."""
    result = completed(inv.values, call["toolUseId"])
    if result is not None:
        return call, result
    try:
        return (yield from Settling(inv, frame, call).settle())
    except BaseException:
        inv.asking.update((question.id, call) for question, _ in frame.questions)
        raise


def block_of(message: Message, index: int) -> int:
    """Which block of the message is its call number `index`."""
    return [at for at, block in enumerate(message["content"]) if "toolUse" in block][index]


def _unknown(use: ToolUse) -> tuple[ToolResult, Exception]:
    says = f"Unknown tool: {use['name']}"
    return tool_result(use["toolUseId"], "error", says), LookupError(says)


class Settling:
    """One call of a tool on its way to a result."""

    __slots__ = ("call", "error", "frame", "inv", "tries", "use")

    def __init__(self, inv: Invocation, frame: Frame, call: ToolUse) -> None:
        self.inv = inv
        self.frame = frame
        self.call = call
        self.use = call
        self.tries = 0
        self.error: Exception | None = None

    def settle(self) -> Steps[tuple[ToolUse, ToolResult]]:
        """The call as hooks have left it, and its result."""
        inv, frame = self.inv, self.frame
        kept = frame.kept
        self.tries = kept.get("tries", 0)
        done = kept.get("result")
        while True:
            tool: Any = None
            cancel: str | None = None
            seconds: float | None = None
            if done is not None:  # a hook has asked after the tool had returned
                self.use, result = ToolUse(copied(done["use"])), copied(done["result"])
                tool = inv.tool(self.use["name"])
            elif self._is_cancelled():
                return self.use, tool_result(self.call["toolUseId"], "error", inv.cancel.message or CANCELLED)
            else:
                tool, cancel = yield from self._before()
                frame.has_begun()
                result, seconds = yield from self._run(tool, cancel)
            retry, result = yield from self._after(tool, result, cancel, seconds)
            if not retry:
                return self.use, result
            self.tries, done = self.tries + 1, None
            frame.keep("tries", self.tries)
            frame.keep("result", None)

    def _is_cancelled(self) -> bool:
        """Whether the call is not made any more."""
        return self.inv.cancel.is_set()

    def _before(self) -> Steps[tuple[Any, str | None]]:
        """Let hooks look at the call. Returns the tool, and the text with which the call is cancelled."""
        inv = self.inv
        if not heard(inv, BeforeToolCallEvent):
            return inv.tool(self.use["name"]), None
        given = self._given()
        selected = inv.tool(given["name"])
        event = BeforeToolCallEvent(
            inv.agent, selected_tool=selected, tool_use=given, invocation_state=inv.invocation_state
        )
        yield from fire(inv, event)
        use = self.use = ToolUse(event.tool_use)
        tool = event.selected_tool
        if tool is not selected and tool is not None:
            tool = as_tool(tool)
        elif tool is selected and use["name"] != self.call["name"]:
            tool = inv.tool(use["name"])
        if not event.cancel_tool:
            return tool, None
        return tool, event.cancel_tool if isinstance(event.cancel_tool, str) else DENIED

    def _given(self) -> ToolUse:
        """The call as hooks may change it."""
        return ToolUse(copied(dict(self.call)))

    def _run(self, tool: Any, cancel: str | None) -> Steps[tuple[ToolResult, float | None]]:
        """Run the tool, if there is one to run; its result, and the seconds it took."""
        inv, use = self.inv, self.use
        self.error = None
        if cancel is not None:
            return tool_result(use["toolUseId"], "error", cancel), None
        layers = inv.agent.middleware.of(ExecuteToolStage)
        if tool is None and not layers:
            result, self.error = _unknown(use)
            return result, None
        begun = time.perf_counter()
        if layers:
            result = yield from self._wrapped(layers, tool)
        else:
            progress = self._progress if heard(inv, ToolStreamUpdateEvent) else None
            result = yield from self._serve(tool, use, inv.invocation_state, progress)
        seconds = time.perf_counter() - begun
        inv.metrics.add_tool(use, seconds, result["status"] == "success")
        if self.error is None and heard(inv, AfterToolCallEvent, ToolResultEvent):
            self._keep(result)
        return result, seconds

    def _keep(self, result: ToolResult) -> None:
        """Keep the call and its result for the next attempt, as they are now: callbacks that ask are called again, and
        find them so."""
        self.frame.keep("result", {"use": copied(dict(self.use)), "result": copied(result)})

    def _serve(
        self, tool: Any, use: ToolUse, invocation_state: dict[str, Any], progress: Progress | None
    ) -> Steps[ToolResult]:
        """Let the tool serve the call."""
        inv = self.inv
        context = ToolContext(use, inv.agent, invocation_state, inv.cancel)
        try:
            result, self.error = yield from run_tool(tool, use, context, progress)
        except HaltSignal as signal:
            halt(signal, inv.agent.tool_registry.owners.get(tool.tool_name))
        return result

    def _wrapped(self, layers: Sequence[Layer], tool: Any) -> Steps[ToolResult]:
        """Go through the middleware of one call. What a tool has returned is kept, in case that a layer asks then."""
        inv, frame, use = self.inv, self.frame, self.use

        def inside(context: ExecuteToolContext, number: int) -> Steps[ToolResultEvent]:
            key, given = f"ran:{self.tries}:{number}", ToolUse(context.tool_use)
            self.error = None
            result = frame.kept.get(key)
            if result is not None:
                result = copied(result)
            elif context.tool is None:
                result, self.error = _unknown(given)
            else:
                state = context.invocation_state
                shows = onion.watched or heard(inv, ToolStreamUpdateEvent)
                progress = self._hand_out if shows else None
                result = yield from self._serve(as_tool(context.tool), given, state, progress)
                if self.error is None:
                    frame.keep(key, copied(result))
            return ToolResultEvent(
                inv.agent, self.error, tool_use=use, result=result, invocation_state=inv.invocation_state
            )

        context = ExecuteToolContext(inv.agent, tool, ToolUse(use), inv.invocation_state, inv.cancel)
        onion = Onion(ExecuteToolStage, layers, frame, inside)
        event = yield from onion.steps(inv, context)
        self.error = event.exception
        return checked_result(event.result, use["toolUseId"], ExecuteToolStage)

    def _progress(self, value: Any) -> Steps[None]:
        yield from fire(self.inv, self._update(value))

    def _hand_out(self, value: Any) -> Steps[None]:
        """Progress of a tool inside of middleware, which is shown when it comes out."""
        yield self._update(value)  # type: ignore[misc]

    def _update(self, value: Any) -> ToolStreamUpdateEvent:
        inv = self.inv
        return ToolStreamUpdateEvent(
            inv.agent, tool_use=self.use, event=value, invocation_state=inv.invocation_state
        )

    def _after(
        self, tool: Any, result: ToolResult, cancel: str | None, seconds: float | None
    ) -> Steps[tuple[bool, ToolResult]]:
        """Let hooks look at the result. A success is shown before they do, an error after it and only if they do not
        want another try."""
        inv = self.inv
        failed = result["status"] != "success"
        if not failed:
            yield from self._show(result)
            if heard(inv, ToolResultEvent):
                self._keep(result)
        retry = False
        if heard(inv, AfterToolCallEvent):
            event = AfterToolCallEvent(
                inv.agent,
                selected_tool=tool,
                tool_use=self.use,
                result=result,
                invocation_state=inv.invocation_state,
                exception=self.error,
                cancel_message=cancel,
                duration=seconds,
            )
            yield from fire(inv, event, f"after_call:{self.tries}", number=self.tries)
            retry, result = event.retry, event.result
        if failed and not retry:
            yield from self._show(result)
        return retry, result

    def _show(self, result: ToolResult) -> Steps[None]:
        inv = self.inv
        if heard(inv, ToolResultEvent):
            event = ToolResultEvent(
                inv.agent,
                tool_use=self.use,
                result=result,
                invocation_state=inv.invocation_state,
            )
            yield from fire(inv, event, f"result:{self.tries}")
