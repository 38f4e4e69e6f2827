"""Values to bytes and back, exact in value and type, without ever running what the bytes say.

The format is msgpack. What msgpack holds natively (None, bool, 64-bit int, float, str, bytes, list,
dict) is written as such, by its C packer, with exact type checks. Every other type is a msgpack
extension: a code of the table below and a payload that is packed the same way. Code 0 is a registered
type, its payload `[name, state]`. A name only selects an entry of this process's registry, so reading
cannot import or call anything that the program has not registered itself; an object is rebuilt by
filling its attributes, past `__init__`, setters and validation.

Rules that the rest relies on:

1. Equal content gives equal bytes in every process: sets are written in a fixed order, the items of a
   dict in their own. `fingerprint` is a digest of these bytes.
2. msgpack would silently write a bytearray or memoryview as bytes, and foreign `ExtType` and `Timestamp`
   objects as extensions that read back as something else. `_depth` looks for them before every packing.
3. Nesting is bounded (`_MAX_NESTING`) at writing, so what could be written can also be read, and neither
   exhausts the stack. A cycle is a nesting without end.
4. Codes and shapes of payloads are stored for ever: add, never change.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import gc
import inspect
import itertools
import sys
import types
import typing
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import date, datetime, time, timedelta, timezone
from enum import Enum, Flag
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeVar

from msgpack import ExtType, Packer, StackError, Timestamp, unpackb  # type: ignore[import-untyped]

from graphkit_checkpoint.errors import CheckpointCorruptError, UnknownTypeError, UnserializableStateError

__all__ = ["fingerprint", "pack", "register_annotations", "register_type", "unpack"]

T = TypeVar("T")
_Pair = tuple[Callable[[Any], Any], Callable[[Any], Any]]

_MAX_NESTING: Final = 500
_EXTENSION_COST: Final = 2  # an extension takes more of the stack than a list, on both ways

_FACTORIES: Final = {kind.__name__: kind for kind in (list, dict, set, int, float, str, tuple, bool)}
_LOOKALIKES: Final = frozenset({bytearray, memoryview, ExtType, Timestamp})
_TO_INSPECT: Final = _LOOKALIKES | {list, dict}
_TO_SEARCH: Final = frozenset({list, dict, Timestamp})
_NATIVE: Final = frozenset({type(None), bool, int, float, str, bytes, bytearray, list, dict})

# ExtType's own constructor spends more time on checks than the packing takes.
_extension = functools.partial(tuple.__new__, ExtType)


class _Refused(TypeError):
    """A reason not to write a value; `pack` adds the place."""


class _TooDeep(_Refused):
    """Nesting without end, or deeper than `_MAX_NESTING`."""

    def __init__(self) -> None:
        super().__init__("it nests too deep, or contains itself. Store flatter data.")


class _BytearrayFound(Exception):
    """A list or dict holds a bytearray, which msgpack would write as bytes."""


class _BoxedBytearray(bytes):
    """Stands for a bytearray while packing: the packer has no hook for the type itself."""


class _Codec(NamedTuple):
    """One extension code. Both functions receive the nesting that is left."""

    code: int
    encode: Callable[[Any, int], bytes]
    decode: Callable[[bytes, int], Any]


class _Registration(NamedTuple):
    """A registered type: how an object becomes a state that can be packed, and is made again."""

    cls: type[Any]
    name: str
    dump: Callable[[Any], Any]
    load: Callable[[Any], Any]
    is_record: bool

    def encode(self, value: Any, room: int) -> bytes:
        return _write([self.name, self.dump(value)], room)


# --- the public functions -------------------------------------------------------------------------------


def pack(value: Any) -> bytes:
    """The value as bytes, or UnserializableStateError if it would not come back exactly as it is.

    The error has `path`, the place inside the value, such as `['a'][3].field`, and `type_name`, the type
    of what is there. Cycles are refused the same way, and nesting beyond 500 lists or some 70 objects.
    """
    try:
        return _write(value, _MAX_NESTING)
    except MemoryError:
        raise
    except Exception as error:
        failure = error
    own = isinstance(failure, (_Refused, RecursionError))  # the refusal says all that these say
    raise _refusal(value, failure) from (None if own else failure)


def unpack(data: bytes) -> Any:
    """The value that `pack` was given.

    Raises UnknownTypeError for a type that is not registered in this process or no longer fits its
    record, CheckpointCorruptError for bytes that `pack` has not written.
    """
    try:
        return _read(data, _MAX_NESTING)
    except (UnknownTypeError, CheckpointCorruptError, MemoryError):
        raise
    except (RecursionError, StackError) as error:
        raise CheckpointCorruptError("A stored value nests deeper than can be read here.") from error
    except Exception as error:
        raise CheckpointCorruptError(f"A stored value is not readable: {_described(error)}") from error


def fingerprint(value: Any) -> str:
    """32 hex digits that are equal, in every process, for values equal in content and type."""
    return blake2b(pack(value), digest_size=16).hexdigest()


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
    if _is_typed_dict(cls) or _stored_without_registration(cls, to):
        return cls
    dump, load = (to, from_) if to and from_ else _derived(cls)
    _enter(_Registration(cls, _default_name(cls) if name is None else name, dump, load, to is None))
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


# --- writing --------------------------------------------------------------------------------------------


def _write(value: Any, room: int) -> bytes:
    if type(value) in _TO_INSPECT:
        try:
            room -= _depth(value, room)
        except _BytearrayFound:
            value = _boxed(value)
            room -= _depth(value, room)
    # A packer of its own: making one costs less than keeping a free list safe from threads and hooks.
    packer = Packer(default=_hook(room), strict_types=True, unicode_errors="surrogatepass", buf_size=4096)
    packed: bytes = packer.pack(value)
    return packed


@functools.cache
def _hook(room: int) -> Callable[[Any], ExtType]:
    return functools.partial(_encode, room - _EXTENSION_COST)


def _encode(room: int, value: Any) -> ExtType:
    if room <= 0:
        raise _TooDeep
    kind = type(value)
    codec = _CODECS.get(kind) or _late_codec(kind) or _former_codec(kind)
    if codec is None:
        raise _Refused(_unregistered(kind))
    return _extension((codec.code, codec.encode(value, room)))


def _depth(value: Any, room: int) -> int:
    """How deep lists and dicts nest here; refuses what the packer would take for something else."""
    if type(value) in _LOOKALIKES:
        raise _lookalike(type(value))
    level: Collection[Any] = (value,)
    for depth in range(1, room + 1):
        inside = gc.get_referents(*level)
        if _TO_INSPECT.isdisjoint(map(type, inside)):
            return depth
        # By id: what several places share, or a cycle repeats, is looked into once a level.
        level = {id(item): item for item in inside if type(item) in _TO_INSPECT}.values()
        for kind in _LOOKALIKES.intersection(map(type, level)):
            raise _lookalike(kind)
    raise _TooDeep


def _lookalike(kind: type[Any]) -> Exception:
    return _BytearrayFound() if kind is bytearray else _Refused(_unregistered(kind))


def _boxed(value: Any) -> Any:
    kind = type(value)
    if kind is list:
        return [_boxed(item) for item in value]
    if kind is dict:
        return {key: _boxed(item) for key, item in value.items()}
    return _BoxedBytearray(value) if kind is bytearray else value


# --- where a value cannot be stored: the slow walk, after a packing has failed ----------------------------


def _refusal(value: Any, error: Exception) -> UnserializableStateError:
    path, culprit, reason = _located(value, error)
    type_name = _type_name(type(culprit))
    shown = path if len(path) <= 200 else f"{path[:100]}…{path[-97:]}"
    refusal = UnserializableStateError(f"value{shown} is a {type_name} and cannot be stored: {reason}")
    vars(refusal).update(path=path, type_name=type_name)
    return refusal


def _located(value: Any, error: Exception) -> tuple[str, Any, str]:
    path, ancestors = "", {id(value): value}
    for step in range(_MAX_NESTING):
        if step == 30 and isinstance(error, (_TooDeep, RecursionError)):
            break  # enough to say where the branch begins and to see most cycles close
        failed = _failing_part(value)
        if failed is None:
            break
        suffix, value, error = failed
        path += suffix
        if id(value) in ancestors:
            return path, value, "it contains itself. Store data without cycles."
        ancestors[id(value)] = value
    return path, value, str(error) if isinstance(error, _Refused) else _described(error)


def _failing_part(value: Any) -> tuple[str, Any, Exception] | None:
    try:
        for suffix, part in _parts(value):
            if error := _failure(part):
                return suffix, part, error
    except Exception:
        return None  # it cannot even be taken apart, which is what the error at hand says
    return None


def _failure(value: Any) -> Exception | None:
    try:
        _write(value, _MAX_NESTING)
    except Exception as error:
        return error
    return None


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    kind = type(value)
    if kind in _TYPES:
        yield from _registered_parts(_TYPES[kind], value)
    elif kind in (dict, OrderedDict, Counter, defaultdict):
        yield from ((f".keys()[{index}]", key) for index, key in enumerate(value))
        yield from ((f"[{_shown(key)}]", item) for key, item in value.items())
    elif kind in (list, tuple, deque):
        yield from ((f"[{index}]", item) for index, item in enumerate(value))
    elif kind in (set, frozenset):
        yield from ((f"{{{_shown(item)}}}", item) for item in value)
    elif kind in (datetime, time):
        yield ".tzinfo", value.tzinfo


def _registered_parts(registration: _Registration, value: Any) -> Iterator[tuple[str, Any]]:
    state = registration.dump(value)
    if not registration.is_record:
        yield ".to()", state
    elif isinstance(state, list):
        attributes = (part.items() for part in state if isinstance(part, dict))
        yield from ((f".{name}", item) for name, item in itertools.chain.from_iterable(attributes))


def _shown(key: Any) -> str:
    try:
        text = repr(key)
    except Exception:
        text = f"<{_type_name(type(key))}>"
    return text if len(text) <= 80 else f"{text[:79]}…"


def _described(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return str(_TooDeep())
    return f"{type(error).__name__}: {error}"


def _type_name(kind: type[Any]) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _unregistered(kind: type[Any]) -> str:
    name = kind.__qualname__
    if kind.__module__ == "builtins" or kind in _LOOKALIKES:
        return "values of this type are not storable. Store plain data."
    call = f"register_type({name})" if _form(kind) else f"register_type({name}, to=..., from_=...)"
    again = " again, it has been redefined" if _default_name(kind) in _NAMES else ""
    return f"its type is not registered. Call {call}{again}, or store plain data."


# --- reading --------------------------------------------------------------------------------------------


def _read(data: bytes, room: int) -> Any:
    # unpackb bounds every length header by the length of the data, so none makes it allocate more.
    value = unpackb(
        data, ext_hook=_reader(room), raw=False, strict_map_key=False, unicode_errors="surrogatepass"
    )
    if b"\xff" in data:  # the type byte of msgpack's timestamps, which do not come past the hook
        _refuse_timestamps(value)
    return value


@functools.cache
def _reader(room: int) -> Callable[[int, bytes], Any]:
    return functools.partial(_decode, room - _EXTENSION_COST - 1)


def _decode(room: int, code: int, payload: bytes) -> Any:
    if room <= 0:
        raise CheckpointCorruptError("A stored value nests deeper than any that is written.")
    decode = _DECODERS.get(code)
    if decode is None:
        raise CheckpointCorruptError(f"A stored value has the unknown extension code {code}.")
    return decode(payload, room)


def _refuse_timestamps(value: Any) -> None:
    pending = [value]
    while pending:
        item = pending.pop()
        kind = type(item)
        if kind is Timestamp:
            raise CheckpointCorruptError("A stored value holds a msgpack timestamp, which is never written.")
        if kind is dict:
            pending += itertools.chain(item, item.values())
        elif kind is list and not _TO_SEARCH.isdisjoint(map(type, item)):
            pending += item


def _typed(kind: type[T], value: Any) -> T:
    if type(value) is not kind:
        raise CheckpointCorruptError(f"A stored value has {type(value).__name__} for {kind.__name__}.")
    return value


def _decode_registered(payload: bytes, room: int) -> Any:
    name, state = _typed(list, _read(payload, room))
    registration = _NAMES.get(_typed(str, name))
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
        raise UnknownTypeError(f"A stored {name!r} does not fit its class: {_described(error)}") from error


# --- the registry ---------------------------------------------------------------------------------------


def _enter(registration: _Registration) -> None:
    cls, name = registration.cls, registration.name
    former = _NAMES.get(name)
    if former is not None and former.cls is not cls:
        if _default_name(former.cls) != _default_name(cls):
            raise ValueError(
                f"The name {name!r} is held by {_type_name(former.cls)}; give {_type_name(cls)} another one."
            )
        _TYPES.pop(former.cls, None)
        _CODECS.pop(former.cls, None)
    _NAMES[name] = _TYPES[cls] = registration
    _CODECS[cls] = _Codec(0, registration.encode, _decode_registered)


def _default_name(cls: type[Any]) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _stored_without_registration(cls: type[Any], to: object) -> bool:
    if cls in _TYPES or not (cls in _NATIVE or cls in _CODECS or _late_codec(cls)):
        return False
    if to is not None:
        raise TypeError(f"{cls.__qualname__} is stored as it is; to and from_ would not be used.")
    return True


def _derived(cls: type[Any]) -> _Pair:
    form = _form(cls)
    if form is None:
        raise TypeError(
            f"{_type_name(cls)} is neither a dataclass, a pydantic model, an Enum nor a NamedTuple. "
            f"Say how to store it: register_type({cls.__qualname__}, to=..., from_=...)."
        )
    return form(cls)


def _form(cls: type[Any]) -> Callable[[type[Any]], _Pair] | None:
    """How objects of such a class are taken apart and made again, if that is known."""
    if issubclass(cls, Enum):
        return _enum_form
    if issubclass(cls, tuple):
        return _named_tuple_form if hasattr(cls, "_fields") and hasattr(cls, "_make") else None
    if _maker(cls) not in (object, typing.Generic):  # Generic has a `__new__` of its own in some versions
        return None
    if _is_model(cls):
        return _model_form
    return _dataclass_form if dataclasses.is_dataclass(cls) else None


def _maker(cls: type[Any]) -> Any:
    """The class whose built-in `__new__` makes its objects: `object`, unless they also hold a value."""
    return next(
        base for base in cls.__mro__ if isinstance(vars(base).get("__new__"), types.BuiltinMethodType)
    )


def _is_typed_dict(cls: type[Any]) -> bool:
    return issubclass(cls, dict) and hasattr(cls, "__required_keys__")  # typing's and typing_extensions'


def _model_base() -> type[Any] | None:
    # There are no models before this module is loaded, and loading it takes longer than all of graphkit.
    return getattr(sys.modules.get("pydantic.main"), "BaseModel", None)


def _is_model(cls: type[Any]) -> bool:
    base = _model_base()
    return base is not None and issubclass(cls, base)


# --- how registered types are taken apart ---------------------------------------------------------------
#
# The state of a dataclass, named tuple or model is `[fields, other attributes, names of unset fields]`.
# A field that is missing in a record and not named unset is one that the class has got since.


class _Shape(NamedTuple):
    """The attributes of a class: its fields with their defaults, and the slots that hold attributes."""

    cls: type[Any]
    fields: dict[str, Callable[[], Any] | None]
    slots: dict[str, types.MemberDescriptorType]


def _dataclass_form(cls: type[Any]) -> _Pair:
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
        f"A stored {_type_name(cls)} does not fit its class: {'; '.join(differences)}. "
        "Keep the fields that records have, and give new ones a default."
    )


def _named_tuple_form(cls: type[Any]) -> _Pair:
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


def _enum_form(cls: type[Any]) -> _Pair:
    if issubclass(cls, Flag):  # a combination has no name of its own
        return (lambda member: member._value_), (lambda value: _typed(cls, cls(value)))
    return (lambda member: member._name_), (lambda name: cls.__members__[name])


def _model_form(cls: type[Any]) -> _Pair:
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
    if not _is_typed_dict(cls):
        if _form(cls) is None:
            return
        if cls not in _TYPES:
            register_type(cls)
    yield from getattr(cls, "__orig_bases__", ())
    if _is_model(cls):
        yield from (field.annotation for field in cls.model_fields.values())
    for base in cls.__mro__:
        if base is not _model_base():
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


# --- the table of built-in types ------------------------------------------------------------------------
#
# Types of modules that take long to import are entered by name: a value of such a type can only exist once
# the module is loaded.


def _listed(code: int, to: Callable[[Any], list[Any]], from_: Callable[..., Any]) -> _Codec:
    def encode(value: Any, room: int) -> bytes:
        return _write(to(value), room)

    def decode(payload: bytes, room: int) -> Any:
        return from_(*_typed(list, _read(payload, room)))

    return _Codec(code, encode, decode)


def _raw(code: int, to: Callable[[Any], bytes], from_: Callable[[bytes], Any]) -> _Codec:
    return _Codec(code, lambda value, room: to(value), lambda payload, room: from_(payload))


def _unordered(code: int, kind: type[Any]) -> _Codec:
    def decode(payload: bytes, room: int) -> Any:
        return kind(_typed(list, _read(payload, room)))

    return _Codec(code, _encode_set, decode)


def _encode_set(value: Any, room: int) -> bytes:
    kinds = set(map(type, value))
    if len(kinds) == 1 and kinds <= {int, str, bytes}:
        return _write(sorted(value), room)
    items = sorted(_write(item, room - 1) for item in value)
    header: bytes = Packer().pack_array_header(len(items))
    return header + b"".join(items)


def _mapping(code: int, kind: type[Any]) -> _Codec:
    def encode(value: Any, room: int) -> bytes:
        if vars(value):
            raise _Refused("it has attributes besides its items. Store plain data.")
        return _write(dict(value), room)

    def decode(payload: bytes, room: int) -> Any:
        return kind(_typed(dict, _read(payload, room)))

    return _Codec(code, encode, decode)


def _factory_name(factory: Any) -> str | None:
    if factory is None:
        return None
    for name, kind in _FACTORIES.items():
        if factory is kind:
            return name
    raise _Refused(f"its default_factory is not one of {', '.join(_FACTORIES)}. Store a plain dict.")


def _defaultdict(factory: str | None, items: Any) -> Any:
    return defaultdict(None if factory is None else _FACTORIES[factory], _typed(dict, items))


def _int_bytes(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)


def _datetime_fields(value: datetime) -> list[Any]:
    return [value.year, value.month, value.day, *_time_fields(value)]


def _time_fields(value: datetime | time) -> list[Any]:
    return [value.hour, value.minute, value.second, value.microsecond, value.tzinfo, value.fold]


def _datetime(*fields: Any) -> datetime:
    return datetime(*fields[:-1], fold=fields[-1])


def _time(*fields: Any) -> time:
    return time(*fields[:-1], fold=fields[-1])


def _timezone_fields(value: Any) -> list[Any]:
    offset, *name = value.__getinitargs__()
    return [offset // timedelta(microseconds=1), *name]


def _timezone(microseconds: int, *name: str) -> timezone:
    return timezone(timedelta(microseconds=microseconds), *name)


def _zone_fields(zone: Any) -> list[Any]:
    if zone.key is None:
        raise _Refused("a time zone read from a file has no key. Use ZoneInfo(key).")
    return [zone.key]


def _zone(key: str) -> Any:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(_typed(str, key))
    except ZoneInfoNotFoundError as error:
        raise UnknownTypeError(f"A stored time zone, {key!r}, is not known on this machine.") from error


def _uuid(integer: bytes, safety: int | None) -> Any:
    from uuid import UUID, SafeUUID

    return UUID(bytes=integer, is_safe=SafeUUID(safety))


def _decimal(text: bytes) -> Any:
    from decimal import Decimal

    return Decimal(text.decode("ascii"))


def _fraction(numerator: int, denominator: int) -> Any:
    from fractions import Fraction

    return Fraction(_typed(int, numerator), _typed(int, denominator))


def _path_fields(path: Any) -> list[Any]:
    text = str(path)
    if type(path)(text) != path:  # such as PureWindowsPath("./c:") before Python 3.12
        raise _Refused("its text stands for another path. Store the text.")
    return [type(path).__name__, text]


def _path(kind: str, text: str) -> Any:
    import pathlib

    if kind not in _PATHS:
        raise CheckpointCorruptError(f"A stored value has {kind!r} for a kind of path.")
    try:
        return getattr(pathlib, kind)(_typed(str, text))
    except NotImplementedError as error:
        raise UnknownTypeError(f"A stored {kind} cannot be made on this operating system.") from error


_PATHS: Final = ("PurePosixPath", "PureWindowsPath", "PosixPath", "WindowsPath")
_PATH: Final = _listed(16, _path_fields, _path)

_CODECS: Final[dict[type[Any], _Codec]] = {
    tuple: _listed(1, list, lambda *items: items),
    set: _unordered(2, set),
    frozenset: _unordered(3, frozenset),
    int: _raw(4, _int_bytes, lambda payload: int.from_bytes(payload, "big", signed=True)),
    complex: _listed(5, lambda value: [value.real, value.imag], complex),
    _BoxedBytearray: _raw(6, bytes, bytearray),
    datetime: _listed(7, _datetime_fields, _datetime),
    date: _listed(8, lambda value: [value.year, value.month, value.day], date),
    time: _listed(9, _time_fields, _time),
    timedelta: _listed(10, lambda value: [value.days, value.seconds, value.microseconds], timedelta),
    timezone: _listed(11, _timezone_fields, _timezone),
    deque: _listed(17, lambda value: [list(value), value.maxlen], deque),
    range: _listed(18, lambda value: [value.start, value.stop, value.step], range),
    OrderedDict: _mapping(19, OrderedDict),
    Counter: _mapping(20, Counter),
    defaultdict: _listed(21, lambda value: [_factory_name(value.default_factory), dict(value)], _defaultdict),
}

_LATE: Final[dict[str, _Codec]] = {
    "zoneinfo.ZoneInfo": _listed(12, _zone_fields, _zone),
    "uuid.UUID": _listed(13, lambda value: [value.bytes, value.is_safe.value], _uuid),
    "decimal.Decimal": _raw(14, lambda value: str(value).encode("ascii"), _decimal),
    "fractions.Fraction": _listed(15, lambda value: [value.numerator, value.denominator], _fraction),
    **{f"pathlib.{kind}": _PATH for kind in _PATHS},
}

_DECODERS: Final = {codec.code: codec.decode for codec in (*_CODECS.values(), *_LATE.values())}
_DECODERS[0] = _decode_registered

_NAMES: Final[dict[str, _Registration]] = {}
_TYPES: Final[dict[type[Any], _Registration]] = {}


def _late_codec(kind: type[Any]) -> _Codec | None:
    module = str(kind.__module__).partition(".")[0]
    codec = _LATE.get(f"{module}.{kind.__qualname__}")
    if codec is None or getattr(sys.modules.get(module), kind.__qualname__, None) is not kind:
        return None
    _CODECS[kind] = codec
    return codec


def _former_codec(kind: type[Any]) -> _Codec | None:
    """For a class whose definition has run again since, in a notebook or a function that builds graphs.

    With the same fields its objects are still written: their name is read as the class defined last. The
    registry does not hold it, or every run of such a function would leave a class behind.
    """
    current, form = _NAMES.get(_default_name(kind)), _form(kind)
    if current is None or form is None or not current.is_record:
        return None
    if _field_names(kind) != _field_names(current.cls):
        return None
    return _Codec(
        0, _Registration(kind, current.name, *form(kind), is_record=True).encode, _decode_registered
    )


def _field_names(cls: type[Any]) -> list[str]:
    for attribute in ("__members__", "_fields", "model_fields", "__dataclass_fields__"):
        if hasattr(cls, attribute):
            return list(getattr(cls, attribute))
    return []
