"""How objects of a class are taken apart and made again: dataclasses, models, enums and named tuples.

An object is made by filling its attributes, past `__init__`, setters and validation. The state of a
dataclass, named tuple or model is `[fields, other attributes, names of unset fields]`. A field that is
missing in a record and not named unset is one that the class has got since.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import itertools
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, Flag
from typing import Any, NamedTuple

from graphkit_checkpoint.codecs import typed
from graphkit_checkpoint.errors import UnknownTypeError

Form = tuple[Callable[[Any], Any], Callable[[Any], Any]]


def form_of(cls: type[Any]) -> Callable[[type[Any]], Form] | None:
    """How objects of such a class are taken apart and made again, if that is known."""
    if issubclass(cls, Enum):
        return _enum_form
    if issubclass(cls, tuple):
        return _named_tuple_form if hasattr(cls, "_fields") and hasattr(cls, "_make") else None
    if _maker(cls) not in (object, typing.Generic):  # Generic has a `__new__` of its own in some versions
        return None
    if is_model(cls):
        return _model_form
    return _dataclass_form if dataclasses.is_dataclass(cls) else None


def _maker(cls: type[Any]) -> Any:
    """The class whose built-in `__new__` makes its objects: `object`, unless they also hold a value."""
    return next(
        base for base in cls.__mro__ if isinstance(vars(base).get("__new__"), types.BuiltinMethodType)
    )


def is_typed_dict(cls: type[Any]) -> bool:
    return issubclass(cls, dict) and hasattr(cls, "__required_keys__")  # typing's and typing_extensions'


def model_base() -> type[Any] | None:
    # There are no models before this module is loaded, and loading it takes longer than all of graphkit.
    return getattr(sys.modules.get("pydantic.main"), "BaseModel", None)


def is_model(cls: type[Any]) -> bool:
    base = model_base()
    return base is not None and issubclass(cls, base)


def field_names(cls: type[Any]) -> list[str]:
    for attribute in ("__members__", "_fields", "model_fields", "__dataclass_fields__"):
        if hasattr(cls, attribute):
            return list(getattr(cls, attribute))
    return []


def type_name(kind: type[Any]) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


# --- dataclasses ----------------------------------------------------------------------------------------


class _Shape(NamedTuple):
    """The attributes of a class: its fields with their defaults, and the slots that hold attributes."""

    cls: type[Any]
    fields: dict[str, Callable[[], Any] | None]
    slots: dict[str, types.MemberDescriptorType]


def _dataclass_form(cls: type[Any]) -> Form:
    shape = _Shape(cls, {field.name: _field_default(field) for field in dataclasses.fields(cls)}, _slots(cls))
    return functools.partial(_dump_record, shape), functools.partial(_load_record, shape)


def _field_default(field: dataclasses.Field[Any]) -> Callable[[], Any] | None:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory
    return None if field.default is dataclasses.MISSING else lambda: field.default


def _slots(cls: type[Any]) -> dict[str, types.MemberDescriptorType]:
    members = itertools.chain.from_iterable(vars(base).items() for base in reversed(cls.__mro__))
    return {name: member for name, member in members if isinstance(member, types.MemberDescriptorType)}


def _dump_record(shape: _Shape, value: Any) -> list[Any]:
    held = _held(shape, value)
    fields = {name: held.pop(name) for name in shape.fields if name in held}
    unset = [] if len(fields) == len(shape.fields) else [name for name in shape.fields if name not in fields]
    return [fields, held and _lasting(shape.cls, held), unset]


def _held(shape: _Shape, value: Any) -> dict[str, Any]:
    held = dict(getattr(value, "__dict__", ()))
    for name, slot in shape.slots.items():
        try:
            held[name] = slot.__get__(value)
        except AttributeError:  # the slot is empty
            continue
    return held


def _lasting(cls: type[Any], others: dict[str, Any]) -> dict[str, Any]:
    """Attributes that are no fields, without what only repeats other content or the type's spelling."""
    return {
        name: item
        for name, item in others.items()
        if name != "__orig_class__" and not isinstance(getattr(cls, name, None), functools.cached_property)
    }


def _load_record(shape: _Shape, state: Any) -> Any:
    fields, others, unset = state
    return _filled(_maker(shape.cls).__new__(shape.cls), shape, _fitted(shape, fields, unset) | others)


def _filled(value: Any, shape: _Shape, attributes: dict[str, Any]) -> Any:
    for name in shape.slots:
        if name in attributes:
            object.__setattr__(value, name, attributes.pop(name))
    if attributes:
        vars(value).update(attributes)
    return value


def _fitted(shape: _Shape, stored: dict[str, Any], unset: Iterable[str]) -> dict[str, Any]:
    """The stored fields, completed by the defaults of fields that the class has got since."""
    if stored.keys() == shape.fields.keys():
        return stored
    unknown = stored.keys() - shape.fields.keys()
    absent = shape.fields.keys() - stored.keys() - set(unset)
    missing = {name for name in absent if shape.fields[name] is None}
    if unknown or missing:
        raise _misfit(shape.cls, unknown, missing)
    return stored | {name: default() for name in absent if (default := shape.fields[name])}


def _misfit(cls: type[Any], unknown: Iterable[str], missing: Iterable[str]) -> UnknownTypeError:
    differences = [f"the record has {name!r}, the class has not" for name in sorted(unknown)]
    differences += [f"the class has {name!r}, the record has not" for name in sorted(missing)]
    return UnknownTypeError(
        f"A stored {type_name(cls)} does not fit its class: {'; '.join(differences)}. "
        "Keep the fields that records have, and give new ones a default."
    )


# --- named tuples and enums -----------------------------------------------------------------------------


def _named_tuple_form(cls: type[Any]) -> Form:
    shape = _Shape(cls, {name: _constant(cls._field_defaults, name) for name in cls._fields}, {})

    def dump(value: Any) -> list[Any]:
        others = _lasting(cls, getattr(value, "__dict__", {}))
        return [dict(zip(cls._fields, value, strict=True)), others, []]

    def load(state: Any) -> Any:
        fields, others, unset = state
        fitted = _fitted(shape, fields, unset)
        return _filled(tuple.__new__(cls, [fitted[name] for name in cls._fields]), shape, others)

    return dump, load


def _constant(defaults: Mapping[str, Any], name: str) -> Callable[[], Any] | None:
    return (lambda: defaults[name]) if name in defaults else None


def _enum_form(cls: type[Any]) -> Form:
    if issubclass(cls, Flag):  # a combination has no name of its own
        return (lambda member: member._value_), (lambda value: typed(cls, cls(value)))
    return (lambda member: member._name_), (lambda name: cls.__members__[name])


# --- models ---------------------------------------------------------------------------------------------


def _model_form(cls: type[Any]) -> Form:
    """As pydantic's own pickling: attributes, extras, private attributes and the set of fields set."""
    slots = {name: slot for name, slot in _slots(cls).items() if not name.startswith("__pydantic")}
    shape = _Shape(cls, {name: _model_default(field) for name, field in cls.model_fields.items()}, slots)

    def dump(value: Any) -> list[Any]:
        extra, private = value.__pydantic_extra__, value.__pydantic_private__
        return [*_dump_record(shape, value), sorted(value.__pydantic_fields_set__), extra, private]

    def load(state: Any) -> Any:
        *record, fields_set, extra, private = state
        value = _load_record(shape, record)
        object.__setattr__(value, "__pydantic_fields_set__", set(fields_set))
        if not cls.__pydantic_root_model__:  # has neither
            object.__setattr__(value, "__pydantic_extra__", extra)
            object.__setattr__(value, "__pydantic_private__", _private(cls, private))
        return value

    return dump, load


def _model_default(field: Any) -> Callable[[], Any] | None:
    return None if field.is_required() else functools.partial(field.get_default, call_default_factory=True)


def _private(cls: type[Any], stored: dict[str, Any] | None) -> dict[str, Any] | None:
    """The stored private attributes, completed like fields; without a default they may well be unset."""
    if stored is None or stored.keys() == cls.__private_attributes__.keys():
        return stored
    attributes = ((name, item) for name, item in cls.__private_attributes__.items() if name not in stored)
    return stored | {name: make() for name, item in attributes if (make := _private_default(item))}


def _private_default(attribute: Any) -> Callable[[], Any] | None:
    from pydantic_core import PydanticUndefined

    if attribute.default is PydanticUndefined:
        return attribute.default_factory  # type: ignore[no-any-return]
    return functools.partial(copy.deepcopy, attribute.default)
