"""Searching a store by meaning."""

from __future__ import annotations

import asyncio
import math
import sys
import threading
from collections import Counter
from typing import Any

import pytest

from graphkit.store.base import PutOp, SearchOp
from graphkit.store.memory import InMemoryStore
from tests.store.conftest import Calls, Clock, OpenStore

NOTES = ("notes",)
SENT: Counter[str] = Counter()


def letters(texts: list[str]) -> list[list[float]]:
    """What a text means: how many a, b and c are in it."""
    SENT.update(texts)
    return [[float(text.count(letter)) for letter in "abc"] for text in texts]


async def aletters(texts: list[str]) -> list[list[float]]:
    return letters(texts)


class Letters:
    """As LangChain's `Embeddings`."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return letters(texts)

    def embed_query(self, text: str) -> list[float]:
        return letters([text])[0]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        return letters(texts)

    async def aembed_query(self, text: str) -> list[float]:
        return letters([text])[0]


@pytest.fixture(params=["sync", "async"])
def indexed(request: pytest.FixtureRequest, open_store: OpenStore) -> Calls:
    return Calls(open_store(index={"dims": 3, "embed": letters, "fields": ["text"]}), request.param)


def keys(found: list[Any]) -> list[str]:
    return [item.key for item in found]


def test_the_nearest_come_first(indexed: Calls) -> None:
    for key, text in {"ab": "ab", "a": "aaa", "b": "bbbb", "none": "xyz"}.items():
        indexed.put(NOTES, key, {"text": text, "long": len(text) > 3})
    indexed.put(("other",), "a", {"text": "a"})
    found = indexed.search(NOTES, query="aa")
    assert keys(found)[:2] == ["a", "ab"] and len(found) == 4
    assert [round(item.score, 3) for item in found] == [1.0, 0.707, 0.0, 0.0]
    assert found[0].value == {"text": "aaa", "long": False}
    assert keys(indexed.search(NOTES, query="a", limit=1, offset=1)) == ["ab"]
    assert keys(indexed.search(NOTES, query="a", filter={"long": True})) == ["b"]
    assert {item.namespace for item in indexed.search((), query="a", limit=2)} == {NOTES, ("other",)}
    assert [item.score for item in indexed.search(NOTES)] == [None] * 4


def test_what_was_put_last_counts(indexed: Calls) -> None:
    indexed.put(NOTES, "k", {"text": "a"})
    indexed.put(NOTES, "k", {"text": "b"})
    indexed.put(NOTES, "gone", {"text": "b"})
    indexed.delete(NOTES, "gone")
    assert [(item.key, item.score) for item in indexed.search(NOTES, query="b")] == [("k", 1.0)]


def test_each_field_counts_for_itself(indexed: Calls) -> None:
    value = {"text": "c", "title": "a", "notes": [{"text": "b"}, {"text": "bb"}], "tags": {"x": "ab"}}
    for key, fields in {
        "own": None,
        "title": ["title"],
        "each": ["notes[*].text"],
        "last": ["notes[-1].text", "notes[7].text"],
        "both": ["tags.*", "text"],
        "off": False,
        "missing": ["nothing"],
    }.items():
        indexed.put(NOTES, key, value, index=fields)

    def score(query: str) -> dict[str, float]:
        return {item.key: round(item.score, 3) for item in indexed.search(NOTES, query=query)}

    assert score("a") == {"title": 1.0, "both": 0.707, "own": 0.0, "each": 0.0, "last": 0.0}
    assert score("b") == {"each": 1.0, "last": 1.0, "both": 0.707, "own": 0.0, "title": 0.0}
    assert score("c") == {"own": 1.0, "both": 1.0, "title": 0.0, "each": 0.0, "last": 0.0}
    assert len(indexed.search(NOTES)) == 7


def test_the_whole_value_if_no_field_is_named(open_store: OpenStore) -> None:
    store = open_store(index={"dims": 3, "embed": Letters()})
    store.put(NOTES, "k", {"x": {"y": ["bb"]}})
    assert [item.score for item in store.search(NOTES, query="b")] == [1.0]


def test_keys_of_every_kind_are_text(indexed: Calls) -> None:
    indexed.put(NOTES, "k", {"m": {1: "a", "b": 2, (1, 2): "x"}}, index=["$"])
    assert keys(indexed.search(NOTES, query="a")) == ["k"]


def test_each_text_is_embedded_once(open_store: OpenStore) -> None:
    store = open_store(index={"dims": 3, "embed": letters, "fields": ["text", "again"]})
    SENT.clear()
    store.put(NOTES, "k", {"text": "cab", "again": "cab"})
    store.batch([SearchOp(NOTES, query="abc"), SearchOp((), query="abc")])
    assert SENT == {"cab": 1, "abc": 1}
    store.get(NOTES, "k")
    store.search(NOTES)
    assert SENT.total() == 2


def test_another_store_on_the_same_storage_finds_them(open_store: OpenStore, kind: str) -> None:
    if kind == "memory":
        pytest.skip("its storage is its own")
    config = {"dims": 3, "embed": letters}
    open_store(index=config).put(NOTES, "k", {"text": "aa"})
    open_store().put(NOTES, "plain", {"text": "aa"})
    assert keys(open_store(index=config).search(NOTES, query="a")) == ["k"]
    assert open_store().get(NOTES, "k").value == {"text": "aa"}
    other = open_store(index={"dims": 1, "embed": lambda texts: [[1.0]]})
    assert other.search(NOTES, query="a") == []  # vectors of another model say nothing


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_what_embeds_may_be_an_object(clock: Clock, colour: str) -> None:
    calls = Calls(InMemoryStore(index={"dims": 3, "embed": Letters()}, clock=clock), colour)
    calls.put(NOTES, "k", {"text": "a"})
    assert keys(calls.search(NOTES, query="a")) == ["k"]


def test_what_embeds_may_be_asynchronous(clock: Clock) -> None:
    store = InMemoryStore(index={"dims": 3, "embed": aletters}, clock=clock)
    calls = Calls(store, "async")
    calls.put(NOTES, "k", {"text": "a"})
    assert keys(calls.search(NOTES, query="a")) == ["k"]
    with pytest.raises(TypeError, match="aput"):
        store.put(NOTES, "k", {"text": "a"})


def test_what_blocks_is_called_beside_the_loop(clock: Clock) -> None:
    threads: list[threading.Thread] = []

    def blocks(texts: list[str]) -> list[list[float]]:
        threads.append(threading.current_thread())
        return letters(texts)

    store = InMemoryStore(index={"dims": 3, "embed": blocks}, clock=clock)
    asyncio.run(store.aput(NOTES, "k", {"text": "a"}))
    store.put(NOTES, "k", {"text": "b"})
    assert [thread is threading.current_thread() for thread in threads] == [False, True]


def test_a_value_that_changes_meanwhile_is_stored_as_it_was(clock: Clock) -> None:
    value = {"text": "a"}

    async def changes(texts: list[str]) -> list[list[float]]:
        value["text"] = "b"
        return letters(texts)

    store = InMemoryStore(index={"dims": 3, "embed": changes, "fields": ["text"]}, clock=clock)

    async def found() -> list[Any]:
        await store.aput(NOTES, "k", value)
        return await store.asearch(NOTES, query="a")

    assert [(item.value, item.score) for item in asyncio.run(found())] == [({"text": "a"}, 1.0)]


def test_no_score_is_beyond_one(indexed: Calls) -> None:
    """The squares of what is stored of this vector make more."""
    indexed.put(NOTES, "k", {"text": "bccc"})
    assert [item.score for item in indexed.search(NOTES, query="bccc")] == [1.0]


def test_a_text_is_no_query(clock: Clock) -> None:
    class Apart(Letters):
        def embed_query(self, text: str) -> list[float]:
            return [0.0, 0.0, 1.0]

    store = InMemoryStore(index={"dims": 3, "embed": Apart(), "fields": ["text"]}, clock=clock)
    store.batch([PutOp(NOTES, "k", {"text": "a"}), SearchOp(NOTES, query="a")])
    assert [item.score for item in store.search(NOTES, query="a")] == [0.0]


def test_nothing_is_embedded_for_a_batch_that_is_refused(clock: Clock) -> None:
    store = InMemoryStore(index={"dims": 3, "embed": letters}, clock=clock)
    SENT.clear()
    with pytest.raises(ValueError, match="limit"):
        store.batch([PutOp(NOTES, "k", {"text": "a"}), SearchOp(NOTES, query="a", limit=-1)])
    assert not SENT


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"embed": letters}, "dims"),
        ({"dims": 0, "embed": letters}, "dims"),
        ({"dims": 3}, "embed"),
        ({"dims": 3, "embed": letters, "fields": "text"}, "a list of names"),
        ({"dims": 3, "embed": letters, "model": "x"}, "'model'"),
    ],
    ids=["no dims", "no number", "no embed", "one field", "unknown"],
)
def test_an_index_that_says_too_little(config: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        InMemoryStore(index=config)


def test_a_model_by_name_needs_langchain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain", None)
    with pytest.raises(ImportError, match="needs langchain"):
        InMemoryStore(index={"dims": 3, "embed": "openai:text-embedding-3-small"})


@pytest.mark.parametrize(
    ("embed", "reason"),
    [
        (lambda texts: [[1.0]] * len(texts), "dims=3"),
        (lambda texts: [], "returned 0 vectors"),
        (lambda texts: [[math.nan] * 3], "length nan"),
        (lambda texts: [[1.7e308] * 3], "length inf"),
    ],
    ids=["dims", "none", "nan", "huge"],
)
def test_vectors_that_are_none(embed: Any, reason: str) -> None:
    store = InMemoryStore(index={"dims": 3, "embed": embed})
    with pytest.raises(ValueError, match=reason):
        store.put(NOTES, "k", {"text": "a"})
    assert store.get(NOTES, "k") is None
