"""The edges of a run: what a program does when a run goes on, and when it is about to end early."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from graphkit import Command, Send
from graphkit.constants import END
from graphkit.engine.program import Callee, Closing, Seen
from graphkit.errors import (
    AmbiguousResumeError,
    GraphRecursionError,
    InvalidUpdateError,
    NoPendingInterruptError,
    UnknownInterruptError,
)
from graphkit.runtime import RunControl
from graphkit.types import RetryPolicy, RunnableConfig
from graphkit_checkpoint.records import KEPT, OUTPUT
from tests.conftest import EMPTY, Reopen, Runner, Saver, graph_of, questions
from tests.engine.programs import ask, graph, here


class Edges:
    """An opening and a closing that write down what happens; `on_opening` and `on_closing` do more."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.on_opening: Callable[[Seen], Any] = lambda seen: None
        self.on_closing: Callable[[Seen], Any] = lambda seen: None

    def opening(self, seen: Seen) -> Any:
        self.events.append(("opening", seen.arg))
        return self.on_opening(seen)

    def closing(self, seen: Seen) -> Any:
        why: Closing = seen.arg
        error = None if why.error is None else type(why.error).__name__
        self.events.append(("closing", tuple(question.value for question in why.questions), error, why.nodes))
        return self.on_closing(seen)

    def node(self, name: str, *, asks: bool = False, fails: Callable[[], bool] = lambda: False) -> Any:
        def function(view: Any) -> Any:
            self.events.append(name)
            if fails():
                raise ValueError(f"{name} failed")
            return {"log": [(name, ask(f"{name}?")) if asks else name]}

        return function

    def took(self) -> list[Any]:
        taken, self.events = self.events, []
        return taken


def asks_why(seen: Seen) -> Any:
    return {"last": ask("why?")}


@pytest.fixture
def edges() -> Edges:
    return Edges()


@pytest.fixture
def make(runner: Runner, saver: Saver, reopen: Reopen, edges: Edges) -> Callable[..., Any]:
    """A graph on the thread's storage, as another process opens it."""

    def make(nodes: Any, **more: Any) -> Any:
        attending = {"opening": edges.opening, "closing": edges.closing, **more}
        return graph(runner, reopen(saver), nodes, **attending)

    return make


def test_a_run_is_opened_when_it_goes_on_and_closed_when_it_halts(
    runner: Runner, edges: Edges, make: Any, config: RunnableConfig
) -> None:
    nodes = {
        "one": edges.node("one", asks=True),
        "two": edges.node("two", asks=True),
        "three": edges.node("three"),
        "last": edges.node("last"),
    }
    shape: Any = {"first": ["one", "two", "three"], "after": {name: ["last"] for name in ("one", "two")}}
    asked = runner.invoke(make(nodes, **shape), EMPTY, config)
    assert sorted(map(str, edges.took())) == sorted(
        map(str, ["one", "two", "three", ("closing", ("one?", "two?"), None, ("one", "two"))])
    )
    one, two = (questions(asked)[value].id for value in ("one?", "two?"))
    runner.invoke(make(nodes, **shape), Command(resume={one: 1}), config)
    assert edges.took() == [
        ("opening", ("one", "two")),
        "one",
        ("closing", ("two?",), None, ("two",)),
    ]
    result = runner.invoke(make(nodes, **shape), Command(resume={two: 2}), config)
    assert edges.took() == [("opening", ("two",)), "two", "last"]
    assert result["log"] == [("one", 1), "three", ("two", 2), "last"]


def test_a_run_that_halts_nowhere_is_not_attended(
    runner: Runner, edges: Edges, make: Any, config: RunnableConfig
) -> None:
    nodes = {"one": edges.node("one"), "two": edges.node("two")}
    built = make(nodes, first=["one"], after={"one": ["two"]})
    runner.invoke(built, EMPTY, config)
    runner.invoke(built, EMPTY, config)
    runner.invoke(built, EMPTY, config, interrupt_before=["two"])
    assert edges.took() == ["one", "two", "one", "two", "one"]
    runner.invoke(built, None, config)  # on with what a breakpoint has left
    assert edges.took() == [("opening", ("two",)), "two"]
    with pytest.raises(NoPendingInterruptError):
        runner.invoke(built, Command(resume=1), config)
    assert runner.invoke(built, None, config)["log"]
    assert edges.took() == []


def test_a_run_that_finds_nothing_to_do_is_not_attended(
    runner: Runner, edges: Edges, make: Any, config: RunnableConfig
) -> None:
    nodes = {"one": edges.node("one", asks=True)}
    runner.invoke(make(nodes), EMPTY, config)
    edges.took()
    assert "one?" in questions(runner.invoke(make(nodes), None, config))
    assert edges.took() == []


def test_a_program_is_attended_as_it_says(
    runner: Runner, edges: Edges, make: Any, saver: Saver, config: RunnableConfig
) -> None:
    nodes = {"one": edges.node("one", asks=True)}
    for attended in (frozenset(), frozenset({"opening"}), frozenset({"closing"})):
        built = make(nodes)
        built.program.attended = attended
        runner.invoke(built, EMPTY, config)
        runner.invoke(built, Command(resume=1), config)
        kinds = [event[0] for event in edges.took() if isinstance(event, tuple)]
        assert kinds == sorted(attended)


def test_an_error_is_raised_after_the_closing(
    runner: Runner, edges: Edges, make: Any, config: RunnableConfig
) -> None:
    broken = [True]
    nodes = {
        "asks": edges.node("asks", asks=True),
        "fails": edges.node("fails", fails=lambda: bool(broken)),
    }
    with pytest.raises(ValueError, match="fails failed") as raised:
        runner.invoke(make(nodes), EMPTY, config)
    assert any("in node 'fails'" in note for note in raised.value.__notes__)
    assert edges.took()[-1] == ("closing", ("asks?",), "ValueError", ("asks", "fails"))
    state = runner.get_state(make(nodes), config)
    assert state.next == ("asks", "fails")
    assert [task.error is not None for task in state.tasks] == [False, True]
    broken.clear()
    asked = runner.invoke(make(nodes), None, config)
    assert edges.took() == [
        ("opening", ("asks", "fails")),
        "fails",
        ("closing", ("asks?",), None, ("asks",)),
    ]
    assert "asks?" in questions(asked)


def test_what_tasks_came_to_is_recorded_before_the_closing(
    runner: Runner, saver: Saver, edges: Edges, make: Any, reopen: Reopen, config: RunnableConfig
) -> None:
    seen: list[Any] = []

    def look(given: Seen) -> None:
        found = reopen(saver).load("t")
        seen.append(sorted(record.kind for record in found.pending))

    edges.on_closing = look
    nodes = {"asks": edges.node("asks", asks=True), "says": edges.node("says")}
    runner.invoke(make(nodes), EMPTY, config)
    broken = {"asks": edges.node("asks", asks=True), "fails": edges.node("f", fails=lambda: True)}
    with pytest.raises(ValueError, match="f failed"):
        runner.invoke(make(broken), EMPTY, config)
    assert seen == [["output", "question"], ["error", "question"]]


# What they write


def test_both_see_the_state_and_write_to_it(
    runner: Runner, edges: Edges, make: Any, config: RunnableConfig
) -> None:
    edges.on_opening = lambda seen: {"log": [f"opening saw {len(seen.view['log'])}"]}
    edges.on_closing = lambda seen: {"log": [f"closing saw {len(seen.view['log'])}"]}
    seen: list[Any] = []

    def node(view: Any) -> Any:
        seen.append(list(view["log"]))
        return {"log": [ask("first?", "first"), ask("second?", "second")]}

    runner.invoke(make({"node": node}), {"log": ["in"]}, config)
    runner.invoke(make({"node": node}), Command(resume="a"), config)
    before = runner.get_state(make({"node": node}), config)
    expected = ["in", "closing saw 1", "opening saw 2", "closing saw 3"]
    assert before.values["log"] == expected
    result = runner.invoke(make({"node": node}), Command(resume="b"), config)
    assert result["log"] == [*expected, "opening saw 4", "a", "b"]
    assert seen == [["in"], ["in", "closing saw 1", "opening saw 2"], [*expected, "opening saw 4"]]
    assert runner.get_state(make({"node": node}), config).values == result


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_every_durability_has_edges(
    durability: Any, runner: Runner, edges: Edges, make: Any, config: RunnableConfig
) -> None:
    edges.on_opening = lambda seen: {"log": ["opening"]}
    edges.on_closing = lambda seen: {"log": ["closing"]}
    nodes = {"before": edges.node("before"), "one": edges.node("one", asks=True), "two": edges.node("two")}
    shape: Any = {"first": ["before"], "after": {"before": ["one", "two"]}}
    runner.invoke(make(nodes, **shape), EMPTY, config, durability=durability)
    runner.invoke(make(nodes, **shape), None, config, durability=durability)
    assert runner.get_state(make(nodes, **shape), config).values["log"] == ["before", "closing", "two"]
    result = runner.invoke(make(nodes, **shape), Command(resume=1), config, durability=durability)
    assert result["log"] == ["before", "closing", "opening", ("one", 1), "two"]
    assert [event for event in edges.took() if event == "two"] == ["two"]
    assert runner.get_state(make(nodes, **shape), config).values == result


def test_edges_keep_and_amend_like_any_task(
    runner: Runner, edges: Edges, make: Any, saver: Saver, config: RunnableConfig
) -> None:
    def opening(seen: Seen) -> Any:
        here().amend("notes", {"opened": len(here().kept)})
        here().keep("heard", ["first"])
        return {"log": [(dict(here().kept), ask("open?"))]}

    edges.on_opening = opening
    nodes = {"one": edges.node("one", asks=True)}
    runner.invoke(make(nodes), EMPTY, config)
    asked = runner.invoke(make(nodes), Command(resume=1), config)
    assert asked["notes"] == {"opened": 0}
    result = runner.invoke(make(nodes), Command(resume="yes"), config)
    assert result["log"] == [({"heard": ["first"]}, "yes"), ("one", 1)]
    assert result["notes"] == {"opened": 1}
    assert not any(record.kind == KEPT for saved in saver.history("t") for record in saved.pending)


# Questions of theirs


def test_before_an_opening_has_its_answer_no_task_runs(
    runner: Runner, edges: Edges, make: Any, config: RunnableConfig
) -> None:
    edges.on_opening = lambda seen: {"log": [("opening", ask("open?"))]}
    nodes = {"one": edges.node("one", asks=True), "two": edges.node("two", asks=True)}
    asked = questions(runner.invoke(make(nodes), EMPTY, config))
    edges.took()
    halted = questions(runner.invoke(make(nodes), Command(resume={asked["one?"].id: 1}), config))
    assert set(halted) == {"two?", "open?"}
    both = ("one", "two")
    assert edges.took() == [("opening", both), ("closing", ("two?", "open?"), None, both)]
    # Another answer does not get past the opening, and a look changes nothing.
    assert set(questions(runner.invoke(make(nodes), None, config))) == {"two?", "open?"}
    assert edges.took() == []
    halted = questions(runner.invoke(make(nodes), Command(resume={halted["two?"].id: 2}), config))
    assert set(halted) == {"open?"}
    assert edges.took() == [("closing", ("open?",), None, both)]
    state = runner.get_state(make(nodes), config)
    assert [question.value for question in state.interrupts] == ["open?"]
    assert state.next == ("one", "two", "opening")
    result = runner.invoke(make(nodes), Command(resume="yes"), config)
    assert sorted(map(str, edges.took())) == sorted(map(str, [("opening", both), "one", "two"]))
    assert result["log"] == [("opening", "yes"), ("one", 1), ("two", 2)]


def test_every_request_has_an_opening_of_its_own(
    runner: Runner, edges: Edges, make: Any, config: RunnableConfig
) -> None:
    edges.on_opening = lambda seen: {"log": [("opening", ask("open?", "open"))]}
    nodes = {"node": lambda view: {"log": [ask("first?", "first"), ask("second?", "second")]}}
    runner.invoke(make(nodes), EMPTY, config)
    ids = []
    for answer in ("a", "b"):
        asked = questions(runner.invoke(make(nodes), Command(resume=answer), config))
        assert set(asked) == {"open?"}
        ids.append(asked["open?"].id)
        result = runner.invoke(make(nodes), Command(resume=f"open for {answer}"), config)
    assert len(set(ids)) == 2
    assert result["log"] == [("opening", "open for a"), ("opening", "open for b"), "a", "b"]


def test_a_superstep_waits_for_the_question_of_a_closing(
    runner: Runner, edges: Edges, make: Any, config: RunnableConfig
) -> None:
    edges.on_closing = lambda seen: {"log": [("closing", ask("why?"))]}
    nodes = {"one": edges.node("one", asks=True), "last": edges.node("last")}
    shape: Any = {"first": ["one"], "after": {"one": ["last"]}}
    asked = questions(runner.invoke(make(nodes, **shape), EMPTY, config))
    assert list(asked) == ["one?", "why?"]
    assert edges.took() == ["one", ("closing", ("one?",), None, ("one",))]
    waiting = questions(runner.invoke(make(nodes, **shape), Command(resume={asked["one?"].id: 1}), config))
    assert list(waiting) == ["why?"] and waiting["why?"].id == asked["why?"].id
    assert edges.took() == [("opening", ("one",)), "one"]  # one closing at a time
    state = runner.get_state(make(nodes, **shape), config)
    assert state.next == ("closing",) and state.values["log"] == [("one", 1)]
    result = runner.invoke(make(nodes, **shape), Command(resume="because"), config)
    assert edges.took() == [("closing", ("one?",), None, ("one",)), ("opening", ()), "last"]
    assert result["log"] == [("closing", "because"), ("one", 1), "last"]


def test_what_a_closing_writes_when_it_has_its_answer_is_applied_once(
    runner: Runner, edges: Edges, make: Any, config: RunnableConfig
) -> None:
    edges.on_closing = lambda seen: {"log": [("closing", ask("why?"))]}
    nodes = {"one": edges.node("one", asks=True)}
    asked = questions(runner.invoke(make(nodes), EMPTY, config))
    halted = runner.invoke(make(nodes), Command(resume={asked["why?"].id: "because"}), config)
    assert halted["log"] == [("closing", "because")]
    assert set(questions(halted)) == {"one?", "why?"}  # that of this run's closing
    assert runner.get_state(make(nodes), config).values["log"] == [("closing", "because")]


def test_questions_of_edges_come_after_those_of_tasks_openings_first(
    runner: Runner, edges: Edges, make: Any, config: RunnableConfig
) -> None:
    edges.on_opening = lambda seen: {"last": ask("open?")}
    edges.on_closing = asks_why
    nodes = {"one": edges.node("one", asks=True), "two": edges.node("two", asks=True)}
    asked = questions(runner.invoke(make(nodes), EMPTY, config))
    answers: Any = Command(resume={asked["one?"].id: 1, asked["why?"].id: 2})
    halted = runner.invoke(make(nodes), answers, config)
    assert list(questions(halted)) == ["two?", "open?", "why?"]
    state = runner.get_state(make(nodes), config)
    assert [question.value for question in state.interrupts] == ["two?", "open?", "why?"]


def test_a_closing_that_was_answered_is_told_again_why(
    runner: Runner, edges: Edges, make: Any, config: RunnableConfig
) -> None:
    reasons: list[Closing] = []

    def closing(seen: Seen) -> Any:
        reasons.append(seen.arg)
        ask("why?")

    edges.on_closing = closing
    nodes = {"asks": edges.node("asks", asks=True), "fails": edges.node("fails", fails=lambda: True)}
    with pytest.raises(ValueError, match="fails failed"):
        runner.invoke(make(nodes), EMPTY, config)
    state = runner.get_state(make(nodes), config)
    asks, why = state.interrupts
    assert (asks.value, why.value) == ("asks?", "why?")
    with pytest.raises(ValueError, match="fails failed"):
        runner.invoke(make(nodes), Command(resume={asks.id: "A", why.id: "B"}), config)
    first, again, *_ = reasons
    assert [question.value for question in again.questions] == ["asks?"]
    assert again.questions[0].response == "A"
    assert again.nodes == first.nodes == ("asks", "fails")
    assert "fails failed" in str(again.error)


def test_new_input_forks_and_edits_leave_questions_of_edges_behind(
    runner: Runner, edges: Edges, make: Any, config: RunnableConfig
) -> None:
    edges.on_closing = asks_why
    nodes = {"one": edges.node("one", asks=True)}
    for leave in ("input", "fork", "edit"):
        halted = runner.run(make(nodes), EMPTY, config)
        assert [question.value for question in halted.interrupts] == ["one?", "why?"]
        old = halted.interrupts[1].id
        if leave == "input":
            first = halted
            other = runner.run(make(nodes), EMPTY, config)
        elif leave == "fork":
            other = runner.run(make(nodes), None, first.config)
        else:
            runner.update_state(make(nodes), config, {"log": ["edited"]}, "one")
            assert runner.get_state(make(nodes), config).next == ()
            continue
        assert [question.value for question in other.interrupts] == ["one?", "why?"]
        assert other.interrupts[1].id != old
        with pytest.raises(UnknownInterruptError):
            runner.run(make(nodes), Command(resume={"0" * 32: 1}), config)


def test_history_shows_what_edges_have_asked(
    runner: Runner, edges: Edges, make: Any, config: RunnableConfig
) -> None:
    edges.on_closing = asks_why
    nodes = {"one": edges.node("one", asks=True)}
    asked = questions(runner.invoke(make(nodes), EMPTY, config))
    runner.invoke(make(nodes), Command(resume={q.id: q.value.upper() for q in asked.values()}), config)
    past = [snapshot for snapshot in runner.history(make(nodes), config) if snapshot.interrupts]
    assert len(past) == 1
    assert [(task.name, task.path[0]) for task in past[0].tasks] == [("one", "pull"), ("closing", "closing")]
    assert [question.response for question in past[0].interrupts] == ["ONE?", "WHY?"]
    assert runner.get_state(make(nodes), config).next == ()


# Answers of a closing


def test_a_closing_may_answer_and_the_run_goes_on(
    runner: Runner, edges: Edges, make: Any, config: RunnableConfig
) -> None:
    edges.on_closing = lambda seen: Command(
        resume={question.id: question.value.upper() for question in seen.arg.questions}
    )
    nodes = {
        "one": edges.node("one", asks=True),
        "two": edges.node("two", asks=True),
        "last": edges.node("last"),
    }
    shape: Any = {"first": ["one", "two"], "after": {"one": ["last"]}}
    result = runner.invoke(make(nodes, **shape), EMPTY, config)
    assert result["log"] == [("one", "ONE?"), ("two", "TWO?"), "last"]
    events = edges.took()
    both = ("one", "two")
    assert [event for event in events if isinstance(event, tuple)] == [
        ("closing", ("one?", "two?"), None, both),
        ("opening", both),
    ]
    assert runner.get_state(make(nodes, **shape), config).values == result
    past = [snapshot for snapshot in runner.history(make(nodes, **shape), config) if snapshot.interrupts]
    assert [question.response for question in past[0].interrupts] == ["ONE?", "TWO?"]


def test_a_closing_may_answer_again_and_again(
    runner: Runner, edges: Edges, make: Any, config: RunnableConfig
) -> None:
    edges.on_closing = lambda seen: Command(resume=seen.arg.questions[0].value.upper())
    nodes = {"node": lambda view: {"log": [ask(name, name) for name in "abc"]}}
    assert runner.invoke(make(nodes), EMPTY, config)["log"] == ["A", "B", "C"]
    assert [event[0] for event in edges.took()] == ["closing", "opening"] * 3


def test_a_closing_that_always_answers_comes_to_the_recursion_limit(
    runner: Runner, edges: Edges, make: Any, config: RunnableConfig
) -> None:
    edges.on_closing = lambda seen: Command(resume="again")

    def endless(view: Any) -> Any:
        number = 0
        while True:
            ask(number, str(number))
            number += 1

    with pytest.raises(GraphRecursionError):
        runner.invoke(make({"node": endless}), EMPTY, {**config, "recursion_limit": 5})
    *answered, last = edges.took()
    assert (len(answered), last) == (10, ("closing", (), "GraphRecursionError", ("node",)))


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_run_that_comes_to_its_recursion_limit_is_closed(
    runner: Runner, edges: Edges, make: Any, config: RunnableConfig, durability: Any
) -> None:
    edges.on_closing = lambda seen: {"last": type(seen.arg.error).__name__}
    nodes = {"one": edges.node("one"), "two": edges.node("two")}
    shape: Any = {"first": ["one"], "after": {"one": ["two"], "two": ["one"]}}
    limited: RunnableConfig = {**config, "recursion_limit": 3}
    with pytest.raises(GraphRecursionError):
        runner.invoke(make(nodes, **shape), EMPTY, limited, durability=durability)
    assert edges.took() == ["one", "two", "one", ("closing", (), "GraphRecursionError", ("two",))]
    state = runner.get_state(make(nodes, **shape), config)
    assert (state.next, state.values["last"]) == (("two",), "GraphRecursionError")
    runner.update_state(make(nodes, **shape), config, {"last": "free"}, "one")  # the thread was given back
    with pytest.raises(GraphRecursionError):
        runner.invoke(make(nodes, **shape), None, limited, durability=durability)
    assert edges.took() == [
        ("opening", ("two",)),
        *("two", "one", "two"),
        ("closing", (), "GraphRecursionError", ("one",)),
    ]


def test_a_wrong_answer_of_a_closing_is_an_error_and_leaves_the_questions_open(
    runner: Runner, edges: Edges, make: Any, config: RunnableConfig
) -> None:
    nodes = {"one": edges.node("one", asks=True), "two": edges.node("two", asks=True)}
    for answer, error in (("plain", AmbiguousResumeError), ({"0" * 32: 1}, UnknownInterruptError)):
        edges.on_closing = lambda seen, answer=answer: Command(resume=answer)  # type: ignore[misc]
        with pytest.raises(error):
            runner.invoke(make(nodes), EMPTY, config)
        state = runner.get_state(make(nodes), config)
        assert [question.value for question in state.interrupts] == ["one?", "two?"]
    edges.on_closing = lambda seen: None
    done: Command[Any] = Command(resume={question.id: 1 for question in state.interrupts})
    assert runner.invoke(make(nodes), done, config)["log"] == [("one", 1), ("two", 1)]


def test_where_an_error_is_raised_a_closing_answers_nothing(
    runner: Runner, edges: Edges, make: Any, config: RunnableConfig
) -> None:
    edges.on_closing = lambda seen: Command(resume="yes")
    nodes = {"asks": edges.node("asks", asks=True), "fails": edges.node("fails", fails=lambda: True)}
    with pytest.raises(ValueError, match="fails failed"):
        runner.invoke(make(nodes), EMPTY, config)
    assert [question.value for question in runner.get_state(make(nodes), config).interrupts] == ["asks?"]


def test_an_answer_is_taken_by_a_closing_that_waited_itself(
    runner: Runner, edges: Edges, make: Any, config: RunnableConfig
) -> None:
    edges.on_closing = lambda seen: Command(resume={seen.arg.questions[0].id: ask("what shall I say?")})
    nodes = {"one": edges.node("one", asks=True)}
    asked = questions(runner.invoke(make(nodes), EMPTY, config))
    shall = asked["what shall I say?"]
    assert runner.invoke(make(nodes), Command(resume={shall.id: "this"}), config)["log"] == [("one", "this")]


# Openings that stop a run


def test_an_opening_that_goes_to_the_end_lets_nothing_run(
    runner: Runner, edges: Edges, make: Any, config: RunnableConfig
) -> None:
    edges.on_opening = lambda seen: Command(update={"last": "denied"}, goto=END)
    nodes = {"one": edges.node("one", asks=True), "two": edges.node("two", asks=True)}
    asked = questions(runner.invoke(make(nodes), EMPTY, config))
    edges.took()
    result = runner.run(make(nodes), Command(resume={asked["one?"].id: 1}), config)
    assert edges.took() == [("opening", ("one", "two"))]
    assert result.status == "interrupted"
    assert [question.value for question in result.interrupts] == ["two?"]
    assert result.value["last"] == "denied"
    result = runner.run(make(nodes), Command(resume=2), config)
    assert (result.status, result.next) == ("paused", ("one", "two"))
    edges.on_opening = lambda seen: None
    assert runner.invoke(make(nodes), None, config)["log"] == [("one", 1), ("two", 2)]


def test_an_opening_may_stop_a_run_that_only_had_to_apply_what_has_finished(
    runner: Runner, edges: Edges, make: Any, config: RunnableConfig
) -> None:
    edges.on_closing = asks_why
    nodes = {"one": edges.node("one", asks=True), "last": edges.node("last")}
    shape: Any = {"first": ["one"], "after": {"one": ["last"]}}
    asked = questions(runner.invoke(make(nodes, **shape), EMPTY, config))
    runner.invoke(make(nodes, **shape), Command(resume={asked["one?"].id: 1}), config)
    edges.on_opening = lambda seen: Command(goto=END)
    result = runner.run(make(nodes, **shape), Command(resume="because"), config)
    state = runner.get_state(make(nodes, **shape), config)
    assert (result.status, result.next) == ("paused", ("one", "closing")) == ("paused", state.next)
    edges.on_opening = lambda seen: None
    assert runner.invoke(make(nodes, **shape), None, config)["log"] == [("one", 1), "last"]


# Errors of theirs


def test_an_error_of_an_opening_is_raised_after_a_closing_and_leaves_all_as_it_was(
    runner: Runner, edges: Edges, make: Any, config: RunnableConfig
) -> None:
    def opening(seen: Seen) -> Any:
        here().amend("notes", {"tried": True})
        here().keep("k", 1)
        assert "k" not in dict(here().kept) or here().kept == {"k": 1}
        raise ValueError("closed")

    edges.on_opening = opening
    nodes = {"one": edges.node("one", asks=True)}
    runner.invoke(make(nodes), EMPTY, config)
    edges.took()
    with pytest.raises(ValueError, match="closed"):
        runner.invoke(make(nodes), Command(resume=1), config)
    assert edges.took() == [("opening", ("one",)), ("closing", (), "ValueError", ("one",))]
    state = runner.get_state(make(nodes), config)
    assert state.next == ("one",) and state.values["notes"] == {"tried": True}
    edges.on_opening = lambda seen: {"log": [dict(here().kept)]}
    assert runner.invoke(make(nodes), None, config)["log"] == [{}, ("one", 1)]


def test_an_error_of_a_closing_is_raised(
    runner: Runner, edges: Edges, make: Any, config: RunnableConfig
) -> None:
    def closing(seen: Seen) -> Any:
        raise KeyError("closing")

    edges.on_closing = closing
    nodes = {"one": edges.node("one", asks=True), "two": edges.node("two")}
    with pytest.raises(KeyError):
        runner.invoke(make(nodes), EMPTY, config)
    state = runner.get_state(make(nodes), config)
    assert [question.value for question in state.interrupts] == ["one?"]
    edges.took()
    assert runner.invoke(make(nodes), Command(resume=1), config)["log"] == [("one", 1), "two"]
    assert edges.took() == [("opening", ("one",)), "one"]
    failing = {"fails": edges.node("fails", fails=lambda: True)}
    with pytest.raises(KeyError) as raised:
        runner.invoke(make(failing), EMPTY, config)
    assert isinstance(raised.value.__cause__, ValueError)
    assert runner.get_state(make(failing), config).next == ("fails",)


def test_an_edge_may_have_a_retry_policy(
    runner: Runner, edges: Edges, make: Any, config: RunnableConfig
) -> None:
    tries: list[int] = []

    def closing(seen: Seen) -> Any:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError

    edges.on_closing = closing
    built = make({"one": edges.node("one", asks=True)})
    built.program.closing.retry = (RetryPolicy(initial_interval=0.001, jitter=False),)
    assert "one?" in questions(runner.invoke(built, EMPTY, config))
    assert len(tries) == 3


def test_an_edge_cannot_command_the_graph_around(
    runner: Runner, edges: Edges, make: Any, config: RunnableConfig
) -> None:
    edges.on_closing = lambda seen: Command(graph=Command.PARENT, update={"log": [1]})
    with pytest.raises(InvalidUpdateError, match="closing"):
        runner.invoke(make({"one": edges.node("one", asks=True)}), EMPTY, config)
    assert runner.get_state(make({"one": edges.node("one", asks=True)}), config).interrupts


# What is shown


def test_streams_show_edges_as_tasks(runner: Runner, edges: Edges, make: Any, config: RunnableConfig) -> None:
    edges.on_opening = lambda seen: {"last": "opened"}

    def closing(seen: Seen) -> Any:
        here().emit("closing")
        return {"last": "closed"}

    edges.on_closing = closing
    nodes = {"one": edges.node("one", asks=True)}
    modes = ["updates", "tasks", "custom"]
    shown = runner.stream(make(nodes), EMPTY, config, stream_mode=modes)
    assert [part for mode, part in shown if mode == "custom"] == ["closing"]
    updates = [part for mode, part in shown if mode == "updates"]
    assert updates[0] == {"closing": {"last": "closed"}}
    assert [question.value for question in updates[1]["__interrupt__"]] == ["one?"]
    tasks = [part for mode, part in shown if mode == "tasks" and part["name"] == "closing"]
    assert tasks[0]["input"].nodes == ("one",)
    assert tasks[1]["result"] == {"last": "closed"}
    shown = runner.stream(make(nodes), Command(resume=1), config, stream_mode="updates")
    assert shown == [{"opening": {"last": "opened"}}, {"one": {"log": [("one", 1)]}}]


def test_without_a_saver_a_run_is_closed_too(runner: Runner, edges: Edges) -> None:
    def answer(seen: Seen) -> Any:
        return Command(resume="yes") if seen.arg.questions[0].value == "one?" else None

    edges.on_closing = answer
    nodes = {"one": edges.node("one", asks=True)}
    built = graph(runner, None, nodes, opening=edges.opening, closing=edges.closing)
    assert runner.run(built, EMPTY).value["log"] == [("one", "yes")]
    assert edges.took() == ["one", ("closing", ("one?",), None, ("one",)), ("opening", ("one",)), "one"]


def test_an_edge_needs_a_name_of_its_own_and_to_be_there(runner: Runner) -> None:
    with pytest.raises(ValueError, match="attended"):
        graph(runner, None, {"one": lambda view: None}, attended=frozenset({"closing"}))
    with pytest.raises(ValueError, match="name of its own"):
        graph(runner, None, {"closing": lambda view: None}, closing=lambda seen: None)


# Where a run rests for another reason


def test_a_drained_run_is_closed_only_if_it_waits_for_answers(
    runner: Runner, edges: Edges, make: Any, config: RunnableConfig
) -> None:
    def drains(view: Any) -> Any:
        edges.events.append("drains")
        control.request_drain("stop")

    nodes = {"drains": drains, "one": edges.node("one", asks=True), "last": edges.node("last")}
    control = RunControl()
    alone = make(nodes, first=["drains"], after={"drains": ["last"]})
    assert runner.run(alone, EMPTY, config, control=control).status == "drained"
    assert edges.took() == ["drains"]
    control = RunControl()
    control.request_drain("before it goes on")
    assert runner.run(alone, None, config, control=control).status == "drained"
    assert edges.took() == []
    assert runner.run(alone, None, config).status == "completed"
    assert edges.took() == [("opening", ("last",)), "last"]
    control = RunControl()
    beside = make(nodes, first=["drains", "one"], after={"drains": ["last"]})
    assert runner.run(beside, EMPTY, config, control=control).status == "interrupted"
    assert edges.took()[-1] == ("closing", ("one?",), None, ("one",))


def test_a_run_that_is_closed_and_goes_on_still_drains(
    runner: Runner, edges: Edges, make: Any, config: RunnableConfig
) -> None:
    def drains(view: Any) -> Any:
        control.request_drain("stop")

    control = RunControl()
    edges.on_closing = lambda seen: Command(resume="yes")
    nodes = {"drains": drains, "one": edges.node("one", asks=True), "last": edges.node("last")}
    built = make(nodes, first=["drains", "one"], after={"one": ["last"]})
    result = runner.run(built, EMPTY, config, control=control)
    assert (result.status, result.next) == ("drained", ("last",))
    assert runner.run(built, None, config).value["log"] == [("one", "yes"), "last"]


def test_a_breakpoint_inside_a_task_closes_nothing(
    runner: Runner, saver: Saver, edges: Edges, config: RunnableConfig
) -> None:
    inner = graph_of({"deep": lambda state: {"log": ["deep"]}}, interrupt_before=["deep"])

    def calls(view: Any) -> Any:
        return {"log": inner.invoke(EMPTY)["log"]}

    async def acalls(view: Any) -> Any:
        return {"log": (await inner.ainvoke(EMPTY))["log"]}

    built = graph(runner, saver, {"calls": calls}, opening=edges.opening, closing=edges.closing)
    if runner.colour == "async":
        built.program.nodes["calls"].callee = Callee("calls", None, acalls)
    assert runner.run(built, EMPTY, config).status == "paused"
    assert edges.took() == []
    assert runner.run(built, None, config).value["log"] == ["deep"]
    assert edges.took() == [("opening", ("calls",))]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_what_edges_wrote_is_applied_once(
    durability: Any, runner: Runner, edges: Edges, make: Any, config: RunnableConfig
) -> None:
    edges.on_opening = lambda seen: {"log": ["opening"]}
    nodes = {"one": edges.node("one", asks=True), "two": edges.node("two", asks=True)}
    shape: Any = {"first": ["one"], "after": {"one": ["two"]}}
    runner.invoke(make(nodes, **shape), EMPTY, config, durability=durability)
    halted = runner.invoke(make(nodes, **shape), Command(resume=1), config, durability=durability)
    assert halted["log"] == ["opening", ("one", 1)]
    assert runner.get_state(make(nodes, **shape), config).values["log"] == halted["log"]


def test_what_was_kept_is_forgotten_by_a_run_that_goes_on(
    runner: Runner, saver: Saver, edges: Edges, make: Any, config: RunnableConfig
) -> None:
    def node(view: Any) -> Any:
        known = dict(here().kept)
        here().keep("k", 1)
        return {"log": [known, ask("one?")]}

    edges.on_closing = lambda seen: Command(resume="yes")
    assert runner.invoke(make({"node": node}), EMPTY, config)["log"] == [{"k": 1}, "yes"]
    assert not any(record.kind == KEPT for saved in saver.history("t") for record in saved.pending)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_every_durability_lets_a_closing_answer_and_ask(
    durability: Any, runner: Runner, edges: Edges, make: Any, config: RunnableConfig
) -> None:
    def closing(seen: Seen) -> Any:
        (question,) = seen.arg.questions
        if question.value == "a":
            return Command(update={"last": "a"}, resume="A")
        return Command(resume={question.id: ask("what?", "what")})

    edges.on_closing = closing
    nodes = {"node": lambda view: {"log": [ask(name, name) for name in "abc"]}}
    for answers in (("B", "C"), ("b", "c")):
        asked = questions(runner.invoke(make(nodes), EMPTY, config, durability=durability))
        for answer in answers:
            assert len(asked) == 2
            given: Any = Command(resume={asked["what?"].id: answer})
            result = runner.invoke(make(nodes), given, config, durability=durability)
            asked = questions(result) if "__interrupt__" in result else {}
        assert result["log"][-3:] == ["A", *answers]
        assert runner.get_state(make(nodes), config).values == result


# Inside another graph


def test_a_graph_inside_another_has_edges_of_its_own(
    runner: Runner, saver: Saver, reopen: Reopen, edges: Edges, config: RunnableConfig
) -> None:
    nodes = {"one": edges.node("one", asks=True)}
    edges.on_opening = lambda seen: {"log": ["opened"]}
    edges.on_closing = lambda seen: {"log": [("closed", ask("why?"))]}

    def outer(saver: Saver) -> Any:
        inner = graph(runner, None, nodes, opening=edges.opening, closing=edges.closing)
        from graphkit import START, StateGraph
        from tests.conftest import State

        builder = StateGraph(State)
        builder.add_node("sub", inner)
        builder.add_edge(START, "sub")
        return builder.compile(checkpointer=saver)

    asked = questions(runner.invoke(outer(saver), EMPTY, config))
    assert list(asked) == ["one?", "why?"]
    waiting = questions(runner.invoke(outer(reopen(saver)), Command(resume={asked["one?"].id: 1}), config))
    assert list(waiting) == ["why?"]
    result = runner.invoke(outer(reopen(saver)), Command(resume="because"), config)
    assert result["log"] == ["opened", ("closed", "because"), "opened", ("one", 1)]


def test_tasks_in_order_wait_for_what_an_edge_asks(
    runner: Runner, edges: Edges, make: Any, saver: Saver, config: RunnableConfig
) -> None:
    edges.on_closing = asks_why
    ran: list[int] = []

    def each(index: int) -> Any:
        ran.append(index)
        return {"log": [(index, ask(f"{index}?")) if index == 1 else index]}

    nodes = {"spread": lambda view: Command(goto=[Send("each", index) for index in range(3)]), "each": each}
    shape: Any = {"first": ["spread"], "options": {"each": {"in_order": True}}}
    asked = questions(runner.invoke(make(nodes, **shape), EMPTY, config))
    runner.invoke(make(nodes, **shape), Command(resume={asked["1?"].id: "a"}), config)
    assert ran == [0, 1, 1, 2]
    assert sum(record.kind == OUTPUT for record in saver.load("t").pending) == 3
    result = runner.invoke(make(nodes, **shape), Command(resume="because"), config)
    assert result["log"] == [0, (1, "a"), 2]
    assert ran == [0, 1, 1, 2]
