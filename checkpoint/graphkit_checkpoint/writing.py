"""Commits on their way into rows: of every value only what is new, as far as that is known.

The counterpart of `reading`. The tip of a run is advanced at the very end, so a value that is refused leaves it as
it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any, Final, NamedTuple
from zlib import crc32

from graphkit_checkpoint.errors import UnstorableError
from graphkit_checkpoint.layout import (
    FOLD,
    FORMAT,
    GIVEN,
    LIST,
    LOOSE_BYTES,
    MAP,
    MOST_FORKS,
    PLAIN,
    SEGMENT,
    SMALL,
    SMALL_GIVEN,
    SMALLEST_BASE,
    CheckpointRow,
    Fold,
    Layout,
    PendingRow,
    Rows,
    ValueRow,
    listed,
)
from graphkit_checkpoint.records import (
    COUNT,
    SCALAR,
    Checkpoint,
    Commit,
    Digest,
    Growth,
    Name,
    Pending,
    Tip,
    Version,
    version_of,
)
from graphkit_checkpoint.serde import items_in, pack, pack_items, unpack

_KINDS: Final[dict[type, int]] = {list: LIST, dict: MAP}
_COUNT: Final[Name] = ("", COUNT, "")
_SURE_KEYS: Final = frozenset({str, int, bool, bytes, NoneType})


def encode(layout: Layout, commit: Commit) -> Rows:
    """The rows of a commit; advances its tip. Raises `UnserializableStateError` and `StateTooLargeError`, which
    name channel or record; the tip is as it was then."""
    checkpoints = commit.checkpoints
    rows = Rows(
        commit.thread_id,
        commit.namespace,
        commit.token,
        commit.claims,
        commit.acquire,
        commit.release,
        checkpoints[-1].id if checkpoints else None,
    )
    beside = _write_beside(layout, rows, commit) if commit.pending or commit.forget else None
    tip = commit.tip
    if checkpoints:
        _Writing(layout, rows, tip).write(checkpoints)
        tip.at, tip.beside = checkpoints[-1].id, set()
    if beside is not None:
        names = beside.names
        names -= beside.gone
        names |= beside.new
        if commit.at == tip.at:
            tip.beside = names
    return rows


class _Beside(NamedTuple):
    """The names of the records that were beside a checkpoint, and what a commit does to them."""

    names: set[Name]
    gone: set[Name]
    new: set[Name]


def _write_beside(layout: Layout, rows: Rows, commit: Commit) -> _Beside | None:
    """The records of a commit, and how many there are now; that is not known, and so not stored, of a checkpoint that
    the tip has not looked at."""
    at, checkpoints = commit.at, commit.checkpoints
    # Of several of one name the last stays: PostgreSQL cannot write a row twice in one statement.
    records = {record.name: record for record in commit.pending}
    rows.pending = pending = [_pending_row(layout, rows, at, record) for record in records.values()]
    rows.forget = forget = [(at, *name) for name in commit.forget]
    if checkpoints and checkpoints[-1].id == at:
        names: set[Name] | None = set()
    else:
        names = commit.tip.beside if commit.tip.at == at else None
    if names is None:
        forget.append((at, *_COUNT))
        return None
    # Not by making other sets of them: a superstep of many tasks records them by and by.
    gone = names.intersection(commit.forget).difference(records) if forget else set()
    new = {name for name in records if name not in names}
    count = len(names) - len(gone) + len(new)
    if count:
        pending.insert(0, _pending_row(layout, rows, at, Pending(*_COUNT, count)))
    else:
        forget.append((at, *_COUNT))
    return _Beside(names, gone, new)


def _pending_row(layout: Layout, rows: Rows, at: str, pending: Pending) -> PendingRow:
    try:
        body = layout.limited(pack(pending.value))
    except UnstorableError as error:
        error.record = (pending.kind, pending.key)
        error.task_id = pending.task_id
        raise
    return layout.cover_pending(
        rows.thread_id, rows.namespace, (at, pending.task_id, pending.kind, pending.key), body
    )


_Draft = tuple[Checkpoint, dict[str, "int | bytes | None"], str, "dict[str, Any] | None"]
"""A checkpoint with its values stored and its own row still to be made: how it lists what changed, its base, and all
versions if it is one itself."""


class _Writing:
    """The checkpoints of one commit on their way into rows. The tip is changed at the very end.

    `added` is what the last checkpoint wrote of a log: how many items, and their bytes.
    """

    def __init__(self, layout: Layout, rows: Rows, tip: Tip) -> None:
        self.layout = layout
        self.rows = rows
        self.tip = tip
        self.values: list[ValueRow] = []
        self.versions: dict[str, Version | None] = {}
        self.growth: dict[str, Growth | None] = {}
        self.added: dict[str, tuple[int, bytes]] = {}
        self.base, self.weight = tip.base, tip.weight

    def write(self, checkpoints: Sequence[Checkpoint]) -> None:
        rows: list[CheckpointRow] = []
        before: _Draft | None = None
        for checkpoint in checkpoints:
            draft = self._draft(checkpoint)
            if before is not None:
                rows.append(self._row(before, checkpoint))
            before = draft
        rows.append(self._row(draft, None))
        self.rows.checkpoints, self.rows.values = rows, self.values
        tip = self.tip
        tip.base, tip.weight = self.base, self.weight
        _update(tip.versions, self.versions)
        if self.growth:
            _update(tip.growth, self.growth)

    def _draft(self, checkpoint: Checkpoint) -> _Draft:
        changed, cleared = checkpoint.changed, checkpoint.cleared
        entries: dict[str, int | bytes | None] = {}
        if self.added:
            self.added = {}
        for channel, value in changed.items():
            try:
                entries[channel] = self._store(checkpoint, channel, value)
            except UnstorableError as error:
                error.channel = channel
                raise
        for channel in cleared:
            self.versions[channel] = self.growth[channel] = None
        weight = self.weight + 1 + len(changed) + len(cleared)
        # The way to a base is read as a range of ids; a parent with a larger id, put from outside, is not in it.
        backwards = checkpoint.id < (checkpoint.parent_id or "")
        outweighs = weight > SMALLEST_BASE and weight > len(self.tip.versions)
        if not (backwards or outweighs) and self.base:
            self.weight = weight
            return checkpoint, entries, self.base, None
        versions = dict(self.tip.versions)
        _update(versions, self.versions)
        self.base, self.weight = checkpoint.id, 0
        return checkpoint, entries, checkpoint.id, listed(versions)

    # Values

    def _store(self, checkpoint: Checkpoint, channel: str, value: Any) -> int | bytes | None:
        """Write what is new of a value; returns how the checkpoint lists it."""
        kind = _KINDS.get(type(value))
        if kind is None or not value:
            body = pack(value)
            if len(body) <= SMALL:
                return self._inline(checkpoint.id, channel, body)
            if channel in self.tip.growth or channel in self.growth:
                self.growth[channel] = None
            self._put(channel, checkpoint.id, 0, 0, PLAIN, None, self.layout.limited(body))
            self.versions[channel] = Version(checkpoint.id, SCALAR)
            return None
        version = self.versions[channel] if channel in self.versions else self.tip.versions.get(channel)
        growth = self.growth[channel] if channel in self.growth else self.tip.growth.get(channel)
        if version is not None and growth is not None and growth.kind == kind:
            extension = _extension(checkpoint, channel, value, version, growth)
            if not extension.complete:
                return self._extend(checkpoint.id, channel, version, growth, extension)
            if len(extension.body) < SMALL and len(body := pack(value)) <= SMALL:
                return self._inline(checkpoint.id, channel, body)
            return self._begin(checkpoint.id, channel, kind, extension)
        body = pack(value)
        if len(body) <= SMALL:
            return self._inline(checkpoint.id, channel, body)
        return self._begin(checkpoint.id, channel, kind, _whole(items_in(body, len(value)), value))

    def _inline(self, checkpoint_id: str, channel: str, body: bytes) -> bytes:
        """A small value is kept in the checkpoint's row, also a list or dict: it becomes a log when it has grown."""
        self.versions[channel] = version_of((checkpoint_id, SCALAR, body))
        if channel in self.tip.growth or channel in self.growth:
            self.growth[channel] = None
        return body

    def _begin(self, log: str, channel: str, kind: int, whole: _Extension) -> int:
        body = self.layout.limited(whole.body)
        self._put(channel, log, 0, whole.length, kind, None, body)
        self.versions[channel] = Version(log, whole.length)
        self.growth[channel] = Growth(kind, len(body), Digest((), len(body), crc32(body)), len(body))
        self.added[channel] = whole.length, body
        return whole.length

    def _extend(
        self, checkpoint_id: str, channel: str, version: Version, growth: Growth, more: _Extension
    ) -> int:
        body, count = self.layout.limited(more.body), more.length
        length = version.length + count
        shared = growth.shared and count > 0
        log = checkpoint_id if shared else version.log
        loose = self._placed(channel, log, version, growth, body, count) if count else growth.loose
        self.versions[channel] = Version(log, length)
        self.growth[channel] = Growth(
            growth.kind,
            growth.size + len(body),
            None if growth.digest is None else _continued(growth.digest, body),
            growth.first_size,
            growth.forks + shared,
            growth.shared and not shared,
            loose,
        )
        self.added[channel] = count, body
        return length if shared else -length

    def _placed(
        self, channel: str, log: str, version: Version, growth: Growth, body: bytes, count: int
    ) -> tuple[tuple[int, bytes], ...]:
        """Write one extension, or fold it with the loose rows before it; returns the loose rows there are."""
        start = version.length
        if growth.shared:
            self._put(channel, log, start, count, growth.kind, version.log, body)
            return ()
        if len(body) > LOOSE_BYTES:
            self._put(channel, log, start, count, growth.kind, None, body)
            return ()
        loose = (*growth.loose, (start, body))
        if len(loose) < FOLD:
            self._put(channel, log, start, count, growth.kind, None, body)
            return loose
        first = loose[0][0]
        key = (channel, log, first, start + count - first, growth.kind + SEGMENT, None)
        joined = b"".join(part for _, part in loose)
        row = self.layout.cover_value(self.rows.thread_id, self.rows.namespace, key, joined)
        fold = Fold(channel, log, first, start, row.length, row.kind, row.body, row.checksum)
        self.rows.folds = [*self.rows.folds, fold]
        return ()

    def _put(
        self, channel: str, log: str, start: int, count: int, kind: int, previous: str | None, body: bytes
    ) -> None:
        key = (channel, log, start, count, kind, previous)
        self.values.append(self.layout.cover_value(self.rows.thread_id, self.rows.namespace, key, body))

    # Checkpoints

    def _row(self, draft: _Draft, following: Checkpoint | None) -> CheckpointRow:
        """The row of a draft, made when what `following` changed has been written, and nothing after that."""
        checkpoint, changed, base_id, versions = draft
        control = checkpoint.control
        try:
            metadata = self.layout.limited(pack(dict(checkpoint.metadata))) if checkpoint.metadata else None
            work = self.layout.limited(pack(dict(checkpoint.work))) if checkpoint.work else None
            given = None if checkpoint.given is None else self._given(checkpoint, checkpoint.given, following)
        except UnstorableError as error:
            error.record = ("input or metadata", "")
            raise
        body = (  # a `CheckpointBody`
            FORMAT,
            checkpoint.created_at,
            checkpoint.source,
            metadata,
            control if type(control) is dict else dict(control),
            work,
            changed,
            list(checkpoint.cleared) if checkpoint.cleared else [],
            given,
            versions,
        )
        key = (checkpoint.id, checkpoint.parent_id, base_id, checkpoint.step)
        return self.layout.cover_checkpoint(self.rows.thread_id, self.rows.namespace, key, body)

    def _given(
        self, checkpoint: Checkpoint, writes: Sequence[tuple[str, Any]], following: Checkpoint | None
    ) -> list[Any]:
        applied = following if following and following.parent_id == checkpoint.id else None
        if len({channel for channel, _ in writes}) < len(writes):
            applied = None  # what became of several writes says nothing of each
        return [
            self._given_write(f"{index}:{channel}", checkpoint.id, channel, value, applied)
            for index, (channel, value) in enumerate(writes)
        ]

    def _given_write(
        self, name: str, at: str, channel: str, value: Any, applied: Checkpoint | None
    ) -> list[Any]:
        """A write from outside: by itself, or where the next checkpoint has what became of it."""
        if applied is not None and channel in applied.changed:
            version = self.versions[channel]
            assert version is not None  # of a channel that has just changed
            if applied.changed[channel] is value:
                if version.body is not None:
                    return [channel, version.body]
                return [channel, channel, version.log, 0, version.length]
            count, body = self.added.get(channel, (SCALAR, b""))
            if count == _items_in(value) and (
                channel in applied.extended or (type(value) in _KINDS and pack_items(value) == body)
            ):
                return [channel, channel, version.log, version.length - count, count]
        body = self.layout.limited(pack(value))
        if len(body) <= SMALL_GIVEN:
            return [channel, body]
        source = f"{GIVEN}{name}"
        self._put(source, at, 0, 0, PLAIN, None, body)
        return [channel, source, at, 0, SCALAR]


class _Extension(NamedTuple):
    """The packed items that a value has more than before (`complete`: all of them)."""

    body: bytes
    length: int
    complete: bool = False


def _whole(body: bytes, value: Any) -> _Extension:
    return _Extension(body, len(value), complete=True)


def _extension(
    checkpoint: Checkpoint, channel: str, value: Any, version: Version, growth: Growth
) -> _Extension:
    if growth.shared and growth.forks >= MOST_FORKS:
        return _whole(pack_items(value), value)
    if channel not in checkpoint.extended:
        return _extension_by_bytes(value, version, growth)
    added = checkpoint.extended[channel]
    if isinstance(added, int):
        # A node that changed the list in place has changed more than its write says.
        if len(value) != version.length + added:
            return _whole(pack_items(value), value)
        return _Extension(pack_items(value[version.length :]), added)
    tail = {key: value[key] for key in added}
    body = pack_items(tail)
    length = version.length + len(tail)
    outweighs = growth.size + len(body) > 2 * growth.first_size and length > 2 * len(value)
    if outweighs or not all(map(is_found_again, tail)):
        return _whole(pack_items(value), value)
    return _Extension(body, len(tail))


def is_found_again(key: Any) -> bool:
    """Whether a key that is set again replaces itself when it is read. NaN is equal to nothing."""
    return type(key) in _SURE_KEYS or unpack(pack(key)) == key


def _extension_by_bytes(value: Any, version: Version, growth: Growth) -> _Extension:
    """For reducers we do not know: what they did is seen by comparing bytes, as far as they were stored.

    Comparing objects would be quicker and wrong where a reducer changes one of the old items in place.
    """
    body = pack_items(value)
    size = growth.size
    if (
        growth.digest is not None
        and len(value) >= version.length
        and len(body) >= size
        and (len(value) > version.length) == (len(body) > size)
        and _begins_with(body, growth.digest)
    ):
        return _Extension(body[size:], len(value) - version.length)
    return _whole(body, value)


def _continued(digest: Digest, body: bytes) -> Digest:
    return Digest(digest.rows, digest.size + len(body), crc32(body, digest.crc))


def _begins_with(body: bytes, digest: Digest) -> bool:
    view, start = memoryview(body), 0
    for size, crc in (*digest.rows, digest[1:]):
        if crc32(view[start : start + size]) != crc:
            return False
        start += size
    return True


def _items_in(value: Any) -> int:
    """How many items a write adds to a list or dict."""
    return len(value) if type(value) in _KINDS else 1


def _update(old: dict[str, Any], new: Mapping[str, Any]) -> None:
    """Update; None removes."""
    for key, value in new.items():
        if value is None:
            old.pop(key, None)
        else:
            old[key] = value
