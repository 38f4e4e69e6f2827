"""Hooks that nobody has registered cost nothing: no event is made, no node entered for it (DESIGN 6.6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from graphkit import Agent, tool
from graphkit.handlers import CompositeCallbackHandler, PrintingCallbackHandler, null_callback_handler
from graphkit.hooks import (
    AfterInvocationEvent,
    AfterModelCallEvent,
    AfterToolCallEvent,
    AfterToolsEvent,
    BaseHookEvent,
    BeforeInvocationEvent,
    BeforeModelCallEvent,
    BeforeToolCallEvent,
    BeforeToolsEvent,
    MessageAddedEvent,
    ModelStreamUpdateEvent,
)
from graphkit.middleware import InvokeModelStage
from graphkit.models import ToolCall
from tests.agents.conftest import Door, agent_of


@tool
def work() -> str:
    """Works."""
    return "worked"


@pytest.fixture(params=["call", "invoke_async"])
def door(request: pytest.FixtureRequest) -> Door:
    return Door(request.param)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many events of each kind are made."""
    counted: Counter[str] = Counter()
    make = BaseHookEvent.__post_init__

    def counting(self: BaseHookEvent) -> None:
        counted[type(self).__name__.removesuffix("Event")] += 1
        make(self)

    monkeypatch.setattr(BaseHookEvent, "__post_init__", counting)
    return counted


def agent_that_works(**options: Any) -> Agent:
    return agent_of([ToolCall("work"), ToolCall("work")], ToolCall("work"), "done", tools=[work], **options)


def supersteps(agent: Agent) -> int:
    history = agent.graph.get_state_history(agent.thread().config)
    sources = [(snapshot.metadata or {})["source"] for snapshot in history]
    return sources.count("loop") - 1  # the input is applied in one


def test_nobody_hears_anything(door: Door, made: Counter[str]) -> None:
    agent = agent_that_works()
    made.clear()
    assert door(agent, "go").stop_reason == "end_turn"
    assert made == {}
    assert supersteps(agent) == 5  # model, tools, model, tools, model


@pytest.mark.parametrize(
    ("heard", "count", "more"),
    [
        (BeforeInvocationEvent, 1, 1),
        (AfterInvocationEvent, 1, 1),
        (BeforeModelCallEvent, 3, 0),
        (ModelStreamUpdateEvent, 3, 0),
        (AfterModelCallEvent, 3, 0),
        (BeforeToolsEvent, 2, 2),
        (BeforeToolCallEvent, 3, 0),
        (AfterToolCallEvent, 3, 0),
        (AfterToolsEvent, 2, 0),
        (MessageAddedEvent, 6, 1),
    ],
)
def test_who_hears_one_kind_pays_for_that(
    door: Door, made: Counter[str], heard: type[Any], count: int, more: int
) -> None:
    events: list[Any] = []
    agent = agent_that_works()
    agent.add_hook(events.append, heard)
    made.clear()
    assert door(agent, "go").stop_reason == "end_turn"
    name = heard.__name__.removesuffix("Event")
    assert set(made) == {name} and made[name] == len(events) >= count
    assert made[name] == count or heard is ModelStreamUpdateEvent
    assert supersteps(agent) == 5 + more


def test_a_callback_that_is_added_is_heard_at_once(door: Door) -> None:
    """Also in the middle of a request."""
    heard: list[Any] = []

    def add(event: BeforeModelCallEvent) -> None:
        if not heard:
            heard.append(event)
            event.agent.add_hook(heard.append, BeforeToolCallEvent)

    agent = agent_that_works(hooks=[add])
    door(agent, "go")
    assert [type(event) for event in heard] == [BeforeModelCallEvent] + [BeforeToolCallEvent] * 3


@pytest.mark.parametrize(
    ("handler", "made_for_it"),
    [
        pytest.param(None, set(), id="none"),
        pytest.param(null_callback_handler, set(), id="null"),
        pytest.param(PrintingCallbackHandler(), {"ModelStreamUpdate"}, id="printing"),
        pytest.param(
            CompositeCallbackHandler(null_callback_handler, PrintingCallbackHandler()),
            {"ModelStreamUpdate"},
            id="composite",
        ),
    ],
)
def test_a_handler_of_ours_pays_for_what_it_does_something_with(
    door: Door, made: Counter[str], handler: Any, made_for_it: set[str]
) -> None:
    agent = agent_that_works(callback_handler=handler)
    made.clear()
    assert door(agent, "go").stop_reason == "end_turn"
    assert set(made) == made_for_it
    assert supersteps(agent) == 5


def test_a_handler_of_the_users_is_shown_everything_that_dicts_come_of(
    door: Door, made: Counter[str]
) -> None:
    agent = agent_that_works(callback_handler=lambda **event: None)
    made.clear()
    assert door(agent, "go").stop_reason == "end_turn"
    assert set(made) == {
        "BeforeInvocation",
        "MessageAdded",
        "BeforeModelCall",
        "ModelStreamUpdate",
        "AfterModelCall",
        "AfterToolCall",
    }


def passing_on(context: Any, next: Any) -> Any:
    return (yield from next(context))


async def awaited_passing_on(context: Any, next: Any) -> AsyncIterator[Any]:
    async for event in next(context):
        yield event


@pytest.mark.parametrize(
    ("layer", "streamed"), [(passing_on, set()), (awaited_passing_on, {"ModelStreamUpdate", "ContentBlock"})]
)
def test_only_async_middleware_sees_what_nobody_hears(
    door: Door, made: Counter[str], layer: Any, streamed: set[str]
) -> None:
    agent = agent_that_works()
    agent.add_middleware(InvokeModelStage, layer)
    made.clear()
    assert door(agent, "go").stop_reason == "end_turn"
    assert set(made) - {"ModelStopReason"} == streamed
