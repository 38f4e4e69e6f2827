"""Processes that are forked, gated and killed by a process that does nothing else.

Starting a process from the fork server takes longer than an episode of these tests, and a process with
threads cannot be forked safely. So a test has the fork server start one process without threads, the
*nursery*, which forks a process for each episode and watches it. Functions and arguments of a fork are simply
there: nothing is pickled but results. A nursery opens no saver itself.
"""

from __future__ import annotations

import gc
import importlib
import os
import pickle
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from graphkit_checkpoint.statements import DIALECTS, Statements
from tests.faults import LIFETIME, PATIENCE, ChildError

ENOUGH = LIFETIME - 10
"""Seconds to wait for a nursery: less than it lives, so that a test that hangs is told from one that was ended."""


class Fork:
    """One call of a function in a process forked from this one."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        assert threading.active_count() == 1, f"a nursery has no threads: {threading.enumerate()}"
        self.name = getattr(function, "__qualname__", repr(function))
        self._status: int | None = None
        self.outcome, outcome = os.pipe()
        """Readable once the call has ended."""
        self.pid = os.fork()
        if self.pid == 0:
            _call(outcome, function, args)
        os.close(outcome)

    def send(self, number: signal.Signals) -> None:
        """Signal the process, unless it has been waited for."""
        if self._status is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.wait()

    def stop(self) -> None:
        """SIGSTOP; returns when the process does nothing any more."""
        self.send(signal.SIGSTOP)
        self.wait_until_stopped()

    def wait_until_stopped(self) -> None:
        """By whomever: returns when the process does nothing any more."""
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            self._status = os.waitstatus_to_exitcode(status)
            raise ChildError(f"{self.name} returned {self.result()!r} before it was stopped")

    def wait(self) -> int:
        """The status as in `subprocess`, once the process has ended: -9 after SIGKILL."""
        if self._status is None:
            _, status = os.waitpid(self.pid, 0)
            self._status = os.waitstatus_to_exitcode(status)
        return self._status

    def result(self) -> Any:
        """What the function returned. Raises `ChildError` with the traceback of what it raised."""
        with os.fdopen(self.outcome, "rb") as outcome:
            received = outcome.read()
        status = self.wait()
        if not received:
            raise ChildError(f"{self.name} ended with status {status}")
        returned, value = pickle.loads(received)
        if not returned:
            raise ChildError(f"{self.name} raised\n{value}")
        return value

    def died(self) -> bool:
        """Whether it was killed; False if it had returned before. Raises `ChildError` if it raised."""
        if self.wait() == -signal.SIGKILL:
            os.close(self.outcome)
            return True
        self.result()
        return False


def _call(outcome: int, function: Callable[..., Any], args: tuple[Any, ...]) -> NoReturn:
    signal.alarm(LIFETIME)
    try:
        report = pickle.dumps((True, function(*args)))
    except BaseException:
        report = pickle.dumps((False, traceback.format_exc()))
    with os.fdopen(outcome, "wb") as stream:
        stream.write(report)
    os._exit(0)


def rehearse(function: Callable[..., Any], *args: Any) -> None:
    """Prepare a nursery for forks that do what `function` does: once, instead of in each of them.

    What a first fork has imported is imported here, the texts of statements are made, and what is there by now is
    no business of a fork's garbage collection, which would copy all of it.
    """
    for name in Fork(_imported_by, function, args).result():
        with suppress(ImportError):
            importlib.import_module(name)
    for dialect in DIALECTS:
        Statements.of(dialect)
    gc.freeze()


def _imported_by(function: Callable[..., Any], args: tuple[Any, ...]) -> list[str]:
    function(*args)
    return list(sys.modules)


class Gate:
    """A pipe between a nursery and its forks: each side tells the other by single bytes. Made before the fork."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()

    def tell(self, count: int = 1) -> None:
        os.write(self._write, b"." * count)

    def wait(self, count: int = 1, teller: Fork | None = None) -> None:
        """Until it has been told so often. Raises `TimeoutError` after `PATIENCE`, and at once `ChildError` if the
        fork that was to tell has ended instead."""
        deadline = time.monotonic() + PATIENCE
        sources = [self._read] if teller is None else [self._read, teller.outcome]
        while count:
            left = deadline - time.monotonic()
            ready = select.select(sources, [], [], left)[0] if left > 0 else []
            if self._read in ready:
                count -= len(os.read(self._read, count))
            elif ready and teller is not None:
                raise ChildError(f"{teller.name} returned {teller.result()!r} and told nothing")
            else:
                raise TimeoutError(f"nothing came through the gate in {PATIENCE} s")

    def close(self) -> None:
        os.close(self._read)
        os.close(self._write)


def in_parallel(count: int, function: Callable[[int], Any]) -> list[Any]:
    """`function(index)` in so many forks at once; they start together. Returns the results in order."""
    ready, start = Gate(), Gate()

    def together(index: int) -> Any:
        ready.tell()
        start.wait()
        return function(index)

    forks = [Fork(together, index) for index in range(count)]
    ready.wait(count)
    start.tell(count)
    results = [fork.result() for fork in forks]
    ready.close()
    start.close()
    return results
