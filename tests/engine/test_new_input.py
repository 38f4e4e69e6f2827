"""A new input on a thread whose last superstep is unfinished: who may refuse it, and what is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from graphkit import Command, Send
from graphkit.engine.program import Branch, Callee, Shape
from graphkit.types import Interrupt, RunnableConfig
from tests.conftest import Reopen, Runner, Saver, response
from tests.engine.programs import ask, graph


class Refusal(Exception):
    pass


def refuse(questions: Sequence[Interrupt]) -> None:
    raise Refusal([question.value for question in questions])


def asking(view: Any) -> Any:
    return {"log": [ask(f"after {len(view['log'])}?")]}


def test_a_program_may_refuse_an_input_that_would_close_questions(
    runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig
) -> None:
    built = graph(runner, saver, {"one": asking, "two": asking}, admits=refuse)
    asked = runner.run(built, {"log": ["in"]}, config)
    before = runner.thread(built, config)
    other = graph(runner, reopen(saver), {"one": asking, "two": asking}, admits=refuse)
    with pytest.raises(Refusal) as refused:
        runner.run(other, {"log": ["again"]}, config)
    assert refused.value.args == (["after 1?", "after 1?"],)
    assert runner.thread(other, config) == before
    runner.run(other, [response(asked.interrupts[0], "a")], config)
    runner.run(other, Command(update={"last": "x"}), config)  # no new input
    with pytest.raises(Refusal) as refused:
        runner.run(other, {"log": ["again"]}, config)
    assert refused.value.args == (["after 1?"],)
    done = runner.run(other, Command(resume="b"), config)
    assert done.status == "completed"
    assert runner.run(other, {"log": ["again"]}, config).status == "interrupted"  # nothing was open


def test_a_branch_from_an_older_checkpoint_closes_no_question(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    asked = runner.run(graph(runner, saver, {"one": asking}), {"log": ["in"]}, config)
    runner.run(graph(runner, saver, {"one": asking}), {"log": ["and"]}, config)
    built = graph(runner, saver, {"one": asking}, admits=refuse)
    assert runner.run(built, {"log": ["other"]}, asked.config).value["log"] == ["in", "other"]


class Flaky:
    """Tasks of which the odd ones fail as long as they are to."""

    def __init__(self) -> None:
        self.ran: list[int] = []
        self.broken = True

    def __call__(self, index: int) -> Any:
        self.ran.append(index)
        if index % 2 and self.broken:
            raise ValueError(f"{index} failed")
        return {"log": [index], "last": "each"} if index == 2 else {"log": [index]}


def spread(view: Any) -> Any:
    return Command(goto=[Send("each", index) for index in range(3)]) if len(view["log"]) == 1 else None


@pytest.mark.parametrize("keeps", [True, False])
def test_what_has_finished_beside_a_failure_comes_before_a_new_input(
    keeps: bool, runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig
) -> None:
    nodes: dict[str, Any] = {"spread": spread, "each": Flaky()}
    built = graph(runner, saver, nodes, first=["spread"], keeps_finished=keeps)
    with pytest.raises(ValueError, match="1 failed"):
        runner.run(built, {"log": ["in"]}, config)
    other = graph(runner, reopen(saver), nodes, first=["spread"], keeps_finished=keeps)
    result = runner.run(other, {"log": ["new"]}, config)
    assert result.value["log"] == (["in", 0, 2, "new"] if keeps else ["in", "new"])
    assert runner.get_state(graph(runner, reopen(saver), nodes), config).values == result.value
    assert result.value.get("last") == ("each" if keeps else None)


def test_what_was_kept_for_a_new_input_outlives_an_entry_that_fails(
    runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig
) -> None:
    """A conditional entry has a checkpoint of its own, and what it failed at is gone on with later."""
    problems = [False, True, False]

    def where(view: Any) -> Any:
        if problems.pop(0):
            raise ValueError("which way?")
        return "spread"

    branch = Branch(Callee("where", where, None), Shape(None), None)
    nodes: dict[str, Any] = {"spread": spread, "each": Flaky()}

    def built(saver: Saver) -> Any:
        made = graph(runner, saver, nodes, first=[], keeps_finished=True)
        made.program.entry.branches = (branch,)
        return made

    with pytest.raises(ValueError, match="1 failed"):
        runner.run(built(saver), {"log": ["in"]}, config)
    with pytest.raises(ValueError, match="which way"):
        runner.run(built(reopen(saver)), {"log": ["new"]}, config)
    result = runner.run(built(reopen(saver)), None, config)
    assert result.value["log"] == ["in", 0, 2, "new"]


def test_an_update_outlives_an_entry_that_fails(
    runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig
) -> None:
    problems = [False, True, False]

    def where(view: Any) -> Any:
        if problems.pop(0):
            raise ValueError("which way?")
        return "one"

    branch = Branch(Callee("where", where, None), Shape(None), None)

    def built(saver: Saver) -> Any:
        made = graph(runner, saver, {"one": asking}, first=[])
        made.program.entry.branches = (branch,)
        return made

    runner.run(built(saver), {"log": ["in"]}, config)
    runner.run(built(saver), Command(update={"log": ["update"]}), config)
    with pytest.raises(ValueError, match="which way"):
        runner.run(built(reopen(saver)), {"log": ["new"]}, config)
    assert runner.run(built(reopen(saver)), None, config).value["log"] == ["in", "update", "new"]


def test_the_checkpoint_of_an_input_shows_what_was_changed_beside_the_one_before(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    built = graph(runner, saver, {"one": asking})
    runner.run(built, {"log": ["in"]}, config)
    runner.run(built, Command(update={"log": ["update"]}), config)
    shown = runner.stream(built, {"log": ["new"]}, config, stream_mode="checkpoints")
    assert [part["values"]["log"] for part in shown[:2]] == [["in", "update"], ["in", "update", "new"]]
    history = runner.history(built, config)
    inputs = [
        past.values.get("log") for past in history if past.metadata and past.metadata["source"] == "input"
    ]
    assert inputs == [["in", "update"], []]
