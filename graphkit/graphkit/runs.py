"""One run of a compiled graph: in by the door, through a driver, out again as events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, closing
from typing import TYPE_CHECKING, Any

from graphkit.audience import Audience
from graphkit.door import Door, RunOptions, Setting
from graphkit.engine.events import Event
from graphkit.engine.loop import ParentCommand, run
from graphkit.engine.program import Program
from graphkit.engine.request import End
from graphkit.errors import GraphDrained, InvalidUpdateError
from graphkit.printing import Printer
from graphkit.streams import Stream, check_modes
from graphkit.types import RunnableConfig

if TYPE_CHECKING:
    from graphkit.drivers.aio import AsyncDriver


def events(
    setting: Setting,
    given: Any,
    config: RunnableConfig | None,
    options: RunOptions,
    stream: Stream | None = None,
) -> Generator[Event, None, End]:
    """The events that `stream` wants. Closing this early ends the run and gives its thread back."""
    from graphkit.drivers.sync import SyncDriver
    from graphkit.drivers.termination import writing_on_sigterm

    door = Door(setting, given, config, options)
    audience = _audience(door, stream)
    driver = SyncDriver(door.session(audience.live))
    door.enter(driver)
    try:
        emit = audience.emitter(driver.emit)
        request = door.request(driver.post, audience.listen, audience.below, emit)
        kernel = run(setting.program, request)
        with writing_on_sigterm(request.writes_at_end), closing(driver.drive(kernel)) as emitted:
            end: End = yield from (emitted if audience.is_caller_alone else audience.attend(emitted))
        if door.frame is not None and end.waits:
            door.frame.pass_on(end.asked, end.status)
    except ParentCommand as command:
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
) -> AsyncGenerator[Event, None]:
    """`events` on the running loop. The run's driver is put into `opened`; its `End` is found there."""
    from graphkit.drivers.aio import AsyncDriver
    from graphkit.drivers.termination import writing_on_sigterm

    door = Door(setting, given, config, options)
    audience = _audience(door, stream)
    driver = AsyncDriver(door.session(audience.live))
    opened.append(driver)
    door.enter(driver)
    try:
        emit = audience.emitter(driver.emit)
        request = door.request(driver.post, audience.listen, audience.below, emit)
        kernel = run(setting.program, request)
        with writing_on_sigterm(request.writes_at_end):
            async with aclosing(driver.drive(kernel)) as emitted:
                alone = audience.is_caller_alone
                async for event in emitted:
                    if not alone:
                        audience.hear(event)
                    if alone or audience.wants(event):
                        yield event
        if door.frame is not None and driver.result.waits:
            door.frame.pass_on(driver.result.asked, driver.result.status)
    except ParentCommand as command:
        raise _for_parent(setting.program, door, command) from None
    finally:
        driver.buffer.close()
        door.close()


def undrained(end: End) -> End:
    """The end of a run that was not drained. Raises `GraphDrained`."""
    if end.drained is not None and end.status == "drained":
        raise GraphDrained(end.drained)
    return end


def _audience(door: Door, stream: Stream | None) -> Audience:
    setting, options = door.setting, door.options
    debug = options.get("debug")
    debug = setting.debug if debug is None else debug
    modes = check_modes(options.get("print_mode") or (), "print_mode")
    if not modes and not debug:
        return Audience(door.frame, stream, None)
    subgraphs = stream is not None and bool(stream.below)
    printed = Stream(setting.program, modes, subgraphs=subgraphs) if modes else None
    return Audience(door.frame, stream, Printer(setting.program.name, printed, debug))


def _for_parent(program: Program, door: Door, command: ParentCommand) -> BaseException:
    if door.frame is not None:
        return command
    return InvalidUpdateError(
        f"node {command.node!r} of graph {program.name!r} returned Command(graph=Command.PARENT), and no graph is "
        f"around it"
    )
