"""`RateLimiter`: calls of tools, or of the model, are made no faster than a bucket of tokens fills."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from graphkit.errors import ModelThrottledException
from graphkit_checkpoint.store.base import BaseStore
from graphkit_prebuilt.content import tool_result
from graphkit_prebuilt.hooks.catalogue import ToolResultEvent
from graphkit_prebuilt.middleware.contexts import ExecuteToolContext, InvokeModelContext
from graphkit_prebuilt.middleware.marks import middleware
from graphkit_prebuilt.middleware.stages import ExecuteToolStage, InvokeModelStage
from graphkit_prebuilt.plugins import Plugin

__all__ = ["RateLimiter"]


@dataclass
class Bucket:
    """How full it was, in tokens, and when (in seconds since 1970). Less than none: they are promised already."""

    tokens: float
    at: float


class RateLimiter(Plugin):
    """Lets `rate` calls pass in `per` seconds, on average, and up to `burst` (by default `rate`) at once.

    It counts the calls of tools, or of those named in `tools`; with `model` those of the model. A call that has to
    wait does so, one after the other; one that would wait longer than `max_wait` seconds is refused: a tool's with an
    error result for the model, the model's with `ModelThrottledException`, which a retry strategy may wait out.

    The bucket is the conversation's, kept with it; with a `store` there is one for all conversations, kept there. Both
    are there after a restart, with what has flowed in since. Processes that share a store share the bucket; two that
    take from it at the very same time may take the same token. A call that runs again, since its tool has asked, is
    counted again. `clock` gives seconds since 1970, `sleep` waits.

    Raises `ValueError` for numbers that are not positive, and for a `max_wait` below 0.
    """

    def __init__(
        self,
        rate: float,
        per: float = 1.0,
        *,
        burst: float | None = None,
        tools: Iterable[str] | None = None,
        model: bool = False,
        max_wait: float | None = None,
        store: BaseStore | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
        name: str = "rate_limiter",
    ) -> None:
        for what, number in (("rate", rate), ("per", per), ("burst", rate if burst is None else burst)):
            if not _is_number(number) or number <= 0:
                raise ValueError(f"RateLimiter: {what} must be a positive number, not {number!r}")
        if max_wait is not None and (not _is_number(max_wait) or max_wait < 0):
            raise ValueError(f"RateLimiter: max_wait must be a number of seconds, or None, not {max_wait!r}")
        self.name = name
        self.per_second = rate / per
        self.burst = max(1.0, float(rate if burst is None else burst))
        self.tool_names = None if tools is None else frozenset(tools)
        self.counts_model = model
        self.counts_tools = not model or tools is not None
        self.max_wait = max_wait
        self.store = store
        self._clock = clock
        self._sleep = sleep
        self._taking = threading.Lock()

    @middleware(ExecuteToolStage)
    def _call_tool(self, context: ExecuteToolContext, next: Any) -> Any:
        name = context.tool_use["name"]
        if self.counts_tools and (self.tool_names is None or name in self.tool_names):
            wait, refused = yield from self._turn(context.agent)
            if refused:
                text = f"The tool {name} was called too often; it can be called again in {wait:.3g} s"
                return ToolResultEvent(tool_result(context.tool_use["toolUseId"], "error", text))
        return (yield from next(context))

    @middleware(InvokeModelStage)
    def _call_model(self, context: InvokeModelContext, next: Any) -> Any:
        if self.counts_model:
            wait, refused = yield from self._turn(context.agent)
            if refused:
                raise ModelThrottledException(
                    f"the model was called too often; it can be called again in {wait:.3g} s"
                )
        return (yield from next(context))

    def _turn(self, agent: Any) -> Any:
        """Wait for a token. Returns the seconds, and whether they were too many to wait."""
        if self.store is None:
            wait, refused = self._take(agent)
        else:
            wait, refused = yield asyncio.to_thread(self._take, agent)
        if wait and not refused:
            yield self._sleep(wait)
        return wait, refused

    def _take(self, agent: Any) -> tuple[float, bool]:
        """Take a token, out of what there will be if there is none."""
        with self._taking:  # also while it is stored, or an older bucket could be stored after a newer one
            bucket = self._filled(self._kept(agent))
            wait = max(0.0, (1 - bucket.tokens) / self.per_second)
            refused = self.max_wait is not None and wait > self.max_wait
            if not refused:
                bucket.tokens -= 1
            now = {"tokens": bucket.tokens, "at": bucket.at}
            if self.store is None:
                agent.set_plugin_state(self.name, now)
            else:
                self.store.put((self.name,), "bucket", now)
        return wait, refused

    def _kept(self, agent: Any) -> Bucket | None:
        if self.store is None:
            kept = agent.get_plugin_state(self.name)
        else:
            item = self.store.get((self.name,), "bucket")
            kept = None if item is None else item.value
        return None if kept is None else Bucket(kept["tokens"], kept["at"])

    def _filled(self, bucket: Bucket | None) -> Bucket:
        """The bucket as it is now. A clock that went back fills nothing."""
        now = self._clock()
        if bucket is None:
            return Bucket(self.burst, now)
        flowed = max(0.0, now - bucket.at) * self.per_second
        return Bucket(min(self.burst, bucket.tokens + flowed), now)


def _is_number(given: Any) -> bool:
    return isinstance(given, (int, float)) and not isinstance(given, bool) and math.isfinite(given)
