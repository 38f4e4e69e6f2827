"""What is listed of a thread's past, in which order."""

from __future__ import annotations

from typing import Any

from graphkit_checkpoint.conformance.capabilities import Capability
from graphkit_checkpoint.conformance.lab import Run, SaverLab, ids
from graphkit_checkpoint.conformance.suite import Chapter
from graphkit_checkpoint.conformance.verdicts import equal, same_state, that
from graphkit_checkpoint.records import Pending

chapter: Chapter[SaverLab] = Chapter(Capability.HISTORY)


def marked(lab: SaverLab, *metadata: dict[str, Any]) -> Run:
    """A run with one checkpoint for each of these."""
    run = lab.run()
    for described in metadata:
        run.step({"n": len(run.seen)}, metadata=described)
    return run


def matching(run: Run, filter: dict[str, Any], **options: Any) -> list[int]:
    """The positions of the checkpoints that are found, oldest first."""
    order = list(run.seen)
    found = ids(run.saver.history(run.thread_id, filter=filter, **options))
    return [order.index(checkpoint_id) for checkpoint_id in found]


@chapter
def newest_first(lab: SaverLab) -> None:
    """History comes newest first, all of it."""
    run = lab.finished(5)
    equal(ids(lab.saver.history(run.thread_id)), sorted(run.seen, reverse=True))


@chapter
def before(lab: SaverLab) -> None:
    """`before` leaves out that checkpoint and all newer ones."""
    run = lab.finished(5)
    order = sorted(run.seen)
    for index, checkpoint_id in enumerate(order):
        found = ids(lab.saver.history(run.thread_id, before=checkpoint_id))
        equal(found, order[:index][::-1], f"before the {index}th")


@chapter
def before_an_unknown_id(lab: SaverLab) -> None:
    """`before` need not name a checkpoint: ids are compared as text, character by character."""
    run = lab.run()
    for name in ("10", "2", "B", "a"):
        run.step(id=name)
    equal(ids(lab.saver.history(run.thread_id, before="C")), ["B", "2", "10"])
    equal(ids(lab.saver.history(run.thread_id, before="19")), ["10"])
    equal(ids(lab.saver.history(run.thread_id, before="~")), ["a", "B", "2", "10"])
    equal(ids(lab.saver.history(run.thread_id, before="a\0")), [], "before what cannot be an id")


@chapter
def limit(lab: SaverLab) -> None:
    """`limit` gives the newest so many, none for 0, and all if there are fewer."""
    run = lab.finished(5)
    order = sorted(run.seen, reverse=True)
    for number in (0, 1, 4, 5, 6, 1000):
        equal(ids(lab.saver.history(run.thread_id, limit=number)), order[:number], f"limit={number}")


@chapter
def limit_and_before(lab: SaverLab) -> None:
    """`limit` counts from `before` on."""
    run = lab.finished(6)
    order = sorted(run.seen, reverse=True)
    equal(ids(lab.saver.history(run.thread_id, before=order[1], limit=2)), order[2:4])


@chapter
def many_pages(lab: SaverLab) -> None:
    """A long history has every checkpoint once, whatever is read at a time."""
    run = lab.run()
    for number in range(100):
        run.step({"n": number}, metadata={"odd": number % 2})
    order = sorted(run.seen, reverse=True)
    equal(ids(lab.saver.history(run.thread_id)), order)
    equal(ids(lab.saver.history(run.thread_id, limit=70)), order[:70])
    equal(ids(lab.saver.history(run.thread_id, filter={"odd": 1}, limit=40)), order[0:80:2])


@chapter
def entries_are_complete(lab: SaverLab) -> None:
    """Every entry has its own values and pending records, as when it is loaded alone."""
    run = lab.run()
    for number in range(4):
        run.append("log", number, n=number)
        run.record(Pending("task", "output", "", number))
    for number, saved in enumerate(reversed(list(lab.saver.history(run.thread_id)))):
        same_state(saved.values, {"log": list(range(number + 1)), "n": number})
        equal([record.value for record in saved.pending], [number], "pending")
        equal(saved.thread.head, run.last, "the thread's head")


@chapter
def entries_can_be_continued(lab: SaverLab) -> None:
    """A run may go on from an entry of the history as from a loaded checkpoint."""
    run = lab.finished(5)
    again = lab.run(run.thread_id)
    for saved in list(lab.saver.history(run.thread_id)):
        again._stand(saved)
        again.append("log", "fork")
    again.check_all()
    run.check_all()


@chapter
def branches(lab: SaverLab) -> None:
    """History has the checkpoints of all branches."""
    run = lab.finished(3)
    again = lab.run(run.thread_id, at=min(run.seen))
    again.step({"k": "fork"})
    equal(ids(lab.saver.history(run.thread_id)), sorted([*run.seen, *again.seen], reverse=True))


@chapter
def interrupted_reading(lab: SaverLab) -> None:
    """A history that is read while the thread goes on has every older checkpoint once."""
    run = lab.run()
    for number in range(40):
        run.step({"n": number})
    order = sorted(run.seen, reverse=True)
    history = lab.saver.history(run.thread_id)
    found = [next(history).checkpoint.id]
    run.step({"n": "new"})
    equal([*found, *ids(history)], order)


@chapter
def unfinished_reading(lab: SaverLab) -> None:
    """A history that is not read to its end keeps nobody from writing."""
    run = lab.finished(5)
    history = lab.saver.history(run.thread_id)
    next(history)
    lab.run(run.thread_id, saver=lab.other()).step({"k": 1})
    next(history)


@chapter
def filter_by_metadata(lab: SaverLab) -> None:
    """A filter finds the checkpoints whose metadata has the item."""
    run = marked(lab, {"user": "ada"}, {"user": "bob"}, {"user": "ada", "x": 1}, {})
    equal(matching(run, {"user": "ada"}), [2, 0])
    equal(matching(run, {"user": "eve"}), [])
    equal(matching(run, {}), [3, 2, 1, 0], "an empty filter")


@chapter
def filter_by_source_and_step(lab: SaverLab) -> None:
    """A filter may name source and step, which every checkpoint has."""
    run = lab.run()
    run.step(source="input")
    run.step(source="loop")
    run.step(source="loop", metadata={"user": "ada"})
    equal(matching(run, {"source": "loop"}), [2, 1])
    equal(matching(run, {"step": 1}), [1])
    equal(matching(run, {"source": "loop", "user": "ada"}), [2])


@chapter
def filter_by_all_items(lab: SaverLab) -> None:
    """All items of a filter must be there."""
    run = marked(lab, {"a": 1, "b": 2}, {"a": 1}, {"b": 2}, {"a": 1, "b": 3})
    equal(matching(run, {"a": 1, "b": 2}), [0])


@chapter
def filter_by_none(lab: SaverLab) -> None:
    """A filter for None finds the key with None, not a missing key."""
    run = marked(lab, {"a": None}, {}, {"a": 0}, {"a": ""})
    equal(matching(run, {"a": None}), [0])


@chapter
def filter_by_nested_values(lab: SaverLab) -> None:
    """A filter compares lists and dicts as a whole."""
    run = marked(lab, {"a": {"x": 1}}, {"a": {"x": 1, "y": 2}}, {"a": [1, 2]}, {"a": [1]})
    equal(matching(run, {"a": {"x": 1}}), [0])
    equal(matching(run, {"a": [1, 2]}), [2])
    equal(matching(run, {"a": {}}), [])


@chapter
def filter_is_no_pattern(lab: SaverLab) -> None:
    """Text in a filter is neither a part nor a pattern of what is found."""
    run = marked(lab, {"a": "abc"}, {"a": "%b%"}, {"a": "ABC"}, {"a": "a_c"}, {"a": ".*"})
    for value, found in (("abc", [0]), ("b", []), ("%b%", [1]), ("a_c", [3]), ("%", []), (".*", [4])):
        equal(matching(run, {"a": value}), found, f"filter {value!r}")


@chapter
def filter_types(lab: SaverLab) -> None:
    """A filter tells a number from its text."""
    run = marked(lab, {"a": 1}, {"a": "1"}, {"a": [1]}, {"a": None}, {"a": "None"})
    equal(matching(run, {"a": 1}), [0])
    equal(matching(run, {"a": "1"}), [1])
    equal(matching(run, {"a": "None"}), [4])


@chapter
def hostile_filter_keys(lab: SaverLab) -> None:
    """A filter's key is a name, whatever it looks like."""
    keys = ("a.b", "a[0]", "$", "' OR 1=1 --", '"', "a\\", "%", "*", "", "{}", "日本", "a\0b", "\ud800")
    run = marked(lab, {"a": {"b": 1}}, *({key: 1} for key in keys))
    for index, key in enumerate(keys):
        equal(matching(run, {key: 1}), [index + 1], f"key {key!r}")


@chapter
def hostile_filter_values(lab: SaverLab) -> None:
    """A filter's value is compared, whatever it holds."""
    values = ("' OR ''='", "\0", "\ud800", "\\'", "$1", "%s", ":x", "?", 2**70, float("inf"), ("t",), b"\xff")
    run = marked(lab, *({"a": value} for value in values))
    for index, value in enumerate(values):
        equal(matching(run, {"a": value}), [index], f"value {value!r}")


@chapter
def filter_and_limit(lab: SaverLab) -> None:
    """With a filter, `limit` counts what is found."""
    run = marked(lab, *({"odd": number % 2 == 1} for number in range(10)))
    equal(matching(run, {"odd": True}, limit=2), [9, 7])
    equal(matching(run, {"odd": True}, before=list(run.seen)[7]), [5, 3, 1])


@chapter
def order_of_time(lab: SaverLab) -> None:
    """The order is that of the ids, also when a checkpoint was made at an earlier time than its parent."""
    run = lab.run()
    for number in range(5):
        run.step(created_at=1000.0 - number)
    found = [saved.checkpoint.created_at for saved in lab.saver.history(run.thread_id)]
    that(found == [996.0, 997.0, 998.0, 999.0, 1000.0], f"created_at: {found}")
