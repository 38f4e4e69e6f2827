"""Nested graphs: histories of their own inside of a thread, under the thread's one claim."""

from __future__ import annotations

from graphkit_checkpoint.conformance.capabilities import Capability
from graphkit_checkpoint.conformance.lab import SaverLab, check_gone, ids, loaded, records
from graphkit_checkpoint.conformance.suite import Chapter
from graphkit_checkpoint.conformance.verdicts import equal, refused, same_state, that
from graphkit_checkpoint.errors import ConcurrentUpdateError, LeaseLostError
from graphkit_checkpoint.records import Pending

chapter: Chapter[SaverLab] = Chapter(Capability.NAMESPACES)

NAMES = ("child", "child|child", "child:1", "Child", "child ", "a|b:c|d", "日本", "x" * 300, "'; --", "%")


@chapter
def own_heads(lab: SaverLab) -> None:
    """A nested graph has a head of its own; that of the thread stays."""
    run = lab.run()
    root = run.step({"k": "root"})
    inner = run.nested("child")
    inner.step({"k": "inner"})
    last = inner.step({"k": "inner again"})
    equal((run.head().checkpoint.id, inner.head().checkpoint.id), (root, last))
    same_state(run.head().values, {"k": "root"})
    inner.check_all(lab.other())


@chapter
def names(lab: SaverLab) -> None:
    """Nested graphs may have any names, and those that look alike are kept apart."""
    run = lab.run()
    run.step({"k": "root"})
    nested = [run.nested(name) for name in NAMES]
    for inner in nested:
        inner.append("log", inner.namespace)
        inner.append("log", "more")
    for inner in nested:
        same_state(inner.head(lab.other()).values, {"log": [inner.namespace, "more"]})


@chapter
def listed(lab: SaverLab) -> None:
    """The namespaces of a thread that begin with a text, in order, whatever it looks like."""
    run, other = lab.run(), lab.run()
    run.step()
    other.step()
    other.nested("child").step()
    equal(lab.saver.namespaces(run.thread_id), [""])
    for name in NAMES:
        run.nested(name).step()
    equal(lab.other().namespaces(run.thread_id), sorted(["", *NAMES]))
    for under in ("child", "child|", "child:", "%", "日", "nothing"):
        found = sorted(name for name in NAMES if name.startswith(under))
        equal(lab.saver.namespaces(run.thread_id, under), found, under)
    equal(lab.saver.namespaces(lab.thread_id()), [], "of a thread that does not exist")


@chapter
def on_the_way(lab: SaverLab) -> None:
    """Of a nested graph, the newest checkpoint that a checkpoint of the root has behind it is found; what ran beside a
    checkpoint is not behind a fork of it."""
    run = lab.run()
    inner = run.nested("child")
    made: list[tuple[str, str]] = []
    for _ in range(3):
        around = run.step()
        made.append((around, inner.step(metadata={"parents": {"": around}})))
    (first, first_inside), (second, second_inside), (third, third_inside) = made

    def found(at: str) -> str | None:
        return lab.other().find_on_way(run.thread_id, "child", at)

    equal([found(first), found(second), found(third)], [first_inside, second_inside, third_inside])
    run.go_to(second)
    fork = run.step(source="fork")
    equal(found(fork), first_inside, "after a fork")
    equal(found(run.step()), first_inside, "further on in a branch")
    run.go_to(first)
    equal(found(run.step(source="fork")), None, "after a fork of the first")
    equal(found("unknown"), third_inside, "at a checkpoint that is not stored")
    unwritten: dict[str, tuple[str | None, set[str]]] = {
        second_inside: (second, {second, "unwritten"}),
        first_inside: (second, {"unwritten"}),
        third_inside: (None, {third}),
    }
    for expected, (at, behind) in unwritten.items():
        got = lab.other().find_on_way(run.thread_id, "child", at, behind)
        equal(got, expected, "for a run that has not written its checkpoints")


@chapter
def histories_are_kept_apart(lab: SaverLab) -> None:
    """Each history has its own checkpoints, also under the same ids and channels."""
    run = lab.run()
    inner = run.nested("child")
    for name in ("1", "2", "3"):
        run.step({"k": f"root {name}"}, id=name)
    for name in ("1", "2"):
        inner.claim.made = True
        inner.step({"k": f"child {name}"}, id=name)
    equal(ids(lab.saver.history(run.thread_id)), ["3", "2", "1"])
    equal(ids(lab.saver.history(run.thread_id, "child")), ["2", "1"])
    same_state(loaded(lab.saver, run.thread_id, "2", "child").values, {"k": "child 2"})
    same_state(loaded(lab.saver, run.thread_id, "2").values, {"k": "root 2"})
    equal(lab.saver.load(run.thread_id, "child", "3"), None, "a checkpoint of the root")


@chapter
def unknown_namespace(lab: SaverLab) -> None:
    """A nested graph that never ran has no checkpoint and no history."""
    run = lab.finished()
    for name in ("child", "c", "chil%", "a\0b", "\ud800"):
        state, saved = lab.saver.find(run.thread_id, name)
        that(state is not None and saved is None, f"{name!r} finds {saved}")
        equal(list(lab.saver.history(run.thread_id, name)), [], f"history of {name!r}")


@chapter
def one_claim(lab: SaverLab) -> None:
    """A nested graph writes under the claim of its thread, and not without it."""
    run = lab.run()
    run.step({"k": 1})
    inner = run.nested("child")
    inner.step({"k": 1})
    with refused(ConcurrentUpdateError, run.thread_id):
        lab.saver.open(run.thread_id)
    run.release()
    with refused(LeaseLostError, run.thread_id):
        inner.step({"k": 2})
    same_state(inner.head().values, {"k": 1})


@chapter
def counted_by_the_thread(lab: SaverLab) -> None:
    """What a nested graph writes makes a claim fail that has seen the thread before."""
    run = lab.run()
    run.step()
    run.abandon()
    late = lab.run(run.thread_id)
    run.nested("child").step({"k": 1})
    with refused(ConcurrentUpdateError, run.thread_id):
        late.step({"k": "late"})


@chapter
def nested_pending(lab: SaverLab) -> None:
    """Records of a nested graph stay beside its checkpoint, and are not found among the thread's."""
    run = lab.run()
    run.step(id="1")
    inner = run.nested("child")
    inner.step(id="1")
    inner.record(Pending("t", "question", "q", "inner"))
    run.record(Pending("t", "question", "q", "root"))
    equal(records(inner.head().pending), [("t", "question", "q", "inner")])
    equal([r.value for r in lab.saver.find_pending(run.thread_id, "question", "q")], ["root"])


@chapter
def nested_logs(lab: SaverLab) -> None:
    """Lists of nested graphs grow, fold and fork like those of the thread."""
    run = lab.run()
    run.append("log", "root")
    inner = run.nested("child")
    for number in range(70):
        inner.append("log", number)
    inner.go_to(sorted(inner.seen)[20])
    inner.append("log", "fork")
    inner.check_all(lab.other())
    run.check_all()


@chapter
def state_shows_the_thread(lab: SaverLab) -> None:
    """A checkpoint of a nested graph comes with the state of the whole thread."""
    run = lab.run()
    root = run.step()
    inner = run.nested("child")
    inner.step()
    found = inner.head()
    equal(found.thread.head, root, "head of the thread")
    that(found.thread.holder is not None and found.thread.holder.token == run.token, "the owner is missing")


@chapter
def deleted_together(lab: SaverLab) -> None:
    """Deleting a thread deletes its nested graphs, and one of the same name begins anew."""
    run = lab.run()
    run.step()
    inner = run.nested("child")
    inner.append("log", 1)
    inner.record(Pending("t", "question", "q", 1))
    run.release()
    lab.saver.delete_thread(run.thread_id)
    check_gone(lab.saver, run.thread_id, ("", "child"))
    again = lab.run(run.thread_id)
    again.step()
    equal(lab.saver.load(run.thread_id, "child"), None, "the nested graph's head")
    nested = again.nested("child")
    nested.append("log", 2)
    same_state(nested.head().values, {"log": [2]})


@chapter
def not_a_thread(lab: SaverLab) -> None:
    """A thread is listed once, however many nested graphs it has."""
    run = lab.run()
    run.step()
    for name in ("a", "b"):
        run.nested(name).step()
    equal(lab.saver.thread_ids().count(run.thread_id), 1)
