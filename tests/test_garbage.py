"""A run that has ended leaves nothing to the garbage collector: what it held goes at once, with its last reference."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from graphkit import START, Command, Send, interrupt
from graphkit.types import RunnableConfig
from tests.conftest import EMPTY, Build, Runner, State, graph_of, says

TRIES = 5
"""What a run leaves it leaves every time; what a thread of some other test lets go of meanwhile comes once."""


@pytest.fixture(scope="module", autouse=True)
def old_things() -> None:
    """What other tests have made and imported is looked through no more: each test here collects several times."""
    gc.collect()
    gc.freeze()


def left_by(act: Callable[[], Any]) -> Counter[str]:
    """Our objects that only the garbage collector finds after this."""
    act()
    act()  # what is made once, for a new thread or an old one, stays
    found: Counter[str] = Counter()
    for _ in range(TRIES):
        gc.collect()
        gc.disable()
        try:
            act()
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            kinds = [type(thing) for thing in gc.garbage]
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
        found = Counter(kind.__qualname__ for kind in kinds if kind.__module__.startswith("graphkit"))
        if not found:
            break
    return found


def plan(state: State) -> Command[Any]:
    return Command(goto=[Send("work", number) for number in range(20)])


def work(number: int) -> State:
    return {"log": [number]}


async def later(state: State) -> State:
    return {"log": ["later"]}


def asks(state: State) -> State:
    return {"log": [interrupt("?")]}


NODES: dict[str, dict[str, Any]] = {
    "brief": {"nodes": {"a": says("a"), "b": says("b")}},
    "coroutine": {"nodes": {"later": later}},
    "nested": {"nodes": {"graph": graph_of({"a": says("a")})}},
    "fan-out": {
        "nodes": {"plan": plan, "work": work},
        "edges": [(START, "plan")],
        "node_options": {"plan": {"destinations": ("work",)}},
    },
}


@pytest.mark.parametrize("graph", NODES)
def test_a_run(runner: Runner, graph: str) -> None:
    app = graph_of(**NODES[graph])
    assert not left_by(lambda: runner.invoke(app, EMPTY))


def test_a_run_that_is_stored(runner: Runner, build: Build, config: RunnableConfig) -> None:
    app = build(**NODES["fan-out"])
    assert not left_by(lambda: runner.invoke(app, EMPTY, config))


def test_a_stream(runner: Runner, build: Build, config: RunnableConfig) -> None:
    app = build(**NODES["brief"])
    modes = ["values", "updates", "tasks", "checkpoints", "custom", "messages", "debug"]
    assert not left_by(lambda: runner.stream(app, EMPTY, config, stream_mode=modes))


def test_a_question_and_its_answer(runner: Runner, build: Build, config: RunnableConfig) -> None:
    app = build({"asks": asks})

    def act() -> None:
        runner.invoke(app, EMPTY, config)
        runner.invoke(app, Command(resume="yes"), config)

    assert not left_by(act)
