"""The life of a thread: deleting, copying, pruning, taking back what a run has made, and the space it takes."""

from __future__ import annotations

import time
from typing import Any

from graphkit_checkpoint.conformance.capabilities import Capability
from graphkit_checkpoint.conformance.lab import Run, SaverLab, check_gone, ids, loaded, records
from graphkit_checkpoint.conformance.suite import Chapter
from graphkit_checkpoint.conformance.verdicts import equal, refused, same_state, that
from graphkit_checkpoint.errors import ConcurrentUpdateError
from graphkit_checkpoint.records import Pending, Saved

deleting: Chapter[SaverLab] = Chapter(Capability.DELETING)
copying: Chapter[SaverLab] = Chapter(Capability.COPYING)
pruning: Chapter[SaverLab] = Chapter(Capability.PRUNING)
runs: Chapter[SaverLab] = Chapter(Capability.RUNS)
usage: Chapter[SaverLab] = Chapter(Capability.USAGE)


def account(saved: Saved) -> tuple[Any, ...]:
    """What one sees of a checkpoint, apart from its thread."""
    point = saved.checkpoint
    facts = (point.id, point.parent_id, point.step, point.source, point.created_at, dict(point.metadata))
    return *facts, dict(sorted(saved.values.items())), records(saved.pending)


def lived(lab: SaverLab, steps: int = 6) -> Run:
    """A finished run with lists, records, a fork and a nested graph."""
    run = lab.run()
    for number in range(steps):
        run.append("log", number, n=number, **{f"only {number}": number})
        run.record(Pending("t", "output", "", number))
    end = run.last or ""
    run.go_to(sorted(run.seen)[1])
    run.append("log", "fork")
    run.go_to(end)
    run.append("log", "end")
    inner = run.nested("child")
    inner.append("log", "inner")
    inner.append("log", "inner again")
    return run.release()


# Deleting


@deleting
def deleted(lab: SaverLab) -> None:
    """Of a deleted thread nothing can be seen, and its space is given back."""
    run = lived(lab)
    lab.other().delete_thread(run.thread_id)
    check_gone(lab.saver, run.thread_id, ("", "child"))
    equal(lab.saver.find_pending(run.thread_id, "output", ""), [], "records")
    for checkpoint_id in run.seen:
        equal(lab.saver.load(run.thread_id, "", checkpoint_id), None, "a checkpoint")


@deleting
def deleting_nothing(lab: SaverLab) -> None:
    """To delete a thread that is not there is no error, and makes none."""
    thread_id = lab.thread_id()
    lab.saver.delete_thread(thread_id)
    lab.saver.delete_thread(thread_id)
    check_gone(lab.saver, thread_id)


@deleting
def others_stay(lab: SaverLab) -> None:
    """Deleting a thread leaves all others, also those whose ids begin alike or are matched by it as a pattern."""
    stem = lab.name()
    names = [
        lab.remember(name) for name in (f"{stem}%", f"{stem}%x", f"{stem}_", stem, f"{stem}1", f"x{stem}%")
    ]
    for name in names:
        _brief(lab, name)
    lab.saver.delete_thread(f"{stem}%")
    lab.saver.delete_thread(f"{stem}_")
    for name in names:
        equal(lab.saver.load(name) is None, name in (f"{stem}%", f"{stem}_"), f"{name!r} is gone")


def _brief(lab: SaverLab, thread_id: str) -> None:
    run = lab.run(thread_id)
    run.write(run.point({"k": thread_id}), release=True)


@deleting
def deleting_while_owned(lab: SaverLab) -> None:
    """A thread that a run owns is not deleted, and nothing of it is gone."""
    run = lab.run()
    run.append("log", 1)
    run.record(Pending("t", "output", "", 1))
    with refused(ConcurrentUpdateError, run.thread_id):
        lab.other().delete_thread(run.thread_id)
    run.check_all()
    equal(len(run.head().pending), 1, "records")
    run.append("log", 2)
    run.check_all()


@deleting
def deleting_abandoned(lab: SaverLab) -> None:
    """A thread whose run has ended without a word can be deleted."""
    run = lab.run()
    run.step()
    run.abandon()
    lab.saver.delete_thread(run.thread_id)
    check_gone(lab.saver, run.thread_id)


@deleting
def made_anew(lab: SaverLab) -> None:
    """A thread made under the id of a deleted one has nothing of it."""
    run = lived(lab)
    lab.saver.delete_thread(run.thread_id)
    again = lab.run(run.thread_id)
    again.step({"k": "new"}, id=min(run.seen))
    again.append("log", "new")
    again.check_all(lab.other())
    equal(len(list(lab.saver.history(run.thread_id))), 2, "checkpoints")
    equal(again.head().pending, [], "records")
    equal(loaded(lab.saver, run.thread_id, min(run.seen)).pending, [], "records of a checkpoint of that id")


# Copying


@copying
def copied(lab: SaverLab) -> None:
    """A copy has the same history: ids, values, metadata and records, in every nested graph."""
    run, target = lived(lab), lab.thread_id()
    lab.other().copy_thread(run.thread_id, target)
    for namespace in ("", "child"):
        original = [account(saved) for saved in lab.saver.history(run.thread_id, namespace)]
        equal([account(saved) for saved in lab.saver.history(target, namespace)], original)
        that(original, f"namespace {namespace!r} is empty")
    equal(loaded(lab.saver, target).checkpoint.id, run.last, "head")
    found = lab.saver.find_pending(target, "output", "")
    equal(records(found), records(lab.saver.find_pending(run.thread_id, "output", "")), "records")


@copying
def copy_is_on_its_own(lab: SaverLab) -> None:
    """What is written to a copy is not seen in the original, nor the other way round."""
    run, target = lived(lab), lab.thread_id()
    lab.saver.copy_thread(run.thread_id, target)
    copy, original = lab.run(target), lab.run(run.thread_id)
    copy.append("log", "in the copy")
    original.append("log", "in the original")
    copy.record(Pending("t", "output", "", "in the copy"), at=min(run.seen))
    copy.check_all()
    original.check_all()
    run.check_all()
    run.check_all(thread_id=target)
    equal([r.value for r in loaded(lab.saver, run.thread_id, min(run.seen)).pending], [0], "records")


@copying
def copy_outlives_the_original(lab: SaverLab) -> None:
    """A copy stays whole when the original is pruned and deleted."""
    run, target = lived(lab), lab.thread_id()
    lab.saver.copy_thread(run.thread_id, target)
    lab.saver.prune(run.thread_id, keep_last=1)
    run.check_all(thread_id=target)
    lab.saver.delete_thread(run.thread_id)
    run.check_all(lab.other(), thread_id=target)


@copying
def copy_of_a_copy(lab: SaverLab) -> None:
    """A copy can be copied, also after it has gone on."""
    run, first, second = lived(lab), lab.thread_id(), lab.thread_id()
    lab.saver.copy_thread(run.thread_id, first)
    middle = lab.run(first)
    middle.append("log", "in between")
    middle.release()
    lab.saver.copy_thread(first, second)
    run.check_all(thread_id=second)
    middle.check_all(thread_id=second)


@copying
def copy_of_a_long_list(lab: SaverLab) -> None:
    """A list of many parts grows on in a copy."""
    run, target = lab.run(), lab.thread_id()
    for number in range(50):
        run.append("log", number)
    run.release()
    lab.saver.copy_thread(run.thread_id, target)
    copy = lab.run(target)
    for number in range(50, 80):
        copy.append("log", number)
    copy.check_all()
    run.check_all()


@copying
def copy_is_free(lab: SaverLab) -> None:
    """A run claims a copy like any thread, also that of one whose run broke off, which is known of the copy too."""
    run, target = lab.run(), lab.thread_id()
    run.step({"k": 1})
    run.abandon()
    lab.saver.copy_thread(run.thread_id, target)
    that(lab.saver.open(target).abandoned, "it is not known that the run of the copy broke off")
    lab.run(target).step({"k": 2})


@copying
def copying_nothing(lab: SaverLab) -> None:
    """To copy a thread that is not there is no error, and makes none."""
    source, target = lab.thread_id(), lab.thread_id()
    lab.saver.copy_thread(source, target)
    check_gone(lab.saver, source)
    check_gone(lab.saver, target)


@copying
def copying_onto_another(lab: SaverLab) -> None:
    """A thread that is there is not overwritten by a copy; neither is the original by itself."""
    one, other = lived(lab), lived(lab)
    for target in (other.thread_id, one.thread_id):
        with refused(ValueError, target):
            lab.saver.copy_thread(one.thread_id, target)
    one.check_all()
    other.check_all()


@copying
def copying_while_owned(lab: SaverLab) -> None:
    """A thread that a run owns is not copied, and none is copied onto it."""
    run, idle = lab.run(), lab.finished()
    run.step()
    with refused(ConcurrentUpdateError, run.thread_id):
        lab.other().copy_thread(run.thread_id, lab.thread_id())
    with refused(ConcurrentUpdateError, run.thread_id):
        lab.other().copy_thread(idle.thread_id, run.thread_id)


# Pruning


def left(lab: SaverLab, run: Run, namespace: str = "") -> list[int]:
    """The positions of the checkpoints that are left, oldest first."""
    order = sorted(run.seen)
    return sorted(order.index(name) for name in ids(lab.saver.history(run.thread_id, namespace)))


def check_left(lab: SaverLab, run: Run, positions: list[int]) -> None:
    """These checkpoints are left, and read as they were."""
    equal(left(lab, run), positions, "checkpoints left")
    order = sorted(run.seen)
    run.seen = {order[index]: run.seen[order[index]] for index in positions}
    run.check_all(lab.other())


def aged(lab: SaverLab, *created_at: float) -> Run:
    """A finished run with a checkpoint of each of these times."""
    run = lab.run()
    for moment in created_at:
        run.step({"log": [*run.values.get("log", []), moment]}, created_at=moment, extended={"log": 1})
    return run.release()


@pruning
def keep_last(lab: SaverLab) -> None:
    """`keep_last` keeps so many of the newest checkpoints, each as it was; the rest is gone and counted."""
    run = lab.finished(10)
    equal(lab.saver.prune(run.thread_id, keep_last=4), 6, "number removed")
    check_left(lab, run, [6, 7, 8, 9])


@pruning
def keep_one(lab: SaverLab) -> None:
    """`keep_last=1` keeps the head, and pruning once more removes nothing."""
    run = lab.finished(10)
    equal(lab.saver.prune(run.thread_id, keep_last=1), 9, "number removed")
    equal(lab.saver.prune(run.thread_id, keep_last=1), 0, "number removed then")
    check_left(lab, run, [9])
    equal(run.head().checkpoint.id, max(run.seen), "head")


@pruning
def keep_more(lab: SaverLab) -> None:
    """To keep more than there is removes nothing."""
    run = lab.finished(3)
    equal(lab.saver.prune(run.thread_id, keep_last=3), 0)
    equal(lab.saver.prune(run.thread_id, keep_last=100), 0)
    check_left(lab, run, [0, 1, 2])


@pruning
def by_age(lab: SaverLab) -> None:
    """`older_than` keeps what is younger than so many seconds."""
    now = time.time()
    run = aged(lab, now - 5000, now - 4000, now - 300, now - 200)
    equal(lab.saver.prune(run.thread_id, older_than=1000), 2, "number removed")
    check_left(lab, run, [2, 3])


@pruning
def head_of_any_age(lab: SaverLab) -> None:
    """The head stays, however old it is."""
    run = aged(lab, 1.0, 2.0, 3.0)
    equal(lab.saver.prune(run.thread_id, older_than=1), 2, "number removed")
    check_left(lab, run, [2])


@pruning
def by_number_and_age(lab: SaverLab) -> None:
    """With `keep_last` and `older_than` stays what either of them keeps."""
    now = time.time()
    few, many = aged(lab, 1.0, 2.0, 3.0, now), aged(lab, 1.0, now, now, now)
    for run in (few, many):
        lab.saver.prune(run.thread_id, keep_last=2, older_than=1000)
    check_left(lab, few, [2, 3])
    check_left(lab, many, [1, 2, 3])


@pruning
def head_of_a_branch(lab: SaverLab) -> None:
    """A head that does not have the largest id stays as well."""
    run = lab.run()
    for name in ("10", "20", "30"):
        run.step({"log": [name]}, id=name)
    run.go_to("10")
    run.step({"log": ["fork"]}, id="15")
    run.release()
    equal(lab.saver.prune(run.thread_id, keep_last=1), 2, "number removed")
    equal(ids(lab.saver.history(run.thread_id)), ["30", "15"])
    equal(run.head().checkpoint.id, "15", "head")
    same_state(run.head().values, {"log": ["fork"]})
    same_state(loaded(lab.saver, run.thread_id, "30").values, {"log": ["30"]})


@pruning
def shared_parts(lab: SaverLab) -> None:
    """What the checkpoints that stay share with those that go stays: values, lists, what branches build on."""
    run = lab.run()
    run.step({"kept": "from the first", "map": {"a": 1}})
    for number in range(80):
        run.append("log", number)
    run.go_to(sorted(run.seen)[40])
    run.append("log", "fork")
    run.set_keys("map", {"b": 2})
    run.release()
    equal(lab.saver.prune(run.thread_id, keep_last=3), 80, "number removed")
    check_left(lab, run, [80, 81, 82])


@pruning
def space(lab: SaverLab) -> None:
    """Pruning gives back the space of what nobody sees any more."""
    run = lab.run()
    for number in range(10):
        run.step({"big": f"{number}" * 10_000})
    run.release()
    before = lab.saver.usage(run.thread_id)
    lab.saver.prune(run.thread_id, keep_last=2)
    after = lab.saver.usage(run.thread_id)
    equal((after.checkpoints, after.values), (2, 2), "rows")
    that(after.bytes < before.bytes / 4, f"{before.bytes} bytes before, {after.bytes} after")


@pruning
def records_of_what_stays(lab: SaverLab) -> None:
    """Records stay with the checkpoints that stay, and go with the others."""
    run = lab.run()
    for number in range(4):
        run.step()
        run.record(Pending("t", "question", "q", number))
    run.release()
    lab.saver.prune(run.thread_id, keep_last=2)
    equal([r.value for r in lab.saver.find_pending(run.thread_id, "question", "q")], [3, 2])
    equal(lab.saver.usage(run.thread_id).pending, 2, "rows")


@pruning
def nested_graphs(lab: SaverLab) -> None:
    """Each nested graph is pruned by itself and keeps its head."""
    run = lab.run()
    run.step()
    inner = run.nested("child")
    for number in range(5):
        inner.append("log", number)
    run.step()
    run.release()
    equal(lab.saver.prune(run.thread_id, keep_last=2), 3, "number removed")
    equal(left(lab, inner, "child"), [3, 4], "checkpoints left")
    same_state(inner.head().values, {"log": [0, 1, 2, 3, 4]})


@pruning
def nested_states(lab: SaverLab) -> None:
    """What a checkpoint that stays has behind it of a nested graph stays too, and is found after pruning again."""
    run = lab.run()
    inner = run.nested("child")
    made: list[tuple[str, str]] = []
    for _ in range(4):
        around = run.step()
        made.append((around, inner.step(metadata={"parents": {"": around}})))
    run.go_to(made[2][0])
    fork = run.step(source="fork")
    run.release()
    for _ in range(2):
        lab.saver.prune(run.thread_id, keep_last=1)
        equal(lab.other().find_on_way(run.thread_id, "child", fork), made[1][1], "behind the fork")


@pruning
def nested_tasks(lab: SaverLab) -> None:
    """A nested graph that ran for one task goes with the checkpoint of that task."""
    run = lab.run()
    for task in ("f" * 32, "e" * 32):
        around = run.step()
        run.nested(f"child:{task}").step(metadata={"parents": {"": around}})
    run.release()
    lab.saver.prune(run.thread_id, keep_last=1)
    equal(lab.saver.namespaces(run.thread_id), ["", f"child:{'e' * 32}"], "namespaces left")


@pruning
def going_on(lab: SaverLab) -> None:
    """A thread goes on after it was pruned, again and again."""
    run = lab.run()
    run.append("log", "first")
    run.release()
    for number in range(6):
        again = lab.run(run.thread_id)
        for part in range(8):
            again.append("log", f"{number}.{part}")
        again.release()
        lab.saver.prune(run.thread_id, keep_last=1 + number % 3)
    same_state(again.head(lab.other()).values, again.values)
    equal(len(again.values["log"]), 49, "items")


@pruning
def parents(lab: SaverLab) -> None:
    """Of a checkpoint that stays the parent is one that stays, or none."""
    run = lab.finished(6)
    lab.saver.prune(run.thread_id, keep_last=2)
    history = list(lab.saver.history(run.thread_id))
    equal([saved.checkpoint.parent_id for saved in history], [history[1].checkpoint.id, None])


@pruning
def owned_by_name(lab: SaverLab) -> None:
    """To prune a thread by name while a run owns it is refused, and removes nothing of it."""
    run = lab.run()
    for number in range(3):
        run.append("log", number)
    with refused(ConcurrentUpdateError, run.thread_id):
        lab.other().prune(run.thread_id, keep_last=1)
    run.check_all()


@pruning
def all_threads(lab: SaverLab) -> None:
    """Without names all threads are pruned; those that a run owns are passed over."""
    idle, busy = [lab.finished(3), lab.finished(4)], lab.run()
    for number in range(3):
        busy.append("log", number)
    equal(lab.other().prune(keep_last=1), 5, "number removed")
    for run in idle:
        equal(len(list(lab.saver.history(run.thread_id))), 1, "checkpoints left")
    busy.check_all()


@pruning
def several_by_name(lab: SaverLab) -> None:
    """Several threads may be named; the others stay, and unknown ones are no error."""
    one, two, other = lab.finished(3), lab.finished(3), lab.finished(3)
    equal(lab.saver.prune([one.thread_id, lab.thread_id(), two.thread_id], keep_last=1), 4)
    equal(lab.saver.prune(iter([one.thread_id]), keep_last=1), 0)
    equal(lab.saver.prune([], keep_last=1), 0)
    other.check_all()


@pruning
def strategies(lab: SaverLab) -> None:
    """The strategy "keep_latest" keeps the head, "delete" nothing at all."""
    run = lab.finished(4)
    equal(lab.saver.prune([run.thread_id], strategy="keep_latest"), 3, "keep_latest")
    check_left(lab, run, [3])
    equal(lab.saver.prune([run.thread_id], strategy="delete"), 1, "delete")
    check_gone(lab.saver, run.thread_id)


@pruning
def bad_arguments(lab: SaverLab) -> None:
    """To prune everything without a rule, or by two kinds of them or a senseless one, is a ValueError."""
    run = lab.finished(3)
    with refused(ValueError):
        lab.saver.prune()
    for rules in ({"keep_last": 0}, {"keep_last": -1}, {"keep_last": True}, {"strategy": "x"}):
        with refused(ValueError):
            lab.saver.prune(run.thread_id, **rules)
    with refused(ValueError):
        lab.saver.prune(run.thread_id, keep_last=1, strategy="delete")
    run.check_all()


@pruning
def without_checkpoints(lab: SaverLab) -> None:
    """A thread that was claimed and has no checkpoint yet is left alone."""
    run = lab.run()
    run.write(release=True)
    equal(lab.saver.prune(run.thread_id, keep_last=1), 0, "number removed")
    lab.run(run.thread_id).step({"k": 1})


# Deleting what runs have made


def made_by(lab: SaverLab, *run_ids: str) -> Run:
    """A finished thread with a checkpoint of each of these runs."""
    run = lab.run()
    for number, run_id in enumerate(run_ids):
        value = [*run.values.get("log", []), number]
        run.step({"log": value}, metadata={"run_id": run_id}, extended={"log": 1})
    return run.release()


@runs
def those_of_a_run(lab: SaverLab) -> None:
    """The checkpoints that a run has made are removed and counted; the others stay as they are."""
    a, b = lab.name(), lab.name()
    run = made_by(lab, a, b, a, b)
    equal(lab.other().delete_for_runs([a]), 2, "number removed")
    check_left(lab, run, [1, 3])


@runs
def head_goes_back(lab: SaverLab) -> None:
    """A thread that loses its head goes back to the newest checkpoint before it on its branch."""
    a, b = lab.name(), lab.name()
    run = made_by(lab, a, a, b, b)
    order = sorted(run.seen)
    lab.saver.delete_for_runs([b])
    equal(run.head().checkpoint.id, order[1], "head")
    again = lab.run(run.thread_id)
    again.append("log", "on")
    same_state(again.head().values, {"log": [0, 1, "on"]})


@runs
def whole_threads(lab: SaverLab) -> None:
    """A thread of which nothing is left goes away."""
    a = lab.name()
    run = made_by(lab, a, a)
    equal(lab.saver.delete_for_runs([a]), 2, "number removed")
    check_gone(lab.saver, run.thread_id)


@runs
def several_threads(lab: SaverLab) -> None:
    """Several runs are removed from all threads; threads of other runs stay."""
    a, b, c = lab.name(), lab.name(), lab.name()
    one, two, other = made_by(lab, c, a), made_by(lab, c, b, a), made_by(lab, c, c)
    equal(lab.saver.delete_for_runs([a, b]), 3, "number removed")
    check_left(lab, one, [0])
    check_left(lab, two, [0])
    other.check_all()


@runs
def runs_in_nested_graphs(lab: SaverLab) -> None:
    """What a run has made in nested graphs is removed as well."""
    a, b = lab.name(), lab.name()
    run = lab.run()
    run.step(metadata={"run_id": b})
    inner = run.nested("child")
    inner.step({"k": 1}, metadata={"run_id": b})
    inner.step({"k": 2}, metadata={"run_id": a})
    run.release()
    equal(lab.saver.delete_for_runs([a]), 1, "number removed")
    same_state(inner.head().values, {"k": 1})


@runs
def unknown_runs(lab: SaverLab) -> None:
    """Runs that made nothing are no error; neither parts nor patterns of an id count."""
    a = lab.name()
    run, without = made_by(lab, a, a), lab.finished()
    for unknown in ([], [lab.name()], ["%"], [a[:-1]], [a + "%"], [""], ["None"]):
        equal(lab.saver.delete_for_runs(unknown), 0, f"removed for {unknown}")
    run.check_all()
    without.check_all()


@runs
def runs_of_owned_threads(lab: SaverLab) -> None:
    """A thread that a run owns is refused, and nothing of it removed."""
    a = lab.name()
    run = lab.run()
    run.step(metadata={"run_id": a})
    with refused(ConcurrentUpdateError, run.thread_id):
        lab.saver.delete_for_runs([a])
    run.check_all()


# Usage


@usage
def rows_and_bytes(lab: SaverLab) -> None:
    """Usage counts checkpoints, values and records, and grows with what is stored."""
    run = lab.run()
    run.step({"a": "w" * 100, "b": "x" * 1000})
    first = lab.saver.usage(run.thread_id)
    equal((first.checkpoints, first.values, first.pending), (1, 2, 0), "rows")
    that(1000 <= first.bytes < 2000, f"{first.bytes} bytes")
    run.record(Pending("t", "output", "", "y" * 1000))
    run.step({"a": "z" * 100})
    second = lab.other().usage(run.thread_id)
    equal((second.checkpoints, second.values, second.pending), (2, 3, 1), "rows")
    that(2000 <= second.bytes < 3000, f"{second.bytes} bytes")


@usage
def nested_usage(lab: SaverLab) -> None:
    """Usage includes nested graphs, and nothing of other threads."""
    run, other = lab.run(), lab.run()
    run.step({"k": "v" * 100})
    other.step({"k": "x" * 10_000})
    run.nested("child").step({"k": "w" * 100})
    found = lab.saver.usage(run.thread_id)
    equal((found.checkpoints, found.values), (2, 2), "rows")
    that(found.bytes < 1000, f"{found.bytes} bytes")


@usage
def usage_of_nothing(lab: SaverLab) -> None:
    """The usage of a thread that is not there is zero."""
    equal(tuple(lab.saver.usage(lab.thread_id())), (0, 0, 0, 0))
