"""Compare graphkit with its peers: `python -m benchmarks.run [--quick]` prints and writes one table, and charts.

The peers live in an environment of their own, `.venv-bench`, created here when it is missing. The measuring itself
is done by measure.py in that environment, with graphkit taken from the source tree.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from benchmarks.charts import draw
from benchmarks.report import Report, RowDict

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS = HERE / "results"
ENVIRONMENT = ROOT / ".venv-bench"
SOURCES = [ROOT / name for name in ("graphkit", "checkpoint", "prebuilt")]
PAIRS, QUICK_PAIRS = 11, 3
PEERS = {"langgraph": "LangGraph", "strands-agents": "Strands"}


def pinned_packages() -> list[str]:
    lines = (HERE / "requirements.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def required_packages() -> list[str]:
    """The peers' packages and graphkit's own dependencies, each from the one file that names them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [
        *pinned_packages(),
        *project["dependencies"],
        *project["optional-dependencies"]["postgres"],
    ]


def peers() -> list[str]:
    """Names with versions."""
    versions = dict(line.split("==") for line in pinned_packages() if "==" in line)
    return [f"{name} {versions[package]}" for package, name in PEERS.items()]


def prepare_environment() -> Path:
    """The python of `.venv-bench`, which is made, or brought up to date, if its list of packages differs."""
    python = ENVIRONMENT / "bin" / "python"
    installed = ENVIRONMENT / "installed-packages.txt"
    packages = required_packages()
    wanted = "\n".join(packages)
    if not installed.exists() or installed.read_text(encoding="utf-8") != wanted:
        print(f"installing the benchmark's environment in {ENVIRONMENT.name}", file=sys.stderr)
        venv.create(ENVIRONMENT, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
        installed.write_text(wanted, encoding="utf-8")
    return python


def measure(python: Path, pairs: int, quick: bool, only: str) -> Iterator[RowDict]:
    """What measure.py prints, as it comes: rows, and what is missing."""
    command = [str(python), "-m", "benchmarks.measure", "--pairs", str(pairs), "--only", only]
    paths = os.pathsep.join(str(source) for source in [*SOURCES, ROOT])
    for source in SOURCES:
        compileall.compile_dir(source, quiet=1)  # as pip does with the peers
    started = perf_counter()
    with subprocess.Popen(
        [*command, "--quick"] if quick else command,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths},
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            found = json.loads(line)
            said = (
                f"measured: {found['metric']}" if "metric" in found else f"NOT MEASURED: {found['missing']}"
            )
            print(f"{perf_counter() - started:5.0f} s  {said}", file=sys.stderr)
            yield found
    if process.returncode:
        sys.exit(f"measuring failed with status {process.returncode}")


def write(report: Report, folder: Path) -> str:
    """Write the table in both forms and its charts. Returns the Markdown."""
    folder.mkdir(parents=True, exist_ok=True)
    table = report.markdown(draw(report, folder))
    (folder / f"{report.name}.md").write_text(table, encoding="utf-8")
    (folder / f"{report.name}.json").write_text(report.json(), encoding="utf-8")
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare graphkit with LangGraph and Strands.")
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK_PAIRS} pairs instead of {PAIRS}, smaller, no slow rows"
    )
    parser.add_argument("--pairs", type=int, help="another number of pairs; nothing is written then")
    parser.add_argument(
        "--only", default="", help="measure rows with this text only; nothing is written then"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the tables")
    given = parser.parse_args()
    pairs = given.pairs or (QUICK_PAIRS if given.quick else PAIRS)
    found = list(measure(prepare_environment(), pairs, given.quick, given.only))
    rows, missing = (
        [line for line in found if "metric" in line],
        [line for line in found if "metric" not in line],
    )
    report = Report(rows, missing, pairs, given.quick, peers())
    in_part = given.pairs or given.only
    print(report.markdown() if in_part else write(report, given.results))
    return 1 if any(line["failed"] for line in missing) else 0


if __name__ == "__main__":
    sys.exit(main())
