"""What a checkpoint is read as."""

from __future__ import annotations

from graphkit_checkpoint.conformance.capabilities import Capability
from graphkit_checkpoint.conformance.lab import SaverLab, ids, loaded
from graphkit_checkpoint.conformance.samples import CHANNELS
from graphkit_checkpoint.conformance.suite import Chapter
from graphkit_checkpoint.conformance.verdicts import equal, same_state, that
from graphkit_checkpoint.records import Checkpoint

chapter: Chapter[SaverLab] = Chapter(Capability.CHECKPOINTS)


@chapter
def unknown_thread(lab: SaverLab) -> None:
    """A thread that nobody wrote to has no state, no checkpoint and no history."""
    thread_id = lab.thread_id()
    equal(lab.saver.find(thread_id), (None, None), "find()")
    equal(lab.saver.load(thread_id), None, "load()")
    equal(list(lab.saver.history(thread_id)), [], "history()")
    equal(lab.saver.find_pending(thread_id, "question", "q"), [], "find_pending()")
    opening = lab.saver.open(thread_id)
    equal((opening.thread, opening.saved, opening.abandoned), (None, None, False), "open()")


@chapter
def reading_makes_nothing(lab: SaverLab) -> None:
    """Looking for a thread does not make it."""
    thread_id = lab.thread_id()
    lab.saver.open(thread_id)
    lab.saver.load(thread_id)
    that(thread_id not in lab.saver.thread_ids(), "the thread is listed")


@chapter
def first_commit(lab: SaverLab) -> None:
    """The first commit makes the thread, and its checkpoint is the head."""
    run = lab.run()
    point = run.step({"k": "v"})
    found = run.head()
    equal((found.checkpoint.id, found.thread.head), (point, point), "head")
    same_state(found.values, {"k": "v"})
    that(run.thread_id in lab.saver.thread_ids(), "the thread is not listed")


@chapter
def all_fields(lab: SaverLab) -> None:
    """Every field of a checkpoint comes back as it was."""
    run = lab.run()
    first = run.step()
    point = Checkpoint(
        id=lab.checkpoint_id(),
        parent_id=first,
        step=41,
        source="fork",
        created_at=1234.5678,
        metadata={"user": ("a", 1)},
        control={"next": ["node", ["x", 1, None]], "seen": {"a": 1}},
        work={"task": {"given": (1, 2)}},
        changed={"k": 1},
        given=[("k", {1, 2}), ("other", None)],
    )
    run.write(point)
    found = run.head().checkpoint
    for name in ("id", "parent_id", "step", "source", "created_at", "metadata", "control", "work"):
        equal(getattr(found, name), getattr(point, name), name)
    equal([tuple(write) for write in found.given or ()], [("k", {1, 2}), ("other", None)], "given")
    equal(found.described, {"source": "fork", "step": 41, "user": ("a", 1)}, "described")


@chapter
def absent_fields(lab: SaverLab) -> None:
    """What a checkpoint does not have stays absent: parent, work, given, metadata."""
    run = lab.run()
    run.step()
    found = run.head()
    equal((found.checkpoint.parent_id, found.checkpoint.work, found.checkpoint.given), (None, None, None))
    equal((dict(found.checkpoint.metadata), found.values, found.pending), ({}, {}, []))


@chapter
def given_nothing(lab: SaverLab) -> None:
    """To be given no writes is something else than to be given none at all."""
    run = lab.run()
    run.step(given=[])
    equal(run.head().checkpoint.given, [], "given")


@chapter
def given_is_applied(lab: SaverLab) -> None:
    """Writes from outside are shown as they were given, also where the next checkpoint applied them."""
    run = lab.run()
    run.step({"log": [1, 2], "value": "old"})
    given = [("log", [3, 4]), ("value", "new"), ("value", {"x": 1})]
    outside = run.point(given=given)
    changed = {"log": [1, 2, 3, 4], "value": given[2][1]}
    applied = run.point(changed, parent_id=outside.id, extended={"log": 2})
    run.write(outside, applied)
    found = loaded(lab.other(), run.thread_id, outside.id)
    equal([tuple(write) for write in found.checkpoint.given or ()], given, "given")
    run.check_all()


@chapter
def several_in_one_commit(lab: SaverLab) -> None:
    """Of several checkpoints in one commit each can be read, and the last is the head."""
    run = lab.run()
    first = run.point({"a": 1})
    second = run.point({"b": 2}, parent_id=first.id, step=1)
    third = run.point({"a": 3}, parent_id=second.id, step=2)
    run.write(first, second, third)
    equal(run.head().checkpoint.id, third.id, "head")
    run.check_all()


@chapter
def older_checkpoint(lab: SaverLab) -> None:
    """An older checkpoint is read by its id, and the thread's state with it is that of now."""
    run = lab.finished(4)
    oldest = min(run.seen)
    found = loaded(lab.saver, run.thread_id, oldest)
    equal((found.checkpoint.id, found.thread.head), (oldest, max(run.seen)))
    same_state(found.values, run.seen[oldest])


@chapter
def unknown_checkpoint(lab: SaverLab) -> None:
    """An id that no checkpoint has finds the thread and no checkpoint, whatever text it is."""
    run = lab.finished()
    for unknown in ("00000000x", "zzz", "'", "%", "x" * 1000, "a\0b", "\ud800"):
        thread, saved = lab.saver.find(run.thread_id, "", unknown)
        that(thread is not None and saved is None, f"{unknown!r:.40} finds {saved}")


@chapter
def another_threads_checkpoint(lab: SaverLab) -> None:
    """Threads may have checkpoints with the same ids, and each has only its own."""
    one, other = lab.run(), lab.run()
    one.step({"k": "one"}, id="1")
    one.step({"k": "more"}, id="2")
    other.step({"k": "other"}, id="1")
    same_state(loaded(lab.saver, one.thread_id, "1").values, {"k": "one"})
    same_state(loaded(lab.saver, other.thread_id, "1").values, {"k": "other"})
    equal(lab.saver.load(other.thread_id, "", "2"), None, "a checkpoint of the other thread")


@chapter
def unchanged_values(lab: SaverLab) -> None:
    """What a superstep does not write stays as it was."""
    run = lab.run()
    run.step({"kept": {"deep": (1, 2)}, "changed": 1})
    for number in range(5):
        run.step({"changed": number})
    run.check_all(lab.other())


@chapter
def cleared_values(lab: SaverLab) -> None:
    """A cleared channel has no value from there on, and may get one again."""
    run = lab.run()
    run.step({"scalar": 1, "log": [1, 2], "map": {"a": 1}, "kept": 0})
    run.step(cleared=("scalar", "log", "map"))
    run.step({"other": 1})
    run.step({"scalar": 2, "log": [3], "map": {"b": 2}})
    run.append("log", 4)
    run.check_all(lab.other())


@chapter
def head_is_not_the_largest_id(lab: SaverLab) -> None:
    """The latest checkpoint is the one written last, not the one with the largest id."""
    run = lab.run()
    for name in ("10", "20", "30"):
        run.step({"k": name}, id=name)
    run.go_to("10")
    run.step({"k": "fork"}, id="15")
    equal(run.head().checkpoint.id, "15", "head")
    run.release()
    equal(run.head(lab.other()).checkpoint.id, "15", "head after the release")


@chapter
def commit_without_checkpoint(lab: SaverLab) -> None:
    """A commit without checkpoints leaves the head where it is."""
    run = lab.run()
    run.step({"k": 1})
    before = run.head().checkpoint.id
    run.write()
    run.release()
    equal(run.head().checkpoint.id, before, "head")


@chapter
def claim_without_checkpoint(lab: SaverLab) -> None:
    """A thread may be claimed before it has a checkpoint."""
    run = lab.run()
    run.write()
    state, saved = lab.saver.find(run.thread_id)
    that(state is not None and state.head is None and saved is None, "the thread has a checkpoint")
    run.step({"k": 1})
    same_state(run.head().values, {"k": 1})


@chapter
def wide_state(lab: SaverLab) -> None:
    """A state of a thousand channels is read whole, after changes to a few of them."""
    run = lab.run()
    run.step({f"channel-{number}": number for number in range(1000)})
    for number in range(12):
        run.step({f"channel-{number * 7}": "changed"})
    same_state(run.head(lab.other()).values, run.values)


@chapter
def long_history(lab: SaverLab) -> None:
    """Every checkpoint of a long history is read as it was."""
    run = lab.run()
    for number in range(60):
        run.step({f"k{number % 5}": number})
    run.check_all(lab.other())


@chapter
def channel_names(lab: SaverLab) -> None:
    """Channels may have any names, and those that look alike are kept apart."""
    run = lab.run()
    for number, channel in enumerate(CHANNELS):
        run.append(channel, number)
    run.append(CHANNELS[0], "more")
    run.check_all(lab.other())


@chapter
def steps(lab: SaverLab) -> None:
    """A step may be any whole number of 63 bits."""
    run = lab.run()
    for step in (-1, 0, 2**40):
        run.step(step=step)
        equal(run.head().checkpoint.step, step, "step")


@chapter
def loaded_values_are_copies(lab: SaverLab) -> None:
    """What is done to loaded values changes nothing that is stored."""
    run = lab.run()
    run.step({"log": [[1]], "map": {"a": [1]}, "scalar": ([1],)})
    values = run.head().values
    values["log"].append(2)
    values["log"][0].append(2)
    values["map"]["a"].append(2)
    values["scalar"][0].append(2)
    values["new"] = 1
    run.check_all()


@chapter
def given_values_are_copied(lab: SaverLab) -> None:
    """What is done to values after a commit changes nothing that is stored."""
    run = lab.run()
    items, keys, metadata = [[1]], {"a": [1]}, {"m": [1]}
    run.step({"log": items, "map": keys}, metadata=metadata)
    items[0].append(2)
    items.append([3])
    keys["a"].append(2)
    metadata["m"].append(2)
    same_state(run.head().values, {"log": [[1]], "map": {"a": [1]}})
    equal(run.head().checkpoint.metadata, {"m": [1]}, "metadata")


@chapter
def values_are_read_when_encoded(lab: SaverLab) -> None:
    """A commit that is encoded now and written later has the values of now."""
    run = lab.run()
    items = [1]
    rows = lab.saver.encode(run.draft(run.point({"log": items})))
    items.append(2)
    equal(lab.saver.load(run.thread_id), None, "before it is written")
    lab.saver.write(rows)
    same_state(loaded(lab.saver, run.thread_id).values, {"log": [1]})


@chapter
def commits_in_the_background(lab: SaverLab) -> None:
    """Commits that are begun one after the other are written in that order."""
    run = lab.run()
    begun = []
    for number in range(20):
        point = run.point({"n": number, "log": list(range(number + 1))})
        commit = run.draft(point)
        begun.append(lab.saver.begin_write(lab.saver.encode(commit)))
        run.written(point)
    for future in begun:
        future.result(20)
    run.check_all()
    equal(ids(lab.saver.history(run.thread_id)), sorted(run.seen, reverse=True), "history")


@chapter
def tip_of_an_older_save(lab: SaverLab) -> None:
    """A run goes on from a checkpoint as another object has loaded it."""
    run = lab.run()
    for number in range(12):
        run.append("log", number, n=number)
    run.release()
    again = lab.run(run.thread_id, saver=lab.other())
    again.append("log", "more")
    same_state(again.head(lab.saver).values, {"log": [*range(12), "more"], "n": 11})
    run.check_all()
