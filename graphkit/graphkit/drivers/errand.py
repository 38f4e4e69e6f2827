"""An attempt that a thread of the pool is sent to make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from contextvars import Context
from itertools import pairwise

from graphkit.drivers.execute import execute
from graphkit.drivers.pools import pool_at
from graphkit.engine.attempt import Attempt, Outcome


class Errand:
    """What a driver keeps of an attempt in a thread: a future without the condition that every future is made with,
    since its driver waits for whatever arrives and not for one of them. That is a third of a brief task in a
    fan-out. It runs in a copy of the context `around` unless the attempt has one of its own. In a queue it leads
    to the next one when it says that it has begun, or ends."""

    __slots__ = ("_attempt", "_context", "_ended", "_error", "_next", "_outcome", "_tell", "_untaken")

    def __init__(
        self, attempt: Attempt, around: Context, tell: Callable[[tuple[Attempt, Errand]], None]
    ) -> None:
        self._attempt = attempt
        self._context = attempt.context or around
        self._tell = tell
        # Whoever pops it decides, in any thread; a list would be garbage to collect.
        self._untaken = bytearray(1)
        self._outcome: Outcome | None = None
        self._error: BaseException | None = None
        self._ended: Future[None] | None = None
        self._next: Errand | None = None

    @staticmethod
    def queue(errands: Sequence[Errand]) -> None:
        """Send a thread for the first one; each of the others when the one before has begun."""
        for one, other in pairwise(errands):
            one._next, one._attempt.begun = other, one._lead
        errands[0]._begin()

    def _begin(self) -> None:
        pool_at(self._attempt.scope.depth).take(self)

    # In the thread

    def _lead(self) -> None:
        following, self._next, self._attempt.begun = self._next, None, None
        if following is not None:
            following._begin()

    def run(self) -> bool:
        """Make the attempt, unless it has been cancelled."""
        if not self.cancel():
            self._lead()
            return False
        try:
            self._outcome = self._context.copy().run(execute, self._attempt)
        except BaseException as error:
            self._error = error
        return True

    def report(self) -> None:
        if self._next is not None:
            self._lead()
        self._tell((self._attempt, self))
        if self._ended is not None:
            self._end(self._ended)

    def refuse(self, error: RuntimeError) -> None:
        errand: Errand | None = self
        while errand is not None:  # there is no thread for those behind it either
            following, errand._next = errand._next, None
            if errand.cancel():
                errand._error = error
                errand.report()
            errand = following

    # As a future

    def cancel(self) -> bool:
        """Whether it has not begun, and never will."""
        try:
            self._untaken.pop()
        except IndexError:
            return False
        return True

    def done(self) -> bool:
        return self._outcome is not None or self._error is not None

    def result(self) -> Outcome:
        """What has come of it, once it has been told of."""
        if self._error is not None:
            raise self._error
        assert self._outcome is not None
        return self._outcome

    def ending(self) -> Future[None]:
        """For whoever waits for this one after all: done when it is."""
        self._ended = ended = self._ended or Future()
        if self.done():
            self._end(ended)
        return ended

    def _end(self, ended: Future[None]) -> None:
        with suppress(InvalidStateError):  # both sides have seen the other
            ended.set_result(None)
