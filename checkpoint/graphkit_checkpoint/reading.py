"""Checkpoints out of their rows. What several checkpoints share is read and decoded once.

So checkpoints read together share the items of their lists, as successive states of a run do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

from graphkit_checkpoint.errors import UnknownTypeError
from graphkit_checkpoint.layout import (
    LIST,
    LOOSE_BYTES,
    MAP,
    PLAIN,
    SEGMENT,
    CheckpointBody,
    CheckpointRow,
    Layout,
    PendingRow,
    ValueRow,
    corrupt,
)
from graphkit_checkpoint.records import (
    COUNT,
    SCALAR,
    Checkpoint,
    Digest,
    Growth,
    Name,
    Pending,
    Saved,
    ThreadState,
    Tip,
    Version,
    version_of,
)
from graphkit_checkpoint.serde import unpack, unpack_items
from graphkit_checkpoint.tables import ReadTables


class _Log(NamedTuple):
    """The part of a log that was read. `items` are those of a list, or keys and values of a dict in turn."""

    length: int
    items: list[Any]
    growth: Growth


class Reader:
    """Reads checkpoints of one namespace in one transaction. `near` are rows of them that are known already."""

    def __init__(
        self,
        tables: ReadTables,
        layout: Layout,
        thread_id: str,
        namespace: str,
        near: Iterable[CheckpointRow] = (),
    ) -> None:
        self.tables = tables
        self.layout = layout
        self.thread_id = thread_id
        self.namespace = namespace
        self._near = {row.id: row for row in near}
        self._bodies: dict[str, CheckpointBody] = {}
        self._logs: dict[tuple[str, str], _Log] = {}
        self._values: dict[tuple[str, str], Any] = {}
        self._pending: dict[str, list[PendingRow]] = {}
        self._wanted: set[str] = set()
        self._seen: dict[str, Tip] = {}

    def saved(self, row: CheckpointRow, thread: ThreadState) -> Saved:
        """The checkpoint of a row, complete. Raises `CheckpointCorruptError`, `UnknownTypeError`."""
        body = self.body(row)
        tip = self.tip(row)
        try:
            values = {
                channel: self._value(channel, version, row.id, tip)
                for channel, version in tip.versions.items()
            }
            pending = self.pending(row.id)
            tip.at, tip.beside = row.id, _names(pending)
            return Saved(thread, self.checkpoint(row, body), values, pending, tip)
        except UnknownTypeError as error:
            error.add_note(f"in checkpoint {row.id!r} of thread {self.thread_id!r}")
            raise

    def look_ahead(self, rows: Sequence[CheckpointRow]) -> None:
        """Read at once what all these checkpoints need: their pending records, and the rows that they build on."""
        if len(rows) > 1:
            ids = [row.id for row in rows]
            self._wanted = set(ids)
            self._pending = {checkpoint_id: [] for checkpoint_id in ids}
            for record in self.tables.pending(self.thread_id, self.namespace, min(ids), max(ids)):
                self._pending.setdefault(record.checkpoint_id, []).append(record)
            oldest = min(rows)
            if oldest.base_id != oldest.id:
                for row in self.tables.chain(self.thread_id, self.namespace, oldest.base_id, oldest.id):
                    self._near[row.id] = row
            self._near.update((row.id, row) for row in rows)

    def pending(self, checkpoint_id: str) -> list[Pending]:
        """The records beside a checkpoint. Raises `CheckpointCorruptError`, also if one is missing."""
        rows = self._pending.get(checkpoint_id)
        if rows is None:
            rows = self.tables.pending(self.thread_id, self.namespace, checkpoint_id)
        records = [self.layout.open_pending(self.thread_id, self.namespace, row) for row in rows]
        for index, record in enumerate(records):
            if record.kind == COUNT:  # one of the first, since it names no task
                del records[index]
                if record.value != len(records):
                    problem = f"it has {len(records)} records beside it that can be found, of {record.value}"
                    raise corrupt(self.thread_id, checkpoint_id, problem)
                break
        return records

    def beside(self, checkpoint_id: str) -> set[Name]:
        """The names of the records beside a checkpoint. Raises as `pending` does."""
        return _names(self.pending(checkpoint_id))

    def body(self, row: CheckpointRow) -> CheckpointBody:
        found = self._bodies.get(row.id)
        if found is None:
            found = self._bodies[row.id] = self.layout.open_checkpoint(self.thread_id, self.namespace, row)
        return found

    def checkpoint(self, row: CheckpointRow, body: CheckpointBody) -> Checkpoint:
        """The record of a row; `changed` is left empty, `Saved.values` has the state."""
        return Checkpoint(
            row.id,
            row.parent_id,
            row.step,
            body.source,
            body.created_at,
            self.metadata(body),
            body.control,
            unpack(body.work) if body.work else None,
            given=None if body.given is None else [self._given(entry, row.id) for entry in body.given],
        )

    def metadata(self, body: CheckpointBody) -> dict[str, Any]:
        metadata: dict[str, Any] = unpack(body.metadata) if body.metadata else {}
        return metadata

    # Which versions a checkpoint sees

    def tip(self, row: CheckpointRow) -> Tip:
        passed = self._seen.pop(row.id, None)
        if passed is not None:
            return passed
        chain: list[tuple[str, CheckpointBody]] = []
        current: CheckpointRow | None = row
        while current is not None:
            body = self.body(current)
            chain.append((current.id, body))
            if body.versions is not None:
                return self._replayed(chain, row)
            current = self._parent(current, row)
        raise corrupt(self.thread_id, row.id, "a checkpoint that it builds on is missing")

    def _parent(self, row: CheckpointRow, target: CheckpointRow) -> CheckpointRow | None:
        if row.parent_id not in self._near and row.parent_id is not None and row.parent_id >= target.base_id:
            # Other branches may come with it; they are passed over.
            for other in self.tables.chain(self.thread_id, self.namespace, target.base_id, row.parent_id):
                self._near[other.id] = other
        return self._near.get(row.parent_id or "")

    def _replayed(self, chain: list[tuple[str, CheckpointBody]], row: CheckpointRow) -> Tip:
        """Where a checkpoint stands, by the changes on the way to it from its base; the way to another one that is
        wanted is not gone again."""
        base_id, base = chain.pop()
        versions = {channel: Version(*version) for channel, version in (base.versions or {}).items()}
        tip = Tip(versions, base_id)
        for checkpoint_id, body in reversed(chain):
            for channel, entry in body.changed.items():
                versions[channel] = self._version(channel, entry, checkpoint_id, versions, row)
            for channel in body.cleared:
                versions.pop(channel, None)
            tip.weight += 1 + len(body.changed) + len(body.cleared)
            if checkpoint_id in self._wanted and checkpoint_id != row.id:
                self._seen[checkpoint_id] = Tip(dict(versions), base_id, tip.weight)
        return tip

    def _version(
        self,
        channel: str,
        entry: int | bytes | None,
        checkpoint_id: str,
        versions: dict[str, Version],
        row: CheckpointRow,
    ) -> Version:
        if not isinstance(entry, int):
            return version_of((checkpoint_id, SCALAR, entry))
        if entry >= 0:
            return Version(checkpoint_id, entry)
        if channel not in versions:
            raise corrupt(self.thread_id, row.id, f"channel {channel!r} extends a value that is not there")
        return Version(versions[channel].log, -entry)

    # Values

    def _value(self, channel: str, version: Version, checkpoint_id: str, tip: Tip | None = None) -> Any:
        if version.body is not None:
            return unpack(version.body)
        if version.length == SCALAR:
            return self._scalar(channel, version.log, checkpoint_id)
        log = self._log(channel, version, checkpoint_id)
        if tip is not None and log.length == version.length:
            tip.growth[channel] = log.growth
        if log.growth.kind == MAP:
            return self._pairs(islice(log.items, 2 * version.length), channel, checkpoint_id)
        return log.items[: version.length]

    def _pairs(self, flat: Iterator[Any], channel: str, checkpoint_id: str) -> dict[Any, Any]:
        try:
            return dict(zip(flat, flat, strict=True))
        except TypeError:  # unhashable
            problem = f"channel {channel!r} has a key that cannot be one"
            raise corrupt(self.thread_id, checkpoint_id, problem) from None

    def _scalar(self, channel: str, log: str, checkpoint_id: str) -> Any:
        key = (channel, log)
        if key not in self._values:
            rows = list(self.tables.values(self.thread_id, self.namespace, channel, log, 0))
            if len(rows) != 1 or rows[0].kind != PLAIN:
                raise self.missing(channel, log, checkpoint_id)
            self._values[key] = self.layout.open_value(self.thread_id, self.namespace, checkpoint_id, rows[0])
        # Decoded for each checkpoint anew: what a caller does to one must not show in another.
        return unpack(self._values[key])

    def _log(self, channel: str, version: Version, checkpoint_id: str) -> _Log:
        found = self._logs.get((channel, version.log))
        if found is None or found.length < version.length:
            found = self._read_log(channel, version, checkpoint_id)
            self._logs[channel, version.log] = found
        return found

    def _read_log(self, channel: str, version: Version, checkpoint_id: str) -> _Log:
        rows = iter(self.tables.values(self.thread_id, self.namespace, channel, version.log, version.length))
        passage = _Passage(self, channel, version, checkpoint_id)
        try:
            own = unpack_items(passage.opened(rows))
        finally:
            deque(rows, maxlen=0)  # until then the tables can be asked nothing else
        first = passage.checked()
        items, growth = self._before(channel, first, checkpoint_id)
        items = items + own if items else own
        width = passage.width
        known = growth.digest if growth is not None else Digest((), 0, 0)
        digest = None
        if known is not None and passage.end == version.length:
            digest = Digest((*known.rows, *_rest(known), *passage.sizes), 0, 0)
        return _Log(
            version.length,
            items[: width * version.length] if passage.end > version.length else items,
            Growth(
                passage.kind,
                (growth.size if growth is not None else 0) + sum(map(itemgetter(0), passage.sizes)),
                digest,
                growth.first_size if growth is not None else passage.sizes[0][0],
                growth.forks + 1 if growth is not None else 0,
                passage.beyond or passage.end > version.length,
                tuple(passage.loose),
            ),
        )

    def _before(self, channel: str, first: ValueRow, checkpoint_id: str) -> tuple[list[Any], Growth | None]:
        """The items of the log that this one builds on."""
        if first.previous is None:
            return [], None
        log = self._log(channel, Version(first.previous, first.start), checkpoint_id)
        width = 2 if log.growth.kind == MAP else 1
        growth = log.growth if log.length == first.start else log.growth._replace(digest=None)
        return log.items[: width * first.start], growth

    def missing(self, channel: str, log: str, checkpoint_id: str) -> Exception:
        return corrupt(
            self.thread_id, checkpoint_id, f"part of version {log} of channel {channel!r} is missing"
        )

    def _given(self, entry: list[Any], checkpoint_id: str) -> tuple[str, Any]:
        if len(entry) == 2:
            return entry[0], unpack(entry[1])
        channel, source, log, start, count = entry
        if count == SCALAR or start == 0:
            return channel, self._value(source, Version(log, count), checkpoint_id)
        found = self._log(source, Version(log, start + count), checkpoint_id)
        if found.growth.kind == MAP:
            flat = islice(found.items, 2 * start, 2 * (start + count))
            return channel, self._pairs(flat, source, checkpoint_id)
        return channel, found.items[start : start + count]


def _names(pending: Iterable[Pending]) -> set[Name]:
    return {record.name for record in pending}


def spans(body: CheckpointBody) -> Iterable[tuple[str, Version]]:
    """The stored values that stand for what a checkpoint was given."""
    for entry in body.given or ():
        if len(entry) > 2:
            _, source, log, start, count = entry
            yield source, Version(log, count if count == SCALAR else start + count)


def _rest(digest: Digest) -> tuple[tuple[int, int], ...]:
    return ((digest.size, digest.crc),) if digest.size else ()


class _Passage:
    """The rows of one log on their way by: each is checked, and decoded before many more are fetched, since what was
    just fetched is still in the processor's cache and what was decoded makes room for what comes.

    What is known of them afterwards: `kind`, where they `end`, the `sizes` and CRC-32s of their items, the `loose` rows
    at the end that are not folded yet (never the one that the log begins with), and whether the log goes on `beyond`
    the version.
    """

    def __init__(self, reader: Reader, channel: str, version: Version, checkpoint_id: str) -> None:
        self.reader = reader
        self.place = (channel, version.log, checkpoint_id)
        self.wanted = version.length
        self.first: ValueRow | None = None
        self.kind = self.width = self.end = 0
        self.sizes: list[tuple[int, int]] = []
        self.loose: list[tuple[int, bytes]] = []
        self.beyond = False

    def opened(self, rows: Iterator[ValueRow]) -> Iterator[tuple[int, bytes]]:
        """How many items each row has, and their bytes. Raises `CheckpointCorruptError` for a gap."""
        reader, (channel, log, checkpoint_id) = self.reader, self.place
        opened = reader.layout.log_opener(reader.thread_id, reader.namespace, checkpoint_id, channel, log)
        sizes, loose = self.sizes, self.loose
        for row in rows:
            start, kind = row.start, row.kind
            if start == self.wanted > 0:
                self.beyond = True
                continue  # it is the last
            # First the checksum: what is damaged need not even be numbers.
            body, crc = opened(row)
            size, count = len(body), row.length
            if self.first is None:
                self._begin(row)
            elif kind & SEGMENT or size > LOOSE_BYTES:
                loose.clear()
            else:
                loose.append((start, body))
            if start != self.end or kind == PLAIN:
                raise self._missing()
            self.end = start + count
            sizes.append((size, crc))
            yield self.width * count, body

    def _begin(self, row: ValueRow) -> None:
        if (row.start > 0) != (row.previous is not None):
            raise self._missing()
        self.first = row
        self.end = row.start
        self.kind = row.kind & (LIST | MAP)
        self.width = 2 if self.kind == MAP else 1

    def checked(self) -> ValueRow:
        """The row that the log begins with. Raises `CheckpointCorruptError` if the log is not long enough."""
        if self.first is None or self.end < self.wanted:
            raise self._missing()
        return self.first

    def _missing(self) -> Exception:
        return self.reader.missing(*self.place)
