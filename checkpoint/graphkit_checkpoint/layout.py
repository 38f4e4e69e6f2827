"""How rows look: the storage format, shared by every saver. `writing` makes rows, `reading` reads them.

A checkpoint row lists only what its superstep changed. Reading one means following the parents back to
its *base*, the nearest ancestor that lists the versions of all channels; a new base is written when the
changes listed since the last one outweigh the full list.

A list or dict is kept as a *log* of its items. A superstep that adds to it writes one row with the new
items, and a version is a log and a length, so every checkpoint of the history, and every branch, reads from
the same rows. About `FOLD` small rows at the end of a log are folded into one; a length cuts that as well.
A branch that goes on from the middle of a log begins one of its own that builds on the first. So the bytes
written, the rows read and the space taken are all linear in what changed. A value that is small has no row: it is in
the checkpoint's own, and again in the next base. A list or dict becomes a log when it has outgrown that.

Every body is msgpack with a checksum that covers the row's key as well, so a row that was damaged or moved
is noticed; with a cipher it is encrypted, bound to the same key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from types import NoneType
from typing import Any, Final, NamedTuple, Protocol
from zlib import crc32

from msgpack import Packer  # type: ignore[import-untyped]

from graphkit_checkpoint.encryption import refuse_encrypted
from graphkit_checkpoint.errors import (
    CheckpointCorruptError,
    EncryptionError,
    StateTooLargeError,
)
from graphkit_checkpoint.records import Pending, ThreadState, Version
from graphkit_checkpoint.serde import unpack

FORMAT: Final = 3
FORMATS: Final = (2, FORMAT)
"""Those that are read: before the third every value had a row of its own."""
PLAIN, LIST, MAP, SEGMENT = 0, 1, 2, 4
"""Kinds of value rows: one value; items of a list; pairs of a dict. `SEGMENT` is added to folded rows."""

SMALLEST_BASE: Final = 8
SMALL: Final = 64
"""The most bytes of a value that is kept in its checkpoint's row."""
FOLD: Final = 64
LOOSE_BYTES: Final = 16 * 1024
"""Rows larger than this stay as they are: what folding saves is the cost of many small rows."""
MOST_FORKS: Final = 8
GIVEN: Final = "__given__:"
"""Begins the channel under which a write from outside is stored that no channel has as it was given."""
SMALL_GIVEN: Final = 256
MAX_VALUE_BYTES: Final = 64 * 1024 * 1024

_BODY_TYPES: Final[tuple[Any, ...]] = (
    int, (int, float), str, (bytes, NoneType), dict, (bytes, NoneType), dict, list, (list, NoneType), (dict, NoneType),
)  # fmt: skip
_CHANGED_TYPES: Final = frozenset({int, bytes, NoneType})
_GIVEN_TYPES: Final = frozenset({(str, bytes), (str, str, str, int, int)})
_VERSION_TYPES: Final = frozenset({(str, int), (str, int, bytes)})

_plain = Packer(buf_size=4096)
"""Packs names and numbers of our own. Shared by all threads, so no Python code may run while it works: what it is given
consists of exact tuples, lists and dicts. To go through anything else it makes an iterator, at which garbage may be
collected, and finalizers and other threads come in between."""


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


# The rows of their parts without a call of Python: every commit has some.
_checkpoint_row: Final[Callable[[Any], CheckpointRow]] = partial(tuple.__new__, CheckpointRow)
_pending_row: Final[Callable[[Any], PendingRow]] = partial(tuple.__new__, PendingRow)


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
    checkpoints: Sequence[CheckpointRow] = ()
    values: Sequence[ValueRow] = ()
    folds: Sequence[Fold] = ()
    pending: Sequence[PendingRow] = ()
    forget: Sequence[tuple[str, str, str, str]] = ()


class CheckpointBody(NamedTuple):
    """What a checkpoint row's body holds. `versions` is None unless the row is a base.

    `changed` maps channels to a packed value, None (a value of this checkpoint with a row of its own), n (a log
    that begins here, with n items) or -n (the log that the parent saw, now with n items). `versions` maps them to
    [log, length], or [log, -1, packed value]. `given` has [channel, packed value], or
    [channel, source, log, start, length] for what is stored under the channel `source` (length -1: a value).
    """

    format: int
    created_at: float
    source: str
    metadata: bytes | None
    control: dict[str, Any]
    work: bytes | None
    changed: dict[str, int | bytes | None]
    cleared: list[str]
    given: list[Any] | None
    versions: dict[str, Any] | None


def listed(versions: Mapping[str, Version]) -> dict[str, Any]:
    """Versions as a base lists them."""
    return {key: version[:2] if version.body is None else tuple(version) for key, version in versions.items()}


class Layout:
    """One saver's way of writing rows: encrypted or not, and how large one value may be."""

    def __init__(self, cipher: Cipher | None = None, limit: int = MAX_VALUE_BYTES) -> None:
        if cipher is not None and not (hasattr(cipher, "encrypt") and hasattr(cipher, "decrypt")):
            raise TypeError(
                f"serde encrypts what is stored: give an EncryptedSerializer, not a {type(cipher).__name__}"
            )
        self.cipher = cipher
        self.limit = limit

    def limited(self, body: bytes) -> bytes:
        if len(body) > self.limit:
            raise StateTooLargeError(
                f"the value takes {len(body):,} bytes and the saver's max_value_bytes is {self.limit:,}; keep large "
                f"data elsewhere and a reference in the state, or give the saver a higher limit"
            )
        return body

    def cover(self, body: bytes, place: str) -> tuple[bytes, int]:
        """A body as it is stored, and its checksum (`seal`)."""
        whose = place.encode()
        if self.cipher is not None:
            body = self.cipher.encrypt(body, whose)
        return body, crc32(whose, crc32(body))

    def _uncovered(
        self, thread_id: str, checkpoint_id: str, what: str, row: Any, place: str
    ) -> tuple[bytes, int]:
        """The body of a row as it was given to `cover`, and its CRC-32, which is known by then. `what` it is may name
        fields of the row, as `str.format` does; `place` is the text of its key. Raises `CheckpointCorruptError`,
        `EncryptionError`."""
        body: Any = row.body
        own = crc32(body) if isinstance(body, bytes) else None
        if own is None or crc32(place.encode(), own) != row.checksum:
            raise corrupt(thread_id, checkpoint_id, f"the checksum of its {what.format(row)} is wrong")
        try:
            if self.cipher is not None:
                plain = self.cipher.decrypt(body, place.encode())
                return plain, crc32(plain)
            refuse_encrypted(body)
        except EncryptionError as error:
            raise EncryptionError(
                f"checkpoint {checkpoint_id!r} of thread {thread_id!r} cannot be read: its {what.format(row)} {error}"
            ) from None
        return body, own

    # Single rows, for reading and for whoever moves them

    def cover_checkpoint(
        self, thread_id: str, namespace: str, key: tuple[str, str | None, str, int], body: tuple[Any, ...]
    ) -> CheckpointRow:
        """`body`: a `CheckpointBody`, or its parts."""
        covered = self.cover(_plain.pack(tuple(body)), place_of(thread_id, namespace, key))
        return _checkpoint_row(key + covered)

    def open_checkpoint(self, thread_id: str, namespace: str, row: CheckpointRow) -> CheckpointBody:
        place = place_of(thread_id, namespace, row[:4])
        try:
            opened = CheckpointBody(*unpack(self._uncovered(thread_id, row.id, "checkpoint", row, place)[0]))
        except TypeError:
            raise corrupt(thread_id, row.id, "its checkpoint row has another shape") from None
        if opened.format not in FORMATS:
            raise corrupt(thread_id, row.id, f"it has format {opened.format}, this version reads {FORMAT}")
        if not _is_whole(opened):
            raise corrupt(thread_id, row.id, "its checkpoint row has another shape")
        return opened

    def cover_value(
        self, thread_id: str, namespace: str, key: tuple[str, str, int, int, int, str | None], body: bytes
    ) -> ValueRow:
        """`key`: channel, log, start, length, kind, previous."""
        return ValueRow(*key, *self.cover(body, place_of(thread_id, namespace, key)))

    def open_value(self, thread_id: str, namespace: str, checkpoint_id: str, row: ValueRow) -> bytes:
        """The packed value or items."""
        return self.log_opener(thread_id, namespace, checkpoint_id, row.channel, row.log)(row)[0]

    def log_opener(
        self, thread_id: str, namespace: str, checkpoint_id: str, channel: str, log: str
    ) -> Callable[[ValueRow], tuple[bytes, int]]:
        """Opens rows of one log: returns the packed items and their CRC-32. What the keys of all of them begin with is
        written once."""
        common, what = repr((thread_id, namespace, channel, log))[:-1], "channel {0.channel!r}"
        uncovered = self._uncovered

        def open_items(row: ValueRow) -> tuple[bytes, int]:
            _, _, start, length, kind, previous, _, _ = row
            place = f"{common}, {start!r}, {length!r}, {kind!r}, {previous!r})"
            return uncovered(thread_id, checkpoint_id, what, row, place)

        return open_items

    def cover_pending(
        self, thread_id: str, namespace: str, key: tuple[str, str, str, str], body: bytes
    ) -> PendingRow:
        """`key`: checkpoint id, task id, kind, key."""
        return _pending_row(key + self.cover(body, place_of(thread_id, namespace, key)))

    def uncover_pending(self, thread_id: str, namespace: str, row: PendingRow) -> bytes:
        place = place_of(thread_id, namespace, row[:4])
        return self._uncovered(thread_id, row.checkpoint_id, "pending {0.kind}", row, place)[0]

    def open_pending(self, thread_id: str, namespace: str, row: PendingRow) -> Pending:
        return Pending(
            row.task_id, row.kind, row.key, unpack(self.uncover_pending(thread_id, namespace, row))
        )


def _is_whole(body: CheckpointBody) -> bool:
    """Whether its parts have the types that readers rely on; checksums can be made by anybody."""
    return (
        all(map(isinstance, body, _BODY_TYPES))
        and _CHANGED_TYPES.issuperset(map(type, body.changed.values()))
        and (not body.given or _GIVEN_TYPES.issuperset(map(_types_of, body.given)))
        and (not body.versions or _VERSION_TYPES.issuperset(map(_types_of, body.versions.values())))
    )


def _types_of(entry: Any) -> tuple[type, ...]:
    return tuple(map(type, entry)) if type(entry) is list else ()


def place_of(thread_id: str, namespace: str, key: tuple[str | int | None, ...]) -> str:
    """What a row's checksum and cipher are bound to: the `repr` of thread, namespace and key as one tuple."""
    return f"{_beginning(thread_id, namespace)}, {repr(key)[1:]}"


@lru_cache(maxsize=128)
def _beginning(thread_id: str, namespace: str) -> str:
    return repr((thread_id, namespace))[:-1]


def seal(own: int, key: tuple[str | int | None, ...]) -> int:
    """CRC-32 of a row: of its body, whose `own` it continues, and of everything that says whose body it is."""
    return crc32(repr(key).encode(), own)


def corrupt(thread_id: str, checkpoint_id: str, problem: str) -> CheckpointCorruptError:
    return CheckpointCorruptError(
        f"checkpoint {checkpoint_id!r} of thread {thread_id!r} cannot be read: {problem}; "
        f"run from an earlier checkpoint of its history or restore the database"
    )
