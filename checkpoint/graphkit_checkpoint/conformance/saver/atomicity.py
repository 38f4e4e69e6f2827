"""A commit is written whole, or not at all."""

from __future__ import annotations

from typing import Any

from graphkit_checkpoint.conformance.capabilities import Capability
from graphkit_checkpoint.conformance.lab import Run, SaverLab, check_gone, loaded, records
from graphkit_checkpoint.conformance.suite import Chapter
from graphkit_checkpoint.conformance.verdicts import equal, refused, same_state, that
from graphkit_checkpoint.errors import (
    ConcurrentUpdateError,
    LeaseLostError,
    StateTooLargeError,
    UnserializableStateError,
)
from graphkit_checkpoint.records import Pending

chapter: Chapter[SaverLab] = Chapter(Capability.ATOMICITY)
limits: Chapter[SaverLab] = Chapter(Capability.LIMITS)
rollback: Chapter[SaverLab] = Chapter(Capability.ROLLBACK)


class Unstorable:
    """Of no registered type."""


def picture(run: Run) -> tuple[Any, ...]:
    """All there is to see of a thread."""
    state, _ = run.saver.find(run.thread_id)
    history = [
        (saved.checkpoint.id, saved.values, records(saved.pending))
        for saved in run.saver.history(run.thread_id)
    ]
    facts = (state.head, state.epoch, state.holder and state.holder.token) if state else None
    return facts, history, run.saver.usage(run.thread_id)


@chapter
def unstorable_value(lab: SaverLab) -> None:
    """A value that cannot be stored is refused, with its channel and place, and nothing is written."""
    run = lab.run()
    run.append("log", 1)
    before = picture(run)
    with refused(UnserializableStateError, "Unstorable"):
        try:
            run.step({"good": 1, "bad": {"in": [0, Unstorable()]}})
        except UnserializableStateError as error:
            equal((error.channel, error.path), ("bad", "['in'][1]"), "channel and place")
            raise
    equal(picture(run), before, "the thread")


@chapter
def unstorable_first_commit(lab: SaverLab) -> None:
    """A first commit that cannot be stored makes no thread."""
    run = lab.run()
    with refused(UnserializableStateError):
        run.step({"bad": Unstorable()})
    check_gone(lab.saver, run.thread_id)


@chapter
def unstorable_record(lab: SaverLab) -> None:
    """A record that cannot be stored is refused, with its name, and nothing is written beside it."""
    run = lab.run()
    run.step()
    before = picture(run)
    with refused(UnserializableStateError):
        try:
            run.record(Pending("good", "output", "", 1), Pending("bad", "answer", "key", Unstorable()))
        except UnserializableStateError as error:
            equal((error.record, error.task_id), (("answer", "key"), "bad"), "record and task")
            raise
    equal(picture(run), before, "the thread")


@chapter
def unstorable_metadata(lab: SaverLab) -> None:
    """Metadata, work and writes from outside that cannot be stored are refused, and nothing is written."""
    run = lab.run()
    run.step()
    before = picture(run)
    bad = Unstorable()
    for fields in ({"metadata": {"m": bad}}, {"work": {"w": bad}}, {"given": [("k", bad)]}):
        with refused(UnserializableStateError):
            run.step({"k": 1}, **fields)
    equal(picture(run), before, "the thread")


@chapter
def unstorable_second_checkpoint(lab: SaverLab) -> None:
    """If one checkpoint of a commit cannot be stored, none is."""
    run = lab.run()
    run.step({"k": 0})
    before = picture(run)
    first = run.point({"k": 1, "log": [1]})
    second = run.point({"bad": Unstorable()}, parent_id=first.id)
    with refused(UnserializableStateError):
        run.write(first, second)
    equal(picture(run), before, "the thread")


@chapter
def after_a_refusal(lab: SaverLab) -> None:
    """A run goes on after a commit that was refused, as if it had not been tried."""
    run = lab.run()
    run.append("log", 1)
    for number in range(3):
        with refused(UnserializableStateError):
            run.step({"log": [*run.values["log"], number], "bad": Unstorable()}, extended={"log": 1})
        run.append("log", f"good {number}")
    run.check_all(lab.other())


@chapter
def refused_claim(lab: SaverLab) -> None:
    """A claim that is refused writes nothing at all: no checkpoint, no value, no record."""
    run = lab.finished()
    run.saver = lab.saver
    loser = lab.run(run.thread_id)
    winner = lab.run(run.thread_id)
    winner.step({"k": "winner"})
    before = picture(winner)
    point = loser.point({"k": "loser", "log": [1, 2, 3]})
    with refused(ConcurrentUpdateError):
        loser.write(point, at=point.id, pending=[Pending("t", "output", "", 1)])
    equal(picture(winner), before, "the thread")


@chapter
def refused_claim_in_a_nested_graph(lab: SaverLab) -> None:
    """A nested graph of a run that has lost its thread writes nothing."""
    run = lab.run()
    run.step()
    inner = run.nested("child")
    inner.step({"k": 1})
    run.abandon()
    successor = lab.run(run.thread_id)
    successor.step()
    before = picture(successor)
    with refused(LeaseLostError):
        inner.step({"k": "stale"})
    equal(picture(successor), before, "the thread")
    same_state(loaded(lab.saver, run.thread_id, None, "child").values, {"k": 1})


@chapter
def lost_commit(lab: SaverLab) -> None:
    """A commit of a run that has lost its thread changes nothing: it neither writes nor forgets."""
    run = lab.run()
    first = run.step({"k": 1})
    run.record(Pending("t", "question", "q", "?"))
    run.abandon()
    successor = lab.run(run.thread_id)
    successor.write()
    before = picture(successor)
    with refused(LeaseLostError):
        run.write(
            run.point({"k": "stale"}),
            at=first,
            pending=[Pending("t", "answer", "q", "!")],
            forget=[("t", "question", "q")],
        )
    equal(picture(successor), before, "the thread")


@chapter
def refused_fold(lab: SaverLab) -> None:
    """A commit that is refused leaves lists as they are, also when it would have put their parts together."""
    run = lab.run()
    for number in range(63):
        run.append("log", number)
    run.abandon()
    successor = lab.run(run.thread_id)
    successor.write()
    for number in range(63, 66):
        with refused(LeaseLostError):
            run.append("log", number)
    run.check_all()
    successor.append("log", "on")
    successor.check_all()


@chapter
def failed_copy(lab: SaverLab) -> None:
    """A copy that is refused leaves both threads as they are."""
    one, other = lab.finished(3), lab.finished(2)
    before = picture(one), picture(other)
    with refused(ValueError, other.thread_id):
        lab.saver.copy_thread(one.thread_id, other.thread_id)
    equal((picture(one), picture(other)), before)


@limits
def too_large(lab: SaverLab) -> None:
    """A value beyond `max_value_bytes` is refused with its channel, and nothing is written."""
    run = lab.run(saver=lab.open(max_value_bytes=10_000))
    run.step({"k": "x" * 9_000})
    before = picture(run)
    with refused(StateTooLargeError, "max_value_bytes"):
        try:
            run.step({"good": 1, "big": "x" * 11_000})
        except StateTooLargeError as error:
            equal(error.channel, "big", "channel")
            raise
    equal(picture(run), before, "the thread")
    run.step({"k": "good"})
    run.check_all()


@limits
def too_large_record(lab: SaverLab) -> None:
    """A record beyond `max_value_bytes` is refused with its name, and nothing is written."""
    run = lab.run(saver=lab.open(max_value_bytes=10_000))
    run.step()
    before = picture(run)
    with refused(StateTooLargeError):
        run.record(Pending("t", "output", "", 1), Pending("u", "output", "", "x" * 11_000))
    equal(picture(run), before, "the thread")


@limits
def large_by_small_steps(lab: SaverLab) -> None:
    """The limit is for what is written at a time: a list may grow beyond it."""
    run = lab.run(saver=lab.open(max_value_bytes=10_000))
    for _ in range(5):
        run.append("log", "x" * 4_000)
    run.check_all()


@rollback
def error_halfway(lab: SaverLab) -> None:
    """A transaction that ends with an error has changed nothing."""
    run = lab.finished()
    before = picture(run)

    class Halfway(Exception):
        pass

    with refused(Halfway), lab.saver.writing() as tables:
        tables.drop_checkpoints(run.thread_id, "", list(run.seen))
        tables.move_head(run.thread_id, "", None)
        tables.put_thread(run.thread_id, "child", "x", 0, None)
        raise Halfway("halfway")
    equal(picture(run), before, "the thread")
    run.check_all(lab.other())


@chapter.needing(Capability.CORRUPTION)
def damaged_copy(lab: SaverLab) -> None:
    """A copy that finds a damaged row is refused and makes no thread."""
    run = lab.begun().release()
    lab.damage(run.thread_id, "value", lambda row: row._replace(body=row.body + b"\0"))
    target = lab.thread_id()
    with refused(RuntimeError, run.thread_id):
        lab.saver.copy_thread(run.thread_id, target)
    check_gone(lab.saver, target)


@rollback
def nothing_in_between(lab: SaverLab) -> None:
    """A transaction that reads sees one moment, whatever is written meanwhile."""
    run = lab.run()
    run.step({"k": 1})
    other = lab.other()
    with other.reading() as tables:
        first = tables.thread(run.thread_id)
        if lab.bench.has(Capability.OBJECTS):
            run.step({"k": 2})
        second = tables.thread(run.thread_id)
        that(
            first and second and first.state.epoch == second.state.epoch,
            "a transaction has seen the thread change",
        )
    run.check_all(other)
