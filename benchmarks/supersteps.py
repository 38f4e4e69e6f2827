"""What a superstep costs, on every saver.

Work is kept to almost nothing inside the nodes, so that the figure is the engine's own cost. It is taken by the
difference method: a node that loops to itself, run for `long` and for `short` supersteps, the difference divided
by long - short. So neither the start of a run nor the size of the graph is part of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, TypedDict

from benchmarks import limits
from benchmarks.frameworks import Framework
from benchmarks.scenario import Sample, Scenario, Sizes, Target, forget, options


class Counter(TypedDict):
    n: int
    goal: int


def add_one(state: Counter) -> dict[str, int]:
    return {"n": state["n"] + 1}


async def add_one_async(state: Counter) -> dict[str, int]:
    return {"n": state["n"] + 1}


def compile_loop(framework: Framework, saver: Any, node: Callable[..., Any]) -> Any:
    """One node that runs again and again until `n` has reached `goal`."""

    def again(state: Counter) -> str:
        return framework.END if state["n"] >= state["goal"] else "step"

    graph = framework.StateGraph(Counter)
    graph.add_node("step", node)
    graph.add_edge(framework.START, "step")
    graph.add_conditional_edges("step", again, ["step", framework.END])
    return graph.compile(checkpointer=saver)


def build_chain(framework: Framework, length: int) -> Any:
    """`length` nodes in a row."""
    graph = framework.StateGraph(Counter)
    names = [f"step_{index}" for index in range(length)]
    for name in names:
        graph.add_node(name, add_one)
    for source, target in zip([framework.START, *names], [*names, framework.END], strict=True):
        graph.add_edge(source, target)
    return graph


def superstep(framework: Framework, saver: Any, sizes: Sizes) -> Sample:
    app = compile_loop(framework, saver, add_one)

    def seconds(supersteps: int) -> float:
        run = options(saver)
        started = perf_counter()
        app.invoke({"n": 0, "goal": supersteps}, **run)
        elapsed = perf_counter() - started
        forget(saver, run)
        return elapsed

    return lambda: (seconds(sizes.long) - seconds(sizes.short)) / (sizes.long - sizes.short)


def superstep_async(framework: Framework, saver: Any, sizes: Sizes) -> Sample:
    app = compile_loop(framework, saver, add_one_async)

    async def seconds(supersteps: int) -> float:
        started = perf_counter()
        await app.ainvoke({"n": 0, "goal": supersteps}, **options(saver))
        return perf_counter() - started

    async def difference() -> float:
        return (await seconds(sizes.long) - await seconds(sizes.short)) / (sizes.long - sizes.short)

    return lambda: framework.run(difference())


def many_threads(framework: Framework, saver: Any, sizes: Sizes) -> Sample:
    """Seconds per superstep of many runs of a few supersteps at the same time in one loop."""
    app = compile_loop(framework, saver, add_one_async)

    async def seconds() -> float:
        started = perf_counter()
        runs = (app.ainvoke({"n": 0, "goal": sizes.steps}, **options(saver)) for _ in range(sizes.threads))
        results = await asyncio.gather(*runs)
        elapsed = perf_counter() - started
        assert all(result["n"] == sizes.steps for result in results)
        return elapsed / (sizes.threads * sizes.steps)

    return lambda: framework.run(seconds())


def rows(sizes: Sizes) -> list[Scenario]:
    sync, awaited = partial(superstep, sizes=sizes), partial(superstep_async, sizes=sizes)
    return [
        Scenario(
            "superstep, no checkpointer, sync", "µs", Target("ratio", 15), sync, limit=limits.call(add_one)
        ),
        Scenario(
            "superstep, no checkpointer, async",
            "µs",
            Target("ratio", 15),
            awaited,
            limit=limits.create_task(add_one_async),
        ),
        Scenario(
            "superstep, in-memory saver",
            "µs",
            Target("ratio", 15),
            sync,
            "memory",
            limit=limits.pack(add_one),
        ),
        Scenario(
            "superstep, SQLite NORMAL",
            "µs",
            Target("ratio", 5, stretch=10),
            sync,
            "sqlite",
            limit=limits.commit_sqlite(),
        ),
        Scenario(
            "superstep, SQLite NORMAL, async saver",
            "µs",
            Target("ratio", 5),
            awaited,
            "sqlite async",
            limit=limits.commit_sqlite_async(),
        ),
        Scenario(
            "superstep, PostgreSQL, synchronous_commit on",
            "µs",
            Target("ratio", 3),
            sync,
            "postgres on",
            limit=limits.commit_postgres("on"),
        ),
        Scenario(
            "superstep, PostgreSQL, synchronous_commit off",
            "µs",
            Target("ratio", 6),
            sync,
            "postgres off",
            limit=limits.commit_postgres("off"),
        ),
        Scenario(
            f"{sizes.threads} async threads × {sizes.steps} supersteps, SQLite NORMAL, per superstep",
            "µs",
            Target("ratio", 10),
            partial(many_threads, sizes=sizes),
            "sqlite async",
        ),
    ]
