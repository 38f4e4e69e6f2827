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
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median, quantiles
from time import perf_counter

from conversations import CONVERSATIONS, MEMORY_TURNS
from databases import Databases
from frameworks import IMPORTS, Framework, load_graphkit, load_peer
from processes import can_trace, fsyncs_per_superstep, memory_of_turns
from programs import PROGRAMS
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
    met: bool | None


def summarize(metric: str, unit: Unit, target: Target | None, pairs: list[tuple[float | None, float]]) -> Row:
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
        target="–" if target is None else str(target),
        met=None if target is None else target.is_met(graphkit, ratio),
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


def measure_fsyncs(pairs: int) -> Iterable[Row]:
    """Both with a saver at synchronous=FULL. A count hardly varies, so a few pairs do. It is a little above a
    whole number because SQLite syncs a few times more whenever it moves 1000 pages from its log."""
    if not can_trace():
        print("not measured: fsyncs (strace is missing or may not trace)", file=sys.stderr)
        return
    taken: list[tuple[float | None, float]] = [
        (fsyncs_per_superstep("peer"), fsyncs_per_superstep("graphkit")) for _ in range(min(pairs, 3))
    ]
    metric = "fsync and fdatasync calls per superstep (by strace), SQLite FULL"
    yield summarize(metric, "fsyncs", Target("rounded", 1), taken)


def measure_memory(pairs: int) -> Row:
    """Without the peer, whose one run would take gigabytes."""
    taken: list[tuple[float | None, float]] = [
        (None, memory_of_turns("graphkit", MEMORY_TURNS)) for _ in range(min(pairs, 3))
    ]
    metric = f"memory, in-memory saver, one run of {MEMORY_TURNS} turns of 1 KB (rise of the peak RSS)"
    return summarize(metric, "MB", Target("at most", 24), taken)


def measure_scenario(scenario: Scenario, peer: Framework, graphkit: Framework, pairs: int) -> Row:
    taken: list[tuple[float | None, float]] = []
    with ExitStack() as stack:
        ours = prepare(scenario, graphkit, stack)
        theirs = prepare(scenario, peer, stack) if scenario.with_peer else None
        for number in range(min(pairs, scenario.most_pairs or pairs)):
            order = (theirs, ours) if number % 2 else (ours, theirs)
            figures = {one: one.take() for one in order if one is not None}
            taken.append((figures[theirs] if theirs else None, figures[ours]))
    return summarize(scenario.metric, scenario.unit, scenario.target, taken)


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


def prepare(scenario: Scenario, framework: Framework, stack: ExitStack) -> Steady:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    saver = stack.enter_context(framework.savers[scenario.saver](folder))
    return Steady(scenario.prepare(framework, saver), once=scenario.most_pairs is not None)


def measure_all(pairs: int, only: str) -> Iterator[Row]:
    """Rows with `only` in their metric."""
    if only in "import StateGraph":
        yield from measure_imports(pairs)
    with Databases() as databases:
        peer, graphkit = load_peer(databases), load_graphkit(databases)
        for scenario in (*SCENARIOS, *CONVERSATIONS, *PROGRAMS):
            if only not in scenario.metric:
                continue
            if scenario.saver.startswith("postgres") and not databases.available:
                print(f"not measured: {scenario.metric} (no PostgreSQL)", file=sys.stderr)
                continue
            yield measure_scenario(scenario, peer, graphkit, pairs)
    if only in "fsyncs":
        yield from measure_fsyncs(pairs)
    if only in "memory":
        yield measure_memory(pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, required=True)
    parser.add_argument("--only", default="", help="measure rows with this text only")
    arguments = parser.parse_args()
    for row in measure_all(arguments.pairs, arguments.only):
        print(json.dumps(asdict(row)), flush=True)


if __name__ == "__main__":
    main()
