"""The two frameworks behind one set of names, so that every scenario is written once.

Both are set up for the same guarantee: one saver each, SQLite in WAL mode with synchronous=NORMAL, and
every superstep on record before the next one begins (durability="sync").
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

SaverKind = Literal["none", "memory", "sqlite"]

# What a program writes to get a graph builder; also what the import is timed with.
IMPORTS = {
    "peer": "from langgraph.graph import StateGraph",
    "graphkit": "from graphkit import StateGraph",
}


@dataclass(frozen=True)
class Framework:
    """The names a scenario needs. `savers` maps a kind to a context manager that opens one in a folder."""

    StateGraph: Any
    START: str
    END: str
    Command: Any
    Send: Any
    interrupt: Callable[[Any], Any]
    savers: Mapping[SaverKind, Callable[[Path], AbstractContextManager[Any]]]


def load_peer() -> Framework:
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, START, StateGraph
    from langgraph.types import Command, Send, interrupt

    @contextmanager
    def open_sqlite(folder: Path) -> Iterator[SqliteSaver]:
        with closing(sqlite3.connect(folder / "peer.sqlite", check_same_thread=False)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            yield SqliteSaver(connection)

    savers = savers_of(InMemorySaver, open_sqlite)
    return Framework(StateGraph, START, END, Command, Send, interrupt, savers)


def load_graphkit() -> Framework:
    from graphkit import END, START, Command, Send, StateGraph, interrupt
    from graphkit.checkpoint.memory import InMemorySaver
    from graphkit.checkpoint.sqlite import SqliteSaver

    @contextmanager
    def open_sqlite(folder: Path) -> Iterator[SqliteSaver]:
        with closing(SqliteSaver(str(folder / "graphkit.sqlite"), synchronous="NORMAL")) as saver:
            yield saver

    savers = savers_of(InMemorySaver, open_sqlite)
    return Framework(StateGraph, START, END, Command, Send, interrupt, savers)


def savers_of(
    in_memory: Callable[[], Any], open_sqlite: Callable[[Path], AbstractContextManager[Any]]
) -> Mapping[SaverKind, Callable[[Path], AbstractContextManager[Any]]]:
    return {
        "none": lambda folder: nullcontext(),
        "memory": lambda folder: nullcontext(in_memory()),
        "sqlite": open_sqlite,
    }
