"""Safety 15: whatever is done to threads, in any order, they are as a plain model says.

The model knows a thread as a list of checkpoints and what is open at the last one. A run is a walk along the
nodes, a commit for each; a crash ends the walk after any of its commits.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from graphkit import Command, StateGraph, interrupt
from graphkit.errors import AlreadyAnsweredError, EmptyInputError, NoPendingInterruptError
from graphkit.types import RunnableConfig
from tests.faults import LIFETIME, PROCESSES, die_at, fork_child
from tests.safety.conftest import Report
from tests.safety.figures import SCALE, SEED, size
from tests.safety.forks import Fork
from tests.safety.scenes import COLOURS, State, call, in_a_row, open_saver, thread, warm_up

SEQUENCES = size(50, 1000)
"""On each database."""
STEPS = 25 if SCALE else 10
NAMES = ("t0", "t1", "t2")
NODES = ("first", "ask", "last")
FOLLOWING = {"__start__": "first", "first": "ask", "ask": "last", "last": None}
_numbers = itertools.count()


# The graph


def graph_on(saver: Any, in_node: Callable[[str], Any]) -> Any:
    """Each node logs its name, `ask` the answer. `in_node` is called in each and awaited if it can be."""

    def node(name: str) -> Callable[..., Any]:
        async def run(state: State) -> State:
            answer = interrupt("sure?") if name == "ask" else name
            waiting = in_node(name)
            if waiting is not None:
                await waiting
            return {"log": [answer]}

        return run

    return in_a_row(StateGraph(State), {name: node(name) for name in NODES}).compile(saver)


# The model


@dataclass(frozen=True)
class Point:
    """A checkpoint: the log, and the node that follows. It came after its `parent`."""

    log: tuple[Any, ...]
    next: str | None
    parent: Point | None = field(default=None, compare=False, repr=False)
    is_input: bool = field(default=False, compare=False, repr=False)


@dataclass
class Model:
    """One thread. `asked` and `answers` are recorded beside the last checkpoint; None: no answer yet. If the last run
    broke off, what the same call goes on with is not pruned."""

    points: list[Point] = field(default_factory=list)
    asked: bool = False
    answer: Any = None
    broke_off: bool = False

    @property
    def head(self) -> Point:
        return self.points[-1]

    @property
    def waits(self) -> bool:
        return self.asked and self.answer is None

    def then(self, *points: Point, after: Point | None = None) -> Model:
        """With these too, one after the other: after the head unless another is given."""
        found = list(self.points)
        parent = after or (found[-1] if found else None)
        for point in points:
            parent = replace(point, parent=parent)
            found.append(parent)
        return Model(found)

    def pruned(self, keep: int) -> Model:
        """The last checkpoints stay, and the turn that broke off: what the head came from, back to the input."""
        at = self.head if self.broke_off else None
        turn: list[Point] = []
        while at is not None:
            turn.append(at)
            at = None if at.is_input and self.has(at) else at.parent
        old = [point for point in self.points[:-keep] if any(point is one for one in turn)]
        return replace(self, points=[*old, *self.points[-keep:]])

    def has(self, point: Point) -> bool:
        return any(point is one for one in self.points)

    def walk(self) -> Iterator[Model]:
        """The thread after each commit of a run that goes on from here."""
        now = replace(self, broke_off=False)
        while now.head.next is not None:
            if now.head.next == "ask" and now.answer is None:
                yield replace(now, asked=True)
                return
            word = now.answer if now.head.next == "ask" else now.head.next
            now = now.then(Point((*now.head.log, word), FOLLOWING[now.head.next]))
            yield now

    def given(self, word: str) -> Iterator[Model]:
        """A new turn: the input's own checkpoint and the state with it come in one commit."""
        log = self.head.log if self.points else ()
        start = self.then(Point(log, "__start__", is_input=True), Point((*log, word), "first"))
        yield start
        yield from start.walk()

    def answered(self, answer: Any) -> Iterator[Model]:
        start = replace(self, answer=answer, broke_off=False)
        yield start
        yield from start.walk()

    def forked(self, index: int) -> Iterator[Model]:
        """Going on from an older checkpoint makes a copy of it first."""
        old = self.points[index]
        copied = Point(old.log, old.next)
        if old.next == "__start__":
            # The copy of an input waits for it to be applied like the input itself.
            word = self.points[index + 1].log[-1]
            applied = Point((*old.log, word), "first")
            start = self.then(copied, applied, after=old)
        else:
            start = self.then(copied, after=old)
        yield start
        yield from start.walk()


class Refused(NamedTuple):
    error: type[Exception]


def last(models: Iterator[Model], otherwise: Model) -> Model:
    for model in models:
        otherwise = model
    return otherwise


# What a process does before it crashes


class Nursery:
    """Runs and their deaths, each in a process of its own."""

    def __init__(self, database: str) -> None:
        self.mine, its = PROCESSES.Pipe()
        self.child = fork_child(obey, database, its)

    def die(self, name: str, given: Any, number: int) -> bool:
        """Whether the run died: it may have ended before that point."""
        self.mine.send((name, given, number))
        died: bool = self.mine.recv()
        return died

    def close(self) -> None:
        self.mine.send(None)
        self.child.result()


def obey(database: str, parent: Connection) -> None:
    warm_up(database, "async")
    while (order := parent.recv()) is not None:
        signal.alarm(LIFETIME)
        parent.send(Fork(run_and_die, database, *order).died())


def run_and_die(database: str, name: str, given: Any, number: int) -> None:
    saver = open_saver(database)
    die_at(saver.engine, number, "after")
    asyncio.run(graph_on(saver, lambda node: None).ainvoke(given, thread(name)))


class Threads(RuleBasedStateMachine):
    """Threads of one database and their models. What is only annotated here is set by the test."""

    saver: Any
    nursery: Nursery
    counts: dict[str, int]

    def __init__(self) -> None:
        super().__init__()
        self.prefix = f"{next(_numbers)}"
        self.models: dict[str, Model] = {}
        self.words = itertools.count()
        self.touched: set[str] = set()
        self.graph = graph_on(self.saver, lambda node: None)

    def config(self, name: str) -> RunnableConfig:
        return thread(self.id(name))

    def id(self, name: str) -> str:
        self.touched.add(name)
        return f"{self.prefix}-{name}"

    def word(self) -> str:
        return f"w{next(self.words)}"

    def counted(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def expect(self, name: str, then: Model | Refused, act: Callable[[], Any]) -> None:
        """Do it; the thread is as the model says, or the call is refused and nothing happens."""
        if isinstance(then, Refused):
            with pytest.raises(then.error):
                act()
        else:
            act()
            self.models[name] = then

    # Runs

    @rule(name=st.sampled_from(NAMES), colour=st.sampled_from(COLOURS))
    def give(self, name: str, colour: str) -> None:
        model, word = self.models.get(name, Model()), self.word()
        self.counted("turns")
        then = last(model.given(word), model)
        self.expect(name, then, lambda: call(colour, self.graph, {"log": [word]}, self.config(name)))

    @rule(name=st.sampled_from(NAMES), colour=st.sampled_from(COLOURS))
    def go_on(self, name: str, colour: str) -> None:
        model = self.models.get(name)
        self.counted("calls without input")
        then = Refused(EmptyInputError) if model is None else last(model.walk(), model)
        self.expect(name, then, lambda: call(colour, self.graph, None, self.config(name)))

    @precondition(lambda self: any(model.waits for model in self.models.values()))
    @rule(data=st.data(), answer=st.sampled_from(["yes", "no"]), colour=st.sampled_from(COLOURS))
    def reply(self, data: st.DataObject, answer: str, colour: str) -> None:
        self.resume(data.draw(self.those(lambda model: model.waits)), answer, colour)

    def those(self, condition: Callable[[Model], bool]) -> st.SearchStrategy[str]:
        return st.sampled_from(
            [name for name in NAMES if name in self.models and condition(self.models[name])]
        )

    @rule(name=st.sampled_from(NAMES), answer=st.sampled_from(["yes", "no"]), colour=st.sampled_from(COLOURS))
    def resume(self, name: str, answer: str, colour: str) -> None:
        model = self.models.get(name)
        self.counted("answers")
        then = self.after_answer(model, answer)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".* the resume value was dropped")
            self.expect(
                name, then, lambda: call(colour, self.graph, Command(resume=answer), self.config(name))
            )

    @staticmethod
    def after_answer(model: Model | None, answer: str) -> Model | Refused:
        if model is None or model.head.next is None:
            return Refused(NoPendingInterruptError)
        if not model.asked:  # nobody has seen a question: the run goes on, the answer is dropped
            return last(model.walk(), model)
        if model.answer is None:
            return last(model.answered(answer), model)
        return last(model.walk(), model) if model.answer == answer else Refused(AlreadyAnsweredError)

    @rule(name=st.sampled_from(NAMES))
    def cancel(self, name: str) -> None:
        """Give an input or the answer, and cancel the run inside a node."""
        model, word = self.models.get(name, Model()), self.word()
        at = "last" if model.waits else "first"
        self.counted("cancelled runs")
        given, ways = ({"log": [word]}, model.given(word)) if at == "first" else self.answering(model, "yes")
        asyncio.run(self.cancelled(name, given, at))
        self.models[name] = next(way for way in ways if way.head.next == at)

    @staticmethod
    def answering(model: Model, answer: str) -> tuple[Any, Iterator[Model]]:
        return Command(resume=answer), model.answered(answer)

    async def cancelled(self, name: str, given: Any, at: str) -> None:
        inside = asyncio.Event()

        def stay(node: str) -> Any:
            if node == at:
                inside.set()
                return asyncio.Event().wait()
            return None

        graph = graph_on(self.saver, stay)
        run = asyncio.create_task(graph.ainvoke(given, self.config(name)))
        waiting = asyncio.create_task(inside.wait())
        await asyncio.wait([run, waiting], return_when=asyncio.FIRST_COMPLETED)
        run.cancel()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    @rule(name=st.sampled_from(NAMES), number=st.integers(1, 20), again=st.booleans())
    def crash(self, name: str, number: int, again: bool) -> None:
        """Give an input or the answer in a process that dies at some point of its work with the database; then
        perhaps make the same call again."""
        model, word = self.models.get(name, Model()), self.word()
        given, ways = ({"log": [word]}, model.given(word)) if not model.waits else self.answering(model, "no")
        died = self.nursery.die(self.id(name), given, number)
        self.counted("crashes" if died else "runs in another process")
        possible = [model, *ways]
        if not died:
            possible = possible[-1:]
        found = [way for way in possible if self.is_as(name, way)]
        assert found, (name, possible, self.seen(name))
        now = found[0]
        if now.points:
            broke_off = died and now is not model and now is not possible[-1]
            self.models[name] = replace(now, broke_off=True) if broke_off else now
        if again and died:
            self.counted("calls again after a crash")
            ended = now is possible[-1]
            if ended and isinstance(given, Command):
                # An answer that names no question cannot be known again once all is over.
                with pytest.raises(NoPendingInterruptError):
                    self.graph.invoke(given, self.config(name))
                return
            then = self.after_the_same_call(model, given, now, ended)
            self.expect(name, then, lambda: self.graph.invoke(given, self.config(name)))

    @staticmethod
    def after_the_same_call(before: Model, given: Any, now: Model, ended: bool) -> Model:
        """A run that broke off goes on; one that had written all it had to is over."""
        if now is not before and not ended:
            return last(now.walk(), now)
        if isinstance(given, Command):
            return last(before.answered(given.resume), now)
        return last(now.given(given["log"][0]), now)

    # The past

    @precondition(lambda self: any(len(model.points) > 1 for model in self.models.values()))
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        name = data.draw(self.those(lambda model: len(model.points) > 1))
        model = self.models[name]
        self.counted("forks")
        index = data.draw(st.integers(0, len(model.points) - 2))
        if model.points[index].next == "__start__" and model.points[index + 1].next != "first":
            return  # what was given is not to be seen in the model any more: it was pruned
        config = self.at(name, index)
        self.expect(name, last(model.forked(index), model), lambda: self.graph.invoke(None, config))

    @rule(name=st.sampled_from(NAMES), as_node=st.sampled_from(NODES), data=st.data())
    def edit(self, name: str, as_node: str, data: st.DataObject) -> None:
        model, word = self.models.get(name, Model()), self.word()
        self.counted("edits")
        config, old = self.config(name), Point((), None)
        if model.points:
            index = data.draw(st.integers(0, len(model.points) - 1))
            old = model.points[index]
            config = self.at(name, index)
        then = model.then(Point((*old.log, word), FOLLOWING[as_node]), after=old if model.points else None)
        self.expect(name, then, lambda: self.graph.update_state(config, {"log": [word]}, as_node=as_node))

    def at(self, name: str, index: int) -> RunnableConfig:
        history = list(self.graph.get_state_history(self.config(name)))
        config: RunnableConfig = history[-1 - index].config
        return config

    # Whole threads

    @precondition(lambda self: len(self.models) == len(NAMES))
    @rule(name=st.sampled_from(NAMES))
    def delete(self, name: str) -> None:
        self.counted("deletions")
        self.saver.delete_thread(self.id(name))
        self.models.pop(name, None)

    @rule(name=st.sampled_from(NAMES), other=st.sampled_from(NAMES))
    def copy(self, name: str, other: str) -> None:
        self.counted("copies")
        source, target = self.id(name), self.id(other)
        if other in self.models:
            with pytest.raises(ValueError, match="exists already"):
                self.saver.copy_thread(source, target)
            return
        self.saver.copy_thread(source, target)
        if name in self.models:
            self.models[other] = self.models[name]  # also a run that broke off

    @rule(name=st.sampled_from(NAMES), keep=st.integers(1, 4))
    def prune(self, name: str, keep: int) -> None:
        self.counted("prunings")
        removed = self.saver.prune(self.id(name), keep_last=keep)
        if name in self.models:
            model = self.models[name]
            self.models[name] = pruned = model.pruned(keep)
            assert removed == len(model.points) - len(pruned.points)

    # What is to be seen

    @invariant()
    def what_was_touched_is_as_the_model_says(self) -> None:
        self.check(self.touched)
        self.touched.clear()

    def teardown(self) -> None:
        self.check(NAMES)

    def check(self, names: Iterable[str]) -> None:
        for name in names:
            model = self.models.get(name, Model())
            assert self.is_as(name, model), (name, model, self.seen(name))
        mine = [thread_id for thread_id in self.saver.thread_ids() if thread_id.startswith(f"{self.prefix}-")]
        assert mine == [f"{self.prefix}-{name}" for name in sorted(self.models)]

    def is_as(self, name: str, model: Model) -> bool:
        points, waits = self.seen(name)
        return (points, waits) == (model.points, model.waits)

    def seen(self, name: str) -> tuple[list[Point], bool]:
        config = self.config(name)
        history = list(self.graph.get_state_history(config))
        ids = [snapshot.config["configurable"]["checkpoint_id"] for snapshot in history]
        assert ids == sorted(ids, reverse=True)
        points = [
            Point(tuple(snapshot.values.get("log", ())), snapshot.next[0] if snapshot.next else None)
            for snapshot in reversed(history)
        ]
        return points, bool(self.graph.get_state(config).interrupts)


def test_threads_are_as_the_model_says(database: str, reports: Report) -> None:
    counts: dict[str, int] = {}
    saver, nursery = open_saver(database), Nursery(database)
    machine = type("Machine", (Threads,), {"saver": saver, "nursery": nursery, "counts": counts})
    number = next(_numbers)
    run_state_machine_as_test(
        seed(SEED)(machine) if SCALE else machine,
        settings=settings(
            max_examples=SEQUENCES,
            stateful_step_count=STEPS,
            derandomize=not SCALE,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    sequences = next(_numbers) - number - 1
    saver.close()
    nursery.close()
    reports(
        "15 model",
        f"{'sqlite' if database.startswith('sqlite') else 'postgresql'}: {sequences} sequences, 0 divergences in "
        + ", ".join(f"{count} {what}" for what, count in sorted(counts.items())),
    )
    assert sequences >= SEQUENCES
