"""What events tell their callbacks, and what comes of what callbacks write (S71–S87, S102–S116, S69)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from graphkit import Agent, AgentResult, tool
from graphkit.hooks import (
    AfterInvocationEvent,
    AfterModelCallEvent,
    AfterToolCallEvent,
    AfterToolsEvent,
    AgentInitializedEvent,
    AgentResultEvent,
    BeforeInvocationEvent,
    BeforeModelCallEvent,
    BeforeToolCallEvent,
    BeforeToolsEvent,
    ContentBlockEvent,
    HookEvent,
    HookRegistry,
    InterruptEvent,
    MessageAddedEvent,
    ModelMessageEvent,
    ModelStreamUpdateEvent,
    ToolResultEvent,
    ToolStreamUpdateEvent,
)
from graphkit.models import ScriptedModel, ToolCall
from graphkit.plugins import Plugin, hook
from graphkit.types import Interrupt, interrupt
from graphkit.types.exceptions import ConcurrencyException
from tests.agents.conftest import Answers, Door, Session, agent_of, script
from tests.conftest import response

ran: list[str] = []


@pytest.fixture(autouse=True)
def nothing_has_run() -> None:
    ran.clear()


@tool
def add(a: int, b: int) -> int:
    """Adds."""
    ran.append(f"add {a} {b}")
    return a + b


@tool
def multiply(a: int, b: int) -> int:
    """Multiplies."""
    ran.append(f"multiply {a} {b}")
    return a * b


@tool
async def counts(to: int) -> Any:
    """Counts."""
    for number in range(to):
        yield number
    yield "counted"


ADD = ToolCall("add", {"a": 2, "b": 3}, "t1")


def adding(*turns: Any, **options: Any) -> Agent:
    return agent_of(*(turns or ([ADD], "five")), tools=[add, multiply], **options)


def heard(agent: Agent, kind: type[Any]) -> list[Any]:
    """The events of a kind, as they come."""
    events: list[Any] = []
    agent.add_hook(events.append, kind)
    return events


def results(agent: Agent) -> list[Any]:
    return [
        block["toolResult"]
        for message in agent.messages
        for block in message["content"]
        if "toolResult" in block
    ]


def open_questions(result: AgentResult) -> Sequence[Interrupt]:
    assert result.stop_reason == "interrupt" and result.interrupts
    return result.interrupts


def texts(agent: Agent) -> list[str]:
    return [block["text"] for message in agent.messages for block in message["content"] if "text" in block]


# --- What is told ---------------------------------------------------------------------------------------


def test_what_the_events_of_a_request_tell(door: Door) -> None:
    agent = adding()
    events: dict[type[Any], list[Any]] = {}
    agent.add_hook(lambda event: events.setdefault(type(event), []).append(event), HookEvent)
    state: dict[str, Any] = {"connection": object()}
    result = door(agent, "2 + 3?", invocation_state=state)

    for kind, those in events.items():
        assert all(event.agent is agent for event in those)
        assert all(event.invocation_state is state for event in those), kind
    prompt, call, answer, last = agent.messages

    (before,) = events[BeforeInvocationEvent]
    assert before.messages == [{"role": "user", "content": [{"text": "2 + 3?"}]}]
    assert [event.message for event in events[MessageAddedEvent]] == [prompt, call, answer, last]
    assert len(events[BeforeModelCallEvent]) == 2
    assert [event.stop_response.stop_reason for event in events[AfterModelCallEvent]] == [
        "tool_use",
        "end_turn",
    ]
    assert [event.stop_response.message for event in events[AfterModelCallEvent]] == [call, last]
    assert [event.exception for event in events[AfterModelCallEvent]] == [None, None]
    assert [(event.message, event.stop_reason) for event in events[ModelMessageEvent]] == [
        (call, "tool_use"),
        (last, "end_turn"),
    ]
    assert events[ModelStreamUpdateEvent][0].event == {"messageStart": {"role": "assistant"}}
    assert [event.content_block for event in events[ContentBlockEvent]] == [
        {"toolUse": {"toolUseId": "t1", "name": "add", "input": {"a": 2, "b": 3}}},
        {"text": "five"},
    ]
    assert [event.message for event in events[BeforeToolsEvent]] == [call]
    assert [event.message for event in events[AfterToolsEvent]] == [answer]

    (before_call,), (after_call,) = events[BeforeToolCallEvent], events[AfterToolCallEvent]
    assert before_call.selected_tool is after_call.selected_tool is agent.tool_registry.get("add")
    assert before_call.tool_use == {"toolUseId": "t1", "name": "add", "input": {"a": 2, "b": 3}}
    assert (before_call.tool_use.name, before_call.tool_use.tool_use_id) == ("add", "t1")
    assert after_call.result == {"toolUseId": "t1", "status": "success", "content": [{"text": "5"}]}
    assert (after_call.exception, after_call.cancel_message) == (None, None)
    assert after_call.duration >= 0
    assert [event.result for event in events[ToolResultEvent]] == [after_call.result]

    (shown,), (after,) = events[AgentResultEvent], events[AfterInvocationEvent]
    assert shown.result is after.result
    assert after.result.stop_reason == result.stop_reason == "end_turn"
    assert after.result.message == result.message == last


def test_progress_of_a_tool_is_told_one_by_one(door: Door) -> None:
    agent = agent_of(ToolCall("counts", {"to": 3}), "done", tools=[counts])
    progress = heard(agent, ToolStreamUpdateEvent)
    door(agent, "count")
    assert [event.event for event in progress] == [0, 1, 2, "counted"]
    assert {event.tool_use.name for event in progress} == {"counts"}


def test_an_unknown_tool_and_one_that_raises_are_told_too(door: Door) -> None:
    @tool
    def broken() -> None:
        """Raises."""
        raise problem

    problem = KeyError("gone")
    agent = agent_of([ToolCall("nonesuch", {}), ToolCall("broken", {})], "done", tools=[broken])
    before, after = heard(agent, BeforeToolCallEvent), heard(agent, AfterToolCallEvent)
    door(agent, "go")
    by_name = {event.tool_use.name: event for event in after}
    assert {event.tool_use.name: event.selected_tool is None for event in before} == {
        "nonesuch": True,
        "broken": False,
    }
    assert by_name["nonesuch"].result["content"] == [{"text": "Unknown tool: nonesuch"}]
    assert str(by_name["nonesuch"].exception) == "Unknown tool: nonesuch"
    assert by_name["broken"].exception is problem


def test_an_agent_is_initialized_once_when_all_is_registered() -> None:
    seen: list[Any] = []

    class Watching(Plugin):
        name = "watching"

        @hook
        def ready(self, event: AgentInitializedEvent) -> None:
            seen.append((event.agent.name, event.agent.tool_names))

        @tool
        def own(self) -> None:
            """The plugin's own."""

    class Provider:
        def register_hooks(self, registry: HookRegistry) -> None:
            registry.add_callback(AgentInitializedEvent, lambda event: seen.append("provider"))

    agent = agent_of("hi", name="it", tools=[add], hooks=[Provider()], plugins=[Watching()])
    assert seen == ["provider", ("it", ["add", "own"])]
    agent("hello")
    assert len(seen) == 2


def test_a_batch_that_fails_ends_too(door: Door) -> None:
    """S80: after an error in it as after everything else."""

    def break_down(event: BeforeToolCallEvent) -> None:
        raise OSError("no line")

    agent = adding(hooks=[break_down])
    after = heard(agent, AfterToolsEvent)
    with pytest.raises(OSError, match="no line"):
        door(agent, "2 + 3?")
    assert [event.message for event in after] == [{"role": "user", "content": []}]


def test_the_end_of_a_batch_tells_the_results_that_there_are(door: Door, session: Session) -> None:
    """Those of calls that have ended, also in an earlier process, while others wait for answers. As in Strands."""

    def ask(event: BeforeToolCallEvent) -> None:
        if event.tool_use.name == "multiply":
            event.interrupt("first")
            event.interrupt("second")

    told: list[list[str]] = []

    def look(event: AfterToolsEvent) -> None:
        assert event.message["role"] == "user"
        told.append([block["toolResult"]["toolUseId"] for block in event.message["content"]])

    def made(*turns: Any) -> Agent:
        return session.agent(*turns, tools=[add, multiply], hooks=[ask, look])

    batch = [ToolCall("multiply", {"a": 2, "b": 3}, "t1"), ToolCall("add", {"a": 2, "b": 3}, "t2")]
    door(made(batch, "done"), "go")
    for answer in ("one", "two"):
        agent = made()
        (question,) = agent.interrupts
        door(agent, [response(question, answer)])
    assert told == [["t2"], ["t2"], ["t1", "t2"]]


def test_results_may_be_changed_at_the_end_of_their_batch(door: Door, session: Session) -> None:
    def shorten(event: AfterToolsEvent) -> None:
        event.message["content"][0]["toolResult"]["content"] = [{"text": "short"}]

    agent = session.agent(ToolCall("add", {"a": 2, "b": 3}), "done", tools=[add], hooks=[shorten])
    added = heard(agent, MessageAddedEvent)
    door(agent, "go")
    assert results(session.agent())[0]["content"] == [{"text": "short"}]
    assert added[2].message["content"][0]["toolResult"]["content"] == [{"text": "short"}]
    sent = session.model.requests[1].messages[2]["content"][0]["toolResult"]
    assert sent["content"] == [{"text": "short"}]


def test_a_question_is_told_as_long_as_it_is_open(door: Door) -> None:
    """S87: once for each that nobody has answered."""
    agent = adding([ADD, ToolCall("multiply", {"a": 2, "b": 3}, "t2")], "done")
    agent.add_hook(lambda event: event.interrupt("ok?"), BeforeToolCallEvent)
    told = heard(agent, InterruptEvent)
    first, second = open_questions(door(agent, "go"))
    assert [event.interrupt.id for event in told] == [first.id, second.id]
    told.clear()
    assert open_questions(door(agent, [response(first, "y")])) == [second]
    assert [event.interrupt.id for event in told] == [second.id]
    told.clear()
    assert str(door(agent, [response(second, "y")])) == "done\n"
    assert told == []


# --- What is written ------------------------------------------------------------------------------------


def rewrites(event: BeforeInvocationEvent) -> None:
    event.messages = [{"role": "user", "content": [{"text": "rewritten"}]}]


def edits(event: BeforeInvocationEvent) -> None:
    assert event.messages is not None
    event.messages[0]["content"][0]["text"] = "rewritten"


@pytest.mark.parametrize("callback", [rewrites, edits])
def test_the_messages_of_a_request_can_be_rewritten(door: Door, callback: Callable[[Any], None]) -> None:
    given = [{"role": "user", "content": [{"text": "given"}]}]
    agent = agent_of("fine", hooks=[callback])
    added = heard(agent, MessageAddedEvent)
    door(agent, given)
    assert texts(agent) == ["rewritten", "fine"]
    assert added[0].message == agent.messages[0]
    assert given == [{"role": "user", "content": [{"text": "given"}]}]
    assert script(agent).requests[0].messages == agent.messages[:1]


@pytest.mark.parametrize("cancel", [True, "not today"])
def test_a_request_can_be_cancelled(door: Door, cancel: bool | str) -> None:
    """S112."""
    agent = adding()
    after = heard(agent, AfterInvocationEvent)
    denied = [True]

    def deny(event: BeforeInvocationEvent) -> None:
        event.cancel = denied[0] and cancel

    agent.add_hook(deny)
    result = door(agent, "2 + 3?")
    assert result.stop_reason == "end_turn"
    said = str(result).strip()
    assert said == cancel if isinstance(cancel, str) else said
    assert script(agent).requests == []
    assert "2 + 3?" not in texts(agent)
    assert len(after) == 1
    denied[0] = False
    assert str(door(agent, "2 + 3?")) == "five\n"


def test_a_resume_can_be_cancelled_and_the_answer_stays(door: Door, answers: Answers) -> None:
    """S112, D-5."""
    agent = adding()
    agent.add_hook(lambda event: event.interrupt("ok?"), BeforeToolCallEvent)
    asked = door(agent, "2 + 3?")
    denied = [True]

    def deny(event: BeforeInvocationEvent) -> None:
        assert event.messages is None
        event.cancel = "later" if denied[0] else False

    agent.add_hook(deny)
    result = door(agent, answers(asked, "yes"))
    assert (result.stop_reason, str(result)) == ("end_turn", "later\n")
    assert ran == []
    denied[0] = False
    assert str(door(agent, None)) == "five\n"
    assert ran == ["add 2 3"]


@pytest.mark.parametrize("cancel", [True, "not today"])
def test_a_call_of_the_model_can_be_cancelled(door: Door, cancel: bool | str) -> None:
    """S113: the text is its answer."""
    agent = adding()
    after = heard(agent, AfterModelCallEvent)

    def deny(event: BeforeModelCallEvent) -> None:
        event.cancel = cancel

    agent.add_hook(deny)
    result = door(agent, "2 + 3?")
    assert result.stop_reason == "end_turn"
    assert script(agent).requests == []
    said = texts(agent)[1]
    assert said == cancel if isinstance(cancel, str) else said
    assert [event.stop_response.message for event in after] == [agent.messages[1]]


def test_an_answer_of_the_model_can_be_refused(door: Door) -> None:
    """S103: what is refused is not part of the conversation."""
    agent = agent_of("bad", "worse", "good")
    begun = heard(agent, BeforeModelCallEvent)

    async def refuse(event: AfterModelCallEvent) -> None:
        await asyncio.sleep(0)
        assert event.stop_response is not None
        event.retry = event.stop_response.message["content"][0]["text"] != "good"

    agent.add_hook(refuse)
    assert str(door(agent, "hello")) == "good\n"
    assert texts(agent) == ["hello", "good"]
    assert len(begun) == 3


@pytest.mark.parametrize("cancel", [True, "not today"])
def test_a_batch_can_be_cancelled(door: Door, cancel: bool | str) -> None:
    """S18, S114."""
    agent = adding([ADD, ToolCall("multiply", {"a": 2, "b": 3}, "t2")], "so not")
    calls, after = heard(agent, BeforeToolCallEvent), heard(agent, AfterToolsEvent)

    def deny(event: BeforeToolsEvent) -> None:
        names = [block["toolUse"]["name"] for block in event.message["content"] if "toolUse" in block]
        assert names == ["add", "multiply"]
        event.cancel = cancel

    agent.add_hook(deny)
    assert str(door(agent, "go")) == "so not\n"
    assert (ran, calls, len(after)) == ([], [], 1)
    assert [(result["toolUseId"], result["status"]) for result in results(agent)] == [
        ("t1", "error"),
        ("t2", "error"),
    ]
    if isinstance(cancel, str):
        assert {result["content"][0]["text"] for result in results(agent)} == {cancel}


@pytest.mark.parametrize(
    ("end", "said"),
    [(True, None), ("that is it", [{"text": "that is it"}]), ([{"text": "a"}, {"text": "b"}], None)],
)
def test_a_turn_can_end_after_its_tools(door: Door, end: Any, said: Any) -> None:
    agent = adding()

    def stop(event: AfterToolsEvent) -> None:
        event.end_turn = end

    agent.add_hook(stop)
    result = door(agent, "2 + 3?")
    assert result.stop_reason == "end_turn"
    assert len(script(agent).requests) == 1
    assert [message["role"] for message in agent.messages] == ["user", "assistant", "user", "assistant"]
    if end is not True:
        assert result.message["content"] == (said or end)


@pytest.mark.parametrize("spelling", ["cancel_tool", "cancel"])
@pytest.mark.parametrize("cancel", [True, "not today"])
def test_a_call_of_a_tool_can_be_cancelled(door: Door, spelling: str, cancel: bool | str) -> None:
    """S17, S104."""
    agent = adding([ADD, ToolCall("multiply", {"a": 2, "b": 3}, "t2")], "half of it")
    after = heard(agent, AfterToolCallEvent)

    def deny(event: BeforeToolCallEvent) -> None:
        if event.tool_use.name == "add":
            setattr(event, spelling, cancel)

    agent.add_hook(deny)
    door(agent, "go")
    assert ran == ["multiply 2 3"]
    first, second = results(agent)
    assert (first["toolUseId"], first["status"], second["status"]) == ("t1", "error", "success")
    text = first["content"][0]["text"]
    assert text == cancel if isinstance(cancel, str) else text
    assert {event.tool_use.name: event.cancel_message for event in after} == {"add": text, "multiply": None}


def in_place(event: BeforeToolCallEvent) -> None:
    event.tool_use["input"]["a"] = 20


def by_attribute(event: BeforeToolCallEvent) -> None:
    event.tool_use.input = {"a": 20, "b": 3}


def assigned(event: BeforeToolCallEvent) -> None:
    event.tool_use = {**event.tool_use, "input": {"a": 20, "b": 3}}  # type: ignore[assignment]


@pytest.mark.parametrize("callback", [in_place, by_attribute, assigned])
def test_the_input_of_a_call_can_be_rewritten_and_the_model_sees_it(
    door: Door, callback: Callable[[Any], None]
) -> None:
    """S106."""
    agent = adding(hooks=[callback])
    door(agent, "2 + 3?")
    assert ran == ["add 20 3"]
    assert agent.messages[1]["content"][0]["toolUse"]["input"] == {"a": 20, "b": 3}
    sent = script(agent).requests[1].messages[1]["content"]
    assert sent == agent.messages[1]["content"]


def test_a_call_that_is_renamed_calls_the_tool_of_that_name(door: Door) -> None:
    """S107."""
    agent = adding()

    def rename(event: BeforeToolCallEvent) -> None:
        event.tool_use.name = "multiply"

    agent.add_hook(rename)
    door(agent, "2 + 3?")
    assert ran == ["multiply 2 3"]
    assert agent.messages[1]["content"][0]["toolUse"]["name"] == "multiply"


def test_a_call_with_another_id_has_its_result_under_that(door: Door) -> None:
    agent = adding()

    def change(event: BeforeToolCallEvent) -> None:
        event.tool_use.toolUseId = "mine"

    agent.add_hook(change)
    assert str(door(agent, "2 + 3?")) == "five\n"
    assert agent.messages[1]["content"][0]["toolUse"]["toolUseId"] == "mine"
    assert [result["toolUseId"] for result in results(agent)] == ["mine"]


def test_another_tool_can_be_selected_and_wins_over_a_new_name(door: Door) -> None:
    """S105."""
    agent = adding()

    @tool
    def subtract(a: int, b: int) -> int:
        """Subtracts; the agent does not have it."""
        ran.append(f"subtract {a} {b}")
        return a - b

    def select(event: BeforeToolCallEvent) -> None:
        event.selected_tool = subtract
        event.tool_use.name = "multiply"

    agent.add_hook(select)
    door(agent, "2 + 3?")
    assert ran == ["subtract 2 3"]
    assert results(agent)[0]["content"] == [{"text": "-1"}]


def test_a_selected_tool_that_is_none_is_the_callback_s_fault(door: Door) -> None:
    agent = adding([ADD], "five", "five")
    wrong = [True]

    def select(event: BeforeToolCallEvent) -> None:
        if wrong[0]:
            event.selected_tool = str.upper

    agent.add_hook(select)
    with pytest.raises(TypeError, match=r"is no tool|decorate it with @tool"):
        door(agent, "2 + 3?")
    wrong[0] = False
    assert str(door(agent)) == "five\n"


def test_a_wrong_resume_is_the_callback_s_fault(door: Door) -> None:
    agent = agent_of("one", "two")
    wrong: list[Any] = [5]

    def goes_on(event: AfterInvocationEvent) -> None:
        event.resume = wrong[0]

    agent.add_hook(goes_on)
    with pytest.raises(TypeError, match=r"5 .* is no prompt"):
        door(agent, "hello")
    wrong[0] = None
    assert str(door(agent)) == "one\n"
    assert str(door(agent, "again")) == "two\n"


def test_a_result_can_be_refused(door: Door) -> None:
    """S109: the tool is called again with the same id."""
    agent = adding()
    tries = heard(agent, BeforeToolCallEvent)

    def refuse(event: AfterToolCallEvent) -> None:
        event.retry = len(tries) < 3

    agent.add_hook(refuse)
    door(agent, "2 + 3?")
    assert ran == ["add 2 3"] * 3
    assert [event.tool_use.toolUseId for event in tries] == ["t1"] * 3
    assert len(results(agent)) == 1


def test_a_refused_try_has_shown_its_progress(door: Door) -> None:
    """S140: what was shown of it cannot be taken back; its result is never shown nor said."""
    tries: list[int] = []

    @tool
    def flaky() -> Any:
        """Shows its progress, and fails at first."""
        tries.append(len(tries) + 1)
        yield f"try {len(tries)}"
        if len(tries) == 1:
            raise OSError("no line")
        yield "done"

    agent = agent_of(ToolCall("flaky", {}, "t1"), "well", tools=[flaky])
    shown, ended = heard(agent, ToolStreamUpdateEvent), heard(agent, ToolResultEvent)

    def insist(event: AfterToolCallEvent) -> None:
        event.retry = event.exception is not None

    agent.add_hook(insist)
    door(agent, "go")
    assert [(event.event, event.tool_use.toolUseId) for event in shown] == [
        ("try 1", "t1"),
        ("try 2", "t1"),
        ("done", "t1"),
    ]
    assert [event.result["content"] for event in ended] == [[{"text": "done"}]]
    assert [result["content"] for result in results(agent)] == [[{"text": "done"}]]


def test_a_message_that_is_changed_when_it_was_added_stays_changed(door: Door) -> None:
    agent = adding()

    def sign(event: MessageAddedEvent) -> None:
        event.message["content"].append({"text": f"signed {event.message['role']}"})

    agent.add_hook(sign)
    door(agent, "2 + 3?")
    assert texts(agent) == [
        "2 + 3?", "signed user", "signed assistant", "signed user", "five", "signed assistant",
    ]  # fmt: skip
    signed = [message["content"][-1] for message in script(agent).requests[1].messages]
    assert signed == [{"text": "signed user"}, {"text": "signed assistant"}, {"text": "signed user"}]


def test_a_result_that_is_changed_when_it_was_added_stays_changed_when_the_model_fails(door: Door) -> None:
    agent = adding([ADD], RuntimeError("away"), "five")
    changed: list[int] = []

    def sign(event: MessageAddedEvent) -> None:
        if "toolResult" in event.message["content"][0]:
            changed.append(1)
            event.message["content"][0]["toolResult"]["content"] = [{"text": "5, surely"}]

    agent.add_hook(sign)
    with pytest.raises(RuntimeError, match="away"):
        door(agent, "2 + 3?")
    assert str(door(agent)) == "five\n"
    assert changed == [1]
    sent = script(agent).requests[-1].messages[-1]["content"][0]["toolResult"]
    assert sent["content"] == results(agent)[0]["content"] == [{"text": "5, surely"}]


# --- Questions about one answer after the other ---------------------------------------------------------


def asks_after_each_answer(event: AfterModelCallEvent) -> None:
    """Has a person accept what the model says; each answer is a question of its own."""
    assert event.stop_response is not None
    said = event.stop_response.message["content"][0]["text"]
    event.retry = event.interrupt("good?", reason=said) == "no"


def asks_after_each_try(event: AfterToolCallEvent) -> None:
    event.retry = event.interrupt("good?", reason=event.result["content"][0]["text"]) == "no"


def test_every_answer_of_the_model_is_a_question_of_its_own(
    session: Session, door: Door, answers: Answers
) -> None:
    """What a person said of one answer is not said of the next."""
    result = door(session.agent("bad", "worse", "good", hooks=[asks_after_each_answer]), "hello")
    for said in ("bad", "worse"):
        assert [question.reason for question in open_questions(result)] == [said]
        result = door(session.agent(), answers(result, "no"))
    assert [question.reason for question in open_questions(result)] == ["good"]
    agent = session.agent()
    assert str(door(agent, answers(result, "yes"))) == "good\n"
    assert texts(agent) == ["hello", "good"]
    assert len(session.model.requests) == 3


def test_every_try_of_a_tool_is_a_question_of_its_own(session: Session, door: Door, answers: Answers) -> None:
    tries: list[int] = []

    @tool
    def guess() -> int:
        """Guesses."""
        tries.append(len(tries))
        return tries[-1]

    calls = [ToolCall("guess", {}, "t1"), ToolCall("add", {"a": 2, "b": 3}, "t2")]
    options = {"tools": [guess, add], "hooks": [asks_after_each_try]}
    result = door(session.agent(calls, "done", **options), "guess")
    assert sorted(question.reason for question in open_questions(result)) == ["0", "5"]
    given = [
        response(question, "no" if question.reason == "0" else "yes") for question in open_questions(result)
    ]
    result = door(session.agent(), given)
    assert [question.reason for question in open_questions(result)] == ["1"]
    agent = session.agent()
    assert str(door(agent, answers(result, "yes"))) == "done\n"
    assert [result["content"][0]["text"] for result in results(agent)] == ["1", "5"]
    assert (tries, ran) == ([0, 1], ["add 2 3"])


def test_a_question_before_a_try_is_answered_for_all_tries(
    session: Session, door: Door, answers: Answers
) -> None:
    """A retried call is the same call: whoever allowed it is not asked again; what comes of it is asked anew."""

    def allow(event: BeforeToolCallEvent) -> None:
        assert event.interrupt("may it?") == "yes"
        assert interrupt({"plain": "really?"}) == "yes"

    options = {"tools": [add], "hooks": [allow, asks_after_each_try]}
    result = door(session.agent([ADD], "done", **options), "add")
    asked = []
    for answer in ("yes", "yes", "no", "yes"):
        (question,) = open_questions(result)
        asked.append(question.reason)
        result = door(session.agent(), [response(question, answer)])
    assert asked == [None, {"plain": "really?"}, "5", "5"]
    assert (str(result), ran) == ("done\n", ["add 2 3"] * 2)


def test_each_request_ends_with_its_own_result_also_if_its_end_asks(
    session: Session, door: Door, answers: Answers
) -> None:
    def asks(event: AfterInvocationEvent) -> None:
        assert event.result is not None
        event.interrupt("enough?", reason=event.result.stop_reason)

    options = {"hooks": [asks]}
    agent = session.agent("done", **options)
    shown = heard(agent, AgentResultEvent)
    result = door(agent, "hello")
    assert [question.reason for question in open_questions(result)] == ["end_turn"]
    assert shown[-1].result.stop_reason == "interrupt"
    agent = session.agent()
    shown = heard(agent, AgentResultEvent)
    result = door(agent, answers(result, "yes"))
    assert (result.stop_reason, str(result)) == ("end_turn", "done\n")
    assert [event.result.stop_reason for event in shown] == ["end_turn"]


# --- Callbacks that fail, come late, wait ---------------------------------------------------------------


FAILING = [
    BeforeInvocationEvent, MessageAddedEvent, BeforeModelCallEvent, ModelStreamUpdateEvent, ContentBlockEvent,
    ModelMessageEvent, AfterModelCallEvent, BeforeToolsEvent, BeforeToolCallEvent, ToolResultEvent,
    AfterToolCallEvent, AfterToolsEvent,
]  # fmt: skip


@pytest.mark.parametrize("kind", FAILING)
@pytest.mark.parametrize("waits", [False, True])
def test_what_a_callback_raises_reaches_the_caller_and_the_turn_can_go_on(
    door: Door, kind: type[Any], waits: bool
) -> None:
    """S69: as it is, with a note that says whose it is."""
    problem = ValueError("not like this")
    failing = [True]

    def fails(event: Any) -> None:
        if failing[0]:
            raise problem

    async def fails_later(event: Any) -> None:
        await asyncio.sleep(0)
        fails(event)

    agent = adding([ADD], [ADD], "five", "five")
    agent.add_hook(fails_later if waits else fails, kind)
    ended = heard(agent, AfterInvocationEvent)
    with pytest.raises(ValueError, match="not like this") as raised:
        door(agent, "2 + 3?")
    assert raised.value is problem
    assert any(f"a callback of {kind.__name__}" in note for note in problem.__notes__)
    assert [event.result for event in ended] == [None]
    assert "toolUse" not in agent.messages[-1]["content"][-1] if agent.messages else True

    failing[0] = False
    result = door(agent, None if agent.messages else "2 + 3?")
    assert (result.stop_reason, str(result)) == ("end_turn", "five\n")


def test_a_callback_that_is_added_during_a_request_is_heard(door: Door) -> None:
    agent = adding()
    late: list[Any] = []

    def adds(event: BeforeInvocationEvent) -> None:
        agent.add_hook(late.append, AfterToolCallEvent)

    agent.add_hook(adds)
    door(agent, "2 + 3?")
    assert len(late) == 1


@pytest.mark.parametrize("waits", [False, True])
def test_a_callback_may_call_another_agent(door: Door, waits: bool) -> None:
    other = agent_of("be brief", tools=[add])
    told = heard(other, BeforeModelCallEvent)

    def asks_for_advice(event: BeforeModelCallEvent) -> None:
        event.invocation_state["advice"] = str(other("how?"))

    async def asks_for_advice_later(event: BeforeModelCallEvent) -> None:
        event.invocation_state["advice"] = str(await other.invoke_async("how?"))

    agent = agent_of("ok")
    agent.add_hook(asks_for_advice_later if waits else asks_for_advice)
    result = door(agent, "hello")
    assert result.invocation_state["advice"] == "be brief\n"
    assert str(result) == "ok\n"
    assert [event.agent for event in told] == [other]
    assert (texts(agent), texts(other)) == (["hello", "ok"], ["how?", "be brief"])


@pytest.mark.parametrize("waits", [False, True])
def test_a_callback_cannot_call_its_own_agent_on_the_same_thread(door: Door, waits: bool) -> None:
    agent = agent_of("ok", "never", "ok")
    refused: list[type[BaseException]] = []

    def calls_itself(event: BeforeModelCallEvent) -> None:
        if refused:
            return
        try:
            agent("again")
        except ConcurrencyException as error:
            refused.append(type(error))

    async def calls_itself_later(event: BeforeModelCallEvent) -> None:
        if refused:
            return
        try:
            await agent.invoke_async("again")
        except ConcurrencyException as error:
            refused.append(type(error))

    agent.add_hook(calls_itself_later if waits else calls_itself)
    assert str(door(agent, "hello")) == "ok\n"
    assert refused == [ConcurrencyException]
    assert texts(agent) == ["hello", "ok"]


def test_a_callback_hears_the_agent_s_own_conversation_and_state(door: Door) -> None:
    agent = adding()
    seen: list[Any] = []

    def looks(event: AfterToolCallEvent) -> None:
        event.agent.state.set("last", event.tool_use.name)
        seen.append(([message["role"] for message in event.agent.messages], event.agent.state.get("last")))

    agent.add_hook(looks)
    door(agent, "2 + 3?")
    assert seen == [(["user", "assistant"], "add")]
    assert agent.state.get() == {"last": "add"}


def test_an_agent_can_be_called_with_no_hook_at_all(door: Door) -> None:
    agent = Agent(
        ScriptedModel([[ADD], "five"]), tools=[add], callback_handler=None, retry_strategy=None,
    )  # fmt: skip
    assert str(door(agent, "2 + 3?")) == "five\n"
