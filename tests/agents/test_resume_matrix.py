"""Going on with answers: for every event that can ask, in this process or another, with one question or several.

Whoever asks and wherever: the model is called as often as without questions, each tool runs once (twice, if it asks
itself), the results are in the order of the calls, and at rest no call is without a result (S1, S2, S16, S19–S26, N1,
N2, N9).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from graphkit import Agent, AgentResult, ToolContext, tool
from graphkit.hooks import (
    AfterInvocationEvent,
    AfterModelCallEvent,
    AfterToolCallEvent,
    AfterToolsEvent,
    BeforeInvocationEvent,
    BeforeModelCallEvent,
    BeforeToolCallEvent,
    BeforeToolsEvent,
    InterruptEvent,
    MessageAddedEvent,
)
from graphkit.models import ToolCall
from graphkit.types import Command
from tests.agents.conftest import Door, Session, Watched, names
from tests.conftest import response

ASKING = [
    BeforeInvocationEvent,
    MessageAddedEvent,
    BeforeModelCallEvent,
    AfterModelCallEvent,
    BeforeToolsEvent,
    BeforeToolCallEvent,
    AfterToolCallEvent,
    AfterToolsEvent,
    AfterInvocationEvent,
]
CALLS = [ToolCall("work", {"name": "a"}, "ta"), ToolCall("work", {"name": "b"}, "tb")]
SCRIPT = [CALLS, "done"]

RAN: Counter[str] = Counter()


@pytest.fixture(params=["call", "invoke_async"])
def door(request: pytest.FixtureRequest) -> Door:
    return Door(request.param)


@pytest.fixture(autouse=True)
def nothing_has_run() -> None:
    RAN.clear()


@tool
def work(name: str) -> str:
    """Works."""
    RAN[name] += 1
    return name


@tool
def asking(name: str, tool_context: ToolContext) -> str:
    """Works when it may."""
    RAN[name] += 1
    return f"{name}: {tool_context.interrupt('may it', reason=name)}"


class Asker:
    """Callbacks that ask, and what they were told."""

    def __init__(
        self, event: type[Any], callbacks: int = 1, only: Callable[[Any], bool] | None = None
    ) -> None:
        self.event = event
        self.callbacks = callbacks
        self.only = only
        self.told: list[Any] = []

    def register_hooks(self, registry: Any) -> None:
        for number in range(self.callbacks):
            registry.add_callback(self.event, self.callback(f"q{number}"))

    def callback(self, name: str) -> Callable[[Any], None]:
        def ask(event: Any) -> None:
            if self.only is None or self.only(event):
                self.told.append((name, event.interrupt(name, reason=f"{name}?")))

        return ask


def check_at_rest(agent: Agent, result: AgentResult) -> None:
    """No call without a result, and everything can be written as JSON."""
    json.dumps([agent.messages, result.message])
    waiting: list[str] = []
    for message in agent.messages:
        for block in message["content"]:
            if "toolUse" in block:
                waiting.append(block["toolUse"]["toolUseId"])
            elif "toolResult" in block:
                waiting.remove(block["toolResult"]["toolUseId"])
    assert waiting == []


def take_to_the_end(
    door: Door, result: AgentResult, next_agent: Callable[[], Agent], *, one_by_one: bool
) -> tuple[AgentResult, list[Any]]:
    """Answer until nothing is asked; the result, and all questions that were answered."""
    answered: list[Any] = []
    while result.stop_reason == "interrupt":
        agent = next_agent()
        assert result.interrupts
        check_at_rest(agent, result)
        now = list(result.interrupts)[: 1 if one_by_one else None]
        still = {question.id for question in result.interrupts} - {question.id for question in now}
        answered += now
        result = door(agent, [response(question, f"to {question.name}") for question in now])
        assert still <= {question.id for question in result.interrupts or ()}
        assert len(answered) < 50
    return result, answered


def check_the_end(agent: Agent, session: Session, result: AgentResult, runs: int = 1) -> None:
    assert (result.stop_reason, str(result)) == ("end_turn", "done\n")
    assert len(session.model.requests) == 2
    assert {"a": runs, "b": runs} == RAN
    assert [message["role"] for message in agent.messages] == ["user", "assistant", "user", "assistant"]
    results = [block["toolResult"] for block in agent.messages[2]["content"]]
    assert [given["toolUseId"] for given in results] == ["ta", "tb"]
    assert [given["status"] for given in results] == ["success", "success"]
    check_at_rest(agent, result)


@pytest.mark.parametrize("fresh", [True, False], ids=["fresh", "same"])
@pytest.mark.parametrize("callbacks", [1, 2])
@pytest.mark.parametrize("event", ASKING)
def test_every_event_that_can_ask(
    door: Door, session: Session, event: type[Any], callbacks: int, fresh: bool
) -> None:
    asker = Asker(event, callbacks)
    first = session.agent(*SCRIPT, tools=[work], hooks=[asker])
    result = door(first, "go")
    assert result.stop_reason == "interrupt" and result.interrupts
    result, answered = take_to_the_end(
        door, result, session.agent if fresh else lambda: first, one_by_one=False
    )
    check_the_end(session.agent() if fresh else first, session, result)
    assert len({question.id for question in answered}) == len(answered)
    assert {question.value for question in answered} == {f"q{number}?" for number in range(callbacks)}
    assert len(asker.told) == len(answered)
    assert all(told == f"to {name}" for name, told in asker.told)


@pytest.mark.parametrize("event", [BeforeToolCallEvent, AfterToolCallEvent])
def test_questions_of_two_calls_answered_one_after_the_other(
    door: Door, session: Session, event: type[Any]
) -> None:
    asker = Asker(event, callbacks=2)
    result = door(session.agent(*SCRIPT, tools=[work], hooks=[asker]), "go")
    order = ["q1", "q0"] if event.should_reverse_callbacks else ["q0", "q1"]
    assert [question.name for question in result.interrupts or ()] == order * 2
    result, answered = take_to_the_end(door, result, session.agent, one_by_one=True)
    check_the_end(session.agent(), session, result)
    assert len(answered) == 4


@pytest.mark.parametrize("one_by_one", [True, False])
def test_tools_that_ask(door: Door, session: Session, one_by_one: bool) -> None:
    calls = [ToolCall("asking", {"name": "a"}, "ta"), ToolCall("asking", {"name": "b"}, "tb")]
    result = door(session.agent(calls, "done", tools=[asking]), "go")
    assert result.interrupts is not None and [question.value for question in result.interrupts] == ["a", "b"]
    result, _ = take_to_the_end(door, result, session.agent, one_by_one=one_by_one)
    check_the_end(session.agent(), session, result, runs=2)


def test_the_others_run_once_while_one_waits(door: Door, session: Session) -> None:
    asker = Asker(BeforeToolCallEvent, only=lambda event: event.tool_use.toolUseId == "ta")
    agent = session.agent(*SCRIPT, tools=[work], hooks=[asker])
    result = door(agent, "go")
    assert RAN == {"b": 1}
    assert [block["toolUse"]["toolUseId"] for block in result.message["content"]] == ["ta", "tb"]
    assert len(agent.messages) == 1
    result, _ = take_to_the_end(door, result, session.agent, one_by_one=False)
    check_the_end(session.agent(), session, result)


def test_equal_ids_of_two_calls_are_two_questions(door: Door, session: Session) -> None:
    """Ids come from the model, and those of one message may be equal (N1)."""
    asker = Asker(BeforeToolCallEvent)
    calls = [ToolCall("work", {"name": "a"}, "same"), ToolCall("work", {"name": "b"}, "same")]
    result = door(session.agent(calls, "done", tools=[work], hooks=[asker]), "go")
    assert len({question.id for question in result.interrupts or ()}) == 2
    result, _ = take_to_the_end(door, result, session.agent, one_by_one=True)
    assert result.stop_reason == "end_turn" and RAN == {"a": 1, "b": 1}


@pytest.mark.parametrize("given", [False, "", 0, None, [], {"a": [1, None]}, 1.5])
def test_every_json_value_is_an_answer(door: Door, session: Session, given: Any) -> None:
    asker = Asker(BeforeModelCallEvent, only=lambda event: len(event.agent.messages) == 1)
    result = door(session.agent(*SCRIPT, tools=[work], hooks=[asker]), "go")
    assert result.interrupts
    result = door(session.agent(), [response(result.interrupts[0], given)])
    assert asker.told == [("q0", given)] and type(asker.told[0][1]) is type(given)
    check_the_end(session.agent(), session, result)


def test_a_command_answers_too(door: Door, session: Session) -> None:
    asker = Asker(BeforeToolsEvent)
    door(session.agent(*SCRIPT, tools=[work], hooks=[asker]), "go")
    result = door(session.agent(), Command(resume="yes"))
    assert asker.told == [("q0", "yes")]
    check_the_end(session.agent(), session, result)


def test_nothing_given_shows_the_questions_again(door: Door, session: Session) -> None:
    asker = Asker(BeforeToolCallEvent)
    first = door(session.agent(*SCRIPT, tools=[work], hooks=[asker]), "go")
    again = door(session.agent())
    assert again.stop_reason == "interrupt"
    assert [question.id for question in again.interrupts or ()] == [
        question.id for question in first.interrupts or ()
    ]
    assert again.message == first.message
    result, _ = take_to_the_end(door, again, session.agent, one_by_one=False)
    check_the_end(session.agent(), session, result)


def test_the_same_answers_again_change_nothing(door: Door, session: Session) -> None:
    """N5: whoever sends a form twice gets what it led to."""
    asker = Asker(BeforeToolCallEvent)
    result = door(session.agent(*SCRIPT, tools=[work], hooks=[asker]), "go")
    form = [response(question, "yes") for question in result.interrupts or ()]
    first = door(session.agent(), form[:1])
    again = door(session.agent(), form[:1])
    assert [question.id for question in again.interrupts or ()] == [
        question.id for question in first.interrupts or ()
    ]
    end = door(session.agent(), form)
    agent = session.agent()
    check_the_end(agent, session, end)
    again = door(agent, form)
    check_the_end(agent, session, again)
    assert again.message == end.message


# The edges of a request


def test_the_events_of_a_halt_and_of_going_on(
    door: Door, session: Session, watched: Callable[[Agent], Watched]
) -> None:
    asker = Asker(BeforeToolCallEvent, only=lambda event: event.tool_use.toolUseId == "tb")
    agent = session.agent(*SCRIPT, tools=[work], hooks=[asker])
    heard = watched(agent)
    result = door(agent, "go")
    shown = [name for name in names(heard) if "Stream" not in name and "Block" not in name]
    assert shown[:6] == [
        *("BeforeInvocation", "MessageAdded", "BeforeModelCall", "ModelMessage", "AfterModelCall"),
        "MessageAdded",
    ]
    assert shown[6] == "BeforeTools"
    assert sorted(shown[7:-4]) == sorted(["BeforeToolCall", "ToolResult", "AfterToolCall", "BeforeToolCall"])
    assert shown[-4:] == ["AfterTools", "Interrupt", "AgentResult", "AfterInvocation"]
    assert [event.interrupt.id for event in heard if isinstance(event, InterruptEvent)] == [
        question.id for question in result.interrupts or ()
    ]
    agent = session.agent()
    heard = watched(agent)
    take_to_the_end(door, result, lambda: agent, one_by_one=False)
    shown = [name for name in names(heard) if "Stream" not in name and "Block" not in name]
    assert shown == [
        *("BeforeInvocation", "BeforeToolCall", "ToolResult", "AfterToolCall", "AfterTools", "MessageAdded"),
        *("BeforeModelCall", "ModelMessage", "AfterModelCall", "MessageAdded", "AgentResult"),
        "AfterInvocation",
    ]


def test_the_edges_may_ask_too(door: Door, session: Session) -> None:
    """A hook asks when a request comes to rest, and another one when it goes on."""
    inner = Asker(BeforeToolCallEvent)
    at_rest = Asker(AfterToolsEvent, only=lambda event: not inner.told)
    going_on = Asker(BeforeInvocationEvent, only=lambda event: event.messages is None)
    result = door(session.agent(*SCRIPT, tools=[work], hooks=[inner, at_rest, going_on]), "go")
    assert len(result.interrupts or ()) == 3
    assert len({question.id for question in result.interrupts or ()}) == 3
    result, answered = take_to_the_end(door, result, session.agent, one_by_one=False)
    check_the_end(session.agent(), session, result)
    assert all(told == "to q0" for asker in (inner, at_rest, going_on) for _, told in asker.told)
    assert len(answered) >= 4


def test_a_hook_answers_when_the_request_comes_to_rest(door: Door, session: Session) -> None:
    """S149: the request goes on in the same call."""
    asker = Asker(BeforeToolCallEvent)
    seen: list[Any] = []

    def answer(event: AfterInvocationEvent) -> None:
        seen.append(event.result.stop_reason)
        if event.result.stop_reason == "interrupt":
            event.resume = [response(question, "yes") for question in event.result.interrupts]

    agent = session.agent(*SCRIPT, tools=[work], hooks=[asker, answer])
    result = door(agent, "go")
    check_the_end(agent, session, result)
    assert seen == ["interrupt", "end_turn"]
    assert asker.told == [("q0", "yes"), ("q0", "yes")]


def test_a_text_is_no_answer_at_rest(door: Door, session: Session) -> None:
    """S150: the questions stay open."""
    asker = Asker(BeforeToolCallEvent)
    texts = ["go on"]

    def answer(event: AfterInvocationEvent) -> None:
        if texts:
            event.resume = texts.pop()

    with pytest.raises(TypeError, match="questions are open"):
        door(session.agent(*SCRIPT, tools=[work], hooks=[asker, answer]), "go")
    result = door(session.agent())
    assert len(result.interrupts or ()) == 2
    result, _ = take_to_the_end(door, result, session.agent, one_by_one=False)
    check_the_end(session.agent(), session, result)


def test_a_request_that_is_denied_when_it_goes_on(door: Door, session: Session) -> None:
    """The answers stay, nothing runs, and nothing is added to the conversation."""
    asker = Asker(BeforeToolCallEvent)
    deny = [True]

    def denier(event: BeforeInvocationEvent) -> None:
        if event.messages is None and deny:
            event.cancel = "not today"

    result = door(session.agent(*SCRIPT, tools=[work], hooks=[asker, denier]), "go")
    assert result.interrupts
    agent = session.agent()
    denied = door(agent, [response(question, "yes") for question in result.interrupts])
    assert (denied.stop_reason, str(denied), denied.interrupts) == ("end_turn", "not today\n", None)
    assert RAN == {} and len(agent.messages) == 1
    deny.clear()
    check_the_end(agent := session.agent(), session, door(agent))


def test_a_prompt_that_is_denied(door: Door, session: Session) -> None:
    def denier(event: BeforeInvocationEvent) -> None:
        event.cancel = True

    agent = session.agent(*SCRIPT, hooks=[denier])
    result = door(agent, "go")
    assert result.stop_reason == "end_turn" and len(session.model.requests) == 0
    assert agent.messages == [result.message]


# Failures


def test_a_tool_that_has_run_does_not_run_again_after_a_hook_has_failed(door: Door, session: Session) -> None:
    fails = [True]

    def hook(event: AfterToolCallEvent) -> None:
        if event.tool_use.toolUseId == "ta" and fails:
            fails.clear()
            raise RuntimeError("the hook is broken")

    with pytest.raises(RuntimeError, match="the hook is broken"):
        door(session.agent(*SCRIPT, tools=[work], hooks=[hook]), "go")
    agent = session.agent()
    check_the_end(agent, session, door(agent))


def test_an_answer_of_the_model_is_not_lost_to_a_hook_that_fails(door: Door, session: Session) -> None:
    fails = [True]

    def hook(event: AfterModelCallEvent) -> None:
        if fails:
            fails.clear()
            raise RuntimeError("the hook is broken")

    with pytest.raises(RuntimeError, match="the hook is broken"):
        door(session.agent(*SCRIPT, tools=[work], hooks=[hook]), "go")
    agent = session.agent()
    check_the_end(agent, session, door(agent))


def test_a_failure_ends_a_request_too(door: Door, session: Session, watched: Any) -> None:
    agent = session.agent(OSError("no line"), hooks=[])
    heard = watched(agent)
    with pytest.raises(OSError, match="no line"):
        door(agent, "go")
    assert names(heard)[-3:] == ["BeforeModelCall", "AfterModelCall", "AfterInvocation"]
    assert heard[-1].result is None


def test_a_new_prompt_after_a_failure_closes_the_calls(door: Door, session: Session) -> None:
    """What has finished keeps its result, and the others are told to the model as not completed (D-14)."""

    def hook(event: BeforeToolCallEvent) -> None:
        if event.tool_use.toolUseId == "tb":
            raise RuntimeError("the hook is broken")

    with pytest.raises(RuntimeError, match="the hook is broken"):
        door(session.agent(*SCRIPT, tools=[work], hooks=[hook]), "go")
    agent = session.agent()
    assert len(agent.messages) == 1
    assert str(door(agent, "never mind")) == "done\n"
    results = [block["toolResult"]["status"] for block in agent.messages[2]["content"]]
    assert results == ["success", "error"] and RAN == {"a": 1}
    assert [message["role"] for message in agent.messages] == [
        "user",
        "assistant",
        "user",
        "user",
        "assistant",
    ]
