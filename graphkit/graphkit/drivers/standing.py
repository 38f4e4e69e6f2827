"""What outlives a run: the pools that blocking nodes run in, and the loop that serves async nodes of sync runs.

A graph that is called inside a node uses the pool one level down, so tasks only ever wait for tasks of a
deeper level and nested fan-outs cannot starve each other.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import os
import threading
from collections.abc import Awaitable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

WORKERS = 32

_lock = threading.Lock()
_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}


def pool_at(depth: int) -> ThreadPoolExecutor:
    """The shared pool for blocking nodes at this nesting depth."""
    key = (os.getpid(), depth)  # a forked child has none of its parent's threads
    pool = _pools.get(key)
    if pool is None:
        with _lock:
            pool = _pools.setdefault(key, ThreadPoolExecutor(WORKERS, f"graphkit-{depth}"))
    return pool


@functools.lru_cache(maxsize=1)
def _loop_of(pid: int) -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="graphkit-loop", daemon=True).start()
    return loop


class LoopFuture(Future[T]):
    """The result of a coroutine on the standing loop; cancelling it cancels the coroutine."""

    task: asyncio.Task[T] | None = None

    def stop(self, patience: float) -> None:
        """Cancel the coroutine and wait until it has ended, at most `patience` seconds."""
        ended = threading.Event()
        self.add_done_callback(lambda _: ended.set())
        standing_loop().call_soon_threadsafe(lambda: self.task and self.task.cancel())
        ended.wait(patience)


def standing_loop() -> asyncio.AbstractEventLoop:
    with _lock:
        return _loop_of(os.getpid())


def submit_to_loop(work: Coroutine[Any, Any, T]) -> LoopFuture[T]:
    """Start a coroutine on the standing loop with this thread's context."""
    future: LoopFuture[T] = LoopFuture()
    context = contextvars.copy_context()
    loop = standing_loop()

    def start() -> None:
        future.task = loop.create_task(work, context=context)
        future.task.add_done_callback(lambda task: _settle(future, task))

    loop.call_soon_threadsafe(start)
    return future


def _settle(future: Future[T], task: asyncio.Task[T]) -> None:
    if task.cancelled():
        future.set_exception(asyncio.CancelledError("the node's coroutine was cancelled"))
    elif (error := task.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(task.result())


def run_in_standing_loop(work: Awaitable[T]) -> T:
    async def awaited() -> T:
        return await work

    return submit_to_loop(awaited()).result()
