"""Attempts at a node: which errors are tried again, what an attempt knows of itself, how many run at once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from graphkit import Command, interrupt
from graphkit.errors import GraphkitError, NodeCancelledError, NodeTimeoutError
from graphkit.runtime import ExecutionInfo, RunControl, Runtime, get_runtime
from graphkit.types import RetryPolicy, RunnableConfig, default_retry_on
from tests.conftest import EMPTY, Build, Runner, Saver, State, graph_of, in_a_row, says

PATIENCE = 20.0


def soon(**options: Any) -> RetryPolicy:
    return RetryPolicy(initial_interval=0.001, jitter=False, **options)


def failing(*errors: Exception | None) -> tuple[Callable[[State], State], list[int]]:
    """A node that raises one error after the other, then succeeds; and the numbers of its attempts."""
    left, attempts = list(errors), list[int]()

    def node(state: State) -> State:
        attempts.append(get_runtime().attempt)
        error = left.pop(0) if left else None
        if error is not None:
            raise error
        return {"log": [f"attempt {len(attempts)}"]}

    return node, attempts


# Which errors


class Response:
    def __init__(self, status_code: int) -> None:
        self.status_code = status_code


class HTTPStatusError(Exception):
    """Like httpx's."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.response = Response(status)


class HTTPError(OSError):
    """Like that of requests, which is an error of the operating system by its base class."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.response = Response(status)


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (ConnectionError(), True),
        (ConnectionResetError(), True),
        (TimeoutError(), True),
        (NodeTimeoutError("n", 1, kind="run", run_timeout=1), True),
        (Exception(), True),
        (HTTPStatusError(503), True),
        (HTTPStatusError(404), False),
        (HTTPStatusError(429), False),
        (HTTPError(500), True),
        (HTTPError(400), False),
        (OSError(), False),
        (ValueError(), False),
        (KeyError(), False),
        (RuntimeError(), False),
        (ZeroDivisionError(), False),
        (GraphkitError(), False),
        (NodeCancelledError("n"), False),
    ],
    ids=repr,
)
def test_what_may_pass_by_itself(error: Exception, again: bool) -> None:
    assert default_retry_on(error) is again
    assert RetryPolicy().applies_to(error) is again


def test_a_policy_may_be_written_by_position_as_in_langgraph() -> None:
    assert RetryPolicy(0.1, 3.0, 5.0, 4, False, ValueError) == RetryPolicy(
        initial_interval=0.1,
        backoff_factor=3.0,
        max_interval=5.0,
        max_attempts=4,
        jitter=False,
        retry_on=ValueError,
    )


def test_each_error_is_tried_again_by_the_first_policy_that_knows_it(runner: Runner) -> None:
    node, attempts = failing(KeyError(), ValueError(), KeyError())
    policies = [soon(retry_on=KeyError, max_attempts=4), soon(retry_on=ValueError)]
    options = {"node": {"retry_policy": policies}}
    assert runner.invoke(graph_of({"node": node}, node_options=options), EMPTY)["log"] == ["attempt 4"]
    assert attempts == [1, 2, 3, 4]


def test_a_policy_counts_all_attempts_whatever_they_failed_with(runner: Runner) -> None:
    node, attempts = failing(KeyError(), ValueError("second"))
    policies = [soon(retry_on=KeyError, max_attempts=9), soon(retry_on=ValueError, max_attempts=2)]
    with pytest.raises(ValueError, match="second"):
        runner.invoke(graph_of({"node": node}, node_options={"node": {"retry_policy": policies}}), EMPTY)
    assert attempts == [1, 2]


def test_a_predicate_sees_the_error(runner: Runner) -> None:
    errors = [ValueError("busy"), ValueError("busy"), ValueError("broken")]
    node, attempts = failing(*errors)
    policy = soon(max_attempts=9, retry_on=lambda error: "busy" in str(error))
    with pytest.raises(ValueError, match="broken"):
        runner.invoke(graph_of({"node": node}, node_options={"node": {"retry_policy": policy}}), EMPTY)
    assert attempts == [1, 2, 3]


# Across attempts and runs


def test_answers_survive_retries(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    asked: list[Any] = []

    def node(state: State) -> State:
        asked.append((interrupt("first?"), interrupt("second?", name="second")))
        if len(asked) < 3:
            raise ConnectionError
        return {"log": list(asked[-1])}

    graph = graph_of({"node": node}, saver=saver, node_options={"node": {"retry_policy": soon()}})
    runner.invoke(graph, EMPTY, config)
    runner.invoke(graph, Command(resume=1), config)
    assert runner.invoke(graph, Command(resume=2), config)["log"] == [1, 2]
    assert asked == [(1, 2)] * 3


def test_answers_survive_a_run_that_used_up_its_attempts(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    node, attempts = failing(ConnectionError(), ConnectionError())

    def asks(state: State) -> State:
        answer = interrupt("sure?")
        return {"log": [answer, *node(state)["log"]]}

    graph = graph_of(
        {"node": asks}, saver=saver, node_options={"node": {"retry_policy": soon(max_attempts=2)}}
    )
    runner.invoke(graph, EMPTY, config)
    with pytest.raises(ConnectionError):
        runner.invoke(graph, Command(resume="yes"), config)
    assert runner.invoke(graph, None, config)["log"] == ["yes", "attempt 3"]
    assert attempts == [1, 2, 1], "attempts are counted anew when a run is gone on with, as in LangGraph"


def test_a_retry_sees_the_state_as_it_was(runner: Runner) -> None:
    seen: list[Any] = []

    def spoils(state: State) -> State:
        seen.append(dict(state))
        state["log"] = ["spoiled"]
        if len(seen) < 3:
            raise ConnectionError
        return {}

    graph = graph_of({"node": spoils}, node_options={"node": {"retry_policy": soon()}})
    assert runner.invoke(graph, EMPTY) == {"log": []}
    assert seen == [{"log": []}] * 3


def test_a_failed_attempt_leaves_no_writes(runner: Runner) -> None:
    node, _ = failing(ConnectionError())
    graph = graph_of(
        {"node": node, "next": says("next")},
        in_a_row("node", "next"),
        node_options={"node": {"retry_policy": soon()}},
    )
    assert runner.stream(graph, EMPTY) == [{"node": {"log": ["attempt 2"]}}, {"next": {"log": ["next"]}}]


# What an attempt knows


def test_execution_info_names_the_place(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    seen: list[ExecutionInfo] = []

    def look(state: State, runtime: Runtime[Any]) -> State:
        assert runtime.execution_info is not None
        assert runtime.execution_info.task_id == runtime.idempotency_key
        seen.append(runtime.execution_info)
        if len(seen) < 3:
            raise ConnectionError
        return {}

    child = graph_of({"look": look}, node_options={"look": {"retry_policy": soon()}})
    graph = graph_of({"child": child}, saver=saver)
    run_id = "00000000-0000-0000-0000-000000000001"
    runner.invoke(graph, EMPTY, {**config, "run_id": run_id})
    one, two, three = seen
    assert [info.node_attempt for info in seen] == [1, 2, 3]
    assert (one.task_id, one.node_first_attempt_time) == (three.task_id, three.node_first_attempt_time)
    assert isinstance(two.node_first_attempt_time, float)
    assert (one.thread_id, one.run_id) == ("t", run_id)
    around, inside = one.checkpoint_ns.split("|")
    assert around.startswith("child:") and inside == f"look:{one.task_id}"
    (asked,) = [state.config for state in runner.history(graph, config) if state.next == ("child",)]
    assert one.checkpoint_id != asked["configurable"]["checkpoint_id"]  # that of the child's own run


def test_without_a_checkpointer_there_is_no_thread(runner: Runner) -> None:
    def look(state: State, runtime: Runtime[Any]) -> State:
        info = runtime.execution_info
        assert info is not None
        return {"log": [info.thread_id, info.run_id]}

    assert runner.invoke(graph_of({"look": look}), EMPTY)["log"] == [None, None]


def test_a_function_that_takes_a_runtime_can_be_called_without_a_run() -> None:
    def node(state: State, runtime: Runtime[dict[str, str]]) -> State:
        runtime.heartbeat()
        runtime.stream_writer("ignored")
        assert (runtime.drain_requested, runtime.drain_reason) == (False, None)
        return {"log": [runtime.context["user"]]}

    runtime = Runtime(context={"user": "ada"})
    assert node(EMPTY, runtime) == {"log": ["ada"]}
    control = RunControl()
    control.request_drain("now")
    other = runtime.override(control=control)
    assert (other.context, other.drain_reason, runtime.control) == ({"user": "ada"}, "now", None)


# How many at once


class Inside:
    """Counts who is inside at the same time, by group; `at_once` let each other go on only together."""

    def __init__(self, at_once: int) -> None:
        self.lock = threading.Lock()
        self.barrier = threading.Barrier(at_once, timeout=PATIENCE)
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()

    def node(self, group: str) -> Callable[[State], State]:
        def inside(state: State) -> State:
            with self.lock:
                self.now[group] += 1
                self.most[group] = max(self.most[group], self.now[group])
            self.barrier.wait()
            with self.lock:
                self.now[group] -= 1
            return {"log": [group]}

        return inside


def side_by_side(inside: Inside, group: str, count: int) -> dict[str, Callable[[State], State]]:
    return {f"{group}{number}": inside.node(group) for number in range(count)}


@pytest.mark.parametrize("called", [False, True], ids=["as nodes", "called"])
def test_every_graph_counts_its_own_tasks(runner: Runner, called: bool) -> None:
    inside = Inside(at_once=4)
    children = {name: graph_of(side_by_side(inside, name, 4)) for name in "ab"}

    def call(child: Any) -> Callable[[State], Any]:
        return lambda state: child.invoke(EMPTY)

    nodes: dict[str, Any] = {name: call(child) if called else child for name, child in children.items()}
    assert runner.invoke(graph_of(nodes), EMPTY, {"max_concurrency": 2})["log"] == ["a"] * 4 + ["b"] * 4
    assert inside.most == {"a": 2, "b": 2}


def test_one_at_a_time_is_enough_for_graphs_in_graphs(runner: Runner) -> None:
    inside = Inside(at_once=1)
    graph = graph_of(side_by_side(inside, "x", 3))
    for _ in range(3):
        graph = graph_of({"in": graph, "beside": inside.node("beside")})
    log: Sequence[str] = runner.invoke(graph, EMPTY, {"max_concurrency": 1})["log"]
    assert Counter(log) == {"x": 3, "beside": 3}
    assert inside.most == {"x": 1, "beside": 1}


@pytest.mark.parametrize("limit", [0, -1, 1.5, "2", True])
def test_a_limit_that_is_none_is_refused(runner: Runner, build: Build, limit: Any) -> None:
    with pytest.raises(ValueError, match="max_concurrency"):
        runner.invoke(
            build({"a": says("a")}), EMPTY, {"configurable": {"thread_id": "t"}, "max_concurrency": limit}
        )
