"""`PostgresStore`: items in a PostgreSQL database, shared by any number of machines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from sqlalchemy import func, select
from sqlalchemy.engine import Connection, Engine

from graphkit_checkpoint.engines.postgres import SETUP_LOCK, engine_of, failure
from graphkit_checkpoint.errors import StorageError
from graphkit_checkpoint.store.base import IndexConfig, TTLConfig
from graphkit_checkpoint.store.rows import Mode
from graphkit_checkpoint.store.sql import SqlStore

__all__ = ["AsyncPostgresStore", "PostgresStore"]


class PostgresStore(SqlStore):
    """Keeps items in a PostgreSQL database.

    `conn` is a URL (`postgresql://user@host/database`) or an SQLAlchemy engine, which `close` leaves open.
    `ttl` says how long items live (`TTLConfig`, in minutes). `timeout` is how many seconds to wait for a
    connection (`StorageUnavailableError`) or a lock (`StorageBusyError`); an engine brings its own. `clock`
    tells the time in unix seconds: all processes that share a database need about the same. With an
    `index` items can be searched by meaning. The first operation connects.
    """

    def __init__(
        self,
        conn: str | Engine,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        timeout: float = 5.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        engine = engine_of(conn, timeout, "PostgresStore")
        super().__init__(engine, owned=engine is not conn, index=index, ttl=ttl, clock=clock)

    @classmethod
    def from_conn_string(
        cls,
        conn_string: str,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        timeout: float = 5.0,
    ) -> Self:
        """The store for a URL; use it in `with` or `async with`, which opens and closes it."""
        return cls(conn_string, index=index, ttl=ttl, timeout=timeout)

    @property
    def _name(self) -> str:
        return f"PostgreSQL database {self.engine.url.render_as_string()!r}"

    @contextmanager
    def _connected(self, mode: Mode) -> Iterator[Connection]:
        with self.engine.connect() as connection:
            if mode == "read":  # several statements see one moment
                connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    def _create(self) -> None:
        with self._connected("read") as connection:
            ready = self._has_tables(connection)
        if not ready:
            with self._connected("write") as connection:
                connection.execute(select(func.pg_advisory_xact_lock(SETUP_LOCK)))
                self._create_tables(connection)

    def _failure(self, error: BaseException) -> StorageError:
        return failure(error, self._name)


AsyncPostgresStore = PostgresStore
"""The same store: every store serves sync and async callers."""
