"""What the kernel makes of what comes from attempts while they run, driven by hand with a clock of its own."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any, TypedDict

import pytest

from graphkit import START, StateGraph
from graphkit.engine import effects
from graphkit.engine.attempt import Attempt, Called, Done, Scope
from graphkit.engine.events import BEAT, Custom, News
from graphkit.engine.loop import run
from graphkit.engine.program import Callee, NodeSpec, Shape
from graphkit.engine.request import End, Request
from graphkit.errors import NodeTimeoutError
from graphkit.types import TimeoutPolicy


class State(TypedDict, total=False):
    log: list[str]


Next = Callable[["Hand"], Any]
"""What comes when the kernel waits: (attempt, outcome or news), or None when its time is over."""


class Hand:
    """A driver whose clock and queue a test moves."""

    def __init__(self, next_one: Next, **options: Any) -> None:
        builder = StateGraph(State).add_node("node", lambda state: {}, **options).add_edge(START, "node")
        scope = Scope(config={}, listen=frozenset({"custom"}))
        request = Request(input={}, scope=scope, nonce="n", stored=False)
        self.kernel = run(builder.compile().program, request)
        self.next_one = next_one
        self.now = 0.0
        self.started: list[Attempt] = []
        self.shown: list[Any] = []

    def drive(self) -> End:
        reply: Any = None
        try:
            while True:
                effect = self.kernel.send(reply)
                reply = None
                if effect in (effects.NOW, effects.TIMER):
                    reply = self.now
                elif isinstance(effect, effects.Start):
                    self.started += effect.attempts
                elif isinstance(effect, effects.Next):
                    reply = self.next_one(self)
                elif isinstance(effect, effects.Emit):
                    self.shown.extend(effect.events)
        except StopIteration as stop:
            end: End = stop.value
            return end


@pytest.mark.parametrize("news", [BEAT, Custom(namespace="", value="more")], ids=["beats", "events"])
def test_news_that_never_cease_do_not_outlast_a_run_timeout(news: News) -> None:
    def for_ever(hand: Hand) -> Any:
        hand.now += 0.3
        assert hand.now < 2, "the run timeout of 1 s was never looked at"
        return hand.started[0], news

    hand = Hand(for_ever, timeout=TimeoutPolicy(run_timeout=1, idle_timeout=1))
    with pytest.raises(NodeTimeoutError) as caught:
        hand.drive()
    assert caught.value.kind == "run"
    assert caught.value.elapsed == pytest.approx(1.2)


def test_events_that_were_on_their_way_when_the_attempt_ended_are_dropped() -> None:
    def late(hand: Hand) -> Any:
        if len(hand.started) == 1:
            hand.now += 2
            return None
        replies.append("late")
        return hand.started[0] if len(replies) == 1 else hand.started[1], (
            Custom(namespace="", value="late") if len(replies) < 2 else Done([("log", ["handled"])], [])
        )

    replies: list[str] = []
    hand = Hand(late, timeout=1, error_handler=lambda state, error: {})
    assert hand.drive().values == {"log": ["handled"]}
    assert len(hand.started) == 2
    assert hand.shown == []


def test_what_a_running_attempt_shows_is_shown_at_once() -> None:
    def shows(hand: Hand) -> Any:
        if not hand.shown:
            return hand.started[0], event
        return hand.started[0], Done([], [])

    event = Custom(namespace="", value="soon")
    hand = Hand(shows)
    assert hand.drive().status == "completed"
    assert hand.shown == [event]


# Calls


class Caller:
    """Plays a node that calls one task: what comes at which time, in order. `None`: a time is over."""

    def __init__(self, *script: tuple[float, Callable[[Hand], Any]]) -> None:
        self.script = list(script)

    def __call__(self, hand: Hand) -> Any:
        moment, come = self.script.pop(0)
        hand.now = moment
        return come(hand)


class Reply:
    def settle(self, outcome: Any) -> None:
        """Nobody waits here."""


WORK = NodeSpec(name="work", callee=Callee("work", lambda: None, None), shape=Shape(None))


def calls(hand: Hand) -> Any:
    return hand.started[0], Called(
        node=WORK, arg=((), {}), mark="mark", ordered=True, reply=Reply(), context=contextvars.copy_context()
    )


def time_is_over(hand: Hand) -> Any:
    return None


def ends(number: int) -> Callable[[Hand], Any]:
    return lambda hand: (hand.started[number], Done([], []))


@pytest.mark.parametrize(
    "script",
    [
        [(0.9, calls), (1.8, time_is_over), (1.8, ends(1)), (1.8, ends(0))],
        [(0.6, calls), (1.5, ends(1)), (2.4, time_is_over), (2.4, ends(0))],
    ],
    ids=["a call", "its end"],
)
def test_calls_and_their_ends_are_progress_of_the_caller(script: Any) -> None:
    hand = Hand(Caller(*script), timeout=TimeoutPolicy(idle_timeout=1))
    assert hand.drive().status == "completed"


@pytest.mark.parametrize(
    "script",
    [
        [(0.9, calls), (2.0, time_is_over)],
        [(0.6, calls), (1.5, ends(1)), (2.6, time_is_over)],
    ],
    ids=["a call", "its end"],
)
def test_a_caller_that_does_nothing_more_is_idle(script: Any) -> None:
    with pytest.raises(NodeTimeoutError) as caught:
        Hand(Caller(*script), timeout=TimeoutPolicy(idle_timeout=1)).drive()
    assert caught.value.kind == "idle"
