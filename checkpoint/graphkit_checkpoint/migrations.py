"""How the tables of an older schema version become those of the present one.

`MIGRATIONS` has one step for each version, from it to the next; `SqlSaver.create_tables` walks them in the
transaction that records the version, so a database is in one version or in the other. A step reads by its own
tables and its own reader of rows, and writes by the present ones: whoever makes the next version leaves it copies
of those.

A process of the old version that still has the database open cannot go on with what it finds after a migration.
So runs must have ended before it, and such processes should have.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from zlib import crc32

from msgpack import Packer, Unpacker, UnpackException  # type: ignore[import-untyped]
from sqlalchemy import (
    DDL,
    BigInteger,
    Column,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    insert,
    inspect,
    select,
)
from sqlalchemy.engine import Connection

from graphkit_checkpoint.errors import CheckpointCorruptError, StorageBusyError, StorageCorruptError
from graphkit_checkpoint.layout import (
    FORMAT,
    GIVEN,
    PLAIN,
    SMALL_GIVEN,
    CheckpointBody,
    CheckpointRow,
    Layout,
    PendingRow,
    ValueRow,
)
from graphkit_checkpoint.ownership import Holder, forget_token, is_alive, new_token
from graphkit_checkpoint.records import SCALAR
from graphkit_checkpoint.serde import unpack
from graphkit_checkpoint.statements import (
    checkpoint_table,
    metadata,
    pending_table,
    thread_table,
    value_table,
)

Row = Any
"""A row of an old table: its columns are attributes."""
Migration = Callable[[Connection, Layout], None]

ROWS_AT_ONCE: Final = 64

# Version 1: SQLite only. A version of a channel is its complete value, an input is part of `work`.

schema_1: Final = MetaData()

thread_1 = Table(
    "graphkit_1_thread",
    schema_1,
    Column("thread_id", Text, primary_key=True),
    Column("namespace", Text, primary_key=True),
    Column("head", Text),
    Column("epoch", BigInteger, nullable=False),
    Column("owner", Text),
    Column("since", Float),
    Column("lease", Float),
    Column("expiry", Float),
)
checkpoint_1 = Table(
    "graphkit_1_checkpoint",
    schema_1,
    Column("thread_id", Text, primary_key=True),
    Column("namespace", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("parent_id", Text),
    Column("base_id", Text, nullable=False),
    Column("step", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("checksum", BigInteger, nullable=False),
)
value_1 = Table(
    "graphkit_1_value",
    schema_1,
    Column("thread_id", Text, primary_key=True),
    Column("namespace", Text, primary_key=True),
    Column("channel", Text, primary_key=True),
    Column("version", Text, primary_key=True),
    Column("kind", Integer, nullable=False),
    Column("previous", Text),
    Column("body", LargeBinary, nullable=False),
    Column("checksum", BigInteger, nullable=False),
)
pending_1 = Table(
    "graphkit_1_write",
    schema_1,
    Column("thread_id", Text, primary_key=True),
    Column("namespace", Text, primary_key=True),
    Column("checkpoint_id", Text, primary_key=True),
    Column("task_id", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("body", LargeBinary, nullable=False),
    Column("checksum", BigInteger, nullable=False),
)

PLACES: Final = {
    thread_table.name: thread_1,
    checkpoint_table.name: checkpoint_1,
    value_table.name: value_1,
    pending_table.name: pending_1,
}
"""Where each table of version 1 stays while its rows are moved, by the name it had."""
ASIDE: Final = (
    "ALTER TABLE graphkit_thread RENAME TO graphkit_1_thread",
    "ALTER TABLE graphkit_checkpoint RENAME TO graphkit_1_checkpoint",
    "ALTER TABLE graphkit_value RENAME TO graphkit_1_value",
    "ALTER TABLE graphkit_write RENAME TO graphkit_1_write",
)


def from_1_to_2(connection: Connection, layout: Layout) -> None:
    """Values become rows of their own kind, inputs leave `work`; ids, histories, questions and epochs stay.

    Values are moved as bytes: no type of the program needs to be registered. With a cipher they are encrypted.
    Threads get no `ttl` and expire by the saver's after their next commit. Owners that are dead are dropped.
    Raises `StorageBusyError` if one is alive, `CheckpointCorruptError` for a row that is damaged, and
    `StorageCorruptError` for tables that never were of version 1.
    """
    _check_columns(connection)
    for rename in ASIDE:
        connection.execute(DDL(rename))  # type: ignore[no-untyped-call]
    _refuse_owned(connection)
    metadata.create_all(connection)
    for rows in _portions(connection, thread_1):
        connection.execute(insert(thread_table), [_thread(row) for row in rows])
    for rows in _portions(connection, value_1):
        connection.execute(insert(value_table), [_value(layout, row) for row in rows])
    for rows in _portions(connection, pending_1):
        connection.execute(insert(pending_table), [_pending(layout, row) for row in rows])
    for rows in _portions(connection, checkpoint_1):
        moved = [_checkpoint(layout, row) for row in rows]
        connection.execute(insert(checkpoint_table), [checkpoint for checkpoint, _ in moved])
        inputs = [value for _, values in moved for value in values]
        if inputs:
            connection.execute(insert(value_table), inputs)
    schema_1.drop_all(connection)


MIGRATIONS: Final[Mapping[int, Migration]] = {1: from_1_to_2}
"""From the version that is the key to the next."""


def _portions(connection: Connection, table: Table) -> Iterator[Sequence[Row]]:
    with connection.execute(select(table).execution_options(yield_per=ROWS_AT_ONCE)) as found:
        yield from found.partitions()


# Before anything is changed


def _check_columns(connection: Connection) -> None:
    """The layouts between 1 and 2 had the same number; nobody but their developers has such a database."""
    inspector = inspect(connection)
    for name, table in PLACES.items():
        if not inspector.has_table(name):
            raise _not_version_1(connection, f"there is no {name}")
        found = [column["name"] for column in inspector.get_columns(name)]
        if found != list(table.c.keys()):
            raise _not_version_1(connection, f"{name} has the columns {', '.join(found)}")


def _not_version_1(connection: Connection, problem: str) -> StorageCorruptError:
    return StorageCorruptError(
        f"the tables of {connection.engine.url!r} say that they have schema version 1, but {problem}; restore the "
        f"database from a backup, or begin with a new one"
    )


def _refuse_owned(connection: Connection) -> None:
    owned = select(thread_1).where(thread_1.c.owner.is_not(None)).order_by(thread_1.c.thread_id)
    for row in connection.execute(owned).all():
        if _is_alive(row.owner, row.lease or 0.0):
            raise StorageBusyError(
                f"the tables of {connection.engine.url!r} have schema version 1 and cannot be migrated while thread "
                f"{row.thread_id!r} is owned by run {row.owner}; nothing was changed: try again when that run has ended"
            )


def _is_alive(owner: str, lease: float) -> bool:
    """By the rule of version 1, which renewed no leases: they count only where the process cannot be seen."""
    return is_alive(Holder(owner, 0.0, math.inf)) and (_host_of(owner) == _this_host() or time.time() < lease)


def _host_of(token: str) -> str:
    return token.rsplit("/", 3)[0]


def _this_host() -> str:
    token = new_token()
    forget_token(token)
    return _host_of(token)


# Rows


def _thread(row: Row) -> dict[str, Any]:
    free = {"owner": None, "since": None, "lease": None, "ttl": None}
    return {**row._asdict(), **free}


def _value(layout: Layout, row: Row) -> dict[str, Any]:
    body = _opened(row, row.version, f"channel {row.channel!r}", row.channel, row.version)
    if row.kind != PLAIN:
        raise _damaged(row, row.version, f"channel {row.channel!r} has the unknown kind {row.kind!r}")
    return _value_row(layout, row, row.channel, row.version, body)


def _value_row(layout: Layout, row: Row, channel: str, log: str, body: bytes) -> dict[str, Any]:
    key = (channel, log, 0, 0, PLAIN, None)
    return _placed(row, layout.cover_value(row.thread_id, row.namespace, key, body))


def _pending(layout: Layout, row: Row) -> dict[str, Any]:
    key = (row.checkpoint_id, row.task_id, row.kind, row.key)
    body = _opened(row, row.checkpoint_id, f"pending {row.kind}", *key)
    return _placed(row, layout.cover_pending(row.thread_id, row.namespace, key, body))


def _checkpoint(layout: Layout, row: Row) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The row, and those of an input that is too large to be part of it."""
    try:
        old = _body(row)
        given, work = (None, None) if old.work is None else _parts(old.work)
        versions: dict[str, Any] | None = None
        if old.versions is not None:
            versions = {channel: [log, SCALAR] for channel, log in old.versions.items()}
        values: list[dict[str, Any]] = []
        body = CheckpointBody(
            FORMAT,
            old.created_at,
            old.source,
            old.metadata,
            old.control,
            work,
            dict.fromkeys(old.changed),
            old.cleared,
            given and [_given(layout, row, index, *write, values) for index, write in enumerate(given)],
            versions,
        )
        key = (row.id, row.parent_id, row.base_id, row.step)
        return _placed(row, layout.cover_checkpoint(row.thread_id, row.namespace, key, body)), values
    except (TypeError, ValueError, AttributeError, UnpackException):
        raise _damaged(row, row.id, "its checkpoint row has another shape") from None


def _given(
    layout: Layout, row: Row, index: int, channel: str, value: bytes, values: list[dict[str, Any]]
) -> list[Any]:
    """How a checkpoint lists a write of its input; a large one is added to `values`."""
    if len(value) <= SMALL_GIVEN:
        return [channel, value]
    source = f"{GIVEN}{index}:{channel}"
    values.append(_value_row(layout, row, source, row.id, value))
    return [channel, source, row.id, 0, SCALAR]


def _placed(row: Row, new: CheckpointRow | ValueRow | PendingRow) -> dict[str, Any]:
    return {"thread_id": row.thread_id, "namespace": row.namespace, **new._asdict()}


# The format of version 1


class _Body(NamedTuple):
    """What a checkpoint row's body holds. A version is the id of the checkpoint that wrote the value."""

    format: int
    created_at: float
    source: str
    metadata: bytes | None
    control: dict[str, Any]
    work: bytes | None
    changed: list[str]
    cleared: list[str]
    versions: dict[str, str] | None


def _body(row: Row) -> _Body:
    packed = _opened(row, row.id, "checkpoint", row.id, row.parent_id, row.base_id, row.step)
    body = _Body(*unpack(packed))
    if body.format != 1:
        raise _damaged(row, row.id, f"it has format {body.format}")
    return body


def _parts(work: bytes) -> tuple[list[tuple[str, bytes]] | None, bytes | None]:
    """The writes of an input, each value as its bytes, and what else there is in `work`, packed again."""
    reader = Unpacker(max_buffer_size=0, unicode_errors="surrogatepass")
    reader.feed(work)

    def packed() -> bytes:
        start = reader.tell()
        reader.skip()
        return work[start : reader.tell()]

    given: list[tuple[str, bytes]] | None = None
    rest: list[bytes] = []
    for _ in range(reader.read_map_header()):
        start = reader.tell()
        key = reader.unpack()
        if key == "input":
            given = []
            for _ in range(reader.read_array_header()):
                reader.read_array_header()
                given.append((reader.unpack(), packed()))
        else:
            packed()
            rest.append(work[start : reader.tell()])
    return given, b"".join((Packer().pack_map_header(len(rest)), *rest)) if rest else None


def _opened(row: Row, checkpoint_id: str, what: str, *key: str | int | None) -> bytes:
    """The body of a row whose checksum is right. The checksum begins with the key."""
    body = row.body
    place = (row.thread_id, row.namespace, *key)
    if not isinstance(body, bytes) or crc32(body, crc32(repr(place).encode())) != row.checksum:
        raise _damaged(row, checkpoint_id, f"the checksum of its {what} is wrong")
    return body


def _damaged(row: Row, checkpoint_id: str | None, problem: str) -> CheckpointCorruptError:
    return CheckpointCorruptError(
        f"checkpoint {checkpoint_id!r} of thread {row.thread_id!r} cannot be migrated from schema version 1: "
        f"{problem}; nothing was changed: restore the database, or delete the thread with the graphkit that wrote it"
    )
