"""Streams of runs inside runs (L24): `subgraphs=True`, in order, at any depth, however a graph is called."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest

from graphkit.config import get_stream_writer
from graphkit.types import RunnableConfig
from tests.conftest import EMPTY, Build, Runner, State, asks, graph_of, in_a_row, says


def writes(word: str) -> Callable[[State], State]:
    """A node that shows `word` and logs it."""

    def write(state: State) -> State:
        get_stream_writer()(word)
        return {"log": [word]}

    return write


def calls(graph: Any) -> Callable[[State], State]:
    def call(state: State) -> State:
        graph.invoke(EMPTY)
        return {"log": ["called"]}

    return call


def acalls(graph: Any) -> Callable[[State], Any]:
    async def acall(state: State) -> State:
        await graph.ainvoke(EMPTY)
        return {"log": ["called"]}

    return acall


HOWS: dict[str, Callable[[Any], Any]] = {"node": lambda graph: graph, "function": calls, "coroutine": acalls}


@pytest.fixture(params=HOWS)
def put(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """The ways in which a graph comes into another one."""
    return HOWS[request.param]


def path(namespace: tuple[str, ...]) -> list[str]:
    """The nodes that a namespace leads through."""
    return [part.split(":")[0] for part in namespace]


def three_deep(put: Callable[[Any], Any], **options: Any) -> Any:
    low = graph_of({"low": writes("low")})
    middle = graph_of({"middle": put(low), "after": writes("middle")}, in_a_row("middle", "after"))
    return graph_of({"top": put(middle), "last": writes("top")}, in_a_row("top", "last"), **options)


def test_updates_of_nested_runs_come_with_their_namespace_in_order(
    runner: Runner, put: Callable[[Any], Any]
) -> None:
    chunks = runner.stream(three_deep(put), EMPTY, subgraphs=True)
    assert [(path(namespace), *update) for namespace, update in chunks] == [
        (["top", "middle"], "low"),
        (["top"], "middle"),
        (["top"], "after"),
        ([], "top"),
        ([], "last"),
    ]


def test_nested_runs_are_shown_in_every_mode_as_they_happen(
    runner: Runner, put: Callable[[Any], Any]
) -> None:
    chunks = runner.stream(three_deep(put), EMPTY, stream_mode=["custom", "updates"], subgraphs=True)
    shown = [(path(ns), chunk if mode == "custom" else next(iter(chunk))) for ns, mode, chunk in chunks]
    assert shown == [
        (["top", "middle"], "low"),
        (["top", "middle"], "low"),
        (["top"], "middle"),
        (["top"], "middle"),
        (["top"], "after"),
        ([], "top"),
        ([], "top"),
        ([], "last"),
    ]


def test_without_subgraphs_nothing_of_nested_runs_is_shown(runner: Runner, put: Callable[[Any], Any]) -> None:
    chunks = runner.stream(three_deep(put), EMPTY, stream_mode=["custom", "updates"])
    assert [chunk if mode == "custom" else next(iter(chunk)) for mode, chunk in chunks] == [
        "top",
        "top",
        "last",
    ]


def test_a_namespace_is_the_task_and_the_stored_namespace(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = build({"outer": graph_of({"ask": asks("sure?")})})
    chunks = runner.stream(graph, EMPTY, config, subgraphs=True)
    (namespace, inner), ((), outer) = chunks
    (task,) = runner.get_state(graph, config).tasks
    assert namespace == (f"outer:{task.id}",)
    assert inner["__interrupt__"] == outer["__interrupt__"] == task.interrupts
    assert task.interrupts[0].namespace == "|".join(namespace)


def test_several_calls_in_one_task_have_namespaces_of_their_own(runner: Runner) -> None:
    inner = graph_of({"n": says("n")})

    def twice(state: State) -> State:
        inner.invoke(EMPTY)
        inner.invoke({"log": ["other"]})
        return EMPTY

    chunks = runner.stream(graph_of({"twice": twice}), EMPTY, subgraphs=True)
    first, second, own = (namespace for namespace, _ in chunks)
    assert (path(first), path(second), own) == (["twice"], ["twice"], ())
    assert first != second


def test_checkpoints_of_nested_runs_are_those_in_their_history(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = build({"outer": graph_of({"a": says("a"), "ask": asks("sure?")}, in_a_row("a", "ask"))})
    chunks = runner.stream(graph, EMPTY, config, stream_mode="checkpoints", subgraphs=True)
    inside = [chunk for namespace, chunk in chunks if namespace]
    where: RunnableConfig = {"configurable": {**inside[0]["config"]["configurable"]}}
    del where["configurable"]["checkpoint_id"]
    where["configurable"].pop("checkpoint_map", None)
    history = runner.history(graph, where)[::-1]
    assert [chunk["config"] for chunk in inside] == [snapshot.config for snapshot in history]
    assert [tuple(chunk["next"]) for chunk in inside] == [snapshot.next for snapshot in history]


def test_a_nested_stream_is_shown_to_its_own_consumer_and_further_up(runner: Runner) -> None:
    inner = graph_of({"deep": graph_of({"n": writes("deep")}), "n": writes("inner")}, in_a_row("deep", "n"))
    heard: list[Any] = []

    def listens(state: State) -> State:
        heard.extend(inner.stream(EMPTY, stream_mode=["custom", "updates"]))
        return EMPTY

    graph = graph_of({"listens": listens})
    chunks = runner.stream(graph, EMPTY, stream_mode="custom", subgraphs=True)
    assert [(path(namespace), chunk) for namespace, chunk in chunks] == [
        (["listens", "deep"], "deep"),
        (["listens"], "inner"),
    ]
    assert heard == [
        ("updates", {"deep": {"log": ["deep"]}}),
        ("custom", "inner"),
        ("updates", {"n": {"log": ["inner"]}}),
    ]


def test_a_nested_stream_with_subgraphs_shows_what_is_below_it(runner: Runner) -> None:
    inner = graph_of({"deep": graph_of({"n": writes("deep")})})
    heard: list[Any] = []

    def listens(state: State) -> State:
        heard.extend(inner.stream(EMPTY, stream_mode="custom", subgraphs=True))
        return EMPTY

    assert runner.stream(graph_of({"listens": listens}), EMPTY, stream_mode="custom") == []
    assert [(path(namespace), chunk) for namespace, chunk in heard] == [(["listens", "deep"], "deep")]


def test_a_graph_on_a_thread_of_its_own_is_not_part_of_the_stream(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    inner = build({"n": writes("inner")})

    def elsewhere(state: State) -> State:
        inner.invoke(EMPTY, {"configurable": {"thread_id": "another"}})
        return EMPTY

    chunks = runner.stream(build({"elsewhere": elsewhere}), EMPTY, config, subgraphs=True)
    assert chunks == [((), {"elsewhere": {"log": []}})]


def test_an_event_of_a_nested_run_arrives_while_its_node_still_runs() -> None:
    heard = threading.Event()

    def waits(state: State) -> State:
        get_stream_writer()("listening?")
        assert heard.wait(20)
        return {"log": ["heard"]}

    graph = graph_of({"outer": graph_of({"waits": waits})})
    seen = []
    for namespace, _mode, chunk in graph.stream(EMPTY, stream_mode=["custom", "updates"], subgraphs=True):
        seen.append((path(namespace), chunk))
        if chunk == "listening?":
            heard.set()
    assert seen[0] == (["outer"], "listening?")
    assert len(seen) == 3


@pytest.mark.parametrize("stored", [False, True])
def test_a_consumer_that_stops_ends_the_nested_run_too(
    build: Build, config: RunnableConfig, stored: bool
) -> None:
    ended: list[str] = []

    async def endless(state: State) -> State:
        get_stream_writer()("begun")
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("ended")
        return EMPTY

    async def stop_early() -> int:
        graph = (build if stored else graph_of)({"outer": graph_of({"endless": endless})})
        stream = graph.astream(EMPTY, config, stream_mode="custom", subgraphs=True)
        async with contextlib.aclosing(stream):
            await anext(stream)
        return len(asyncio.all_tasks())

    assert asyncio.run(stop_early()) == 1
    assert ended == ["ended"]
