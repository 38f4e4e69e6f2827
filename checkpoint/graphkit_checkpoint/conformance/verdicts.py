"""The words in which checks say what they expect. Not `assert`: that does nothing under `python -O`."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

PATIENCE: Final = 20.0
"""Seconds to wait for what takes far less than one; reached only by a defect."""


class CheckFailedError(AssertionError):
    """What a check expected is not so."""


def that(condition: object, problem: str) -> None:
    """Fail with this problem unless the condition holds."""
    if not condition:
        raise CheckFailedError(problem)


def equal(found: object, wanted: object, what: str = "") -> None:
    """Fail unless both are equal in value, type and order, all the way down."""
    that(same(found, wanted), f"{what or 'found'}: {found!r:.300}, expected: {wanted!r:.300}")


def same_state(found: Mapping[str, Any], wanted: Mapping[str, Any], what: str = "state") -> None:
    """Fail unless the same channels have the same values, exactly. Channels have no order."""
    equal(dict(sorted(found.items())), dict(sorted(wanted.items())), what)


def same(one: Any, other: Any) -> bool:
    """Whether nobody could tell the two apart: not by type, sign of zero, order of keys or kind of NaN."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return struct.pack(">d", one) == struct.pack(">d", other) or (one != one and other != other)
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, (set, frozenset)):
        return same(sorted(one, key=_sortable), sorted(other, key=_sortable))
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other) or repr(one) == repr(other)


def _sortable(item: object) -> tuple[str, str]:
    return type(item).__qualname__, repr(item)


@contextmanager
def refused(error: type[Exception], *parts: str) -> Iterator[None]:
    """Fail unless the block raises this error, with all these parts in its message."""
    try:
        yield
    except error as raised:
        for part in parts:
            that(part in str(raised), f"the message of {type(raised).__name__} lacks {part!r}: {raised}")
    except Exception as raised:
        raise CheckFailedError(
            f"{type(raised).__name__} was raised instead of {error.__name__}: {raised}"
        ) from raised
    else:
        raise CheckFailedError(f"{error.__name__} was not raised")


def eventually(condition: Callable[[], object], problem: str) -> None:
    """Ask again and again until the condition holds; fail after `PATIENCE`."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        that(time.monotonic() < deadline, f"{problem}, after {PATIENCE:.0f} s")
        time.sleep(0.005)
