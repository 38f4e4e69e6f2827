"""Tools of the crash tests: processes to kill, points to die at, and a witness that survives.

A test function runs in a child of its own, dies at the n-th point of its work with the database, and
another child goes on. What the nodes did is read from a `Witness`, a file outside of the database.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait as wait_for
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, Literal, TypeAlias

from sqlalchemy import event
from sqlalchemy.engine import Engine

PATIENCE = 60
"""Seconds after which a process gives up waiting for another one; reached only by a defect."""
LIFETIME = 1800 if os.environ.get("GRAPHKIT_CHAOS") else 2 * PATIENCE
"""Seconds after which a child ends, whatever it is doing, even if the tests themselves were killed. The long forms have
so many episodes in one child that a busy machine needs many minutes."""

# Children are forked from a server that has imported these and has no threads: forking the process that
# runs the tests would copy locks that its other threads hold.
PROCESSES = multiprocessing.get_context("forkserver")
IMPORTED = [
    "pytest",  # imported by every child when it is the program that runs the tests
    "hypothesis",
    "graphkit.checkpoint.sqlite",
    "sqlalchemy.dialects.postgresql.psycopg",
    "psycopg",
    "tests.conftest",
    "tests.faults",
]

When: TypeAlias = Literal["before", "after"]
Reached: TypeAlias = Callable[[When, int, str], None]
"""Called with a point's number, from 1, and what it is."""


# --- Processes ----------------------------------------------------------------------------------------


class ChildError(Exception):
    """A child raised, or ended before its function returned; the message has its traceback."""


class Child:
    """One call of a function in a process of its own. Made by `fork_child`."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.name = f"{function.__module__}.{function.__qualname__}"
        self.traceback = ""
        """Of what the function raised; empty after a normal end and after a death by a signal."""
        self._returned: list[Any] = []
        self._outcome, outcome = PROCESSES.Pipe(duplex=False)
        # A daemon: the end of the tests does not wait for it.
        self._process = PROCESSES.Process(target=_call, args=(outcome, function, args), daemon=True)
        self._process.start()
        outcome.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def status(self) -> int | None:
        """As in `subprocess`: 0 after a normal end, 1 when it raised, -9 after SIGKILL; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float = PATIENCE) -> int:
        """Wait for the end; returns `status`. Raises `TimeoutError`, after killing the child."""
        if not self._outcome.closed:
            # Both: a process that the child started may hold the pipe open after the child has ended.
            if not wait_for([self._outcome, self._process.sentinel], timeout):
                self.kill()
                raise TimeoutError(f"{self.name} in process {self.pid} had not ended after {timeout} s")
            self._receive()
        self._process.join(timeout)
        if self.status is None:
            self.kill()
            raise TimeoutError(f"{self.name} returned, but process {self.pid} did not end in {timeout} s")
        return self.status

    def result(self, timeout: float = PATIENCE) -> Any:
        """Wait for the end and return what the function returned. Raises `ChildError`, `TimeoutError`."""
        status = self.wait(timeout)
        if not self._returned:
            raise ChildError(f"{self.name} ended with status {status}\n{self.traceback}")
        return self._returned[0]

    def kill(self) -> None:
        """SIGKILL; returns when the process has ended."""
        self._process.kill()
        self._process.join(PATIENCE)

    def _receive(self) -> None:
        # Nothing comes from one that ended by a signal or by os._exit, perhaps while it reported.
        with self._outcome as outcome, contextlib.suppress(EOFError, OSError):
            if outcome.poll():
                self._returned, self.traceback = outcome.recv()


def fork_child(function: Callable[..., Any], *args: Any) -> Child:
    """Call an importable function in a fresh process; arguments and result are pickled.

    The process is forked from a server that has imported graphkit, not from this one. Safe in any thread.
    """
    PROCESSES.set_forkserver_preload(IMPORTED)
    return Child(function, args)


def barrier(parties: int) -> Barrier:
    """An argument of `parties` children, each of which calls its `wait()` when it is ready: all go on at once.

    When one does not come within `PATIENCE` the others raise `threading.BrokenBarrierError`.
    """
    return PROCESSES.Barrier(parties, timeout=PATIENCE)


def _call(outcome: Pipe, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    signal.alarm(LIFETIME)
    try:
        outcome.send(([function(*args)], ""))
    except SystemExit:
        raise
    except BaseException:
        outcome.send(([], traceback.format_exc()))
        raise SystemExit(1) from None


# --- Points to die at ---------------------------------------------------------------------------------


def count_points(engine: Engine, run: Callable[[], object]) -> int:
    """The number of points that `run` reaches; see `points`."""
    return len(points(engine, run))


def points(engine: Engine, run: Callable[[], object]) -> list[str]:
    """What `run` does with the database through `engine`, in order: each statement, and "COMMIT".

    Statements of every connection of the engine and of any thread are points, also those of connections
    that are already open; what goes around SQLAlchemy to the driver itself is not (how SQLite's savers
    begin, what a dialect asks when it first connects), and neither is a rollback, after which the database
    is as after dying. `run` has to do the same every time for the numbers to mean something.
    """
    found: list[str] = []

    def reached(when: When, number: int, what: str) -> None:
        if when == "before":
            found.append(what)

    stop = _watch(engine, reached)
    try:
        run()
    finally:
        stop()
    return found


def die_at(engine: Engine, number: int, when: When) -> None:
    """From now on, SIGKILL this process right before or right after point `number`, counted from 1.

    "after" a statement is before its results are read; "after" a commit the driver has reported it done.
    """

    def reached(now: When, at: int, what: str) -> None:
        if (now, at) == (when, number):
            os.kill(os.getpid(), signal.SIGKILL)

    _watch(engine, reached)


def _watch(engine: Engine, reached: Reached) -> Callable[[], None]:
    """Call `reached` before and after every point of `engine`, until the returned function is called."""
    lock = threading.Lock()
    running: dict[int, int] = {}
    """The numbers of the statements under way, by cursor: coroutines of one thread may each have one."""
    last = 0

    def before(what: str) -> int:
        nonlocal last
        with lock:  # also around the call, so that points are listed in the order of their numbers
            last += 1
            reached("before", last, what)
            return last

    def before_statement(_connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        running[id(cursor)] = before(statement)

    def after_statement(_connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        reached("after", running.pop(id(cursor)), statement)

    dialect: Any = engine.dialect
    commit = dialect.do_commit

    # Wrapped, because the event "commit" comes before the commit and there is none after it.
    def do_commit(connection: Any) -> None:
        number = before("COMMIT")
        commit(connection)
        reached("after", number, "COMMIT")

    def stop() -> None:
        dialect.do_commit = commit
        event.remove(engine, "before_cursor_execute", before_statement)
        event.remove(engine, "after_cursor_execute", after_statement)

    event.listen(engine, "before_cursor_execute", before_statement)
    event.listen(engine, "after_cursor_execute", after_statement)
    dialect.do_commit = do_commit
    return stop


# --- Witness ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Witness:
    """A file of effects, one line each, that is only ever appended to. Any process and thread may note."""

    path: str | os.PathLike[str]

    def note(self, line: str) -> None:
        """One line in one write: never torn, whoever writes or dies at the same time."""
        if "\n" in line:
            raise ValueError(f"a witness notes single lines, not {line!r}")
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, f"{line}\n".encode())
        finally:
            os.close(descriptor)

    def lines(self) -> list[str]:
        """All lines, in the order written; none if nothing was noted."""
        file = Path(self.path)
        return file.read_text().splitlines() if file.exists() else []

    def count(self, line: str) -> int:
        """How often exactly this line was noted."""
        return self.lines().count(line)
