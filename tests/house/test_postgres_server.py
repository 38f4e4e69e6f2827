"""The server that tests of PostgreSQL use: it starts, survives a crash, and goes with the test process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import create_engine, text

from tests.postgres import BINARIES_VARIABLE, PATIENCE, PORT, PostgresServer, find_binaries

ROOT = Path(__file__).parents[2]


@pytest.fixture
def server(postgres_server: PostgresServer) -> Iterator[PostgresServer]:
    """The tests' server; it runs again afterwards."""
    yield postgres_server
    postgres_server.start()


def connect(server: PostgresServer, database: str = "postgres") -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(
        host=str(server.folder), port=PORT, user="postgres", dbname=database, autocommit=True
    )


def postmaster(server_folder: Path) -> int:
    return int((server_folder / "data" / "postmaster.pid").read_text().split()[0])


def has_ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_every_test_has_an_empty_database(postgres_url: str) -> None:
    engine = create_engine(postgres_url)
    with engine.begin() as connection:
        tables = connection.execute(text("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"))
        assert tables.scalar() == 0
        assert connection.execute(text("SHOW fsync")).scalar() == "on"
        assert connection.execute(text("SHOW listen_addresses")).scalar() == ""
    engine.dispose()


def test_a_database_is_dropped_while_it_is_used(server: PostgresServer) -> None:
    database = server.create_database()
    with connect(server, database) as connection:
        server.drop_database(database)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")


def test_what_was_in_a_dropped_database_is_in_no_new_one(server: PostgresServer) -> None:
    old = server.create_database()
    with connect(server, old) as connection:
        connection.execute(
            'CREATE TABLE t (a int); CREATE SCHEMA "an other"; CREATE TABLE "an other".u (a int)'
        )
    server.drop_database(old)
    new = server.create_database()
    with connect(server, new) as connection:
        schemas = "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' ORDER BY nspname"
        assert connection.execute(schemas).fetchall() == [("information_schema",), ("public",)]
        assert (
            connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall() == []
        )
    with pytest.raises(psycopg.OperationalError):
        connect(server, old)
    server.drop_database(old)
    server.drop_database(new)


def test_who_comes_back_to_a_dropped_database_disturbs_nobody(server: PostgresServer) -> None:
    old = server.create_database()
    server.drop_database(old)
    with connect(server, old) as back:
        new = server.create_database()
        with pytest.raises(psycopg.OperationalError):
            back.execute("SELECT 1")
    with connect(server, new) as connection:
        assert connection.execute("SELECT current_database()").fetchall() == [(new,)]
    server.drop_database(new)


def test_a_crash_keeps_what_was_committed_and_nothing_else(server: PostgresServer) -> None:
    database = server.create_database()
    with connect(server, database) as connection:
        connection.execute("CREATE TABLE t (a int)")
        connection.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(psycopg.OperationalError), connection.transaction():
            connection.execute("INSERT INTO t VALUES (2)")
            server.kill()
            connection.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError):
        connect(server, database)
    server.start()
    with connect(server, database) as connection:
        assert connection.execute("SELECT a FROM t").fetchall() == [(1,)]
    server.drop_database(database)


def test_a_restart_keeps_the_url(server: PostgresServer) -> None:
    assert server.folder is not None
    url, process = server.url(), postmaster(server.folder)
    server.restart()
    assert server.url() == url
    assert postmaster(server.folder) != process


def test_settings_reach_the_server(postgres_server: PostgresServer) -> None:
    with (
        PostgresServer(fsync=False, synchronous_commit="off", max_connections=20) as server,
        connect(server) as connection,
    ):
        folder = server.folder
        for name, value in {"fsync": "off", "synchronous_commit": "off", "max_connections": "20"}.items():
            assert connection.execute(f"SHOW {name}".encode()).fetchall() == [(value,)]
    assert folder is not None and not folder.exists()


@pytest.mark.parametrize("state", ["running", "killed"])
def test_nothing_is_left_when_the_test_process_is_killed(postgres_server: PostgresServer, state: str) -> None:
    program = (
        "import sys; from tests.postgres import PostgresServer; server = PostgresServer(); server.start(); "
        "print(server.folder, flush=True); sys.stdin.readline(); server.kill(); print('killed', flush=True); "
        "sys.stdin.readline()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdin is not None and owner.stdout is not None
        folder = Path(owner.stdout.readline().strip())
        server = postmaster(folder)
        if state == "killed":
            owner.stdin.write("\n")
            owner.stdin.flush()
            assert owner.stdout.readline() == "killed\n"
        owner.kill()
    deadline = time.monotonic() + PATIENCE
    while folder.exists() or not has_ended(server):
        assert time.monotonic() < deadline, f"{folder} or process {server} is still there"
        time.sleep(0.01)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server under another account")
def test_root_runs_binaries_of_a_closed_folder(
    postgres_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install = find_binaries().parent
    package, libraries = install.parent, Path(f"{install.parent}.libs")
    if not libraries.exists():
        pytest.skip("only the wheel's binaries may be moved")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    shutil.copytree(install, closed / package.name / install.name, ignore=shutil.ignore_patterns("include"))
    shutil.copytree(libraries, closed / libraries.name)
    monkeypatch.setenv(BINARIES_VARIABLE, str(closed / package.name / install.name / "bin"))
    with PostgresServer() as server, connect(server) as connection:
        assert connection.execute("SELECT 1").fetchall() == [(1,)]
    shutil.rmtree(closed)
