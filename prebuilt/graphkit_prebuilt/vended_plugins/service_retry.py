"""`ServiceRetry`: the model is called again when its service fails, and not only when it has too much to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graphkit.errors import ModelThrottledException
from graphkit_prebuilt.plugins import Plugin
from graphkit_prebuilt.retry import ModelRetryStrategy

__all__ = ["ServiceRetry"]

_TEMPORARY = (
    "serviceunavailable",
    "service unavailable",
    "internalserver",
    "overloaded",
    "bad gateway",
    "gateway time",
)


class ServiceRetry(Plugin):
    """Calls the model again after an error of its service, at most `max_retries` times; waits as `ModelRetryStrategy`.

    `errors` are classes of exceptions, or a function that says whether an exception is one to retry. By default these
    are lost connections, timeouts, statuses of 500 and above, and texts that say that a service is unavailable.
    `ModelThrottledException` is left to the agent's `retry_strategy`.
    """

    def __init__(
        self,
        max_retries: int = 3,
        *,
        errors: Sequence[type[Exception]] | Callable[[Exception], bool] | None = None,
        initial_delay: float = 2,
        max_delay: float = 60,
        name: str = "service_retry",
    ) -> None:
        self.name = name
        if errors is None:
            is_retryable: Callable[[Exception], bool] = _is_temporary
        elif callable(errors):
            is_retryable = errors
        else:
            classes = tuple(errors)
            is_retryable = lambda error: isinstance(error, classes)  # noqa: E731
        self._strategy = _Strategy(
            is_retryable, max_attempts=max_retries + 1, initial_delay=initial_delay, max_delay=max_delay
        )

    def init_agent(self, agent: Any) -> None:
        agent.hooks.add_hook(self._strategy)


class _Strategy(ModelRetryStrategy):
    def __init__(self, is_retryable: Callable[[Exception], bool], **options: Any) -> None:
        super().__init__(**options)
        self._is_retryable = is_retryable

    def is_retryable(self, exception: Exception) -> bool:
        return not isinstance(exception, ModelThrottledException) and self._is_retryable(exception)


def _is_temporary(error: Exception) -> bool:
    if isinstance(error, (ConnectionError, TimeoutError)):
        return True
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return status >= 500
    text = f"{type(error).__name__} {error}".lower()
    return any(sign in text for sign in _TEMPORARY)
