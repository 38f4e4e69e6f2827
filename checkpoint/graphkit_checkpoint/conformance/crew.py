"""Processes that use a saver as other programs would: each opens its own by a pickled `make`."""

from __future__ import annotations

import asyncio
import inspect
import multiprocessing
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, Final

from graphkit_checkpoint.conformance.verdicts import CheckFailedError, that

SIZE: Final = 2
PATIENCE: Final = 60.0
"""Seconds to wait for another process: longer than for a thread, since each imports everything anew."""

Job = Callable[..., Any]
"""A function of a module, called with the process's saver, the crew's barrier and further arguments."""

# Not forked: the process that runs the suite may have threads, whose locks a child would inherit.
_processes = multiprocessing.get_context("spawn")


class Worker:
    """One process, which does one job after the other."""

    def __init__(self, make: Callable[..., Any], barrier: Any) -> None:
        self.pipe, theirs = _processes.Pipe()
        self.process = _processes.Process(target=_work, args=(make, theirs, barrier), daemon=True)
        self.process.start()
        theirs.close()

    def begin(self, job: Job, *args: Any) -> None:
        self.pipe.send((job, args))

    def result(self) -> Any:
        """What the job returned. Fails with its traceback, if it raised."""
        that(self.pipe.poll(PATIENCE), f"a process has not answered for {PATIENCE:.0f} s")
        try:
            succeeded, result = self.pipe.recv()
        except EOFError:
            raise CheckFailedError("a process has ended in the middle of its job") from None
        that(succeeded, f"in another process: {result}")
        return result

    def call(self, job: Job, *args: Any) -> Any:
        self.begin(job, *args)
        return self.result()

    def kill(self) -> None:
        self.process.kill()
        self.process.join(PATIENCE)
        self.pipe.close()


class Crew:
    """Several workers that can start together, from their barrier."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make
        self._barrier = _processes.Barrier(SIZE)
        self.workers = [Worker(make, self._barrier) for _ in range(SIZE)]

    def together(self, job: Job, *args: Any) -> list[Any]:
        """The same job in every process; the results in the order of the workers."""
        for number, worker in enumerate(self.workers):
            worker.begin(job, number, *args)
        return [worker.result() for worker in self.workers]

    def extra(self) -> Worker:
        """One more, not part of the crew: to be killed."""
        return Worker(self._make, self._barrier)

    def close(self) -> None:
        for worker in self.workers:
            worker.kill()


def _work(make: Callable[..., Any], pipe: Connection, barrier: Any) -> None:
    saver: Any = None
    while True:
        try:
            job, args = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            saver = saver or _opened(make)
            answer: Sequence[Any] = (True, job(saver, barrier, *args))
        except Exception:
            answer = (False, traceback.format_exc(limit=-4))
        pipe.send(answer)


def _opened(make: Callable[..., Any]) -> Any:
    made = make()
    if not inspect.isawaitable(made):
        return made

    async def awaited() -> Any:
        return await made

    return asyncio.run(awaited())
