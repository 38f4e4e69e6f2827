"""One body, two colours: what an agent's nodes do is a generator that yields whatever has to be waited for.

`blocking` drives it in this thread and serves what is asynchronous from the standing loop; `awaited` drives it on
the running event loop and serves what blocks from a thread. A step is a `Call` of a function (`Either` of two, where
there is one for each colour), or a `Stream` for its next item; the generator gets the value back, or the exception at
the place of its `yield`.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import queue
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from typing import Any, Final, TypeVar

from graphkit.drivers.loops import run_in_standing_loop, standing_loop
from graphkit.drivers.pools import in_thread
from graphkit.frame import current

T = TypeVar("T")

_NEVER_AWAITED = frozenset({type(None), dict, str, list, tuple, bool, int, float})

_AT_HAND = frozenset({list, tuple})
"""Iterables whose items are there already: to read them keeps nobody waiting."""


class _Over:
    """What a stream gives when it has no more items."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "OVER"


OVER: Final = _Over()


class Call:
    """Call `fn`; an awaitable that it returns is awaited. One that `blocks` is kept off the event loop."""

    __slots__ = ("args", "blocks", "fn", "kwargs")

    def __init__(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        blocks: bool = False,
    ) -> None:
        self.fn = fn
        self.args = args
        self.kwargs = kwargs or {}
        self.blocks = blocks

    def block(self, depth: int) -> Any:
        value = self.fn(*self.args, **self.kwargs)
        if type(value) not in _NEVER_AWAITED and inspect.isawaitable(value):
            return run_in_standing_loop(value, depth)
        return value

    async def wait(self, depth: int) -> Any:
        if self.blocks and not inspect.iscoroutinefunction(self.fn):
            value = await in_thread(depth, self.fn, *self.args, **self.kwargs)
        else:
            value = self.fn(*self.args, **self.kwargs)
        if type(value) not in _NEVER_AWAITED and inspect.isawaitable(value):
            return await value
        return value


class Stream:
    """The items of an iterable of either colour: each `yield` of it gives the next one, `OVER` at the end.

    With `each`, one `yield` takes all of them: it is called with every item, and ends the stream by returning True.
    One that has both colours is used in that of its driver; a plain iterator `blocks` unless it is said not to. What
    was not read to its end is closed when the steps end, or by yielding `stream.closing`.
    """

    __slots__ = ("blocks", "each", "iterable", "iterator", "over")

    def __init__(
        self, iterable: Any, *, blocks: bool = True, each: Callable[[Any], bool | None] | None = None
    ) -> None:
        self.iterable = iterable
        self.blocks = blocks
        self.each = each
        self.iterator: Any = None
        self.over = False

    @property
    def closing(self) -> Close:
        """The step that ends the stream where it is."""
        return Close(self)

    def block(self, depth: int) -> Any:
        if self.over:
            return OVER
        if self.iterator is None:
            iterable = self.iterable
            if hasattr(iterable, "__iter__"):
                self.iterator = iter(iterable)
            elif self.each is not None:
                self.over = True
                return _taken_on_loop(iterable, self.each, depth)
            else:
                self.iterator = _Pump(iterable, depth)
        try:
            if self.each is None:
                return next(self.iterator)
            for item in self.iterator:
                if self.each(item):
                    break
        except StopIteration:
            self.over = True
            return OVER
        except BaseException:
            self.close()
            raise
        self.close()
        return OVER

    async def wait(self, depth: int) -> Any:
        if self.over:
            return OVER
        if self.iterator is None:
            iterable = self.iterable
            self.iterator = aiter(iterable) if hasattr(iterable, "__aiter__") else iter(iterable)
        if not hasattr(self.iterator, "__anext__"):
            waits = self.blocks and type(self.iterable) not in _AT_HAND
            return await in_thread(depth, self.block, depth) if waits else self.block(depth)
        try:
            if self.each is None:
                return await anext(self.iterator)
            async for item in self.iterator:
                if self.each(item):
                    break
        except StopAsyncIteration:
            self.over = True
            return OVER
        except BaseException:
            await self.aclose()
            raise
        await self.aclose()
        return OVER

    def close(self) -> None:
        if not self.over and self.iterator is not None:
            self.over = True
            close = getattr(self.iterator, "close", None)
            if close is not None:
                close()

    async def aclose(self) -> None:
        if not self.over and self.iterator is not None:
            self.over = True
            aclose = getattr(self.iterator, "aclose", None)
            if aclose is not None:
                await aclose()
            elif (close := getattr(self.iterator, "close", None)) is not None:
                close()


class Either:
    """Call `call`, or await `acall`: the two doors of one thing."""

    __slots__ = ("acall", "call")

    def __init__(self, call: Callable[[], Any], acall: Callable[[], Awaitable[Any]]) -> None:
        self.call = call
        self.acall = acall

    def block(self, depth: int) -> Any:
        return self.call()

    async def wait(self, depth: int) -> Any:
        return await self.acall()


class Close:
    """End a stream where it is."""

    __slots__ = ("stream",)

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def block(self, depth: int) -> None:
        self.stream.close()

    async def wait(self, depth: int) -> None:
        await self.stream.aclose()


Wait = Call | Either | Stream | Close
Steps = Generator[Wait, Any, T]


def blocking(steps: Steps[T], depth: int | None = None) -> T:
    """Take the steps in this thread. `depth` is that of the standing loop for what is asynchronous; by default that
    of the running task (`depth_here`)."""
    opened: list[Stream] = []
    try:
        wait = next(steps)
        depth = depth_here() if depth is None else depth
        while True:
            if type(wait) is Stream and wait.iterator is None:
                opened.append(wait)
            try:
                value = wait.block(depth)
            except BaseException as error:
                wait = steps.throw(error)
            else:
                wait = steps.send(value)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    finally:
        for stream in opened:
            stream.close()


async def awaited(steps: Steps[T], depth: int | None = None) -> T:
    """Take the steps on the running event loop."""
    opened: list[Stream] = []
    try:
        wait = next(steps)
        depth = depth_here() if depth is None else depth
        while True:
            if type(wait) is Stream and wait.iterator is None:
                opened.append(wait)
            try:
                value = await wait.wait(depth)
            except GeneratorExit:  # the coroutine is closed and can wait for nothing
                opened.clear()
                steps.close()
                raise
            except BaseException as error:
                wait = steps.throw(error)
            else:
                wait = steps.send(value)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    finally:
        for stream in opened:
            await stream.aclose()


def depth_here() -> int:
    """How deep the running task is nested; 0 outside of a run."""
    frame = current.get()
    return 0 if frame is None else frame.attempt.scope.depth


def _taken_on_loop(iterable: Any, each: Callable[[Any], bool | None], depth: int) -> Any:
    """Take an async iterable whole on the standing loop: one hop, however many items there are."""

    async def take() -> None:
        iterator: AsyncIterator[Any] = aiter(iterable)
        try:
            async for item in iterator:
                if each(item):
                    break
        finally:
            aclose = getattr(iterator, "aclose", None)
            if aclose is not None:
                await aclose()

    run_in_standing_loop(take(), depth)
    return OVER


class _Pump:
    """An async iterable on the standing loop, read item by item from a thread. It is iterated in one coroutine, since
    what it holds open may belong to that; each item is asked for when the one before it has been dealt with."""

    def __init__(self, iterable: Any, depth: int) -> None:
        self.iterable = iterable
        self.items: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.wanted = asyncio.Event()
        self.future = standing_loop(depth).submit(self._serve(), contextvars.copy_context())
        self.future.add_done_callback(lambda _: self.items.put(OVER))

    async def _serve(self) -> None:
        iterator: AsyncIterator[Any] = aiter(self.iterable)
        try:
            while True:
                await self.wanted.wait()
                self.wanted.clear()
                self.items.put(await anext(iterator))
        except StopAsyncIteration:
            pass
        finally:
            aclose = getattr(iterator, "aclose", None)
            if aclose is not None:
                await aclose()

    def __iter__(self) -> _Pump:
        return self

    def __next__(self) -> Any:
        self.future.loop.call_soon_threadsafe(self.wanted.set)
        item = self.items.get()
        if item is not OVER:
            return item
        self.future.result()
        raise StopIteration

    def close(self) -> None:
        """End it where it is, and wait until it has."""
        if not self.future.done():
            self.future.stop()
            while self.items.get() is not OVER:
                pass
