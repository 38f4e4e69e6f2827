"""The conversation of an agent, as user code finds and changes it: between requests, in hooks, in tools."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graphkit import tool
from graphkit.hooks import (
    AfterInvocationEvent,
    AfterModelCallEvent,
    AfterToolCallEvent,
    BeforeInvocationEvent,
    BeforeModelCallEvent,
    BeforeToolCallEvent,
    BeforeToolsEvent,
    MessageAddedEvent,
)
from graphkit.models import ToolCall
from graphkit.types.content import Message
from graphkit_prebuilt.content import assistant, tool_uses, user
from graphkit_prebuilt.log import UNFINISHED
from tests.agents.conftest import Answers, Door, Session, agent_of, script


@tool
def look(query: str) -> str:
    """Look something up."""
    return f"found {query}"


def both(*queries: str) -> list[ToolCall]:
    return [ToolCall("look", {"query": query}, query) for query in queries]


def told(messages: list[Message]) -> list[Any]:
    """What was said, in short: texts, calls as `("call", id, input)`, results as `("result", id, text)`."""
    found: list[Any] = []
    for message in messages:
        for block in message["content"]:
            if "toolUse" in block:
                found.append(("call", block["toolUse"]["toolUseId"], block["toolUse"]["input"]))
            elif "toolResult" in block:
                result = block["toolResult"]
                found.append(("result", result["toolUseId"], result["content"][0].get("text")))
            else:
                found.append(block.get("text"))
    return found


def sent(agent: Any) -> list[Any]:
    """What the model was given last."""
    return told(script(agent).requests[-1].messages)


# --- Between requests -----------------------------------------------------------------------------------


def test_a_conversation_is_changed_between_requests(door: Door, session: Session) -> None:
    agent = session.agent("one", "two", "three")
    door(agent, "1")
    agent.messages[0]["content"][0]["text"] = "changed"
    agent.messages.append(user("by the way"))
    door(agent, "2")
    assert sent(agent) == ["changed", "one", "by the way", "2"]
    agent.messages = agent.messages[2:]
    door(agent, "3")
    assert told(session.agent().messages) == ["by the way", "2", "two", "3", "three"]


@pytest.mark.parametrize("mine", [[], ["mine"]], ids=["unchanged", "changed"])
def test_what_was_said_while_a_request_was_refused_is_there_once(session: Session, mine: list[str]) -> None:
    """It gives back what it has taken, though the conversation has been looked at since then."""
    agent = session.agent("one", "two", "three")
    agent("1")
    agent.messages.extend(map(user, mine))
    thread = agent.thread()
    taken = thread.take(new_turn=True)
    session.agent()("2")
    assert told(agent.messages)[-2:] == ["2", "two"]
    thread.give_back(taken)
    agent("3")
    assert told(session.agent().messages) == ["1", "one", "2", "two", *mine, "3", "three"]


def redact(event: Any) -> None:
    event.agent.messages[-1]["content"][0]["text"] += "!"


@pytest.mark.parametrize("event", [BeforeModelCallEvent, AfterModelCallEvent, AfterInvocationEvent])
@pytest.mark.parametrize("left", [[], [user("fresh"), assistant("start")]], ids=["nothing", "others"])
def test_what_was_taken_away_between_requests_does_not_come_back(
    door: Door, event: type[Any], left: list[Message]
) -> None:
    """Not even if a hook has changed it last."""
    agent = agent_of("one", "two", "three")
    agent.add_hook(redact, event)
    door(agent, "1")
    door(agent, "2")
    agent.messages = left
    door(agent, "3")
    assert [text.rstrip("!") for text in told(agent.messages)] == [*told(left), "3", "three"]
    assert [text.rstrip("!") for text in sent(agent)] == [*told(left), "3"]


def test_a_conversation_is_cleared(door: Door, session: Session) -> None:
    agent = session.agent("one", "two")
    door(agent, "1")
    agent.messages.clear()
    door(agent, "2")
    assert told(session.agent().messages) == ["2", "two"]


def test_a_conversation_is_replaced_by_another(door: Door, session: Session) -> None:
    agent = session.agent("one", "two")
    door(agent, "1")
    agent.messages = [user("hi"), assistant("hello")]
    door(agent, "2")
    assert told(session.agent().messages) == ["hi", "hello", "2", "two"]


def test_a_change_of_a_message_after_the_request_that_took_it_changes_nothing() -> None:
    agent = agent_of("one", "two")
    given = [user("hi")]
    agent(given)
    given[0]["content"][0]["text"] = "changed"
    assert told(agent.messages) == ["hi", "one"]


def test_history_keeps_what_was_said() -> None:
    agent = agent_of("one", "two")
    agent("1")
    agent.messages[0]["content"][0]["text"] = "changed"
    agent("2")
    log = agent.graph.get_state(agent.thread().config).values["messages"]
    assert told(log) == ["1", "one", "2", "two"]
    assert told(agent.messages) == ["changed", "one", "2", "two"]


# --- In hooks -------------------------------------------------------------------------------------------


def test_what_a_hook_changes_is_what_the_model_sees(door: Door, session: Session) -> None:
    agent = session.agent("one", "two")
    door(agent, "1")

    def forget(event: BeforeModelCallEvent) -> None:
        del event.agent.messages[:2]
        event.agent.messages.append(user("be brief"))

    agent.add_hook(forget)
    door(agent, "2")
    assert sent(agent) == ["2", "be brief"]
    assert told(session.agent().messages) == ["2", "be brief", "two"]


def test_what_a_hook_changes_later_in_what_was_sent_before_is_what_the_model_sees() -> None:
    agent = agent_of(both("a"), both("b"), "fine", tools=[look])

    def rewrite(event: BeforeModelCallEvent) -> None:
        if len(event.agent.messages) == 5:
            for message in event.agent.messages[:3]:
                message["content"] = [{"text": "changed"}]

    agent.add_hook(rewrite)
    agent("go")
    assert [message["content"] for message in script(agent).requests[-1].messages[:3]] == [
        [{"text": "changed"}]
    ] * 3


def test_what_a_hook_changes_in_the_blocks_of_what_was_sent_before_is_what_the_model_sees() -> None:
    """Messages that a hook has had in its hands before, and with what a model is not sent as it is."""
    begun: Any = [user("hi"), assistant(""), user("and?"), assistant("well")]
    agent = agent_of(both("a"), "fine", tools=[look], messages=begun)
    tries: list[Any] = []

    def rewrite(event: BeforeModelCallEvent) -> None:
        tries.append(asked := event.agent.messages)
        if len(tries) == 2:
            asked[0]["metadata"] = {"custom": 1}
            asked[1]["content"][0]["text"] = "hello"
            asked[2]["role"] = "assistant"
            asked[3]["content"][0]["text"] = " "

    agent.add_hook(rewrite)
    agent("go")
    second = script(agent).requests[-1].messages[:4]
    assert second[:3] == [user("hi"), assistant("hello"), assistant("and?")]
    assert second[3]["content"][0]["text"].strip()


@pytest.mark.parametrize(
    ("event_type", "conversation"),
    [
        (BeforeInvocationEvent, ["note", "go", "call", "result", "fine"]),
        (BeforeModelCallEvent, ["go", "note", "call", "result", "fine"]),
        (BeforeToolCallEvent, ["go", "call", "note", "result", "fine"]),
        (AfterToolCallEvent, ["go", "call", "note", "result", "fine"]),
        (BeforeToolsEvent, ["go", "call", "note", "result", "fine"]),
        (AfterInvocationEvent, ["go", "call", "result", "fine", "note"]),
    ],
)
def test_a_message_that_a_hook_appends_stands_where_it_was_appended(
    door: Door, session: Session, event_type: Any, conversation: list[str]
) -> None:
    agent = session.agent(both("a"), "fine", tools=[look])
    noted: list[Any] = []

    def note(event: Any) -> None:
        if not noted:
            noted.append(event)
            event.agent.messages.append(user("note"))

    agent.add_hook(note, event_type)
    door(agent, "go")
    said = [each[0] if isinstance(each, tuple) else each for each in told(session.agent().messages)]
    assert said == conversation
    assert told(agent.messages) == told(session.agent().messages)


def test_what_hooks_of_calls_side_by_side_change_is_all_kept(door: Door, session: Session) -> None:
    agent = session.agent(both("a", "b", "c"), "fine", tools=[look])

    def note(event: AfterToolCallEvent) -> None:
        event.agent.messages.append(user(f"note {event.tool_use['toolUseId']}"))

    agent.add_hook(note)
    door(agent, "go")
    said = told(session.agent().messages)
    assert sorted(each for each in said if str(each).startswith("note")) == ["note a", "note b", "note c"]
    assert [each for each in said if each[0] == "result"] == [
        ("result", each, f"found {each}") for each in "abc"
    ]
    assert said == told(agent.messages)


def test_a_message_is_changed_in_place_when_it_is_added(door: Door, session: Session) -> None:
    agent = session.agent(both("a"), "fine", tools=[look])

    def sign(event: MessageAddedEvent) -> None:
        event.message["content"].append({"text": f"seen {len(event.message['content'])}"})

    agent.add_hook(sign)
    door(agent, "go")
    wanted = ["go", "seen 1", ("call", "a", {"query": "a"}), "seen 1", ("result", "a", "found a"), "seen 1"]
    assert sent(agent) == wanted
    assert told(session.agent().messages) == [*wanted, "fine", "seen 1"]


def test_a_tool_sees_the_call_and_changes_what_was_said(door: Door, session: Session) -> None:
    seen: list[Any] = []

    @tool(context=True)
    def forget(tool_context: Any) -> str:
        """Forget the beginning."""
        messages = tool_context.agent.messages
        seen.extend(told(messages))
        messages.pop(0)
        return "forgotten"

    agent = session.agent("hello", [ToolCall("forget", {}, "f")], "fine", tools=[forget])
    door(agent, "hi")
    door(agent, "forget it")
    assert seen == ["hi", "hello", "forget it", ("call", "f", {})]
    wanted: list[Any] = ["hello", "forget it", ("call", "f", {}), ("result", "f", "forgotten")]
    assert sent(agent) == wanted
    assert told(session.agent().messages) == [*wanted, "fine"]


# --- Calls that hooks change ----------------------------------------------------------------------------


@pytest.mark.parametrize("assigned", [False, True], ids=["in place", "assigned"])
def test_a_changed_call_is_shown_as_it_was_changed(door: Door, session: Session, assigned: bool) -> None:
    agent = session.agent(both("a", "b"), "fine", tools=[look])

    def change(event: BeforeToolCallEvent) -> None:
        if event.tool_use["toolUseId"] == "b":
            if assigned:
                event.tool_use = {"toolUseId": "new", "name": "look", "input": {"query": "x"}}  # type: ignore[assignment]
            else:
                event.tool_use["toolUseId"] = "new"
                event.tool_use["input"]["query"] = "x"

    agent.add_hook(change)
    door(agent, "go")
    wanted = [
        "go",
        ("call", "a", {"query": "a"}),
        ("call", "new", {"query": "x"}),
        ("result", "a", "found a"),
        ("result", "new", "found x"),
    ]
    assert sent(agent) == wanted
    assert told(session.agent().messages) == [*wanted, "fine"]


def test_changed_calls_and_a_changed_conversation(door: Door, session: Session) -> None:
    agent = session.agent(both("a", "b"), "fine", tools=[look])

    def change(event: BeforeToolCallEvent) -> None:
        event.tool_use["input"]["query"] += "!"
        event.agent.messages.append(user("note"))

    agent.add_hook(change)
    door(agent, "go")
    wanted = ["go", *(("call", each, {"query": f"{each}!"}) for each in "ab"), "note", "note"]
    wanted += [("result", each, f"found {each}!") for each in "ab"]
    assert sent(agent) == wanted
    assert told(session.agent().messages) == [*wanted, "fine"]


# --- At rest --------------------------------------------------------------------------------------------


class Unlucky(Exception):
    pass


def failing(event: BeforeToolCallEvent) -> None:
    if event.tool_use["toolUseId"] == "b":
        raise Unlucky("b")


def failed(door: Door, session: Session) -> Any:
    """An agent whose request has failed between two calls of a batch of three."""
    agent = session.agent(both("a", "b", "c"), "fine", tools=[look])
    agent.add_hook(failing)
    with pytest.raises(Unlucky):
        door(agent, "go")
    assert told(agent.messages) == ["go"]
    assert told(session.agent().messages) == ["go"]
    return session.agent()


def test_a_failed_turn_goes_on(door: Door, session: Session) -> None:
    agent = failed(door, session)
    door(agent)
    assert told(agent.messages)[4:] == [*(("result", each, f"found {each}") for each in "abc"), "fine"]


def test_a_prompt_after_a_failed_turn_keeps_what_was_done(door: Door, session: Session) -> None:
    agent = failed(door, session)
    door(agent, "never mind")
    wanted = [
        ("result", "a", "found a"),
        ("result", "b", UNFINISHED),
        ("result", "c", "found c"),
        "never mind",
    ]
    assert sent(agent)[4:] == wanted
    assert told(session.agent().messages)[4:] == [*wanted, "fine"]


def test_a_changed_conversation_leaves_the_failed_turn_behind(door: Door, session: Session) -> None:
    agent = failed(door, session)
    agent.messages.append(assistant("sorry"))
    door(agent, "never mind")
    assert sent(agent) == ["go", "sorry", "never mind"]
    assert told(session.agent().messages) == ["go", "sorry", "never mind", "fine"]


def test_a_conversation_is_changed_while_questions_are_open(
    door: Door, session: Session, answers: Answers
) -> None:
    agent = session.agent("hello", both("a", "b"), "fine", tools=[look])
    agent.add_hook(
        lambda event: event.interrupt("sure?") if event.tool_use["name"] else None, BeforeToolCallEvent
    )
    door(agent, "hi")
    result = door(agent, "go")
    assert told(agent.messages) == ["hi", "hello", "go"]
    assert told([result.message]) == [("call", each, {"query": each}) for each in "ab"]
    del agent.messages[:2]
    done = door(agent, answers(result, True))
    wanted = ["go", *(("call", each, {"query": each}) for each in "ab")]
    wanted += [("result", each, f"found {each}") for each in "ab"]
    assert sent(agent) == wanted
    assert done.stop_reason == "end_turn"
    assert told(session.agent().messages) == [*wanted, "fine"]


def test_a_change_that_a_hook_makes_before_it_asks_is_kept(
    door: Door, session: Session, answers: Answers
) -> None:
    agent = session.agent("hello", "fine")
    door(agent, "hi")

    def ask(event: BeforeModelCallEvent) -> None:
        if len(event.agent.messages) == 3:
            del event.agent.messages[:2]
            event.interrupt("sure?")

    agent.add_hook(ask)
    result = door(agent, "go")
    assert told(session.agent(hooks=[]).messages) == ["go"]
    door(agent, answers(result, True))
    assert sent(agent) == ["go"]


def test_what_an_agent_begins_with(door: Door, session: Session) -> None:
    agent = session.agent("one", "two", messages=[user("hi"), assistant("hello")])
    assert told(agent.messages) == ["hi", "hello"]
    door(agent, "1")
    door(session.agent(), "2")
    assert sent(agent) == ["hi", "hello", "1", "one", "2"]


@pytest.mark.parametrize("heard", [False, True])
def test_calls_that_an_agent_begins_with_are_made(door: Door, session: Session, heard: bool) -> None:
    call: Any = {"toolUse": {"toolUseId": "t", "name": "look", "input": {"query": "a"}}}
    agent = session.agent("seen", tools=[look], messages=[user("look"), assistant(call)])
    if heard:
        agent.add_hook(lambda event: None, BeforeInvocationEvent)
    assert str(door(agent)) == "seen\n"
    (request,) = session.model.requests
    (result,) = request.messages[-1]["content"]
    assert result["toolResult"]["toolUseId"] == "t" and result["toolResult"]["status"] == "success"
    assert [message["role"] for message in session.agent().messages] == ["user", "assistant"] * 2


@pytest.mark.parametrize("left", [0, 1])
def test_calls_that_an_agent_begins_with_and_a_hook_takes_away_are_not_made(left: int) -> None:
    calls: Any = [
        {"toolUse": {"toolUseId": each, "name": "look", "input": {"query": each}}} for each in ("a", "b")
    ]
    agent = agent_of("seen", tools=[look], messages=[user("look"), assistant(*calls)])

    def change(event: BeforeInvocationEvent) -> None:
        messages = event.agent.messages
        if left:
            del messages[-1]["content"][left:]
        else:
            messages.clear()

    agent.add_hook(change)
    assert str(agent()) == "seen\n"
    (request,) = script(agent).requests
    assert "b" not in [call["toolUseId"] for message in request.messages for call in tool_uses(message)]


def test_messages_are_plain_json(door: Door) -> None:
    agent = agent_of(both("a"), "fine", tools=[look])
    result = door(agent, "go")
    assert json.loads(json.dumps(agent.messages)) == agent.messages
    assert json.loads(json.dumps(result.message)) == agent.messages[-1]
    assert all(type(message) is dict for message in agent.messages)


def test_looking_at_messages_costs_no_storage(session: Session) -> None:
    def stored(look_at_it: bool) -> int:
        agent = session.agent("one", "two", messages=[])
        thread = f"looked {look_at_it}"
        if look_at_it:
            agent.add_hook(
                lambda event: list(event.agent.messages), [BeforeModelCallEvent, AfterModelCallEvent]
            )
            agent.add_hook(lambda event: None, BeforeInvocationEvent)
        else:
            agent.add_hook(
                lambda event: None, [BeforeModelCallEvent, AfterModelCallEvent, BeforeInvocationEvent]
            )
        for prompt in ("1", "2"):
            agent(prompt, thread_id=thread)
        values = agent.graph.get_state(agent.thread(thread).config).values
        assert not values.get("edits")
        return len(values["messages"])

    assert stored(True) == stored(False) == 4
