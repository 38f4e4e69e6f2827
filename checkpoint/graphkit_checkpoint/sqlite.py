"""`SqliteSaver`: threads in an SQLite file, shared by any number of processes of one machine."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, Unpack

from sqlalchemy.engine import URL, Connection, Engine

from graphkit_checkpoint.base import SaverOptions
from graphkit_checkpoint.direct import Execute, direct, driver_of, is_watched
from graphkit_checkpoint.done import Done
from graphkit_checkpoint.engines.sqlite import (
    BEGIN,
    DRIVER_ERRORS,
    Location,
    engine_of,
    path_of,
    unwrapped,
)
from graphkit_checkpoint.engines.sqlite_errors import failure
from graphkit_checkpoint.errors import StorageCorruptError, StorageUnavailableError
from graphkit_checkpoint.sql import SqlSaver
from graphkit_checkpoint.statements import PREFIX, SCHEMA_VERSION, metadata, schema_table

Synchronous = Literal["FULL", "NORMAL"]
HEADER = b"SQLite format 3\0"
PRAGMA_LOG_LIMIT = "PRAGMA journal_size_limit = 4194304"
"""The log is cut to its usual size after a large value went through it."""
OURS = frozenset(metadata.tables)
READ_VERSION = f"SELECT version FROM {schema_table.name}"
PRAGMA_SYNCHRONOUS = {"FULL": "PRAGMA synchronous = FULL", "NORMAL": "PRAGMA synchronous = NORMAL"}


class SqliteSaver(SqlSaver):
    """Keeps threads in an SQLite file (WAL mode).

    `location` is a path, an `sqlite:///` URL (text or SQLAlchemy's), an SQLAlchemy engine, an open `sqlite3`
    connection (made with `check_same_thread=False`) or an `aiosqlite` connection (whose file is opened once
    more); with the latter three the database may hold other tables too.
    `synchronous="FULL"` (default) makes every commit survive a power failure with exactly one fsync,
    "NORMAL" survives the end of the process but may lose the last commits at a power failure.
    `timeout` is how many seconds to wait for another writer's lock before `StorageBusyError`.
    `create=False` refuses a missing or empty file. Further options are those of `BaseCheckpointSaver`.
    Raises `StorageCorruptError` for a file that is damaged or another program's.
    """

    def __init__(
        self,
        location: Location,
        *,
        synchronous: Synchronous = "FULL",
        timeout: float = 5.0,
        create: bool = True,
        **options: Unpack[SaverOptions],
    ) -> None:
        if synchronous not in ("FULL", "NORMAL"):
            raise ValueError(f"synchronous must be 'FULL' or 'NORMAL', not {synchronous!r}")
        self._has_others = not isinstance(location, (str, os.PathLike, URL))
        location = unwrapped(location, "SqliteSaver")
        engine = engine_of(location, timeout, "SqliteSaver", one_connection=True)
        self._shared = isinstance(location, Engine)
        self._given = isinstance(location, sqlite3.Connection)
        self._path = "" if self._shared or self._given else path_of(engine)
        self._synchronous = synchronous
        if self._path:
            check_file(self._path, create)
        self._connection: Connection | None = None
        self._driver: sqlite3.Connection
        self._execute: Execute
        self._abandoned: Connection | None = None
        self.closed = False
        super().__init__(engine, **options)
        try:
            self.setup()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> Connection:
        """The saver's own connection, with transactions as it needs them."""
        connection = self.engine.connect()
        if self._shared:
            connection.detach()  # what is set here is nobody else's business
        driver = driver_of(connection)
        # The driver would begin transactions by itself, and never with a write lock.
        driver.isolation_level = None
        driver.execute(PRAGMA_SYNCHRONOUS[self._synchronous])
        driver.execute(PRAGMA_LOG_LIMIT)
        self._driver = driver
        self._execute = direct(connection)
        return connection

    @property
    def _reopens(self) -> bool:
        """Whether another connection would find the same database; one in memory is there on both sides of a fork."""
        return not self._given and self.engine.url.database not in (None, "", ":memory:")

    def let_go(self) -> None:
        if self._reopens and self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()
            if not self._shared:
                self.engine.dispose()

    def begin_anew(self) -> None:
        if self._reopens:
            self._abandoned, self._connection = self._connection, None
            super().begin_anew()

    def close(self) -> None:
        super().close()
        with self.lock:
            self.closed = True
            connection, self._connection = self._connection, None
            if connection is not None and not self._given:
                connection.close()
            if not (self._given or self._shared):
                self.engine.dispose()

    def setup(self) -> Done:
        with self.transaction("read") as connection:
            # What SQLAlchemy would ask about each table takes longer than all the rest of opening a file.
            execute = self.execute_on(connection)
            names = {str(row[0]) for row in execute("SELECT name FROM sqlite_master", ()).fetchall()}
            ready = names >= OURS and execute(READ_VERSION, ()).fetchall() == [(SCHEMA_VERSION,)]
        ours = any(name.startswith(PREFIX) for name in names)
        if names and not ours and not self._has_others:
            raise StorageCorruptError(
                f"{self._name} belongs to another program (tables {', '.join(sorted(names)[:3])} …); use a "
                f"file of its own, or pass an open connection to share a database on purpose"
            )
        self._use_wal()
        if not ready:
            with self.transaction("write") as connection:
                self.create_tables(connection)
        return Done()

    def _use_wal(self) -> None:
        """Readers and the writer do not wait for each other. Set once it is known to be our file."""
        assert self._connection is not None
        driver = driver_of(self._connection)
        try:
            if driver.execute("PRAGMA journal_mode").fetchone()[0] not in ("wal", "memory"):
                driver.execute("PRAGMA journal_mode = WAL")
        except DRIVER_ERRORS as error:
            raise failure(error, self._name) from error

    @property
    def _name(self) -> str:
        return f"SQLite file {self._path!r}" if self._path else f"SQLite database {self.engine.url}"

    @contextmanager
    def transaction(self, mode: str) -> Iterator[Connection]:
        with self.lock:
            if self.closed:
                raise StorageUnavailableError(f"the saver of {self._name} is closed; open a new one")
            try:
                if self._connection is None:
                    self._connection = self._connect()
                if is_watched(self._connection):
                    with _watched(self._connection, mode):
                        yield self._connection
                    return
                driver = self._driver
                driver.execute(BEGIN[mode])
                try:
                    yield self._connection
                    if mode == "write":
                        driver.commit()
                finally:
                    driver.rollback()  # what is committed stays
                    if self._connection.in_transaction():
                        # A statement went through SQLAlchemy, which has to know that it is over.
                        self._connection.rollback()
            except DRIVER_ERRORS as error:
                raise failure(error, self._name) from error

    def execute_on(self, connection: Connection) -> Execute:
        return connection.exec_driver_sql if is_watched(connection) else self._execute


AsyncSqliteSaver = SqliteSaver
"""The same saver: every saver serves sync and async callers."""


@contextmanager
def _watched(connection: Connection, mode: str) -> Iterator[None]:
    """A transaction whose end SQLAlchemy tells its listeners of."""
    with connection.begin() as transaction:
        driver_of(connection).execute(BEGIN[mode])
        yield
        if mode == "read":
            transaction.rollback()


def check_file(path: str, create: bool) -> None:
    """Refuse what SQLite would open and only later find to be no database. Raises `StorageCorruptError`, and
    `StorageUnavailableError` for what cannot be read at all."""
    size = os.path.getsize(path) if os.path.exists(path) else None
    if not size:
        if create:
            return
        what = "does not exist" if size is None else "is empty"
        raise StorageCorruptError(f"SQLite file {path!r} {what}; pass create=True to make a new one")
    try:
        with open(path, "rb", buffering=0) as stream:
            head = stream.read(100)
    except OSError as error:
        raise StorageUnavailableError(f"SQLite file {path!r} cannot be read ({error.strerror})") from error
    if not head.startswith(HEADER):
        raise StorageCorruptError(f"{path!r} is not an SQLite file; it is damaged or another program's")
    _check_size(path, head, size)


def _check_size(path: str, head: bytes, size: int) -> None:
    wal = f"{path}-wal"
    if os.path.exists(wal) and os.path.getsize(wal):
        return  # the pages that the header counts may still be in the log
    page = int.from_bytes(head[16:18], "big")
    expected = (65536 if page == 1 else page) * int.from_bytes(head[28:32], "big")
    if size < expected:
        raise StorageCorruptError(
            f"SQLite file {path!r} is truncated: it has {size} of {expected} bytes; restore it from a backup"
        )
