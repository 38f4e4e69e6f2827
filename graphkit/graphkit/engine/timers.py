"""What is to happen to attempts at a certain time: the next try, or the end of their patience."""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterator
from enum import Enum, auto
from typing import cast

from graphkit.engine.attempt import Attempt
from graphkit.errors import NodeTimeoutError

TIMEOUT_PATIENCE = 0.2
"""Seconds that a coroutine which ran out of time has to end before its caller is told all the same."""


class Alarm(Enum):
    """Why an attempt is looked at when its time has come."""

    RETRY = auto()
    RUN = auto()
    IDLE = auto()


class Timers:
    """Alarms of the attempts of one superstep, in seconds on the clock of `effects.TIMER`.

    Progress does not touch the alarm that it puts off: the alarm is set anew when it goes off, so that signs of
    progress cost next to nothing however many they are.
    """

    __slots__ = ("_number", "_seen", "alarms")

    def __init__(self) -> None:
        self.alarms: list[tuple[float, int, Attempt, Alarm]] = []
        self._number = 0
        self._seen: dict[Attempt, tuple[float, float]] = {}  # when it began, when it made progress last

    def set(self, due: float, attempt: Attempt, alarm: Alarm) -> None:
        self._number += 1  # of two alarms for one time, the one that was set first
        heapq.heappush(self.alarms, (due, self._number, attempt, alarm))

    def start(self, attempt: Attempt, now: float) -> None:
        """An attempt with a timeout begins."""
        run, idle = _limits(attempt)
        self._seen[attempt] = now, now
        if run is not None:
            self.set(now + run, attempt, Alarm.RUN)
        if idle is not None:
            self.set(now + idle, attempt, Alarm.IDLE)

    def progress(self, attempt: Attempt, now: float) -> None:
        """The attempt has shown that it gets on."""
        began, _ = self._seen[attempt]
        self._seen[attempt] = began, now

    def overran(self, attempt: Attempt, now: float) -> bool:
        """Whether the attempt's run timeout is over."""
        run, _ = _limits(attempt)
        began, _ = self._seen[attempt]
        return run is not None and now >= began + run

    def next_due(self, *current: Container[Attempt]) -> float | None:
        """When the next alarm is due; those of attempts that are in none of `current` are forgotten."""
        while self.alarms and not any(self.alarms[0][2] in attempts for attempts in current):
            heapq.heappop(self.alarms)
        return self.alarms[0][0] if self.alarms else None

    def due(self, now: float) -> Iterator[tuple[Attempt, Alarm]]:
        """The alarms whose time has come, each once, in order of time."""
        while self.alarms and self.alarms[0][0] <= now:
            _, _, attempt, alarm = heapq.heappop(self.alarms)
            if alarm is Alarm.IDLE and (patient := self._idle_until(attempt)) > now:
                self.set(patient, attempt, alarm)
            else:
                yield attempt, alarm

    def _idle_until(self, attempt: Attempt) -> float:
        _, idle = _limits(attempt)
        _, progress = self._seen[attempt]
        assert idle is not None
        return progress + idle

    def error(self, attempt: Attempt, alarm: Alarm, now: float) -> NodeTimeoutError:
        """What an attempt has failed with whose time is over."""
        run, idle = _limits(attempt)
        began, _ = self._seen[attempt]
        return NodeTimeoutError(
            attempt.node.name,
            now - began,
            kind="idle" if alarm is Alarm.IDLE else "run",
            idle_timeout=idle,
            run_timeout=run,
        )


def _limits(attempt: Attempt) -> tuple[float | None, float | None]:
    """The run timeout and the idle timeout of an attempt that has a timeout, in seconds."""
    policy = attempt.node.timeout
    assert policy is not None
    # In seconds since `TimeoutPolicy.coerce`.
    return cast("float | None", policy.run_timeout), cast("float | None", policy.idle_timeout)
