"""`add_human_in_the_loop`: every answer a person may give, and every one that is refused."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from graphkit import Agent as StrandsAgent
from graphkit import tool
from graphkit.checkpoint.memory import InMemorySaver
from graphkit.errors import AmbiguousResumeError, InvalidResponseError, UnknownInterruptError
from graphkit.models.scripted import ScriptedModel, ToolCall
from graphkit.prebuilt import add_human_in_the_loop, create_react_agent
from graphkit.types import Command, RunnableConfig
from tests.conftest import Runner, response
from tests.prebuilt.conftest import Agent, agent_of, results, said

EVERYTHING: Any = {"allow_accept": True, "allow_edit": True, "allow_respond": True, "allow_ignore": True}
BOOK = ToolCall("book_hotel", {"hotel_name": "Ritz"}, "c1")


class Hotel:
    """Books, and remembers what."""

    def __init__(self) -> None:
        self.booked: list[str] = []

    def book_hotel(self, hotel_name: str) -> str:
        """Book a hotel."""
        self.booked.append(hotel_name)
        return f"booked {hotel_name}"


@pytest.mark.parametrize(
    ("answer", "result", "booked"),
    [
        ({"type": "accept"}, "booked Ritz", ["Ritz"]),
        ({"type": "accept", "args": None}, "booked Ritz", ["Ritz"]),
        (
            {"type": "edit", "args": {"action": "book_hotel", "args": {"hotel_name": "Plaza"}}},
            "booked Plaza",
            ["Plaza"],
        ),
        ({"type": "response", "args": "too dear"}, "too dear", []),
        ({"type": "ignore", "args": None}, "The call was not made: a person has chosen to ignore it.", []),
    ],
)
def test_accept_edit_respond_ignore(
    agent: Agent, runner: Runner, config: RunnableConfig, answer: Any, result: str, booked: list[str]
) -> None:
    hotel = Hotel()
    wrapped = add_human_in_the_loop(hotel.book_hotel, interrupt_config=EVERYTHING)
    graph = agent([BOOK, "done"], [wrapped])
    (question,) = runner.invoke(graph, said("go"), config)["__interrupt__"]
    assert question.value == [
        {
            "action_request": {"action": "book_hotel", "args": {"hotel_name": "Ritz"}},
            "config": EVERYTHING,
            "description": "Please review the tool call",
        }
    ]
    assert hotel.booked == []
    values = runner.invoke(graph, Command(resume=[answer]), config)
    assert (results(values), hotel.booked) == ([result], booked)


@pytest.mark.parametrize(
    "answer",
    [
        [],
        [{"type": "accept"}, {"type": "accept"}],
        {"type": "accept"},
        "accept",
        None,
        [{"type": "approve"}],
        [{"type": "ignore"}],  # which the usual config does not allow
        [{"type": "edit"}],
        [{"type": "edit", "args": {"hotel_name": "Plaza"}}],
        [{"type": "edit", "args": "Plaza"}],
        [{"type": "response"}],
        [{"type": "response", "args": {"text": "no"}}],
        [{}],
        ["accept"],
    ],
)
def test_what_is_no_answer_is_refused_and_the_question_stays_open(
    runner: Runner, config: RunnableConfig, answer: Any
) -> None:
    hotel = Hotel()
    graph = agent_of([BOOK, "done"], [add_human_in_the_loop(hotel.book_hotel)], checkpointer=InMemorySaver())
    (question,) = runner.invoke(graph, said("go"), config)["__interrupt__"]
    with pytest.raises(InvalidResponseError):
        runner.invoke(graph, [response(question, answer)], config)
    assert runner.get_state(graph, config).interrupts == (question,)
    assert results(runner.invoke(graph, Command(resume=[{"type": "accept"}]), config)) == ["booked Ritz"]
    assert hotel.booked == ["Ritz"]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (lambda first, second: [{"type": "accept"}, {"type": "accept"}], AmbiguousResumeError),
        (lambda first, second: [{"type": "accept"}], AmbiguousResumeError),
        (
            lambda first, second: {first.id: [{"type": "accept"}], second.id: [{"type": "approve"}]},
            InvalidResponseError,
        ),
        (lambda first, second: {first.id: [{"type": "accept"}], "0" * 32: [{}]}, UnknownInterruptError),
    ],
    ids=["both in one list", "one for two", "one is none", "for nobody"],
)
def test_answers_to_two_that_do_not_fit_change_nothing(
    runner: Runner, config: RunnableConfig, answer: Any, error: type[Exception]
) -> None:
    hotel = Hotel()
    graph = agent_of(
        [[BOOK, ToolCall("book_hotel", {"hotel_name": "Ritz"}, "c2")], "done"],
        [add_human_in_the_loop(hotel.book_hotel)],
        checkpointer=InMemorySaver(),
    )
    first, second = asked = runner.invoke(graph, said("go"), config)["__interrupt__"]
    with pytest.raises(error):
        runner.invoke(graph, Command(resume=answer(first, second)), config)
    assert runner.get_state(graph, config).interrupts == tuple(asked)
    assert hotel.booked == []
    both = {question.id: [{"type": "accept"}] for question in asked}
    assert results(runner.invoke(graph, Command(resume=both), config)) == ["booked Ritz"] * 2


def test_edited_arguments_are_checked_like_those_of_the_model(runner: Runner, config: RunnableConfig) -> None:
    graph = agent_of(
        [BOOK, "done"], [add_human_in_the_loop(Hotel().book_hotel)], checkpointer=InMemorySaver()
    )
    runner.invoke(graph, said("go"), config)
    edit = {"type": "edit", "args": {"args": {"hotel_name": 7}}}
    (result,) = results(runner.invoke(graph, Command(resume=[edit]), config))
    assert "hotel_name: Input should be a valid string" in result


def test_only_what_is_allowed(runner: Runner, config: RunnableConfig) -> None:
    wrapped = add_human_in_the_loop(Hotel().book_hotel, interrupt_config={"allow_ignore": True})
    graph = agent_of([BOOK, "done"], [wrapped], checkpointer=InMemorySaver())
    runner.invoke(graph, said("go"), config)
    with pytest.raises(InvalidResponseError):
        runner.invoke(graph, Command(resume=[{"type": "accept"}]), config)
    assert "ignore" in results(runner.invoke(graph, Command(resume=[{"type": "ignore"}]), config))[0]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"tool": 5}, TypeError),
        ({"interrupt_config": {"allow_everything": True}}, ValueError),
        ({"interrupt_config": {}}, ValueError),
        ({"interrupt_config": {"allow_accept": False}}, ValueError),
    ],
)
def test_what_cannot_be_wrapped(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        add_human_in_the_loop(**{"tool": Hotel().book_hotel, **options})


def test_a_tool_of_ours_and_an_agent_of_ours() -> None:
    booked: list[str] = []

    @tool
    def book(hotel: str) -> str:
        """Book."""
        booked.append(hotel)
        return f"booked {hotel}"

    model = ScriptedModel([ToolCall("book", {"hotel": "Ritz"}), "done"])
    agent = StrandsAgent(model, tools=[add_human_in_the_loop(book)], callback_handler=None)
    (question,) = agent("go").interrupts or []
    assert question.reason[0]["action_request"] == {"action": "book", "args": {"hotel": "Ritz"}}
    assert agent([response(question.id, [{"type": "accept"}])]).stop_reason == "end_turn"
    assert booked == ["Ritz"]


# --- Many at once -------------------------------------------------------------------------------------------

TRIALS = 1000 if os.environ.get("GRAPHKIT_CHAOS") else 30


def test_fifty_that_wait_are_answered_in_any_order(runner: Runner) -> None:
    def ask(number: int) -> str:
        """Ask."""
        return f"{number} answered"

    wrapped = add_human_in_the_loop(ask)
    numbers = range(50)
    for trial in range(TRIALS // 2):  # for each colour
        chance = random.Random(trial)
        model = ScriptedModel([[ToolCall("ask", {"number": number}) for number in numbers], "done"])
        version: Any = chance.choice(["v1", "v2"])
        graph = create_react_agent(model, [wrapped], checkpointer=InMemorySaver(), version=version)
        config: RunnableConfig = {"configurable": {"thread_id": str(trial)}}
        open_questions = list(runner.invoke(graph, said("go"), config)["__interrupt__"])
        assert [_number(question) for question in open_questions] == list(numbers)
        assert len({question.id for question in open_questions}) == 50
        chance.shuffle(open_questions)
        while open_questions:
            some = [open_questions.pop() for _ in range(min(len(open_questions), chance.randint(5, 25)))]
            answers = [
                response(question, [{"type": "response", "args": f"to {_number(question)}"}])
                for question in some
            ]
            values = runner.invoke(graph, answers, config)
            left = [question.id for question in values.get("__interrupt__", ())]
            assert sorted(left) == sorted(question.id for question in open_questions)
        assert results(values) == [f"to {number}" for number in numbers]
        assert len(model.requests) == 2


def _number(question: Any) -> int:
    number: int = question.value[0]["action_request"]["args"]["number"]
    return number
