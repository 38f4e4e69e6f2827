"""The records that cross the saver contract, in the form in which the engine knows them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from graphkit_checkpoint.ownership import Holder

OUTPUT, QUESTION, ANSWER, ERROR, AMEND = "output", "question", "answer", "error", "amend"
"""Kinds of pending records: what a task wrote, what it asked, what it was answered, how it failed, and what is
applied to the checkpoint before any output: from outside (`Command(update, goto)`), or from a task whatever becomes
of it."""
KEPT = "kept"
"""What an attempt at a task has kept for the next one."""
COUNT = "count"
"""Kept by savers among the records beside a checkpoint, and shown to nobody: how many others there are. So one that is
lost is missed."""

Name: TypeAlias = tuple[str, str, str]
"""Names a pending record beside its checkpoint: task id, kind, key."""

SCALAR = -1
"""The length of a version that is one value and no sequence of items."""


def order_of(question: Mapping[str, Any]) -> int:
    """When a task asked a question, from its record. Those of earlier versions tell it of unnamed questions only,
    which came first."""
    index = question["index"]
    return int(question.get("order", 1 << 30 if index is None else index))


class Version(NamedTuple):
    """What a checkpoint sees of a channel: the first `length` items of a log, or a value (`SCALAR`).

    A log is what a list or a dict was made of: its items, one after the other. It is named by the
    checkpoint that began it. `body` is the packed value itself, if it is small and has no row of its own.
    """

    log: str
    length: int
    body: bytes | None = None


version_of: Final[Callable[[tuple[str, int, bytes | None]], Version]] = partial(tuple.__new__, Version)
"""`Version` of its parts without a call of Python: every value that is written has one."""


class Digest(NamedTuple):
    """CRC-32 of a log's bytes, in parts of so many bytes: those of stored rows, and what came since."""

    rows: tuple[tuple[int, int], ...]
    size: int
    crc: int


class Growth(NamedTuple):
    """How a log goes on: what the next extension of a channel has to know of it.

    `kind` tells the items of a list from the pairs of a dict. `size` and `digest` are of all items' bytes; `digest` is
    None where only part of a stored row was read. `first_size` is the size of the complete
    value that the log began with, `forks` how many logs it builds on. `shared` says that another branch has
    gone on from here already. `loose` holds the small rows at the end that are not folded yet: (start, body).
    """

    kind: int
    size: int
    digest: Digest | None
    first_size: int
    forks: int = 0
    shared: bool = False
    loose: tuple[tuple[int, bytes], ...] = ()


@dataclass(slots=True, eq=False, repr=False)
class Tip:
    """Where a checkpoint stands in storage: which version of each channel it sees, and how the logs go on.

    `base` is the nearest ancestor that lists all versions, `weight` how many changes were listed since. `beside` names
    the records beside the checkpoint `at` (None: nobody has looked).
    Belongs to the saver; a run passes it from load to commit. `live` is instead of all this where a saver keeps the
    latest checkpoint as it is.
    """

    versions: dict[str, Version] = field(default_factory=dict)
    base: str = ""
    weight: int = 0
    growth: dict[str, Growth] = field(default_factory=dict)
    live: Any = None
    at: str = ""
    beside: set[Name] | None = None


@dataclass(slots=True, eq=False, repr=False)
class Checkpoint:
    """The state after one superstep, as a difference to its parent.

    `changed` maps channels to new values, `cleared` lists channels that lost theirs. `extended` names the
    changed channels whose value is the old one and more: a list with so many new items at its end, or a dict
    with these keys set, in order.

    `control` is the engine's own account of what runs next, in plain names and numbers; `work` holds the
    user's values that what runs next was given (None: none), `given` the writes (channel, value) that came
    from outside and wait to be applied (None: none did). Savers only keep them. If the next checkpoint of
    the same commit applies `given`, what it stored stands for the value. `created_at` is in unix seconds.
    """

    id: str
    parent_id: str | None
    step: int
    source: str
    created_at: float
    metadata: Mapping[str, Any] = field(default_factory=dict)
    control: Mapping[str, Any] = field(default_factory=dict)
    work: Mapping[str, Any] | None = None
    changed: Mapping[str, Any] = field(default_factory=dict)
    cleared: Collection[str] = ()
    given: Sequence[tuple[str, Any]] | None = None
    extended: Mapping[str, int | Collection[Any]] = field(default_factory=dict)

    @property
    def described(self) -> dict[str, Any]:
        """The metadata with what every checkpoint has: where it came from, and its step."""
        return described(self.source, self.step, self.metadata)


def described(source: str, step: int, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """`Checkpoint.described` of a checkpoint that is not loaded as a whole."""
    return {"source": source, "step": step, **metadata}


@dataclass(slots=True, eq=False, repr=False)
class Pending:
    """A record beside a checkpoint: something of the unfinished superstep that follows it.

    (task_id, kind, key) is unique per checkpoint; writing it again replaces the value.
    """

    task_id: str
    kind: str
    key: str
    value: Any

    @property
    def name(self) -> Name:
        """What it is replaced and forgotten by."""
        return self.task_id, self.kind, self.key


@dataclass(slots=True, eq=False, repr=False)
class ThreadState:
    """The thread row: `head` is the latest checkpoint's id, `epoch` counts commits, `holder` owns it."""

    head: str | None
    epoch: int
    holder: Holder | None


@dataclass(slots=True, eq=False, repr=False)
class Saved:
    """One checkpoint as loaded: complete `values`, its pending records, and the thread it belongs to."""

    thread: ThreadState
    checkpoint: Checkpoint
    values: dict[str, Any]
    pending: list[Pending]
    tip: Tip


@dataclass(slots=True, eq=False, repr=False)
class Commit:
    """One atomic write.

    `acquire` claims the thread as it was loaded (None: a thread that did not exist) and needs `claims`.
    `pending` and `forget` belong to the checkpoint `at`. `release` gives the thread back. `checkpoints`
    are in order; the last one becomes the head of `namespace`.
    """

    thread_id: str
    namespace: str
    token: str
    tip: Tip
    claims: bool = False
    acquire: ThreadState | None = None
    release: bool = False
    checkpoints: Sequence[Checkpoint] = ()
    at: str = ""
    pending: Sequence[Pending] = ()
    forget: Sequence[tuple[str, str, str]] = ()


@dataclass(slots=True, eq=False, repr=False)
class Opening:
    """What a run finds when it wants to write to a thread.

    `thread` is None for a new thread, `saved` None if there is no (such) checkpoint. `abandoned` says that
    the last run ended without giving the thread back: its process died.
    """

    thread: ThreadState | None
    saved: Saved | None
    abandoned: bool


class Usage(NamedTuple):
    """How much of a database one thread takes: rows of each kind, and the bytes of what they hold."""

    checkpoints: int
    values: int
    pending: int
    bytes: int
