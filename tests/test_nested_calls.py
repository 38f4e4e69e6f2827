"""Graphs that a node's function calls: when the node runs again, each call finds its own graph."""

from __future__ import annotations

import asyncio
import contextvars
import operator
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Annotated, Any, TypedDict

import pytest

from graphkit import START, Command, Send, StateGraph, interrupt
from graphkit.errors import InterruptMismatchError
from graphkit.types import RetryPolicy, RunnableConfig
from tests.conftest import Build, Runner, Saver, says


class Child(TypedDict, total=False):
    word: str
    fresh: int
    log: Annotated[list[Any], operator.add]


def asking(ran: list[str] | None = None, **options: Any) -> Any:
    """A graph that works, then asks about its word."""

    def work(state: Child) -> Child:
        if ran is not None:
            ran.append(state["word"])
        return {"log": [f"worked on {state['word']}"]}

    def ask(state: Child) -> Child:
        return {"log": [(state["word"], interrupt(f"about {state['word']}"))]}

    builder = StateGraph(Child).add_sequence([work, ask]).add_edge(START, "work")
    return builder.compile(**options)


def answered(shown: Any, word: str) -> Any:
    """What the child that was given this word came to."""
    return shown["log"][-1] == (word, f"answer to {word}")


def answer_all(runner: Runner, graph: Any, config: RunnableConfig) -> Any:
    questions = runner.get_state(graph, config).interrupts
    answers = {q.id: q.value.replace("about", "answer to") for q in questions}
    return runner.invoke(graph, Command(resume=answers), config)


@pytest.fixture(params=[None, False], ids=["stored", "unstored"])
def keeps(request: pytest.FixtureRequest) -> Any:
    """What the called graph was compiled with: its states are stored, or it starts again from its top."""
    return request.param


@pytest.fixture
def ordered() -> Iterator[Any]:
    """Calls in threads, that arrive in the order in which their words are given."""
    order: list[str] = []
    arrived = threading.Condition()

    def in_turn(child: Any, words: list[str]) -> list[Any]:
        order[:] = words

        def call(word: str) -> Any:
            with arrived:
                assert arrived.wait_for(lambda: order[0] == word, timeout=20)
            try:
                return child.invoke({"word": word})
            finally:
                with arrived:
                    order.pop(0)
                    arrived.notify_all()

        with ThreadPoolExecutor(len(words)) as pool:
            calls = {word: pool.submit(contextvars.copy_context().run, call, word) for word in sorted(words)}
            failures = [error for c in calls.values() if (error := c.exception()) is not None]
            if failures:
                raise BaseExceptionGroup("calls", failures)
            return [call.result() for call in calls.values()]

    yield in_turn


def test_parallel_calls_that_arrive_in_another_order_keep_their_own_answers(
    runner: Runner, build: Build, config: RunnableConfig, ordered: Any, keeps: Any
) -> None:
    child = asking(checkpointer=keeps)
    orders = iter([["a", "b"], ["b", "a"], ["a", "b"]])

    def call_both(state: Any) -> Any:
        a, b = ordered(child, next(orders))
        assert answered(a, "a") and answered(b, "b")
        return {"log": ["both"]}

    graph = build({"call_both": call_both})
    assert len(runner.run(graph, {"log": []}, config).interrupts) == 2
    assert answer_all(runner, graph, config)["log"] == ["both"]


def test_parallel_coroutines_that_arrive_in_another_order_keep_their_own_answers(
    runner: Runner, build: Build, config: RunnableConfig, keeps: Any
) -> None:
    child = asking(checkpointer=keeps)
    orders = iter(["abc", "cab", "bca"])

    async def call_all(state: Any) -> Any:
        words = next(orders)
        shown = await asyncio.gather(
            *[child.ainvoke({"word": word}) for word in words], return_exceptions=True
        )
        if asked := [error for error in shown if isinstance(error, BaseException)]:
            raise BaseExceptionGroup("calls", asked)
        assert all(map(answered, shown, words))
        return {"log": ["all"]}

    graph = build({"call_all": call_all})
    assert len(runner.run(graph, {"log": []}, config).interrupts) == 3
    assert answer_all(runner, graph, config)["log"] == ["all"]


def test_a_caller_whose_input_is_new_every_time_finds_its_child(
    runner: Runner, build: Build, config: RunnableConfig, keeps: Any
) -> None:
    ran: list[str] = []
    child, fresh = asking(ran, checkpointer=keeps), count()

    def call(state: Any) -> Any:
        shown = child.invoke({"word": "w", "fresh": next(fresh)})
        return {"log": [shown["fresh"], shown["log"][-1][1]]}

    graph = build({"call": call})
    runner.invoke(graph, {"log": []}, config)
    began_with = 0 if keeps is None else 1
    assert runner.invoke(graph, Command(resume="yes"), config)["log"] == [began_with, "yes"]
    assert len(ran) == (1 if keeps is None else 2)


def test_an_answer_to_a_call_that_is_not_made_again_is_not_lost_in_silence(
    runner: Runner, build: Build, config: RunnableConfig, keeps: Any
) -> None:
    """Beside another one, a call whose input is new every time is another call."""
    child, rounds = asking(checkpointer=keeps), count()

    async def call_both(state: Any) -> Any:
        number = next(rounds)
        calls = [child.ainvoke({"word": f"{word}{number}"}) for word in "ab"]
        return {"log": await asyncio.gather(*calls)}

    graph = build({"call_both": call_both})
    second = next(q for q in runner.run(graph, {"log": []}, config).interrupts if q.value == "about b0")
    with pytest.raises(InterruptMismatchError, match=r"about b0.*another input"):
        runner.invoke(graph, Command(resume={second.id: "yes"}), config)
    assert second not in runner.run(graph, None, config).interrupts


def test_equal_calls_are_told_apart_by_their_order(
    runner: Runner, build: Build, config: RunnableConfig, keeps: Any
) -> None:
    child = asking(checkpointer=keeps)

    def call(state: Any) -> Any:
        return {"log": [child.invoke({"word": "w"})["log"][-1][1] for _ in range(3)]}

    graph = build({"call": call})
    result = runner.run(graph, {"log": []}, config)
    asked = []
    for answer in "123":
        (question,) = result.interrupts
        asked.append(question.id)
        result = runner.run(graph, Command(resume=answer), config)
    assert result.value["log"] == ["1", "2", "3"]
    assert len(set(asked)) == 3


def test_different_graphs_with_the_same_input_are_never_taken_for_each_other(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    first = StateGraph(Child).add_node("one", lambda state: {"log": ["one", interrupt("?")]})
    second = StateGraph(Child).add_node("two", lambda state: {"log": ["two"]})
    graphs = [first.add_edge(START, "one").compile(), second.add_edge(START, "two").compile()]
    orders = iter([1, -1])

    def call(state: Any) -> Any:
        called = [graph.invoke({"word": "same"})["log"] for graph in graphs[:: next(orders)]]
        return {"log": called}

    graph = build({"call": call})
    runner.invoke(graph, {"log": []}, config)
    assert runner.invoke(graph, Command(resume="!"), config)["log"] == [["two"], ["one", "!"]]


def test_a_task_that_runs_for_the_first_time_looks_nothing_up(
    runner: Runner, saver: Saver, build: Build, config: RunnableConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    look: Any = type(saver).namespaces

    def counted(self: Any, thread_id: str, under: str = "") -> Any:
        looked.append(under)
        return look(self, thread_id, under)

    monkeypatch.setattr(type(saver), "namespaces", counted)
    child = asking()

    def call(state: Any) -> Any:
        for word in "ab":
            child.invoke({"word": word})
        return {"log": ["called"]}

    graph = build({"call": call})
    runner.invoke(graph, {"log": []}, config)
    assert looked == []
    runner.invoke(graph, Command(resume="x"), config)
    assert len(looked) == 1, "once for each run of the task, however many calls it makes"


def test_a_retried_node_finds_the_graphs_it_called(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    ran: list[str] = []
    child = (
        StateGraph(Child).add_node("work", lambda state: ran.append(state["word"])).add_edge(START, "work")
    )
    called, tries = child.compile(), count(1)

    def call(state: Any) -> Any:
        for word in "ab":
            called.invoke({"word": word})
        if next(tries) < 3:
            raise ConnectionError("line is down")
        return {"log": ["done"]}

    policy = RetryPolicy(initial_interval=0.001, jitter=False)
    graph = build({"call": call}, node_options={"call": {"retry_policy": policy}})
    assert runner.invoke(graph, {"log": []}, config)["log"] == ["done"]
    assert ran == ["a", "b"]


def test_the_error_handler_of_a_node_calls_graphs_of_its_own(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    child = asking()

    def fails(state: Any) -> Any:
        raise ConnectionError(child.invoke({"word": "w"})["log"][-1][1])

    def handler(state: Any, error: Any) -> Any:
        return {"log": [str(error.error), child.invoke({"word": "w"})["log"][-1][1]]}

    graph = build({"fails": fails}, node_options={"fails": {"error_handler": handler}})
    runner.invoke(graph, {"log": []}, config)
    asked = runner.run(graph, Command(resume="node's"), config)
    assert asked.status == "interrupted"
    assert runner.invoke(graph, Command(resume="handler's"), config)["log"] == ["node's", "handler's"]


def test_calls_of_several_tasks_of_one_node_are_kept_apart(
    runner: Runner, build: Build, config: RunnableConfig, keeps: Any
) -> None:
    child = asking(checkpointer=keeps)
    nodes = {"start": says("start"), "call": lambda word: {"log": child.invoke({"word": word})["log"][-1:]}}
    edges = [(START, "start"), ("start", lambda state: [Send("call", word) for word in "abc"], ["call"])]
    graph = build(nodes, edges)
    assert len(runner.run(graph, {"log": []}, config).interrupts) == 3
    expected = [(word, f"answer to {word}") for word in "abc"]
    assert answer_all(runner, graph, config)["log"] == ["start", *expected]


def fan(words: str, deeper: bool = False) -> Any:
    """A graph in which a task for each word asks."""

    def ask(word: str) -> Child:
        return {"log": [(word, interrupt(word))]}

    builder = StateGraph(Child).add_node("ask", ask)
    builder.add_conditional_edges(START, lambda state: [Send("ask", word) for word in words], ["ask"])
    graph = builder.compile()
    if deeper:
        graph = StateGraph(Child).add_node("deeper", graph).add_edge(START, "deeper").compile()
    return graph


@pytest.mark.parametrize("deeper", [False, True])
def test_questions_of_a_nested_graph_keep_their_order_when_they_are_loaded(
    runner: Runner, build: Build, config: RunnableConfig, deeper: bool
) -> None:
    graph = build({"node": fan("daebfc", deeper)}, state=Child)
    asked = runner.run(graph, {"word": ""}, config).interrupts
    assert [question.value for question in asked] == list("daebfc")
    assert runner.get_state(graph, config).interrupts == asked
    assert runner.run(graph, None, config).interrupts == asked
    assert runner.history(graph, config)[0].interrupts == asked


def test_questions_of_nested_graphs_keep_the_order_of_the_calls(
    runner: Runner, build: Build, config: RunnableConfig, ordered: Any
) -> None:
    child, orders = asking(), iter([["c", "a", "b"], ["b", "a", "c"]])

    def call(state: Any) -> Any:
        return {"log": ordered(child, next(orders))}

    graph = build({"call": call})
    asked = runner.run(graph, {"log": []}, config).interrupts
    assert [question.value for question in asked] == ["about c", "about a", "about b"]
    runner.invoke(graph, Command(resume={asked[1].id: "answer to a"}), config)
    left = (asked[0], asked[2])
    assert runner.get_state(graph, config).interrupts == left
    assert runner.run(graph, None, config).interrupts == left


@pytest.mark.parametrize("deeper", [False, True])
def test_a_partial_answer_lets_the_answered_tasks_of_a_nested_graph_go_on(
    runner: Runner, build: Build, config: RunnableConfig, deeper: bool, saver: Saver, reopen: Any
) -> None:
    ran: list[str] = []

    def ask(word: str) -> Child:
        answer = interrupt(word)
        ran.append(word)
        return {"log": [answer]}

    inner: Any = StateGraph(Child).add_node("ask", ask)
    inner = inner.add_conditional_edges(
        START, lambda state: [Send("ask", w) for w in "abc"], ["ask"]
    ).compile()
    if deeper:
        inner = StateGraph(Child).add_node("deeper", inner).add_edge(START, "deeper").compile()
    graph = build({"node": inner}, state=Child)
    a, b, c = runner.run(graph, {"word": ""}, config).interrupts
    left = runner.run(graph, Command(resume={b.id: "B"}), config)
    assert (ran, left.interrupts) == (["b"], (a, c))
    graph = build({"node": inner}, state=Child, saver=reopen(saver))
    assert runner.run(graph, None, config).interrupts == (a, c), "nothing runs that was not answered"
    assert ran == ["b"]
    left = runner.run(graph, Command(resume={c.id: "C"}), config)
    assert (ran, left.interrupts) == (["b", "c"], (a,))
    assert runner.invoke(graph, Command(resume="A"), config)["log"] == ["A", "B", "C"]
    assert ran == ["b", "c", "a"]


def test_a_task_group_of_questions_runs_again_when_all_are_answered(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    runs = count()

    async def ask(word: str) -> Any:
        return interrupt(word, name=word)

    async def node(state: Any) -> Any:
        next(runs)
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(ask(word)) for word in "zay"]
        return {"log": [question.result() for question in asked]}

    graph = build({"node": node})
    asked = runner.run(graph, {"log": []}, config).interrupts
    assert [question.value for question in asked] == list("zay")
    assert runner.get_state(graph, config).interrupts == asked, "the order asked, not of the names"
    runner.invoke(graph, Command(resume={asked[1].id: "A"}), config)
    assert next(runs) == 1
    answers = {asked[0].id: "Z", asked[2].id: "Y"}
    assert runner.invoke(graph, Command(resume=answers), config)["log"] == ["Z", "A", "Y"]
