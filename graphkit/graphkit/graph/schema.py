"""State schemas: which channels they declare, and how state values become an instance of them."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NotRequired, Required, get_origin, get_type_hints, is_typeddict

from graphkit.annotations import evaluated
from graphkit.channels import BaseChannel, BinaryOperatorAggregate, LastValue
from graphkit.constants import LONGEST_NAME, RESERVED
from graphkit.engine.program import ROOT, Shape
from graphkit.errors import InvalidGraphError
from graphkit.managed import ManagedValue
from graphkit_checkpoint.admission import is_text

VALUES = (str, bytes, int, float, list, tuple, set, Mapping)
"""Of these a value is no schema."""


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class Fields:
    """What a schema declares."""

    channels: dict[str, BaseChannel[Any]]
    managed: dict[str, Callable[[int], Any]]


def fields_of(schema: Any) -> Fields:
    """The channels of a TypedDict, dataclass, pydantic model or annotated single value.

    Raises `InvalidGraphError` for a value in the place of its class, a reserved key, an annotation that cannot be
    resolved, and a reducer that does not take two arguments.
    """
    hints = hints_of(schema)
    if isinstance(schema, VALUES) or _is_instance(schema):
        raise InvalidGraphError(
            f"a schema is a class (a TypedDict, dataclass or pydantic model) or the type of a single value, not "
            f"{schema!r:.100}"
        )
    if not hints:
        return Fields({ROOT: _channel(ROOT, schema)}, {})
    fields = Fields({}, {})
    for key, annotation in hints.items():
        if key in RESERVED:
            raise InvalidGraphError(
                f"the state key {key!r} of {_name(schema)} is reserved; choose another name"
            )
        if not is_text(key) or len(key) > LONGEST_NAME:
            raise InvalidGraphError(
                f"the state key {key!r:.80} of {_name(schema)} has NUL or a lone surrogate, or more than "
                f"{LONGEST_NAME} characters, which databases refuse"
            )
        value = _managed(annotation)
        if value is not None:
            fields.managed[key] = value.compute
        else:
            fields.channels[key] = _channel(key, annotation)
    return fields


def hints_of(schema: Any) -> dict[str, Any]:
    """The annotated fields of a schema class; empty for anything that is no such class."""
    if not isinstance(schema, type):
        return {}
    try:
        hints = {key: evaluated(hint) for key, hint in get_type_hints(schema, include_extras=True).items()}
    except NameError as error:
        raise InvalidGraphError(
            f"an annotation of {_name(schema)} cannot be resolved: {error}; define the types it names at module "
            f"level, before the schema"
        ) from error
    if dataclasses.is_dataclass(schema):
        return {field.name: hints[field.name] for field in dataclasses.fields(schema)}
    model_fields = getattr(schema, "model_fields", None)
    if model_fields is not None:
        return {key: hints[key] for key in model_fields if key in hints}
    return hints if is_typeddict(schema) or _is_plain(schema) else {}


def _is_instance(schema: Any) -> bool:
    kind = type(schema)
    return not isinstance(schema, type) and (dataclasses.is_dataclass(kind) or hasattr(kind, "model_fields"))


def _is_plain(schema: type) -> bool:
    """A class of the user's with annotations, such as a Protocol-like description of keys."""
    return schema.__module__ not in ("builtins", "typing") and bool(getattr(schema, "__annotations__", None))


def _name(schema: Any) -> str:
    return getattr(schema, "__name__", repr(schema))


def _bare(annotation: Any) -> Any:
    """What it says of the value: without Required, NotRequired and ReadOnly, and no alias."""
    annotation = evaluated(annotation)
    while get_origin(annotation) in (Required, NotRequired) or _is_read_only(annotation):
        annotation = evaluated(annotation.__args__[0])
    return annotation


def _is_read_only(annotation: Any) -> bool:
    # Of typing since Python 3.13, and of typing_extensions, which is not imported for it.
    return getattr(get_origin(annotation), "_name", None) == "ReadOnly"


def _managed(annotation: Any) -> ManagedValue | None:
    for extra in getattr(_bare(annotation), "__metadata__", ()):
        if isinstance(extra, ManagedValue):
            return extra
    return None


def _channel(key: str, annotation: Any) -> BaseChannel[Any]:
    annotation = _bare(annotation)
    extras = getattr(annotation, "__metadata__", ())
    typ = _bare(annotation.__origin__) if extras else annotation
    if extras:
        last = extras[-1]
        if isinstance(last, BaseChannel):
            channel = last.copy()
            channel.key, channel.typ = key, typ
            return channel
        if isinstance(last, type) and issubclass(last, BaseChannel):
            return last(typ, key=key)
        if callable(last) and not isinstance(last, type):
            _check_reducer(key, last)
            return BinaryOperatorAggregate(typ, last, key)
        if isinstance(last, type) and _takes_two(last):
            return BinaryOperatorAggregate(typ, last, key)
    return LastValue(typ, key)


def _takes_two(function: Any) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(parameter.kind in positional for parameter in parameters) == 2


def _check_reducer(key: str, reducer: Callable[..., Any]) -> None:
    try:
        signature = inspect.signature(reducer)
    except (TypeError, ValueError):
        return  # a builtin that does not say; calling it will tell
    try:
        signature.bind(None, None)
    except TypeError:
        raise InvalidGraphError(
            f"the reducer of state key {key!r} has the signature {signature}; a reducer takes two arguments: "
            f"the current value and the update"
        ) from None


def shape_of(schema: Any, all_channels: frozenset[str]) -> Shape:
    """How state becomes an instance of the schema. `all_channels` are those of the graph."""
    fields = fields_of(schema)
    if ROOT in fields.channels:
        return Shape((ROOT,), is_root=True)
    keys = tuple(key for key, channel in fields.channels.items() if channel.readable)
    complete = set(keys) == set(all_channels)
    builds = dataclasses.is_dataclass(schema) or hasattr(schema, "model_fields")
    build = functools.partial(_build, schema) if builds else None
    return Shape(None if complete else keys, build, fields.managed)


def _build(schema: Callable[..., Any], values: dict[str, Any]) -> Any:
    return schema(**values)
