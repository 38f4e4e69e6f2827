"""Errors beside questions (SEMANTICS 3, 5): what failed runs again, what is answered or finished does not."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from graphkit.errors import AlreadyAnsweredError
from graphkit.graph import START
from graphkit.types import Command, PregelTask, RetryPolicy, RunnableConfig, Send, interrupt
from tests.conftest import (
    EMPTY,
    Build,
    Edge,
    Graph,
    Reopen,
    Runner,
    Saver,
    Spelling,
    State,
    in_a_row,
    questions,
    says,
)

PROMPT_RETRY = RetryPolicy(initial_interval=0.001, jitter=False, max_attempts=3)


class Office:
    """Nodes `ask`, `done` and `fail`, to run side by side; `fail` raises until `repaired`; `ran` counts."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.repaired = False
        self.asking = threading.Event()

    def ask(self, state: State) -> State:
        self.ran.append("ask")
        self.asking.set()
        return {"log": [interrupt("ask?")]}

    def done(self, state: State) -> State:
        self.ran.append("done")
        return {"log": ["done"]}

    def fail(self, state: State) -> State:
        assert self.asking.wait(10)
        self.ran.append("fail")
        if not self.repaired:
            raise ConnectionError("line is down")
        return {"log": ["repaired"]}

    def nodes(self, *names: str) -> dict[str, Callable[[State], State]]:
        return {name: getattr(self, name) for name in names}


def tasks(runner: Runner, graph: Graph, config: RunnableConfig) -> dict[str, PregelTask]:
    return {task.name: task for task in runner.get_state(graph, config).tasks}


def fails(runner: Runner, graph: Graph, given: Any, config: RunnableConfig) -> BaseException:
    """Run into the office's error and return it."""
    with pytest.raises(ConnectionError, match="line is down") as failed:
        runner.invoke(graph, given, config)
    return failed.value


# --- a question and an error in one superstep -----------------------------------------------------


def test_an_error_and_a_question_are_both_recorded(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = build(Office().nodes("ask", "fail"))

    error = fails(runner, graph, EMPTY, config)

    assert "fail" in "".join(error.__notes__)
    state = runner.get_state(graph, config)
    assert state.next == ("ask", "fail")
    assert [question.value for question in state.interrupts] == ["ask?"]
    recorded = tasks(runner, graph, config)
    assert (recorded["ask"].interrupts, recorded["ask"].error) == (state.interrupts, None)
    assert recorded["fail"].interrupts == ()
    assert "line is down" in (recorded["fail"].error or "")


def test_none_runs_the_failed_task_again_and_leaves_the_question_open(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    office = Office()
    graph = build(office.nodes("ask", "fail"))
    fails(runner, graph, EMPTY, config)
    asked = runner.get_state(graph, config).interrupts

    fails(runner, graph, None, config)
    assert runner.get_state(graph, config).interrupts == asked
    office.repaired = True
    result = runner.invoke(graph, None, config)

    assert tuple(result["__interrupt__"]) == asked
    assert sorted(office.ran) == ["ask", "fail", "fail", "fail"]
    assert runner.invoke(graph, Command(resume="yes"), config) == {"log": ["yes", "repaired"]}
    assert sorted(office.ran) == ["ask", "ask", "fail", "fail", "fail"]


def test_a_recorded_error_disappears_when_its_task_succeeds(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    office = Office()
    graph = build(office.nodes("ask", "fail"))
    fails(runner, graph, EMPTY, config)
    office.repaired = True

    runner.invoke(graph, None, config)

    failed = tasks(runner, graph, config)["fail"]
    assert (failed.error, failed.result) == (None, {"log": ["repaired"]})
    assert runner.get_state(graph, config).next == ("ask",)


def test_an_answered_task_is_not_run_again_while_its_sibling_fails(
    runner: Runner, build: Build, config: RunnableConfig, spell: Spelling
) -> None:
    office = Office()
    graph = build(office.nodes("ask", "fail"))
    fails(runner, graph, EMPTY, config)
    (asked,) = runner.get_state(graph, config).interrupts

    fails(runner, graph, spell(asked, "yes"), config)

    state = runner.get_state(graph, config)
    assert (state.next, state.interrupts) == (("fail",), ())
    assert tasks(runner, graph, config)["ask"].result == {"log": ["yes"]}
    fails(runner, graph, None, config)
    office.repaired = True
    assert runner.invoke(graph, None, config) == {"log": ["yes", "repaired"]}
    assert office.ran.count("ask") == 2


def test_another_process_repairs_and_answers(
    runner: Runner, build: Build, config: RunnableConfig, saver: Saver, reopen: Reopen
) -> None:
    here, there = Office(), Office()
    fails(runner, build(here.nodes("ask", "done", "fail")), EMPTY, config)
    there.repaired = True
    there.asking.set()
    graph = build(there.nodes("ask", "done", "fail"), saver=reopen(saver))

    assert list(questions(runner.invoke(graph, None, config))) == ["ask?"]
    assert runner.invoke(graph, Command(resume="yes"), config) == {"log": ["yes", "done", "repaired"]}
    assert there.ran.count("ask") == there.ran.count("fail") == 1


def test_the_error_names_its_node_when_it_stands_alone(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    def broken(state: State) -> State:
        raise LookupError("nothing there")

    graph = build({"fine": says("fine"), "broken": broken}, in_a_row("fine", "broken"))

    with pytest.raises(LookupError, match="nothing there") as failed:
        runner.invoke(graph, EMPTY, config)

    assert "broken" in "".join(failed.value.__notes__)
    assert runner.get_state(graph, config).next == ("broken",)


def test_only_the_failed_task_of_a_fan_out_runs_again(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    ran: list[int] = []

    def worker(state: dict[str, int]) -> State:
        number = state["number"]
        answer = interrupt(number)
        ran.append(number)
        if number == 1 and ran.count(1) == 1:
            raise ConnectionError("line is down")
        return {"log": [answer]}

    edges: list[Edge] = [
        (START, lambda state: [Send("worker", {"number": number}) for number in range(3)], ["worker"])
    ]
    graph = build({"worker": worker}, edges)
    asked = questions(runner.invoke(graph, EMPTY, config))
    runner.invoke(graph, Command(resume={asked[0].id: "zero", asked[2].id: "two"}), config)

    error = fails(runner, graph, Command(resume={asked[1].id: "one"}), config)

    assert "worker" in "".join(error.__notes__)
    assert runner.invoke(graph, None, config) == {"log": ["zero", "one", "two"]}
    assert sorted(ran) == [0, 1, 1, 2]


# --- answers survive ------------------------------------------------------------------------------


class Clerk:
    """A node that asks, counts, and raises `failures` times before it returns the answer."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.ran: list[str] = []
        self.heard: list[Any] = []

    def node(self, state: State) -> State:
        self.ran.append("clerk")
        self.heard.append(interrupt("clerk?"))
        if len(self.heard) <= self.failures:
            raise ConnectionError("line is down")
        return {"log": [self.heard[-1]]}

    def done(self, state: State) -> State:
        self.ran.append("done")
        return {"log": ["done"]}


@pytest.mark.parametrize("answer", ["yes", False, None, {"deep": [0]}], ids=repr)
def test_an_answer_survives_the_error_of_its_task(
    runner: Runner, build: Build, config: RunnableConfig, saver: Saver, reopen: Reopen, answer: Any
) -> None:
    clerk = Clerk(failures=2)
    graph = build({"clerk": clerk.node, "done": clerk.done})
    asked = questions(runner.invoke(graph, EMPTY, config))["clerk?"]
    fails(runner, graph, Command(resume={asked.id: answer}), config)

    assert runner.get_state(graph, config).next == ("clerk",)
    assert runner.get_state(graph, config).interrupts == ()
    fails(runner, graph, None, config)
    elsewhere = build({"clerk": clerk.node, "done": clerk.done}, saver=reopen(saver))
    assert runner.invoke(elsewhere, None, config) == {"log": [answer, "done"]}

    assert clerk.heard == [answer] * 3
    assert sorted(clerk.ran) == ["clerk"] * 4 + ["done"]


@pytest.mark.parametrize("spelling", ["map", "old checkpoint"])
def test_after_an_error_the_question_takes_no_other_answer(
    runner: Runner, build: Build, config: RunnableConfig, spelling: str
) -> None:
    clerk = Clerk(failures=1)
    graph = build({"clerk": clerk.node})
    asked = questions(runner.invoke(graph, EMPTY, config))["clerk?"]
    at_question = runner.get_state(graph, config).config
    fails(runner, graph, Command(resume="yes"), config)

    with pytest.raises(AlreadyAnsweredError):
        if spelling == "map":
            runner.invoke(graph, Command(resume={asked.id: "no"}), config)
        else:
            runner.invoke(graph, Command(resume="no"), at_question)

    assert len(clerk.ran) == 2
    assert runner.invoke(graph, None, config) == {"log": ["yes"]}


def test_after_an_error_a_fork_takes_another_answer(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    clerk = Clerk(failures=1)
    graph = build({"first": says("first"), "clerk": clerk.node}, in_a_row("first", "clerk"))
    runner.invoke(graph, EMPTY, config)
    at_question = runner.get_state(graph, config).config
    fails(runner, graph, Command(resume="yes"), config)

    runner.update_state(graph, at_question, {"log": ["edited"]}, "first")
    runner.invoke(graph, None, config)

    assert runner.invoke(graph, Command(resume="no"), config) == {"log": ["first", "edited", "no"]}


def test_retries_keep_the_answer_and_do_not_ask_again(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    clerk = Clerk(failures=2)
    graph = build({"clerk": clerk.node}, node_options={"clerk": {"retry_policy": PROMPT_RETRY}})

    assert list(questions(runner.invoke(graph, EMPTY, config))) == ["clerk?"]
    assert len(clerk.ran) == 1
    assert runner.invoke(graph, Command(resume="yes"), config) == {"log": ["yes"]}
    assert clerk.heard == ["yes"] * 3


def test_a_retry_may_ask(runner: Runner, build: Build, config: RunnableConfig) -> None:
    runs: list[str] = []

    def node(state: State) -> State:
        runs.append("node")
        if len(runs) in (1, 3):
            raise ConnectionError("line is down")
        return {"log": [interrupt("after a failure?")]}

    graph = build({"node": node}, node_options={"node": {"retry_policy": PROMPT_RETRY}})

    assert list(questions(runner.invoke(graph, EMPTY, config))) == ["after a failure?"]
    assert runner.invoke(graph, Command(resume="yes"), config) == {"log": ["yes"]}
    assert len(runs) == 4


def test_answers_survive_retries_that_give_up(runner: Runner, build: Build, config: RunnableConfig) -> None:
    clerk = Clerk(failures=3)
    graph = build({"clerk": clerk.node}, node_options={"clerk": {"retry_policy": PROMPT_RETRY}})
    runner.invoke(graph, EMPTY, config)

    error = fails(runner, graph, Command(resume="yes"), config)

    assert "clerk" in "".join(error.__notes__)
    assert runner.invoke(graph, None, config) == {"log": ["yes"]}
    assert clerk.heard == ["yes"] * 4


def test_an_error_between_two_questions_keeps_the_first_answer(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    runs: list[str] = []

    def node(state: State) -> State:
        runs.append("node")
        first = interrupt("first?")
        if len(runs) == 2:
            raise ConnectionError("line is down")
        return {"log": [first, interrupt("second?")]}

    graph = build({"node": node})
    runner.invoke(graph, EMPTY, config)
    fails(runner, graph, Command(resume=1), config)

    assert list(questions(runner.invoke(graph, None, config))) == ["second?"]
    assert runner.invoke(graph, Command(resume=2), config) == {"log": [1, 2]}
