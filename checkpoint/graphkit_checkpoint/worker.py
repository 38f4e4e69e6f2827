"""`Worker`: where the blocking calls of one object are made for async callers."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

T = TypeVar("T")


class Worker:
    """Threads of an object's own: calls made in them keep no event loop waiting, and nobody else's threads.

    They are started when they are needed first, and anew in a forked child, which has none of its parent's.
    One thread carries out calls in the order in which they are made.
    """

    def __init__(self, name: str, threads: int = 1) -> None:
        # Importing it later would register what it does at forks, maybe while another thread is forking.
        import concurrent.futures.thread  # noqa: F401

        self._name = name
        self._threads = threads
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._pid = 0

    async def call(self, function: Callable[..., T], *args: Any, **options: Any) -> T:
        """What `function` returns. A caller who is cancelled leaves at once, the call goes on."""
        import asyncio

        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._running(), partial(function, *args, **options))

    def submit(self, function: Callable[..., T], *args: Any) -> Future[T]:
        """`call` for blocking callers, who need not wait."""
        return self._running().submit(function, *args)

    def close(self) -> None:
        """Wait for the calls that have begun, and end the threads."""
        pool, self._pool = self._pool, None
        if pool is not None and self._pid == os.getpid():
            pool.shutdown()

    def _running(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None or self._pid != os.getpid():
                from concurrent.futures import ThreadPoolExecutor

                self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix=self._name)
                self._pid = os.getpid()
            return self._pool
