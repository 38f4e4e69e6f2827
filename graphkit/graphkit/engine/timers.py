"""What is to happen to attempts at a certain time: the next try, or the end of their patience."""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterator
from enum import Enum, auto

from graphkit.engine.attempt import Attempt


class Alarm(Enum):
    """Why an attempt is looked at when its time has come."""

    RETRY = auto()
    TIMEOUT = auto()


class Timers:
    """Alarms of the attempts of one superstep, in seconds on the clock of `effects.TIMER`."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Attempt, Alarm]] = []

    def __bool__(self) -> bool:
        return bool(self._heap)

    def set(self, due: float, attempt: Attempt, alarm: Alarm) -> None:
        heapq.heappush(self._heap, (due, id(attempt), attempt, alarm))

    def next_due(self, *current: Container[Attempt]) -> float | None:
        """When the next alarm is due; those of attempts that are in none of `current` are forgotten."""
        while self._heap and not any(self._heap[0][2] in attempts for attempts in current):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def due(self, now: float) -> Iterator[tuple[Attempt, Alarm]]:
        """The alarms whose time has come, each once, in order of time."""
        while self._heap and self._heap[0][0] <= now:
            _, _, attempt, alarm = heapq.heappop(self._heap)
            yield attempt, alarm
