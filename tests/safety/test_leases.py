"""Safety 6: a worker that was stopped past its lease and taken over writes nothing; one that is slow keeps its
thread; one that was stopped while it wrote is replaced, or keeps others waiting and nothing is lost."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest
from sqlalchemy import create_engine, event, make_url, select

from graphkit import StateGraph
from graphkit.errors import ConcurrentUpdateError, LeaseLostError, StorageBusyError
from graphkit_checkpoint.statements import TABLES
from tests.faults import PATIENCE, Witness, fork_child
from tests.safety.conftest import Report
from tests.safety.figures import chance, size
from tests.safety.forks import ENOUGH, Fork, Gate
from tests.safety.scenes import (
    COLOURS,
    GIVEN,
    Cast,
    State,
    call,
    effects,
    in_a_row,
    open_saver,
    thread,
    view,
    warm_up,
)
from tests.safety.test_storage_trouble import locked

TRIALS = size(5, 200)
"""For each database."""
ROUNDS = size(1, 20)
"""Of the four ways in which a worker is stopped while it writes, for each database."""
LEASE = 0.3
LONGER_LEASE = 2.0
"""For workers that are expected to keep theirs: a busy machine may keep one from renewing for a while."""

Then = Literal["has ended", "works", "has failed"]
"""What the successor does when the stopped worker goes on."""
Doing = Literal["a commit", "a renewal"]
"""What a worker was stopped in the middle of."""
End = Literal["goes on", "is killed"]
"""What becomes of it when its successor has tried."""
WAYS: list[tuple[Doing, End]] = list(product(["a commit", "a renewal"], ["goes on", "is killed"]))
SHORT = 0.5
"""Seconds to wait for a lock that is not expected to be given back."""


class Trial(NamedTuple):
    """How it went: the error that the stopped worker got, whether anything of the thread changed after it went
    on, and the log in the end."""

    error: str
    changed: bool
    log: list[str]


class Meeting(NamedTuple):
    """What the successor of a worker that was stopped while it wrote came to, how that one ended after it, and the
    log when the successor had called once more."""

    met: str
    ended: str
    log: list[str]


class Episodes:
    """Lives in a nursery."""

    def __init__(self, database: str, folder: str) -> None:
        self.database = database
        self.witness = Witness(Path(folder, "witness"))

    def graph(
        self,
        colour: str,
        me: str,
        inside: Gate,
        go_on: Gate,
        lease: float,
        fails: bool = False,
        timeout: float = 5.0,
    ) -> Any:
        """a, b, c: in b the process says that it is inside, and waits until it may go on."""

        def wait_inside(name: str) -> str:
            inside.tell()
            go_on.wait()
            if fails:
                raise ValueError("b is broken")
            return f"b by {me}"

        cast = Cast(colour, self.witness)
        nodes = {"a": cast.node("a"), "b": cast.node("b", wait_inside), "c": cast.node("c")}
        saver = open_saver(self.database, lease=lease, timeout=timeout)
        return in_a_row(StateGraph(State), nodes).compile(saver)

    def work(self, graph: Any, colour: str, name: str) -> str:
        """Run the thread; the error that it came to, or "done"."""
        try:
            call(colour, graph, GIVEN, thread(name))
        except LeaseLostError:
            return "LeaseLostError"
        return "done"

    def first(self, colour: str, name: str, inside: Gate, go_on: Gate) -> str:
        return self.work(self.graph(colour, "the first", inside, go_on, LEASE), colour, name)

    def take_over(
        self,
        colour: str,
        name: str,
        inside: Gate,
        go_on: Gate,
        fails: bool = False,
        timeout: float = 5.0,
    ) -> None:
        """Go on with the thread as soon as its lease has run out."""
        graph = self.graph(colour, "the second", inside, go_on, 2 * PATIENCE, fails, timeout)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                call(colour, graph, None, thread(name))
            except ConcurrentUpdateError:
                continue
            except ValueError:
                assert fails
            return
        raise TimeoutError("the lease did not run out")

    def look(self, name: str) -> tuple[list[str], Any]:
        """The log, and every row of the thread as it is stored."""
        graph = self.graph("sync", "nobody", Gate(), Gate(), LEASE)
        with create_engine(self.database).connect() as connection:
            rows = [
                sorted(connection.execute(select(table).where(table.c.thread_id == name)).all(), key=repr)
                for table in TABLES
            ]
        return view(graph, thread(name)).values["log"], rows

    def stopped(self, name: str, colours: tuple[str, str], then: Then) -> Trial:
        inside, go_on = Gate(), Gate()
        first = Fork(self.first, colours[0], name, inside, go_on)
        inside.wait(teller=first)
        with locked(self.database):  # a worker that is stopped while it renews its lease is another test's
            first.stop()
        arrived, finish = Gate(), Gate()
        second = Fork(self.take_over, colours[1], name, arrived, finish, then == "has failed")
        arrived.wait(teller=second)
        if then != "works":
            finish.tell()
            second.result()
        _, before = Fork(self.look, name).result()
        first.send(signal.SIGCONT)
        go_on.tell()
        error: str = first.result()
        log, after = Fork(self.look, name).result()
        if then == "works":
            finish.tell()
            second.result()
            log, _ = Fork(self.look, name).result()
        for gate in (inside, go_on, arrived, finish):
            gate.close()
        return Trial(error, before != after, log)

    def play(self, trials: int, batch: int) -> list[tuple[Then, Trial]]:
        dice = chance("leases", make_url(self.database).get_backend_name(), batch)
        found: list[tuple[Then, Trial]] = []
        ways: tuple[Then, ...] = ("has ended", "works", "has failed")
        for number in range(trials):
            then = ways[number % len(ways)]
            colours = (dice.choice(COLOURS), dice.choice(COLOURS))
            found.append((then, self.stopped(f"{batch}-{number}", colours, then)))
        return found

    # Stopped while it writes

    def stop_while(self, doing: Doing, colour: str, name: str, inside: Gate, go_on: Gate) -> str:
        """`first`, which stops itself in the middle of a renewal while it is in b, or of the commit after it."""
        graph = self.graph(colour, "the first", inside, go_on, LEASE)
        statements = graph.checkpointer.statements
        stopped: list[str] = []

        def stop(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
            renews, in_b = statement == statements.renew, self.witness.count(f"{name} b") > 0
            if in_b and renews == (doing == "a renewal") and not stopped:
                stopped.append(statement)
                signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)

        event.listen(graph.checkpointer.engine, "after_cursor_execute", stop)
        return self.work(graph, colour, name)

    def go_on_once(self, colour: str, name: str, inside: Gate, go_on: Gate) -> str:
        try:
            self.take_over(colour, name, inside, go_on, timeout=SHORT)
        except StorageBusyError:
            return "StorageBusyError"
        return "done"

    def stopped_while(self, doing: Doing, name: str, colours: tuple[str, str], then: End) -> Meeting:
        inside, go_on, arrived, finish = gates = Gate(), Gate(), Gate(), Gate()
        if doing == "a commit":
            go_on.tell()
        first = Fork(self.stop_while, doing, colours[0], name, inside, go_on)
        first.wait_until_stopped()
        finish.tell()
        met: str = Fork(self.go_on_once, colours[1], name, arrived, finish).result()
        if then == "is killed":
            first.kill()
            ended = "killed" if first.died() else "done"
        else:
            first.send(signal.SIGCONT)
            go_on.tell()
            ended = first.result()
        finish.tell()
        Fork(self.take_over, colours[1], name, arrived, finish).result()
        log, _ = Fork(self.look, name).result()
        for gate in gates:
            gate.close()
        return Meeting(met, ended, log)

    def play_meetings(self, rounds: int) -> list[tuple[Doing, End, Meeting]]:
        dice = chance("meetings", make_url(self.database).get_backend_name())
        found: list[tuple[Doing, End, Meeting]] = []
        for number in range(rounds):
            for doing, then in WAYS:
                colours = (dice.choice(COLOURS), dice.choice(COLOURS))
                name = f"{doing}, {then}, {number}"
                found.append((doing, then, self.stopped_while(doing, name, colours, then)))
        return found

    # Slow, not stopped

    def slow(self, colour: str, name: str, inside: Gate, go_on: Gate) -> str:
        return self.work(self.graph(colour, "the first", inside, go_on, LONGER_LEASE), colour, name)

    def intrude(self, name: str) -> int:
        """Try to run the thread for three times its lease; how often that was refused."""
        graph = self.graph("sync", "the intruder", Gate(), Gate(), LONGER_LEASE)
        end, refused = time.monotonic() + 3 * LONGER_LEASE, 0
        while time.monotonic() < end:
            with pytest.raises(ConcurrentUpdateError):
                graph.invoke(None, thread(name))
            refused += 1
        return refused

    def play_slowly(self) -> int:
        """A worker of each colour at once; how often their intruders were refused."""
        gates = {colour: (Gate(), Gate()) for colour in COLOURS}
        workers = [Fork(self.slow, colour, colour, *gates[colour]) for colour in COLOURS]
        for inside, _ in gates.values():
            inside.wait()
        refused: list[int] = [fork.result() for fork in [Fork(self.intrude, colour) for colour in COLOURS]]
        for _, go_on in gates.values():
            go_on.tell()
        assert [worker.result() for worker in workers] == ["done", "done"]
        for colour in COLOURS:
            assert Fork(self.look, colour).result()[0] == ["in", "a", "b by the first", "c"]
            assert effects(self.witness)[colour] == Counter("abc")
        assert min(refused) > 0
        return sum(refused)


def play(database: str, folder: str, trials: int, batch: int) -> list[tuple[Then, Trial]]:
    warm_up(database, "sync")
    return Episodes(database, folder).play(trials, batch)


def play_meetings(database: str, folder: str, rounds: int) -> list[tuple[Doing, End, Meeting]]:
    warm_up(database, "sync")
    return Episodes(database, folder).play_meetings(rounds)


def play_slowly(database: str, folder: str) -> int:
    warm_up(database, "async")
    return Episodes(database, folder).play_slowly()


BATCH = 25
"""Trials in one nursery at most: no process lives for ever."""
LOGS: dict[Then, list[str]] = {
    "has ended": ["in", "a", "b by the second", "c"],
    "works": ["in", "a", "b by the second", "c"],
    "has failed": ["in", "a"],
}


def test_a_worker_that_was_stopped_past_its_lease_and_replaced_writes_nothing(
    database: str, tmp_path: Path, reports: Report
) -> None:
    trials: list[tuple[Then, Trial]] = []
    for batch in range(0, TRIALS, BATCH):
        child = fork_child(play, database, str(tmp_path), min(BATCH, TRIALS - batch), batch)
        trials += child.result(ENOUGH)
    changed = sum(trial.changed for _, trial in trials)
    errors = Counter(trial.error for _, trial in trials)
    reports(
        "6 SIGSTOP",
        f"{make_url(database).get_backend_name()}: {len(trials)} workers stopped past their lease and replaced, "
        f"{changed} stale writes, errors {dict(errors)}",
    )
    assert (changed, errors) == (0, Counter({"LeaseLostError": TRIALS}))
    assert all(trial.log == LOGS[then] for then, trial in trials)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_worker_that_was_stopped_while_it_wrote_keeps_the_lock_of_the_file(
    database: str, tmp_path: Path, reports: Report
) -> None:
    """SQLite locks a file for a process, whatever that does: the others are refused, and go on after it."""
    meetings = fork_child(play_meetings, database, str(tmp_path), ROUNDS).result(ENOUGH)
    report_meetings(database, meetings, reports)
    for _, then, meeting in meetings:
        ended, by = ("done", "the first") if then == "goes on" else ("killed", "the second")
        assert meeting == Meeting("StorageBusyError", ended, ["in", "a", f"b by {by}", "c"])


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_a_worker_that_was_stopped_while_it_wrote_is_replaced(
    database: str, tmp_path: Path, reports: Report
) -> None:
    """What the server has been told to write alone, it writes and keeps no row for it."""
    meetings = fork_child(play_meetings, database, str(tmp_path), ROUNDS).result(ENOUGH)
    report_meetings(database, meetings, reports)
    for doing, then, meeting in meetings:
        ended = "LeaseLostError" if then == "goes on" else "killed"
        by = "the first" if doing == "a commit" else "the second"
        assert meeting == Meeting("done", ended, ["in", "a", f"b by {by}", "c"])


def report_meetings(database: str, meetings: list[tuple[Doing, End, Meeting]], reports: Report) -> None:
    met = Counter(meeting.met for *_, meeting in meetings)
    ended = Counter(meeting.ended for *_, meeting in meetings)
    reports(
        "6 writing",
        f"{make_url(database).get_backend_name()}: {len(meetings)} workers stopped while they wrote, their "
        f"successors {dict(met)}, they {dict(ended)}",
    )


def test_a_worker_that_is_slow_keeps_its_thread(database: str, tmp_path: Path, reports: Report) -> None:
    refused = fork_child(play_slowly, database, str(tmp_path)).result(ENOUGH)
    reports(
        "6 slow",
        f"{make_url(database).get_backend_name()}: 2 workers in a node for 3 leases, {refused} of {refused} "
        f"attempts to replace them refused",
    )
