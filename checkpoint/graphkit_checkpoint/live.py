"""`LiveSaver`: threads of this process whose heads are kept as the objects they are.

What a run needs to go on is the head of its thread, and in one process that need be neither taken apart nor put
together again. So a commit is packed once, which refuses what cannot be stored and keeps history safe from
later changes, and laid aside; the next run opens the objects. Rows are made of what was laid aside when somebody
asks for them: for history, an older checkpoint, upkeep. That is *settling*.

1. A run has a head from its opening or its first commit on (`Tip.live`), and its commits continue it. Any other
   commit (a fork, one from outside) is encoded as in `InMemorySaver` and ends the head; the next opening makes
   one of what it reads.
2. Rows are those that `InMemorySaver` would have made: settling replays the commits on the head's tip.
3. Whoever reads or changes tables finds them settled, and what changes a namespace ends its head.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias, Unpack

from graphkit_checkpoint.admission import visible
from graphkit_checkpoint.base import SaverOptions
from graphkit_checkpoint.drafts import Draft, Sizes, drafted
from graphkit_checkpoint.errors import UnstorableError
from graphkit_checkpoint.heads import Head
from graphkit_checkpoint.layout import Layout, Rows
from graphkit_checkpoint.memory import InMemorySaver, MemoryTables
from graphkit_checkpoint.reading import Reader
from graphkit_checkpoint.records import Commit, Saved, ThreadState, Tip
from graphkit_checkpoint.writing import encode

Place: TypeAlias = tuple[str, str]
"""A thread's id and a namespace."""


class LiveSaver(InMemorySaver):
    """Keeps threads in memory, and the latest checkpoint of each as the objects that were committed.

    A run is opened without decoding anything, and a commit costs what it adds, however long the thread is. In
    return, what somebody changes in place in a value of the head, the next run of the thread sees; history shows
    every checkpoint as it was committed. Otherwise as `InMemorySaver`, and with its options.
    """

    _tables: _LiveTables

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, **options: Unpack[SaverOptions]
    ) -> None:
        super().__init__(clock=clock, **options)
        self._tables = _LiveTables(self, clock)

    @contextmanager
    def reading(self) -> Iterator[_LiveTables]:
        with super().reading():
            self._tables.settle()
            yield self._tables

    writing = reading

    def find_for_run(
        self, thread_id: str, namespace: str, checkpoint_id: str | None
    ) -> tuple[ThreadState | None, Saved | None]:
        with self._lock:
            self.check_open()
            tables = self._tables
            root = visible(tables, thread_id)
            if root is None:
                return None, None
            head = tables.head(thread_id, namespace)
            part = tables.thread(thread_id, namespace) if head is None else None
            if head is None and not checkpoint_id and (part is None or part.state.head is None):
                return root.state, None  # nothing to settle for: nested runs begin like this, by the hundred
            if head is None or (checkpoint_id and checkpoint_id != head.checkpoint.id):
                state, saved = self.find(thread_id, namespace, checkpoint_id)
                part = tables.thread(thread_id, namespace)
                if saved is None or part is None or part.state.head != saved.checkpoint.id:
                    return state, saved
                head = Head.of(saved)
                tables.set_head(thread_id, namespace, head)
            return root.state, head.saved(root.state)

    def commit(self, commit: Commit) -> None:
        tables = self._tables
        head = tables.continued(commit)
        if head is not None:
            with suppress(UnstorableError):  # said below, with its place
                draft, sizes = drafted(commit, head.sizes)
                if len(draft.values) <= self.layout.limit:  # else it is perhaps the whole, and no value
                    with self._lock:
                        self.check_open()
                        if tables.take(head, commit, draft, sizes):
                            return
        super().commit(commit)

    def encode(self, commit: Commit) -> Rows:
        with self.reading():
            head: Head | None = commit.tip.live
            if head is not None:
                head.hand_over(commit.tip)
            return super().encode(commit)

    def write(self, rows: Rows) -> None:
        with self.writing() as tables:
            tables.apply(rows)
            tables.forget(rows.thread_id, rows.namespace)


class _LiveTables(MemoryTables):
    """Tables with heads beside them. Everybody but runs that go on from a head settles them first."""

    def __init__(self, saver: InMemorySaver, clock: Callable[[], float]) -> None:
        super().__init__(saver, clock)
        self.heads: dict[str, dict[str, Head]] = {}
        self.unsettled: dict[Place, Head] = {}
        self.layout = Layout(saver.layout.cipher, sys.maxsize)  # what was accepted is not refused later

    # Heads

    def head(self, thread_id: str, namespace: str) -> Head | None:
        heads = self.heads.get(thread_id)
        return heads.get(namespace) if heads else None

    def set_head(self, thread_id: str, namespace: str, head: Head) -> None:
        self.heads.setdefault(thread_id, {})[namespace] = head

    def forget(self, thread_id: str, namespace: str) -> None:
        """The head is one no more. It is settled, or what it stands for is gone."""
        self.heads.get(thread_id, {}).pop(namespace, None)
        self.unsettled.pop((thread_id, namespace), None)

    def forget_all(self, thread_id: str) -> None:
        for namespace in list(self.heads.pop(thread_id, ())):
            self.unsettled.pop((thread_id, namespace), None)

    def continued(self, commit: Commit) -> Head | None:
        """The head that a commit continues; or the one that it makes, if it may be the first of a namespace."""
        head: Head | None = commit.tip.live
        first = commit.checkpoints[0] if commit.checkpoints else None
        if head is None:
            return None if first is None or commit.tip.base else Head(Tip(), first)
        return head if first is None or first.parent_id == head.checkpoint.id else None

    def _may_begin(self, thread_id: str, namespace: str, head: Head) -> bool:
        """Whether this may become the head of a namespace that has none."""
        if head.settled is not None or head.laid_aside:
            return False
        thread = self.threads.get(thread_id)
        stored = None if thread is None else thread.namespaces.get(namespace)
        return stored is None or not stored.checkpoints

    def take(self, head: Head, commit: Commit, draft: Draft, sizes: Sizes) -> bool:
        """Let a commit continue a head; False if that is one no more. Raises as `admit` does."""
        place = commit.thread_id, commit.namespace
        found = self.head(*place)
        if found is not head and not (found is None and self._may_begin(*place, head)):
            return False
        self.admit(commit)
        head.advance(commit, draft, sizes)
        self.namespace(commit).head = head.checkpoint.id
        if found is None:
            self.set_head(*place, head)
        self.unsettled[place] = head
        commit.tip.live = head
        return True

    # Settling

    def settle(self) -> None:
        """Make rows of everything that was laid aside."""
        while self.unsettled:
            place, head = next(iter(self.unsettled.items()))
            self._settle(place, head)
            del self.unsettled[place]

    def _settle(self, place: Place, head: Head) -> None:
        values: dict[str, Any] | None = None
        while head.laid_aside:
            draft = head.laid_aside[0]
            if values is None and draft.extends:
                values = self._values_at(place, head.settled)
            commit = draft.commit(*place, head.tip, {} if values is None else values)
            self.store(encode(self.layout, commit))
            if commit.checkpoints:
                head.settled = commit.checkpoints[-1].id
            head.laid_aside.popleft()

    def _values_at(self, place: Place, checkpoint_id: str | None) -> dict[str, Any]:
        row = None if checkpoint_id is None else self.checkpoint(*place, checkpoint_id)
        if row is None:
            return {}
        return Reader(self, self.layout, *place).saved(row, ThreadState(None, 0, None)).values

    # What changes a namespace from outside ends its head

    def admit(self, rows: Rows | Commit) -> Any:
        if not rows.claims:
            return super().admit(rows)
        before = self.threads.get(rows.thread_id)
        thread = super().admit(rows)
        if before is not None and thread is not before:  # its time had run out
            self.forget_all(rows.thread_id)
        return thread

    def put_thread(
        self, thread_id: str, namespace: str, head: str | None, epoch: int, ttl: float | None
    ) -> None:
        self.forget(thread_id, namespace)
        super().put_thread(thread_id, namespace, head, epoch, ttl)

    def move_head(self, thread_id: str, namespace: str, head: str | None) -> None:
        self.forget(thread_id, namespace)
        super().move_head(thread_id, namespace, head)

    def drop_namespace(self, thread_id: str, namespace: str) -> None:
        self.forget(thread_id, namespace)
        super().drop_namespace(thread_id, namespace)

    def drop_thread(self, thread_id: str) -> None:
        self.forget_all(thread_id)
        super().drop_thread(thread_id)

    def _kept(self, thread_id: str, namespace: str) -> Any:
        self.forget(thread_id, namespace)
        return super()._kept(thread_id, namespace)
