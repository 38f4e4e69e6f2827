"""What `pack` writes comes back exactly, or is refused with its place; damaged bytes are only an error."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import functools
import inspect
import io
import itertools
import os
import pathlib
import random
import struct
import subprocess
import sys
import threading
import tracemalloc
import types
import uuid
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NoReturn,
    Optional,
    TypedDict,
    TypeVar,
)

import msgpack  # type: ignore[import-untyped]
import pydantic
import pytest
import typing_extensions
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphkit_checkpoint.errors import CheckpointCorruptError, UnknownTypeError, UnserializableStateError
from graphkit_checkpoint.serde import (
    fingerprint,
    pack,
    register_annotations,
    register_type,
    unpack,
)

T = TypeVar("T")

# --- the registered types -------------------------------------------------------------------------------


@register_type
class Color(enum.Enum):
    RED = "red"
    GREEN = [1, 2]  # noqa: RUF012 - a value that is no key
    CRIMSON = "red"  # noqa: PIE796 - an alias


@register_type
class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@register_type
class Word(enum.StrEnum):
    YES = "yes"
    NO = "no"


@register_type
class Access(enum.Flag):
    READ = 1
    WRITE = 2


@register_type
class Mode(enum.IntFlag):
    A = 1
    B = 4


@register_type
class Point(NamedTuple):
    x: Any
    y: Any = None


@register_type
@dataclasses.dataclass
class Note:
    text: Any
    tags: Any = dataclasses.field(default_factory=list)
    computed: Any = dataclasses.field(init=False, default=0)
    limit: ClassVar[int] = 3

    def __post_init__(self) -> None:
        self.computed = "computed"


@register_type
@dataclasses.dataclass(frozen=True, slots=True)
class Coin:
    face: Any
    worth: Any = 1


@register_type
@dataclasses.dataclass(frozen=True)
class Strict:
    """Refuses what its constructor and its setters are given: only a restored state gets past them."""

    value: Any = None

    def __post_init__(self) -> None:
        if self.value == "forbidden":
            raise ValueError("forbidden")


@register_type
class Message(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")

    role: str = "user"
    content: Any = None
    parent: Message | None = None
    _seen: Any = pydantic.PrivateAttr(default=0)
    _unset: int = pydantic.PrivateAttr()


@register_type
class Frozen(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)

    n: int
    label: str = ""

    @pydantic.field_validator("n")
    @classmethod
    def positive(cls, n: int) -> int:
        if n < 0:
            raise ValueError("n must not be negative")
        return n


@register_type
class Numbers(pydantic.RootModel[list[int]]):
    pass


class Vector:
    """A class of none of the kinds that are taken apart by themselves."""

    def __init__(self, *parts: float) -> None:
        self.parts = parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vector) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(self.parts)


register_type(Vector, to=lambda vector: vector.parts, from_=lambda parts: Vector(*parts))


# The checker knows neither types made at run time nor extras of a model.
any_dataclass: Any = dataclasses.make_dataclass
any_message: Any = Message
any_enum: Any = enum.Enum
any_flag: Any = enum.Flag
any_named_tuple: Any = NamedTuple
any_typed_dict: Any = TypedDict
any_defaultdict: Any = defaultdict
any_extended_dict: Any = typing_extensions.TypedDict


class Unregistered:
    pass


class MyStr(str):
    pass


class MyDict(dict[Any, Any]):
    pass


@dataclasses.dataclass
class NotRegistered:
    n: int = 0


# --- exact equality -------------------------------------------------------------------------------------


def exact(value: Any) -> Any:
    """Something comparable that is equal only for values equal in content, type, order and sign of zero."""
    kind = type(value)
    if kind is float:
        return kind, struct.pack(">d", value)
    if kind is complex:
        return kind, exact(value.real), exact(value.imag)
    if kind in (bytes, bytearray):
        return kind, bytes(value)
    if isinstance(value, (dict, list, tuple, set, frozenset, deque)):
        return kind, exact_container(value)
    if kind in (dt.datetime, dt.time):
        return kind, value.replace(tzinfo=None), value.fold, exact(value.tzinfo)
    if kind is dt.timezone:
        return kind, value.__getinitargs__()
    if kind is decimal.Decimal:
        return kind, value.as_tuple()
    if kind is uuid.UUID:
        return kind, value.int, value.is_safe
    if isinstance(value, pydantic.BaseModel):
        state = value.__pydantic_fields_set__, value.__pydantic_extra__, value.__pydantic_private__
        return kind, exact(vars(value)), *map(exact, state)
    if dataclasses.is_dataclass(value):
        return kind, tuple((name, exact(getattr(value, name))) for name in value.__dataclass_fields__)
    return kind, value


def exact_container(value: Any) -> Any:
    if isinstance(value, dict):
        items = tuple((exact(key), exact(item)) for key, item in value.items())
        return getattr(value, "default_factory", None), items
    if isinstance(value, (set, frozenset)):
        return frozenset(Counter(map(exact, value)).items())
    return getattr(value, "maxlen", None), tuple(exact(item) for item in value)


def comes_back(value: Any) -> Any:
    again = unpack(pack(value))
    assert exact(again) == exact(value)
    return again


# --- exact round trips ----------------------------------------------------------------------------------

BERLIN: Final = zoneinfo.ZoneInfo("Europe/Berlin")

EXAMPLES: Final[list[Any]] = [
    None,
    True,
    False,
    *(
        sign * (1 << bits) + off
        for bits in (7, 8, 31, 32, 63, 64, 70, 999)
        for sign in (1, -1)
        for off in (-1, 0, 1)
    ),
    10**10_000,
    *(0.0, -0.0, 1.5, float("inf"), float("-inf"), float("nan"), 5e-324, 1.7976931348623157e308),
    struct.unpack(">d", b"\x7f\xf8\x00\x00\x00\x00\xbe\xef")[0],
    *(1j, complex(-0.0, float("nan")), complex(float("-inf"), -0.0)),
    *("", "text", "\x00", "a\x00b", "\ud800", "\udfff tail", "\ud83d\ude00", "😀", "é" * 300, "x" * 70_000),
    *(b"", b"\x00\xff", b"x" * 70_000, bytearray(), bytearray(b"\x00\xff"), [bytearray(b"1")]),
    {"a": [bytearray(b"1"), {"b": bytearray(b"2")}], b"c": (bytearray(b"3"), b"4")},
    *((), (1,), (1, (2, ())), [], [[]], [(), [], {}], {}, {"a": {}}),
    {1: "int", "1": "str", b"1": "bytes", (1, "a"): "tuple", None: 0, 2.5: 1, frozenset({1}): 2, (): ()},
    {"b": 1, "a": 2, "\ud800": 3, "": 4},
    OrderedDict([("b", 1), ("a", 2)]),
    Counter("mississippi"),
    Counter({(1, 2): -3, None: 0}),
    *(any_defaultdict(factory, {1: 2}) for factory in (None, list, dict, set, int, float, str, tuple, bool)),
    *(
        set(),
        {1, 2, 3},
        {"b", "a"},
        {1, "a", None, (2,), b"x", 2.5},
        frozenset(),
        frozenset({frozenset({1}), 2}),
    ),
    {float("nan")},
    *(deque(), deque([1, (2,)]), deque([1, 2], maxlen=2), deque(maxlen=0)),
    *(range(0), range(3), range(10, -5, -3), range(2**70)),
    dt.datetime(2024, 2, 29, 23, 59, 59, 999_999),
    dt.datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=BERLIN),
    dt.datetime(2024, 10, 27, 2, 30, fold=0, tzinfo=BERLIN),
    dt.datetime(1, 1, 1, tzinfo=dt.UTC),
    dt.datetime.max.replace(tzinfo=dt.timezone(dt.timedelta(hours=-23, microseconds=1))),
    dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30), "IST\ud800")),
    *(dt.UTC, dt.timezone(dt.timedelta(0), "UTC"), dt.timezone(-dt.timedelta(minutes=1)), BERLIN),
    *(dt.date.min, dt.date.max, dt.time(), dt.time(1, 2, 3, 4, dt.UTC, fold=1), dt.time(5, tzinfo=BERLIN)),
    *(dt.timedelta.min, dt.timedelta.max, dt.timedelta(days=-1, microseconds=1), dt.timedelta(0)),
    uuid.UUID(int=0),
    uuid.UUID(int=2**128 - 1),
    *(uuid.UUID(int=7, is_safe=safety) for safety in uuid.SafeUUID),
    *map(
        decimal.Decimal, ["0", "-0", "0E+5", "1.10", "1E-999999", "NaN123", "-sNaN7", "-Infinity", "9" * 200]
    ),
    *(fractions.Fraction(1, 3), fractions.Fraction(-(2**80), 7), fractions.Fraction(0)),
    *(pathlib.PurePosixPath("/a/../b"), pathlib.PurePosixPath("//a"), pathlib.PurePosixPath("")),
    *(
        pathlib.PurePosixPath("bad\udcff"),
        pathlib.PureWindowsPath(r"C:\x\y"),
        pathlib.PureWindowsPath("c:rel"),
    ),
    pathlib.Path("somewhere") / "else",
    *(
        *Color,
        Color.CRIMSON,
        *Level,
        *Word,
        *Access,
        Access.READ | Access.WRITE,
        Access(0),
        Mode.A | Mode.B,
        Mode(8),
    ),
    *(Point(1), Point((1, [2]), {"k": Point(3, 4)}), Note("a", ["b"]), Note({"n": Note(1)}), Coin(Color.RED)),
    {Coin("x", 2): Coin("y"), Point(1, 2): [], Color.RED: {Color.GREEN}, Vector(1.0): {Vector(2.0)}},
    *(Strict(), Message(), any_message(content=(1, {2}), x=b"extra", y=Frozen(n=1)), Frozen(n=2, label="a")),
    *(Numbers([1, 2]), Vector(1.0, -0.0), {"deep": [(Note(deque([Vector(3.0)])), {"k": Level.HIGH})]}),
]


@pytest.mark.parametrize("value", EXAMPLES, ids=lambda value: f"{type(value).__name__}")
def test_a_value_comes_back_exactly(value: Any) -> None:
    comes_back(value)
    comes_back([value, {"k": (value, value)}])


def test_utc_comes_back_as_the_one_object() -> None:
    assert unpack(pack(dt.datetime(2024, 1, 1, tzinfo=dt.UTC))).tzinfo is dt.UTC


def test_an_enum_member_comes_back_as_the_one_object() -> None:
    assert unpack(pack([Color.CRIMSON, Level.LOW])) == [Color.RED, Level.LOW]
    assert unpack(pack(Color.GREEN)) is Color.GREEN


def test_a_default_factory_still_works() -> None:
    again = comes_back(defaultdict(list, a=[1]))
    again["new"].append(2)
    assert again["new"] == [2]


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**200), 2**200),
    st.floats(allow_subnormal=True),
    st.complex_numbers(),
    st.text(st.characters(codec=None), max_size=20),
    st.binary(max_size=20),
    st.datetimes(timezones=st.sampled_from([None, dt.UTC, BERLIN, dt.timezone(dt.timedelta(hours=-7), "x")])),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.uuids(),
    st.fractions(),
    st.decimals().filter(lambda number: not number.is_snan()),
    st.builds(range, st.integers(), st.integers(), st.integers(1, 9)),
    st.sampled_from([*Color, *Level, *Word, *Access, Mode(5), Frozen(n=3), Strict(4)]),
    st.builds(pathlib.PurePosixPath, st.text("ab/.", max_size=5)),
)

HASHABLE = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.tuples(inner, inner),
        st.frozensets(inner, max_size=3),
        st.builds(Point, inner, inner),
        st.builds(Coin, inner, inner),
    ),
    max_leaves=4,
)

VALUES = st.recursive(
    st.one_of(HASHABLE, st.binary(max_size=9).map(bytearray)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(HASHABLE, inner, max_size=4),
        st.dictionaries(st.text(max_size=5), inner, max_size=4).map(OrderedDict),
        st.dictionaries(HASHABLE, inner, max_size=2).map(functools.partial(defaultdict, set)),
        st.dictionaries(HASHABLE, st.integers(), max_size=2).map(Counter),
        st.sets(HASHABLE, max_size=4),
        st.builds(deque, st.lists(inner, max_size=3), st.sampled_from([None, 2, 9])),
        st.builds(Point, inner, inner),
        st.builds(Note, inner, inner),
        st.builds(Message, content=inner, extra=inner),
    ),
    max_leaves=8,
)


@settings(
    max_examples=1000, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
@given(VALUES)
def test_any_value_comes_back_exactly_and_has_one_form(value: Any) -> None:
    packed = pack(value)
    again = unpack(packed)
    assert exact(again) == exact(value)
    assert pack(again) == packed


FIELD_VALUES = st.one_of(st.integers(), st.text(), st.lists(st.integers()), st.just(Coin(1)))


@settings(max_examples=100, derandomize=True, deadline=None, database=None)
@given(
    st.dictionaries(st.sampled_from("abcdef"), FIELD_VALUES, min_size=1),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_generated_dataclasses_come_back(
    fields: dict[str, Any], frozen: bool, slots: bool, init: bool
) -> None:
    columns = [(name, Any, dataclasses.field(init=init, default=0)) for name in fields]
    made = register_type(any_dataclass("Made", columns, frozen=frozen, slots=slots))
    value = made()
    for name, item in fields.items():
        object.__setattr__(value, name, item)
    comes_back(value)


# --- records: dataclasses, named tuples, models -----------------------------------------------------------


def test_restoring_runs_neither_constructor_nor_setter() -> None:
    value = Strict()
    object.__setattr__(value, "value", "forbidden")
    assert comes_back(value).value == "forbidden"


def test_attributes_beside_the_fields_come_back() -> None:
    value = Note("a")
    vars(value)["aside"] = (1, 2)
    assert comes_back(value).aside == (1, 2)


def test_an_unset_field_stays_unset() -> None:
    @register_type
    @dataclasses.dataclass(slots=True)
    class Late:
        now: int
        later: int = dataclasses.field(init=False)

    @register_type
    @dataclasses.dataclass
    class LateToo:
        now: int
        later: int = dataclasses.field(init=False)

    for kind in (Late, LateToo):
        again = unpack(pack(kind(1)))
        assert again.now == 1
        assert not hasattr(again, "later")


def test_slots_of_a_subclass_and_a_base_come_back() -> None:
    class Base:
        __slots__ = ("__hidden",)

        def hide(self, value: object) -> None:
            self.__hidden = value

        def hidden(self) -> object:
            return self.__hidden

    @register_type
    @dataclasses.dataclass(slots=True)
    class Slotted(Base):
        shown: int

    value = Slotted(1)
    value.hide((2,))
    again = unpack(pack(value))
    assert (again.shown, again.hidden()) == (1, (2,))


def test_a_slot_that_hides_another_comes_back() -> None:
    class Base:
        __slots__ = ("x",)

    @register_type
    @dataclasses.dataclass
    class Hiding(Base):
        __slots__ = ("x",)
        x: int

    assert unpack(pack(Hiding(1))) == Hiding(1)


def test_a_cached_property_is_computed_again() -> None:
    @register_type
    @dataclasses.dataclass
    class Caching:
        n: int

        @functools.cached_property
        def handle(self) -> Unregistered:
            return Unregistered()

    value = Caching(1)
    assert value.handle is value.handle
    again = unpack(pack(value))
    assert "handle" not in vars(again)
    assert again == value


@register_type
@dataclasses.dataclass
class Box(Generic[T]):
    item: T


def test_a_generic_dataclass_comes_back() -> None:
    assert comes_back(Box[int](1)) == Box(1)


def test_a_model_keeps_extras_private_attributes_and_the_fields_set() -> None:
    value = Message.model_construct(_fields_set={"content"}, role=3, content="c", more=(1,))
    value._seen = {"a": (1,)}
    again = comes_back(value)
    assert (again.role, again._seen, again.more, again.model_fields_set) == (
        3,
        {"a": (1,)},
        (1,),
        {"content"},
    )
    assert "_unset" not in again.__pydantic_private__


def test_a_model_without_its_required_field_comes_back_without() -> None:
    again = comes_back(Frozen.model_construct(label="x"))
    assert not hasattr(again, "n")


def test_a_model_is_restored_without_validation() -> None:
    assert comes_back(Frozen.model_construct(n=-1)).n == -1


def test_a_root_model_holds_nothing_else_after_reading() -> None:
    again = comes_back(Numbers([1]))
    assert vars(again) == {"root": [1]}
    assert again == Numbers([1])


# --- a class that has changed since -----------------------------------------------------------------------


def redefined(*fields: Any) -> type[Any]:
    return register_type(any_dataclass("Redefined", fields, namespace={"__module__": __name__}))


def test_a_class_defined_again_replaces_its_former_self() -> None:
    packed = pack(redefined(("a", int))(1))
    latest = redefined(("a", int))
    assert type(unpack(packed)) is latest


def test_an_object_of_the_former_class_is_written_while_the_fields_are_the_same() -> None:
    former, latest = redefined(("a", int)), redefined(("a", int))
    assert type(unpack(pack(former(1)))) is latest
    redefined(("a", int), ("b", int, 0))
    with pytest.raises(UnserializableStateError, match="redefined"):
        pack(former(1))


def test_an_object_of_a_former_class_with_functions_is_refused() -> None:
    former: Any = any_dataclass("Rewritten", [("n", int)], namespace={"__module__": __name__})
    latest: Any = any_dataclass("Rewritten", [("n", int)], namespace={"__module__": __name__})
    register_type(latest, to=lambda value: value.n, from_=latest)
    assert unpack(pack(latest(1))) == latest(1)
    with pytest.raises(UnserializableStateError, match="redefined"):
        pack(former(1))


def test_a_new_field_gets_its_default() -> None:
    packed = pack(redefined(("a", int))(1))
    latest = redefined(("a", int), ("b", int, 7), ("c", list[int], dataclasses.field(default_factory=list)))
    assert unpack(packed) == latest(1, 7, [])
    assert unpack(packed).c is not unpack(packed).c


def test_a_new_field_without_default_is_named() -> None:
    packed = pack(redefined(("a", int))(1))
    redefined(("a", int), ("fresh", int))
    with pytest.raises(UnknownTypeError, match="the class has 'fresh', the record has not"):
        unpack(packed)


def test_a_field_that_is_gone_is_named() -> None:
    packed = pack(redefined(("a", int), ("gone", int))(1, 2))
    redefined(("a", int))
    with pytest.raises(UnknownTypeError, match="the record has 'gone', the class has not"):
        unpack(packed)


def test_models_follow_the_same_rules() -> None:
    def model(**fields: Any) -> type[pydantic.BaseModel]:
        return register_type(pydantic.create_model("Changing", __module__=__name__, **fields))

    packed = pack(model(a=(int, ...))(a=1))
    latest = model(a=(int, ...), b=(list[int], pydantic.Field(default_factory=list)), _p=(int, 5))
    again = unpack(packed)
    assert type(again) is latest
    assert again.model_dump() == {"a": 1, "b": []}
    assert again.model_fields_set == {"a"}
    model(b=(int, 0))
    with pytest.raises(UnknownTypeError, match="'a'"):
        unpack(packed)


def test_a_new_private_attribute_gets_its_default() -> None:
    def model(namespace: dict[str, Any]) -> type[pydantic.BaseModel]:
        body = {"__module__": __name__, "__qualname__": "Private", **namespace}
        return register_type(
            types.new_class("Private", (pydantic.BaseModel,), exec_body=lambda ns: ns.update(body))
        )

    private: Any = pydantic.PrivateAttr
    value: Any = model({"_old": private(default=1)})()
    value._old = 2
    packed = pack(value)
    model({"_old": private(default=1), "_new": private(default_factory=list), "_bare": private()})
    assert unpack(packed).__pydantic_private__ == {"_old": 2, "_new": []}


def test_named_tuples_follow_the_same_rules() -> None:
    def define(**defaults: Any) -> type[Any]:
        made = any_named_tuple("Row", [(name, Any) for name in ("a", *defaults)])
        made._field_defaults.update(defaults)
        return register_type(made)

    packed = pack(define()(1))
    latest = define(b=2)
    assert exact(unpack(packed)) == exact(latest(1, 2))
    packed = pack(latest(3, 4))
    define()
    with pytest.raises(UnknownTypeError, match="'b'"):
        unpack(packed)


def test_an_enum_member_that_is_gone_is_named() -> None:
    def define(**members: int) -> Any:
        return register_type(any_enum("Changing", members, module=__name__))

    packed = pack(define(OLD=1).OLD)
    define(NEW=1)
    with pytest.raises(UnknownTypeError, match="OLD"):
        unpack(packed)


def test_a_flag_value_that_is_gone_is_named() -> None:
    def define(**members: int) -> Any:
        return register_type(any_flag("Bits", members, module=__name__))

    old = define(A=1, B=2)
    packed = pack(old.A | old.B)
    define(A=1)
    with pytest.raises(UnknownTypeError, match="Bits"):
        unpack(packed)


def test_a_failing_from_is_named() -> None:
    class Fragile:
        pass

    def refuse(state: Any) -> NoReturn:
        raise RuntimeError("will not")

    register_type(Fragile, to=lambda _: None, from_=refuse)
    packed = pack(Fragile())
    with pytest.raises(UnknownTypeError, match=r"Fragile.*will not"):
        unpack(packed)


# --- registering ----------------------------------------------------------------------------------------


def test_register_type_returns_the_class() -> None:
    assert register_type(NotRegisteredYet) is NotRegisteredYet
    assert register_type(Settings) is Settings


@dataclasses.dataclass
class NotRegisteredYet:
    n: int = 0


class Settings(TypedDict):
    n: int


class Options(typing_extensions.TypedDict):
    n: int


@pytest.mark.parametrize(
    "kind", [Settings, Options, int, list, dict, bytearray, dt.datetime, decimal.Decimal]
)
def test_what_is_stored_anyway_may_be_registered(kind: type[Any]) -> None:
    before = pack([1, {"n": 2}, dt.datetime.min, decimal.Decimal(1)])
    assert register_type(kind) is kind
    assert pack([1, {"n": 2}, dt.datetime.min, decimal.Decimal(1)]) == before


@pytest.mark.parametrize("kind", [str, tuple, uuid.UUID])
def test_what_is_stored_anyway_takes_no_functions(kind: type[Any]) -> None:
    with pytest.raises(TypeError, match="stored as it is"):
        register_type(kind, to=str, from_=kind)


class ExtendsError(Exception):
    pass


@pytest.mark.parametrize(
    "kind", [Unregistered, MyStr, MyDict, dataclasses.dataclass(ExtendsError), type, object]
)
def test_other_classes_need_functions(kind: type[Any]) -> None:
    with pytest.raises(TypeError, match=r"to=\.\.\., from_=\.\.\."):
        register_type(kind)


def test_a_class_is_needed_and_both_functions() -> None:
    with pytest.raises(TypeError, match="needs a class"):
        register_type(Unregistered())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="both"):
        register_type(Unregistered, to=repr)


def test_a_subclass_of_a_builtin_can_be_registered_with_functions() -> None:
    class Tagged(str):
        __slots__ = ()

    register_type(Tagged, to=str, from_=Tagged)
    assert type(unpack(pack({"a": [Tagged("x")]}))["a"][0]) is Tagged


def test_a_name_of_its_own_outlives_a_renaming() -> None:
    @dataclasses.dataclass
    class Before:
        n: int

    @dataclasses.dataclass
    class After:
        n: int

    packed = pack(register_type(Before, name="tests/renamed")(3))
    with pytest.raises(ValueError, match=r"tests/renamed.*Before"):
        register_type(After, name="tests/renamed")
    with pytest.raises(UnserializableStateError):
        pack(After(3))
    assert unpack(packed) == Before(3)


def test_a_second_name_is_written_and_both_are_read() -> None:
    @dataclasses.dataclass
    class Twice:
        n: int

    first = pack(register_type(Twice)(1))
    second = pack(register_type(Twice, name="tests/twice")(1))
    assert b"tests/twice" in second
    assert unpack(first) == unpack(second) == Twice(1)


# --- annotations ----------------------------------------------------------------------------------------


class Leaf(enum.Enum):
    ONE = 1


@dataclasses.dataclass
class Branch:
    leaf: Leaf
    next: Branch | None = None
    unknown: DoesNotExist | None = None  # type: ignore[name-defined]  # noqa: F821
    twig: Optional["Twig"] = None  # noqa: UP037, UP045


class Twig(NamedTuple):
    inner: dict[str, list[InnerModel]]


class InnerModel(pydantic.BaseModel):
    word: Literal[Word.YES]
    self: InnerModel | None = None
    part: tuple[Part, ...] = ()
    _hidden: Hidden | None = None


@dataclasses.dataclass
class Part:
    pass


@dataclasses.dataclass
class Hidden:
    pass


class Tree(TypedDict, total=False):
    branch: Annotated[list[Branch], "a reducer"]
    missing: AlsoMissing  # type: ignore[name-defined]  # noqa: F821
    count: typing_extensions.Required[int]


def test_a_schema_registers_what_it_leads_to() -> None:
    with pytest.raises(UnserializableStateError):
        pack(Branch(Leaf.ONE))
    register_annotations(Tree)
    inner = InnerModel(word=Word.YES, part=(Part(),))
    inner._hidden = Hidden()
    comes_back({"branch": [Branch(Leaf.ONE, Branch(Leaf.ONE), twig=Twig({"a": [inner]}))]})


def fresh(name: str) -> Any:
    return any_dataclass(name, [("n", int, 0)], namespace={"__module__": __name__})


class Generic_(pydantic.BaseModel, Generic[T]):
    item: T


@dataclasses.dataclass
class OnlyBesideLocal:
    pass


def test_a_local_class_may_name_itself() -> None:
    @dataclasses.dataclass
    class Local:
        pair: tuple[Local, OnlyBesideLocal] | None = None

    register_annotations(Local)
    comes_back(Local((Local(), OnlyBesideLocal())))


def test_the_enum_of_a_literal_is_registered() -> None:
    mood: Any = any_enum("Mood", ["GOOD", "BAD"], module=__name__)
    with pytest.raises(UnserializableStateError):
        pack(mood.GOOD)
    register_annotations(Literal[mood.GOOD, "other"])
    assert unpack(pack(mood.BAD)) is mood.BAD


def wrapped(kind: Any) -> Iterator[Any]:
    yield kind
    yield kind | None
    yield Optional[kind]  # noqa: UP045
    yield list[dict[str, kind]]
    yield Callable[[kind], int]
    yield Callable[[], kind]
    yield Annotated[kind, [1], print]
    yield NewType("Alias", kind)
    yield TypeVar("B", bound=kind)
    yield TypeVar("C", int, kind)
    yield Box[kind]
    yield Generic_[kind]
    yield typing_extensions.TypeAliasType("Named", list[kind])
    yield any_typed_dict("Dynamic", {"k": kind})
    yield any_extended_dict("Dynamic", {"k": typing_extensions.NotRequired[kind]})
    yield any_dataclass("Outer", [("a", kind), ("b", "Missing"), ("c", "list[Nowhere]")])
    yield any_dataclass("Partly", [("a", tuple["Nowhere", kind])])  # type: ignore[name-defined]  # noqa: F821
    yield any_named_tuple("Pair", [("a", kind)])
    yield types.new_class("Derived", (Box[kind],))


@pytest.mark.parametrize("form", range(len(list(wrapped(int)))))
def test_every_form_of_annotation_is_followed(form: int) -> None:
    kind = fresh(f"Fresh{form}")
    with pytest.raises(UnserializableStateError):
        pack(kind(1))
    register_annotations(next(itertools.islice(wrapped(kind), form, None)))
    comes_back(kind(1))


@pytest.mark.parametrize(
    "annotation",
    [None, Any, "Missing", ..., int, list["Missing"], Unregistered, T, object()],  # type: ignore[name-defined]  # noqa: F821
)
def test_what_leads_nowhere_is_passed_over(annotation: Any) -> None:
    register_annotations(annotation)


def test_an_explicit_registration_is_kept() -> None:
    @dataclasses.dataclass
    class Chosen:
        n: int

    register_type(Chosen, name="tests/chosen")
    register_annotations(list[Chosen])
    assert b"tests/chosen" in pack(Chosen(1))


# --- refusals -------------------------------------------------------------------------------------------


def nested(times: int, wrap: Callable[[Any], Any]) -> Any:
    return functools.reduce(lambda inner, _: wrap(inner), range(times), None)


class BadRepr:
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        raise RuntimeError("no text")


def generator() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("value", "path", "type_name"),
    [
        (Unregistered(), "", f"{__name__}.Unregistered"),
        ({"a": [1, 2, 3, Note(Unregistered())]}, "['a'][3].text", f"{__name__}.Unregistered"),
        ([MyStr("x")], "[0]", f"{__name__}.MyStr"),
        (
            [[[*range(70), {"k" * 100: {1}, "a" * 70: {"b" * 70: object()}}]]],
            f"[0][0][70]['{'a' * 70}']['{'b' * 70}']",
            "object",
        ),
        ({"k": MyDict()}, "['k']", f"{__name__}.MyDict"),
        ({MyStr("k"): 1}, ".keys()[0]", f"{__name__}.MyStr"),
        ({1: 2, (1, (Unregistered(),)): 3}, ".keys()[1][1][0]", f"{__name__}.Unregistered"),
        ({1: {2.5: (NotRegistered(),)}}, "[1][2.5][0]", f"{__name__}.NotRegistered"),
        (deque([1, object()]), "[1]", "object"),
        (OrderedDict(a=object()), "['a']", "object"),
        (defaultdict(list, a=[object()]), "['a'][0]", "object"),
        (defaultdict(Unregistered), "", "collections.defaultdict"),
        (any_message(content=1, more=[len]), ".more[0]", "builtin_function_or_method"),
        (Point(1, lambda: 1), ".y", "function"),
        (Vector(1.0, generator()), ".to()[1]", "generator"),  # type: ignore[arg-type]
        (
            dt.datetime(2024, 1, 1, tzinfo=type("Zone", (dt.tzinfo,), {"__module__": "m"})()),
            ".tzinfo",
            "m.Zone",
        ),
        ({BadRepr(): 1}, ".keys()[0]", f"{__name__}.BadRepr"),
        ([memoryview(b"x")], "[0]", "memoryview"),
        (memoryview(b"x"), "", "memoryview"),
        ({"t": msgpack.Timestamp(1)}, "['t']", "msgpack.ext.Timestamp"),
        (msgpack.ExtType(1, b"\x90"), "", "msgpack.ext.ExtType"),
        ({msgpack.ExtType(1, b"\x90"): 1}, ".keys()[0]", "msgpack.ext.ExtType"),
        ([bytearray(b"x"), memoryview(b"x")], "[1]", "memoryview"),
        (type("Fake", (), {"__module__": "decimal", "__qualname__": "Decimal"})(), "", "decimal.Decimal"),
        (NotImplemented, "", "NotImplementedType"),
        (Exception("x"), "", "Exception"),
        (threading.Lock(), "", "_thread.lock"),
        ([1, Color], "[1]", "enum.EnumType"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_its_place(value: Any, path: str, type_name: str) -> None:
    with pytest.raises(UnserializableStateError) as caught:
        pack(value)
    refusal: Any = caught.value
    assert (refusal.path, refusal.type_name) == (path, type_name)
    assert f"value{path} is a {type_name} and cannot be stored" in str(refusal)
    assert "tore " in str(refusal)  # each says what to store, or how, instead


def test_an_item_of_a_set_is_named() -> None:
    with pytest.raises(UnserializableStateError, match=r"\['s'\]\{<function"):
        pack({"s": {generator}})


def test_the_remedy_fits_the_type() -> None:
    with pytest.raises(UnserializableStateError, match=r"register_type\(NotRegistered\)"):
        pack(NotRegistered())
    with pytest.raises(
        UnserializableStateError, match=r"register_type\(Unregistered, to=\.\.\., from_=\.\.\.\)"
    ):
        pack(Unregistered())


def test_subclasses_of_registered_classes_are_not_registered() -> None:
    class Special(Note):
        pass

    with pytest.raises(UnserializableStateError):
        pack(Special("x"))


def test_a_counter_with_attributes_is_refused() -> None:
    value: Any = Counter("a")
    value.aside = 1
    with pytest.raises(UnserializableStateError, match="attributes"):
        pack([value])


def test_a_path_whose_text_is_another_path_is_refused() -> None:
    value = pathlib.PureWindowsPath("./c:/x")
    if pathlib.PureWindowsPath(str(value)) == value:  # from Python 3.12 on
        comes_back(value)
    else:
        with pytest.raises(UnserializableStateError, match="another path"):
            pack(value)


def test_a_zone_without_a_key_is_refused() -> None:
    utc = (
        b"TZif" + bytes(16) + struct.pack(">6l", 0, 0, 0, 0, 1, 4) + struct.pack(">lBB", 0, 0, 0) + b"UTC\x00"
    )
    zone = zoneinfo.ZoneInfo.from_file(io.BytesIO(utc))
    with pytest.raises(UnserializableStateError, match="no key") as caught:
        pack([dt.time(1, tzinfo=zone)])
    refusal: Any = caught.value
    assert refusal.path == "[0].tzinfo"


def test_a_failing_function_is_the_cause_of_the_refusal() -> None:
    class Stubborn:
        pass

    error = RuntimeError("will not")

    def refuse(value: Any) -> NoReturn:
        raise error

    register_type(Stubborn, to=refuse, from_=refuse)
    with pytest.raises(UnserializableStateError, match=r"value\[0\] .*RuntimeError: will not") as caught:
        pack([Stubborn()])
    assert caught.value.__cause__ is error


def cyclic_list() -> Any:
    value: list[Any] = [1]
    value.append(value)
    return value


def cyclic_tuple() -> Any:
    inner: list[Any] = []
    inner.extend([(1, inner), (inner, inner)])
    return inner


def cyclic_dict() -> Any:
    value: dict[str, Any] = {}
    value["a"] = [value, value]
    return value


def cyclic_note() -> Any:
    value = Note(1)
    value.text = {"me": value}
    return value


def cyclic_bytearray() -> Any:
    value: list[Any] = [bytearray(b"x")]
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (cyclic_list(), "[1]"),
        (cyclic_tuple(), "[0][1]"),
        (cyclic_dict(), "['a'][0]"),
        (cyclic_note(), ".text['me']"),
        (cyclic_bytearray(), "[1]"),
    ],
    ids=["list", "tuple", "dict", "dataclass", "bytearray"],
)
def test_a_cycle_is_refused_where_it_closes(value: Any, path: str) -> None:
    with pytest.raises(UnserializableStateError, match="contains itself") as caught:
        pack(value)
    refusal: Any = caught.value
    assert refusal.path == path


WRAPPERS: Final[list[Callable[[Any], Any]]] = [
    lambda inner: [inner],
    lambda inner: {"k": inner},
    lambda inner: (inner,),
    lambda inner: frozenset([inner]),
    lambda inner: Note(inner),
    lambda inner: Coin(inner),
    lambda inner: [(inner, -1)],
    lambda inner: Vector(inner),
    lambda inner: Point(inner, {(1, "key"): [bytearray(b"\xff")]}),
]
WRAPPER_NAMES: Final = [
    "list",
    "dict",
    "tuple",
    "frozenset",
    "dataclass",
    "slots",
    "mixed",
    "custom",
    "boxed",
]


@pytest.mark.parametrize("wrap", WRAPPERS, ids=WRAPPER_NAMES)
def test_nesting_that_is_written_is_read(wrap: Callable[[Any], Any]) -> None:
    comes_back(nested(70, wrap))


@pytest.mark.parametrize("wrap", WRAPPERS, ids=WRAPPER_NAMES)
@pytest.mark.parametrize("times", [150, 200])
def test_nesting_is_never_written_that_cannot_be_read(wrap: Callable[[Any], Any], times: int) -> None:
    try:
        packed = pack(nested(times, wrap))
    except UnserializableStateError as refusal:
        assert "nests too deep" in str(refusal)
    else:
        assert pack(unpack(packed)) == packed


@pytest.mark.parametrize("wrap", WRAPPERS[:3] + WRAPPERS[6:7], ids=WRAPPER_NAMES[:3] + WRAPPER_NAMES[6:7])
@pytest.mark.parametrize("times", [499, 501, 1100, 20_000])
def test_any_nesting_comes_back_or_is_refused(wrap: Callable[[Any], Any], times: int) -> None:
    value = nested(times, wrap)
    try:
        packed = pack(value)
    except UnserializableStateError as error:
        refusal: Any = error
        assert "nests too deep" in str(refusal)
        assert len(refusal.path) <= 30 * len("['k']")  # the search for the place has an end
    else:
        assert pack(unpack(packed)) == packed


def test_lists_may_nest_five_hundred_deep() -> None:
    assert pack(unpack(pack(nested(500, lambda inner: [inner])))) == b"\x91" * 500 + b"\xc0"
    with pytest.raises(UnserializableStateError, match="nests too deep"):
        pack(nested(501, lambda inner: [inner]))


def with_little_stack_left(call: Callable[[], Any]) -> Any:
    def down(times: int) -> Any:
        return down(times - 1) if times else call()

    return down(sys.getrecursionlimit() - len(inspect.stack(0)) - 80)


def test_an_exhausted_stack_is_no_recursion_error() -> None:
    value = nested(100, lambda inner: (inner,))
    packed = pack(value)
    with pytest.raises(UnserializableStateError, match="nests too deep"):
        with_little_stack_left(lambda: pack(value))
    with pytest.raises(CheckpointCorruptError, match="deeper than can be read"):
        with_little_stack_left(lambda: unpack(packed))


# --- damaged and hostile bytes ------------------------------------------------------------------------------


def ext(code: int, value: Any) -> bytes:
    return bytes(msgpack.packb(msgpack.ExtType(code, msgpack.packb(value))))


def record(name: Any, state: Any) -> bytes:
    return ext(0, [name, state])


NOTE_NAME: Final = f"{__name__}:Note"

MALFORMED: Final[dict[str, bytes]] = {
    "empty": b"",
    "two values": b"\x01\x02",
    "reserved byte": b"\xc1",
    "truncated": pack({"key": "value"})[:-1],
    "not utf-8": b"\xa2\xff\xfe",
    "unknown code": ext(99, []),
    "negative code": b"\xd4\xfe\x90",
    "list as a key": b"\x81\x90\x01",
    "tuple of text": ext(1, "ab"),
    "set of lists": ext(2, [[]]),
    "set of a dict": ext(2, {}),
    "datetime of text": ext(7, ["a"] * 8),
    "month 13": ext(8, [2024, 13, 1]),
    "offset of years": ext(11, [10**18]),
    "zone outside": ext(12, ["../../etc/passwd"]),
    "zone of a number": ext(12, [5]),
    "short uuid": ext(13, [b"1", None]),
    "decimal": bytes(msgpack.packb(msgpack.ExtType(14, b"one"))),
    "fraction of zero": ext(15, [1, 0]),
    "fraction of text": ext(15, ["1/2", 1]),
    "path of another kind": ext(16, ["Path", "x"]),
    "path attribute": ext(16, ["os", "x"]),
    "negative maxlen": ext(17, [[], -1]),
    "range of text": ext(18, ["a", "b", "c"]),
    "step 0": ext(18, [1, 2, 0]),
    "ordered list": ext(19, []),
    "counter of list": ext(20, [[1, 2]]),
    "factory": ext(21, ["eval", {}]),
    "default items": ext(21, ["list", [1]]),
    "record without state": ext(0, ["x"]),
    "record without name": record(None, []),
    "record with a name in a list": record([NOTE_NAME], []),
    "record of no list": ext(0, {"name": 1}),
}


@pytest.mark.parametrize("blob", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_bytes_are_corrupt(blob: bytes) -> None:
    with pytest.raises(CheckpointCorruptError):
        unpack(blob)
    with pytest.raises(CheckpointCorruptError):
        unpack(b"\x91" + blob if blob else b"\x91")


@pytest.mark.parametrize(
    "state", [None, 1, "x", [], [{}], [1, 2, 3], [{"text": 1}, 5, []], [[], {}, []], [{}, {}, [[]]]]
)
def test_a_state_that_is_no_record_does_not_fit(state: Any) -> None:
    with pytest.raises(UnknownTypeError, match="Note"):
        unpack(record(NOTE_NAME, state))


def test_an_unknown_name_is_named_with_the_remedy() -> None:
    with pytest.raises(UnknownTypeError, match=r"'app:Gone'.*register_type.*compile the graph"):
        unpack(record("app:Gone", [{}, {}, []]))


def test_an_unknown_time_zone_is_named() -> None:
    with pytest.raises(UnknownTypeError, match="Europe/Atlantis"):
        unpack(ext(12, ["Europe/Atlantis"]))


def test_a_path_of_another_system_is_named() -> None:
    foreign = "PosixPath" if os.name == "nt" else "WindowsPath"
    with pytest.raises(UnknownTypeError, match=foreign):
        unpack(ext(16, [foreign, "x"]))


@pytest.mark.parametrize(
    "name", ["antigravity:geohash", "os:system", "builtins:eval", "subprocess:Popen", "this:s"]
)
def test_a_name_imports_and_calls_nothing(name: str) -> None:
    with pytest.raises(UnknownTypeError):
        unpack(record(name, ["true"]))
    assert "antigravity" not in sys.modules
    assert "this" not in sys.modules


TIMESTAMPS: Final = {
    "32 bit": b"\xd6\xff" + bytes(4),
    "64 bit": b"\xd7\xff" + bytes(8),
    "96 bit": b"\xc7\x0c\xff" + bytes(12),
    "ext 8": b"\xc7\x04\xff" + bytes(4),
    "ext 16": b"\xc8\x00\x08\xff" + bytes(8),
    "ext 32": b"\xc9\x00\x00\x00\x0c\xff" + bytes(12),
}


@pytest.mark.parametrize("stamp", TIMESTAMPS.values(), ids=TIMESTAMPS.keys())
def test_a_timestamp_of_msgpack_is_not_accepted(stamp: bytes) -> None:
    in_tuple = bytes(msgpack.packb(msgpack.ExtType(1, b"\x91" + stamp)))
    for blob in (
        stamp,
        b"\x91" + stamp,
        b"\x81\x01" + stamp,
        b"\x81" + stamp + b"\x01",
        in_tuple,
        b"\x91" + in_tuple,
    ):
        with pytest.raises(CheckpointCorruptError, match="timestamp"):
            unpack(blob)


HEADERS: Final = {
    "bin": b"\xc6",
    "str": b"\xdb",
    "array": b"\xdd",
    "map": b"\xdf",
    "ext": b"\xc9",
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS.keys())
def test_a_huge_length_allocates_nothing(header: bytes) -> None:
    blobs = [prefix + header + b"\x7f\xff\xff\xff" + b"\x01" * 64 for prefix in (b"", b"\x91", b"\x91" * 900)]
    blobs += [bytes(msgpack.packb(msgpack.ExtType(1, blob))) for blob in blobs]
    tracemalloc.start()
    try:
        for blob in blobs:
            with pytest.raises(CheckpointCorruptError):
                unpack(blob)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("code", [0, 1, 3, 17, 21])
def test_extensions_nested_without_end_are_corrupt(code: int) -> None:
    blob = b"\xc0"
    for _ in range(2000):
        blob = bytes(msgpack.packb(msgpack.ExtType(code, b"\x91" + blob)))
    with pytest.raises(CheckpointCorruptError, match="deeper"):
        unpack(blob)


def test_a_flood_of_list_headers_is_corrupt() -> None:
    with pytest.raises(CheckpointCorruptError, match="deeper"):
        unpack(b"\x91" * 1_000_000)


def test_large_values_are_not_in_the_way_of_the_bounds() -> None:
    comes_back({"text": "x" * 3_000_000, "tuple": tuple(range(300_000)), "note": Note(b"\xff" * 3_000_000)})


def mutated(blob: bytes, others: list[bytes], rng: random.Random) -> bytes:
    data = bytearray(blob)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        way = rng.randrange(6)
        if way == 0:
            del data[at:]
        elif way == 1:
            del data[at : at + rng.randint(1, 5)]
        elif way == 2:
            data[at:at] = rng.randbytes(rng.randint(1, 5))
        elif way == 3:
            data[at:] = rng.choice(others)
        elif way == 4:
            data[at : at + 1] = rng.choice(
                [b"\xc7", b"\xc9", b"\xd4", b"\xdd", b"\xdf", b"\xd6\xff", b"\xc1"]
            )
        else:
            data[at : at + 1] = bytes([rng.randrange(256)])
    return bytes(data)


def test_twenty_thousand_damaged_blobs_raise_nothing_else() -> None:
    rng = random.Random(15)
    blobs = [blob for value in EXAMPLES if len(blob := pack(value)) < 2000]
    outcomes: Counter[str] = Counter()
    for _ in range(20_000):
        try:
            unpack(mutated(rng.choice(blobs), blobs, rng))
        except (CheckpointCorruptError, UnknownTypeError) as error:
            outcomes[type(error).__name__] += 1
        else:
            outcomes["read"] += 1
    assert outcomes["CheckpointCorruptError"] > 5_000
    assert outcomes["UnknownTypeError"] > 50
    assert outcomes["read"] > 100


# --- digests --------------------------------------------------------------------------------------------

DIGESTED: Final = """
import dataclasses, sys
from graphkit_checkpoint.serde import fingerprint, register_type

@register_type
@dataclasses.dataclass(frozen=True)
class Thing:
    parts: object

words = {f"word {n}" for n in range(50)}
print(fingerprint([words, frozenset([frozenset(words), 1, None, (2, "x"), Thing(frozenset(words))])]))
"""


def in_a_process(program: str, **environment: str) -> str:
    path = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    return done.stdout.strip()


def test_a_fingerprint_is_the_same_in_every_process() -> None:
    digests = {in_a_process(DIGESTED, PYTHONHASHSEED=seed) for seed in ("1", "2", "3")}
    assert len(digests) == 1
    assert len(digests.pop()) == 32


def test_a_fingerprint_differs_with_value_type_and_order() -> None:
    values = [1, True, 1.0, "1", b"1", [1], (1,), {1}, {1: 1}, {"a": 1, "b": 2}, {"b": 2, "a": 1}, 0.0, -0.0]
    assert len({fingerprint(value) for value in values}) == len(values)


def test_a_fingerprint_of_what_cannot_be_stored_is_refused() -> None:
    with pytest.raises(UnserializableStateError, match=r"\[0\]"):
        fingerprint([object()])


def test_the_order_in_which_attributes_were_set_does_not_matter() -> None:
    one, other = Note.__new__(Note), Note.__new__(Note)
    one.text, one.tags, one.computed = 1, 2, 3
    other.computed, other.tags, other.text = 3, 2, 1
    assert pack(one) == pack(other)


# --- threads, nesting of calls, imports -------------------------------------------------------------------


def test_threads_do_not_disturb_each_other() -> None:
    values = [value for value in EXAMPLES if len(pack(value)) < 500]
    expected = [pack(value) for value in values]

    def work(turn: int) -> bool:
        return [pack(unpack(pack(value))) for value in values] == expected

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(work, range(16)))
    finally:
        sys.setswitchinterval(interval)


def test_a_function_may_itself_pack_and_unpack() -> None:
    class Sealed:
        def __init__(self, content: Any) -> None:
            self.content = content

    register_type(Sealed, to=lambda sealed: pack(sealed.content), from_=lambda blob: Sealed(unpack(blob)))
    again = unpack(pack({"a": (Sealed({"b": (1, 2)}), "after")}))
    assert again["a"][0].content == {"b": (1, 2)}
    assert again["a"][1] == "after"


def test_importing_loads_nothing_heavy() -> None:
    program = "import sys, graphkit_checkpoint.serde; print(*sys.modules)"
    loaded = set(in_a_process(program).split())
    assert "graphkit_checkpoint.serde" in loaded
    assert not loaded & {
        "pydantic",
        "sqlalchemy",
        "asyncio",
        "graphkit",
        "zoneinfo",
        "decimal",
        "uuid",
        "pathlib",
    }
