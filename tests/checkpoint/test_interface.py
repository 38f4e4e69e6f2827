"""LangGraph's saver interface: what the engine wrote as its tools see it, and what they put."""

from __future__ import annotations

import asyncio
import itertools
import math
import operator
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphkit import START, Command, StateGraph, interrupt
from graphkit.checkpoint.base import (
    INTERRUPT,
    RESUME,
    Checkpoint,
    CheckpointTuple,
    copy_checkpoint,
    empty_checkpoint,
    get_checkpoint_id,
)
from graphkit.checkpoint.memory import InMemorySaver
from graphkit.errors import (
    ConcurrentUpdateError,
    InvalidThreadIdError,
    UnserializableStateError,
)
from graphkit_checkpoint.ownership import forget_token, new_token
from graphkit_checkpoint.records import Commit
from graphkit_checkpoint.serde import pack
from tests.conftest import Build, Reopen, Saver, asks, in_a_row, says

CONFIG: dict[str, Any] = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


class Door:
    """A saver's calls: `colour` "sync" takes `put`, …, "async" takes `aput`, …."""

    def __init__(self, saver: Saver, colour: str) -> None:
        self.saver = saver
        self.colour = colour

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if self.colour == "sync":
                return getattr(self.saver, name)(*args, **options)

            async def through() -> Any:
                return await getattr(self.saver, f"a{name}")(*args, **options)

            return asyncio.run(through())

        return call

    def listed(self, config: Any = CONFIG, **options: Any) -> list[CheckpointTuple]:
        if self.colour == "sync":
            return list(self.saver.list(config, **options))

        async def through() -> list[CheckpointTuple]:
            return [found async for found in self.saver.alist(config, **options)]

        return asyncio.run(through())

    def ids(self, config: Any = CONFIG, **options: Any) -> list[str]:
        return [found.checkpoint["id"] for found in self.listed(config, **options)]

    def put_values(
        self,
        values: Mapping[str, Any],
        parent: Mapping[str, Any] = CONFIG,
        *,
        id: str | None = None,
        metadata: Any = None,
    ) -> dict[str, Any]:
        """Put a checkpoint with these values, all of them new."""
        checkpoint = with_values(values, id)
        metadata = {"source": "loop", "step": 0} if metadata is None else metadata
        put: dict[str, Any] = self.put(parent, checkpoint, metadata, checkpoint["channel_versions"])
        return put


@pytest.fixture(params=["sync", "async"])
def door(request: pytest.FixtureRequest, saver: Saver) -> Door:
    return Door(saver, request.param)


def with_values(values: Mapping[str, Any], id: str | None = None) -> Checkpoint:
    checkpoint = empty_checkpoint()
    checkpoint["id"] = id or checkpoint["id"]
    checkpoint["channel_values"] = dict(values)
    checkpoint["channel_versions"] = dict.fromkeys(values, checkpoint["id"])
    return checkpoint


def config_at(checkpoint_id: str | None, thread_id: str = "t", namespace: str = "") -> dict[str, Any]:
    config = {"thread_id": thread_id, "checkpoint_ns": namespace}
    return {"configurable": config if checkpoint_id is None else {**config, "checkpoint_id": checkpoint_id}}


def writes_to(found: CheckpointTuple, channel: str) -> list[Any]:
    return [value for _, name, value in found.pending_writes or () if name == channel]


def stored_rows(saver: Saver) -> Any:
    """How much there is, of every thread."""
    return [(thread_id, saver.usage(thread_id)) for thread_id in saver.thread_ids()]


# Threads of the engine


def test_a_finished_run_is_shown(door: Door, build: Build) -> None:
    graph = build({"a": says("a"), "b": says("b")}, in_a_row("a", "b"))
    graph.invoke({"log": ["in"]}, {**CONFIG, "metadata": {"user": "ada"}})
    found = door.get_tuple(CONFIG)
    assert found.checkpoint["channel_values"] == {"log": ["in", "a", "b"]}
    assert found.metadata == {"source": "loop", "step": 2, "parents": {}, "user": "ada"}
    assert found.config == config_at(found.checkpoint["id"])
    assert (
        abs(datetime.fromisoformat(found.checkpoint["ts"]).timestamp() - datetime.now(UTC).timestamp()) < 60
    )
    assert found.checkpoint["updated_channels"] == ["log"]
    assert (found.checkpoint["versions_seen"], found.pending_writes) == ({}, [])
    assert door.get(CONFIG) == found.checkpoint


def test_parents_lead_from_the_latest_to_the_input(door: Door, build: Build) -> None:
    build({"a": says("a"), "b": says("b")}, in_a_row("a", "b")).invoke({"log": ["in"]}, CONFIG)
    found, seen = door.get_tuple(CONFIG), []
    while found is not None:
        seen.append(found)
        found = door.get_tuple(found.parent_config) if found.parent_config else None
    assert [point.metadata["step"] for point in seen] == [2, 1, 0, -1]
    assert seen == door.listed()
    assert seen[-1].metadata["source"] == "input"


def test_versions_grow_where_a_channel_changed_and_nowhere_else(door: Door, build: Build) -> None:
    class Two(TypedDict, total=False):
        log: Annotated[list[Any], operator.add]
        turn: int

    def count(state: Two) -> Two:
        return {"log": ["n"], "turn": 1} if len(state["log"]) % 2 else {"log": ["n"]}

    graph = build({"count": count}, [(START, "count"), ("count", lambda s: "count", ["count"])], state=Two)
    with pytest.raises(RecursionError):
        graph.invoke({"log": []}, {**CONFIG, "recursion_limit": 6})
    points = [found.checkpoint for found in reversed(door.listed())]
    assert len(points) == 8
    for before, after in itertools.pairwise(points):
        for channel, version in after["channel_versions"].items():
            old: Any = before["channel_versions"].get(channel, "")
            assert version > old if channel in (after["updated_channels"] or ()) else version == old


def test_questions_and_finished_siblings_are_pending_writes(door: Door, build: Build) -> None:
    graph = build({"ask": asks("sure?"), "work": says("done"), "wonder": asks("why?", name="reason")})
    graph.invoke({"log": []}, CONFIG)
    found = door.get_tuple(CONFIG)
    assert writes_to(found, "log") == [["done"]]
    asked = [question for questions in writes_to(found, INTERRUPT) for question in questions]
    state = graph.get_state(CONFIG)
    assert {(q.id, q.value, q.name, q.node) for q in asked} == {
        (q.id, q.value, q.name, q.node) for q in state.interrupts
    }
    assert {task for task, channel, _ in found.pending_writes} == {task.id for task in state.tasks}


def test_answers_of_a_task_are_one_write_in_the_order_of_its_questions(door: Door, build: Build) -> None:
    def ask(state: Any) -> Any:
        return {"log": [interrupt("first"), interrupt("second"), interrupt("third")]}

    graph = build({"ask": ask})
    graph.invoke({"log": []}, CONFIG)
    graph.invoke(Command(resume=1), CONFIG)
    second = graph.get_state(CONFIG).interrupts[0]
    graph.invoke(Command(resume={second.id: None}), CONFIG)
    found = door.get_tuple(CONFIG)
    assert writes_to(found, RESUME) == [[1, None]]
    assert [question.value for question in writes_to(found, INTERRUPT)[0]] == ["first", "second", "third"]


def test_an_error_is_a_pending_write(door: Door, build: Build) -> None:
    def fail(state: Any) -> Any:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        build({"fail": fail}).invoke({"log": []}, CONFIG)
    assert writes_to(door.get_tuple(CONFIG), "__error__") == ["ValueError('broken')"]


def test_nested_graphs_have_namespaces_of_their_own(door: Door, build: Build) -> None:
    inner = build({"ask": asks("sure?")}, saver=None)
    build({"outer": inner}).invoke({"log": ["in"]}, CONFIG)
    everything = door.listed({"configurable": {"thread_id": "t"}})
    assert [found.checkpoint["id"] for found in everything] == sorted(
        (found.checkpoint["id"] for found in everything), reverse=True
    )
    namespaces = {found.config["configurable"]["checkpoint_ns"] for found in everything}
    nested = next(namespace for namespace in namespaces if namespace)
    assert namespaces == {"", nested}
    assert nested.startswith("outer:")
    found = door.get_tuple(config_at(None, namespace=nested))
    assert [question.value for question in writes_to(found, INTERRUPT)[0]] == ["sure?"]
    assert door.get_tuple(found.parent_config).config["configurable"]["checkpoint_ns"] == nested


def test_a_single_value_is_shown_and_internal_channels_are_not(door: Door, saver: Saver) -> None:
    builder = StateGraph(int).add_node("double", lambda n: 2 * n).add_edge(START, "double")
    graph: Any = builder.compile(checkpointer=saver)
    graph.invoke(21, CONFIG)
    assert door.get_tuple(CONFIG).checkpoint["channel_values"] == {"__root__": 42}


# Putting


def test_what_was_put_comes_back(door: Door, saver: Saver, reopen: Reopen) -> None:
    checkpoint: Any = {
        "v": 4,
        "id": "1ef4f797-8335-6428-8001-8a1503f9b875",
        "ts": "2024-05-04T06:32:42.235444+00:00",
        "channel_values": {
            "a": [1, 2],
            "b": {"x": None},
            "c": "text",
            "__start__": {"a": 1},
            "branch:to:n": None,
        },
        "channel_versions": {"a": "02.5", "b": 3, "c": 1.5, "__start__": 1, "branch:to:n": 2, "gone": 9},
        "versions_seen": {"n": {"a": "02.5"}, "__input__": {}},
        "updated_channels": ["a", "b"],
        "pending_sends": [],
    }
    metadata = {"source": "loop", "step": 3, "parents": {"": "x"}, "writes": {"foo": "bar"}, "score": None}
    put = door.put(CONFIG, checkpoint, metadata, checkpoint["channel_versions"])
    assert put == config_at(checkpoint["id"])
    wanted = CheckpointTuple(put, checkpoint, metadata, None, [])  # type: ignore[arg-type]
    assert door.get_tuple(put) == door.get_tuple(CONFIG) == wanted
    assert Door(reopen(saver), door.colour).listed() == [wanted]


HOSTILE_KEYS = [
    "", "\0", "a\0b", "\ud800", "'; DROP TABLE graphkit_thread; --", "%s", ":x", "?", "$.a", "\n", "é" * 300,
    "__graph__", "__root__", "\u2028", "💥", "x" * 5000,
]  # fmt: skip
HOSTILE_VALUES: list[Any] = [
    None, True, -0.0, 2**70, "\0", "\udfff", b"\0\xff", (1, (2,)), [], {}, {1, 2}, frozenset({"x"}),
    {3: 4, None: 5, (1,): 6}, Decimal("1.10"), datetime(2024, 2, 29, tzinfo=UTC), float("inf"),
]  # fmt: skip


def test_hostile_names_and_values_come_back_exactly(door: Door) -> None:
    values: dict[str, Any] = dict(zip(HOSTILE_KEYS, HOSTILE_VALUES, strict=True))
    checkpoint: Any = with_values(values) | {"other": values, "versions_seen": {"\0": {"\ud800": 1}}}
    put = door.put(CONFIG, checkpoint, {"nan": math.nan, **values}, checkpoint["channel_versions"])
    found = door.get_tuple(put)
    for key in (*checkpoint, *found.checkpoint):
        assert pack(found.checkpoint[key]) == pack(checkpoint[key])
    assert pack(found.metadata) == pack({"nan": math.nan, **values})
    child = copy_checkpoint(with_values(values))
    child["channel_versions"] = checkpoint["channel_versions"]
    assert pack(door.get_tuple(door.put(put, child, {}, {})).checkpoint["channel_values"]) == pack(values)


def test_values_are_kept_by_their_versions(door: Door) -> None:
    first = door.put_values({"a": 1, "b": [1], "c": 3, "f": 6, "__start__": 0})
    versions = door.get_tuple(first).checkpoint["channel_versions"]
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"a": 2, "b": ["unsaid"], "d": "no version", "f": "another branch"}
    checkpoint["channel_versions"] = {**versions, "a": "new", "c": "empty now", "f": "other"}
    second = door.put(first, checkpoint, {}, {"a": "new", "c": "empty now"})
    found = door.get_tuple(second).checkpoint["channel_values"]
    assert found == {"a": 2, "b": [1], "f": "another branch", "__start__": 0}
    found = door.get_tuple(first).checkpoint["channel_values"]
    assert found == {"a": 1, "b": [1], "c": 3, "f": 6, "__start__": 0}


def test_without_versions_all_values_are_kept(door: Door) -> None:
    put = door.put(CONFIG, {"id": "1", "ts": "2024", "channel_values": {"key": "value"}}, {}, {})
    assert door.get_tuple(put).checkpoint == {"id": "1", "ts": "2024", "channel_values": {"key": "value"}}


def test_plain_values_of_the_config_are_metadata_too(door: Door) -> None:
    config = {
        "configurable": {
            "thread_id": "t",
            "checkpoint_ns": "",
            "__secret": "x",
            "user": "ada",
            "tool": object(),
        },
        "metadata": {"run_id": "r", "step": 9, "tags": ["not plain"]},
    }
    door.put(config, empty_checkpoint(), {"step": 1}, {})
    assert door.get_tuple(config).metadata == {"step": 1, "run_id": "r", "user": "ada"}


def test_the_latest_is_the_largest_id(door: Door) -> None:
    for namespace in ("", "child:1"):
        for checkpoint_id in ("b", "d", "a", "c"):
            door.put_values({"x": checkpoint_id}, config_at(None, namespace=namespace), id=checkpoint_id)
        found = door.get_tuple(config_at(None, namespace=namespace))
        assert found.checkpoint["channel_values"] == {"x": "d"}
        assert door.ids(config_at(None, namespace=namespace)) == ["d", "c", "b", "a"]


@pytest.mark.parametrize("parent", ["m", "a", "z", "unknown"])
def test_any_parent_is_kept_and_nothing_follows_it_in_circles(door: Door, parent: str) -> None:
    """`m` is its own parent; `a` and `z` are each other's."""
    door.put_values({"x": ["a"]}, config_at("z"), id="a", metadata={"run_id": "circle"})
    door.put_values({"x": ["z"]}, config_at("a"), id="z", metadata={"run_id": "circle"})
    put = door.put_values({"x": ["m"]}, config_at(parent), id="m")
    assert door.get_tuple(put).parent_config == config_at(parent)
    assert door.get_tuple(config_at("a")).parent_config == config_at("z")
    door.copy_thread("t", "copy")
    door.prune("copy", keep_last=1)
    assert door.ids(config_at(None, "copy")) == ["z"]
    door.delete_for_runs(["circle"])
    assert door.ids(None) == ["m"]
    assert door.get_tuple(CONFIG).checkpoint["channel_values"] == {"x": ["m"]}


def test_the_same_checkpoint_again_changes_nothing(door: Door, saver: Saver) -> None:
    first = door.put_values({"x": "long" * 100}, id="1")
    checkpoint = with_values({"x": ["long" * 100], "__start__": 2}, "2")
    for _ in range(3):
        door.put(first, checkpoint, {"step": 1}, checkpoint["channel_versions"])
        assert saver.usage("t").checkpoints == 2
    assert saver.usage("t").values == 2


@pytest.mark.parametrize("namespace", ["", "child:1"])
def test_another_checkpoint_with_the_same_id_replaces_it(door: Door, saver: Saver, namespace: str) -> None:
    root = door.put_values({"x": [1], "y": 1}, config_at(None, namespace=namespace), id="1")
    checkpoint = with_values({"x": [1, 2], "y": 1}, "2")
    checkpoint["channel_versions"]["y"] = "1"
    child = door.put(root, checkpoint, {}, {"x": "2"})
    door.put_writes(root, [("x", "kept")], "task")
    door.put_values({"x": [9], "z": 2}, config_at(None, namespace=namespace), id="1", metadata={"new": True})
    found = door.get_tuple(root)
    assert (found.checkpoint["channel_values"], found.metadata) == ({"x": [9], "z": 2}, {"new": True})
    assert writes_to(found, "x") == ["kept"]
    assert door.get_tuple(child).checkpoint["channel_values"] == {"x": [1, 2], "y": 1}
    assert door.get_tuple(config_at(None, namespace=namespace)).config == child
    saver.prune("t", keep_last=1)
    assert door.get_tuple(child).checkpoint["channel_values"] == {"x": [1, 2], "y": 1}


def test_what_a_graph_built_on_stays_when_it_is_replaced(door: Door, build: Build) -> None:
    put = door.put_values({"log": ["put"]})
    graph = build({"a": says("a")})
    graph.invoke({"log": ["in"]}, CONFIG)
    history = [state.values for state in graph.get_state_history(CONFIG)]
    door.put_values({"log": ["other"]}, id=get_checkpoint_id(put), metadata={})
    replaced = [state.values for state in graph.get_state_history(CONFIG)]
    assert replaced == [*history[:-1], {"log": ["other"]}]


def test_a_checkpoint_put_again_after_it_was_pruned(door: Door, saver: Saver) -> None:
    first = door.put_values({"x": [1], "y": 1}, id="1")
    second = with_values({}, "2")
    second["channel_versions"] = {"x": "1", "y": "1"}
    door.put(first, second, {}, {})
    saver.prune("t", keep_last=1)
    door.put_values({"x": ["again"], "y": 2}, id="1")
    assert door.get_tuple(config_at("1")).checkpoint["channel_values"] == {"x": ["again"], "y": 2}
    assert door.get_tuple(config_at("2")).checkpoint["channel_values"] == {"x": [1], "y": 1}


def test_the_engines_checkpoints_are_not_replaced(door: Door, build: Build) -> None:
    build({"a": says("a")}).invoke({"log": []}, CONFIG)
    found = door.get_tuple(CONFIG)
    with pytest.raises(ValueError, match="made by a run"):
        door.put(found.parent_config, found.checkpoint, {**found.metadata, "more": 1}, {})
    assert door.get_tuple(CONFIG) == found


def test_a_growing_list_is_stored_once(door: Door, saver: Saver) -> None:
    log: list[str] = []
    config = CONFIG
    for number in range(60):
        log.append(f"{number:0100}")
        config = door.put_values({"log": log}, config)
    assert saver.usage("t").bytes < 60 * 1000
    assert door.get_tuple(CONFIG).checkpoint["channel_values"] == {"log": log}
    assert [len(found.checkpoint["channel_values"]["log"]) for found in door.listed()] == [*range(60, 0, -1)]


def test_a_thread_whose_time_has_run_out_is_not_there(door: Door, saver: Saver) -> None:
    saver.ttl = 0.01
    old = door.put_values({"x": "old"}, id="2")
    time.sleep(0.05)
    assert (door.get_tuple(old), door.listed(), door.listed(None)) == (None, [], [])
    saver.ttl = None
    door.put_values({"x": "new"}, old, id="1")
    door.put_values({"x": "new"}, id="2")
    door.put_writes(config_at("1"), [("x", 1)], "task")
    assert [found.checkpoint["channel_values"] for found in door.listed()] == [{"x": "new"}] * 2


# Graphs and what was put


LATER = "ffffffff-0000-6000-8000-000000000000"
"""Sorts after every id of the engine, as LangGraph's do for some years to come."""


@pytest.mark.parametrize("checkpoint_id", [None, LATER])
def test_a_graph_goes_on_from_what_was_put(door: Door, build: Build, checkpoint_id: str | None) -> None:
    door.put_values(
        {"log": ["put"], "__start__": {}, "branch:to:a": None, "join:a+b:c": {"a"}}, id=checkpoint_id
    )
    graph = build({"a": says("a"), "b": says("b"), "ask": asks("sure?")}, in_a_row("a", "b", "ask"))
    assert (graph.get_state(CONFIG).values, graph.get_state(CONFIG).next) == ({"log": ["put"]}, ())
    for turn in ("one", "two"):
        graph.invoke({"log": [turn]}, CONFIG)
        graph.invoke(Command(resume="yes"), CONFIG)
    log = ["put", "one", "a", "b", "yes", "two", "a", "b", "yes"]
    assert (
        graph.get_state(CONFIG).values == door.get_tuple(CONFIG).checkpoint["channel_values"] == {"log": log}
    )
    seen = {tuple(found.checkpoint["channel_values"]["log"]) for found in door.listed()}
    assert seen == {tuple(log[:length]) for length in (1, 2, 3, 4, 5, 6, 7, 8, 9)}


def test_a_put_on_a_graphs_thread_is_where_it_goes_on(door: Door, build: Build) -> None:
    graph = build({"ask": asks("sure?")})
    graph.invoke({"log": ["in"]}, CONFIG)
    before = door.saver.load("t").values
    found = door.get_tuple(CONFIG)
    checkpoint = copy_checkpoint(found.checkpoint)
    checkpoint["id"] = LATER
    checkpoint["channel_values"]["log"] = ["edited"]
    version = door.saver.get_next_version(checkpoint["channel_versions"]["log"], None)
    checkpoint["channel_versions"]["log"] = version
    door.put(found.config, checkpoint, {"source": "update", "step": 1}, {"log": version})
    state = graph.get_state(CONFIG)
    assert (state.values, state.next, state.interrupts) == ({"log": ["edited"]}, (), ())
    assert door.saver.load("t").values == {**before, "log": ["edited"]}
    assert before.keys() > {"log"}, "the engine keeps something of its own, which is not shown"
    assert door.get_tuple(CONFIG).parent_config == found.config
    graph.invoke({"log": ["more"]}, CONFIG)
    assert graph.get_state(CONFIG).values == {"log": ["edited", "more"]}


def test_a_fork_of_what_was_put_is_the_engines(door: Door, build: Build) -> None:
    put = door.put_values({"log": ["put"]}, metadata={"source": "loop", "step": 0, "mine": True})
    graph = build({"a": says("a")})
    forked = graph.update_state(CONFIG, None, as_node="__copy__")
    found = door.get_tuple(forked)
    assert (found.metadata["source"], found.parent_config) == ("fork", put)
    assert "mine" not in found.metadata
    assert found.checkpoint["channel_values"] == {"log": ["put"]}


# Writes


def test_writes_are_kept_once_by_task_and_place(door: Door) -> None:
    put = door.put_values({})
    door.put_writes(put, [("a", 1), ("b", 2), ("__error__", "e1")], "task", "~b")
    door.put_writes(
        put, [("a", "late"), ("b", "late"), ("__error__", "e2"), ("c", 3), ("d", 4)], "task", "~b"
    )
    door.put_writes(put, [("a", "other task")], "z", "~a")
    door.put_writes(put, [], "task")
    assert door.get_tuple(put).pending_writes == door.listed()[0].pending_writes
    assert door.get_tuple(put).pending_writes == [
        ("z", "a", "other task"),
        ("task", "__error__", "e2"),
        ("task", "a", 1),
        ("task", "b", 2),
        ("task", "c", 3),
        ("task", "d", 4),
    ]


def test_special_writes_replace_even_in_one_call(door: Door) -> None:
    put = door.put_values({})
    door.put_writes(put, [(INTERRUPT, 1), (INTERRUPT, 2), ("__scheduled__", 3), (RESUME, [4])], "task")
    assert door.get_tuple(put).pending_writes == [
        ("task", RESUME, [4]),
        ("task", INTERRUPT, 2),
        ("task", "__scheduled__", 3),
    ]


def test_writes_may_come_before_their_checkpoint(door: Door, saver: Saver) -> None:
    door.put_writes(config_at("1", namespace="n"), [("a", HOSTILE_VALUES)], "task")
    assert door.get_tuple(config_at(None, namespace="n")) is None
    assert door.listed(None) == []
    put = door.put_values({}, config_at(None, namespace="n"), id="1")
    assert pack(door.get_tuple(put).pending_writes) == pack([("task", "a", HOSTILE_VALUES)])
    later = door.put_values({}, put, id="2")
    assert door.get_tuple(later).pending_writes == []


# Refusals


def test_a_thread_that_a_run_owns_takes_nothing(door: Door, saver: Saver) -> None:
    put = door.put_values({"x": 1})
    token = new_token()
    state, saved = saver.find("t")
    assert saved is not None
    saver.commit(Commit("t", "", token, saved.tip, claims=True, acquire=state))
    before = stored_rows(saver)
    with pytest.raises(ConcurrentUpdateError, match="owned by"):
        door.put_values({"x": 2}, put)
    with pytest.raises(ConcurrentUpdateError, match="owned by"):
        door.put_values({"x": 2}, id=get_checkpoint_id(put))
    with pytest.raises(ConcurrentUpdateError, match="owned by"):
        door.put_writes(put, [("x", 2)], "task")
    assert stored_rows(saver) == before
    forget_token(token)  # it died without giving the thread back
    door.put_values({"x": 2}, put)
    assert door.get_tuple(CONFIG).checkpoint["channel_values"] == {"x": 2}


def test_a_put_while_a_node_runs_is_refused(door: Door, build: Build) -> None:
    refused: list[BaseException] = []

    def work(state: Any) -> Any:
        try:
            Door(door.saver, "sync").put_values({"log": ["put"]})
        except ConcurrentUpdateError as error:
            refused.append(error)
        return {"log": ["worked"]}

    assert build({"work": work}).invoke({"log": []}, CONFIG) == {"log": ["worked"]}
    assert len(refused) == 1


@pytest.mark.parametrize("value", [object(), lambda: 1, [{"deep": threading.Lock()}]])
def test_what_cannot_be_stored_is_named_and_nothing_is_written(door: Door, saver: Saver, value: Any) -> None:
    put = door.put_values({"x": 1})
    before = stored_rows(saver)
    with pytest.raises(UnserializableStateError, match="thread 't', channel 'bad'"):
        door.put_values({"x": 2, "bad": value}, put)
    with pytest.raises(UnserializableStateError, match="metadata"):
        door.put_values({"x": 2}, put, metadata={"bad": value})
    with pytest.raises(UnserializableStateError, match="task 'task' in thread 't', channel 'bad'"):
        door.put_writes(put, [("x", 2), ("bad", value)], "task")
    assert stored_rows(saver) == before
    assert door.get_tuple(CONFIG).config == put


@pytest.mark.parametrize("name", ["\0", "a\ud800", "x" * 1001, 7, ["x"]])
def test_names_that_no_database_holds(door: Door, saver: Saver, name: Any) -> None:
    for config, checkpoint_id in (
        (config_at(None, namespace=name), "1"),
        (config_at(name), "1"),
        (CONFIG, name),
    ):
        with pytest.raises(ValueError, match="cannot be stored"):
            door.put(config, {**empty_checkpoint(), "id": checkpoint_id}, {}, {})
    with pytest.raises(ValueError, match="task_id"):
        door.put_writes(config_at("1"), [("x", 1)], name)
    with pytest.raises(ValueError, match="checkpoint_id None"):
        door.put_writes(CONFIG, [("x", 1)], "task")
    with pytest.raises(InvalidThreadIdError):
        door.put(config_at(None, name), empty_checkpoint(), {}, {})
    assert saver.thread_ids() == []
    door.put_values({})
    if isinstance(name, str):
        for config in (config_at(name), config_at(None, namespace=name)):
            assert (door.get_tuple(config), door.listed(config)) == (None, [])
        assert door.listed(before=config_at("\0")) == []


# Listing


def test_listing_by_place_and_in_portions(door: Door) -> None:
    rng = random.Random(7)
    places = [(thread, namespace) for thread in ("t", "u", "v") for namespace in ("", "n:1")]
    everything = [f"{number:03}" for number in range(100)]
    where = {checkpoint_id: rng.choice(places) for checkpoint_id in everything}
    for checkpoint_id in rng.sample(everything, 100):
        thread_id, namespace = where[checkpoint_id]
        door.put_values({"id": checkpoint_id}, config_at(None, thread_id, namespace), id=checkpoint_id)
    newest_first = everything[::-1]
    assert door.ids(None) == newest_first
    assert door.ids({}) == newest_first
    for thread_id, namespace in places:
        own = [key for key in newest_first if where[key] == (thread_id, namespace)]
        config = config_at(None, thread_id, namespace)
        assert door.ids(config) == own
        assert door.ids(config, before=config_at("050")) == [key for key in own if key < "050"]
        assert door.ids(config, limit=5, before=config_at("050")) == [key for key in own if key < "050"][:5]
        assert door.ids(config_at(own[3], thread_id, namespace)) == [own[3]]
        assert door.ids({"configurable": {"thread_id": thread_id, "checkpoint_id": own[3]}}) == [own[3]]
        assert door.ids(config_at(own[3], thread_id, namespace), before=config_at(own[3])) == []
    thread = [key for key in newest_first if where[key][0] == "u"]
    assert door.ids({"configurable": {"thread_id": "u"}}) == thread
    assert door.ids(None, limit=3) == newest_first[:3]
    assert door.ids(None, limit=0) == door.ids(None, limit=-1) == door.ids(config_at(None, "unknown")) == []


def some_metadata(rng: random.Random) -> dict[str, Any]:
    values = [0, 1, 2, True, False, None, "", "a", "1", 1.5, [], [1], {"k": None}, {"k": 1}, (1,), math.inf]
    keys = ["source", "step", "a", "a.b", "'", "\0", "parents"]
    return {key: rng.choice(values) for key in rng.sample(keys, rng.randrange(len(keys)))}


def test_filters_compare_metadata_as_python_does(door: Door) -> None:
    rng = random.Random(42)
    stored = {f"{number:02}": some_metadata(rng) for number in range(25)}
    for checkpoint_id, metadata in stored.items():
        door.put_values({}, id=checkpoint_id, metadata=metadata)
    for _ in range(20):
        wanted = some_metadata(rng) or rng.choice(list(stored.values()))
        wanted = dict(rng.sample(list(wanted.items()), min(len(wanted), rng.choice([1, 1, 2]))))
        assert door.ids(filter=wanted) == [
            key
            for key, metadata in sorted(stored.items(), reverse=True)
            if all(name in metadata and metadata[name] == value for name, value in wanted.items())
        ]


def test_filters_see_what_is_shown_of_the_engine(door: Door, build: Build) -> None:
    graph = build({"a": says("a"), "b": says("b")}, in_a_row("a", "b"))
    for user in ("ada", "bob"):
        graph.invoke({"log": []}, {**CONFIG, "metadata": {"user": user}})
    wanted: dict[str, Any]
    for wanted, steps in (
        ({"user": "ada"}, [2, 1, 0, -1]),
        ({"source": "input", "user": "bob"}, [3]),
        ({"step": 1}, [1]),
        ({"parents": {}, "source": "loop"}, [6, 5, 4, 2, 1, 0]),
        ({"missing": None}, []),
    ):
        assert [found.metadata["step"] for found in door.listed(filter=wanted)] == steps


def test_a_listing_survives_what_is_written_meanwhile(door: Door, saver: Saver) -> None:
    for number in range(80):
        door.put_values({"n": number}, id=f"{number:03}")
    found: Iterator[CheckpointTuple] = saver.list(CONFIG)
    ids = [next(found).checkpoint["id"] for _ in range(5)]
    door.put_values({"n": "new"}, id="999")
    ids += [point.checkpoint["id"] for point in found]
    assert ids == [f"{number:03}" for number in range(79, -1, -1)]


# Several writers


def test_several_writers_put_at_once(saver: Saver, reopen: Reopen) -> None:
    writers, each = 4, 12
    savers = [saver, reopen(saver)]
    together = threading.Barrier(writers)

    def write(number: int) -> None:
        door, config = Door(savers[number % 2], "sync"), CONFIG
        together.wait()
        for turn in range(each):
            checkpoint_id = f"{turn:03}-{number}"
            config = door.put_values({"own": [number] * (turn + 1)}, config, id=checkpoint_id)
            door.put_writes(config_at("shared"), [("x", number)], "task")

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(write, range(writers)))
    door = Door(saver, "sync")
    assert door.ids() == sorted(
        (f"{turn:03}-{n}" for turn in range(each) for n in range(writers)), reverse=True
    )
    assert door.get_tuple(CONFIG).checkpoint["id"] == f"{each - 1:03}-{writers - 1}"
    for found in door.listed():
        turn, number = map(int, found.checkpoint["id"].split("-"))
        assert found.checkpoint["channel_values"] == {"own": [number] * (turn + 1)}
        assert get_checkpoint_id(found.parent_config or {}) == (f"{turn - 1:03}-{number}" if turn else None)
    door.put_values({}, id="shared")
    assert len(door.get_tuple(config_at("shared")).pending_writes) == 1


def test_tasks_of_one_loop_put_at_once(saver: Saver) -> None:
    async def put_all() -> None:
        await asyncio.gather(
            *(saver.aput(CONFIG, with_values({"n": n}, f"{n:02}"), {}, {}) for n in range(20))
        )

    asyncio.run(put_all())
    assert [found.checkpoint["id"] for found in saver.list(CONFIG)] == [f"{n:02}" for n in range(19, -1, -1)]


# The rest of the interface on what was put


def test_copies_show_the_same(door: Door, build: Build) -> None:
    first = door.put_values({"x": [1], "\0": 2}, config_at(None, namespace="n"), id="1", metadata={"a": 1})
    door.put_values({"x": [1, 2]}, first, id="0")
    door.put_writes(first, [("x", 3)], "task")
    door.copy_thread("t", "copy")
    moved = [found.checkpoint for found in door.listed(config_at(None, "copy", "n"))]
    assert moved == [found.checkpoint for found in door.listed(config_at(None, namespace="n"))]
    assert writes_to(door.get_tuple(config_at("1", "copy", "n")), "x") == [3]
    assert get_checkpoint_id(door.get_tuple(config_at("0", "copy", "n")).parent_config) == "1"


def test_a_thread_with_nested_namespaces_only_can_be_pruned(door: Door) -> None:
    config = config_at(None, namespace="child:1")
    for number in range(3):
        config = door.put_values({"x": [number]}, config, id=str(number), metadata={"run_id": f"r{number}"})
    assert door.prune(["t"], strategy="keep_latest") == 2
    assert door.ids(config_at(None, namespace="child:1")) == ["2"]
    assert door.delete_for_runs(["r2"]) == 1
    assert door.listed(None) == []


def test_pruning_what_a_put_looks_at_makes_it_look_again(saver: Saver) -> None:
    """The window between the look and the commit, in a nested namespace."""
    door, namespace = Door(saver, "sync"), config_at(None, namespace="n")
    first = door.put_values({"x": [1]}, namespace, id="1")
    door.put_values({"x": [2]}, first, id="2")
    write, pruned = saver.write, list[int]()

    def prune_first(rows: Any) -> None:
        if not pruned:
            pruned.append(saver.prune("t", keep_last=1))
        write(rows)

    saver.write = prune_first
    checkpoint = with_values({"x": [1]}, "3")
    checkpoint["channel_versions"] = {"x": "1"}
    put = door.put(first, checkpoint, {}, {})
    del saver.write
    assert pruned == [1]
    assert door.get_tuple(put).checkpoint["channel_values"] == {"x": [1]}


# Shapes


def test_ids_of_empty_checkpoints_sort_by_time() -> None:
    ids = [empty_checkpoint()["id"] for _ in range(1000)]
    assert ids == sorted(set(ids))


def test_a_copy_of_a_checkpoint_is_its_own() -> None:
    original = with_values({"a": 1})
    original["versions_seen"] = {"n": {"a": 1}}
    before = pack(dict(original))
    copied = copy_checkpoint(original)
    assert copied == original
    copied["channel_values"]["b"] = copied["channel_versions"]["b"] = copied["versions_seen"]["n"]["b"] = 2
    assert pack(dict(original)) == before


@given(
    st.one_of(st.none(), st.integers(0), st.floats(0, 1e9), st.text(), st.from_regex(r"\d{1,4}(\.\d{1,3})*"))
)
def test_the_next_version_is_larger(current: Any) -> None:
    saver = InMemorySaver()
    version = current
    for _ in range(3):
        following: Any = saver.get_next_version(version, None)
        assert version is None or following > version
        version = following


def test_no_options_of_its_own(saver: Saver) -> None:
    assert saver.config_specs == []


def test_a_copy_has_writes_whose_checkpoint_is_still_to_come(saver: Any) -> None:
    def at(thread: str, checkpoint_id: str | None = None) -> dict[str, Any]:
        configurable = {"thread_id": thread, "checkpoint_ns": ""}
        return {
            "configurable": {**configurable, **({"checkpoint_id": checkpoint_id} if checkpoint_id else {})}
        }

    first, second = empty_checkpoint(), empty_checkpoint()
    saver.put(at("t"), first, {}, {})
    saver.put_writes(at("t", second["id"]), [("log", "early")], "task")
    saver.copy_thread("t", "copy")
    saver.put(at("copy", first["id"]), second, {}, {})
    found = saver.get_tuple(at("copy"))
    assert (found.checkpoint["id"], found.pending_writes) == (second["id"], [("task", "log", "early")])
