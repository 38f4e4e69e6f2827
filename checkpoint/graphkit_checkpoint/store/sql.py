"""Items in a relational database: table and statements, written once with SQLAlchemy Core."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    and_,
    bindparam,
    delete,
    insert,
    inspect,
    or_,
    select,
    true,
    update,
)
from sqlalchemy import exc as sql_errors
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection, Engine

from graphkit_checkpoint.done import Done
from graphkit_checkpoint.errors import (
    StorageBusyError,
    StorageCorruptError,
    StorageError,
    StorageUnavailableError,
)
from graphkit_checkpoint.store.base import IndexConfig, TTLConfig
from graphkit_checkpoint.store.rows import Mode, Place, Row, Rows, RowStore, end_of

SCHEMA_VERSION: Final = 1
KEYS_A_STATEMENT: Final = 500
"""Databases bound the number of a statement's parameters."""
ROWS_A_FETCH: Final = 100

metadata = MetaData()


class Bytes(LargeBinary):
    """Bytes as the driver gives them. What is something else is damaged, and for the checksum to find."""

    def result_processor(self, dialect: Any, coltype: Any) -> None:
        return None


schema_table = Table(
    "graphkit_store_schema", metadata, Column("version", Integer, primary_key=True, autoincrement=False)
)

item_table = Table(
    "graphkit_store_item",
    metadata,
    Column("namespace", Bytes, primary_key=True),
    Column("key", Bytes, primary_key=True),
    Column("body", Bytes, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("ttl", BigInteger),
    Column("expires_at", BigInteger),
    Column("checksum", BigInteger, nullable=False),
)
column = item_table.c
Index("graphkit_store_expiry", column.expires_at)


class SqlStore(RowStore):
    """A store over an SQLAlchemy engine. Subclasses open it, begin transactions and name its errors.

    `owned`: the engine is the store's own and is disposed of by `close`.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        owned: bool,
        index: IndexConfig | None,
        ttl: TTLConfig | None,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(index=index, ttl=ttl, clock=clock)
        self.engine = engine
        self._owned = owned
        self._closed = False
        self._ready = False
        self._inherited: Any = None

    @abstractmethod
    def _connected(self, mode: Mode) -> AbstractContextManager[Connection]:
        """A connection in a transaction, which is committed at the end, or rolled back after an error."""

    @abstractmethod
    def _create(self) -> None:
        """Create the tables, unless they are there, by `_create_tables` in one transaction."""

    @abstractmethod
    def _failure(self, error: BaseException) -> StorageError:
        """Our error for one of the driver's."""

    @property
    @abstractmethod
    def _name(self) -> str:
        """The database, for errors."""

    def setup(self) -> Awaitable[None]:
        with self._translated():
            if not self._ready:
                self._create()
                self._ready = True
        return Done()

    def close(self) -> None:
        super().close()
        self._closed = True
        if self._owned:
            self.engine.dispose()

    @contextmanager
    def _rows(self, mode: Mode) -> Iterator[Rows]:
        self.setup()
        with self._translated(), self._connected(mode) as connection:
            yield SqlRows(connection)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        if self._closed:
            raise StorageUnavailableError(f"the store of {self._name} is closed; open a new one")
        try:
            yield
        except sql_errors.DBAPIError as error:
            raise self._failure(error) from error
        except UnicodeDecodeError as error:  # of the driver, from damaged text
            raise self._failure(error) from error
        except sql_errors.TimeoutError as error:
            raise StorageBusyError(f"{self._name} has no free connection ({error}); try again") from error

    def _create_tables(self, connection: Connection) -> None:
        schema_table.create(connection, checkfirst=True)
        if not self._has_tables(connection):
            metadata.create_all(connection)
            connection.execute(insert(schema_table).values(version=SCHEMA_VERSION))

    def _has_tables(self, connection: Connection) -> bool:
        """Whether the tables are there. Raises `StorageCorruptError` if a newer graphkit made them."""
        if not inspect(connection).has_table(schema_table.name):
            return False
        version = connection.execute(select(schema_table.c.version)).scalar()
        if version is not None and version > SCHEMA_VERSION:
            raise StorageCorruptError(
                f"the store in {self._name} has schema version {version}, this graphkit knows "
                f"{SCHEMA_VERSION}; use the newer graphkit that made it"
            )
        return version is not None

    def begin_anew(self) -> None:
        super().begin_anew()
        # Connections must not cross a fork: the parent's stay as they are, neither used nor closed here.
        self._inherited = self.engine.pool
        self.engine.dispose(close=False)


class SqlRows(Rows):
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find(self, namespace: bytes, keys: Sequence[bytes], now: int) -> Iterable[Row]:
        for first in range(0, len(keys), KEYS_A_STATEMENT):
            named = column.key.in_(keys[first : first + KEYS_A_STATEMENT])
            query = select(item_table).where(column.namespace == namespace, named, _live(now))
            yield from map(Row._make, self._connection.execute(query))

    def below(self, start: bytes, now: int) -> Iterable[Row]:
        query = select(item_table).where(_below(start), _live(now))
        order = (column.updated_at.desc(), column.namespace, column.key)
        lazily = query.order_by(*order).execution_options(yield_per=ROWS_A_FETCH)
        with self._connection.execute(lazily) as result:
            yield from map(Row._make, result)

    def namespaces(self, start: bytes, now: int) -> Iterable[bytes]:
        query = select(column.namespace).distinct().where(_below(start), _live(now))
        return self._connection.execute(query).scalars()

    def put(self, rows: Sequence[Row]) -> None:
        build: Any = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}[self._connection.dialect.name]
        upsert = build(item_table)
        key = list(item_table.primary_key)
        replaced = {other.name: upsert.excluded[other.name] for other in column if other not in key}
        statement = upsert.on_conflict_do_update(index_elements=key, set_=replaced)
        self._connection.execute(statement, [row._asdict() for row in rows])

    def drop(self, places: Sequence[Place]) -> None:
        statement = delete(item_table).where(_is("namespace"), _is("key"))
        self._connection.execute(statement, [_bound(place._asdict()) for place in places])

    def exchange(self, pairs: Sequence[tuple[Row, Row]]) -> None:
        witness = (_is(name) for name in ("namespace", "key", "updated_at", "checksum"))
        statement = update(item_table).where(*witness)
        statement = statement.values(expires_at=bindparam("new_expiry"), checksum=bindparam("new_checksum"))
        changes = [
            {**_bound(old._asdict()), "new_expiry": new.expires_at, "new_checksum": new.checksum}
            for old, new in sorted(pairs)  # all in one order, so that two readers never wait for each other
        ]
        self._connection.execute(statement, changes)

    def sweep(self, now: int) -> int:
        return self._connection.execute(delete(item_table).where(column.expires_at <= now)).rowcount


def _live(now: int) -> ColumnElement[bool]:
    return or_(column.expires_at.is_(None), column.expires_at > now)


def _below(start: bytes) -> ColumnElement[bool]:
    if not start:
        return true()
    return and_(column.namespace >= start, column.namespace < end_of(start))


def _is(name: str) -> ColumnElement[bool]:
    """A column equals its parameter in `_bound`: Core has its own meaning for parameters named as columns."""
    return column[name] == bindparam(f"old_{name}")


def _bound(values: dict[str, Any]) -> dict[str, Any]:
    return {f"old_{name}": value for name, value in values.items()}
