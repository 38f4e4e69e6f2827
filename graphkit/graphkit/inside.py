"""What runs inside an attempt: graphs that it has called, and tasks.

An attempt ends when everything that it has started through us has ended, so that every question is reported and
nothing runs on after its run has returned. When it is given up, what runs inside it is woken to end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import Any, Protocol


class Inner(Protocol):
    """Something that was started inside an attempt."""

    def stop(self) -> None:
        """End as soon as may be. From any thread; does not wait."""

    def drop(self) -> Collection[Any] | None:
        """End now if nothing else ever would: a stream that nobody reads any more. Returns None if it goes on,
        else the asyncio futures after which it has ended."""


class Inside:
    """The inner ones of one attempt that have not ended."""

    __slots__ = ("_emptied", "_inner", "_lock", "_stopped")

    def __init__(self) -> None:
        self._inner: dict[Inner, None] = {}
        self._lock = threading.Lock()
        self._emptied: list[Callable[[], object]] = []
        self._stopped = False

    def __bool__(self) -> bool:
        return bool(self._inner)

    def enter(self, inner: Inner) -> None:
        with self._lock:
            self._inner[inner] = None
            stopped = self._stopped
        if stopped:
            inner.stop()

    def leave(self, inner: Inner) -> None:
        """It has ended. May be said twice."""
        with self._lock:
            self._inner.pop(inner, None)
            emptied = [] if self._inner else self._emptied
            self._emptied = [] if emptied else self._emptied
        for call in emptied:
            call()

    def stop(self) -> bool:
        """Stop everything, and what comes later too. Returns whether there is anything."""
        with self._lock:
            self._stopped = True
            inner = list(self._inner)
        for one in inner:
            one.stop()
        return bool(inner)

    def wait(self, seconds: float | None = None) -> None:
        """Until all have ended, at most so long."""
        self._drop()
        ended = threading.Event()
        if self._has_to_wait(ended.set):
            ended.wait(seconds)

    async def await_all(self) -> None:
        """Until all have ended."""
        import asyncio

        loop = asyncio.get_running_loop()
        if ending := self._drop():
            await asyncio.wait(ending)
        ended = asyncio.Event()
        if self._has_to_wait(lambda: loop.call_soon_threadsafe(ended.set)):
            await ended.wait()

    def _drop(self) -> list[Any]:
        ending: list[Any] = []
        for one in list(self._inner):
            futures = one.drop()
            if futures is not None:
                self.leave(one)
                ending += futures
        return ending

    def _has_to_wait(self, emptied: Callable[[], object]) -> bool:
        with self._lock:
            if self._inner:
                self._emptied.append(emptied)
            return bool(self._inner)
