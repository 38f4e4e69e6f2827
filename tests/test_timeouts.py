"""Timeouts of attempts: what bounds them, what refreshes them, and what becomes of what comes too late.

Where a test is about time passing, the drivers read a `Clock` that only the test moves.
"""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from graphkit import Command, Send, StateGraph, entrypoint, interrupt, task
from graphkit.errors import NodeTimeoutError
from graphkit.graph import START
from graphkit.runtime import Runtime, get_runtime
from graphkit.types import RetryPolicy, RunnableConfig, TimeoutPolicy
from tests.conftest import EMPTY, Runner, Saver, State, graph_of, says

PATIENCE = 20.0
HOUR = 3600.0
SOON = 0.02
"""A timeout that a test waits for."""


class Clock:
    """The drivers' clock, moved by hand. Nodes see how often it was read, and so that the kernel looked."""

    def __init__(self) -> None:
        self.now = 0.0
        self.reads = 0
        self.read = threading.Condition()

    def time(self) -> float:
        return 1e9 + self.now

    def monotonic(self) -> float:
        with self.read:
            self.reads += 1
            self.read.notify_all()
            return self.now

    def pass_by(self, seconds: float) -> None:
        with self.read:
            self.now += seconds
            self.reads = 0

    def wait_for_reads(self, count: int) -> None:
        """2: the kernel has taken in a sign of progress. 4: and has then looked for timeouts."""
        with self.read:
            assert self.read.wait_for(lambda: self.reads >= count, PATIENCE), (
                f"the clock was read {self.reads}x"
            )


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for driver in ("sync", "aio"):
        monkeypatch.setattr(f"graphkit.drivers.{driver}.time", clock)
    return clock


@pytest.fixture
def never() -> Iterator[Callable[[State], State]]:
    """A blocking node that ends with the test."""
    ended = threading.Event()

    def never(state: State) -> State:
        ended.wait()
        return {"log": ["late"]}

    yield never
    ended.set()


async def anever(state: State) -> State:
    await asyncio.Event().wait()
    return {"log": ["late"]}


def alone(node: Callable[..., Any], saver: Saver = None, **options: Any) -> Any:
    return graph_of({"node": node}, saver=saver, node_options={"node": options})


# The policy


def test_a_number_is_a_run_timeout() -> None:
    seconds, delta = TimeoutPolicy.coerce(5), TimeoutPolicy.coerce(timedelta(seconds=5))
    assert seconds == delta == TimeoutPolicy(run_timeout=5.0)
    assert TimeoutPolicy.coerce(TimeoutPolicy(idle_timeout=timedelta(minutes=1))) == TimeoutPolicy(
        idle_timeout=60.0
    )
    assert TimeoutPolicy.coerce(None) is None
    assert TimeoutPolicy.coerce(TimeoutPolicy()) is None


@pytest.mark.parametrize(
    "bad",
    [0, -1, True, "5", timedelta(0), TimeoutPolicy(idle_timeout=0), TimeoutPolicy(run_timeout=-1)],
)
def test_a_timeout_that_is_none_is_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match="positive number of seconds"):
        StateGraph(State).add_node("node", says("x"), timeout=bad)
    with pytest.raises(ValueError, match="positive number of seconds"):
        Send("node", 1, timeout=bad)


def test_an_unknown_refresh_is_refused() -> None:
    with pytest.raises(ValueError, match="'auto' or 'heartbeat'"):
        TimeoutPolicy.coerce(TimeoutPolicy(idle_timeout=1, refresh_on="never"))  # type: ignore[arg-type]


# What the error says


@pytest.mark.parametrize("kind", ["run", "idle"])
@pytest.mark.parametrize("blocking", [True, False])
def test_a_timeout_says_which_limit_of_which_node(
    runner: Runner, never: Callable[[State], State], blocking: bool, kind: str
) -> None:
    policy = (
        TimeoutPolicy(run_timeout=SOON, idle_timeout=HOUR)
        if kind == "run"
        else TimeoutPolicy(run_timeout=HOUR, idle_timeout=SOON)
    )
    with pytest.raises(NodeTimeoutError, match=f"'node'.*{kind}_timeout") as caught:
        runner.invoke(alone(never if blocking else anever, timeout=policy), EMPTY)
    error = caught.value
    assert (error.node, error.kind, error.timeout) == ("node", kind, SOON)
    assert (error.run_timeout, error.idle_timeout) == (policy.run_timeout, policy.idle_timeout)
    assert error.elapsed >= SOON


def test_the_run_timeout_comes_first_if_both_are_over(runner: Runner) -> None:
    with pytest.raises(NodeTimeoutError) as caught:
        runner.invoke(alone(anever, timeout=TimeoutPolicy(run_timeout=SOON, idle_timeout=SOON)), EMPTY)
    assert caught.value.kind == "run"


def test_a_timeout_error_survives_pickling() -> None:
    error = NodeTimeoutError("node", 1.5, kind="idle", idle_timeout=1.0)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (NodeTimeoutError, str(error), vars(error))


# Idle


def beats(runtime: Runtime[Any]) -> None:
    runtime.heartbeat()


def writes(runtime: Runtime[Any]) -> None:
    runtime.stream_writer("still here")


@pytest.mark.parametrize("sign", [beats, writes])
@pytest.mark.parametrize("listened", [True, False])
def test_what_a_node_shows_refreshes_its_idle_timeout(
    runner: Runner, clock: Clock, sign: Callable[[Runtime[Any]], None], listened: bool
) -> None:
    def node(state: State, runtime: Runtime[Any]) -> State:
        clock.pass_by(0.9 * HOUR)
        sign(runtime)
        clock.wait_for_reads(2)
        clock.pass_by(0.9 * HOUR)
        sign(runtime)
        clock.wait_for_reads(4)
        return {"log": ["in time"]}

    graph = alone(node, timeout=TimeoutPolicy(idle_timeout=HOUR))
    mode = "custom" if listened else "updates"
    chunks = runner.stream(graph, EMPTY, stream_mode=[mode, "values"])
    assert chunks[-1] == ("values", {"log": ["in time"]})


def test_a_node_that_shows_nothing_is_idle(runner: Runner, clock: Clock) -> None:
    passed, ended = threading.Event(), threading.Event()

    def node(state: State, runtime: Runtime[Any]) -> State:
        clock.pass_by(0.9 * HOUR)
        runtime.heartbeat()
        clock.wait_for_reads(2)
        clock.pass_by(1.1 * HOUR)
        passed.set()
        ended.wait()
        return {}

    def sibling(state: State) -> State:
        passed.wait()
        return {}

    options = {"node": {"timeout": TimeoutPolicy(idle_timeout=HOUR)}}
    try:
        with pytest.raises(NodeTimeoutError) as caught:
            runner.invoke(graph_of({"node": node, "sibling": sibling}, node_options=options), EMPTY)
    finally:
        ended.set()
    assert (caught.value.kind, caught.value.elapsed) == ("idle", 2 * HOUR)


@pytest.mark.parametrize("refresh_on", ["auto", "heartbeat"])
def test_with_heartbeats_alone_nothing_else_refreshes(runner: Runner, clock: Clock, refresh_on: Any) -> None:
    def node(state: State, runtime: Runtime[Any]) -> State:
        clock.pass_by(0.9 * HOUR)
        runtime.heartbeat()
        clock.wait_for_reads(2)
        clock.pass_by(0.9 * HOUR)
        if refresh_on == "heartbeat":
            clock.pass_by(0.2 * HOUR)
        runtime.stream_writer("still here")
        passed.set()
        if refresh_on == "heartbeat":
            ended.wait()
        else:
            clock.wait_for_reads(4)
        return {"log": ["in time"]}

    def sibling(state: State) -> State:
        passed.wait()
        return {}

    passed, ended = threading.Event(), threading.Event()
    policy = TimeoutPolicy(idle_timeout=HOUR, refresh_on=refresh_on)
    graph = graph_of({"node": node, "sibling": sibling}, node_options={"node": {"timeout": policy}})
    try:
        if refresh_on == "heartbeat":
            with pytest.raises(NodeTimeoutError):
                runner.invoke(graph, EMPTY)
        else:
            assert runner.invoke(graph, EMPTY)["log"] == ["in time"]
    finally:
        ended.set()


def test_steps_of_a_nested_graph_refresh(runner: Runner, clock: Clock) -> None:
    def first(state: State) -> State:
        clock.pass_by(0.9 * HOUR)
        return {"log": ["first"]}

    def second(state: State) -> State:
        clock.wait_for_reads(2)
        clock.pass_by(0.9 * HOUR)
        return {"log": ["second"]}

    def node(state: State) -> Any:
        result = child.invoke(EMPTY)
        clock.wait_for_reads(4)
        return result

    child = graph_of({"first": first, "second": second}, [(START, "first"), ("first", "second")])
    graph = alone(node, timeout=TimeoutPolicy(idle_timeout=HOUR))
    assert runner.invoke(graph, EMPTY)["log"] == ["first", "second"]


@pytest.mark.parametrize("depth", [1, 3])
def test_a_heartbeat_is_heard_by_the_timeouts_of_all_nodes_around(
    runner: Runner, clock: Clock, depth: int
) -> None:
    def beating(state: State) -> State:
        for reads in (2, 4):
            clock.pass_by(0.9 * HOUR)
            get_runtime().heartbeat()
            clock.wait_for_reads(reads)
        return {"log": ["in time"]}

    graph = alone(beating)
    for level in range(depth):
        policy = TimeoutPolicy(idle_timeout=HOUR, refresh_on="heartbeat") if level == depth - 1 else None
        graph = alone(graph, timeout=policy)
    assert runner.invoke(graph, EMPTY)["log"] == ["in time"]


@pytest.mark.parametrize("called", ["by a node", "by an entrypoint"])
def test_tasks_that_a_node_calls_refresh(runner: Runner, clock: Clock, called: str) -> None:
    @task
    def work(number: int) -> int:
        clock.pass_by(0.9 * HOUR)
        return number

    def calls(state: Any) -> Any:
        log = [work(number).result() for number in (1, 2)]
        clock.wait_for_reads(3)
        return {"log": log}

    policy = TimeoutPolicy(idle_timeout=HOUR)
    graph = alone(calls, timeout=policy) if called == "by a node" else entrypoint(timeout=policy)(calls)
    assert runner.invoke(graph, EMPTY)["log"] == [1, 2]


@pytest.mark.parametrize("depth", [1, 2])
def test_a_heartbeat_in_a_task_is_heard_by_the_timeout_of_its_caller(
    runner: Runner, clock: Clock, depth: int
) -> None:
    @task
    def beating() -> str:
        for reads in (2, 3):
            clock.pass_by(0.9 * HOUR)
            get_runtime().heartbeat()
            clock.wait_for_reads(reads)
        return "in time"

    @task
    def calls() -> str:
        return beating().result()

    def node(state: State) -> State:
        return {"log": [(beating if depth == 1 else calls)().result()]}

    graph = alone(node, timeout=TimeoutPolicy(idle_timeout=HOUR, refresh_on="heartbeat"))
    assert runner.invoke(graph, EMPTY)["log"] == ["in time"]


def test_a_run_timeout_is_not_refreshed(runner: Runner, clock: Clock) -> None:
    ended = threading.Event()

    def node(state: State, runtime: Runtime[Any]) -> State:
        clock.pass_by(0.9 * HOUR)
        runtime.heartbeat()
        clock.wait_for_reads(2)
        clock.pass_by(0.2 * HOUR)
        runtime.heartbeat()
        ended.wait()
        return {}

    policy = TimeoutPolicy(run_timeout=HOUR, idle_timeout=HOUR)
    try:
        with pytest.raises(NodeTimeoutError) as caught:
            runner.invoke(alone(node, timeout=policy), EMPTY)
    finally:
        ended.set()
    assert caught.value.kind == "run"


def test_a_heartbeat_without_a_timeout_does_nothing(runner: Runner) -> None:
    def node(state: State, runtime: Runtime[Any]) -> State:
        runtime.heartbeat()
        return {"log": ["done"]}

    assert runner.invoke(alone(node), EMPTY)["log"] == ["done"]


# What comes too late


def test_what_a_node_writes_after_its_timeout_is_not_shown(runner: Runner, clock: Clock) -> None:
    passed, out, written = threading.Event(), threading.Event(), threading.Event()

    def late(state: State, runtime: Runtime[Any]) -> State:
        runtime.stream_writer("early")
        clock.pass_by(2 * HOUR)
        passed.set()
        out.wait()
        runtime.stream_writer("late")
        written.set()
        return {"log": ["late"]}

    def handler(state: State, error: Any) -> State:
        out.set()
        written.wait(PATIENCE)
        get_runtime().stream_writer("handled")
        return {"log": ["handled"]}

    def after(state: State) -> State:
        return {"log": ["after"]}

    def beside(state: State) -> State:  # its end lets the kernel look at the time
        passed.wait()
        return {"log": ["beside"]}

    nodes: dict[str, Any] = {"late": late, "beside": beside, "after": after}
    graph = graph_of(
        nodes,
        [(START, "late"), (START, "beside"), ("late", "after")],
        node_options={"late": {"timeout": HOUR, "error_handler": handler}},
    )
    chunks = runner.stream(graph, EMPTY, stream_mode=["custom", "updates"])
    assert [chunk for mode, chunk in chunks if mode == "custom"] == ["early", "handled"]
    *of_one_superstep, last = [chunk for mode, chunk in chunks if mode == "updates"]
    assert sorted(of_one_superstep, key=str) == [
        {"beside": {"log": ["beside"]}},
        {"late": {"log": ["handled"]}},
    ]
    assert last == {"after": {"log": ["after"]}}


def test_a_flood_of_events_does_not_outlast_a_run_timeout(runner: Runner) -> None:
    stop = threading.Event()

    def restless(state: State, runtime: Runtime[Any]) -> State:
        while not stop.is_set():
            runtime.stream_writer("more")
        return {}

    try:
        with pytest.raises(NodeTimeoutError):
            runner.stream(alone(restless, timeout=SOON), EMPTY, stream_mode="custom")
    finally:
        stop.set()


# One task of its own


def test_a_send_brings_a_timeout_of_its_own(
    runner: Runner, saver: Saver, config: RunnableConfig, never: Callable[[State], State]
) -> None:
    def work(name: Any) -> State:
        return never({}) if name == "slow" else {"log": [name]}

    builder = StateGraph(State).add_node("work", work, timeout=HOUR)
    builder.add_conditional_edges(
        START, lambda state: [Send("work", "quick"), Send("work", "slow", timeout=SOON)], ["work"]
    )
    graph = builder.compile(checkpointer=saver)
    for given in (EMPTY, None):  # the second time the timeout comes from storage
        with pytest.raises(NodeTimeoutError) as caught:
            runner.invoke(graph, given, config)
        assert (caught.value.node, caught.value.timeout) == ("work", SOON)


def test_a_send_keeps_its_timeout_in_a_fork(
    runner: Runner, saver: Saver, config: RunnableConfig, never: Callable[[State], State]
) -> None:
    def first(state: State) -> Any:
        return Command(goto=[Send("work", "slow", timeout=SOON)])

    builder = (
        StateGraph(State)
        .add_node("first", first, destinations=("work",))
        .add_node("work", never)
        .add_edge(START, "first")
    )
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(NodeTimeoutError):
        runner.invoke(graph, EMPTY, config)
    fork = runner.update_state(graph, runner.get_state(graph, config).config, None, as_node="__copy__")
    with pytest.raises(NodeTimeoutError):
        runner.invoke(graph, None, fork)


def test_sends_are_equal_if_their_timeouts_are() -> None:
    assert Send("a", 1, timeout=5) == Send("a", 1, timeout=TimeoutPolicy(run_timeout=5.0))
    assert Send("a", 1, timeout=5) != Send("a", 1)
    assert repr(Send("a", 1)) == "Send(node='a', arg=1)"


# Together with the rest


def test_the_default_policy_tries_a_timed_out_node_again(runner: Runner) -> None:
    tries: list[int] = []

    async def slow_once(state: State) -> State:
        tries.append(1)
        return await anever(state) if len(tries) == 1 else {"log": ["quick"]}

    policy = RetryPolicy(initial_interval=0, jitter=False)
    graph = alone(slow_once, timeout=TimeoutPolicy(idle_timeout=SOON), retry_policy=policy)
    assert runner.invoke(graph, EMPTY)["log"] == ["quick"]


def test_a_question_is_no_idleness(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    def ask(state: State) -> State:
        return {"log": [interrupt("sure?")]}

    graph = alone(ask, saver, timeout=TimeoutPolicy(idle_timeout=HOUR))
    runner.invoke(graph, EMPTY, config)
    assert runner.invoke(graph, Command(resume="yes"), config)["log"] == ["yes"]
