"""`ToolNode`: runs the calls of tools in the last answer of a model, each as a task of its own."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Final, Literal

from graphkit.calling import TaskFuture, call
from graphkit.constants import END, RETURN
from graphkit.engine.program import Callee, NodeSpec, Shape
from graphkit.errors import InvalidUpdateError, ToolInvocationError
from graphkit.frame import Frame, current
from graphkit.runtime import config_of
from graphkit.types import Command
from graphkit_prebuilt.content import ToolUse, tool_result
from graphkit_prebuilt.loop.steps import Steps, awaited, blocking
from graphkit_prebuilt.react.arguments import CallContext
from graphkit_prebuilt.react.converse import converse_of
from graphkit_prebuilt.react.functions import graph_tools
from graphkit_prebuilt.react.handling import Handles, about_arguments, handled_by, told
from graphkit_prebuilt.react.reading import (
    Style,
    ToolCall,
    answered_by,
    calls_of,
    item,
    last_answer,
    style_of,
)
from graphkit_prebuilt.react.tracing import is_traced, traced
from graphkit_prebuilt.react.wrapping import ToolCallRequest, Wrapper, Wrapping
from graphkit_prebuilt.react.writing import is_content, result, result_with
from graphkit_prebuilt.tools.schema import not_an_object
from graphkit_prebuilt.tools.tool import AgentTool
from graphkit_prebuilt.tools.values import result_of, text_of

WITH_CONTEXT: Final = "tool_call_with_context"
STEPS: Final = "remaining_steps"


class ToolNode:
    """A node that runs the calls of tools in the last message of the assistant that have no result yet.

    `tools` are functions, tools of LangChain and Strands, and those of `@tool`; a parameter that is marked
    `InjectedState`, `InjectedStore`, `ToolRuntime` or `RunnableConfig` is filled by the graph, and keeps its default
    where there is nothing for it. No model fills it, nor one that LangChain's `InjectedToolArg` marks. Each call is a
    task of its own, with its own questions, and one that has finished is not run again. Its input is the state, a list
    of messages or a list of calls; it returns messages, and the `Command`s that tools have returned.

    What a tool raises is raised, unless `handle_tool_errors` makes a result for the model of it: True handles every
    exception, a text is that result, a function makes it (of the exceptions that its parameter is annotated with), and
    classes are those that are handled. By default those are calls whose arguments do not fit. A call of a tool that
    does not exist always has an error result. A question passes.

    `wrap_tool_call(request, execute)` is called instead of each call and returns its result, a message or a `Command`:
    it may have the call executed, `execute(request)`, or another one (`request.override(tool_call=...)`), as often as
    it likes, or return a result of its own, also for a tool that does not exist. `awrap_tool_call` is an `async def`
    for asynchronous runs; one of them serves both. What it raises is handled as what a tool raises.

    It can be called without a graph too (`invoke`, `ainvoke`). `tags` are kept for whoever looks at the node. Names:
    LangGraph's.
    """

    def __init__(
        self,
        tools: Sequence[Any],
        *,
        name: str = "tools",
        tags: Sequence[str] | None = None,
        handle_tool_errors: Handles = about_arguments,
        messages_key: str = "messages",
        wrap_tool_call: Wrapper | None = None,
        awrap_tool_call: Wrapper | None = None,
    ) -> None:
        self.name = name
        self.tags = tags
        self.messages_key = messages_key
        self.tools_by_name: dict[str, AgentTool] = graph_tools(tools)
        self.handle_tool_errors = handle_tool_errors
        self._handled = handled_by(handle_tool_errors)
        self._wrapping = Wrapping(wrap_tool_call, awrap_tool_call)
        self._cancelled = threading.Event()  # never: nothing cancels a single call of a graph

    # The node

    def invoke(self, input: Any, config: Any = None) -> Any:
        """Run the calls; returns what a node returns."""
        calls, state, style = self.read(input)
        frame = current.get()
        if frame is None or len(calls) < 2:
            found = [blocking(self.serve(one, state, style, frame, config)) for one in calls]
        else:
            futures = [self._start(one, state, style, frame, config) for one in calls]
            found = [self._outputs(future.result()) for future in futures]
        return self.combined(found, isinstance(input, list))

    async def ainvoke(self, input: Any, config: Any = None) -> Any:
        """`invoke` on the running event loop."""
        calls, state, style = self.read(input)
        frame = current.get()
        if frame is None or len(calls) < 2:
            found = [await awaited(self.serve(one, state, style, frame, config)) for one in calls]
        else:
            futures = [self._start(one, state, style, frame, config) for one in calls]
            found = [self._outputs(await future) for future in futures]
        return self.combined(found, isinstance(input, list))

    def read(self, given: Any) -> tuple[list[ToolCall], Any, Style]:
        """The calls that have no result yet, the state, and the style of the message with the calls."""
        if isinstance(given, Mapping) and given.get("__type") == WITH_CONTEXT:
            return self._single(given)
        if isinstance(given, list) and given and all(map(_is_call, given)):
            return calls_of({"role": "assistant", "content": "", "tool_calls": given}), given, "chat"
        messages = given if isinstance(given, list) else item(given, self.messages_key)
        message, calls = last_answer(messages or [])
        if message is None:
            raise ValueError(
                f"ToolNode {self.name!r} was given no message of the assistant, so there are no calls of tools: "
                f"{given!r:.200}"
            )
        return calls, given, style_of(message)

    def _single(self, given: Mapping[str, Any]) -> tuple[list[ToolCall], Any, Style]:
        """One call with its state, as LangGraph's programs send it."""
        calls = calls_of({"role": "assistant", "content": "", "tool_calls": [given["tool_call"]]})
        state = given["state"]
        messages = state if isinstance(state, list) else item(state, self.messages_key)
        message, _ = last_answer(messages or [])
        return calls, state, "chat" if message is None else style_of(message)

    def _start(self, one: ToolCall, state: Any, style: Style, frame: Frame, config: Any) -> TaskFuture[Any]:
        """Have a call run as a task beside the others, which comes to what a node with this call alone would return.
        Its config is that of the node."""
        config = config or config_of(frame)

        def served(arg: Any) -> Any:
            return self.combined([blocking(self.serve(one, state, style, current.get(), config))])

        async def aserved(arg: Any) -> Any:
            return self.combined([await awaited(self.serve(one, state, style, current.get(), config))])

        name = one["name"] if one["name"] in self.tools_by_name else self.name
        callee = Callee(name, served, aserved)
        node = NodeSpec(name=name, callee=callee, shape=Shape(None), result=_returned, shown=False)
        return call(frame, node, (one,), {})

    def _outputs(self, shown: Any) -> list[Any]:
        """The messages and commands of one call's task."""
        outputs: list[Any] = []
        for part in shown if isinstance(shown, list) else [shown]:
            outputs += [part] if isinstance(part, Command) else part[self.messages_key]
        return outputs

    def combined(self, found: Sequence[Any], as_list: bool = False) -> Any:
        """What the node returns for what its calls came to."""
        outputs: list[Any] = []
        for output in found:
            outputs += output if isinstance(output, list) else [output]
        parts: list[Any] = []  # in the order of the calls: messages beside each other are one update
        for is_command, group in groupby(outputs, lambda output: isinstance(output, Command)):
            update = list(group)
            parts += update if is_command else [update if as_list else {self.messages_key: update}]
        if any(isinstance(part, Command) for part in parts):
            return parts
        return parts[0] if parts else [] if as_list else {self.messages_key: []}

    # One call

    def serve(
        self, one: ToolCall, state: Any, style: Style, frame: Frame | None, config: Any = None
    ) -> Steps[Any]:
        """The steps of one call, to a message with its result, or the `Command` (or the list of both) that the tool
        has returned."""
        if not self._wrapping:
            return self._served(one, self._context(one, state, frame, config), style)
        return self._wrapped(one, self._context(one, state, frame, config), style)

    def _context(self, one: ToolCall, state: Any, frame: Frame | None, config: Any) -> CallContext:
        return CallContext(
            ToolUse(name=one["name"], toolUseId=one["id"], input=one["args"]),
            cancel_signal=self._cancelled,
            state=state,
            frame=frame,
            tools=self.tools_by_name.values(),
            given_config=config,
        )

    def _served(self, one: ToolCall, context: CallContext, style: Style) -> Steps[Any]:
        tool = self.tools_by_name.get(one["name"])
        steps = self._called(one, tool, context, style)
        return steps if tool is None or not is_traced(tool, context) else traced(steps, tool, context)

    def _called(
        self, one: ToolCall, tool: AgentTool | None, context: CallContext, style: Style
    ) -> Steps[Any]:
        if tool is None:
            known = ", ".join(self.tools_by_name) or "none"
            text = f"Error: there is no tool named {one['name']!r}. The tools are: {known}."
            return result(style, one, tool_result(one["id"], "error", text))
        try:
            if not isinstance(one["args"], dict):
                raise ToolInvocationError(one["name"], ValueError(not_an_object(one["args"])), one["args"])
            value = yield from tool.take(context, _unseen)
        except Exception as error:
            return self._failed(one, error, style)
        return self._shown(one, tool, value, style)

    def _wrapped(self, one: ToolCall, context: CallContext, style: Style) -> Steps[Any]:
        def serve(request: ToolCallRequest) -> Steps[Any]:
            call = request.tool_call
            inner = self._context(call, request.state, context.frame, context.given_config)
            return self._served(call, inner, style)

        request = ToolCallRequest(one, self.tools_by_name.get(one["name"]), context.state, context.runtime)
        try:
            value = yield from self._wrapping.steps(request, serve)
        except Exception as error:
            return self._failed(one, error, style)
        outputs = value if isinstance(value, list) else [value]
        if not outputs or not all(map(_is_output, outputs)):
            raise InvalidUpdateError(
                f"wrap_tool_call= of ToolNode {self.name!r} returned for a call of {one['name']!r} what is no message "
                f"with a result and no Command: {value!r:.200}"
            )
        return value

    def _failed(self, one: ToolCall, error: Exception, style: Style) -> Any:
        """The result of a call that has failed, if such an error is handled."""
        if not isinstance(error, self._handled):
            raise error
        return result(style, one, tool_result(one["id"], "error", told(self.handle_tool_errors, error)))

    def _shown(self, one: ToolCall, tool: AgentTool, value: Any, style: Style) -> Any:
        if isinstance(value, Command):
            return self._checked(one, value)
        if isinstance(value, list) and value and all(_is_output(part) for part in value):
            answered = any(one["id"] in answered_by(part) for part in value if _is_message(part))
            answered = answered or any(
                self._results(one, part) for part in value if isinstance(part, Command)
            )
            return [
                self._checked(one, part, answered) if isinstance(part, Command) else part for part in value
            ]
        if _is_message(value):
            return value if style == "objects" or isinstance(value, dict) else _restyled(value, one, style)
        if not getattr(tool, "is_plain", False):
            return result(style, one, result_of(value, one["id"]))
        if is_content(value):
            return result_with(style, one, value)
        return result(style, one, result_of(text_of(value), one["id"]))

    def _checked(self, one: ToolCall, command: Command[Any], answered: bool = False) -> Command[Any]:
        """A command that leaves the conversation with a result for the call, if it leaves it in this graph and the call
        is not `answered` beside it. The result is named after the tool."""
        update = command.update
        results = self._results(one, command)
        for message in results:
            if not isinstance(message, dict) and message.name is None:  # a dict may do without
                message.name = one["name"]
        if command.graph is not None:
            # A tool may hand on the state it was given, but not the steps that are left: every graph has its own.
            if isinstance(update, dict) and STEPS in update:
                command = replace(command, update={key: update[key] for key in update if key != STEPS})
            return command
        if answered or results or any(map(_removes, self._messages(command))):
            return command
        raise InvalidUpdateError(
            f"tool {one['name']!r} returned a Command whose update has no result for its call: add a message "
            f'{{"role": "tool", "content": ..., "tool_call_id": {one["id"]!r}}} to {self.messages_key!r}'
        )

    def _results(self, one: ToolCall, command: Command[Any]) -> list[Any]:
        """The messages in a command that have the result of the call."""
        return [
            message
            for message in self._messages(command)
            if (_is_message(message) or style_of(message) == "blocks") and one["id"] in answered_by(message)
        ]

    def _messages(self, command: Command[Any]) -> Sequence[Any]:
        update = command.update
        messages = update if isinstance(update, list) else item(update, self.messages_key) or ()
        return messages if isinstance(messages, (list, tuple)) else [messages]


def tools_condition(state: Any, messages_key: str = "messages") -> Literal["tools", "__end__"]:
    """Where a graph goes after its model: to the node "tools" if the last message calls tools, else to the end.

    Raises `ValueError` for a state without messages. Behaviour: LangGraph's `tools_condition`.
    """
    messages = state if isinstance(state, list) else item(state, messages_key)
    if not messages:
        raise ValueError(f"there are no messages under {messages_key!r} in {state!r:.200}")
    return "tools" if calls_of(messages[-1]) else END


def _returned(value: Any) -> list[tuple[str, Any]]:
    return [(RETURN, value)]


def _unseen(value: Any) -> Steps[None]:
    yield from ()


def _is_call(thing: Any) -> bool:
    return isinstance(thing, dict) and "role" not in thing and ("args" in thing or "function" in thing)


def _is_message(value: Any) -> bool:
    """A message with a result: LangChain's, or a dict with the role of a tool."""
    if isinstance(value, dict):
        return value.get("role") == "tool" and "tool_call_id" in value
    return getattr(value, "type", None) == "tool" and hasattr(value, "tool_call_id")


def _is_output(value: Any) -> bool:
    return isinstance(value, Command) or _is_message(value)


def _removes(message: Any) -> bool:
    return getattr(message, "type", None) == "remove"


def _restyled(message: Any, one: ToolCall, style: Style) -> Any:
    """A result that LangChain has made, for a conversation without its objects."""
    said, _ = converse_of([message])
    return result(style, one, said[0]["content"][0]["toolResult"])


__all__ = ["ToolNode", "tools_condition"]
