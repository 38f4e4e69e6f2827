"""Savers as objects: several on one storage, closed, opened again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping

from graphkit_checkpoint.base import BaseCheckpointSaver
from graphkit_checkpoint.conformance.capabilities import Capability
from graphkit_checkpoint.conformance.lab import SaverLab, ids, loaded, records
from graphkit_checkpoint.conformance.suite import Chapter
from graphkit_checkpoint.conformance.verdicts import equal, refused, same_state, that
from graphkit_checkpoint.errors import ConcurrentUpdateError, StorageUnavailableError
from graphkit_checkpoint.records import Commit, Pending, Tip

closing: Chapter[SaverLab] = Chapter(Capability.CLOSING)
objects: Chapter[SaverLab] = Chapter(Capability.OBJECTS)
reopening: Chapter[SaverLab] = Chapter(Capability.REOPENING)


# Closing


USES: Mapping[str, Callable[[BaseCheckpointSaver, str], object]] = {
    "loading": lambda saver, name: saver.load(name),
    "opening": lambda saver, name: saver.open(name),
    "history": lambda saver, name: list(saver.history(name)),
    "committing": lambda saver, name: saver.commit(Commit(name, "", "x/1/1/1", Tip(), claims=True)),
    "listing": lambda saver, name: saver.thread_ids(),
    "deleting": lambda saver, name: saver.delete_thread(name),
    "pruning": lambda saver, name: saver.prune(keep_last=1),
}


@closing.each(USES)
def used_after_closing(lab: SaverLab, use: Callable[[BaseCheckpointSaver, str], object]) -> None:
    """A saver that was closed says so: {case}."""
    saver = lab.open()
    saver.close()
    with refused(StorageUnavailableError, "closed"):
        use(saver, lab.thread_id())


@closing
def async_use_after_closing(lab: SaverLab) -> None:
    """A saver that was closed says so through its async doors, whether these were used before or not."""
    for used in (False, True):
        saver = lab.open()
        if used:
            asyncio.run(saver.aload(lab.thread_id()))
        saver.close()
        with refused(StorageUnavailableError, "closed"):
            asyncio.run(saver.aload(lab.thread_id()))


@closing
def closing_twice(lab: SaverLab) -> None:
    """Closing twice is harmless."""
    saver = lab.open()
    saver.close()
    saver.close()


@closing
def closing_with(lab: SaverLab) -> None:
    """`with` closes the saver, also after an error."""

    class InBetween(Exception):
        pass

    saver = lab.open()
    with refused(InBetween), saver:
        raise InBetween("in between")
    with refused(StorageUnavailableError):
        saver.thread_ids()


@closing
def no_threads_left(lab: SaverLab) -> None:
    """A closed saver leaves no threads behind."""
    before = set(threading.enumerate())
    saver = lab.open()
    asyncio.run(saver.aload(lab.thread_id()))
    saver.begin_write(saver.encode(lab.run(saver=saver).draft())).result(20)
    saver.close()
    left = [thread.name for thread in threading.enumerate() if thread not in before]
    # The thread that renews leases belongs to the process and ends with the last claim.
    equal([name for name in left if "leases" not in name and not name.startswith("asyncio")], [])


# Several objects


@objects
def seen_at_once(lab: SaverLab) -> None:
    """What is written through one object is seen through the other at once, again and again."""
    one, other = lab.open(), lab.open()
    run = lab.run(saver=one)
    for number in range(10):
        run.append("log", number)
        same_state(run.head(other).values, run.values)
    run.release()
    again = lab.run(run.thread_id, saver=other)
    again.append("log", "from the other")
    same_state(again.head(one).values, again.values)


@objects
def heads_in_turn(lab: SaverLab) -> None:
    """Runs through different objects continue one another."""
    savers = [lab.open() for _ in range(3)]
    thread_id, expected = lab.thread_id(), []
    for number in range(30):
        run = lab.run(thread_id, saver=savers[number % 3])
        run.append("log", number)
        run.release()
        expected.append(number)
        equal(run.values["log"], expected)
    equal(loaded(lab.saver, thread_id).values["log"], expected)


@objects
def claims_are_seen(lab: SaverLab) -> None:
    """A claim through one object keeps out runs of the other, until it is given back."""
    run = lab.run(saver=lab.open())
    other = lab.open()
    run.step()
    with refused(ConcurrentUpdateError, run.token):
        other.open(run.thread_id)
    run.release()
    other.open(run.thread_id)


@objects
def deletion_is_seen(lab: SaverLab) -> None:
    """What is deleted, pruned or copied through one object is so for the other."""
    one, other, target = lab.open(), lab.open(), lab.thread_id()
    run = lab.finished(4, saver=one)
    run.check_all(other)
    other.copy_thread(run.thread_id, target)
    run.check_all(one, target)
    other.prune(run.thread_id, keep_last=1)
    equal(ids(one.history(run.thread_id)), [run.last])
    other.delete_thread(run.thread_id)
    equal(one.find(run.thread_id), (None, None))


@objects
def closing_one(lab: SaverLab) -> None:
    """Closing one object leaves the others at work."""
    one, other = lab.open(), lab.open()
    run = lab.run(saver=other)
    run.step({"n": 1})
    one.close()
    run.step({"n": 2})
    run.check_all()


@objects
def setup_again(lab: SaverLab) -> None:
    """Making ready what is there already changes nothing."""
    run = lab.finished()
    saver = lab.open()
    saver.setup()
    saver.setup()
    run.check_all(saver)


# Reopening


@reopening
def read_again(lab: SaverLab) -> None:
    """What was written is read by a saver that is opened when the first one was closed."""
    first = lab.open()
    run = lab.run(saver=first)
    for number in range(20):
        run.append("log", number)
    run.record(Pending("t", "question", "q", "?"))
    inner = run.nested("child")
    inner.step({"k": 1})
    run.release()
    first.close()
    again = lab.open()
    run.check_all(again)
    inner.check_all(again)
    equal(records(again.find_pending(run.thread_id, "question", "q")), [("t", "question", "q", "?")])


@reopening
def gone_on(lab: SaverLab) -> None:
    """A thread goes on through one saver after the other."""
    thread_id = lab.thread_id()
    for number in range(5):
        saver = lab.open()
        run = lab.run(thread_id, saver=saver)
        run.append("log", number)
        run.release()
        saver.close()
    equal(loaded(lab.open(), thread_id).values, {"log": [0, 1, 2, 3, 4]})


@reopening
def closed_while_owned(lab: SaverLab) -> None:
    """Closing a saver does not give back what its runs own; the run can go on through another one."""
    first = lab.open()
    run = lab.run(saver=first)
    run.step({"n": 1})
    first.close()
    run.saver = lab.open()
    with refused(ConcurrentUpdateError, run.token):
        run.saver.open(run.thread_id)
    run.step({"n": 2})
    run.release()
    same_state(run.head().values, {"n": 2})
    that(run.saver.open(run.thread_id).abandoned is False, "abandoned")
