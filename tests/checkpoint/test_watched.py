"""Copies that tell when they are changed: of every change, and of nothing else."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from graphkit_checkpoint.errors import UnserializableStateError
from graphkit_checkpoint.serde import pack, unpack
from graphkit_checkpoint.watched import WatchedDict, WatchedList, copied, watched

PLAIN: Any = {"a": [1, {"b": [2, "x"]}, b"y", None], "c": {"d": 1.5}, "e": True}

READS: dict[Any, str] = {
    dict: "__class_getitem__ __contains__ __getitem__ __iter__ __len__ __or__ __reversed__ __ror__ copy fromkeys get "
    "items keys values",
    list: "__add__ __class_getitem__ __contains__ __getitem__ __iter__ __len__ __mul__ __reversed__ __rmul__ copy "
    "count index",
}
CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "d[k] =": lambda d, _: d.__setitem__("z", 1),
    "d[k] = equal": lambda d, _: d.__setitem__("e", 1),
    "del d[k]": lambda d, _: d.__delitem__("e"),
    "d |=": lambda d, _: d.__ior__({"z": 1}),
    "d.clear": lambda d, _: d.clear(),
    "d.pop": lambda d, _: d.pop("e"),
    "d.popitem": lambda d, _: d.popitem(),
    "d.setdefault": lambda d, _: d.setdefault("z", 1),
    "d.update": lambda d, _: d.update(z=1),
    "l[i] =": lambda _, items: items.__setitem__(0, 5),
    "l[i:j] =": lambda _, items: items.__setitem__(slice(0, 2), []),
    "del l[i]": lambda _, items: items.__delitem__(0),
    "l +=": lambda _, items: items.__iadd__([3]),
    "l *=": lambda _, items: items.__imul__(2),
    "l.append": lambda _, items: items.append(3),
    "l.clear": lambda _, items: items.clear(),
    "l.extend": lambda _, items: items.extend([3]),
    "l.insert": lambda _, items: items.insert(0, 3),
    "l.pop": lambda _, items: items.pop(),
    "l.remove": lambda _, items: items.remove(2),
    "l.reverse": lambda _, items: items.reverse(),
    "l.sort": lambda _, items: items.sort(key=str),
}


def watch(value: Any) -> tuple[Any, list[int]]:
    """A copy, and a list that has an item for each time that it told."""
    told: list[int] = []
    return watched(value, lambda: told.append(1)), told


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_is_told_of_however_deep(change: Callable[[Any, Any], Any]) -> None:
    made, told = watch({"deep": [{"d": PLAIN}]})
    inside = made["deep"][0]["d"]
    change(inside, inside["a"][1]["b"])
    assert told == [1]
    assert PLAIN == {"a": [1, {"b": [2, "x"]}, b"y", None], "c": {"d": 1.5}, "e": True}


@pytest.mark.parametrize(("kind", "mine"), [(dict, WatchedDict), (list, WatchedList)])
def test_no_way_to_change_it_is_forgotten(kind: type, mine: type) -> None:
    """Whatever a version of Python adds to dicts or lists is either known to read only, or told of."""
    own = {name for name in vars(kind) if name not in dir(object)}
    assert own - set(READS[kind].split()) == {name for name in own if name in vars(mine)}


def test_a_change_that_fails_half_way_is_one() -> None:
    made, told = watch({"a": [1]})
    with pytest.raises(TypeError):
        made["a"].extend(x if x else None + 1 for x in (5, 0))  # type: ignore[operator]
    assert told and made == {"a": [1, 5]}


def test_to_read_it_is_not_told_of() -> None:
    made, told = watch(PLAIN)
    assert made == PLAIN
    assert json.dumps(made["c"]) == json.dumps(PLAIN["c"])
    assert repr(made) == repr(PLAIN)
    assert {**made} == copy.copy(made) == made | {} == PLAIN
    assert made["a"] + [] == [*made["a"]] == made["a"][:] == PLAIN["a"]
    assert pack(made) == pack(PLAIN)
    assert not told


def test_what_is_made_by_its_type_is_watched_by_nobody() -> None:
    made, told = watch(PLAIN)
    mine, yours = type(made["a"])(made["a"]), type(made).fromkeys("ab", 1)
    mine.append(3)
    yours["c"] = 1
    assert (mine, yours) == ([*PLAIN["a"], 3], {"a": 1, "b": 1, "c": 1}) and not told
    assert made == PLAIN


COPIES: dict[str, Callable[[Any], Any]] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "copied": copied,
    "stored": lambda value: unpack(pack(value)),
}


@pytest.mark.parametrize("made_by", COPIES.values(), ids=COPIES)
def test_copies_of_it_are_plain(made_by: Callable[[Any], Any]) -> None:
    made, told = watch(PLAIN)
    plain = made_by(made)
    assert plain == PLAIN
    assert (type(plain), type(plain["a"]), type(plain["a"][1]["b"])) == (dict, list, list)
    plain["a"][1]["b"].append(1)
    assert made == PLAIN and not told


def test_it_is_stored_in_anything_as_a_plain_one() -> None:
    held: Any = {"b": bytearray(b"x"), "deep": [{"set": {1, 2}}]}
    made, _ = watch(held)
    for around in (lambda value: [value], lambda value: {"k": (value, 1)}, lambda value: value):
        assert pack(around(made)) == pack(around(held))
    assert type(unpack(pack([made]))[0]["b"]) is bytearray


def test_what_cannot_be_stored_in_it_is_named() -> None:
    made, _ = watch({"a": [1, {"b": 2}]})
    made["a"][1]["b"] = object()
    with pytest.raises(UnserializableStateError, match=r"value\['x'\]\['a'\]\[1\]\['b'\] is a object"):
        pack({"x": made})
    made["a"].append(made)
    with pytest.raises(UnserializableStateError):
        pack(made)


def test_what_cannot_tell_is_told_of_at_once() -> None:
    class Thing:
        def __init__(self) -> None:
            self.items = [1]

    thing = Thing()
    made, told = watch({"a": [thing]})
    assert told
    made["a"][0].items.append(2)
    assert thing.items == [1]
