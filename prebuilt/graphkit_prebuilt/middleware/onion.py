"""Going through the layers of a stage to what is inside, and out again.

A layer is a generator, and what is inside of it too: what the innermost has to wait for is handed out from generator to
generator, to whoever drives all of them, and what comes of it is handed back. So the layers have no colour, and
one that only passes on costs one frame. Three things come out of a layer:

- a `Wait` of what is inside, which the layer neither sees nor touches (`yield from` passes it on);
- an event to be shown: of what is inside, or the layer's own;
- an awaitable that the layer wants to have waited for: `value = yield asyncio.sleep(1)`.

An async generator is made such a layer: it is given what is inside as an async iterator of its events, whose waits are
served on the way, since Python has no `yield from` for it; so its result is its last event of that type, and not what
it returns. Behaviour: Strands' middleware.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from graphkit.frame import Frame, depth_below
from graphkit_prebuilt.content import ToolResult
from graphkit_prebuilt.halting import HaltSignal, halt
from graphkit_prebuilt.hooks.event import BaseHookEvent
from graphkit_prebuilt.hooks.firing import Hearing, fire, heard
from graphkit_prebuilt.loop.steps import OVER, Call, Close, Steps, Stream, Wait
from graphkit_prebuilt.middleware.registry import Layer
from graphkit_prebuilt.middleware.stages import MiddlewareStage
from graphkit_prebuilt.tools.values import result_of

Out = Generator[Any, Any, Any]
"""What comes out of a layer; returns what the layer comes to."""
Events = AsyncGenerator[Any, None]
"""What comes out of an async layer, to its result."""


class Inside(Protocol):
    """What a stage does where nobody wraps it. `number` tells how many times it was entered before."""

    def __call__(self, context: Any, number: int, /) -> Steps[Any]: ...


class Served:
    """What a wait of the inside came to, on its way back: only `yield from` carries it there."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Onion:
    """One passage through the layers of a stage. What is inside may yield events too, which are shown: to who hears
    them, and to async layers, if it is `watched` by any."""

    __slots__ = ("depth", "entered", "frame", "inside", "layers", "noted", "stage", "watched")

    def __init__(
        self,
        stage: MiddlewareStage[Any, Any, Any],
        layers: Sequence[Layer],
        frame: Frame,
        inside: Inside,
    ) -> None:
        self.stage = stage
        self.layers = layers
        self.frame = frame
        self.inside = inside
        self.entered = 0
        self.watched = False
        self.depth = depth_below()  # the task's own threads may all be waiting for layers
        self.noted: BaseException | None = None

    def steps(self, inv: Hearing, context: Any) -> Steps[Any]:
        """Take `context` through the layers, showing events as they come out; returns the stage's result event.

        What a layer raises leaves the steps with a note that names it. Raises `TypeError` for one that comes to
        something else than a result event, or yields something that can neither be shown nor waited for.
        """
        out = self._enter(0, context)
        with self.frame.within(f"middleware:{self.stage.name}"):
            try:
                item = next(out)
                while True:
                    try:
                        value = yield from self._serve(inv, item)
                    except BaseException as error:
                        if isinstance(error, GeneratorExit):
                            out.close()
                            raise
                        item = out.throw(error)
                    else:
                        item = out.send(value)
            except StopIteration as stop:
                return stop.value

    def _serve(self, inv: Hearing, item: Any) -> Steps[Any]:
        if isinstance(item, BaseHookEvent):
            if not isinstance(item, self.stage.result_event) and heard(inv, type(item)):
                yield from fire(inv, item)
            return None
        wait = _wait_for(item, self.stage)
        value = yield wait
        return Served(value) if wait is item else value

    # Inwards

    def _enter(self, index: int, context: Any) -> Out:
        if index == len(self.layers):
            number, self.entered = self.entered, self.entered + 1
            return self._innermost(context, number)
        return self._through(index, context)

    def _through(self, index: int, context: Any) -> Out:
        """One layer."""
        layer = self.layers[index]
        opened: list[Events] = []
        try:
            out = layer.wrap(context, partial(Inward, self, index + 1, opened))
            if isinstance(out, AsyncIterator):
                self.watched = True
                out = self._adapted(_closing(out, opened))
            elif not isinstance(out, (Generator, Inward)):
                if inspect.iscoroutine(out):
                    out.close()
                raise TypeError(f"it has returned {out!r:.100}, and a wrap of {self.stage!r} is a generator")
            result = yield from out
            if isinstance(result, HaltSignal):
                raise result
            if not isinstance(result, self.stage.result_event):
                wanted = self.stage.result_event.__name__
                raise TypeError(
                    f"it has come to {result!r:.100}, which is no {wanted}; a wrap of {self.stage!r} returns what "
                    f"`yield from next(context)` gives, or makes a {wanted} of its own"
                )
            return result
        except HaltSignal as signal:
            halt(signal, layer.plugin)
        except Exception as error:
            if error is not self.noted:
                self.noted = error
                error.add_note(f"raised by {layer.name}, middleware of {self.stage!r}")
            raise

    def _innermost(self, context: Any, number: int) -> Out:
        """What is inside, apart from the layers as far as its questions go."""
        with self.frame.within(f"inside:{number}" if number else ""):
            steps = self.inside(context, number)
            try:
                item: Any = next(steps)
                while True:
                    try:
                        value = yield item
                    except GeneratorExit:
                        steps.close()
                        raise
                    except BaseException as error:
                        item = steps.throw(error)
                        continue
                    if isinstance(item, BaseHookEvent):
                        value = None
                    elif type(value) is Served:
                        value = value.value
                    else:
                        break
                    item = steps.send(value)
            except StopIteration as stop:
                return stop.value
            except Exception as error:
                self.noted = error
                raise
            steps.close()
            raise self._lost()

    def _lost(self) -> TypeError:
        return TypeError(
            f"a wrap of {self.stage!r} that is no async generator goes on inside with "
            f"`result = yield from next(context)`; a loop over next(context) loses what is waited for"
        )

    # Async layers

    def _adapted(self, events: AsyncIterator[Any]) -> Out:
        """The layer that an async generator is."""
        stream, result = Stream(events), None
        try:
            while True:
                served = yield stream
                if type(served) is not Served:
                    raise self._lost()
                item = served.value
                if item is OVER:
                    return result
                if isinstance(item, self.stage.result_event):
                    result = item
                elif isinstance(item, BaseHookEvent):
                    yield item
                else:
                    raise TypeError(f"it has yielded {item!r:.100}, which is no event")
        except GeneratorExit:
            raise
        except BaseException:
            yield stream.closing
            raise

    async def _events(self, index: int, context: Any) -> Events:
        """What is inside of an async layer: its events, and then its result."""
        out = self._enter(index, context)
        opened: list[Stream] = []
        try:
            item: Any = out.send(None)
            while True:
                if isinstance(item, BaseHookEvent):
                    yield item
                    item = out.send(None)
                    continue
                try:
                    wait = _wait_for(item, self.stage)
                    if isinstance(wait, Stream) and wait.iterator is None:
                        opened.append(wait)
                    value = await wait.wait(self.depth)
                except BaseException as error:
                    item = out.throw(error)
                else:
                    item = out.send(Served(value) if wait is item else value)
        except StopIteration as stop:
            result = stop.value
        finally:
            out.close()
            for stream in opened:
                await stream.aclose()
        yield result


class Inward:
    """`next(context)`: what is inside of a layer, to be gone through with `yield from` or `async for`, once. What is
    gone through with `async for` is put into `opened`: nobody closes it when the loop is left."""

    __slots__ = ("_context", "_index", "_onion", "_opened")

    def __init__(self, onion: Onion, index: int, opened: list[Events], context: Any) -> None:
        wanted = onion.stage.context_type
        if not isinstance(context, wanted):
            raise TypeError(f"next() of {onion.stage!r} takes the {wanted.__name__}, not {context!r:.100}")
        self._onion = onion
        self._index = index
        self._opened = opened
        self._context = context

    def __iter__(self) -> Out:
        return self._onion._enter(self._index, self._context)

    def __aiter__(self) -> Events:
        events = self._onion._events(self._index, self._context)
        self._opened.append(events)
        return events


async def _closing(events: AsyncIterator[Any], opened: Sequence[Events]) -> Events:
    """The events of an async layer. When it ends, early or not, everything inside of it has ended."""
    try:
        async for event in events:
            yield event
    finally:
        if isinstance(events, AsyncGenerator):
            await events.aclose()
        for each in opened:
            await each.aclose()


def checked_result(result: Any, tool_use_id: str, stage: MiddlewareStage[Any, Any, Any]) -> ToolResult:
    """A result that has come out of a stage, with the id of the call. Raises `TypeError` if it is none."""
    if isinstance(result, Mapping) and isinstance(result.get("content"), list) and "status" in result:
        return result_of(result, tool_use_id)
    raise TypeError(
        f"middleware of {stage!r} has come to {result!r:.100}, which is no result of a tool: a dict of toolUseId, "
        f"status and content"
    )


def _wait_for(item: Any, stage: MiddlewareStage[Any, Any, Any]) -> Wait:
    if isinstance(item, (Call, Stream, Close)):
        return item
    if inspect.isawaitable(item):
        return Call(_itself, (item,))
    raise TypeError(
        f"{stage!r}: a wrap has yielded {item!r:.100}, which is neither an event nor something to wait for"
    )


def _itself(awaitable: Any) -> Any:
    return awaitable
