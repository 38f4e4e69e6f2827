"""Several writers at once, in the threads of one process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from graphkit_checkpoint.base import BaseCheckpointSaver
from graphkit_checkpoint.conformance.capabilities import Capability
from graphkit_checkpoint.conformance.lab import LONG, Run, SaverLab, loaded
from graphkit_checkpoint.conformance.suite import Chapter
from graphkit_checkpoint.conformance.verdicts import PATIENCE, equal, same_state, that
from graphkit_checkpoint.errors import ConcurrentUpdateError
from graphkit_checkpoint.records import Pending

chapter: Chapter[SaverLab] = Chapter(Capability.WRITERS)

T = TypeVar("T")
WRITERS = 4
RACES = 8


def at_once(*calls: Callable[[], T]) -> list[T]:
    """Call all in threads that start together; the results in order. Raises what the first one raised."""
    barrier = threading.Barrier(len(calls))

    def started(call: Callable[[], T]) -> T:
        barrier.wait(PATIENCE)
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result(PATIENCE) for future in [pool.submit(started, call) for call in calls]]


def savers(lab: SaverLab) -> list[BaseCheckpointSaver]:
    """A saver for every writer: some have the same one, some do not."""
    return [lab.other() if writer % 2 else lab.saver for writer in range(WRITERS)]


def wins(run: Run, **changed: object) -> bool:
    """Whether the run gets to write."""
    try:
        run.step(changed)
    except ConcurrentUpdateError:
        return False
    return True


def race(lab: SaverLab, thread_ids: list[str]) -> None:
    """For each thread all writers claim at once: one wins, and what it wrote is there."""
    opened = savers(lab)
    for thread_id in thread_ids:
        runs = [lab.run(thread_id, saver=saver) for saver in opened]
        won = at_once(*(lambda run=run: wins(run, k=run.token) for run in runs))
        equal(won.count(True), 1, "winners")
        winner = runs[won.index(True)]
        found = winner.head(lab.saver)
        equal(found.values["k"], winner.token, "what was written")
        equal(found.thread.holder and found.thread.holder.token, winner.token, "owner")


@chapter
def claims_of_a_thread(lab: SaverLab) -> None:
    """Of several claims of one thread at the same moment exactly one wins, every time."""
    race(lab, [lab.finished(1).thread_id for _ in range(RACES)])


@chapter
def claims_of_a_new_thread(lab: SaverLab) -> None:
    """Of several runs that make the same thread at the same moment exactly one does, every time."""
    race(lab, [lab.thread_id() for _ in range(RACES)])


@chapter
def claims_of_an_abandoned_thread(lab: SaverLab) -> None:
    """Of several runs that take over an abandoned thread at the same moment exactly one does, every time."""
    threads = []
    for _ in range(RACES):
        run = lab.run()
        run.step()
        run.abandon()
        threads.append(run.thread_id)
    race(lab, threads)


@chapter
def no_update_is_lost(lab: SaverLab) -> None:
    """Several writers that add to one thread, each trying until it may, lose nothing."""
    thread_id, each = lab.finished(1).thread_id, 5

    def add(saver: BaseCheckpointSaver, name: int) -> None:
        left = list(range(each))
        while left:
            try:
                run = lab.run(thread_id, saver=saver)
                run.append("added", (name, left[0]))
            except ConcurrentUpdateError:
                continue
            run.release()
            left.pop(0)

    at_once(*(lambda n=n, saver=saver: add(saver, n) for n, saver in enumerate(savers(lab))))
    added = loaded(lab.saver, thread_id).values["added"]
    equal(len(added), WRITERS * each, "items")
    for name in range(WRITERS):
        equal([item for item in added if item[0] == name], [(name, n) for n in range(each)], "order of one")


@chapter
def different_threads(lab: SaverLab) -> None:
    """Writers on different threads all get to write, in one object as in several."""
    shared = lab.saver

    def write(saver: BaseCheckpointSaver) -> Run:
        run = lab.run(saver=saver)
        for number in range(8):
            run.append("log", number)
            run.record(Pending("t", "output", "", number))
        return run.release()

    for opened in ([shared] * WRITERS, savers(lab)):
        for run in at_once(*(lambda saver=saver: write(saver) for saver in opened)):
            run.check_all()


@chapter
def losers_beside_others(lab: SaverLab) -> None:
    """A commit that is refused leaves those alone that are written at the same time."""
    for _ in range(4):
        owner = lab.run()
        owner.step()
        stranger = lab.run()
        stranger.thread_id, stranger.claim.made = owner.thread_id, True
        good = [lab.run() for _ in range(WRITERS - 1)]
        won = at_once(*(lambda run=run: wins(run, k=run.token) for run in [stranger, *good]))
        equal(won, [False, *(True for _ in good)], "who got to write")
        for run in good:
            same_state(run.head().values, {"k": run.token})
        same_state(owner.head().values, {})


@chapter
def whole_commits(lab: SaverLab) -> None:
    """Who reads while others write sees whole commits, never part of one."""
    run = lab.run()
    run.step({"a": 0, "log": [LONG]})
    done = threading.Event()

    def write() -> None:
        try:
            for number in range(1, 40):
                point = run.point({"a": number, "log": [LONG, *range(number)]}, extended={"log": 1})
                run.write(point, at=point.id, pending=[Pending("t", "output", "", number)])
        finally:
            done.set()

    def read(saver: BaseCheckpointSaver) -> None:
        while not done.is_set():
            saved = loaded(saver, run.thread_id)
            seen = [saved.values["a"], len(saved.values["log"]) - 1, *(r.value for r in saved.pending)]
            that(len(set(seen)) == 1, f"one read shows the states {seen}")
            numbers = [entry.values["a"] for entry in saver.history(run.thread_id, limit=5)]
            equal(numbers, sorted(numbers, reverse=True)[:5], "history")

    at_once(write, *(lambda saver=saver: read(saver) for saver in savers(lab)[:2]))


@chapter
def growth_while_read(lab: SaverLab) -> None:
    """A checkpoint is read as it was while its thread goes on and its lists are put together anew."""
    run = lab.run()
    for number in range(40):
        run.append("log", number)
    fixed = sorted(run.seen)[30]
    done = threading.Event()

    def write() -> None:
        try:
            for number in range(40, 100):
                run.append("log", number)
        finally:
            done.set()

    def read() -> None:
        saver = lab.other()
        while not done.is_set():
            found = loaded(saver, run.thread_id, fixed)
            equal(found.values["log"], list(range(31)))

    at_once(write, read)
    run.check_all()


@chapter
def deletion_against_claim(lab: SaverLab) -> None:
    """Of a deletion and a claim at the same moment one wins, and the thread is gone or whole."""
    opened = lab.other()
    for _ in range(RACES):
        run = lab.run(lab.finished(2).thread_id)

        def delete(thread_id: str = run.thread_id) -> bool:
            try:
                opened.delete_thread(thread_id)
            except ConcurrentUpdateError:
                return False
            return True

        deleted, claimed = at_once(delete, partial(wins, run, k="claimed"))
        that(deleted != claimed, f"deleted: {deleted}, claimed: {claimed}")
        found = lab.saver.load(run.thread_id)
        equal(found is not None, claimed, "whether the thread is there")
        if found is not None:
            same_state(found.values, run.values)


@chapter
def pruning_against_claim(lab: SaverLab) -> None:
    """Of pruning and a claim at the same moment either may come first, and the thread stays whole."""
    opened = lab.other()
    for _ in range(RACES):
        finished = lab.finished(4)
        run = lab.run(finished.thread_id)

        def prune(thread_id: str = run.thread_id) -> int:
            try:
                return opened.prune(thread_id, keep_last=1)
            except ConcurrentUpdateError:
                return 0

        removed, claimed = at_once(prune, partial(wins, run, k="claimed"))
        that(removed in (0, 3) and bool(removed) != claimed, f"removed: {removed}, claimed: {claimed}")
        expected = run.values if claimed else finished.values
        same_state(run.head().values, expected)


@chapter
def copies_at_once(lab: SaverLab) -> None:
    """Of several copies to one id at the same moment one is made, and it is whole."""
    opened = savers(lab)
    source = lab.finished(6)
    for _ in range(5):
        target = lab.thread_id()

        def copy(saver: BaseCheckpointSaver, target: str = target) -> bool:
            try:
                saver.copy_thread(source.thread_id, target)
            except ValueError:
                return False
            return True

        made = at_once(*(lambda saver=saver: copy(saver) for saver in opened))
        equal(made.count(True), 1, "copies made")
        source.check_all(thread_id=target)
