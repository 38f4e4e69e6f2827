"""Run every scenario in pairs, peer and graphkit in turn in this one process, and print rows as JSON.

Figures on a shared machine wander, but both halves of a pair meet the same weather: the ratio of each pair
is taken, and the median and the quartiles of those ratios are reported. Which of the two goes first changes
from pair to pair. Started by run.py, in the environment that has both frameworks.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median, quantiles
from time import perf_counter

from frameworks import IMPORTS, Framework, load_graphkit, load_peer
from scenarios import SCENARIOS, Sample, Scenario, Target, Unit

# A single sample can be shorter than one tick of a busy machine; it is repeated for at least this long.
SECONDS_PER_MEASUREMENT = 0.05
SCALES = {"µs": 1e6, "ms": 1e3}

# The child reports its own peak. Where there is /proc it is read there: `getrusage` counts, for a process
# that was started by another, what that other one had in memory.
REPORT_PEAK = (
    "print(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')).split()[1])"
    if sys.platform == "linux"
    else "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
)
PEAK_UNITS_PER_MIB = 2**20 if sys.platform == "darwin" else 2**10


@dataclass(frozen=True)
class Row:
    """One line of the table, values in `unit`; `quartiles` are those of the pairs' ratios."""

    metric: str
    unit: Unit
    peer: float | None
    graphkit: float
    ratio: float | None
    quartiles: tuple[float, float] | None
    target: str
    met: bool


def summarize(metric: str, unit: Unit, target: Target, pairs: list[tuple[float | None, float]]) -> Row:
    scale = SCALES.get(unit, 1)
    graphkit = median(ours for _, ours in pairs) * scale
    peers = [peer for peer, _ in pairs if peer is not None]
    ratios = [peer / ours for peer, ours in pairs if peer is not None]
    ratio = median(ratios) if ratios else None
    return Row(
        metric=metric,
        unit=unit,
        peer=median(peers) * scale if peers else None,
        graphkit=graphkit,
        ratio=ratio,
        quartiles=spread(ratios) if ratios else None,
        target=str(target),
        met=target.is_met(graphkit, ratio),
    )


def spread(values: list[float]) -> tuple[float, float]:
    lower, _, upper = quantiles(values, method="inclusive") if len(values) > 1 else values * 3
    return lower, upper


def measure_imports(pairs: int) -> list[Row]:
    """Time and peak memory of a process that imports the graph builder and ends."""
    for statement in IMPORTS.values():
        import_once(statement)  # writes the bytecode files
    taken = []
    for number in range(pairs):
        order = list(IMPORTS) if number % 2 else list(reversed(IMPORTS))
        taken.append({name: import_once(IMPORTS[name]) for name in order})
    times: list[tuple[float | None, float]] = [(pair["peer"][0], pair["graphkit"][0]) for pair in taken]
    peaks: list[tuple[float | None, float]] = [(pair["peer"][1], pair["graphkit"][1]) for pair in taken]
    return [
        summarize("import StateGraph, whole process", "ms", Target("ratio", 6), times),
        summarize("import StateGraph, peak memory", "MiB", Target("ratio", 2.5), peaks),
    ]


def import_once(statement: str) -> tuple[float, float]:
    command = [sys.executable, "-c", f"{statement}; {REPORT_PEAK}"]
    started = perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return perf_counter() - started, int(done.stdout) / PEAK_UNITS_PER_MIB


def measure_scenario(scenario: Scenario, peer: Framework, graphkit: Framework, pairs: int) -> Row:
    with ExitStack() as stack:
        ours = prepare(scenario, graphkit, stack)
        if not scenario.with_peer:
            return summarize(scenario.metric, scenario.unit, scenario.target, [(None, ours.take())])
        theirs = prepare(scenario, peer, stack)
        taken: list[tuple[float | None, float]] = []
        for number in range(pairs):
            figures = {one: one.take() for one in ((theirs, ours) if number % 2 else (ours, theirs))}
            taken.append((figures[theirs], figures[ours]))
    return summarize(scenario.metric, scenario.unit, scenario.target, taken)


class Steady:
    """A sample, repeated often enough to be worth comparing."""

    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        sample()  # the first one pays for what is set up only once
        started = perf_counter()
        sample()
        self.repeats = max(1, math.ceil(SECONDS_PER_MEASUREMENT / (perf_counter() - started)))

    def take(self) -> float:
        gc.collect()
        return mean(self.sample() for _ in range(self.repeats))


def prepare(scenario: Scenario, framework: Framework, stack: ExitStack) -> Steady:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    saver = stack.enter_context(framework.savers[scenario.saver](folder))
    return Steady(scenario.prepare(framework, saver))


def measure_all(pairs: int) -> Iterable[Row]:
    yield from measure_imports(pairs)
    peer, graphkit = load_peer(), load_graphkit()
    for scenario in SCENARIOS:
        yield measure_scenario(scenario, peer, graphkit, pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, required=True)
    pairs = parser.parse_args().pairs
    for row in measure_all(pairs):
        print(json.dumps(asdict(row)), flush=True)


if __name__ == "__main__":
    main()
