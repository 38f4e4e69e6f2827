"""The async driver: coroutines as tasks of the running loop, blocking nodes in threads."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from graphkit.drivers.execute import aexecute, execute
from graphkit.drivers.pools import NodePool, pool_at
from graphkit.drivers.session import Abandoned, Kernel, Session, outcome_of
from graphkit.engine import effects
from graphkit.engine.attempt import Attempt, Outcome
from graphkit.engine.events import Custom
from graphkit_checkpoint.base import BaseCheckpointSaver

Reply = tuple[Attempt, Outcome]


class AsyncDriver:
    """Drives one kernel on the running loop. The kernel's return value is left in `result`."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.loop = asyncio.get_running_loop()
        self.arrivals: asyncio.Queue[tuple[Attempt | None, Any]] = asyncio.Queue()
        self.futures: dict[Attempt, asyncio.Future[Outcome]] = {}
        self.inline: Attempt | None = None
        self.saving: asyncio.Future[None] | None = None
        self.cancelled: BaseException | None = None
        self.result: Any = None
        self.kernel: Kernel | None = None
        self.ending: list[asyncio.Future[Outcome]] = []

    def emit(self, value: Any) -> None:
        """Called by nodes, in any thread."""
        self.loop.call_soon_threadsafe(self.arrivals.put_nowait, (None, value))

    async def drive(self, kernel: Kernel) -> AsyncGenerator[Any, None]:
        """Yields events. Closing it early, or cancelling it, gives the thread back."""
        self.kernel = kernel
        step: Callable[[Any], effects.Effect] = kernel.send
        reply: Any = None
        try:
            while True:
                effect = step(reply)
                step, reply, kind = kernel.send, None, type(effect)
                if kind is effects.Emit:
                    yield effect.event  # type: ignore[union-attr]
                    continue
                try:
                    if kind is effects.Next:
                        while True:
                            arrived = await self._next(effect.until)  # type: ignore[union-attr]
                            if not isinstance(arrived, Custom):
                                break
                            yield arrived
                        reply = arrived
                    else:
                        reply = await self._obey(effect)
                except GeneratorExit:
                    raise
                except BaseException as error:
                    step, reply = kernel.throw, error
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
            self.ending += [future for future in self.futures.values() if future.cancel()]
            return list(effect.attempts)
        if isinstance(effect, effects.Save):
            saver = self._saver
            if saver.blocking:
                return saver.worker.submit(saver.commit, effect.commit).result()
            return saver.commit(effect.commit)
        return None

    async def _obey(self, effect: effects.Effect) -> Any:
        if effect is effects.NOW:
            return time.time()
        if effect is effects.TIMER:
            return time.monotonic()
        kind = type(effect)
        if kind is effects.Save:
            return await self._save(effect)  # type: ignore[arg-type]
        if kind is effects.Cancel:
            return await self._cancel(effect)  # type: ignore[arg-type]
        if kind is not effects.Start:
            return await self._through(self.session.look_up, effect)
        self._raise_if_cancelled()
        return self._start(effect.attempts)  # type: ignore[union-attr]

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

    def _start(self, attempts: Sequence[Attempt]) -> None:
        if self.session.is_inline(attempts[0]) and _has_async_form(attempts[0]):
            self.inline = attempts[0]
            return
        for attempt in attempts:
            future = self.futures[attempt] = self._submit(attempt)
            future.add_done_callback(
                lambda future, attempt=attempt: self.arrivals.put_nowait((attempt, future))  # type: ignore[misc]
            )

    def _submit(self, attempt: Attempt) -> asyncio.Future[Outcome]:
        if _has_async_form(attempt) and self.session.pool is None:
            return self.loop.create_task(aexecute(attempt))
        pool = self.session.pool or pool_at(self.session.depth)
        if isinstance(pool, (NodePool, ThreadPoolExecutor)):
            return self.loop.run_in_executor(pool, contextvars.copy_context().run, execute, attempt)
        return self.loop.run_in_executor(pool, execute, attempt)

    async def _next(self, until: float | None) -> Reply | Custom | None:
        self._raise_if_cancelled()
        if self.inline is not None:
            attempt, self.inline = self.inline, None
            # A run of nodes that never wait must not keep the loop from everybody else.
            await asyncio.sleep(0)
            return attempt, await aexecute(attempt)
        while True:
            try:
                async with asyncio.timeout(None if until is None else max(0.0, until - time.monotonic())):
                    attempt_or_none, arrived = await self.arrivals.get()
            except TimeoutError:
                return None
            if attempt_or_none is None:
                return Custom(value=arrived)
            if self.futures.pop(attempt_or_none, None) is not None:
                return attempt_or_none, outcome_of(arrived)

    async def _cancel(self, effect: effects.Cancel) -> list[Attempt]:
        stopped = []
        for attempt in effect.attempts:
            future = self.futures.get(attempt)
            if future is not None and not future.done() and isinstance(future, asyncio.Task):
                future.cancel()
                stopped.append(attempt)
        if stopped:
            await asyncio.wait([self.futures[attempt] for attempt in stopped], timeout=effect.patience)
        for attempt in stopped:
            del self.futures[attempt]
        return stopped

    # Saving

    async def _save(self, effect: effects.Save) -> None:
        saver = self._saver
        if self.saving is not None:
            before, self.saving = self.saving, None
            await self._finished(before)
        if not saver.blocking:
            saver.commit(effect.commit)
            return
        rows = saver.encode(effect.commit)
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


def _has_async_form(attempt: Attempt) -> bool:
    return attempt.node.callee.acall is not None
