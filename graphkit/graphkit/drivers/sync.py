"""The sync driver: a superstep of one blocking task runs in the caller's thread, several in a pool,
`async def` nodes on the standing loop."""

from __future__ import annotations

import contextvars
import queue
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from graphkit.drivers.execute import aexecute, execute
from graphkit.drivers.pools import LoopFuture, NodePool, pool_at, submit_to_loop
from graphkit.drivers.session import Abandoned, Kernel, Session, outcome_of
from graphkit.engine import effects
from graphkit.engine.attempt import Attempt, Outcome
from graphkit.engine.events import Custom
from graphkit_checkpoint.base import BaseCheckpointSaver

Reply = tuple[Attempt, Outcome]


class SyncDriver:
    """Drives one kernel. `arrivals` carries outcomes and, from inside nodes, custom values."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.arrivals: queue.SimpleQueue[tuple[Attempt | None, Any]] = queue.SimpleQueue()
        self.futures: dict[Attempt, Future[Outcome]] = {}
        self.inline: Attempt | None = None
        self.saving: Future[None] | None = None

    def emit(self, value: Any) -> None:
        """Called by nodes, in any thread."""
        self.arrivals.put((None, value))

    def drive(self, kernel: Kernel) -> Generator[Any, None, Any]:
        """Yields events, returns what the kernel returns. Closing it early gives the thread back."""
        step: Callable[[Any], effects.Effect] = kernel.send
        reply: Any = None
        try:
            while True:
                effect = step(reply)
                step, kind = kernel.send, type(effect)
                if kind is effects.Emit:
                    reply = yield effect.event  # type: ignore[union-attr]
                    continue
                try:
                    if self.inline is not None and kind is effects.Next:
                        reply = self._run_inline()
                    elif kind is effects.Next:
                        reply = yield from self._next(effect.until)  # type: ignore[union-attr]
                    else:
                        reply = self._obey(effect)
                except BaseException as error:
                    step, reply = kernel.throw, error
        except StopIteration as stop:
            return stop.value
        except GeneratorExit:
            self._abandon(kernel)
            raise

    def _abandon(self, kernel: Kernel) -> None:
        """Nobody listens any more: let the kernel clean up, obeying what it asks for, and end it."""
        step: Any = kernel.throw
        reply: Any = Abandoned()
        try:
            while True:
                effect = step(reply)
                step, reply = kernel.send, None
                if type(effect) is not effects.Emit:
                    try:
                        reply = self._obey(effect)
                    except Exception as error:
                        step, reply = kernel.throw, error
        except (StopIteration, Abandoned):
            pass

    def _obey(self, effect: effects.Effect) -> Any:
        if effect is effects.NOW:
            return time.time()
        if effect is effects.TIMER:
            return time.monotonic()
        kind = type(effect)
        if kind is effects.Start:
            return self._start(effect.attempts)  # type: ignore[union-attr]
        if kind is effects.Save:
            return self._save(effect)  # type: ignore[arg-type]
        if kind is effects.Cancel:
            return self._cancel(effect)  # type: ignore[arg-type]
        return self.session.look_up(effect)

    # Tasks

    def _start(self, attempts: Sequence[Attempt]) -> None:
        if self.session.is_inline(attempts[0]) and not attempts[0].node.callee.is_async:
            self.inline = attempts[0]
            return
        for attempt in attempts:
            future = self.futures[attempt] = self._submit(attempt)
            future.add_done_callback(lambda future, attempt=attempt: self.arrivals.put((attempt, future)))  # type: ignore[misc]

    def _submit(self, attempt: Attempt) -> Future[Outcome]:
        if attempt.node.callee.is_async and self.session.pool is None:
            return submit_to_loop(aexecute(attempt), self.session.depth)
        pool = self.session.pool or pool_at(self.session.depth)
        if isinstance(pool, (NodePool, ThreadPoolExecutor)):
            return pool.submit(contextvars.copy_context().run, execute, attempt)
        return pool.submit(execute, attempt)

    def _run_inline(self) -> Reply:
        attempt, self.inline = self.inline, None
        assert attempt is not None
        return attempt, contextvars.copy_context().run(execute, attempt)

    def _next(self, until: float | None) -> Generator[Any, None, Reply | None]:
        while True:
            try:
                left = None if until is None else max(0.0, until - time.monotonic())
                attempt_or_none, arrived = self.arrivals.get(timeout=left)
            except queue.Empty:
                return None
            if attempt_or_none is None:
                yield Custom(value=arrived)
            elif self.futures.pop(attempt_or_none, None) is not None:
                return attempt_or_none, outcome_of(arrived)

    def _cancel(self, effect: effects.Cancel) -> list[Attempt]:
        stopped = []
        for attempt in effect.attempts:
            future = self.futures.get(attempt)
            if future is None or future.done():
                continue
            if isinstance(future, LoopFuture):
                future.stop(effect.patience)
            elif not future.cancel():
                continue
            del self.futures[attempt]
            stopped.append(attempt)
        return stopped

    # Saving

    def _save(self, effect: effects.Save) -> None:
        saver = _saver(self.session)
        if self.saving is not None:
            before, self.saving = self.saving, None
            before.result()
        if effect.wait or not saver.blocking:
            saver.commit(effect.commit)
        else:
            self.saving = saver.begin_write(saver.encode(effect.commit))


def _saver(session: Session) -> BaseCheckpointSaver:
    assert session.saver is not None
    return session.saver
