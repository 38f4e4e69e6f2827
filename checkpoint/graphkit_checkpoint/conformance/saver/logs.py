"""Lists and dicts that grow: every checkpoint sees as much of them as there was."""

from __future__ import annotations

import random

from graphkit_checkpoint.conformance.capabilities import Capability
from graphkit_checkpoint.conformance.lab import LONG, Run, SaverLab
from graphkit_checkpoint.conformance.suite import Chapter
from graphkit_checkpoint.conformance.verdicts import same_state, that

chapter: Chapter[SaverLab] = Chapter(Capability.LOGS)


@chapter
def list_extended(lab: SaverLab) -> None:
    """A list that grows is read at every checkpoint as long as it was there."""
    run = lab.begun()
    for number in range(12):
        run.append("log", number, {"n": number})
    run.check_all(lab.other())


@chapter
def dict_extended(lab: SaverLab) -> None:
    """A dict that gets keys has them at every checkpoint in the order in which they came."""
    run = lab.begun()
    run.set_keys("map", {"z": 1, "a": 2})
    run.set_keys("map", {"m": 3})
    run.set_keys("map", {1: "one", (2,): "two", None: "none"})
    run.check_all(lab.other())


@chapter
def keys_set_again(lab: SaverLab) -> None:
    """A key that is set again keeps its place, and older checkpoints its old value."""
    run = lab.begun()
    run.set_keys("map", {"a": 1, "b": 2, "c": 3})
    for number in range(30):
        run.set_keys("map", {"b": number})
    run.set_keys("map", {"c": "last", "d": 4})
    run.check_all(lab.other())


@chapter
def keys_removed(lab: SaverLab) -> None:
    """A dict that loses keys has lost them, and only from there on."""
    run = lab.run()
    run.set_keys("map", {"a": LONG, "b": LONG})
    run.step({"map": {"b": LONG}})
    run.set_keys("map", {"a": "again"})
    run.step({"map": {"a": "again", "b": LONG}})
    run.check_all(lab.other())


@chapter
def unannounced_growth(lab: SaverLab) -> None:
    """A list or dict that has grown is read rightly, also where the commit does not say so."""
    run = lab.run()
    for number in range(10):
        run.step({"log": [LONG] * number, "map": {str(n): LONG for n in range(number)}})
    run.check_all(lab.other())


@chapter
def changed_in_place(lab: SaverLab) -> None:
    """An old item that was changed in place is read as changed, and as it was before."""
    run = lab.run()
    run.step({"log": [[1], LONG], "map": {"a": [1], "b": LONG}})
    run.step({"log": [[1, "x"], LONG, [3]], "map": {"a": [1, "x"], "b": LONG, "c": [3]}})
    run.step({"log": [[1, "x"], LONG, [3, "y"]], "map": {"a": [1, "x"], "b": LONG, "c": [3, "y"]}})
    run.check_all(lab.other())


@chapter
def wrong_announcement(lab: SaverLab) -> None:
    """A list that has another length than its extension says is stored as it is."""
    run = lab.run()
    run.step({"log": [1, 2, LONG]})
    run.step({"log": [2, LONG, 4]}, extended={"log": 1})
    run.step({"log": [2, LONG, 4, 5, 6]}, extended={"log": 1})
    run.check_all(lab.other())


@chapter
def shrinking(lab: SaverLab) -> None:
    """A list may get shorter, empty, and longer again."""
    run = lab.run()
    for value in ([LONG, 2, 3], [LONG, 2], [], [9], [9, LONG], [1, LONG, 3, 4]):
        run.step({"log": value})
    run.append("log", 5)
    run.check_all(lab.other())


@chapter
def changing_kind(lab: SaverLab) -> None:
    """A channel may hold a list, then a dict, then a scalar, and a list again."""
    run = lab.run()
    for value in ([LONG], {"a": LONG}, "text", (1, 2), [1, 2], {}, {1: LONG}, None, [LONG]):
        run.step({"k": value})
    run.append("k", 4)
    run.check_all(lab.other())


@chapter
def no_items(lab: SaverLab) -> None:
    """An extension by nothing changes nothing."""
    run = lab.begun()
    run.append("log", 1)
    run.append("log")
    run.set_keys("map", {"a": 1})
    run.set_keys("map", {})
    run.append("log", 2)
    run.check_all(lab.other())


@chapter
def several_channels(lab: SaverLab) -> None:
    """Several lists and dicts grow at once, each at its own pace."""
    run = lab.run()
    for number in range(20):
        run.step(
            {
                "a": [LONG] * (number + 1),
                "b": [LONG, *range(2 * number + 1)],
                "c": {str(n): LONG for n in range(number + 1)},
            },
            extended={"a": 1, "b": 2, "c": [str(number)]},
        )
    run.check_all(lab.other())


@chapter
def several_in_one_commit(lab: SaverLab) -> None:
    """A list may grow several times in one commit."""
    run = lab.begun()
    run.append("log", 0)
    first = run.point({"log": [LONG, 0, 1]}, extended={"log": 1})
    second = run.point({"log": [LONG, 0, 1, 2, 3]}, parent_id=first.id, extended={"log": 2})
    run.write(first, second)
    run.append("log", 4)
    run.check_all(lab.other())


@chapter
def small(lab: SaverLab) -> None:
    """A list or dict that holds little is read rightly at every checkpoint, also when it has grown large."""
    run = lab.run()
    for number in range(90):
        run.append("log", number % 10)
        if number % 3 == 0:
            run.set_keys("map", {number % 40: number})
    run.check_all(lab.other())
    run.step({"log": [1], "map": {"a": 1}})
    run.append("log", 2)
    run.go_to(sorted(run.seen)[5])
    run.append("log", LONG)
    run.set_keys("map", {"b": LONG})
    run.check_all(lab.other())


@chapter
def folding(lab: SaverLab) -> None:
    """Hundreds of small extensions are read rightly at every checkpoint, however they are put together."""
    run = lab.run()
    for number in range(140):
        run.append("log", f"item {number}")
    run.check_all(lab.other())


@chapter
def folding_dicts(lab: SaverLab) -> None:
    """Hundreds of small extensions of a dict are read rightly at every checkpoint."""
    run = lab.run()
    for number in range(75):
        run.set_keys("map", {f"key {number}": number})
    run.check_all(lab.other())


@chapter
def large_items(lab: SaverLab) -> None:
    """Small and large items may follow one another."""
    run = lab.run()
    for number in range(40):
        run.append("log", "x" * (40_000 if number % 9 == 0 else 10))
    same_state(run.head(lab.other()).values, run.values)
    run.go_to(sorted(run.seen)[23])
    same_state(run.values, run.seen[sorted(run.seen)[23]])


@chapter
def growth_is_linear(lab: SaverLab) -> None:
    """A list that grows by small steps takes space for its items, not for each state of it."""
    run = lab.run()
    for number in range(80):
        run.append("log", f"{number:0100}")
    size = lab.saver.usage(run.thread_id).bytes
    that(size < 4 * 80 * 100, f"80 items of 100 bytes take {size} bytes")


@chapter
def reopened_log(lab: SaverLab) -> None:
    """A list goes on growing in one run after the other, each with a saver of its own."""
    run = lab.begun()
    run.append("log", 0)
    seen = dict(run.seen)
    run.release()
    for number in range(1, 70):
        again = lab.run(run.thread_id, saver=lab.saver if number % 10 else lab.other())
        again.append("log", number)
        again.release()
        seen.update(again.seen)
    run.seen = seen
    run.check_all(lab.other())


def grown(lab: SaverLab, steps: int) -> Run:
    run = lab.run()
    for number in range(steps):
        run.step(
            {"log": [LONG, *range(number)], "map": {n: n if n else LONG for n in range(number + 1)}},
            extended={"log": 1, "map": [number]},
        )
    return run


@chapter
def fork(lab: SaverLab) -> None:
    """A branch from the middle goes its own way, and the first one stays."""
    run = grown(lab, 6)
    run.go_to(sorted(run.seen)[2])
    run.append("log", "fork")
    run.set_keys("map", {"fork": 1, 0: "changed"})
    run.append("log", "more")
    run.check_all(lab.other())


@chapter
def forks_of_one_checkpoint(lab: SaverLab) -> None:
    """Several branches may begin at one checkpoint."""
    run = grown(lab, 4)
    origin = sorted(run.seen)[1]
    for number in range(5):
        run.go_to(origin)
        run.append("log", f"branch {number}")
        run.append("log", f"more of {number}")
    run.check_all(lab.other())


@chapter
def forks_of_forks(lab: SaverLab) -> None:
    """Branches of branches, many deep, are each read along their own way."""
    run = grown(lab, 3)
    for number in range(12):
        before = run.last
        run.append("log", f"left of {number}")
        run.append("log", f"more left of {number}")
        run.go_to(before or "")
        run.append("log", f"right of {number}")
        run.set_keys("map", {f"right of {number}": number})
    run.check_all(lab.other())


@chapter
def fork_inside_a_fold(lab: SaverLab) -> None:
    """A branch may begin where the extensions have been put together since."""
    run = grown(lab, 80)
    order = sorted(run.seen)
    for index in (40, 70, 64, 1, 79):
        run.go_to(order[index])
        run.append("log", f"fork at {index}")
        run.set_keys("map", {f"fork at {index}": index})
    run.check_all(lab.other())


@chapter
def fork_then_main(lab: SaverLab) -> None:
    """After a branch the first way may go on from its own end."""
    run = grown(lab, 5)
    end = run.last or ""
    run.go_to(sorted(run.seen)[1])
    run.append("log", "fork")
    run.go_to(end)
    run.append("log", "main")
    run.append("log", "main again")
    run.check_all(lab.other())


@chapter
def fork_before_a_list_began(lab: SaverLab) -> None:
    """A branch from before a list was there does not see it."""
    run = lab.run()
    start = run.step({"k": 1})
    run.append("log", "first way", LONG)
    run.go_to(start)
    run.step({"k": 2})
    run.append("log", "second way", LONG)
    run.check_all(lab.other())


@chapter.each({f"program {seed}": seed for seed in range(3)})
def random_programs(lab: SaverLab, seed: int) -> None:
    """Time travel to every checkpoint of a thread that was grown, cut, cleared and forked at random: {case}."""
    chance = random.Random(seed)
    run = lab.run()
    run.step({"log": [], "map": {}})
    for number in range(60):
        act = chance.randrange(8)
        if act < 3:
            run.append("log", *(f"{number}.{n}" for n in range(chance.randrange(4))))
        elif act < 5:
            run.set_keys("map", {chance.randrange(20): number for _ in range(chance.randrange(3))})
        elif act == 5:
            run.step({"log": run.values.get("log", [])[: chance.randrange(9)], "k": number})
        elif act == 6:
            run.step(cleared=[name for name in ("log", "map", "k") if chance.random() < 0.3])
        else:
            run.go_to(chance.choice(sorted(run.seen)))
    run.check_all(lab.other())
