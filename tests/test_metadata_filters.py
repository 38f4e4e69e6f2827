"""Metadata as a filter of the history: hostile keys and values, against a filter written here."""

from __future__ import annotations

import random
from typing import Any

import pytest

from graphkit.types import RunnableConfig
from tests.conftest import EMPTY, Build, Runner, Saver, says

WORDS = [
    "run",
    "user",
    "",
    " ",
    "a.b",
    "a'b",
    'a"b',
    "a;--",
    "'; DROP TABLE graphkit_checkpoint; --",
    "%",
    "_",
    "%s",
    "%(x)s",
    ":x",
    "?",
    "$.run",
    "{}",
    "\\",
    "\0",
    "\ud800",
    "größe 😀",
    "NULL",
    "null",
    "1",
    "true",
    "x" * 2000,
]
VALUES: list[Any] = [
    *WORDS,
    None,
    True,
    False,
    0,
    1,
    -1,
    2**70,
    0.5,
    float("inf"),
    float("nan"),
    b"bytes",
    (1, 2),
    [1, 2],
    {"a": 1},
    {"a": [None, {"b": ()}]},
    frozenset({1}),
]
PAIRS = {"InMemorySaver": 4_000, "LiveSaver": 500, "SqliteSaver": 1_000, "PostgresSaver": 500}
"""It is the same code for all; a database adds that keys and values never get near its SQL."""


def hostile(chance: random.Random) -> tuple[str, Any]:
    return chance.choice(WORDS), chance.choice(VALUES)


def matches(metadata: dict[str, Any], key: str, value: Any) -> bool:
    for present, found in metadata.items():
        if present == key:
            return bool(found == value)
    return False


def test_a_filter_finds_what_a_filter_in_python_finds(saver: Saver, build: Build) -> None:
    chance = random.Random(3)
    graph = build({"n": says("x")})
    for _ in range(8):
        metadata = dict(hostile(chance) for _ in range(6))
        graph.invoke(EMPTY, {"configurable": {"thread_id": "t"}, "metadata": metadata})
    everything = list(saver.history("t"))
    found = 0
    pairs = PAIRS[type(saver).__name__]
    for _ in range(pairs):
        key, value = hostile(chance)
        expected = [s.checkpoint.id for s in everything if matches(s.checkpoint.described, key, value)]
        assert [s.checkpoint.id for s in saver.history("t", filter={key: value})] == expected, (key, value)
        found += len(expected)
    print(f"{pairs} pairs, {found} checkpoints found")
    assert found > pairs / 20


def test_several_items_must_all_match(runner: Runner, build: Build, config: RunnableConfig) -> None:
    graph = build({"n": says("x")})
    for user in ("ada", "bob"):
        runner.invoke(graph, EMPTY, {**config, "metadata": {"user": user}})
    found = runner.history(graph, config, filter={"user": "ada", "source": "loop"})
    assert [(s.metadata or {})["user"] for s in found] == ["ada", "ada"]
    assert runner.history(graph, config, filter={"user": "ada", "step": 99}) == []
    assert len(runner.history(graph, config, filter={"user": "ada"}, limit=1)) == 1


@pytest.mark.parametrize("hostile_id", ["\0", "\ud800", "no such id", "%", "' OR 1=1 --"], ids=ascii)
def test_a_checkpoint_that_is_not_there_is_found_nowhere(
    runner: Runner, saver: Saver, build: Build, config: RunnableConfig, hostile_id: str
) -> None:
    graph = build({"n": says("x")})
    runner.invoke(graph, EMPTY, config)
    for name in ("checkpoint_id", "checkpoint_ns"):
        where: RunnableConfig = {"configurable": {"thread_id": "t", name: hostile_id}}
        assert runner.get_state(graph, where).values == {}
        assert len(runner.history(graph, config, before=where)) in (0, 3)
    with pytest.raises(ValueError, match="no checkpoint"):
        runner.invoke(graph, None, {"configurable": {"thread_id": "t", "checkpoint_id": hostile_id}})
