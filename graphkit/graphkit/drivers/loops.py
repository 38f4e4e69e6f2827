"""The event loops that stand between runs: what is asynchronous in sync runs is served there, so that the client of a
model keeps its connections from one call to the next.

A loop has no thread of its own. A caller that could only wait for it runs it itself: two threads on two cores would
have to wake one another, 50-100 µs each time. A thread in the background runs it while anything is left on it that no
caller waits for, and whenever it has stood still for a while: timers and idle connections want serving too.

As with pools, a graph that is called inside a node uses the loop one level down: no loop waits for itself.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import functools
import inspect
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, TypeVar

T = TypeVar("T")

GRACE: Final = 0.05
"""Seconds that a loop without tasks may stand still. Calls that come sooner after one another find nobody there."""

LONGEST: Final = 1.0
"""Seconds that it may stand still while calls come again and again: a thread that wakes up in vain costs them more than
its time, up to a third of theirs for some milliseconds where processors are shared."""

LAST: Final = 1.0
"""Seconds that the end of a process waits for what is left open on a loop."""

_lock = threading.Lock()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


class LoopFuture(Future[T]):
    """The result of a coroutine on a standing loop; cancelling it cancels the coroutine."""

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


class StandingLoop:
    """An event loop, run by whoever has its `_turn`."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.set_task_factory(self._task)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._turn = threading.Lock()
        self._wanted = threading.Event()
        self._led = False
        threading.Thread(target=self._serve, name="graphkit-loop", daemon=True).start()
        atexit.register(self._end, os.getpid())

    def run(self, work: Awaitable[T]) -> T:
        """Await this with a copy of this thread's context: here, unless somebody else runs the loop.

        What interrupts this thread cancels it: SIGINT as in `asyncio.run`, at once if it comes a second time. Raises
        `RuntimeError` in a step of this very loop, which would wait for itself.
        """
        if asyncio._get_running_loop() is self.loop:
            if inspect.iscoroutine(work):
                work.close()
            raise RuntimeError(
                "a coroutine called something that blocks until its own event loop goes on; await it"
            )
        if has_loop() or not self._turn.acquire(blocking=False):
            future = self.submit(work, contextvars.copy_context())
            try:
                return future.result()
            except BaseException:
                future.stop()
                raise
        try:
            result = self._lead(_guarded(work))
        finally:
            self._led = True
            self._turn.release()
            self._leave()
        if isinstance(result, _Ending):
            raise result.error
        return result

    def _lead(self, work: Coroutine[Any, Any, T]) -> T:
        task = self.loop.create_task(work, context=contextvars.copy_context())
        try:
            with _Interrupts(task):
                return self.loop.run_until_complete(task)
        except BaseException:
            task.cancel()  # if it is left: whoever runs the loop next brings it to its end
            raise

    def submit(self, work: Awaitable[T], context: contextvars.Context) -> LoopFuture[T]:
        """Start this, whoever runs the loop."""
        loop = self.loop
        future: LoopFuture[T] = LoopFuture(loop)

        def start() -> None:
            self._wanted.clear()
            future.task = loop.create_task(_guarded(work), context=context)
            future.task.add_done_callback(ended)

        def ended(task: asyncio.Task[T | _Ending]) -> None:
            if inspect.iscoroutine(work):
                work.close()  # it has not begun if the task was cancelled before its first step
            _settle(future, task)
            if not self._tasks:  # not in a caller's run, which is a task itself
                loop.stop()

        loop.call_soon_threadsafe(start)
        self._wanted.set()  # afterwards: whoever clears it has found `start`
        return future

    def _task(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        """Makes the tasks of the loop, and knows which are left."""
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **options)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _leave(self) -> None:
        """Nobody runs the loop any more: the background must, if tasks are left."""
        if self._tasks:
            self._wanted.set()

    def _serve(self) -> None:
        """What the background does."""
        grace = GRACE
        while True:
            while not self._wanted.wait(grace) and self._led:
                self._led, grace = False, min(2 * grace, LONGEST)
            with self._turn, suppress(SystemExit, KeyboardInterrupt):  # of a task that nobody waits for
                if self._led and not self._wanted.is_set():
                    continue  # a caller has run it until now
                self._wanted.clear()
                grace = GRACE
                self.loop.run_forever()
            self._leave()

    def _end(self, pid: int) -> None:
        """The process ends: close the generators that are left, and what they hold open, as `asyncio.run` does at its
        end. Not beside tasks that nobody waits for: they end with the process."""
        if os.getpid() == pid and not self._tasks:
            with suppress(TimeoutError):
                self.submit(self.loop.shutdown_asyncgens(), contextvars.Context()).result(LAST)


class _Interrupts:
    """While this lasts, in the main thread, SIGINT cancels a task, which makes it `KeyboardInterrupt` here: raised in
    the midst of the loop it could hit a step of somebody else's. A handler of the user's own is left alone.

    Done like `asyncio.Runner`, whose way of asking for the handler costs more than all the rest of a short call.
    """

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task = task
        self._came = self._installed = False

    def __enter__(self) -> None:
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            with suppress(ValueError):  # this interpreter has no signals
                signal.signal(signal.SIGINT, self._come)
                self._installed = True

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._came and kind is asyncio.CancelledError and not self._task.uncancel():
            raise KeyboardInterrupt

    def _come(self, number: int, frame: object) -> None:
        if self._came or self._task.done():
            raise KeyboardInterrupt
        self._came = True
        self._task.cancel()
        self._task.get_loop().call_soon_threadsafe(_nothing)  # it may be asleep


def _nothing() -> None:
    """What a loop wakes up for."""


async def _guarded(work: Awaitable[T]) -> T | _Ending:
    try:
        return await work
    except (KeyboardInterrupt, SystemExit) as error:
        return _Ending(error)


def _settle(future: Future[T], task: asyncio.Task[T | _Ending]) -> None:
    if task.cancelled():
        future.set_exception(asyncio.CancelledError("the node's coroutine was cancelled"))
    elif (error := task.exception()) is not None:
        future.set_exception(error)
    elif isinstance(result := task.result(), _Ending):
        future.set_exception(result.error)
    else:
        future.set_result(result)


def has_loop() -> bool:
    """Whether an event loop runs in this thread: asyncio's, or another one that finalizes async generators."""
    if sys.get_asyncgen_hooks().finalizer is not None:
        return True
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@functools.lru_cache(maxsize=64)
def _loop_of(pid: int, depth: int) -> StandingLoop:
    return StandingLoop()


def standing_loop(depth: int) -> StandingLoop:
    """The loop for what is asynchronous in sync runs at this nesting depth; a deeper one may keep this one waiting."""
    with _lock:
        return _loop_of(os.getpid(), depth)


def submit_to_loop(
    work: Coroutine[Any, Any, T], depth: int, context: contextvars.Context | None = None
) -> LoopFuture[T]:
    """Start a coroutine on the standing loop, with this thread's context unless another is given."""
    return standing_loop(depth).submit(work, context or contextvars.copy_context())


def run_in_standing_loop(work: Awaitable[T], depth: int) -> T:
    """Wait for this on the standing loop."""
    return standing_loop(depth).run(work)
