"""`PostgresStore`: items in a PostgreSQL database, shared by any number of machines."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Self

from sqlalchemy import create_engine, event, func, select
from sqlalchemy.engine import Connection, Engine, make_url

from graphkit_checkpoint.errors import (
    StorageBusyError,
    StorageCorruptError,
    StorageError,
    StorageUnavailableError,
)
from graphkit_checkpoint.store.base import TTLConfig
from graphkit_checkpoint.store.rows import Mode
from graphkit_checkpoint.store.sql import SqlStore

__all__ = ["AsyncPostgresStore", "PostgresStore"]

DRIVER: Final = "postgresql+psycopg"
SETUP_LOCK: Final = 0x67726170686B6974
"""The advisory lock ("graphkit" in ASCII) under which tables are created: PostgreSQL cannot do that twice at once."""

# https://www.postgresql.org/docs/current/errcodes-appendix.html
BUSY: Final = ("40001", "40P01", "55P03", "57014")  # serialization, deadlock, lock timeout, cancelled
UNAVAILABLE: Final = (
    "08",
    "28",
    "3D",
    "53",
    "57P",
    "25006",
)  # connection, login, database, resources, shutdown
CORRUPT: Final = ("XX001", "XX002", "42P01", "42703")  # data, index, no such table, no such column


class PostgresStore(SqlStore):
    """Keeps items in a PostgreSQL database.

    `conn` is a URL (`postgresql://user@host/database`) or an SQLAlchemy engine, which `close` leaves open.
    `ttl` says how long items live (`TTLConfig`, in minutes). `timeout` is how many seconds to wait for a
    connection (`StorageUnavailableError`) or a lock (`StorageBusyError`); an engine brings its own. `clock`
    tells the time in unix seconds: all processes that share a database need about the same. `index` is
    refused: there is no vector index. The first operation connects.
    """

    def __init__(
        self,
        conn: str | Engine,
        *,
        index: None = None,
        ttl: TTLConfig | None = None,
        timeout: float = 5.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        engine = _engine_of(conn, timeout)
        super().__init__(engine, owned=engine is not conn, index=index, ttl=ttl, clock=clock)

    @classmethod
    def from_conn_string(
        cls, conn_string: str, *, index: None = None, ttl: TTLConfig | None = None, timeout: float = 5.0
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
        # psycopg calls it sqlstate, psycopg2 pgcode; without one the server has not answered.
        state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None) or "08"
        text = str(error).strip()
        if state.startswith(BUSY):
            return StorageBusyError(f"{self._name} is busy ({text}); try the same call again")
        if state.startswith(UNAVAILABLE):
            return StorageUnavailableError(f"{self._name} cannot be used ({text}); try the same call again")
        if state.startswith(CORRUPT):
            return StorageCorruptError(f"{self._name} is damaged ({text})")
        return StorageError(f"{self._name}: {text}")


AsyncPostgresStore = PostgresStore
"""The same store: every store serves sync and async callers."""


def _engine_of(location: str | Engine, timeout: float) -> Engine:
    if isinstance(location, Engine):
        if location.dialect.name != "postgresql":
            raise ValueError(f"PostgresStore needs an engine for PostgreSQL, not for {location.dialect.name}")
        return location
    if not isinstance(location, str):
        raise TypeError(f"PostgresStore takes a URL or an SQLAlchemy engine, not a {type(location).__name__}")
    scheme, found, rest = location.partition("://")
    if not found or scheme not in ("postgres", "postgresql", DRIVER):
        raise ValueError("PostgresStore needs a URL such as 'postgresql://user@host/database'")
    url = make_url(f"{DRIVER}://{rest}")
    options: dict[str, Any] = (
        {} if "connect_timeout" in url.query else {"connect_timeout": math.ceil(timeout)}
    )
    try:
        # A connection that the server has closed meanwhile is found before it is used.
        engine = create_engine(url, pool_pre_ping=True, connect_args=options)
    except ImportError as error:
        raise ImportError(
            f'PostgresStore needs psycopg ({error}): pip install "graphkit-engine[postgres]"'
        ) from error
    event.listen(engine, "connect", _lock_timeout(timeout))
    return engine


def _lock_timeout(seconds: float) -> Callable[[Any, Any], None]:
    def set_timeout(connection: Any, record: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('lock_timeout', %s, false)", [f"{math.ceil(seconds * 1000)}ms"])
        connection.commit()

    return set_timeout
