"""An agent that is a tool of another one: what it is given and gives back, and that its questions are the caller's."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from graphkit import Agent, tool
from graphkit.checkpoint.memory import InMemorySaver
from graphkit.errors import InvalidToolUseNameException
from graphkit.hooks import (
    AfterInvocationEvent,
    AfterModelCallEvent,
    BeforeToolCallEvent,
    InterruptEvent,
    ModelMessageEvent,
    ToolStreamUpdateEvent,
)
from graphkit.models import ScriptedModel, ToolCall
from graphkit.session import SessionManager
from graphkit_prebuilt.models.scripted import ModelRequest
from graphkit_prebuilt.thread import AgentThread
from tests.agents.conftest import DOORS, Answers, Door, Session, agent_of, script
from tests.conftest import response

GIVE = ToolCall("helper", {"input": "look into it"}, id="one")
WORK = ToolCall("work", {}, id="work")


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> Door:
    return Door(request.param)


def ask(event: BeforeToolCallEvent) -> None:
    if event.tool_use["name"] == "work":
        event.interrupt("approval", reason="work?")


def work_tool() -> Any:
    return tool(name="work", description="Work.")(lambda: "done")


def result_texts(agent: Any) -> list[tuple[str, str]]:
    """Status and text of every tool result in a conversation."""
    blocks = [block for message in agent.messages for block in message["content"]]
    results = [block["toolResult"] for block in blocks if "toolResult" in block]
    return [(result["status"], result["content"][0].get("text")) for result in results]


def said_to(agent: Agent) -> list[str]:
    """The texts of the user in the last request to its model."""
    messages = script(agent).requests[-1].messages
    return [
        block["text"]
        for message in messages
        for block in message["content"]
        if "text" in block and message["role"] == "user"
    ]


class Office:
    """A caller and its helper, which asks before it works; `again` makes both anew, as another process would."""

    def __init__(self, saver: Any, *calls: ToolCall, preserve_context: bool = False) -> None:
        self.saver = saver
        self.worked: list[str] = []
        self.models = {
            "helper": ScriptedModel([[WORK], "worked"], per_thread=True),
            "caller": ScriptedModel([list(calls), "all done"], per_thread=True),
        }
        self.preserve_context = preserve_context

    def caller(self) -> Agent:
        @tool
        def work() -> str:
            """Work."""
            self.worked.append("work")
            return "done"

        @tool
        def beside() -> str:
            """Beside."""
            self.worked.append("beside")
            return "beside"

        helper = agent_of(model=self.models["helper"], tools=[work], hooks=[ask], name="helper")
        tools = [helper.as_tool(preserve_context=self.preserve_context), beside]
        manager = SessionManager(self.saver, "office")
        return agent_of(model=self.models["caller"], tools=tools, session_manager=manager)

    def calls(self, model: str) -> int:
        return len(self.models[model].requests)


# --- Questions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("session", ["memory", "sqlite"], indirect=True)
def test_a_question_is_asked_once_and_answered_where_it_was_asked(
    door: Door, session: Session, answers: Answers
) -> None:
    office = Office(session.open_saver(), GIVE, ToolCall("beside", {}))
    asked = door(office.caller(), "go")

    assert asked.stop_reason == "interrupt"
    assert [(question.name, question.reason) for question in asked.interrupts or ()] == [
        ("approval", "work?")
    ]
    assert office.worked == ["beside"]
    assert (office.calls("caller"), office.calls("helper")) == (1, 1)

    caller = office.caller()
    result = door(caller, answers(asked, "yes"))

    assert str(result) == "all done\n"
    assert result_texts(caller) == [("success", "worked\n"), ("success", "beside")]
    assert office.worked == ["beside", "work"]
    assert (office.calls("caller"), office.calls("helper")) == (2, 2)


@pytest.mark.parametrize("preserve_context", [False, True])
def test_a_question_of_a_kept_conversation_too(
    session: Session, answers: Answers, preserve_context: bool
) -> None:
    office = Office(session.open_saver(), GIVE, preserve_context=preserve_context)
    result = office.caller()(answers(office.caller()("go"), "yes"))
    assert str(result) == "all done\n" and office.worked == ["work"]
    assert (office.calls("caller"), office.calls("helper")) == (2, 2)


def test_calls_side_by_side_ask_each_for_itself(session: Session, answers: Answers) -> None:
    office = Office(session.open_saver(), GIVE, ToolCall("helper", {"input": "and this"}, id="two"))
    asked = office.caller()("go")
    first, second = asked.interrupts or ()
    assert first.id != second.id

    partly = office.caller()([response(second, "yes")])
    assert [question.id for question in partly.interrupts or ()] == [first.id]
    assert office.worked == ["work"] and office.calls("helper") == 3

    caller = office.caller()
    caller(answers(partly, "yes"))
    assert result_texts(caller) == [("success", "worked\n")] * 2
    assert office.worked == ["work"] * 2
    assert (office.calls("caller"), office.calls("helper")) == (2, 4)


def test_a_question_comes_up_through_any_number_of_agents(session: Session, answers: Answers) -> None:
    saver = session.open_saver()
    scripts = {
        name: ScriptedModel([[ToolCall(below, {"input": "go"})], f"{name} is done"], per_thread=True)
        for name, below in [("top", "middle"), ("middle", "bottom"), ("bottom", "work")]
    }
    scripts["bottom"].turns[0] = [WORK]
    worked = []

    @tool
    def work() -> str:
        """Work."""
        worked.append("work")
        return "done"

    def top() -> Agent:
        bottom = agent_of(model=scripts["bottom"], name="bottom", tools=[work], hooks=[ask])
        middle = agent_of(model=scripts["middle"], name="middle", tools=[bottom])
        manager = SessionManager(saver, "deep")
        return agent_of(model=scripts["top"], tools=[middle], session_manager=manager)

    asked = top()("go")
    assert len(asked.interrupts or ()) == 1 and not worked
    result = top()(answers(asked, "yes"))
    assert str(result) == "top is done\n" and worked == ["work"]
    assert {name: len(model.requests) for name, model in scripts.items()} == dict.fromkeys(scripts, 2)


@pytest.mark.parametrize("who", ["caller", "helper"])
def test_a_hook_at_either_level_may_answer(door: Door, who: str) -> None:
    """With the questions that it has collected, when the request comes to rest."""
    helper = agent_of([WORK], "worked", name="helper", tools=[work_tool()], hooks=[ask])
    caller = agent_of([GIVE], "done", tools=[helper])
    asked: list[InterruptEvent] = []

    def approve(event: AfterInvocationEvent) -> None:
        if event.result is not None and event.result.interrupts:
            event.resume = [response(each.interrupt, "yes") for each in asked]

    agent = {"caller": caller, "helper": helper}[who]
    agent.add_hook(asked.append, InterruptEvent)
    agent.add_hook(approve)
    assert str(door(caller, "go")) == "done\n"
    assert [each.interrupt.name for each in asked] == ["approval"]
    assert (len(script(caller).requests), len(script(helper).requests)) == (2, 2)


# --- What goes in and comes out ---------------------------------------------------------------------------


def test_what_the_model_is_told_of_it() -> None:
    helper = agent_of("hi", name="helper", description="Helps.")
    spec = helper.as_tool().tool_spec
    assert (spec["name"], spec["description"]) == ("helper", "Helps.")
    assert list(spec["inputSchema"]["json"]["properties"]) == ["input"]
    assert spec["inputSchema"]["json"]["required"] == ["input"]
    named = helper.as_tool(name="other", description="Else.").tool_spec
    assert (named["name"], named["description"]) == ("other", "Else.")
    assert "helper" in agent_of("hi", name="helper").as_tool().tool_spec["description"]


def test_an_agent_among_the_tools_is_one_and_may_be_given_twice() -> None:
    helper = agent_of("hi", name="helper")
    assert agent_of("x", tools=[helper, [helper], helper.as_tool()]).tool_names == ["helper"]
    with pytest.raises(ValueError, match="two tools are named 'helper'"):
        agent_of("x", tools=[helper, agent_of("hi", name="helper")])


def test_a_name_that_no_model_can_call() -> None:
    with pytest.raises(InvalidToolUseNameException, match="graphkit agent"):
        agent_of("x", tools=[agent_of("hi")])


def test_an_agent_with_a_session_is_no_part_of_another_one() -> None:
    agent = agent_of("x", name="helper", session_manager=SessionManager(InMemorySaver(), "own"))
    for make in (agent.as_tool, agent.as_node, lambda: agent_of("x", tools=[agent])):
        with pytest.raises(ValueError, match=r"name='helper'.* has a session of its own"):
            make()


class Verdict(BaseModel):
    good: bool


def test_a_structured_answer_is_given_as_json() -> None:
    helper = agent_of([ToolCall("Verdict", {"good": True})], name="helper", structured_output_model=Verdict)
    caller = agent_of([GIVE], "done", tools=[helper])
    caller("go")
    result = caller.messages[2]["content"][0]["toolResult"]
    assert result["status"] == "success" and result["content"] == [{"json": {"good": True}}]


@pytest.mark.parametrize(
    ("given", "answer", "told"),
    [
        ({"input": "x"}, RuntimeError("no line"), "no line"),
        ({"input": 3}, "unheard", "takes a text"),
        ({}, "unheard", "takes a text"),
    ],
)
def test_what_fails_is_an_error_result(given: Any, answer: Any, told: str) -> None:
    helper = agent_of(answer, name="helper")
    caller = agent_of([ToolCall("helper", given)], "I see", tools=[helper])
    assert str(caller("go")) == "I see\n"
    [(status, text)] = result_texts(caller)
    assert status == "error" and told in text


def test_each_call_is_a_conversation_of_its_own() -> None:
    beginning: Any = [{"role": "user", "content": [{"text": "before"}]}]
    helper = agent_of("one", "two", name="helper", messages=beginning, state={"kept": 1})
    states = []

    def see(event: AfterModelCallEvent) -> None:
        states.append(event.agent.state.get())
        event.agent.state.set("seen", True)

    helper.add_hook(see)
    caller = agent_of([GIVE], [GIVE], "done", tools=[helper])
    caller("go")
    assert said_to(helper) == ["before", "look into it"]
    assert states == [{"kept": 1}, {"kept": 1}]
    assert result_texts(caller) == [("success", "one\n"), ("success", "two\n")]
    assert helper.messages == beginning  # its own conversation is another one


def test_a_kept_conversation_goes_on_for_one_conversation_of_the_caller(session: Session) -> None:
    saver = session.open_saver()
    helper_model = ScriptedModel(["noted"], repeat=True)

    def caller() -> Agent:
        beginning: Any = [{"role": "user", "content": [{"text": "before"}]}]
        helper = agent_of(model=helper_model, name="helper", messages=beginning)
        turn = [GIVE]
        return agent_of(turn, "done", tools=[helper.as_tool(preserve_context=True)], checkpointer=saver)

    def heard() -> int:
        return len(helper_model.requests[-1].messages)

    caller()("go", thread_id="a")
    assert heard() == 2
    caller()("go", thread_id="a")
    assert heard() == 4
    caller()("go", thread_id="b")
    assert heard() == 2


def test_two_that_keep_their_conversations_do_not_mix() -> None:
    helpers = [agent_of("a", "b", name=name).as_tool(preserve_context=True) for name in ("one", "two")]
    turn = [ToolCall(name, {"input": f"for {name}"}) for name in ("one", "two")]
    agent_of(turn, turn, "done", tools=helpers)("go")
    for helper in helpers:
        assert said_to(helper.agent) == [f"for {helper.tool_name}"] * 2


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_kept_conversation_serves_one_call_at_a_time(
    door: Door, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one of the same message is an error for the model, also while the first only waits for an answer."""
    monkeypatch.setattr(
        AgentThread,
        "config",
        property(lambda self: {"configurable": {"thread_id": self.id}, "max_concurrency": at_once}),
    )
    helper = agent_of([WORK], "worked", name="helper", tools=[work_tool()], hooks=[ask])
    calls = [GIVE, ToolCall("helper", {"input": "and this"}, id="two")]
    caller = agent_of(calls, [GIVE], "done", tools=[helper.as_tool(preserve_context=True)])
    asked = door(caller, "go")
    assert len(asked.interrupts or ()) == 1
    script(helper).turns.append("worked again")
    door(caller, [response(question, "yes") for question in asked.interrupts or ()])
    results = result_texts(caller)
    assert sorted(results[:2], reverse=True)[0] == ("success", "worked\n")
    assert "serves another call" in sorted(results[:2])[0][1]
    assert results[2:] == [("success", "worked again\n")]


# --- What they share --------------------------------------------------------------------------------------


def test_the_invocation_state_is_one_object(door: Door) -> None:
    seen: list[Any] = []
    helper = agent_of("hi", name="helper")
    helper.add_hook(lambda event: seen.append(event.invocation_state), AfterModelCallEvent)
    given = {"secret": object()}
    door(agent_of([GIVE], "done", tools=[helper]), "go", invocation_state=given)
    assert seen and all(each is given for each in seen)


def test_a_caller_that_is_cancelled_cancels_it() -> None:
    def cancel(request: ModelRequest) -> str:
        caller.cancel()
        return "too late"

    helper = agent_of(cancel, name="helper")
    caller = agent_of([GIVE], "never", tools=[helper])
    result = caller("go")
    assert result.stop_reason == "cancelled"
    [(status, text)] = result_texts(caller)
    assert status == "error" and "cancelled" in text


Listen = Callable[[Agent], list[ToolStreamUpdateEvent]]


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_what_happens_inside_is_progress_of_the_tool(colour: str) -> None:
    helper = agent_of([WORK], "hi", name="helper", tools=[work_tool()])
    caller = agent_of([GIVE], "done", tools=[helper])
    heard: list[ToolStreamUpdateEvent] = []
    caller.add_hook(heard.append, ToolStreamUpdateEvent)

    async def streamed() -> list[Any]:
        return [event async for event in caller.astream("go")]

    events = list(caller.stream("go")) if colour == "sync" else asyncio.run(streamed())
    shown = [event for event in events if isinstance(event, ToolStreamUpdateEvent)]
    assert shown == heard and heard
    assert {event.tool_use["toolUseId"] for event in heard} == {"one"}
    inner = [event.event for event in heard]
    assert {event.agent for event in inner} == {helper}
    assert [event.message["content"] for event in inner if isinstance(event, ModelMessageEvent)] == [
        [{"toolUse": {"toolUseId": "work", "name": "work", "input": {}}}],
        [{"text": "hi"}],
    ]
    assert not any(getattr(event, "agent", None) is helper for event in events)  # only wrapped


def test_the_dicts_of_a_stream_have_those_of_the_agent_inside() -> None:
    caller = agent_of([GIVE], "done", tools=[agent_of("hi", name="helper")])

    async def streamed() -> list[Any]:
        return [shown async for shown in caller.stream_async("go")]

    shown = asyncio.run(streamed())
    inner = [each["tool_stream_event"] for each in shown if "tool_stream_event" in each]
    assert [each["data"]["data"] for each in inner if "data" in each["data"]] == ["hi"]
    assert {each["tool_use"]["toolUseId"] for each in inner} == {"one"}
    assert [each["data"] for each in shown if "data" in each] == ["done"]


# --- Called directly --------------------------------------------------------------------------------------


def test_a_direct_call_answers_and_leaves_nothing_behind() -> None:
    helper = agent_of("hi", "again", name="helper")
    caller = agent_of("never", tools=[helper])
    assert caller.tool.helper(input="you")["content"] == [{"text": "hi\n"}]
    caller.tool.helper(input="you")
    assert said_to(helper) == ["you"] and helper.messages == []


def test_a_direct_call_that_asks_is_an_error_of_the_program() -> None:
    helper = agent_of([WORK], "x", name="helper", tools=[work_tool()])
    helper.add_hook(ask)
    caller = agent_of("never", tools=[helper])
    with pytest.raises(RuntimeError, match=r"(?s)'helper' cannot be called directly.*asks a question"):
        caller.tool.helper(input="you")
    assert caller.messages == []
