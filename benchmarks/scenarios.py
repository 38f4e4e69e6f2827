"""What is measured: each scenario once, with the framework handed in.

A scenario sets up its graph and returns a *sample*: a function that does the work once and returns one
figure, in seconds unless the scenario says otherwise. Work is kept to almost nothing inside the nodes, so
that the figure is the engine's own cost.

Cost per superstep is taken by the difference method: a node that loops to itself, run for LONG and for
SHORT supersteps, the difference divided by LONG - SHORT. So neither the start of a run nor the size of the
graph is part of it.
"""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from time import perf_counter
from typing import Annotated, Any, Literal, TypedDict

from frameworks import Framework, SaverKind

Sample = Callable[[], float]
Unit = Literal["µs", "ms", "MiB", "MB", "×", "commits", "fsyncs"]

SHORT, LONG = 20, 220
TASKS = 1000
COMMITTED_SUPERSTEPS = 20
THREADS, STEPS = 200, 20

thread_numbers = count()


class Counter(TypedDict):
    n: int
    goal: int


class Total(TypedDict):
    total: Annotated[int, operator.add]


class Answered(TypedDict):
    answer: str


@dataclass(frozen=True)
class Target:
    """`ratio`: peer ÷ graphkit, at least; the others judge graphkit's own value. `rounded` is for counts per
    superstep that something rare adds a little to."""

    judged: Literal["ratio", "at most", "exactly", "rounded"]
    value: float

    def __str__(self) -> str:
        text = {"ratio": "≥ {:g}×", "at most": "≤ {:g}", "exactly": "= {:g}", "rounded": "= {:g} (rounded)"}
        return text[self.judged].format(self.value)

    def is_met(self, graphkit: float, ratio: float | None) -> bool:
        if self.judged == "ratio":
            return ratio is not None and ratio >= self.value
        if self.judged == "at most":
            return graphkit <= self.value
        return (round(graphkit) if self.judged == "rounded" else graphkit) == self.value


@dataclass(frozen=True)
class Scenario:
    """One line of the table. `prepare` gets a framework and an open saver of the kind `saver` (or None, or the
    folder). Without a target the row is there to be seen. `most_pairs` is for samples that take seconds or make
    their thread grow: they are taken so many times at most, neither warmed up nor repeated."""

    metric: str
    unit: Unit
    target: Target | None
    prepare: Callable[[Framework, Any], Sample]
    saver: SaverKind = "none"
    with_peer: bool = True
    most_pairs: int | None = None


def options(saver: Any) -> dict[str, Any]:
    """Arguments of a run on a thread of its own; durability only where there is something to save."""
    config = {"recursion_limit": 10_000, "configurable": {"thread_id": f"bench-{next(thread_numbers)}"}}
    return {"config": config} if saver is None else {"config": config, "durability": "sync"}


def forget(saver: Any, run: dict[str, Any]) -> None:
    """Drop the thread of a finished run, so that what earlier samples left behind slows no later one."""
    if saver is not None:
        saver.delete_thread(run["config"]["configurable"]["thread_id"])


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


def add_one(state: Counter) -> dict[str, int]:
    return {"n": state["n"] + 1}


async def add_one_async(state: Counter) -> dict[str, int]:
    return {"n": state["n"] + 1}


def superstep(framework: Framework, saver: Any) -> Sample:
    app = compile_loop(framework, saver, add_one)

    def seconds(supersteps: int) -> float:
        run = options(saver)
        started = perf_counter()
        app.invoke({"n": 0, "goal": supersteps}, **run)
        elapsed = perf_counter() - started
        forget(saver, run)
        return elapsed

    return lambda: (seconds(LONG) - seconds(SHORT)) / (LONG - SHORT)


def superstep_async(framework: Framework, saver: Any) -> Sample:
    app = compile_loop(framework, saver, add_one_async)

    async def seconds(supersteps: int) -> float:
        started = perf_counter()
        await app.ainvoke({"n": 0, "goal": supersteps}, **options(saver))
        return perf_counter() - started

    async def difference() -> float:
        return (await seconds(LONG) - await seconds(SHORT)) / (LONG - SHORT)

    return lambda: framework.run(difference())


def many_threads(framework: Framework, saver: Any) -> Sample:
    """Seconds per superstep of THREADS runs of STEPS supersteps at the same time in one loop."""
    app = compile_loop(framework, saver, add_one_async)

    async def seconds() -> float:
        started = perf_counter()
        runs = (app.ainvoke({"n": 0, "goal": STEPS}, **options(saver)) for _ in range(THREADS))
        results = await asyncio.gather(*runs)
        elapsed = perf_counter() - started
        assert all(result["n"] == STEPS for result in results)
        return elapsed / (THREADS * STEPS)

    return lambda: framework.run(seconds())


def compile_fan_out(framework: Framework, saver: Any, node: Callable[..., Any]) -> Any:
    def fan_out(state: Total) -> list[Any]:
        return [framework.Send("work", {"total": 1}) for _ in range(TASKS)]

    graph = framework.StateGraph(Total)
    graph.add_node("work", node)
    graph.add_conditional_edges(framework.START, fan_out, ["work"])
    graph.add_edge("work", framework.END)
    return graph.compile(checkpointer=saver)


def work(task: Total) -> dict[str, int]:
    return {"total": task["total"]}


async def work_async(task: Total) -> dict[str, int]:
    return {"total": task["total"]}


def fan_out(framework: Framework, saver: Any) -> Sample:
    """Seconds per task of a run that is one superstep of TASKS tasks."""
    app = compile_fan_out(framework, saver, work)

    def sample() -> float:
        run = options(saver)
        started = perf_counter()
        result = app.invoke({"total": 0}, **run)
        elapsed = perf_counter() - started
        assert result == {"total": TASKS}
        forget(saver, run)
        return elapsed / TASKS

    return sample


def fan_out_async(framework: Framework, saver: Any) -> Sample:
    app = compile_fan_out(framework, saver, work_async)

    async def seconds() -> float:
        started = perf_counter()
        result = await app.ainvoke({"total": 0}, **options(saver))
        elapsed = perf_counter() - started
        assert result == {"total": TASKS}
        return elapsed / TASKS

    return lambda: framework.run(seconds())


def ask_and_resume(framework: Framework, saver: Any) -> Sample:
    """Seconds from the start of a run to its end, with one question asked, returned and answered between."""

    def ask(state: Answered) -> dict[str, str]:
        return {"answer": framework.interrupt("go on?")}

    graph = framework.StateGraph(Answered)
    graph.add_node("ask", ask)
    graph.add_edge(framework.START, "ask")
    graph.add_edge("ask", framework.END)
    app = graph.compile(checkpointer=saver)

    def sample() -> float:
        run = options(saver)
        started = perf_counter()
        paused = app.invoke({"answer": ""}, **run)
        result = app.invoke(framework.Command(resume="yes"), **run)
        elapsed = perf_counter() - started
        assert len(paused["__interrupt__"]) == 1
        assert result["answer"] == "yes"
        forget(saver, run)
        return elapsed

    return sample


def growth_with_nodes(framework: Framework, saver: Any) -> Sample:
    """How many times more a superstep costs in a chain of 3000 nodes than in one of 100.

    Whole runs, divided by their supersteps; the short chain is run 30 times, so both do as many supersteps.
    """
    short, long = (build_chain(framework, length).compile(checkpointer=saver) for length in (100, 3000))

    def seconds(app: Any, runs: int) -> float:
        started = perf_counter()
        for _ in range(runs):
            app.invoke({"n": 0, "goal": 0}, **options(saver))
        return perf_counter() - started

    return lambda: seconds(long, 1) / seconds(short, 30)


def growth_with_depth(framework: Framework, saver: Any) -> Sample:
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
        return seconds(app, LONG) - seconds(app, SHORT)

    return lambda: difference(deep) / difference(top)


FIVE_MODES = ["values", "updates", "tasks", "checkpoints", "custom"]


def streaming(framework: Framework, saver: Any) -> Sample:
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
        return seconds(modes, LONG) - seconds(modes, SHORT)

    return lambda: difference(FIVE_MODES) / difference("updates")


def streaming_async(framework: Framework, saver: Any) -> Sample:
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
        return await seconds(modes, LONG) - await seconds(modes, SHORT)

    async def times() -> float:
        return await difference(FIVE_MODES) / await difference("updates")

    return lambda: framework.run(times())


def compile_large(framework: Framework, saver: Any) -> Sample:
    graph = build_chain(framework, 1000)

    def sample() -> float:
        started = perf_counter()
        graph.compile(checkpointer=saver)
        return perf_counter() - started

    return sample


def commits(framework: Framework, saver: Any) -> Sample:
    """Commits of a run of COMMITTED_SUPERSTEPS supersteps: a count, not seconds."""
    from sqlalchemy import event

    app = compile_loop(framework, saver, add_one)
    app.invoke({"n": 0, "goal": 1}, **options(saver))  # whatever is created once is created here
    counted: list[None] = []
    event.listen(saver.engine, "commit", lambda connection: counted.append(None))

    def sample() -> float:
        counted.clear()
        app.invoke({"n": 0, "goal": COMMITTED_SUPERSTEPS}, **options(saver))
        return len(counted)

    return sample


SCENARIOS = [
    Scenario("superstep, no checkpointer, sync", "µs", Target("ratio", 15), superstep),
    Scenario("superstep, no checkpointer, async", "µs", Target("ratio", 15), superstep_async),
    Scenario("superstep, in-memory saver", "µs", Target("ratio", 15), superstep, "memory"),
    Scenario("superstep, SQLite NORMAL", "µs", Target("ratio", 5), superstep, "sqlite"),
    Scenario(
        "superstep, SQLite NORMAL, async saver", "µs", Target("ratio", 5), superstep_async, "sqlite async"
    ),
    Scenario(
        "superstep, PostgreSQL, synchronous_commit on", "µs", Target("ratio", 3), superstep, "postgres on"
    ),
    Scenario(
        "superstep, PostgreSQL, synchronous_commit off", "µs", Target("ratio", 6), superstep, "postgres off"
    ),
    Scenario(
        f"{THREADS} async threads × {STEPS} supersteps, SQLite NORMAL, per superstep",
        "µs",
        Target("ratio", 10),
        many_threads,
        "sqlite async",
    ),
    Scenario("fan-out of 1000, no checkpointer, sync, per task", "µs", Target("ratio", 12), fan_out),
    Scenario("fan-out of 1000, no checkpointer, async, per task", "µs", Target("ratio", 12), fan_out_async),
    Scenario("fan-out of 1000, SQLite NORMAL, per task", "µs", Target("ratio", 15), fan_out, "sqlite"),
    Scenario("interrupt → resume, in-memory saver", "ms", Target("ratio", 12), ask_and_resume, "memory"),
    Scenario("interrupt → resume, SQLite NORMAL", "ms", Target("ratio", 8), ask_and_resume, "sqlite"),
    Scenario("superstep cost, 3000 nodes ÷ 100 nodes", "×", Target("at most", 1.3), growth_with_nodes),
    Scenario("superstep cost, three graphs deep ÷ at the top", "×", Target("at most", 2), growth_with_depth),
    Scenario(
        "superstep cost, three graphs deep ÷ at the top, in-memory saver",
        "×",
        Target("at most", 2),
        growth_with_depth,
        "memory",
    ),
    Scenario(
        "superstep cost, three graphs deep ÷ at the top, SQLite NORMAL",
        "×",
        Target("at most", 2),
        growth_with_depth,
        "sqlite",
    ),
    Scenario(
        "superstep cost, streamed in five modes ÷ in one, async", "×", Target("at most", 2), streaming_async
    ),
    Scenario(
        "superstep cost, streamed in five modes ÷ in one, async, in-memory saver",
        "×",
        Target("at most", 2),
        streaming_async,
        "memory",
    ),
    Scenario("superstep cost, streamed in five modes ÷ in one, sync", "×", Target("at most", 2), streaming),
    Scenario(
        "superstep cost, streamed in five modes ÷ in one, sync, in-memory saver",
        "×",
        Target("at most", 2),
        streaming,
        "memory",
    ),
    Scenario(
        "superstep cost, streamed in five modes ÷ in one, sync, SQLite NORMAL",
        "×",
        Target("at most", 2),
        streaming,
        "sqlite",
    ),
    Scenario("compile a graph of 1000 nodes", "ms", Target("ratio", 15), compile_large),
    Scenario(
        f"commits of a run of {COMMITTED_SUPERSTEPS} supersteps",
        "commits",
        Target("exactly", COMMITTED_SUPERSTEPS + 1),
        commits,
        "sqlite",
        with_peer=False,
    ),
]
