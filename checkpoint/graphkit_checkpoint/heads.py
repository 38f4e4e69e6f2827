"""The latest checkpoint of a namespace as it is, and where runs stand at it. Used by `LiveSaver`."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from graphkit_checkpoint.drafts import Draft, Sizes, as_read, drafted, resized
from graphkit_checkpoint.errors import StateTooLargeError
from graphkit_checkpoint.layout import Rows
from graphkit_checkpoint.records import Checkpoint, Commit, Pending, Saved, ThreadState, Tip


@dataclass(slots=True, eq=False, repr=False)
class Head:
    """The head of one namespace. `sizes` are those that were committed, whatever became of the lists.

    `laid_aside` are the commits that no rows were made of, in order. `tip` stands before them, at the
    checkpoint `settled` (None: nothing is stored yet).
    """

    tip: Tip
    checkpoint: Checkpoint
    values: dict[str, Any] = field(default_factory=dict)
    sizes: Sizes = field(default_factory=dict)
    pending: dict[tuple[str, str, str], Pending] = field(default_factory=dict)
    settled: str | None = None
    laid_aside: deque[Draft] = field(default_factory=deque)

    @classmethod
    def of(cls, saved: Saved) -> Head:
        """The head that was read from rows."""
        point = saved.checkpoint
        pending = {(record.task_id, record.kind, record.key): record for record in saved.pending}
        return cls(saved.tip, point, saved.values, resized({}, saved.values), pending, point.id)

    def saved(self, thread: ThreadState) -> Saved:
        """The head for a run, with a tip of the run's own."""
        pending = [self.pending[key] for key in sorted(self.pending)] if self.pending else []
        tip = Tip(live=Stand(self, self.checkpoint.id, self.sizes))
        return Saved(thread, as_read(self.checkpoint), dict(self.values), pending, tip)

    def advance(self, commit: Commit, sizes: Sizes) -> None:
        """Go on to where a commit leads."""
        for checkpoint in commit.checkpoints:
            self.values.update(checkpoint.changed)
            for channel in checkpoint.cleared:
                self.values.pop(channel, None)
        if commit.checkpoints:
            self.sizes = sizes
            self.checkpoint = commit.checkpoints[-1]
            self.pending = {}
        if commit.at == self.checkpoint.id:
            for key in commit.forget:
                self.pending.pop(key, None)
            for record in commit.pending:
                self.pending[record.task_id, record.kind, record.key] = record


@dataclass(slots=True, eq=False, repr=False)
class Stand:
    """Where a run stands whose commits continue a head: what it encoded last. Begins at the head."""

    head: Head
    at: str | None
    sizes: Sizes

    def hand_over(self, tip: Tip) -> None:
        """Let the run's tip go on without the head. Everything is settled."""
        own = self.head.tip
        tip.versions, tip.growth = dict(own.versions), dict(own.growth)
        tip.base, tip.weight, tip.live = own.base, own.weight, None


class LaidAside(Rows):
    """A commit that continues a head, packed, and the sizes after it. Of `Rows` it has what a thread is claimed by."""

    __slots__ = ("commit", "continues", "draft", "sizes")

    def __init__(self, continues: Head, commit: Commit, draft: Draft, sizes: Sizes) -> None:
        self.thread_id = commit.thread_id
        self.namespace = commit.namespace
        self.token = commit.token
        self.claims = commit.claims
        self.acquire = commit.acquire
        self.release = commit.release
        self.head = None
        self.continues = continues
        self.commit = commit
        self.draft = draft
        self.sizes = sizes


def laid_aside(stand: Stand, commit: Commit, limit: int) -> LaidAside:
    """The commit, packed; its tip goes on. Raises `UnstorableError`s, which do not say where in the commit."""
    draft, sizes = drafted(commit, stand.sizes)
    if len(draft.values) > limit:
        raise StateTooLargeError("the whole commit is larger than one value may be")
    if commit.checkpoints:
        stand.at, stand.sizes = commit.checkpoints[-1].id, sizes
    commit.tip.live = stand
    return LaidAside(stand.head, commit, draft, sizes)
