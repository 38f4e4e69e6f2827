"""Values to bytes and back, exact in value and type, without ever running what the bytes say.

The format is msgpack. What msgpack holds natively (None, bool, 64-bit int, float, str, bytes, list,
dict) is written as such, by its C packer, with exact type checks. Every other type is a msgpack
extension: a code and a payload that is packed the same way. `codecs` has the table of built-in types,
`registry` the types of the program, `forms` how their objects are taken apart; this module has the bytes.

Rules that the rest relies on:

1. Equal content gives equal bytes in every process: sets are written in a fixed order, the items of a
   dict in their own. `fingerprint` is a digest of these bytes.
2. msgpack would silently write a bytearray or memoryview as bytes, and foreign `ExtType` and `Timestamp`
   objects as extensions that read back as something else. `_depth` looks for them before every packing.
3. Nesting is bounded (`_MAX_NESTING`) at writing, so what could be written can also be read, and neither
   exhausts the stack. A cycle is a nesting without end.
"""

from __future__ import annotations

import functools
import gc
import itertools
import re
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime, time
from hashlib import blake2b
from struct import Struct
from typing import Any, Final

from msgpack import ExtType, Packer, StackError, Timestamp, unpackb  # type: ignore[import-untyped]

from graphkit_checkpoint.codecs import BY_CODE, CODECS, BoxedBytearray, Codec, Refused, late_codec, typed
from graphkit_checkpoint.errors import CheckpointCorruptError, UnknownTypeError, UnserializableStateError
from graphkit_checkpoint.forms import type_name
from graphkit_checkpoint.registry import (
    NOT_STORABLE,
    REGISTERED,
    Registration,
    familiar_codec,
    former_codec,
    load_registered,
    register_annotations,
    register_type,
    unregistered,
)
from graphkit_checkpoint.watched import WATCHED, WatchedDict, WatchedList, copied

__all__ = [
    "fingerprint",
    "pack",
    "pack_items",
    "register_annotations",
    "register_type",
    "unpack",
    "unpack_items",
]

_MAX_NESTING: Final = 500
_GROUP_BYTES: Final = 64 * 1024
_ARRAY: Final = Struct(">BI")
"""The header of an array of any length: its type byte, 0xDD, and the number of its items."""
_MOST_ITEMS: Final = 2**32 - 1
_EXTENSION_COST: Final = 2  # an extension takes more of the stack than a list, on both ways

_LOOKALIKES: Final = frozenset({bytearray, memoryview, ExtType, Timestamp})
_CONTAINERS: Final = frozenset({list, dict})
_NUMBERS: Final = frozenset({int, float, bool, type(None)})
_TO_INSPECT: Final = _LOOKALIKES | _CONTAINERS
_PLAIN: Final = frozenset({str, int, float, bool, type(None), bytes, list, dict})
"""Of these only containers refer to anything."""
_MANY: Final = 256
_TO_LOOK_INTO: Final = re.compile(rb"[\xC4-\xC9\xD4-\xD8]").search
"""Finds what could be the head of binary data or of an extension, which is all that lookalikes are packed as."""
_TIMESTAMP: Final = re.compile(rb"[\x04\x08\x0C\xD6\xD7]\xFF")
"""How timestamps begin: their length or an extension of that length, then the type byte."""
_TO_SEARCH: Final = frozenset({list, dict, Timestamp})

_BY_CODE: Final = {**BY_CODE, 0: Codec(0, list, list, load_registered)}

_SHORT: Final = 1024
_single = Packer(buf_size=2 * _SHORT)
"""Packs single numbers and short texts. Shared by all threads: no Python code runs while it works, which an error in a
text could make."""

# ExtType's own constructor spends more time on checks than the packing takes.
_extension = functools.partial(tuple.__new__, ExtType)


class _TooDeep(Refused):
    """Nesting without end, or deeper than `_MAX_NESTING`."""

    def __init__(self) -> None:
        super().__init__("it nests too deep, or contains itself. Store flatter data.")


class _BytearrayFound(Exception):
    """A list or dict holds a bytearray, which msgpack would write as bytes."""


def pack(value: Any) -> bytes:
    """The value as bytes, or UnserializableStateError if it would not come back exactly as it is.

    The error has `path`, the place inside the value, such as `['a'][3].field`, and `type_name`, the type
    of what is there. Cycles are refused the same way, and nesting beyond 500 lists or some 70 objects.
    """
    try:
        kind = type(value)
        if kind in _NUMBERS or (kind is str and len(value) < _SHORT and value.isascii()):
            try:
                return _single.pack(value)  # type: ignore[no-any-return]
            except OverflowError:  # an integer that is none of msgpack's
                pass
        return _write(value, _MAX_NESTING)
    except MemoryError:
        raise
    except Exception as error:
        failure = error
    own = isinstance(failure, (Refused, RecursionError))  # the refusal says all that these say
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


def pack_items(value: list[Any] | dict[Any, Any]) -> bytes:
    """The items of a list, or the pairs of a dict, one after the other: `pack` without the header.

    What several of these calls return may be joined. Raises UnserializableStateError.
    """
    return items_in(pack(value), len(value))


def items_in(packed: bytes, size: int) -> bytes:
    """What `pack_items` returns for a list or dict of this size that is packed already."""
    return packed[1 if size < 16 else 3 if size < 65536 else 5 :]


def unpack_items(parts: Iterable[tuple[int, bytes]]) -> list[Any]:
    """A list of what several calls of `pack_items` wrote, each with its number of items; a pair counts as two.

    Raises what `unpack` raises.
    """
    items: list[Any] = []
    # Several parts are decoded in one call, which is quicker, unless they are large: then joining them costs more.
    group: list[bytes] = []
    count = size = 0
    for number, body in parts:
        group.append(body)
        count += number
        size += len(body)
        if size >= _GROUP_BYTES:
            items += _joined(count, group)
            group, count, size = [], 0, 0
    if group:
        items += _joined(count, group)
    return items


def _joined(count: int, parts: list[bytes]) -> Any:
    if not 0 <= count <= _MOST_ITEMS:
        raise CheckpointCorruptError(f"A stored list cannot have {count} items.")
    return unpack(b"".join((_ARRAY.pack(0xDD, count), *parts)))


def fingerprint(value: Any) -> str:
    """32 hex digits that are equal, in every process, for values equal in content and type."""
    return blake2b(pack(value), digest_size=16).hexdigest()


# --- writing --------------------------------------------------------------------------------------------


def _write(value: Any, room: int) -> bytes:
    if type(value) not in _TO_INSPECT:
        return _packer(default=_hook(room)).pack(value)  # type: ignore[no-any-return]
    hook = _LateHook(value, room)
    try:
        packed: bytes = _packer(default=hook).pack(value)
        # One level takes a byte at least, so few bytes nest no deeper than they may.
        if hook.room is None and (len(packed) > room or _TO_LOOK_INTO(packed) is not None):
            _depth(value, room)
        return packed
    except _BytearrayFound:
        value = _boxed(value)
    except Exception:
        if hook.room is None:
            _depth(value, room)  # its refusals say more
        raise
    return _packer(default=_hook(room - _depth(value, room))).pack(value)  # type: ignore[no-any-return]


_packer = functools.partial(Packer, strict_types=True, unicode_errors="surrogatepass", buf_size=4096)
"""A packer for each value: making one costs less than keeping a free list safe from threads and hooks."""


class _LateHook:
    """`_hook` inside of a list or dict: how deep that nests is looked up when something needs it."""

    __slots__ = ("room", "value", "whole")

    def __init__(self, value: Any, whole: int) -> None:
        self.value = value
        self.whole = whole
        self.room: int | None = None

    def __call__(self, item: Any) -> Any:
        if self.room is None:
            self.room = self.whole - _depth(self.value, self.whole) - _EXTENSION_COST
        return _encode(self.room, item)


@functools.cache
def _hook(room: int) -> Callable[[Any], Any]:
    return functools.partial(_encode, room - _EXTENSION_COST)


def _encode(room: int, value: Any) -> Any:
    if room <= 0:
        raise _TooDeep
    kind = type(value)
    if kind in WATCHED:
        return _plain(value, room)
    codec = CODECS.get(kind) or late_codec(kind) or former_codec(kind) or familiar_codec(kind)
    if codec is None:
        raise Refused(unregistered(kind))
    code, shape, to, _ = codec
    payload = to(value)
    if shape is not bytes:
        payload = _write_set(payload, room) if shape is set else _write(payload, room)
    return _extension((code, payload))


def _plain(value: Any, room: int) -> Any:
    """What is written of a watched list or dict: what it is, as a plain one."""
    plain = copied(value)
    try:
        _depth(plain, room)
    except _BytearrayFound:
        return _boxed(plain)
    return plain


def _write_set(value: Any, room: int) -> bytes:
    kinds = set(map(type, value))
    if len(kinds) == 1 and kinds <= {int, str, bytes}:
        return _write(sorted(value), room)
    items = sorted(_write(item, room - 1) for item in value)
    header: bytes = Packer().pack_array_header(len(items))
    return header + b"".join(items)


def _depth(value: Any, room: int) -> int:
    """How deep lists and dicts nest here; refuses what the packer would take for something else."""
    if type(value) in _LOOKALIKES:
        raise _lookalike(type(value))
    level: Collection[Any] = (value,)
    for depth in range(1, room + 1):
        level = gc.get_referents(*level)
        kinds = set(map(type, level))
        if kinds.isdisjoint(_TO_INSPECT):
            return depth
        if not kinds <= _PLAIN:
            for kind in _LOOKALIKES & kinds:
                raise _lookalike(kind)
            level = [item for item in level if type(item) in _CONTAINERS]
        if len(level) > _MANY:
            # By id: what several places share, or a cycle repeats, is looked into once a level.
            level = {id(item): item for item in level if type(item) in _CONTAINERS}.values()
    raise _TooDeep


def _lookalike(kind: type[Any]) -> Exception:
    return _BytearrayFound() if kind is bytearray else Refused(NOT_STORABLE)


def _boxed(value: Any) -> Any:
    kind = type(value)
    if kind is list:
        return [_boxed(item) for item in value]
    if kind is dict:
        return {key: _boxed(item) for key, item in value.items()}
    return BoxedBytearray(value) if kind is bytearray else value


# --- reading --------------------------------------------------------------------------------------------


def _read(data: bytes, room: int) -> Any:
    # unpackb bounds every length header by the length of the data, so none makes it allocate more.
    value = unpackb(
        data, ext_hook=_reader(room), raw=False, strict_map_key=False, unicode_errors="surrogatepass"
    )
    # Msgpack's timestamps do not come past the hook. Their type byte, which a number below 0 has too, is easy to find.
    if b"\xff" in data and _TIMESTAMP.search(data):
        _refuse_timestamps(value)
    return value


@functools.cache
def _reader(room: int) -> Callable[[int, bytes], Any]:
    return functools.partial(_decode, room - _EXTENSION_COST - 1)


def _decode(room: int, code: int, payload: bytes) -> Any:
    if room <= 0:
        raise CheckpointCorruptError("A stored value nests deeper than any that is written.")
    codec = _BY_CODE.get(code)
    if codec is None:
        raise CheckpointCorruptError(f"A stored value has the unknown extension code {code}.")
    _, shape, _, from_ = codec
    if shape is bytes:
        return from_(payload)
    parts = _read(payload, room)
    if shape is list:
        return from_(*typed(list, parts))
    return from_(typed(dict if shape is dict else list, parts))


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


# --- where a value cannot be stored: the slow walk, after a packing has failed --------------------------


def _refusal(value: Any, error: Exception) -> UnserializableStateError:
    path, culprit, reason = _located(value, error)
    kind = type_name(type(culprit))
    shown = path if len(path) <= 200 else f"{path[:100]}…{path[-97:]}"
    refusal = UnserializableStateError(f"value{shown} is a {kind} and cannot be stored: {reason}")
    vars(refusal).update(path=path, type_name=kind)
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
    return path, value, str(error) if isinstance(error, Refused) else _described(error)


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
    if kind in REGISTERED:
        yield from _registered_parts(REGISTERED[kind], value)
    elif kind in (dict, OrderedDict, Counter, defaultdict, WatchedDict):
        yield from ((f".keys()[{index}]", key) for index, key in enumerate(value))
        yield from ((f"[{_shown(key)}]", item) for key, item in value.items())
    elif kind in (list, tuple, deque, WatchedList):
        yield from ((f"[{index}]", item) for index, item in enumerate(value))
    elif kind in (set, frozenset):
        yield from ((f"{{{_shown(item)}}}", item) for item in value)
    elif kind in (datetime, time):
        yield ".tzinfo", value.tzinfo


def _registered_parts(registration: Registration, value: Any) -> Iterator[tuple[str, Any]]:
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
        text = f"<{type_name(type(key))}>"
    return text if len(text) <= 80 else f"{text[:79]}…"


def _described(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return str(_TooDeep())
    return f"{type(error).__name__}: {error}"
