"""The hot path's statements on the driver's own cursor.

What SQLAlchemy does for a statement that is text already (a context, a result, its events) takes longer than
SQLite or the client of PostgreSQL takes to run it. Where somebody listens to its events (a tracer, a test), the
same statements go through it, so that nothing is missed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from sqlalchemy.engine import Connection

_EVENTS: Final = ("before_cursor_execute", "after_cursor_execute", "begin", "commit", "rollback")
_SIGN: Final = "_has_events"

Execute: TypeAlias = Callable[[str, "tuple[Any, ...] | list[tuple[Any, ...]]"], Any]
"""Runs one statement, with the values of one row or for each of a list of rows. Returns what has `rowcount` and
`fetchall()` and can be iterated over: a cursor, or a result of SQLAlchemy's."""


def is_watched(connection: Connection) -> bool:
    """Whether somebody wants to know what is executed or committed here."""
    # SQLAlchemy's own sign that there have been listeners; to ask for each event takes ten times as long.
    if not (getattr(connection, _SIGN, True) or getattr(connection.engine, _SIGN, True)):
        return False
    listeners = connection.dispatch
    return any(getattr(listeners, name) for name in _EVENTS)


def driver_of(connection: Connection) -> Any:
    """The driver's connection, as long as this one is open."""
    return connection.connection.dbapi_connection


def execute_on(connection: Connection) -> Execute:
    """How to run statements in a transaction that has just begun."""
    return connection.exec_driver_sql if is_watched(connection) else direct(connection)


def direct(connection: Connection) -> Execute:
    """Runs statements on one cursor: a result is read before the next statement is run."""
    cursor = driver_of(connection).cursor()
    one, many = cursor.execute, cursor.executemany

    def execute(sql: str, values: tuple[Any, ...] | list[tuple[Any, ...]]) -> Any:
        if type(values) is list:
            many(sql, values)
        else:
            one(sql, values)
        return cursor

    return execute
