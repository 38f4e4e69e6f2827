"""Threads in a relational database: tables and statements, written once with SQLAlchemy Core.

Statements of the hot path are compiled once per saver to the text of its dialect and run through the
driver with positional values: the same SQL as through Core, without building it again on every step.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.sql.expression import ClauseElement

from graphkit_checkpoint.base import BaseCheckpointSaver, conflict, lost, refuse_busy
from graphkit_checkpoint.errors import StorageCorruptError
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
from graphkit_checkpoint.ownership import Holder
from graphkit_checkpoint.records import Pending, Saved, ThreadState

SCHEMA_VERSION = 1
PREFIX = "graphkit_"

metadata = MetaData()

schema_table = Table(f"{PREFIX}schema", metadata, Column("version", Integer, primary_key=True))

thread_table = Table(
    f"{PREFIX}thread",
    metadata,
    Column("thread_id", Text, primary_key=True),
    Column("namespace", Text, primary_key=True),
    Column("head", Text),
    Column("epoch", BigInteger, nullable=False),
    Column("owner", Text),
    Column("since", Float),
    Column("lease", Float),
    Column("expiry", Float),
    sqlite_with_rowid=False,
)

checkpoint_table = Table(
    f"{PREFIX}checkpoint",
    metadata,
    Column("thread_id", Text, primary_key=True),
    Column("namespace", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("parent_id", Text),
    Column("base_id", Text, nullable=False),
    Column("step", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("checksum", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

value_table = Table(
    f"{PREFIX}value",
    metadata,
    Column("thread_id", Text, primary_key=True),
    Column("namespace", Text, primary_key=True),
    Column("channel", Text, primary_key=True),
    Column("version", Text, primary_key=True),
    Column("kind", Integer, nullable=False),
    Column("previous", Text),
    Column("body", LargeBinary, nullable=False),
    Column("checksum", BigInteger, nullable=False),
)

pending_table = Table(
    f"{PREFIX}write",
    metadata,
    Column("thread_id", Text, primary_key=True),
    Column("namespace", Text, primary_key=True),
    Column("checkpoint_id", Text, primary_key=True),
    Column("task_id", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("body", LargeBinary, nullable=False),
    Column("checksum", BigInteger, nullable=False),
)


class Statements:
    """The hot path's statements as text of one dialect. Values are given in the order of the columns."""

    def __init__(self, engine: Engine) -> None:
        def text(statement: ClauseElement) -> str:
            return str(statement.compile(dialect=engine.dialect))

        thread = thread_table.c
        self.insert_thread = text(insert(thread_table))
        self.insert_checkpoint = text(insert(checkpoint_table))
        self.insert_value = text(insert(value_table))
        self.upsert_pending = text(_upsert(engine, pending_table, ("body", "checksum")))
        # Parameters in the order of SET (the table's), then of WHERE.
        step = update(thread_table).values(
            head=func.coalesce(bindparam("b_head"), thread.head),
            epoch=thread.epoch + literal_column("1"),
            owner=bindparam("b_owner"),
            since=bindparam("b_since"),
            lease=bindparam("b_lease"),
        )
        this = (thread.thread_id == bindparam("b_thread"), thread.namespace == bindparam("b_namespace"))
        self.claim = text(step.where(*this, thread.epoch == bindparam("b_epoch")))
        self.hold = text(step.where(*this, thread.owner == bindparam("b_token")))
        state = (thread.head, thread.epoch, thread.owner, thread.since, thread.lease)
        self.select_thread = text(select(*state).where(*this))
        self.select_checkpoint = text(_select(checkpoint_table, 3))
        chain = checkpoint_table.c.id.between(bindparam("b_base"), bindparam("b_id"))
        self.select_chain = text(_select(checkpoint_table, 2).where(chain))
        self.select_value = text(_select(value_table, 4))
        self.select_pending = text(
            _select(pending_table, 3).order_by(*list(pending_table.primary_key.columns))
        )
        keys = (column == bindparam(f"b_{column.name}") for column in pending_table.primary_key.columns)
        self.delete_pending = text(delete(pending_table).where(*keys))


def _select(table: Table, keys: int) -> Any:
    """The columns after thread and namespace, of the rows with these values of the first `keys` key columns."""
    columns = list(table.primary_key.columns)[:keys]
    return select(*list(table.c)[2:]).where(*(column == bindparam(f"b_{column.name}") for column in columns))


def _upsert(engine: Engine, table: Table, replaced: Sequence[str]) -> ClauseElement:
    """INSERT that replaces columns of an existing row; both databases spell it alike, Core has it twice."""
    build = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}[engine.dialect.name]
    statement: Any = build(table)
    return statement.on_conflict_do_update(  # type: ignore[no-any-return]
        index_elements=list(table.primary_key.columns),
        set_={name: statement.excluded[name] for name in replaced},
    )


class SqlSaver(BaseCheckpointSaver):
    """A saver over an SQLAlchemy engine. Subclasses open the engine and translate its errors.

    What the caller opened stays open: `_closes_engine`, `_closes_connection`.
    """

    _closes_engine = True
    _closes_connection = True

    def __init__(self, engine: Engine, *, lease: float) -> None:
        super().__init__(lease=lease)
        self.engine = engine
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._closed = False
        self._statements = Statements(engine)

    # Opening and closing

    @contextmanager
    def _transaction(self, mode: str) -> Iterator[Connection]:
        """One transaction, "read" or "write", on the saver's connection; errors come out as ours."""
        raise NotImplementedError
        yield

    def close(self) -> None:
        super().close()
        with self._lock:
            self._closed = True
            connection, self._connection = self._connection, None
            if connection is not None and self._closes_connection:
                connection.close()
            if self._closes_engine:
                self.engine.dispose()

    def _create_tables(self, connection: Connection) -> None:
        metadata.create_all(connection)
        version = connection.execute(select(schema_table.c.version)).scalar()
        if version is None:
            connection.execute(insert(schema_table).values(version=SCHEMA_VERSION))
        elif version > SCHEMA_VERSION:
            raise StorageCorruptError(
                f"the tables of {self.engine.url!r} have schema version {version}, this graphkit knows "
                f"{SCHEMA_VERSION}; use the newer graphkit that wrote them"
            )

    # Reading

    def find(
        self, thread_id: str, namespace: str = "", checkpoint_id: str | None = None
    ) -> tuple[ThreadState | None, Saved | None]:
        with self._transaction("read") as connection:
            root = self._thread(connection, thread_id, "")
            state = self._thread(connection, thread_id, namespace) if namespace else root
            if root is None or state is None:
                return root, None
            wanted = checkpoint_id or state.head
            row = self._checkpoint(connection, thread_id, namespace, wanted) if wanted else None
            if row is None:
                if wanted and not checkpoint_id:
                    raise corrupt(thread_id, wanted, "the thread's head is missing")
                return root, None
            return root, self._open(connection, thread_id, namespace, root, row)

    def checkpoint_ids(self, thread_id: str, namespace: str = "") -> list[str]:
        table = checkpoint_table.c
        query = select(table.id).where(table.thread_id == thread_id, table.namespace == namespace)
        with self._transaction("read") as connection:
            return list(connection.execute(query.order_by(table.id.desc())).scalars())

    def find_pending(self, thread_id: str, kind: str, key: str) -> list[Pending]:
        table = pending_table.c
        query = (
            select(table.checkpoint_id, table.task_id, table.kind, table.key, table.body, table.checksum)
            .where(table.thread_id == thread_id, table.namespace == "", table.kind == kind, table.key == key)
            .order_by(table.checkpoint_id.desc())
        )
        with self._transaction("read") as connection:
            rows = connection.execute(query).all()
        return [open_pending(thread_id, "", PendingRow(*row)) for row in rows]

    def _thread(self, connection: Connection, thread_id: str, namespace: str) -> ThreadState | None:
        row = connection.exec_driver_sql(self._statements.select_thread, (thread_id, namespace)).one_or_none()
        if row is None:
            return None
        head, epoch, owner, since, lease = row
        return ThreadState(head, epoch, Holder(owner, since, lease) if owner is not None else None)

    def _checkpoint(
        self, connection: Connection, thread_id: str, namespace: str, checkpoint_id: str
    ) -> CheckpointRow | None:
        key = (thread_id, namespace, checkpoint_id)
        row = connection.exec_driver_sql(self._statements.select_checkpoint, key).one_or_none()
        return None if row is None else CheckpointRow(*row)

    def _open(
        self, connection: Connection, thread_id: str, namespace: str, state: ThreadState, row: CheckpointRow
    ) -> Saved:
        own = open_checkpoint(thread_id, namespace, row)
        bodies = {row.id: (row.parent_id, own)}
        if own.versions is None:
            # Ids sort by time, so this range holds the chain; other branches in it are passed over.
            key = (thread_id, namespace, row.base_id, row.id)
            for found in connection.exec_driver_sql(self._statements.select_chain, key):
                other = CheckpointRow(*found)
                if other.id != row.id:
                    bodies[other.id] = (other.parent_id, open_checkpoint(thread_id, namespace, other))
        tip = resolve_tip(thread_id, row, bodies)
        values = self._values(connection, thread_id, namespace, row.id, tip.versions)
        pending = self._pending(connection, thread_id, namespace, row.id)
        return Saved(state, to_checkpoint(row, own), values, pending, tip)

    def _values(
        self,
        connection: Connection,
        thread_id: str,
        namespace: str,
        checkpoint_id: str,
        versions: dict[str, str],
    ) -> dict[str, Any]:
        values = {}
        for key in versions.items():
            found = connection.exec_driver_sql(self._statements.select_value, (thread_id, namespace, *key))
            row = found.one_or_none()
            if row is None:
                raise corrupt(thread_id, checkpoint_id, f"version {key[1]} of channel {key[0]!r} is missing")
            values[key[0]] = open_value(thread_id, namespace, checkpoint_id, ValueRow(*row))
        return values

    def _pending(
        self, connection: Connection, thread_id: str, namespace: str, checkpoint_id: str
    ) -> list[Pending]:
        key = (thread_id, namespace, checkpoint_id)
        rows = connection.exec_driver_sql(self._statements.select_pending, key).all()
        return [open_pending(thread_id, namespace, PendingRow(*row)) for row in rows]

    # Writing

    def write(self, rows: Rows) -> None:
        thread_id, namespace = rows.thread_id, rows.namespace
        statements = self._statements
        with self._transaction("write") as connection:
            execute = connection.exec_driver_sql
            self._admit(connection, rows)
            if namespace and rows.head is not None:
                self._move_head(connection, rows)
            for sql, found in (
                (statements.insert_checkpoint, rows.checkpoints),
                (statements.insert_value, rows.values),
            ):
                if len(found) == 1:  # the usual case; a list of one would cost the driver's slower way
                    execute(sql, (thread_id, namespace, *found[0]))
                elif found:
                    execute(sql, [(thread_id, namespace, *row) for row in found])
            self._write_pending(connection, rows)

    def delete_thread(self, thread_id: str) -> None:
        with self._transaction("write") as connection:
            state = self._thread(connection, thread_id, "")
            refuse_busy(thread_id, state.holder if state else None)
            for table in (pending_table, value_table, checkpoint_table, thread_table):
                connection.execute(delete(table).where(table.c.thread_id == thread_id))

    def _write_pending(self, connection: Connection, rows: Rows) -> None:
        this = (rows.thread_id, rows.namespace)
        if rows.forget:
            gone = [(*this, *key) for key in rows.forget]
            connection.exec_driver_sql(self._statements.delete_pending, gone)
        if rows.pending:
            values = [(*this, *row) for row in rows.pending]
            connection.exec_driver_sql(self._statements.upsert_pending, values)

    def _admit(self, connection: Connection, rows: Rows) -> None:
        """Claim, hold or release the thread in this transaction; raises if it may not write."""
        if rows.claims and rows.acquire is None:
            self._create_thread(connection, rows)
            return
        head = None if rows.namespace else rows.head
        owner = (None, None, None) if rows.release else rows.holder
        sql = self._statements.claim if rows.claims else self._statements.hold
        witness = rows.acquire.epoch if rows.claims and rows.acquire else rows.holder.token
        done = connection.exec_driver_sql(sql, (head, *owner, rows.thread_id, "", witness))
        if done.rowcount != 1:
            state = self._thread(connection, rows.thread_id, "")
            now = state.holder if state else None
            raise (
                conflict(rows.thread_id, now) if rows.claims else lost(rows.thread_id, rows.holder.token, now)
            )

    def _create_thread(self, connection: Connection, rows: Rows) -> None:
        existing = self._thread(connection, rows.thread_id, "")
        if existing is not None:
            raise conflict(rows.thread_id, existing.holder)
        owner = (None, None, None) if rows.release else rows.holder
        head = rows.head if not rows.namespace else None
        values = (rows.thread_id, "", head, 1, *owner, None)
        connection.exec_driver_sql(self._statements.insert_thread, values)

    def _move_head(self, connection: Connection, rows: Rows) -> None:
        """The head of a nested graph's namespace; the root's row has been checked already."""
        table = thread_table.c
        this = (table.thread_id == rows.thread_id, table.namespace == rows.namespace)
        done = connection.execute(update(thread_table).where(*this).values(head=rows.head))
        if done.rowcount == 0:
            values = (rows.thread_id, rows.namespace, rows.head, 0, None, None, None, None)
            connection.exec_driver_sql(self._statements.insert_thread, values)
