"""One run at a time owns a thread: claiming, committing, releasing, being replaced."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from graphkit_checkpoint.base import BaseCheckpointSaver
from graphkit_checkpoint.conformance.capabilities import Capability
from graphkit_checkpoint.conformance.lab import SaverLab, check_gone
from graphkit_checkpoint.conformance.suite import Chapter
from graphkit_checkpoint.conformance.verdicts import equal, refused, same_state, that
from graphkit_checkpoint.errors import ConcurrentUpdateError, LeaseLostError

chapter: Chapter[SaverLab] = Chapter(Capability.OWNERSHIP)


@chapter
def claimed(lab: SaverLab) -> None:
    """The first commit of a run makes it the owner, for everybody to see."""
    run = lab.run()
    run.step()
    holder = run.head(lab.other()).thread.holder
    that(holder is not None, "nobody owns the thread")
    if holder is not None:
        equal(holder.token, run.token, "owner")
        that(holder.since > 1_600_000_000, f"since is no unix time: {holder.since}")
        that(holder.left > 0, f"the lease has {holder.left} s left")


@chapter
def second_run(lab: SaverLab) -> None:
    """A run that would write cannot open a thread that another one owns; the error names thread and owner."""
    run = lab.run()
    run.step()
    with refused(ConcurrentUpdateError, run.thread_id, run.token):
        lab.other().open(run.thread_id)


@chapter
def looking_is_free(lab: SaverLab) -> None:
    """A thread that is owned can be read all the same."""
    run = lab.run()
    run.step({"k": 1})
    saver = lab.other()
    opening = saver.open(run.thread_id, claims=False)
    that(opening.saved is not None and opening.abandoned, "the opening lacks the checkpoint, or the owner")
    same_state(run.head(saver).values, {"k": 1})
    equal(len(list(saver.history(run.thread_id))), 1, "history")


@chapter
def released(lab: SaverLab) -> None:
    """A run that has ended gives the thread back, and the next one claims it."""
    run = lab.finished()
    opening = lab.other().open(run.thread_id)
    that(opening.thread is not None and opening.thread.holder is None, "somebody owns the thread")
    equal(opening.abandoned, False, "abandoned")
    again = lab.run(run.thread_id, saver=lab.other())
    again.step({"k": "next"})
    equal(again.head(lab.saver).values["k"], "next")


@chapter
def claimed_and_released(lab: SaverLab) -> None:
    """One commit may claim, write and release."""
    run = lab.run()
    run.write(run.point({"k": 1}), release=True)
    again = lab.run(run.thread_id)
    again.write(again.point({"k": 2}), release=True)
    found = again.head(lab.other())
    equal((found.values, found.thread.holder), ({"k": 2}, None))


@chapter
def second_claim(lab: SaverLab) -> None:
    """Of two runs that have seen the same thread the first to claim wins, and the other one is told."""
    run = lab.finished()
    winner, loser = lab.run(run.thread_id), lab.run(run.thread_id, saver=lab.other())
    winner.step({"k": "winner"})
    with refused(ConcurrentUpdateError, run.thread_id):
        loser.step({"k": "loser"})
    equal(winner.head().values["k"], "winner")


@chapter
def second_claim_of_a_new_thread(lab: SaverLab) -> None:
    """Of two runs that would make the same thread the first one does, and the other one is told."""
    winner = lab.run()
    loser = lab.run(winner.thread_id, saver=lab.other())
    winner.step({"k": "winner"})
    with refused(ConcurrentUpdateError, winner.thread_id):
        loser.step({"k": "loser"})
    same_state(winner.head().values, {"k": "winner"})


@chapter
def late_claim(lab: SaverLab) -> None:
    """A claim fails after another run has come and gone, though nobody owns the thread."""
    run = lab.finished()
    late = lab.run(run.thread_id)
    between = lab.run(run.thread_id, saver=lab.other())
    between.step({"k": "between"})
    between.release()
    with refused(ConcurrentUpdateError, run.thread_id):
        late.step({"k": "late"})
    equal(between.head().values["k"], "between")


@chapter
def late_claim_of_a_deleted_thread(lab: SaverLab) -> None:
    """A claim fails if the thread has been deleted since it was seen, and does not bring it back."""
    run = lab.finished()
    late = lab.run(run.thread_id)
    lab.saver.delete_thread(run.thread_id)
    with refused(ConcurrentUpdateError, run.thread_id):
        late.step({"k": "late"})
    check_gone(lab.saver, run.thread_id)


@chapter
def commit_without_claim(lab: SaverLab) -> None:
    """Who has not claimed cannot commit, neither to a free thread nor to one that is not there."""
    run = lab.finished()
    for thread_id in (run.thread_id, lab.thread_id()):
        stranger = lab.run(thread_id)
        stranger.claim.made = True
        with refused(LeaseLostError, thread_id, stranger.token):
            stranger.step({"k": "stranger"})
    run.check_all()
    check_gone(lab.saver, stranger.thread_id)


@chapter
def commit_beside_the_owner(lab: SaverLab) -> None:
    """Who has not claimed cannot commit to a thread that another run owns."""
    stranger = lab.run()
    stranger.claim.made = True
    owner = lab.run(stranger.thread_id)
    owner.step({"k": "owner"})
    with refused(LeaseLostError, owner.thread_id):
        stranger.step({"k": "stranger"})
    with refused(LeaseLostError, owner.thread_id):
        stranger.release()
    owner.step({"k": "owner again"})
    owner.check_all()


@chapter
def commit_after_release(lab: SaverLab) -> None:
    """A run that has given the thread back can write nothing more."""
    run = lab.finished()
    with refused(LeaseLostError, run.thread_id):
        run.step({"k": "late"})
    run.check_all()


@chapter
def epoch(lab: SaverLab) -> None:
    """Every commit counts the thread's epoch up, whatever it holds."""
    run = lab.run()
    epochs = []
    for act in (run.step, run.write, run.step, run.record, run.release):
        act()
        state, _ = lab.saver.find(run.thread_id)
        epochs.append(state.epoch if state else -1)
    that(epochs == sorted(set(epochs)) and epochs[0] > 0, f"epochs: {epochs}")


@chapter
def since(lab: SaverLab) -> None:
    """Since when a run owns its thread stays the same from its first commit on."""
    run = lab.run()
    run.step()
    first = run.head().thread.holder
    run.step()
    run.record()
    last = run.head().thread.holder
    that(first is not None and last is not None and first.since == last.since, f"{first} and {last}")


@chapter
def abandoned(lab: SaverLab) -> None:
    """The thread of a run that has ended without a word is free, and shown as abandoned."""
    run = lab.run()
    run.step({"k": 1})
    run.abandon()
    opening = lab.other().open(run.thread_id)
    that(opening.abandoned, "it is not shown as abandoned")
    again = lab.run(run.thread_id, saver=lab.other())
    again.step({"k": 2})
    again.release()
    equal(lab.saver.open(run.thread_id).abandoned, False, "abandoned after the next run")


@chapter
def replaced(lab: SaverLab) -> None:
    """A run that was replaced can write nothing, and not give back what is no longer its own."""
    run = lab.run()
    run.step({"k": "first"})
    run.abandon()
    successor = lab.run(run.thread_id, saver=lab.other())
    successor.step({"k": "successor"})
    for attempt in (lambda: run.step({"k": "stale"}), run.release, run.record):
        with refused(LeaseLostError, run.thread_id, run.token):
            attempt()
    holder = successor.head().thread.holder
    that(holder is not None and holder.token == successor.token, f"the thread belongs to {holder}")
    successor.step({"k": "successor again"})
    successor.check_all()


@chapter
def replaced_and_released(lab: SaverLab) -> None:
    """A run that was replaced stays so when its successor has ended."""
    run = lab.run()
    run.step({"k": "first"})
    run.abandon()
    successor = lab.run(run.thread_id)
    successor.step({"k": "successor"})
    successor.release()
    with refused(LeaseLostError, run.thread_id):
        run.step({"k": "stale"})
    equal(successor.head().values["k"], "successor")


@chapter
def replaced_on_a_deleted_thread(lab: SaverLab) -> None:
    """A run whose thread was deleted under it writes nothing, also not to a new one of that name."""
    run = lab.run()
    run.step({"k": "first"})
    run.abandon()
    lab.saver.delete_thread(run.thread_id)
    with refused(LeaseLostError, run.thread_id):
        run.step({"k": "stale"})
    check_gone(lab.saver, run.thread_id)
    fresh = lab.run(run.thread_id)
    fresh.step({"k": "fresh"})
    with refused(LeaseLostError, run.thread_id):
        run.step({"k": "stale"})
    same_state(fresh.head().values, {"k": "fresh"})


@chapter
def foreign_owner(lab: SaverLab) -> None:
    """An owner on another host, of whom nobody knows whether he lives, keeps the thread while his lease runs."""
    run = lab.run(token=lab.foreign_token())
    run.step()
    with refused(ConcurrentUpdateError, run.thread_id, run.token):
        lab.other().open(run.thread_id)
    run.release()
    lab.other().open(run.thread_id)


@chapter
def renewal_by_others(lab: SaverLab) -> None:
    """Renewing the lease of a thread that one does not own, or that is not there, changes nothing."""
    run = lab.run()
    run.step()
    before = run.head().thread
    lab.saver.renew(run.thread_id, lab.token())
    lab.saver.renew(lab.thread_id(), run.token)
    after = run.head().thread
    equal(after.epoch, before.epoch, "epoch")
    that(
        after.holder is not None and after.holder.token == run.token, f"the thread belongs to {after.holder}"
    )


@chapter
def threads_do_not_matter_to_one_another(lab: SaverLab) -> None:
    """Runs on different threads know nothing of one another."""
    runs = [lab.run() for _ in range(5)]
    for number in range(4):
        for run in runs:
            run.step({"n": number})
    for run in runs:
        run.check_all()


EDITS: Mapping[str, Callable[[BaseCheckpointSaver, str], object]] = {
    "pruned": lambda saver, thread_id: saver.prune(thread_id, keep_last=1),
    "given a time to live": lambda saver, thread_id: saver.set_ttl(thread_id, math.inf),
    "rid of a run": lambda saver, thread_id: saver.delete_for_runs([f"run of {thread_id}"]),
}


@chapter.each(EDITS)
def edited_meanwhile(lab: SaverLab, edit: Callable[[BaseCheckpointSaver, str], object]) -> None:
    """A claim fails on a thread that was {case} since it was seen."""
    run = lab.finished(3)
    again = lab.run(run.thread_id)
    again.step({"k": "last"}, metadata={"run_id": f"run of {run.thread_id}"})
    again.release()
    late = lab.run(run.thread_id)
    edit(lab.other(), run.thread_id)
    with refused(ConcurrentUpdateError, run.thread_id):
        late.step({"k": "late"})


@chapter.each(EDITS)
def edited_while_owned(lab: SaverLab, edit: Callable[[BaseCheckpointSaver, str], object]) -> None:
    """A thread that a run owns cannot be {case}, and nothing of it is changed."""
    run = lab.run()
    for _ in range(3):
        run.step({"n": len(run.seen)}, metadata={"run_id": f"run of {run.thread_id}"})
    with refused(ConcurrentUpdateError, run.thread_id):
        edit(lab.other(), run.thread_id)
    run.check_all()
    run.step({"n": "on"})
