"""Safety 17: a cancelled run leaves no task, thread or descriptor behind, and what comes later is refused."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from sqlalchemy import make_url

from graphkit import StateGraph
from graphkit.drivers.pools import WORKERS
from graphkit_checkpoint.sql import SqlSaver
from tests.faults import fork_child
from tests.safety.conftest import Report
from tests.safety.figures import size
from tests.safety.forks import ENOUGH
from tests.safety.scenes import GIVEN, State, in_a_row, open_saver, thread

AT_ONCE = WORKERS
"""As many as a pool of blocking nodes has threads: then it has started them all."""
RUNS = AT_ONCE * size(2, 8)
"""Of each kind of node, on each database."""


class Held(NamedTuple):
    """What a process holds; only what it holds *more* than before is of interest."""

    tasks: int
    threads: int
    descriptors: int


def held() -> Held:
    gc.collect()
    # The one thread that renews leases ends by itself when no run of this process has had a claim for a while.
    names = [each.name for each in threading.enumerate()]
    assert names.count("graphkit-leases") <= 1
    return Held(
        len(asyncio.all_tasks()),
        len([name for name in names if name != "graphkit-leases"]),
        len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0,
    )


class Crowd:
    """Runs that are inside the second of three nodes, all at once. Blocking nodes wait for `release`."""

    def __init__(self, blocking: bool, database: str) -> None:
        self.inside: asyncio.Queue[None] = asyncio.Queue()
        self.release = threading.Event()
        self.left: asyncio.Queue[None] = asyncio.Queue()
        self.loop = asyncio.get_running_loop()
        node = self.blocked if blocking else self.waiting
        nodes: dict[str, Callable[..., Any]] = {"a": self.first, "b": node, "c": self.last}
        self.saver = open_saver(database)
        self.graph = in_a_row(StateGraph(State), nodes).compile(self.saver)
        self.blocking = blocking
        self.number = 0

    async def first(self, state: State) -> State:
        return {"log": ["a"]}

    async def waiting(self, state: State) -> State:
        self.inside.put_nowait(None)
        await asyncio.Event().wait()
        return {"log": ["b"]}

    def blocked(self, state: State) -> State:
        self.loop.call_soon_threadsafe(self.inside.put_nowait, None)
        self.release.wait()
        self.loop.call_soon_threadsafe(self.left.put_nowait, None)
        return {"log": ["b"]}

    async def last(self, state: State) -> State:
        raise AssertionError("the result of a cancelled node was used")

    async def cancel_some(self, count: int) -> list[str]:
        """Start runs, cancel them inside their node; the threads they ran on."""
        names = [f"{number}" for number in range(self.number, self.number + count)]
        self.number += count
        self.release.clear()
        runs = [asyncio.create_task(self.graph.ainvoke(GIVEN, thread(name))) for name in names]
        for _ in runs:
            await self.inside.get()
        for run in runs:
            run.cancel()
        ended = await asyncio.gather(*runs, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ended), ended
        self.release.set()
        for _ in runs if self.blocking else ():
            await self.left.get()
        return names

    def held(self) -> Held:
        """What is held beside connections, of which a pool keeps more or fewer."""
        if isinstance(self.saver, SqlSaver):
            self.saver.let_go()
            self.saver.engine.dispose()
        return held()


class Left(NamedTuple):
    runs: int
    more: Held
    late: int
    """Threads that have anything of a node that ended after it was cancelled."""


def cancel(blocking: bool, database: str, count: int) -> Left:
    async def through() -> Left:
        crowd = Crowd(blocking, database)
        # Pools, the saver's thread and the thread of leases outlive a run: they are there from here on.
        for _ in range(2):
            await crowd.cancel_some(AT_ONCE)
        before, names = crowd.held(), list[str]()
        for _ in range(0, count, AT_ONCE):
            names += await crowd.cancel_some(AT_ONCE)
        after, late = crowd.held(), 0
        for name in names:
            state = await crowd.graph.aget_state(thread(name))
            late += (state.values, state.next) != ({"log": ["in", "a"]}, ("b",))
        more = (max(0, now - then) for now, then in zip(after, before, strict=True))
        crowd.saver.close()
        return Left(len(names), Held(*more), late)

    return asyncio.run(through())


@pytest.mark.parametrize("blocking", [False, True], ids=["coroutines", "threads"])
def test_cancelled_runs_leave_nothing_behind(database: str, blocking: bool, reports: Report) -> None:
    left = fork_child(cancel, blocking, database, RUNS).result(ENOUGH)
    kind = f"{make_url(database).get_backend_name()}, {'blocking nodes' if blocking else 'coroutines'}"
    more = left.more
    reports(
        "17 cancelled",
        f"{kind}: {left.runs} runs; {more.tasks} tasks, {more.threads} threads, {more.descriptors} descriptors "
        f"left; {left.late} late writes",
    )
    assert left == Left(RUNS, Held(0, 0, 0), 0)
