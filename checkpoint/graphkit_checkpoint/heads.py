"""The latest checkpoint of a namespace as it is. Used by `LiveSaver`."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from graphkit_checkpoint.drafts import Draft, Sizes, as_read, resize
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
        pending = {record.name: record for record in saved.pending}
        return cls(saved.tip, point, saved.values, resize({}, saved.values), pending, point.id)

    def saved(self, thread: ThreadState) -> Saved:
        """The head for a run, with a tip of the run's own."""
        pending = [self.pending[key] for key in sorted(self.pending)] if self.pending else []
        return Saved(thread, as_read(self.checkpoint), dict(self.values), pending, Tip(live=self))

    def advance(self, commit: Commit, draft: Draft, sizes: Sizes) -> None:
        """Go on to where a commit leads, and lay it aside."""
        for checkpoint in commit.checkpoints:
            self.values.update(checkpoint.changed)
            for channel in checkpoint.cleared:
                self.values.pop(channel, None)
        if commit.checkpoints:
            self.sizes = sizes
            self.checkpoint = commit.checkpoints[-1]
            self.pending = {}
        if (commit.pending or commit.forget) and commit.at == self.checkpoint.id:
            for key in commit.forget:
                self.pending.pop(key, None)
            for record in commit.pending:
                self.pending[record.name] = record
        self.laid_aside.append(draft)

    def hand_over(self, tip: Tip) -> None:
        """Let a run's tip go on without the head. Everything is settled."""
        own = self.tip
        tip.versions, tip.growth = dict(own.versions), dict(own.growth)
        tip.base, tip.weight, tip.live = own.base, own.weight, None
        tip.at, tip.beside = own.at, None if own.beside is None else set(own.beside)
