"""One body, two colours: what steps may wait for, and what becomes of what they have opened."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from graphkit.drivers.pools import in_thread
from graphkit_prebuilt.loop.steps import OVER, Call, Steps, Stream, awaited
from tests.agents.colours import COLOURS

Take = Callable[[Steps[Any]], Any]
MARK: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="")


@pytest.fixture(params=COLOURS, ids=lambda take: take.__name__)
def take(request: pytest.FixtureRequest) -> Take:
    found: Take = request.param
    return found


class Source:
    """Numbers, in the colour that is wanted; notes when it is closed, and in which task it ran."""

    def __init__(self, colour: str, error: Exception | None = None) -> None:
        self.colour = colour
        self.error = error
        self.given: list[int] = []
        self.closed = 0
        self.tasks: set[Any] = set()

    def __call__(self) -> Any:
        return self.plain() if self.colour == "plain" else self.waiting()

    def plain(self) -> Iterator[int]:
        try:
            for number in range(4):
                self.given.append(number)
                yield number
            if self.error is not None:
                raise self.error
        finally:
            self.closed += 1

    async def waiting(self) -> AsyncIterator[int]:
        try:
            for number in range(4):
                self.tasks.add(asyncio.current_task())
                self.given.append(number)
                await asyncio.sleep(0)
                yield number
            if self.error is not None:
                raise self.error
        finally:
            self.tasks.add(asyncio.current_task())
            self.closed += 1


@pytest.fixture(params=["plain", "waiting"])
def source(request: pytest.FixtureRequest) -> Source:
    return Source(request.param)


def test_a_call_of_either_colour(take: Take) -> None:
    async def waits(text: str) -> str:
        await asyncio.sleep(0)
        return f"{text} {MARK.get()}"

    def steps() -> Steps[Any]:
        MARK.set("marked")
        plain = yield Call(lambda: MARK.get())
        thread = yield Call(threading.get_ident, blocks=True)
        waited = yield Call(waits, ("is",))
        named = yield Call(waits, kwargs={"text": "was"}, blocks=True)
        return [plain, isinstance(thread, int), waited, named]

    assert take(steps()) == ["marked", True, "is marked", "was marked"]


def test_what_blocks_leaves_the_loop_alone() -> None:
    def steps() -> Steps[Any]:
        return (yield Call(threading.get_ident, blocks=True))

    async def run() -> bool:
        return bool(await awaited(steps()) != threading.get_ident())

    assert asyncio.run(run())


@pytest.mark.parametrize("kind", [list, tuple, iter])
def test_a_stream_that_may_keep_its_reader_waiting_leaves_the_loop_alone(kind: Any) -> None:
    """One of items that are there already does not."""
    where: list[int] = []

    def steps() -> Steps[Any]:
        return (yield Stream(kind([1, 2]), each=lambda item: where.append(threading.get_ident())))

    async def run() -> None:
        await awaited(steps())

    asyncio.run(run())
    assert len(where) == 2
    assert (set(where) == {threading.get_ident()}) is (kind is not iter)


def test_an_error_comes_back_where_it_was_waited_for(take: Take) -> None:
    async def fails() -> None:
        raise OSError("no line")

    def steps() -> Steps[Any]:
        try:
            yield Call(fails)
        except OSError as error:
            return str(error)

    assert take(steps()) == "no line"


def test_a_stream_is_read_item_by_item(take: Take, source: Source) -> None:
    """Each is asked for when the one before has been dealt with, all in one task."""
    pairs: list[Any] = []

    def steps() -> Steps[Any]:
        stream = Stream(source())
        while (item := (yield stream)) is not OVER:
            pairs.append((item, list(source.given)))
        return (yield stream)

    assert take(steps()) is OVER
    assert pairs == [(number, list(range(number + 1))) for number in range(4)]
    assert source.closed == 1 and len(source.tasks) <= 1


def test_a_stream_is_taken_at_once(take: Take, source: Source) -> None:
    taken: list[int] = []

    def until_two(item: int) -> bool:
        taken.append(item)
        return item == 2

    def steps() -> Steps[Any]:
        return (yield Stream(source(), each=until_two))

    assert take(steps()) is OVER
    assert taken == [0, 1, 2] and source.closed == 1


@pytest.mark.parametrize("how", ["left", "closed", "failed"])
def test_a_stream_that_is_left_is_closed(take: Take, source: Source, how: str) -> None:
    def steps() -> Steps[Any]:
        stream = Stream(source())
        yield stream
        if how == "closed":
            yield stream.closing
            assert source.closed == 1
            assert (yield stream) is OVER
        if how == "failed":
            raise OSError("no line")

    if how == "failed":
        with pytest.raises(OSError, match="no line"):
            take(steps())
    else:
        take(steps())
    assert source.closed == 1 and source.given[-1] <= 1 and len(source.tasks) <= 1


def test_the_error_of_a_stream(take: Take, source: Source) -> None:
    source.error = OSError("no line")

    def steps(**each: Any) -> Steps[Any]:
        stream = Stream(source(), **each)
        try:
            while (yield stream) is not OVER:
                pass
        except OSError as error:
            return str(error), (yield stream) is OVER
        return None

    assert take(steps()) == ("no line", True)
    assert take(steps(each=lambda item: False)) == ("no line", True)
    assert source.closed == 2


def test_the_error_of_who_takes_it(take: Take, source: Source) -> None:
    def refuse(item: int) -> None:
        raise ValueError(f"{item} is refused")

    def steps() -> Steps[Any]:
        yield Stream(source(), each=refuse)

    with pytest.raises(ValueError, match="0 is refused"):
        take(steps())
    assert source.closed == 1


def test_what_a_function_in_a_thread_raises_comes_back_whatever_it_is(take: Take) -> None:
    """Python lets no future and no generator carry a `StopIteration`."""

    def steps() -> Steps[Any]:
        return (yield Call(next, (iter(()),), blocks=True))

    with pytest.raises(RuntimeError, match="raised StopIteration"):
        take(steps())


def test_a_thread_that_nobody_waits_for_any_more_harms_nobody() -> None:
    begun, gate, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        gate.wait(20)
        ended.set()

    async def run() -> None:
        task = asyncio.create_task(in_thread(0, work))
        await in_thread(0, begun.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    gate.set()
    assert ended.wait(20)
    assert asyncio.run(in_thread(0, str, "next")) == "next"
