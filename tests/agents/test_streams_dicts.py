"""The dicts of `stream_async` and of callback handlers (source: Strands 1.62.0, looked at), and what is printed."""

import asyncio
import itertools
import json
from typing import Any

import pytest
from pydantic import BaseModel

from graphkit import Agent, ModelRetryStrategy, tool
from graphkit.handlers import CompositeCallbackHandler, PrintingCallbackHandler, null_callback_handler
from graphkit.hooks import AfterInvocationEvent, AfterModelCallEvent, BeforeToolCallEvent
from graphkit.models import ScriptedModel, ToolCall, Turn
from graphkit.types.exceptions import ModelThrottledException
from tests.agents.conftest import agent_of

Shown = list[dict[str, Any]]


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def streamed(agent: Agent, prompt: Any = "go", **options: Any) -> Shown:
    """What `stream_async` yields; an error is the last entry."""

    async def through() -> Shown:
        shown: Shown = []
        try:
            async for each in agent.stream_async(prompt, **options):
                shown.append(each)
        except Exception as error:
            shown.append({"raised": error})
        return shown

    return asyncio.run(through())


def handled(agent: Agent, prompt: Any = "go", **options: Any) -> Shown:
    """What the callback handler of an agent is called with."""
    shown: Shown = []
    agent.callback_handler = lambda **event: shown.append(event)
    try:
        agent(prompt, **options)
    except Exception as error:
        shown.append({"raised": error})
    return shown


@pytest.fixture(params=[streamed, handled])
def show(request: pytest.FixtureRequest) -> Any:
    """Both ways to see the dicts; every scenario must show the same in both."""
    return request.param


def without_chunks(shown: Shown) -> Shown:
    """Without the model's raw chunks and what every dict of a delta has."""
    common = ("agent", "delta", "request_state")
    return [
        {key: value for key, value in each.items() if key not in common}
        for each in shown
        if "event" not in each
    ]


def kinds(shown: Shown) -> list[str]:
    return [next(iter(each)) for each in without_chunks(shown)]


def test_a_whole_request(show: Any) -> None:
    agent = agent_of(["let me", ToolCall("add", {"a": 1, "b": 2}, id="t1")], "done", tools=[add])
    shown = show(agent, invocation_state={"k": 1})
    first, second, *rest = without_chunks(shown)
    assert (first, second) == ({"init_event_loop": True, "k": 1}, {"start": True})
    assert [{**each, "message": None} if "message" in each else each for each in rest[:-1]] == [
        {"start_event_loop": True},
        {"data": "let me", "k": 1},
        {
            "type": "tool_use_stream",
            "current_tool_use": {"toolUseId": "t1", "name": "add", "input": '{"a": 1, "b": 2}'},
            "k": 1,
        },
        {"message": None},
        {"message": None},
        {"start": True},
        {"start_event_loop": True},
        {"data": "done", "k": 1},
        {"message": None},
    ]
    messages = [each["message"] for each in shown if "message" in each]
    assert messages == agent.messages[1:]  # not the prompt
    result = shown[-1]["result"]
    assert (result.stop_reason, str(result)) == ("end_turn", "done\n")


def test_every_chunk_is_shown_before_what_it_adds(show: Any) -> None:
    agent = agent_of(Turn(text="hello", chunks=2))
    deltas = [
        each.get("data", "chunk")
        for each in show(agent)
        if "data" in each or "contentBlockDelta" in each.get("event", {})
    ]
    assert deltas == ["chunk", "hel", "chunk", "lo"]


def test_dicts_of_a_delta_name_the_agent_and_the_delta(show: Any) -> None:
    agent = agent_of("hi")
    (data,) = [each for each in show(agent) if "data" in each]
    assert data == {"data": "hi", "delta": {"text": "hi"}, "agent": agent, "request_state": {}}


def test_the_input_of_a_call_grows(show: Any) -> None:
    agent = agent_of(Turn(calls=[ToolCall("add", {"a": 1, "b": 2})], chunks=3), "done", tools=[add])
    inputs = [
        each["current_tool_use"]["input"] for each in show(agent) if each.get("type") == "tool_use_stream"
    ]
    assert len(inputs) == 3
    assert all(
        later.startswith(earlier) and later != earlier for earlier, later in itertools.pairwise(inputs)
    )
    assert json.loads(inputs[-1]) == {"a": 1, "b": 2}


def test_reasoning_and_citations(show: Any) -> None:
    deltas: list[dict[str, Any]] = [
        {"reasoningContent": {"text": "hm"}},
        {"reasoningContent": {"signature": "sig"}},
        {"reasoningContent": {"redactedContent": b"r"}},
        {"citation": {"title": "t"}},
    ]
    chunks = [
        {"messageStart": {"role": "assistant"}},
        *({"contentBlockDelta": {"delta": delta}} for delta in deltas),
        {"contentBlockStop": {}},
        {"messageStop": {"stopReason": "end_turn"}},
    ]
    shown = without_chunks(show(agent_of(chunks)))
    assert shown[3:7] == [
        {"reasoningText": "hm", "reasoning": True},
        {"reasoning_signature": "sig", "reasoning": True},
        {"reasoningRedactedContent": b"r", "reasoning": True},
        {"citation": {"title": "t"}},
    ]


def test_what_a_tool_yields(show: Any) -> None:
    @tool
    async def count(to: int) -> Any:
        """Count."""
        for number in range(to):
            yield number

    agent = agent_of([ToolCall("count", {"to": 2}, id="c")], "done", tools=[count])
    found = [each for each in show(agent) if each.get("type") == "tool_stream"]
    assert [each["tool_stream_event"]["data"] for each in found] == [0, 1]
    assert {each["tool_stream_event"]["tool_use"]["toolUseId"] for each in found} == {"c"}


def test_a_cancelled_call(show: Any) -> None:
    agent = agent_of([ToolCall("add", {"a": 1, "b": 2}, id="c")], "done", tools=[add])

    def refuse(event: BeforeToolCallEvent) -> None:
        event.cancel_tool = "not now"

    agent.add_hook(refuse)
    (found,) = [each["tool_cancel_event"] for each in show(agent) if "tool_cancel_event" in each]
    assert (found["tool_use"]["toolUseId"], found["message"]) == ("c", "not now")


def test_a_call_that_asks_is_shown_once_with_all_its_questions(show: Any) -> None:
    agent = agent_of(
        [ToolCall("add", {"a": 1, "b": 2}, id="c"), ToolCall("add", {"a": 3, "b": 4}, id="d")],
        "done",
        tools=[add],
    )

    def first(event: BeforeToolCallEvent) -> None:
        event.interrupt("one")

    def second(event: BeforeToolCallEvent) -> None:
        event.interrupt("two")

    agent.add_hook(first)
    agent.add_hook(second)
    shown = show(agent)
    asked = [each["tool_interrupt_event"] for each in shown if "tool_interrupt_event" in each]
    assert [(each["tool_use"]["toolUseId"], [q.name for q in each["interrupts"]]) for each in asked] == [
        ("c", ["one", "two"]),
        ("d", ["one", "two"]),
    ]
    assert shown[-1]["result"].stop_reason == "interrupt"


def test_a_throttled_call(show: Any) -> None:
    agent = agent_of(
        ModelThrottledException("slow"),
        "done",
        retry_strategy=ModelRetryStrategy(max_attempts=2, initial_delay=0, max_delay=0),
    )
    assert kinds(show(agent)) == [
        "init_event_loop", "start", "start_event_loop", "event_loop_throttled_delay", "data", "message", "result",
    ]  # fmt: skip


def test_an_answer_that_a_hook_does_not_take(show: Any) -> None:
    agent = agent_of("bad", "good")
    agent.add_hook(
        lambda event: setattr(event, "retry", "bad" in str(event.stop_response)), AfterModelCallEvent
    )
    assert kinds(show(agent)) == [
        "init_event_loop", "start", "start_event_loop", "data", "data", "message", "result",
    ]  # fmt: skip


def test_a_failure(show: Any) -> None:
    *_, stopped, raised = show(agent_of(ValueError("bad")))
    assert stopped == {"force_stop": True, "force_stop_reason": "bad"}
    assert isinstance(raised["raised"], ValueError)


def test_a_turn_that_was_cut(show: Any) -> None:
    *_, message, stopped, raised = show(agent_of(Turn(text="half", stop_reason="max_tokens")))
    assert "message" in message and stopped["force_stop"]
    assert type(raised["raised"]).__name__ == "MaxTokensReachedException"


def test_structured_output(show: Any) -> None:
    class Weather(BaseModel):
        degrees: int

    agent = agent_of([ToolCall("Weather", {"degrees": 3})])
    *_, output, result = show(agent, structured_output_model=Weather)
    assert output == {"structured_output": Weather(degrees=3)}
    assert result["result"].structured_output == Weather(degrees=3)


def test_only_the_last_result_of_a_resumed_request_is_shown(show: Any) -> None:
    agent = agent_of("one", "two")
    again = ["more"]

    def resume(event: AfterInvocationEvent) -> None:
        if again:
            event.resume = again.pop()

    agent.add_hook(resume)
    shown = show(agent)
    assert [str(each["result"]) for each in shown if "result" in each] == ["two\n"]
    assert kinds(shown).count("init_event_loop") == 2


# --- Handlers -------------------------------------------------------------------------------------------


def test_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    agent = Agent(
        model=ScriptedModel(
            [["let me ", ToolCall("add", {"a": 1, "b": 2}), ToolCall("add", {"a": 3, "b": 4})], "all done"]
        ),
        tools=[add],
    )
    agent("go")
    assert capsys.readouterr().out == "let me \nTool #1: add\n\nTool #2: add\nall done\n"


def test_reasoning_is_printed_and_tools_may_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    handler = PrintingCallbackHandler(verbose_tool_use=False)
    agent = agent_of(
        Turn(reasoning="hm ", calls=[ToolCall("add", {"a": 1, "b": 2})]),
        "done",
        tools=[add],
        callback_handler=handler,
    )
    agent("go")
    assert capsys.readouterr().out == "hm done\n"
    assert handler.tool_count == 1


@pytest.mark.parametrize("handler", [None, null_callback_handler])
def test_nothing_is_printed(handler: Any, capsys: pytest.CaptureFixture[str]) -> None:
    agent_of("done", callback_handler=handler)("go")
    assert capsys.readouterr().out == ""


def test_several_handlers_are_called_in_order() -> None:
    calls: list[str] = []
    both = CompositeCallbackHandler(
        lambda **event: calls.append("a" + event.get("data", "")),
        lambda **event: calls.append("b" + event.get("data", "")),
    )
    agent_of("hi", callback_handler=both)("go")
    assert calls[::2] == [call.replace("b", "a", 1) for call in calls[1::2]]
    assert {"ahi", "bhi"} <= set(calls)


def test_the_handler_of_one_call() -> None:
    agent = agent_of("one", "two", callback_handler=lambda **event: pytest.fail("not this one"))
    mine: Shown = []
    agent("go", callback_handler=lambda **event: mine.append(event))
    assert mine[-1]["result"].stop_reason == "end_turn"


def test_a_handler_that_fails_ends_the_request() -> None:
    def fail(**event: Any) -> None:
        if "data" in event:
            raise LookupError("no printer")

    agent = agent_of("one", "two", callback_handler=fail)
    with pytest.raises(LookupError, match="no printer"):
        agent("go")
    agent.callback_handler = None
    assert str(agent()) == "two\n"


async def handle(**event: Any) -> None:
    raise AssertionError("nobody awaits this")


class Handling:
    async def __call__(self, **event: Any) -> None:
        await handle()


@pytest.mark.parametrize("bad", ["print", 5, handle, Handling()], ids=["text", "number", "async", "object"])
def test_what_is_no_handler_is_refused(bad: Any) -> None:
    with pytest.raises(TypeError, match="callback_handler"):
        agent_of("x", callback_handler=bad)
