"""What is done to stored threads as a whole: copying, and removing part of a history.

Removing a checkpoint must not take away what others are read from. So checkpoints that are left and build on
a removed one are written again as bases, their parent becomes the nearest one that is left, and only those
rows of values go that no checkpoint sees any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from graphkit_checkpoint.layout import CheckpointRow, Layout, PendingRow, ValueRow, listed
from graphkit_checkpoint.reading import Reader, spans
from graphkit_checkpoint.records import SCALAR, Version
from graphkit_checkpoint.tables import ReadTables, ThreadRow, WriteTables

LAST_ID: Final = "\U0010ffff"
"""Sorts after every id. Records may be beside a checkpoint that is still to come."""

Used = dict[tuple[str, str], int]
"""How much of each log (channel, log) is seen: a number of items, `SCALAR` for a value."""


class _Part(NamedTuple):
    """A namespace of a thread, as it is written for another one."""

    namespace: str
    thread: ThreadRow
    checkpoints: list[CheckpointRow]
    values: list[ValueRow]
    pending: list[PendingRow]


def copy(tables: WriteTables, layout: Layout, source: str, target: str) -> None:
    """Write every row of a thread again under another id. What is damaged is found before the first is written."""
    parts = [_copied(tables, layout, source, target, namespace) for namespace in tables.namespaces(source)]
    for part in parts:
        place, row = (target, part.namespace), part.thread
        tables.put_thread(*place, row.state.head, row.state.epoch, row.ttl)
        tables.put_checkpoints(*place, part.checkpoints)
        tables.put_values(*place, part.values)
        tables.put_pending(*place, part.pending)


def _copied(tables: ReadTables, layout: Layout, source: str, target: str, namespace: str) -> _Part:
    row = tables.thread(source, namespace)
    assert row is not None
    old, new = (source, namespace), (target, namespace)
    checkpoints = tables.recent(*old, None, None)
    return _Part(
        namespace,
        row,
        [
            layout.cover_checkpoint(*new, found[:4], layout.open_checkpoint(*old, found))
            for found in checkpoints
        ],
        [
            layout.cover_value(*new, value[:6], layout.open_value(*old, log, value))
            for channel, log in dict.fromkeys((key[0], key[1]) for key in tables.value_keys(*old))
            for value in tables.values(*old, channel, log, None)
        ],
        [
            layout.cover_pending(*new, record[:4], layout.uncover_pending(*old, record))
            for record in tables.pending(*old, "", LAST_ID)
        ],
    )


def prune(
    tables: WriteTables, layout: Layout, thread_id: str, keep_last: int | None, kept_since: float | None
) -> int:
    """Remove what neither rule keeps; heads stay. Returns the number of checkpoints removed."""
    doomed: dict[str, set[str]] = {}
    for namespace in tables.namespaces(thread_id):
        thread = tables.thread(thread_id, namespace)
        reader = Reader(tables, layout, thread_id, namespace)
        doomed[namespace] = {
            row.id
            for index, row in enumerate(tables.recent(thread_id, namespace, None, None))
            if (keep_last is None or index >= keep_last)
            and (kept_since is None or reader.body(row).created_at < kept_since)
            and not (thread and row.id == thread.state.head)
        }
    return remove(tables, layout, thread_id, doomed)


def made_by(
    tables: ReadTables, layout: Layout, thread_id: str, run_ids: frozenset[str]
) -> dict[str, set[str]]:
    """The checkpoints that these runs made, by namespace."""
    found: dict[str, set[str]] = {}
    for namespace in tables.namespaces(thread_id):
        reader = Reader(tables, layout, thread_id, namespace)
        found[namespace] = {
            row.id
            for row in tables.recent(thread_id, namespace, None, None)
            if _has_run(reader.metadata(reader.body(row)), run_ids)
        }
    return found


def _has_run(metadata: Mapping[str, object], run_ids: frozenset[str]) -> bool:
    run_id = metadata.get("run_id")
    return run_id is not None and str(run_id) in run_ids


def remove(tables: WriteTables, layout: Layout, thread_id: str, doomed: Mapping[str, set[str]]) -> int:
    """Remove checkpoints, given by namespace, and what only they need. Returns how many there were."""
    for namespace, ids in doomed.items():
        if ids:
            _Removal(tables, layout, thread_id, namespace, ids).remove()
    count = sum(map(len, doomed.values()))
    root = tables.thread(thread_id)
    if root is None or not count:
        return count
    namespaces = tables.namespaces(thread_id)
    # Without a head at the root there may still be namespaces that were put from outside.
    lost_head = root.state.head is None and bool(doomed.get(""))
    if lost_head or not any(tables.recent(thread_id, namespace, None, 1) for namespace in namespaces):
        tables.drop_thread(thread_id)
    else:
        tables.move_head(thread_id, "", root.state.head)  # its epoch is the one that claims compare
    return count


class _Removal:
    """Part of one namespace's history on its way out."""

    def __init__(
        self, tables: WriteTables, layout: Layout, thread_id: str, namespace: str, doomed: set[str]
    ) -> None:
        self.tables = tables
        self.layout = layout
        self.thread_id = thread_id
        self.namespace = namespace
        self.doomed = doomed
        self.reader = Reader(tables, layout, thread_id, namespace)
        self.rows = {row.id: row for row in reversed(tables.recent(thread_id, namespace, None, None))}

    def remove(self) -> None:
        tables, place = self.tables, (self.thread_id, self.namespace)
        thread = tables.thread(*place)
        kept = [row for row in self.rows.values() if row.id not in self.doomed]
        if not kept:
            if self.namespace:
                tables.drop_namespace(*place)
            else:
                tables.drop_checkpoints(*place, self.doomed)
                tables.move_head(*place, None)
            return
        unused, rewritten = self._unused(kept), [row for old in kept for row in self._rewritten(old)]
        tables.drop_values(*place, unused)
        tables.put_checkpoints(*place, rewritten)
        tables.drop_checkpoints(*place, self.doomed)
        head = thread.state.head if thread else None
        tables.move_head(*place, self._survivor(head) or kept[-1].id)

    def _survivor(self, checkpoint_id: str | None) -> str | None:
        """The checkpoint itself, or the nearest before it on its branch, that is left."""
        while checkpoint_id is not None and checkpoint_id in self.doomed:
            checkpoint_id = self.rows[checkpoint_id].parent_id
        return checkpoint_id if checkpoint_id in self.rows else None

    def _rewritten(self, row: CheckpointRow) -> Iterable[CheckpointRow]:
        """The row as a base of its own, if it was read from a row that goes."""
        if row.parent_id not in self.doomed:
            return
        body = self.reader.body(row)
        versions = self.reader.tip(row).versions
        key = (row.id, self._survivor(row.parent_id), row.id, row.step)
        yield self.layout.cover_checkpoint(
            self.thread_id, self.namespace, key, body._replace(versions=listed(versions))
        )

    def _unused(self, kept: Iterable[CheckpointRow]) -> list[tuple[str, str, int]]:
        keys = self.tables.value_keys(self.thread_id, self.namespace)
        used = self._used(kept)
        older = {
            (channel, log): (previous, start)
            for channel, log, start, _, previous in keys
            if previous is not None
        }
        waiting = list(used)
        while waiting:
            key = waiting.pop()
            if key in older:
                previous, length = older[key]
                _use(used, key[0], Version(previous, length))
                waiting.append((key[0], previous))
        return [
            (channel, log, start)
            for channel, log, start, _, _ in keys
            if (channel, log) not in used or start >= max(used[channel, log], 1)
        ]

    def _used(self, kept: Iterable[CheckpointRow]) -> Used:
        used: Used = {}
        for row in kept:
            for channel, version in self.reader.tip(row).versions.items():
                _use(used, channel, version)
            for channel, version in spans(self.reader.body(row)):
                _use(used, channel, version)
        return used


def _use(used: Used, channel: str, version: Version) -> None:
    key = (channel, version.log)
    used[key] = max(used.get(key, SCALAR), version.length)
