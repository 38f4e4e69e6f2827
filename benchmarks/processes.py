"""What is seen only from outside a process: system calls and memory. Each figure has a child of its own.

Run as a program, this file is the child: `processes.py TASK FRAMEWORK SIZE`.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from shutil import which

from conversations import run_turns
from databases import Databases
from frameworks import Framework, load_graphkit, load_peer
from scenarios import LONG, SHORT, add_one, compile_loop, options

LOADERS = {"peer": load_peer, "graphkit": load_graphkit}
TRACE = ("strace", "-f", "-c", "-U", "calls,name", "-e", "trace=fsync,fdatasync")


def can_trace() -> bool:
    """Whether system calls can be counted here: strace is there and may trace."""
    if which("strace") is None:
        return False
    return subprocess.run([*TRACE, "true"], capture_output=True, check=False).returncode == 0


def fsyncs_per_superstep(name: str) -> float:
    """Calls of fsync and fdatasync of a whole process with LONG supersteps less those of one with SHORT."""
    return (count_fsyncs(name, LONG) - count_fsyncs(name, SHORT)) / (LONG - SHORT)


def count_fsyncs(name: str, supersteps: int) -> int:
    with tempfile.NamedTemporaryFile("r") as counts:
        run_child("supersteps", name, supersteps, before=(*TRACE, "-o", counts.name))
        lines = [line.split() for line in counts]
    return sum(int(line[0]) for line in lines if line and line[-1] in ("fsync", "fdatasync"))


def memory_of_turns(name: str, turns: int) -> float:
    """MB by which a run of so many turns in memory raises the peak of its process, all of them still there."""
    return float(run_child("turns", name, turns))


def run_child(task: str, name: str, size: int, before: tuple[str, ...] = ()) -> str:
    command = [*before, sys.executable, __file__, task, name, str(size)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


# In the child


def run_supersteps(framework: Framework, supersteps: int) -> None:
    with tempfile.TemporaryDirectory() as folder, framework.savers["sqlite full"](Path(folder)) as saver:
        compile_loop(framework, saver, add_one).invoke({"n": 0, "goal": supersteps}, **options(saver))


def report_memory(framework: Framework, turns: int) -> None:
    with framework.savers["memory"](Path()) as saver:
        run_turns(framework, saver, 10)  # what is imported and made once is not what turns cost
        gc.collect()
        before = peak_in_bytes()
        run_turns(framework, saver, turns)
        print((peak_in_bytes() - before) / 1e6)


def peak_in_bytes() -> int:
    """`getrusage` where there is no /proc: for a child it counts what its parent had in memory."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


TASKS: dict[str, Callable[[Framework, int], None]] = {"supersteps": run_supersteps, "turns": report_memory}


def main(task: str, name: str, size: str) -> None:
    TASKS[task](LOADERS[name](Databases()), int(size))


if __name__ == "__main__":
    main(*sys.argv[1:])
