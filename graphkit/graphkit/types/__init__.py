"""What users hand to a graph and get back from it: plain data, no behaviour."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, Protocol, TypedDict, TypeVar

from graphkit.constants import PARENT
from graphkit.errors import GraphkitError
from graphkit.parts import (
    CheckpointPayload,
    CheckpointStreamPart,
    CheckpointTask,
    CustomStreamPart,
    DebugPayload,
    DebugStreamPart,
    GraphOutput,
    MessagesStreamPart,
    StreamPart,
    TaskPayload,
    TaskResultPayload,
    TasksStreamPart,
    UpdatesStreamPart,
    ValuesStreamPart,
)
from graphkit_checkpoint.serde import register_type

if TYPE_CHECKING:
    from graphkit.door import Checkpointer
    from graphkit.questions import interrupt

__all__ = [
    "All",
    "CachePolicy",
    "CheckpointPayload",
    "CheckpointStreamPart",
    "CheckpointTask",
    "Checkpointer",
    "Command",
    "CustomStreamPart",
    "DebugPayload",
    "DebugStreamPart",
    "Durability",
    "GraphOutput",
    "Interrupt",
    "MessageWriter",
    "MessagesStreamPart",
    "Overwrite",
    "PregelTask",
    "RetryPolicy",
    "RunResult",
    "RunnableConfig",
    "Send",
    "StateSnapshot",
    "StateUpdate",
    "StreamMode",
    "StreamPart",
    "StreamWriter",
    "TaskPayload",
    "TaskResultPayload",
    "TasksStreamPart",
    "TimeoutPolicy",
    "UpdatesStreamPart",
    "ValuesStreamPart",
    "interrupt",  # see _Types
]

All = Literal["*"]
"""All nodes, where names of nodes are given."""
Durability = Literal["sync", "async", "exit"]
"""When a checkpoint is written: before the next superstep, while it runs, or when the run ends."""
StreamMode = Literal["values", "updates", "messages", "tasks", "checkpoints", "custom", "debug"]
"""What a stream shows."""
StreamWriter = Callable[[Any], None]
"""Given to nodes: shows a value in the stream mode "custom"."""
RunStatus = Literal["completed", "interrupted", "paused", "drained"]


class MessageWriter(Protocol):
    """Shows a message, or a part of one, in stream mode "messages"; `metadata` is added to that of its task."""

    def __call__(self, chunk: Any, metadata: Mapping[str, Any] | None = None) -> None: ...


N = TypeVar("N", bound=Hashable)
C = TypeVar("C")


def _stored(cls: type[C]) -> type[C]:
    """Instances may be part of a stored state, under a name that does not depend on where the class lives."""
    return register_type(cls, name=f"graphkit:{cls.__name__}")


class RunnableConfig(TypedDict, total=False):
    """Options of one run. `configurable` addresses it: `thread_id`, `checkpoint_id`, and keys of your own.

    `max_concurrency` is how many tasks of a superstep run at once (None: all). Every graph counts its own, as in
    LangGraph, so that one that runs inside a task can always move: n graphs side by side run up to n times as many.
    """

    configurable: dict[str, Any]
    recursion_limit: int
    max_concurrency: int | None
    metadata: dict[str, Any]
    tags: list[str]
    run_name: str
    run_id: Any
    callbacks: Any


@_stored
@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutPolicy:
    """Bounds of one attempt at a node, in seconds or as `timedelta`.

    `run_timeout` is all the time it has. `idle_timeout` is how long it may go without a sign of progress: with
    `refresh_on="auto"` that is anything it does (an event, a message, a task it calls, a step of a graph that
    runs inside it) and `runtime.heartbeat()`; with "heartbeat" the latter alone.
    """

    run_timeout: float | timedelta | None = None
    idle_timeout: float | timedelta | None = None
    refresh_on: Literal["auto", "heartbeat"] = "auto"

    @classmethod
    def coerce(cls, value: float | timedelta | TimeoutPolicy | None) -> TimeoutPolicy | None:
        """A timeout in any spelling as a policy in seconds (a number is a `run_timeout`); None for no bound.

        Raises `ValueError` unless every bound is positive.
        """
        if value is None:
            return None
        policy = value if isinstance(value, TimeoutPolicy) else cls(run_timeout=value)
        if policy.refresh_on not in ("auto", "heartbeat"):
            raise ValueError(f"refresh_on must be 'auto' or 'heartbeat', not {policy.refresh_on!r}")
        run, idle = _seconds(policy.run_timeout), _seconds(policy.idle_timeout)
        if run is None and idle is None:
            return None
        return cls(run_timeout=run, idle_timeout=idle, refresh_on=policy.refresh_on)


def _seconds(timeout: float | timedelta | None) -> float | None:
    if timeout is None:
        return None
    value = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise ValueError(f"a timeout must be a positive number of seconds, not {timeout!r}")
    return float(value)


@_stored
@dataclass(frozen=True, slots=True)
class Send:
    """Run `node` in the next superstep with `arg` as its input instead of the state.

    Several `Send`s to one node make several tasks, which run side by side and whose writes are
    applied in the order of the `Send`s. `timeout` bounds this task instead of the node's own.
    """

    node: str
    arg: Any
    timeout: float | timedelta | TimeoutPolicy | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.timeout is not None:
            object.__setattr__(self, "timeout", TimeoutPolicy.coerce(self.timeout))

    def __repr__(self) -> str:
        timeout = f", timeout={self.timeout!r}" if self.timeout is not None else ""
        return f"Send(node={self.node!r}, arg={self.arg!r}{timeout})"


@_stored
@dataclass(frozen=True, slots=True, kw_only=True)
class Command(Generic[N]):
    """Steer a graph: answer (`resume`), write (`update`), go somewhere (`goto`).

    Returned from a node, `update` is written and `goto` targets run in the next superstep, besides
    those that the node's edges name. Given to `invoke`, `resume` answers open questions: one value,
    or a map of question id to value. `graph=Command.PARENT` addresses the surrounding graph.
    """

    graph: str | None = None
    update: Any = None
    resume: Any = None
    goto: Send | Sequence[Send | N] | N = ()

    PARENT: ClassVar[Literal["__parent__"]] = PARENT


@_stored
@dataclass(frozen=True, slots=True)
class Overwrite:
    """Write `value` into a channel with a reducer as it is, without reducing. A node may say {"__overwrite__": value}
    instead."""

    value: Any


@_stored
@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupt:
    """One open question. Two are equal if id, value and response schema are.

    `id` is unique and stays the same while the question is open; `node` and `namespace` say who asks;
    `index` counts the unnamed questions of its task, `name` is given for named ones;
    `response_schema` is a JSON schema that an answer must satisfy, or None. `response` is the answer where a
    question is shown that has been answered.
    """

    value: Any = field(kw_only=False)
    id: str = field(kw_only=False)
    name: str | None = field(default=None, compare=False)
    index: int | None = field(default=None, compare=False)
    node: str = field(default="", compare=False)
    namespace: str = field(default="", compare=False)
    response_schema: Mapping[str, Any] | None = None
    response: Any = field(default=None, repr=False, compare=False)

    @property
    def interrupt_id(self) -> str:
        """`id`, as older programs for LangGraph spell it."""
        return self.id

    @property
    def reason(self) -> Any:
        """`value`, as Strands calls it."""
        return self.value

    @property
    def path(self) -> tuple[str, ...]:
        """The nodes on the way to who asks, the outermost first, `node` last."""
        around = [part.partition(":")[0] for part in self.namespace.split("|") if part]
        return (*around, self.node)

    def to_dict(self) -> dict[str, Any]:
        """The question as agents show it (source: Strands)."""
        return {"id": self.id, "name": self.name, "reason": self.value, "response": self.response}


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Try a failed node again: after `initial_interval` seconds, each wait `backoff_factor` times longer,
    at most `max_interval`, `max_attempts` attempts in all. With `jitter` a wait is up to half as long again.

    `retry_on` is an exception class, several, or a predicate; by default everything but programming errors
    (`default_retry_on`). Of several policies the first that applies to an error counts, for the attempts so far
    whatever they failed with. Answers to questions are kept from one attempt to the next; attempts are counted
    anew when a run is gone on with (as in LangGraph).
    """

    initial_interval: float = 0.5
    backoff_factor: float = 2.0
    max_interval: float = 128.0
    max_attempts: int = 3
    jitter: bool = True
    retry_on: type[Exception] | Sequence[type[Exception]] | Callable[[Exception], bool] | None = None

    def __post_init__(self) -> None:
        kinds = self.retry_on
        if kinds is None or callable(kinds):
            return
        if not isinstance(kinds, Sequence) or not all(isinstance(kind, type) for kind in kinds):
            raise TypeError(
                f"retry_on must be an exception class, a list of some, or a function of the error, not {kinds!r:.100}"
            )

    def applies_to(self, error: BaseException) -> bool:
        if not isinstance(error, Exception):
            return False
        if self.retry_on is None:
            return default_retry_on(error)
        if isinstance(self.retry_on, type):
            return isinstance(error, self.retry_on)
        if callable(self.retry_on):
            return bool(self.retry_on(error))
        return isinstance(error, tuple(self.retry_on))


def default_retry_on(error: Exception) -> bool:
    """Whether an error may pass by itself: connection trouble, a server's 5xx and unknown errors do, bugs do not.

    An HTTP error is known by its `response.status_code`, as httpx and requests have it.
    """
    if isinstance(error, (ConnectionError, TimeoutError)):
        return True
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(status, int):
        return 500 <= status < 600
    return not isinstance(
        error,
        (
            GraphkitError,
            ValueError,
            TypeError,
            ArithmeticError,
            ImportError,
            LookupError,
            NameError,
            SyntaxError,
            RuntimeError,
            ReferenceError,
            StopIteration,
            StopAsyncIteration,
            OSError,
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CachePolicy:
    """Reuse a node's output for equal input, `ttl` seconds long (None: for ever). The graph, or one around it, needs
    a cache: `compile(cache=...)`.

    `key_func` maps the node's input to the cache key; by default a hash of the serialized input. Nothing else tells
    results apart, the context and the config of the run neither. A result that holds a person's answer is never
    reused, nor what an error handler made of a failure; the conditional edges after the node are decided anew.
    A key or a value that cannot be stored is warned of, and the node runs.
    """

    key_func: Callable[..., str | bytes] | None = None
    ttl: int | None = None


class StateUpdate(NamedTuple):
    """One element of `bulk_update_state`: `values` written as if by `as_node`."""

    values: Any
    as_node: str | None = None


class PregelTask(NamedTuple):
    """One task of a superstep, as seen from outside.

    `error` is the text of a recorded error, `result` what the task wrote if it has finished,
    `interrupts` its open questions.
    """

    id: str
    name: str
    path: tuple[str | int, ...]
    error: str | None = None
    interrupts: tuple[Interrupt, ...] = ()
    state: Any = None
    result: Any = None


class StateSnapshot(NamedTuple):
    """A thread at one checkpoint: `values`, the nodes that are `next`, their `tasks` and open `interrupts`.

    `config` addresses this checkpoint, `parent_config` the one before. `metadata` has at least
    `source` ("input", "loop", "update" or "fork") and `step` (-1 for the first input).
    An unknown thread gives a snapshot without values and with `metadata` None.
    """

    values: Any
    next: tuple[str, ...]
    config: RunnableConfig
    metadata: dict[str, Any] | None
    created_at: str | None
    parent_config: RunnableConfig | None
    tasks: tuple[PregelTask, ...] = ()
    interrupts: tuple[Interrupt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a run came to.

    `status` is "completed", "interrupted" (questions are open) or "paused" (at a breakpoint); `value` the
    output; `next` the nodes that would run next; `config` addresses the checkpoint reached.
    """

    status: RunStatus
    value: Any
    interrupts: tuple[Interrupt, ...] = ()
    next: tuple[str, ...] = ()
    config: RunnableConfig = field(default_factory=lambda: RunnableConfig())


class _Types(ModuleType):
    """This package. Its `interrupt` is the function (LangGraph's `langgraph.types.interrupt`), whoever has imported the
    door `graphkit.types.interrupt` (`strands.types.interrupt`), which the import system then wants to put here."""

    @property
    def interrupt(self) -> Any:
        # It lives where questions are asked: importing it above is a circle.
        from graphkit.questions import interrupt

        return interrupt

    @interrupt.setter
    def interrupt(self, door: ModuleType) -> None:
        pass

    @property
    def Checkpointer(self) -> Any:
        from graphkit.door import Checkpointer

        return Checkpointer


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


sys.modules[__name__].__class__ = _Types
