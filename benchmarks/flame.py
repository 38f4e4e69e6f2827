"""Where one scenario's time goes: `python -m benchmarks.flame "superstep, SQLite"` writes a flame graph.

py-spy samples the process from outside, all its threads and children, so that what is measured runs as it does
without it. Only graphkit runs, again and again for some seconds. The picture is an SVG in the folder of the results:
open it in a browser, click a frame to zoom, search with Ctrl-F; zoom into `work` to leave the preparing out.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from shutil import which
from sysconfig import get_path
from time import perf_counter

from benchmarks.databases import Databases
from benchmarks.groups import groups
from benchmarks.measure import Measurement
from benchmarks.run import RESULTS, ROOT
from benchmarks.scenario import FULL, Sample, Scenario

SECONDS = 10
RATE = 250
"""Samples per second."""


class UnknownScenarioError(ValueError):
    """No scenario has this in its metric."""


def scenarios() -> list[Scenario]:
    return [scenario for group in groups(FULL).values() for scenario in group]


def find(text: str) -> Scenario:
    """The scenario of this name, or the first one whose name begins with or has this text. Raises
    `UnknownScenarioError`, which lists them all."""
    known, wanted = scenarios(), text.casefold()
    for matches in (str.__eq__, str.startswith, str.__contains__):
        for scenario in known:
            if wanted and matches(scenario.metric.casefold(), wanted):
                return scenario
    names = "\n".join(f"  {scenario.metric}" for scenario in known)
    raise UnknownScenarioError(f"no scenario has {text!r} in its name; there are:\n{names}")


def path_of(scenario: Scenario, folder: Path) -> Path:
    name = re.sub(r"[^a-z0-9]+", "-", scenario.metric.casefold()).strip("-")
    return folder / f"profile-{name}.svg"


def record(scenario: Scenario, path: Path, seconds: float) -> None:
    """Run the scenario in a process that py-spy samples."""
    recorder = which("py-spy", path=get_path("scripts")) or which("py-spy")
    if recorder is None:
        sys.exit("py-spy is missing; it comes with the extra `dev`: pip install -e '.[dev]'")
    path.parent.mkdir(parents=True, exist_ok=True)
    options = ["--rate", str(RATE), "--subprocesses", "--function", "--output", str(path)]
    program = [sys.executable, "-m", "benchmarks.flame", scenario.metric, "--run", "--seconds", str(seconds)]
    ran = subprocess.run([recorder, "record", *options, "--", *program], cwd=ROOT, check=False)
    if ran.returncode or not path.exists():
        sys.exit(
            "py-spy could not record: does this machine let a process be traced (ptrace)? On macOS: use sudo"
        )


def run(scenario: Scenario, seconds: float) -> int:
    """In the child: take samples of graphkit for so long. Returns how many."""
    with Databases() as databases, ExitStack() as stack:
        measurement = Measurement(databases)
        if lacking := measurement.lacks(scenario):
            sys.exit(f"{scenario.metric} cannot be run here: {lacking}")
        return work(measurement.sample(scenario, measurement.graphkit(scenario), stack), seconds)


def work(sample: Sample, seconds: float) -> int:
    taken, end = 0, perf_counter() + seconds
    while not taken or perf_counter() < end:
        sample()
        taken += 1
    return taken


def main() -> int:
    parser = argparse.ArgumentParser(description="Write a flame graph of one scenario of the benchmarks.")
    parser.add_argument("scenario", help="its metric, or a part of it")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--run", action="store_true", help="only run it, unsampled")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the picture")
    given = parser.parse_args()
    try:
        scenario = find(given.scenario)
    except UnknownScenarioError as error:
        sys.exit(str(error))
    if given.run:
        print(f"{run(scenario, given.seconds)} samples", file=sys.stderr)
        return 0
    path = path_of(scenario, given.results)
    record(scenario, path, given.seconds)
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
