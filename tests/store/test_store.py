"""What every store does, told once: `kind` takes it to memory, SQLite and PostgreSQL, `calls` through both doors."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import math
import random
import threading
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, TypedDict

import pytest

from graphkit import START, StateGraph
from graphkit.checkpoint.memory import InMemorySaver
from graphkit.checkpoint.serde import register_type
from graphkit.config import get_store
from graphkit.errors import UnserializableStateError
from graphkit.runtime import Runtime
from graphkit.store.base import (
    NOT_PROVIDED,
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchItem,
    SearchOp,
)
from graphkit.store.memory import InMemoryStore
from tests.store.conftest import Calls, Clock, OpenStore, Store

DOCS = ("docs", "ada")


def keys(items: list[SearchItem]) -> list[str]:
    return [item.key for item in items]


@register_type
@dataclasses.dataclass
class Preference:
    name: str
    since: date


class Unregistered:
    pass


EXACT: dict[str, Any] = {
    "text": "ä \U0001f600 '; DROP TABLE graphkit_store_item; --",
    "": "an empty field name",
    "nul\0": "a\0b",
    "surrogate\ud800": "\udfff",
    "big": 2**200,
    "float": 0.1,
    "bytes": b"\0\xff",
    "tuple": (1, (2, [3])),
    "set": {1, 2},
    "decimal": Decimal("1.10"),
    "when": datetime(2024, 2, 29, 12, tzinfo=UTC),
    "keys": {1: "int", (2, 3): "tuple", None: "none"},
    "object": Preference("tea", date(2020, 1, 1)),
}


# Putting and getting


def test_what_is_put_comes_back_exactly(calls: Calls, clock: Clock) -> None:
    calls.put(DOCS, "k", EXACT)
    item = calls.get(DOCS, "k")
    now = datetime.fromtimestamp(clock.now, UTC)
    assert item == Item(namespace=DOCS, key="k", value=EXACT, created_at=now, updated_at=now)
    assert [type(value) for value in item.value.values()] == [type(value) for value in EXACT.values()]
    assert item.created_at.utcoffset() == timedelta(0)
    assert calls.get(DOCS, "other") is None
    assert calls.get(("docs",), "k") is None


def test_not_a_number_comes_back(calls: Calls) -> None:
    calls.put(DOCS, "k", {"x": math.nan})
    assert math.isnan(calls.get(DOCS, "k").value["x"])


def test_what_is_done_to_a_value_changes_nothing_in_the_store(calls: Calls) -> None:
    value: dict[str, Any] = {"list": [1]}
    calls.put(DOCS, "k", value)
    value["list"].append(2)
    calls.get(DOCS, "k").value["list"].append(3)
    calls.search(DOCS)[0].value["list"].append(4)
    assert calls.get(DOCS, "k").value == {"list": [1]}


def test_a_value_is_replaced_and_stays_as_old_as_it_is(calls: Calls, clock: Clock) -> None:
    calls.put(DOCS, "k", {"x": 1})
    first = calls.get(DOCS, "k")
    clock.minutes(1)
    calls.put(DOCS, "k", {"y": 2})
    second = calls.get(DOCS, "k")
    assert second.value == {"y": 2}
    assert second.created_at == first.created_at
    assert second.updated_at == first.updated_at + timedelta(minutes=1)


def test_a_deleted_item_is_gone_and_another_one_is_new(calls: Calls, clock: Clock) -> None:
    calls.put(DOCS, "k", {"x": 1})
    calls.delete(DOCS, "k")
    calls.delete(DOCS, "k")
    assert (calls.get(DOCS, "k"), calls.search(()), calls.list_namespaces()) == (None, [], [])
    clock.minutes(1)
    calls.put(DOCS, "k", {"x": 2})
    assert calls.get(DOCS, "k").created_at == datetime.fromtimestamp(clock.now, UTC)


def test_a_uuid_is_a_key_by_its_text(calls: Calls) -> None:
    key = uuid.UUID(int=7)
    calls.put(DOCS, key, {"x": 1})
    assert calls.get(DOCS, str(key)) == calls.get(DOCS, key)
    assert calls.get(DOCS, key).key == str(key)


def test_a_list_is_as_good_as_a_tuple_for_a_namespace(calls: Calls) -> None:
    calls.put(["docs", "ada"], "k", {"x": 1})
    assert calls.get(DOCS, "k").namespace == DOCS
    assert keys(calls.search(["docs"])) == ["k"]
    assert calls.list_namespaces(prefix=["docs"], suffix=["ada"]) == [DOCS]


def test_an_item_as_plain_data(store: Store) -> None:
    store.put(DOCS, "k", {"x": 1})
    when = "2023-11-14T22:13:20+00:00"
    plain = {
        "namespace": ["docs", "ada"],
        "key": "k",
        "value": {"x": 1},
        "created_at": when,
        "updated_at": when,
    }
    assert store.get(DOCS, "k").dict() == plain
    assert store.search(DOCS)[0].dict() == {**plain, "score": None}


# Searching


def test_a_search_sees_a_namespace_and_what_is_below_it(calls: Calls, clock: Clock) -> None:
    for number, namespace in enumerate([("a",), ("a", "b"), ("a", "b", "c"), ("ab",), ("a-",), ("a b",)]):
        calls.put(namespace, f"k{number}", {})
        clock.minutes(1)
    assert keys(calls.search(("a",))) == ["k2", "k1", "k0"]
    assert keys(calls.search(("a", "b"))) == ["k2", "k1"]
    assert keys(calls.search(("b",))) == []
    assert keys(calls.search(())) == ["k5", "k4", "k3", "k2", "k1", "k0"]


def test_the_last_updated_comes_first_then_names_decide(calls: Calls, clock: Clock) -> None:
    calls.batch([PutOp(("n", label), key, {}) for label in "ba" for key in "yx"])
    clock.minutes(1)
    calls.put(("n", "b"), "x", {"again": True})
    found = [(item.namespace[1], item.key) for item in calls.search(("n",))]
    assert found == [("b", "x"), ("a", "x"), ("a", "y"), ("b", "y")]


def test_pages_of_a_search(calls: Calls) -> None:
    calls.batch([PutOp(DOCS, f"{number:03}", {"even": number % 2 == 0}) for number in range(250)])
    assert keys(calls.search(DOCS)) == [f"{number:03}" for number in range(10)]
    assert keys(calls.search(DOCS, limit=3, offset=248)) == ["248", "249"]
    assert keys(calls.search(DOCS, filter={"even": True}, limit=2, offset=120)) == ["240", "242"]
    assert calls.search(DOCS, limit=0) == calls.search(DOCS, offset=250) == []
    assert len(calls.search(DOCS, limit=1000)) == 250


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"color": "red"}, "ac"),
        ({"color": "red", "size": {"$gte": 3}}, "c"),
        ({"size": {"$gt": 1, "$lt": 5}}, "c"),
        ({"size": {"$lte": 1}}, "a"),
        ({"size": {"$ne": 1}}, "bcd"),
        ({"size": {"$eq": 1}}, "a"),
        ({"size": None}, "d"),
        ({"size": {"$gt": "2"}}, "b"),
        ({"owner": {"name": "ada"}}, "ab"),
        ({"owner": {"name": "ada", "age": {"$gt": 30}}}, "b"),
        ({"owner": {"$eq": {"name": "ada"}}}, "a"),
        ({"tags": ["x", {"$gt": 1}]}, "c"),
        ({}, "abcd"),
    ],
)
def test_what_a_filter_finds(store: Store, wanted: dict[str, Any], found: str) -> None:
    store.put(DOCS, "a", {"color": "red", "size": 1, "owner": {"name": "ada"}})
    store.put(DOCS, "b", {"color": "blue", "size": "4", "owner": {"name": "ada", "age": 36}})
    store.put(DOCS, "c", {"color": "red", "size": 3.5, "owner": "ada", "tags": ("x", 2)})
    store.put(DOCS, "d", {})
    assert "".join(sorted(keys(store.search(DOCS, filter=wanted)))) == found


HOSTILE = [
    None, True, False, 0, 1, -1, 1.0, 0.5, 2**70, math.nan, math.inf, Decimal("0.5"), "", "0", "1", "true", "null",
    "a", "A", "%", "_", "'", '"', "\\", "$.a", "a\0b", "\ud800", "' OR 1=1 --", b"", b"a", [], [1], [1, None],
    (1,), {"a": 1}, {"$gt": 0}, {"a": {"b": None}}, date(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC), {1, 2},
]  # fmt: skip
FIELDS = ["a", "b", "", "a.b", "$.a", "a'", 'a"', "%", "_", "a\0", "\ud800", "' OR 1=1 --", "a]", "[0]", "ä"]
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "$eq": lambda a, b: a == b,
    "$ne": lambda a, b: bool(a != b),
    "$gt": lambda a, b: b < a,
    "$gte": lambda a, b: a >= b,
    "$lt": lambda a, b: a < b,
    "$lte": lambda a, b: a <= b,
}


def agrees(value: Any, wanted: dict[str, Any]) -> bool:
    """The filter once more, written apart from the store's: a stack of single demands instead of recursion."""
    demands = [(value.get(field), condition) for field, condition in wanted.items()]
    while demands:
        found, condition = demands.pop()
        if isinstance(condition, dict) and any(str(name)[:1] == "$" for name in condition):
            for name, operand in condition.items():
                try:
                    held = COMPARISONS[name](found, operand)
                except TypeError:
                    held = False
                if not held:
                    return False
        elif isinstance(condition, dict):
            if not isinstance(found, dict):
                return False
            demands += [(found.get(name), inner) for name, inner in condition.items()]
        elif isinstance(condition, list | tuple):
            if not isinstance(found, list | tuple) or len(found) != len(condition):
                return False
            demands += zip(found, condition, strict=True)
        elif found != condition:
            return False
    return True


def any_value(chance: random.Random, depth: int = 2) -> Any:
    if depth and chance.random() < 0.3:
        inner = [any_value(chance, depth - 1) for _ in range(chance.randrange(3))]
        return inner if chance.random() < 0.5 else dict(zip(chance.sample(FIELDS, 3), inner, strict=False))
    return chance.choice(HOSTILE)


def any_condition(chance: random.Random, depth: int = 2) -> Any:
    if chance.random() < 0.5:
        return {chance.choice(list(COMPARISONS)): any_value(chance) for _ in range(chance.choice([1, 1, 2]))}
    if depth and chance.random() < 0.3:
        return {chance.choice(FIELDS): any_condition(chance, depth - 1) for _ in range(chance.randrange(3))}
    plain = any_value(chance, 1)
    return {"$eq": plain} if isinstance(plain, dict) else plain


def test_filters_agree_with_one_written_apart(store: Store) -> None:
    chance = random.Random(7)
    values = {
        f"{number:02}": {field: any_value(chance) for field in chance.sample(FIELDS, 9)}
        for number in range(60)
    }
    store.batch([PutOp(DOCS, key, value) for key, value in values.items()])
    pairs = matches = 0
    for number in range(80):
        # Half of the conditions are made from what is stored, since chance alone seldom hits.
        field = chance.choice(FIELDS)
        taken = chance.choice([value[field] for value in values.values() if field in value])
        literal = not isinstance(taken, dict)
        condition = taken if number % 2 and literal and "$" not in repr(taken) else any_condition(chance)
        wanted = {field: condition}
        expected = [key for key, value in values.items() if agrees(value, wanted)]
        assert keys(store.search(DOCS, filter=wanted, limit=100)) == expected, wanted
        pairs += len(values)
        matches += len(expected)
    print(f"{pairs} pairs of value and filter, {matches} matches")
    assert pairs >= 2000
    assert matches > 300


def test_a_search_by_meaning_is_refused(calls: Calls) -> None:
    with pytest.raises(ValueError, match="no index to search by meaning"):
        calls.search(DOCS, query="what does ada like?")
    with pytest.raises(ValueError, match="no index for fields"):
        calls.put(DOCS, "k", {"text": "x"}, index=["text"])
    calls.put(DOCS, "k", {"text": "x"}, index=False)
    assert keys(calls.search(DOCS)) == ["k"]


# Batches


def test_the_reads_of_a_batch_see_what_was_before_its_writes(calls: Calls) -> None:
    calls.put(DOCS, "k", {"x": 1})
    calls.put(DOCS, "gone", {"x": 1})
    answers = calls.batch(
        [
            PutOp(DOCS, "k", {"x": 2}),
            GetOp(DOCS, "k"),
            PutOp(("new",), "k", {"x": 9}),
            SearchOp(DOCS, {"x": 1}),
            PutOp(DOCS, "gone", None),
            ListNamespacesOp(),
            PutOp(DOCS, "k", {"x": 3}),
            GetOp(("new",), "k"),
        ]
    )
    assert [answers[position] for position in (0, 2, 4, 6, 7)] == [None] * 5
    assert answers[1].value == {"x": 1}
    assert sorted(keys(answers[3])) == ["gone", "k"]
    assert answers[5] == [DOCS]
    assert calls.get(DOCS, "k").value == {"x": 3}
    assert calls.get(DOCS, "gone") is None
    assert calls.batch([]) == []


def test_a_batch_is_refused_as_a_whole(calls: Calls) -> None:
    calls.put(DOCS, "k", {"x": 1})
    good = [PutOp(DOCS, "k", {"x": 2}), PutOp(DOCS, "new", {})]
    refused: list[tuple[Any, type[Exception]]] = [
        (PutOp(DOCS, "bad", {"x": Unregistered()}), UnserializableStateError),
        (PutOp(("a.b",), "bad", {}), InvalidNamespaceError),
        (SearchOp(DOCS, {"x": {"$in": [1]}}), ValueError),
        (ListNamespacesOp((MatchCondition("middle", ("x",)),)), ValueError),  # type: ignore[arg-type]
        ("no operation", ValueError),
    ]
    for op, error in refused:
        with pytest.raises(error) as caught:
            calls.batch([*good, op])
        if error is UnserializableStateError:
            assert str(caught.value).startswith(f"item 'bad' of namespace {DOCS}: value['x'] is a ")
    assert keys(calls.search(())) == ["k"]
    assert calls.get(DOCS, "k").value == {"x": 1}


def test_a_large_batch(calls: Calls) -> None:
    calls.batch([PutOp(("n", str(number % 3)), str(number), {"n": number}) for number in range(2000)])
    found = calls.batch([GetOp(("n", str(number % 3)), str(number)) for number in range(2000)])
    assert [item.value["n"] for item in found] == list(range(2000))
    calls.batch([PutOp(("n", str(number % 3)), str(number), None) for number in range(2000)])
    assert calls.list_namespaces() == []


# Namespaces


PLACES = [
    ("a", "b", "c"),
    ("a", "b", "d", "e"),
    ("a", "b", "d", "i"),
    ("a", "b", "f"),
    ("a", "c", "f"),
    ("z",),
]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, PLACES),
        ({"prefix": ("a", "b")}, PLACES[:4]),
        ({"prefix": ("a", "*", "f")}, PLACES[3:5]),
        ({"prefix": ("*", "b", "d")}, PLACES[1:3]),
        ({"prefix": ("*",)}, PLACES),
        ({"suffix": ("f",)}, PLACES[3:5]),
        ({"suffix": ("*", "i")}, PLACES[2:3]),
        ({"prefix": ("a", "b"), "suffix": ("f",)}, PLACES[3:4]),
        ({"max_depth": 1}, [("a",), ("z",)]),
        (
            {"prefix": ("a", "b"), "max_depth": 3},
            [("a", "b", "c"), ("a", "b", "d"), ("a", "b", "f")],
        ),
        ({"limit": 2, "offset": 1}, PLACES[1:3]),
        ({"limit": 0}, []),
        ({"prefix": ("a", "b", "c", "d")}, []),
        ({"prefix": ("%",)}, []),
    ],
)
def test_which_namespaces_are_listed(calls: Calls, options: dict[str, Any], expected: list[Any]) -> None:
    calls.batch([PutOp(namespace, key, {}) for namespace in PLACES for key in "kl"])
    assert calls.list_namespaces(**options) == expected


def test_all_conditions_of_a_listing_hold(calls: Calls) -> None:
    calls.batch([PutOp(namespace, "k", {}) for namespace in PLACES])
    conditions = (MatchCondition("prefix", ("*", "b")), MatchCondition("prefix", ("a",)))
    (found,) = calls.batch([ListNamespacesOp(conditions, limit=2)])
    assert found == PLACES[:2]


# What names may be


NAMES = [
    "a", "A", "ä", "a\u0308", "\U0001f600", " ", "\t", "\n", "'", '"', "`", "\\", "%", "_", "*", "?", "[a]", "/", "-",
    "a/b", "a:b", "a,b", "a;b", "--", "' OR '1'='1", '"; DROP TABLE graphkit_store_item; --', "%s", "%(a)s", ":a", "$1",
    "{}", "\x01", "\x7f", "\x80", "\uffff", "\U0010ffff", "x" * 500, "é" * 400, "None", "0", "__proto__",
]  # fmt: skip


def test_names_may_hold_any_characters_and_are_never_confused(calls: Calls) -> None:
    calls.batch([PutOp(("n", name), name, {"name": name}) for name in NAMES])
    calls.batch([PutOp((name,), "first", {"name": name}) for name in NAMES])
    for name in NAMES:
        assert calls.get(("n", name), name).value == {"name": name}
        assert [item.value["name"] for item in calls.search(("n", name))] == [name]
        assert [item.value["name"] for item in calls.search((name,))] == [name]
        if name != "*":
            assert calls.list_namespaces(prefix=("n", name)) == [("n", name)]
            assert calls.list_namespaces(suffix=(name,)) == sorted([("n", name), (name,)])
    assert sorted(item.key for item in calls.search(("n",), limit=1000)) == sorted(NAMES)
    for name in NAMES:
        calls.delete(("n", name), name)
        assert calls.get((name,), "first").value == {"name": name}
    assert calls.search(("n",)) == []


BAD_NAMESPACES: list[Any] = [
    (), ("",), ("a", ""), ("a.b",), (".",), ("a\0",), ("\ud800",), ("a\udfff",), (1,), (None,), (b"a",), "abc", None, 7,
    {"a"}, ("langgraph",), ("langgraph", "x"), ("x" * 1024,), ("é" * 512,), ("xy",) * 400,
]  # fmt: skip


@pytest.mark.parametrize("namespace", BAD_NAMESPACES, ids=ascii)
def test_a_bad_namespace_is_refused(calls: Calls, namespace: Any) -> None:
    with pytest.raises(InvalidNamespaceError, match=r"namespace|label"):
        calls.put(namespace, "k", {})
    if namespace in ((), ("langgraph",), ("langgraph", "x")):
        assert calls.get(namespace, "k") is None  # nothing can be there
        return
    each: tuple[Callable[[], Any], ...] = (
        lambda: calls.get(namespace, "k"),
        lambda: calls.delete(namespace, "k"),
        lambda: calls.search(namespace),
    )
    for call in each:
        with pytest.raises(ValueError, match=r"namespace|label"):
            call()


BAD_KEYS: list[Any] = ["", "a\0", "\ud800", "x" * 1025, "é" * 513, None, 7, b"k", ("k",)]


@pytest.mark.parametrize("key", BAD_KEYS, ids=ascii)
def test_a_bad_key_is_refused(calls: Calls, key: Any) -> None:
    each: tuple[Callable[[], Any], ...] = (
        lambda: calls.put(DOCS, key, {}),
        lambda: calls.get(DOCS, key),
        lambda: calls.delete(DOCS, key),
    )
    for call in each:
        with pytest.raises(ValueError, match="key"):
            call()


def test_the_longest_names(calls: Calls) -> None:
    chance = random.Random(7)  # what does not compress is what PostgreSQL's index would refuse
    label = "".join(chance.choices("0123456789abcdef", k=1023))
    for namespace, key in (((label,), "é" * 512), (tuple(label[:511]), label + "x")):
        calls.put(namespace, key, {"x": 1})
        assert calls.get(namespace, key).value == {"x": 1}
        assert calls.search(namespace)[0].namespace == namespace


@pytest.mark.parametrize("value", [None, [1], "text", {1: "x"}, {b"x": 1}, {("a",): 1}], ids=ascii)
def test_a_value_is_a_dict_with_strings_for_keys(calls: Calls, value: Any) -> None:
    with pytest.raises(TypeError, match="dict"):
        calls.put(DOCS, "k", value)
    assert calls.search(()) == []


@pytest.mark.parametrize(
    "options",
    [
        {"limit": -1},
        {"offset": -1},
        {"limit": True},
        {"limit": "3"},
        {"filter": "x"},
        {"filter": {"x": {"$in": []}}},
        {"filter": {"x": {"y": [{"$gt": 1, "z": 2}]}}},
    ],
    ids=str,
)
def test_a_bad_search_is_refused_whatever_is_stored(calls: Calls, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"number|filter|operator"):
        calls.search(DOCS, **options)


@pytest.mark.parametrize("options", [{"limit": -1}, {"max_depth": 0}, {"max_depth": 1.5}], ids=str)
def test_a_bad_listing_is_refused(calls: Calls, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="number"):
        calls.list_namespaces(**options)


# How long items live


def test_an_expired_item_is_gone_for_every_read(calls: Calls, clock: Clock) -> None:
    calls.put(DOCS, "k", {"x": 1}, ttl=10)
    calls.put(("stays",), "k", {"x": 1})
    clock.minutes(9.99)
    assert calls.get(DOCS, "k", refresh_ttl=False).value == {"x": 1}
    clock.minutes(0.01)
    assert calls.get(DOCS, "k") is None
    assert calls.search(DOCS) == calls.search(DOCS, filter={"x": 1}) == []
    assert calls.list_namespaces() == [("stays",)]
    assert calls.batch([GetOp(DOCS, "k"), SearchOp(DOCS), ListNamespacesOp()]) == [None, [], [("stays",)]]
    assert (calls.sweep_ttl(), calls.sweep_ttl()) == (1, 0)
    assert keys(calls.search(())) == ["k"]


def test_reading_lets_the_time_begin_anew(calls: Calls, clock: Clock) -> None:
    calls.put(DOCS, "got", {"x": 1}, ttl=10)
    calls.put(DOCS, "found", {"x": 2}, ttl=10)
    calls.put(DOCS, "passed over", {"x": 3}, ttl=10)
    before = calls.get(DOCS, "got")
    for _ in range(3):
        clock.minutes(6)
        assert calls.get(DOCS, "got") == before
        assert keys(calls.search(DOCS, filter={"x": 2})) == ["found"]
    assert calls.get(DOCS, "passed over") is None
    clock.minutes(10)
    assert calls.search(()) == []


@pytest.mark.parametrize(
    ("config", "given", "lives"),
    [
        ({}, None, True),
        ({"refresh_on_read": True}, None, True),
        ({"refresh_on_read": False}, None, False),
        ({"refresh_on_read": False}, True, True),
        ({"refresh_on_read": True}, False, False),
    ],
)
@pytest.mark.parametrize("call", ["get", "search"])
def test_whether_reading_refreshes(
    open_store: OpenStore, clock: Clock, config: Any, given: bool | None, lives: bool, call: str
) -> None:
    store = open_store(ttl=config)
    store.put(DOCS, "k", {}, ttl=10)
    clock.minutes(6)
    if call == "get":
        assert store.get(DOCS, "k", refresh_ttl=given)
    else:
        assert store.search(DOCS, refresh_ttl=given)
    clock.minutes(6)
    assert (store.get(DOCS, "k") is not None) is lives


def test_the_default_ttl_and_for_ever(open_store: OpenStore, clock: Clock) -> None:
    store = open_store(ttl={"default_ttl": 1, "refresh_on_read": False, "omit_expired": True})
    store.put(DOCS, "default", {})
    store.put(DOCS, "given", {}, ttl=NOT_PROVIDED)
    store.put(DOCS, "longer", {}, ttl=1.5)
    store.put(DOCS, "for ever", {}, ttl=None)
    clock.minutes(1)
    assert sorted(keys(store.search(DOCS))) == ["for ever", "longer"]
    store.put(DOCS, "longer", {}, ttl=None)
    clock.minutes(1000)
    assert sorted(keys(store.search(DOCS))) == ["for ever", "longer"]


def test_what_follows_an_expired_item_is_new(calls: Calls, clock: Clock) -> None:
    calls.put(DOCS, "k", {}, ttl=1)
    clock.minutes(1)
    calls.put(DOCS, "k", {})
    assert calls.get(DOCS, "k").created_at == datetime.fromtimestamp(clock.now, UTC)
    assert calls.sweep_ttl() == 0


def test_a_write_sweeps_when_the_interval_has_passed(open_store: OpenStore, clock: Clock) -> None:
    store = open_store(ttl={"sweep_interval_minutes": 5})
    other = store if isinstance(store, InMemoryStore) else open_store()
    store.put(DOCS, "k", {}, ttl=1)
    clock.minutes(4)
    store.put(DOCS, "before", {})
    assert other.sweep_ttl() == 1
    store.put(DOCS, "k", {}, ttl=0.5)
    clock.minutes(2)
    store.put(DOCS, "after", {})
    assert other.sweep_ttl() == 0


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_sweeper_by_the_names_that_langgraph_has(open_store: OpenStore, clock: Clock, colour: str) -> None:
    """Writes sweep, from when it is started until it is stopped."""
    store = open_store(ttl={"default_ttl": 1})
    other = store if isinstance(store, InMemoryStore) else open_store()

    def sweeper(call: str, *args: Any) -> None:
        async def awaited() -> None:
            await getattr(store, call)(*args)

        if colour == "async":
            asyncio.run(awaited())
        else:
            assert getattr(store, call)(*args)

    def left_by_a_write() -> int:
        store.put(DOCS, "k", {})
        clock.minutes(6)
        store.put(DOCS, "kept", {}, ttl=None)
        return int(other.sweep_ttl())

    assert left_by_a_write() == 1
    sweeper("start_ttl_sweeper")  # every five minutes
    assert left_by_a_write() == 0
    sweeper("start_ttl_sweeper", 60)
    assert left_by_a_write() == 1
    sweeper("stop_ttl_sweeper", 1.0)
    clock.minutes(120)
    assert left_by_a_write() == 1
    with pytest.raises(ValueError, match="minutes"):
        store.start_ttl_sweeper(-1)


@pytest.mark.parametrize("ttl", [0, -1, math.nan, math.inf, 1e11, True, "5", 10**400], ids=ascii)
def test_a_bad_ttl_is_refused(calls: Calls, ttl: Any) -> None:
    with pytest.raises(ValueError, match="minutes"):
        calls.put(DOCS, "k", {}, ttl=ttl)


@pytest.mark.parametrize(
    "config",
    [{"ttl": 5}, {"default_ttl": -1}, {"omit_expired": False}, {"sweep_interval_minutes": 0}],
    ids=str,
)
def test_a_bad_ttl_config_is_refused(open_store: OpenStore, config: Any) -> None:
    with pytest.raises(ValueError, match=r"ttl|omit_expired"):
        open_store(ttl=config)


def test_a_store_of_somebody_elses_that_keeps_for_ever_says_so() -> None:
    class Forever(BaseStore):
        def batch(self, ops: Any) -> Any:
            return [None for _ in ops]

        async def abatch(self, ops: Any) -> Any:
            return self.batch(ops)

    Forever().put(DOCS, "k", {})
    with pytest.raises(NotImplementedError, match="Forever keeps items for ever"):
        Forever().put(DOCS, "k", {}, ttl=5)


# Several at once


def test_threads_that_write_at_once_lose_nothing(store: Store) -> None:
    start = threading.Barrier(8)
    errors: list[BaseException] = []

    def write(writer: int) -> None:
        try:
            start.wait()
            for number in range(25):
                store.put(("w", str(writer)), str(number), {"n": number})
                store.put(("shared",), "k", {"writer": writer, "number": number})
                assert store.get(("w", str(writer)), str(number)).value == {"n": number}
                store.batch([PutOp(("both",), key, {"writer": writer}) for key in ("a", "b", "c")])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(store.search(("w",), limit=1000)) == 200
    assert store.get(("shared",), "k").value["number"] == 24
    assert len({item.value["writer"] for item in store.search(("both",))}) == 1  # a batch is never torn


def test_tasks_that_write_at_once_lose_nothing(store: Store) -> None:
    async def write(number: int) -> None:
        await store.aput(("w",), str(number), {"n": number}, ttl=5)
        assert (await store.aget(("w",), str(number))).value == {"n": number}

    async def run() -> None:
        async with store:
            await asyncio.gather(*map(write, range(50)))
            assert len(await store.asearch(("w",), limit=100)) == 50

    asyncio.run(run())


# The engine, and names


class State(TypedDict, total=False):
    user: str
    seen: list[Any]


def test_a_node_has_the_graphs_store(runner: Any, open_store: OpenStore) -> None:
    store = open_store()

    def remember(state: State, store: BaseStore, runtime: Runtime[Any]) -> State:
        assert store is runtime.store is get_store()
        store.put(("memories", state["user"]), "drink", {"likes": "tea"})
        return {}

    def recall(state: State, *, store: BaseStore) -> State:
        return {"seen": [item.value for item in store.search(("memories", state["user"]))]}

    builder = StateGraph(State).add_sequence([("remember", remember), ("recall", recall)])
    graph = builder.add_edge(START, "remember").compile(store=store)
    assert runner.invoke(graph, {"user": "ada"})["seen"] == [{"likes": "tea"}]
    assert store.get(("memories", "ada"), "drink").value == {"likes": "tea"}


def test_an_async_node_uses_the_async_door(open_store: OpenStore) -> None:
    store = open_store()

    async def node(state: State, store: BaseStore) -> State:
        await store.aput(("memories",), "k", {"x": 1})
        return {"seen": [item.value for item in await store.asearch(("memories",))]}

    graph = StateGraph(State).add_node("node", node).add_edge(START, "node").compile(store=store)
    assert asyncio.run(graph.ainvoke({}))["seen"] == [{"x": 1}]
    assert graph.invoke({})["seen"] == [{"x": 1}]


def test_what_was_found_may_be_put_into_a_graphs_state(store: Store) -> None:
    store.put(DOCS, "k", {"x": 1})

    def node(state: State, store: BaseStore) -> State:
        return {"seen": [store.get(DOCS, "k"), *store.search(DOCS)]}

    builder = StateGraph(State).add_node("node", node).add_edge(START, "node")
    graph = builder.compile(checkpointer=InMemorySaver(), store=store)
    config: Any = {"configurable": {"thread_id": "t"}}
    graph.invoke({}, config)
    assert graph.get_state(config).values["seen"] == [store.get(DOCS, "k"), *store.search(DOCS)]


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("get", "namespace key refresh_ttl"),
        ("search", "namespace_prefix query filter limit offset refresh_ttl"),
        ("put", "namespace key value index ttl"),
        ("delete", "namespace key"),
        ("list_namespaces", "prefix suffix max_depth limit offset"),
        ("batch", "ops"),
    ],
)
def test_both_doors_take_the_same(name: str, parameters: str) -> None:
    sync, other = (inspect.signature(getattr(BaseStore, door)) for door in (name, f"a{name}"))
    assert list(sync.parameters)[1:] == parameters.split()
    assert sync == other


def test_setup_may_be_awaited_or_not(store: Store) -> None:
    async def run() -> None:
        await store.setup()

    store.setup()
    asyncio.run(run())
    store.put(DOCS, "k", {})
