"""Safety 7, 8, 10 and 12: what other tests of the suite do in a short form, counted, and in a long one by
`make chaos`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from graphkit import Command
from graphkit.errors import AlreadyAnsweredError
from graphkit_checkpoint.errors import CheckpointCorruptError, UnknownTypeError
from graphkit_checkpoint.serde import pack, unpack
from tests import test_properties_resume as properties
from tests.checkpoint import test_serde as values
from tests.conftest import EMPTY, Build, Runner, Saver, State, asks, in_a_row
from tests.faults import Witness
from tests.safety.conftest import Report
from tests.safety.figures import SCALE, SEED, chance, size
from tests.safety.scenes import thread

ANSWERED = size(2, 20)
"""Threads for each door, saver and situation."""
LONG = pytest.mark.skipif(not SCALE, reason="the short form is in the tests of the thing itself")


def many(examples: int) -> settings:
    return settings(
        max_examples=size(1, examples),
        deadline=None,
        database=None,
        derandomize=False,
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.parametrize("situation", ["the same answer", "another answer", "at an old checkpoint"])
def test_no_answer_has_a_second_effect(
    runner: Runner, build: Build, saver: Saver, situation: str, tmp_path: Path, reports: Report
) -> None:
    witness = Witness(tmp_path / "witness")

    def charge(state: State) -> State:
        witness.note("charged")
        return {"log": ["charged"]}

    graph = build({"ask": asks("sure?"), "charge": charge}, in_a_row("ask", "charge"))
    outcomes: Counter[str] = Counter()
    for number in range(ANSWERED):
        config = thread(f"{situation} {number}")
        runner.invoke(graph, EMPTY, config)
        question = runner.get_state(graph, config)
        (asked,) = question.interrupts
        runner.invoke(graph, Command(resume={asked.id: "yes"}), config)
        again = "no" if situation == "another answer" else "yes"
        where = question.config if situation == "at an old checkpoint" else config
        try:
            end = runner.invoke(graph, Command(resume={asked.id: again}), where)
            outcomes["no effect" if end == {"log": ["yes", "charged"]} else "wrong"] += 1
        except AlreadyAnsweredError:
            outcomes["AlreadyAnsweredError"] += 1
    second = witness.count("charged") - ANSWERED
    kind = f"{type(saver).__name__}, {runner.colour}"
    reports("7 answers again", f"{kind}, {situation}: {dict(outcomes)}, {second} second effects")
    expected = "AlreadyAnsweredError" if situation == "another answer" else "no effect"
    assert (outcomes, second) == (Counter({expected: ANSWERED}), 0)


@LONG
def test_no_answer_reaches_another_question(
    runner: Runner, build: Build, saver: Saver, reports: Report
) -> None:
    inner: Any = properties.test_an_answer_reaches_the_question_it_was_given_to_or_none.hypothesis.inner_test  # type: ignore[attr-defined]
    cases = 0

    @seed(SEED)
    @many(170)
    @given(before=properties.QUESTIONS, after=properties.QUESTIONS, data=st.data())
    def check(before: list[str], after: list[str], data: st.DataObject) -> None:
        nonlocal cases
        cases += 1
        inner(runner, build, before, after, data)

    check()
    reports("8 questions changed", f"{type(saver).__name__}, {runner.colour}: {cases} cases, 0 misdelivered")


@LONG
def test_damaged_blobs_raise_nothing_else(reports: Report) -> None:
    dice, outcomes = chance("blobs"), Counter[str]()
    blobs = [blob for value in values.EXAMPLES if len(blob := pack(value)) < 2000]
    for _ in range(size(1, 200_000)):
        try:
            unpack(values.mutated(dice.choice(blobs), blobs, dice))
        except (CheckpointCorruptError, UnknownTypeError) as error:
            outcomes[type(error).__name__] += 1
        else:
            outcomes["read"] += 1
    reports("10 hostile bytes", f"{outcomes.total()} mutated blobs: {dict(outcomes)}, 0 other errors")


@LONG
def test_values_come_back_exactly(reports: Report) -> None:
    examples = 0

    @seed(SEED)
    @many(10_000)
    @given(values.VALUES)
    def check(value: Any) -> None:
        nonlocal examples
        examples += 1
        packed = pack(value)
        assert values.exact(unpack(packed)) == values.exact(value)

    check()
    reports("12 round trips", f"{examples} generated values, all equal in value and type")
