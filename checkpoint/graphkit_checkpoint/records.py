"""The records that cross the saver contract, in the form in which the engine knows them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphkit_checkpoint.ownership import Holder


@dataclass(slots=True, eq=False, repr=False)
class Tip:
    """Where a checkpoint stands in storage: which version of each channel it sees.

    `base` is the nearest ancestor that lists all versions, `weight` how many changes were listed since.
    Belongs to the saver; a run passes it from load to commit.
    """

    versions: dict[str, str] = field(default_factory=dict)
    base: str = ""
    weight: int = 0


@dataclass(slots=True, eq=False, repr=False)
class Checkpoint:
    """The state after one superstep, as a difference to its parent.

    `changed` maps channels to new values, `cleared` lists channels that lost theirs. `control` is the
    engine's own account of what runs next, in plain names and numbers; `work` holds the user's values that
    what runs next was given (None: none). Savers only keep them. `created_at` is in unix seconds.
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

    @property
    def described(self) -> dict[str, Any]:
        """The metadata with what every checkpoint has: where it came from, and its step."""
        return {"source": self.source, "step": self.step, **self.metadata}


@dataclass(slots=True, eq=False, repr=False)
class Pending:
    """A record beside a checkpoint: something of the unfinished superstep that follows it.

    (task_id, kind, key) is unique per checkpoint; writing it again replaces the value.
    """

    task_id: str
    kind: str
    key: str
    value: Any


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
