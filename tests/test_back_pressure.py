"""A consumer that is slower than the nodes (L24): they wait; nothing is left when it stops; nothing comes late."""

import asyncio
import contextlib
import contextvars
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from graphkit.config import get_stream_writer
from graphkit.drivers import aio, errand, sync
from graphkit.drivers.buffer import ROOM
from graphkit.drivers.pools import NodePool
from graphkit.types import RunnableConfig
from tests.conftest import EMPTY, Build, Runner, State, graph_of

MANY = 3 * ROOM


class Flood:
    """A node that writes MANY values as fast as it can."""

    def __init__(self) -> None:
        self.written = 0
        self.ended = threading.Event()
        self.changed = threading.Condition()

    def __call__(self, state: State) -> State:
        writer = get_stream_writer()
        try:
            for number in range(MANY):
                writer(number)
                with self.changed:
                    self.written = number + 1
                    self.changed.notify_all()
        finally:
            self.ended.set()
        return EMPTY

    def wait_until_written(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.written >= count, 20)


@pytest.mark.parametrize("nested", [False, True])
def test_a_node_in_a_thread_is_never_far_ahead_of_its_consumer(nested: bool) -> None:
    flood = Flood()
    graph = graph_of({"outer": graph_of({"flood": flood})} if nested else {"flood": flood})
    ahead = []
    for read, chunk in enumerate(graph.stream(EMPTY, stream_mode="custom", subgraphs=nested), 1):
        assert (chunk[1] if nested else chunk) == read - 1
        if read == 1:
            flood.wait_until_written(ROOM)
        ahead.append(flood.written - read)
    assert len(ahead) == MANY
    assert max(ahead) <= ROOM


def test_a_node_in_a_thread_waits_for_an_async_consumer() -> None:
    flood = Flood()

    async def consume() -> list[int]:
        ahead = []
        read = 0
        async for _ in graph_of({"flood": flood}).astream(EMPTY, stream_mode="custom"):
            read += 1
            if read == 1:
                await asyncio.to_thread(flood.wait_until_written, ROOM)
            ahead.append(flood.written - read)
        return ahead

    ahead = asyncio.run(consume())
    assert len(ahead) == MANY
    assert max(ahead) <= ROOM


def test_a_coroutine_never_stops_its_loop(runner: Runner) -> None:
    async def flood(state: State) -> State:
        for number in range(MANY):
            get_stream_writer()(number)
        return EMPTY

    assert runner.stream(graph_of({"flood": flood}), EMPTY, stream_mode="custom") == list(range(MANY))


def test_a_writer_may_be_used_where_the_stream_is_read() -> None:
    """In the consumer's own thread nobody could make room."""
    go_on = threading.Event()

    def node(state: State) -> State:
        writer = get_stream_writer()
        writer(writer)
        assert go_on.wait(20)
        return EMPTY

    stream = graph_of({"node": node}).stream(EMPTY, stream_mode="custom")
    write = next(stream)
    for number in range(MANY):
        write(number)
    go_on.set()
    assert list(stream) == list(range(MANY))


def stop_sync(graph: Any, config: RunnableConfig) -> None:
    with contextlib.closing(graph.stream(EMPTY, config, stream_mode="custom")) as stream:
        next(stream)


def stop_async(graph: Any, config: RunnableConfig) -> None:
    async def stop() -> None:
        stream = graph.astream(EMPTY, config, stream_mode="custom")
        async with contextlib.aclosing(stream):
            await anext(stream)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(stop())


def drop_async(graph: Any, config: RunnableConfig) -> None:
    async def drop() -> None:
        async for _ in graph.astream(EMPTY, config, stream_mode="custom"):
            break

    asyncio.run(drop())


STOPS: dict[str, Callable[[Any, RunnableConfig], None]] = {
    "sync": stop_sync,
    "async": stop_async,
    "dropped": drop_async,
}


@pytest.mark.parametrize("stop", STOPS.values(), ids=STOPS)
@pytest.mark.parametrize("stored", [False, True])
def test_a_node_that_waits_is_released_when_the_consumer_stops(
    build: Build, config: RunnableConfig, stop: Callable[[Any, RunnableConfig], None], stored: bool
) -> None:
    flood = Flood()
    graph = (build if stored else graph_of)({"flood": flood})
    stop(graph, config)
    assert flood.ended.wait(20)
    if stored:
        assert graph.invoke(None, config) == EMPTY


def test_a_node_that_waits_is_released_when_the_run_ends_by_an_error(runner: Runner) -> None:
    began = threading.Event()
    flood = Flood()

    def fails(state: State) -> State:
        flood.wait_until_written(1)
        began.set()
        raise ValueError("broken")

    graph = graph_of({"flood": flood, "fails": fails})
    with pytest.raises(ValueError, match="broken"):
        runner.stream(graph, EMPTY, stream_mode="custom")
    assert flood.ended.wait(20)


# What comes too late


def test_what_an_attempt_writes_after_its_timeout_never_appears(runner: Runner) -> None:
    over = threading.Event()
    written = threading.Event()

    def slow(state: State) -> State:
        writer = get_stream_writer()
        writer("in time")
        assert over.wait(20)
        writer("late")
        written.set()
        return {"log": ["late"]}

    def handler(state: State, error: Any) -> State:
        over.set()
        assert written.wait(20)
        return {"log": ["handled"]}

    def following(state: State) -> State:
        return {"log": ["next"]}

    options = {"slow": {"timeout": 0.05, "error_handler": handler}}
    graph = graph_of(
        {"slow": slow, "following": following},
        [("__start__", "slow"), ("slow", "following")],
        node_options=options,
    )
    chunks = runner.stream(graph, EMPTY, stream_mode=["custom", "updates"])
    assert chunks == [
        ("custom", "in time"),
        ("updates", {"slow": {"log": ["handled"]}}),
        ("updates", {"following": {"log": ["next"]}}),
    ]


def test_what_a_nested_run_shows_after_the_timeout_around_it_never_appears(runner: Runner) -> None:
    over = threading.Event()
    written = threading.Event()

    def slow(state: State) -> State:
        assert over.wait(20)
        get_stream_writer()("late")
        written.set()
        return {"log": ["late"]}

    def handler(state: State, error: Any) -> State:
        over.set()
        assert written.wait(20)
        return {"log": ["handled"]}

    options = {"outer": {"timeout": 0.05, "error_handler": handler}}
    graph = graph_of({"outer": graph_of({"slow": slow})}, node_options=options)
    chunks = runner.stream(graph, EMPTY, stream_mode=["custom", "updates"], subgraphs=True)
    assert chunks == [((), "updates", {"outer": {"log": ["handled"]}})]


def test_a_writer_that_is_kept_is_harmless_after_the_run(runner: Runner) -> None:
    kept: list[Any] = []

    def node(state: State) -> State:
        kept.append(get_stream_writer())
        return EMPTY

    assert runner.stream(graph_of({"node": node}), EMPTY, stream_mode="custom") == []
    for _ in range(MANY):
        kept[0]("late")


# Threads


def test_work_that_comes_one_by_one_needs_one_thread() -> None:
    """Whoever has a result finds its thread idle."""
    pool, threads, done = NodePool(32, "test"), set[int](), threading.Event()

    def work(left: int) -> int:
        threads.add(threading.get_ident())
        return left

    def following(future: Future[int]) -> None:
        left = future.result() - 1
        if left:
            pool.submit(work, left).add_done_callback(following)
        else:
            done.set()

    pool.submit(work, 50).add_done_callback(following)
    assert done.wait(20)
    assert len(threads) == 1
    barrier = threading.Barrier(32)
    assert len({future.result() for future in [pool.submit(barrier.wait, 20) for _ in range(32)]}) == 32


def test_what_comes_first_is_begun_first_though_threads_have_to_be_started() -> None:
    """Nobody waits for a thread to start with work in hand that others overtake."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(20)  # a thread goes on until it waits
    try:
        for _ in range(5):
            pool, begun = NodePool(32, "test"), list[int]()
            for future in [pool.submit(begun.append, number) for number in range(5)]:
                future.result(20)
            assert begun == list(range(5))
    finally:
        sys.setswitchinterval(interval)


def test_in_a_queue_each_begins_when_the_one_before_has_begun_or_ended(monkeypatch: Any) -> None:
    attempts: list[Any] = [
        SimpleNamespace(name=name, begun=None, context=None, scope=SimpleNamespace(depth=0))
        for name in "abcd"
    ]
    here: queue.SimpleQueue[str] = queue.SimpleQueue()
    ended: queue.SimpleQueue[str] = queue.SimpleQueue()
    go_on = {name: threading.Event() for name in "abcd"}

    def execute(attempt: Any) -> Any:
        here.put(attempt.name)
        assert go_on[attempt.name].wait(20)
        return attempt

    monkeypatch.setattr(errand, "execute", execute)
    around = contextvars.copy_context()

    def tell(told: Any) -> None:
        ended.put(told[0].name)

    errands = [errand.Errand(one, around, tell) for one in attempts]
    errand.Errand.queue(errands)
    assert here.get(timeout=20) == "a" and here.empty()
    assert errands[2].cancel()
    attempts[0].begun()
    assert here.get(timeout=20) == "b"  # beside the first
    go_on["b"].set()
    assert ended.get(timeout=20) == "b"
    assert here.get(timeout=20) == "d"
    go_on["a"].set()
    go_on["d"].set()
    assert {ended.get(timeout=20), ended.get(timeout=20)} == {"a", "d"}
    assert [one.begun for one in attempts] == [None] * 4


def test_an_interrupt_while_a_thread_starts_does_not_end_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = NodePool(1, "test")

    def interrupted(thread: threading.Thread) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pool.submit(int)
    assert pool.submit(int, 1).result(20) == 1


def test_work_that_no_thread_can_be_started_for_fails_or_waits_for_those_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool, start = NodePool(32, "test"), threading.Thread.start
    free = False

    def start_if_any_is_left(thread: threading.Thread) -> None:
        if not free:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_if_any_is_left)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        pool.submit(int).result(20)
    free = True
    held, go_on = threading.Event(), threading.Event()

    def hold() -> bool:
        held.set()
        return go_on.wait(20)

    first = pool.submit(hold)
    assert held.wait(20)
    free = False
    others = [pool.submit(int, number) for number in range(3)]
    go_on.set()
    assert first.result(20)
    assert [future.result(20) for future in others] == [0, 1, 2]
    free = True
    barrier = threading.Barrier(3)
    assert len({future.result(20) for future in [pool.submit(barrier.wait, 20) for _ in range(3)]}) == 3


FORKING = """
import os, signal, threading, warnings
from graphkit.drivers import loops, pools
warnings.simplefilter("ignore", DeprecationWarning)  # forking is what is tried here
forking, held = threading.Event(), threading.Event()
os.register_at_fork(before=forking.set)
def hold():
    with pools._lock, loops._lock:
        held.set()
        forking.wait()
threading.Thread(target=hold).start()
held.wait()
child = os.fork()
async def node():
    return "node"
if child == 0:
    signal.alarm(20)
    there = pools.pool_at(0).submit(str, "work").result(), loops.run_in_standing_loop(node(), 0)
    os._exit(0 if there == ("work", "node") else 1)
print(os.waitpid(child, 0)[1])
"""


def test_a_child_that_is_forked_while_a_pool_is_made_has_pools_of_its_own() -> None:
    command = [sys.executable, "-c", FORKING]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert (ran.stdout, ran.stderr) == ("0\n", "")


# Time


@pytest.mark.parametrize("module", [sync, aio], ids=["sync", "async"])
def test_the_time_that_a_consumer_takes_is_not_that_of_a_node(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType
) -> None:
    """The node has ended in time; its consumer reads what it wrote an hour later."""
    late = 0.0
    clock = SimpleNamespace(time=time.time, monotonic=lambda: time.monotonic() + late)
    monkeypatch.setattr(module, "time", clock)

    def node(state: State) -> State:
        for number in range(3):
            get_stream_writer()(number)
        return {"log": ["done"]}

    modes = ["custom", "updates"]
    graph = graph_of({"node": node}, node_options={"node": {"timeout": 20}})
    shown = []

    async def read() -> None:
        nonlocal late
        async for chunk in graph.astream(EMPTY, stream_mode=modes):
            shown.append(chunk)
            late += 3600

    if module is aio:
        asyncio.run(read())
    else:
        for chunk in graph.stream(EMPTY, stream_mode=modes):
            shown.append(chunk)
            late += 3600
    assert shown == [*(("custom", n) for n in range(3)), ("updates", {"node": {"log": ["done"]}})]
