"""From schema version 1 to the present one, on what version 1 wrote: all of it, once, or nothing.

That the migrated threads read and go on as before is shown by test_golden.py, with the same file.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from sqlalchemy import create_engine, select, text, update

from graphkit.checkpoint.postgres import PostgresSaver
from graphkit.checkpoint.serde.encrypted import EncryptedSerializer
from graphkit.checkpoint.sqlite import SqliteSaver
from graphkit.errors import CheckpointCorruptError, EncryptionError, StorageBusyError, StorageCorruptError
from graphkit_checkpoint import migrations
from graphkit_checkpoint.ownership import _process_prefix, forget_token, new_token
from graphkit_checkpoint.serde import pack, unpack
from graphkit_checkpoint.statements import SCHEMA_VERSION, metadata, schema_table
from graphkit_checkpoint.store.sqlite import SqliteStore
from tests.golden.make import FOLDER, seen

OLD = FOLDER / "schema-1.sqlite"
SEEN = Path(f"{OLD}.seen").read_text().splitlines()


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A database of version 1."""
    return Path(shutil.copy(OLD, tmp_path / "t.sqlite"))


def connect(path: Path) -> closing[sqlite3.Connection]:
    """The golden file is only read; SQLite would make others beside it even so."""
    options = "?immutable=1" if path == OLD else ""
    return closing(sqlite3.connect(f"file:{path}{options}", uri=True))


def dump(path: Path) -> list[str]:
    with connect(path) as connection:
        return list(connection.iterdump())


def rows(path: Path, columns: str, table: str) -> list[Any]:
    with connect(path) as connection:
        return connection.execute(f"SELECT {columns} FROM graphkit_{table} ORDER BY {columns}").fetchall()


def change(path: Path, statement: str, *values: Any) -> None:
    with connect(path) as connection:
        assert connection.execute(statement, values).rowcount > 0
        connection.commit()


def migrated(path: Path, **options: Any) -> list[str]:
    """What is seen after the migration."""
    with SqliteSaver(path, **options) as saver:
        return seen(saver).splitlines()


def refused(path: Path, error: type[Exception], match: str) -> None:
    """Opening the database raises, and changes nothing."""
    before = dump(path)
    with pytest.raises(error, match=match):
        SqliteSaver(path)
    assert dump(path) == before


# What becomes of the data


def test_the_tables_are_those_of_a_new_database(old: Path, tmp_path: Path) -> None:
    SqliteSaver(old).close()
    SqliteSaver(tmp_path / "new.sqlite").close()
    tables = [rows_of_master(path) for path in (old, tmp_path / "new.sqlite")]
    assert tables[0] == tables[1]
    assert rows(old, "version", "schema") == [(SCHEMA_VERSION,)]


def rows_of_master(path: Path) -> list[Any]:
    with connect(path) as connection:
        return connection.execute(
            "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"
        ).fetchall()


def test_every_row_is_there_and_values_are_the_same_bytes(old: Path) -> None:
    SqliteSaver(old).close()
    for columns, table in (
        ("thread_id, namespace, head, epoch, owner", "thread"),
        ("thread_id, namespace, id, parent_id, base_id, step", "checkpoint"),
        ("thread_id, namespace, checkpoint_id, task_id, kind, key, body", "write"),
    ):
        assert rows(old, columns, table) == rows(OLD, columns, table), table
    values = rows(old, "thread_id, namespace, channel, log, body", "value")
    inputs = [row for row in values if row[2].startswith("__given__:")]
    assert [row for row in values if row not in inputs] == rows(
        OLD, "thread_id, namespace, channel, version, body", "value"
    )
    assert (
        len({row[0] for row in inputs}) == len(inputs) == 4
    )  # of the threads that were given something large


def test_a_migrated_database_is_opened_as_it_is(old: Path) -> None:
    SqliteSaver(old).close()
    before = dump(old)
    SqliteSaver(old).close()
    assert dump(old) == before


def test_types_of_the_program_need_not_be_known(old: Path) -> None:
    program = (
        "import sys; from graphkit.checkpoint.sqlite import SqliteSaver; SqliteSaver(sys.argv[1]).close()"
    )
    subprocess.run([sys.executable, "-c", program, str(old)], check=True, timeout=240)
    assert rows(old, "version", "schema") == [(SCHEMA_VERSION,)]
    assert migrated(old) == SEEN


def test_a_saver_with_a_cipher_leaves_nothing_in_the_open(old: Path) -> None:
    cipher = EncryptedSerializer({"key": os.urandom(32)})
    assert migrated(old, serde=cipher) == SEEN
    assert not any(
        b"Dear reader" in body for table in ("value", "write") for (body,) in rows(old, "body", table)
    )
    assert not any(b"Dear reader" in body for (body,) in rows(old, "body", "checkpoint"))
    with SqliteSaver(old) as saver, pytest.raises(EncryptionError):
        saver.find("finished")


def test_a_database_without_threads(old: Path) -> None:
    for table in ("thread", "checkpoint", "value", "write"):
        change(old, f"DELETE FROM graphkit_{table}")
    with SqliteSaver(old) as saver:
        assert saver.thread_ids() == []


def test_postgresql_takes_the_same_steps(postgres_url: str) -> None:
    """No version 1 was ever there; the next migration will be for both databases and can be like this one."""
    engine = create_engine(postgres_url)
    with engine.begin() as connection:
        migrations.schema_1.create_all(connection)
        for name, table in migrations.PLACES.items():
            columns = table.c.keys()
            old = rows(OLD, ", ".join(columns), name.removeprefix("graphkit_"))
            connection.execute(table.insert(), [dict(zip(columns, row, strict=True)) for row in old])
            connection.execute(text(f"ALTER TABLE {table.name} RENAME TO {name}"))
        schema_table.create(connection)
        connection.execute(schema_table.insert().values(version=1))
    with PostgresSaver(engine) as saver:
        assert seen(saver).splitlines() == SEEN
    with engine.connect() as connection:
        assert connection.execute(select(schema_table.c.version)).scalar() == SCHEMA_VERSION
    engine.dispose()


# Owners


def own(path: Path, token: str, lease: float) -> None:
    change(
        path,
        "UPDATE graphkit_thread SET owner = ?, since = 1, lease = ? WHERE thread_id = 'nested' AND namespace = ''",
        token,
        lease,
    )


FOREIGN = "another.host:boot:1/17/4711/1"


@pytest.fixture
def token() -> Iterator[str]:
    """Of a run of this process."""
    made = new_token()
    yield made
    forget_token(made)


def test_a_run_of_this_process_keeps_the_database_as_it_is(old: Path, token: str) -> None:
    own(old, token, time.time() + 30)
    refused(
        old, StorageBusyError, f"version 1 .*thread 'nested' is owned by run {token}; nothing was changed"
    )
    forget_token(token)
    assert migrated(old) == SEEN
    assert rows(old, "owner, since, lease", "thread")[-1] == (None, None, None)


def test_version_1_did_not_renew_the_lease_of_a_process_that_lives(old: Path) -> None:
    own(old, f"{_process_prefix(os.getppid())}/1", time.time() - 60)
    refused(old, StorageBusyError, "is owned by run")


def test_a_process_that_is_dead_owns_nothing(old: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        token = f"{_process_prefix(process.pid)}/1"
    own(old, token, time.time() + 30)
    assert migrated(old) == SEEN


def test_another_host_owns_a_thread_as_long_as_its_lease(old: Path) -> None:
    own(old, FOREIGN, time.time() + 30)
    refused(old, StorageBusyError, "another.host")
    own(old, FOREIGN, time.time() - 1)
    assert migrated(old) == SEEN


def test_an_owner_that_is_none_is_respected_while_its_lease_runs(old: Path) -> None:
    own(old, "nobody", time.time() + 30)
    refused(old, StorageBusyError, "thread 'nested' .*nobody")


# Damage

DAMAGES = {
    "a body": "body = zeroblob(length(body))",
    "a body that is text": "body = 'text'",
    "a checksum": "checksum = checksum + 1",
    "a checksum that is text": "checksum = 'text'",
}


@pytest.mark.parametrize("table", ["checkpoint", "value", "write"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_row_is_named_and_nothing_is_changed(old: Path, table: str, damage: str) -> None:
    change(old, f"UPDATE graphkit_{table} SET {DAMAGES[damage]} WHERE thread_id = 'question'")
    refused(
        old,
        CheckpointCorruptError,
        "checkpoint '.+' of thread 'question' cannot be migrated .*checksum of its",
    )


@pytest.mark.parametrize(
    ("table", "column"),
    [("checkpoint", "parent_id"), ("checkpoint", "base_id"), ("value", "channel"), ("write", "task_id")],
)
def test_a_row_that_was_moved_is_named(old: Path, table: str, column: str) -> None:
    change(old, f"UPDATE graphkit_{table} SET {column} = {column} || 'x' WHERE thread_id = 'nested'")
    refused(old, CheckpointCorruptError, "of thread 'nested' cannot be migrated")


def reseal(path: Path, columns: str, table: str, body: Any) -> None:
    """Give a row of the thread "waiting" another body, with the checksum of version 1."""
    names = [name.strip() for name in columns.split(",")]
    key = rows(path, columns, table)
    row = next(row for row in key if row[0] == "waiting")
    where = " AND ".join(f"{name} IS ?" for name in names)
    checksum = crc32(body, crc32(repr(row).encode()))
    change(path, f"UPDATE graphkit_{table} SET body = ?, checksum = ? WHERE {where}", body, checksum, *row)


BODIES: dict[str, Any] = {
    "another format": lambda body: [2, *body[1:]],
    "a part less": lambda body: body[:-1],
    "no parts": lambda body: 7,
    "changes of another kind": lambda body: [*body[:6], 7, *body[7:]],
    "versions of another kind": lambda body: [*body[:8], [1]],
    "an input that is no map": lambda body: [*body[:5], pack([1]), *body[6:]],
    "an input that ends too early": lambda body: [*body[:5], body[5][:-1], *body[6:]],
    "an input without pairs": lambda body: [*body[:5], pack({"input": ["log"]}), *body[6:]],
    "an input that is text": lambda body: [*body[:5], "text", *body[6:]],
}


@pytest.mark.parametrize("kind", BODIES)
def test_a_checkpoint_of_another_shape_is_damaged_too(old: Path, kind: str) -> None:
    body = next(row[1] for row in rows(old, "thread_id, body", "checkpoint") if row[0] == "waiting")
    reseal(
        old,
        "thread_id, namespace, id, parent_id, base_id, step",
        "checkpoint",
        pack(BODIES[kind](unpack(body))),
    )
    refused(old, CheckpointCorruptError, "of thread 'waiting' cannot be migrated")


def test_a_value_of_another_kind_is_damaged_too(old: Path) -> None:
    change(old, "UPDATE graphkit_value SET kind = 1 WHERE thread_id = 'types'")
    refused(old, CheckpointCorruptError, "unknown kind 1")


# Versions


@pytest.mark.parametrize("version", [-1, 0, SCHEMA_VERSION + 1, 99])
def test_a_version_that_is_not_known_is_refused(old: Path, version: int) -> None:
    change(old, "UPDATE graphkit_schema SET version = ?", version)
    refused(old, StorageCorruptError, f"schema version {version}, this graphkit knows {SCHEMA_VERSION}")


def test_tables_that_never_were_of_version_1(tmp_path: Path) -> None:
    """Before version 2 had its number, its tables were made under that of version 1."""
    path = tmp_path / "t.sqlite"
    SqliteSaver(path).close()
    change(path, "UPDATE graphkit_schema SET version = 1")
    refused(path, StorageCorruptError, "schema version 1, but graphkit_thread has the columns .*ttl")


def test_a_table_that_is_missing(old: Path) -> None:
    with connect(old) as connection:
        connection.execute("DROP TABLE graphkit_write")
    refused(old, StorageCorruptError, "there is no graphkit_write")


@pytest.mark.parametrize("table", [*metadata.tables])
def test_a_table_that_is_lost_is_not_made_anew(tmp_path: Path, table: str) -> None:
    path = tmp_path / "t.sqlite"
    SqliteSaver(str(path)).close()
    with connect(path) as connection:
        connection.execute(f"DROP TABLE {table}")
    refused(path, StorageCorruptError, f"{table} .* missing")


def test_postgresql_refuses_versions_too(postgres_url: str) -> None:
    PostgresSaver(postgres_url).close()
    engine = create_engine(postgres_url)
    for version, problem in ((1, "graphkit_thread has the columns"), (99, "this graphkit knows")):
        with engine.begin() as connection:
            connection.execute(update(schema_table).values(version=version))
        with pytest.raises(StorageCorruptError, match=f"schema version {version}, .*{problem}"):
            PostgresSaver(postgres_url)
    engine.dispose()


def test_a_file_that_only_a_store_has_used_gets_its_tables(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    SqliteStore(path).close()
    with SqliteStore(path) as store, SqliteSaver(path) as saver:
        store.put(("a",), "k", {"x": 1})
        assert saver.thread_ids() == []


# Several at once, and an end in the middle


def test_of_two_that_open_at_once_one_migrates_and_the_other_waits(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, go, calls = threading.Event(), threading.Event(), []

    def slowly(*arguments: Any) -> None:
        calls.append(arguments)
        inside.set()
        assert go.wait(30)
        migrations.from_1_to_2(*arguments)

    monkeypatch.setattr(migrations, "MIGRATIONS", {1: slowly})
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(migrated, old)
        assert inside.wait(30)
        second = pool.submit(migrated, old)
        time.sleep(0.2)
        assert not second.done()
        go.set()
        assert first.result(30) == second.result(30) == SEEN
    assert len(calls) == 1


OPENING = """
import sys
from graphkit.checkpoint.sqlite import SqliteSaver
sys.stdin.readline()
with SqliteSaver(sys.argv[1], timeout=30) as saver:
    print(len(saver.thread_ids()))
"""


def test_processes_that_open_at_once(old: Path) -> None:
    command = [sys.executable, "-c", OPENING, str(old)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    openers = [subprocess.Popen(command, text=True, **pipes) for _ in range(4)]
    outputs = [opener.communicate("go\n", timeout=240) for opener in openers]
    assert outputs == [("9\n", "")] * len(openers)
    assert migrated(old) == SEEN


DYING = """
import os, signal, sys
from graphkit.checkpoint.sqlite import SqliteSaver
from graphkit_checkpoint import migrations
def die(*arguments):
    migrations.from_1_to_2(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)
migrations.MIGRATIONS = {1: die}
SqliteSaver(sys.argv[1])
"""


def test_a_process_that_is_killed_in_the_middle_has_changed_nothing(old: Path) -> None:
    before = dump(old)
    killed = subprocess.run([sys.executable, "-c", DYING, str(old)], check=False, timeout=240)
    assert killed.returncode == -signal.SIGKILL
    assert dump(old) == before
    assert migrated(old) == SEEN


def test_the_file_names_no_machine() -> None:
    content = OLD.read_bytes()
    assert socket.gethostname().encode() not in content
    assert rows(OLD, "owner", "thread") == [(None,)] * 11
