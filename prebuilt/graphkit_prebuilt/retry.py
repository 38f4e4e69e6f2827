"""`ModelRetryStrategy`: calling the model again when its service has too much to do."""

from __future__ import annotations

import asyncio
from typing import Any

from graphkit.errors import ModelThrottledException
from graphkit_prebuilt.hooks.catalogue import AfterModelCallEvent
from graphkit_prebuilt.hooks.registry import HookRegistry
from graphkit_prebuilt.loop.invocation import Invocation, invocation_of

__all__ = ["ModelRetryStrategy"]


class ModelRetryStrategy:
    """Calls the model again after a `ModelThrottledException`, at most `max_attempts` times in all.

    Waits before each further attempt, in seconds: `initial_delay`, then twice as long every time, but never longer than
    `max_delay`. Attempts are counted per request, and anew when the model has answered. A subclass may override
    `is_retryable`. Raises `ValueError` for numbers that make no sense. Behaviour: Strands' `ModelRetryStrategy`.
    """

    def __init__(self, *, max_attempts: int = 6, initial_delay: float = 4, max_delay: float = 240) -> None:
        if isinstance(max_attempts, bool) or not isinstance(max_attempts, int) or max_attempts < 1:
            raise ValueError(f"max_attempts must be a number of attempts, 1 or more, not {max_attempts!r}")
        for name, delay in (("initial_delay", initial_delay), ("max_delay", max_delay)):
            if isinstance(delay, bool) or not isinstance(delay, (int, float)) or not delay >= 0:
                raise ValueError(f"{name} must be a number of seconds, 0 or more, not {delay!r}")
        self.max_attempts = max_attempts
        self.initial_delay = initial_delay
        self.max_delay = max_delay

    def is_retryable(self, exception: Exception) -> bool:
        """Whether the model is called again after this exception."""
        return isinstance(exception, ModelThrottledException)

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        registry.add_callback(AfterModelCallEvent, self._after_model_call, when=self._has_failed)

    def _has_failed(self, invocation: Invocation) -> bool:
        return invocation.exception is not None and self.is_retryable(invocation.exception)

    async def _after_model_call(self, event: AfterModelCallEvent) -> None:
        if event.retry or event.exception is None or not self.is_retryable(event.exception):
            return
        request = invocation_of(event.agent)
        assert request is not None
        answers, failures = request.scratch.get(self, (0, 0))
        if answers != request.metrics.cycle_count:
            answers, failures = request.metrics.cycle_count, 0
        failures += 1
        request.scratch[self] = answers, failures
        if failures >= self.max_attempts:
            return
        delay = self._delay(failures)
        vars(event)["delay"] = delay  # for the stream of dicts
        await asyncio.sleep(delay)
        event.retry = True

    def _delay(self, failures: int) -> float:
        return min(self.initial_delay * 2.0 ** min(failures - 1, 64), self.max_delay)
