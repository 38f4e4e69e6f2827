"""Run every scenario in pairs, peer and graphkit in turn in this one process, and print rows as JSON.

Figures on a shared machine wander, but both halves of a pair meet the same weather: the ratio of each pair is
taken, and the median and the quartiles of those ratios are reported. The bare limit is the third of a pair. Who goes
first changes from pair to pair. Started by run.py, in the environment that has all frameworks.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from statistics import mean, median, quantiles
from time import perf_counter
from typing import Any, Literal

from benchmarks.agent_frameworks import load_graphkit_agents, load_strands
from benchmarks.databases import Databases
from benchmarks.frameworks import load_graphkit, load_langgraph
from benchmarks.groups import groups
from benchmarks.processes import can_trace
from benchmarks.scenario import FULL, QUICK, Sample, Scenario, Unit

# A single sample can be shorter than one tick of a busy machine; it is repeated for at least this long.
SECONDS_PER_MEASUREMENT = 0.05
SCALES = {"µs": 1e6, "ms": 1e3}

Side = Literal["peer", "graphkit", "limit"]
Pair = dict[Side, float]
"""What was measured in turn. Always graphkit; the other two where the scenario has them."""


@dataclass(frozen=True)
class Row:
    """One line of the table, values in `unit`. `ratio` is peer ÷ graphkit and `distance` graphkit ÷ limit, both with
    the quartiles of the pairs."""

    group: str
    metric: str
    unit: Unit
    peer_name: str | None
    peer: float | None
    graphkit: float
    limit: float | None
    limit_is: str | None
    ratio: float | None
    quartiles: tuple[float, float] | None
    distance: float | None
    distance_quartiles: tuple[float, float] | None
    target: str
    judged: str | None
    wanted: float | None
    met: bool | None
    stretched: bool
    pairs: int
    quick: bool


@dataclass(frozen=True)
class Missing:
    """A line that could not be measured. `failed`: it should have been."""

    missing: str
    why: str
    failed: bool = False


def summarize(group: str, scenario: Scenario, pairs: list[Pair], quick: bool = False) -> Row:
    target = scenario.target
    graphkit = middle(pairs, "graphkit", scenario.unit)
    assert graphkit is not None
    ratio, quartiles = quotient(pairs, "peer", "graphkit")
    distance, distance_quartiles = quotient(pairs, "graphkit", "limit")
    return Row(
        group=group,
        metric=scenario.metric,
        unit=scenario.unit,
        peer_name=scenario.peer if scenario.with_peer else None,
        peer=middle(pairs, "peer", scenario.unit),
        graphkit=graphkit,
        limit=middle(pairs, "limit", scenario.unit),
        limit_is=None if scenario.limit is None else scenario.limit.what,
        ratio=ratio,
        quartiles=quartiles,
        distance=distance,
        distance_quartiles=distance_quartiles,
        target="–" if target is None else str(target),
        judged=None if target is None else target.judged,
        wanted=None if target is None else target.value,
        met=None if target is None else target.is_met(graphkit, ratio),
        stretched=target is not None and target.is_stretched(ratio),
        pairs=len(pairs),
        quick=quick,
    )


def middle(pairs: list[Pair], side: Side, unit: Unit) -> float | None:
    values = [pair[side] for pair in pairs if side in pair]
    return median(values) * SCALES.get(unit, 1) if values else None


def quotient(pairs: list[Pair], above: Side, below: Side) -> tuple[float | None, tuple[float, float] | None]:
    """Median and quartiles of the quotients of the pairs."""
    values = [pair[above] / pair[below] for pair in pairs if above in pair and below in pair]
    return (median(values), spread(values)) if values else (None, None)


def spread(values: list[float]) -> tuple[float, float]:
    lower, _, upper = quantiles(values, method="inclusive") if len(values) > 1 else values * 3
    return lower, upper


class Steady:
    """A sample, repeated often enough to be worth comparing, or taken as it is."""

    def __init__(self, sample: Sample, once: bool = False) -> None:
        self.sample = sample
        self.repeats = 1
        if once:
            return
        sample()  # the first one pays for what is set up only once
        started = perf_counter()
        sample()
        self.repeats = max(1, math.ceil(SECONDS_PER_MEASUREMENT / (perf_counter() - started)))

    def take(self) -> float:
        gc.collect()
        return mean(self.sample() for _ in range(self.repeats))


class Measurement:
    """Everything that scenarios are measured with, loaded when the first one needs it."""

    def __init__(self, databases: Databases) -> None:
        self.databases = databases
        self.langgraph = cache(lambda: load_langgraph(databases))
        self.strands = cache(lambda: load_strands(databases))
        self.graphs = cache(lambda: load_graphkit(databases))
        self.agents = cache(lambda: load_graphkit_agents(databases))

    def measure(self, scenario: Scenario, most_pairs: int) -> list[Pair]:
        taken: list[Pair] = []
        with ExitStack() as stack:
            sides = self.sides(scenario, stack)
            for number in range(min(most_pairs, scenario.most_pairs or most_pairs)):
                order = sides if number % 2 else sides[::-1]
                taken.append({side: steady.take() for side, steady in order})
        return taken

    def sides(self, scenario: Scenario, stack: ExitStack) -> list[tuple[Side, Steady]]:
        once = scenario.most_pairs is not None
        ours = self.sample(scenario, self.graphkit(scenario), stack)
        sides: list[tuple[Side, Steady]] = [("graphkit", Steady(ours, once))]
        if scenario.with_peer:
            theirs = self.sample(scenario, self.peer(scenario), stack)
            sides.insert(0, ("peer", Steady(theirs, once)))
        if scenario.limit is not None:
            bare = stack.enter_context(scenario.limit.open(new_folder(stack), self.databases))
            sides.append(("limit", Steady(bare, once)))
        return sides

    def graphkit(self, scenario: Scenario) -> Any:
        return self.agents() if scenario.peer == "Strands" else self.graphs()

    def peer(self, scenario: Scenario) -> Any:
        return self.strands() if scenario.peer == "Strands" else self.langgraph()

    def sample(self, scenario: Scenario, framework: Any, stack: ExitStack) -> Sample:
        if scenario.saver == "none":
            return scenario.prepare(framework, None)
        folder = new_folder(stack)
        if scenario.saver == "own":
            return scenario.prepare(framework, folder)
        return scenario.prepare(framework, stack.enter_context(framework.savers[scenario.saver](folder)))

    def lacks(self, scenario: Scenario) -> str | None:
        """What is not on this machine."""
        if scenario.needs_postgres and not self.databases.available:
            return "no PostgreSQL"
        if scenario.needs_strace and not can_trace():
            return "strace is missing or may not trace"
        return None


def new_folder(stack: ExitStack) -> Path:
    return Path(stack.enter_context(tempfile.TemporaryDirectory()))


def measure_all(pairs: int, quick: bool, only: str) -> Iterator[Row | Missing]:
    """Rows with `only` in their metric. One that fails takes no other with it."""
    with Databases() as databases:
        measurement = Measurement(databases)
        for group, scenarios in groups(QUICK if quick else FULL).items():
            for scenario in scenarios:
                if only not in scenario.metric or (quick and scenario.slow):
                    continue
                if lacking := measurement.lacks(scenario):
                    yield Missing(scenario.metric, lacking)
                    continue
                try:
                    taken = measurement.measure(scenario, pairs)
                except Exception as error:
                    traceback.print_exc()
                    yield Missing(scenario.metric, f"{type(error).__name__}: {error}", failed=True)
                else:
                    yield summarize(group, scenario, taken, quick)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, required=True)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, and no slow rows")
    parser.add_argument("--only", default="", help="measure rows with this text only")
    arguments = parser.parse_args()
    for row in measure_all(arguments.pairs, arguments.quick, arguments.only):
        print(json.dumps(asdict(row)), flush=True)


if __name__ == "__main__":
    main()
