"""Structured output: the answer is an instance of a pydantic class, given by the call of a tool."""

from __future__ import annotations

import json
from typing import Any, Generic, TypeVar

import pytest
from pydantic import BaseModel, Field

from graphkit import tool
from graphkit.errors import StructuredOutputException
from graphkit.hooks import BeforeToolCallEvent
from graphkit.models import ToolCall
from tests.agents.conftest import Answers, Door, Session, agent_of, script


class Person(BaseModel):
    """Somebody."""

    name: str
    age: int = Field(ge=0)


T = TypeVar("T")
ANN = ToolCall("Person", {"name": "Ann", "age": 7})


@tool
def look() -> str:
    """Looks."""
    return "seen"


def test_the_answer_is_an_instance(door: Door) -> None:
    agent = agent_of(ANN)
    result = door(agent, "who?", structured_output_model=Person)
    assert result.structured_output == Person(name="Ann", age=7)
    assert result.stop_reason == "tool_use"
    assert json.loads(str(result)) == {"name": "Ann", "age": 7}
    assert result.message["content"][0]["toolUse"]["name"] == "Person"
    assert agent.messages[-1]["content"][0]["toolResult"]["status"] == "success"
    specs = script(agent).requests[0].tool_specs or []
    assert len(specs) == 1
    spec = specs[0]
    assert spec["name"] == "Person" and spec["description"] == "Somebody."
    assert script(agent).requests[0].tool_choice is None


def test_it_may_be_the_agents_own_wish(door: Door) -> None:
    agent = agent_of(ANN, structured_output_model=Person)
    assert door(agent, "who?").structured_output == Person(name="Ann", age=7)
    assert agent.tool_names == []


class Box(BaseModel, Generic[T]):
    """A box."""

    inside: T


def test_it_has_a_name_that_a_model_can_call(door: Door) -> None:
    agent = agent_of("no", ToolCall("Box_int", {"inside": 3}))
    assert door(agent, "what?", structured_output_model=Box[int]).structured_output == Box(inside=3)
    request = script(agent).requests[1]
    assert "Box_int" in request.messages[-1]["content"][0]["text"]
    assert request.tool_choice == {"tool": {"name": "Box_int"}}


def test_a_tool_of_its_name_is_an_error_before_anything_runs(door: Door) -> None:
    @tool(name="Person")
    def person() -> str:
        """Gets a person."""
        return "Ann"

    agent = agent_of("never", tools=[person])
    with pytest.raises(ValueError, match=r"Person.*rename one"):
        door(agent, "who?", structured_output_model=Person)
    assert agent.messages == [] and script(agent).requests == []


def test_other_tools_come_first(door: Door) -> None:
    agent = agent_of(ToolCall("look"), ANN, tools=[look])
    assert door(agent, "who?", structured_output_model=Person).structured_output == Person(name="Ann", age=7)
    assert [spec["name"] for spec in script(agent).requests[1].tool_specs or ()] == ["look", "Person"]


def test_input_that_does_not_fit_goes_back_to_the_model(door: Door) -> None:
    agent = agent_of(ToolCall("Person", {"name": "Ann", "age": -7}), ANN)
    assert door(agent, "who?", structured_output_model=Person).structured_output == Person(name="Ann", age=7)
    result = agent.messages[2]["content"][0]["toolResult"]
    assert result["status"] == "error" and "age" in result["content"][0]["text"]


def test_a_model_that_answers_with_text_is_told_once(door: Door) -> None:
    agent = agent_of("It is Ann.", ANN)
    result = door(
        agent, "who?", structured_output_model=Person, structured_output_prompt="Say it with the tool."
    )
    assert result.structured_output == Person(name="Ann", age=7)
    assert agent.messages[2] == {"role": "user", "content": [{"text": "Say it with the tool."}]}
    assert script(agent).requests[1].tool_choice == {"tool": {"name": "Person"}}


def test_a_model_that_is_told_stays_told_until_its_input_fits(door: Door) -> None:
    agent = agent_of("It is Ann.", ToolCall("Person", {"name": "Ann"}), ANN)
    door(agent, "who?", structured_output_model=Person)
    assert script(agent).requests[2].tool_choice == {"tool": {"name": "Person"}}


def test_a_model_that_refuses_ends_the_turn(door: Door) -> None:
    agent = agent_of("It is Ann.", "I said Ann.", "hello")
    with pytest.raises(StructuredOutputException):
        door(agent, "who?", structured_output_model=Person)
    assert [message["role"] for message in agent.messages] == ["user", "assistant", "user", "assistant"]
    assert str(door(agent, "hi")) == "hello\n"


def test_a_model_that_cannot_be_made_to_call_a_tool_may_answer_with_json(door: Door) -> None:
    """Some providers give no tool choice; as in Strands, the text is then one object and nothing else."""
    agent = agent_of("She is seven.", '{"name": "Ann", "age": 7}')
    result = door(agent, "who?", structured_output_model=Person)
    assert result.structured_output == Person(name="Ann", age=7) and result.stop_reason == "end_turn"
    assert json.loads(str(result)) == {"name": "Ann", "age": 7}
    assert result.message["content"] == [{"text": '{"name": "Ann", "age": 7}'}]


@pytest.mark.parametrize(
    "text", ["", "null", "[7]", '"Ann"', '{"name": "Ann"}', 'Here: {"name": "Ann", "age": 7}']
)
def test_other_text_is_no_answer(door: Door, text: str) -> None:
    with pytest.raises(StructuredOutputException):
        door(agent_of(text, text), "who?", structured_output_model=Person)


def test_the_next_request_is_as_always(door: Door) -> None:
    agent = agent_of(ANN, "plain")
    door(agent, "who?", structured_output_model=Person)
    result = door(agent, "and now?")
    assert (str(result), result.structured_output) == ("plain\n", None)


@pytest.mark.parametrize("wanted", [dict, "Person", Person(name="Ann", age=7), int])
def test_only_a_pydantic_class_can_be_wanted(door: Door, wanted: Any) -> None:
    agent = agent_of("never said")
    with pytest.raises(TypeError, match="pydantic"):
        door(agent, "who?", structured_output_model=wanted)
    assert agent.messages == []


def test_a_question_before_the_output(door: Door, session: Session, answers: Answers) -> None:
    def ask(event: BeforeToolCallEvent) -> None:
        if event.interrupt("sure") != "yes":
            event.cancel_tool = "not sure"

    result = door(session.agent(ANN, hooks=[ask]), "who?", structured_output_model=Person)
    result = door(session.agent(), answers(result, "yes"), structured_output_model=Person)
    assert result.structured_output == Person(name="Ann", age=7)
    assert len(session.model.requests) == 1


def test_a_hook_changes_the_output(door: Door, session: Session) -> None:
    def change(event: BeforeToolCallEvent) -> None:
        event.tool_use.input["age"] = 8

    result = door(session.agent(ANN, hooks=[change]), "who?", structured_output_model=Person)
    assert result.structured_output == Person(name="Ann", age=8)


def test_asked_for_directly_it_leaves_the_conversation_alone(door: Door) -> None:
    agent = agent_of("hello", ANN)
    door(agent, "hi")
    before = list(agent.messages)
    assert agent.structured_output(Person, "who?") == Person(name="Ann", age=7)
    assert agent.messages == before
    assert script(agent).requests[-1].messages[-1]["content"] == [{"text": "who?"}]
    with pytest.raises(TypeError, match="pydantic"):
        agent.structured_output(dict, "who?")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="answers to questions"):
        agent.structured_output(Person, [{"interruptResponse": {"interruptId": "i", "response": 1}}])
