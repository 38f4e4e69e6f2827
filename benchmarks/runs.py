"""Runs of one or two supersteps: a fan-out to many tasks, a question and its answer."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Annotated, Any, TypedDict

from benchmarks import limits
from benchmarks.frameworks import Framework
from benchmarks.scenario import Sample, Scenario, Sizes, Target, forget, options


class Total(TypedDict):
    total: Annotated[int, operator.add]


class Answered(TypedDict):
    answer: str


def work(task: Total) -> dict[str, int]:
    return {"total": task["total"]}


async def work_async(task: Total) -> dict[str, int]:
    return {"total": task["total"]}


def compile_fan_out(framework: Framework, saver: Any, node: Callable[..., Any], tasks: int) -> Any:
    def fan_out(state: Total) -> list[Any]:
        return [framework.Send("work", {"total": 1}) for _ in range(tasks)]

    graph = framework.StateGraph(Total)
    graph.add_node("work", node)
    graph.add_conditional_edges(framework.START, fan_out, ["work"])
    graph.add_edge("work", framework.END)
    return graph.compile(checkpointer=saver)


def fan_out(framework: Framework, saver: Any, tasks: int) -> Sample:
    """Seconds per task of a run that is one superstep of so many tasks."""
    app = compile_fan_out(framework, saver, work, tasks)

    def sample() -> float:
        run = options(saver)
        started = perf_counter()
        result = app.invoke({"total": 0}, **run)
        elapsed = perf_counter() - started
        assert result == {"total": tasks}
        forget(saver, run)
        return elapsed / tasks

    return sample


def fan_out_async(framework: Framework, saver: Any, tasks: int) -> Sample:
    app = compile_fan_out(framework, saver, work_async, tasks)

    async def seconds() -> float:
        started = perf_counter()
        result = await app.ainvoke({"total": 0}, **options(saver))
        elapsed = perf_counter() - started
        assert result == {"total": tasks}
        return elapsed / tasks

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


def rows(sizes: Sizes) -> list[Scenario]:
    tasks = sizes.tasks
    sync, awaited = partial(fan_out, tasks=tasks), partial(fan_out_async, tasks=tasks)
    return [
        Scenario(
            f"fan-out of {tasks}, no checkpointer, sync, per task",
            "µs",
            Target("ratio", 12),
            sync,
            limit=limits.call_and_add(work),
        ),
        Scenario(
            f"fan-out of {tasks}, no checkpointer, async, per task",
            "µs",
            Target("ratio", 12),
            awaited,
            limit=limits.gather(work_async, tasks),
        ),
        Scenario(
            f"fan-out of {tasks}, SQLite NORMAL, per task",
            "µs",
            Target("ratio", 15),
            sync,
            "sqlite",
            limit=limits.insert_batch(tasks),
        ),
        Scenario(
            "interrupt → resume, in-memory saver",
            "ms",
            Target("ratio", 12),
            ask_and_resume,
            "memory",
            limit=limits.pack_twice(),
        ),
        Scenario(
            "interrupt → resume, SQLite NORMAL",
            "ms",
            Target("ratio", 8),
            ask_and_resume,
            "sqlite",
            limit=limits.commit_sqlite_twice(),
        ),
    ]
