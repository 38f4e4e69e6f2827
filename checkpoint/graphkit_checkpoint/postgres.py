"""`PostgresSaver`: threads in a PostgreSQL database, shared by any number of processes and hosts."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple, Unpack

from sqlalchemy import Column, bindparam, column, func, insert, select, true, update, values
from sqlalchemy.engine import URL, Connection, Engine

from graphkit_checkpoint.base import SaverOptions
from graphkit_checkpoint.direct import Execute, direct, driver_of, is_watched
from graphkit_checkpoint.done import Done
from graphkit_checkpoint.engines.postgres import DRIVER_ERRORS, IDLE, SETUP_LOCK, engine_of, failure
from graphkit_checkpoint.errors import ConcurrentUpdateError, StorageCorruptError, StorageUnavailableError
from graphkit_checkpoint.layout import Rows
from graphkit_checkpoint.sql import SqlSaver, SqlTables, recorded_version
from graphkit_checkpoint.statements import (
    DIALECTS,
    SCHEMA_VERSION,
    checkpoint_table,
    hold_values,
    insert_thread,
    pending_table,
    thread_table,
    upsert,
    value_table,
)

MOST_ROWS: Final = 12
"""A commit with more rows than this is written by several statements: few are, and each size is its own text."""


PREPARED: Final = "graphkit_prepared"
"""Where a connection of the pool has its `PreparedStatements`."""

MODES: Final[dict[str, dict[str, Any]]] = {
    "read": {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True},
    "write": {"isolation_level": "READ COMMITTED"},
    "statement": {"isolation_level": "AUTOCOMMIT"},
}
"""How a connection is set for a transaction, or for a single statement, which the server commits by itself: a
process that is stopped in the middle of one keeps no row from its successor."""


class PostgresSaver(SqlSaver):
    """Keeps threads in a PostgreSQL database (14 or newer), by psycopg 3 and a pool of connections.

    `location` is a URL (`postgresql://user@host/database`) or an SQLAlchemy engine for psycopg. The tables
    are made when the saver is; `create=False` refuses a database without them (`StorageCorruptError`).
    `timeout` is how many seconds to wait for another writer's lock, or for a connection of the pool, before
    `StorageBusyError` (with an engine of your own: what that says).
    Further options are those of `BaseCheckpointSaver`. Raises `StorageUnavailableError` if the server
    cannot be reached.
    """

    workers = 4
    alone = "statement"

    def __init__(
        self,
        location: str | URL | Engine,
        *,
        timeout: float = 5.0,
        pool_size: int = 10,
        create: bool = True,
        **options: Unpack[SaverOptions],
    ) -> None:
        self._creates = create
        self._closes_engine = not isinstance(location, Engine)
        engine = engine_of(location, timeout, "PostgresSaver", pool_size=pool_size)
        self._closed = False
        self._kept: Connection | None = None
        self._kept_execute: Execute
        self._kept_since = 0.0
        self._abandoned: Connection | None = None
        self._driver_error: type[Exception] = engine.dialect.loaded_dbapi.Error
        super().__init__(engine, **options)
        try:
            self.setup()
        except BaseException:
            self.close()
            raise

    def setup(self) -> Done:
        with self.transaction("read") as connection:
            version = recorded_version(connection)
        if version is None and not self._creates:
            raise StorageCorruptError(f"{self._name} has no threads; pass create=True to make their tables")
        if version != SCHEMA_VERSION:
            with self.transaction("write") as connection:
                connection.execute(select(func.pg_advisory_xact_lock(SETUP_LOCK)))
                self.create_tables(connection)
        return Done()

    def close(self) -> None:
        super().close()
        with self._turn:
            self._closed = True
            self._give_back()
        if self._closes_engine:
            self.engine.dispose()

    def write_batch(self, batch: Sequence[Rows]) -> Sequence[ConcurrentUpdateError | None]:
        """A commit of the usual kind is one statement, and alone it needs no transaction around it."""
        if len(batch) == 1 and (step := step_of(batch[0])) is not None and self._write_alone(step, batch[0]):
            return [None]
        with self.transaction("write") as connection:
            tables = SqlTables(self, connection, locks=True)
            # What a statement refused has written nothing; the other way says why, and replaces expired threads.
            return [
                None if self._stepped(tables.execute, rows) else tables.apply([rows])[0] for rows in batch
            ]

    def _stepped(self, execute: Execute, rows: Rows) -> bool:
        """Whether a commit was written by one statement."""
        step = step_of(rows)
        return step is not None and step.run(execute, rows, self)

    def _write_alone(self, step: _Step, rows: Rows) -> bool:
        """Write by one statement on a connection that is kept from one to the next: one commit is written at a time,
        and to get it from the pool would cost a quarter of what the statement does."""
        if self._kept is not None and time.monotonic() - self._kept_since > IDLE:
            self._give_back()  # the pool knows how to find out whether it still works
        try:
            self._refuse_closed()
            if self._kept is None:
                self._kept = self._connect("statement")
                self._kept_execute = _prepared(self._kept)
            if is_watched(self._kept):
                with self._kept.begin():
                    written = step.run(self._kept.exec_driver_sql, rows, self)
            else:
                written = step.run(self._kept_execute, rows, self)
        except (*DRIVER_ERRORS, self._driver_error) as error:
            self._give_back()
            raise failure(error, self._name) from error
        except BaseException:
            self._give_back()
            raise
        self._kept_since = time.monotonic()
        if not self._closes_engine:
            self._give_back()  # others may wait for it
        return written

    def _give_back(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            with suppress(Exception):
                kept.close()

    def let_go(self) -> None:
        with self._turn:
            self._give_back()

    def begin_anew(self) -> None:
        self._abandoned, self._kept = self._kept, None
        super().begin_anew()

    @contextmanager
    def transaction(self, mode: str) -> Iterator[Connection]:
        self._refuse_closed()
        try:
            with self._connect(mode) as connection, connection.begin():
                yield connection
        except (*DRIVER_ERRORS, self._driver_error) as error:
            raise failure(error, self._name) from error

    def _connect(self, mode: str) -> Connection:
        # By the connection and not by an engine of its own: SQLAlchemy would do it by listening to that one's events,
        # and then each commit would have to find out that nobody else does (`is_watched`).
        return self.engine.connect().execution_options(**MODES[mode])

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StorageUnavailableError(f"the saver of {self._name} is closed; open a new one")

    @property
    def _name(self) -> str:
        return f"PostgreSQL database {self.engine.url!r}"


AsyncPostgresSaver = PostgresSaver
"""The same saver: every saver serves sync and async callers."""


def _prepared(connection: Connection) -> Execute:
    """How to run statements that return no rows, on a connection that commits each."""
    from graphkit_checkpoint.engines.prepared import PreparedStatements

    driver = driver_of(connection)
    if driver.prepare_threshold is None:  # whoever made the engine wants nothing to be prepared
        return direct(connection)
    if PREPARED not in connection.info:
        connection.info[PREPARED] = PreparedStatements(driver)
    execute: Execute = connection.info[PREPARED].execute
    return execute


_Kind = Literal["create", "claim", "hold"]


class _Shape(NamedTuple):
    """What kind of commit it is: a statement is made once for each."""

    kind: _Kind
    checkpoints: int
    values: int
    pending: int


class _Step:
    """A commit as one statement: the thread is admitted, and only then do the other parts have any rows.

    The last part is the statement itself, since a row that it has written says all that there is to know.
    """

    def __init__(self, shape: _Shape) -> None:
        thread = thread_table.c
        self.kind = shape.kind
        this = (thread.thread_id == bindparam("thread"), thread.namespace == bindparam("namespace"))
        if shape.kind == "create":
            change: Any = insert_thread("postgresql")
        elif shape.kind == "claim":
            change = update(thread_table).values(hold_values(claims=True))
            change = change.where(*this, thread.epoch == bindparam("witness"))
        else:
            change = update(thread_table).values(hold_values())
            change = change.where(*this, thread.owner == bindparam("witness"))
        admitted = change.returning(thread.thread_id).cte("admitted")
        parts: list[Any] = []
        names: list[str] = []
        for table, count, add in (
            (checkpoint_table, shape.checkpoints, insert),
            (value_table, shape.values, insert),
            (pending_table, shape.pending, lambda table: upsert("postgresql", table, ("body", "checksum"))),
        ):
            if count:
                columns = list(table.c)[2:]
                rows = [[f"{table.name}_{row}_{each.name}" for each in columns] for row in range(count)]
                names += [name for row in rows for name in row]
                given = _given(admitted, columns, rows)
                parts.append(add(table).from_select([each.name for each in table.c], given))
        *before, statement = parts or [change]
        for part in before:
            statement = statement.add_cte(part.cte(f"put_{part.table.name}"))
        compiled = statement.compile(dialect=DIALECTS["postgresql"])
        self.sql = str(compiled)
        places = {name: place for place, name in enumerate((*PARAMETERS, *names))}
        self._in_order = itemgetter(*(places[name] for name in compiled.positiontup))

    def run(self, execute: Execute, rows: Rows, saver: PostgresSaver) -> bool:
        """Whether the thread was admitted, and everything is written."""
        written: int = execute(self.sql, self.parameters(rows, saver)).rowcount
        return written > 0

    def parameters(self, rows: Rows, saver: PostgresSaver) -> tuple[Any, ...]:
        given: list[Any] = [
            rows.thread_id,
            "",
            None if rows.namespace else rows.head,
            1,
            None if rows.release else rows.token,
            saver.lease,
            None,
            saver.ttl,
            rows.acquire.epoch if rows.claims and rows.acquire else rows.token,
            rows.namespace,
        ]
        for part in (rows.checkpoints, rows.values, rows.pending):
            for row in part:
                given.extend(row)
        values: tuple[Any, ...] = self._in_order(given)
        return values


PARAMETERS: Final = (
    "thread",
    "namespace",
    "head",
    "epoch",
    "owner",
    "lease",
    "ttl",
    "expiry",
    "witness",
    "place",
)
"""What every commit gives, in the order of `_Step.parameters`; the cells of its rows follow."""


def step_of(rows: Rows) -> _Step | None:
    """The statement for a commit; None if it takes several."""
    checkpoints, values, pending = len(rows.checkpoints), len(rows.values), len(rows.pending)
    if (
        rows.folds
        or rows.forget
        or checkpoints + values + pending > MOST_ROWS
        or (rows.namespace and rows.head is not None)
    ):
        return None
    kind: _Kind = "hold" if not rows.claims else "create" if rows.acquire is None else "claim"
    return _step(kind, checkpoints, values, pending)


@functools.cache
def _step(kind: _Kind, checkpoints: int, values: int, pending: int) -> _Step:
    return _Step(_Shape(kind, checkpoints, values, pending))


def _given(admitted: Any, columns: Sequence[Column[Any]], rows: Sequence[Sequence[str]]) -> Any:
    """Rows of bound values under an admitted thread, and none without one."""
    typed = [
        [bindparam(name, type_=each.type) for name, each in zip(row, columns, strict=True)] for row in rows
    ]
    listed = values(*(column(each.name, each.type) for each in columns), name="given").data(
        [tuple(row) for row in typed]
    )
    return select(
        admitted.c.thread_id, bindparam("place", type_=thread_table.c.namespace.type), listed
    ).select_from(admitted.join(listed, onclause=true()))
