"""Properties of resuming, for generated graphs and answers.

However the answers are spread over calls and processes, the same answers lead to the same state, every
question is answered once, and an answer reaches the question it was given to or none.
"""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphkit.errors import InterruptMismatchError
from graphkit.graph import START
from graphkit.types import Command, Interrupt, RunnableConfig, Send, interrupt
from tests.conftest import EMPTY, Build, Edge, Graph, Reopen, Runner, Saver, State

GENERATED = settings(
    derandomize=True,
    deadline=None,
    max_examples=15,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
THREADS = count()
"""Every example has a thread of its own: the fixtures are made once per test, not per example."""

ANSWERS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
SCRIPTS = st.lists(st.lists(ANSWERS, min_size=1, max_size=3), min_size=1, max_size=4)
"""The answers that each of several parallel tasks will get, one after the other."""


def fresh_thread() -> RunnableConfig:
    return {"configurable": {"thread_id": f"example {next(THREADS)}"}}


def as_nodes(build: Build, script: list[list[Any]], ran: list[int], **options: Any) -> Graph:
    """Parallel nodes; node `n` asks (n, 0), (n, 1), … one after the other."""
    nodes = {f"n{number}": asking(number, len(answers), ran) for number, answers in enumerate(script)}
    return build(nodes, **options)


def as_sends(build: Build, script: list[list[Any]], ran: list[int], **options: Any) -> Graph:
    """The same as the tasks of one node, by `Send`."""

    def worker(state: dict[str, int]) -> State:
        return asking(state["number"], state["asked"], ran)(EMPTY)

    def spread(state: State) -> list[Send]:
        return [
            Send("worker", {"number": number, "asked": len(answers)}) for number, answers in enumerate(script)
        ]

    edges: list[Edge] = [(START, spread, ["worker"])]
    return build({"worker": worker}, edges, **options)


def asking(number: int, asked: int, ran: list[int]) -> Callable[[State], State]:
    def node(state: State) -> State:
        ran.append(number)
        return {"log": [[interrupt((number, index)) for index in range(asked)]]}

    return node


def answered(script: list[list[Any]], open_questions: list[Interrupt]) -> dict[str, Any]:
    return {question.id: script[question.value[0]][question.value[1]] for question in open_questions}


def open_after(result: Any) -> list[Interrupt]:
    questions: list[Interrupt] = result.get("__interrupt__", [])
    return questions


PARALLEL = pytest.mark.parametrize("tasks", [as_nodes, as_sends], ids=["nodes", "Sends"])


@PARALLEL
@GENERATED
@given(script=SCRIPTS)
def test_answering_all_at_once_gives_every_task_its_own_answers(
    runner: Runner, build: Build, tasks: Callable[..., Graph], script: list[list[Any]]
) -> None:
    config, ran = fresh_thread(), list[int]()
    graph = tasks(build, script, ran)

    result = runner.invoke(graph, EMPTY, config)
    while asked := open_after(result):
        result = runner.invoke(graph, Command(resume=answered(script, asked)), config)

    assert result == {"log": script}
    assert sorted(ran) == sorted(
        number for number, answers in enumerate(script) for _ in range(len(answers) + 1)
    )


@PARALLEL
@GENERATED
@given(data=st.data(), script=SCRIPTS)
def test_partial_answers_in_any_order_reach_the_same_state(
    runner: Runner,
    build: Build,
    saver: Saver,
    reopen: Reopen,
    tasks: Callable[..., Graph],
    data: st.DataObject,
    script: list[list[Any]],
) -> None:
    config, ran = fresh_thread(), list[int]()
    graphs = [tasks(build, script, ran), tasks(build, script, ran, saver=reopen(saver))]

    result = runner.invoke(graphs[0], EMPTY, config)
    while asked := open_after(result):
        some = data.draw(st.sets(st.integers(0, len(asked) - 1), min_size=1), label="answered")
        graph = graphs[data.draw(st.integers(0, 1), label="graph object")]
        answers = answered(script, [asked[number] for number in some])
        result = runner.invoke(graph, Command(resume=answers), config)
        still_open = [question for question in asked if question.id not in answers]
        assert [question for question in open_after(result) if question in still_open] == still_open

    assert result == {"log": script}
    assert sorted(ran) == sorted(
        number for number, answers in enumerate(script) for _ in range(len(answers) + 1)
    )


@GENERATED
@given(answers=st.lists(ANSWERS, min_size=1, max_size=5), data=st.data())
def test_replay_after_any_prefix_of_the_answers_reaches_the_same_state(
    runner: Runner, build: Build, saver: Saver, reopen: Reopen, answers: list[Any], data: st.DataObject
) -> None:
    config, ran = fresh_thread(), list[int]()
    prefix = data.draw(st.integers(0, len(answers)), label="prefix")
    here = as_nodes(build, [answers], ran)
    there = as_nodes(build, [answers], ran, saver=reopen(saver))

    result = runner.invoke(here, EMPTY, config)
    for _ in range(prefix):
        result = runner.invoke(here, Command(resume=answered([answers], open_after(result))), config)
    replayed = runner.invoke(there, None, config)
    assert replayed == result
    for _ in range(prefix, len(answers)):
        replayed = runner.invoke(there, Command(resume=answered([answers], open_after(replayed))), config)

    assert replayed == {"log": [answers]}
    assert runner.get_state(there, config).values == replayed
    assert len(ran) == len(answers) + 1


QUESTIONS = st.lists(st.sampled_from(["pay", "book", "send"]), min_size=1, max_size=4)


def told(asked: list[str], heard: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Ask, and note what was heard, while questions are answered."""
    for question in asked:
        heard.append((question, interrupt(question)))
        yield heard[-1]


@GENERATED
@given(before=QUESTIONS, after=QUESTIONS, data=st.data())
def test_an_answer_reaches_the_question_it_was_given_to_or_none(
    runner: Runner, build: Build, before: list[str], after: list[str], data: st.DataObject
) -> None:
    config, heard = fresh_thread(), list[tuple[str, str]]()
    lines = before

    def node(state: State) -> State:
        return {"log": list(told(lines, heard))}

    graph = build({"node": node})
    given_answers = [(question, f"{index}: {question}") for index, question in enumerate(before)]
    changed_at = data.draw(st.integers(0, len(before) - 1), label="changed before this answer")
    runner.invoke(graph, EMPTY, config)
    for _, answer in given_answers[:changed_at]:
        runner.invoke(graph, Command(resume=answer), config)
    lines, heard[:] = after, []
    kept = before[: changed_at + 1][: len(after)]

    if kept == after[: len(kept)]:
        runner.invoke(graph, Command(resume=given_answers[changed_at][1]), config)
        assert heard == given_answers[: len(kept)]
    else:
        with pytest.raises(InterruptMismatchError):
            runner.invoke(graph, Command(resume=given_answers[changed_at][1]), config)
        assert heard == given_answers[: len(heard)]
