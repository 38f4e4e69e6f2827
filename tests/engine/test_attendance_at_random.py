"""Attended runs by chance: tasks and edges ask and fail, answers come in any order; what is seen is always what is
stored, and the end is the same."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from graphkit import END, Command, Send
from graphkit.engine.program import Seen
from graphkit.types import Interrupt, RunnableConfig
from graphkit_checkpoint.records import KEPT
from tests.conftest import EMPTY, Reopen, Runner, Saver
from tests.engine.programs import ask, graph, here

NODES = "abcd"
PATIENCE = 200


class Trouble(Exception):
    pass


class Plan(NamedTuple):
    asks: int
    fails: bool
    keeps: bool


class Chance:
    """One thread's life, decided by a seed. Edges stop making trouble when `left` is used up."""

    def __init__(self, seed: int, runner: Runner) -> None:
        self.random = random.Random(seed)
        self.runner = runner
        self.left = 30
        self.done: Counter[str] = Counter()
        self.failed: set[str] = set()
        self.shape = seed % 4
        self.likely = {edge: self.random.choice([0.0, 0.3, 0.6]) for edge in ("opening", "closing")}
        self.plans = {
            name: Plan(self.random.randint(0, 2), self.random.random() < 0.4, self.random.random() < 0.5)
            for name in NODES
        }

    def graph(self, saver: Saver) -> Any:
        edges: Any = {"opening": self.opening, "closing": self.closing}
        nodes: dict[str, Any] = {name: lambda view, name=name: self.work(name) for name in NODES}
        if self.shape == 0:
            return graph(self.runner, saver, nodes, first="abc", after={"a": "d", "b": "d"}, **edges)
        if self.shape == 1:
            return graph(self.runner, saver, nodes, first="a", after={"a": "b", "b": "c", "c": "d"}, **edges)
        spread = {
            "spread": lambda view: Command(goto=[Send("each", name) for name in NODES]),
            "each": self.work,
        }
        options = {"each": {"in_order": self.shape == 2}}
        return graph(self.runner, saver, spread, first=["spread"], options=options, **edges)

    def work(self, name: str) -> Any:
        plan = self.plans[name]
        if plan.keeps:
            here().keep("tries", here().kept.get("tries", 0) + 1)
        answers = [ask(f"{name}{number}", f"{name}{number}") for number in range(plan.asks)]
        if plan.fails and name not in self.failed:
            self.failed.add(name)
            raise Trouble(name)
        self.done[name] += 1
        return {"log": [(name, *answers)]}

    def opening(self, seen: Seen) -> Any:
        stops = self.happens(0.1)
        return Command(goto=END) if stops else self.attend("opening", seen)

    def closing(self, seen: Seen) -> Any:
        told: Sequence[Interrupt] = seen.arg.questions
        waiting = [question for question in told if question.value[0] in NODES and question.response is None]
        if waiting and seen.arg.error is None and "asked" not in here().kept and self.happens(0.2):
            return Command(resume={waiting[0].id: "closing"})
        return self.attend("closing", seen)

    def attend(self, edge: str, seen: Seen) -> Any:
        if self.happens(0.1):
            raise Trouble(edge)
        if "asked" in here().kept or self.happens(self.likely[edge]):
            here().keep("asked", True)
            ask(f"{edge}?", "question")
        return {"notes": {edge: seen.view.get("notes", {}).get(edge, 0) + 1}}

    def happens(self, likely: float) -> bool:
        happens = self.left > 0 and self.random.random() < likely
        self.left -= happens
        return happens

    def answers(self, questions: Sequence[Interrupt]) -> Any:
        if not questions or self.random.random() < 0.15:
            return None
        chosen = self.random.sample(questions, self.random.randint(1, len(questions)))
        return Command(resume={question.id: "person" for question in chosen})


@pytest.mark.parametrize("durability", ["sync", "exit"])
@pytest.mark.parametrize("seed", range(16))
def test_attended_runs_show_what_is_stored_and_come_to_the_same_end(
    seed: int, durability: Any, runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig
) -> None:
    chance = Chance(seed, runner)
    given: Any = EMPTY
    for _ in range(PATIENCE):
        storage = reopen(saver)
        try:
            result = runner.run(chance.graph(storage), given, config, durability=durability)
        except Trouble:
            result = None
        state = runner.get_state(chance.graph(storage), config)
        if result is not None:
            assert (result.value, result.interrupts, result.next) == (
                state.values,
                state.interrupts,
                state.next,
            )
            if result.status == "completed":
                break
        assert state.next
        given = chance.answers(state.interrupts)
    assert result is not None and result.status == "completed"
    assert sorted(name for name, *_ in result.value["log"]) == list(NODES)
    assert chance.done == Counter(NODES)
    if durability == "sync":
        assert not any(record.kind == KEPT for saved in saver.history("t") for record in saved.pending)
