"""Extensions: what a reducer is known to have only added to a list or dict, so that nothing else has to be stored."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection
from typing import Any, Final

Extension = int | Collection[Any]
"""How many items were appended to a list, or which keys of a dict were set."""

Fold = Callable[[Any, Any], tuple[Any, Extension] | None]
"""A reducer's result and what it added, or None if it did more than add."""


def joined(one: Extension, other: Extension) -> Extension:
    """Two extensions of one value, one after the other."""
    if isinstance(one, int) or isinstance(other, int):
        return one + other  # type: ignore[operator]
    return dict.fromkeys((*one, *other))


def _concatenated(value: Any, write: Any) -> tuple[Any, Extension] | None:
    return (value + write, len(write)) if type(value) is list and type(write) is list else None


def _merged(value: Any, write: Any) -> tuple[Any, Extension] | None:
    return (value | write, tuple(write)) if type(value) is dict and type(write) is dict else None


KNOWN: Final[dict[Any, Fold]] = {operator.add: _concatenated, operator.or_: _merged}
"""Reducers of which we know when they only add to a value; `add_messages` puts itself here."""
