"""One writer per thread (N4, safety 4 and 5), and what a process that dies leaves behind (L21): real processes.

Processes start together from a barrier. Where an overlap is wanted the winner stays inside its node until
all others have been refused, so that nothing depends on timing.
"""

import importlib
import multiprocessing
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from graphkit.errors import AlreadyAnsweredError, ConcurrentUpdateError
from graphkit.types import Command
from tests.safety.figures import Record, report, size

# Child processes import the module by this name; they inherit the path.
sys.path.insert(0, str(Path(__file__).parent / "workers"))
users = importlib.import_module("thread_users")

# Fresh processes, none of them a copy of this one; the imports are made once for all of them.
FRESH = multiprocessing.get_context("forkserver")
FRESH.set_forkserver_preload(["__main__", "thread_users"])
PARTIES = 8
TRIALS = size(10, 200)
REFUSED = ConcurrentUpdateError.__name__

Calls = list[tuple[str, Any]]
"""What one process does: thread and input of each call."""
Outcomes = list[list[Any]]
"""Per process, per trial: the log that the call returned, or the name of the error that it raised."""


class Crowd:
    """Processes that make the same calls at the same moments."""

    def __init__(self) -> None:
        self.start, self.together = FRESH.Barrier(PARTIES), FRESH.Barrier(PARTIES)
        meet = (self.start, self.together)
        self.pool = ProcessPoolExecutor(PARTIES, FRESH, initializer=users.meet_at, initargs=meet)

    def make(self, scene: "Scene", call: Callable[[int], Calls], colour: str, overlap: bool) -> Outcomes:
        """`call(index)` gives a process its list of calls."""
        path, witness = scene.path, scene.witness
        running = [
            self.pool.submit(users.take_part, f"p{index}", path, witness, call(index), colour, overlap)
            for index in range(PARTIES)
        ]
        try:
            return [future.result() for future in running]
        finally:
            for barrier in (self.start, self.together):
                if barrier.broken:
                    barrier.reset()


@pytest.fixture(scope="module")
def crowd() -> Iterator[Crowd]:
    crowd = Crowd()
    yield crowd
    crowd.pool.shutdown()


class Scene:
    """A database, a witness file, and this process's own view of the threads."""

    def __init__(self, database: str, path: str, folder: Path) -> None:
        self.database = database
        self.path, self.witness = path, str(folder / "witness")
        self.party = users.Party("parent", self.path, self.witness, overlap=False)

    def witnessed(self) -> Counter[str]:
        file = Path(self.witness)
        return Counter(file.read_text().splitlines() if file.exists() else [])

    def log(self, name: str) -> list[str]:
        log: list[str] = self.party.graph.get_state(users.thread(name)).values["log"]
        return log

    def ask(self, name: str) -> str:
        """Bring a thread to its question; the question's id."""
        result = self.party.graph.invoke({"log": ["ask"]}, users.thread(name))
        (question,) = result["__interrupt__"]
        identity: str = question.id
        return identity

    def is_one_line(self, name: str) -> bool:
        """Whether every checkpoint of the thread is an ancestor of its newest one."""
        history = list(self.party.graph.get_state_history(users.thread(name)))
        parents = [snapshot.parent_config for snapshot in history]
        return parents == [*(snapshot.config for snapshot in history[1:]), None]


@pytest.fixture(params=["sqlite", "postgres"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    is_file = request.param == "sqlite"
    path = str(tmp_path / "threads.sqlite") if is_file else request.getfixturevalue("postgres_url")
    scene = Scene(request.param, path, tmp_path)
    yield scene
    scene.party.saver.close()


def winners(outcomes: Outcomes, trial: int) -> list[str]:
    return [f"p{index}" for index, of_one in enumerate(outcomes) if isinstance(of_one[trial], list)]


def errors(outcomes: Outcomes) -> set[str]:
    return {outcome for of_one in outcomes for outcome in of_one if isinstance(outcome, str)}


def told(record: Record, row: str, scene: Scene, colour: str, outcomes: Outcomes) -> None:
    """Hand back the figures of a crowd."""
    counts = Counter(
        outcome if isinstance(outcome, str) else "returned" for one in outcomes for outcome in one
    )
    effects = scene.witnessed().total()
    text = (
        f"{scene.database}, {colour}: {PARTIES} processes, {TRIALS} trials: {dict(counts)}, {effects} effects"
    )
    report(record, row, text)


COLOURS = pytest.mark.parametrize("colour", ["sync", "async"])


@COLOURS
def test_of_processes_that_answer_one_question_at_once_one_wins(
    crowd: Crowd, scene: Scene, colour: str, record_property: Record
) -> None:
    names = [f"t{trial}" for trial in range(TRIALS)]
    calls: Calls = [(name, Command(resume={scene.ask(name): "yes"})) for name in names]
    outcomes = crowd.make(scene, lambda index: calls, colour, True)
    told(record_property, "5 one question, at once", scene, colour, outcomes)
    for trial, name in enumerate(names):
        (winner,) = winners(outcomes, trial)
        assert scene.log(name) == ["ask", f"out {winner}"]
        assert scene.witnessed()[f"{name} {winner}"] == 1
    assert scene.witnessed().total() == TRIALS
    assert errors(outcomes) == {REFUSED}


@COLOURS
def test_processes_that_answer_one_question_in_any_order_have_one_effect(
    crowd: Crowd, scene: Scene, colour: str, record_property: Record
) -> None:
    names = [f"t{trial}" for trial in range(TRIALS)]
    calls: Calls = [(name, Command(resume={scene.ask(name): "yes"})) for name in names]
    outcomes = crowd.make(scene, lambda index: calls, colour, False)
    told(record_property, "5 one question, in any order", scene, colour, outcomes)
    for trial, name in enumerate(names):
        log = scene.log(name)
        assert len(winners(outcomes, trial)) >= 1
        assert all(of_one[trial] in (log, REFUSED) for of_one in outcomes)
        assert sum(count for line, count in scene.witnessed().items() if line.startswith(f"{name} ")) == 1
        assert len(log) == 2
        assert scene.is_one_line(name)


def test_processes_that_give_different_answers_have_one_effect(
    crowd: Crowd, scene: Scene, record_property: Record
) -> None:
    names = [f"t{trial}" for trial in range(TRIALS)]
    questions = {name: scene.ask(name) for name in names}

    def answers(index: int) -> Calls:
        return [(name, Command(resume={questions[name]: f"answer of p{index}"})) for name in names]

    outcomes = crowd.make(scene, answers, "sync", False)
    told(record_property, "5 one question, different answers", scene, "sync", outcomes)
    for trial, name in enumerate(names):
        (winner,) = winners(outcomes, trial)
        assert scene.log(name) == ["ask", f"out {winner}"]
    assert scene.witnessed().total() == TRIALS
    assert errors(outcomes) <= {REFUSED, AlreadyAnsweredError.__name__}


@COLOURS
def test_of_processes_that_invoke_one_thread_at_once_one_wins_and_no_other_runs_a_node(
    crowd: Crowd, scene: Scene, colour: str, record_property: Record
) -> None:
    names = [f"t{trial}" for trial in range(TRIALS)]

    def calls(index: int) -> Calls:
        return [(name, {"log": [f"in p{index}"]}) for name in names]

    outcomes = crowd.make(scene, calls, colour, True)
    told(record_property, "4 one thread, at once", scene, colour, outcomes)
    expected = Counter[str]()
    for trial, name in enumerate(names):
        (winner,) = winners(outcomes, trial)
        assert scene.log(name) == [f"in {winner}", f"out {winner}"]
        expected[f"{name} {winner}"] += 1
    assert scene.witnessed() == expected
    assert errors(outcomes) == {REFUSED}


@COLOURS
def test_every_success_of_processes_that_invoke_one_thread_is_in_its_final_state(
    crowd: Crowd, scene: Scene, colour: str, record_property: Record
) -> None:
    def calls(index: int) -> Calls:
        return [("shared", {"log": [f"in p{index}"]})] * TRIALS

    outcomes = crowd.make(scene, calls, colour, False)
    told(record_property, "4 one thread, in any order", scene, colour, outcomes)
    log = scene.log("shared")
    turns = list(zip(log[::2], log[1::2], strict=True))
    assert all(given.split()[1] == done.split()[1] for given, done in turns)
    successes = Counter(winner for trial in range(TRIALS) for winner in winners(outcomes, trial))
    assert Counter(done.split()[1] for _, done in turns) == successes
    assert scene.witnessed() == Counter({f"shared {who}": count for who, count in successes.items()})
    assert scene.is_one_line("shared")
    assert errors(outcomes) <= {REFUSED}
    assert successes.total() >= TRIALS


# A process that dies


class Child:
    """A process inside of a node."""

    def __init__(self, scene: Scene, shape: str, gate_at: str, colour: str, durability: str) -> None:
        mine, its = FRESH.Pipe()
        arguments = (shape, scene.path, scene.witness, gate_at, its, colour, durability)
        self.process = FRESH.Process(target=users.run_until_killed, args=arguments)
        self.process.start()
        its.close()
        self.connection = mine
        assert mine.poll(users.PATIENCE), "the child did not reach its node"
        assert mine.recv() == "inside"

    def end(self, how: signal.Signals) -> None:
        assert self.process.pid is not None
        # More than once: Python does not see a signal that comes in the instant before a blocking system call
        # until that call returns, and here it never would.
        for _ in range(users.PATIENCE):
            os.kill(self.process.pid, how)
            self.process.join(1)
            if self.process.exitcode is not None:
                break
        survived = self.process.exitcode is None
        self.process.kill()
        self.process.join()
        self.connection.close()
        assert not survived, f"the child survived {how.name}"


@pytest.fixture
def successor(scene: Scene) -> Iterator[Callable[[str], Any]]:
    """The graph of a shape in this process, which takes over."""
    savers: list[Any] = []

    def graph_of(shape: str) -> Any:
        graph, saver = users.GRAPHS[shape](scene.path, scene.witness, "", lambda: None)
        savers.append(saver)
        return graph

    yield graph_of
    for saver in savers:
        saver.close()


Successor = Callable[[str], Any]


@pytest.mark.parametrize(("colour", "gate_at"), [("sync", "a"), ("async", "b"), ("sync", "c")])
def test_a_thread_goes_on_at_once_after_its_process_was_killed(
    scene: Scene, successor: Successor, colour: str, gate_at: str
) -> None:
    Child(scene, "line", gate_at, colour, "sync").end(signal.SIGKILL)
    graph, config = successor("line"), users.thread("t")
    done = "abc"[: "abc".index(gate_at)]
    state = graph.get_state(config)
    assert (state.values, state.next) == ({"log": ["in", *done]}, (gate_at,))
    assert users.call(colour, graph, None, config) == {"log": ["in", "a", "b", "c"]}
    assert scene.witnessed() == Counter("abc") + Counter(gate_at)


@COLOURS
def test_a_task_recorded_before_the_kill_does_not_run_again(
    scene: Scene, successor: Successor, colour: str
) -> None:
    Child(scene, "beside", "slow", colour, "sync").end(signal.SIGKILL)
    graph, config = successor("beside"), users.thread("t")
    assert graph.get_state(config).next == ("slow",)
    assert users.call(colour, graph, None, config) == {"log": ["in", "quick", "slow"]}
    assert scene.witnessed() == Counter({"quick": 1, "slow": 2})


def test_new_input_on_a_thread_whose_process_was_killed_is_a_new_turn(
    scene: Scene, successor: Successor
) -> None:
    Child(scene, "line", "b", "sync", "sync").end(signal.SIGKILL)
    result = successor("line").invoke({"log": ["again"]}, users.thread("t"))
    assert result == {"log": ["in", "a", "again", "a", "b", "c"]}


def test_an_update_on_a_thread_whose_process_lives_is_refused_and_on_a_dead_one_is_not(
    scene: Scene, successor: Successor
) -> None:
    child = Child(scene, "line", "b", "sync", "sync")
    graph, config = successor("line"), users.thread("t")
    calls: list[Callable[[], Any]] = [
        lambda: graph.update_state(config, {"log": ["u"]}, as_node="a"),
        lambda: graph.invoke(None, config),
        lambda: graph.invoke({"log": ["x"]}, config),
    ]
    for refused in calls:
        with pytest.raises(ConcurrentUpdateError, match="'t'"):
            refused()
    assert graph.get_state(config).values == {"log": ["in", "a"]}
    child.end(signal.SIGKILL)
    graph.update_state(config, {"log": ["u"]}, as_node="b")
    assert graph.invoke(None, config) == {"log": ["in", "a", "u", "c"]}
    assert scene.witnessed() == Counter("abc")


@pytest.mark.parametrize(
    ("how", "durability", "colour"),
    [
        (signal.SIGTERM, "sync", "sync"),
        (signal.SIGTERM, "async", "sync"),
        (signal.SIGTERM, "exit", "sync"),
        (signal.SIGTERM, "exit", "async"),
        (signal.SIGINT, "sync", "sync"),
        (signal.SIGINT, "exit", "sync"),
    ],
    ids=str,
)
def test_a_process_that_is_asked_to_end_loses_no_finished_superstep(
    scene: Scene, successor: Successor, how: signal.Signals, durability: str, colour: str
) -> None:
    """With "async" the last one may be on its way still."""
    Child(scene, "line", "c", colour, durability).end(how)
    graph, config = successor("line"), users.thread("t")
    finished = graph.get_state(config).values.get("log")
    assert finished == ["in", "a", "b"] or (durability, finished) == ("async", ["in", "a"])
    assert graph.invoke(None, config) == {"log": ["in", "a", "b", "c"]}
    assert scene.witnessed() == Counter("abcc") + Counter("b" * (3 - len(finished)))
