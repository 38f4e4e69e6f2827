"""Statements that are prepared on a connection to PostgreSQL and run without a cursor of the driver."""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing
from enum import IntEnum
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, text

from graphkit import START, StateGraph
from graphkit.checkpoint.postgres import PostgresSaver
from graphkit_checkpoint.engines.prepared import PreparedStatements

INSERT = "INSERT INTO kept VALUES (%s, %s, %s, %s)"
UPDATE = "UPDATE kept SET body = %s WHERE name >= %s"
ROWS: list[tuple[Any, ...]] = [
    ("ä€𝄞\\'\"%", 2**63 - 1, 0.1, b"\0\xff"),
    ("", -(2**63), math.inf, b""),
    ("%s", 0, None, b"%s"),
    ("none", None, -0.0, None),
]


@pytest.fixture
def connection(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    with closing(psycopg.connect(postgres_url.replace("+psycopg", ""), autocommit=True)) as connection:
        connection.execute(
            "CREATE TABLE kept (name text PRIMARY KEY, number bigint, share float8, body bytea)"
        )
        yield connection


def rows_of(connection: psycopg.Connection[Any]) -> set[Any]:
    return set(connection.execute("SELECT * FROM kept").fetchall())


def test_values_are_kept_as_they_are(connection: psycopg.Connection[Any]) -> None:
    statements = PreparedStatements(connection)
    assert [statements.execute(INSERT, row).rowcount for row in ROWS] == [1] * 4
    assert rows_of(connection) == set(ROWS)
    assert statements.execute(UPDATE, (b"new", "a")).rowcount == 2
    assert statements.execute(UPDATE, (b"new", "\U0010ffff")).rowcount == 0


def test_subclasses_are_kept_as_what_they_are(connection: psycopg.Connection[Any]) -> None:
    class Name(str):
        def __str__(self) -> str:
            return "another"

    class Number(IntEnum):
        ONE = 1

    PreparedStatements(connection).execute(INSERT, (Name("ada"), Number.ONE, True, b"body"))
    assert rows_of(connection) == {("ada", 1, 1.0, b"body")}


def test_what_the_server_refuses_is_an_error_of_the_driver(connection: psycopg.Connection[Any]) -> None:
    statements = PreparedStatements(connection)
    statements.execute(INSERT, ROWS[0])
    with pytest.raises(psycopg.errors.UniqueViolation):
        statements.execute(INSERT, ROWS[0])
    with pytest.raises(psycopg.errors.CharacterNotInRepertoire):  # and is not cut at the NUL
        statements.execute(INSERT, ("a\0b", 1, 1.0, b""))
    with pytest.raises(psycopg.errors.UndefinedTable):
        statements.execute("DELETE FROM missing WHERE name = %s", ("a",))
    with pytest.raises(TypeError, match="list"):
        statements.execute(INSERT, ("a", [1], 1.0, b""))
    statements.execute(INSERT, ROWS[1])
    assert rows_of(connection) == set(ROWS[:2])


def test_what_was_discarded_is_prepared_again(connection: psycopg.Connection[Any]) -> None:
    statements = PreparedStatements(connection)
    statements.execute(INSERT, ROWS[0])
    statements.execute(UPDATE, (b"new", "a"))
    connection.execute("DEALLOCATE graphkit_0")
    statements.execute(INSERT, ROWS[1])
    connection.execute("DISCARD ALL")
    statements.execute(INSERT, ROWS[2])
    statements.execute(UPDATE, (b"newer", ""))
    assert len(rows_of(connection)) == 3


def test_a_server_that_went_away_is_an_operational_error(connection: psycopg.Connection[Any]) -> None:
    statements = PreparedStatements(connection)
    statements.execute(INSERT, ROWS[0])
    with psycopg.connect(connection.info.dsn, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", [connection.info.backend_pid])
    with pytest.raises(psycopg.OperationalError):
        statements.execute(INSERT, ROWS[1])


def test_ctrl_c_cancels_a_statement_that_waits(connection: psycopg.Connection[Any]) -> None:
    statements = PreparedStatements(connection)
    waits = "SELECT FROM pg_locks WHERE pid = %s AND NOT granted"

    def interrupt(other: psycopg.Connection[Any]) -> None:
        while not other.execute(waits, [connection.info.backend_pid]).fetchall():
            pass
        os.kill(os.getpid(), signal.SIGINT)

    with psycopg.connect(connection.info.dsn) as other:
        other.execute("LOCK TABLE kept")
        watch = threading.Thread(target=interrupt, args=(other,))
        watch.start()
        with pytest.raises(KeyboardInterrupt):
            statements.execute(INSERT, ROWS[0])
        watch.join()
    statements.execute(INSERT, ROWS[1])
    assert rows_of(connection) == {ROWS[1]}


@pytest.mark.parametrize("threshold", [5, None])
def test_an_engine_says_whether_savers_prepare(postgres_url: str, threshold: int | None) -> None:
    engine = create_engine(postgres_url, pool_size=1, connect_args={"prepare_threshold": threshold})
    builder: Any = StateGraph(dict).add_node("a", lambda state: {}).add_edge(START, "a")
    with PostgresSaver(engine) as saver:
        for _ in range(2):
            builder.compile(checkpointer=saver).invoke({"n": 1}, {"configurable": {"thread_id": "t"}})
    with engine.connect() as connection:
        names = connection.execute(text("SELECT name FROM pg_prepared_statements")).scalars().all()
    engine.dispose()
    assert any(name.startswith("graphkit_") for name in names) is (threshold is not None)
