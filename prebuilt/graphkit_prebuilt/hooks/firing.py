"""Firing an event: everybody who hears it, in order, as part of the task that runs here."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeVar

from graphkit.errors import GraphInterrupt
from graphkit.frame import current
from graphkit_checkpoint.watched import copied
from graphkit_prebuilt.halting import HaltSignal, halt, questions_in
from graphkit_prebuilt.hooks.event import BaseHookEvent, NameTakenError, part_of
from graphkit_prebuilt.hooks.hints import name_of
from graphkit_prebuilt.hooks.registry import Entry, HookRegistry
from graphkit_prebuilt.loop.steps import Call, Steps

E = TypeVar("E", bound=BaseHookEvent)


class Hooked(Protocol):
    """An agent or orchestrator: what has callbacks."""

    @property
    def hooks(self) -> HookRegistry: ...


class Hearing(Protocol):
    """What firing needs of a request.

    The callbacks are those in `agent.hooks`. `sink` is shown every event before them, if somebody reads it; it may
    return steps, which are taken. If it does something with a few events alone, its `wants` says which. Callbacks run
    while `lock` is held, so that those of several tasks do not run at the same time.
    """

    @property
    def agent(self) -> Hooked: ...
    @property
    def lock(self) -> AbstractContextManager[Any]: ...
    @property
    def sink(self) -> Callable[[Any], Steps[None] | None] | None: ...


def heard(invocation: Hearing, *types: type[BaseHookEvent]) -> bool:
    """Whether anybody hears events of one of these classes now: without, no event need be made."""
    sink = invocation.sink
    if sink is not None:
        wants = getattr(sink, "wants", None)
        if wants is None or not wants.isdisjoint(types):
            return True
    found = invocation.agent.hooks.found
    if found.unheard.issuperset(types):
        return False
    for kind in types:
        for entry in found[kind]:
            if entry.when is None or entry.when(invocation):
                return True
    return False


def fire(invocation: Hearing, event: E, once: str | None = None, *, number: int = 0) -> Steps[E]:
    """Show an event and call its callbacks; returns it as they leave it.

    A callback that asks or halts does not keep the others from running; when all have run, `GraphInterrupt` with all
    questions is raised. Any other exception ends the firing at once and is raised as it is, with a note that names
    the event and the callback.

    `once` is a key: an event whose callbacks have run to their end is not fired again when this task runs again;
    it then only gets the values back that they wrote. `number` tells firings of one task apart whose questions
    are about different things (a second answer of the model, a second message), so that each gets its own answer.
    """
    frame = current.get()
    if once is not None and frame is not None:
        written = frame.kept.get(_key(once))
        if written is not None:
            _restore(event, written)
            return event
    if number:
        event.__dict__["_number"] = number
    with invocation.lock, nullcontext() if frame is None else frame.within(part_of(event, number)):
        if invocation.sink is not None:
            shown = invocation.sink(event)
            if shown is not None:
                yield from shown
        yield from _call_all(invocation, event)
    if once is not None and frame is not None and not frame.waits:
        frame.keep(_key(once), {name: copied(getattr(event, name)) for name in sorted(event.writable)})
    return event


def _call_all(invocation: Hearing, event: BaseHookEvent) -> Steps[None]:
    asked: list[BaseException] = []
    frame = current.get()
    before = 0 if frame is None else len(frame.asked)
    for entry in invocation.agent.hooks.of(type(event)):
        if entry.when is not None and not entry.when(invocation):
            continue
        try:
            yield from _call(event, entry)
        except GraphInterrupt as question:
            asked.append(question)
        except BaseExceptionGroup as group:
            if group.subgroup(GraphInterrupt) is None:
                raise
            asked.append(group)
        except NameTakenError:
            if frame is not None:  # what was asked under this name cannot be told apart from what asks it now
                del frame.asked[before:]
            raise
        except Exception as error:
            if asked and frame is not None and not questions_in([one for one, _ in frame.asked[before:]]):
                del frame.asked[
                    before:
                ]  # halts do not hide an error: what halted does so again when it runs again
                raise
            if asked:  # the questions stay asked, whatever came after them
                raise BaseExceptionGroup("a callback asked and another one failed", [*asked, error]) from None
            raise
    if len(asked) == 1:
        raise asked[0]
    if asked:
        raise BaseExceptionGroup("several callbacks asked", asked)


def _call(event: BaseHookEvent, entry: Entry) -> Steps[None]:
    """Call one callback. What it raises gets a note, and a `HaltSignal` that it raises or returns halts."""
    try:
        returned = entry.callback(event)
        if returned is not None and inspect.isawaitable(returned):
            returned = yield Call(_itself, (returned,))
    except HaltSignal as signal:
        returned = signal
    except Exception as error:
        error.add_note(f"raised by {name_of(entry.callback)}, a callback of {type(event).__name__}")
        raise
    if returned is not None and isinstance(returned, HaltSignal):
        halt(returned, entry.plugin)


def _key(once: str) -> str:
    return f"fired:{once}"


def _restore(event: BaseHookEvent, written: Mapping[str, Any]) -> None:
    for name, value in written.items():
        setattr(event, name, value)


def _itself(awaitable: Any) -> Any:
    return awaitable
