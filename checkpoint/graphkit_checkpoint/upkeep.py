"""What is done to stored threads as a whole: copying, and removing part of a history.

Removing a checkpoint must not take away what others are read from. So checkpoints that are left and build on
a removed one are written again as bases, their parent becomes the nearest one that is left, and only those
rows of values go that no checkpoint sees any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from graphkit_checkpoint.layout import CheckpointRow, Layout
from graphkit_checkpoint.reading import Reader, spans
from graphkit_checkpoint.records import SCALAR, Version
from graphkit_checkpoint.tables import ReadTables, WriteTables

Used = dict[tuple[str, str], int]
"""How much of each log (channel, log) is seen: a number of items, `SCALAR` for a value."""


def copy(tables: WriteTables, layout: Layout, source: str, target: str) -> None:
    """Write every row of a thread again under another id."""
    for namespace in tables.namespaces(source):
        row = tables.thread(source, namespace)
        assert row is not None
        checkpoints = tables.recent(source, namespace, None, None)
        tables.put_thread(target, namespace, row.state.head, row.state.epoch, row.ttl)
        tables.put_checkpoints(
            target,
            namespace,
            [
                layout.cover_checkpoint(
                    target, namespace, found[:4], layout.open_checkpoint(source, namespace, found)
                )
                for found in checkpoints
            ],
        )
        for channel, log in dict.fromkeys((key[0], key[1]) for key in tables.value_keys(source, namespace)):
            values = [
                layout.cover_value(
                    target, namespace, value[:6], layout.open_value(source, namespace, log, value)
                )
                for value in tables.values(source, namespace, channel, log, None)
            ]
            tables.put_values(target, namespace, values)
        for found in checkpoints:
            pending = [
                layout.cover_pending(
                    target, namespace, record[:4], layout.uncover_pending(source, namespace, record)
                )
                for record in tables.pending(source, namespace, found.id)
            ]
            tables.put_pending(target, namespace, pending)


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
            if str(reader.metadata(reader.body(row)).get("run_id")) in run_ids
        }
    return found


def remove(tables: WriteTables, layout: Layout, thread_id: str, doomed: Mapping[str, set[str]]) -> int:
    """Remove checkpoints, given by namespace, and what only they need. Returns how many there were."""
    for namespace, ids in doomed.items():
        if ids:
            _Removal(tables, layout, thread_id, namespace, ids).remove()
    root = tables.thread(thread_id)
    if root is not None and root.state.head is None:
        tables.drop_thread(thread_id)
    return sum(map(len, doomed.values()))


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
        tables.drop_values(*place, self._unused(kept))
        tables.put_checkpoints(*place, [row for old in kept for row in self._rewritten(old)])
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
            self.thread_id, self.namespace, key, body._replace(versions=dict(versions))
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
