"""The annotations of classes and functions, as far as they mean something where the program runs."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

__all__ = ["annotations_of", "choices", "evaluated", "hints_of_function", "meant"]


def annotations_of(thing: Any) -> dict[str, Any]:
    """The resolved annotations of a class, with those of its bases, or of a function ("return" among them).

    One that names what only a type checker imports, or a class that is local to a function, is left out; the
    others are there all the same.
    """
    try:
        return {name: evaluated(hint) for name, hint in get_type_hints(thing, include_extras=True).items()}
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
    several = get_origin(annotation) in (Union, UnionType)
    return tuple(map(meant, get_args(annotation))) if several else (annotation,)


def meant(annotation: Any) -> Any:
    """What the alias of a `type` statement stands for; any other annotation as it is, and an alias of something that
    is not there. One inside another type stays."""
    try:
        return evaluated(annotation)
    except NameError:
        return annotation


def evaluated(annotation: Any) -> Any:
    """What `meant` returns, but raises `NameError` for an alias of something that is not there."""
    while True:
        alias = get_origin(annotation) or annotation
        if type(alias).__name__ != "TypeAliasType":  # of typing since Python 3.12, and of typing_extensions
            return annotation
        given = dict(zip(alias.__type_params__, get_args(annotation), strict=False))
        annotation = alias.__value__
        if given and (wanted := getattr(annotation, "__parameters__", ())):
            annotation = annotation[tuple(given[parameter] for parameter in wanted)]


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
        return evaluated(get_type_hints(holder, dict(scope), include_extras=True)["it"])
    except Exception:
        return _UNKNOWN
