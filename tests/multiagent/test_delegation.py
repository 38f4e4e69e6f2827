"""`as_tool(delegate=True)`: an agent hands its turn over to another one, whose answer is its own."""

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from graphkit import Agent, tool
from graphkit.hooks import AfterToolsEvent, BeforeToolCallEvent
from graphkit.models import ToolCall
from tests.agents.conftest import Door, Session, agent_of, script
from tests.conftest import response

GIVE = ToolCall("billing", {"input": "what do I owe?"}, id="one")
LOOK = ToolCall("look", {}, id="look")


@pytest.fixture(params=["call", "stream_async"])
def door(request: pytest.FixtureRequest) -> Door:
    return Door(request.param)


def looking(ran: list[str]) -> Any:
    @tool
    def look() -> str:
        """Look."""
        ran.append("looked")
        return "seen"

    return look


def results_of(agent: Agent) -> list[tuple[str, str]]:
    """Status and text of every tool result in a conversation."""
    blocks = [block for message in agent.messages for block in message["content"]]
    results = [block["toolResult"] for block in blocks if "toolResult" in block]
    return [(result["status"], result["content"][0]["text"]) for result in results]


def test_its_answer_is_the_agents_and_its_model_is_not_asked_again(door: Door) -> None:
    billing = agent_of("12 EUR", name="billing", description="Knows bills.")
    agent = agent_of([GIVE], tools=[billing.as_tool(delegate=True)])
    result = door(agent, "hello")
    assert (str(result), result.stop_reason) == ("12 EUR\n", "end_turn")
    assert [message["role"] for message in agent.messages] == ["user", "assistant", "user", "assistant"]
    assert agent.messages[-1]["content"] == [{"text": "12 EUR"}]
    [request] = script(agent).requests
    [spec] = request.tool_specs or []
    assert spec["description"].startswith("Knows bills. ") and "alone" in spec["description"]


def test_the_conversation_goes_on(door: Door) -> None:
    agent = agent_of([GIVE], "of course", tools=[agent_of("12 EUR", name="billing").as_tool(delegate=True)])
    door(agent, "hello")
    assert str(door(agent, "sure?")) == "of course\n"


def test_beside_other_tools_none_is_called(door: Door) -> None:
    ran: list[str] = []
    billing = agent_of("12 EUR", name="billing")
    agent = agent_of([GIVE, LOOK], [GIVE], tools=[billing.as_tool(delegate=True), looking(ran)])
    assert str(door(agent, "hello")) == "12 EUR\n"
    assert ran == [] and len(script(billing).requests) == 1
    refused = results_of(agent)[:2]
    assert [status for status, _ in refused] == ["error", "error"]
    assert all("'billing' gives the final answer" in text for _, text in refused)


def test_other_tools_are_called_as_ever() -> None:
    ran: list[str] = []
    agent = agent_of([LOOK], "done", tools=[agent_of(name="billing").as_tool(delegate=True), looking(ran)])
    assert str(agent("hello")) == "done\n" and ran == ["looked"]


@pytest.mark.parametrize("answer", [RuntimeError("overloaded"), ""], ids=["failed", "nothing"])
def test_where_it_has_no_answer_the_model_goes_on(door: Door, answer: Any) -> None:
    agent = agent_of([GIVE], "I cannot say", tools=[agent_of(answer, name="billing").as_tool(delegate=True)])
    assert str(door(agent, "hello")) == "I cannot say\n"


class Bill(BaseModel):
    owed: int
    by: str = "Zoë"


def test_a_structured_answer_is_said_as_json() -> None:
    billing = agent_of([ToolCall("Bill", {"owed": 12})], name="billing", structured_output_model=Bill)
    agent = agent_of([GIVE], tools=[billing.as_tool(delegate=True)])
    assert str(agent("hello")) == '{"owed": 12, "by": "Zoë"}\n'


def test_an_agent_that_is_to_give_structured_output_gives_it_itself() -> None:
    billing = agent_of("12 EUR", name="billing")
    agent = agent_of([GIVE], [ToolCall("Bill", {"owed": 12})], tools=[billing.as_tool(delegate=True)])
    assert agent("hello", structured_output_model=Bill).structured_output == Bill(owed=12)


@pytest.mark.parametrize("session", ["memory", "sqlite"], indirect=True)
def test_a_question_in_it_is_answered_in_place(door: Door, session: Session) -> None:
    """N10: in a new process too, and the turn still ends with its answer."""
    ran: list[str] = []

    def ask(event: BeforeToolCallEvent) -> None:
        if event.tool_use["name"] == "look":
            assert event.interrupt("approval", reason="look?") == "y"

    billing = agent_of([LOOK], "12 EUR", name="billing", tools=[looking(ran)], hooks=[ask])
    asked = door(session.agent([GIVE], tools=[billing.as_tool(delegate=True)]), "hello")
    [question] = asked.interrupts or []
    result = door(session.agent(), [response(question, "y")])
    assert (str(result), result.stop_reason, ran) == ("12 EUR\n", "end_turn", ["looked"])
    assert (len(script(billing).requests), len(session.model.requests)) == (2, 1)


def test_a_tool_that_is_given_later_delegates_too_and_one_that_was_replaced_does_not() -> None:
    agent = agent_of([GIVE], [GIVE], "done")
    agent.tool_registry.register_tool(agent_of("12 EUR", name="billing").as_tool(delegate=True))
    assert str(agent("hello")) == "12 EUR\n"
    agent.tool_registry.replace(agent_of("13 EUR", name="billing"))
    assert str(agent("hello")) == "done\n"


def test_it_has_the_last_word_on_how_the_turn_ends() -> None:
    def end(event: AfterToolsEvent) -> None:
        event.end_turn = "never mind"

    agent = agent_of([GIVE], tools=[agent_of("12 EUR", name="billing").as_tool(delegate=True)], hooks=[end])
    assert str(agent("hello")) == "12 EUR\n"


def test_its_stream_is_the_agents() -> None:
    billing = agent_of("12 EUR", name="billing")

    async def streamed() -> list[Any]:
        agent = agent_of([GIVE], tools=[billing.as_tool(delegate=True)])
        return [each async for each in agent.stream_async("hello")]

    own = asyncio.run(streamed())
    assert [each["data"] for each in own if "data" in each] == ["12 EUR"]
    assert not any("tool_stream_event" in each for each in own)
    assert [str(each["result"]) for each in own if "result" in each] == ["12 EUR\n"]


def test_nothing_is_heard_where_nothing_is_delegated() -> None:
    agent = agent_of("x", tools=[agent_of(name="billing")])
    assert not agent.hooks.of(AfterToolsEvent)
    assert agent_of("x", tools=[agent_of(name="b").as_tool(delegate=True)]).hooks.of(AfterToolsEvent)
