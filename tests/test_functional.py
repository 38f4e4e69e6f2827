"""Tasks and entrypoints: every call of a task is a task of its caller's run."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from multiprocessing import get_context
from typing import Any

import pytest

from graphkit import START, Command, entrypoint, interrupt, task
from graphkit.cache.memory import InMemoryCache
from graphkit.checkpoint.memory import InMemorySaver
from graphkit.errors import (
    InterruptMismatchError,
    NodeTimeoutError,
    NoPendingInterruptError,
    StateTooLargeError,
    UnserializableStateError,
)
from graphkit.runtime import get_runtime
from graphkit.types import CachePolicy, RetryPolicy, RunnableConfig, StateSnapshot, TimeoutPolicy
from tests.conftest import (
    EMPTY,
    Build,
    Reopen,
    Runner,
    Saver,
    State,
    asks,
    graph_of,
    in_a_row,
    questions,
    says,
)

PATIENCE = 20
"""Seconds after which a wait gives up; reached only by a defect."""
SOON = RetryPolicy(initial_interval=0.001, jitter=False)


class Flaky(ConnectionError):
    """Raised on purpose."""


@dataclass
class Style:
    """The colour of the functions of a test: a workflow is written once, as a coroutine function."""

    name: str

    def task(self, function: Callable[..., Any], **options: Any) -> Any:
        """`function` is blocking; in the other style it is called by a coroutine function."""
        if self.name == "blocking":
            return task(function, **options) if not options else task(**options)(function)

        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        coroutine.__name__ = function.__name__
        return task(coroutine, **options) if not options else task(**options)(coroutine)

    def entrypoint(self, function: Callable[..., Any], **options: Any) -> Any:
        """`function(given, wait, **injected)` awaits nothing itself: `wait(futures)` are their results."""
        return entrypoint(**options)(self.node(function))

    def node(self, function: Callable[..., Any]) -> Any:
        if self.name == "blocking":

            def blocking(given: Any, previous: Any = None) -> Any:
                return _run(function(given, previous), lambda futures: [each.result() for each in futures])

            blocking.__name__ = function.__name__
            return blocking

        async def coroutine(given: Any, previous: Any = None) -> Any:
            steps = function(given, previous)
            try:
                futures = next(steps)
                while True:
                    try:
                        results = await asyncio.gather(*futures)
                    except BaseException as error:
                        futures = steps.throw(error)
                    else:
                        futures = steps.send(results)
            except StopIteration as stop:
                return stop.value

        coroutine.__name__ = function.__name__
        return coroutine


def _run(steps: Any, wait: Callable[[Any], Any]) -> Any:
    try:
        futures = next(steps)
        while True:
            try:
                results = wait(futures)
            except BaseException as error:
                futures = steps.throw(error)
            else:
                futures = steps.send(results)
    except StopIteration as stop:
        return stop.value


@pytest.fixture(params=["blocking", "coroutines"])
def style(request: pytest.FixtureRequest) -> Style:
    return Style(request.param)


@pytest.fixture
def ran() -> list[Any]:
    return []


@pytest.fixture
def double(style: Style, ran: list[Any]) -> Any:
    def double(number: int) -> int:
        ran.append(number)
        return 2 * number

    return style.task(double)


@pytest.fixture
def ask(style: Style, ran: list[Any]) -> Any:
    def ask(what: Any) -> Any:
        ran.append(what)
        return interrupt(what)

    return style.task(ask)


@task
def in_a_process(number: int) -> tuple[int, int]:
    return number, os.getpid()


@pytest.fixture(scope="module")
def processes() -> Iterator[Executor]:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield pool


# What a workflow is


def test_a_workflow_is_a_function_that_waits_for_tasks(runner: Runner, style: Style, double: Any) -> None:
    def flow(number: int, previous: Any) -> Any:
        doubled = yield [double(number), double(number + 1)]
        more = yield [double(doubled[0])]
        return [*doubled, *more]

    assert runner.invoke(style.entrypoint(flow), 3) == [6, 8, 12]


def test_calls_run_side_by_side(runner: Runner, style: Style) -> None:
    met = threading.Barrier(3)

    @task
    def meet(number: int) -> int:
        met.wait(PATIENCE)
        return number

    def flow(given: Any, previous: Any) -> Any:
        return (yield [meet(number) for number in range(3)])

    assert runner.invoke(style.entrypoint(flow), 1) == [0, 1, 2]


def test_any_input_and_any_output(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    @entrypoint(checkpointer=saver)
    def same(given: Any) -> Any:
        return given

    for value in (0, "text", [1, 2], [], {"a": 1}, {"__end__": 1}, False, ("x", 2)):
        assert runner.invoke(same, value, config) == value
        assert runner.get_state(same, config).values == value


def test_a_workflow_may_return_nothing(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    @entrypoint(checkpointer=saver)
    def nothing(given: Any) -> None:
        return None

    assert runner.run(nothing, 1, config).status == "completed"


def test_the_next_run_is_given_what_the_last_one_returned(
    runner: Runner, style: Style, saver: Saver, config: RunnableConfig
) -> None:
    def flow(number: int, previous: Any) -> Any:
        yield []
        return (previous or 0) + number

    graph = style.entrypoint(flow, checkpointer=saver)
    assert [runner.invoke(graph, number, config) for number in (1, 2, 3)] == [1, 3, 6]


def test_what_is_saved_may_be_another_value_than_what_is_returned(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    @entrypoint(checkpointer=saver)
    def flow(number: int, *, previous: int | None = None) -> entrypoint.final[int, int]:
        return entrypoint.final(value=previous or 0, save=2 * number)

    assert [runner.invoke(flow, number, config) for number in (3, 1, 0)] == [0, 6, 2]
    assert runner.get_state(flow, config).values == 2


def test_without_a_checkpointer_there_is_no_previous(runner: Runner) -> None:
    @entrypoint()
    def flow(number: int, previous: Any = "unset") -> Any:
        return previous

    assert [runner.invoke(flow, 1), runner.invoke(flow, 2)] == [None, None]


def test_what_is_injected_by_name(runner: Runner) -> None:
    @task
    def tells(word: str, writer: Any = None, runtime: Any = None, config: Any = None) -> Any:
        writer(word)
        return runtime.context, config["configurable"]["key"], get_runtime().idempotency_key

    @task
    def saves(store: str, config: str = "mine") -> str:
        return f"{store} {config}"

    @entrypoint(context_schema=str)
    def flow(given: Any, runtime: Any, writer: Any, config: RunnableConfig) -> Any:
        writer("before")
        told = tells("said").result()
        return [*told[:2], told[2] != runtime.idempotency_key, saves("kept", config="other").result()]

    options: Any = {"context": "around", "stream_mode": ["custom", "values"]}
    chunks = runner.stream(flow, 1, {"configurable": {"key": "k"}}, **options)
    assert chunks == [
        ("custom", "before"),
        ("custom", "said"),
        ("values", ["around", "k", True, "kept other"]),
    ]


def test_a_generator_is_no_workflow() -> None:
    with pytest.raises(NotImplementedError, match="generator"):

        @entrypoint()
        def flow(given: Any) -> Any:
            yield given


def test_a_workflow_needs_an_input() -> None:
    with pytest.raises(ValueError, match="input"):

        @entrypoint()
        def flow() -> None: ...


def test_a_task_outside_of_a_run_says_so() -> None:
    with pytest.raises(RuntimeError, match=r"task 'double' was called outside of a graph run"):
        task(name="double")(lambda number: 2 * number)(1)


def test_a_task_called_after_its_caller_has_ended_says_so(double: Any) -> None:
    left: list[contextvars.Context] = []

    @entrypoint()
    def flow(given: Any) -> None:
        left.append(contextvars.copy_context())

    flow.invoke(1)
    with pytest.raises(RuntimeError, match="after that had ended"):
        left[0].run(double, 1)


def test_waiting_for_a_task_in_a_coroutine_does_not_block_its_loop(double: Any) -> None:
    @entrypoint()
    async def flow(given: Any) -> Any:
        future = double(1)
        with pytest.raises(RuntimeError, match="await it"):
            future.result()
        with pytest.raises(RuntimeError, match="await it"):
            future.exception()
        return await future, future.result()

    assert asyncio.run(flow.ainvoke(1)) == (2, 2)
    assert flow.invoke(1) == (2, 2)


def test_coroutines_and_blocking_functions_call_each_other(runner: Runner) -> None:
    @task
    def blocking(number: int) -> int:
        return coroutine(number).result() + 1

    @task
    async def coroutine(number: int) -> int:
        return number if number == 0 else await blocking(number - 1)

    @entrypoint()
    def flow(number: int) -> int:
        return coroutine(number).result()

    @entrypoint()
    async def aflow(number: int) -> int:
        return await coroutine(number)

    assert runner.invoke(flow, 5) == 5
    assert runner.invoke(aflow, 5) == 5


# Questions


def test_several_tasks_asking_at_once_are_all_reported(
    runner: Runner, style: Style, saver: Saver, config: RunnableConfig, ask: Any, ran: list[Any]
) -> None:
    """LangGraph reports one of them. Each is answered by its id, in any order and number."""

    def flow(words: Any, previous: Any) -> Any:
        return (yield [ask(word) for word in words])

    graph = style.entrypoint(flow, checkpointer=saver)
    result = runner.invoke(graph, ["a", "b", "c"], config)
    asked = questions(result)
    assert list(asked) == ["a", "b", "c"]
    assert [question.node for question in asked.values()] == ["ask"] * 3
    ran.clear()
    result = runner.invoke(graph, Command(resume={asked["b"].id: "B"}), config)
    assert questions(result) == {"a": asked["a"], "c": asked["c"]}
    assert ran == ["b"], "who has no answer yet is not asked again"
    assert runner.get_state(graph, config).interrupts == (asked["a"], asked["c"])
    result = runner.invoke(graph, None, config)
    assert questions(result) == {"a": asked["a"], "c": asked["c"]}
    assert ran == ["b"]
    result = runner.invoke(graph, Command(resume={asked["c"].id: "C", asked["a"].id: "A"}), config)
    assert result == ["A", "B", "C"]
    with pytest.raises(NoPendingInterruptError):
        runner.invoke(graph, Command(resume={"0" * 32: "x"}), config)


def test_a_question_whose_result_nobody_looks_at_is_reported(
    runner: Runner, style: Style, saver: Saver, config: RunnableConfig, ask: Any, double: Any
) -> None:
    def flow(given: Any, previous: Any) -> Any:
        ask("unseen")
        return (yield [double(1)])

    graph = style.entrypoint(flow, checkpointer=saver)
    assert list(questions(runner.invoke(graph, 1, config))) == ["unseen"]
    assert runner.invoke(graph, Command(resume="seen"), config) == [2]


def test_equal_questions_of_equal_calls_are_told_apart(
    runner: Runner, style: Style, saver: Saver, config: RunnableConfig, ask: Any
) -> None:
    def flow(given: Any, previous: Any) -> Any:
        return (yield [ask("sure?") for _ in range(3)])

    graph = style.entrypoint(flow, checkpointer=saver)
    asked = runner.run(graph, 1, config).interrupts
    assert len({question.id for question in asked}) == 3
    answers = {question.id: number for number, question in enumerate(asked)}
    assert runner.invoke(graph, Command(resume=answers), config) == [0, 1, 2]


def test_a_task_may_ask_several_times(
    runner: Runner, style: Style, saver: Saver, config: RunnableConfig, ran: list[Any]
) -> None:
    def talk(name: str) -> list[Any]:
        ran.append(name)
        return [interrupt(f"{name} 1"), interrupt(f"{name} 2")]

    talks = style.task(talk)

    def flow(given: Any, previous: Any) -> Any:
        return (yield [talks("a"), talks("b")])

    graph = style.entrypoint(flow, checkpointer=saver)
    result: Any = runner.invoke(graph, 1, config)
    seen = []
    while "__interrupt__" in result:
        asked = questions(result)
        seen.append(list(asked))
        word, question = next(iter(asked.items()))
        result = runner.invoke(graph, Command(resume={question.id: word.upper()}), config)
    assert seen == [["a 1", "b 1"], ["b 1", "a 2"], ["a 2", "b 2"], ["b 2"]] or seen == [
        ["a 1", "b 1"],
        ["a 2", "b 1"],
        ["b 1"],
        ["b 2"],
    ]
    assert result == [["A 1", "A 2"], ["B 1", "B 2"]]


def test_the_workflow_and_its_tasks_ask_side_by_side(
    runner: Runner, saver: Saver, config: RunnableConfig, ask: Any
) -> None:
    @entrypoint(checkpointer=saver)
    def flow(given: Any) -> Any:
        future = ask("task")
        own = interrupt("own")
        return own, future.result()

    asked = questions(runner.invoke(flow, 1, config))
    assert list(asked) == ["own", "task"]
    result = runner.invoke(flow, Command(resume={q.id: word.upper() for word, q in asked.items()}), config)
    assert result == ("OWN", "TASK")


def test_the_calls_of_a_second_run_may_come_in_another_order(
    runner: Runner, style: Style, saver: Saver, config: RunnableConfig, ask: Any, double: Any, ran: list[Any]
) -> None:
    turn = iter([(1, 2, 3), (3, 1, 2), (2, 3, 1)])

    def flow(given: Any, previous: Any) -> Any:
        order = next(turn)
        doubled = yield [double(number) for number in order]
        answers = yield [ask(f"q{number}") for number in order]
        return sorted(zip(order, doubled, answers, strict=True))

    graph = style.entrypoint(flow, checkpointer=saver)
    asked = questions(runner.invoke(graph, 1, config))
    result = runner.invoke(graph, Command(resume={asked["q2"].id: "a2"}), config)
    assert sorted(questions(result)) == ["q1", "q3"]
    assert ran.count(1) == ran.count(2) == ran.count(3) == 1
    rest = {asked[word].id: word.replace("q", "a") for word in ("q1", "q3")}
    result = runner.invoke(graph, Command(resume=rest), config)
    assert result == [(1, 2, "a1"), (2, 4, "a2"), (3, 6, "a3")]


def test_an_answer_is_bound_to_what_was_shown(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    drafts = iter(["one", "two"])

    @task
    def approve(draft: str) -> Any:
        return interrupt(draft)

    @entrypoint(checkpointer=saver)
    def flow(given: Any) -> Any:
        return approve(next(drafts)).result()

    runner.invoke(flow, 1, config)
    with pytest.raises(InterruptMismatchError, match="two"):
        runner.invoke(flow, Command(resume="yes"), config)


def test_a_question_of_a_graph_called_inside_a_task(
    runner: Runner, style: Style, saver: Saver, config: RunnableConfig, double: Any, ran: list[Any]
) -> None:
    """Finished tasks are not repeated, and the graph goes on where it asked."""

    def before(state: State) -> State:
        ran.append("before")
        return {}

    def asks(state: State) -> State:
        return {"log": [interrupt("inside")]}

    edges = [("__start__", "before"), ("before", "asks")]
    child = graph_of({"before": before, "asks": asks}, edges)
    calls = task(name="calls")(lambda: child.invoke(EMPTY)["log"])

    def flow(given: Any, previous: Any) -> Any:
        doubled = yield [double(1)]
        found = yield [calls(), calls()]
        return [*doubled, *found]

    graph = style.entrypoint(flow, checkpointer=saver)
    asked = runner.run(graph, 1, config).interrupts
    assert [question.value for question in asked] == ["inside", "inside"]
    result = runner.run(graph, Command(resume={asked[1].id: "second"}), config)
    assert result.interrupts == (asked[0],)
    assert runner.invoke(graph, Command(resume="first"), config) == [2, ["first"], ["second"]]
    assert ran == [1, "before", "before"]


def test_a_question_of_a_task_that_a_task_has_called(
    runner: Runner, style: Style, saver: Saver, config: RunnableConfig, ran: list[Any]
) -> None:
    @task
    def inner(word: str) -> Any:
        ran.append(word)
        return interrupt(word)

    @task
    def outer(word: str) -> Any:
        futures = [inner(f"{word}1"), inner(f"{word}2")]
        return tuple(future.result() for future in futures)

    def flow(given: Any, previous: Any) -> Any:
        return (yield [outer("a"), outer("b")])

    graph = style.entrypoint(flow, checkpointer=saver)
    result: Any = runner.invoke(graph, 1, config)
    assert sorted(questions(result)) == ["a1", "a2", "b1", "b2"]
    while "__interrupt__" in result:
        word, question = next(iter(questions(result).items()))
        ran.clear()
        result = runner.invoke(graph, Command(resume={question.id: word.upper()}), config)
        assert ran[:1] == [word]
    assert result == [("A1", "A2"), ("B1", "B2")]


# Results


@pytest.mark.parametrize("stored", [False, True])
def test_a_finished_task_is_never_computed_again(
    runner: Runner, style: Style, saver: Saver, config: RunnableConfig, reopen: Reopen, stored: bool
) -> None:
    """Neither after a question, nor after an error, nor by another process, nor for a retry of the caller."""
    ran: list[int] = []

    def step(number: int) -> int:
        ran.append(number)
        if number == 3 and ran.count(3) == 1:
            raise ValueError("on purpose")
        return number

    steps = style.task(step)
    times: list[str] = []

    def flow(given: Any, previous: Any) -> Any:
        times.append("flow")
        results = yield [steps(1), steps(2)]
        if stored:
            results.append(interrupt("go on?"))
        results += yield [steps(3)]
        if len(times) < 4:
            raise Flaky
        return results

    options: Any = {"retry_policy": SOON, "checkpointer": saver if stored else None}
    if not stored:
        with pytest.raises(ValueError, match="on purpose"):
            runner.invoke(style.entrypoint(flow, **options), 1)
        assert sorted(ran) == [1, 2, 3]
        ran[:], times[:] = [3], ["", ""]
        assert runner.invoke(style.entrypoint(flow, **options), 1) == [1, 2, 3]
        assert sorted(ran) == [1, 2, 3, 3]
        return
    runner.invoke(style.entrypoint(flow, **options), 1, config)
    options["checkpointer"] = reopen(saver)
    graph = style.entrypoint(flow, **options)
    with pytest.raises(ValueError, match="on purpose"):
        runner.invoke(graph, Command(resume="yes"), config)
    assert runner.invoke(graph, None, config) == [1, 2, "yes", 3]
    assert sorted(ran) == [1, 2, 3, 3]
    assert times == ["flow"] * 4


def test_results_are_whatever_can_be_stored(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    values: list[Any] = [None, 0, [1], {"a": (1, 2)}, {3}, b"bytes", Command(resume=1)]
    give = task(name="give")(lambda index: values[index])

    @entrypoint(checkpointer=saver)
    def flow(given: Any) -> Any:
        results = [give(index).result() for index in range(len(values))]
        interrupt("stop")
        return results

    runner.invoke(flow, 1, config)
    assert runner.invoke(flow, Command(resume=1), config) == values


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_a_result_that_cannot_be_stored_is_an_error_of_its_task(
    runner: Runner, saver: Saver, config: RunnableConfig, durability: str
) -> None:
    """It is raised where the result is asked for, whatever comes after, and what has finished is not lost by it."""
    ran: list[str] = []

    @task
    def opens() -> Any:
        ran.append("opens")
        return {"lock": threading.Lock()} if ran.count("opens") == 1 else "opened"

    @task
    def counts() -> int:
        ran.append("counts")
        return 1

    @entrypoint(checkpointer=saver)
    def flow(given: Any) -> Any:
        return [counts().result(), opens().result()]

    with pytest.raises(
        UnserializableStateError, match=r"'opens', called by 'flow', returned: value\['lock'\] is "
    ):
        runner.invoke(flow, 1, config, durability=durability)
    assert runner.invoke(flow, None, config, durability=durability) == [1, "opened"]
    assert ran == ["counts", "opens", "opens"]


def test_without_a_checkpointer_a_task_returns_anything(runner: Runner) -> None:
    opens = task(name="opens")(threading.Lock)

    @entrypoint()
    def flow(given: Any) -> Any:
        return opens().result().locked()

    assert runner.invoke(flow, 1) is False


def test_a_result_that_cannot_be_stored_can_be_done_without(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    @task
    def opens() -> Any:
        return threading.Lock()

    @entrypoint(checkpointer=saver)
    def flow(given: Any) -> Any:
        with contextlib.suppress(UnserializableStateError):
            opens().result()
        return interrupt("stop")

    runner.invoke(flow, 1, config)
    assert runner.invoke(flow, Command(resume="on"), config) == "on"


def test_storage_that_fails_while_a_node_waits_for_its_tasks_ends_the_run(
    runner: Runner, style: Style, saver: Saver, build: Build, config: RunnableConfig
) -> None:
    """The run breaks off while its only node is at work: the node is ended, and the reason is raised."""
    released = threading.Event()
    opens, waits = task(name="opens")(lambda: "x" * 5000), task(name="waits")(lambda: released.wait(PATIENCE))

    def node(state: State, previous: Any) -> Any:
        yield [opens()]
        yield [waits()]

    saver.layout.limit = 4000
    with pytest.raises(StateTooLargeError, match=r"node 'opens'.*5,102 bytes"):
        runner.invoke(build({"node": style.node(node)}), EMPTY, config)
    released.set()
    assert runner.get_state(build({"node": style.node(node)}), config).next == ("node",)


def test_an_answer_to_a_call_that_is_not_made_again_is_not_lost_in_silence(
    runner: Runner, style: Style, saver: Saver, config: RunnableConfig
) -> None:
    """Beside others, a call is known by its input alone: one whose input is new every time is another call, and what
    its question was answered belongs to none. Whoever answers is told so; the remedy is a task for what varies."""
    fresh, ask = count(), task(name="ask")(lambda word, stamp: interrupt(word))

    def flow(given: Any, previous: Any) -> Any:
        return (yield [ask("a", next(fresh)), ask("b", next(fresh))])

    graph = style.entrypoint(flow, checkpointer=saver)
    asked = questions(runner.invoke(graph, 1, config))
    with pytest.raises(InterruptMismatchError, match=r"'b'.*'ask'.*another input"):
        runner.invoke(graph, Command(resume={asked["b"].id: "B"}), config)
    again = questions(runner.invoke(graph, None, config))
    assert (again["a"].id, again["b"].id != asked["b"].id) == (asked["a"].id, True)


def test_what_varies_belongs_into_a_task(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    drafts = iter(range(10))
    draft = task(name="draft")(lambda: next(drafts))

    @entrypoint(checkpointer=saver)
    def flow(given: Any) -> Any:
        shown = draft().result()
        return shown, interrupt(f"is draft {shown} good?")

    runner.invoke(flow, 1, config)
    assert runner.invoke(flow, Command(resume="yes"), config) == (0, "yes")


def test_after_a_crash_no_call_takes_what_another_one_came_to(
    runner: Runner, style: Style, saver: Saver, config: RunnableConfig, ran: list[Any]
) -> None:
    """One of two calls side by side has finished and is recorded, the other one is not."""

    def work(name: str) -> str:
        ran.append(name)
        if name == "a" and ran.count("a") == 1:
            raise ValueError("on purpose")
        return name

    works = style.task(work)

    def flow(names: Any, previous: Any) -> Any:
        futures = [works(name) for name in names]
        yield [futures[1]]
        return (yield futures)

    graph = style.entrypoint(flow, checkpointer=saver)
    with pytest.raises(ValueError, match="on purpose"):
        runner.invoke(graph, ["a", "b"], config)
    assert runner.invoke(graph, None, config) == ["a", "b"]
    assert sorted(ran) == ["a", "a", "b"]


def test_a_task_whose_input_is_new_every_time_is_found_by_its_place(
    runner: Runner, style: Style, saver: Saver, config: RunnableConfig, ran: list[Any]
) -> None:
    def work(name: str, fresh: int) -> int:
        ran.append(name)
        return fresh

    works, fresh = style.task(work), iter(range(100))

    def flow(given: Any, previous: Any) -> Any:
        one = yield [works("one", next(fresh))]
        two = yield [works("two", next(fresh))]
        return [*one, *two, interrupt("go on?")]

    graph = style.entrypoint(flow, checkpointer=saver)
    runner.invoke(graph, 1, config)
    assert runner.invoke(graph, Command(resume="yes"), config) == [0, 1, "yes"]
    assert ran == ["one", "two"]


def test_a_new_turn_computes_anew(
    runner: Runner, style: Style, saver: Saver, config: RunnableConfig, double: Any, ran: list[Any]
) -> None:
    def flow(number: int, previous: Any) -> Any:
        return (yield [double(number)])

    graph = style.entrypoint(flow, checkpointer=saver)
    assert [runner.invoke(graph, 1, config), runner.invoke(graph, 1, config)] == [[2], [2]]
    assert ran == [1, 1]


def test_exit_durability_keeps_results_too(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    ran: list[int] = []

    @task
    def step(number: int) -> int:
        ran.append(number)
        return number

    @entrypoint(checkpointer=saver)
    def flow(given: Any) -> Any:
        return [step(1).result(), interrupt("stop"), step(2).result()]

    runner.invoke(flow, 1, config, durability="exit")
    assert runner.invoke(flow, Command(resume="on"), config, durability="exit") == [1, "on", 2]
    assert ran == [1, 2]


# Errors, retries, timeouts, caches


def test_an_error_of_a_task_is_raised_where_its_result_is_asked_for(runner: Runner, style: Style) -> None:
    def breaks(word: str) -> Any:
        raise ValueError(word)

    broken = style.task(breaks)

    def flow(given: Any, previous: Any) -> Any:
        caught = []
        for word in ("one", "two"):
            try:
                yield [broken(word)]
            except ValueError as error:
                caught.append(str(error))
        yield [broken("three")]

    with pytest.raises(ValueError, match="three") as raised:
        runner.invoke(style.entrypoint(flow), 1)
    assert any("in task 'breaks', called by 'flow'" in note for note in raised.value.__notes__)


def test_an_error_that_nobody_looks_at_is_nobodys(runner: Runner, double: Any) -> None:
    @task
    def breaks() -> None:
        raise ValueError("unseen")

    @entrypoint()
    def flow(given: Any) -> Any:
        breaks()
        return double(2).result()

    assert runner.invoke(flow, 1) == 4


def test_a_task_is_retried_by_itself(runner: Runner, style: Style, ran: list[Any]) -> None:
    def flaky(name: str) -> str:
        ran.append(name)
        if ran.count(name) < 3:
            raise Flaky
        return name

    tries = style.task(flaky, retry_policy=SOON)

    def flow(given: Any, previous: Any) -> Any:
        ran.append("flow")
        return (yield [tries("a"), tries("b")])

    assert runner.invoke(style.entrypoint(flow), 1) == ["a", "b"]
    assert sorted(ran) == ["a", "a", "a", "b", "b", "b", "flow"]


def test_a_timeout_of_a_task(runner: Runner) -> None:
    cancelled = threading.Event()

    @task(timeout=0.02)
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    released = threading.Event()

    @task(timeout=TimeoutPolicy(run_timeout=0.02))
    def stuck() -> None:
        assert released.wait(PATIENCE)

    @entrypoint()
    def flow(given: Any) -> Any:
        caught = []
        for future in (slow(), stuck()):
            try:
                future.result()
            except NodeTimeoutError as error:
                caught.append(error.node)
        return caught

    assert runner.invoke(flow, 1) == ["slow", "stuck"]
    assert cancelled.wait(PATIENCE)
    released.set()


def test_a_timeout_of_the_caller_ends_its_tasks(runner: Runner) -> None:
    cancelled, began = threading.Event(), threading.Event()

    @task
    async def slow() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    @task
    def between() -> None:
        slow().result()

    @entrypoint(timeout=0.05)
    def flow(given: Any) -> None:
        between().result()

    with pytest.raises(NodeTimeoutError):
        runner.invoke(flow, 1)
    assert not began.is_set() or cancelled.wait(PATIENCE)


def test_cancelling_a_call_cancels_the_task(runner: Runner) -> None:
    started, cancelled = threading.Event(), threading.Event()

    @task
    async def slow() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    @entrypoint()
    async def flow(given: Any) -> Any:
        call = slow()
        while not started.is_set():  # a call that has not begun has nothing to end
            await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(call, 0.02)
        return "gone on"

    assert runner.invoke(flow, 1) == "gone on"
    assert cancelled.is_set(), "the run ends after everything that it has started"


def test_a_result_is_found_in_the_cache(runner: Runner, saver: Saver, style: Style, ran: list[Any]) -> None:
    def double(number: int, unused: Any = None) -> int:
        ran.append(number)
        return 2 * number

    policy = CachePolicy(key_func=lambda number, unused=None: str(number))
    doubles = style.task(double, cache_policy=policy)
    cache = InMemoryCache()

    def flow(given: Any, previous: Any) -> Any:
        return (yield [doubles(1, unused=given), doubles(2)])

    graph = style.entrypoint(flow, checkpointer=saver, cache=cache)
    for thread in ("a", "b"):
        assert runner.invoke(graph, thread, {"configurable": {"thread_id": thread}}) == [2, 4]
    assert sorted(ran) == [1, 2]
    doubles.clear_cache(cache)
    runner.invoke(graph, "c", {"configurable": {"thread_id": "c"}})
    asyncio.run(doubles.aclear_cache(cache))
    runner.invoke(graph, "d", {"configurable": {"thread_id": "d"}})
    assert sorted(ran) == [1, 1, 1, 2, 2, 2]


def test_a_task_that_asked_is_not_cached(runner: Runner, saver: Saver, ran: list[Any]) -> None:
    @task(cache_policy=CachePolicy())
    def ask(what: str) -> Any:
        ran.append(what)
        return interrupt(what)

    @entrypoint(checkpointer=saver, cache=InMemoryCache())
    def flow(given: Any) -> Any:
        return ask("same").result()

    for thread in ("a", "b"):
        config: RunnableConfig = {"configurable": {"thread_id": thread}}
        assert list(questions(runner.invoke(flow, 1, config))) == ["same"]
        assert runner.invoke(flow, Command(resume=thread), config) == thread


def test_a_workflow_is_tried_again_and_finds_what_its_tasks_have_come_to(
    runner: Runner, saver: Saver, config: RunnableConfig, style: Style, ran: list[Any]
) -> None:
    def note(number: int) -> int:
        ran.append(number)
        return number

    noting, attempts = style.task(note), count(1)

    def flow(given: Any, previous: Any) -> Any:
        [noted] = yield [noting(given)]
        attempt = next(attempts)
        if attempt < 3:
            raise Flaky
        return [noted, attempt]

    graph = style.entrypoint(flow, checkpointer=saver, retry_policy=SOON)
    assert runner.invoke(graph, 7, config) == [7, 3]
    assert ran == [7]


def test_the_result_of_a_workflow_is_found_in_the_cache(runner: Runner, style: Style, ran: list[Any]) -> None:
    def flow(given: Any, previous: Any) -> Any:
        ran.append(given)
        yield []
        return 2 * given

    graph = style.entrypoint(flow, cache=InMemoryCache(), cache_policy=CachePolicy())
    assert [runner.invoke(graph, number) for number in (1, 2, 1)] == [2, 4, 2]
    assert ran == [1, 2]


# Where tasks are called


@pytest.mark.parametrize("beside", [False, True])
def test_tasks_of_graph_nodes(
    runner: Runner,
    style: Style,
    build: Build,
    config: RunnableConfig,
    double: Any,
    ask: Any,
    ran: list[Any],
    beside: bool,
) -> None:
    def node(state: State, previous: Any) -> Any:
        doubled = yield [double(1), double(2)]
        answered = yield [ask("one"), ask("two")]
        return {"log": [*doubled, *answered]}

    others = {"other": lambda state: {"log": ["other"]}} if beside else {}
    graph = build({"node": style.node(node), **others})
    asked = questions(runner.invoke(graph, EMPTY, config))
    assert list(asked) == ["one", "two"]
    answers = {question.id: word.upper() for word, question in asked.items()}
    result = runner.invoke(graph, Command(resume=answers), config)
    assert result["log"] == [2, 4, "ONE", "TWO", *(["other"] if beside else [])]
    assert sorted(map(str, ran)) == ["1", "2", "one", "one", "two", "two"]


def test_tasks_of_a_node_of_a_nested_graph(
    runner: Runner, style: Style, build: Build, config: RunnableConfig, double: Any, ask: Any, ran: list[Any]
) -> None:
    def node(state: State, previous: Any) -> Any:
        doubled = yield [double(1)]
        answered = yield [ask("one"), ask("two")]
        return {"log": [*doubled, *answered]}

    child = graph_of({"node": style.node(node)})
    graph = build({"child": child})
    asked = questions(runner.invoke(graph, EMPTY, config))
    assert list(asked) == ["one", "two"]
    result = runner.invoke(graph, Command(resume={asked["two"].id: "TWO"}), config)
    assert list(questions(result)) == ["one"]
    assert runner.invoke(graph, Command(resume="ONE"), config)["log"] == [2, "ONE", "TWO"]
    assert ran.count(1) == 1 and ran.count("two") == 2


def test_a_workflow_inside_of_another_one(
    runner: Runner, style: Style, saver: Saver, config: RunnableConfig, double: Any, ask: Any, ran: list[Any]
) -> None:
    @entrypoint()
    def inner(number: int) -> Any:
        return double(number).result(), ask(f"inner {number}").result()

    @entrypoint(checkpointer=saver)
    def outer(given: Any) -> Any:
        return [inner.invoke(1), inner.invoke(2)]

    assert list(questions(runner.invoke(outer, 1, config))) == ["inner 1"]
    assert list(questions(runner.invoke(outer, Command(resume="a"), config))) == ["inner 2"]
    assert runner.invoke(outer, Command(resume="b"), config) == [(2, "a"), (4, "b")]
    assert ran == [1, "inner 1", "inner 1", 2, "inner 2", "inner 2"]


def test_an_error_handler_calls_tasks(
    runner: Runner, build: Build, config: RunnableConfig, double: Any, ran: list[Any]
) -> None:
    def fails(state: State) -> State:
        double(1).result()
        raise ValueError("on purpose")

    def handler(state: State, error: Any) -> State:
        return {"log": [double(1).result(), interrupt("handled?")]}

    graph = build({"fails": fails}, node_options={"fails": {"error_handler": handler}})
    runner.invoke(graph, EMPTY, config)
    assert runner.invoke(graph, Command(resume="yes"), config)["log"] == [2, "yes"]
    assert ran.count(1) == 2, "once by the node, once by its handler"


@pytest.mark.parametrize("limit", [None, 1, 2])
def test_more_calls_than_threads_and_calls_in_calls(runner: Runner, style: Style, limit: int | None) -> None:
    @task
    def leaf(number: int) -> int:
        return number

    @task
    def branch(number: int) -> int:
        return sum(future.result() for future in [leaf(number), leaf(number)])

    def flow(given: Any, previous: Any) -> Any:
        return sum((yield [branch(number) for number in range(70)]))

    config: RunnableConfig = {} if limit is None else {"max_concurrency": limit}
    assert runner.invoke(style.entrypoint(flow), 1, config) == sum(range(70)) * 2


def test_max_concurrency_counts_those_that_work(runner: Runner) -> None:
    working, most, lock = 0, 0, threading.Lock()

    @task
    def work(number: int) -> int:
        nonlocal working, most
        with lock:
            working += 1
            most = max(most, working)
        with lock:
            working -= 1
        return number

    @entrypoint()
    def flow(given: Any) -> Any:
        return sum(future.result() for future in [work(number) for number in range(20)])

    assert runner.invoke(flow, 1, {"max_concurrency": 1}) == sum(range(20))
    assert most == 1


def test_an_executor_of_one_thread_is_enough(runner: Runner, build: Build, config: RunnableConfig) -> None:
    names: set[str] = set()

    @task
    def leaf(number: int) -> int:
        names.add(threading.current_thread().name)
        return number

    @task
    def branch(number: int) -> int:
        return leaf(number).result()

    @entrypoint()
    def flow(given: Any) -> Any:
        return [future.result() for future in [branch(number) for number in range(4)]]

    def node(state: State) -> State:
        return {"log": [branch(1).result()]}

    with ThreadPoolExecutor(1, thread_name_prefix="given") as pool:
        assert runner.invoke(flow, 1, executor=pool) == [0, 1, 2, 3]
        assert runner.invoke(build({"node": node}), EMPTY, config, executor=pool) == {"log": [1]}


def test_tasks_run_in_other_processes(runner: Runner, processes: Executor) -> None:
    @entrypoint()
    def flow(given: Any) -> Any:
        return [future.result() for future in [in_a_process(number) for number in range(3)]]

    results = runner.invoke(flow, 1, executor=processes)
    assert [number for number, _ in results] == [0, 1, 2]
    assert os.getpid() not in {pid for _, pid in results}


def test_a_workflow_is_a_node(runner: Runner, build: Build, config: RunnableConfig, ask: Any) -> None:
    @entrypoint()
    def flow(state: State) -> State:
        return {"log": [len(state["log"]), ask("inside").result()]}

    graph = build({"flow": flow})
    runner.invoke(graph, {"log": ["in"]}, config)
    assert runner.invoke(graph, Command(resume="yes"), config) == {"log": ["in", 1, "yes"]}


def test_a_task_sees_the_context_of_its_caller(runner: Runner, style: Style) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    look = style.task(lambda: variable.get(), name="look")

    def flow(given: Any, previous: Any) -> Any:
        variable.set("set")
        return (yield [look(), look()])

    assert runner.invoke(style.entrypoint(flow), 1) == ["set", "set"]


# What is shown


def test_the_updates_and_tasks_of_a_stream(
    runner: Runner, style: Style, saver: Saver, config: RunnableConfig, double: Any, ask: Any
) -> None:
    """As LangGraph shows them."""

    def flow(given: Any, previous: Any) -> Any:
        doubled = yield [double(1)]
        answered = yield [ask("sure?")]
        return [*doubled, *answered]

    graph = style.entrypoint(flow, checkpointer=saver)
    chunks = runner.stream(graph, "in", config, stream_mode=["updates", "tasks"])
    (question,) = runner.get_state(graph, config).interrupts
    shown = [(mode, _brief(chunk)) for mode, chunk in chunks]
    assert shown == [
        ("tasks", ("flow", "in")),
        ("tasks", ("double", ((1,), {}))),
        ("updates", {"double": 2}),
        ("tasks", ("double", {"__return__": 2})),
        ("tasks", ("ask", (("sure?",), {}))),
        ("tasks", ("flow", {})),
        ("updates", {"__interrupt__": (question,)}),
    ] or shown == [
        ("tasks", ("flow", "in")),
        ("tasks", ("double", ((1,), {}))),
        ("tasks", ("ask", (("sure?",), {}))),
        ("updates", {"double": 2}),
        ("tasks", ("double", {"__return__": 2})),
        ("tasks", ("flow", {})),
        ("updates", {"__interrupt__": (question,)}),
    ]
    chunks = runner.stream(graph, Command(resume="yes"), config, stream_mode=["updates", "values"])
    assert chunks == [
        ("updates", {"ask": "yes"}),
        ("updates", {"flow": [2, "yes"]}),
        ("values", [2, "yes"]),
    ]


def _brief(chunk: Any) -> Any:
    if "name" not in chunk:
        return chunk
    return chunk["name"], chunk["input"] if "input" in chunk else chunk["result"]


def test_what_has_finished_is_shown_while_others_run(
    style: Style, saver: Saver, config: RunnableConfig
) -> None:
    shown = threading.Event()

    @task
    def quick() -> str:
        return "done"

    @task
    def slow() -> bool:
        return shown.wait(PATIENCE)

    def flow(given: Any, previous: Any) -> Any:
        return (yield [quick(), slow()])

    for chunk in style.entrypoint(flow, checkpointer=saver).stream(1, config):
        if "quick" in chunk:
            shown.set()
        else:
            assert chunk in ({"slow": True}, {"flow": ["done", True]})


def test_the_history_of_a_workflow(
    runner: Runner, style: Style, saver: Saver, config: RunnableConfig, double: Any
) -> None:
    def flow(number: int, previous: Any) -> Any:
        return (yield [double(number)])

    graph = style.entrypoint(flow, checkpointer=saver)
    for number in (1, 2):
        runner.invoke(graph, number, config)
    history = runner.history(graph, config)
    assert [(state.values, state.next) for state in history][::3] == [([4], ()), ([2], ())]
    assert all(state.tasks == () for state in history[::3])


def test_going_back_to_the_start_of_a_workflow_computes_anew(
    runner: Runner, style: Style, saver: Saver, config: RunnableConfig, double: Any, ran: list[Any]
) -> None:
    def flow(number: int, previous: Any) -> Any:
        return (yield [double(number)])

    graph = style.entrypoint(flow, checkpointer=saver)
    runner.invoke(graph, 1, config)
    start = next(state for state in runner.history(graph, config) if state.next == ("flow",))
    assert runner.invoke(graph, None, start.config) == [2]
    assert ran == [1, 1]


@pytest.mark.parametrize(
    "values, as_node, value, previous",
    [
        ("edited", None, "edited", "edited"),
        ("edited", "flow", "edited", "edited"),
        ({"a": 1}, None, {"a": 1}, {"a": 1}),
        (entrypoint.final(value="shown", save="saved"), None, "shown", "saved"),
        (None, "flow", None, None),
    ],
    ids=["value", "by-name", "dict", "final", "none"],
)
@pytest.mark.parametrize("before", ["fresh", "ran", "asking"])
def test_an_update_is_what_a_workflow_has_returned(
    runner: Runner, config: RunnableConfig, before: str, values: Any, as_node: str, value: Any, previous: Any
) -> None:
    """As in LangGraph: of a workflow, an update stands for its value, and what it saves."""

    @entrypoint(checkpointer=InMemorySaver())
    def flow(given: Any, previous: Any) -> Any:
        return interrupt("?") if given == "ask" else previous

    if before != "fresh":
        runner.invoke(flow, "ask" if before == "asking" else "first", config)
    runner.update_state(flow, config, values, as_node=as_node)
    state = runner.get_state(flow, config)
    assert (state.values, state.next, state.interrupts) == (value, (), ())
    assert runner.invoke(flow, "next", config) == previous


def test_an_update_as_the_start_is_what_a_workflow_is_given(runner: Runner, config: RunnableConfig) -> None:
    @entrypoint(checkpointer=InMemorySaver())
    def flow(given: Any) -> Any:
        return [given]

    runner.update_state(flow, config, 5, as_node=START)
    assert runner.get_state(flow, config).next == ("flow",)
    assert runner.invoke(flow, None, config) == [5]


def test_a_graph_that_a_workflow_calls_is_looked_into_and_edited(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    """As one that a node calls: LangGraph's users find it by the same calls."""
    inner = graph_of({"a": says("a"), "ask": asks("sure?")}, in_a_row("a", "ask"))

    def flow(given: list[Any]) -> Any:
        return inner.invoke({"log": given})

    graph = entrypoint(checkpointer=saver)(flow)
    runner.invoke(graph, ["in"], config)
    assert [name for name, _ in graph.get_subgraphs()] == ["flow"]
    assert "ask" in graph.get_graph(xray=True).draw_mermaid()
    (task,) = runner.get_state(graph, config, subgraphs=True).tasks
    assert isinstance(task.state, StateSnapshot)
    assert (task.state.values, task.state.next) == ({"log": ["in", "a"]}, ("ask",))
    inside = runner.history(graph, task.state.config)
    assert [state.values for state in inside] == [{"log": ["in", "a"]}, {"log": ["in"]}, {"log": []}]
    runner.update_state(graph, task.state.config, {"log": ["edited"]})
    runner.invoke(graph, None, config)
    assert runner.invoke(graph, Command(resume="yes"), config) == {"log": ["in", "a", "edited", "yes"]}


def test_a_workflow_is_drawn() -> None:
    @entrypoint()
    def flow(given: Any) -> Any:
        return given

    assert list(flow.get_graph().nodes) == ["__start__", "flow", "__end__"]


def test_a_result_that_was_not_taken_says_how_to_take_it(config: RunnableConfig) -> None:
    @task
    def square(number: int) -> int:
        return number * number

    @entrypoint(checkpointer=InMemorySaver())
    def forgetful(number: int) -> Any:
        return {"squared": square(number)}

    with pytest.raises(UnserializableStateError, match=r"value\['squared'\] is .*TaskFuture.* `.result\(\)`"):
        forgetful.invoke(3, config)


def test_so_does_a_coroutine(config: RunnableConfig) -> None:
    async def square(number: int) -> int:
        return number * number

    @entrypoint(checkpointer=InMemorySaver())
    def forgetful(number: int) -> Any:
        squared = square(number)
        try:
            return {"squared": squared}
        finally:
            squared.close()

    with pytest.raises(UnserializableStateError, match=r"value\['squared'\] is a coroutine.* await it"):
        forgetful.invoke(3, config)
