"""The stages of an agent's loop that middleware wraps, and what each of them comes to."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, TypeAlias, TypeVar

from graphkit_prebuilt.content import Message, ToolResult
from graphkit_prebuilt.hooks.catalogue import ToolResultEvent
from graphkit_prebuilt.hooks.event import BaseHookEvent
from graphkit_prebuilt.middleware.contexts import (
    ExecuteToolContext,
    ExecuteToolsContext,
    InvokeModelContext,
)
from graphkit_prebuilt.streaming import Metrics, Usage

ContextT = TypeVar("ContextT")
ResultT = TypeVar("ResultT")
EventT = TypeVar("EventT", bound=BaseHookEvent)

TypedEvent: TypeAlias = BaseHookEvent

# What a stage comes to. These are given from layer to layer; no callback hears them.


@dataclass(eq=False)
class ModelStopReason(BaseHookEvent):
    """What a call of the model comes to: its message, why it stopped, and the tokens and milliseconds it took."""

    stop_reason: str
    message: Message
    usage: Usage | None = None
    metrics: Metrics | None = None


@dataclass(eq=False)
class ToolResultsEvent(BaseHookEvent):
    """What a batch of calls comes to: the results, in any order; `toolUseId` says whose each is."""

    results: Sequence[ToolResult]


# What an Output handler is given, and gives back.


@dataclass
class InvokeModelResult:
    """What a call of the model came to. Another `result` may be set."""

    result: ModelStopReason


@dataclass
class ExecuteToolResult:
    """What a call of a tool came to. Another `result` may be set."""

    result: ToolResultEvent


@dataclass
class ExecuteToolsResult:
    """What a batch of calls came to. Another `result` may be set."""

    result: ToolResultsEvent


class MiddlewarePhase(Generic[ContextT, ResultT, EventT]):
    """One way of taking part in a stage."""

    kind: ClassVar[str]

    def __init__(self, stage: MiddlewareStage[ContextT, ResultT, EventT]) -> None:
        self.stage = stage

    def __repr__(self) -> str:
        return f"{self.stage.name}.{self.kind}"


class MiddlewareInputPhase(MiddlewarePhase[ContextT, ResultT, EventT]):
    """Before the stage: `(context) -> context`, blocking or async."""

    kind = "Input"


class MiddlewareWrapPhase(MiddlewarePhase[ContextT, ResultT, EventT]):
    """Around the stage: a generator `(context, next)`."""

    kind = "Wrap"


class MiddlewareOutputPhase(MiddlewarePhase[ContextT, ResultT, EventT]):
    """After the stage, if it has a result: `(result) -> result`, blocking or async."""

    kind = "Output"


class MiddlewareStage(Generic[ContextT, ResultT, EventT]):
    """A stage that middleware can wrap. There are the three below, and no others.

    A layer is given a `context_type` and comes to a `result_event`; an Output handler has that in a `result_type`.
    """

    def __init__(
        self,
        name: str,
        *,
        context_type: type[ContextT],
        result_type: type[ResultT],
        result_event: type[EventT],
    ) -> None:
        self.name = name
        self.context_type = context_type
        self.result_type = result_type
        self.result_event = result_event
        self.Input = MiddlewareInputPhase(self)
        self.Wrap = MiddlewareWrapPhase(self)
        self.Output = MiddlewareOutputPhase(self)

    def __repr__(self) -> str:
        return self.name


InvokeModelStage: Final = MiddlewareStage(
    "InvokeModelStage",
    context_type=InvokeModelContext,
    result_type=InvokeModelResult,
    result_event=ModelStopReason,
)
"""One call of the model: inside of its hooks, and once more for each try that they want."""

ExecuteToolStage: Final = MiddlewareStage(
    "ExecuteToolStage",
    context_type=ExecuteToolContext,
    result_type=ExecuteToolResult,
    result_event=ToolResultEvent,
)
"""One call of a tool: inside of its hooks, and once more for each try that they want."""

ExecuteToolsStage: Final = MiddlewareStage(
    "ExecuteToolsStage",
    context_type=ExecuteToolsContext,
    result_type=ExecuteToolsResult,
    result_event=ToolResultsEvent,
)
"""All calls of one message: after `BeforeToolsEvent`, around the hooks and the stage of each call."""

MiddlewareNext: TypeAlias = Callable[[ContextT], Any]
"""Goes on inside: `result = yield from next(context)` in a generator, `async for event in next(context)` in an async
one, whose last event is the result."""
MiddlewareHandler: TypeAlias = Callable[
    [ContextT, MiddlewareNext[ContextT]], Generator[Any, Any, EventT] | AsyncGenerator[Any, None]
]
MiddlewareInputHandler: TypeAlias = Callable[[ContextT], ContextT | Awaitable[ContextT]]
MiddlewareOutputHandler: TypeAlias = Callable[[ResultT], ResultT | Awaitable[ResultT]]
