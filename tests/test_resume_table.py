"""Resuming (SEMANTICS 3), row by row.

A refused resume is refused before any node runs and leaves the thread as it was: the right answer
still works.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from graphkit.errors import (
    AlreadyAnsweredError,
    AmbiguousResumeError,
    InvalidUpdateError,
    NoPendingInterruptError,
    UnknownInterruptError,
    UnserializableStateError,
)
from graphkit.graph import END, START
from graphkit.types import Command, Interrupt, RunnableConfig, StateSnapshot, interrupt
from tests.conftest import (
    EMPTY,
    SPELLINGS,
    Build,
    Edge,
    Graph,
    Reopen,
    Runner,
    Saver,
    Spelling,
    State,
    graph_of,
    in_a_row,
    questions,
    response,
    says,
)

STRANGER = "0123456789abcdef" * 2
"""Looks like a question's id and is none."""
Asked: TypeAlias = dict[Any, Interrupt]
Make: TypeAlias = Callable[[Asked], Any]
"""What is given to `invoke`, made from the questions that were asked."""


class Scene:
    """A graph on a thread; `ran` counts its nodes, `asked` holds the questions of its first run."""

    def __init__(self, runner: Runner, graph: Graph, config: RunnableConfig, ran: list[str]) -> None:
        self.runner, self.graph, self.config, self.ran = runner, graph, config, ran
        self.asked = questions(runner.invoke(graph, {"log": ["in"]}, config))
        self.at_question = self.state().config

    def invoke(self, given: Any, config: RunnableConfig | None = None) -> Any:
        return self.runner.invoke(self.graph, given, config or self.config)

    def state(self) -> StateSnapshot:
        return self.runner.get_state(self.graph, self.config)

    def refuses(
        self,
        given: Any,
        error: type[Exception] | tuple[type[Exception], ...],
        match: str | None = None,
        config: RunnableConfig | None = None,
    ) -> str:
        """Check that `given` is an error that runs no node and changes nothing; return its message."""
        thread, ran = self.runner.thread(self.graph, self.config), list(self.ran)
        with pytest.raises(error, match=match) as refused:
            self.invoke(given, config)
        assert self.ran == ran
        assert self.runner.thread(self.graph, self.config) == thread
        return str(refused.value)

    def accepts_without_effect(self, given: Any, config: RunnableConfig | None = None) -> Any:
        """Check that `given` runs no node and changes nothing; return the result."""
        thread, ran = self.runner.thread(self.graph, self.config), list(self.ran)
        result = self.invoke(given, config)
        assert self.ran == ran
        assert self.runner.thread(self.graph, self.config) == thread
        return result


def counted(name: str, ran: list[str], *, asking: bool) -> Callable[[State], State]:
    """A node that counts its runs and logs its name, or the answer to a question that is its name."""

    def node(state: State) -> State:
        ran.append(name)
        return {"log": [interrupt(f"{name}?") if asking else name]}

    return node


@pytest.fixture
def one(runner: Runner, build: Build, config: RunnableConfig) -> Scene:
    """first → ask → pay, with the question "ask?" open; `pay` is the effect."""
    ran: list[str] = []
    nodes = {name: counted(name, ran, asking=name == "ask") for name in ("first", "ask", "pay")}
    return Scene(runner, build(nodes, in_a_row(*nodes)), config, ran)


@pytest.fixture
def two(runner: Runner, build: Build, config: RunnableConfig) -> Scene:
    """a and b side by side, with the questions "a?" and "b?" open."""
    ran: list[str] = []
    nodes = {name: counted(name, ran, asking=True) for name in ("a", "b")}
    return Scene(runner, build(nodes), config, ran)


@pytest.fixture
def successive(runner: Runner, build: Build, config: RunnableConfig) -> Scene:
    """One node that asks "first?" and then "second?"; the first is open."""
    ran: list[str] = []

    def ask(state: State) -> State:
        ran.append("ask")
        return {"log": [interrupt("first?"), interrupt("second?")]}

    return Scene(runner, build({"ask": ask}), config, ran)


# --- accepted -------------------------------------------------------------------------------------

ANSWERS: list[Any] = [
    "yes",
    True,
    False,
    0,
    1.5,
    "",
    [],
    ["x", {"y": None}],
    {"any": "dict"},
    {STRANGER: 1, "and": 2},
]
FALSY: list[Any] = [None, False, 0, "", [], {}]


@pytest.mark.parametrize("answer", ANSWERS, ids=repr)
def test_one_value_answers_the_one_open_question(one: Scene, spell: Spelling, answer: Any) -> None:
    assert one.invoke(spell(one.asked["ask?"], answer)) == {"log": ["in", "first", answer, "pay"]}
    assert one.ran == ["first", "ask", "ask", "pay"]


@pytest.mark.parametrize("answer", FALSY, ids=repr)
@pytest.mark.parametrize("spelling", ["map", "blocks"])
def test_a_falsy_answer_is_an_answer(one: Scene, spelling: str, answer: Any) -> None:
    given = SPELLINGS[spelling](one.asked["ask?"], answer)

    result = one.invoke(given)

    assert result == {"log": ["in", "first", answer, "pay"]}
    assert type(result["log"][2]) is type(answer)
    assert one.accepts_without_effect(given) == result


ALL_AT_ONCE: dict[str, Make] = {
    "map": lambda asked: Command(resume={asked["b?"].id: "B", asked["a?"].id: "A"}),
    "blocks": lambda asked: [response(asked["b?"], "B"), response(asked["a?"], "A")],
}


@pytest.mark.parametrize("make", ALL_AT_ONCE.values(), ids=ALL_AT_ONCE)
def test_several_questions_are_answered_at_once(two: Scene, make: Make) -> None:
    assert two.invoke(make(two.asked)) == {"log": ["in", "A", "B"]}
    assert sorted(two.ran) == ["a", "a", "b", "b"]


@pytest.mark.parametrize("spelling", ["map", "blocks"])
def test_a_partial_map_runs_only_what_it_answers(two: Scene, spelling: str) -> None:
    result = two.invoke(SPELLINGS[spelling](two.asked["b?"], "B"))

    assert result["__interrupt__"] == [two.asked["a?"]]
    assert sorted(two.ran) == ["a", "b", "b"]
    assert two.state().interrupts == (two.asked["a?"],)
    assert two.state().next == ("a",)
    assert two.invoke(Command(resume="A")) == {"log": ["in", "A", "B"]}
    assert sorted(two.ran) == ["a", "a", "b", "b"]


def test_the_answers_may_come_from_several_processes(
    runner: Runner, build: Build, config: RunnableConfig, saver: Saver, reopen: Reopen
) -> None:
    ran: list[str] = []
    nodes = {name: counted(name, ran, asking=True) for name in ("a", "b", "c")}
    asked = Scene(runner, build(nodes), config, ran).asked

    for name in ("c", "a", "b"):
        result = runner.invoke(
            build(nodes, saver=reopen(saver)), Command(resume={asked[f"{name}?"].id: name}), config
        )

    assert result == {"log": ["in", "a", "b", "c"]}
    assert sorted(ran) == ["a", "a", "b", "b", "c", "c"]


# --- refused: which question is meant -------------------------------------------------------------

AMBIGUOUS: dict[str, Any] = {
    "a value": "yes",
    "a falsy value": False,
    "a list": [],
    "a dict": {"any": "dict"},
    "a dict with a key that looks like an id": {STRANGER: 1, "and": 2},
}


@pytest.mark.parametrize("answer", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_one_answer_to_several_questions_is_ambiguous(two: Scene, answer: Any) -> None:
    message = two.refuses(Command(resume=answer), AmbiguousResumeError, "multiple pending interrupts")

    for question in two.asked.values():
        assert question.id in message
        assert question.value in message
    assert two.invoke(ALL_AT_ONCE["map"](two.asked)) == {"log": ["in", "A", "B"]}


def test_the_ambiguous_resume_error_is_a_runtime_error(two: Scene) -> None:
    two.refuses(Command(resume="yes"), RuntimeError)


def test_a_map_of_one_of_the_ids_and_another_key_is_ambiguous(two: Scene) -> None:
    two.refuses(Command(resume={two.asked["a?"].id: "A", "b": "B"}), AmbiguousResumeError)


UNKNOWN: dict[str, Make] = {
    "map": lambda asked: Command(resume={STRANGER: "x"}),
    "map, with a known one": lambda asked: Command(resume={asked["ask?"].id: "yes", STRANGER: "x"}),
    "blocks": lambda asked: [response(STRANGER, "x")],
    "blocks, with a known one": lambda asked: [response(asked["ask?"], "yes"), response(STRANGER, "x")],
    "blocks, not even hexadecimal": lambda asked: [response("nobody", "x")],
}


@pytest.mark.parametrize("make", UNKNOWN.values(), ids=UNKNOWN)
def test_an_id_that_is_not_open_is_unknown(one: Scene, make: Make) -> None:
    message = one.refuses(make(one.asked), UnknownInterruptError)

    assert STRANGER in message or "nobody" in message
    assert one.invoke(Command(resume="yes")) == {"log": ["in", "first", "yes", "pay"]}


def test_a_question_of_another_thread_is_unknown_here(one: Scene) -> None:
    other: RunnableConfig = {"configurable": {"thread_id": "other"}}
    theirs = questions(one.invoke(EMPTY, other))["ask?"]

    one.refuses(Command(resume={theirs.id: "yes"}), UnknownInterruptError, theirs.id)

    assert one.invoke(Command(resume={theirs.id: "yes"}), other) == {"log": ["first", "yes", "pay"]}


# --- refused: what is answered --------------------------------------------------------------------

EMPTY_RESUMES: dict[str, Any] = {
    "an empty map": Command(resume={}),
    "no response blocks": [],
    "an empty Command": Command(),
    "a Command of None": Command(resume=None),
}


@pytest.mark.parametrize("given", EMPTY_RESUMES.values(), ids=EMPTY_RESUMES)
def test_an_empty_resume_is_an_error(one: Scene, given: Any) -> None:
    one.refuses(given, ValueError)

    assert one.invoke(Command(resume="yes")) == {"log": ["in", "first", "yes", "pay"]}


@pytest.mark.parametrize("given", [Command(), Command(resume=None)], ids=repr)
def test_the_empty_command_is_named(runner: Runner, build: Build, config: RunnableConfig, given: Any) -> None:
    with pytest.raises(ValueError, match=r"Command\("):
        runner.invoke(build({"node": says("ran")}), given, config)


@pytest.mark.parametrize("answer", [object(), {"deep": [object()]}], ids=["an object", "inside"])
def test_an_answer_that_cannot_be_stored_is_refused(one: Scene, spell: Spelling, answer: Any) -> None:
    asked = one.asked["ask?"]

    message = one.refuses(spell(asked, answer), UnserializableStateError)

    assert asked.id in message or asked.value in message
    assert one.invoke(Command(resume="yes")) == {"log": ["in", "first", "yes", "pay"]}


# --- answered before ------------------------------------------------------------------------------


def test_the_same_answer_again_has_no_effect(one: Scene) -> None:
    asked = one.asked["ask?"]
    result = one.invoke(Command(resume="yes"))

    for spelling in ("map", "blocks"):
        assert one.accepts_without_effect(SPELLINGS[spelling](asked, "yes")) == result

    assert one.ran.count("pay") == 1


@pytest.mark.parametrize("spelling", ["map", "blocks"])
def test_another_answer_to_an_answered_question_is_refused(one: Scene, spelling: str) -> None:
    one.invoke(Command(resume="yes"))

    message = one.refuses(SPELLINGS[spelling](one.asked["ask?"], "no"), AlreadyAnsweredError)

    assert one.asked["ask?"].id in message
    assert one.ran.count("pay") == 1


@pytest.mark.parametrize("spelling", ["map", "blocks"])
def test_an_answered_question_does_not_pass_its_answer_to_the_next(successive: Scene, spelling: str) -> None:
    first = successive.asked["first?"]
    second = questions(successive.invoke(Command(resume="1")))["second?"]

    again = successive.accepts_without_effect(SPELLINGS[spelling](first, "1"))
    successive.refuses(SPELLINGS[spelling](first, "other"), AlreadyAnsweredError, first.id)

    assert again["__interrupt__"] == [second]
    assert successive.invoke(Command(resume="2")) == {"log": ["in", "1", "2"]}


@pytest.mark.parametrize("spelling", ["map", "blocks"])
def test_an_answered_question_beside_an_open_one(two: Scene, spelling: str) -> None:
    a, b = two.asked["a?"], two.asked["b?"]
    two.invoke(SPELLINGS[spelling](a, "A"))

    again = two.accepts_without_effect(SPELLINGS[spelling](a, "A"))
    two.refuses(SPELLINGS[spelling](a, "other"), AlreadyAnsweredError, a.id)

    assert again["__interrupt__"] == [b]
    assert two.invoke(SPELLINGS[spelling](b, "B")) == {"log": ["in", "A", "B"]}


def test_a_map_may_repeat_an_answer_and_add_one(two: Scene) -> None:
    a, b = two.asked["a?"], two.asked["b?"]
    two.invoke(Command(resume={a.id: "A"}))

    two.refuses(Command(resume={a.id: "other", b.id: "B"}), AlreadyAnsweredError, a.id)

    assert two.invoke(Command(resume={a.id: "A", b.id: "B"})) == {"log": ["in", "A", "B"]}
    assert sorted(two.ran) == ["a", "a", "b", "b"]


def test_an_answered_question_stays_answered_in_the_next_turn(one: Scene) -> None:
    one.invoke(Command(resume="yes"))
    open_now = questions(one.invoke({"log": ["again"]}))["ask?"]

    again = one.accepts_without_effect(Command(resume={one.asked["ask?"].id: "yes"}))
    one.refuses(Command(resume={one.asked["ask?"].id: "no"}), AlreadyAnsweredError)

    assert again["__interrupt__"] == [open_now]


# --- nothing to answer ----------------------------------------------------------------------------


def test_a_finished_thread_has_nothing_to_answer(one: Scene) -> None:
    result = one.invoke(Command(resume="yes"))

    one.refuses(Command(resume="yes"), NoPendingInterruptError)
    one.refuses(Command(resume={"any": "dict"}), NoPendingInterruptError)
    one.refuses(Command(resume={STRANGER: "x"}), NoPendingInterruptError)
    one.refuses([response(STRANGER, "x")], NoPendingInterruptError)

    assert one.invoke(None) == result


ANY_RESUME: dict[str, Any] = {
    "value": Command(resume="x"),
    "map": Command(resume={STRANGER: "x"}),
    "blocks": [response(STRANGER, "x")],
}


@pytest.mark.parametrize("given", ANY_RESUME.values(), ids=ANY_RESUME)
def test_an_unknown_thread_has_nothing_to_answer(
    runner: Runner, build: Build, config: RunnableConfig, given: Any
) -> None:
    ran: list[str] = []
    graph = build({"ask": counted("ask", ran, asking=True)})

    with pytest.raises(NoPendingInterruptError):
        runner.invoke(graph, given, config)

    assert ran == []
    assert runner.history(graph, config) == []
    assert list(questions(runner.invoke(graph, EMPTY, config))) == ["ask?"]


def test_at_a_breakpoint_a_value_is_dropped_with_a_warning(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    ran: list[str] = []
    nodes = {name: counted(name, ran, asking=name == "ask") for name in ("first", "ask")}
    graph = build(nodes, in_a_row("first", "ask"), interrupt_before=["ask"])
    runner.invoke(graph, EMPTY, config)

    with pytest.warns(Warning, match="breakpoint"):
        result = runner.invoke(graph, Command(resume="for nobody"), config)

    assert list(questions(result)) == ["ask?"]
    assert ran == ["first", "ask"]
    assert runner.invoke(graph, Command(resume="yes"), config) == {"log": ["first", "yes"]}


@pytest.mark.parametrize("given", ANY_RESUME.values(), ids=ANY_RESUME)
def test_without_a_checkpointer_a_question_cannot_be_answered(
    runner: Runner, config: RunnableConfig, given: Any
) -> None:
    ran: list[str] = []
    graph = graph_of({"ask": counted("ask", ran, asking=True)})

    assert list(questions(runner.invoke(graph, EMPTY, config))) == ["ask?"]
    with pytest.raises(RuntimeError, match="checkpointer"):
        runner.invoke(graph, given, config)
    assert ran == ["ask"]


# --- an old checkpoint id -------------------------------------------------------------------------


def test_a_question_is_answered_at_the_checkpoint_that_asked_it(one: Scene, spell: Spelling) -> None:
    result = one.invoke(spell(one.asked["ask?"], "yes"), one.at_question)

    assert result == {"log": ["in", "first", "yes", "pay"]}
    assert one.accepts_without_effect(spell(one.asked["ask?"], "yes"), one.at_question) == result
    one.refuses(spell(one.asked["ask?"], "no"), AlreadyAnsweredError, config=one.at_question)
    assert one.ran.count("pay") == 1


def test_running_from_an_old_checkpoint_with_none_is_a_fork(one: Scene) -> None:
    one.invoke(Command(resume="yes"))

    forked = questions(one.invoke(None, one.at_question))

    assert list(forked) == ["ask?"]
    assert one.state().next == ("ask",)
    assert one.invoke(Command(resume="no")) == {"log": ["in", "first", "no", "pay"]}
    assert one.ran == ["first", "ask", "ask", "pay", "ask", "ask", "pay"]


def test_updating_an_old_checkpoint_is_a_fork(one: Scene) -> None:
    one.invoke(Command(resume="yes"))
    one.runner.update_state(one.graph, one.at_question, {"log": ["edited"]}, "first")

    forked = questions(one.invoke(None))["ask?"]

    assert forked.id != one.asked["ask?"].id
    result = one.invoke(Command(resume={forked.id: "no"}))
    assert result == {"log": ["in", "first", "edited", "no", "pay"]}


def test_a_plain_answer_after_an_edit_is_dropped_and_the_warning_says_why(one: Scene) -> None:
    """What is asked now may be another question: it is made of what was edited."""
    one.runner.update_state(one.graph, one.config, {"log": ["edited"]}, "first")
    with pytest.warns(
        UserWarning, match="has asked nothing since it was edited: the resume value was dropped"
    ):
        again = questions(one.invoke(Command(resume="yes")))
    assert list(again) == ["ask?"]
    assert one.invoke(Command(resume="yes")) == {"log": ["in", "first", "edited", "yes", "pay"]}


# --- more than an answer --------------------------------------------------------------------------


def seen(name: str, ran: list[str], *, asking: bool) -> Callable[[State], State]:
    """A node that logs what it saw and, if it asks, the answer."""

    def node(state: State) -> State:
        ran.append(name)
        log = list(state["log"])
        return {"log": [(name, log, interrupt(f"{name}?")) if asking else (name, log)]}

    return node


@pytest.fixture
def fork_in_the_road(runner: Runner, build: Build, config: RunnableConfig) -> Scene:
    """ask, which nothing follows, and other, which only a goto reaches; "ask?" is open."""
    ran: list[str] = []
    nodes = {"ask": seen("ask", ran, asking=True), "other": seen("other", ran, asking=False)}
    edges: list[Edge] = [(START, "ask"), ("ask", lambda state: END, ["other", END])]
    return Scene(runner, build(nodes, edges), config, ran)


def test_an_answer_may_come_with_an_update_and_a_goto(fork_in_the_road: Scene) -> None:
    result = fork_in_the_road.invoke(Command(resume="yes", update={"log": ["up"]}, goto="other"))

    assert result == {"log": ["in", "up", ("ask", ["in", "up"], "yes"), ("other", ["in", "up"])]}
    assert sorted(fork_in_the_road.ran) == ["ask", "ask", "other"]


def test_a_goto_to_an_unknown_node_is_refused(fork_in_the_road: Scene) -> None:
    fork_in_the_road.refuses(
        Command(resume="yes", update={"log": ["up"]}, goto="nowhere"), InvalidUpdateError, "nowhere"
    )
    fork_in_the_road.refuses(Command(goto="nowhere"), InvalidUpdateError, "nowhere")

    assert fork_in_the_road.invoke(Command(resume="yes")) == {"log": ["in", ("ask", ["in"], "yes")]}


def test_a_fresh_thread_may_begin_with_an_update_and_a_goto(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    ran: list[str] = []
    nodes = {name: seen(name, ran, asking=False) for name in ("entry", "other")}
    graph = build(nodes, [(START, "entry"), ("entry", lambda state: END, ["other", END])])

    result = runner.invoke(graph, Command(update={"log": ["up"]}, goto="other"), config)

    assert result == {"log": ["up", ("other", ["up"])]}
    assert ran == ["other"]


# --- no answer ------------------------------------------------------------------------------------


def test_none_returns_the_open_questions_again(two: Scene) -> None:
    assert questions(two.accepts_without_effect(None)) == two.asked
    two.invoke(Command(resume={two.asked["b?"].id: "B"}))
    assert questions(two.accepts_without_effect(None)) == {"a?": two.asked["a?"]}


def test_none_runs_what_failed_and_not_what_waits(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    ran: list[str] = []

    def fails_once(state: State) -> State:
        ran.append("fails_once")
        if ran.count("fails_once") == 1:
            raise ConnectionError("down")
        return {"log": ["up again"]}

    graph = build({"ask": counted("ask", ran, asking=True), "fails_once": fails_once})
    with pytest.raises(ConnectionError, match="down"):
        runner.invoke(graph, EMPTY, config)

    assert list(questions(runner.invoke(graph, None, config))) == ["ask?"]
    assert sorted(ran) == ["ask", "fails_once", "fails_once"]
    assert runner.invoke(graph, Command(resume="yes"), config) == {"log": ["yes", "up again"]}
    assert sorted(ran) == ["ask", "ask", "fails_once", "fails_once"]


def test_new_input_begins_a_new_turn_and_closes_the_open_questions(one: Scene) -> None:
    old = one.asked["ask?"]

    result = one.invoke({"log": ["new turn"]})
    new = questions(result)["ask?"]

    assert result["log"] == ["in", "first", "new turn", "first"]
    assert new.id != old.id
    assert one.state().interrupts == (new,)
    one.refuses(Command(resume={old.id: "yes"}), UnknownInterruptError, old.id)
    assert [snapshot.interrupts for snapshot in one.runner.history(one.graph, one.config)].count((old,)) == 1
    assert one.invoke(Command(resume="yes"))["log"][-2:] == ["yes", "pay"]
