"""The loop itself: where a turn goes, what hooks change on its way, and the graph that it is."""

from __future__ import annotations

from typing import Any

import pytest

from graphkit import Agent, ToolContext, tool
from graphkit.errors import NoPendingInterruptError
from graphkit.hooks import (
    AfterInvocationEvent,
    AfterModelCallEvent,
    AfterToolCallEvent,
    AfterToolsEvent,
    BeforeInvocationEvent,
    BeforeModelCallEvent,
    BeforeToolCallEvent,
    BeforeToolsEvent,
    HookEvent,
    MessageAddedEvent,
    ToolResultEvent,
    ToolStreamUpdateEvent,
)
from graphkit.models import ToolCall
from graphkit.types.exceptions import ConcurrencyException
from tests.agents.conftest import Door, Session, agent_of, names, script

RAN: list[str] = []


@pytest.fixture(autouse=True)
def nothing_has_run() -> None:
    RAN.clear()


@tool
def work(name: str = "a") -> str:
    """Works."""
    RAN.append(name)
    return name


@tool
def rest(name: str = "a") -> str:
    """Rests."""
    RAN.append(f"rest {name}")
    return f"rested {name}"


def said(agent: Agent) -> list[str]:
    """What the conversation holds, in short."""
    found = []
    for message in agent.messages:
        for block in message["content"]:
            if "toolUse" in block:
                found.append(f"{block['toolUse']['name']}({block['toolUse']['input'].get('name', '')})")
            elif "toolResult" in block:
                result = block["toolResult"]
                found.append(f"{result['status']}: {result['content'][0]['text']}")
            else:
                found.append(block["text"])
    return found


def roles(agent: Agent) -> list[str]:
    return [message["role"] for message in agent.messages]


# Where a turn goes


@pytest.mark.parametrize(
    ("end_turn", "text"),
    [("that is enough", "that is enough"), ([{"text": "as blocks"}], "as blocks"), (True, None)],
)
def test_a_hook_ends_the_turn_after_the_tools(door: Door, session: Session, end_turn: Any, text: str) -> None:
    def end(event: AfterToolsEvent) -> None:
        event.end_turn = end_turn

    agent = session.agent(ToolCall("work"), "never said", tools=[work], hooks=[end])
    result = door(agent, "go")
    assert result.stop_reason == "end_turn" and len(session.model.requests) == 1
    assert roles(agent) == ["user", "assistant", "user", "assistant"]
    assert result.message == agent.messages[-1]
    assert text is None or str(result) == f"{text}\n"


def test_the_request_state_ends_the_turn_after_the_tools(door: Door) -> None:
    """As in Strands: `invocation_state["request_state"]["stop_event_loop"]`."""

    def stop(event: AfterToolCallEvent) -> None:
        event.invocation_state["request_state"] = {"stop_event_loop": True}

    agent = agent_of(ToolCall("work"), "never said", tools=[work], hooks=[stop])
    result = door(agent, "go")
    assert result.stop_reason == "tool_use" and result.state == {"stop_event_loop": True}
    assert result.message["content"][0]["toolUse"]["name"] == "work"
    assert roles(agent) == ["user", "assistant", "user"]


def test_a_tool_finds_the_request_state_and_ends_the_turn(door: Door) -> None:
    """As in Strands: `request_state` is there in each request, also in what the caller gives."""

    @tool(context=True)
    def stop(tool_context: ToolContext) -> str:
        tool_context.invocation_state["request_state"]["stop_event_loop"] = True
        return "stopped"

    given: dict[str, Any] = {"user": "u1"}
    result = door(agent_of(ToolCall("stop"), "never said", tools=[stop]), "go", invocation_state=given)
    assert result.stop_reason == "tool_use" and result.state == {"stop_event_loop": True}
    assert given == {"user": "u1", "request_state": {"stop_event_loop": True}}
    assert door(agent_of("well"), "hi").state == {}


def test_the_calls_of_a_batch_are_cancelled_together(door: Door, session: Session) -> None:
    def cancel(event: BeforeToolsEvent) -> None:
        assert [block["toolUse"]["name"] for block in event.message["content"]] == ["work", "rest"]
        event.cancel = "none of them"

    agent = session.agent([ToolCall("work"), ToolCall("rest")], "well", tools=[work, rest], hooks=[cancel])
    heard: list[Any] = []
    agent.add_hook(heard.append, [BeforeToolCallEvent, AfterToolsEvent])
    assert str(door(agent, "go")) == "well\n"
    assert RAN == [] and names(heard) == ["AfterTools"]
    assert said(agent)[3:5] == ["error: none of them", "error: none of them"]


def test_another_prompt_in_place_of_returning(door: Door, session: Session) -> None:
    """S147, S148: the whole sequence once more, in the same request."""
    prompts: list[Any] = ["shorter", [{"text": "shorter still"}]]

    def again(event: AfterInvocationEvent) -> None:
        if prompts:
            event.resume = prompts.pop(0)

    agent = session.agent("one", "two", "three", hooks=[again])
    heard: list[Any] = []
    agent.add_hook(heard.append, [BeforeInvocationEvent, AfterInvocationEvent, MessageAddedEvent])
    assert str(door(agent, "go")) == "three\n"
    assert said(agent) == ["go", "one", "shorter", "two", "shorter still", "three"]
    assert names(heard) == ["BeforeInvocation", "MessageAdded", "MessageAdded", "AfterInvocation"] * 3
    assert [event.messages[0]["content"][0]["text"] for event in heard[::4]] == [
        "go",
        "shorter",
        "shorter still",
    ]


def test_messages_in_place_of_returning_and_nobody_gets_in_between(door: Door, session: Session) -> None:
    """S147, S148: under the same claim of the thread as the request that it follows."""
    refused: list[BaseException] = []
    prompts: list[Any] = [[{"role": "user", "content": [{"text": "shorter"}]}]]

    def again(event: AfterInvocationEvent) -> None:
        if prompts:
            event.resume = prompts.pop()

    def another(event: BeforeInvocationEvent) -> None:
        with pytest.raises(ConcurrencyException) as caught:
            session.agent(hooks=[])("mine")
        refused.append(caught.value)

    agent = session.agent("one", "two", hooks=[again, another])
    assert str(door(agent, "go")) == "two\n"
    assert said(agent) == ["go", "one", "shorter", "two"] and len(refused) == 2


def test_another_prompt_that_nobody_watches(door: Door) -> None:
    prompts = ["shorter"]

    def again(event: AfterInvocationEvent) -> None:
        event.resume = prompts.pop() if prompts else None

    agent = agent_of("one", "two", hooks=[again])
    assert str(door(agent, "go")) == "two\n"
    assert said(agent) == ["go", "one", "shorter", "two"]


def test_answers_where_nothing_is_asked(door: Door) -> None:
    def answer(event: AfterInvocationEvent) -> None:
        event.resume = [{"interruptResponse": {"interruptId": "0" * 32, "response": 1}}]

    agent = agent_of("one", hooks=[answer])
    with pytest.raises(NoPendingInterruptError):
        door(agent, "go")
    assert said(agent) == ["go", "one"]


# What hooks change


def test_the_prompt_before_it_is_added(door: Door, session: Session) -> None:
    def rewrite(event: BeforeInvocationEvent) -> None:
        assert event.messages is not None
        event.messages = [*event.messages, {"role": "user", "content": [{"text": "please"}]}]

    agent = session.agent("well", hooks=[rewrite])
    door(agent, "go")
    assert said(agent) == said(session.agent()) == ["go", "please", "well"]


def test_a_call_and_what_is_called(door: Door, session: Session) -> None:
    """S104 - S107, S131: what a hook changes of a call is what runs, and what the conversation shows."""

    def change(event: BeforeToolCallEvent) -> None:
        if event.tool_use.input == {"name": "1"}:
            event.tool_use["input"] = {"name": "one"}
        elif event.tool_use.input == {"name": "2"}:
            event.tool_use = {**event.tool_use, "name": "rest"}  # type: ignore[assignment]
        elif event.tool_use.input == {"name": "3"}:
            event.selected_tool = rest

    calls = [ToolCall("work", {"name": name}) for name in "1234"]
    agent = session.agent(calls, "well", tools=[work, rest], hooks=[change])
    assert str(door(agent, "go")) == "well\n"
    assert sorted(RAN) == ["4", "one", "rest 2", "rest 3"]
    assert said(session.agent())[1:9] == [
        *("work(one)", "rest(2)", "work(3)", "work(4)"),
        *("success: one", "success: rested 2", "success: rested 3", "success: 4"),
    ]
    given = [message["content"] for message in session.model.requests[1].messages]
    assert given == [message["content"] for message in agent.messages[:-1]]


def test_the_calls_of_a_batch_in_place(door: Door, session: Session) -> None:
    def change(event: BeforeToolsEvent) -> None:
        event.message["content"][0]["toolUse"]["input"] = {"name": "changed"}

    seen: list[Any] = []
    agent = session.agent([ToolCall("work"), ToolCall("rest")], "well", tools=[work, rest], hooks=[change])
    agent.add_hook(lambda event: seen.append(event.message), AfterToolsEvent)
    door(agent, "go")
    assert sorted(RAN) == ["changed", "rest a"]
    assert said(session.agent())[1:3] == ["work(changed)", "rest()"]
    assert seen[0]["content"] == agent.messages[2]["content"]


def test_a_result_before_the_model_sees_it(door: Door, session: Session) -> None:
    def assign(event: AfterToolCallEvent) -> None:
        event.result = {**event.result, "content": [{"text": "assigned"}]}

    def in_place(event: MessageAddedEvent) -> None:
        for block in event.message["content"]:
            if "toolResult" in block:
                block["toolResult"]["content"].append({"text": "and more"})

    agent = session.agent(ToolCall("work"), "well", tools=[work], hooks=[assign, in_place])
    door(agent, "go")
    for seen in (agent.messages[2], session.agent().messages[2], session.model.requests[1].messages[2]):
        assert seen["content"][0]["toolResult"]["content"] == [{"text": "assigned"}, {"text": "and more"}]


def test_an_answer_in_place_before_it_is_stored(door: Door, session: Session) -> None:
    def sign(event: MessageAddedEvent) -> None:
        if event.message["role"] == "assistant":
            event.message["content"].append({"text": "signed"})

    agent = session.agent("well", hooks=[sign])
    assert str(door(agent, "go")) == "well\nsigned\n"
    assert said(session.agent()) == ["go", "well", "signed"]


def test_the_conversation_in_every_event(door: Door, session: Session) -> None:
    """What a hook does to `agent.messages` is what the model is given next, and what is stored."""
    lengths: dict[str, list[int]] = {}

    def count(event: HookEvent) -> None:
        lengths.setdefault(type(event).__name__.removesuffix("Event"), []).append(len(event.agent.messages))

    def shorten(event: BeforeModelCallEvent) -> None:
        del event.agent.messages[:-1]

    agent = session.agent("one", "two", hooks=[count])
    door(agent, "first")
    assert lengths["BeforeInvocation"] == [0] and lengths["MessageAdded"] == [1, 2]
    assert lengths["BeforeModelCall"] == [1] and lengths["AfterInvocation"] == [2]
    agent = session.agent(hooks=[shorten])
    door(agent, "second")
    assert said(agent) == said(session.agent()) == ["second", "two"]
    assert [message["content"] for message in session.model.requests[1].messages] == [[{"text": "second"}]]


def test_state_is_kept_whatever_becomes_of_the_task(door: Door, session: Session) -> None:
    def fail(event: AfterModelCallEvent) -> None:
        event.agent.state.set("tried", (event.agent.state.get("tried") or 0) + 1)
        raise RuntimeError("the hook is broken")

    agent = session.agent("well", hooks=[fail])
    for tries in (1, 2):
        with pytest.raises(RuntimeError, match="broken"):
            door(agent, "go" if tries == 1 else None)
        assert agent.state.get("tried") == session.agent().state.get("tried") == tries


# Trying again


def test_the_model_is_called_again(door: Door) -> None:
    texts: list[str] = []

    def insist(event: AfterModelCallEvent) -> None:
        assert event.stop_response is not None
        texts.append(event.stop_response.message["content"][0]["text"])
        event.retry = len(texts) < 3

    agent = agent_of("one", "two", "three", hooks=[insist])
    heard: list[Any] = []
    agent.add_hook(heard.append, [BeforeModelCallEvent, AfterModelCallEvent, MessageAddedEvent])
    assert str(door(agent, "go")) == "three\n"
    assert texts == ["one", "two", "three"] and said(agent) == ["go", "three"]
    assert names(heard)[1:] == [*("BeforeModelCall", "AfterModelCall") * 3, "MessageAdded"]


def test_a_model_that_failed_is_called_again(door: Door) -> None:
    agent = agent_of(OSError("no line"), "well")
    agent.add_hook(lambda event: setattr(event, "retry", event.exception is not None), AfterModelCallEvent)
    assert str(door(agent, "go")) == "well\n"


def test_a_model_that_need_not_be_called(door: Door) -> None:
    agent = agent_of("never said")
    agent.add_hook(lambda event: setattr(event, "cancel", "cached"), BeforeModelCallEvent)
    after: list[Any] = []
    agent.add_hook(after.append, AfterModelCallEvent)
    result = door(agent, "go")
    assert (result.stop_reason, str(result)) == ("end_turn", "cached\n")
    assert script(agent).requests == []
    assert after[0].stop_response.message == result.message


def test_a_tool_is_called_again(door: Door) -> None:
    tries: list[str] = []

    @tool
    def flaky() -> str:
        """Works the third time."""
        tries.append("x")
        if len(tries) < 3:
            raise OSError(f"no line {len(tries)}")
        return "done"

    def insist(event: AfterToolCallEvent) -> None:
        event.retry = event.exception is not None

    agent = agent_of(ToolCall("flaky", id="t"), "well", tools=[flaky], hooks=[insist])
    heard: list[Any] = []
    agent.add_hook(heard.append, [BeforeToolCallEvent, AfterToolCallEvent, ToolResultEvent])
    door(agent, "go")
    assert said(agent)[2] == "success: done"
    assert names(heard) == [
        *("BeforeToolCall", "AfterToolCall") * 2,
        "BeforeToolCall",
        "ToolResult",
        "AfterToolCall",
    ]
    assert {event.tool_use["toolUseId"] for event in heard} == {"t"}
    assert [str(event.exception) for event in heard if isinstance(event, AfterToolCallEvent)] == [
        *("no line 1", "no line 2"),
        "None",
    ]


def test_an_error_of_a_tool_is_shown_once_it_stays(door: Door) -> None:
    agent = agent_of(ToolCall("nowhere"), "well")
    heard: list[Any] = []
    agent.add_hook(heard.append, [BeforeToolCallEvent, AfterToolCallEvent, ToolResultEvent])
    door(agent, "go")
    assert names(heard) == ["BeforeToolCall", "AfterToolCall", "ToolResult"]
    assert heard[0].selected_tool is None
    assert said(agent)[2] == "error: Unknown tool: nowhere"


def test_what_a_tool_yields_is_shown_while_it_runs(door: Door) -> None:
    order: list[Any] = []

    @tool
    def steps() -> Any:
        """Takes two steps."""
        yield "one"
        order.append("after one")
        yield "two"
        order.append("after two")
        yield "end"

    agent = agent_of(ToolCall("steps"), "well", tools=[steps])
    agent.add_hook(lambda event: order.append(event.event), ToolStreamUpdateEvent)
    door(agent, "go")
    assert order == ["one", "after one", "two", "after two", "end"]
    assert said(agent)[2] == "success: end"


# The graph


def test_each_call_of_the_model_and_of_a_tool_is_a_task(session: Session) -> None:
    agent = session.agent([ToolCall("work"), ToolCall("rest")], "well", tools=[work, rest])
    agent("go")
    ran = [
        (snapshot.metadata or {})["source"]
        for snapshot in agent.graph.get_state_history(agent.thread().config)
    ]
    assert ran == ["loop"] * 4 + ["input"]


def test_the_graph_runs_without_a_request_around_it() -> None:
    agent = agent_of(ToolCall("work"), "well", tools=[work])
    values = agent.graph.invoke(
        {"prompt": [{"role": "user", "content": [{"text": "go"}]}]}, agent.thread().config
    )
    assert values["outcome"] == {"stop_reason": "end_turn"}
    assert said(agent) == ["go", "work()", "success: a", "well"]


def test_a_breakpoint_before_the_tools() -> None:
    agent = agent_of(ToolCall("work"), "well", tools=[work])
    prompt = {"prompt": [{"role": "user", "content": [{"text": "go"}]}]}
    paused = agent.graph.run(prompt, agent.thread().config, interrupt_before=["tools"])
    assert (paused.status, paused.next) == ("paused", ("tools",)) and RAN == []
    assert str(agent()) == "well\n"
    assert RAN == ["a"]


def test_what_is_said_is_shown_as_messages_of_the_graph() -> None:
    agent = agent_of(ToolCall("work"), "well", tools=[work])
    prompt = {"prompt": [{"role": "user", "content": [{"text": "go"}]}]}
    shown = list(agent.graph.stream(prompt, agent.thread().config, stream_mode="messages"))
    assert [(about["langgraph_node"], message["role"]) for message, about in shown] == [
        *(("before", "user"), ("model", "assistant"), ("model", "assistant")),
    ]
