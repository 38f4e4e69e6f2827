"""The tables of a relational database and the statements of the hot path, written once with SQLAlchemy Core.

Statements are compiled once to the text of each dialect and run through the driver with positional values:
the same SQL as through Core, without building it again on every step.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    and_,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    null,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.expression import ClauseElement, ColumnElement, FromClause
from sqlalchemy.sql.functions import FunctionElement

SCHEMA_VERSION: Final = 2
PREFIX: Final = "graphkit_"


class now(FunctionElement[float]):
    """Unix time by the clock of the database, in seconds."""

    type = Double()
    inherit_cache = True


@compiles(now, "sqlite")
def _(element: now, compiler: Any, **options: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(now, "postgresql")
def _(element: now, compiler: Any, **options: Any) -> str:
    return "date_part('epoch', clock_timestamp())"  # `extract` gives a numeric, which takes longer


Name: Final = Text().with_variant(Text(collation="C"), "postgresql")
"""Ids are compared byte by byte, whatever language the database speaks."""

metadata = MetaData()

schema_table = Table(
    f"{PREFIX}schema", metadata, Column("version", Integer, primary_key=True, autoincrement=False)
)

thread_table = Table(
    f"{PREFIX}thread",
    metadata,
    Column("thread_id", Name, primary_key=True),
    Column("namespace", Name, primary_key=True),
    Column("head", Name),
    Column("epoch", BigInteger, nullable=False),
    Column("owner", Text),
    Column("since", Double),
    Column("lease", Double),
    Column("ttl", Double),
    Column("expiry", Double),
    sqlite_with_rowid=False,
)

checkpoint_table = Table(
    f"{PREFIX}checkpoint",
    metadata,
    Column("thread_id", Name, primary_key=True),
    Column("namespace", Name, primary_key=True),
    Column("id", Name, primary_key=True),
    Column("parent_id", Name),
    Column("base_id", Name, nullable=False),
    Column("step", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("checksum", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

value_table = Table(
    f"{PREFIX}value",
    metadata,
    Column("thread_id", Name, primary_key=True),
    Column("namespace", Name, primary_key=True),
    Column("channel", Name, primary_key=True),
    Column("log", Name, primary_key=True),
    Column("start", BigInteger, primary_key=True, autoincrement=False),
    Column("length", BigInteger, nullable=False),
    Column("kind", Integer, nullable=False),
    Column("previous", Name),
    Column("body", LargeBinary, nullable=False),
    Column("checksum", BigInteger, nullable=False),
)

pending_table = Table(
    f"{PREFIX}write",
    metadata,
    Column("thread_id", Name, primary_key=True),
    Column("namespace", Name, primary_key=True),
    Column("checkpoint_id", Name, primary_key=True),
    Column("task_id", Name, primary_key=True),
    Column("kind", Name, primary_key=True),
    Column("key", Name, primary_key=True),
    Column("body", LargeBinary, nullable=False),
    Column("checksum", BigInteger, nullable=False),
)

DIALECTS: Final[dict[str, Any]] = {
    # Positional parameters, whatever style the engine was made with.
    "sqlite": sqlite.dialect(paramstyle="qmark"),
    "postgresql": postgresql.psycopg.dialect(paramstyle="format"),  # type: ignore[no-untyped-call]
}

TABLES: Final = (pending_table, value_table, checkpoint_table, thread_table)


class Statements:
    """The hot path's statements as text of one dialect. Values are given in the order of their parameters."""

    @staticmethod
    @functools.cache
    def of(dialect: str) -> Statements:
        """Those of a dialect, "sqlite" or "postgresql": making them takes longer than opening a database."""
        return Statements(DIALECTS[dialect])

    def __init__(self, dialect: Any) -> None:
        def text(statement: ClauseElement) -> str:
            return str(statement.compile(dialect=dialect))

        thread, value, checkpoint = thread_table.c, value_table.c, checkpoint_table.c
        replaces = functools.partial(upsert, dialect.name)
        self.insert_thread = text(insert_thread(dialect.name))
        self.insert_checkpoint = text(insert(checkpoint_table))
        self.upsert_checkpoint = text(
            replaces(checkpoint_table, ("parent_id", "base_id", "step", "body", "checksum"))
        )
        self.insert_value = text(insert(value_table))
        self.upsert_pending = text(replaces(pending_table, ("body", "checksum")))
        # Parameters in the order of SET (the table's), then of WHERE.
        this = (thread.thread_id == bindparam("thread"), thread.namespace == bindparam("namespace"))
        claim = update(thread_table).values(hold_values(claims=True))
        self.claim = text(claim.where(*this, thread.epoch == bindparam("witness")))
        self.hold = text(
            update(thread_table).values(hold_values()).where(*this, thread.owner == bindparam("witness"))
        )
        self.renew = text(
            update(thread_table)
            .values(lease=now() + bindparam("lease", type_=Double), epoch=thread.epoch + literal_column("1"))
            .where(*this, thread.owner == bindparam("witness"))
        )
        self.move_head = text(
            update(thread_table)
            .values(head=bindparam("new_head"), epoch=thread.epoch + literal_column("1"), owner=null())
            .where(*this)
        )
        state = select(
            thread.head,
            thread.epoch,
            thread.owner,
            thread.since,
            (thread.lease - now()).label("left"),
            (thread.expiry <= now()).label("expired"),
            thread.ttl,
        ).where(*this)
        self.select_thread = text(state)
        # A thread's row with each row of the way to its head, which is the last; with nulls if the head is missing.
        head, way = checkpoint_table.alias("at_head"), checkpoint_table
        self.select_head = text(
            state.add_columns(*list(checkpoint)[2:])
            .outerjoin_from(thread_table, head, and_(*_same_place(head), head.c.id == thread.head))
            .outerjoin(
                way, and_(*_same_place(way), checkpoint.id >= head.c.base_id, checkpoint.id <= head.c.id)
            )
            .order_by(checkpoint.id)
        )
        self.lock_thread = text(state.with_for_update())
        self.select_checkpoint = text(_select(checkpoint_table, 3))
        chain = _select(checkpoint_table, 2)
        self.select_chain = text(
            chain.where(checkpoint.id >= bindparam("first"), checkpoint.id <= bindparam("last"))
        )
        newest = chain.order_by(checkpoint.id.desc()).limit(bindparam("b_limit", type_=BigInteger))
        newest = newest.offset(literal_column("0"))  # SQLite would get it as one more parameter
        self.select_newest = text(newest)
        self.select_earlier = text(newest.where(checkpoint.id < bindparam("before")))
        log = _select(value_table, 4)
        self.select_log = text(log.where(value.start <= bindparam("b_upto")).order_by(value.start))
        self.select_whole_log = text(log.order_by(value.start))
        at = pending_table.c.checkpoint_id
        self.select_pending = text(
            _select(pending_table, 2)
            .where(at >= bindparam("first"), at <= bindparam("last"))
            .order_by(*list(pending_table.primary_key.columns))
        )
        keys = (column == bindparam(f"b_{column.name}") for column in pending_table.primary_key.columns)
        self.delete_pending = text(delete(pending_table).where(*keys))
        row = tuple(column == bindparam(f"b_{column.name}") for column in value_table.primary_key.columns)
        self.delete_value = text(delete(value_table).where(*row))
        self.delete_folded = text(
            delete(value_table).where(
                *row[:4], value.start > bindparam("b_first"), value.start <= bindparam("b_last")
            )
        )
        folded: dict[str, Any] = {
            name: bindparam(f"f_{name}") for name in ("length", "kind", "body", "checksum")
        }
        self.update_folded = text(update(value_table).values(folded).where(*row))


def _same_place(table: FromClause) -> tuple[ColumnElement[bool], ...]:
    """Whether a row belongs to the thread's row that it is joined to."""
    thread = thread_table.c
    return table.c.thread_id == thread.thread_id, table.c.namespace == thread.namespace


def _select(table: Table, keys: int) -> Any:
    """The columns after thread and namespace, of the rows with these values of the first `keys` key columns."""
    columns = list(table.primary_key.columns)[:keys]
    return select(*list(table.c)[2:]).where(*(column == bindparam(f"b_{column.name}") for column in columns))


def upsert(dialect: str, table: Table, replaced: Sequence[str]) -> Any:
    """INSERT that replaces columns of an existing row (none: leaves it alone); both databases spell it alike,
    Core has it twice."""
    statement: Any = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}[dialect](table)
    key = list(table.primary_key.columns)
    if not replaced:
        return statement.on_conflict_do_nothing(index_elements=key)
    return statement.on_conflict_do_update(
        index_elements=key, set_={name: statement.excluded[name] for name in replaced}
    )


def hold_values(claims: bool = False) -> dict[str, Any]:
    """What a commit sets in the thread's row."""
    thread = thread_table.c
    held: dict[str, Any] = {
        "head": func.coalesce(bindparam("head"), thread.head),
        "epoch": thread.epoch + literal_column("1"),
        "owner": bindparam("owner"),
        "lease": now() + bindparam("lease", type_=Double),
        "expiry": now() + func.coalesce(thread.ttl, bindparam("expiry", type_=Double)),
    }
    return {**held, "since": now()} if claims else held


def insert_thread(dialect: str) -> Any:
    """INSERT of a thread's row; no row if there is one already."""
    return upsert(dialect, thread_table, ()).values(
        thread_id=bindparam("thread"),
        namespace=bindparam("namespace"),
        head=bindparam("head"),
        epoch=bindparam("epoch"),
        owner=bindparam("owner"),
        since=now(),
        lease=now() + bindparam("lease", type_=Double),
        ttl=bindparam("ttl"),
        expiry=now() + bindparam("expiry", type_=Double),
    )
