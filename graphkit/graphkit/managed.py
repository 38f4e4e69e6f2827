"""Managed values: state keys that the engine computes. Annotate a key of the state schema with one.

`RemainingSteps` is the number of supersteps left before the recursion limit, `IsLastStep` whether this is
the last one. They are never stored, and what a node returns for them is not either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

__all__ = ["IsLastStep", "ManagedValue", "RemainingSteps"]


class ManagedValue:
    """A value computed from the number of supersteps that are left."""

    def __init__(self, compute: Callable[[int], object]) -> None:
        self.compute = compute


RemainingSteps = Annotated[int, ManagedValue(lambda left: left)]
"""In a state: how many supersteps the recursion limit leaves, this one among them."""
IsLastStep = Annotated[bool, ManagedValue(lambda left: left <= 1)]
"""In a state: whether the recursion limit allows no superstep after this one."""
