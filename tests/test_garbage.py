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


def left_by(act: Callable[[], Any]) -> Counter[str]:
    """Our objects that only the garbage collector finds after this."""
    act()
    act()  # what is made once, for a new thread or an old one, stays
    gc.collect()
    gc.disable()
    try:
        act()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found = [type(thing) for thing in gc.garbage]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    return Counter(each.__qualname__ for each in found if each.__module__.startswith("graphkit"))


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


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("graph", NODES)
def test_a_run(runner: Runner, build: Build, config: RunnableConfig, graph: str, stored: bool) -> None:
    app = (build if stored else graph_of)(**NODES[graph])
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
