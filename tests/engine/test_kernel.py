"""The kernel alone, driven by hand: same replies, same ids; nothing happens before the claim."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Annotated, Any, TypedDict

from graphkit import START, Send, StateGraph, interrupt
from graphkit.checkpoint.memory import InMemorySaver
from graphkit.drivers.execute import execute
from graphkit.engine import effects
from graphkit.engine.attempt import Scope
from graphkit.engine.loop import run
from graphkit.engine.program import Program
from graphkit.engine.request import End, Request


class State(TypedDict):
    log: Annotated[list[str], operator.add]


def spread(state: State) -> list[Send]:
    return [Send("each", {"log": [letter]}) for letter in "xyz"]


def each(state: State) -> State:
    letter = state["log"][0]
    return {"log": [interrupt("sure?") if letter == "y" else letter]}


def program() -> Program:
    builder = StateGraph(State).add_node("first", lambda state: {"log": ["first"]}).add_node(each)
    builder.add_edge(START, "first").add_conditional_edges("first", spread, ["each"])
    return builder.compile().program


def request(given: Any) -> Request:
    scope = Scope(config={}, thread_id="t", token="owner")
    return Request(input=given, scope=scope, nonce="n0", stored=True)


def by_hand(saver: InMemorySaver, given: Any) -> Iterator[tuple[Any, Any]]:
    """Drive one run with a clock that stands still; yields (effect, reply)."""
    kernel = run(program(), request(given))
    waiting: list[Any] = []
    reply: Any = None
    try:
        while True:
            effect = kernel.send(reply)
            reply = None
            if effect in (effects.NOW, effects.TIMER):
                reply = 1_000_000.0
            elif isinstance(effect, effects.Open):
                reply = saver.open(effect.thread_id, claims=False)
            elif isinstance(effect, effects.Save):
                saver.commit(effect)
            elif isinstance(effect, effects.Start):
                waiting += effect.attempts
            elif isinstance(effect, effects.Next):
                attempt = waiting.pop()  # the last one first: the order must not matter
                reply = attempt, execute(attempt)
            yield effect, reply
    except StopIteration as stop:
        yield None, stop.value


def ending(saver: InMemorySaver, given: Any) -> End:
    *_, (_, end) = by_hand(saver, given)
    assert isinstance(end, End)
    return end


def test_the_same_run_twice_has_the_same_ids() -> None:
    savers = [InMemorySaver(), InMemorySaver()]
    one, other = (ending(saver, {"log": ["in"]}) for saver in savers)
    assert [question.id for question in one.interrupts] == [question.id for question in other.interrupts]
    assert len(one.interrupts) == 1
    assert one.checkpoint_id == other.checkpoint_id
    ids, same = ([saved.checkpoint.id for saved in saver.history("t")] for saver in savers)
    assert ids == same
    stored = [saver.load("t") for saver in savers]
    assert [[(p.task_id, p.kind, p.key, p.value) for p in found.pending] for found in stored if found] == [
        [(p.task_id, p.kind, p.key, p.value) for p in found.pending] for found in reversed(stored) if found
    ]


def test_the_claim_is_committed_before_anything_runs() -> None:
    seen = [effect for effect, _ in by_hand(InMemorySaver(), {"log": ["in"]})]
    first_start = next(i for i, effect in enumerate(seen) if isinstance(effect, effects.Start))
    saves = [i for i, effect in enumerate(seen) if isinstance(effect, effects.Save)]
    assert saves[0] < first_start
    assert seen[saves[0]].claims
    assert seen[saves[-1]].release
    assert not any(isinstance(effect, effects.Start) for effect in seen[saves[-1] :])


def test_writes_are_applied_in_task_order_whatever_finished_first() -> None:
    saver = InMemorySaver()
    assert ending(saver, {"log": ["in"]}).values == {"log": ["in", "first", "x", "z"]}
