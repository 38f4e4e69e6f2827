"""`InMemorySaver`: threads in this process, stored in the same form as in a database."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from graphkit_checkpoint.base import BaseCheckpointSaver, conflict, lost, refuse_busy
from graphkit_checkpoint.layout import (
    CheckpointRow,
    PendingRow,
    Rows,
    ValueRow,
    corrupt,
    open_checkpoint,
    open_pending,
    open_value,
    resolve_tip,
    to_checkpoint,
)
from graphkit_checkpoint.records import Pending, Saved, ThreadState


@dataclass(slots=True)
class _Namespace:
    head: str | None = None
    checkpoints: dict[str, CheckpointRow] = field(default_factory=dict)
    values: dict[tuple[str, str], ValueRow] = field(default_factory=dict)
    pending: dict[str, dict[tuple[str, str, str], PendingRow]] = field(default_factory=dict)


@dataclass(slots=True)
class _Thread:
    state: ThreadState
    namespaces: dict[str, _Namespace] = field(default_factory=dict)


class InMemorySaver(BaseCheckpointSaver):
    """Keeps threads in memory; they end with the process. For tests and for work that need not survive.

    Values are stored serialized, as in a database, so what one run keeps is never changed by another.
    """

    blocking = False

    def __init__(self) -> None:
        super().__init__()
        self._threads: dict[str, _Thread] = {}
        self._lock = threading.Lock()

    def find(
        self, thread_id: str, namespace: str = "", checkpoint_id: str | None = None
    ) -> tuple[ThreadState | None, Saved | None]:
        with self._lock:
            thread = self._threads.get(thread_id)
            if thread is None:
                return None, None
            state, stored = _copy(thread.state), thread.namespaces.get(namespace)
            row = stored.checkpoints.get(checkpoint_id or stored.head or "") if stored else None
            if stored is None or row is None:
                return state, None
            return state, _open(thread_id, namespace, state, stored, row)

    def checkpoint_ids(self, thread_id: str, namespace: str = "") -> list[str]:
        with self._lock:
            thread = self._threads.get(thread_id)
            stored = thread.namespaces.get(namespace) if thread else None
            return sorted(stored.checkpoints, reverse=True) if stored else []

    def find_pending(self, thread_id: str, kind: str, key: str) -> list[Pending]:
        with self._lock:
            thread = self._threads.get(thread_id)
            stored = thread.namespaces.get("") if thread else None
            if stored is None:
                return []
            return [
                open_pending(thread_id, "", row)
                for checkpoint_id in sorted(stored.pending, reverse=True)
                for row in stored.pending[checkpoint_id].values()
                if row.kind == kind and row.key == key
            ]

    def delete_thread(self, thread_id: str) -> None:
        with self._lock:
            thread = self._threads.get(thread_id)
            refuse_busy(thread_id, thread.state.holder if thread else None)
            self._threads.pop(thread_id, None)

    def write(self, rows: Rows) -> None:
        with self._lock:
            thread = self._admit(rows)
            stored = thread.namespaces.get(rows.namespace)
            if stored is None:
                stored = thread.namespaces[rows.namespace] = _Namespace()
            if rows.head is not None:
                stored.head = rows.head
                for row in rows.checkpoints:
                    stored.checkpoints[row.id] = row
                for value in rows.values:
                    stored.values[value.channel, value.version] = value
            for record in rows.pending:
                stored.pending.setdefault(record.checkpoint_id, {})[record[1:4]] = record
            for at, *key in rows.forget:
                stored.pending.get(at, {}).pop((key[0], key[1], key[2]), None)
            thread.state.epoch += 1
            if rows.head is not None and not rows.namespace:
                thread.state.head = rows.head

    def _admit(self, rows: Rows) -> _Thread:
        """The thread, claimed as `rows` says; raises if it may not write."""
        thread = self._threads.get(rows.thread_id)
        if rows.claims:
            seen = rows.acquire
            state = thread.state if thread else None
            if (state is None) != (seen is None) or (
                state and seen and (state.epoch, state.holder) != (seen.epoch, seen.holder)
            ):
                raise conflict(rows.thread_id, state.holder if state else None)
            if thread is None:
                thread = self._threads[rows.thread_id] = _Thread(ThreadState(None, 0, None))
        elif thread is None or thread.state.holder is None or thread.state.holder.token != rows.holder.token:
            raise lost(rows.thread_id, rows.holder.token, thread.state.holder if thread else None)
        thread.state.holder = None if rows.release else rows.holder
        return thread


def _copy(state: ThreadState) -> ThreadState:
    return ThreadState(state.head, state.epoch, state.holder)


def _open(
    thread_id: str, namespace: str, state: ThreadState, stored: _Namespace, row: CheckpointRow
) -> Saved:
    bodies = {}
    current: CheckpointRow | None = row
    while current is not None:
        body = open_checkpoint(thread_id, namespace, current)
        bodies[current.id] = (current.parent_id, body)
        if body.versions is not None:
            break
        current = stored.checkpoints.get(current.parent_id or "")
    tip = resolve_tip(thread_id, row, bodies)
    values = {}
    for channel, version in tip.versions.items():
        value = stored.values.get((channel, version))
        if value is None:
            raise corrupt(thread_id, row.id, f"version {version} of channel {channel!r} is missing")
        values[channel] = open_value(thread_id, namespace, row.id, value)
    pending = [
        open_pending(thread_id, namespace, record)
        for _, record in sorted(stored.pending.get(row.id, {}).items())
    ]
    return Saved(state, to_checkpoint(row, bodies[row.id][1]), values, pending, tip)
