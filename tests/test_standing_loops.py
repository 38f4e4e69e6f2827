"""The loops that stand between runs: who runs them, and what goes on when nobody calls."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from contextvars import ContextVar, copy_context
from typing import Any

import pytest

from graphkit.drivers.loops import StandingLoop

PATIENCE = 20.0


@pytest.fixture
def standing() -> StandingLoop:
    return StandingLoop()


def idle(standing: StandingLoop) -> None:
    """Call until the caller runs the loop itself: the background gives it back when it has nothing to do."""
    for _ in range(1000):
        if standing.run(where()) == threading.get_ident():
            return
    raise AssertionError("the background does not give the loop back")


async def where() -> int:
    return threading.get_ident()


def in_thread(fn: Any, *args: Any) -> tuple[threading.Thread, list[Any]]:
    came: list[Any] = []
    thread = threading.Thread(target=lambda: came.append(fn(*args)))
    thread.start()
    return thread, came


def test_a_caller_runs_the_loop_that_nobody_else_runs(standing: StandingLoop) -> None:
    idle(standing)
    thread, came = in_thread(lambda: (standing.run(where()), threading.get_ident()))
    thread.join(PATIENCE)
    (here, there) = came[0]
    assert here == there != threading.get_ident()


def test_all_calls_are_on_one_loop_with_the_context_of_the_caller(standing: StandingLoop) -> None:
    said: ContextVar[str] = ContextVar("said")
    loops = []

    async def look() -> str:
        loops.append(asyncio.get_running_loop())
        value = said.get()
        said.set("inside")
        return value

    for value in "abc":
        said.set(value)
        assert standing.run(look()) == value == said.get()
    assert set(loops) == {standing.loop}


def test_calls_of_two_threads_meet_on_the_loop(standing: StandingLoop) -> None:
    idle(standing)
    begun, event = threading.Event(), asyncio.Event()

    async def waits() -> str:
        begun.set()
        await event.wait()
        return "waited"

    async def sets() -> int:
        event.set()
        return threading.get_ident()

    thread, came = in_thread(standing.run, waits())
    assert begun.wait(PATIENCE)
    assert standing.run(sets()) == thread.ident
    thread.join(PATIENCE)
    assert came == ["waited"]


def test_a_task_that_a_call_leaves_goes_on_while_nobody_calls(standing: StandingLoop) -> None:
    idle(standing)
    done, gate = threading.Event(), asyncio.Event()
    tasks = []

    async def later() -> None:
        await gate.wait()
        for _ in range(3):
            await asyncio.sleep(0)
        done.set()

    async def leaves() -> None:
        tasks.append(asyncio.create_task(later()))

    standing.run(leaves())
    standing.loop.call_soon_threadsafe(gate.set)
    assert done.wait(PATIENCE)


def test_what_is_no_task_is_served_too(standing: StandingLoop) -> None:
    idle(standing)
    done = threading.Event()

    async def leaves() -> None:
        asyncio.get_running_loop().call_later(0, done.set)

    standing.run(leaves())
    assert done.wait(PATIENCE)


def test_callers_run_it_again_when_the_background_has_nothing_to_do(standing: StandingLoop) -> None:
    idle(standing)
    begun, gate = threading.Event(), asyncio.Event()

    async def waits() -> bool:
        begun.set()
        return await gate.wait()

    background = standing.submit(waits(), copy_context())
    assert begun.wait(PATIENCE)
    assert standing.run(where()) != threading.get_ident()
    standing.loop.call_soon_threadsafe(gate.set)
    assert background.result(PATIENCE)
    idle(standing)


class Turn:
    """A lock that tells when the background wants it, and when that has given it back."""

    def __init__(self, lock: threading.Lock) -> None:
        self.acquire, self.release = lock.acquire, lock.release
        self.wanted, self.given_back = threading.Event(), threading.Event()

    def __enter__(self) -> None:
        self.wanted.set()
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()
        self.given_back.set()


class Watched(StandingLoop):
    turn: Turn
    _turn = property(lambda self: self.turn, lambda self, lock: setattr(self, "turn", Turn(lock)))


def test_a_call_after_a_long_one_is_run_by_its_caller() -> None:
    """The background has waited for the end of the long one, and finds that the loop has not stood still."""
    standing = Watched()
    idle(standing)
    turn = standing.turn
    turn.wanted.clear()
    turn.given_back.clear()

    async def lasts() -> None:
        while not turn.wanted.is_set():
            await asyncio.sleep(0)

    standing.run(lasts())
    assert turn.given_back.wait(PATIENCE)
    assert standing.run(where()) == threading.get_ident()


def test_a_thread_with_a_loop_of_its_own_only_waits(standing: StandingLoop) -> None:
    async def calls() -> int:
        return standing.run(where())

    idle(standing)
    assert asyncio.run(calls()) != threading.get_ident()
    idle(standing)


def test_a_step_on_the_loop_cannot_wait_for_the_loop(standing: StandingLoop) -> None:
    async def calls() -> int:
        return standing.run(where())

    for _ in range(3):  # whoever runs it
        with pytest.raises(RuntimeError, match="await it"):
            standing.run(calls())
    with pytest.raises(RuntimeError, match="await it"):
        standing.submit(calls(), copy_context()).result(PATIENCE)


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, asyncio.CancelledError])
def test_what_a_coroutine_raises_is_its_callers_alone(
    standing: StandingLoop, error: type[BaseException]
) -> None:
    async def fails() -> None:
        raise error

    for _ in range(3):
        with pytest.raises(error):
            standing.run(fails())
    assert standing.run(asyncio.sleep(0, "on")) == "on"


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_cancels_the_coroutine(standing: StandingLoop) -> None:
    idle(standing)
    ended = []

    async def waits() -> None:
        signal.raise_signal(signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    with pytest.raises(KeyboardInterrupt):
        standing.run(waits())
    assert ended == [True]
    idle(standing)


class Alarm(KeyboardInterrupt):
    """Raised by a handler of signals, wherever the thread is."""


def test_a_signal_whose_handler_raises_cancels_it_too(standing: StandingLoop) -> None:
    idle(standing)
    ended = threading.Event()

    def handler(*args: object) -> None:
        raise Alarm

    async def waits() -> None:
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGUSR1)
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(Alarm):
            standing.run(waits())
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert ended.wait(PATIENCE)
    idle(standing)


LEAVING = """
import asyncio
from graphkit.drivers.loops import run_in_standing_loop
async def work():
    asyncio.create_task(asyncio.sleep(60))
for _ in range(2):
    run_in_standing_loop(asyncio.sleep(0), 0)
run_in_standing_loop(work(), 1)
"""


def test_a_process_that_has_used_them_ends_without_a_word() -> None:
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", LEAVING]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
