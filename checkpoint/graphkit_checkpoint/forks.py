"""Objects with a lock and connections, used on both sides of a fork.

A child has none of the parent's threads but all of their locks, held as they were; and SQLite, which
remembers per process which locks it has on a file, would believe in the child that the parent's are its
own, as long as a connection of the parent's is open there. So a fork waits until no such object is in use, each
lets go of what must not be on both sides, and in the child each begins anew.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Final, Protocol

PATIENCE: Final = 10.0
"""Seconds to wait for an object in use; longer only if the forking thread itself uses it."""


class ForkAware(Protocol):
    """`lock` is held while the object's connections are in use."""

    lock: threading.Lock

    def let_go(self) -> None:
        """Before a fork, under the lock: close what can be opened again and must not be on both sides."""

    def begin_anew(self) -> None:
        """In a child: let go of inherited connections, without closing them, and of threads."""


_known: weakref.WeakSet[ForkAware] = weakref.WeakSet()
_held: list[threading.Lock] = []


def survive_forks(thing: ForkAware) -> None:
    """Let this object be used on both sides of every fork from now on."""
    _known.add(thing)


def _hold_still() -> None:
    for thing in list(_known):
        if thing.lock.acquire(timeout=PATIENCE):
            _held.append(thing.lock)
            thing.let_go()


def _go_on() -> None:
    while _held:
        _held.pop().release()


def _begin_anew() -> None:
    _held.clear()
    for thing in list(_known):
        thing.lock = threading.Lock()
        thing.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_still, after_in_parent=_go_on, after_in_child=_begin_anew)
