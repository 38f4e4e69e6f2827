"""Defects that the safety tests have found, each by itself. One that is not mended yet is expected to fail."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from graphkit import START, StateGraph
from graphkit.errors import StorageBusyError, StorageUnavailableError
from tests.faults import Witness, fork_child
from tests.safety.forks import Fork, Gate
from tests.safety.scenes import GIVEN, Cast, State, in_a_row, open_saver, thread
from tests.safety.test_storage_trouble import locked

ALL = {"log": ["in", "a", "b", "c"]}


def graph_on(saver: Any, **works: Any) -> Any:
    cast = Cast("sync", Witness(os.devnull))
    return in_a_row(StateGraph(State), {name: cast.node(name, works.get(name)) for name in "abc"}).compile(
        saver
    )


def write_on_both_sides_of_a_fork(database: str) -> list[str]:
    """The parent closes its saver while the child, which inherited it, still writes. The threads there are.

    SQLite keeps its locks per process. A child that inherits an open connection believes to hold the parent's, so
    the parent, closing the last connection as it seems, removed the log that the child was writing to.
    """
    graph = graph_on(open_saver(database))
    graph.get_state(thread("connects"))
    first, closed = Gate(), Gate()

    def write() -> Any:
        graph.invoke(GIVEN, thread("before"))
        first.tell()
        closed.wait()
        return graph.invoke(GIVEN, thread("after"))

    child = Fork(write)
    first.wait()
    graph.checkpointer.close()
    closed.tell()
    assert child.result() == ALL
    found: list[str] = open_saver(database).thread_ids()
    return found


def test_what_a_forked_child_commits_survives_that_its_parent_closes_the_saver(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'threads.sqlite'}"
    assert fork_child(write_on_both_sides_of_a_fork, database).result() == ["after", "before"]


def test_the_same_input_again_after_a_lock_in_the_middle_of_a_run_goes_on(database: str) -> None:
    holds: list[Any] = []

    def lock_once(name: str) -> str:
        if not holds:
            holds.append(locked(database))
            holds[0].__enter__()
        return "b"

    saver = open_saver(database, timeout=0.05)
    graph = graph_on(saver, b=lock_once)
    with pytest.raises(StorageBusyError, match="try the same call again"):
        graph.invoke(GIVEN, thread("t"))
    holds[0].__exit__(None, None, None)
    again = graph.invoke(GIVEN, thread("t"))
    saver.close()
    assert again == ALL


def test_the_same_input_again_after_a_commit_without_confirmation_goes_on(postgres_url: str) -> None:
    saver = open_saver(postgres_url)
    graph = graph_on(saver)
    lost: list[str] = []

    def lose(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if not lost and "INSERT INTO graphkit_checkpoint" in statement:
            lost.append(statement)
            cursor.connection.close()  # the statement has been executed, and committed by itself
            raise connection.dialect.dbapi.OperationalError("the connection is lost")

    event.listen(saver.engine, "after_cursor_execute", lose)
    try:
        end = graph.invoke(GIVEN, thread("t"))
    except StorageUnavailableError:
        end = graph.invoke(GIVEN, thread("t"))
    saver.close()
    assert lost
    assert end == ALL


def test_a_clock_that_jumps_forward_ends_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    jumped, ended = threading.Event(), threading.Event()
    real_time = time.time

    def quick(state: State) -> State:
        monkeypatch.setattr(time, "time", lambda: real_time() + 7200)
        jumped.set()
        return {"log": ["quick"]}

    def slow(state: State) -> State:
        jumped.wait()
        ended.wait(1)
        return {"log": ["slow"]}

    builder = StateGraph(State).add_node("quick", quick).add_node("slow", slow, timeout=3600)
    saver = open_saver("sqlite://")
    graph = builder.add_edge(START, "quick").add_edge(START, "slow").compile(saver)
    try:
        assert graph.invoke({"log": []}, thread("t")) == {"log": ["quick", "slow"]}
    finally:
        ended.set()
        saver.close()
