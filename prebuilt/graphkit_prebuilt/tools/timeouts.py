"""The time that a call of a tool may take."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


def check_timeout(timeout: Any) -> float | None:
    """`timeout` in seconds. Raises `ValueError` unless it is None or a positive number."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < float("inf"):
        raise ValueError(f"timeout= of a tool is a positive number of seconds, not {timeout!r}")
    return float(timeout)


class TimeLimit:
    """So many seconds, from now on, for everything that is done under it. What does not end in them raises
    `TimeoutError`."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def _left(self) -> float:
        return max(0.0, self._end - time.monotonic())

    def call(self, function: Callable[[], T]) -> T:
        """Call a function that blocks. When it is too late the function runs on, and nobody waits for it: it has a
        thread of its own, since one that never ends must not take one that others wait for."""
        context = contextvars.copy_context()
        future: Future[T] = Future()

        def work() -> None:
            try:
                future.set_result(context.run(function))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=work, name="graphkit-tool", daemon=True).start()
        try:
            return future.result(self._left)
        except TimeoutError:
            if future.done():  # the function's own
                raise
            raise self._too_late() from None

    async def wait(self, function: Callable[[], Awaitable[T]]) -> T:
        """Call an async function, and cancel it when it is too late."""
        try:
            async with asyncio.timeout(self._left) as limit:
                return await function()
        except TimeoutError:
            if limit.expired():
                raise self._too_late() from None
            raise

    async def items(self, items: AsyncIterator[T]) -> AsyncIterator[T]:
        """The items of an async iterator."""
        while True:
            try:
                item = await self.wait(items.__anext__)
            except StopAsyncIteration:
                return
            yield item

    def _too_late(self) -> TimeoutError:
        return TimeoutError(f"the tool did not end within its timeout of {self.seconds:g} s")
