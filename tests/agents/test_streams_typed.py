"""The typed stream shows the events that fire, the same objects in the same order as a callback of all events hears."""

import asyncio
import threading
from typing import Any

import pytest

from graphkit import Agent, tool
from graphkit.hooks import (
    AfterInvocationEvent,
    BeforeModelCallEvent,
    BeforeToolCallEvent,
    ModelStreamUpdateEvent,
    ToolStreamUpdateEvent,
)
from graphkit.models import Model, ToolCall, Turn
from tests.agents.conftest import agent_of, names


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def read(agent: Agent, colour: str, prompt: Any = "go", **options: Any) -> list[Any]:
    if colour == "sync":
        return list(agent.stream(prompt, **options))

    async def through() -> list[Any]:
        return [event async for event in agent.astream(prompt, **options)]

    return asyncio.run(through())


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_stream_is_what_a_callback_of_all_events_hears(colour: str, watched: Any) -> None:
    agent = agent_of(
        [ToolCall("add", {"a": 1, "b": 2}), ToolCall("add", {"a": 3, "b": 4})], "done", tools=[add]
    )
    heard = watched(agent)
    shown = read(agent, colour)
    assert len(shown) > 20
    assert [id(event) for event in shown] == [id(event) for event in heard]


def test_a_halt_and_the_answers_are_shown_too(colour: str, watched: Any, answers: Any) -> None:
    agent = agent_of([ToolCall("add", {"a": 1, "b": 2})], "done", tools=[add])
    agent.add_hook(lambda event: event.interrupt("sure", reason="why"), BeforeToolCallEvent)
    heard = watched(agent)
    shown = read(agent, colour)
    assert names(shown)[-4:] == ["AfterTools", "Interrupt", "AgentResult", "AfterInvocation"]
    assert shown == heard
    again = read(agent, colour, answers(shown[-2].result, "y"))
    assert names(again)[:2] == ["BeforeInvocation", "BeforeToolCall"]
    assert shown + again == heard


def test_without_any_hook_all_events_are_shown(colour: str) -> None:
    agent = agent_of(Turn(text="hello", chunks=2))
    assert names(read(agent, colour)) == [
        "BeforeInvocation", "MessageAdded", "BeforeModelCall",
        *["ModelStreamUpdate"] * 5, "ContentBlock", *["ModelStreamUpdate"] * 2,
        "ModelMessage", "AfterModelCall", "MessageAdded", "AgentResult", "AfterInvocation",
    ]  # fmt: skip


class Waits(Model):
    """Goes on after its first chunk when somebody has read that."""

    def __init__(self) -> None:
        self.read = threading.Event()

    async def stream(self, *args: Any, **kwargs: Any) -> Any:
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockDelta": {"delta": {"text": "first"}}}
        assert await asyncio.to_thread(self.read.wait, 30)
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}

    def get_config(self) -> Any: ...
    def update_config(self, **model_config: Any) -> None: ...


def test_a_chunk_is_shown_while_the_model_goes_on(colour: str) -> None:
    model = Waits()
    agent = agent_of(model=model)

    def look(event: Any) -> None:
        if isinstance(event, ModelStreamUpdateEvent) and "contentBlockDelta" in event.event:
            model.read.set()

    async def through() -> None:
        async for event in agent.astream("go"):
            look(event)

    if colour == "sync":
        for event in agent.stream("go"):
            look(event)
    else:
        asyncio.run(through())
    assert agent.messages[-1]["content"] == [{"text": "first"}]


def test_an_error_comes_after_the_events_before_it(colour: str, watched: Any) -> None:
    agent = agent_of(KeyError("gone"))
    heard = watched(agent)
    shown: list[Any] = []
    look = shown.append

    async def through() -> None:
        async for event in agent.astream("go"):
            look(event)

    with pytest.raises(KeyError, match="gone"):
        if colour == "sync":
            shown.extend(agent.stream("go"))
        else:
            asyncio.run(through())
    assert shown == heard
    assert names(shown)[-2:] == ["AfterModelCall", "AfterInvocation"]
    assert isinstance(shown[-1], AfterInvocationEvent) and shown[-1].result is None


def test_a_reader_that_stops_ends_the_request(colour: str) -> None:
    """The thread is free at once, and the turn can be gone on with."""
    agent = agent_of("one", "two")

    async def through() -> None:
        events = agent.astream("go")
        async for event in events:
            if isinstance(event, BeforeModelCallEvent):
                break
        await events.aclose()  # type: ignore[attr-defined]

    if colour == "sync":
        for event in (events := agent.stream("go")):
            if isinstance(event, BeforeModelCallEvent):
                break
        events.close()  # type: ignore[attr-defined]
    else:
        asyncio.run(through())
    assert agent().stop_reason == "end_turn"
    assert [message["role"] for message in agent.messages] == ["user", "assistant"]


@pytest.mark.parametrize("door", ["astream", "stream_async"])
def test_a_stream_that_is_simply_dropped_gives_its_thread_back(door: str) -> None:
    agent = agent_of("one", "two", "three")

    async def through() -> str:
        async for _ in getattr(agent, door)("go"):
            break
        return str(await agent.invoke_async("again"))

    assert asyncio.run(through()) in ("one\n", "two\n")
    assert agent.thread().is_running is False
    assert agent.messages[-2]["content"] == [{"text": "again"}]


def test_what_a_tool_yields_is_shown_in_order(colour: str) -> None:
    @tool
    async def count(to: int) -> Any:
        """Count."""
        for number in range(to):
            yield number
        yield "counted"

    agent = agent_of([ToolCall("count", {"to": 2})], "done", tools=[count])
    updates = [event for event in read(agent, colour) if isinstance(event, ToolStreamUpdateEvent)]
    assert [update.event for update in updates] == [0, 1, "counted"]
    assert {update.tool_use["name"] for update in updates} == {"count"}


def test_what_a_tool_writes_to_the_graphs_own_stream_is_none_of_its_events(colour: str) -> None:
    from graphkit.config import get_stream_writer

    @tool
    def writes() -> str:
        """Write."""
        get_stream_writer()({"not": "an event"})
        return "wrote"

    agent = agent_of([ToolCall("writes")], "done", tools=[writes])
    assert all(hasattr(event, "agent") for event in read(agent, colour))


def test_one_invocation_state_is_in_all_events(colour: str) -> None:
    agent = agent_of([ToolCall("add", {"a": 1, "b": 2})], "done", tools=[add])
    state: dict[str, Any] = {"user": "u1"}
    shown = read(agent, colour, invocation_state=state)
    assert all(event.invocation_state is state for event in shown)
    assert shown[-2].result.invocation_state is state
