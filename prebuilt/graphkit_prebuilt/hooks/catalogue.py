"""The events of an agent, in the order of a request. Names and fields: Strands'."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from graphkit.errors import InvalidPromptError
from graphkit_prebuilt.content import ContentBlock, Message, ToolResult, ToolResultBlock, ToolUse
from graphkit_prebuilt.hooks.event import AsksMixin, HookEvent
from graphkit_prebuilt.prompts import AgentInput, read_prompt


@dataclass(eq=False)
class AgentInitializedEvent(HookEvent):
    """An agent is complete: fires once, at the end of its constructor. Callbacks cannot be async."""


# --- A request ------------------------------------------------------------------------------------------


@dataclass(eq=False, kw_only=True)
class BeforeInvocationEvent(HookEvent, AsksMixin):
    """A request begins, or goes on with answers. `messages` are the new ones, None when it goes on.

    Writable: `messages` (what is added instead; `InvalidPromptError` if they are none), `cancel` (True or the text that
    the caller gets instead).
    """

    writable: ClassVar = frozenset({"messages", "cancel"})

    invocation_state: dict[str, Any] = field(default_factory=dict)
    messages: list[Message] | None = None
    cancel: bool | str = False

    def _accepted(self, name: str, value: Any) -> Any:
        if name != "messages" or not value:
            return value
        given = read_prompt(value)
        if given.kind != "messages" or isinstance(value, str) or "role" not in value[0]:
            raise InvalidPromptError(
                f"BeforeInvocationEvent.messages must be a list of messages, not {value!r:.100}"
            )
        return given.messages


@dataclass(eq=False, kw_only=True)
class AfterInvocationEvent(HookEvent, AsksMixin):
    """A request ends: `result` is what it came to, None if it failed.

    Writable: `resume`, a prompt to go on with in place of returning (`InvalidPromptError` if it is none); while
    questions are open, their answers.
    """

    should_reverse_callbacks: ClassVar = True
    writable: ClassVar = frozenset({"resume"})

    invocation_state: dict[str, Any] = field(default_factory=dict)
    result: Any = None
    resume: AgentInput = None

    def _accepted(self, name: str, value: Any) -> Any:
        read_prompt(value)
        return value


@dataclass(eq=False, kw_only=True)
class MessageAddedEvent(HookEvent, AsksMixin):
    """`message` was added to the conversation: a prompt, the model's answer, or results of tools."""

    message: Message
    invocation_state: dict[str, Any] = field(default_factory=dict)


# --- The model ------------------------------------------------------------------------------------------


@dataclass(eq=False, kw_only=True)
class BeforeModelCallEvent(HookEvent, AsksMixin):
    """The model is about to be called; fires before every try.

    Writable: `cancel` (True or a text): the model is not called, the text is its answer.
    """

    writable: ClassVar = frozenset({"cancel"})

    invocation_state: dict[str, Any] = field(default_factory=dict)
    projected_input_tokens: int | None = None
    cancel: bool | str = False


@dataclass(eq=False, kw_only=True)
class AfterModelCallEvent(HookEvent, AsksMixin):
    """A try to call the model has ended: with `stop_response`, or with `exception`.

    Writable: `retry`: what came is dropped and the model is called again.
    """

    @dataclass(frozen=True, slots=True)
    class ModelStopResponse:
        """What the model answered and why it stopped."""

        message: Message
        stop_reason: str

    should_reverse_callbacks: ClassVar = True
    writable: ClassVar = frozenset({"retry"})

    invocation_state: dict[str, Any] = field(default_factory=dict)
    stop_response: ModelStopResponse | None = None
    exception: Exception | None = None
    retry: bool = False


@dataclass(eq=False, kw_only=True)
class ModelStreamUpdateEvent(HookEvent):
    """`event` is what the model streamed: one chunk in Converse form."""

    event: dict[str, Any]
    invocation_state: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False, kw_only=True)
class ContentBlockEvent(HookEvent):
    """A block of the model's answer is complete: fires right after the chunk that ends it."""

    content_block: ContentBlock
    invocation_state: dict[str, Any] = field(default_factory=dict)

    @property
    def block(self) -> ContentBlock:
        return self.content_block


@dataclass(eq=False, kw_only=True)
class ModelMessageEvent(HookEvent):
    """The model's answer is complete; fires before `AfterModelCallEvent`."""

    message: Message
    stop_reason: str
    invocation_state: dict[str, Any] = field(default_factory=dict)


# --- Tools ----------------------------------------------------------------------------------------------


@dataclass(eq=False, kw_only=True)
class BeforeToolsEvent(HookEvent, AsksMixin):
    """The tool calls of `message` are about to start; fires once for all of them.

    Writable: `cancel` (True or a text): no tool runs, each call has an error result with the text.
    """

    writable: ClassVar = frozenset({"cancel"})

    message: Message
    invocation_state: dict[str, Any] = field(default_factory=dict)
    cancel: bool | str = False


@dataclass(eq=False, kw_only=True)
class AfterToolsEvent(HookEvent, AsksMixin):
    """A batch of tool calls has ended, been cancelled, failed, or waits for answers. `message` is the user's message
    with the results that there are; as long as all are there, it can be changed in place.

    Writable: `end_turn` (True, a text or blocks): the turn ends with that instead of going back to the model.
    """

    should_reverse_callbacks: ClassVar = True
    writable: ClassVar = frozenset({"end_turn"})

    message: Message
    invocation_state: dict[str, Any] = field(default_factory=dict)
    end_turn: bool | str | Sequence[ContentBlock] = False


@dataclass(eq=False, kw_only=True)
class BeforeToolCallEvent(HookEvent, AsksMixin):
    """A tool is about to be called; fires before every try, for unknown tools too (`selected_tool` None).

    Writable: `tool_use` (also in place; a plain dict becomes a `ToolUse`), `selected_tool`, and `cancel_tool`, also
    spelled `cancel` (True or the text of the error result that the model gets).
    """

    writable: ClassVar = frozenset({"tool_use", "selected_tool", "cancel_tool", "cancel"})

    selected_tool: Any
    tool_use: ToolUse
    invocation_state: dict[str, Any] = field(default_factory=dict)
    cancel_tool: bool | str = False

    def __post_init__(self) -> None:
        self.__dict__["_call"] = self.tool_use["toolUseId"]
        super().__post_init__()

    def _accepted(self, name: str, value: Any) -> Any:
        if name != "tool_use" or isinstance(value, ToolUse):
            return value
        if not isinstance(value, dict) or not {"toolUseId", "name", "input"} <= value.keys():
            raise TypeError(
                f"BeforeToolCallEvent.tool_use must be a dict of toolUseId, name and input, not {value!r:.100}"
            )
        return ToolUse(value)

    @property
    def cancel(self) -> bool | str:
        """`cancel_tool`."""
        return self.cancel_tool

    @cancel.setter
    def cancel(self, value: bool | str) -> None:
        self.cancel_tool = value

    @property
    def _subject(self) -> str:
        call: str = self.__dict__["_call"]
        return call


@dataclass(eq=False, kw_only=True)
class AfterToolCallEvent(HookEvent, AsksMixin):
    """A try to call a tool has ended, or the call was cancelled (`cancel_message`) or of an unknown tool.

    `exception` is what the tool raised, `duration` the seconds it took. Writable: `result` (also in place; a
    `ToolResultBlock` becomes the dict that it stands for), and `retry`: the result is dropped and the tool called
    again with the same `toolUseId`.
    """

    should_reverse_callbacks: ClassVar = True
    writable: ClassVar = frozenset({"result", "retry"})

    selected_tool: Any
    tool_use: ToolUse
    result: ToolResult
    invocation_state: dict[str, Any] = field(default_factory=dict)
    exception: Exception | None = None
    cancel_message: str | None = None
    duration: float | None = None
    retry: bool = False

    def _accepted(self, name: str, value: Any) -> Any:
        if name != "result":
            return value
        if isinstance(value, ToolResultBlock):
            return value.to_dict()["toolResult"]
        if not isinstance(value, dict) or not {"toolUseId", "status", "content"} <= value.keys():
            raise TypeError(
                f"AfterToolCallEvent.result must be a dict of toolUseId, status and content, or a ToolResultBlock, "
                f"not {value!r:.100}"
            )
        return value

    @property
    def _subject(self) -> str:
        call: str = self.tool_use["toolUseId"]
        return call


@dataclass(eq=False, kw_only=True)
class ToolStreamUpdateEvent(HookEvent):
    """`event` is what a tool yielded on its way to the result."""

    tool_use: ToolUse
    event: Any
    invocation_state: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False, init=False)
class ToolResultEvent(HookEvent):
    """A call of a tool has its result: of several tries only the last one's is shown.

    Before `AfterToolCallEvent` if the tool succeeded; after it if the result is an error that is not
    retried. Middleware of `ExecuteToolStage` comes to one, and may make it of a result alone:
    `ToolResultEvent({"toolUseId": ...})`; `exception` is what the result tells of, if that is one.
    """

    tool_use: ToolUse | None
    result: ToolResult
    invocation_state: dict[str, Any]
    exception: Exception | None

    def __init__(
        self,
        agent: Any = None,
        exception: Exception | None = None,
        *,
        tool_use: ToolUse | None = None,
        result: ToolResult | None = None,
        invocation_state: dict[str, Any] | None = None,
    ) -> None:
        if result is None:  # of a result alone
            agent, result = None, agent
        self.agent = agent
        self.tool_use = tool_use
        self.result = result
        self.invocation_state = {} if invocation_state is None else invocation_state
        self.exception = exception
        self.__post_init__()

    @property
    def tool_result(self) -> ToolResult:
        return self.result


# --- The end --------------------------------------------------------------------------------------------


@dataclass(eq=False, kw_only=True)
class InterruptEvent(HookEvent):
    """The request halts for `interrupt`; fires once per open question, before `AgentResultEvent`."""

    interrupt: Any
    invocation_state: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False, kw_only=True)
class AgentResultEvent(HookEvent):
    """The request has a result; fires before `AfterInvocationEvent`."""

    result: Any
    invocation_state: dict[str, Any] = field(default_factory=dict)
