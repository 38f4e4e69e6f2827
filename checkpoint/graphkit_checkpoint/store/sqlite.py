"""`SqliteStore`: items in an SQLite file, shared by any number of processes of one machine."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

from sqlalchemy import inspect
from sqlalchemy.engine import Connection, Engine

from graphkit_checkpoint.engines.sqlite import BEGIN, Location, engine_of, unwrapped
from graphkit_checkpoint.engines.sqlite_errors import failure
from graphkit_checkpoint.errors import (
    StorageBusyError,
    StorageCorruptError,
    StorageError,
    StorageUnavailableError,
)
from graphkit_checkpoint.store.base import IndexConfig, TTLConfig
from graphkit_checkpoint.store.rows import Mode, RowStore
from graphkit_checkpoint.store.sql import SqlStore

__all__ = ["AsyncSqliteStore", "SqliteStore"]


class SqliteStore(SqlStore):
    """Keeps items in an SQLite file (WAL mode).

    `conn` is a path, an `sqlite:///` URL, an SQLAlchemy engine or an open `sqlite3` connection (made with
    `check_same_thread=False`); with the latter two the database may hold other tables too, and `close`
    leaves them open. `ttl` says how long items live (`TTLConfig`, in minutes). `timeout` is how many
    seconds to wait for another writer's lock before `StorageBusyError`; an engine or a connection brings
    its own. `clock` tells the time in unix seconds. With an `index` items can be searched by meaning.
    The first operation opens the file: `StorageCorruptError` if it is damaged or another program's.
    """

    def __init__(
        self,
        conn: Location,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        timeout: float = 5.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        conn = unwrapped(conn, "SqliteStore")
        self._given = conn if isinstance(conn, sqlite3.Connection) else None
        self._pid = os.getpid()
        self._own = not isinstance(conn, (Engine, sqlite3.Connection))
        super().__init__(
            engine_of(conn, timeout, "SqliteStore"), owned=self._own, index=index, ttl=ttl, clock=clock
        )

    @classmethod
    def from_conn_string(
        cls,
        conn_string: str,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        timeout: float = 5.0,
    ) -> Self:
        """The store for a path or URL; use it in `with` or `async with`, which opens and closes it."""
        return cls(conn_string, index=index, ttl=ttl, timeout=timeout)

    @property
    def _name(self) -> str:
        return f"SQLite database {self.engine.url.database or self.engine.url.render_as_string()!r}"

    @contextmanager
    def _connected(self, mode: Mode) -> Iterator[Connection]:
        # One at a time: SQLite has one writer, and waits for it by polling, which threads need not do.
        with self.lock:
            self._check_given()
            with self.engine.connect() as connection, connection.begin():
                # The driver begins by itself before it writes, unless that has been done; an engine may
                # have a listener that does.
                if not _driver(connection).in_transaction:
                    connection.exec_driver_sql(BEGIN[mode])
                yield connection

    def _check_given(self) -> None:
        if self._given is None:
            return
        if self._pid != os.getpid():
            raise StorageUnavailableError(
                f"{self._name} was opened before this process was forked; open it anew"
            )
        if self._given.in_transaction:
            raise StorageBusyError(f"{self._name} has an open transaction of yours; commit it and try again")

    def _create(self) -> None:
        with self._connected("read") as connection:
            if self._own:
                self._refuse_foreign(set(inspect(connection).get_table_names()))
            ready = self._has_tables(connection)
        if not ready:
            if self._own:
                self._use_wal()
            with self._connected("write") as connection:
                self._create_tables(connection)

    def _refuse_foreign(self, tables: set[str]) -> None:
        if tables and not any(name.startswith("graphkit_") for name in tables):
            raise StorageCorruptError(
                f"{self._name} belongs to another program (tables {', '.join(sorted(tables)[:3])} …); use a "
                f"file of its own, or pass an open connection to share a database on purpose"
            )

    def _use_wal(self) -> None:
        """Readers and the writer do not wait for each other. Set once it is known to be our file."""
        with self.lock, self.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")

    @property
    def _reopens(self) -> bool:
        """Whether another connection would find the same items; those in memory are there on both sides of a fork."""
        return self._given is None and self.engine.url.database not in (None, "", ":memory:")

    def let_go(self) -> None:
        if self._reopens and self._own:
            self.engine.dispose()

    def begin_anew(self) -> None:
        if self._reopens:
            super().begin_anew()
        else:
            RowStore.begin_anew(self)

    def _failure(self, error: BaseException) -> StorageError:
        return failure(error, self._name)


AsyncSqliteStore = SqliteStore
"""The same store: every store serves sync and async callers."""


def _driver(connection: Connection) -> Any:
    return connection.connection.dbapi_connection
