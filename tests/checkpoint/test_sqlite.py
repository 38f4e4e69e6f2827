"""Where an SQLite database can come from, and what a saver does with a connection that others use too."""

from __future__ import annotations

import asyncio
import operator
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypedDict

import aiosqlite
import pytest
from sqlalchemy import create_engine, event, make_url, text
from sqlalchemy.exc import OperationalError

from graphkit import START, Command, StateGraph, interrupt
from graphkit.checkpoint.sqlite import SqliteSaver
from graphkit.checkpoint.sqlite.aio import AsyncSqliteSaver
from graphkit.errors import CheckpointCorruptError, StorageCorruptError, StorageUnavailableError
from graphkit.store.sqlite import SqliteStore
from graphkit.types import RunnableConfig
from graphkit_checkpoint.engines import sqlite as engines


class State(TypedDict, total=False):
    answer: str


class Talk(TypedDict):
    said: Annotated[list[str], operator.add]


CONFIG: RunnableConfig = {"configurable": {"thread_id": "t"}}


def graph(saver: Any) -> Any:
    builder = StateGraph(State).add_node("ask", lambda state: {"answer": interrupt("sure?")})
    return builder.add_edge(START, "ask").compile(checkpointer=saver)


def goes_on_in(first: Any, second: Any) -> None:
    """A question asked through one saver is answered through the other."""
    assert graph(first).run({}, CONFIG).status == "interrupted"
    assert graph(second).invoke(Command(resume="yes"), CONFIG) == {"answer": "yes"}


def test_a_path_and_a_url_name_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    with SqliteSaver(path) as one, SqliteSaver.from_conn_string(f"sqlite:///{path}") as other:
        goes_on_in(one, other)


@pytest.mark.parametrize("kind", [SqliteSaver, SqliteStore])
def test_every_url_of_sqlalchemy_for_sqlite_names_the_file(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    urls = [f"sqlite:///{path}", f"sqlite+pysqlite:///{path}", f"sqlite+aiosqlite:///{path}"]
    for url in [*urls, *map(make_url, urls)]:
        with kind(url) as opened:
            assert opened.engine.url.database == str(path)
            assert opened.engine.url.drivername == "sqlite"


@pytest.mark.parametrize("kind", [SqliteSaver, SqliteStore])
@pytest.mark.parametrize("url", ["postgresql://ada@host/x", "sqlite+pysqlcipher://:key@/x.db", "http://x/y"])
def test_a_url_of_something_else_is_no_path(kind: Any, url: str) -> None:
    for given in (url, make_url(url)):
        with pytest.raises(ValueError, match=rf"{kind.__name__} needs a path or a URL .*, not"):
            kind(given)


def test_a_path_may_look_like_a_url_of_sqlite_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StorageCorruptError, match=r"'file:t\.db' does not exist"):
        SqliteSaver("file:t.db", create=False)
    with SqliteSaver("file:t.db"), SqliteSaver("sqlite:t.db"):
        assert {path.name for path in tmp_path.glob("*.db")} == {"file:t.db", "sqlite:t.db"}


def test_a_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageUnavailableError, match=re.escape(repr(str(tmp_path)))):
        SqliteSaver(tmp_path)


@pytest.mark.parametrize("kind", [SqliteSaver, SqliteStore])
@pytest.mark.parametrize("timeout", [-1, "1", None, True, float("nan"), float("inf")])
def test_a_timeout_is_a_number_of_seconds(kind: Any, timeout: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="timeout must be a number of seconds"):
        kind(tmp_path / "t.db", timeout=timeout)


@pytest.mark.parametrize("kind", [SqliteSaver, SqliteStore])
def test_a_connection_that_reads_bytes_for_texts_is_refused(kind: Any) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.text_factory = bytes
        with pytest.raises(ValueError, match=f"{kind.__name__} .*text_factory"):
            kind(connection)


def test_the_async_name_is_the_same_saver(tmp_path: Path) -> None:
    async def run() -> None:
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "t.sqlite")) as saver:
            assert (await graph(saver).arun({}, CONFIG)).status == "interrupted"
            assert await graph(saver).ainvoke(Command(resume="yes"), CONFIG) == {"answer": "yes"}

    asyncio.run(run())


def test_a_database_in_memory(tmp_path: Path) -> None:
    with SqliteSaver(":memory:") as saver:
        goes_on_in(saver, saver)


def test_an_open_connection_may_hold_other_tables_and_stays_open(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "app.sqlite", check_same_thread=False)
    connection.execute("CREATE TABLE customer (name TEXT)")
    connection.commit()
    with SqliteSaver(connection) as saver:
        goes_on_in(saver, saver)
    connection.execute("INSERT INTO customer VALUES ('ada')")
    assert connection.execute("SELECT name FROM customer").fetchall() == [("ada",)]
    connection.close()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="connections have an autocommit since Python 3.12")
@pytest.mark.parametrize("autocommit", [True, False])
@pytest.mark.parametrize("kind", [SqliteSaver, SqliteStore])
def test_a_connection_with_the_new_autocommit_is_refused(kind: Any, autocommit: bool) -> None:
    options: dict[str, Any] = {"autocommit": autocommit}  # its commit() does nothing, or begins anew at once
    with closing(sqlite3.connect(":memory:", **options)) as connection:
        with pytest.raises(ValueError, match=f"{kind.__name__} .* without autocommit="):
            kind(connection)
        assert connection.autocommit is autocommit


def test_an_engine_keeps_its_own_transactions(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'app.sqlite'}")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE customer (name TEXT)"))
    saver = SqliteSaver(engine)
    goes_on_in(saver, saver)
    with engine.connect() as connection:
        connection.execute(text("INSERT INTO customer VALUES ('ada')"))
        connection.rollback()
        assert connection.execute(text("SELECT count(*) FROM customer")).scalar() == 0
    saver.close()
    engine.dispose()


def test_savers_share_what_sqlalchemy_has_found_out_and_nothing_else(tmp_path: Path) -> None:
    """Opening a file is a third of what restoring a session takes."""
    statements: list[str] = []
    with SqliteSaver(tmp_path / "a.db") as first, SqliteSaver(f"sqlite:///{tmp_path / 'b.db'}") as second:
        shared = "server_version_info", "identifier_preparer", "type_compiler_instance"
        for name in shared:
            assert getattr(second.engine.dialect, name) is getattr(first.engine.dialect, name)
        assert second.engine.pool is not first.engine.pool
        event.listen(second.engine, "before_cursor_execute", lambda *heard: statements.append(heard[2]))
        graph(first).run({}, CONFIG)
        assert not statements
        graph(second).run({}, CONFIG)
        assert statements
        with second.engine.connect() as connection:
            assert connection.execute(text("SELECT 'abc' REGEXP 'b'")).scalar() == 1
        errors: list[Any] = []
        event.listen(first.engine, "handle_error", errors.append)
        for saver in (second, first):
            with pytest.raises(OperationalError), saver.engine.connect() as connection:
                connection.execute(text("SELECT nothing"))
        assert [error.engine for error in errors] == [first.engine]


def test_a_tracer_around_the_making_of_engines_sees_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []

    def traced(*args: Any, **kwargs: Any) -> Any:
        made.append(create_engine(*args, **kwargs))
        return made[-1]

    monkeypatch.setattr(engines, "create_engine", traced)
    with SqliteSaver(tmp_path / "a.db") as first, SqliteSaver(tmp_path / "b.db") as second:
        assert made == [first.engine, second.engine]


def test_an_aiosqlite_connection_names_its_file(tmp_path: Path) -> None:
    async def run() -> None:
        path = tmp_path / "t.sqlite"
        async with aiosqlite.connect(path) as connection:
            await connection.execute("CREATE TABLE mine (n INTEGER)")
            async with AsyncSqliteSaver(connection) as saver:
                assert (await graph(saver).arun({}, CONFIG)).status == "interrupted"
                assert await graph(saver).ainvoke(Command(resume="yes"), CONFIG) == {"answer": "yes"}
            async with connection.execute("SELECT count(*) FROM mine") as rows:
                assert await rows.fetchone() == (0,)
            async with connection.execute("SELECT count(*) FROM graphkit_checkpoint") as rows:
                assert await rows.fetchone() == (3,)

    asyncio.run(run())


def test_an_aiosqlite_connection_to_memory_is_refused() -> None:
    async def run() -> None:
        async with aiosqlite.connect(":memory:") as connection:
            with pytest.raises(ValueError, match="in memory"):
                AsyncSqliteSaver(connection)

    asyncio.run(run())


@pytest.mark.parametrize("location", [3, None, object()])
def test_anything_else_is_no_location(location: Any) -> None:
    with pytest.raises(TypeError, match="SqliteSaver"):
        SqliteSaver(location)


@pytest.mark.parametrize("kind", [SqliteSaver, AsyncSqliteSaver, SqliteStore])
def test_an_engine_of_another_database_is_refused(kind: Any) -> None:
    engine = create_engine("postgresql+psycopg://somebody@somewhere/something")
    with pytest.raises(ValueError, match=r"SqliteS.* needs an engine for SQLite, not for postgresql"):
        kind(engine)


def test_another_schema_version_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    SqliteSaver(path).close()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE graphkit_schema SET version = 999")
    with pytest.raises(StorageCorruptError, match="999"):
        SqliteSaver(path)


def test_one_commit_for_each_superstep_and_one_for_the_input(tmp_path: Path) -> None:
    builder = StateGraph(State)
    names = [f"n{number}" for number in range(7)]
    builder.add_sequence([(name, lambda state: {"answer": "x"}) for name in names]).add_edge(START, names[0])
    with SqliteSaver(tmp_path / "t.sqlite") as saver:
        commits: list[Any] = []
        event.listen(saver.engine, "commit", commits.append)
        builder.compile(checkpointer=saver).invoke({}, CONFIG)
        assert len(commits) == len(names) + 1


def test_a_closed_saver_says_so(tmp_path: Path) -> None:
    saver = SqliteSaver(tmp_path / "t.sqlite")
    saver.close()
    saver.close()
    with pytest.raises(StorageUnavailableError, match="closed"):
        graph(saver).invoke({}, CONFIG)


def test_a_wrong_synchronous_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'OFF'"):
        SqliteSaver(tmp_path / "t.sqlite", synchronous="OFF")  # type: ignore[arg-type]


FORKING = """
import os, sys, warnings
from graphkit import StateGraph, START
from graphkit.checkpoint.sqlite import SqliteSaver
warnings.simplefilter("ignore", DeprecationWarning)  # forking is what is tried here
from typing import TypedDict
class S(TypedDict):
    n: int
builder = StateGraph(S).add_node("add", lambda s: {"n": s["n"] + 1}).add_edge(START, "add")
graph = builder.compile(SqliteSaver(sys.argv[1]))
at = lambda thread: {"configurable": {"thread_id": thread}}
graph.invoke({"n": 1}, at("before"))
child = os.fork()
if child == 0:
    os._exit(0 if graph.invoke({"n": 10}, at("child")) == {"n": 11} else 1)
assert os.waitpid(child, 0)[1] == 0
print(graph.get_state(at("child")).values, graph.invoke({"n": 2}, at("before")))
"""


def test_a_saver_may_be_used_on_both_sides_of_a_fork(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORKING, str(tmp_path / "t.sqlite")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert (ran.stdout.strip(), ran.stderr) == ("{'n': 11} {'n': 3}", "")


def test_a_read_that_finds_damage_is_over(tmp_path: Path) -> None:
    """Though its rows were fetched one by one, and whoever caught the error holds on to all that was read."""
    path = tmp_path / "t.sqlite"

    def say(state: Talk) -> Talk:
        return {"said": ["x" * 5000]}

    builder = StateGraph(Talk).add_sequence([(f"n{number}", say) for number in range(5)])
    with SqliteSaver(path) as saver, closing(sqlite3.connect(path)) as database:
        app = builder.add_edge(START, "n0").compile(saver)
        app.invoke({"said": []}, CONFIG)
        with database:
            row = "(SELECT min(rowid) + 1 FROM graphkit_value WHERE channel = 'said')"
            database.execute(f"UPDATE graphkit_value SET body = x'00' WHERE rowid = {row}")
        with pytest.raises(CheckpointCorruptError, match="checksum") as caught:
            app.get_state(CONFIG)
        app.invoke({"said": []}, {"configurable": {"thread_id": "other"}})
        assert database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0, caught
