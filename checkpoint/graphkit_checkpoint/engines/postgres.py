"""PostgreSQL: engines for URLs, by psycopg 3; errors by their SQLSTATE."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import create_engine, event
from sqlalchemy import exc as sql_errors
from sqlalchemy.engine import URL, Engine, make_url

from graphkit_checkpoint.engines import checked_timeout
from graphkit_checkpoint.errors import (
    StorageBusyError,
    StorageCorruptError,
    StorageError,
    StorageUnavailableError,
)

DRIVER: Final = "postgresql+psycopg"
IDLE: Final = 0.02
"""Seconds after which a connection of the pool is tried before it is used again."""
LAST_USE: Final = "graphkit_last_use"
SETUP_LOCK: Final = 0x67726170686B6974
"""The advisory lock ("graphkit" in ASCII) under which tables are made: PostgreSQL cannot do that twice at once."""

DRIVER_ERRORS: Final = (sql_errors.DBAPIError, sql_errors.TimeoutError, UnicodeDecodeError)
"""What SQLAlchemy raises; psycopg's own are `engine.dialect.loaded_dbapi.Error`."""

# https://www.postgresql.org/docs/current/errcodes-appendix.html
_BUSY: Final = ("40001", "40P01", "55P03", "57014")  # serialization, deadlock, lock timeout, cancelled
_UNAVAILABLE: Final = (
    "08",
    "25006",
    "28",
    "3D",
    "53",
    "57P",
    "58",
)  # connection, login, resources, shutdown, disk
_CORRUPT: Final = ("XX001", "XX002", "42P01", "42703")  # data, index, no such table, no such column


def engine_of(location: str | URL | Engine, timeout: float, owner: str, *, pool_size: int = 5) -> Engine:
    """The engine for what a user gives; an engine is returned as it is.

    `timeout` is the seconds to wait for a lock, for a connection of the pool and for the server to answer. A
    connection that was not used for a while is tried before it is. Raises `TypeError` and `ValueError` naming
    `owner`, `ImportError` without psycopg.
    """
    if isinstance(location, Engine):
        if location.dialect.name != "postgresql":
            raise ValueError(f"{owner} needs an engine for PostgreSQL, not for {location.dialect.name}")
        return location
    if not isinstance(location, (str, URL)):
        raise TypeError(f"{owner} takes a URL or an SQLAlchemy engine, not a {type(location).__name__}")
    try:
        url = make_url(location)
    except sql_errors.ArgumentError:
        raise ValueError(f"{owner} needs a URL such as 'postgresql://user@host/database'") from None
    if url.drivername not in ("postgres", "postgresql", DRIVER):
        raise ValueError(f"{owner} needs a URL such as 'postgresql://user@host/database', not {url!r}")
    checked_timeout(timeout)
    # For libpq and the server 0 would be to wait for ever.
    options: dict[str, Any] = (
        {} if "connect_timeout" in url.query else {"connect_timeout": max(math.ceil(timeout), 1)}
    )
    try:
        engine = create_engine(
            url.set(drivername=DRIVER),
            pool_size=pool_size,
            max_overflow=pool_size,
            pool_timeout=timeout,
            connect_args=options,
        )
    except ImportError as error:
        raise ImportError(
            f'{owner} needs psycopg ({error}): pip install "graphkit-engine[postgres]"'
        ) from error
    event.listen(engine.pool, "connect", _prepare(timeout))
    event.listen(engine.pool, "checkin", _note_use)
    event.listen(engine.pool, "checkout", _try_if_idle)
    return engine


def _note_use(connection: Any, record: Any) -> None:
    record.info[LAST_USE] = time.monotonic()


def _try_if_idle(connection: Any, record: Any, proxy: Any) -> None:
    """The server may have been restarted since; asking on every use would cost an exchange each."""
    last_use = record.info.get(LAST_USE)
    if last_use is None or time.monotonic() - last_use < IDLE:
        return
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        connection.rollback()
    except Exception as error:
        raise sql_errors.DisconnectionError(str(error)) from error  # the pool takes another one


def _prepare(seconds: float) -> Callable[[Any, Any], None]:
    lock_timeout = max(math.ceil(seconds * 1000), 1)

    def prepare(connection: Any, record: Any) -> None:
        from psycopg.types.numeric import Int8Dumper

        # Numbers of one width, whatever their size: else each mixture of sizes is another statement to prepare.
        connection.adapters.register_dumper(int, Int8Dumper)
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('lock_timeout', %s, false)", [f"{lock_timeout}ms"])
        connection.commit()

    return prepare


def failure(error: BaseException, name: str) -> StorageError:
    """The error to raise instead; `name` says which database it was."""
    cause: Any = getattr(error, "orig", None) or error
    text = " ".join(str(cause).split())
    if isinstance(error, sql_errors.TimeoutError):
        return StorageBusyError(f"{name} has no free connection ({text}); try the same call again")
    # Without a state the server has not answered.
    gone = isinstance(error, _CONNECTION) or type(cause).__name__ in ("OperationalError", "InterfaceError")
    state = getattr(cause, "sqlstate", None) or ("08" if gone else "")
    if state.startswith(_BUSY):
        return StorageBusyError(f"{name} is busy ({text}); try the same call again")
    if state.startswith(_UNAVAILABLE):
        return StorageUnavailableError(f"{name} cannot be used ({text}); try the same call again")
    if state.startswith(_CORRUPT) or isinstance(cause, UnicodeDecodeError):
        return StorageCorruptError(f"{name} is damaged ({text}); restore it from a backup")
    return StorageError(f"{name}: {text}")


_CONNECTION: Final = (sql_errors.OperationalError, sql_errors.InterfaceError)
