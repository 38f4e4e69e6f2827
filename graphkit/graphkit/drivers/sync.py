"""The sync driver: a superstep of one blocking task runs in the caller's thread, several in a pool,
`async def` nodes on the standing loop."""

from __future__ import annotations

import contextvars
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from typing import Any

from graphkit.drivers.buffer import Buffer
from graphkit.drivers.errand import Errand
from graphkit.drivers.execute import aexecute, execute
from graphkit.drivers.loops import LoopFuture, submit_to_loop
from graphkit.drivers.pools import pool_at
from graphkit.drivers.session import WAKING, Abandoned, AtRest, Kernel, Session, context_of, outcome_of
from graphkit.engine import effects
from graphkit.engine.attempt import Attempt, Called, Outcome
from graphkit.engine.events import EVENTS, Batch, Event, News

Reply = tuple[Attempt, Outcome | News]

_starting = threading.Lock()


class SyncDriver:
    """Drives one kernel. `arrivals` carries outcomes and news of attempts that run, in the order they come."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.arrivals: queue.SimpleQueue[tuple[Attempt | None, Any]] = queue.SimpleQueue()
        self.buffer = Buffer()
        self.futures: dict[Attempt, Future[Outcome] | Errand] = {}
        self.saving: Future[None] | None = None
        self.kernel: Kernel | None = None
        self.running: Attempt | None = None
        self.pump: threading.Thread | None = None
        self.broken: BaseException | None = None
        self.pumped: deque[Batch] = deque()
        self.held: deque[Batch] = deque()
        self.stopped = False
        self.shown = False
        self.away = 0.0

    # Ending

    def stop(self) -> None:
        """The task around this run has been given up. Called in any thread."""
        self.stopped = True
        self.arrivals.put((None, Abandoned))
        running = self.running
        if running is not None:
            running.stop()

    def drop(self) -> Collection[Any] | None:
        """End a run whose reader has stopped between two events."""
        if not self.shown:
            return None
        self._abandon()
        return ()

    def emit(self, attempt: Attempt, event: Event) -> None:
        """Show an event of an attempt. Called by nodes, in any thread; waits while the consumer is far behind."""
        if self.buffer.enter(attempt):
            self.arrivals.put((attempt, event))

    def post(self, attempt: Attempt, news: News) -> None:
        """Tell the kernel something of an attempt that runs. Called by nodes, in any thread."""
        self.arrivals.put((attempt, news))
        if self.running is not None and type(news) is Called:
            self._start_pump()

    def drive(self, kernel: Kernel, reply: Any = None) -> Generator[Batch, None, Any]:
        """Yields events in batches, returns what the kernel returns. Closing it early gives the thread back."""
        self.kernel = kernel
        send: Callable[[Any], effects.Effect] = kernel.send
        step = send
        try:
            while True:
                effect = step(reply)
                step, reply, kind = send, None, type(effect)
                if kind is effects.Emit:
                    began, self.shown = time.monotonic(), True
                    yield effect.events  # type: ignore[union-attr]
                    self.shown = False
                    self.away += time.monotonic() - began
                    continue
                try:
                    if kind is effects.Start:
                        reply = self._start(effect.attempts)  # type: ignore[union-attr]
                    elif effect is effects.NOW:
                        reply = time.time()
                    elif kind is effects.Save:
                        self._save(effect)  # type: ignore[arg-type]
                    elif kind is effects.Next:
                        reply = self._next(effect.until)  # type: ignore[union-attr]
                    else:
                        reply = self._obey(effect)
                except AtRest:
                    return None
                except BaseException as error:
                    step, reply = kernel.throw, error
                while self.held:
                    self.shown = True
                    yield self.held.popleft()
                    self.shown = False
        except StopIteration as stop:
            return stop.value
        except GeneratorExit:
            self._abandon()
            raise

    def _abandon(self) -> None:
        """Nobody listens any more: let the kernel clean up, obeying what it asks for, and end it."""
        kernel = self.kernel
        assert kernel is not None
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

    # A node that the driver runs itself, and that calls tasks

    def _start_pump(self) -> None:
        with _starting:
            if self.pump is None:
                run = contextvars.copy_context().run
                self.pump = threading.Thread(
                    target=run, args=(self._pump,), name="graphkit-pump", daemon=True
                )
                self.pump.start()

    def _pump(self) -> None:
        """Serve the kernel while its driver is busy with a node. What happens is shown afterwards."""
        assert self.kernel is not None
        try:
            self.pumped.extend(self.drive(self.kernel, self._next(None)))
        except AtRest:
            pass
        except BaseException as error:
            self.broken = error

    def _end_pump(self) -> None:
        """Raises what the kernel has raised in the meantime."""
        assert self.pump is not None
        self.arrivals.put((None, AtRest))
        self.pump.join()
        self.pump = None
        self.held, self.pumped = self.pumped, deque()
        if self.broken is not None:
            raise self.broken

    def _obey(self, effect: effects.Effect) -> Any:
        if effect is effects.NOW:
            return time.time()
        if effect is effects.TIMER:
            return time.monotonic() - self.away
        kind = type(effect)
        if kind is effects.Save:
            return self._save(effect)  # type: ignore[arg-type]
        if kind is effects.Settle:
            return effect.reply.settle(effect.outcome)  # type: ignore[union-attr]
        if kind is effects.Cancel:
            return self._cancel(effect)  # type: ignore[arg-type]
        return self.session.look_up(effect)

    # Tasks

    def _start(self, attempts: Sequence[Attempt]) -> Reply | None:
        first = attempts[0]
        if first.node.callee.call is not None and self.session.is_inline(first):
            return self._run_inline(first)
        around = contextvars.copy_context()
        queued: list[Errand] = []
        for attempt in attempts:
            pool = self.session.pool_for(attempt)
            if pool is None and not attempt.node.callee.is_async:
                errand = self.futures[attempt] = Errand(attempt, around, self.arrivals.put)
                if attempt.node.queued:
                    queued.append(errand)
                else:
                    pool_at(attempt.scope.depth).take(errand)
                continue
            future = self.futures[attempt] = self._submit(attempt, pool)
            future.add_done_callback(lambda future, attempt=attempt: self.arrivals.put((attempt, future)))  # type: ignore[misc]
        if queued:
            Errand.queue(queued)
        return None

    def _submit(self, attempt: Attempt, pool: Executor | None) -> Future[Outcome]:
        if pool is None:
            return submit_to_loop(aexecute(attempt), attempt.scope.depth, context_of(attempt))
        if isinstance(pool, ThreadPoolExecutor):
            return pool.submit(context_of(attempt).run, execute, attempt)
        attempt.context = None  # it cannot leave the process
        return pool.submit(execute, attempt)

    def _run_inline(self, attempt: Attempt) -> Reply:
        self.running = attempt
        if self.stopped:
            raise Abandoned
        try:
            outcome = contextvars.copy_context().run(execute, attempt)
        finally:
            self.running = None
            if self.pump is not None:
                self._end_pump()
        if self.stopped:
            raise Abandoned
        return attempt, outcome

    def _next(self, until: float | None) -> Reply | None:
        while True:
            try:
                left = None if until is None else max(0.0, until + self.away - time.monotonic())
                attempt_or_none, arrived = self.arrivals.get(timeout=left)
            except queue.Empty:
                return None
            if attempt_or_none is None:
                raise arrived
            if not isinstance(arrived, (Errand, Future)):
                if type(arrived) in EVENTS:
                    self.buffer.leave()
                return attempt_or_none, arrived
            if self.futures.pop(attempt_or_none, None) is not None:
                return attempt_or_none, outcome_of(arrived)

    def _cancel(self, effect: effects.Cancel) -> list[Attempt]:
        stopped: list[Attempt] = []
        ending: list[Future[Outcome]] = []
        waking: list[Future[Any]] = []
        for attempt in effect.attempts:
            woken = attempt.stop()
            future = self.futures.get(attempt)
            if future is None or future.done():
                continue
            if isinstance(future, LoopFuture):
                future.stop()
                ending.append(future)
            elif not future.cancel():
                if woken:
                    waking.append(future.ending() if isinstance(future, Errand) else future)
                continue
            stopped.append(attempt)
        self.buffer.wake()
        if ending:
            wait(ending, effect.patience)
        if waking:
            wait(waking, WAKING)
        for attempt in stopped:
            del self.futures[attempt]
        return stopped

    # Saving

    def _save(self, effect: effects.Save) -> None:
        saver = self.session.saver
        assert saver is not None
        if self.saving is not None:
            before, self.saving = self.saving, None
            before.result()
        if effect.wait or not saver.blocking:
            saver.commit(effect)
        else:
            self.saving = saver.begin_write(saver.encode(effect))
