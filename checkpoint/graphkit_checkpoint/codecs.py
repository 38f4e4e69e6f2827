"""How each kind of built-in value is written: its extension code and the parts it is made from.

Knows values, not bytes: `serde` packs the parts and reads them back. Codes and shapes of parts are stored
for ever: add, never change.
"""

from __future__ import annotations

import functools
import os
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from typing import Any, Final, NamedTuple, TypeVar

from graphkit_checkpoint.errors import CheckpointCorruptError, UnknownTypeError

T = TypeVar("T")

_FACTORIES: Final = {kind.__name__: kind for kind in (list, dict, set, int, float, str, tuple, bool)}


class Refused(TypeError):
    """A reason not to write a value; `pack` adds the place."""


class BoxedBytearray(bytes):
    """Stands for a bytearray while packing: the packer has no hook for the type itself."""


class Codec(NamedTuple):
    """One extension code, and the way from a value to its parts and back.

    `payload` is the type of what `to` returns: bytes are stored as they are, a list, dict or set is packed.
    `from_` receives the same again, but a list item by item and a set as a list.
    """

    code: int
    payload: type[bytes] | type[list[Any]] | type[dict[Any, Any]] | type[set[Any]]
    to: Callable[[Any], Any]
    from_: Callable[..., Any]


def typed(kind: type[T], value: Any) -> T:
    if type(value) is not kind:
        raise CheckpointCorruptError(f"A stored value has {type(value).__name__} for {kind.__name__}.")
    return value


def _items(value: Any) -> dict[Any, Any]:
    if vars(value):
        raise Refused("it has attributes besides its items. Store plain data.")
    return dict(value)


def _same(value: Any) -> Any:
    return value


def _factory_name(factory: Any) -> str | None:
    if factory is None:
        return None
    for name, kind in _FACTORIES.items():
        if factory is kind:
            return name
    raise Refused(f"its default_factory is not one of {', '.join(_FACTORIES)}. Store a plain dict.")


def _defaultdict_fields(value: Any) -> list[Any]:
    return [_factory_name(value.default_factory), dict(value)]


def _defaultdict(factory: str | None, items: Any) -> Any:
    return defaultdict(None if factory is None else _FACTORIES[factory], typed(dict, items))


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
        raise Refused("a time zone read from a file has no key. Use ZoneInfo(key).")
    return [zone.key]


def _zone(key: str) -> Any:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    problem = f"A stored time zone, {key!r}, is not known on this machine."
    if not _is_zone_key(typed(str, key)):
        raise CheckpointCorruptError(f"{key!r} is no name of a time zone.")
    # Where the system does not have it, ZoneInfo imports a package whose name is made of the key.
    if not _is_on_disk(key) and key not in _known_zones():
        raise UnknownTypeError(problem)
    try:
        return ZoneInfo(key)
    except ZoneInfoNotFoundError as error:
        raise UnknownTypeError(problem) from error


def _is_zone_key(key: str) -> bool:
    parts = key.split("/")
    return all(parts) and {".", ".."}.isdisjoint(parts) and "\0" not in key and "\\" not in key


def _is_on_disk(key: str) -> bool:
    from zoneinfo import TZPATH

    return any(os.path.isfile(os.path.join(folder, key)) for folder in TZPATH)


@functools.cache
def _known_zones() -> frozenset[str]:
    from zoneinfo import available_timezones

    return frozenset(available_timezones())


def _uuid(integer: bytes, safety: int | None) -> Any:
    from uuid import UUID, SafeUUID

    return UUID(bytes=integer, is_safe=SafeUUID(safety))


def _decimal(text: bytes) -> Any:
    from decimal import Decimal

    return Decimal(text.decode("ascii"))


def _fraction(numerator: int, denominator: int) -> Any:
    from fractions import Fraction

    return Fraction(typed(int, numerator), typed(int, denominator))


def _path_fields(path: Any) -> list[Any]:
    text = str(path)
    if type(path)(text) != path:  # such as PureWindowsPath("./c:") before Python 3.12
        raise Refused("its text stands for another path. Store the text.")
    return [type(path).__name__, text]


def _path(kind: str, text: str) -> Any:
    import pathlib

    if kind not in _PATHS:
        raise CheckpointCorruptError(f"A stored value has {kind!r} for a kind of path.")
    try:
        return getattr(pathlib, kind)(typed(str, text))
    except NotImplementedError as error:
        raise UnknownTypeError(f"A stored {kind} cannot be made on this operating system.") from error


_PATHS: Final = ("PurePosixPath", "PureWindowsPath", "PosixPath", "WindowsPath")
_PATH: Final = Codec(16, list, _path_fields, _path)

CODECS: Final[dict[type[Any], Codec]] = {
    tuple: Codec(1, list, list, lambda *items: items),
    set: Codec(2, set, _same, set),
    frozenset: Codec(3, set, _same, frozenset),
    int: Codec(4, bytes, _int_bytes, lambda payload: int.from_bytes(payload, "big", signed=True)),
    complex: Codec(5, list, lambda value: [value.real, value.imag], complex),
    BoxedBytearray: Codec(6, bytes, bytes, bytearray),
    datetime: Codec(7, list, _datetime_fields, _datetime),
    date: Codec(8, list, lambda value: [value.year, value.month, value.day], date),
    time: Codec(9, list, _time_fields, _time),
    timedelta: Codec(10, list, lambda value: [value.days, value.seconds, value.microseconds], timedelta),
    timezone: Codec(11, list, _timezone_fields, _timezone),
    deque: Codec(17, list, lambda value: [list(value), value.maxlen], deque),
    range: Codec(18, list, lambda value: [value.start, value.stop, value.step], range),
    OrderedDict: Codec(19, dict, _items, OrderedDict),
    Counter: Codec(20, dict, _items, Counter),
    defaultdict: Codec(21, list, _defaultdict_fields, _defaultdict),
}

# Types of modules that take long to import are entered by name: a value of such a type can only exist once
# the module is loaded.
_LATE: Final[dict[str, Codec]] = {
    "zoneinfo.ZoneInfo": Codec(12, list, _zone_fields, _zone),
    "uuid.UUID": Codec(13, list, lambda value: [value.bytes, value.is_safe.value], _uuid),
    "decimal.Decimal": Codec(14, bytes, lambda value: str(value).encode("ascii"), _decimal),
    "fractions.Fraction": Codec(15, list, lambda value: [value.numerator, value.denominator], _fraction),
    **{f"pathlib.{kind}": _PATH for kind in _PATHS},
}

BY_CODE: Final = {codec.code: codec for codec in (*CODECS.values(), *_LATE.values())}


def late_codec(kind: type[Any]) -> Codec | None:
    module = str(kind.__module__).partition(".")[0]
    codec = _LATE.get(f"{module}.{kind.__qualname__}")
    if codec is None or getattr(sys.modules.get(module), kind.__qualname__, None) is not kind:
        return None
    CODECS[kind] = codec
    return codec
