"""Several runs of one graph, side by side (source: LangChain's runnables)."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from graphkit.types import RunnableConfig

MOST: Final = 32
"""Runs at a time in threads, if no config says how many."""

Configs = RunnableConfig | Sequence[RunnableConfig] | None


def batched(
    invoke: Callable[[Any, RunnableConfig | None], Any],
    inputs: Sequence[Any],
    config: Configs,
    tolerant: bool,
) -> list[Any]:
    """The result for each input, in their order. An error is raised when all runs have ended, the first one of the
    order; if `tolerant` it stands in the place of a result. What interrupts this thread starts no more of them."""
    configs = _configs(config, len(inputs))
    if not inputs:
        return []
    with ThreadPoolExecutor(_most(configs) or min(len(inputs), MOST), "graphkit-batch") as pool:
        try:
            runs = [
                pool.submit(contextvars.copy_context().run, invoke, given, own)
                for given, own in zip(inputs, configs, strict=True)
            ]
            ended = [_ended(run) for run in runs]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return _results(ended, tolerant)


async def abatched(
    ainvoke: Callable[[Any, RunnableConfig | None], Awaitable[Any]],
    inputs: Sequence[Any],
    config: Configs,
    tolerant: bool,
) -> list[Any]:
    """`batched` on the running event loop."""
    configs = _configs(config, len(inputs))
    places = asyncio.Semaphore(_most(configs) or max(len(inputs), 1))

    async def run(given: Any, own: RunnableConfig | None) -> Any:
        async with places:
            return await ainvoke(given, own)

    runs = (run(given, own) for given, own in zip(inputs, configs, strict=True))
    return _results(await asyncio.gather(*runs, return_exceptions=True), tolerant)


def _ended(run: Future[Any]) -> Any:
    error = run.exception()
    return run.result() if error is None else error


def _results(ended: list[Any], tolerant: bool) -> list[Any]:
    for each in ended:
        if isinstance(each, BaseException) and not (tolerant and isinstance(each, Exception)):
            raise each
    return ended


def _configs(config: Configs, count: int) -> list[RunnableConfig | None]:
    if config is None or isinstance(config, dict):
        return [config] * count
    if len(config) != count:
        raise ValueError(
            f"{count} inputs were given, and {len(config)} configs; give one config, or one for each input"
        )
    return [*config]


def _most(configs: Sequence[RunnableConfig | None]) -> int | None:
    """How many runs at a time the configs allow."""
    limits = [limit for own in configs if own and (limit := own.get("max_concurrency")) is not None]
    return min(limits, default=None)
