"""`InMemorySaver`: threads in this process, stored in the same form as in a database."""

from __future__ import annotations

import bisect
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Unpack

from graphkit_checkpoint.admission import conflict, current, lost
from graphkit_checkpoint.base import BaseCheckpointSaver, SaverOptions
from graphkit_checkpoint.errors import StorageUnavailableError
from graphkit_checkpoint.layout import CheckpointRow, Fold, PendingRow, Rows, ValueRow
from graphkit_checkpoint.ownership import NOBODY, Holder
from graphkit_checkpoint.records import COUNT, Commit, ThreadState
from graphkit_checkpoint.tables import ThreadRow, WriteTables


@dataclass(slots=True)
class _Namespace:
    head: str | None = None
    checkpoints: dict[str, CheckpointRow] = field(default_factory=dict)
    logs: dict[tuple[str, str], list[ValueRow]] = field(default_factory=dict)
    pending: dict[str, dict[tuple[str, str, str], PendingRow]] = field(default_factory=dict)


@dataclass(slots=True)
class _Thread:
    epoch: int = 0
    holder: Holder | None = None
    ttl: float | None = None
    expiry: float | None = None
    namespaces: dict[str, _Namespace] = field(default_factory=dict)


class InMemorySaver(BaseCheckpointSaver):
    """Keeps threads in memory; they end with the process. For tests and for work that need not survive.

    Values are stored serialized, as in a database, so what one run keeps is never changed by another. Takes
    the options of `BaseCheckpointSaver`; `clock` is what time to live is counted by, in seconds.
    """

    blocking = False

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, **options: Unpack[SaverOptions]
    ) -> None:
        super().__init__(**options)
        self._tables = MemoryTables(self, clock)
        self._lock = threading.RLock()
        self._locked = _Locked(self)
        self._closed = False

    def close(self) -> None:
        super().close()
        self._closed = True

    def reading(self) -> AbstractContextManager[MemoryTables]:
        return self._locked

    def check_open(self) -> None:
        """Raise `StorageUnavailableError` if the saver is closed."""
        if self._closed:
            raise StorageUnavailableError(
                f"this {type(self).__name__} is closed; its threads can be reached no more"
            )

    writing = reading  # nothing here can fail halfway: what may raise comes before the first change

    def write(self, rows: Rows) -> None:
        with self._lock:
            if self._closed:
                self.check_open()
            self._tables.apply(rows)

    def renew(self, thread_id: str, token: str) -> None:
        """Nothing to do: only this process knows of the claim, and it knows whether the run lives."""


MemorySaver = InMemorySaver
"""Its older name, which LangGraph has kept."""


class _Locked:
    """The tables of a saver while its lock is held. It has no state of its own, so one serves all."""

    def __init__(self, saver: InMemorySaver) -> None:
        self._saver = saver

    def __enter__(self) -> MemoryTables:
        saver = self._saver
        saver._lock.acquire()
        if saver._closed:
            saver._lock.release()
            saver.check_open()
        return saver._tables

    def __exit__(self, *error: object) -> None:
        self._saver._lock.release()


class MemoryTables(WriteTables):
    """The tables as dicts. Only used under the saver's lock."""

    def __init__(self, saver: InMemorySaver, clock: Callable[[], float]) -> None:
        self.saver = saver
        self.clock = clock
        self.threads: dict[str, _Thread] = {}

    def apply(self, rows: Rows) -> None:
        self.admit(rows)
        self.store(rows)

    def store(self, rows: Rows) -> None:
        """Keep what an admitted commit wrote."""
        stored = self.threads[rows.thread_id].namespaces.get(rows.namespace) or self.namespace(rows)
        if rows.head is not None:
            stored.head = rows.head
            for row in rows.checkpoints:
                stored.checkpoints[row.id] = row
            for value in rows.values:
                stored.logs.setdefault((value.channel, value.log), []).append(value)
            for fold in rows.folds:
                _fold(stored.logs[fold.channel, fold.log], fold)
        for at, task_id, kind, key in rows.forget:
            stored.pending.get(at, {}).pop((task_id, kind, key), None)
        for record in rows.pending:
            stored.pending.setdefault(record.checkpoint_id, {})[record[1:4]] = record

    def namespace(self, rows: Rows | Commit) -> _Namespace:
        """Where an admitted commit writes to."""
        namespaces = self.threads[rows.thread_id].namespaces
        stored = namespaces.get(rows.namespace)
        if stored is None:
            stored = namespaces[rows.namespace] = _Namespace()
        return stored

    def admit(self, rows: Rows | Commit) -> _Thread:
        """The thread, claimed as `rows` says and counted on; raises if it may not write."""
        thread = self.threads.get(rows.thread_id)
        holder = None if thread is None else thread.holder
        if rows.claims:
            row = current(self.thread(rows.thread_id))
            seen = rows.acquire
            if (row.state.epoch if row else None) != (seen.epoch if seen else None):
                raise conflict(rows.thread_id, holder)
            if thread is None or row is None:
                thread = self.threads[rows.thread_id] = _Thread(namespaces={"": _Namespace()})
            thread.holder = Holder(rows.token, time.time(), math.inf)
        elif thread is None or holder is None or holder.token != rows.token:
            raise lost(rows.thread_id, rows.token, holder)
        if rows.release:
            thread.holder = None
        thread.epoch += 1
        if thread.ttl is not None or self.saver.ttl is not None:
            thread.expiry = self._expiry(thread.ttl)
        return thread

    def _expiry(self, ttl: float | None) -> float | None:
        ttl = self.saver.ttl if ttl is None else ttl
        return None if ttl is None else self.clock() + ttl

    # Reading

    def _stored(self, thread_id: str, namespace: str) -> _Namespace:
        thread = self.threads.get(thread_id)
        return (thread.namespaces.get(namespace) if thread else None) or _Namespace()

    def thread(self, thread_id: str, namespace: str = "") -> ThreadRow | None:
        thread = self.threads.get(thread_id)
        stored = thread.namespaces.get(namespace) if thread else None
        if thread is None or stored is None:
            return None
        expired = thread.expiry is not None and self.clock() >= thread.expiry
        return ThreadRow(ThreadState(stored.head, thread.epoch, thread.holder), expired, thread.ttl)

    def checkpoint(self, thread_id: str, namespace: str, checkpoint_id: str) -> CheckpointRow | None:
        return self._stored(thread_id, namespace).checkpoints.get(checkpoint_id)

    def chain(self, thread_id: str, namespace: str, first: str, last: str) -> list[CheckpointRow]:
        stored = self._stored(thread_id, namespace).checkpoints
        found: list[CheckpointRow] = []
        row = stored.get(last)
        while row is not None and row.id >= first:
            found.append(row)
            row = stored.get(row.parent_id or "") if row.id != first else None
        return found

    def recent(
        self, thread_id: str, namespace: str, before: str | None, limit: int | None
    ) -> list[CheckpointRow]:
        stored = self._stored(thread_id, namespace).checkpoints
        ids = sorted((key for key in stored if before is None or key < before), reverse=True)
        return [stored[key] for key in ids[:limit]]

    def values(
        self, thread_id: str, namespace: str, channel: str, log: str, upto: int | None
    ) -> list[ValueRow]:
        rows = self._stored(thread_id, namespace).logs.get((channel, log), [])
        return [row for row in rows if upto is None or row.start <= upto]

    def pending(
        self, thread_id: str, namespace: str, checkpoint_id: str, upto: str | None = None
    ) -> list[PendingRow]:
        stored = self._stored(thread_id, namespace).pending
        ids = (
            [checkpoint_id] if upto is None else sorted(key for key in stored if checkpoint_id <= key <= upto)
        )
        return [row for at in ids for _, row in sorted(stored.get(at, {}).items())]

    def pending_of(self, thread_id: str, namespace: str, kind: str, key: str) -> list[PendingRow]:
        stored = self._stored(thread_id, namespace).pending
        return [
            row
            for checkpoint_id in sorted(stored, reverse=True)
            for row in stored[checkpoint_id].values()
            if row.kind == kind and row.key == key
        ]

    def namespaces(self, thread_id: str, under: str = "") -> list[str]:
        thread = self.threads.get(thread_id)
        return sorted(name for name in thread.namespaces if name.startswith(under)) if thread else []

    def thread_ids(self, expired: bool = False) -> list[str]:
        now = self.clock()
        return sorted(
            thread_id
            for thread_id, thread in self.threads.items()
            if (thread.expiry is not None and now >= thread.expiry) == expired
        )

    def value_keys(self, thread_id: str, namespace: str) -> list[tuple[str, str, int, int, str | None]]:
        logs = self._stored(thread_id, namespace).logs.values()
        return sorted(
            ((row.channel, row.log, row.start, row.length, row.previous) for rows in logs for row in rows),
            key=lambda key: key[:3],
        )

    def usage(self, thread_id: str) -> tuple[int, int, int, int]:
        thread = self.threads.get(thread_id)
        parts = list(thread.namespaces.values()) if thread else []
        checkpoints = [row for part in parts for row in part.checkpoints.values()]
        values = [row for part in parts for rows in part.logs.values() for row in rows]
        pending = [
            row
            for part in parts
            for rows in part.pending.values()
            for row in rows.values()
            if row.kind != COUNT
        ]
        bodies = [
            [row.body for row in checkpoints],
            [row.body for row in values],
            [row.body for row in pending],
        ]
        size = sum(len(body) for part in bodies for body in part)
        return len(checkpoints), len(values), len(pending), size

    # Writing

    def put_thread(
        self, thread_id: str, namespace: str, head: str | None, epoch: int, ttl: float | None
    ) -> None:
        thread = self.threads.setdefault(thread_id, _Thread())
        thread.namespaces.setdefault(namespace, _Namespace()).head = head
        if not namespace:
            thread.epoch, thread.holder, thread.ttl, thread.expiry = epoch, None, ttl, self._expiry(ttl)

    def break_off(self, thread_id: str) -> None:
        self.threads[thread_id].holder = Holder(NOBODY, time.time(), 0.0)

    def move_head(self, thread_id: str, namespace: str, head: str | None) -> None:
        thread = self.threads[thread_id]
        thread.namespaces[namespace].head = head
        thread.epoch, thread.holder = thread.epoch + 1, None

    def put_checkpoints(self, thread_id: str, namespace: str, rows: Sequence[CheckpointRow]) -> None:
        self._kept(thread_id, namespace).checkpoints.update((row.id, row) for row in rows)

    def put_values(self, thread_id: str, namespace: str, rows: Sequence[ValueRow]) -> None:
        logs = self._kept(thread_id, namespace).logs
        for row in rows:
            logs.setdefault((row.channel, row.log), []).append(row)

    def put_pending(self, thread_id: str, namespace: str, rows: Sequence[PendingRow]) -> None:
        stored = self._kept(thread_id, namespace).pending
        for row in rows:
            stored.setdefault(row.checkpoint_id, {})[row[1:4]] = row

    def drop_checkpoints(self, thread_id: str, namespace: str, ids: Iterable[str]) -> None:
        stored = self._kept(thread_id, namespace)
        for checkpoint_id in ids:
            stored.checkpoints.pop(checkpoint_id, None)
            stored.pending.pop(checkpoint_id, None)

    def drop_values(self, thread_id: str, namespace: str, keys: Iterable[tuple[str, str, int]]) -> None:
        logs = self._kept(thread_id, namespace).logs
        for channel, log, start in keys:
            left = [row for row in logs[channel, log] if row.start != start]
            if left:
                logs[channel, log] = left
            else:
                del logs[channel, log]

    def drop_namespace(self, thread_id: str, namespace: str) -> None:
        self.threads[thread_id].namespaces.pop(namespace, None)

    def drop_thread(self, thread_id: str) -> None:
        self.threads.pop(thread_id, None)

    def _kept(self, thread_id: str, namespace: str) -> _Namespace:
        return self.threads[thread_id].namespaces[namespace]


def _fold(rows: list[ValueRow], fold: Fold) -> None:
    first = bisect.bisect_left(rows, fold.start, key=lambda row: row.start)
    end = bisect.bisect_right(rows, fold.last, key=lambda row: row.start)
    rows[first:end] = [
        ValueRow(fold.channel, fold.log, fold.start, fold.length, fold.kind, None, fold.body, fold.checksum)
    ]
