"""`GraphRequest`: one call of something that is a graph, through any of its doors."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import aclosing, closing
from typing import Any, Generic, TypeVar

from graphkit.compiled import CompiledGraph
from graphkit.door import RunOptions
from graphkit.drivers.aio import AsyncDriver
from graphkit.drivers.loops import run_in_standing_loop
from graphkit.drivers.session import Abandoned
from graphkit.engine.events import Batch, Custom
from graphkit.engine.request import End
from graphkit.frame import depth_below
from graphkit.runs import aevents, events
from graphkit.streams import AsyncChunks, Stream
from graphkit.tracebacks import users_frames
from graphkit.types import RunnableConfig
from graphkit_prebuilt.hooks.event import BaseHookEvent

R = TypeVar("R")
Start = tuple[CompiledGraph, Any, RunnableConfig, RunOptions]
"""What is run: the graph, its input, config and options."""


def _told(batch: Batch) -> list[BaseHookEvent]:
    """What hooks hear, of the events of a run."""
    return [
        event.value for event in batch if type(event) is Custom and isinstance(event.value, BaseHookEvent)
    ]


class DictForm(ABC):
    """The events of one request as dicts."""

    @abstractmethod
    def of(self, event: BaseHookEvent) -> Iterator[dict[str, Any]]:
        """The dicts of one event."""

    @abstractmethod
    def ended(self, result: Any) -> Iterator[dict[str, Any]]:
        """The last dicts of a request that has a result."""

    def failed(self, error: Exception) -> Iterator[dict[str, Any]]:
        """The last dicts of a request that has failed."""
        yield from ()


class GraphRequest(ABC, Generic[R]):
    """One call, from what it is given to its result. It runs when one of its doors is used, once."""

    _result: R | None = None

    # Doors

    def run(self) -> R:
        """Run it to its end."""
        with users_frames:
            for _ in self._run(None):
                pass
            return self._ended()

    async def arun(self) -> R:
        """`run` on the running event loop."""
        with users_frames:
            async for _ in self._arun(None, []):
                pass
            return self._ended()

    def run_on_loop(self) -> R:
        """`run` by the way of `arun`, on the standing loop: for what waits for coroutines alone."""

        async def read() -> None:
            async for _ in self._arun(None, []):
                pass

        with users_frames:
            try:
                run_in_standing_loop(read(), depth_below())
            except asyncio.CancelledError as error:  # by the task around it, as it ends any run inside
                raise Abandoned from error
            return self._ended()

    def events(self) -> Iterator[BaseHookEvent]:
        """Run it and yield its events."""
        with users_frames:
            with closing(self._run("custom")) as emitted:
                for batch in emitted:
                    yield from batch
            self._ended()

    def aevents(self) -> AsyncIterator[BaseHookEvent]:
        """`events` on the running event loop."""
        opened: list[AsyncDriver] = []
        return AsyncChunks(self._aevents(opened), opened)

    def dicts(self) -> AsyncIterator[dict[str, Any]]:
        """Run it on the running event loop and yield its events as dicts."""
        opened: list[AsyncDriver] = []
        return AsyncChunks(self._adicts(opened), opened)

    async def _aevents(self, opened: list[AsyncDriver]) -> AsyncGenerator[list[BaseHookEvent], None]:
        async with aclosing(self._arun("custom", opened)) as emitted:
            async for batch in emitted:
                yield batch
        self._ended()

    async def _adicts(self, opened: list[AsyncDriver]) -> AsyncGenerator[list[dict[str, Any]], None]:
        shown = self._dict_form()
        try:
            async with aclosing(self._aevents(opened)) as emitted:
                async for batch in emitted:
                    for event in batch:
                        yield list(shown.of(event))
        except Exception as error:
            yield list(shown.failed(error))
            raise
        yield list(shown.ended(self._result))

    # One run of the graph, in two colours

    def _run(self, mode: Any) -> Generator[list[BaseHookEvent], None, None]:
        graph, given, config, options = self._begin()
        try:
            stream = None if mode is None else Stream(graph.program, mode)
            with closing(events(graph.setting, given, config, options, stream)) as emitted:
                while True:
                    try:
                        batch = next(emitted)
                    except StopIteration as stop:
                        self._result = self._result_of(stop.value)
                        return
                    yield _told(batch)
        except Exception as error:
            self._failed(error)
            raise
        finally:
            self._leave()

    async def _arun(self, mode: Any, opened: list[AsyncDriver]) -> AsyncGenerator[list[BaseHookEvent], None]:
        graph, given, config, options = self._begin()
        try:
            stream = None if mode is None else Stream(graph.program, mode)
            async with aclosing(aevents(graph.setting, given, config, options, stream, opened)) as emitted:
                async for batch in emitted:
                    yield _told(batch)
            self._result = self._result_of(opened[-1].result)
        except Exception as error:
            self._failed(error)
            raise
        finally:
            self._leave()

    # What a kind of request says

    @abstractmethod
    def _begin(self) -> Start:
        """It runs now: with what?"""

    @abstractmethod
    def _result_of(self, end: End) -> R:
        """What it came to."""

    @abstractmethod
    def _dict_form(self) -> DictForm:
        """How its events are shown as dicts."""

    def _failed(self, error: Exception) -> None:
        """It has failed."""

    def _leave(self) -> None:
        """It runs no more."""

    def _ended(self) -> R:
        """The result; whoever is shown the request has seen all of it."""
        assert self._result is not None
        return self._result
