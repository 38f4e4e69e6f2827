"""A clock that jumps: ids stay sorted and nothing is lost; leases are judged by the clock of the database."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest
from sqlalchemy import make_url

from graphkit import Command, StateGraph, interrupt
from graphkit.errors import ConcurrentUpdateError
from tests.faults import Witness, fork_child
from tests.safety.conftest import Report
from tests.safety.figures import chance, size
from tests.safety.forks import ENOUGH, Fork, Gate
from tests.safety.scenes import COLOURS, GIVEN, Cast, State, call, in_a_row, open_saver, thread, view, warm_up

JUMPS = size(20, 500)
DAY = 86_400.0
real_time = time.time


class Clock:
    """Instead of `time.time`: jumps by up to a year, either way, whenever it is looked at."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.jumps = 0

    def __call__(self) -> float:
        self.jumps += 1
        return real_time() + self.dice.uniform(-365 * DAY, 365 * DAY)


def turns_by_a_jumping_clock(database: str, colour: str, folder: str, turns: int) -> int:
    """Questions and answers, turn after turn; how often the clock jumped."""
    nodes = {
        "a": Cast(colour, Witness(f"{folder}/witness")).node("a"),
        "b": Cast(colour, Witness(f"{folder}/witness")).node("b", lambda name: interrupt("sure?")),
    }
    saver, config = open_saver(database), thread("t")
    graph = in_a_row(StateGraph(State), nodes).compile(saver)
    clock = Clock(chance("clock", make_url(database).get_backend_name(), colour))
    time.time = clock
    for turn in range(turns):
        call(colour, graph, GIVEN, config)
        call(colour, graph, Command(resume=turn), config)
    time.time = real_time
    end = view(graph, config)  # which checks that the ids are sorted and history is one line
    assert end.values["log"] == [word for turn in range(turns) for word in ("in", "a", turn)]
    assert len(end.history) == 4 * turns
    saver.close()
    return clock.jumps


@pytest.mark.parametrize("colour", COLOURS)
def test_a_clock_that_jumps_loses_nothing(database: str, colour: str, tmp_path: Any, reports: Report) -> None:
    jumps = fork_child(turns_by_a_jumping_clock, database, colour, str(tmp_path), JUMPS).result(ENOUGH)
    kind = make_url(database).get_backend_name()
    reports("clock", f"{kind}, {colour}: {jumps} jumps in {2 * JUMPS} runs, ids sorted, 0 writes lost")
    assert jumps >= 2 * JUMPS


def judge_leases(database: str, folder: str) -> list[str]:
    """A process owns a thread; others, whose clocks are off, try to run it. What they got."""
    warm_up(database, "sync")
    inside, go_on = Gate(), Gate()

    def graph(wait: Any) -> Any:
        nodes = {"a": Cast("sync", Witness(f"{folder}/witness")).node("a", wait)}
        return in_a_row(StateGraph(State), nodes).compile(open_saver(database))

    def own() -> Any:
        def wait(name: str) -> str:
            inside.tell()
            go_on.wait()
            return "a"

        time.time = lambda: real_time() - 365 * DAY
        return graph(wait).invoke(GIVEN, thread("t"))

    def intrude(offset: float) -> str:
        time.time = lambda: real_time() + offset
        try:
            return repr(graph(None).invoke(GIVEN, thread("t")))
        except ConcurrentUpdateError:
            return "refused"

    owner = Fork(own)
    inside.wait()
    outcomes = [Fork(intrude, days * DAY).result() for days in (-365, 0, 365)]
    go_on.tell()
    assert owner.result() == {"log": ["in", "a"]}
    return outcomes


def test_leases_are_judged_by_the_clock_of_the_database(
    database: str, tmp_path: Any, reports: Report
) -> None:
    outcomes = fork_child(judge_leases, database, str(tmp_path)).result(ENOUGH)
    kind = make_url(database).get_backend_name()
    reports(
        "clock", f"{kind}: owner a year behind, others a year off: {outcomes.count('refused')} of 3 refused"
    )
    assert outcomes == ["refused"] * 3
