"""How records become rows: the storage format, shared by every saver.

A checkpoint row lists only what its superstep changed. Reading one means following the parents back to
its *base*, the nearest ancestor that lists the versions of all channels; a new base is written when the
changes listed since the last one outweigh the full list, so both the bytes written and the rows read stay
linear in what changed. A version is the id of the checkpoint that wrote the value.

Every body is msgpack with a checksum that covers the row's key as well, so a row that was damaged or moved
is noticed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from zlib import crc32

from msgpack import Packer  # type: ignore[import-untyped]

from graphkit_checkpoint.errors import CheckpointCorruptError, UnserializableStateError
from graphkit_checkpoint.ownership import Holder
from graphkit_checkpoint.records import Checkpoint, Commit, Pending, ThreadState, Tip
from graphkit_checkpoint.serde import pack, unpack

FORMAT = 1

_plain = Packer(buf_size=4096)
"""Packs names and numbers of our own. Shared by all threads: no Python code runs while it works."""

SMALLEST_BASE = 8


class CheckpointRow(NamedTuple):
    id: str
    parent_id: str | None
    base_id: str
    step: int
    body: bytes
    checksum: int


class ValueRow(NamedTuple):
    """One version of one channel. `kind` 0 is a complete value; `previous` is for values that extend one."""

    channel: str
    version: str
    kind: int
    previous: str | None
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
    """One commit, encoded. `holder` is the owner from this commit on."""

    thread_id: str
    namespace: str
    holder: Holder
    claims: bool
    acquire: ThreadState | None
    release: bool
    head: str | None
    checkpoints: list[CheckpointRow] = field(default_factory=list)
    values: list[ValueRow] = field(default_factory=list)
    pending: list[PendingRow] = field(default_factory=list)
    forget: list[tuple[str, str, str, str]] = field(default_factory=list)


class CheckpointBody(NamedTuple):
    """What a checkpoint row's body holds. `versions` is None unless the row is a base."""

    format: int
    created_at: float
    source: str
    metadata: bytes | None
    control: dict[str, Any]
    work: bytes | None
    changed: list[str]
    cleared: list[str]
    versions: dict[str, str] | None


def encode(commit: Commit, lease: float) -> Rows:
    """The rows of a commit; advances its tip. Raises `UnserializableStateError` naming channel or record."""
    now = time.time()
    checkpoints = commit.checkpoints
    rows = Rows(
        commit.thread_id,
        commit.namespace,
        Holder(commit.token, now, now + lease),
        commit.claims,
        commit.acquire,
        commit.release,
        checkpoints[-1].id if checkpoints else None,
    )
    for checkpoint in checkpoints:
        for channel, value in checkpoint.changed.items():
            rows.values.append(_value_row(rows, channel, checkpoint.id, value))
        rows.checkpoints.append(_checkpoint_row(rows, checkpoint, commit.tip))
    for pending in commit.pending:
        rows.pending.append(_pending_row(rows, commit.at, pending))
    rows.forget.extend((commit.at, *record) for record in commit.forget)
    return rows


def _value_row(rows: Rows, channel: str, version: str, value: Any) -> ValueRow:
    try:
        body = pack(value)
    except UnserializableStateError as error:
        error.channel = channel
        raise
    return ValueRow(
        channel, version, 0, None, body, seal(body, rows.thread_id, rows.namespace, channel, version)
    )


def _checkpoint_row(rows: Rows, checkpoint: Checkpoint, tip: Tip) -> CheckpointRow:
    for channel in checkpoint.changed:
        tip.versions[channel] = checkpoint.id
    for channel in checkpoint.cleared:
        tip.versions.pop(channel, None)
    tip.weight += 1 + len(checkpoint.changed) + len(checkpoint.cleared)
    is_base = not tip.base or tip.weight > max(SMALLEST_BASE, len(tip.versions))
    if is_base:
        tip.base, tip.weight = checkpoint.id, 0
    try:
        metadata = pack(dict(checkpoint.metadata)) if checkpoint.metadata else None
        work = pack(dict(checkpoint.work)) if checkpoint.work else None
    except UnserializableStateError as error:
        error.record = ("input or metadata", "")
        raise
    body: bytes = _plain.pack(
        (
            FORMAT,
            checkpoint.created_at,
            checkpoint.source,
            metadata,
            checkpoint.control,
            work,
            list(checkpoint.changed),
            list(checkpoint.cleared),
            tip.versions if is_base else None,
        )
    )
    row = (rows.thread_id, rows.namespace, checkpoint.id, checkpoint.parent_id, tip.base, checkpoint.step)
    return CheckpointRow(*row[2:], body, seal(body, *row))


def _pending_row(rows: Rows, at: str, pending: Pending) -> PendingRow:
    try:
        body = pack(pending.value)
    except UnserializableStateError as error:
        error.record = (pending.kind, pending.key)
        error.task_id = pending.task_id
        raise
    row = (at, pending.task_id, pending.kind, pending.key)
    return PendingRow(*row, body, seal(body, rows.thread_id, rows.namespace, *row))


def seal(body: bytes, *key: str | int | None) -> int:
    """CRC-32 of a row: of its body and of everything that says whose body it is."""
    return crc32(body, crc32(repr(key).encode()))


def open_checkpoint(thread_id: str, namespace: str, row: CheckpointRow) -> CheckpointBody:
    key = (thread_id, namespace, *row[:4])
    body = _open(thread_id, row.id, "checkpoint", row.body, row.checksum, key)
    try:
        opened = CheckpointBody(*body)
    except TypeError:
        raise corrupt(thread_id, row.id, "its checkpoint row has another shape") from None
    if opened.format != FORMAT:
        raise corrupt(thread_id, row.id, f"it has format {opened.format}, this version reads {FORMAT}")
    return opened


def to_checkpoint(row: CheckpointRow, body: CheckpointBody) -> Checkpoint:
    """The record of a row; `changed` is left empty, `Saved.values` has the state."""
    metadata = unpack(body.metadata) if body.metadata else {}
    work = unpack(body.work) if body.work else None
    return Checkpoint(
        row.id, row.parent_id, row.step, body.source, body.created_at, metadata, body.control, work
    )


def open_value(thread_id: str, namespace: str, checkpoint_id: str, row: ValueRow) -> Any:
    key = (thread_id, namespace, row.channel, row.version)
    return _open(thread_id, checkpoint_id, f"channel {row.channel!r}", row.body, row.checksum, key)


def open_pending(thread_id: str, namespace: str, row: PendingRow) -> Pending:
    key = (thread_id, namespace, *row[:4])
    value = _open(thread_id, row.checkpoint_id, f"pending {row.kind}", row.body, row.checksum, key)
    return Pending(row.task_id, row.kind, row.key, value)


def _open(
    thread_id: str, checkpoint_id: str, what: str, body: bytes, stored: int, key: Sequence[str | int | None]
) -> Any:
    if seal(body, *key) != stored:
        raise corrupt(thread_id, checkpoint_id, f"the checksum of its {what} is wrong")
    return unpack(body)


def corrupt(thread_id: str, checkpoint_id: str, problem: str) -> CheckpointCorruptError:
    return CheckpointCorruptError(
        f"checkpoint {checkpoint_id!r} of thread {thread_id!r} cannot be read: {problem}; "
        f"run from an earlier checkpoint of its history or restore the database"
    )


def resolve_tip(
    thread_id: str, target: CheckpointRow, bodies: Mapping[str, tuple[str | None, CheckpointBody]]
) -> Tip:
    """The versions that `target` sees. `bodies` maps ids from its base to itself to (parent, body)."""
    chain: list[CheckpointBody] = []
    current: str | None = target.id
    while True:
        if current is None or current not in bodies:
            raise corrupt(thread_id, target.id, f"the checkpoint {current!r} that it builds on is missing")
        parent, body = bodies[current]
        chain.append(body)
        if body.versions is not None:
            return _replay(chain, bodies, target)
        current = parent


def _replay(chain: list[CheckpointBody], bodies: Mapping[str, Any], target: CheckpointRow) -> Tip:
    ids = {id(body): checkpoint_id for checkpoint_id, (_, body) in bodies.items()}
    base = chain.pop()
    tip = Tip(dict(base.versions or {}), target.base_id)
    for body in reversed(chain):
        tip.versions.update((channel, ids[id(body)]) for channel in body.changed)
        for channel in body.cleared:
            tip.versions.pop(channel, None)
        tip.weight += 1 + len(body.changed) + len(body.cleared)
    return tip
