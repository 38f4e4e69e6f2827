"""Bare limits: what the same work costs in a plain loop without any framework, measured beside it in the same run.

They call the node, pack what it changed, or write rows of the size that a superstep of these scenarios needs (an
update of the thread's row, and a checkpoint's row) straight through the driver, in one transaction. Nothing is
checked, nothing could be resumed: no engine can reach them, and the distance from them is what its guarantees and
its own housekeeping cost together.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from time import perf_counter
from typing import Any

import msgpack  # type: ignore[import-untyped]

from benchmarks.databases import Commit, Databases
from benchmarks.scenario import Limit, Sample

CALLS = 2000
COMMITS = 200
BODY = 50
"""Bytes of a checkpoint of the counting node, packed."""
TABLES = (
    "CREATE TABLE thread (id TEXT PRIMARY KEY, head TEXT, epoch INTEGER)",
    "CREATE TABLE checkpoint (thread TEXT, id TEXT, parent TEXT, step INTEGER, body {bytes},"
    " PRIMARY KEY (thread, id))",
    "INSERT INTO thread VALUES ('bench', '', 0)",
)
MOVE = "UPDATE thread SET head = ?, epoch = epoch + 1 WHERE id = 'bench' AND epoch = ?"
INSERT = "INSERT INTO checkpoint VALUES ('bench', ?, ?, ?, ?)"
BOTH = """
WITH moved AS (UPDATE thread SET head = %s, epoch = epoch + 1 WHERE id = 'bench' AND epoch = %s RETURNING id)
INSERT INTO checkpoint SELECT id, %s, %s, %s, %s FROM moved
"""
Node = Callable[[Any], Any]


def anywhere(what: str, sample: Sample) -> Limit:
    """A limit that needs neither a folder nor a database."""
    return Limit(what, lambda folder, databases: nullcontext(sample))


# Calling


def call(node: Node) -> Limit:
    def sample() -> float:
        state = {"n": 0, "goal": CALLS}
        started = perf_counter()
        while state["n"] < state["goal"]:
            state.update(node(state))
        return (perf_counter() - started) / CALLS

    return anywhere("the node is called and its update applied", sample)


def call_in_a_row(few: int, many: int) -> Limit:
    """Another function for each node."""

    def made() -> Node:
        return lambda state: {"n": state["n"] + 1}

    nodes = [made() for _ in range(many)]

    def seconds(length: int, runs: int) -> float:
        started = perf_counter()
        for _ in range(runs):
            state = {"n": 0}
            for node in nodes[:length]:
                state.update(node(state))
        return perf_counter() - started

    return anywhere(
        "so many functions are called one after the other",
        lambda: seconds(many, 1) / seconds(few, many // few),
    )


def call_and_add(node: Node) -> Limit:
    def sample() -> float:
        total = 0
        started = perf_counter()
        for _ in range(CALLS):
            total += node({"total": 1})["total"]
        elapsed = perf_counter() - started
        assert total == CALLS
        return elapsed / CALLS

    return anywhere("the node is called and what it returns added", sample)


def create_task(node: Callable[[Any], Awaitable[Any]]) -> Limit:
    async def seconds() -> float:
        state = {"n": 0, "goal": CALLS}
        started = perf_counter()
        while state["n"] < state["goal"]:
            state.update(await asyncio.create_task(_awaited(node, state)))
        return (perf_counter() - started) / CALLS

    return Limit("the node is awaited as a task of its own", lambda folder, databases: _in_a_loop(seconds))


def gather(node: Callable[[Any], Awaitable[Any]], tasks: int) -> Limit:
    async def seconds() -> float:
        started = perf_counter()
        updates = await asyncio.gather(*(_awaited(node, {"total": 1}) for _ in range(tasks)))
        total = sum(update["total"] for update in updates)
        elapsed = perf_counter() - started
        assert total == tasks
        return elapsed / tasks

    return Limit("all nodes are gathered", lambda folder, databases: _in_a_loop(seconds))


async def _awaited(node: Callable[[Any], Awaitable[Any]], state: Any) -> Any:
    return await node(state)


@contextmanager
def _in_a_loop(seconds: Callable[[], Awaitable[float]]) -> Iterator[Sample]:
    async def awaited() -> float:
        return await seconds()

    with asyncio.Runner() as loop:
        yield lambda: loop.run(awaited())


# Packing


def pack(node: Node) -> Limit:
    def sample() -> float:
        packer = msgpack.Packer()
        kept: list[bytes] = []
        state = {"n": 0, "goal": CALLS}
        started = perf_counter()
        while state["n"] < state["goal"]:
            update = node(state)
            state.update(update)
            kept.append(packer.pack(update))
        return (perf_counter() - started) / CALLS

    return anywhere("the node is called, what it returns packed and kept", sample)


def pack_twice() -> Limit:
    def sample() -> float:
        packer = msgpack.Packer()
        kept: list[bytes] = []
        started = perf_counter()
        for _ in range(CALLS):
            kept.append(packer.pack({"question": "go on?"}))
            kept.append(packer.pack({"answer": "yes"}))
        return (perf_counter() - started) / CALLS

    return anywhere("a question and an answer are packed and kept", sample)


def packed_megabytes(values: Sequence[Any]) -> Limit:
    def sample() -> float:
        return sum(len(msgpack.packb(value)) for value in values) / 1e6

    return anywhere("bytes of the messages, packed", sample)


# Writing


class Rows:
    """An SQLite file in WAL mode, written to as a saver writes supersteps."""

    def __init__(self, path: Path, synchronous: str, size: int = BODY) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute(f"PRAGMA synchronous={synchronous}")
        for statement in TABLES:
            self.connection.execute(statement.format(bytes="BLOB"))
        self.body = bytes(size)
        self.step = 0

    def commit(self) -> None:
        """One superstep."""
        execute, step = self.connection.execute, self.step
        execute("BEGIN IMMEDIATE")
        execute(MOVE, (name_of(step), step))
        execute(INSERT, (name_of(step), name_of(step - 1), step, self.body))
        execute("COMMIT")
        self.step += 1

    def commit_batch(self, number: int) -> None:
        """So many rows in one transaction."""
        steps = range(self.step, self.step + number)
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany(
            INSERT, [(name_of(step), name_of(step - 1), step, self.body) for step in steps]
        )
        self.connection.execute("COMMIT")
        self.step += number

    def close(self) -> None:
        self.connection.close()


def name_of(step: int) -> str:
    """As long as the id of a checkpoint."""
    return f"19aa0000000-{step:06}-00000000"


def commit_sqlite(size: int = BODY) -> Limit:
    @contextmanager
    def opened(folder: Path, databases: Databases) -> Iterator[Sample]:
        with closing(Rows(folder / "bare.sqlite", "NORMAL", size)) as rows:
            yield lambda: _mean_seconds(rows.commit, COMMITS)

    return Limit("one transaction of two rows of that size (sqlite3)", opened)


def commit_sqlite_twice() -> Limit:
    @contextmanager
    def opened(folder: Path, databases: Databases) -> Iterator[Sample]:
        with closing(Rows(folder / "bare.sqlite", "NORMAL")) as rows:
            yield lambda: 2 * _mean_seconds(rows.commit, COMMITS)

    return Limit("two transactions of two rows (sqlite3)", opened)


def commit_sqlite_async() -> Limit:
    @contextmanager
    def opened(folder: Path, databases: Databases) -> Iterator[Sample]:
        with (
            closing(Rows(folder / "bare.sqlite", "NORMAL")) as rows,
            ThreadPoolExecutor(1) as writer,
            asyncio.Runner() as runner,
        ):

            async def seconds() -> float:
                loop = asyncio.get_running_loop()
                started = perf_counter()
                for _ in range(COMMITS):
                    await loop.run_in_executor(writer, rows.commit)
                return (perf_counter() - started) / COMMITS

            yield lambda: runner.run(seconds())

    return Limit("one transaction of two rows in the one thread of an executor (sqlite3)", opened)


def insert_batch(rows_at_once: int) -> Limit:
    @contextmanager
    def opened(folder: Path, databases: Databases) -> Iterator[Sample]:
        with closing(Rows(folder / "bare.sqlite", "NORMAL")) as rows:
            yield lambda: _mean_seconds(lambda: rows.commit_batch(rows_at_once), 1) / rows_at_once

    return Limit("a row for each task, all in one transaction (sqlite3)", opened)


def commit_postgres(commit: Commit) -> Limit:
    @contextmanager
    def opened(folder: Path, databases: Databases) -> Iterator[Sample]:
        import psycopg

        with psycopg.connect(databases.create(commit), autocommit=True) as connection:
            for statement in TABLES:
                connection.execute(statement.format(bytes="BYTEA").encode())
            body, step = bytes(BODY), 0

            def write() -> None:
                nonlocal step
                values = (name_of(step), step, name_of(step), name_of(step - 1), step, body)
                connection.execute(BOTH.encode(), values, prepare=True)
                step += 1

            yield lambda: _mean_seconds(write, COMMITS)

    return Limit("one prepared statement that writes two rows (psycopg, autocommit)", opened)


def _mean_seconds(work: Callable[[], object], times: int) -> float:
    started = perf_counter()
    for _ in range(times):
        work()
    return (perf_counter() - started) / times


# Reading


def read_back(values: list[Any], copies: int = 1) -> Limit:
    """`copies`: so many lists of the messages, each a message shorter than the one before."""

    @contextmanager
    def opened(folder: Path, databases: Databases) -> Iterator[Sample]:
        path = folder / "bare.sqlite"
        with closing(Rows(path, "NORMAL")) as rows:
            rows.body = msgpack.packb(values)
            rows.commit()

        def sample() -> float:
            with closing(sqlite3.connect(path)) as connection:
                started = perf_counter()
                (body,) = connection.execute("SELECT body FROM checkpoint").fetchone()
                found = msgpack.unpackb(body)
                lists = [found[: len(found) - back] for back in range(copies)]
                elapsed = perf_counter() - started
            assert len(lists[-1]) == len(values) + 1 - copies
            return elapsed

        yield sample

    return Limit("all messages read from one row, and unpacked", opened)
