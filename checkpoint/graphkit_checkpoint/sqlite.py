"""`SqliteSaver`: threads in an SQLite file, shared by any number of processes of one machine."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Self, Unpack

from sqlalchemy import create_engine
from sqlalchemy import exc as sql_errors
from sqlalchemy.engine import Connection, Engine, make_url
from sqlalchemy.pool import StaticPool

from graphkit_checkpoint.base import SaverOptions
from graphkit_checkpoint.errors import (
    StorageBusyError,
    StorageCorruptError,
    StorageError,
    StorageUnavailableError,
)
from graphkit_checkpoint.sql import PREFIX, SqlSaver

Synchronous = Literal["FULL", "NORMAL"]
Location = str | os.PathLike[str] | Engine | sqlite3.Connection

HEADER = b"SQLite format 3\0"
PRAGMA_SYNCHRONOUS = {"FULL": "PRAGMA synchronous = FULL", "NORMAL": "PRAGMA synchronous = NORMAL"}


class SqliteSaver(SqlSaver):
    """Keeps threads in an SQLite file (WAL mode).

    `location` is a path, an `sqlite:///` URL, an SQLAlchemy engine or an open `sqlite3` connection (made
    with `check_same_thread=False`); with the latter two the database may hold other tables too.
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
        self._path = _path_of(location)
        self._synchronous = synchronous
        self._pid = os.getpid()
        if self._path:
            check_file(self._path, create)
        self._shared = isinstance(location, Engine)
        self._closes_connection = not isinstance(location, sqlite3.Connection)
        self._closes_engine = self._closes_connection and not self._shared
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._closed = False
        engine = _engine_of(location, timeout)
        super().__init__(engine, engine.dialect, **options)
        try:
            self.setup()
        except BaseException:
            self.close()
            raise

    @classmethod
    def from_conn_string(cls, conn_string: str, **options: Any) -> Self:
        """The saver for a path; use it in `with` or `async with`, which closes it."""
        return cls(conn_string, **options)

    def _connect(self) -> Connection:
        """The saver's own connection, with transactions as it needs them.

        No engine events are used for this: one listener would make every statement of the engine slower.
        """
        if self._pid != os.getpid():
            # SQLite's connections must not cross a fork; the parent's stay open, untouched.
            self.engine.dispose(close=False)
            self._pid = os.getpid()
        connection = self.engine.connect()
        if self._shared:
            connection.detach()  # what is set here is nobody else's business
        driver: Any = connection.connection.dbapi_connection
        # The driver would begin transactions by itself, and never with a write lock.
        driver.isolation_level = None
        driver.execute(PRAGMA_SYNCHRONOUS[self._synchronous])
        dialect: Any = connection.dialect
        dialect.do_begin = _begin
        return connection

    def close(self) -> None:
        super().close()
        with self._lock:
            self._closed = True
            connection, self._connection = self._connection, None
            if connection is not None and self._closes_connection:
                connection.close()
            if self._closes_engine:
                self.engine.dispose()

    def setup(self) -> None:
        with self.transaction("read") as connection:
            names = {row[0] for row in connection.exec_driver_sql("SELECT name FROM sqlite_master")}
        ours = any(name.startswith(PREFIX) for name in names)
        if names and not ours and self._path:
            raise StorageCorruptError(
                f"{self._name} belongs to another program (tables {', '.join(sorted(names)[:3])} …); use a "
                f"file of its own, or pass an open connection to share a database on purpose"
            )
        self._use_wal()
        with self.transaction("read" if ours else "write") as connection:
            self.create_tables(connection)

    def _use_wal(self) -> None:
        """Readers and the writer do not wait for each other. Set once it is known to be our file."""
        assert self._connection is not None
        driver: Any = self._connection.connection.dbapi_connection
        try:
            if driver.execute("PRAGMA journal_mode").fetchone()[0] not in ("wal", "memory"):
                driver.execute("PRAGMA journal_mode = WAL")
        except sqlite3.DatabaseError as error:
            raise translate(error, self._name) from error

    @property
    def _name(self) -> str:
        return f"SQLite file {self._path!r}" if self._path else f"SQLite database {self.engine.url}"

    @contextmanager
    def transaction(self, mode: str) -> Iterator[Connection]:
        with self._lock:
            if self._closed:
                raise StorageUnavailableError(f"the saver of {self._name} is closed; open a new one")
            try:
                if self._connection is None or self._pid != os.getpid():
                    self._connection = self._connect()
                connection = self._connection
                connection.info["graphkit_mode"] = mode
                transaction = connection.begin()
            except (sql_errors.DBAPIError, sqlite3.Error) as error:
                raise translate(error, self._name) from error
            try:
                yield connection
                if mode == "write":
                    transaction.commit()
            except (sql_errors.DBAPIError, sqlite3.Error) as error:
                raise translate(error, self._name) from error
            finally:
                if transaction.is_active:
                    transaction.rollback()


AsyncSqliteSaver = SqliteSaver
"""The same saver: every saver serves sync and async callers."""


def _begin(connection: Any) -> None:
    """Begin as the saver wants it; on other connections of the engine nothing is done, as before."""
    mode = connection.info.get("graphkit_mode")
    if mode is not None:
        # A write lock at once: a transaction that reads first and writes later can fail halfway through.
        connection.dbapi_connection.execute("BEGIN IMMEDIATE" if mode == "write" else "BEGIN")


def _engine_of(location: Location, timeout: float) -> Engine:
    if isinstance(location, Engine):
        return location
    if isinstance(location, sqlite3.Connection):
        return create_engine("sqlite://", creator=lambda: location, poolclass=StaticPool)
    text = os.fspath(location)
    url = make_url(text) if text.startswith("sqlite:") else make_url("sqlite://").set(database=text)
    return create_engine(
        url, poolclass=StaticPool, connect_args={"check_same_thread": False, "timeout": timeout}
    )


def _path_of(location: Location) -> str:
    """The file behind a location, "" if there is none or it was opened by the caller."""
    if isinstance(location, (Engine, sqlite3.Connection)):
        return ""
    text = os.fspath(location)
    if text.startswith("sqlite:"):
        text = make_url(text).database or ""
    return "" if text in ("", ":memory:") or text.startswith("file:") else text


def check_file(path: str, create: bool) -> None:
    """Refuse what SQLite would open and only later find to be no database. Raises `StorageCorruptError`."""
    file = Path(path)
    size = file.stat().st_size if file.exists() else None
    if not size:
        if create:
            return
        what = "does not exist" if size is None else "is empty"
        raise StorageCorruptError(f"SQLite file {path!r} {what}; pass create=True to make a new one")
    with file.open("rb") as stream:
        head = stream.read(100)
    if not head.startswith(HEADER):
        raise StorageCorruptError(f"{path!r} is not an SQLite file; it is damaged or another program's")
    _check_size(path, head, size)


def _check_size(path: str, head: bytes, size: int) -> None:
    wal = Path(f"{path}-wal")
    if wal.exists() and wal.stat().st_size:
        return  # the pages that the header counts may still be in the log
    page = int.from_bytes(head[16:18], "big")
    expected = (65536 if page == 1 else page) * int.from_bytes(head[28:32], "big")
    if size < expected:
        raise StorageCorruptError(
            f"SQLite file {path!r} is truncated: it has {size} of {expected} bytes; restore it from a backup"
        )


def translate(error: Exception, name: str) -> StorageError:
    """Our error for one of the driver's."""
    cause = error.orig if isinstance(error, sql_errors.DBAPIError) and error.orig else error
    text = str(cause)
    if "locked" in text or "busy" in text:
        return StorageBusyError(f"{name} stayed locked by another writer ({text}); try the same call again")
    if any(sign in text for sign in ("malformed", "not a database", "disk image", "no such table")):
        return StorageCorruptError(f"{name} is damaged ({text}); restore it from a backup")
    if isinstance(cause, (sqlite3.OperationalError, sqlite3.ProgrammingError)):
        return StorageUnavailableError(f"{name} cannot be used ({text}); nothing was written")
    return StorageError(f"{name}: {text}")
