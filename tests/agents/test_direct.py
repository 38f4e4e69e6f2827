"""`agent.tool.name(**input)`."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

import pytest

from graphkit import interrupt
from graphkit.agent import Agent
from graphkit.checkpoint.sqlite import SqliteSaver
from graphkit.errors import ConcurrencyException
from graphkit.hooks import (
    AfterToolCallEvent,
    BaseHookEvent,
    BeforeInvocationEvent,
    BeforeToolCallEvent,
    MessageAddedEvent,
)
from graphkit.middleware import ExecuteToolContext, ExecuteToolStage
from graphkit.models.scripted import ScriptedModel, ToolCall
from graphkit.tools import tool
from graphkit.types.tools import ToolContext


@tool
def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


@tool(name="dashed-name")
async def dashed() -> str:
    """Async."""
    await asyncio.sleep(0)
    return "done"


@tool(context=True)
def asks(tool_context: ToolContext) -> str:
    """Ask."""
    answer: str = tool_context.interrupt("approval")
    return answer


@tool
def plainly_asks() -> str:
    """Ask as nodes do."""
    answer: str = interrupt("?")
    return answer


@tool
def fails() -> None:
    """Fail."""
    raise RuntimeError("no")


TOOLS = [add, dashed, asks, plainly_asks, fails]


def agent_of(*turns: Any, **options: Any) -> Agent:
    return Agent(ScriptedModel(turns), **{"tools": TOOLS, "callback_handler": None, **options})


def success(text: str) -> dict[str, Any]:
    return {"status": "success", "content": [{"text": text}]}


def without_id(result: Any) -> dict[str, Any]:
    return {key: value for key, value in result.items() if key != "toolUseId"}


def test_a_tool_is_called_and_its_result_returned() -> None:
    agent = agent_of()
    assert without_id(agent.tool.add(a=1, b=5)) == success("6")
    assert without_id(agent.tool.dashed_name()) == success("done")
    assert without_id(agent.tool.fails()) == {"status": "error", "content": [{"text": "Error: no"}]}
    assert agent.tool.add(a="x")["status"] == "error"
    assert {"add", "dashed_name"} <= set(dir(agent.tool))


def test_an_unknown_tool_and_positional_arguments_are_refused() -> None:
    agent = agent_of()
    with pytest.raises(AttributeError, match="no tool 'nope'; it has"):
        agent.tool.nope(a=1)
    with pytest.raises(TypeError):
        agent.tool.add(1, 2)  # type: ignore
    assert agent.messages == []


def test_a_call_is_added_to_the_conversation() -> None:
    agent = agent_of("I see.")
    result = agent.tool.add(a=1, b=5)
    asked, called, answered, told = agent.messages
    (use,) = called["content"]
    assert "add" in asked["content"][0]["text"] and '{"a": 1, "b": 5}' in asked["content"][0]["text"]
    assert use["toolUse"] == {"toolUseId": result["toolUseId"], "name": "add", "input": {"a": 1, "b": 5}}
    assert answered == {"role": "user", "content": [{"toolResult": result}]}
    assert told["role"] == "assistant"
    agent("What did I do?")
    assert len(agent.messages) == 6
    json.dumps(agent.messages)


def test_what_becomes_of_its_result_is_the_callers_affair() -> None:
    agent = agent_of()
    agent.tool.add(a=1)["content"].append({"text": "more"})
    (answered,) = agent.messages[2]["content"]
    assert answered["toolResult"]["content"] == [{"text": "2"}]


def test_what_a_user_says_of_the_call() -> None:
    agent = agent_of()
    agent.tool.add(a=1, user_message_override="Look at this.")
    assert agent.messages[0]["content"][0]["text"].startswith("Look at this.\n")


@pytest.mark.parametrize("of_the_agent", [True, False])
def test_a_call_is_not_added_if_it_is_not_wanted(of_the_agent: bool) -> None:
    agent = agent_of(record_direct_tool_call=of_the_agent)
    agent.tool.add(a=1, record_direct_tool_call=not of_the_agent)
    assert len(agent.messages) == (0 if of_the_agent else 4)
    agent.tool.add(a=1)
    assert len(agent.messages) == 4


def test_a_call_is_stored(tmp_path: Any) -> None:
    with SqliteSaver(tmp_path / "t.sqlite") as saver:
        agent = agent_of(checkpointer=saver)
        agent.messages.append({"role": "user", "content": [{"text": "Before."}]})
        agent.tool.add(a=1)
        again = agent_of(checkpointer=saver).thread(agent.thread().id)
        assert again.messages == agent.messages
        assert len(agent.messages) == 5


def test_the_programs_own_objects_reach_the_tool_and_not_the_conversation() -> None:
    connection, got = object(), []

    @tool
    def use(thing: Any, things: list[Any]) -> None:
        got.extend([thing, *things])

    agent = agent_of(tools=[use])
    agent.tool.use(thing=connection, things=[connection])
    assert all(each is connection for each in got) and len(got) == 2
    assert agent.messages[1]["content"][0]["toolUse"]["input"] == {
        "thing": "<object>",
        "things": ["<object>"],
    }


def test_what_a_tool_does_not_declare_is_what_it_is_told_beside_its_input() -> None:
    """As in Strands: the tool finds it in its `invocation_state`, and it is not for the conversation."""

    @tool(context=True)
    def greet(name: str, tool_context: ToolContext) -> str:
        return f"{name}, {tool_context.invocation_state['user'].pop()}"

    @tool
    def takes_all(name: str, **more: Any) -> str:
        return f"{name} {more}"

    agent = agent_of(tools=[greet, takes_all])
    assert without_id(agent.tool.greet(name="Ann", user={"u1"})) == success("Ann, u1")
    assert agent.messages[1]["content"][0]["toolUse"]["input"] == {"name": "Ann"}
    assert without_id(agent.tool.takes_all(name="Ann", age=7)) == success("Ann {'age': 7}")
    assert agent.messages[5]["content"][0]["toolUse"]["input"] == {"name": "Ann", "age": 7}


def test_inside_a_request_that_is_added_to_what_it_shares() -> None:
    seen: list[Any] = []

    @tool(context=True)
    def note(tool_context: ToolContext) -> None:
        seen.append(tool_context.invocation_state)

    def hook(event: BeforeInvocationEvent) -> None:
        event.agent.tool.note(record_direct_tool_call=False)
        event.agent.tool.note(record_direct_tool_call=False, more=1)

    shared: dict[str, Any] = {"word": "here"}
    agent_of("done", tools=[note], hooks=[hook])("go", invocation_state=shared)
    assert seen[0] is shared and seen[1] == {**shared, "more": 1} and "more" not in shared


# --- Hooks ------------------------------------------------------------------------------------------------


def test_hooks_hear_of_it() -> None:
    agent, heard = agent_of(), list[BaseHookEvent]()
    agent.add_hook(heard.append, BaseHookEvent)
    result = agent.tool.add(a=1)
    assert [type(event).__name__ for event in heard] == [
        "BeforeToolCallEvent",
        "ToolResultEvent",
        "AfterToolCallEvent",
        *["MessageAddedEvent"] * 4,
    ]
    assert isinstance(heard[2], AfterToolCallEvent) and heard[2].result == result
    assert [event.message for event in heard if isinstance(event, MessageAddedEvent)] == agent.messages
    heard.clear()
    agent.tool.add(a=1, record_direct_tool_call=False)
    assert len(heard) == 3


def test_hooks_change_it() -> None:
    def before(event: BeforeToolCallEvent) -> None:
        event.tool_use.input["a"] = 10

    def after(event: AfterToolCallEvent) -> None:
        event.result["content"].append({"text": "seen"})

    def added(event: MessageAddedEvent) -> None:
        event.message["content"].append({"text": "added"})

    agent = agent_of(hooks=[before, after, added])
    result = agent.tool.add(a=1)
    assert result["content"] == [{"text": "11"}, {"text": "seen"}]
    asked, called, answered, _ = (message["content"] for message in agent.messages)
    assert '{"a": 10}' in asked[0]["text"] and called[0]["toolUse"]["input"] == {"a": 10}
    assert answered == [{"toolResult": result}, {"text": "added"}]


def test_hooks_make_it_a_call_of_another_tool() -> None:
    @tool
    def double(number: int) -> int:
        return 2 * number

    def before(event: BeforeToolCallEvent) -> None:
        event.tool_use.update(name="double", input={"number": 4, "a": 1})

    agent = agent_of(tools=[add, double], hooks=[before])
    assert agent.tool.add(a=1)["content"] == [{"text": "8"}]
    (called,) = agent.messages[1]["content"]
    assert (called["toolUse"]["name"], called["toolUse"]["input"]) == ("double", {"number": 4})


def test_hooks_cancel_it_and_have_it_made_again() -> None:
    tries: list[int] = []

    def cancel(event: BeforeToolCallEvent) -> None:
        event.cancel_tool = "not today" if event.tool_use.name == "add" else False

    def again(event: AfterToolCallEvent) -> None:
        tries.append(1)
        event.retry = event.exception is not None and len(tries) < 4

    agent = agent_of(hooks=[cancel, again])
    assert without_id(agent.tool.add(a=1)) == {"status": "error", "content": [{"text": "not today"}]}
    assert agent.tool.fails()["status"] == "error"
    assert len(tries) == 4
    assert agent.messages[2]["content"][0]["toolResult"]["content"] == [{"text": "not today"}]


@pytest.mark.parametrize("event_type", [BeforeToolCallEvent, AfterToolCallEvent, MessageAddedEvent])
def test_hooks_cannot_ask_for_it_and_their_errors_come_as_they_are(event_type: Any) -> None:
    def ask(event: Any) -> None:
        event.interrupt("approval")

    agent = agent_of("fine", hooks=[])
    agent.add_hook(ask, event_type)
    with pytest.raises(RuntimeError, match="'add' cannot be called directly"):
        agent.tool.add(a=1)
    assert (agent.messages, agent.interrupts) == ([], [])

    def fail(event: Any) -> None:
        raise KeyError("mine")

    agent = agent_of(hooks=[])
    agent.add_hook(fail, event_type)
    with pytest.raises(KeyError, match="mine"):
        agent.tool.add(a=1)
    assert agent.messages == []


@pytest.mark.parametrize("inside", [False, True])
def test_hooks_do_not_hear_of_what_they_call_themselves(inside: bool) -> None:
    heard: list[str] = []

    def before(event: BeforeToolCallEvent) -> None:
        heard.append(event.tool_use.name)
        event.agent.tool.add(a=1, record_direct_tool_call=False)

    agent = agent_of([ToolCall("dashed-name", {})], "done", hooks=[before])
    if inside:
        agent("go")
    else:
        agent.tool.dashed_name()
    assert heard == ["dashed-name"]


@pytest.mark.parametrize("inside", [False, True])
def test_nor_of_what_is_called_by_a_tool_that_they_call(inside: bool) -> None:
    """By one of another agent neither: a hook would hear itself without end."""
    heard: list[str] = []

    @tool(context=True)
    def outer(tool_context: ToolContext) -> None:
        tool_context.agent.tool.add(a=1, record_direct_tool_call=False)

    @tool
    def back() -> None:
        agent.tool.outer(record_direct_tool_call=False)

    def before(event: BeforeToolCallEvent) -> None:
        heard.append(event.tool_use.name)
        if len(heard) < 9:
            agent.tool.outer(record_direct_tool_call=False)
            other.tool.back(record_direct_tool_call=False)

    other = agent_of(tools=[back])
    agent = agent_of([ToolCall("add", {"a": 1})], "done", tools=[outer, add], hooks=[before])
    if inside:
        agent("go")
    else:
        agent.tool.add(a=1)
    assert heard == ["add"]


def test_hooks_hear_of_what_a_tool_calls() -> None:
    heard: list[str] = []

    @tool(context=True)
    def outer(tool_context: ToolContext) -> str:
        agent = tool_context.agent
        return str(agent.tool.add(a=4, record_direct_tool_call=False)["content"][0]["text"])

    def before(event: BeforeToolCallEvent) -> None:
        heard.append(f"before {event.tool_use.name} {event.invocation_state.get('word')}")

    def after(event: AfterToolCallEvent) -> None:
        heard.append(f"after {event.tool_use.name} {event.result['content'][0]['text']}")

    agent = agent_of([ToolCall("outer", {})], "done", tools=[outer, add], hooks=[before, after])
    agent("go", invocation_state={"word": 1})
    assert heard == ["before outer 1", "before add 1", "after add 5", "after outer 5"]
    heard.clear()
    agent.tool.outer()
    assert heard == ["before outer None", "before add None", "after add 5", "after outer 5"]


@pytest.mark.parametrize("inside", [False, True])
def test_what_a_tool_calls_side_by_side_is_heard_of_too(inside: bool) -> None:
    """Whatever middleware and callbacks of one have to do with the other."""
    entered, together = threading.Event(), threading.Barrier(2)

    @tool(context=True)
    def outer(tool_context: ToolContext) -> str:
        def call(number: int) -> Any:
            if number:
                assert entered.wait(20)
            return tool_context.agent.tool.add(a=number, record_direct_tool_call=False)

        with ThreadPoolExecutor(2) as pool:
            made = [pool.submit(copy_context().run, call, number) for number in range(2)]
            return " ".join(each.result()["content"][0]["text"] for each in made)

    def wrap(context: ExecuteToolContext, next: Any) -> Any:
        if context.tool_use["name"] == "add":
            entered.set()
            together.wait(20)
        return (yield from next(context))

    agent = agent_of([ToolCall("outer", {})], "done", tools=[outer, add])
    agent.add_middleware(ExecuteToolStage, wrap)
    if inside:
        agent("go")
    else:
        agent.tool.outer()
    (result,) = agent.messages[2]["content"]
    assert result["toolResult"]["content"] == [{"text": "1 2"}]


def test_hooks_of_what_a_coroutine_calls_wait_for_none_that_wait_for_its_loop() -> None:
    """A callback that waits on the loop where an async tool makes a direct call could never end."""
    begun, entered, results = threading.Event(), threading.Event(), list[Any]()

    @tool(context=True)
    async def outer(tool_context: ToolContext) -> None:
        begun.set()
        while not entered.is_set():
            await asyncio.sleep(0)
        tool_context.agent.tool.add(a=1, record_direct_tool_call=False)

    @tool
    def waits() -> None:
        assert begun.wait(20)

    async def after(event: AfterToolCallEvent) -> None:
        if event.tool_use.name == "waits":
            entered.set()
            for _ in range(5):
                await asyncio.sleep(0)

    agent = agent_of([ToolCall("outer", {}), ToolCall("waits", {})], "done", tools=[outer, waits, add])
    agent.add_hook(after)
    thread = threading.Thread(target=lambda: results.append(agent("go")), daemon=True)
    thread.start()
    thread.join(20)
    assert [str(each) for each in results] == ["done\n"]


def test_middleware_is_around_it() -> None:
    def wrap(context: ExecuteToolContext, next: Any) -> Any:
        event = yield from next(context.replace(tool_use={**context.tool_use, "input": {"a": 7}}))
        event.result["content"].append({"text": "wrapped"})
        return event

    agent = agent_of()
    agent.add_middleware(ExecuteToolStage, wrap)
    assert agent.tool.add(a=1)["content"] == [{"text": "8"}, {"text": "wrapped"}]


def test_a_tool_is_told_whose_it_is() -> None:
    @tool(context=True)
    def tell(tool_context: ToolContext, agent: Any) -> str:
        assert tool_context.agent is agent
        assert tool_context.invocation_state == {}
        return str(agent.name)

    agent = agent_of(tools=[tell], name="me")
    assert without_id(agent.tool.tell()) == success("me")


# --- Questions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["asks", "plainly_asks"])
def test_a_tool_that_is_called_directly_cannot_ask(name: str) -> None:
    agent = agent_of()
    with pytest.raises(RuntimeError, match=f"'{name}' cannot be called directly"):
        getattr(agent.tool, name)()
    assert agent.messages == []
    assert agent.interrupts == []
    assert agent.tool.add(a=1)["status"] == "success"


def test_nothing_is_called_while_questions_are_open() -> None:
    agent = agent_of([ToolCall("asks", {})], "done")
    result = agent("go")
    assert result.stop_reason == "interrupt"
    before = list(agent.messages)
    for record in (True, False):
        with pytest.raises(RuntimeError, match="waits for answers"):
            agent.tool.add(a=1, record_direct_tool_call=record)
    assert agent.messages == before
    answers = [
        {"interruptResponse": {"interruptId": each.id, "response": "y"}} for each in result.interrupts or []
    ]
    assert agent(answers).stop_reason == "end_turn"
    assert agent.tool.add(a=1)["status"] == "success"


# --- Inside a request -------------------------------------------------------------------------------------


@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize("coloured", [False, True])
def test_inside_a_request_a_call_is_not_added(colour: str, coloured: bool) -> None:
    results: list[Any] = []

    def call(agent: Agent) -> None:
        with pytest.raises(ConcurrencyException, match="record_direct_tool_call=False"):
            agent.tool.add(a=1)
        results.append(agent.tool.add(a=1, record_direct_tool_call=False))
        results.append(agent.tool.dashed_name(record_direct_tool_call=False))

    def hook(event: BeforeToolCallEvent) -> None:
        call(event.agent)

    async def async_hook(event: BeforeToolCallEvent) -> None:
        call(event.agent)

    agent = agent_of([ToolCall("add", {"a": 5})], "done", hooks=[async_hook if coloured else hook])
    if colour == "sync":
        agent("go")
    else:
        asyncio.run(agent.invoke_async("go"))
    assert [without_id(each) for each in results] == [success("2"), success("done")]
    assert len(agent.messages) == 4


@pytest.mark.parametrize("name", ["asks", "plainly_asks"])
def test_inside_a_request_a_tool_cannot_ask_either(name: str) -> None:
    def hook(event: BeforeToolCallEvent) -> None:
        with pytest.raises(RuntimeError, match="cannot be called directly"):
            getattr(event.agent.tool, name)(record_direct_tool_call=False)

    agent = agent_of([ToolCall("add", {"a": 5})], "done", hooks=[hook])
    result = agent("go")
    assert (result.stop_reason, result.interrupts) == ("end_turn", None)


@pytest.mark.parametrize("heard", [False, True])
def test_a_request_that_is_cancelled_cancels_no_call_of_the_programs(heard: bool) -> None:
    """As in Strands: tools call others to clear up. Their context tells them."""
    told: list[Any] = []

    @tool(context=True)
    def clear_up(tool_context: ToolContext) -> None:
        told.append(tool_context.cancel_signal.is_set())

    @tool(context=True)
    def outer(tool_context: ToolContext) -> None:
        tool_context.agent.cancel()
        told.append(tool_context.agent.tool.clear_up(record_direct_tool_call=False)["status"])

    agent = agent_of([ToolCall("outer", {})], tools=[outer, clear_up])
    if heard:
        agent.add_hook(lambda event: None, BeforeToolCallEvent)
    assert agent("go").stop_reason == "cancelled"
    assert told == [True, "success"]


def test_inside_a_request_a_tool_sees_that_request() -> None:
    @tool(context=True)
    def note(tool_context: ToolContext) -> None:
        tool_context.agent.state.set("noted", tool_context.invocation_state["word"])

    def hook(event: BeforeInvocationEvent) -> None:
        event.agent.tool.note(record_direct_tool_call=False)

    agent = agent_of("done", tools=[note], hooks=[hook])
    agent("go", invocation_state={"word": "here"})
    assert agent.state.get("noted") == "here"
