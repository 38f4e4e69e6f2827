"""Leases: an owner of whom nothing is heard keeps the thread for so long."""

from __future__ import annotations

from graphkit_checkpoint.base import BaseCheckpointSaver
from graphkit_checkpoint.conformance.capabilities import Capability
from graphkit_checkpoint.conformance.lab import Run, SaverLab
from graphkit_checkpoint.conformance.suite import Chapter
from graphkit_checkpoint.conformance.verdicts import equal, eventually, refused, that
from graphkit_checkpoint.errors import ConcurrentUpdateError, LeaseLostError
from graphkit_checkpoint.ownership import Holder

chapter: Chapter[SaverLab] = Chapter(Capability.LEASES)

SHORT, LONG, LONGER = 0.05, 1000.0, 5000.0


def holder_of(saver: BaseCheckpointSaver, thread_id: str) -> Holder:
    state, _ = saver.find(thread_id)
    if state is None or state.holder is None:
        raise LookupError(f"nobody owns thread {thread_id!r}")
    return state.holder


def expired(lab: SaverLab) -> Run:
    """A run of another host whose lease has run out."""
    saver = lab.open(lease=SHORT)
    run = lab.run(saver=saver, token=lab.foreign_token())
    run.step({"k": "first"})
    eventually(lambda: holder_of(saver, run.thread_id).left <= 0, "the lease has not run out")
    return run


@chapter
def runs_out(lab: SaverLab) -> None:
    """A thread whose owner's lease has run out is free, and shown as abandoned."""
    run = expired(lab)
    that(lab.saver.open(run.thread_id).abandoned, "it is not shown as abandoned")
    again = lab.run(run.thread_id)
    again.step({"k": "second"})
    equal(holder_of(lab.saver, run.thread_id).token, again.token, "owner")


@chapter
def fences(lab: SaverLab) -> None:
    """Who comes back after the lease has run out and the thread has another owner can write nothing."""
    run = expired(lab)
    again = lab.run(run.thread_id)
    again.step({"k": "second"})
    for attempt in (lambda: run.step({"k": "stale"}), run.release):
        with refused(LeaseLostError, run.thread_id, run.token):
            attempt()
    run.saver.renew(run.thread_id, run.token)
    equal(holder_of(lab.saver, run.thread_id).token, again.token, "owner")
    again.check_all()


@chapter
def goes_on(lab: SaverLab) -> None:
    """Who comes back after the lease has run out and finds nobody else goes on."""
    run = expired(lab)
    run.step({"k": "late"})
    run.check_all()


@chapter
def length(lab: SaverLab) -> None:
    """A lease is as long as the saver says, counted from the commit."""
    run = lab.run(saver=lab.open(lease=LONG), token=lab.foreign_token())
    run.step()
    left = holder_of(lab.saver, run.thread_id).left
    that(LONG / 2 < left <= LONG, f"{left} s are left of {LONG}")


@chapter
def begins_anew_by_a_commit(lab: SaverLab) -> None:
    """Every commit lets the lease begin anew."""
    run = lab.run(saver=lab.open(lease=LONG), token=lab.foreign_token())
    run.step()
    run.saver = lab.open(lease=LONGER)
    run.step()
    left = holder_of(lab.saver, run.thread_id).left
    that(left > LONG, f"{left} s are left of {LONGER}")


@chapter
def begins_anew_by_a_renewal(lab: SaverLab) -> None:
    """Renewing lets the lease begin anew."""
    run = lab.run(saver=lab.open(lease=LONG), token=lab.foreign_token())
    run.step()
    lab.open(lease=LONGER).renew(run.thread_id, run.token)
    left = holder_of(lab.saver, run.thread_id).left
    that(left > LONG, f"{left} s are left of {LONGER}")


@chapter
def renewed_in_between(lab: SaverLab) -> None:
    """A claim fails if the lease that was seen to have run out has been renewed since."""
    run = expired(lab)
    late = lab.run(run.thread_id)
    lab.open(lease=LONG).renew(run.thread_id, run.token)
    with refused(ConcurrentUpdateError, run.thread_id):
        late.step({"k": "late"})
    run.step({"k": "on"})
    run.check_all()


@chapter
def renewed_by_itself(lab: SaverLab) -> None:
    """While a run works and commits nothing, its lease is renewed."""
    saver = lab.open(lease=0.3)
    run = lab.run(saver=saver)
    run.step()
    epoch = run.head().thread.epoch
    eventually(lambda: run.head().thread.epoch > epoch, "the lease was not renewed")
    run.step({"k": "on"})
    run.release()


@chapter
def no_renewal_after_the_end(lab: SaverLab) -> None:
    """The lease of a run that has ended is renewed no more."""
    saver = lab.open(lease=0.1)
    run, clock = lab.run(saver=saver), lab.run(saver=saver)
    run.step()
    run.release()
    epoch = run.head().thread.epoch
    clock.step()
    count = clock.head().thread.epoch
    eventually(lambda: clock.head().thread.epoch >= count + 3, "another run's lease was not renewed")
    equal(run.head().thread.epoch, epoch, "epoch")
