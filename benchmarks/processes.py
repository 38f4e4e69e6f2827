"""What is seen only from outside a process: system calls, memory and the import. Each figure has a child of its own.

Run as a program, this file is the child: `python -m benchmarks.processes TASK FRAMEWORK SIZE`. The framework
"bare" is none.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from shutil import which
from time import perf_counter

import msgpack  # type: ignore[import-untyped]

from benchmarks.databases import Databases
from benchmarks.frameworks import load_graphkit, load_langgraph
from benchmarks.limits import Rows
from benchmarks.messages import MESSAGES, run_turns
from benchmarks.scenario import Sizes, options
from benchmarks.supersteps import add_one, compile_loop

LOADERS = {"LangGraph": load_langgraph, "graphkit": load_graphkit}
THIS = "benchmarks.processes"
TRACE = ("strace", "-f", "-c", "-U", "calls,name", "-e", "trace=fsync,fdatasync")

# A child reports its own peak. Where /proc tells it is read there: `getrusage` counts, for a process that was
# started by another, what that other one had in memory.
REPORT_PEAK = """
import os
found = open("/proc/self/status") if os.path.exists("/proc/self/status") else []
peaks = [line.split()[1] for line in found if line.startswith("VmHWM")]
print(peaks[0] if peaks else __import__("resource").getrusage(0).ru_maxrss)
"""
PEAK_UNIT = 1 if sys.platform == "darwin" else 2**10
"""Bytes."""
INSTALLED = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""The environment of a child that imports: from its second run on, of what is compiled, as what is installed is."""


@cache
def can_trace() -> bool:
    """Whether system calls can be counted here: strace is there and may trace."""
    if which("strace") is None:
        return False
    return subprocess.run([*TRACE, "true"], capture_output=True, check=False).returncode == 0


def run_child(task: str, name: str, size: int, before: tuple[str, ...] = ()) -> str:
    command = [*before, sys.executable, "-m", THIS, task, name, str(size)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


# Importing


def import_time(importing: str) -> float:
    """Seconds of a process that imports and ends."""
    started = perf_counter()
    subprocess.run([sys.executable, "-c", importing], check=True, env=INSTALLED)
    return perf_counter() - started


def import_peak(importing: str) -> float:
    """MiB at the peak of a process that imports and ends."""
    command = [sys.executable, "-c", f"{importing}\n{REPORT_PEAK}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=INSTALLED)
    return int(done.stdout) * PEAK_UNIT / 2**20


# Counting


def fsyncs_per_superstep(name: str, sizes: Sizes) -> float:
    """Calls of fsync and fdatasync of a whole process with many supersteps less those of one with few."""
    return (count_fsyncs(name, sizes.long) - count_fsyncs(name, sizes.short)) / (sizes.long - sizes.short)


def count_fsyncs(name: str, supersteps: int) -> int:
    with tempfile.NamedTemporaryFile("r") as counts:
        run_child("supersteps", name, supersteps, before=(*TRACE, "-o", counts.name))
        lines = [line.split() for line in counts]
    return sum(int(line[0]) for line in lines if line and line[-1] in ("fsync", "fdatasync"))


def memory_of_turns(name: str, turns: int) -> float:
    """MB by which a run of so many turns in memory raises the peak of its process, all of them still there."""
    return float(run_child("turns", name, turns))


# In the child


def run_supersteps(name: str, supersteps: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        if name == "bare":
            with closing(Rows(Path(folder) / "bare.sqlite", "FULL")) as rows:
                for _ in range(supersteps):
                    rows.commit()
            return
        framework = LOADERS[name](Databases())
        with framework.savers["sqlite full"](Path(folder)) as saver:
            compile_loop(framework, saver, add_one).invoke({"n": 0, "goal": supersteps}, **options(saver))


def report_memory(name: str, turns: int) -> None:
    if name == "bare":
        before = forget_peak()
        kept = [msgpack.packb(message) for message in MESSAGES[:turns]]
        assert len(kept) == turns
        print((peak_in_bytes() - before) / 1e6)
        return
    framework = LOADERS[name](Databases())
    with framework.savers["memory"](Path()) as saver:
        run_turns(framework, saver, 10)  # what is imported and made once is not what turns cost
        gc.collect()
        before = forget_peak()
        run_turns(framework, saver, turns)
        print((peak_in_bytes() - before) / 1e6)


def forget_peak() -> int:
    """What is in memory now, as `peak_in_bytes` tells it from here on. Where nothing can be forgotten (macOS) it is the
    peak so far: what an import took and gave back then hides as much of what follows."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # 5: of all of that file's numbers, the peak
    return peak_in_bytes()


def peak_in_bytes() -> int:
    """`getrusage` where /proc does not tell: for a child it counts what its parent had in memory."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    for line in lines:
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * PEAK_UNIT
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * PEAK_UNIT


TASKS: dict[str, Callable[[str, int], None]] = {"supersteps": run_supersteps, "turns": report_memory}


def main(task: str, name: str, size: str) -> None:
    TASKS[task](name, int(size))


if __name__ == "__main__":
    main(*sys.argv[1:])
