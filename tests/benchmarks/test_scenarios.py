"""The benchmarks run: every scenario on graphkit, and every bare limit, at the smallest sizes. No time is judged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks.databases import Databases
from benchmarks.groups import groups
from benchmarks.measure import Measurement
from benchmarks.run import PAIRS
from benchmarks.scenario import FULL, QUICK, Scenario, Sizes

TINY = Sizes(
    short=2,
    long=6,
    tasks=5,
    threads=3,
    steps=2,
    few_nodes=3,
    many_nodes=6,
    compiled_nodes=5,
    turns=40,
    memory_turns=1000,
    value_bytes=1_000_000,
    chain=3,
    jokes=2,
    react_turns=2,
    wide_states=((2, 3),),
    dict_entries=3,
    late_request=15,
    session_turns=2,
    ring=2,
    handoffs=3,
    layers=2,
)
SCENARIOS = [scenario for group in groups(TINY).values() for scenario in group]
TARGETS = {
    "import StateGraph, whole process": ("≥ 6×", True),
    "import StateGraph, peak memory": ("≥ 2.5×", True),
    "superstep, no checkpointer, sync": ("≥ 15×", True),
    "superstep, no checkpointer, async": ("≥ 15×", True),
    "superstep, in-memory saver": ("≥ 15×", True),
    "superstep, SQLite NORMAL": ("≥ 5×, stretch 10×", True),
    "superstep, SQLite NORMAL, async saver": ("≥ 5×", True),
    "fsync and fdatasync calls per superstep (by strace), SQLite FULL": ("= 1 (rounded)", True),
    "superstep cost, 3000 nodes ÷ 100 nodes": ("≤ 1.3", True),
    "fan-out of 1000, no checkpointer, sync, per task": ("≥ 12×", True),
    "fan-out of 1000, no checkpointer, async, per task": ("≥ 12×", True),
    "fan-out of 1000, SQLite NORMAL, per task": ("≥ 15×", True),
    "interrupt → resume, in-memory saver": ("≥ 12×", True),
    "interrupt → resume, SQLite NORMAL": ("≥ 8×", True),
    "compile a graph of 1000 nodes": ("≥ 15×", False),
    "size on disk, 1000 messages of 1 KB, one run, SQLite NORMAL": ("≤ 1.6", True),
    "size on disk, 1000 messages of 1 KB, 1000 invokes, SQLite NORMAL": ("≤ 2.2", True),
    "time per turn of a running graph at turn 1000, 1 KB each, SQLite NORMAL": ("≥ 30×", True),
    "time per turn of a running graph, turn 1000 ÷ turn 10": ("≤ 1.5", False),
    "cold get_state at turn 1000 (saver just opened), SQLite": ("≥ 1×", True),
    "get_state_history(limit=10) at turn 1000, SQLite": ("≥ 8×", True),
    "memory, in-memory saver, one run of 3000 turns of 1 KB (rise of the peak RSS)": ("≤ 24", True),
    "200 async threads × 20 supersteps, SQLite NORMAL, per superstep": ("≥ 10×", False),
    "superstep, PostgreSQL, synchronous_commit on": ("≥ 3×", True),
    "superstep, PostgreSQL, synchronous_commit off": ("≥ 6×", True),
    "size on disk ÷ size of a value of 100 MB, 4 supersteps, SQLite": ("≤ 1.1", False),
    "agent: one model → tool turn, scripted model, in memory": ("≥ 6×", False),
    "agent: the same, request 10 of a conversation": ("≥ 6×", False),
    "agent: request 100 ÷ request 10 of a conversation": ("≤ 1.2", False),
    "agent: restore a session of 200 messages of 1 KB from its file": ("≥ 10×", False),
    "agent: session of 200 messages of 1 KB, size on disk ÷ its JSON": ("≤ 1.6", False),
    "create_react_agent: 100 turns of model and tool, SQLite NORMAL": ("≥ 10×", False),
    "create_react_agent: size on disk, 200 turns ÷ 100 turns, SQLite": ("≤ 2.1", False),
    "team: ring of 10 agents, 100 handoffs, scripted models, in memory": ("≥ 5×", False),
    "team: graph of 10 × 10 agents in layers, scripted models, in memory": ("≥ 5×", False),
}
"""Every line of the targets: what is to be reached, and whether there is a bare limit."""


@pytest.fixture(scope="module")
def measurement() -> Iterator[Measurement]:
    with Databases() as databases:
        measurement = Measurement(databases)
        yield measurement
        measurement.graphs().loop.close()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[scenario.metric for scenario in SCENARIOS])
def test_every_scenario_runs_on_graphkit(measurement: Measurement, scenario: Scenario) -> None:
    skip_if_lacking(measurement, scenario)
    with ExitStack() as stack:
        sample = measurement.sample(scenario, measurement.graphkit(scenario), stack)
        for _ in range(1 if scenario.most_pairs else 2):
            assert type(sample()) in (int, float)


@pytest.mark.parametrize(
    "scenario", [one for one in SCENARIOS if one.limit], ids=lambda scenario: scenario.metric
)
def test_every_bare_limit_runs(measurement: Measurement, scenario: Scenario, tmp_path: Path) -> None:
    skip_if_lacking(measurement, scenario)
    assert scenario.limit is not None
    with scenario.limit.open(tmp_path, measurement.databases) as sample:
        assert sample() > 0


def skip_if_lacking(measurement: Measurement, scenario: Scenario) -> None:
    if lacking := measurement.lacks(scenario):
        pytest.skip(lacking)


def test_every_target_has_a_row() -> None:
    rows = {scenario.metric: scenario for group in groups(FULL).values() for scenario in group}
    found = {metric: (str(rows[metric].target), rows[metric].limit is not None) for metric in TARGETS}
    assert found == TARGETS


@pytest.mark.parametrize("sizes", [FULL, QUICK], ids=["full", "quick"])
def test_no_two_rows_have_the_same_name(sizes: Sizes) -> None:
    names = [scenario.metric for group in groups(sizes).values() for scenario in group]
    assert len(names) == len(set(names))


def test_nine_pairs_at_least_unless_a_sample_takes_seconds() -> None:
    known = [scenario for group in groups(FULL).values() for scenario in group]
    few = {scenario.metric.partition(",")[0] for scenario in known if (scenario.most_pairs or 9) < 9}
    assert few == {
        "size on disk",
        "size on disk ÷ size of a value of 100 MB",
        "agent: session of 200 messages of 1 KB",
        "create_react_agent: size on disk",
        "time per turn of a running graph at turn 1000",
        "time per invoke",
        "fsync and fdatasync calls per superstep (by strace)",
        "memory",
    }
    assert PAIRS >= 9
