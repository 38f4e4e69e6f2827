"""The four tables as a saver's own operations see them, inside one transaction.

`InMemorySaver` keeps them in dicts, `SqlSaver` in a database; what is done with them is written once, in
`reading`, `base` and `upkeep`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from graphkit_checkpoint.layout import CheckpointRow, PendingRow, ValueRow
from graphkit_checkpoint.records import ThreadState

PAGE: Final = 32
"""How many checkpoints of a history are read at once."""


class ThreadRow(NamedTuple):
    """A thread's row in one namespace. `expired`: its time has run out by the database's clock."""

    state: ThreadState
    expired: bool
    ttl: float | None


class ReadTables(ABC):
    """What can be asked. Every answer is as of one moment, that of the transaction."""

    @abstractmethod
    def thread(self, thread_id: str, namespace: str = "") -> ThreadRow | None: ...

    @abstractmethod
    def checkpoint(self, thread_id: str, namespace: str, checkpoint_id: str) -> CheckpointRow | None: ...

    def thread_at_head(self, thread_id: str) -> tuple[ThreadRow | None, list[CheckpointRow]]:
        """The thread's row in the root namespace, and that of the checkpoint which it names as its head, after rows on
        the way to it that came along."""
        row = self.thread(thread_id)
        head = self.checkpoint(thread_id, "", row.state.head) if row is not None and row.state.head else None
        return row, [] if head is None else [head]

    @abstractmethod
    def chain(self, thread_id: str, namespace: str, first: str, last: str) -> list[CheckpointRow]:
        """At least those on the way from `last` back to its ancestor `first`, both included."""

    @abstractmethod
    def recent(
        self, thread_id: str, namespace: str, before: str | None, limit: int | None
    ) -> list[CheckpointRow]:
        """Those with ids below `before`, newest first, at most `limit`."""

    @abstractmethod
    def values(
        self, thread_id: str, namespace: str, channel: str, log: str, upto: int | None
    ) -> Iterable[ValueRow]:
        """The rows of a log that start at or below `upto` (None: all), in order. They may be fetched as they are taken:
        take all of them before anything else is asked."""

    @abstractmethod
    def pending(
        self, thread_id: str, namespace: str, checkpoint_id: str, upto: str | None = None
    ) -> list[PendingRow]:
        """The records beside a checkpoint, or beside all from it up to `upto`, ordered by (checkpoint, task, kind,
        key)."""

    @abstractmethod
    def pending_of(self, thread_id: str, namespace: str, kind: str, key: str) -> list[PendingRow]:
        """The records of this kind and key beside any checkpoint, newest first."""

    @abstractmethod
    def namespaces(self, thread_id: str, under: str = "") -> list[str]:
        """Those that begin with `under`, in order."""

    @abstractmethod
    def thread_ids(self, expired: bool = False) -> list[str]:
        """All threads, or those whose time has run out, in order."""

    @abstractmethod
    def value_keys(self, thread_id: str, namespace: str) -> list[tuple[str, str, int, int, str | None]]:
        """(channel, log, start, count, previous) of all value rows."""

    @abstractmethod
    def usage(self, thread_id: str) -> tuple[int, int, int, int]:
        """Rows of checkpoints, values and pending records without those that count the others, and the bytes of their
        bodies."""


class WriteTables(ReadTables):
    """What can be changed. All of it happens, or none."""

    @abstractmethod
    def put_thread(
        self, thread_id: str, namespace: str, head: str | None, epoch: int, ttl: float | None
    ) -> None:
        """Make or replace a thread's row; nobody owns it then. Its time runs out `ttl` seconds from now (None: by
        the saver's own)."""

    @abstractmethod
    def break_off(self, thread_id: str) -> None:
        """Note that the last run did not give the thread back, though its owner is gone: whoever claims it finds a
        holder without a lease."""

    @abstractmethod
    def move_head(self, thread_id: str, namespace: str, head: str | None) -> None:
        """Another head, and the epoch counted up. Whoever owned the thread, with a lease that has run out, does not
        any more: what it knows of the history may be gone."""

    @abstractmethod
    def put_checkpoints(self, thread_id: str, namespace: str, rows: Sequence[CheckpointRow]) -> None:
        """Make or replace rows."""

    @abstractmethod
    def put_values(self, thread_id: str, namespace: str, rows: Sequence[ValueRow]) -> None: ...

    @abstractmethod
    def put_pending(self, thread_id: str, namespace: str, rows: Sequence[PendingRow]) -> None: ...

    @abstractmethod
    def drop_checkpoints(self, thread_id: str, namespace: str, ids: Iterable[str]) -> None:
        """Remove checkpoints with the records beside them."""

    @abstractmethod
    def drop_values(self, thread_id: str, namespace: str, keys: Iterable[tuple[str, str, int]]) -> None:
        """Remove value rows by (channel, log, start)."""

    @abstractmethod
    def drop_namespace(self, thread_id: str, namespace: str) -> None: ...

    @abstractmethod
    def drop_thread(self, thread_id: str) -> None: ...
