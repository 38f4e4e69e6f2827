"""Who wraps which stage."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from graphkit_prebuilt.hooks.hints import name_of
from graphkit_prebuilt.middleware.stages import (
    ExecuteToolsStage,
    ExecuteToolStage,
    InvokeModelStage,
    MiddlewarePhase,
    MiddlewareStage,
)

_ORDER = ("Input", "Output", "Wrap")


class Layer(NamedTuple):
    """One piece of middleware, of a plugin if it is one's: `wrap(context, next)` gives a generator of either colour."""

    name: str
    kind: str
    plugin: str | None
    wrap: Callable[[Any, Callable[[Any], Any]], Any]


class MiddlewareRegistry:
    """The layers around the stages of one agent's loop. May be added to from any thread, also during a request."""

    def __init__(self) -> None:
        self._layers: dict[MiddlewareStage[Any, Any, Any], tuple[Layer, ...]] = {}
        self._adding = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._layers)

    def of(self, stage: MiddlewareStage[Any, Any, Any]) -> Sequence[Layer]:
        """The layers of a stage, the outermost first; none if nobody wraps it."""
        return self._layers.get(stage, ())

    def add(self, stage_or_phase: Any, handler: Any, *, plugin: str | None = None) -> None:
        """Wrap a stage, or take part in one of its phases.

        Whatever the order in which they were added, Input handlers are the outermost layers, then come Output
        handlers, then wraps; of one phase the first that was added is the outermost. Raises `TypeError` for what is no
        stage, and for a handler that cannot be one.
        """
        phase = stage_or_phase.Wrap if isinstance(stage_or_phase, MiddlewareStage) else stage_or_phase
        if not isinstance(phase, MiddlewarePhase) or phase.stage not in _STAGES:
            stages = ", ".join(map(repr, _STAGES))
            raise TypeError(
                f"middleware is added to a stage ({stages}), or to its Input, Wrap or Output, and not to "
                f"{stage_or_phase!r:.100}"
            )
        layer = Layer(_checked(phase, handler), phase.kind, plugin, _wrap_of(phase, handler))
        with self._adding:
            layers = (*self.of(phase.stage), layer)
            self._layers[phase.stage] = tuple(sorted(layers, key=lambda layer: _ORDER.index(layer.kind)))


_STAGES = (InvokeModelStage, ExecuteToolStage, ExecuteToolsStage)


def _checked(phase: MiddlewarePhase[Any, Any, Any], handler: Any) -> str:
    """The handler's name. Raises `TypeError` if it cannot be one."""
    if not callable(handler) or isinstance(handler, type):
        raise TypeError(f"{phase!r} was given {handler!r:.200}, which is no handler")
    name = name_of(handler)
    if phase.kind == "Wrap" and inspect.iscoroutinefunction(handler):
        raise TypeError(
            f"{name} is a coroutine function, and a wrap of {phase.stage!r} is a generator: "
            f"`result = yield from next(context)` in a function, `async for event in next(context): yield event` in "
            f"an async one"
        )
    return name


def _wrap_of(phase: MiddlewarePhase[Any, Any, Any], handler: Any) -> Callable[[Any, Any], Any]:
    """The one form of middleware: a generator around the stage."""
    stage = phase.stage

    def before(context: Any, next: Any) -> Any:
        changed = handler(context)
        if inspect.isawaitable(changed):
            changed = yield changed
        if not isinstance(changed, stage.context_type):
            raise _wrong(phase, handler, changed, stage.context_type)
        return (yield from next(changed))

    def after(context: Any, next: Any) -> Any:
        event = yield from next(context)
        result = handler(stage.result_type(event))
        if inspect.isawaitable(result):
            result = yield result
        if not isinstance(result, stage.result_type):
            raise _wrong(phase, handler, result, stage.result_type)
        return result.result

    forms: dict[str, Callable[[Any, Any], Any]] = {"Input": before, "Output": after, "Wrap": handler}
    return forms[phase.kind]


def _wrong(
    phase: MiddlewarePhase[Any, Any, Any], handler: Any, returned: Any, wanted: type[Any]
) -> TypeError:
    return TypeError(
        f"{name_of(handler)}, {phase!r}, has returned {returned!r:.100}, which is no {wanted.__name__}"
    )
