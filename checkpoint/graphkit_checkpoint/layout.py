"""How records become rows and back: the storage format, shared by every saver.

A checkpoint row lists only what its superstep changed. Reading one means following the parents back to
its *base*, the nearest ancestor that lists the versions of all channels; a new base is written when the
changes listed since the last one outweigh the full list.

A list or dict is kept as a *log* of its items. A superstep that adds to it writes one row with the new
items, and a version is a log and a length, so every checkpoint of the history, and every branch, reads from
the same rows. About `FOLD` small rows at the end of a log are folded into one; a length cuts that as well.
A branch that goes on from the middle of a log begins one of its own that builds on the first. So the bytes
written, the rows read and the space taken are all linear in what changed.

Every body is msgpack with a checksum that covers the row's key as well, so a row that was damaged or moved
is noticed; with a cipher it is encrypted, bound to the same key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Final, NamedTuple, Protocol
from zlib import crc32

from msgpack import Packer  # type: ignore[import-untyped]

from graphkit_checkpoint.encryption import refuse_encrypted
from graphkit_checkpoint.errors import (
    CheckpointCorruptError,
    EncryptionError,
    StateTooLargeError,
    UnstorableError,
)
from graphkit_checkpoint.records import (
    SCALAR,
    Checkpoint,
    Commit,
    Digest,
    Growth,
    Pending,
    ThreadState,
    Version,
)
from graphkit_checkpoint.serde import pack, pack_items, unpack

FORMAT: Final = 2
PLAIN, LIST, MAP, SEGMENT = 0, 1, 2, 4
"""Kinds of value rows: one value; items of a list; pairs of a dict. `SEGMENT` is added to folded rows."""

SMALLEST_BASE: Final = 8
FOLD: Final = 64
LOOSE_BYTES: Final = 16 * 1024
"""Rows larger than this stay as they are: what folding saves is the cost of many small rows."""
MOST_FORKS: Final = 8
GIVEN: Final = "__given__:"
"""Begins the channel under which a write from outside is stored that no channel has as it was given."""
SMALL_GIVEN: Final = 256
MAX_VALUE_BYTES: Final = 64 * 1024 * 1024

_KINDS: Final[dict[type, int]] = {list: LIST, dict: MAP}
_SURE_KEYS: Final = frozenset({str, int, bool, bytes, NoneType})
_BODY_TYPES: Final[tuple[Any, ...]] = (
    int, (int, float), str, (bytes, NoneType), dict, (bytes, NoneType), dict, list, (list, NoneType), (dict, NoneType),
)  # fmt: skip
_GIVEN_TYPES: Final = ((str, bytes), (str, str, str, int, int))

_plain = Packer(buf_size=4096)
"""Packs names and numbers of our own. Shared by all threads: no Python code runs while it works."""


class Cipher(Protocol):
    """Encrypts bodies. `context` says whose body it is; another context must not open it."""

    def encrypt(self, body: bytes, context: bytes) -> bytes: ...

    def decrypt(self, body: bytes, context: bytes) -> bytes: ...


class CheckpointRow(NamedTuple):
    id: str
    parent_id: str | None
    base_id: str
    step: int
    body: bytes
    checksum: int


class ValueRow(NamedTuple):
    """`length` items of a log from `start` on, or one value. `previous` is the log that this one builds on."""

    channel: str
    log: str
    start: int
    length: int
    kind: int
    previous: str | None
    body: bytes
    checksum: int


class Fold(NamedTuple):
    """The row at `start` takes in the rows of its log up to `last`, which go."""

    channel: str
    log: str
    start: int
    last: int
    length: int
    kind: int
    body: bytes
    checksum: int


class PendingRow(NamedTuple):
    checkpoint_id: str
    task_id: str
    kind: str
    key: str
    body: bytes
    checksum: int


@dataclass(slots=True, eq=False, repr=False)
class Rows:
    """One commit, encoded. `token` owns the thread from this commit on, unless it is a `release`."""

    thread_id: str
    namespace: str
    token: str
    claims: bool
    acquire: ThreadState | None
    release: bool
    head: str | None
    checkpoints: list[CheckpointRow] = field(default_factory=list)
    values: list[ValueRow] = field(default_factory=list)
    folds: list[Fold] = field(default_factory=list)
    pending: list[PendingRow] = field(default_factory=list)
    forget: list[tuple[str, str, str, str]] = field(default_factory=list)


class CheckpointBody(NamedTuple):
    """What a checkpoint row's body holds. `versions` is None unless the row is a base.

    `changed` maps channels to None (a value of this checkpoint), n (a log that begins here, with n items) or
    -n (the log that the parent saw, now with n items). `given` has [channel, packed value], or
    [channel, source, log, start, length] for what is stored under the channel `source` (length -1: a value).
    """

    format: int
    created_at: float
    source: str
    metadata: bytes | None
    control: dict[str, Any]
    work: bytes | None
    changed: dict[str, int | None]
    cleared: list[str]
    given: list[Any] | None
    versions: dict[str, Any] | None


class Span(NamedTuple):
    """Where the items that a commit wrote for a channel are: a part of a log, or a value."""

    log: str
    start: int
    length: int
    body: bytes = b""


class Layout:
    """One saver's way of writing rows: encrypted or not, and how large one value may be."""

    def __init__(self, cipher: Cipher | None = None, limit: int = MAX_VALUE_BYTES) -> None:
        self.cipher = cipher
        self.limit = limit

    def encode(self, commit: Commit) -> Rows:
        """The rows of a commit; advances its tip. Raises `UnserializableStateError` and `StateTooLargeError`,
        which name channel or record; the tip is as it was then."""
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
        # Of several records of one name the last stays: PostgreSQL cannot write a row twice in one statement.
        named = {(record.task_id, record.kind, record.key): record for record in commit.pending}
        for pending in named.values():
            rows.pending.append(self._pending_row(rows, commit.at, pending))
        rows.forget.extend((commit.at, *record) for record in commit.forget)
        if checkpoints:
            _Writing(self, rows, commit).write()
        return rows

    def _pending_row(self, rows: Rows, at: str, pending: Pending) -> PendingRow:
        try:
            body = self.limited(pack(pending.value))
        except UnstorableError as error:
            error.record = (pending.kind, pending.key)
            error.task_id = pending.task_id
            raise
        row = (at, pending.task_id, pending.kind, pending.key)
        return PendingRow(*row, *self.cover(body, rows.thread_id, rows.namespace, *row))

    def limited(self, body: bytes) -> bytes:
        if len(body) > self.limit:
            raise StateTooLargeError(
                f"the value takes {len(body):,} bytes and the saver's max_value_bytes is {self.limit:,}; keep large "
                f"data elsewhere and a reference in the state, or give the saver a higher limit"
            )
        return body

    def cover(self, body: bytes, *key: str | int | None) -> tuple[bytes, int]:
        """A body as it is stored, and its checksum."""
        if self.cipher is not None:
            body = self.cipher.encrypt(body, repr(key).encode())
        return body, seal(body, *key)

    def uncover(
        self, thread_id: str, checkpoint_id: str, what: str, row: Any, key: Sequence[str | int | None]
    ) -> bytes:
        """The body of a row as it was given to `cover`. Raises `CheckpointCorruptError`, `EncryptionError`."""
        return self._uncovered(thread_id, checkpoint_id, what, row, key)[0]

    def _uncovered(
        self, thread_id: str, checkpoint_id: str, what: str, row: Any, key: Sequence[str | int | None]
    ) -> tuple[bytes, int]:
        """The body and its CRC-32, which is known by then."""
        body: Any = row.body
        own = crc32(body) if isinstance(body, bytes) else 0
        if not isinstance(body, bytes) or crc32(repr(key).encode(), own) != row.checksum:
            raise corrupt(thread_id, checkpoint_id, f"the checksum of its {what} is wrong")
        try:
            if self.cipher is not None:
                plain = self.cipher.decrypt(body, repr(key).encode())
                return plain, crc32(plain)
            refuse_encrypted(body)
        except EncryptionError as error:
            raise EncryptionError(
                f"checkpoint {checkpoint_id!r} of thread {thread_id!r} cannot be read: its {what} {error}"
            ) from None
        return body, own

    # Single rows, for reading and for whoever moves them

    def cover_checkpoint(
        self, thread_id: str, namespace: str, key: tuple[str, str | None, str, int], body: CheckpointBody
    ) -> CheckpointRow:
        return CheckpointRow(*key, *self.cover(_plain.pack(tuple(body)), thread_id, namespace, *key))

    def open_checkpoint(self, thread_id: str, namespace: str, row: CheckpointRow) -> CheckpointBody:
        key = (thread_id, namespace, *row[:4])
        try:
            opened = CheckpointBody(*unpack(self.uncover(thread_id, row.id, "checkpoint", row, key)))
        except TypeError:
            raise corrupt(thread_id, row.id, "its checkpoint row has another shape") from None
        if opened.format != FORMAT:
            raise corrupt(thread_id, row.id, f"it has format {opened.format}, this version reads {FORMAT}")
        if not _is_whole(opened):
            raise corrupt(thread_id, row.id, "its checkpoint row has another shape")
        return opened

    def cover_value(
        self, thread_id: str, namespace: str, key: tuple[str, str, int, int, int, str | None], body: bytes
    ) -> ValueRow:
        """`key`: channel, log, start, length, kind, previous."""
        return ValueRow(*key, *self.cover(body, thread_id, namespace, *key))

    def open_value(self, thread_id: str, namespace: str, checkpoint_id: str, row: ValueRow) -> bytes:
        """The packed value or items."""
        return self.open_items(thread_id, namespace, checkpoint_id, row)[0]

    def open_items(
        self, thread_id: str, namespace: str, checkpoint_id: str, row: ValueRow
    ) -> tuple[bytes, int]:
        """The packed items and their CRC-32."""
        key = (thread_id, namespace, *row[:6])
        return self._uncovered(thread_id, checkpoint_id, f"channel {row.channel!r}", row, key)

    def cover_pending(
        self, thread_id: str, namespace: str, key: tuple[str, str, str, str], body: bytes
    ) -> PendingRow:
        """`key`: checkpoint id, task id, kind, key."""
        return PendingRow(*key, *self.cover(body, thread_id, namespace, *key))

    def uncover_pending(self, thread_id: str, namespace: str, row: PendingRow) -> bytes:
        key = (thread_id, namespace, *row[:4])
        return self.uncover(thread_id, row.checkpoint_id, f"pending {row.kind}", row, key)

    def open_pending(self, thread_id: str, namespace: str, row: PendingRow) -> Pending:
        return Pending(
            row.task_id, row.kind, row.key, unpack(self.uncover_pending(thread_id, namespace, row))
        )


@dataclass(slots=True, eq=False, repr=False)
class _Draft:
    """A checkpoint with its values stored and its own row still to be made."""

    checkpoint: Checkpoint
    base_id: str
    changed: dict[str, int | None]
    spans: dict[str, Span]
    versions: dict[str, Version] | None


class _Writing:
    """The checkpoints of one commit on their way into rows. The tip is changed at the very end."""

    def __init__(self, layout: Layout, rows: Rows, commit: Commit) -> None:
        self.layout = layout
        self.rows = rows
        self.checkpoints = commit.checkpoints
        self.tip = commit.tip
        self.versions: dict[str, Version | None] = {}
        self.growth: dict[str, Growth | None] = {}
        self.base, self.weight = commit.tip.base, commit.tip.weight

    def write(self) -> None:
        drafts = [self._draft(checkpoint) for checkpoint in self.checkpoints]
        for draft, following in zip(drafts, [*drafts[1:], None], strict=True):
            self.rows.checkpoints.append(self._row(draft, following))
        tip = self.tip
        tip.base, tip.weight = self.base, self.weight
        _update(tip.versions, self.versions)
        _update(tip.growth, self.growth)

    def _draft(self, checkpoint: Checkpoint) -> _Draft:
        changed: dict[str, int | None] = {}
        spans: dict[str, Span] = {}
        for channel, value in checkpoint.changed.items():
            try:
                changed[channel], spans[channel] = self._store(checkpoint, channel, value)
            except UnstorableError as error:
                error.channel = channel
                raise
        for channel in checkpoint.cleared:
            self.versions[channel] = self.growth[channel] = None
        self.weight += 1 + len(checkpoint.changed) + len(checkpoint.cleared)
        versions = None
        # The way to a base is read as a range of ids; a parent with a larger id, put from outside, is not in it.
        backwards = checkpoint.id < (checkpoint.parent_id or "")
        if not self.base or backwards or self.weight > max(SMALLEST_BASE, len(self.tip.versions)):
            versions = dict(self.tip.versions)
            _update(versions, self.versions)
            self.base, self.weight = checkpoint.id, 0
        return _Draft(checkpoint, self.base, changed, spans, versions)

    # Values

    def _store(self, checkpoint: Checkpoint, channel: str, value: Any) -> tuple[int | None, Span]:
        """Write what is new of a value; returns how the checkpoint lists it and where the new part is."""
        kind = _KINDS.get(type(value), PLAIN)
        if kind == PLAIN or not value:
            body = self.layout.limited(pack(value))
            self._put(channel, checkpoint.id, 0, 0, PLAIN, None, body)
            self.versions[channel], self.growth[channel] = Version(checkpoint.id, SCALAR), None
            return None, Span(checkpoint.id, 0, SCALAR)
        version = self.versions[channel] if channel in self.versions else self.tip.versions.get(channel)
        growth = self.growth[channel] if channel in self.growth else self.tip.growth.get(channel)
        if version is not None and growth is not None and growth.kind == kind:
            extension = _extension(checkpoint, channel, value, version, growth)
        else:
            extension = _Extension(pack_items(value), 0, len(value), complete=True)
        if extension.complete or growth is None or version is None:
            return self._begin(checkpoint.id, channel, kind, extension)
        return self._extend(checkpoint.id, channel, version, growth, extension)

    def _begin(self, log: str, channel: str, kind: int, whole: _Extension) -> tuple[int, Span]:
        body = self.layout.limited(whole.body)
        self._put(channel, log, 0, whole.length, kind, None, body)
        self.versions[channel] = Version(log, whole.length)
        self.growth[channel] = Growth(kind, len(body), Digest((), len(body), crc32(body)), len(body))
        return whole.length, Span(log, 0, whole.length, body)

    def _extend(
        self, checkpoint_id: str, channel: str, version: Version, growth: Growth, more: _Extension
    ) -> tuple[int, Span]:
        body, count = self.layout.limited(more.body), more.length
        start, length = version.length, version.length + count
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
        return (length if shared else -length), Span(log, start, count, body)

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
        self.rows.folds.append(Fold(channel, log, first, start, row.length, row.kind, row.body, row.checksum))
        return ()

    def _put(
        self, channel: str, log: str, start: int, count: int, kind: int, previous: str | None, body: bytes
    ) -> None:
        key = (channel, log, start, count, kind, previous)
        self.rows.values.append(self.layout.cover_value(self.rows.thread_id, self.rows.namespace, key, body))

    # Checkpoints

    def _row(self, draft: _Draft, following: _Draft | None) -> CheckpointRow:
        checkpoint = draft.checkpoint
        try:
            metadata = self.layout.limited(pack(dict(checkpoint.metadata))) if checkpoint.metadata else None
            work = self.layout.limited(pack(dict(checkpoint.work))) if checkpoint.work else None
            given = None if checkpoint.given is None else self._given(checkpoint, checkpoint.given, following)
        except UnstorableError as error:
            error.record = ("input or metadata", "")
            raise
        body = CheckpointBody(
            FORMAT,
            checkpoint.created_at,
            checkpoint.source,
            metadata,
            dict(checkpoint.control),
            work,
            draft.changed,
            list(checkpoint.cleared),
            given,
            draft.versions,
        )
        key = (checkpoint.id, checkpoint.parent_id, draft.base_id, checkpoint.step)
        return self.layout.cover_checkpoint(self.rows.thread_id, self.rows.namespace, key, body)

    def _given(
        self, checkpoint: Checkpoint, writes: Sequence[tuple[str, Any]], following: _Draft | None
    ) -> list[Any]:
        applied = following if following and following.checkpoint.parent_id == checkpoint.id else None
        if len({channel for channel, _ in writes}) < len(writes):
            applied = None  # what became of several writes says nothing of each
        return [
            self._given_write(f"{index}:{channel}", checkpoint.id, channel, value, applied)
            for index, (channel, value) in enumerate(writes)
        ]

    def _given_write(self, name: str, at: str, channel: str, value: Any, applied: _Draft | None) -> list[Any]:
        """A write from outside: by itself, or where the next checkpoint has what became of it."""
        if applied is not None and channel in applied.spans:
            span, checkpoint = applied.spans[channel], applied.checkpoint
            if checkpoint.changed[channel] is value:
                log, length = self._version_of(applied, channel)
                return [channel, channel, log, 0, length]
            if span.length == _items_in(value) and (
                channel in checkpoint.extended or (type(value) in _KINDS and pack_items(value) == span.body)
            ):
                return [channel, channel, *span[:3]]
        body = self.layout.limited(pack(value))
        if len(body) <= SMALL_GIVEN:
            return [channel, body]
        source = f"{GIVEN}{name}"
        self._put(source, at, 0, 0, PLAIN, None, body)
        return [channel, source, at, 0, SCALAR]

    @staticmethod
    def _version_of(draft: _Draft, channel: str) -> tuple[str, int]:
        entry, span = draft.changed[channel], draft.spans[channel]
        return span.log, SCALAR if entry is None else abs(entry)


class _Extension(NamedTuple):
    """The packed items that a value has more than before (`complete`: all of them)."""

    body: bytes
    start: int
    length: int
    complete: bool = False


def _extension(
    checkpoint: Checkpoint, channel: str, value: Any, version: Version, growth: Growth
) -> _Extension:
    if growth.shared and growth.forks >= MOST_FORKS:
        return _Extension(pack_items(value), 0, len(value), complete=True)
    if channel not in checkpoint.extended:
        return _extension_by_bytes(value, version, growth)
    added = checkpoint.extended[channel]
    if isinstance(added, int):
        # A node that changed the list in place has changed more than its write says.
        if len(value) != version.length + added:
            return _Extension(pack_items(value), 0, len(value), complete=True)
        return _Extension(pack_items(value[version.length :]), version.length, added)
    tail = {key: value[key] for key in added}
    body = pack_items(tail)
    length = version.length + len(tail)
    outweighs = growth.size + len(body) > 2 * growth.first_size and length > 2 * len(value)
    if outweighs or not all(map(_is_found_again, tail)):
        return _Extension(pack_items(value), 0, len(value), complete=True)
    return _Extension(body, version.length, len(tail))


def _is_found_again(key: Any) -> bool:
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
        return _Extension(body[size:], version.length, len(value) - version.length)
    return _Extension(body, 0, len(value), complete=True)


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


def _is_whole(body: CheckpointBody) -> bool:
    """Whether its parts have the types that readers rely on; checksums can be made by anybody."""
    return (
        all(map(isinstance, body, _BODY_TYPES))
        and all(isinstance(entry, (int, NoneType)) for entry in body.changed.values())
        and all(_types_of(entry) in _GIVEN_TYPES for entry in body.given or ())
        and all(_types_of(version) == (str, int) for version in (body.versions or {}).values())
    )


def _types_of(entry: Any) -> tuple[type, ...]:
    return tuple(map(type, entry)) if type(entry) is list else ()


def _update(old: dict[str, Any], new: Mapping[str, Any]) -> None:
    """Update; None removes."""
    for key, value in new.items():
        if value is None:
            old.pop(key, None)
        else:
            old[key] = value


def seal(body: bytes, *key: str | int | None) -> int:
    """CRC-32 of a row: of its body and of everything that says whose body it is."""
    return crc32(repr(key).encode(), crc32(body))


def corrupt(thread_id: str, checkpoint_id: str, problem: str) -> CheckpointCorruptError:
    return CheckpointCorruptError(
        f"checkpoint {checkpoint_id!r} of thread {thread_id!r} cannot be read: {problem}; "
        f"run from an earlier checkpoint of its history or restore the database"
    )
