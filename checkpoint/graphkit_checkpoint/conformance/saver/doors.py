"""The async doors: the same results, in the order of the calls, without keeping the event loop waiting."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from graphkit_checkpoint.base import BaseCheckpointSaver
from graphkit_checkpoint.conformance.capabilities import Capability
from graphkit_checkpoint.conformance.lab import LONG, Run, SaverLab, check_gone, ids
from graphkit_checkpoint.conformance.suite import Chapter
from graphkit_checkpoint.conformance.verdicts import PATIENCE, equal, refused, same_state, that
from graphkit_checkpoint.errors import ConcurrentUpdateError, LeaseLostError, UnserializableStateError

chapter: Chapter[SaverLab] = Chapter(Capability.DOORS)
off_loop: Chapter[SaverLab] = Chapter(Capability.OFF_LOOP)

T = TypeVar("T")


def through(work: Coroutine[Any, Any, T]) -> T:
    """Run it in an event loop of its own."""

    async def patiently() -> T:
        return await asyncio.wait_for(work, PATIENCE)

    return asyncio.run(patiently())


@chapter
def finding(lab: SaverLab) -> None:
    """`afind` and `aload` find what `find` and `load` do."""
    run = lab.finished()

    async def look() -> None:
        for checkpoint_id in (None, *run.seen, "unknown"):
            state, saved = await lab.saver.afind(run.thread_id, "", checkpoint_id)
            again = await lab.saver.aload(run.thread_id, "", checkpoint_id)
            expected = lab.saver.load(run.thread_id, "", checkpoint_id)
            that(state is not None, "the thread was not found")
            for found in (saved, again):
                equal(found and found.checkpoint.id, expected and expected.checkpoint.id)
                same_state(found.values if found else {}, expected.values if expected else {})
        equal(await lab.saver.afind(lab.thread_id()), (None, None), "afind() of nothing")

    through(look())


@chapter
def history(lab: SaverLab) -> None:
    """`ahistory` lists what `history` lists, with the same options, page by page."""
    run = lab.run()
    for number in range(70):
        run.step({"n": number}, metadata={"odd": number % 2})
    middle = sorted(run.seen)[35]

    async def look(**options: Any) -> list[str]:
        return ids([saved async for saved in lab.saver.ahistory(run.thread_id, **options)])

    for options in ({}, {"before": middle}, {"limit": 40}, {"filter": {"odd": 1}, "limit": 3}, {"limit": 0}):
        equal(through(look(**options)), ids(lab.saver.history(run.thread_id, **options)), f"{options}")


@chapter
def unfinished_history(lab: SaverLab) -> None:
    """An `ahistory` that is not read to its end keeps nobody from anything."""
    run = lab.finished(5)

    async def look() -> None:
        async for saved in lab.saver.ahistory(run.thread_id):
            equal(saved.checkpoint.id, run.last, "the newest")
            break
        await lab.saver.adelete_thread(run.thread_id)

    through(look())
    check_gone(lab.saver, run.thread_id)


@chapter
def committing(lab: SaverLab) -> None:
    """`acommit` writes, claims and releases as `commit` does."""
    run = lab.run()

    async def write() -> None:
        for number in range(5):
            point = run.point({"log": [LONG, *range(number)]})
            await lab.saver.acommit(run.draft(point))
            run.written(point)
        await lab.saver.acommit(run.draft(release=True))

    through(write())
    run.check_all()
    equal(run.head().thread.holder, None, "owner")


@chapter
def order_of_calls(lab: SaverLab) -> None:
    """Commits that are begun together are written in the order of the calls."""
    run = lab.run()

    async def write() -> None:
        begun = []
        for number in range(30):
            point = run.point({"log": [LONG, *range(number)]}, extended={"log": 1} if number else {})
            begun.append(asyncio.ensure_future(lab.saver.acommit(run.draft(point))))
            await asyncio.sleep(0)  # so that it has been called
            run.written(point)
        await asyncio.gather(*begun)

    through(write())
    run.check_all()
    equal(run.head().checkpoint.id, max(run.seen), "head")


@chapter
def values_of_the_call(lab: SaverLab) -> None:
    """`acommit` writes values as they were when it was called."""
    run = lab.run()
    items = [1]

    async def write() -> None:
        begun = asyncio.ensure_future(lab.saver.acommit(run.draft(run.point({"log": items}))))
        await asyncio.sleep(0)
        items.append(2)
        await begun

    through(write())
    same_state(run.head().values, {"log": [1]})


@chapter
def deleting(lab: SaverLab) -> None:
    """`adelete_thread` deletes, and `athread_ids` lists what is left."""
    run, other = lab.finished(), lab.finished()

    async def work() -> list[str]:
        await lab.saver.adelete_thread(run.thread_id)
        return await lab.saver.athread_ids()

    listed = through(work())
    that(run.thread_id not in listed and other.thread_id in listed, f"listed: {listed}")
    equal(listed, lab.saver.thread_ids())


@chapter
def copying_and_pruning(lab: SaverLab) -> None:
    """`acopy_thread`, `aprune` and `ausage` do what their sync forms do."""
    run, target = lab.finished(5), lab.thread_id()

    async def work() -> tuple[int, Any]:
        await lab.saver.acopy_thread(run.thread_id, target)
        return await lab.saver.aprune([target], keep_last=2), await lab.saver.ausage(target)

    removed, used = through(work())
    equal(removed, 3, "removed")
    equal(used, lab.saver.usage(target), "usage")
    equal(used.checkpoints, 2, "checkpoints of the copy")
    run.check_all()


@chapter
def taking_back(lab: SaverLab) -> None:
    """`adelete_for_runs`, `aset_ttl` and `adelete_expired` do what their sync forms do."""
    run, name = lab.run(), lab.name()
    run.step({"n": 0})
    run.step({"n": 1}, metadata={"run_id": name})
    run.release()

    async def work() -> tuple[int, list[str]]:
        await lab.saver.aset_ttl(run.thread_id, math.inf)
        return await lab.saver.adelete_for_runs([name]), await lab.saver.adelete_expired()

    removed, expired = through(work())
    equal(removed, 1, "removed")
    that(run.thread_id not in expired, "the thread has expired")
    same_state(run.head().values, {"n": 0})


@chapter
def errors(lab: SaverLab) -> None:
    """Errors come through the async doors as they are."""
    run = lab.run()
    run.step()
    stranger = lab.run(lab.finished().thread_id)
    stranger.claim.made = True

    async def fails(error: type[Exception], work: Callable[[], Awaitable[Any]]) -> None:
        with refused(error):
            await work()

    async def work() -> None:
        saver = lab.saver
        await fails(ConcurrentUpdateError, lambda: saver.adelete_thread(run.thread_id))
        await fails(ConcurrentUpdateError, lambda: saver.aprune(run.thread_id, keep_last=1))
        await fails(ValueError, lambda: saver.aprune())
        await fails(ValueError, lambda: saver.aset_ttl(run.thread_id, 0))
        await fails(LeaseLostError, lambda: saver.acommit(stranger.draft()))
        await fails(UnserializableStateError, lambda: saver.acommit(run.draft(run.point({"bad": object()}))))

    through(work())


@chapter
def one_loop_after_the_other(lab: SaverLab) -> None:
    """One saver serves one event loop after the other, and sync callers in between."""
    run = lab.run()
    for number in range(3):
        point = run.point({"n": number})
        through(lab.saver.acommit(run.draft(point)))
        run.written(point)
        run.step({"sync": number})
    run.check_all()


@chapter
def several_loops(lab: SaverLab) -> None:
    """One saver serves event loops in several threads at once."""
    runs = [lab.run() for _ in range(3)]
    failures: list[BaseException] = []

    async def write(run: Run) -> None:
        for number in range(10):
            point = run.point({"n": number})
            await lab.saver.acommit(run.draft(point))
            run.written(point)
            found = await lab.saver.aload(run.thread_id)
            equal(found and found.checkpoint.id, point.id, "head")

    def loop(run: Run) -> None:
        try:
            through(write(run))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=loop, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    for run in runs:
        run.check_all()


@chapter
def cancelled(lab: SaverLab) -> None:
    """A commit whose caller is cancelled is written whole or not at all, and the saver serves others."""
    run = lab.run()
    run.step({"n": 0})

    async def work() -> None:
        point = run.point({"n": 1, "log": [1, 2]})
        begun = asyncio.ensure_future(lab.saver.acommit(run.draft(point)))
        await asyncio.sleep(0)
        begun.cancel()
        await asyncio.wait([begun])
        # Served in the order of calls: what was begun has ended when this returns.
        found = await lab.saver.aload(run.thread_id)
        values = found.values if found else {}
        that(values in ({"n": 0}, {"n": 1, "log": [1, 2]}), f"half of a commit: {values}")

    through(work())


@chapter
def async_with(lab: SaverLab) -> None:
    """A saver may be used in `async with`, and `asetup` called again."""

    async def work() -> None:
        async with lab.open() as saver:
            await saver.asetup()
            await saver.asetup()
            equal(await saver.aload(lab.thread_id()), None)

    through(work())


DOORS: Mapping[str, Callable[[BaseCheckpointSaver, Run], Awaitable[Any]]] = {
    "looking": lambda saver, run: saver.aload(run.thread_id),
    "committing": lambda saver, run: saver.acommit(run.draft()),
    "listing": lambda saver, run: saver.athread_ids(),
    "pruning": lambda saver, run: saver.aprune([], keep_last=1),
    "copying": lambda saver, run: saver.acopy_thread("nothing", "nobody"),
}


@contextmanager
def watched(saver: BaseCheckpointSaver, seen: list[int]) -> Iterator[None]:
    """Note by which threads the saver's tables are used."""

    def noting(call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any, **options: Any) -> Any:
            seen.append(threading.get_ident())
            return call(*args, **options)

        return noted

    names = ("reading", "writing", "write")
    for name in names:
        setattr(saver, name, noting(getattr(saver, name)))
    try:
        yield
    finally:
        for name in names:
            delattr(saver, name)


@off_loop.each(DOORS)
def other_thread(lab: SaverLab, door: Callable[[BaseCheckpointSaver, Run], Awaitable[Any]]) -> None:
    """The event loop turns while the saver works in another thread: {case}."""
    run = lab.run()
    run.step()
    turns, seen = 0, list[int]()

    async def turn() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def work() -> None:
        turning = asyncio.ensure_future(turn())
        await asyncio.sleep(0)
        before = turns
        await door(lab.saver, run)
        that(turns > before, "the event loop did not turn")
        turning.cancel()

    with watched(lab.saver, seen):
        through(work())
    that(threading.get_ident() not in seen, "the saver worked in the thread of the event loop")


@off_loop
def history_off_loop(lab: SaverLab) -> None:
    """A history is read off the event loop, every page of it."""
    run = lab.run()
    for number in range(70):
        run.step({"n": number})
    seen: list[int] = []

    async def look() -> int:
        return len([saved async for saved in lab.saver.ahistory(run.thread_id)])

    with watched(lab.saver, seen):
        equal(through(look()), 70, "entries")
    that(threading.get_ident() not in seen, "the saver worked in the thread of the event loop")
