"""Stores in time and company: time to live, several writers, async doors, closing, damage."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from graphkit_checkpoint.conformance.capabilities import Capability
from graphkit_checkpoint.conformance.store.items import got
from graphkit_checkpoint.conformance.store.lab import StoreLab, keys, through
from graphkit_checkpoint.conformance.suite import Chapter
from graphkit_checkpoint.conformance.verdicts import PATIENCE, equal, eventually, refused, that
from graphkit_checkpoint.errors import CheckpointCorruptError, StorageUnavailableError
from graphkit_checkpoint.store.base import GetOp, PutOp

ttl: Chapter[StoreLab] = Chapter(Capability.TTL)
writers: Chapter[StoreLab] = Chapter(Capability.WRITERS)
doors: Chapter[StoreLab] = Chapter(Capability.DOORS)
off_loop: Chapter[StoreLab] = Chapter(Capability.OFF_LOOP)
closing: Chapter[StoreLab] = Chapter(Capability.CLOSING)
objects: Chapter[StoreLab] = Chapter(Capability.OBJECTS)
reopening: Chapter[StoreLab] = Chapter(Capability.REOPENING)
corruption: Chapter[StoreLab] = Chapter(Capability.CORRUPTION)

SHORT = 0.0005
"""Minutes: 30 ms."""


def await_end(store: Any, namespace: tuple[str, ...], key: str) -> None:
    eventually(lambda: store.get(namespace, key, refresh_ttl=False) is None, "the item has not expired")


@ttl
def expires(lab: StoreLab) -> None:
    """An item whose time has passed is gone for every read; one that has none, or more, stays."""
    namespace = lab.namespace()
    lab.store.put(namespace, "short", {}, ttl=SHORT)
    lab.store.put(namespace, "long", {}, ttl=1000)
    lab.store.put(namespace, "ever", {}, ttl=None)
    lab.store.put((*namespace, "below"), "short", {}, ttl=SHORT)
    await_end(lab.store, namespace, "short")
    await_end(lab.store, (*namespace, "below"), "short")
    equal(sorted(keys(lab.store.search(namespace))), ["ever", "long"])
    equal(lab.store.list_namespaces(prefix=namespace), [namespace])
    equal(lab.store.batch([GetOp(namespace, "short")]), [None])


@ttl
def put_again(lab: StoreLab) -> None:
    """A value that is put again has the time of that put."""
    namespace = lab.namespace()
    lab.store.put(namespace, "k", {}, ttl=1000)
    lab.store.put(namespace, "k", {"x": 1}, ttl=SHORT)
    lab.store.put(namespace, "l", {}, ttl=SHORT)
    lab.store.put(namespace, "l", {"x": 1}, ttl=1000)
    await_end(lab.store, namespace, "k")
    equal(keys(lab.store.search(namespace)), ["l"])


@ttl
def made_anew(lab: StoreLab) -> None:
    """An item that is put after it has expired is a new one."""
    namespace = lab.namespace()
    lab.store.put(namespace, "k", {}, ttl=SHORT)
    first = lab.store.get(namespace, "k", refresh_ttl=False)
    await_end(lab.store, namespace, "k")
    lab.store.put(namespace, "k", {"x": 1}, ttl=None)
    second = got(lab.store, namespace, "k")
    equal(second.value, {"x": 1})
    that(first is None or second.created_at > first.created_at, "it is as old as the expired one")


@ttl
def of_the_store(lab: StoreLab) -> None:
    """The store's default holds for items that say nothing else."""
    store, namespace = lab.open(ttl={"default_ttl": SHORT}), lab.namespace()
    store.put(namespace, "default", {})
    store.put(namespace, "ever", {}, ttl=None)
    await_end(store, namespace, "default")
    equal(keys(store.search(namespace)), ["ever"])


@ttl
def refreshed(lab: StoreLab) -> None:
    """An item that is read more often than its time is long does not expire."""
    store, namespace = lab.open(), lab.namespace()
    store.put(namespace, "read", {}, ttl=0.02)
    for number in range(3):
        store.put(namespace, f"witness {number}", {}, ttl=0.01)
        eventually(
            partial(_outlives, store, namespace, f"witness {number}"),
            "the witness has not expired, or the item that is read has",
        )
    that(store.get(namespace, "read") is not None, "it has expired")


def _outlives(store: Any, namespace: tuple[str, ...], witness: str) -> bool:
    """Whether the item that is read here is still there when the witness, which is not, has expired."""
    is_there = store.get(namespace, "read") is not None
    return is_there and store.get(namespace, witness, refresh_ttl=False) is None


@ttl
def swept(lab: StoreLab) -> None:
    """`sweep_ttl` removes what has expired, counts it, and leaves the rest."""
    store, namespace = lab.open(), lab.namespace()
    store.sweep_ttl()
    for number in range(3):
        store.put(namespace, str(number), {}, ttl=SHORT)
    store.put(namespace, "ever", {})
    for number in range(3):
        await_end(store, namespace, str(number))
    equal((store.sweep_ttl(), store.sweep_ttl()), (3, 0), "items removed")
    equal(keys(store.search(namespace)), ["ever"])


@ttl
def bad_times(lab: StoreLab) -> None:
    """A time that is no number above 0 is a ValueError."""
    namespace = lab.namespace()
    for bad in (0, -1, float("nan"), True, "1"):
        with refused(ValueError):
            lab.store.put(namespace, "k", {}, ttl=bad)  # type: ignore[arg-type]
    equal(lab.store.search(namespace), [])


# Several writers


@writers
def threads(lab: StoreLab) -> None:
    """Threads that write at once lose nothing."""
    namespace = lab.namespace()

    def write(writer: int) -> None:
        store = lab.other()
        for number in range(20):
            store.put((*namespace, str(writer)), str(number), {"n": number})
            store.put(namespace, "shared", {"writer": writer})

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(write, writer) for writer in range(4)]:
            future.result(PATIENCE)
    equal(len(lab.store.search(namespace, limit=1000)), 81, "items")


@writers
def whole_batches(lab: StoreLab) -> None:
    """Who reads while others write sees whole batches, never part of one."""
    namespace, done = lab.namespace(), threading.Event()

    def write(writer: int) -> None:
        store = lab.other()
        try:
            for number in range(25):
                store.batch([PutOp(namespace, key, {"by": (writer, number)}) for key in "abc"])
        finally:
            done.set()

    def read() -> None:
        store = lab.other()
        while not done.is_set():
            for found in (store.search(namespace), store.batch([GetOp(namespace, key) for key in "abc"])):
                seen = {item.value["by"] for item in found if item is not None}
                that(len(seen) <= 1, f"one read shows {seen}")

    with ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(read), *(pool.submit(write, writer) for writer in range(2))]
        for future in calls:
            future.result(PATIENCE)


# Async doors


@doors
def all_calls(lab: StoreLab) -> None:
    """The async calls do what the sync ones do."""
    namespace = lab.namespace()

    async def work() -> None:
        store = lab.store
        await store.aput(namespace, "k", {"x": (1,)})
        await store.aput(namespace, "l", {"x": 2})
        found = await store.aget(namespace, "k")
        equal(found and found.value, {"x": (1,)}, "aget()")
        equal(keys(await store.asearch(namespace, filter={"x": 2})), ["l"], "asearch()")
        equal(await store.alist_namespaces(prefix=namespace), [namespace], "alist_namespaces()")
        await store.adelete(namespace, "k")
        equal(await store.abatch([GetOp(namespace, "k")]), [None], "abatch()")

    through(work())
    equal(keys(lab.other().search(namespace)), ["l"])


@doors
def order_of_calls(lab: StoreLab) -> None:
    """Calls that are begun together are served in their order."""
    namespace = lab.namespace()

    async def work() -> None:
        begun = []
        for number in range(20):
            begun.append(asyncio.ensure_future(lab.store.aput(namespace, "k", {"n": number})))
            await asyncio.sleep(0)
        await asyncio.gather(*begun)

    through(work())
    equal(got(lab.store, namespace, "k").value, {"n": 19})


@doors
def values_of_the_call(lab: StoreLab) -> None:
    """`aput` stores the value as it was when it was called."""
    namespace, value = lab.namespace(), {"list": [1]}

    async def work() -> None:
        begun = asyncio.ensure_future(lab.store.aput(namespace, "k", value))
        await asyncio.sleep(0)
        value["list"].append(2)
        await begun

    through(work())
    equal(got(lab.store, namespace, "k").value, {"list": [1]})


@doors
def errors(lab: StoreLab) -> None:
    """Errors come through the async doors as they are."""

    async def work() -> None:
        with refused(ValueError):
            await lab.store.aput(("a.b",), "k", {})
        with refused(TypeError):
            await lab.store.aput(lab.namespace(), "k", None)  # type: ignore[arg-type]

    through(work())


@doors
def one_loop_after_the_other(lab: StoreLab) -> None:
    """One store serves one event loop after the other."""
    namespace = lab.namespace()
    for number in range(3):
        through(lab.store.aput(namespace, "k", {"n": number}))
        found = through(lab.store.aget(namespace, "k"))
        equal(found.value, {"n": number})


CALLS: Mapping[str, Callable[[Any, tuple[str, ...]], Any]] = {
    "writing": lambda store, namespace: store.aput(namespace, "k", {}),
    "reading": lambda store, namespace: store.aget(namespace, "k"),
    "searching": lambda store, namespace: store.asearch(namespace),
}


@off_loop.each(CALLS)
def loop_turns(lab: StoreLab, call: Callable[[Any, tuple[str, ...]], Any]) -> None:
    """The event loop turns while the store works: {case}."""
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def work() -> None:
        turning = asyncio.ensure_future(turn())
        await asyncio.sleep(0)
        before = turns
        await call(lab.store, lab.namespace())
        that(turns > before, "the event loop did not turn")
        turning.cancel()

    through(work())


# Closing, several objects, reopening


@closing
def used_after_closing(lab: StoreLab) -> None:
    """A store that was closed says so, and may be closed again."""
    store = lab.open()
    store.close()
    store.close()
    with refused(StorageUnavailableError, "closed"):
        store.get(("a",), "k")
    with refused(StorageUnavailableError, "closed"):
        store.put(("a",), "k", {})
    with refused(StorageUnavailableError, "closed"):
        store.search(())


@closing
def async_use_after_closing(lab: StoreLab) -> None:
    """A store that was closed says so through its async doors."""
    for used in (False, True):
        store = lab.open()
        if used:
            through(store.aget(("a",), "k"))
        store.close()
        with refused(StorageUnavailableError, "closed"):
            through(store.aget(("a",), "k"))


@objects
def seen_at_once(lab: StoreLab) -> None:
    """What is put or deleted through one object is so for the other at once."""
    one, other, namespace = lab.open(), lab.open(), lab.namespace()
    for number in range(5):
        one.put(namespace, "k", {"n": number})
        equal(got(other, namespace, "k").value, {"n": number})
    other.delete(namespace, "k")
    equal(one.get(namespace, "k"), None)
    one.close()
    other.put(namespace, "k", {})


@reopening
def read_again(lab: StoreLab) -> None:
    """What was put is found by a store that is opened when the first one was closed."""
    first, namespace = lab.open(), lab.namespace()
    first.put(namespace, "k", {"x": ("\0", 1.5)})
    item = got(first, namespace, "k")
    first.close()
    equal(got(lab.open(), namespace, "k"), item)


# Damage


def flipped(body: bytes, index: int) -> bytes:
    damaged = bytearray(body)
    damaged[index] ^= 1
    return bytes(damaged)


DAMAGES: Mapping[str, Callable[[Any], Any]] = {
    "its first byte": lambda row: row._replace(body=flipped(row.body, 0)),
    "its last byte": lambda row: row._replace(body=flipped(row.body, -1)),
    "its length": lambda row: row._replace(body=row.body[:-1]),
    "its checksum": lambda row: row._replace(checksum=row.checksum ^ 1),
    "the time of its making": lambda row: row._replace(created_at=row.created_at + 1),
    "its key": lambda row: row._replace(key=b"other"),
    "all of its body": lambda row: row._replace(body=b"\x80"),
}


@corruption.each(DAMAGES)
def damaged(lab: StoreLab, change: Callable[[Any], Any]) -> None:
    """A damaged item is noticed, never shown, and can be put again: {case}."""
    namespace = lab.namespace()
    lab.store.put(namespace, "k", {"x": "value"})
    lab.store.put((*namespace, "below"), "good", {})
    lab.damage(lab.store, namespace, "k", change)
    key = "k" if _is_there(lab, namespace, "k") else "other"
    with refused(CheckpointCorruptError, key):
        lab.store.get(namespace, key)
    with refused(CheckpointCorruptError, key):
        lab.other().search(namespace)
    equal(keys(lab.store.search((*namespace, "below"))), ["good"])
    lab.store.put(namespace, key, {"x": "new"})
    equal(got(lab.store, namespace, key).value, {"x": "new"})


def _is_there(lab: StoreLab, namespace: tuple[str, ...], key: str) -> bool:
    try:
        return lab.store.get(namespace, key) is not None
    except CheckpointCorruptError:
        return True
