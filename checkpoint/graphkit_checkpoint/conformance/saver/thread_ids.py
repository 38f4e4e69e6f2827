"""Names of threads: any text of the allowed kind is one, and nothing else."""

from __future__ import annotations

import uuid
from typing import Any

from graphkit_checkpoint.conformance.capabilities import Capability
from graphkit_checkpoint.conformance.lab import SaverLab, check_gone, loaded
from graphkit_checkpoint.conformance.samples import BAD_THREAD_IDS, LOOKALIKES, THREAD_IDS
from graphkit_checkpoint.conformance.suite import Chapter
from graphkit_checkpoint.conformance.verdicts import equal, refused, same_state, that
from graphkit_checkpoint.errors import InvalidThreadIdError

chapter: Chapter[SaverLab] = Chapter(Capability.THREAD_IDS)


@chapter.each(THREAD_IDS)
def unusual_id(lab: SaverLab, thread_id: str) -> None:
    """A thread lives its whole life under an id of {case}."""
    run = lab.run(lab.remember(thread_id))
    run.step({"k": 1})
    run.release()
    that(thread_id in lab.saver.thread_ids(), "it is not listed")
    same_state(loaded(lab.other(), thread_id).values, {"k": 1})
    copied = lab.thread_id()
    lab.saver.copy_thread(thread_id, copied)
    lab.saver.delete_thread(thread_id)
    check_gone(lab.saver, thread_id)
    same_state(loaded(lab.saver, copied).values, {"k": 1})


@chapter
def alike_ids(lab: SaverLab) -> None:
    """Ids that differ in case, blanks, accents or wildcards are different threads."""
    stem = lab.name()
    threads = [lab.remember(stem + ending) for ending in LOOKALIKES]
    for thread_id in threads:
        lab.run(thread_id).step({"k": thread_id})
    for thread_id in threads:
        same_state(loaded(lab.saver, thread_id).values, {"k": thread_id})
    listed = [thread_id for thread_id in lab.saver.thread_ids() if thread_id.startswith(stem)]
    equal(listed, sorted(threads, key=lambda name: [ord(char) for char in name]), "thread_ids()")


@chapter.each(BAD_THREAD_IDS)
def bad_target(lab: SaverLab, thread_id: Any) -> None:
    """A thread cannot be copied to an id that is {case}."""
    run = lab.finished()
    with refused(InvalidThreadIdError, "thread_id"):
        lab.saver.copy_thread(run.thread_id, thread_id)
    that(thread_id not in lab.saver.thread_ids(), "a thread was made")


@chapter.each(BAD_THREAD_IDS)
def bad_upkeep(lab: SaverLab, thread_id: Any) -> None:
    """Nothing is removed and no space is told of an id that is {case}."""
    run = lab.finished()
    with refused(InvalidThreadIdError, "thread_id"):
        lab.saver.prune([run.thread_id, thread_id], keep_last=1)
    with refused(InvalidThreadIdError, "thread_id"):
        lab.saver.usage(thread_id)
    run.check_all()


@chapter
def uuid_target(lab: SaverLab) -> None:
    """A uuid is a thread id by its canonical text."""
    run, target = lab.finished(), uuid.uuid4()
    lab.saver.copy_thread(run.thread_id, target)  # type: ignore[arg-type]
    run.check_all(thread_id=lab.remember(str(target)))


@chapter
def impossible_id(lab: SaverLab) -> None:
    """Looking for an id that no thread can have finds nothing, or says that it is invalid."""
    for thread_id in ("", "a\0b", "\ud800", "x" * 10_000):
        try:
            found = lab.saver.load(thread_id), list(lab.saver.history(thread_id))
            that(found == (None, []), f"{thread_id!r:.40} finds {found}")
            lab.saver.delete_thread(thread_id)
        except InvalidThreadIdError:
            pass
