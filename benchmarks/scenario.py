"""What one line of the table is: a metric, how it is measured, what it is held against, and its sizes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Literal

from benchmarks.databases import Databases

Sample = Callable[[], float]
"""Does the work once and returns one figure, in seconds unless the scenario's unit says otherwise."""
Unit = Literal["µs", "ms", "MiB", "MB", "×", "commits", "fsyncs"]
SaverKind = Literal[
    "none", "memory", "sqlite", "sqlite full", "sqlite async", "postgres on", "postgres off", "own"
]
"""SQLite: synchronous=NORMAL, FULL, or NORMAL with the async saver. PostgreSQL: `synchronous_commit`.
"own": no saver but the folder, for scenarios that open and close savers themselves."""

thread_numbers = count()


@dataclass(frozen=True)
class Sizes:
    """How much of everything: the full table's sizes, unless a shorter form is wanted."""

    short: int = 20
    long: int = 220
    """Supersteps of the two runs whose difference is taken."""
    tasks: int = 1000
    threads: int = 200
    steps: int = 20
    """Supersteps of each of the threads."""
    few_nodes: int = 100
    many_nodes: int = 3000
    compiled_nodes: int = 1000
    turns: int = 1000
    memory_turns: int = 3000
    value_bytes: int = 100_000_000
    chain: int = 100
    jokes: int = 100
    react_turns: int = 100
    wide_states: tuple[tuple[int, int], ...] = ((25, 300), (9, 1200))
    """(entries of each field, fields)."""
    dict_entries: int = 2500
    late_request: int = 100
    """The agent's request that stands for a long conversation; request 10 stands for a short one."""
    session_turns: int = 50
    """Four messages each."""
    ring: int = 10
    handoffs: int = 100
    layers: int = 10
    """Of as many agents each."""


FULL = Sizes()
QUICK = Sizes(
    long=120,
    tasks=200,
    threads=50,
    steps=10,
    many_nodes=1000,
    compiled_nodes=300,
    turns=300,
    chain=50,
    jokes=30,
    react_turns=30,
    wide_states=((25, 100), (9, 300)),
    dict_entries=800,
    late_request=40,
    session_turns=20,
    handoffs=30,
    layers=5,
)


@dataclass(frozen=True)
class Target:
    """`ratio`: peer ÷ graphkit, at least; the others judge graphkit's own value. `rounded` is for counts per
    superstep that something rare adds a little to. `stretch` is a ratio beyond the one that must be reached."""

    judged: Literal["ratio", "at most", "exactly", "rounded"]
    value: float
    stretch: float | None = None

    def __str__(self) -> str:
        text = {"ratio": "≥ {:g}×", "at most": "≤ {:g}", "exactly": "= {:g}", "rounded": "= {:g} (rounded)"}
        stretch = "" if self.stretch is None else f", stretch {self.stretch:g}×"
        return text[self.judged].format(self.value) + stretch

    def is_met(self, graphkit: float, ratio: float | None) -> bool:
        if self.judged == "ratio":
            return ratio is not None and ratio >= self.value
        if self.judged == "at most":
            return graphkit <= self.value
        return (round(graphkit) if self.judged == "rounded" else graphkit) == self.value

    def is_stretched(self, ratio: float | None) -> bool:
        return self.stretch is not None and ratio is not None and ratio >= self.stretch


@dataclass(frozen=True)
class Limit:
    """The same work by a plain loop without any framework. `open` gets an empty folder and the databases; `what`
    says what the loop does, for the notes below the table."""

    what: str
    open: Callable[[Path, Databases], AbstractContextManager[Sample]]


@dataclass(frozen=True)
class Scenario:
    """One line of the table.

    `prepare` gets a framework and an open saver of the kind `saver` (or None, or the folder). Without a target the
    line is there to be seen. `most_pairs` is for samples that take seconds or make their thread grow: they are
    taken so many times at most, neither warmed up nor repeated. A `slow` line is left out of the quick form.
    """

    metric: str
    unit: Unit
    target: Target | None
    prepare: Callable[[Any, Any], Sample]
    saver: SaverKind = "none"
    limit: Limit | None = None
    peer: Literal["LangGraph", "Strands"] = "LangGraph"
    with_peer: bool = True
    most_pairs: int | None = None
    slow: bool = False
    needs_strace: bool = False

    @property
    def needs_postgres(self) -> bool:
        return self.saver.startswith("postgres")


def options(saver: Any) -> dict[str, Any]:
    """Arguments of a run on a thread of its own; durability only where there is something to save."""
    config = {"recursion_limit": 10_000, "configurable": {"thread_id": f"bench-{next(thread_numbers)}"}}
    return {"config": config} if saver is None else {"config": config, "durability": "sync"}


def forget(saver: Any, run: dict[str, Any]) -> None:
    """Drop the thread of a finished run, so that what earlier samples left behind slows no later one."""
    if saver is not None:
        saver.delete_thread(run["config"]["configurable"]["thread_id"])
