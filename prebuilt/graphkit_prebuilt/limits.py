"""How much one request may use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypedDict

if TYPE_CHECKING:
    from graphkit_prebuilt.metrics import RequestMetrics

ENDLESS: Final = 1_000_000_000
"""Supersteps: what bounds a request of an agent, and a turn of an orchestrator, are limits of their own."""


class Limits(TypedDict, total=False):
    """At most so many calls of the model (`turns`), tokens that it says, and tokens in all, in one request. Looked at
    between two calls of the model, so a request may end a little above its limit in tokens."""

    turns: int
    output_tokens: int
    total_tokens: int


def check_limits(given: Any) -> Limits | None:
    """The limits that were asked for. Raises `TypeError` naming what is no limit, or no whole number above 0."""
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise TypeError(f"limits must be a dict such as {{'turns': 5}}, not {given!r:.100}")
    for key, value in given.items():
        if key not in Limits.__annotations__:
            raise TypeError(f"limits has {key!r}; it may have {', '.join(Limits.__annotations__)}")
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise TypeError(f"limits[{key!r}] must be a whole number of at least 1, not {value!r}")
    return Limits(**given)  # type: ignore[typeddict-item]


def exceeded(limits: Limits, metrics: RequestMetrics) -> str | None:
    """The stop reason of a request that has used up one of its limits; None while it may go on."""
    usage = metrics.accumulated_usage
    used = {
        "turns": metrics.cycle_count,
        "output_tokens": usage["outputTokens"],
        "total_tokens": usage["totalTokens"],
    }
    for key, most in limits.items():
        if used[key] >= most:  # type: ignore[operator]
            return f"limit_{key}"
    return None
