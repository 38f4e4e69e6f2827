"""Safety: a process dies while a workflow's tasks run; another one goes on without repeating what has finished."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from graphkit import Command, entrypoint, interrupt, task
from graphkit.engine import recording
from graphkit.types import RunnableConfig
from tests.faults import PATIENCE, When, Witness, die_at, fork_child, points
from tests.safety.forks import ENOUGH, Fork, rehearse
from tests.safety.scenes import open_saver, thread

GIVEN = ["a", "b", "c"]
NOBODY: RunnableConfig = {}


def workflow(colour: str, database: str, witness: Witness) -> Any:
    """Three tasks side by side, one that calls another, a question, and one more."""

    def note(name: str, config: RunnableConfig) -> str:
        witness.note(f"{config['configurable']['thread_id']} {name}")
        return name

    if colour == "sync":

        @task
        def work(name: str, config: RunnableConfig = NOBODY) -> str:
            return note(name, config)

        @task
        def outer(name: str) -> str:
            return f"{work(name).result()}!"

        @entrypoint(checkpointer=open_saver(database))
        def flow(names: list[str]) -> Any:
            done = [future.result() for future in [work(name) for name in names]]
            done.append(outer("d").result())
            done.append(interrupt("go on?"))
            return [*done, work("e").result()]

        return flow

    @task
    async def awork(name: str, config: RunnableConfig = NOBODY) -> str:
        return note(name, config)

    @task
    async def aouter(name: str) -> str:
        return f"{await awork(name)}!"

    @entrypoint(checkpointer=open_saver(database))
    async def aflow(names: list[str]) -> Any:
        done = await asyncio.gather(*map(awork, names))
        done.append(await aouter("d"))
        done.append(interrupt("go on?"))
        return [*done, await awork("e")]

    return aflow


def call(colour: str, flow: Any, given: Any, config: RunnableConfig) -> Any:
    return flow.invoke(given, config) if colour == "sync" else asyncio.run(flow.ainvoke(given, config))


def finish(colour: str, flow: Any, config: RunnableConfig) -> Any:
    """Bring a thread to its end, wherever it stands."""
    state = flow.get_state(config)
    if state.metadata is None:
        result = call(colour, flow, GIVEN, config)
    elif state.next and not state.interrupts:
        result = call(colour, flow, None, config)
    else:
        result = {"__interrupt__": list(state.interrupts)} if state.interrupts else state.values
    if isinstance(result, dict) and result.get("__interrupt__"):
        result = call(colour, flow, Command(resume="yes"), config)
    return result


def run_whole(colour: str, database: str, path: str, name: str) -> list[str]:
    recording.BATCH_DELAY = 0.0
    flow = workflow(colour, database, Witness(path))
    return points(flow.checkpointer.engine, lambda: finish(colour, flow, thread(name)))


def die(colour: str, database: str, path: str, name: str, number: int, when: When) -> None:
    recording.BATCH_DELAY = 0.0
    flow = workflow(colour, database, Witness(path))
    die_at(flow.checkpointer.engine, number, when)
    finish(colour, flow, thread(name))


def go_on(colour: str, database: str, path: str, names: list[str]) -> list[tuple[Any, dict[str, int]]]:
    flow = workflow(colour, database, Witness(path))
    results = []
    for name in names:
        recorded = {
            record.value["writes"][0][1]
            for saved in [flow.checkpointer.load(name)]
            if saved is not None
            for record in saved.pending
            if record.kind == "output"
        }
        before = Witness(path).lines()
        result = finish(colour, flow, thread(name))
        after = Witness(path).lines()[len(before) :]
        again = {each: after.count(f"{name} {each}") for each in recorded}
        results.append((result, again))
    return results


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'crash.sqlite'}"
    url: str = request.getfixturevalue("postgres_url")
    return url


def play(colour: str, database: str, path: str) -> tuple[list[str], bool, list[tuple[Any, dict[str, int]]]]:
    """Die at every other point and go on: the threads, whether any run died, and what `go_on` found."""
    rehearse(run_whole, colour, database, os.devnull, "warm")
    count = len(Fork(run_whole, colour, database, path, "whole").result())
    assert count > 6
    episodes: dict[str, tuple[int, When]] = {
        f"{number} {when}": (number, when)
        for number in range(1, count + 1, 2)
        for when in ("before", "after")
    }
    died = [Fork(die, colour, database, path, name, *point).died() for name, point in episodes.items()]
    return list(episodes), any(died), Fork(go_on, colour, database, path, list(episodes)).result()


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_recorded_results_are_not_computed_again_after_a_crash(
    colour: str, database: str, tmp_path: Path
) -> None:
    path = str(tmp_path / "witness")
    names, died, results = fork_child(play, colour, database, path).result(ENOUGH)
    assert died
    assert [result for result, _ in results] == [["a", "b", "c", "d!", "yes", "e"]] * len(names)
    assert all(count == 0 for _, again in results for count in again.values())
    assert any(again for _, again in results), "some deaths leave results to be found"
    for name in names:
        # Dying within the moment between a task's end and its record costs that one attempt, never more.
        assert all(Witness(path).count(f"{name} {each}") in (1, 2) for each in "abcde")


def die_in_the_second(database: str, path: str) -> None:
    """The second task dies with its process once the first one's result is in the database."""
    witness = Witness(path)
    saver = open_saver(database)

    @task
    def first() -> str:
        witness.note("first")
        return "one"

    @task
    def second() -> str:
        witness.note("second")
        until = time.monotonic() + PATIENCE
        while witness.count("second") == 1 and time.monotonic() < until:
            saved = open_saver(database).load("t")
            if saved is not None and any(record.kind == "output" for record in saved.pending):
                os.kill(os.getpid(), signal.SIGKILL)
        return "two"

    @entrypoint(checkpointer=saver)
    def flow(given: Any) -> Any:
        return [future.result() for future in (first(), second())]

    witness.note(repr(flow.invoke(1, thread("t"))))


def test_a_result_is_recorded_while_others_still_run(database: str, tmp_path: Path) -> None:
    path = str(tmp_path / "witness")
    assert fork_child(die_in_the_second, database, path).wait() == -signal.SIGKILL
    assert fork_child(die_in_the_second, database, path).wait() == 0, "the same call again goes on"
    assert sorted(Witness(path).lines()) == ["['one', 'two']", "first", "second", "second"]
