"""`Threads`: the threads of an agent or orchestrator that are at hand."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, Final, Generic, TypeVar
from weakref import WeakValueDictionary

from graphkit_prebuilt.host_thread import HostThread

T = TypeVar("T", bound=HostThread)

RECENT: Final = 256
"""How many are kept that have nothing to keep."""


class Threads(Generic[T]):
    """There is one object for a thread, which knows what was changed since the last request.

    It is kept while somebody has it, or while what it knows is not stored, or while few others are in use.
    """

    def __init__(self, make: Callable[[Any, str], T], host: Any) -> None:
        self._make = make
        self._host = host
        self._known: WeakValueDictionary[str, T] = WeakValueDictionary()
        self._recent: OrderedDict[str, T] = OrderedDict()
        self._adding = Lock()

    def get(self, thread_id: str) -> T:
        """The one object for this thread."""
        return self._known.get(thread_id) or self._added(thread_id)

    def keep(self, thread: T) -> None:
        """It is about to know something that is not stored."""
        self._recent[thread.id] = thread

    def _added(self, thread_id: str) -> T:
        with self._adding:
            thread = self._known.get(thread_id)
            if thread is None:
                thread = self._known[thread_id] = self._make(self._host, thread_id)
                self._recent[thread_id] = thread
                if len(self._recent) > RECENT:
                    first_id, first = self._recent.popitem(last=False)
                    if first.is_changed:
                        self._recent[first_id] = first
        return thread
