"""The annotations of classes and functions, as far as they mean something where the program runs."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

__all__ = ["annotations_of", "choices", "hints_of_function"]


def annotations_of(thing: Any) -> dict[str, Any]:
    """The resolved annotations of a class, with those of its bases, or of a function ("return" among them).

    One that names what only a type checker imports, or a class that is local to a function, is left out; the
    others are there all the same.
    """
    try:
        return get_type_hints(thing, include_extras=True)
    except Exception:  # names that are not there, and whatever else evaluating an annotation raises
        resolved = {name: _resolved(annotation, scope) for name, annotation, scope in _written(thing)}
        return {name: annotation for name, annotation in resolved.items() if annotation is not _UNKNOWN}


def hints_of_function(action: Any) -> dict[str, Any]:
    """Those of a function, of what a partial calls, or of an object's `__call__`."""
    function = getattr(action, "func", action)
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        function = getattr(type(function), "__call__", None)  # noqa: B004
    return annotations_of(function) if function is not None else {}


def choices(annotation: Any) -> tuple[Any, ...]:
    """The annotation, or what it allows if that is several things."""
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


_UNKNOWN: Any = object()


def _written(thing: Any) -> Iterator[tuple[str, Any, Mapping[str, Any]]]:
    """Each annotation as it was written, and the names that it may use."""
    owners = reversed(thing.__mro__) if isinstance(thing, type) else (thing,)
    for owner in owners:
        module = sys.modules.get(getattr(owner, "__module__", None) or "")
        scope = getattr(inspect.unwrap(owner), "__globals__", {} if module is None else vars(module))
        yield from ((name, annotation, scope) for name, annotation in inspect.get_annotations(owner).items())


def _resolved(annotation: Any, scope: Mapping[str, Any]) -> Any:
    holder = type("holder", (), {"__annotations__": {"it": annotation}})
    try:
        return get_type_hints(holder, dict(scope), include_extras=True)["it"]
    except Exception:
        return _UNKNOWN
