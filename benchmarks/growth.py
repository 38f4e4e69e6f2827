"""What must not grow: the cost of a superstep with the size of the graph, its depth, or the number of streams.

A quotient of two differences of two times: each difference is the middle one of several, or one disturbed run would
make nonsense of it.
"""

from __future__ import annotations

from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks import limits
from benchmarks.frameworks import Framework
from benchmarks.scenario import Sample, SaverKind, Scenario, Sizes, Target, forget, options
from benchmarks.supersteps import Counter, add_one, add_one_async, build_chain, compile_loop

DIFFERENCES = 3
FIVE_MODES = ["values", "updates", "tasks", "checkpoints", "custom"]
"""What nodes write to "custom" is shown while they run: it is *live*."""
NOT_LIVE = ["values", "updates", "tasks", "checkpoints", "debug"]


def with_nodes(framework: Framework, saver: Any, sizes: Sizes) -> Sample:
    """How many times more a superstep costs in a long chain than in a short one.

    Whole runs, divided by their supersteps; the short chain is run more often, so both do as many supersteps.
    """
    few, many = sizes.few_nodes, sizes.many_nodes
    short, long = (build_chain(framework, length).compile(checkpointer=saver) for length in (few, many))

    def seconds(app: Any, runs: int) -> float:
        started = perf_counter()
        for _ in range(runs):
            app.invoke({"n": 0, "goal": 0}, **options(saver))
        return perf_counter() - started

    return lambda: seconds(long, 1) / seconds(short, many // few)


def with_depth(framework: Framework, saver: Any, sizes: Sizes) -> Sample:
    """How many times more a superstep costs in a graph three graphs deep than at the top."""

    def wrapped(inner: Any, saver: Any) -> Any:
        graph = framework.StateGraph(Counter)
        graph.add_node("inner", inner)
        graph.add_edge(framework.START, "inner")
        graph.add_edge("inner", framework.END)
        return graph.compile(checkpointer=saver)

    top = compile_loop(framework, saver, add_one)
    deep = wrapped(wrapped(wrapped(compile_loop(framework, None, add_one), None), None), saver)

    def seconds(app: Any, supersteps: int) -> float:
        run = options(saver)
        started = perf_counter()
        result = app.invoke({"n": 0, "goal": supersteps}, **run)
        elapsed = perf_counter() - started
        assert result["n"] == supersteps
        forget(saver, run)
        return elapsed

    def difference(app: Any) -> float:
        return median(seconds(app, sizes.long) - seconds(app, sizes.short) for _ in range(DIFFERENCES))

    return lambda: difference(deep) / difference(top)


def with_streams(
    framework: Framework, saver: Any, sizes: Sizes, five: list[str] = FIVE_MODES, one: str = "updates"
) -> Sample:
    """How many times more a superstep costs that is streamed in five modes than in one."""
    app = compile_loop(framework, saver, add_one)

    def seconds(modes: Any, supersteps: int) -> float:
        run = options(saver)
        started = perf_counter()
        for _ in app.stream({"n": 0, "goal": supersteps}, stream_mode=modes, **run):
            pass
        elapsed = perf_counter() - started
        forget(saver, run)
        return elapsed

    def difference(modes: Any) -> float:
        return median(seconds(modes, sizes.long) - seconds(modes, sizes.short) for _ in range(DIFFERENCES))

    return lambda: difference(five) / difference(one)


def with_streams_async(framework: Framework, saver: Any, sizes: Sizes) -> Sample:
    app = compile_loop(framework, saver, add_one_async)

    async def seconds(modes: Any, supersteps: int) -> float:
        run = options(saver)
        started = perf_counter()
        async for _ in app.astream({"n": 0, "goal": supersteps}, stream_mode=modes, **run):
            pass
        elapsed = perf_counter() - started
        forget(saver, run)
        return elapsed

    async def difference(modes: Any) -> float:
        return median(
            [await seconds(modes, sizes.long) - await seconds(modes, sizes.short) for _ in range(DIFFERENCES)]
        )

    async def times() -> float:
        return await difference(FIVE_MODES) / await difference("updates")

    return lambda: framework.run(times())


SAVERS: dict[SaverKind, str] = {"none": "", "memory": ", in-memory saver", "sqlite": ", SQLite NORMAL"}


def rows(sizes: Sizes) -> list[Scenario]:
    depth, streams, streams_async = (
        partial(prepare, sizes=sizes) for prepare in (with_depth, with_streams, with_streams_async)
    )
    deep = "superstep cost, three graphs deep ÷ at the top"
    streamed = "superstep cost, streamed in five modes ÷ in one"
    none_live = partial(streams, five=NOT_LIVE)
    both_live = partial(streams, one="custom")
    twice = Target("at most", 2)
    return [
        Scenario(
            f"superstep cost, {sizes.many_nodes} nodes ÷ {sizes.few_nodes} nodes",
            "×",
            Target("at most", 1.3),
            partial(with_nodes, sizes=sizes),
            limit=limits.call_in_a_row(sizes.few_nodes, sizes.many_nodes),
        ),
        *(Scenario(f"{deep}{name}", "×", twice, depth, kind) for kind, name in SAVERS.items()),
        *(Scenario(f"{streamed}, sync{name}", "×", twice, streams, kind) for kind, name in SAVERS.items()),
        *(
            Scenario(f"{streamed}, sync, {which}{SAVERS[kind]}", "×", twice, prepare, kind)
            for which, prepare in (("none live", none_live), ("the one live too", both_live))
            for kind in ("none", "memory")
        ),
        Scenario(f"{streamed}, async", "×", twice, streams_async),
        Scenario(f"{streamed}, async, in-memory saver", "×", twice, streams_async, "memory"),
    ]
