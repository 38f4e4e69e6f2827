"""The errors that tell what became of a thread, a graph or a value, under one base, `GraphkitError`.

Each is also the built-in kind a caller would expect; a malformed argument is a plain `ValueError` or
`TypeError`. Errors about storage and stored values are defined one floor down, in
`graphkit_checkpoint.errors`, and listed here too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from graphkit_checkpoint.errors import (
    CheckpointCorruptError,
    ConcurrentUpdateError,
    EncryptionError,
    GraphkitError,
    InvalidThreadIdError,
    LeaseLostError,
    StateTooLargeError,
    StorageBusyError,
    StorageCorruptError,
    StorageError,
    StorageUnavailableError,
    UnknownTypeError,
    UnserializableStateError,
)

if TYPE_CHECKING:
    from graphkit.types import Command

__all__ = [
    "AlreadyAnsweredError",
    "AmbiguousResumeError",
    "CheckpointCorruptError",
    "ConcurrencyException",
    "ConcurrentUpdateError",
    "ContextWindowOverflowException",
    "EmptyChannelError",
    "EmptyInputError",
    "EncryptionError",
    "EventLoopException",
    "GraphBubbleUp",
    "GraphDrained",
    "GraphInterrupt",
    "GraphRecursionError",
    "GraphVersionError",
    "GraphkitError",
    "HaltedTwiceError",
    "InterruptMismatchError",
    "InvalidContextError",
    "InvalidDirectiveError",
    "InvalidGraphError",
    "InvalidPromptError",
    "InvalidResponseError",
    "InvalidThreadIdError",
    "InvalidToolUseNameException",
    "InvalidUpdateError",
    "LeaseLostError",
    "MCPClientInitializationError",
    "MCPConnectionError",
    "MaxTokensReachedException",
    "ModelStreamError",
    "ModelThrottledException",
    "NoPendingInterruptError",
    "NodeCancelledError",
    "NodeError",
    "NodeTimeoutError",
    "NotHaltedError",
    "ParentCommand",
    "RecordedError",
    "SessionException",
    "SnapshotException",
    "StateTooLargeError",
    "StorageBusyError",
    "StorageCorruptError",
    "StorageError",
    "StorageUnavailableError",
    "StructuredOutputException",
    "ToolInvocationError",
    "UnknownChannelWarning",
    "UnknownInterruptError",
    "UnknownPluginError",
    "UnknownTypeError",
    "UnreachableNodeWarning",
    "UnserializableStateError",
]


class InvalidGraphError(GraphkitError, ValueError):
    """A graph's structure is faulty; lists every fault by name."""


class InvalidUpdateError(GraphkitError, ValueError):
    """A node, a command or `update_state` wrote something that cannot be applied."""


class EmptyInputError(GraphkitError, ValueError):
    """A thread without history was run without input."""


class EmptyChannelError(GraphkitError, LookupError):
    """A channel was read before anything was written to it."""


class GraphRecursionError(GraphkitError, RecursionError):
    """The run used up its `recursion_limit` of supersteps. Resume with `None` and a higher limit."""


class NodeTimeoutError(GraphkitError, TimeoutError):
    """An attempt at a node used up its time; a result that arrives later is refused.

    `kind` says which limit it was: "run", or "idle" for `timeout` seconds without a sign of progress.
    `elapsed` is how many seconds the attempt had; `run_timeout` and `idle_timeout` are the limits it had.
    """

    def __init__(
        self,
        node: str,
        elapsed: float,
        *,
        kind: Literal["idle", "run"],
        idle_timeout: float | None = None,
        run_timeout: float | None = None,
    ) -> None:
        timeout = idle_timeout if kind == "idle" else run_timeout
        if timeout is None:
            raise ValueError(f"{kind}_timeout is needed when kind is {kind!r}")
        found = (
            f"gave no sign of progress for its idle_timeout of {timeout:g} s (after {elapsed:.3f} s)"
            if kind == "idle"
            else f"ran longer than its timeout of {timeout:g} s (run_timeout; {elapsed:.3f} s)"
        )
        super().__init__(f"node {node!r} {found}; a result that arrives later is refused")
        self.node = node
        self.timeout = timeout
        self.run_timeout = run_timeout
        self.idle_timeout = idle_timeout
        self.elapsed = elapsed
        self.kind = kind

    def __reduce__(self) -> Any:
        return _unpickled, (type(self), self.args, vars(self))


class NodeCancelledError(GraphkitError, RuntimeError):
    """A node raised `asyncio.CancelledError` itself, which nobody had asked it for: it has failed."""

    def __init__(self, node: str, message: str | None = None) -> None:
        super().__init__(
            message or f"node {node!r} raised asyncio.CancelledError, and nobody had cancelled it"
        )
        self.node = node

    def __reduce__(self) -> Any:
        return _unpickled, (type(self), self.args, vars(self))


def _unpickled(cls: type[BaseException], args: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    error: Any = cls.__new__(cls)
    error.args = args
    vars(error).update(attributes)
    return error


class RecordedError(GraphkitError, RuntimeError):
    """Stands for an exception of an earlier process that cannot be made again: `kind` is the name of its
    class, the message its text."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class GraphVersionError(GraphkitError, RuntimeError):
    """A thread was left by another version of the graph, and this one cannot go on from there."""


class NoPendingInterruptError(GraphkitError, ValueError):
    """An answer was given, and nothing on the thread waits for one."""


class AlreadyAnsweredError(GraphkitError, ValueError):
    """The question has another answer already. To branch, fork from a checkpoint explicitly."""


class InvalidResponseError(GraphkitError, ValueError):
    """The answer does not fit the question's `response_schema`; the question (its id) stays open."""

    question: str | None = None


class InvalidContextError(GraphkitError, ValueError):
    """The context of a run does not fit the graph's `context_schema`; nothing has run."""


class UnknownInterruptError(GraphkitError, KeyError):
    """No question of this id is open on the thread."""

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0]) if self.args else ""


class AmbiguousResumeError(GraphkitError, RuntimeError):
    """One answer was given and several questions are open; says which, by id."""


class InterruptMismatchError(GraphkitError, RuntimeError):
    """A re-run asks another question than the one that was answered at this place; nothing is delivered."""


ConcurrencyException = ConcurrentUpdateError  # what Strands calls it


class ToolInvocationError(GraphkitError, ValueError):
    """A model has called a tool with arguments that do not fit; `source` says why. `ToolNode` tells the model, unless
    it is not to."""

    def __init__(self, tool_name: str, source: Exception, tool_kwargs: Any = None) -> None:
        super().__init__(
            f"tool {tool_name!r} was called with {tool_kwargs!r:.200}, which does not fit: {source}"
        )
        self.tool_name = tool_name
        self.source = source
        self.tool_kwargs = tool_kwargs

    def __reduce__(self) -> Any:
        return _unpickled, (type(self), self.args, vars(self))


class InvalidToolUseNameException(GraphkitError, ValueError):
    """A tool was given a name that no model can call it by."""


class InvalidPromptError(GraphkitError, TypeError, ValueError):
    """An agent was given something that is no prompt, or a prompt while its questions are open; nothing has run."""


class NotHaltedError(GraphkitError, ValueError):
    """An agent was to be resumed where nothing has halted it, or by a plugin that has not, or after a halt that
    cannot be resumed; nothing has run."""


class HaltedTwiceError(GraphkitError, RuntimeError):
    """An agent that comes to rest because it is halted, or that is being resumed, was halted again. It stays halted as
    it was, and can be resumed."""


class InvalidDirectiveError(GraphkitError, TypeError, ValueError):
    """A plugin's `on_resume` has returned what no agent can be resumed with; nothing has run, it stays halted."""


class UnknownPluginError(GraphkitError, KeyError):
    """An agent has no plugin of this name. What such a plugin has halted stays halted."""

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0]) if self.args else ""


class EventLoopException(GraphkitError, RuntimeError):
    """The loop of an agent cannot go on, because of `original_exception`."""

    def __init__(self, original_exception: Exception, request_state: Any = None) -> None:
        super().__init__(str(original_exception))
        self.original_exception = original_exception
        self.request_state = {} if request_state is None else request_state

    def __reduce__(self) -> Any:
        return _unpickled, (type(self), self.args, vars(self))


class ModelStreamError(GraphkitError, RuntimeError):
    """A model's stream was no answer: it broke off, or held what no event is. The call may be made again."""


class ModelThrottledException(GraphkitError, ConnectionError):
    """A model's service has too much to do; the same call may succeed later."""

    @property
    def message(self) -> str:
        """What the service said."""
        return str(self)


class ContextWindowOverflowException(GraphkitError, ValueError):
    """A conversation is larger than what the model can read."""


class MaxTokensReachedException(GraphkitError, RuntimeError):
    """The model's answer was cut at its token limit. The conversation holds what there is of it."""


class StructuredOutputException(GraphkitError, ValueError):
    """The model gave no output of the wanted form, although it was told to."""

    @property
    def message(self) -> str:
        """What was wrong."""
        return str(self)


class SessionException(GraphkitError, RuntimeError):
    """A session cannot be read or written."""


class SnapshotException(GraphkitError, ValueError):
    """A snapshot of an agent cannot be taken, or is none that can be loaded."""


class MCPClientInitializationError(GraphkitError, RuntimeError):
    """There is no connection to an MCP server: it cannot be reached, or nobody has connected."""


class MCPConnectionError(GraphkitError, ConnectionError):
    """An MCP server has ended its connection in the middle of a request, or answered with what is no answer."""


class GraphBubbleUp(BaseException):
    """What leaves a graph without being a failure of it."""


class GraphDrained(GraphBubbleUp, GraphkitError, RuntimeError):
    """The run was asked to drain and has stopped between two supersteps; go on with `invoke(None, config)`.

    `reason` is what `RunControl.request_drain` was given. `run()` returns status "drained" instead.
    """

    def __init__(self, reason: str = "shutdown") -> None:
        super().__init__(f"the run was drained: {reason}")
        self.reason = reason


class GraphInterrupt(GraphBubbleUp):
    """Carries questions out of a node. Derived from `BaseException` so that `except Exception` lets it pass.

    `interrupts` holds the `Interrupt` objects. Raised by `interrupt()`; nothing else should raise it.
    """

    def __init__(self, interrupts: object = ()) -> None:
        super().__init__(interrupts)
        self.interrupts = interrupts


class ParentCommand(GraphBubbleUp):
    """Carries a `Command(graph=Command.PARENT)` to the graph around. To raise one in a node is to return its command.

    A call of a nested graph raises it in the function that made the call; like `GraphInterrupt` it is no `Exception`.
    """

    def __init__(self, command: Command[Any]) -> None:
        super().__init__(command)
        self.command = command


@dataclass(frozen=True, slots=True)
class NodeError:
    """Given to a node's `error_handler` as its second argument: which node failed, and with what."""

    node: str
    error: BaseException


class UnknownChannelWarning(UserWarning):
    """A node returned a key that is no channel of its graph; the key was not stored."""


class UnreachableNodeWarning(UserWarning):
    """No edge, branch or declared destination reaches a node; only a `goto` or a `Send` can."""
