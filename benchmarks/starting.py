"""What there is before the first superstep: importing the graph builder, compiling a graph."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

from benchmarks.frameworks import Framework
from benchmarks.limits import anywhere
from benchmarks.processes import import_peak, import_time
from benchmarks.scenario import Sample, Scenario, Sizes, Target
from benchmarks.supersteps import build_chain

BARE = "import asyncio"
BARE_PROCESS = f"a process that does `{BARE}`"


def importing(measure: Callable[[str], float]) -> Callable[[Framework, Any], Sample]:
    return lambda framework, saver: partial(measure, framework.importing)


def compile_large(framework: Framework, saver: Any, nodes: int) -> Sample:
    """Seconds of one compile of a graph that is built already."""
    graph = build_chain(framework, nodes)

    def sample() -> float:
        started = perf_counter()
        graph.compile(checkpointer=saver)
        return perf_counter() - started

    return sample


def rows(sizes: Sizes) -> list[Scenario]:
    return [
        Scenario(
            "import StateGraph, whole process",
            "ms",
            Target("ratio", 6),
            importing(import_time),
            limit=anywhere(BARE_PROCESS, partial(import_time, BARE)),
        ),
        Scenario(
            "import StateGraph, peak memory",
            "MiB",
            Target("ratio", 2.5),
            importing(import_peak),
            limit=anywhere(BARE_PROCESS, partial(import_peak, BARE)),
        ),
        Scenario(
            f"compile a graph of {sizes.compiled_nodes} nodes",
            "ms",
            Target("ratio", 15),
            partial(compile_large, nodes=sizes.compiled_nodes),
        ),
    ]
