"""What lies below a saver, for tests that read and damage it: the rows of its tables, and its bytes."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from sqlalchemy import Table, create_engine, delete, insert, inspect, select, text
from sqlalchemy.pool import NullPool

from graphkit_checkpoint.base import BaseCheckpointSaver
from graphkit_checkpoint.layout import CheckpointRow, PendingRow, ValueRow
from graphkit_checkpoint.memory import InMemorySaver, MemoryTables
from graphkit_checkpoint.postgres import PostgresSaver
from graphkit_checkpoint.sqlite import SqliteSaver
from graphkit_checkpoint.statements import checkpoint_table, metadata, pending_table, value_table
from tests.postgres import unsynced

Row: TypeAlias = dict[str, Any]

TABLES: dict[str, Table] = {"checkpoint": checkpoint_table, "value": value_table, "write": pending_table}


class Storage(ABC):
    """One database. Savers that are opened on it see the same threads."""

    def __init__(self) -> None:
        self.opened: list[BaseCheckpointSaver] = []

    def open(self, **options: Any) -> Any:
        """Another saver, with options of its own."""
        self.opened.append(self.connect(**options))
        return self.opened[-1]

    def close(self) -> None:
        for saver in self.opened:
            saver.close()

    @abstractmethod
    def connect(self, **options: Any) -> BaseCheckpointSaver: ...

    @abstractmethod
    def dump(self) -> bytes:
        """Every byte of every row, or of the files."""

    @abstractmethod
    def rows(self, table: str) -> list[Row]:
        """The rows of "checkpoint", "value" or "write", in no order."""

    @abstractmethod
    def replace(self, table: str, rows: Sequence[Row]) -> None:
        """Let the table have these rows only."""


class MemoryStorage(Storage):
    def __init__(self) -> None:
        super().__init__()
        self.tables: MemoryTables | None = None

    def connect(self, **options: Any) -> InMemorySaver:
        saver = InMemorySaver(**options)
        if self.tables is not None:
            saver._tables = self.tables
        self.tables = saver._tables
        return saver

    def _namespaces(self) -> list[tuple[str, str, Any]]:
        threads = self.tables.threads if self.tables else {}
        return [
            (thread_id, name, namespace)
            for thread_id, thread in threads.items()
            for name, namespace in thread.namespaces.items()
        ]

    def dump(self) -> bytes:
        return repr([self.rows(table) for table in TABLES]).encode()

    def rows(self, table: str) -> list[Row]:
        return [
            {"thread_id": thread_id, "namespace": name, **row._asdict()}
            for thread_id, name, namespace in self._namespaces()
            for row in self._stored(table, namespace)
        ]

    @staticmethod
    def _stored(table: str, namespace: Any) -> list[Any]:
        if table == "checkpoint":
            return list(namespace.checkpoints.values())
        if table == "value":
            return [row for rows in namespace.logs.values() for row in rows]
        return [row for rows in namespace.pending.values() for row in rows.values()]

    def replace(self, table: str, rows: Sequence[Row]) -> None:
        for thread_id, name, namespace in self._namespaces():
            here = [
                {key: cell for key, cell in row.items() if key not in ("thread_id", "namespace")}
                for row in rows
                if (row["thread_id"], row["namespace"]) == (thread_id, name)
            ]
            if table == "checkpoint":
                namespace.checkpoints = {row["id"]: CheckpointRow(**row) for row in here}
            elif table == "value":
                namespace.logs = {}
                for row in sorted(here, key=lambda row: row["start"]):
                    namespace.logs.setdefault((row["channel"], row["log"]), []).append(ValueRow(**row))
            else:
                namespace.pending = {}
                for row in here:
                    record = PendingRow(**row)
                    namespace.pending.setdefault(record.checkpoint_id, {})[record[1:4]] = record


class SqlStorage(Storage):
    def __init__(self, url: str) -> None:
        super().__init__()
        self.engine = create_engine(url, poolclass=NullPool)

    def rows(self, table: str) -> list[Row]:
        with self.engine.connect() as connection:
            return [dict(row) for row in connection.execute(select(TABLES[table])).mappings()]

    def replace(self, table: str, rows: Sequence[Row]) -> None:
        with self.engine.begin() as connection:
            connection.execute(delete(TABLES[table]))
            if rows:
                connection.execute(insert(TABLES[table]), list(rows))


class SqliteStorage(SqlStorage):
    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"sqlite:///{path}")

    def connect(self, **options: Any) -> SqliteSaver:
        return SqliteSaver(self.path, **{"synchronous": "NORMAL", **options})

    def dump(self) -> bytes:
        """The file with its log; what was deleted may still be in it."""
        return b"".join(file.read_bytes() for file in self.path.parent.glob(f"{self.path.name}*"))

    @property
    def size(self) -> int:
        return sum(file.stat().st_size for file in self.path.parent.glob(f"{self.path.name}*"))


class PostgresStorage(SqlStorage):
    def __init__(self, url: str) -> None:
        self.url = url
        super().__init__(url)

    def connect(self, **options: Any) -> PostgresSaver:
        return PostgresSaver(self.url, **options)

    def dump(self) -> bytes:
        """Every column of every table, as its bytes."""
        with self.engine.connect() as connection:
            names = inspect(connection).get_table_names()
            assert {table.name for table in metadata.sorted_tables} <= set(names)
            return b"\n".join(
                cell if isinstance(cell, bytes) else str(cell).encode()
                for name in names
                for row in connection.execute(text(f'SELECT * FROM "{name}"'))
                for cell in row
            )


def storage_of(kind: str, request: Any) -> Storage:
    """An empty storage for a test; `request` is the fixture's."""
    if kind == "memory":
        return MemoryStorage()
    if kind == "sqlite":
        path = request.getfixturevalue("tmp_path") / "t.sqlite"
        shutil.copyfile(request.getfixturevalue("empty_sqlite"), path)
        return SqliteStorage(path)
    return PostgresStorage(unsynced(request.getfixturevalue("postgres_url")))
