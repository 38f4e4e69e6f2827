"""Several processes on one storage."""

from __future__ import annotations

from typing import Any

from graphkit_checkpoint.base import BaseCheckpointSaver
from graphkit_checkpoint.conformance.capabilities import Capability
from graphkit_checkpoint.conformance.crew import PATIENCE, SIZE
from graphkit_checkpoint.conformance.lab import SaverLab, loaded
from graphkit_checkpoint.conformance.samples import VALUES
from graphkit_checkpoint.conformance.suite import Chapter
from graphkit_checkpoint.conformance.verdicts import equal, refused, same_state, that
from graphkit_checkpoint.errors import ConcurrentUpdateError, LeaseLostError
from graphkit_checkpoint.ownership import forget_token, new_token
from graphkit_checkpoint.records import Checkpoint, Commit, Tip

chapter: Chapter[SaverLab] = Chapter(Capability.PROCESSES)

RACES = 20


# What other processes do


def claim_and_keep(saver: BaseCheckpointSaver, barrier: Any, thread_id: str, value: Any) -> str:
    """Claim a thread, write a value, and keep it; returns the token."""
    token = new_token()
    _write(saver, thread_id, token, value, release=False)
    return token


def write_and_release(saver: BaseCheckpointSaver, barrier: Any, thread_id: str, value: Any) -> None:
    _write(saver, thread_id, new_token(), value, release=True)


def read(saver: BaseCheckpointSaver, barrier: Any, thread_id: str) -> Any:
    return loaded(saver, thread_id).values["k"]


def race(saver: BaseCheckpointSaver, barrier: Any, number: int, thread_ids: list[str]) -> list[bool]:
    """Claim one thread after the other, each together with the other processes; which were won."""
    won = []
    for thread_id in thread_ids:
        thread, _ = saver.find(thread_id)
        commit = _commit(thread_id, new_token(), number, claims=True, acquire=thread)
        barrier.wait(PATIENCE)
        try:
            saver.commit(commit)
            won.append(True)
        except ConcurrentUpdateError:
            won.append(False)
        barrier.wait(PATIENCE)
        forget_token(commit.token)
    return won


def add(saver: BaseCheckpointSaver, barrier: Any, number: int, thread_id: str, times: int) -> None:
    """Add to a list so many times, trying until it may."""
    barrier.wait(PATIENCE)
    added = 0
    while added < times:
        token = new_token()
        try:
            opening = saver.open(thread_id)
            if opening.saved is None:
                raise LookupError(thread_id)
            tip, values, head = opening.saved.tip, opening.saved.values, opening.saved.checkpoint
            items = [*values.get("added", []), (number, added)]
            point = _point(f"{int(head.id) + 1:08}", items, head.id, head.step + 1, channel="added")
            point.extended = {"added": 1}
            saver.commit(
                Commit(thread_id, "", token, tip, True, opening.thread, release=True, checkpoints=(point,))
            )
            added += 1
        except ConcurrentUpdateError:
            pass
        finally:
            forget_token(token)


def grow(saver: BaseCheckpointSaver, barrier: Any, number: int, prefix: str) -> str:
    """A thread of this process's own, of twenty supersteps."""
    thread_id, token, tip = f"{prefix}-{number}", new_token(), Tip()
    barrier.wait(PATIENCE)
    for step in range(20):
        parent = f"{step - 1:08}" if step else None
        point = _point(f"{step:08}", list(range(step + 1)), parent, step)
        point.extended = {"k": 1}
        saver.commit(Commit(thread_id, "", token, tip, step == 0, checkpoints=(point,), release=step == 19))
    return thread_id


def _point(
    checkpoint_id: str, value: Any, parent: str | None = None, step: int = 0, channel: str = "k"
) -> Checkpoint:
    return Checkpoint(checkpoint_id, parent, step, "loop", 1.0, changed={channel: value})


def _commit(thread_id: str, token: str, value: Any, **fields: Any) -> Commit:
    # Ids differ by token, so that no two commits are told apart by them alone.
    point = _point(f"9-{token}", value)
    return Commit(thread_id, "", token, Tip(), checkpoints=(point,), **fields)


def _write(saver: BaseCheckpointSaver, thread_id: str, token: str, value: Any, release: bool) -> None:
    thread = saver.open(thread_id).thread
    saver.commit(_commit(thread_id, token, value, claims=True, acquire=thread, release=release))


# What is checked


@chapter
def seen_elsewhere(lab: SaverLab) -> None:
    """What one process has written, another one reads, exactly."""
    worker = lab.crew.workers[0]
    values = [value for name, values in VALUES.items() if "dataclass" not in name for value in values]
    thread_id = lab.thread_id()
    run = lab.run(thread_id)
    run.step({"k": values})
    run.release()
    equal(worker.call(read, thread_id), values, "read by another process")
    worker.call(write_and_release, thread_id, [*values, "more"])
    equal(loaded(lab.saver, thread_id).values["k"], [*values, "more"], "written by another process")


@chapter
def races(lab: SaverLab) -> None:
    """Of processes that claim one thread at the same moment exactly one wins, every time."""
    threads = [lab.finished(1).thread_id for _ in range(RACES)]
    _one_winner_each(lab, threads)


@chapter
def races_for_new_threads(lab: SaverLab) -> None:
    """Of processes that make the same thread at the same moment exactly one does, every time."""
    _one_winner_each(lab, [lab.thread_id() for _ in range(RACES)])


def _one_winner_each(lab: SaverLab, threads: list[str]) -> None:
    won = lab.crew.together(race, threads)
    for index, thread_id in enumerate(threads):
        winners = [number for number in range(SIZE) if won[number][index]]
        equal(len(winners), 1, f"winners of race {index}")
        equal(loaded(lab.saver, thread_id).values["k"], winners[0], "what was written")


@chapter
def no_update_is_lost(lab: SaverLab) -> None:
    """Processes that add to one thread, each trying until it may, lose nothing."""
    thread_id = lab.finished(1).thread_id
    lab.crew.together(add, thread_id, 10)
    added = loaded(lab.saver, thread_id).values["added"]
    equal(sorted(added), [(number, n) for number in range(SIZE) for n in range(10)])


@chapter
def different_threads(lab: SaverLab) -> None:
    """Processes on different threads all get to write."""
    for thread_id in lab.crew.together(grow, lab.name()):
        lab.remember(thread_id)
        history = list(lab.saver.history(thread_id))
        equal([saved.values["k"] for saved in history], [list(range(n)) for n in range(20, 0, -1)])


@chapter
def living_owner(lab: SaverLab) -> None:
    """A thread that another living process owns is refused, and its owner named."""
    worker, thread_id = lab.crew.workers[0], lab.thread_id()
    token = worker.call(claim_and_keep, thread_id, "theirs")
    with refused(ConcurrentUpdateError, thread_id, token):
        lab.saver.open(thread_id)
    with refused(ConcurrentUpdateError, thread_id):
        lab.saver.delete_thread(thread_id)
    worker.call(forget, token)


def forget(saver: BaseCheckpointSaver, barrier: Any, token: str) -> None:
    forget_token(token)


@chapter
def killed_owner(lab: SaverLab) -> None:
    """The thread of a process that was killed is free at once, with all that it had committed."""
    worker, thread_id = lab.crew.extra(), lab.thread_id()
    token = worker.call(claim_and_keep, thread_id, "last words")
    with refused(ConcurrentUpdateError, thread_id, token):
        lab.saver.open(thread_id)
    worker.kill()
    opening = lab.saver.open(thread_id)
    that(opening.abandoned and opening.saved is not None, "it is not shown as abandoned")
    run = lab.run(thread_id)
    same_state(run.values, {"k": "last words"})
    run.step({"k": "on"})
    run.release()


@chapter
def replaced_elsewhere(lab: SaverLab) -> None:
    """A run that another process has replaced can write nothing."""
    run = lab.run()
    run.step({"k": "first"})
    run.abandon()
    # Only this process knows that the run has ended; to the other one its owner lives.
    thread = lab.saver.open(run.thread_id).thread
    lab.crew.workers[1].call(take_over, run.thread_id, thread)
    with refused(LeaseLostError, run.thread_id):
        run.step({"k": "stale"})
    equal(loaded(lab.saver, run.thread_id).values["k"], "taken over")


def take_over(saver: BaseCheckpointSaver, barrier: Any, thread_id: str, thread: Any) -> None:
    token = new_token()
    saver.commit(_commit(thread_id, token, "taken over", claims=True, acquire=thread))
    forget_token(token)
