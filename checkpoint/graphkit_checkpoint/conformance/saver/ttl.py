"""Time to live: a thread is kept so long after its last commit."""

from __future__ import annotations

import math

from graphkit_checkpoint.base import BaseCheckpointSaver
from graphkit_checkpoint.conformance.capabilities import Capability
from graphkit_checkpoint.conformance.lab import Run, SaverLab, check_gone
from graphkit_checkpoint.conformance.suite import Chapter
from graphkit_checkpoint.conformance.verdicts import equal, eventually, refused, same_state, that
from graphkit_checkpoint.errors import ConcurrentUpdateError
from graphkit_checkpoint.records import Pending

chapter: Chapter[SaverLab] = Chapter(Capability.TTL)

SHORT, LONG = 0.03, 1000.0


def thread(lab: SaverLab, saver: BaseCheckpointSaver) -> Run:
    """A finished thread with all kinds of rows. It may expire while it is made: nothing is read."""
    run = lab.run(saver=saver)
    run.append("log", 1)
    run.write(at=run.last or "", pending=[Pending("t", "question", "q", 1)])
    return run.release()


def expired(lab: SaverLab) -> Run:
    """A thread whose time has run out."""
    run = thread(lab, lab.open())
    run.saver.set_ttl(run.thread_id, SHORT)
    await_end(run)
    return run


def await_end(run: Run) -> None:
    eventually(lambda: run.saver.find(run.thread_id)[0] is None, "the thread has not expired")


@chapter
def of_the_saver(lab: SaverLab) -> None:
    """A thread expires when the saver's time has passed since its last commit, and none before."""
    short, long = thread(lab, lab.open(ttl=SHORT)), thread(lab, lab.open(ttl=LONG))
    await_end(short)
    long.check_all()


@chapter
def of_a_thread(lab: SaverLab) -> None:
    """`set_ttl` gives one thread a time of its own."""
    saver = lab.open()
    short, other = thread(lab, saver), thread(lab, saver)
    saver.set_ttl(short.thread_id, SHORT)
    await_end(short)
    other.check_all()


def set_in_time(lab: SaverLab, saver: BaseCheckpointSaver, *times: float | None) -> Run:
    """A thread of a saver with a short time, given these times before it has expired."""
    while True:
        run = thread(lab, saver)
        try:
            for seconds in times:
                saver.set_ttl(run.thread_id, seconds)
        except ValueError:  # the machine was slow; the next one may be in time
            continue
        return run


@chapter
def for_ever(lab: SaverLab) -> None:
    """`set_ttl` with infinity keeps a thread whatever the saver says, also when it goes on."""
    saver = lab.open(ttl=0.1)
    kept = set_in_time(lab, saver, math.inf)
    await_end(thread(lab, saver))
    kept.check_all()
    again = lab.run(kept.thread_id, saver=saver)
    again.append("log", 2)
    again.release()
    await_end(thread(lab, saver))
    again.check_all()


@chapter
def back_to_the_savers(lab: SaverLab) -> None:
    """`set_ttl` with None gives back to the saver's time."""
    saver = lab.open(ttl=0.1)
    await_end(set_in_time(lab, saver, math.inf, None))


@chapter
def cannot_be_seen(lab: SaverLab) -> None:
    """Nothing of an expired thread can be seen, also before it is removed."""
    run = expired(lab)
    saver = run.saver
    opening = saver.open(run.thread_id)
    equal((opening.thread, opening.saved, opening.abandoned), (None, None, False), "open()")
    equal(saver.load(run.thread_id, "", run.last), None, "load() of a checkpoint")
    equal(list(saver.history(run.thread_id)), [], "history()")
    that(run.thread_id not in saver.thread_ids(), "it is listed")
    equal(saver.find_pending(run.thread_id, "question", "q"), [], "find_pending()")


@chapter
def begins_anew(lab: SaverLab) -> None:
    """A thread made under the id of an expired one has nothing of it."""
    run = expired(lab)
    again = lab.run(run.thread_id, saver=run.saver)
    again.step({"k": "new"})
    same_state(again.head().values, {"k": "new"})
    equal(len(list(run.saver.history(run.thread_id))), 1, "checkpoints")
    equal(run.saver.find_pending(run.thread_id, "question", "q"), [], "records")
    equal(run.saver.usage(run.thread_id).checkpoints, 1, "rows")
    again.append("log", 2)
    again.check_all()


@chapter
def late_claim(lab: SaverLab) -> None:
    """A claim of a thread that has expired since it was seen fails, or finds all of it."""
    run = thread(lab, lab.open(ttl=LONG))
    late = lab.run(run.thread_id, saver=run.saver)
    # As time goes by for another object; on the same one `set_ttl` would change the epoch.
    with run.saver.writing() as tables:
        row = tables.thread(run.thread_id)
        if row is not None:
            tables.put_thread(run.thread_id, "", row.state.head, row.state.epoch, SHORT)
    await_end(run)
    try:
        late.append("log", "late")
    except ConcurrentUpdateError:
        equal(run.saver.find(run.thread_id), (None, None), "find()")
    else:
        late.check_all()
        run.check_all()


@chapter
def while_owned(lab: SaverLab) -> None:
    """A thread does not expire while a run owns it, however long that takes."""
    saver = lab.open(ttl=SHORT)
    run, witness = lab.run(saver=saver), thread(lab, saver)
    run.step({"k": 1})
    await_end(witness)
    await_end(thread(lab, saver))
    that(run.thread_id not in saver.delete_expired(), "it was deleted")
    run.check_all()
    run.step({"k": 2})
    run.check_all()


@chapter
def counted_from_the_last_commit(lab: SaverLab) -> None:
    """Every commit lets the time begin anew, by the time of the saver that commits."""
    run = thread(lab, lab.open(ttl=LONG))
    run.check_all()
    if lab.bench.has(Capability.OBJECTS):
        again = lab.run(run.thread_id, saver=lab.open(ttl=SHORT))
        again.write(release=True)
        await_end(run)


@chapter
def removed(lab: SaverLab) -> None:
    """`delete_expired` removes expired threads, names them, and leaves the others."""
    run = expired(lab)
    kept, busy = thread(lab, run.saver), lab.run(saver=run.saver)
    busy.step()
    found = run.saver.delete_expired()
    that(run.thread_id in found, f"deleted: {found}")
    that(kept.thread_id not in found and busy.thread_id not in found, f"deleted: {found}")
    check_gone(run.saver, run.thread_id)
    that(run.thread_id not in run.saver.delete_expired(), "it was deleted twice")
    kept.check_all()


@chapter
def deleted_by_name(lab: SaverLab) -> None:
    """An expired thread may be deleted by name like any other."""
    run = expired(lab)
    run.saver.delete_thread(run.thread_id)
    equal(tuple(run.saver.usage(run.thread_id)), (0, 0, 0, 0), "usage")


@chapter
def not_copied(lab: SaverLab) -> None:
    """An expired thread cannot be copied, and its id can be the target of a copy."""
    run, target = expired(lab), lab.thread_id()
    run.saver.copy_thread(run.thread_id, target)
    check_gone(run.saver, target)
    source = thread(lab, run.saver)
    run.saver.copy_thread(source.thread_id, run.thread_id)
    source.check_all(thread_id=run.thread_id)
    equal(len(list(run.saver.history(run.thread_id))), 1, "checkpoints")


@chapter
def not_revived(lab: SaverLab) -> None:
    """`set_ttl` does not bring an expired thread back."""
    run = expired(lab)
    with refused(ValueError, run.thread_id):
        run.saver.set_ttl(run.thread_id, math.inf)
    equal(run.saver.find(run.thread_id), (None, None), "find()")


@chapter
def copies_keep_it(lab: SaverLab) -> None:
    """A copy has the time to live of its original, counted anew."""
    run, target = thread(lab, lab.open()), lab.thread_id()
    run.saver.set_ttl(run.thread_id, 0.2)
    run.saver.copy_thread(run.thread_id, target)
    await_end(run)
    eventually(lambda: run.saver.find(target)[0] is None, "the copy has not expired")


@chapter
def unknown_thread(lab: SaverLab) -> None:
    """A time to live for a thread that is not there is a ValueError, and makes none."""
    thread_id = lab.thread_id()
    with refused(ValueError, thread_id):
        lab.saver.set_ttl(thread_id, 1)
    check_gone(lab.saver, thread_id)


@chapter
def bad_time(lab: SaverLab) -> None:
    """A time to live that is no number above 0 is a ValueError, and changes nothing."""
    run = lab.finished()
    for seconds in (0, -1, math.nan, True, "1"):
        with refused(ValueError):
            lab.saver.set_ttl(run.thread_id, seconds)  # type: ignore[arg-type]
    run.check_all()
    for bad in (0, -1, math.nan, "1"):
        with refused(ValueError):
            lab.open(ttl=bad)
