"""What outlives a run: the pools that blocking nodes run in, and the loop that serves async nodes of sync runs.

A graph that is called inside a node uses the pool and the loop one level down, so tasks only ever wait for tasks
of a deeper level: nested fan-outs cannot starve each other, and no loop waits for itself.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor, Future
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

WORKERS = 32

_lock = threading.Lock()
_pools: dict[tuple[int, int], NodePool] = {}

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


class NodePool(Executor):
    """Threads for blocking nodes, started as they are needed.

    They are daemons, which those of the standard library's pool are not: a process that is asked to end does
    not wait for a node that nobody waits for any more.

    One that takes up work wakes the next if there is more. So brief nodes are run by the few that are awake,
    and long ones, which give way to the others while they wait, by as many as there may be.
    """

    def __init__(self, workers: int, name: str) -> None:
        self._work: deque[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]] = deque()
        self._asleep: list[threading.Lock] = []
        self._waking = False  # one has been called that has not come yet
        self._ending = False  # one gives away a result, and comes for more work then
        self._changing = threading.Lock()
        self._workers = self._left = workers
        self._name = name

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()
        self._work.append((future, functools.partial(fn, **kwargs) if kwargs else fn, args))
        if not (self._waking or self._ending):
            self._wake()
        return future

    def _wake(self) -> None:
        """Call one more to work, unless one is on its way already: it will look for all there is."""
        with self._changing:
            if self._waking or not self._work or self._rouse() or not self._left:
                return
            self._left -= 1
            self._waking = True
        try:
            threading.Thread(target=self._serve, name=self._name, daemon=True).start()
        except RuntimeError as error:
            self._go_on_without(error)

    def _rouse(self) -> bool:
        """Wake one that sleeps, if one does. Called under the lock."""
        if not self._asleep:
            return False
        self._waking = True
        self._asleep.pop().release()
        return True

    def _go_on_without(self, error: RuntimeError) -> None:
        """No thread can be started: the work is for those there are, and fails if there is none."""
        with self._changing:
            self._left += 1
            self._waking = False
            if self._left < self._workers:
                if self._work:
                    self._rouse()
                return
        with suppress(IndexError):
            while True:
                future, *_ = self._work.popleft()
                if future.set_running_or_notify_cancel():
                    future.set_exception(error)

    def _serve(self) -> None:
        alarm = threading.Lock()
        alarm.acquire()
        while True:
            self._waking = False
            while self._work:
                try:
                    future, fn, args = self._work.popleft()
                except IndexError:  # another one was quicker
                    break
                if self._work and not self._waking:
                    self._wake()
                self._run(future, fn, args)
                del future, fn, args  # a waiting thread holds on to nothing
            with self._changing:
                if self._work:
                    continue
                self._asleep.append(alarm)
            alarm.acquire()

    def _run(self, future: Future[T], fn: Callable[..., T], args: tuple[Any, ...]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = fn(*args)
        except BaseException as error:
            self._ending = True
            future.set_exception(error)
        else:
            self._ending = True
            future.set_result(result)
        self._ending = False


def pool_at(depth: int) -> NodePool:
    """The shared pool for blocking nodes at this nesting depth."""
    key = (os.getpid(), depth)  # a forked child has none of its parent's threads
    pool = _pools.get(key)
    if pool is None:
        with _lock:
            pool = _pools.setdefault(key, NodePool(WORKERS, f"graphkit-{depth}"))
    return pool


@functools.lru_cache(maxsize=64)
def _loop_of(pid: int, depth: int) -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="graphkit-loop", daemon=True).start()
    return loop


class LoopFuture(Future[T]):
    """The result of a coroutine on the standing loop; cancelling it cancels the coroutine."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.loop = loop
        self.task: asyncio.Task[T | _Ending] | None = None

    def stop(self) -> None:
        """Cancel the coroutine. It has ended when this future is done."""
        self.loop.call_soon_threadsafe(lambda: self.task and self.task.cancel())


class _Ending:
    """`SystemExit` or `KeyboardInterrupt` from a coroutine: raised there they would end the loop for everybody."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def standing_loop(depth: int) -> asyncio.AbstractEventLoop:
    """The loop for async nodes of sync runs at this nesting depth; a deeper one may keep this one waiting."""
    with _lock:
        return _loop_of(os.getpid(), depth)


def submit_to_loop(
    work: Coroutine[Any, Any, T], depth: int, context: contextvars.Context | None = None
) -> LoopFuture[T]:
    """Start a coroutine on the standing loop, with this thread's context unless another is given."""
    context, loop = context or contextvars.copy_context(), standing_loop(depth)
    future: LoopFuture[T] = LoopFuture(loop)

    async def guarded() -> T | _Ending:
        try:
            return await work
        except (KeyboardInterrupt, SystemExit) as error:
            return _Ending(error)

    def start() -> None:
        future.task = loop.create_task(guarded(), context=context)
        future.task.add_done_callback(ended)

    def ended(task: asyncio.Task[T | _Ending]) -> None:
        work.close()  # it has not begun if the task was cancelled before its first step
        _settle(future, task)

    loop.call_soon_threadsafe(start)
    return future


def _settle(future: Future[T], task: asyncio.Task[T | _Ending]) -> None:
    if task.cancelled():
        future.set_exception(asyncio.CancelledError("the node's coroutine was cancelled"))
    elif (error := task.exception()) is not None:
        future.set_exception(error)
    elif isinstance(result := task.result(), _Ending):
        future.set_exception(result.error)
    else:
        future.set_result(result)


def run_in_standing_loop(work: Awaitable[T], depth: int) -> T:
    async def awaited() -> T:
        return await work

    return submit_to_loop(awaited(), depth).result()
