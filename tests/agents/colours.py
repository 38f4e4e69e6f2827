"""Steps taken in either colour."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from graphkit_prebuilt.loop.steps import Steps, awaited, blocking

T = TypeVar("T")


def in_a_thread_of_ours(steps: Steps[T]) -> T:
    return blocking(steps)


def on_a_loop(steps: Steps[T]) -> T:
    return asyncio.run(_awaited(steps))


async def _awaited(steps: Steps[T]) -> T:
    return await awaited(steps)


COLOURS: list[Callable[[Steps[Any]], Any]] = [in_a_thread_of_ours, on_a_loop]
