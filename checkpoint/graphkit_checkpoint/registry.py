"""The types that this process can store because a program has registered them, or a schema leads to them.

An object is written as `[name, state]`, extension code 0. The name only selects an entry of this registry,
so reading cannot import or call anything that the program has not registered itself.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeVar

from graphkit_checkpoint.codecs import CODECS, Codec, late_codec, typed
from graphkit_checkpoint.errors import UnknownTypeError
from graphkit_checkpoint.forms import (
    Form,
    field_names,
    form_of,
    is_model,
    is_typed_dict,
    model_base,
    type_name,
)

T = TypeVar("T")

NOT_STORABLE: Final = "values of this type are not storable. Store plain data."

FAMILIES: Final = ("langchain_core.messages.", "langchain_core.documents.")
"""Modules whose data classes need no registration: programs that come from LangGraph store them without being asked.
Reading does not import them."""

_NATIVE: Final = frozenset({type(None), bool, int, float, str, bytes, bytearray, list, dict})


class Registration(NamedTuple):
    """A registered type: how an object becomes a state that can be packed, and is made again."""

    cls: type[Any]
    name: str
    dump: Callable[[Any], Any]
    load: Callable[[Any], Any]
    is_record: bool

    def codec(self) -> Codec:
        name, dump = self.name, self.dump
        return Codec(0, list, lambda value: [name, dump(value)], load_registered)


_NAMES: Final[dict[str, Registration]] = {}
REGISTERED: Final[dict[type[Any], Registration]] = {}


def register_type(
    cls: type[T],
    *,
    name: str | None = None,
    to: Callable[[T], Any] | None = None,
    from_: Callable[[Any], T] | None = None,
) -> type[T]:
    """Allows values of exactly this class to be stored and read; also usable as a decorator.

    Dataclasses, pydantic models, enums and named tuples need nothing more; a TypedDict is a dict and is
    left alone. Any other class needs `to`, which turns an object into data that can be stored, and
    `from_`, its inverse. `name` (default: module and qualified name) is what records carry: with a name of
    its own a class may move or be renamed. A class defined again replaces its former self; a name held by
    another class is a ValueError, a class that cannot be registered a TypeError.
    """
    if not isinstance(cls, type):
        raise TypeError(f"register_type needs a class, not {cls!r}.")
    if (to is None) is not (from_ is None):
        raise TypeError(f"register_type({cls.__qualname__}) needs both of to and from_, or neither.")
    if is_typed_dict(cls) or _stored_without_registration(cls, to):
        return cls
    dump, load = (to, from_) if to and from_ else _derived(cls)
    _enter(Registration(cls, _default_name(cls) if name is None else name, dump, load, to is None))
    return cls


def register_annotations(annotation: Any) -> None:
    """Registers every dataclass, model, enum and named tuple that a schema's annotation leads to.

    Names that cannot be resolved are passed over: a value of such a type is refused when written.
    """
    pending, seen = [annotation], dict[int, Any]()
    while pending:
        found = pending.pop()
        if id(found) not in seen:
            seen[id(found)] = found  # held, because an id is only its own while the object lives
            pending += _within(found)


def load_registered(*record: Any) -> Any:
    """The object of a record, or UnknownTypeError if its type is unknown here or no longer fits."""
    name, state = record
    registration = _NAMES.get(typed(str, name)) or _known_by_name(name)
    if registration is None:
        raise UnknownTypeError(
            f"A stored value is a {name!r}, which is not registered in this process. Call register_type, "
            "or compile the graph that declares it, before reading."
        )
    try:
        return registration.load(state)
    except (UnknownTypeError, MemoryError, RecursionError):
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise UnknownTypeError(f"A stored {name!r} does not fit its class: {reason}") from error


def former_codec(kind: type[Any]) -> Codec | None:
    """For a class whose definition has run again since, in a notebook or a function that builds graphs.

    With the same fields its objects are still written: their name is read as the class defined last. The
    registry does not hold it, or every run of such a function would leave a class behind.
    """
    current, form = _NAMES.get(_default_name(kind)), form_of(kind)
    if current is None or form is None or not current.is_record:
        return None
    if field_names(kind) != field_names(current.cls):
        return None
    return Registration(kind, current.name, *form(kind), is_record=True).codec()


def familiar_codec(kind: type[Any]) -> Codec | None:
    """For a class of one of the `FAMILIES`, which is registered by being met."""
    if not kind.__module__.startswith(FAMILIES) or form_of(kind) is None:
        return None
    register_type(kind)
    return REGISTERED[kind].codec()


def _known_by_name(name: str) -> Registration | None:
    """A class of one of the `FAMILIES`, if this process has imported it."""
    module, _, qualified = name.partition(":")
    if not module.startswith(FAMILIES):
        return None
    kind = getattr(sys.modules.get(module), qualified, None)
    if not isinstance(kind, type) or kind.__module__ != module or familiar_codec(kind) is None:
        return None
    return REGISTERED[kind]


def unregistered(kind: type[Any]) -> str:
    """Why a value of this type is not stored, and what to do. A class may know better: `not_stored`."""
    name = kind.__qualname__
    if isinstance(reason := getattr(kind, "not_stored", None), str):
        return reason
    if kind is types.CoroutineType:
        return "it has not run. Store what it returns: await it."
    if kind.__module__ == "builtins":
        return NOT_STORABLE
    call = f"register_type({name})" if form_of(kind) else f"register_type({name}, to=..., from_=...)"
    again = " again, it has been redefined" if _default_name(kind) in _NAMES else ""
    return f"its type is not registered. Call {call}{again}, or store plain data."


def _enter(registration: Registration) -> None:
    cls, name = registration.cls, registration.name
    former = _NAMES.get(name)
    if former is not None and former.cls is not cls:
        if _default_name(former.cls) != _default_name(cls):
            raise ValueError(
                f"The name {name!r} is held by {type_name(former.cls)}; give {type_name(cls)} another one."
            )
        REGISTERED.pop(former.cls, None)
        CODECS.pop(former.cls, None)
    _NAMES[name] = REGISTERED[cls] = registration
    CODECS[cls] = registration.codec()


def _default_name(cls: type[Any]) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _stored_without_registration(cls: type[Any], to: object) -> bool:
    if cls in REGISTERED or not (cls in _NATIVE or cls in CODECS or late_codec(cls)):
        return False
    if to is not None:
        raise TypeError(f"{cls.__qualname__} is stored as it is; to and from_ would not be used.")
    return True


def _derived(cls: type[Any]) -> Form:
    form = form_of(cls)
    if form is None:
        raise TypeError(
            f"{type_name(cls)} is neither a dataclass, a pydantic model, an Enum nor a NamedTuple. "
            f"Say how to store it: register_type({cls.__qualname__}, to=..., from_=...)."
        )
    return form(cls)


# --- what a schema's annotations lead to ----------------------------------------------------------------


def _within(annotation: Any) -> Iterable[Any]:
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return [annotation.__origin__]
    if origin is typing.Literal:
        return [type(item) for item in typing.get_args(annotation)]
    if origin is not None:
        return [origin, *typing.get_args(annotation)]
    if isinstance(annotation, list):  # the parameters of a Callable
        return annotation
    if isinstance(annotation, TypeVar):
        return [annotation.__bound__, *annotation.__constraints__]
    if isinstance(annotation, type):
        return _within_class(annotation)
    return [_aliased(annotation)]


def _aliased(annotation: Any) -> Any:
    """What a NewType or a `type` statement stands for, if it is one."""
    try:
        return getattr(annotation, "__supertype__", None) or getattr(annotation, "__value__", None)
    except Exception:  # the statement is evaluated now, and its names need not exist
        return None


def _within_class(cls: type[Any]) -> Iterator[Any]:
    if not is_typed_dict(cls):
        if form_of(cls) is None:
            return
        if cls not in REGISTERED:
            register_type(cls)
    yield from getattr(cls, "__orig_bases__", ())
    if is_model(cls):
        yield from (field.annotation for field in cls.model_fields.values())
    for base in cls.__mro__:
        if base is not model_base():
            yield from _hints(base)


def _hints(cls: type[Any]) -> Iterator[Any]:
    """The annotations of one class, each resolved by itself: one unknown name must not hide the others."""
    module = sys.modules.get(cls.__module__)
    names = {**vars(cls), **(vars(module) if module else {}), cls.__name__: cls}
    try:
        annotations = inspect.get_annotations(cls)
    except NameError:
        return
    for hint in annotations.values():
        holder = types.SimpleNamespace(__annotations__={"hint": hint})
        try:
            yield typing.get_type_hints(holder, names, include_extras=True)["hint"]
        except Exception:
            yield hint
