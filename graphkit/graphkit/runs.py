"""One run of a compiled graph: in by the door, through a driver, out again as events."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractContextManager, aclosing, nullcontext
from typing import TYPE_CHECKING, Any

from graphkit.audience import Audience
from graphkit.door import Door, RunOptions, Setting
from graphkit.engine.events import Batch
from graphkit.engine.loop import ChildCommand, run
from graphkit.engine.program import Program
from graphkit.engine.request import End, Request
from graphkit.errors import GraphDrained, InvalidUpdateError
from graphkit.printing import Printer
from graphkit.streams import Stream, check_modes
from graphkit.types import RunnableConfig

if TYPE_CHECKING:
    from graphkit.drivers.aio import AsyncDriver
    from graphkit.drivers.sync import SyncDriver

_NOTHING_AROUND: nullcontext[None] = nullcontext()


def events(
    setting: Setting,
    given: Any,
    config: RunnableConfig | None,
    options: RunOptions,
    stream: Stream | None = None,
) -> Generator[Batch, None, End]:
    """The events that `stream` wants, in batches. Closing this early ends the run and gives its thread back."""
    door = Door(setting, given, config, options)
    with door.traced() or _NOTHING_AROUND as traced:
        if traced is not None:
            door.inherit(traced)
        audience = _audience(door, stream)
        driver = _sync_driver()(door.session(audience.live))
        door.enter(driver)
        try:
            emit = audience.emitter(driver.emit)
            request = door.request(driver.post, audience.listen, audience.below, emit)
            emitted = driver.drive(run(setting.program, request))
            with _until_written(request):
                try:
                    end: End = yield from (emitted if audience.is_caller_alone else audience.attend(emitted))
                finally:
                    emitted.close()
            if door.frame is not None and end.waits:
                door.frame.pass_on(end.asked, end.status)
            if traced is not None:
                traced.output = end.values
        except ChildCommand as command:
            raise _for_parent(setting.program, door, command) from None
        finally:
            driver.buffer.close()
            door.close()
    return end


async def aevents(
    setting: Setting,
    given: Any,
    config: RunnableConfig | None,
    options: RunOptions,
    stream: Stream | None,
    opened: list[AsyncDriver],
) -> AsyncGenerator[Batch, None]:
    """`events` on the running loop. The run's driver is put into `opened`; its `End` is found there."""
    from graphkit.drivers.aio import AsyncDriver

    door = Door(setting, given, config, options)
    async with door.traced() or _NOTHING_AROUND as traced:
        if traced is not None:
            door.inherit(traced)
        audience = _audience(door, stream)
        driver = AsyncDriver(door.session(audience.live))
        opened.append(driver)
        door.enter(driver)
        try:
            emit = audience.emitter(driver.emit)
            request = door.request(driver.post, audience.listen, audience.below, emit)
            kernel = run(setting.program, request)
            with _until_written(request):
                async with aclosing(driver.drive(kernel)) as emitted:
                    alone = audience.is_caller_alone
                    async for batch in emitted:
                        if alone:
                            yield batch
                            continue
                        for event in batch:
                            if audience.tell(event):
                                yield (event,)
            if door.frame is not None and driver.result.waits:
                door.frame.pass_on(driver.result.asked, driver.result.status)
            if traced is not None:
                traced.output = driver.result.values
        except ChildCommand as command:
            raise _for_parent(setting.program, door, command) from None
        finally:
            driver.buffer.close()
            door.close()


@functools.cache
def _sync_driver() -> type[SyncDriver]:
    """Loaded with the first run, since it loads asyncio. An `import` in each run would look it up each time."""
    from graphkit.drivers.sync import SyncDriver

    return SyncDriver


def _until_written(request: Request) -> AbstractContextManager[None]:
    """What a run that writes only at its end needs around it."""
    if request.scope.durability != "exit" or not request.writes_at_end:
        return _NOTHING_AROUND
    from graphkit.drivers.termination import writing_on_sigterm

    return writing_on_sigterm()


def undrained(end: End) -> End:
    """The end of a run that was not drained. Raises `GraphDrained`."""
    if end.drained is not None and end.status == "drained":
        raise GraphDrained(end.drained)
    return end


def _audience(door: Door, stream: Stream | None) -> Audience:
    setting, options = door.setting, door.options
    debug = options.get("debug")
    debug = setting.debug if debug is None else debug
    modes = options.get("print_mode") or ()
    if not modes and not debug:
        return Audience(door.frame, stream, None)
    modes = check_modes(modes, "print_mode")
    subgraphs = stream is not None and bool(stream.below)
    printed = Stream(setting.program, modes, subgraphs=subgraphs) if modes else None
    return Audience(door.frame, stream, Printer(setting.program.name, printed, debug))


def _for_parent(program: Program, door: Door, command: ChildCommand) -> BaseException:
    if door.frame is not None:
        return command
    return InvalidUpdateError(
        f"node {command.node!r} of graph {program.name!r} returned Command(graph=Command.PARENT), and no graph is "
        f"around it"
    )
