"""Copies of plain data that tell when somebody changes them, so that nobody has to compare them to find out.

Their dicts and lists are dicts and lists in everything else: they are equal to plain ones, and are stored, copied and
pickled as plain ones. What calls the methods of `dict` and `list` past theirs (`dict.update(copy, …)`, C code that
writes into a list) is not told of. The idea: `sqlalchemy.ext.mutable`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final

__all__ = ["WATCHED", "WatchedDict", "WatchedList", "copied", "watched"]

_FIXED: Final = frozenset({str, int, bytes, type(None), bool, float})


class WatchedDict(dict[Any, Any]):
    """A dict that calls `tell` before it is changed."""

    __slots__ = ("tell",)
    tell: Callable[[], object]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return dict, (dict(self),)


class WatchedList(list[Any]):
    """A list that calls `tell` before it is changed."""

    __slots__ = ("tell",)
    tell: Callable[[], object]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return list, (list(self),)


WATCHED: Final = frozenset({WatchedDict, WatchedList})

_DICTS: Final = frozenset({dict, WatchedDict})
_LISTS: Final = frozenset({list, WatchedList})
_CHANGES: Final = {
    WatchedDict: "__setitem__ __delitem__ __ior__ clear pop popitem setdefault update",
    WatchedList: "__setitem__ __delitem__ __iadd__ __imul__ append clear extend insert pop remove reverse sort",
}


def _telling(change: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(change)
    def told(self: Any, *args: Any, **kwargs: Any) -> Any:
        tell = getattr(self, "tell", None)  # not of what somebody has made by `type(copy)(...)`
        if tell is not None:
            tell()  # first: a change that fails half way is one
        return change(self, *args, **kwargs)

    return told


for _kind, _names in _CHANGES.items():
    for _name in _names.split():
        setattr(_kind, _name, _telling(getattr(_kind, _name)))


def watched(value: Any, tell: Callable[[], object]) -> Any:
    """A copy that shares nothing with the original that could be changed, and calls `tell` before it is changed itself.
    If there is something in it that cannot tell, such as an object, `tell` is called at once."""
    kind = type(value)
    if kind in _DICTS:
        entries = WatchedDict(value)
        entries.tell = tell
        for key, one in value.items():
            if type(one) not in _FIXED:
                dict.__setitem__(entries, key, watched(one, tell))
        return entries
    if kind in _LISTS:
        items = WatchedList([one if type(one) in _FIXED else watched(one, tell) for one in value])
        items.tell = tell
        return items
    if kind in _FIXED:
        return value
    tell()
    return deepcopy(value)


def copied(value: Any) -> Any:
    """A plain copy that shares nothing with the original that could be changed."""
    kind = type(value)
    if kind in _DICTS:
        copy = value.copy()
        for key, one in value.items():
            if type(one) not in _FIXED:
                copy[key] = copied(one)
        return copy
    if kind in _LISTS:
        return [one if type(one) in _FIXED else copied(one) for one in value]
    return value if kind in _FIXED else deepcopy(value)
