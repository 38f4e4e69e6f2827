"""Compare graphkit with LangGraph: `python benchmarks/run.py [--quick]` prints and writes one table.

The peer lives in an environment of its own, `.venv-bench`, created here when it is missing. The measuring
itself is done by measure.py in that environment, with graphkit taken from the source tree.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import platform
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
ENVIRONMENT = ROOT / ".venv-bench"
SOURCES = [ROOT / name for name in ("graphkit", "checkpoint", "prebuilt")]
TESTS = ROOT  # `tests.postgres` starts the server
PAIRS, QUICK_PAIRS = 11, 3
COLUMNS = ("metric", "LangGraph", "graphkit", "ratio (quartiles)", "target", "met")


def required_packages() -> list[str]:
    """The peer's packages and graphkit's own dependencies, each from the one file that names them."""
    peer = (HERE / "requirements.txt").read_text(encoding="utf-8").splitlines()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    own = [*project["dependencies"], *project["optional-dependencies"]["postgres"]]
    return [*(line for line in peer if line and not line.startswith("#")), *own]


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


def measure(python: Path, pairs: int) -> Iterator[dict[str, Any]]:
    """The rows of measure.py, as they come."""
    paths = os.pathsep.join(str(source) for source in [*SOURCES, TESTS])
    command = [str(python), str(HERE / "measure.py"), "--pairs", str(pairs)]
    environment = {**os.environ, "PYTHONPATH": paths}
    for source in SOURCES:
        compileall.compile_dir(source, quiet=1)  # as pip does with the peer
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            row = json.loads(line)
            print(f"measured: {row['metric']}", file=sys.stderr)
            yield row
    if process.returncode:
        sys.exit(f"measuring failed with status {process.returncode}")


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    lower, upper = row["quartiles"] or (None, None)
    ratio = "–" if row["ratio"] is None else f"{row['ratio']:.1f}× ({lower:.1f}–{upper:.1f})"
    met = {True: "yes", False: "no", None: "–"}[row["met"]]
    values = (with_unit(row[side], row["unit"]) for side in ("peer", "graphkit"))
    return (row["metric"], *values, ratio, row["target"], met)


def with_unit(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    digits = 0 if unit == "commits" else 2 if value < 10 else 1
    return f"{value:.{digits}f} {unit}"


def as_markdown(rows: list[dict[str, Any]], pairs: int) -> str:
    lines = [COLUMNS, *(cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]
    table = [
        " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
    ]
    table.insert(1, " | ".join("-" * width for width in widths))
    return "\n".join([*(f"| {line} |" for line in table), "", describe(pairs), ""])


def describe(pairs: int) -> str:
    """What a reader must know to read the table."""
    return (
        f"Medians of {pairs} pairs, peer and graphkit in turn in one process; "
        "the ratio is that of each pair, peer ÷ graphkit.\n"
        'Both with one saver and durability="sync", SQLite in WAL mode with synchronous=NORMAL unless it says FULL.\n'
        "PostgreSQL: one server on this machine by a Unix socket, fsync on, a database for each saver.\n"
        "Rows whose samples take seconds: at most 3 pairs; sizes on disk: once.\n"
        "Cost per superstep: a loop of 220 supersteps less one of 20, divided by 200.\n"
        f"Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} processors."
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare graphkit with LangGraph.")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_PAIRS} pairs instead of {PAIRS}")
    parser.add_argument("--results", type=Path, default=HERE / "results", help="folder for the tables")
    arguments = parser.parse_args()
    pairs = QUICK_PAIRS if arguments.quick else PAIRS
    rows = list(measure(prepare_environment(), pairs))
    table = as_markdown(rows, pairs)
    arguments.results.mkdir(parents=True, exist_ok=True)
    name = "quick" if arguments.quick else "full"
    (arguments.results / f"{name}.md").write_text(table, encoding="utf-8")
    (arguments.results / f"{name}.json").write_text(
        json.dumps({"pairs": pairs, "rows": rows}, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
