"""SQLite: engines for paths, URLs and open connections; what can be begun on them."""

from __future__ import annotations

import os
import re
import sqlite3
from copy import copy
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sqlalchemy import create_engine
from sqlalchemy import exc as sql_errors
from sqlalchemy.engine import URL, Dialect, Engine, make_url
from sqlalchemy.engine.create import create_engine as bare_create_engine
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import QueuePool, StaticPool

from graphkit_checkpoint.engines import checked_timeout
from graphkit_checkpoint.engines.sqlite_errors import SQLITE_ERRORS

if TYPE_CHECKING:
    import aiosqlite

Location: TypeAlias = "str | os.PathLike[str] | URL | Engine | sqlite3.Connection | aiosqlite.Connection"

BEGIN: Final = {"read": "BEGIN", "write": "BEGIN IMMEDIATE"}
"""A write lock at once: a transaction that reads first and writes later can fail halfway through."""

_LEGACY: Final = -1
"""`sqlite3.LEGACY_TRANSACTION_CONTROL`, since Python 3.12. Else `commit` ends nothing, or begins anew at once."""

_IS_URL: Final = re.compile(r"[a-z][a-z0-9+]*://")
_DRIVERS: Final = ("sqlite", "sqlite+pysqlite", "sqlite+aiosqlite")
"""Whichever is asked for, the file is opened with `sqlite3`: both doors lead to it."""

DRIVER_ERRORS: Final = (sql_errors.DBAPIError, *SQLITE_ERRORS)


def engine_of(location: Location, timeout: float, owner: str, *, one_connection: bool = False) -> Engine:
    """The engine for what a user gives; an engine is returned as it is. `timeout` is the seconds to wait for
    another writer's lock. Raises `TypeError` and `ValueError`, which name `owner`, the class that was called."""
    if isinstance(location, Engine):
        if location.dialect.name != "sqlite":
            raise ValueError(f"{owner} needs an engine for SQLite, not for {location.dialect.name}")
        return location
    if isinstance(location, sqlite3.Connection):
        if getattr(location, "autocommit", _LEGACY) != _LEGACY:
            raise ValueError(
                f"{owner} needs a connection that was opened without autocommit=…, so that transactions can be begun "
                f"on it; leave it out of sqlite3.connect()"
            )
        if location.text_factory is not str:
            raise ValueError(f"{owner} reads texts as str; leave the connection's text_factory as it is")
        # No reset: what is begun on the connection outside of ours is not ours to roll back.
        return create_engine(
            "sqlite://", creator=lambda: location, poolclass=StaticPool, pool_reset_on_return=None
        )
    if not isinstance(location, (str, os.PathLike, URL)):
        raise TypeError(
            f"{owner} takes a path, an sqlite URL, an SQLAlchemy engine or an open connection of sqlite3 or "
            f"aiosqlite, not a {type(location).__name__}"
        )
    url = _url_of(location, owner)
    arguments = {"check_same_thread": False, "timeout": checked_timeout(timeout)}
    if one_connection or url.database in (None, "", ":memory:"):
        return _engine_of_one_connection(url, arguments)
    return create_engine(url, poolclass=QueuePool, connect_args=arguments)


def _url_of(location: str | os.PathLike[str] | URL, owner: str) -> URL:
    """The URL of a path or a URL. Raises `ValueError` for one that is not for SQLite."""
    if not isinstance(location, URL) and not (isinstance(location, str) and _IS_URL.match(location)):
        return URL.create("sqlite", database=os.fspath(location))
    try:
        url = make_url(location)
    except ArgumentError:
        url = None
    if url is None or url.drivername not in _DRIVERS:
        raise ValueError(
            f"{owner} needs a path or a URL such as 'sqlite:///threads.sqlite', not {url or location!r}"
        )
    return url.set(drivername="sqlite")


_dialect: Dialect | None = None
"""That of the last engine that `create_engine` made for one connection."""


def _engine_of_one_connection(url: URL, arguments: dict[str, Any]) -> Engine:
    """A program may have hundreds of these, and what `create_engine` looks up for each takes longer than opening a
    file: so the next ones share what it has found out. If something is around it, a tracer, it sees each."""
    global _dialect
    dialect = _dialect
    known = getattr(dialect, "default_isolation_level", None)  # what it finds out last
    if dialect is None or not known or create_engine is not bare_create_engine:
        engine = create_engine(url, poolclass=StaticPool, connect_args=arguments)
        _dialect = engine.dialect
        return engine
    dialect = copy(dialect)
    vars(dialect).pop("dispatch", None)  # who listens to one engine's errors
    places, names = dialect.create_connect_args(url)
    begin = dialect.on_connect()

    def connect() -> Any:
        connection = dialect.connect(*places, **{**names, **arguments})
        if begin is not None:
            begin(connection)
        return connection

    return Engine(StaticPool(connect, dialect=dialect), dialect, url)


def path_of(engine: Engine) -> str:
    """The file that an engine of ours opens; "" if there is none or its URL is one of SQLite's own ("file:")."""
    path = engine.url.database or ""
    return "" if path == ":memory:" or "uri" in engine.url.query else path


def unwrapped(location: Any, owner: str) -> Any:
    """An aiosqlite connection as the path of its file, everything else as it is.

    Such a connection belongs to a thread and a loop of its own, where blocking callers cannot follow; so
    the same file is opened once more. Raises `ValueError` for a database in memory.
    """
    if not type(location).__module__.startswith("aiosqlite"):
        return location
    with sqlite3_twin(location) as twin:
        path: str = twin.execute("PRAGMA database_list").fetchone()[2]
    twin.close()
    if not path:
        raise ValueError(
            f"{owner} cannot share an aiosqlite connection to a database in memory; use a file or InMemorySaver"
        )
    return path


def sqlite3_twin(connection: Any) -> sqlite3.Connection:
    """Another connection, made the way the aiosqlite connection is."""
    twin: sqlite3.Connection = connection._connector()
    return twin
