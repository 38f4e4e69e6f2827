"""Caches: what is put is found again until it expires, in every process that shares the file, or it is a miss."""

from __future__ import annotations

import asyncio
import dataclasses
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

import pytest

from graphkit import START, StateGraph
from graphkit.cache.base import BaseCache, FullKey, Namespace
from graphkit.cache.memory import InMemoryCache
from graphkit.cache.sqlite import SqliteCache
from graphkit.checkpoint.serde import register_type
from graphkit.errors import (
    StorageBusyError,
    StorageCorruptError,
    StorageUnavailableError,
    UnserializableStateError,
)
from graphkit.store.sqlite import SqliteStore
from graphkit.types import CachePolicy
from tests.store.conftest import Calls, Clock


class Entries:
    """A cache's calls through one door, an entry at a time."""

    def __init__(self, cache: BaseCache, colour: str) -> None:
        self.cache = cache
        self.calls = Calls(cache, colour)

    def put(self, namespace: str, key: str, value: Any, ttl: float | None) -> None:
        self.calls.set({((namespace,), key): (value, ttl)})

    def get(self, namespace: str, key: str) -> Any:
        place = ((namespace,), key)
        return self.calls.get([place]).get(place)

    def clear(self, *namespaces: str) -> None:
        self.calls.clear([(namespace,) for namespace in namespaces])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "c.sqlite"


@pytest.fixture
def open_sqlite_cache(path: Path, clock: Clock) -> Iterator[Callable[..., SqliteCache]]:
    opened: list[SqliteCache] = []

    def open_another(**options: Any) -> SqliteCache:
        opened.append(SqliteCache(path, clock=clock, **options))
        return opened[-1]

    yield open_another
    for cache in opened:
        cache.close()


@pytest.fixture(params=["memory", "sqlite"])
def shared(
    request: pytest.FixtureRequest, open_sqlite_cache: Callable[..., SqliteCache], clock: Clock
) -> BaseCache:
    return InMemoryCache(clock=clock) if request.param == "memory" else open_sqlite_cache()


@pytest.fixture(params=["sync", "async"])
def cache(request: pytest.FixtureRequest, shared: BaseCache) -> Entries:
    return Entries(shared, request.param)


def test_what_is_put_comes_back_exactly(cache: Entries) -> None:
    value = {"tuple": (1, {2}), "bytes": b"\0", "text": "a\0\ud800"}
    cache.put("n", "k", value, None)
    value["bytes"] = b"changed"
    assert cache.get("n", "k") == {"tuple": (1, {2}), "bytes": b"\0", "text": "a\0\ud800"}
    cache.put("n", "k", "another", None)
    assert cache.get("n", "k") == "another"
    assert cache.get("n", "other") is cache.get("other", "k") is None


def test_several_at_once(cache: Entries, clock: Clock) -> None:
    pairs = {((namespace,), key): f"{namespace}{key}" for namespace in "ab" for key in "xy"}
    cache.calls.set({place: (value, 10 if place[1] == "x" else None) for place, value in pairs.items()})
    assert cache.calls.get([*pairs, (("a",), "none")]) == pairs
    clock.now += 10
    assert cache.calls.get(list(pairs)) == {(("a",), "y"): "ay", (("b",), "y"): "by"}
    cache.calls.set({})
    assert cache.calls.get([]) == {}


def test_none_is_a_value(cache: Entries) -> None:
    cache.put("n", "k", None, None)
    assert cache.calls.get([(("n",), "k"), (("n",), "other")]) == {(("n",), "k"): None}


def test_of_several_all_are_kept_or_none(cache: Entries) -> None:
    with pytest.raises(UnserializableStateError):
        cache.calls.set({(("n",), "first"): (1, None), (("n",), "second"): (object(), None)})
    assert cache.get("n", "first") is None


@pytest.mark.parametrize(
    "name", ["", "'", "%", "a\0b", "\ud800", "'; DROP TABLE graphkit_cache_1; --", "x" * 9999]
)
def test_any_text_is_a_name(cache: Entries, name: str) -> None:
    cache.put(name, "k", 1, None)
    cache.put("n", name, 2, None)
    assert (cache.get(name, "k"), cache.get("n", name)) == (1, 2)
    cache.clear(name)
    assert (cache.get(name, "k"), cache.get("n", name)) == (None, 2)


def test_namespaces_are_told_apart_by_their_parts(cache: Entries) -> None:
    namespaces = [(), ("",), ("a",), ("a", "b"), ("a,b",), ("a", "b", "c"), ("a", "b,c"), ("a,b", "c")]
    cache.calls.set({(namespace, "k"): (namespace, None) for namespace in namespaces})
    found = cache.calls.get([(namespace, "k") for namespace in namespaces])
    assert found == {(namespace, "k"): namespace for namespace in namespaces}
    cache.calls.clear([("a",), ("a,b",)])
    left = [namespace for namespace in namespaces if namespace not in [("a",), ("a,b",)]]
    assert list(cache.calls.get([(namespace, "k") for namespace in namespaces])) == [(n, "k") for n in left]


def test_a_value_expires(cache: Entries, clock: Clock) -> None:
    cache.put("n", "short", 1, 10)
    cache.put("n", "long", 2, 20.5)
    cache.put("n", "for ever", 3, None)
    clock.now += 9.9
    assert cache.get("n", "short") == 1
    clock.now += 0.1
    assert (cache.get("n", "short"), cache.get("n", "long")) == (None, 2)
    clock.now += 1e6
    assert (cache.get("n", "long"), cache.get("n", "for ever")) == (None, 3)
    cache.put("n", "short", 4, 10)
    assert cache.get("n", "short") == 4


def test_clearing(cache: Entries) -> None:
    def found() -> list[Any]:
        return [cache.get(namespace, "k") for namespace in ("a", "a/b", "b")]

    for namespace in ("a", "a/b", "b"):
        cache.put(namespace, "k", 1, None)
    cache.calls.clear([])
    assert found() == [1, 1, 1]
    cache.clear("a", "b", "never")
    assert found() == [None, 1, None]
    cache.calls.clear()
    assert found() == [None, None, None]


def test_threads_share_a_cache(cache: Entries) -> None:
    wrong: list[Any] = []

    def use(number: int) -> None:
        for step in range(50):
            cache.put(f"n{number}", str(step), (number, step), None)
            if cache.get(f"n{number}", str(step)) != (number, step):
                wrong.append((number, step))

    threads = [threading.Thread(target=use, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


class Least(BaseCache):
    """What somebody else's cache must have, and no more."""

    def __init__(self) -> None:
        self.entries: dict[FullKey, Any] = {}
        self.threads: list[str] = []

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, Any]:
        self.threads.append(threading.current_thread().name)
        return {key: self.entries[key] for key in keys if key in self.entries}

    def set(self, pairs: Mapping[FullKey, tuple[Any, float | None]]) -> None:
        self.threads.append(threading.current_thread().name)
        self.entries.update({key: value for key, (value, _) in pairs.items()})

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        self.threads.append(threading.current_thread().name)
        self.entries.clear()


@pytest.mark.parametrize("blocking", [True, False])
def test_async_callers_are_served_in_one_thread_of_the_caches_own_if_it_may_wait(blocking: bool) -> None:
    cache = Least()
    cache.blocking = blocking
    key: FullKey = (("n",), "k")

    async def use() -> None:
        await cache.aset({key: (1, None)})
        assert await cache.aget([key]) == {key: 1}
        await cache.aclear([("n",)])
        assert await cache.aget([key]) == {}

    asyncio.run(use())
    assert len(set(cache.threads)) == 1
    assert cache.threads[0].startswith("graphkit-cache") == blocking
    assert (cache.threads[0] == threading.current_thread().name) != blocking


def test_a_cache_may_say_what_it_holds() -> None:
    cache: BaseCache[int] = InMemoryCache[int]()
    cache.set({(("n",), "k"): (1, None)})
    assert cache.get([(("n",), "k")])[("n",), "k"] + 1 == 2


class State(TypedDict, total=False):
    x: int
    y: int


def test_a_node_with_a_policy_runs_once_for_equal_input(runner: Any, shared: BaseCache, clock: Clock) -> None:
    ran: list[int] = []

    def node(state: State) -> State:
        ran.append(state["x"])
        return {"y": state["x"] * 2}

    builder = (
        StateGraph(State).add_node("node", node, cache_policy=CachePolicy(ttl=60)).add_edge(START, "node")
    )
    graph = builder.compile(cache=shared)
    assert [runner.invoke(graph, {"x": x})["y"] for x in (1, 2, 1)] == [2, 4, 2]
    assert ran == [1, 2]
    clock.now += 60
    assert runner.invoke(graph, {"x": 1})["y"] == 2
    assert ran == [1, 2, 1]


# Only SQLite


CALLS = """
def put(cache, namespace, key, value, ttl=None):
    cache.set({((namespace,), key): (value, ttl)})

def get(cache, namespace, key):
    place = ((namespace,), key)
    return cache.get([place]).get(place)
"""


def put(cache: BaseCache, namespace: str, key: str, value: Any, ttl: float | None = None) -> None:
    cache.set({((namespace,), key): (value, ttl)})


def get(cache: BaseCache, namespace: str, key: str) -> Any:
    place = ((namespace,), key)
    return cache.get([place]).get(place)


def entries(path: Path, statement: str = "SELECT key FROM graphkit_cache_1", *parameters: Any) -> list[Any]:
    connection = sqlite3.connect(path)
    with connection:
        found = connection.execute(statement, parameters).fetchall()
    connection.close()
    return found


def test_another_cache_finds_it(open_sqlite_cache: Callable[..., SqliteCache], path: Path) -> None:
    with SqliteCache(str(path)) as first:
        put(first, "n", "k", {"x": 1})
    assert get(open_sqlite_cache(), "n", "k") == {"x": 1}


WRITER = """
import sys
from graphkit.cache.sqlite import SqliteCache
path, writer = sys.argv[1:]
sys.stdin.readline()
with SqliteCache(path) as cache:
    for number in range(50):
        put(cache, "n" + writer, str(number), [writer, number], 60)
        put(cache, "shared", str(number % 5), "same")
        assert get(cache, "n" + writer, str(number)) == [writer, number]
        assert get(cache, "shared", str(number % 5)) == "same"
"""


def test_processes_share_a_file(open_sqlite_cache: Callable[..., SqliteCache], path: Path) -> None:
    command = [sys.executable, "-c", CALLS + WRITER, str(path)]
    writers = [
        subprocess.Popen([*command, str(number)], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for number in range(6)
    ]
    assert [writer.communicate("go\n", timeout=240)[1] for writer in writers] == [""] * 6
    assert len(entries(path)) == 305


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE graphkit_cache_1 SET body = x'01'",
        "UPDATE graphkit_cache_1 SET body = 'text'",
        "UPDATE graphkit_cache_1 SET body = 7",
        "UPDATE graphkit_cache_1 SET checksum = checksum + 1",
        "UPDATE graphkit_cache_1 SET checksum = 'text'",
        "UPDATE graphkit_cache_1 SET expiry = 9e99",
        "UPDATE graphkit_cache_1 SET key = x'6b'",
    ],
)
def test_a_damaged_entry_is_a_miss_and_goes(
    open_sqlite_cache: Callable[..., SqliteCache], path: Path, damage: str
) -> None:
    cache = open_sqlite_cache()
    put(cache, "n", "K" if "key" in damage else "k", {"x": 1}, 60)
    entries(path, damage)
    assert get(cache, "n", "k") is None
    assert entries(path) == []
    put(cache, "n", "k", {"x": 2}, 60)
    assert get(cache, "n", "k") == {"x": 2}


@dataclasses.dataclass
class Late:
    x: int


def test_an_entry_of_a_type_that_is_unknown_here_is_a_miss_and_stays(
    open_sqlite_cache: Callable[..., SqliteCache], path: Path
) -> None:
    put_elsewhere = (
        "import dataclasses, sys; from graphkit.cache.sqlite import SqliteCache; "
        "from graphkit.checkpoint.serde import register_type\n"
        "@dataclasses.dataclass\nclass Late:\n    x: int\n"
        "register_type(Late, name='late')\n"
        "with SqliteCache(sys.argv[1]) as cache: cache.set({(('n',), 'k'): (Late(1), None)})\n"
    )
    subprocess.run([sys.executable, "-c", put_elsewhere, str(path)], check=True)
    cache = open_sqlite_cache()
    assert get(cache, "n", "k") is None
    register_type(Late, name="late")
    assert get(cache, "n", "k") == Late(1)


def test_what_has_expired_leaves_the_file(
    open_sqlite_cache: Callable[..., SqliteCache], path: Path, clock: Clock
) -> None:
    cache = open_sqlite_cache()
    for number in range(20):
        put(cache, "n", str(number), number, 10)
    clock.now += 10
    put(cache, "n", "new", 1, 10)
    assert entries(path) == [(b"new",)]


def test_a_locked_file_is_busy(open_sqlite_cache: Callable[..., SqliteCache], path: Path) -> None:
    cache = open_sqlite_cache(timeout=0.1)
    put(cache, "n", "k", 1)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert get(cache, "n", "k") == 1
    with pytest.raises(StorageBusyError, match=r"c\.sqlite"):
        put(cache, "n", "k", 2)
    other.close()
    put(cache, "n", "k", 2)
    assert get(cache, "n", "k") == 2


@pytest.mark.parametrize("content", [b"not a database" * 100, b"\0" * 8192], ids=["text", "zeros"])
def test_a_file_that_is_no_database(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(StorageCorruptError, match=r"c\.sqlite"):
        SqliteCache(path)
    with pytest.raises(StorageUnavailableError, match="unable to open"):
        SqliteCache(path / "below")


def test_a_closed_cache_says_so(path: Path) -> None:
    cache = SqliteCache(path=path)
    cache.close()
    cache.close()
    with pytest.raises(StorageUnavailableError, match="is closed"):
        get(cache, "n", "k")


def test_a_cache_and_a_store_share_a_file(path: Path) -> None:
    with SqliteCache(path) as cache, SqliteStore(path) as store:
        put(cache, "n", "k", 1)
        store.put(("n",), "k", {"x": 1})
        assert get(cache, "n", "k") == 1


FORKING = """
import os, sys, threading, warnings
from graphkit.cache.sqlite import SqliteCache
warnings.simplefilter("ignore", DeprecationWarning)  # forking is what is tried here
cache = SqliteCache(sys.argv[1])
ended = threading.Event()

def write():
    while not ended.is_set():
        put(cache, "n", "parent", 1)

thread = threading.Thread(target=write)
thread.start()
for number in range(20):
    child = os.fork()
    if child == 0:
        put(cache, "child", str(number), number)
        os._exit(0 if get(cache, "child", str(number)) == number else 1)
    assert os.waitpid(child, 0)[1] == 0
ended.set()
thread.join()
print([get(cache, "child", str(number)) for number in range(20)] == list(range(20)))
cache.close()
"""


FORKING_ASYNC = """
import asyncio, os, sys, warnings
from graphkit.cache.sqlite import SqliteCache
warnings.simplefilter("ignore", DeprecationWarning)
cache = SqliteCache(sys.argv[1])
key = (("n",), "k")
asyncio.run(cache.aset({key: (1, None)}))  # there is a thread now, which a child has not
child = os.fork()
if child == 0:
    os._exit(0 if asyncio.run(cache.aget([key])) == {key: 1} else 1)
print(os.waitpid(child, 0)[1], asyncio.run(cache.aget([key])) == {key: 1})
cache.close()
"""


def test_async_callers_are_served_in_a_forked_child_too(path: Path) -> None:
    command = [sys.executable, "-c", FORKING_ASYNC, str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert (ran.stdout.strip(), ran.stderr) == ("0 True", "")


def test_a_cache_in_use_may_be_used_on_both_sides_of_a_fork(path: Path) -> None:
    command = [sys.executable, "-c", CALLS + FORKING, str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert (ran.stdout.strip(), ran.stderr) == ("True", "")
