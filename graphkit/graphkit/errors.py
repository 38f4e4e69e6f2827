"""The errors that tell what became of a thread, a graph or a value, under one base, `GraphkitError`.

Each is also the built-in kind a caller would expect; a malformed argument is a plain `ValueError` or
`TypeError`. Errors about storage and stored values are defined one floor down, in
`graphkit_checkpoint.errors`, and listed here too.
"""

from __future__ import annotations

from dataclasses import dataclass

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

__all__ = [
    "AlreadyAnsweredError",
    "AmbiguousResumeError",
    "CheckpointCorruptError",
    "ConcurrentUpdateError",
    "EmptyChannelError",
    "EmptyInputError",
    "EncryptionError",
    "GraphInterrupt",
    "GraphRecursionError",
    "GraphVersionError",
    "GraphkitError",
    "InterruptMismatchError",
    "InvalidGraphError",
    "InvalidResponseError",
    "InvalidThreadIdError",
    "InvalidUpdateError",
    "LeaseLostError",
    "NoPendingInterruptError",
    "NodeError",
    "NodeTimeoutError",
    "StateTooLargeError",
    "StorageBusyError",
    "StorageCorruptError",
    "StorageError",
    "StorageUnavailableError",
    "UnknownChannelWarning",
    "UnknownInterruptError",
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
    """A node ran longer than its timeout; a result that arrives later is refused."""


class GraphVersionError(GraphkitError, RuntimeError):
    """A thread was left by another version of the graph, and this one cannot go on from there."""


class NoPendingInterruptError(GraphkitError, ValueError):
    """An answer was given, and nothing on the thread waits for one."""


class AlreadyAnsweredError(GraphkitError, ValueError):
    """The question has another answer already. To branch, fork from a checkpoint explicitly."""


class InvalidResponseError(GraphkitError, ValueError):
    """The answer does not fit the question's `response_schema`; the question (its id) stays open."""

    question: str | None = None


class UnknownInterruptError(GraphkitError, KeyError):
    """No question of this id is open on the thread."""

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0]) if self.args else ""


class AmbiguousResumeError(GraphkitError, RuntimeError):
    """One answer was given and several questions are open; says which, by id."""


class InterruptMismatchError(GraphkitError, RuntimeError):
    """A re-run asks another question than the one that was answered at this place; nothing is delivered."""


class GraphInterrupt(BaseException):
    """Carries questions out of a node. Derived from `BaseException` so that `except Exception` lets it pass.

    `interrupts` holds the `Interrupt` objects. Raised by `interrupt()`; nothing else should raise it.
    """

    def __init__(self, interrupts: object = ()) -> None:
        super().__init__(interrupts)
        self.interrupts = interrupts


@dataclass(frozen=True, slots=True)
class NodeError:
    """Given to a node's `error_handler` as its second argument: which node failed, and with what."""

    node: str
    error: BaseException


class UnknownChannelWarning(UserWarning):
    """A node returned a key that is no channel of its graph; the key was not stored."""


class UnreachableNodeWarning(UserWarning):
    """No edge, branch or declared destination reaches a node; only a `goto` or a `Send` can."""
