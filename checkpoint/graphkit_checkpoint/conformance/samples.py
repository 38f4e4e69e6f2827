"""Values and names that storage is known to spoil."""

from __future__ import annotations

import enum
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, Final, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

from graphkit_checkpoint.serde import register_type

ZONE: Final = ZoneInfo("UTC")


@dataclass
class Point:
    x: int
    tags: tuple[str, ...]


class Pair(NamedTuple):
    left: Any
    right: Any


class Colour(enum.Enum):
    RED = "red"
    GREEN = 2


for kind in (Point, Pair, Colour):
    register_type(kind, name=f"graphkit.conformance.{kind.__name__}")


def _nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


VALUES: Final[Mapping[str, list[Any]]] = {
    "None, True and False": [None, True, False],
    "whole numbers": [0, -1, 2**31, -(2**31) - 1, 2**63 - 1, -(2**63), 2**64 - 1],
    "numbers beyond 64 bits": [2**64, -(2**63) - 1, 10**400, -(10**400)],
    "numbers of equal value and other type": [1, True, 1.0, Decimal(1), 0, False, 0.0],
    "floats, with both zeros, infinities and NaN": [
        0.0,
        -0.0,
        0.1,
        1e308,
        5e-324,
        float("inf"),
        float("nan"),
    ],
    "complex numbers": [complex(1, -0.0), complex(float("inf"), 2)],
    "text with NUL": ["\0", "a\0b", "\0\0", "end\0"],
    "text with lone surrogates": ["\ud800", "a\udfffb", "\udc80\ud800"],
    "text of other scripts, not normalized": ["é", "e\u0301", "😀👩\u200d🚀", "\u202eabc", "ﷺ", "\ufffe"],
    "text that looks like something else": [
        "",
        " ",
        "null",
        "1",
        "'; DROP TABLE x; --",
        "%_\\",
        "{}",
        "\r\n",
    ],
    "long text": ["x" * 300_000, "é" * 100_000],
    "bytes": [b"", b"\0", b"\xff\xfe", bytes(range(256)), b"text"],
    "bytearrays": [bytearray(b""), bytearray(b"\0a"), {"in": [bytearray(b"b")]}],
    "tuples beside lists": [(), (1,), ((1, [2, (3,)]),), [1, (2,), [3]]],
    "sets and frozensets": [set(), {1, "a", (2,)}, frozenset({1, 2}), {frozenset({1}), frozenset()}],
    "empty containers": [[], {}, (), set(), frozenset(), "", b""],
    "dicts with keys that are no text": [{1: "a", None: 2, (1, 2): [3], b"k": 4, 2.5: {}}, {True: 1}],
    "dicts with hostile keys, in order": [{"\0": 1, "": 2, "z": 3, "a": 4, "\ud800": 5, "a.b": 6, "$ne": 7}],
    "datetimes, aware and not": [
        datetime(2024, 2, 29, 23, 59, 59, 999999),
        datetime(2024, 10, 27, 2, 30, tzinfo=ZONE, fold=1),
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=-5, minutes=-30), "odd")),
        datetime.max.replace(tzinfo=UTC),
    ],
    "dates, times and spans": [date.min, date(2024, 2, 29), time(1, 2, 3, 4, fold=1), timedelta(-1, 5, 7)],
    "decimals and fractions": [
        Decimal("0.10"),
        Decimal("-0"),
        Decimal("NaN"),
        Decimal("1E+9"),
        Fraction(1, 3),
    ],
    "uuids and paths": [UUID(int=0), UUID(int=2**128 - 1), PurePosixPath("/a/../b"), PureWindowsPath("c:/a")],
    "deques, counters and ordered dicts": [
        deque([1, 2], maxlen=2),
        Counter("aab"),
        OrderedDict(b=1, a=2),
        defaultdict(list, k=[1]),
        range(1, 10, 3),
    ],
    "dataclasses, named tuples and enums": [Point(1, ("a",)), Pair([1], None), Colour.RED, [Colour.GREEN]],
    "deep nesting": [_nested(100), {"a": {"b": {"c": [{"d": ()}]}}}],
}

BAD_THREAD_IDS: Final[Mapping[str, Any]] = {
    "an empty text": "",
    "256 characters": "x" * 256,
    "a NUL": "a\0b",
    "a lone surrogate": "a\ud800",
    "None": None,
    "a number": 7,
    "True": True,
    "bytes": b"t",
}

THREAD_IDS: Final[Mapping[str, str]] = {
    "255 characters": "x" * 255,
    "255 characters outside of the basic plane": "😀" * 255,
    "quotes and SQL": "'; DROP TABLE t; --\"`",
    "wildcards": "%_*?[a]\\",
    "blanks, tabs and line ends": " \t\r\n ",
    "slashes, dots and bars": "../a/b|c:d",
    "other scripts and directions": "日本\u202e語é\u0301",
}

LOOKALIKES: Final[tuple[str, ...]] = ("a", "A", "a ", " a", "á", "a\u0301", "a%", "a_", "ab", "a\u200b")
"""Names that a careless comparison takes for one another."""

CHANNELS: Final[tuple[str, ...]] = (
    *LOOKALIKES,
    "with space",
    "'; --",
    "a.b[0]",
    "$ref",
    "日本",
    "branch:to:x",
    "x" * 300,
)
