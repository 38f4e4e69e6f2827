"""The pools that blocking nodes run in. They outlive a run.

A graph that is called inside a node uses the pool one level down, so tasks only ever wait for tasks of a deeper level:
nested fan-outs cannot starve each other.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")

WORKERS = 32

_lock = threading.Lock()
_pools: dict[tuple[int, int], NodePool] = {}

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


class Work(Protocol):
    """What a thread of a pool does, and then tells whoever wants to know. Nothing of it raises."""

    def run(self) -> bool:
        """Do it. False if nobody wants it any more."""

    def report(self) -> None:
        """It is done: say so."""

    def refuse(self, error: RuntimeError) -> None:
        """There is no thread for it: say so."""


class _Promised(Generic[T]):
    """Work with a future."""

    __slots__ = ("_error", "_fn", "_future", "_result")

    def __init__(self, future: Future[T], fn: Callable[[], T]) -> None:
        self._future = future
        self._fn = fn
        self._error: BaseException | None = None

    def run(self) -> bool:
        if not self._future.set_running_or_notify_cancel():
            return False
        try:
            self._result = self._fn()
        except BaseException as error:
            self._error = error
        return True

    def report(self) -> None:
        if self._error is None:
            self._future.set_result(self._result)
        else:
            self._future.set_exception(self._error)

    def refuse(self, error: RuntimeError) -> None:
        if self._future.set_running_or_notify_cancel():
            self._future.set_exception(error)


class NodePool(Executor):
    """Threads for blocking nodes, started as they are needed.

    They are daemons, which those of the standard library's pool are not: a process that is asked to end does
    not wait for a node that nobody waits for any more.

    One that takes up work wakes the next if there is more. So brief nodes are run by the few that are awake,
    and long ones, which give way to the others while they wait, by as many as there may be.
    """

    def __init__(self, workers: int, name: str) -> None:
        self._work: deque[Work] = deque()
        self._asleep: list[threading.Lock] = []
        self._waking = False  # one has been called that has not come yet
        self._ending = False  # one gives away a result, and comes for more work then
        self._changing = threading.Lock()
        self._workers = self._left = workers
        self._name = name

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()
        self.take(_Promised(future, functools.partial(fn, *args, **kwargs)))
        return future

    def take(self, work: Work) -> None:
        """`submit` for work that tells of its end by itself."""
        self._work.append(work)
        if not (self._waking or self._ending):
            self._wake()

    def _wake(self) -> None:
        """Call one more to work, unless one is on its way already: it will look for all there is."""
        with self._changing:
            if self._waking or not self._work or self._rouse() or not self._left:
                return
            self._left -= 1
            self._waking = True
        alarm = threading.Lock()
        alarm.acquire()
        try:
            threading.Thread(target=self._serve, args=(alarm,), name=self._name, daemon=True).start()
            alarm.release()  # not before: whoever starts it does what comes first, and waits for it to start
        except RuntimeError as error:
            self._go_on_without(error)
        except BaseException:  # an interrupt: the next work wants a thread too
            with self._changing:
                self._left += 1
                self._waking = False
            raise

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
                self._work.popleft().refuse(error)

    def _serve(self, alarm: threading.Lock) -> None:
        alarm.acquire()
        while True:
            self._waking = False
            while self._work:
                try:
                    work = self._work.popleft()
                except IndexError:  # another one was quicker
                    break
                if self._work and not self._waking:
                    self._wake()
                if work.run():
                    self._ending = True
                    work.report()
                    self._ending = False
                del work  # a waiting thread holds on to nothing
            with self._changing:
                if self._work:
                    continue
                self._asleep.append(alarm)
            alarm.acquire()


def pool_at(depth: int) -> NodePool:
    """The shared pool for blocking nodes at this nesting depth."""
    key = (os.getpid(), depth)  # a forked child has none of its parent's threads
    pool = _pools.get(key)
    if pool is None:
        with _lock:
            pool = _pools.setdefault(key, NodePool(WORKERS, f"graphkit-{depth}"))
    return pool


class _Trip(Generic[T]):
    """Work that a coroutine waits for."""

    __slots__ = ("_fn", "_loop", "back", "error", "result")

    def __init__(self, fn: Callable[[], T]) -> None:
        self._fn = fn
        self._loop = asyncio.get_running_loop()
        self.back: asyncio.Future[None] = self._loop.create_future()
        self.error: BaseException | None = None

    def run(self) -> bool:
        if self.back.cancelled():
            return False
        try:
            self.result = self._fn()
        except BaseException as error:
            self.error = error
        return True

    def report(self) -> None:
        with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
            self._loop.call_soon_threadsafe(self._arrive)

    def refuse(self, error: RuntimeError) -> None:
        self.error = error
        self.report()

    def _arrive(self) -> None:
        if not self.back.done():
            self.back.set_result(None)


async def in_thread(depth: int, fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call a function that blocks, in a thread of the pool at this depth, with a copy of this context. What it raises
    is raised. One that has been begun goes on when this is cancelled."""
    trip = _Trip(functools.partial(contextvars.copy_context().run, fn, *args, **kwargs))
    pool_at(depth).take(trip)
    await trip.back
    if trip.error is None:
        return trip.result
    try:
        raise trip.error  # not by the future, which carries no `StopIteration`
    finally:
        del trip  # its error leads here
