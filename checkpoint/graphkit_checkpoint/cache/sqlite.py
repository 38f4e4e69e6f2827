"""`SqliteCache`: values in an SQLite file, shared by any number of processes of one machine."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Self
from zlib import crc32

from graphkit_checkpoint.cache.base import BaseCache, FullKey, Namespace, ValueT
from graphkit_checkpoint.engines.sqlite_errors import SQLITE_ERRORS, failure
from graphkit_checkpoint.errors import CheckpointCorruptError, StorageUnavailableError, UnknownTypeError
from graphkit_checkpoint.forks import survive_forks
from graphkit_checkpoint.serde import pack, unpack

# The number in the table's name is the version of its form: another one would be another table.
CREATE: Final = (
    "CREATE TABLE IF NOT EXISTS graphkit_cache_1 (namespace BLOB NOT NULL, key BLOB NOT NULL, "
    "body BLOB NOT NULL, expiry REAL, checksum INTEGER NOT NULL, PRIMARY KEY (namespace, key))",
    "CREATE INDEX IF NOT EXISTS graphkit_cache_1_expiry ON graphkit_cache_1 (expiry)",
)
SELECT: Final = "SELECT body, expiry, checksum FROM graphkit_cache_1 WHERE namespace = ? AND key = ?"
PUT: Final = "INSERT OR REPLACE INTO graphkit_cache_1 VALUES (?, ?, ?, ?, ?)"
DROP: Final = "DELETE FROM graphkit_cache_1 WHERE namespace = ? AND key = ? AND body IS ? AND checksum IS ?"
SWEEP: Final = "DELETE FROM graphkit_cache_1 WHERE expiry <= ?"
CLEAR: Final = "DELETE FROM graphkit_cache_1 WHERE namespace = ?"
CLEAR_ALL: Final = "DELETE FROM graphkit_cache_1"


class SqliteCache(BaseCache[ValueT]):
    """Keeps values in an SQLite file (WAL mode), which may be that of a saver or a store.

    A damaged entry is a miss and is removed; so is one that has expired. An entry of a type that is not
    registered in this process is a miss and stays. After a power failure the last entries may be missing.
    `timeout` is how many seconds to wait for another writer's lock before `StorageBusyError`. `clock` tells
    the time in unix seconds. Raises `StorageCorruptError` for a file that is no database or damaged as a
    whole.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, timeout: float = 5.0, clock: Callable[[], float] = time.time
    ) -> None:
        self._path = os.fspath(path)
        self._timeout = timeout
        self._clock = clock
        self.lock = threading.Lock()
        self._closed = False
        self._connection: sqlite3.Connection | None = None
        self._inherited: sqlite3.Connection | None = None
        survive_forks(self)
        with self._connected():
            pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.close()

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        found: dict[FullKey, ValueT] = {}
        with self._connected() as connection:
            now = self._clock()
            for key in keys:
                place = _place(key)
                entry = connection.execute(SELECT, place).fetchone()
                if entry is None:
                    continue
                body, expiry, checksum = entry
                if _is_intact(place, body, expiry, checksum) and (expiry is None or now < expiry):
                    try:
                        found[key] = unpack(body)
                        continue
                    except UnknownTypeError:
                        continue
                    except CheckpointCorruptError:
                        pass
                # Only what was seen here: another process may have put a good one in its place.
                connection.execute(DROP, (*place, body, checksum))
        return found

    def set(self, pairs: Mapping[FullKey, tuple[ValueT, float | None]]) -> None:
        now = self._clock()
        rows = [_row(_place(key), pack(value), ttl, now) for key, (value, ttl) in pairs.items()]
        with self._connected() as connection, _transaction(connection):
            connection.execute(SWEEP, (now,))
            connection.executemany(PUT, rows)

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        with self._connected() as connection, _transaction(connection):
            if namespaces is None:
                connection.execute(CLEAR_ALL)
            else:
                connection.executemany(CLEAR, [(_packed(namespace),) for namespace in namespaces])

    def close(self) -> None:
        """Release the file and the thread. Using the cache afterwards is an error."""
        self._worker.close()
        with self.lock:
            self._closed = True
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """The connection, for one thread at a time. A statement is a transaction of its own if nobody begins one."""
        with self.lock:
            if self._closed:
                raise StorageUnavailableError(f"the cache in {self._path!r} is closed; open a new one")
            try:
                if self._connection is None:
                    self._connection = self._open()
                yield self._connection
            except SQLITE_ERRORS as error:
                raise failure(error, f"SQLite file {self._path!r}") from error

    def let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def begin_anew(self) -> None:
        """In a forked child: a connection that the parent could not close is neither used nor closed here."""
        self._inherited, self._connection = self._connection, None
        self.__dict__.pop("_worker", None)

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=self._timeout, isolation_level=None, check_same_thread=False
        )
        try:
            for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL", *CREATE):
                connection.execute(statement)
        except BaseException:
            connection.close()
            raise
        return connection


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _place(key: FullKey) -> tuple[bytes, bytes]:
    namespace, name = key
    return _packed(namespace), name.encode(
        "utf-8", "surrogatepass"
    )  # any text, also such as SQLite would not take


def _packed(namespace: Namespace) -> bytes:
    """The parts, so put together that no others give the same."""
    return pack(list(namespace))


def _row(place: tuple[bytes, bytes], body: bytes, ttl: float | None, now: float) -> tuple[Any, ...]:
    expiry = None if ttl is None else float(now + ttl)
    return *place, body, expiry, _checksum(place, body, expiry)


def _checksum(place: tuple[bytes, bytes], body: bytes, expiry: float | None) -> int:
    return crc32(pack([*place, body, expiry]))


def _is_intact(place: tuple[bytes, bytes], body: Any, expiry: Any, checksum: Any) -> bool:
    return isinstance(body, bytes) and checksum == _checksum(place, body, expiry)
