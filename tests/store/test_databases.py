"""Stores that keep items in a database: several objects and processes, damage, locks, forks, foreign files."""

from __future__ import annotations

import ast
import asyncio
import os
import random
import sqlite3
import subprocess
import sys
import threading
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, event, insert, select, update

import graphkit_checkpoint.store
from graphkit.checkpoint.sqlite import SqliteSaver
from graphkit.errors import (
    CheckpointCorruptError,
    StorageBusyError,
    StorageCorruptError,
    StorageError,
    StorageUnavailableError,
)
from graphkit.store.base import GetOp, PutOp, SearchOp
from graphkit.store.postgres import AsyncPostgresStore, PostgresStore
from graphkit.store.sqlite import AsyncSqliteStore, SqliteStore
from graphkit_checkpoint.store.sql import item_table, schema_table
from tests.faults import barrier, fork_child
from tests.postgres import PostgresServer
from tests.store.conftest import Clock, OpenStore, Store, store_at

DOCS = ("docs", "ada")
VALUE = {"x": 1, "text": "y" * 50}


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_another_store_sees_everything(open_store: OpenStore, clock: Clock) -> None:
    first = open_store()
    first.put(DOCS, "k", VALUE, ttl=5)
    first.put(("n",), "k", VALUE)
    found = first.search(())
    first.close()
    second = open_store()
    assert second.search((), refresh_ttl=False) == found
    clock.minutes(5)
    assert second.list_namespaces() == [("n",)]


def test_two_stores_see_each_other_at_once(open_store: OpenStore) -> None:
    one, other = open_store(), open_store()
    one.put(DOCS, "k", {"x": 1})
    other.put(DOCS, "k", {"x": 2})
    assert one.get(DOCS, "k").value == {"x": 2}
    one.delete(DOCS, "k")
    assert other.get(DOCS, "k") is None


def create_and_write(location: str, writer: str, together: Barrier) -> None:
    together.wait()
    with store_at(location) as store:
        together.wait()
        for number in range(10):
            store.put(("w", writer), str(number), {"n": number}, ttl=5)
            store.batch([PutOp(("both",), key, {"writer": writer, "number": number}) for key in "abc"])
            assert store.get(("w", writer), str(number)).value == {"n": number}
            assert len({item.value["writer"] for item in store.search(("both",))}) == 1, "a batch was torn"
            store.get(("w", "0"), str(number))


def test_processes_that_create_and_write_at_once_lose_nothing(location: str, open_store: OpenStore) -> None:
    together = barrier(6)
    writers = [fork_child(create_and_write, location, str(number), together) for number in range(6)]
    for writer in writers:
        writer.result()
    assert len(open_store().search(("w",), limit=1000)) == 60


def test_the_event_loop_is_not_kept_waiting(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[int] = []
    inner = store._carry_out

    def watched(plan: Any) -> Any:
        served.append(threading.get_ident())
        return inner(plan)

    monkeypatch.setattr(store, "_carry_out", watched)

    async def run() -> None:
        await store.aput(DOCS, "k", {})
        await store.aget(DOCS, "k")

    asyncio.run(run())
    assert len(set(served)) == 1
    assert served[0] != threading.get_ident()


def test_a_closed_store_says_so(store: Store) -> None:
    store.put(DOCS, "k", VALUE)
    store.close()
    store.close()
    with pytest.raises(StorageUnavailableError, match="is closed"):
        store.get(DOCS, "k")


# Damage


DAMAGE: dict[str, Any] = {
    "body": b"\x81\xa1x\x02",
    "created_at": 1,
    "updated_at": 1,
    "ttl": 60_000_000,
    "expires_at": 2**60,
    "checksum": 1,
}


@pytest.mark.parametrize("name", DAMAGE)
@pytest.mark.parametrize("heal", ["delete", "put"])
def test_a_damaged_row_is_named_and_can_be_replaced(store: Store, name: str, heal: str) -> None:
    store.put(DOCS, "good", VALUE)
    store.put(DOCS, "bad", VALUE)
    with store.engine.begin() as connection:
        row = item_table.c.key == b"bad"
        connection.execute(update(item_table).where(row).values({name: DAMAGE[name]}))
    for op in (GetOp(DOCS, "bad"), SearchOp(DOCS)):
        with pytest.raises(CheckpointCorruptError, match=r"'bad' of namespace b'docs\.ada\.'"):
            store.batch([op])
    assert store.get(DOCS, "good").value == VALUE
    if heal == "delete":
        store.delete(DOCS, "bad")
        assert store.get(DOCS, "bad") is None
    else:
        store.put(DOCS, "bad", VALUE)
        assert store.get(DOCS, "bad").value == VALUE
        assert store.get(DOCS, "bad").created_at == store.get(DOCS, "good").created_at
    store.search(DOCS)


def test_a_row_at_another_place_is_damaged(store: Store) -> None:
    store.put(DOCS, "k", VALUE)
    with store.engine.begin() as connection:
        connection.execute(update(item_table).values(namespace=b"docs.bob."))
    with pytest.raises(CheckpointCorruptError, match="bob"):
        store.get(("docs", "bob"), "k")


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x93\x01\x02", b"\x01", b"\xc7\x01\x7f\x00"])
def test_bytes_that_are_no_value_are_damage(store: Store, body: bytes) -> None:
    from graphkit_checkpoint.store.rows import Row, sealed

    store.setup()
    row = sealed(Row(b"docs.ada.", b"k", body, 1, 1, None, None))
    with store.engine.begin() as connection:
        connection.execute(insert(item_table).values(row._asdict()))
    with pytest.raises(CheckpointCorruptError, match="'k'"):
        store.get(DOCS, "k")


def test_a_newer_schema_is_refused_by_name(open_store: OpenStore) -> None:
    first = open_store()
    first.put(DOCS, "k", VALUE)
    with first.engine.begin() as connection:
        connection.execute(update(schema_table).values(version=2))
    with pytest.raises(StorageCorruptError, match="schema version 2, this graphkit knows 1"):
        open_store().get(DOCS, "k")


def test_tables_that_are_gone(store: Store) -> None:
    store.put(DOCS, "k", VALUE)
    with store.engine.begin() as connection:
        item_table.drop(connection)
    with pytest.raises(StorageCorruptError, match="is damaged"):
        store.get(DOCS, "k")


# Locks, forks


def test_a_locked_database_is_busy_and_the_same_call_works_later(open_store: OpenStore, kind: str) -> None:
    store, other = open_store(timeout=0.1), open_store()
    store.put(DOCS, "k", {"x": 1})
    with other._connected("write") as connection:
        connection.execute(update(item_table).values(checksum=item_table.c.checksum))
        assert store.get(DOCS, "k").value == {"x": 1}
        with pytest.raises(StorageBusyError, match="try the same call again"):
            store.put(DOCS, "k", {"x": 2})
    store.put(DOCS, "k", {"x": 2})
    assert store.get(DOCS, "k").value == {"x": 2}


def test_an_error_halfway_leaves_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put(DOCS, "gone", VALUE)

    def fails(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("graphkit_checkpoint.store.sql.SqlRows.put", fails)
        store.batch([PutOp(DOCS, "gone", None), PutOp(DOCS, "new", VALUE)])
    assert [item.key for item in store.search(())] == ["gone"]


def test_a_refreshed_read_does_not_undo_a_write(open_store: OpenStore, clock: Clock) -> None:
    """The reader's time begins anew after another process has replaced the item: the new one stays whole."""
    store, other = open_store(), open_store()
    store.put(DOCS, "k", {"x": 1}, ttl=5)
    original = store._carry_out
    inner = store._rows

    def rows(mode: str) -> Any:
        if mode == "write":
            clock.minutes(1)
            other.put(DOCS, "k", {"x": 2}, ttl=1)
        return inner(mode)

    store._rows = rows
    assert store.get(DOCS, "k").value == {"x": 1}
    store._rows = inner
    assert store.get(DOCS, "k", refresh_ttl=False).value == {"x": 2}
    clock.minutes(1)
    assert original is not None
    assert store.get(DOCS, "k") is None


FORKING = """
import asyncio, os, sys, threading, warnings
from tests.store.conftest import store_at
warnings.simplefilter("ignore", DeprecationWarning)  # forking is what is tried here
store = store_at(sys.argv[1])
ended = threading.Event()

def write():
    while not ended.is_set():
        store.put(("n",), "parent", {"x": 1})
        asyncio.run(store.aput(("n",), "parent async", {"x": 1}))

thread = threading.Thread(target=write)
thread.start()
for number in range(10):
    child = os.fork()
    if child == 0:
        store.put(("child",), str(number), {"x": 2})
        asyncio.run(store.aput(("child async",), str(number), {"x": 2}))
        os._exit(0 if store.get(("child",), str(number)).value == {"x": 2} else 1)
    assert os.waitpid(child, 0)[1] == 0
ended.set()
thread.join()
store.put(("n",), "after", {"x": 3})
print([len(store.search((label,))) for label in ("child", "child async", "n")])
store.close()
"""


def test_a_store_in_use_may_be_used_on_both_sides_of_a_fork(location: str) -> None:
    command = [sys.executable, "-c", FORKING, location]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert (ran.stdout.strip(), ran.stderr) == ("[10, 10, 3]", "")


# Only SQLite


def test_a_path_and_a_url_name_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with SqliteStore(path) as one, SqliteStore.from_conn_string(f"sqlite:///{path}") as other:
        one.put(DOCS, "k", VALUE)
        assert other.get(DOCS, "k") == one.get(DOCS, "k") is not None


def test_the_async_names_are_the_same_stores(tmp_path: Path) -> None:
    async def run() -> None:
        async with AsyncSqliteStore.from_conn_string(str(tmp_path / "s.sqlite")) as store:
            await store.setup()
            await store.aput(DOCS, "k", VALUE)
            item = await store.aget(DOCS, "k")
            assert item is not None and item.value == VALUE

    asyncio.run(run())
    assert AsyncPostgresStore is PostgresStore


def test_a_database_in_memory_is_one_for_all_threads() -> None:
    with SqliteStore(":memory:") as store:
        store.put(DOCS, "k", VALUE)
        item = asyncio.run(store.aget(DOCS, "k"))
        assert item is not None and item.value == VALUE


def test_a_file_uses_wal_and_survives_a_reader(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with SqliteStore(path, timeout=0.1) as store:
        store.put(DOCS, "k", VALUE)
        reader = sqlite3.connect(path)
        assert reader.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM graphkit_store_item").fetchall()
        store.put(DOCS, "k2", VALUE)
        reader.close()


def test_an_open_connection_may_hold_other_tables_and_stays_open(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "app.sqlite", check_same_thread=False)
    connection.execute("CREATE TABLE customer (name TEXT)")
    with SqliteStore(connection) as store:
        store.put(DOCS, "k", VALUE)
        connection.execute("INSERT INTO customer VALUES ('ada')")
        with pytest.raises(StorageBusyError, match="an open transaction of yours"):
            store.get(DOCS, "k")
        connection.rollback()
        found = asyncio.run(store.aget(DOCS, "k"))
        assert found is not None and found.value == VALUE
    connection.execute("INSERT INTO customer VALUES ('bob')")
    assert connection.in_transaction  # it begins transactions by itself, as before
    connection.commit()
    assert connection.execute("SELECT name FROM customer").fetchall() == [("bob",)]
    connection.close()


@pytest.mark.parametrize("begins", [False, True])
def test_an_engine_is_shared(tmp_path: Path, begins: bool) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'app.sqlite'}")
    if begins:  # as SQLAlchemy's documentation advises

        @event.listens_for(engine, "connect")
        def no_driver_begin(connection: Any, record: Any) -> None:
            connection.isolation_level = None

        @event.listens_for(engine, "begin")
        def begin(connection: Any) -> None:
            connection.exec_driver_sql("BEGIN")

    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE customer (name TEXT)")
    with SqliteStore(engine) as store:
        store.put(DOCS, "k", VALUE)
        store.put(DOCS, "k", VALUE)
    with engine.begin() as connection:
        assert connection.execute(select(item_table.c.key)).scalars().all() == [b"k"]
    engine.dispose()


def test_what_a_store_cannot_be_opened_on(tmp_path: Path) -> None:
    engine = create_engine("sqlite://")
    with pytest.raises(TypeError, match="takes a path"):
        SqliteStore(7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes a URL"):
        PostgresStore(7)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="for PostgreSQL, not for sqlite"):
        PostgresStore(engine)
    with pytest.raises(ValueError, match="a URL such as"):
        PostgresStore("mysql://host/database")
    with pytest.raises(StorageUnavailableError, match="unable to open"), SqliteStore(tmp_path / "no" / "s"):
        pass


@pytest.mark.parametrize("content", [b"not a database" * 100, b"\0" * 8192], ids=["text", "zeros"])
def test_a_file_that_is_no_database(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "s.sqlite"
    path.write_bytes(content)
    store = SqliteStore(path)
    with pytest.raises(StorageCorruptError, match=r"s\.sqlite"):
        store.get(DOCS, "k")
    store.close()
    assert path.read_bytes() == content


def test_a_file_of_another_program(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE customer (name TEXT)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StorageCorruptError, match="belongs to another program"), SqliteStore(path):
        pass
    assert path.read_bytes() == before


def test_a_truncated_file(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with SqliteStore(path) as store:
        store.batch([PutOp(DOCS, str(number), VALUE) for number in range(500)])
    path.write_bytes(path.read_bytes()[:-8192])
    with pytest.raises(StorageCorruptError, match=r"s\.sqlite"), SqliteStore(path) as store:
        store.search(DOCS, limit=1000)


def test_no_flipped_bit_gives_a_wrong_value(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with SqliteStore(path) as store:
        store.batch([PutOp(DOCS, str(number), {"n": number, **VALUE}, ttl=None) for number in range(8)])
        right = {item.key: item.dict() for item in store.search(DOCS)}
    intact = path.read_bytes()
    used = [position for position, byte in enumerate(intact) if byte]
    chance = random.Random(7)
    refused = missing = 0
    for position in chance.sample(used, 300):
        damaged = bytearray(intact)
        damaged[position] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        store = SqliteStore(path)
        try:
            found: list[Any] = [*store.search(DOCS), store.get(DOCS, "3")]
            for item in filter(None, found):
                assert {**item.dict(), "score": None} == right[item.key]
            missing += len(found) != 9 or None in found
        except StorageError:
            refused += 1
        finally:
            store.close()
        for rest in (f"{path}-wal", f"{path}-shm"):
            Path(rest).unlink(missing_ok=True)
    print(f"300 flipped bits: {refused} refused, {missing} with items missing, 0 wrong")
    assert refused > 100


@pytest.mark.parametrize("first", ["saver", "store"])
def test_a_store_and_a_saver_share_a_file(tmp_path: Path, first: str) -> None:
    path = tmp_path / "s.sqlite"
    if first == "store":
        with SqliteStore(path) as store:
            store.put(DOCS, "k", VALUE)
    with SqliteSaver(path), SqliteStore(path) as store:
        store.put(DOCS, "k", VALUE)
        assert store.get(DOCS, "k")
    with SqliteSaver(path):
        pass


# Only PostgreSQL


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_how_a_url_may_begin(postgres_url: str, scheme: str) -> None:
    _, _, rest = postgres_url.partition("://")
    with PostgresStore.from_conn_string(f"{scheme}://{rest}") as store:
        store.put(DOCS, "k", VALUE)


def test_an_engine_for_postgres_is_shared(postgres_url: str) -> None:
    engine = create_engine(postgres_url)
    with PostgresStore(engine) as store:
        store.put(DOCS, "k", VALUE)
    with engine.begin() as connection:
        assert connection.execute(select(item_table.c.key)).scalars().all() == [b"k"]
    engine.dispose()


def test_a_server_that_goes_away_and_comes_back(postgres_url: str, postgres_server: PostgresServer) -> None:
    with PostgresStore(postgres_url, timeout=2) as store:
        store.put(DOCS, "k", VALUE)
        postgres_server.restart()
        assert store.get(DOCS, "k")
        postgres_server.kill()
        with pytest.raises(StorageUnavailableError, match="cannot be used"):
            store.get(DOCS, "k")
        postgres_server.start()
        found = store.get(DOCS, "k")
        assert found is not None and found.value == VALUE


def test_a_password_is_in_no_error() -> None:
    with (
        pytest.raises(StorageUnavailableError) as caught,
        PostgresStore("postgresql://ada:secret@127.0.0.1:1/none", timeout=1),
    ):
        pass
    assert "secret" not in str(caught.value)


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ImportError, match=r'pip install "graphkit-engine\[postgres\]"'):
        PostgresStore("postgresql://host/database")


def test_nothing_loads_a_driver_or_sqlalchemy_before_it_is_used() -> None:
    program = (
        "import sys; import graphkit.store.base, graphkit.store.memory, graphkit.cache.sqlite; "
        "print([name for name in ('sqlalchemy', 'psycopg', 'pickle') if name in sys.modules]); "
        "import graphkit.store.postgres, graphkit.store.sqlite; print('psycopg' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={**os.environ}
    )
    assert ran.stdout.split("\n")[:2] == ["[]", "False"]


# How they are written


def test_no_statement_is_put_together_from_strings_and_nothing_is_pickled() -> None:
    root = Path(graphkit_checkpoint.store.__path__[0]).parent
    modules = [*root.glob("store/*.py"), *root.glob("cache/*.py")]
    assert len(modules) > 10
    for path in modules:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
                assert not {"pickle", "marshal", "shelve", "dill", "cloudpickle"} & set(names), path
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in RUNS_SQL and node.args:
                # A name, a constant, an entry of a table of constants; or a statement that Core has built.
                assert isinstance(node.args[0], ast.Name | ast.Constant | ast.Subscript | ast.Call), path
                assert "format" not in ast.dump(node.args[0]), path


RUNS_SQL = {"execute", "executemany", "executescript", "exec_driver_sql", "text"}
