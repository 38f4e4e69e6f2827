"""Statements prepared on one connection of psycopg, run by libpq's own functions (`psycopg.pq`).

A cursor looks for the dumper of each value and for the statement among those it has prepared, and makes itself ready
for rows. That is a third of the time of a short statement, and nothing of it is needed where few texts are run again
and again and return no rows. https://www.psycopg.org/psycopg3/docs/api/pq.html
"""

from __future__ import annotations

import re
from itertools import count
from types import NoneType
from typing import Any, Final, Self

from psycopg import Connection, errors, generators, pq

_UNKNOWN, _BYTEA = 0, 17
"""Types of parameters: what the server finds out itself, and
https://www.postgresql.org/docs/current/datatype-oid.html"""
_TEXT, _BINARY = 0, 1
_FORMATS: Final = {str: _BINARY, bytes: _BINARY, NoneType: _BINARY, int: _TEXT, float: _TEXT}
"""How values are given. A str as text would end at its first NUL instead of being refused."""
_DONE: Final = pq.ExecStatus.COMMAND_OK


class PreparedStatements:
    """Statements without rows on one connection in autocommit mode, each prepared when it is first run.

    `execute` takes a text with `%s` for each value (str, bytes, int, float or None) and returns the object itself,
    whose `rowcount` says how many rows were written. Raises psycopg's errors. One thread uses it at a time.
    """

    def __init__(self, connection: Connection[Any]) -> None:
        self.rowcount = 0
        self._connection = connection
        self._pgconn = connection.pgconn
        self._encoding = connection.info.encoding
        self._names: dict[str, bytes] = {}
        self._numbers = count()

    def execute(self, sql: str, values: Any) -> Self:
        try:
            formats = [_FORMATS[type(value)] for value in values]
        except KeyError:
            return self.execute(sql, [_exact(value) for value in values])
        encoding = self._encoding
        dumped = [
            value.encode(encoding)
            if type(value) is str
            else value
            if value is None or type(value) is bytes
            else repr(value).encode()
            for value in values
        ]
        try:
            result = self._run(self._names.get(sql) or self._prepare(sql, values), dumped, formats)
        except errors.InvalidSqlStatementName:
            self._names.clear()  # somebody has discarded what was prepared here; nothing was run
            result = self._run(self._prepare(sql, values), dumped, formats)
        self.rowcount = result.command_tuples or 0
        return self

    def _run(self, name: bytes, values: list[bytes | None], formats: list[int]) -> pq.abc.PGresult:
        self._pgconn.send_query_prepared(name, values, formats)
        return self._answer()

    def _prepare(self, sql: str, values: Any) -> bytes:
        name = f"graphkit_{next(self._numbers)}".encode()
        places = count(1)
        numbered = re.sub("%s", lambda _: f"${next(places)}", sql)
        types = [_BYTEA if isinstance(value, bytes) else _UNKNOWN for value in values]
        self._pgconn.send_prepare(name, numbered.encode(), types)
        self._answer()
        self._names[sql] = name
        return name

    def _answer(self) -> pq.abc.PGresult:
        """What the server says, waited for as cursors do: Ctrl-C cancels the statement."""
        result: pq.abc.PGresult
        (result,) = self._connection.wait(generators.execute(self._pgconn))
        if result.status != _DONE:
            raise errors.error_from_result(result, encoding=self._encoding)
        return result


def _exact(value: Any) -> Any:
    """What an instance of a subclass is, as one of the type itself."""
    if type(value) in _FORMATS:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    for kind in (int, float):
        if isinstance(value, kind):
            return kind(value)
    raise TypeError(f"a statement cannot be given a {type(value).__name__}")
