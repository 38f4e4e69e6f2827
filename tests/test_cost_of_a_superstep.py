"""What a superstep costs, in counts that no busy machine changes: never in time.

The hot path is counted in lines of Python that are run and in bytes that are allocated at most at once, from one
call of the node to the next. Neither may depend on how large the graph is, how much there is in the state that
nobody touches, or how long the run has been going on.
"""

from __future__ import annotations

import sqlite3
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TypedDict

import pytest
from sqlalchemy import event

from benchmarks.processes import can_trace, fsyncs_per_superstep
from benchmarks.scenario import Sizes
from graphkit import END, START, StateGraph
from graphkit.checkpoint.sqlite import SqliteSaver
from graphkit.types import Command, RunnableConfig
from tests.conftest import Graph, Runner, Saver
from tests.counts import counted

FEW, MANY = 10, 60


class Counter(TypedDict):
    n: int


def looping(
    node: Any, saver: Saver = None, *, nodes: int = 1, channels: int = 0, supersteps: int = MANY
) -> Graph:
    """`node` runs again and again; beside it there are nodes that nobody goes to, and keys that nobody reads."""
    schema: Any = TypedDict("State", {"n": int, **{f"key{number}": str for number in range(channels)}})  # type: ignore[misc]
    idle = [f"idle{number}" for number in range(nodes - 1)]
    builder = StateGraph(schema).add_node("step", node, destinations=("step", *idle, END))
    for name in idle:
        builder.add_node(name, lambda state: None)
    builder.add_edge(START, "step")
    return builder.compile(checkpointer=saver, recursion_limit=supersteps + 5)


def given(channels: int = 0) -> Any:
    return {"n": 0, **{f"key{number}": "x" * 100 for number in range(channels)}}


def counting(supersteps: int, runner: Runner, note: Callable[[], object] = lambda: None) -> Any:
    """The node: of the colour that a driver runs in the thread that drives."""

    def step(state: Counter) -> Command[str]:
        note()
        n = state["n"] + 1
        return Command(update={"n": n}, goto="step" if n < supersteps else END)

    async def step_async(state: Counter) -> Command[str]:
        return step(state)

    return step if runner.colour == "sync" else step_async


# Lines and bytes of the hot path


class Cost(NamedTuple):
    """Of one superstep: lines of Python, and bytes allocated at once."""

    lines: float
    bytes: float


class Meter:
    """Counts from call to call of `note`."""

    def __init__(self) -> None:
        self.costs: list[Cost] = []
        self._lines = 0
        self._before: tuple[int, int] | None = None

    def note(self) -> None:
        size, peak = tracemalloc.get_traced_memory()
        if self._before is not None:
            lines, before = self._before
            self.costs.append(Cost(self._lines - lines, peak - before))
        tracemalloc.reset_peak()
        self._before = self._lines, size

    @contextmanager
    def running(self) -> Iterator[None]:
        def trace(frame: Any, happened: str, argument: Any) -> Any:
            self._lines += happened == "line"
            return trace

        outer = sys.gettrace()
        tracemalloc.start()
        sys.settrace(trace)
        try:
            yield
        finally:
            sys.settrace(outer)
            tracemalloc.stop()

    @property
    def middle(self) -> Cost:
        """Of the later half: what is made once is made in the first supersteps."""
        later = self.costs[len(self.costs) // 2 :]
        return Cost(median(cost.lines for cost in later), median(cost.bytes for cost in later))


def cost_of_a_superstep(
    runner: Runner, saver: Saver, thread: str, *, nodes: int = 1, channels: int = 0, supersteps: int = MANY
) -> Cost:
    meter = Meter()
    node = counting(supersteps, runner, meter.note)
    graph = looping(node, saver, nodes=nodes, channels=channels, supersteps=supersteps)
    config: RunnableConfig = {"configurable": {"thread_id": thread}}
    with meter.running():
        result = runner.invoke(graph, given(channels), config)
    assert result["n"] == supersteps == len(meter.costs) + 1
    return meter.middle


LARGER = {"nodes": {"nodes": 300}, "channels": {"channels": 300}, "past steps": {"supersteps": 8 * MANY}}


@pytest.mark.parametrize("larger", LARGER)
def test_the_hot_path_does_not_know_how_large_things_are(runner: Runner, saver: Saver, larger: str) -> None:
    check_that_cost_stays(runner, saver, LARGER[larger])


@pytest.mark.parametrize("larger", LARGER)
def test_nor_does_it_without_a_saver(runner: Runner, larger: str) -> None:
    check_that_cost_stays(runner, None, LARGER[larger])


def check_that_cost_stays(runner: Runner, saver: Saver, larger: dict[str, int]) -> None:
    cost_of_a_superstep(runner, saver, "first")  # what is imported and made once
    small = cost_of_a_superstep(runner, saver, "small")
    large = cost_of_a_superstep(runner, saver, "large", **larger)
    assert large.lines <= small.lines + 10
    assert large.bytes <= small.bytes + 512


def test_the_meter_sees_what_grows(runner: Runner) -> None:
    """A node that takes the whole state is given a dict of it."""
    costs = []
    for channels in (10, 1000):
        meter = Meter()

        def look(state: dict[str, Any], meter: Meter = meter) -> Command[str]:
            meter.note()
            seen = sum(1 for _ in state)
            return Command(update={"n": state["n"] + seen}, goto="step" if len(meter.costs) < FEW else END)

        async def look_async(state: dict[str, Any], meter: Meter = meter) -> Command[str]:
            return look(state, meter)

        graph = looping(look if runner.colour == "sync" else look_async, channels=channels)
        with meter.running():
            runner.invoke(graph, given(channels))
        costs.append(meter.middle)
    assert costs[1].lines > costs[0].lines + 500
    assert costs[1].bytes > costs[0].bytes + 8 * 900


# Statements, commits and bytes of the savers


def per_superstep(runner: Runner, saver: Saver, count: Callable[[], int], channels: int = 0) -> float:
    """How much more `count` grows with a run of MANY supersteps than with one of FEW, for each."""
    grown = {}
    for thread, supersteps in (("first", FEW), ("few", FEW), ("many", MANY)):
        graph = looping(counting(supersteps, runner), saver, channels=channels)
        before = count()
        runner.invoke(graph, given(channels), {"configurable": {"thread_id": thread}})
        grown[thread] = count() - before
    return (grown["many"] - grown["few"]) / (MANY - FEW)


def test_a_superstep_on_sqlite_is_one_transaction_of_two_statements(runner: Runner, tmp_path: Path) -> None:
    said: list[str] = []
    with closing(sqlite3.connect(tmp_path / "t.sqlite", check_same_thread=False)) as connection:
        with SqliteSaver(connection) as saver:
            connection.set_trace_callback(said.append)
            assert per_superstep(runner, saver, lambda: len(said)) == 4
        last = said[-4:]
    verbs = [statement.split()[0] for statement in last]
    assert verbs == ["BEGIN", "UPDATE", "INSERT", "COMMIT"]
    assert last[0] == "BEGIN IMMEDIATE"


@pytest.mark.parametrize("supersteps", [1, 2, FEW])  # the head is some way from its base, or one itself
def test_a_thread_is_opened_by_two_statements(runner: Runner, tmp_path: Path, supersteps: int) -> None:
    """One reads its row with the way to its head, one what is recorded beside that."""
    said: list[str] = []
    connecting = closing(sqlite3.connect(tmp_path / "t.sqlite", check_same_thread=False))
    with connecting as connection, SqliteSaver(connection) as saver:
        graph = looping(counting(supersteps, runner), saver)
        runner.invoke(graph, given(), {"configurable": {"thread_id": "t"}})
        connection.set_trace_callback(said.append)
        opening = saver.open("t")
    assert opening.saved is not None
    assert opening.saved.values["n"] == supersteps
    assert [statement.split()[0] for statement in said] == ["BEGIN", "SELECT", "SELECT", "ROLLBACK"]


@pytest.mark.parametrize("channels", [0, 100])
def test_a_superstep_on_postgres_is_one_statement(
    runner: Runner, open_postgres: Callable[[], Saver], channels: int
) -> None:
    saver = open_postgres()
    said: list[str] = []

    def note(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        said.append(statement)

    event.listen(saver.engine, "before_cursor_execute", note)
    try:
        assert per_superstep(runner, saver, lambda: len(said), channels) == 1
    finally:
        event.remove(saver.engine, "before_cursor_execute", note)  # other tests have the same engine


@pytest.mark.parametrize("channels", [0, 100])
def test_a_superstep_stores_what_it_changed(runner: Runner, saver: Saver, channels: int) -> None:
    """Bytes of all rows. A checkpoint has about 64; now and then one lists all channels, the less often the more
    there are, so that these add about as much again."""

    def stored() -> int:
        return sum(saver.usage(thread).bytes for thread in saver.thread_ids())

    assert per_superstep(runner, saver, stored, channels) <= 130


@pytest.mark.parametrize("channels", [0, 100])
def test_a_superstep_packs_what_it_changed(runner: Runner, saver: Saver, channels: int) -> None:
    with counted() as counts:
        assert per_superstep(runner, saver, lambda: counts.packed, channels) <= 60
        assert per_superstep(runner, saver, lambda: counts.unpacked, channels) <= 0


@pytest.mark.skipif(not can_trace(), reason="strace is missing or may not trace")
def test_a_superstep_at_full_is_one_fsync() -> None:
    assert fsyncs_per_superstep("graphkit", Sizes(short=FEW, long=FEW + 100)) == 1
