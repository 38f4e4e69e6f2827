"""Checkpoints and writes from outside on their way into a thread, for `put` and `put_writes`.

Values become channels like any others, so that a graph can go on from them; everything else that LangGraph's
checkpoint has is kept in `work`. Checkpoint ids are the caller's, and so:

1. An id need not sort after its parent's, and may be put again. Such a checkpoint is always a *base*, which
   lists all versions, and the logs that it begins are named by id and epoch: a name never used before.
2. The head is the largest id, which is what LangGraph calls the latest.
3. A parent that does not sort before its child is only shown. Storage follows parents, and that must end.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, Final, NamedTuple

from graphkit_checkpoint import records
from graphkit_checkpoint.errors import UnstorableError
from graphkit_checkpoint.layout import CheckpointRow, Layout, Rows, listed
from graphkit_checkpoint.reading import Reader
from graphkit_checkpoint.records import Commit, Pending, Saved, ThreadState, Tip
from graphkit_checkpoint.serde import fingerprint
from graphkit_checkpoint.shapes import WRITES_IDX_MAP, Place
from graphkit_checkpoint.showing import (
    PUT,
    WRITE,
    is_internal,
    parent_of,
    put_with,
    stands_aside,
    values_of,
    versions_of,
)
from graphkit_checkpoint.tables import ReadTables, WriteTables
from graphkit_checkpoint.writing import encode

OVER: Final[Mapping[str, Any]] = {"next": [], "ran": []}
"""The engine's account at a checkpoint from outside: nothing runs next, so a graph can take a new input."""


class Seen(NamedTuple):
    """What a `put` finds. `head` is that of the namespace, `existing` has the same id."""

    thread: ThreadState | None
    head: str | None = None
    parent: Saved | None = None
    existing: CheckpointRow | None = None


class Given:
    """A checkpoint from outside."""

    def __init__(
        self,
        layout: Layout,
        place: Place,
        checkpoint: Mapping[str, Any],
        metadata: Mapping[str, Any],
        new_versions: Mapping[str, Any],
    ) -> None:
        self.layout = layout
        self.place = place[:2]
        self.id: str = checkpoint["id"]
        self.parent = place.checkpoint_id
        self.linked = self.parent if self.parent is not None and self.parent < self.id else None
        self.fields = {key: value for key, value in checkpoint.items() if key != "channel_values"}
        self.values: Mapping[str, Any] = checkpoint.get("channel_values") or {}
        versions: Mapping[str, Any] | None = checkpoint.get("channel_versions")
        self.versions = dict.fromkeys(self.values) if versions is None else versions
        self.new_versions = new_versions
        self.metadata = metadata

    def look(self, tables: ReadTables, thread: ThreadState | None) -> Seen:
        """What there is in the thread, which nobody owns."""
        if thread is None:
            return Seen(None)
        own = tables.thread(*self.place)
        parent = tables.checkpoint(*self.place, self.parent) if self.parent else None
        return Seen(
            thread,
            own.state.head if own else None,
            Reader(tables, self.layout, *self.place).saved(parent, thread) if parent else None,
            tables.checkpoint(*self.place, self.id),
        )

    def rows(self, seen: Seen) -> Rows:
        """The commit of a new checkpoint. Raises `UnserializableStateError` and `StateTooLargeError`."""
        changed, kept, aside = self._values(seen.parent)
        before = seen.parent.values if seen.parent else {}
        cleared = [name for name in before if name not in changed and name not in kept]
        tip = seen.parent.tip if seen.parent else Tip()
        tip.base = ""  # so that this one becomes a base
        return self._encoded(seen, tip, changed, cleared, aside)

    def replace(self, tables: WriteTables, seen: Seen) -> None:
        """Take the place of the checkpoint with this id. Raises what `rows` does, and `ValueError`."""
        assert seen.thread is not None and seen.existing is not None
        reader = Reader(tables, self.layout, *self.place)
        old = reader.saved(seen.existing, seen.thread)
        if put_with(old.checkpoint) is None:
            raise ValueError(
                f"checkpoint {self.id!r} of thread {self.place[0]!r} was made by a run of a graph and cannot be "
                f"replaced; put one with an id of its own"
            )
        changed, kept, aside = self._values(seen.parent)
        values = {**(seen.parent.values if seen.parent else {}), **changed}
        values = {name: value for name, value in values.items() if name in changed or name in kept}
        rows = self._encoded(seen, Tip(), values, (), aside)
        if self._print(values, aside) == _print_of(old):
            return
        children = [
            row for found in tables.recent(*self.place, None, None) for row in self._freed(reader, found)
        ]
        tables.put_values(*self.place, rows.values)
        tables.put_checkpoints(*self.place, [*children, *rows.checkpoints])
        tables.move_head(*self.place, rows.head)
        if self.place[1]:
            tables.move_head(self.place[0], "", seen.thread.head)  # its epoch is the one that claims compare

    def _values(self, parent: Saved | None) -> tuple[dict[str, Any], set[str], dict[str, Any]]:
        """Values that are stored with this checkpoint, channels whose value the parent has, values that stand aside."""
        before, older = (values_of(parent), versions_of(parent)) if parent else ({}, {})
        changed: dict[str, Any] = {}
        aside: dict[str, Any] = {}
        kept = {name for name in (parent.values if parent else ()) if is_internal(name)}
        for name, version in self.versions.items():
            known = name not in self.new_versions and name in before and older.get(name) == version
            values = before if known else self.values
            if known and not stands_aside(name):
                kept.add(name)
            elif name in values:
                (aside if stands_aside(name) else changed)[name] = values[name]
        return changed, kept, aside

    def _encoded(
        self,
        seen: Seen,
        tip: Tip,
        changed: Mapping[str, Any],
        cleared: Sequence[str],
        aside: Mapping[str, Any],
    ) -> Rows:
        epoch = seen.thread.epoch if seen.thread else 0
        put: dict[str, Any] = {"fields": self.fields, "aside": aside}
        if self.linked != self.parent:
            put["parent"] = self.parent
        point = records.Checkpoint(
            f"{self.id}~{epoch}",
            self.linked,
            self._step(),
            self._source(),
            _moment(self.fields.get("ts")),
            self.metadata,
            OVER,
            {PUT: put},
            changed,
            cleared,
        )
        # Nobody ever sees the token: the thread is given back at once.
        commit = Commit(*self.place, "", tip, True, seen.thread, True, (point,))
        try:
            rows = encode(self.layout, commit)
        except UnstorableError as error:
            raise self._explained(error) from error
        body = self.layout.open_checkpoint(*self.place, rows.checkpoints[0])
        key = (self.id, self.linked, self.id, point.step)
        rows.checkpoints = [self.layout.cover_checkpoint(*self.place, key, body)]
        rows.head = max(seen.head or "", self.id)
        return rows

    def _step(self) -> int:
        step = self.metadata.get("step")
        return step if type(step) is int and -1 <= step < 2**31 else 0

    def _source(self) -> str:
        source = self.metadata.get("source")
        return source if source in ("input", "loop", "update", "fork") else "update"

    def _freed(self, reader: Reader, row: CheckpointRow) -> Iterator[CheckpointRow]:
        """The row as a base of its own, if it was read from the one that is replaced."""
        body = reader.body(row)
        if row.parent_id == self.id and body.versions is None:
            key = (row.id, row.parent_id, row.id, row.step)
            versions = listed(reader.tip(row).versions)
            yield self.layout.cover_checkpoint(*self.place, key, body._replace(versions=versions))

    def _print(self, values: Mapping[str, Any], aside: Mapping[str, Any]) -> str:
        return _print(self.parent, self.metadata, self.fields, aside, values)

    def _explained(self, error: UnstorableError) -> UnstorableError:
        what = "fields and metadata" if error.channel is None else f"channel {error.channel!r}"
        return _named(error, f"put() of checkpoint {self.id!r} of thread {self.place[0]!r}, {what}")


def _print_of(saved: Saved) -> str:
    point, put = saved.checkpoint, put_with(saved.checkpoint) or {}
    return _print(parent_of(point), point.metadata, put["fields"], put["aside"], saved.values)


def _print(parent: str | None, metadata: Any, fields: Any, aside: Any, values: Mapping[str, Any]) -> str:
    return fingerprint([parent, metadata, fields, aside, sorted(values.items(), key=itemgetter(0))])


def _moment(ts: Any) -> float:
    """Unix seconds; now, if it is no ISO 8601 date."""
    try:
        moment = datetime.fromisoformat(ts)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (TypeError, ValueError, OverflowError):
        return time.time()


def _named(error: UnstorableError, where: str) -> UnstorableError:
    named = type(error)(f"{where}: {error}")
    vars(named).update(vars(error))
    return named


class GivenWrites:
    """Writes from outside beside a checkpoint, which may come later."""

    def __init__(
        self, layout: Layout, place: Place, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> None:
        self.layout = layout
        self.thread_id, self.namespace, at = place
        self.at = at or ""
        self.task_id = task_id
        self.records: dict[str, Pending] = {}
        for index, (channel, value) in enumerate(writes):
            key = str(WRITES_IDX_MAP.get(channel, index))
            self.records[key] = Pending(task_id, WRITE, key, [channel, value, task_path])

    def rows(self, tables: ReadTables, thread: ThreadState | None) -> Rows | None:
        """The commit of those that are not there already, None if all are. Raises `UnserializableStateError`."""
        beside = Reader(tables, self.layout, self.thread_id, self.namespace).beside(self.at)
        fresh = [
            record
            for key, record in self.records.items()
            if int(key) < 0 or (self.task_id, WRITE, key) not in beside
        ]
        if not fresh:
            return None
        tip = Tip(at=self.at, beside=beside)
        commit = Commit(
            self.thread_id, self.namespace, "", tip, True, thread, True, at=self.at, pending=fresh
        )
        try:
            return encode(self.layout, commit)
        except UnstorableError as error:
            key = error.record[1] if error.record else ""
            channel = self.records[key].value[0]
            where = f"put_writes() of task {self.task_id!r} in thread {self.thread_id!r}, channel {channel!r}"
            raise _named(error, where) from error
