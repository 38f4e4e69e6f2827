"""The async driver: coroutines as tasks of the running loop, blocking nodes in threads."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
import time
import types
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, get_args

from graphkit.drivers.buffer import Buffer
from graphkit.drivers.execute import aexecute, execute
from graphkit.drivers.pools import NodePool, pool_at
from graphkit.drivers.session import WAKING, Abandoned, AtRest, Kernel, Session, context_of, outcome_of
from graphkit.engine import effects
from graphkit.engine.attempt import Attempt, Called, Outcome
from graphkit.engine.events import EVENTS, Batch, Event, News
from graphkit_checkpoint.base import BaseCheckpointSaver

Reply = tuple[Attempt, Outcome | News]

_OUTCOMES = frozenset(get_args(Outcome))

INLINE = 4
"""Of so many supersteps of runs inside tasks, one lets others on the loop have a turn."""


class _Inside(threading.local):
    """The supersteps of runs inside tasks that this thread's loop has made."""

    made = 0


_inside = _Inside()


class AsyncDriver:
    """Drives one kernel on the running loop. The kernel's return value is left in `result`."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.loop = asyncio.get_running_loop()
        self.arrivals: deque[tuple[Attempt | None, Any]] = deque()
        self.waiter: asyncio.Future[None] | None = None
        self.posted: deque[News] = deque()
        self.buffer = Buffer()
        self.futures: dict[Attempt, asyncio.Future[Outcome]] = {}
        saver = session.saver
        self.saver = saver if saver is not None and not saver.blocking else None  # one to write to at once
        self.saving: asyncio.Future[None] | None = None
        self.cancelled: BaseException | None = None
        self.result: Any = None
        self.kernel: Kernel | None = None
        self.ending: list[asyncio.Future[Outcome]] = []
        self.task: asyncio.Task[Any] | None = None
        self.shown = False
        self.away = 0.0
        self.running: Attempt | None = None
        self.pump: asyncio.Task[None] | None = None
        self.pumped: deque[Batch] = deque()
        self.held: deque[Batch] = deque()

    # Ending

    def stop(self) -> None:
        """The task around this run has been given up. Called in any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed, and with it everything in it has ended
            self.loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        # A node that awaits this run is in the same asyncio task, and has been cancelled already.
        if self.task is not None and not self.task.cancelling():
            self.task.cancel()

    def drop(self) -> Collection[Any] | None:
        """End a run whose reader has stopped between two events."""
        if self.loop.is_closed():
            return ()
        if not self.shown or asyncio._get_running_loop() is not self.loop:
            return None
        self.abandon()
        return self.ending

    def emit(self, attempt: Attempt, event: Event) -> None:
        """Show an event of an attempt. Called by nodes, in any thread; waits there while the consumer is far
        behind."""
        if not self.buffer.enter(attempt):
            return
        if not self.posted and asyncio._get_running_loop() is self.loop:  # nothing of a thread is on its way
            self._put(attempt, event)
        else:
            self.post(attempt, event)

    def post(self, attempt: Attempt, news: News) -> None:
        """Tell the kernel something of an attempt that runs. Called by nodes, in any thread."""
        self.posted.append(news)
        with contextlib.suppress(RuntimeError):  # the loop is closed, and with it the run is over
            self.loop.call_soon_threadsafe(self._arrive, attempt, news)

    def _put(self, attempt: Attempt | None, arrived: Any) -> None:
        """Called on the loop."""
        self.arrivals.append((attempt, arrived))
        if self.waiter is not None:
            _wake(self.waiter)

    def _arrive(self, attempt: Attempt, news: News) -> None:
        self.posted.popleft()
        self._put(attempt, news)
        if self.running is not None and self.pump is None and type(news) is Called:
            self.pump = self.loop.create_task(self._pump())

    async def drive(self, kernel: Kernel, reply: Any = None) -> AsyncGenerator[Batch, None]:
        """Yields events in batches. Closing it early, or cancelling it, gives the thread back."""
        self.kernel = kernel
        self.task = self.task or asyncio.current_task()
        step: Callable[[Any], effects.Effect] = kernel.send
        try:
            while True:
                effect = step(reply)
                step, reply, kind = kernel.send, None, type(effect)
                if kind is effects.Emit:
                    began, self.shown = time.monotonic(), True
                    yield effect.events  # type: ignore[union-attr]
                    self.shown = False
                    self.away += time.monotonic() - began
                    continue
                try:
                    if kind is effects.Start:
                        reply = await self._start(effect.attempts)  # type: ignore[union-attr]
                    elif effect is effects.NOW:
                        reply = time.time()
                    elif kind is effects.Save and self.saver is not None:
                        self.saver.commit(effect)  # type: ignore[arg-type]
                    elif kind is not effects.Next:
                        reply = await self._obey(effect)
                    else:
                        reply = await self._next(effect.until)  # type: ignore[union-attr]
                except GeneratorExit:
                    raise
                except AtRest:
                    return
                except BaseException as error:
                    step, reply = kernel.throw, error
                while self.held:
                    self.shown = True
                    yield self.held.popleft()
                    self.shown = False
        except StopIteration as stop:
            self.result = stop.value
            self._raise_if_cancelled()
            self.kernel = None
        except GeneratorExit:
            self.abandon()
            if self.ending:
                await asyncio.wait(self.ending, timeout=5)
            raise

    def abandon(self) -> None:
        """Nobody listens any more: let the kernel clean up, and end it. Does not wait for the loop, so that it
        can be called when a stream is dropped, and the thread is free before anybody else runs."""
        self.buffer.close()
        kernel, self.kernel = self.kernel, None
        step: Any = kernel.throw if kernel is not None else None
        reply: Any = Abandoned()
        try:
            while step is not None:
                effect = step(reply)
                step, reply = kernel.send, None  # type: ignore[union-attr]
                try:
                    reply = self._obey_at_once(effect)
                except Exception as error:
                    step, reply = kernel.throw, error  # type: ignore[union-attr]
        except (StopIteration, Abandoned):
            pass

    def _obey_at_once(self, effect: effects.Effect) -> Any:
        if isinstance(effect, effects.Cancel):
            for attempt in effect.attempts:
                attempt.stop()
            self.ending += [future for future in self.futures.values() if future.cancel()]
            return list(effect.attempts)
        if isinstance(effect, effects.Save):
            saver = self._saver
            if saver.blocking:
                return saver.worker.submit(saver.commit, effect).result()
            return saver.commit(effect)
        return None

    # A node that the driver runs itself, and that calls tasks

    async def _pump(self) -> None:
        """Serve the kernel while its driver is busy with a node. What happens is shown afterwards."""
        assert self.kernel is not None
        with contextlib.suppress(AtRest):
            async for events in self.drive(self.kernel, await self._next(None)):
                self.pumped.append(events)

    async def _end_pump(self) -> None:
        """Raises what the kernel has raised in the meantime."""
        assert self.pump is not None
        self._put(None, AtRest)
        pump, self.pump = self.pump, None
        try:
            await self._finished(pump)
        finally:
            self.held, self.pumped = self.pumped, deque()

    async def _obey(self, effect: effects.Effect) -> Any:
        if effect is effects.TIMER:
            return time.monotonic() - self.away
        kind = type(effect)
        if kind is effects.Save:
            return await self._save(effect)  # type: ignore[arg-type]
        if kind is effects.Settle:
            return effect.reply.settle(effect.outcome)  # type: ignore[union-attr]
        if kind is effects.Cancel:
            return await self._cancel(effect)  # type: ignore[arg-type]
        if effect is effects.DRAINING or effect is effects.PROGRESS:
            return self.session.look_up(effect)
        if kind is effects.CacheGet or kind is effects.CachePut:
            return await self.session.ause_cache(effect)  # type: ignore[arg-type]
        return await self._through(self.session.look_up, effect)

    def _raise_if_cancelled(self) -> None:
        """A cancellation that came during a write, now that the write is done."""
        if self.cancelled is not None:
            error, self.cancelled = self.cancelled, None
            raise error

    @property
    def _saver(self) -> BaseCheckpointSaver:
        assert self.session.saver is not None
        return self.session.saver

    # Tasks

    async def _start(self, attempts: Sequence[Attempt]) -> Reply | None:
        self._raise_if_cancelled()
        first = attempts[0]
        if _runs_on_loop(first) and self.session.is_inline(first):
            return await self._run_inline(first)
        for attempt in attempts:
            future = self.futures[attempt] = self._submit(attempt)
            future.add_done_callback(functools.partial(self._ended, attempt))
        return None

    def _ended(self, attempt: Attempt, future: asyncio.Future[Outcome]) -> None:
        if attempt in self.futures:
            self._put(attempt, future)

    async def _make(self, attempt: Attempt) -> Outcome:
        """An attempt in a task of its own. It tells of its end itself: a callback is one turn of the loop later, and
        is for a task that is cancelled or breaks."""
        outcome = await aexecute(attempt)
        if not self.posted:  # or the end would be there before what a thread has just told of it
            self._put(attempt, outcome)
        return outcome

    def _submit(self, attempt: Attempt) -> asyncio.Future[Outcome]:
        pool = self.session.pool_for(attempt)
        if _runs_on_loop(attempt) and pool is None:
            return self.loop.create_task(self._make(attempt), context=context_of(attempt))
        pool = pool or pool_at(attempt.scope.depth)
        if isinstance(pool, (NodePool, ThreadPoolExecutor)):
            return self.loop.run_in_executor(pool, context_of(attempt).run, execute, attempt)
        attempt.context = None  # it cannot leave the process
        return self.loop.run_in_executor(pool, execute, attempt)

    async def _run_inline(self, attempt: Attempt) -> Reply:
        # A run of nodes that never wait must not keep the loop from everybody else. One inside a task is a part of
        # that one's superstep, before which everybody had a turn.
        if self.session.depth:
            _inside.made += 1
        if not self.session.depth or _inside.made % INLINE == 0:
            await _a_turn()
        self.running = attempt
        try:
            return attempt, await aexecute(attempt)
        finally:
            self.running = None
            if self.pump is not None:
                await self._end_pump()

    async def _next(self, until: float | None) -> Reply | None:
        self._raise_if_cancelled()
        while True:
            if not self.arrivals and not await self._arrival(until):
                return None
            whose, arrived = self.arrivals.popleft()
            if whose is None:
                raise arrived
            if type(arrived) in _OUTCOMES or isinstance(arrived, asyncio.Future):
                if self.futures.pop(whose, None) is not None:
                    return whose, outcome_of(arrived) if isinstance(arrived, asyncio.Future) else arrived
                continue
            if type(arrived) in EVENTS:
                self.buffer.leave()
            return whose, arrived

    async def _arrival(self, until: float | None) -> bool:
        """Wait for something to arrive. False once the timer has passed `until`."""
        waiter = self.waiter = self.loop.create_future()
        if until is None:
            await waiter
            return True
        left = until + self.away - time.monotonic()
        alarm = self.loop.call_later(max(0.0, left), _wake, waiter)
        try:
            await waiter
        finally:
            alarm.cancel()
        return bool(self.arrivals)

    async def _cancel(self, effect: effects.Cancel) -> list[Attempt]:
        stopped, waking = [], []
        for attempt in effect.attempts:
            future = self.futures.get(attempt)
            ends = future is not None and not future.done()
            if ends and isinstance(future, asyncio.Task):
                attempt.stopped = True
                future.cancel()
                stopped.append(attempt)
            if attempt.stop() and future is not None and ends and attempt not in stopped:
                waking.append(future)
        self.buffer.wake()
        if stopped:
            await asyncio.wait([self.futures[attempt] for attempt in stopped], timeout=effect.patience)
        if waking:
            await asyncio.wait(waking, timeout=WAKING)
        for attempt in stopped:
            del self.futures[attempt]
        return stopped

    # Saving

    async def _save(self, effect: effects.Save) -> None:
        saver = self._saver
        if self.saving is not None:
            before, self.saving = self.saving, None
            await self._finished(before)
        rows = saver.encode(effect)
        writing = saver.begin_awrite(rows)
        if effect.wait:
            await self._finished(writing)
        else:
            self.saving = writing

    async def _through(self, call: Callable[..., Any], *args: Any) -> Any:
        """Read from storage: in the saver's own thread if that may wait."""
        saver = self.session.saver
        if saver is None or not saver.blocking:
            return call(*args)
        return await self._finished(asyncio.ensure_future(saver.off_loop(call, *args)))

    async def _finished(self, future: asyncio.Future[Any]) -> Any:
        """The result of a write that has begun. A cancellation waits until it is known whether it is done."""
        while True:
            try:
                return await asyncio.shield(future)
            except asyncio.CancelledError as error:
                if future.cancelled():
                    raise
                self.cancelled = error


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


@types.coroutine
def _a_turn() -> Generator[None, None, None]:
    """Let everybody else on the loop have a turn: `asyncio.sleep(0)` with one coroutine less."""
    yield


def _runs_on_loop(attempt: Attempt) -> bool:
    callee = attempt.node.callee
    return callee.acall is not None or callee.brief
