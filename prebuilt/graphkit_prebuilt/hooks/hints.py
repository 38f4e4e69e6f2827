"""Which events a callback is for, by the annotation of its first parameter."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from graphkit.annotations import choices, evaluated
from graphkit_prebuilt.hooks.event import BaseHookEvent

EventTypes = tuple[type[BaseHookEvent], ...]


def event_types_of(callback: Callable[..., Any]) -> EventTypes:
    """The event classes that the first parameter of `callback` is annotated with: one, or those of a union.

    Raises `ValueError` naming the callback if there is no such annotation, if it cannot be resolved or names
    something that is no event, or if the callback cannot be called with one event.
    """
    parameter = _first_parameter(callback)
    members = choices(_resolved(callback, parameter))
    for member in members:
        if not is_event_type(member):
            raise ValueError(
                f"{name_of(callback)}: parameter {parameter.name!r} is annotated with {member!r}, which is no event "
                f"class; {_GIVE_TYPE}"
            )
    return members


def is_event_type(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, BaseHookEvent)


def name_of(callback: Any) -> str:
    """What to call a callback in messages."""
    named = getattr(callback, "__qualname__", None) or getattr(callback, "__name__", None)
    return named if isinstance(named, str) else repr(callback)


_GIVE_TYPE = "give the event class to add_hook() beside the callback"


def _first_parameter(callback: Callable[..., Any]) -> inspect.Parameter:
    try:
        parameters = list(inspect.signature(callback).parameters.values())
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name_of(callback)}: its parameters cannot be seen; {_GIVE_TYPE}") from error
    if len(parameters) > 1 and parameters[0].name in ("self", "cls"):  # a method that is not bound yet
        del parameters[0]
    if not parameters:
        raise ValueError(f"{name_of(callback)} takes no parameter, so it cannot be given the event")
    first, *others = parameters
    for other in others:
        if other.default is other.empty and other.kind not in (other.VAR_POSITIONAL, other.VAR_KEYWORD):
            raise ValueError(
                f"{name_of(callback)} is called with the event alone, but needs {other.name!r} too; give it a default"
            )
    if first.annotation is first.empty:
        raise ValueError(f"{name_of(callback)}: parameter {first.name!r} has no annotation; {_GIVE_TYPE}")
    return first


def _resolved(callback: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    function = _function_of(callback)
    holder = types.SimpleNamespace(__annotations__={"hint": parameter.annotation})
    try:
        hint = get_type_hints(holder, getattr(function, "__globals__", None), _enclosed(function))["hint"]
        return evaluated(hint)
    except Exception as error:
        raise ValueError(
            f"{name_of(callback)}: the annotation {parameter.annotation!r} of parameter {parameter.name!r} cannot be "
            f"resolved ({error}); {_GIVE_TYPE}"
        ) from error


def _function_of(callback: Any) -> Any:
    """The function whose module the annotations are read in."""
    while isinstance(callback, functools.partial):
        callback = callback.func
    if not inspect.isroutine(callback) and not isinstance(callback, type):
        callback = type(callback).__call__
    return inspect.unwrap(getattr(callback, "__func__", callback))


def _enclosed(function: Any) -> Mapping[str, Any]:
    """What the function sees of the functions around it."""
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    found = {}
    for name, cell in zip(names, getattr(function, "__closure__", None) or (), strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found
