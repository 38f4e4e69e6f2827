"""Threads in a relational database: one saver over SQLAlchemy for all of them."""

from __future__ import annotations

import asyncio
import functools
import threading
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, suppress
from copy import copy
from typing import Any, Final, Self

from sqlalchemy import (
    Table,
    delete,
    func,
    insert,
    inspect,
    literal_column,
    select,
    update,
)
from sqlalchemy.engine import Connection, Engine

from graphkit_checkpoint.admission import conflict, current, lost
from graphkit_checkpoint.base import BaseCheckpointSaver
from graphkit_checkpoint.direct import Execute, execute_on
from graphkit_checkpoint.errors import (
    ConcurrentUpdateError,
    StorageBusyError,
    StorageCorruptError,
    StorageError,
    StorageUnavailableError,
)
from graphkit_checkpoint.forks import survive_forks
from graphkit_checkpoint.layout import CheckpointRow, PendingRow, Rows, ValueRow
from graphkit_checkpoint.ownership import NOBODY, Holder, leases
from graphkit_checkpoint.records import COUNT, ThreadState
from graphkit_checkpoint.statements import (
    SCHEMA_VERSION,
    TABLES,
    Statements,
    checkpoint_table,
    metadata,
    now,
    pending_table,
    schema_table,
    thread_table,
    value_table,
)
from graphkit_checkpoint.tables import ReadTables, ThreadRow, WriteTables
from graphkit_checkpoint.worker import Worker

MOST_AT_ONCE: Final = 256
"""How many commits of different runs are written in one transaction at most."""
NO_LIMIT: Final = 2**62
FOR_ALL: Final = (StorageBusyError, StorageUnavailableError, StorageCorruptError)
"""What fails a transaction whatever is written in it."""


class _Job:
    """One commit that waits to be written, alone or with others. `future` is for who does not wait here."""

    __slots__ = ("done", "error", "future", "rows")

    def __init__(self, rows: Rows, future: Future[None] | asyncio.Future[None] | None = None) -> None:
        self.rows = rows
        self.future = future
        self.done = False
        self.error: Exception | None = None


class SqlSaver(BaseCheckpointSaver):
    """A saver over an SQLAlchemy engine. Subclasses connect and translate errors; `lock` is held while a
    connection is used that a fork must not interrupt, `alone` the mode of transactions of a single statement.

    Commits of several runs that come at the same time are written in one transaction: whoever gets to write
    takes the others' along. One that is refused (its thread is owned by somebody else) leaves them alone.
    """

    alone = "write"

    def __init__(self, engine: Engine, **options: Any) -> None:
        super().__init__(**options)
        self.engine = engine
        self.statements = Statements.of(engine.dialect.name)
        self.lock = threading.Lock()
        self._waiting: deque[_Job] = deque()
        self._turn = threading.Lock()
        self._woken = False
        self._inherited: Any = None
        survive_forks(self)

    @classmethod
    def from_conn_string(cls, conn_string: str, **options: Any) -> Self:
        """The saver for a path or URL; use it in `with` or `async with`, which closes it."""
        return cls(conn_string, **options)  # type: ignore[arg-type]  # a subclass takes what users give

    @abstractmethod
    def transaction(self, mode: str) -> AbstractContextManager[Connection]:
        """One transaction, "read", "write" or `alone`; errors come out as ours."""

    def execute_on(self, connection: Connection) -> Execute:
        """How to run statements in a transaction that has just begun."""
        return execute_on(connection)

    @contextmanager
    def reading(self) -> Iterator[ReadTables]:
        with self.transaction("read") as connection:
            yield SqlTables(self, connection, locks=False)

    @contextmanager
    def writing(self) -> Iterator[WriteTables]:
        with self.transaction("write") as connection:
            yield SqlTables(self, connection, locks=True)

    def let_go(self) -> None:
        """Before a fork. A connection to a server need not be closed for it."""

    def begin_anew(self) -> None:
        """In a forked child: the parent's connections stay as they are, neither used nor closed here."""
        self._inherited = self.engine.pool
        self.engine.dispose(close=False)
        self.worker = Worker("graphkit-saver", self.workers)
        self._turn = threading.Lock()
        self._woken = False
        self._waiting.clear()

    # Commits

    def write(self, rows: Rows) -> None:
        job = _Job(rows)
        self._waiting.append(job)
        with self._turn:
            while not job.done:
                self._write_waiting(job)
        if job.error is not None:
            raise job.error

    def begin_write(self, rows: Rows) -> Future[None]:
        future: Future[None] = Future()
        self._enqueue(_Job(rows, future))
        return future

    def begin_awrite(self, rows: Rows) -> asyncio.Future[None]:
        future = asyncio.get_running_loop().create_future()
        self._enqueue(_Job(rows, future))
        return future

    def _enqueue(self, job: _Job) -> None:
        self._waiting.append(job)
        self._wake()

    def _wake(self) -> None:
        if not self._woken:  # else the writing thread is about to look
            self._woken = True
            try:
                self.worker.submit(self._write_all)
            except BaseException:
                self._woken = False
                raise

    def _write_all(self) -> None:
        self._woken = False
        with self._turn:
            while self._waiting:
                self._write_waiting(None)

    def _verdict(self, rows: Rows, error: Exception | None) -> Exception | None:
        """What becomes of a commit after its transaction: its error, or None and its lease is taken note of."""
        if error is not None and not self._arrived(rows, error):
            return error
        if rows.release:
            leases.release(rows.token)
        else:
            leases.hold(rows.token, self.lease, functools.partial(self.renew, rows.thread_id, rows.token))
        return None

    def _arrived(self, rows: Rows, error: Exception) -> bool:
        """Whether a commit was made whose confirmation was lost; its head is of this run and of no other."""
        if rows.head is None or not isinstance(error, StorageUnavailableError):
            return False
        try:
            with self.reading() as tables:
                return tables.checkpoint(rows.thread_id, rows.namespace, rows.head) is not None
        except StorageError:
            return False

    def _write_waiting(self, own: _Job | None) -> None:
        jobs = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_AT_ONCE))]
        if len(jobs) > 1:
            # In one order everywhere, so that two processes do not wait for each other's rows.
            jobs.sort(key=lambda job: job.rows.thread_id)
        try:
            self._write_together(jobs)
        except BaseException:
            # This thread was interrupted, and its run with it; the others still wait for theirs.
            self._waiting.extendleft(job for job in reversed(jobs) if not (job.done or job is own))
            if self._waiting:
                self._wake()
            raise

    def _write_together(self, jobs: list[_Job]) -> None:
        try:
            refusals: Sequence[Exception | None] = self.write_batch([job.rows for job in jobs])
        except Exception as error:
            if len(jobs) > 1 and not isinstance(error, FOR_ALL):
                for job in jobs:  # one of them is to blame: each by itself
                    self._write_together([job])
                return
            refusals = [copy(error) if len(jobs) > 1 else error for _ in jobs]
        for job, refusal in zip(jobs, refusals, strict=True):
            job.error, job.done = refusal, True  # nobody writes it again, whatever comes now
        try:
            for job in jobs:
                job.error = self._verdict(job.rows, job.error)
        finally:
            _tell(jobs)

    def write_batch(self, batch: Sequence[Rows]) -> Sequence[ConcurrentUpdateError | None]:
        """Write commits in one transaction; returns the refusal of each that was refused."""
        with self.transaction("write") as connection:
            tables = SqlTables(self, connection, locks=True)
            return tables.apply(batch)

    def renew(self, thread_id: str, token: str) -> None:
        with self.transaction(self.alone) as connection:
            connection.exec_driver_sql(self.statements.renew, (self.lease, thread_id, "", token))

    # Tables

    def create_tables(self, connection: Connection) -> None:
        """Make the tables, or migrate those of an older version. Raises `StorageCorruptError` for a version that
        this graphkit does not know, if some of the tables are lost, and what a migration raises; nothing is changed
        then."""
        version = recorded_version(connection)
        if version not in (None, SCHEMA_VERSION):
            self._migrate(connection, version)
        found = inspect(connection)
        missing = [name for name in metadata.tables if not found.has_table(name)]
        if 0 < len(missing) < len(metadata.tables):  # they are made together
            raise StorageCorruptError(
                f"the tables {', '.join(missing)} of {self.engine.url!r} are missing beside the others; restore the "
                f"database from a backup"
            )
        metadata.create_all(connection)
        if version is None:
            connection.execute(insert(schema_table).values(version=SCHEMA_VERSION))

    def _migrate(self, connection: Connection, version: int) -> None:
        from graphkit_checkpoint.migrations import MIGRATIONS  # it needs the tables of this module

        while version != SCHEMA_VERSION:
            if version not in MIGRATIONS:
                raise StorageCorruptError(
                    f"the tables of {self.engine.url!r} have schema version {version}, this graphkit knows "
                    f"{SCHEMA_VERSION} and no way from one to the other; use the graphkit that wrote them"
                )
            MIGRATIONS[version](connection, self.layout)
            version += 1
            connection.execute(update(schema_table).values(version=version))


def _tell(jobs: Sequence[_Job]) -> None:
    """Settle the futures of commits; those of a loop together, which wakes it once."""
    loops: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
    for job in jobs:
        if job.future is None:
            continue
        if isinstance(job.future, asyncio.Future):
            loops.setdefault(job.future.get_loop(), []).append(job)
        else:
            _settle(job)
    for loop, some in loops.items():
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_settle, *some)


def _settle(*jobs: _Job) -> None:
    for job in jobs:
        future = job.future
        if future is None or future.done():
            continue
        if job.error is not None:
            future.set_exception(job.error)
        else:
            future.set_result(None)


def recorded_version(connection: Connection) -> int | None:
    """The schema version of the tables; None if there are none."""
    if not inspect(connection).has_table(schema_table.name):
        return None
    version: int | None = connection.execute(select(schema_table.c.version)).scalar()
    return version


class SqlTables(WriteTables):
    """The tables in one transaction. With `locks` a thread that is looked at stays as it is until the end."""

    def __init__(self, saver: SqlSaver, connection: Connection, locks: bool) -> None:
        self.saver = saver
        self.connection = connection
        self.statements = saver.statements
        self.execute = saver.execute_on(connection)
        self.select_thread = self.statements.lock_thread if locks else self.statements.select_thread

    # Commits

    def apply(self, batch: Sequence[Rows]) -> list[ConcurrentUpdateError | None]:
        """Write commits; of those that are refused nothing, and why they are is returned in their places."""
        refusals = [self._admit(rows) for rows in batch]
        admitted = [rows for rows, refusal in zip(batch, refusals, strict=True) if refusal is None]
        for rows in admitted:
            if rows.namespace and rows.head is not None:
                self._move_nested_head(rows)
        self._put(self.statements.insert_checkpoint, admitted, "checkpoints")
        self._put(self.statements.insert_value, admitted, "values")
        for rows in admitted:
            for fold in rows.folds:
                key = (rows.thread_id, rows.namespace, fold.channel, fold.log)
                self.execute(self.statements.delete_folded, (*key, fold.start, fold.last))
                self.execute(self.statements.update_folded, (*fold[4:], *key, fold.start))
        self._put(self.statements.delete_pending, admitted, "forget")
        self._put(self.statements.upsert_pending, admitted, "pending")
        return refusals

    def _put(self, sql: str, batch: Iterable[Rows], part: str) -> None:
        """Run a statement for the rows of one table."""
        placed = [(rows.thread_id, rows.namespace, *row) for rows in batch for row in getattr(rows, part)]
        if placed:
            self._run_all(sql, placed)

    def _run_all(self, sql: str, rows: list[tuple[Any, ...]]) -> None:
        if len(rows) == 1:  # the usual case; a list of one would cost the driver's slower way
            self.execute(sql, rows[0])
        elif rows:
            self.execute(sql, rows)

    def _admit(self, rows: Rows) -> ConcurrentUpdateError | None:
        """Claim, hold or release the thread in this transaction."""
        if rows.claims and rows.acquire is None:
            return self._create_thread(rows)
        saver = self.saver
        head = None if rows.namespace else rows.head
        owner = None if rows.release else rows.token
        sql = self.statements.claim if rows.claims else self.statements.hold
        # The columns of an UPDATE come in the order of the table: `since` is set without a parameter.
        witness = rows.acquire.epoch if rows.claims and rows.acquire else rows.token
        done = self.execute(sql, (head, owner, saver.lease, saver.ttl, rows.thread_id, "", witness))
        if done.rowcount == 1:
            return None
        state = self.thread(rows.thread_id)
        holder = state.state.holder if state else None
        return conflict(rows.thread_id, holder) if rows.claims else lost(rows.thread_id, rows.token, holder)

    def _create_thread(self, rows: Rows) -> ConcurrentUpdateError | None:
        if self._insert_thread(rows):
            return None
        existing = self.thread(rows.thread_id)
        if current(existing) is not None:
            assert existing is not None
            return conflict(rows.thread_id, existing.state.holder)
        self.drop_thread(rows.thread_id)  # its time had run out
        return None if self._insert_thread(rows) else conflict(rows.thread_id, None)  # another was quicker

    def _insert_thread(self, rows: Rows) -> bool:
        """Whether the thread's row was made: there was none."""
        head = rows.head if not rows.namespace else None
        owner = None if rows.release else rows.token
        values = (rows.thread_id, "", head, 1, owner, self.saver.lease, None, self.saver.ttl)
        made: int = self.execute(self.statements.insert_thread, values).rowcount
        return made == 1

    def _move_nested_head(self, rows: Rows) -> None:
        """The head of a nested graph's namespace; the root's row has been checked already."""
        place = (rows.thread_id, rows.namespace)
        if self.execute(self.statements.move_head, (rows.head, *place)).rowcount == 0:
            self.execute(self.statements.insert_thread, (*place, rows.head, 0, None, None, None, None))

    # Reading

    def _fetch(self, sql: str, values: tuple[Any, ...]) -> Sequence[Any]:
        rows: Sequence[Any] = self.execute(sql, values).fetchall()
        return rows

    def thread(self, thread_id: str, namespace: str = "") -> ThreadRow | None:
        found = self._fetch(self.select_thread, (thread_id, namespace))
        return _thread_row(*found[0]) if found else None

    def thread_at_head(self, thread_id: str) -> tuple[ThreadRow | None, list[CheckpointRow]]:
        found = self._fetch(self.statements.select_head, (thread_id, ""))
        if not found:
            return None, []
        way = [CheckpointRow(*row[7:]) for row in found if row[7] is not None]
        return _thread_row(*found[0][:7]), way

    def checkpoint(self, thread_id: str, namespace: str, checkpoint_id: str) -> CheckpointRow | None:
        key = (thread_id, namespace, checkpoint_id)
        found = self._fetch(self.statements.select_checkpoint, key)
        return CheckpointRow(*found[0]) if found else None

    def chain(self, thread_id: str, namespace: str, first: str, last: str) -> list[CheckpointRow]:
        # Ids sort by time, so this range holds the way from one to the other.
        key = (thread_id, namespace, first, last)
        return [CheckpointRow(*row) for row in self._fetch(self.statements.select_chain, key)]

    def recent(
        self, thread_id: str, namespace: str, before: str | None, limit: int | None
    ) -> list[CheckpointRow]:
        place, most = (thread_id, namespace), NO_LIMIT if limit is None else limit
        if before is None:
            found = self._fetch(self.statements.select_newest, (*place, most))
        else:
            found = self._fetch(self.statements.select_earlier, (*place, before, most))
        return [CheckpointRow(*row) for row in found]

    def values(
        self, thread_id: str, namespace: str, channel: str, log: str, upto: int | None
    ) -> Iterable[ValueRow]:
        key = (thread_id, namespace, channel, log)
        if upto is None:
            found = self.execute(self.statements.select_whole_log, key)
        else:
            found = self.execute(self.statements.select_log, (*key, upto))
        return map(_value_row, found)

    def pending(
        self, thread_id: str, namespace: str, checkpoint_id: str, upto: str | None = None
    ) -> list[PendingRow]:
        key = (thread_id, namespace, checkpoint_id, upto or checkpoint_id)
        return [PendingRow(*row) for row in self._fetch(self.statements.select_pending, key)]

    def pending_of(self, thread_id: str, namespace: str, kind: str, key: str) -> list[PendingRow]:
        table = pending_table.c
        query: Any = select(*list(table)[2:]).where(
            table.thread_id == thread_id, table.namespace == namespace, table.kind == kind, table.key == key
        )
        found = self.connection.execute(query.order_by(table.checkpoint_id.desc()))
        return [PendingRow(*row) for row in found]

    def namespaces(self, thread_id: str, under: str = "") -> list[str]:
        table = thread_table.c
        query = select(table.namespace).where(table.thread_id == thread_id).order_by(table.namespace)
        if under:
            query = query.where(table.namespace >= under, table.namespace < f"{under}\U0010ffff")
        found = list(self.connection.execute(query).scalars())
        if not all(isinstance(name, str) for name in found):
            raise StorageCorruptError(f"a namespace of thread {thread_id!r} is no text; restore the database")
        return found

    def thread_ids(self, expired: bool = False) -> list[str]:
        table = thread_table.c
        runs_out = func.coalesce(table.expiry <= now(), literal_column("false"))
        query = select(table.thread_id).where(table.namespace == "", runs_out if expired else ~runs_out)
        return list(self.connection.execute(query.order_by(table.thread_id)).scalars())

    def value_keys(self, thread_id: str, namespace: str) -> list[tuple[str, str, int, int, str | None]]:
        table = value_table.c
        query = select(table.channel, table.log, table.start, table.length, table.previous).where(
            table.thread_id == thread_id, table.namespace == namespace
        )
        found = self.connection.execute(query.order_by(table.channel, table.log, table.start))
        return [(channel, log, start, length, previous) for channel, log, start, length, previous in found]

    def usage(self, thread_id: str) -> tuple[int, int, int, int]:
        counts, size = [], 0
        for table in (checkpoint_table, value_table, pending_table):
            query = select(func.count(), func.coalesce(func.sum(func.length(table.c.body)), 0)).where(
                table.c.thread_id == thread_id
            )
            if table is pending_table:
                query = query.where(table.c.kind != COUNT)
            count, length = self.connection.execute(query).one()
            counts.append(count)
            size += int(length)
        return counts[0], counts[1], counts[2], size

    # Writing

    def put_thread(
        self, thread_id: str, namespace: str, head: str | None, epoch: int, ttl: float | None
    ) -> None:
        self._delete(
            thread_table, thread_table.c.thread_id == thread_id, thread_table.c.namespace == namespace
        )
        expiry = None if namespace else self.saver.ttl if ttl is None else ttl
        values = (thread_id, namespace, head, epoch, None, None, ttl, expiry)
        self.execute(self.statements.insert_thread, values)

    def break_off(self, thread_id: str) -> None:
        row = thread_table.c.thread_id == thread_id, thread_table.c.namespace == ""
        self.connection.execute(update(thread_table).where(*row).values(owner=NOBODY, since=now(), lease=0.0))

    def move_head(self, thread_id: str, namespace: str, head: str | None) -> None:
        self.execute(self.statements.move_head, (head, thread_id, namespace))

    def put_checkpoints(self, thread_id: str, namespace: str, rows: Sequence[CheckpointRow]) -> None:
        self._run_all(self.statements.upsert_checkpoint, [(thread_id, namespace, *row) for row in rows])

    def put_values(self, thread_id: str, namespace: str, rows: Sequence[ValueRow]) -> None:
        self._run_all(self.statements.insert_value, [(thread_id, namespace, *row) for row in rows])

    def put_pending(self, thread_id: str, namespace: str, rows: Sequence[PendingRow]) -> None:
        self._run_all(self.statements.upsert_pending, [(thread_id, namespace, *row) for row in rows])

    def drop_checkpoints(self, thread_id: str, namespace: str, ids: Iterable[str]) -> None:
        doomed = list(ids)
        for table, column in ((pending_table, "checkpoint_id"), (checkpoint_table, "id")):
            this = (table.c.thread_id == thread_id, table.c.namespace == namespace)
            for some in _portions(doomed):
                self._delete(table, *this, table.c[column].in_(some))

    def drop_values(self, thread_id: str, namespace: str, keys: Iterable[tuple[str, str, int]]) -> None:
        self._run_all(self.statements.delete_value, [(thread_id, namespace, *key) for key in keys])

    def drop_namespace(self, thread_id: str, namespace: str) -> None:
        for table in TABLES:
            self._delete(table, table.c.thread_id == thread_id, table.c.namespace == namespace)

    def drop_thread(self, thread_id: str) -> None:
        for table in TABLES:
            self._delete(table, table.c.thread_id == thread_id)

    def _delete(self, table: Table, *where: Any) -> None:
        self.connection.execute(delete(table).where(*where))


def _thread_row(
    head: str | None,
    epoch: int,
    owner: str | None,
    since: float,
    left: float,
    expired: int | None,
    ttl: float | None,
) -> ThreadRow:
    holder = None
    if (
        owner is not None
    ):  # SQLite's columns take anything: what is damaged is an owner whose lease has run out
        holder = Holder(str(owner), *(each if isinstance(each, float) else 0.0 for each in (since, left)))
    return ThreadRow(ThreadState(head, epoch, holder), bool(expired), ttl)


# `ValueRow._make` without a call of Python for each row.
_value_row: Final[Callable[[Any], ValueRow]] = functools.partial(tuple.__new__, ValueRow)


def _portions(ids: Sequence[str], size: int = 500) -> Iterable[Sequence[str]]:
    """Databases limit how many values one statement may have."""
    return (ids[start : start + size] for start in range(0, len(ids), size))
