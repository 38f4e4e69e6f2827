"""`Send`s to nodes that see the state, and to nodes that take them one after the other."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from graphkit import Command, Send
from graphkit.cache.memory import InMemoryCache
from graphkit.engine.program import Caching, Seen
from graphkit.types import CachePolicy, RetryPolicy, RunnableConfig
from tests.conftest import EMPTY, Reopen, Runner, Saver
from tests.engine.programs import ask, graph

SOON = RetryPolicy(initial_interval=0.001, jitter=False, retry_on=ConnectionError)


def spread(count: int) -> Any:
    def node(view: Any) -> Any:
        return Command(update={"last": "spread"}, goto=[Send("each", index) for index in range(count)])

    return node


def test_a_send_to_a_node_that_sees_the_state_brings_its_own_input_along(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    def each(seen: Seen) -> Any:
        assert isinstance(seen, Seen)
        return {"log": [(seen.view["last"], seen.view["log"], seen.arg)]}

    options = {"each": {"sees_state": True}}
    built = graph(runner, saver, {"spread": spread(2), "each": each}, first=["spread"], options=options)
    result = runner.run(built, {"log": ["in"]}, config)
    assert result.value["log"] == ["in", ("spread", ["in"], 0), ("spread", ["in"], 1)]
    sent = next(found for found in saver.history("t") if found.checkpoint.work)
    assert sent.checkpoint.work["sends"] == [Send("each", 0), Send("each", 1)]  # and nothing of the state


def test_a_task_that_sees_the_state_shows_its_own_input(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    options = {"each": {"sees_state": True}}
    nodes = {"spread": spread(1), "each": lambda seen: {"log": [seen.arg]}}
    built = graph(runner, saver, nodes, first=["spread"], options=options)
    shown = runner.stream(built, EMPTY, config, stream_mode="tasks")
    assert [part["input"] for part in shown if "input" in part and part["name"] == "each"] == [0]


def test_a_node_that_sees_the_state_gets_it_plain_without_a_send(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    built = graph(
        runner,
        saver,
        {"node": lambda view: {"log": [dict(view)]}},
        options={"node": {"sees_state": True}},
    )
    assert runner.run(built, {"last": "x"}, config).value["log"] == [{"last": "x", "log": [], "notes": {}}]


class Sequence:
    """A node whose tasks say when they begin and end; those in `asking` ask, those in `failing` fail."""

    def __init__(self, asking: Any = (), failing: Any = ()) -> None:
        self.events: list[str] = []
        self.running = 0
        self.asking, self.failing = set(asking), set(failing)
        self._lock = threading.Lock()

    def __call__(self, index: int) -> Any:
        with self._lock:
            self.running += 1
            assert self.running == 1, "two at once"
            self.events.append(f"begin {index}")
        try:
            answer = ask(f"{index}?") if index in self.asking else None
            if index in self.failing:
                raise ValueError(f"{index} failed")
            return {"log": [index if answer is None else (index, answer)]}
        finally:
            with self._lock:
                self.running -= 1
                self.events.append(f"end {index}")

    @property
    def began(self) -> list[int]:
        return [int(event.split()[1]) for event in self.events if event.startswith("begin")]


def in_order(runner: Runner, saver: Saver, each: Any, count: int = 4, **more: Any) -> Any:
    nodes = {"spread": spread(count), "each": each, **more.pop("nodes", {})}
    options = {"each": {"in_order": True, **more.pop("each_options", {})}}
    return graph(runner, saver, nodes, first=["spread"], options=options, **more)


def test_tasks_in_order_run_one_after_the_other(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    each = Sequence()
    assert runner.run(in_order(runner, saver, each), EMPTY, config).value["log"] == [0, 1, 2, 3]
    assert each.began == [0, 1, 2, 3]


def test_after_one_that_asked_none_is_started(
    runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig
) -> None:
    each = Sequence(asking={1, 2})
    asked = runner.run(in_order(runner, saver, each), EMPTY, config)
    assert [question.value for question in asked.interrupts] == ["1?"]
    assert each.began == [0, 1]
    assert asked.next == ("each", "each", "each")
    asked = runner.run(in_order(runner, reopen(saver), each), Command(resume="a"), config)
    assert [question.value for question in asked.interrupts] == ["2?"]
    assert each.began == [0, 1, 1, 2]
    before = saver.load("t").thread.epoch
    assert runner.run(in_order(runner, reopen(saver), each), None, config).next == ("each", "each")
    assert each.began == [0, 1, 1, 2]
    assert saver.load("t").thread.epoch == before  # there was nothing to do
    done = runner.run(in_order(runner, reopen(saver), each), Command(resume="b"), config)
    assert done.value["log"] == [0, (1, "a"), (2, "b"), 3]
    assert each.began == [0, 1, 1, 2, 2, 3]


def test_one_that_has_asked_before_they_were_in_order_is_not_asked_again(
    runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig
) -> None:
    tasks: list[int] = []

    def each(index: int) -> Any:
        tasks.append(index)
        return {"log": [(index, ask(f"{index}?"))]}

    beside = in_order(runner, saver, each, 3)
    beside.program.in_order = frozenset()
    asked = runner.run(beside, EMPTY, config).interrupts
    assert sorted(tasks) == [0, 1, 2]
    tasks.clear()
    first, _, last = (question.id for question in asked)
    runner.run(in_order(runner, reopen(saver), each, 3), Command(resume={first: "a", last: "c"}), config)
    assert tasks == [0]
    done = runner.run(in_order(runner, reopen(saver), each, 3), Command(resume="b"), config)
    assert tasks == [0, 1, 2]
    assert done.value["log"] == [(0, "a"), (1, "b"), (2, "c")]


def test_after_one_that_failed_none_is_started(
    runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig
) -> None:
    each = Sequence(failing={1})
    with pytest.raises(ValueError, match="1 failed"):
        runner.run(in_order(runner, saver, each), EMPTY, config)
    assert each.began == [0, 1]
    each.failing.clear()
    result = runner.run(in_order(runner, reopen(saver), each), None, config)
    assert result.value["log"] == [0, 1, 2, 3]
    assert each.began == [0, 1, 1, 2, 3]


def test_a_retry_comes_before_the_next_one(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    tries: list[int] = []

    def each(index: int) -> Any:
        tries.append(index)
        if index == 1 and tries.count(1) < 3:
            raise ConnectionError
        return {"log": [index]}

    built = in_order(runner, saver, each, each_options={"retry": (SOON,)})
    assert runner.run(built, EMPTY, config).value["log"] == [0, 1, 2, 3]
    assert tries == [0, 1, 1, 1, 2, 3]


def test_other_nodes_run_beside_those_in_order(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    each = Sequence(asking={0})
    beside = []

    def both(view: Any) -> Any:
        return Command(goto=[*(Send("each", index) for index in range(2)), "other"])

    nodes: dict[str, Any] = {"both": both, "each": each, "other": lambda view: beside.append(1)}
    options = {"each": {"in_order": True}}
    built = graph(runner, saver, nodes, first=["both"], options=options)
    assert runner.run(built, EMPTY, config).status == "interrupted"
    assert beside == [1]
    assert runner.run(built, Command(resume="x"), config).value["log"] == [(0, "x"), 1]


def test_cached_tasks_in_order_let_the_next_one_start(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    ran: list[int] = []

    def each(index: int) -> Any:
        ran.append(index)
        return {"log": [index]}

    caching = Caching(("each",), CachePolicy())
    cache = InMemoryCache()
    for turn, limit in enumerate((None, None, 1)):
        built = in_order(runner, saver, each, each_options={"cache": caching})
        built._setting.cache = cache
        given: Any = {"configurable": {"thread_id": str(turn)}, "max_concurrency": limit}
        assert runner.run(built, EMPTY, given).value["log"] == [0, 1, 2, 3]
    assert ran == [0, 1, 2, 3]
