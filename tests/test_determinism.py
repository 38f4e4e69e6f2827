"""Determinism: the same graph and input give the same tasks, in the same order, with the same updates."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphkit import END, START, Send
from graphkit.types import RunnableConfig
from tests.conftest import EMPTY, Runner, Saver, graph_of, says

WORKERS = Path(__file__).parent / "workers"
sys.path.insert(0, str(WORKERS))
deterministic = importlib.import_module("deterministic")


def in_another_process(hash_seed: int) -> Any:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": str(hash_seed)}
    command = [sys.executable, str(WORKERS / "deterministic.py")]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(done.stdout)


def test_two_runs_in_one_process_show_the_same() -> None:
    first = deterministic.everything()
    assert deterministic.everything() == first
    assert {kind: len(chunks) for kind, chunks in first["stream"].items()} == {
        "checkpoints": 6,
        "values": 5,
        "tasks started": 11,
        "tasks": 11,
        "updates": 11,
    }


@pytest.mark.parametrize("hash_seed", [1, 2])
def test_a_run_with_another_hash_seed_shows_the_same(hash_seed: int) -> None:
    assert in_another_process(hash_seed) == deterministic.everything()


def test_sync_and_async_runs_show_the_same(config: RunnableConfig) -> None:
    options: dict[str, Any] = {"stream_mode": deterministic.MODES}
    one_by_one: RunnableConfig = {**config, "max_concurrency": 1}
    sync, other = (
        deterministic.by_kind(Runner(colour).stream(deterministic.tangled(), EMPTY, one_by_one, **options))
        for colour in ("sync", "async")
    )
    assert sync == other


def test_tasks_start_and_are_applied_in_task_path_order(runner: Runner) -> None:
    graph = deterministic.tangled()
    config: RunnableConfig = {"configurable": {"thread_id": "t"}}
    chunks = runner.stream(graph, EMPTY, config, stream_mode="tasks")
    starts = [chunk["name"] for chunk in chunks if "input" in chunk]
    assert starts[:6] == ["alpha", "mid", "zeta", "worker", "alpha", "worker"]
    log = runner.get_state(graph, config).values["log"]
    assert log[:6] == ["alpha", "mid", "zeta", "worker 2", "alpha", "worker 0"]


def test_runs_at_full_concurrency_end_the_same(runner: Runner, saver: Saver) -> None:
    def worker(number: int) -> dict[str, list[int]]:
        return {"log": [number]}

    graph = graph_of(
        {"worker": worker, "b": says("b"), "a": says("a")},
        [(START, lambda state: ["b", *(Send("worker", n) for n in range(30)), "a"], ["a", "b", "worker"])],
        saver=saver,
    )
    for run in range(10):
        thread: RunnableConfig = {"configurable": {"thread_id": f"{run}"}}
        assert runner.invoke(graph, EMPTY, thread)["log"] == ["a", "b", *range(30)]
        before = runner.history(graph, thread)[1]
        assert [task.name for task in before.tasks] == ["a", "b", *["worker"] * 30]


Shape = list[tuple[int, int]]


@settings(max_examples=40, deadline=None)
@given(
    order=st.permutations(range(6)),
    edges=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 6)), min_size=4, max_size=12),
)
def test_the_order_of_building_does_not_matter(order: list[int], edges: Shape) -> None:
    """Six nodes, any edges that lead forward; 6 is the end, and every node can be reached."""
    forward = [(source, target) for source, target in edges if source < target]
    reachable = [(node, node + 1) for node in range(5)]

    def run(nodes: list[int], pairs: Shape) -> Any:
        names = {f"n{node}": says(f"n{node}") for node in nodes}
        lines = [(f"n{source}", END if target == 6 else f"n{target}") for source, target in pairs]
        graph = graph_of(names, [(START, "n0"), *lines])
        one_by_one: RunnableConfig = {"max_concurrency": 1}
        return deterministic.by_kind(graph.stream(EMPTY, one_by_one, stream_mode=["tasks", "values"]))

    straight = run(list(range(6)), reachable + forward)
    assert run(order, (reachable + forward)[::-1]) == straight
