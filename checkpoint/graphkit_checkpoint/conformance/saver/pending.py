"""Records beside a checkpoint: what an unfinished superstep has so far."""

from __future__ import annotations

from graphkit_checkpoint.conformance.capabilities import Capability
from graphkit_checkpoint.conformance.lab import SaverLab, loaded, records
from graphkit_checkpoint.conformance.samples import LOOKALIKES
from graphkit_checkpoint.conformance.suite import Chapter
from graphkit_checkpoint.conformance.verdicts import equal, that
from graphkit_checkpoint.records import Pending

chapter: Chapter[SaverLab] = Chapter(Capability.PENDING)


@chapter
def come_back(lab: SaverLab) -> None:
    """Records come back with their checkpoint, ordered by task, kind and key."""
    run = lab.run()
    run.step()
    names = [("b", "output", ""), ("a", "question", "1"), ("a", "answer", "2"), ("a", "answer", "1")]
    run.record(*(Pending(*name, value) for value, name in enumerate(names)))
    expected = sorted((*name, value) for value, name in enumerate(names))
    equal(records(run.head(lab.other()).pending), expected)


@chapter
def none_is_a_value(lab: SaverLab) -> None:
    """None, False, 0 and empty text are values like any other."""
    run = lab.run()
    run.step()
    values: list[object] = [None, False, 0, "", [], {}]
    run.record(*(Pending("t", "answer", str(n), value) for n, value in enumerate(values)))
    equal([record.value for record in run.head().pending], values)


@chapter
def replaced(lab: SaverLab) -> None:
    """Writing a record again replaces its value and leaves the others."""
    run = lab.run()
    run.step()
    run.record(Pending("t", "answer", "1", "first"), Pending("t", "answer", "2", "stays"))
    run.record(Pending("t", "answer", "1", "second"))
    equal(records(run.head().pending), [("t", "answer", "1", "second"), ("t", "answer", "2", "stays")])


@chapter
def replaced_in_one_commit(lab: SaverLab) -> None:
    """Of two records of one name in one commit the later one stays."""
    run = lab.run()
    run.step()
    for _ in range(2):
        run.record(Pending("t", "k", "", "first"), Pending("t", "l", "", 0), Pending("t", "k", "", "second"))
        equal(records(run.head().pending), [("t", "k", "", "second"), ("t", "l", "", 0)])


@chapter
def forgotten(lab: SaverLab) -> None:
    """A forgotten record is gone, and only that one."""
    run = lab.run()
    run.step()
    run.record(*(Pending(task, "answer", key, 0) for task in "ab" for key in "12"))
    run.forget(("a", "answer", "1"), ("b", "answer", "2"))
    equal(
        [record[:3] for record in records(run.head().pending)], [("a", "answer", "2"), ("b", "answer", "1")]
    )


@chapter
def forgetting_nothing(lab: SaverLab) -> None:
    """To forget a record that is not there is no error."""
    run = lab.run()
    run.step()
    run.record(Pending("t", "answer", "1", 0))
    run.forget(("t", "answer", "2"), ("x", "answer", "1"), ("t", "question", "1"))
    equal(len(run.head().pending), 1, "records left")


@chapter
def forgotten_and_written(lab: SaverLab) -> None:
    """What one commit forgets and writes stays written."""
    run = lab.run()
    run.step()
    run.record(Pending("t", "answer", "1", "old"))
    run.record(Pending("t", "answer", "1", "new"), forget=[("t", "answer", "1")])
    equal(records(run.head().pending), [("t", "answer", "1", "new")])


@chapter
def belong_to_their_checkpoint(lab: SaverLab) -> None:
    """Records stay with their checkpoint when the thread goes on, and are read there."""
    run = lab.run()
    first = run.step()
    run.record(Pending("t", "output", "", "first"))
    run.step()
    run.record(Pending("t", "output", "", "second"))
    equal([record.value for record in loaded(lab.saver, run.thread_id, first).pending], ["first"])
    equal([record.value for record in run.head().pending], ["second"])


@chapter
def at_an_older_checkpoint(lab: SaverLab) -> None:
    """Records may be written and forgotten beside a checkpoint that is not the head."""
    run = lab.run()
    first = run.step()
    run.step()
    run.record(Pending("t", "output", "a", 1), Pending("t", "output", "b", 2), at=first)
    run.write(at=first, forget=[("t", "output", "b")])
    equal(records(loaded(lab.saver, run.thread_id, first).pending), [("t", "output", "a", 1)])
    equal(run.head().pending, [], "records of the head")


@chapter
def with_checkpoints(lab: SaverLab) -> None:
    """One commit may write checkpoints, records beside the last one before them, and forget others."""
    run = lab.run()
    first = run.step()
    run.record(Pending("t", "question", "1", "?"))
    point = run.point({"k": 1})
    run.write(point, at=first, pending=[Pending("t", "answer", "1", "!")], forget=[("t", "question", "1")])
    equal(records(loaded(lab.saver, run.thread_id, first).pending), [("t", "answer", "1", "!")])
    equal(run.head().checkpoint.id, point.id, "head")


@chapter
def beside_a_new_checkpoint(lab: SaverLab) -> None:
    """Records may be written beside a checkpoint of the same commit."""
    run = lab.run()
    point = run.point({"k": 1})
    run.write(point, at=point.id, pending=[Pending("t", "question", "1", "?")], release=True)
    equal(records(run.head(lab.other()).pending), [("t", "question", "1", "?")])


@chapter
def many(lab: SaverLab) -> None:
    """A thousand records in one commit all come back."""
    run = lab.run()
    run.step()
    run.record(*(Pending(f"{number:04}", "output", "", number) for number in range(1000)))
    equal([record.value for record in run.head(lab.other()).pending], list(range(1000)))


@chapter
def names_are_kept_apart(lab: SaverLab) -> None:
    """Tasks, kinds and keys whose names look alike are different."""
    run = lab.run()
    run.step()
    run.record(*(Pending("t", "answer", name, name) for name in LOOKALIKES))
    run.record(*(Pending(name, "answer", "x", name) for name in LOOKALIKES))
    run.record(*(Pending("t", name, "x", name) for name in LOOKALIKES))
    found = records(run.head(lab.other()).pending)
    equal(len(found), 3 * len(LOOKALIKES), "records")
    that(all(value in record for *record, value in found), f"a record has another's value: {found}")


@chapter
def do_not_move_the_head(lab: SaverLab) -> None:
    """Records count as a commit and leave the head where it is."""
    run = lab.run()
    run.step({"k": 1})
    before = run.head()
    run.record(Pending("t", "output", "", 1))
    after = run.head()
    equal(after.checkpoint.id, before.checkpoint.id, "head")
    that(after.thread.epoch > before.thread.epoch, "the epoch was not counted up")


@chapter
def found_anywhere(lab: SaverLab) -> None:
    """`find_pending` finds a kind and key at any checkpoint, newest first, and nothing else."""
    run, other = lab.run(), lab.run()
    for number in range(4):
        run.step({"n": number})
        run.record(Pending("t", "question", "q", number), Pending("t", "question", "r", "other key"))
        run.record(Pending("t", "answer", "q", "other kind"))
    other.step()
    other.record(Pending("t", "question", "q", "other thread"))
    found = lab.other().find_pending(run.thread_id, "question", "q")
    equal([record.value for record in found], [3, 2, 1, 0])
    equal(lab.saver.find_pending(run.thread_id, "question", "Q"), [], "another case")
    equal(lab.saver.find_pending(run.thread_id, "question", "%"), [], "a wildcard")


@chapter
def found_of_several_tasks(lab: SaverLab) -> None:
    """`find_pending` finds the records of all tasks."""
    run = lab.run()
    run.step()
    run.record(*(Pending(task, "question", "q", task) for task in ("a", "b", "c")))
    found = lab.saver.find_pending(run.thread_id, "question", "q")
    equal(sorted(record.task_id for record in found), ["a", "b", "c"])
