"""The room for events between nodes that emit and a consumer that reads more slowly."""

from __future__ import annotations

import asyncio
import threading

from graphkit.engine.attempt import Attempt

_making = threading.Lock()

ROOM = 256
"""Events that may wait to be read; a node in a thread that emits more waits until half of them are read."""


class Buffer:
    """Counts the events of a run that are on their way. Used from any thread.

    Only threads wait: a coroutine that emits would stop its loop, and with it perhaps the consumer. Nobody
    waits, and nothing is let in, once the run is over.
    """

    __slots__ = ("_closed", "_consumer", "_count", "_used", "_waiting")

    def __init__(self) -> None:
        self._used: threading.Condition | None = None  # most runs emit nothing
        self._count = 0
        self._waiting = 0
        self._closed = False
        self._consumer = threading.get_ident()

    @property
    def _changed(self) -> threading.Condition:
        if self._used is None:
            with _making:
                self._used = self._used or threading.Condition(threading.Lock())
        return self._used

    def enter(self, attempt: Attempt) -> bool:
        """Make room for an event of this attempt. False if it is too late for it."""
        with self._changed:
            if self._count >= ROOM and self._may_wait():
                self._waiting += 1
                while self._count >= ROOM and not (self._closed or attempt.stopped):
                    self._changed.wait()
                self._waiting -= 1
            if self._closed or attempt.stopped:
                return False
            self._count += 1
            return True

    def leave(self) -> None:
        """An event has been taken out, in the thread of the consumer."""
        with self._changed:
            self._count -= 1
            self._consumer = threading.get_ident()
            if self._waiting and self._count <= ROOM // 2:
                self._changed.notify_all()

    def wake(self) -> None:
        """An attempt is over: it waits for nothing any more."""
        if self._used is not None:
            with self._used:
                self._used.notify_all()

    def close(self) -> None:
        """The run is over."""
        self._closed = True  # first: whoever enters looks at it afterwards
        self.wake()

    def _may_wait(self) -> bool:
        if threading.get_ident() == self._consumer:
            return False
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return True
        return False
