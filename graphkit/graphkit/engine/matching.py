"""Which recorded call is this one? Calls made inside a task, when the task runs again.

A task that runs again makes its calls again: of nested graphs, and of functions that are tasks of their own.
What such a call came to is recorded, so it has to be found. Not by its number alone: calls that are made side by
side come in another order every time, and after a crash some of them are not recorded. Not by its input alone: a
caller that puts a time or a new id into the input would find nothing. So a call is, among the recorded calls of its
name that nobody else has taken, the first with the same input; else the one at its place, if this caller makes one
call after the other and knows what the last one came to before it makes the next, as far as it has got, both now and
then. Whoever makes calls side by side finds them by their input alone: nothing else is sure not to be another's. If an
answer that has just come is of no use because of that, the task that made the calls fails (`calls.lost_answer`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import count
from typing import Any, NamedTuple

from graphkit_checkpoint.errors import UnserializableStateError
from graphkit_checkpoint.serde import fingerprint


class Call(NamedTuple):
    """A call as it is known again: the name of what is called, and a fingerprint of what it is given ("" for
    something that cannot be stored). `ordered` if its caller has made no calls side by side so far."""

    name: str
    mark: str
    ordered: bool = True


def mark_of(value: Any) -> str:
    """The fingerprint of what a call is given; "" for what cannot be stored."""
    try:
        return fingerprint(value)
    except UnserializableStateError:
        return ""


class Calls:
    """The calls of one attempt at a task. `recorded` are those of earlier attempts, with their numbers.

    Calls may come from several threads and coroutines: whoever puts a call into `_claimed` is the only one who can.
    """

    __slots__ = ("_at", "_claimed", "_equal", "_places", "_recorded")

    def __init__(self, recorded: Iterable[tuple[int, Call]] = ()) -> None:
        self._recorded = frozenset(recorded)
        self._claimed: dict[tuple[int, Call], object] = {}
        self._equal: dict[tuple[str, str], deque[tuple[int, Call]]] = {}
        self._at: dict[tuple[int, str, bool], tuple[int, Call]] = {}
        self._places = count()
        for known in sorted(self._recorded):
            number, call = known
            self._at.setdefault((number, call.name, call.ordered), known)
            if call.mark:
                self._equal.setdefault(call[:2], deque()).append(known)

    def claim(self, call: Call) -> tuple[int, Call]:
        """The recorded call that this one is, or a new one, with its number. None is given away twice."""
        place = next(self._places)
        equal = self._equal.get(call[:2])
        while equal:
            try:
                found = equal.popleft()
            except IndexError:  # taken in the meantime
                break
            if self._takes(found):
                return found
        at = self._at.get((place, call.name, call.ordered))
        if at is not None and (call.ordered or call.mark == at[1].mark) and self._takes(at):
            return at
        while (place, call) in self._recorded or not self._takes((place, call)):
            place += 1
        return place, call

    @property
    def left(self) -> list[tuple[int, Call]]:
        """The recorded calls that nobody has claimed."""
        return [known for known in sorted(self._recorded) if known not in self._claimed]

    def _takes(self, known: tuple[int, Call]) -> bool:
        own = object()
        return self._claimed.setdefault(known, own) is own
