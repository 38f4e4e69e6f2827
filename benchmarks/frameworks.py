"""The two frameworks behind one set of names, so that every scenario is written once.

Both are set up for the same guarantee: one saver each, on the same database with the same durability (SQLite
in WAL mode with synchronous=NORMAL unless a kind of saver says otherwise), and every superstep on record
before the next one begins (durability="sync").
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    closing,
    contextmanager,
    nullcontext,
)
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from benchmarks.databases import Commit, Databases
from benchmarks.scenario import SaverKind

T = TypeVar("T")
Synchronous = Literal["NORMAL", "FULL"]


@dataclass(frozen=True)
class Framework:
    """The names a scenario needs. `importing` is what a program writes to get a graph builder. `savers` maps a kind
    to a context manager that opens one in a folder."""

    name: str
    importing: str
    StateGraph: Any
    START: str
    END: str
    Command: Any
    Send: Any
    interrupt: Callable[[Any], Any]
    add_messages: Callable[[Any, Any], Any]
    savers: Mapping[SaverKind, Callable[[Path], AbstractContextManager[Any]]]
    loop: asyncio.Runner = field(default_factory=asyncio.Runner)
    """One event loop for everything async: the peer's async savers belong to the loop they were opened in."""

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.loop.run(coroutine)


def load_langgraph(databases: Databases) -> Framework:
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, START, StateGraph
    from langgraph.graph.message import add_messages
    from langgraph.types import Command, Send, interrupt

    @contextmanager
    def open_sqlite(folder: Path, synchronous: Synchronous = "NORMAL") -> Iterator[SqliteSaver]:
        with closing(sqlite3.connect(folder / "peer.sqlite", check_same_thread=False)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(f"PRAGMA synchronous={synchronous}")
            yield SqliteSaver(connection)

    loop = asyncio.Runner()

    @contextmanager
    def open_async(folder: Path) -> Iterator[Any]:
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        path = str(folder / "peer.sqlite")
        with entered(loop, AsyncSqliteSaver.from_conn_string(path)) as saver:
            loop.run(set_normal(saver.conn))
            yield saver

    @contextmanager
    def open_postgres(folder: Path, commit: Commit) -> Iterator[Any]:
        from langgraph.checkpoint.postgres import PostgresSaver

        with PostgresSaver.from_conn_string(databases.create(commit)) as saver:
            saver.setup()
            yield saver

    savers = savers_of(InMemorySaver, open_sqlite, open_async, open_postgres)
    importing = "from langgraph.graph import StateGraph"
    return Framework(
        "LangGraph", importing, StateGraph, START, END, Command, Send, interrupt, add_messages, savers, loop
    )


async def set_normal(connection: Any) -> None:
    await connection.execute("PRAGMA journal_mode=WAL")
    await connection.execute("PRAGMA synchronous=NORMAL")


def load_graphkit(databases: Databases) -> Framework:
    from graphkit import END, START, Command, Send, StateGraph, interrupt
    from graphkit.checkpoint.memory import InMemorySaver
    from graphkit.checkpoint.sqlite import SqliteSaver
    from graphkit.checkpoint.sqlite.aio import AsyncSqliteSaver
    from graphkit.graph.message import add_messages

    @contextmanager
    def open_sqlite(folder: Path, synchronous: Synchronous = "NORMAL") -> Iterator[SqliteSaver]:
        with closing(SqliteSaver(str(folder / "graphkit.sqlite"), synchronous=synchronous)) as saver:
            yield saver

    loop = asyncio.Runner()

    @contextmanager
    def open_async(folder: Path) -> Iterator[Any]:
        saver = AsyncSqliteSaver(str(folder / "graphkit.sqlite"), synchronous="NORMAL")
        with entered(loop, saver):
            yield saver

    @contextmanager
    def open_postgres(folder: Path, commit: Commit) -> Iterator[Any]:
        from graphkit.checkpoint.postgres import PostgresSaver

        with closing(PostgresSaver(databases.create(commit))) as saver:
            yield saver

    savers = savers_of(InMemorySaver, open_sqlite, open_async, open_postgres)
    importing = "from graphkit import StateGraph"
    return Framework(
        "graphkit", importing, StateGraph, START, END, Command, Send, interrupt, add_messages, savers, loop
    )


@contextmanager
def entered(loop: asyncio.Runner, opened: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """An async context manager that is entered and left in `loop`."""
    saver = loop.run(_enter(opened))
    try:
        yield saver
    finally:
        loop.run(_leave(opened))


async def _enter(opened: AbstractAsyncContextManager[T]) -> T:
    return await opened.__aenter__()


async def _leave(opened: AbstractAsyncContextManager[Any]) -> None:
    await opened.__aexit__(None, None, None)


def savers_of(
    in_memory: Callable[[], Any],
    open_sqlite: Callable[..., AbstractContextManager[Any]],
    open_async: Callable[[Path], AbstractContextManager[Any]],
    open_postgres: Callable[..., AbstractContextManager[Any]],
) -> Mapping[SaverKind, Callable[[Path], AbstractContextManager[Any]]]:
    return {
        "memory": lambda folder: nullcontext(in_memory()),
        "sqlite": open_sqlite,
        "sqlite full": partial(open_sqlite, synchronous="FULL"),
        "sqlite async": open_async,
        "postgres on": partial(open_postgres, commit="on"),
        "postgres off": partial(open_postgres, commit="off"),
    }
