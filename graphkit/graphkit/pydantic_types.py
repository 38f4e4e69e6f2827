"""Types as pydantic takes them: any type of a user's, on every Python."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Any, NotRequired, Required, Union, get_args, get_origin, get_type_hints, is_typeddict

__all__ = ["Fields", "fields_of", "for_pydantic", "typed_dict", "validator_of"]


def validator_of(type_: Any, *, strict: bool) -> Callable[[Any], Any]:
    """What makes a Python value, not JSON data, fit a type: it returns the value as converted; with `strict`
    nothing is. A class that pydantic does not know is told by `isinstance`, and fields that a dataclass or
    TypedDict does not have are refused; models keep to their own config.

    What it raises is for `reasons(error, below=1)`. Raises some error for a type that pydantic cannot take.
    """
    from pydantic import ConfigDict, TypeAdapter

    around: Any = tuple  # classes with fields take a config from what is around them, and from nowhere else
    config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")
    adapter: TypeAdapter[Any] = TypeAdapter(around[for_pydantic(type_)], config=config)
    return lambda value: adapter.validate_python((value,), strict=strict or None)[0]


Fields = Mapping[str, tuple[Any, bool]]
"""The annotation of each field of a dict, and whether it must be there."""


def fields_of(typed_dict: Any, hints: Mapping[str, Any]) -> Fields:
    """The fields of a TypedDict whose annotations are `hints`."""
    fields: dict[str, tuple[Any, bool]] = {}
    for name, hint in hints.items():
        if get_origin(hint) in (Required, NotRequired):
            fields[name] = get_args(hint)[0], get_origin(hint) is Required
        else:
            fields[name] = hint, name in typed_dict.__required_keys__
    return fields


def typed_dict(name: str, fields: Fields, around: tuple[Any, ...] = ()) -> Any:
    """A TypedDict of these fields, as pydantic takes it. `around` are those that it is a field of."""
    from typing_extensions import TypedDict  # pydantic depends on it

    make: Any = TypedDict  # so called, it is nothing that a type checker could follow
    return make(
        name,
        {
            field: (Required if required else NotRequired)[for_pydantic(hint, around)]
            for field, (hint, required) in fields.items()
        },
    )


def for_pydantic(type_: Any, around: tuple[Any, ...] = ()) -> Any:
    """`type_` with every `typing.TypedDict` replaced by a twin that pydantic takes before Python 3.12."""
    if sys.version_info >= (3, 12):
        return type_
    if is_typeddict(type_) and type(type_).__module__ == "typing":
        # one that contains itself stays as it is, and pydantic says what to do
        return type_ if type_ in around else _typed_dict_twin(type_, (*around, type_))
    arguments = get_args(type_)
    replaced = tuple(for_pydantic(argument, around) for argument in arguments)
    if all(new is old for new, old in zip(replaced, arguments, strict=True)):
        return type_
    origin = get_origin(type_)
    return (Union if origin is UnionType else origin)[replaced]


def _typed_dict_twin(type_: Any, around: tuple[Any, ...]) -> Any:
    twin = typed_dict(type_.__name__, fields_of(type_, get_type_hints(type_, include_extras=True)), around)
    twin.__doc__ = type_.__doc__
    if hasattr(type_, "__pydantic_config__"):
        twin.__pydantic_config__ = type_.__pydantic_config__
    return twin
