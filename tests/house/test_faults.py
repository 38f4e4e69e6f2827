"""The tools of the crash tests do what they say: a tool that misses a point would let a defect pass."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from sqlalchemy.engine import Engine

from graphkit import START, StateGraph
from graphkit.checkpoint.sqlite import SqliteSaver
from tests.conftest import EMPTY, State, says
from tests.faults import ChildError, When, Witness, barrier, count_points, die_at, fork_child, points

POINTS = ["INSERT INTO t VALUES (1)", "COMMIT", "INSERT INTO t VALUES (2)", "SELECT a FROM t", "COMMIT"]


# --- What the children do -----------------------------------------------------------------------------


def add(a: int, b: int) -> tuple[int, int]:
    return a + b, os.getpid()


def fail(why: str) -> None:
    raise ValueError(why)


def end(how: str) -> None:
    if how == "exit":
        os._exit(3)
    os.kill(os.getpid(), signal.SIGTERM)


def sleep() -> None:
    time.sleep(60)


def arrive(witness: Witness, start: Barrier) -> None:
    witness.note("there")
    start.wait()
    witness.note("gone on")


def note_often(witness: Witness, line: str) -> None:
    for _ in range(100):
        witness.note(line)


def write(engine: Engine) -> None:
    """Reaches POINTS, the second transaction in another thread and all on a connection opened before."""

    def second() -> None:
        with engine.begin() as connection:
            connection.exec_driver_sql(POINTS[2])
            connection.exec_driver_sql(POINTS[3]).all()

    with engine.begin() as connection:
        connection.exec_driver_sql(POINTS[0])
    thread = threading.Thread(target=second)
    thread.start()
    thread.join()


def write_and_die(url: str, number: int, when: When) -> None:
    engine = create_engine(url)
    die_at(engine, number, when)
    write(engine)


def run_graph(url: str, number: int, when: When) -> None:
    engine = create_engine(url)
    die_at(engine, number, when)
    go(engine)


def go(engine: Engine) -> None:
    with SqliteSaver(engine) as saver:
        graph = StateGraph(State).add_node("a", says("a")).add_edge(START, "a").compile(checkpointer=saver)
        graph.invoke(EMPTY, {"configurable": {"thread_id": "t"}})


# --- Processes ----------------------------------------------------------------------------------------


def test_a_child_returns_what_its_function_returned() -> None:
    child = fork_child(add, 1, 2)
    assert child.result() == (3, child.pid)
    assert child.pid != os.getpid()
    assert (child.wait(), child.status, child.traceback) == (0, 0, "")


def test_a_child_that_raises_hands_back_its_traceback() -> None:
    child = fork_child(fail, "the reason")
    assert child.wait() == 1
    assert "ValueError: the reason" in child.traceback and "in fail" in child.traceback
    with pytest.raises(ChildError, match="the reason"):
        child.result()


def test_a_child_that_just_ends_has_a_status_only() -> None:
    for how, status in {"exit": 3, "signal": -signal.SIGTERM}.items():
        child = fork_child(end, how)
        assert (child.wait(), child.traceback) == (status, "")
        with pytest.raises(ChildError, match=f"status {status}"):
            child.result()


def test_a_child_is_killed_on_request_and_when_it_takes_too_long() -> None:
    child = fork_child(sleep)
    assert child.status is None
    child.kill()
    assert child.wait() == -signal.SIGKILL
    child = fork_child(sleep)
    with pytest.raises(TimeoutError, match=r"sleep in process \d+ had not ended"):
        child.wait(0.01)
    assert child.status == -signal.SIGKILL


def test_children_go_on_together(tmp_path: Path) -> None:
    witness, start = Witness(tmp_path / "witness"), barrier(3)
    children = [fork_child(arrive, witness, start) for _ in range(3)]
    assert [child.wait() for child in children] == [0, 0, 0]
    assert witness.lines() == ["there"] * 3 + ["gone on"] * 3


# --- Points -------------------------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'faults.sqlite'}"
    found: str = request.getfixturevalue("postgres_url")
    return found


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (a int)")
    yield engine
    engine.dispose()


def rows(engine: Engine) -> int:
    with engine.begin() as connection:
        return len(connection.exec_driver_sql("SELECT a FROM t").all())


def test_all_points_are_counted_and_only_while_asked(engine: Engine) -> None:
    assert points(engine, lambda: write(engine)) == POINTS
    assert count_points(engine, lambda: None) == 0
    assert count_points(engine, lambda: write(engine)) == len(POINTS)
    assert rows(engine) == 4


def test_a_statement_that_fails_is_a_point(engine: Engine) -> None:
    def run() -> None:
        with pytest.raises(Exception, match="missing"), engine.begin() as connection:
            connection.exec_driver_sql("SELECT * FROM missing")
        write(engine)

    assert points(engine, run) == ["SELECT * FROM missing", *POINTS]


def test_a_process_dies_at_every_point(url: str, engine: Engine) -> None:
    committed = {}
    for number in range(1, len(POINTS) + 1):
        for when in ("before", "after"):
            before = rows(engine)
            assert fork_child(write_and_die, url, number, when).wait() == -signal.SIGKILL
            committed[number, when] = rows(engine) - before
    assert [key for key, new in committed.items() if new == 2] == [(5, "after")]
    assert [key for key, new in committed.items() if new == 0] == [(1, "before"), (1, "after"), (2, "before")]
    assert fork_child(write_and_die, url, len(POINTS) + 1, "before").wait() == 0


def test_a_run_of_a_graph_can_die_at_its_first_and_last_point(tmp_path: Path) -> None:
    def fresh(name: str) -> str:
        return f"sqlite:///{tmp_path / name}"

    engine = create_engine(fresh("counted"))
    last = count_points(engine, lambda: go(engine))
    engine.dispose()
    assert last > 4
    ends: dict[tuple[int, When], int] = {(1, "before"): -9, (last, "after"): -9, (last + 1, "before"): 0}
    for (number, when), status in ends.items():
        child = fork_child(run_graph, fresh(f"{number} {when}"), number, when)
        assert child.wait() == status, child.traceback


# --- Witness ------------------------------------------------------------------------------------------


def test_a_witness_keeps_every_line_of_every_process(tmp_path: Path) -> None:
    witness = Witness(tmp_path / "witness")
    assert (witness.lines(), witness.count("a")) == ([], 0)
    children = [fork_child(note_often, witness, line) for line in ("a", "b" * 3000)]
    assert [child.wait() for child in children] == [0, 0]
    assert (witness.count("a"), witness.count("b" * 3000), len(witness.lines())) == (100, 100, 200)


def test_a_witness_refuses_what_would_read_as_two_lines(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="single lines"):
        Witness(tmp_path / "witness").note("a\nb")
