"""One test for each family of faults that users of the anchors have run into, under its name.

Each family has more tests where its subject is; these are the short form of the report.
"""

from __future__ import annotations

import asyncio
import contextlib
import operator
from typing import Annotated, Any, TypedDict

import pytest

from graphkit import START, Command, Send, StateGraph, interrupt
from graphkit.types import RunnableConfig, StateSnapshot
from tests.conftest import EMPTY, Build, Reopen, Runner, Saver, State, asks, in_a_row, says


class Word(TypedDict, total=False):
    word: str
    answers: Annotated[list[Any], operator.add]


def test_parallel_calls_answered_crosswise(runner: Runner, build: Build, config: RunnableConfig) -> None:
    """Calls made side by side arrive in another order when the node runs again; each keeps its own answer."""

    def ask(state: Word) -> Word:
        return {"answers": [interrupt(f"delete {state['word']}?")]}

    tool = StateGraph(Word).add_node(ask).add_edge(START, "ask").compile()
    orders = iter([["files", "mails"], ["mails", "files"]])

    async def tools(state: State) -> State:
        words = next(orders)
        calls = [tool.ainvoke({"word": word}) for word in words]
        found: list[Any] = await asyncio.gather(*calls, return_exceptions=True)
        if asked := [error for error in found if isinstance(error, BaseException)]:
            raise BaseExceptionGroup("tools", asked)
        answers = {word: shown["answers"] for word, shown in zip(words, found, strict=True)}
        return {"log": [answers["files"], answers["mails"]]}

    graph = build({"tools": tools})
    asked = {question.value: question.id for question in runner.run(graph, EMPTY, config).interrupts}
    answers = {asked["delete mails?"]: "no", asked["delete files?"]: "yes"}
    assert runner.invoke(graph, Command(resume=answers), config)["log"] == [["yes"], ["no"]]


def test_replay_inside_a_subgraph(runner: Runner, build: Build, config: RunnableConfig) -> None:
    """Going on at a checkpoint of a nested graph repeats neither its first nodes nor those of the graph around."""
    ran: list[str] = []

    def step(name: str) -> Any:
        def node(state: State) -> State:
            ran.append(name)
            return {"log": [name]}

        return node

    inner = StateGraph(Word).add_sequence(
        [("one", lambda s: ran.append("one")), ("two", lambda s: ran.append("two"))]
    )
    child = inner.add_edge(START, "one").compile()
    nodes = {"before": step("before"), "child": child, "after": step("after")}
    graph = build(nodes, in_a_row("before", "child", "after"))
    runner.invoke(graph, EMPTY, config)
    assert ran == ["before", "one", "two", "after"]
    ran.clear()
    around = next(s for s in runner.history(graph, config) if s.next == ("child",))
    (child_task,) = around.tasks
    history: list[StateSnapshot] = runner.history(graph, child_task.state)
    before_two = next(state for state in history if state.next == ("two",))
    assert runner.invoke(graph, None, before_two.config)["log"] == ["before", "after"]
    assert ran == ["two", "after"]


def test_several_askers(
    runner: Runner, build: Build, config: RunnableConfig, saver: Saver, reopen: Reopen
) -> None:
    """Every question of a superstep is reported, in order, and each can be answered by itself."""

    def ask(word: str) -> State:
        return {"log": [interrupt(word)]}

    nodes = {"plan": says("plan"), "ask": ask}
    edges = [(START, "plan"), ("plan", lambda state: [Send("ask", word) for word in "cab"], ["ask"])]
    asked = runner.run(build(nodes, edges), EMPTY, config).interrupts
    assert [question.value for question in asked] == ["c", "a", "b"]
    graph = build(nodes, edges, saver=reopen(saver))
    assert runner.get_state(graph, config).interrupts == asked
    left = runner.run(graph, Command(resume={asked[1].id: "A"}), config)
    assert left.interrupts == (asked[0], asked[2])
    answers = {asked[0].id: "C", asked[2].id: "B"}
    assert runner.invoke(graph, Command(resume=answers), config)["log"] == ["plan", "C", "A", "B"]


def test_swallowed_interrupts(runner: Runner, build: Build, config: RunnableConfig) -> None:
    """A question that user code catches is asked all the same, and what the node wrote instead is dropped."""

    def greedy(state: State) -> State:
        answer = "swallowed"
        with contextlib.suppress(BaseException):
            answer = interrupt("sure?")
        return {"log": [answer]}

    graph = build({"greedy": greedy, "next": says("next")}, in_a_row("greedy", "next"))
    with pytest.warns(RuntimeWarning, match="greedy"):
        result = runner.run(graph, EMPTY, config)
    assert ([question.value for question in result.interrupts], result.value["log"]) == (["sure?"], [])
    assert runner.invoke(graph, Command(resume="yes"), config)["log"] == ["yes", "next"]


class Line:
    """A node that fails until it is repaired."""

    def __init__(self) -> None:
        self.repaired = False

    def node(self, state: State) -> State:
        if not self.repaired:
            raise ConnectionError("line is down")
        return {"log": ["repaired"]}


def test_stale_errors(runner: Runner, build: Build, config: RunnableConfig) -> None:
    """A recorded error is gone as soon as its task has succeeded, though its superstep still waits."""
    line = Line()
    graph = build({"ask": asks("ask?"), "fail": line.node})
    with pytest.raises(ConnectionError):
        runner.invoke(graph, EMPTY, config)
    errors = {task.name: task.error for task in runner.get_state(graph, config).tasks}
    assert (errors["ask"], "line is down" in (errors["fail"] or "")) == (None, True)
    line.repaired = True
    runner.invoke(graph, None, config)
    tasks = {task.name: task for task in runner.get_state(graph, config).tasks}
    assert (tasks["fail"].error, tasks["fail"].result) == (None, {"log": ["repaired"]})
    runner.invoke(graph, Command(resume="yes"), config)
    assert not any(task.error for state in runner.history(graph, config) for task in state.tasks)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("last", [says("end"), asks("end?")], ids=["ends", "asks"])
def test_stale_errors_in_history(
    runner: Runner, build: Build, config: RunnableConfig, durability: str, last: Any
) -> None:
    """An error that was recorded by an earlier run is in no history after its task has succeeded."""
    line = Line()
    graph = build({"fail": line.node, "last": last}, in_a_row("fail", "last"))
    with pytest.raises(ConnectionError):
        runner.invoke(graph, EMPTY, config, durability=durability)
    line.repaired = True
    runner.invoke(graph, None, config, durability=durability)
    assert not any(task.error for state in runner.history(graph, config) for task in state.tasks)


def test_resume_after_an_error(
    runner: Runner, build: Build, config: RunnableConfig, saver: Saver, reopen: Reopen
) -> None:
    """An answer survives the errors that come after it, and the question is not asked again."""
    line = Line()

    def pay(state: State) -> State:
        answer = interrupt("pay?")
        return {"log": [answer, *line.node(state)["log"]]}

    runner.invoke(build({"pay": pay}), EMPTY, config)
    with pytest.raises(ConnectionError):
        runner.invoke(build({"pay": pay}), Command(resume="yes"), config)
    line.repaired = True
    graph = build({"pay": pay}, saver=reopen(saver))
    assert runner.get_state(graph, config).interrupts == ()
    assert runner.invoke(graph, None, config)["log"] == ["yes", "repaired"]
