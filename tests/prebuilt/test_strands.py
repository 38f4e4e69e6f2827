"""Tools made with Strands' own decorator, which ask in Strands' own way. Strands is no dependency, so its absence skips
these."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("strands")

import strands

from graphkit import Agent
from graphkit.checkpoint.memory import InMemorySaver
from graphkit.models import ScriptedModel, ToolCall
from graphkit.prebuilt import create_react_agent
from graphkit.types import Command
from tests.conftest import Runner, response


@strands.tool(context=True)  # type: ignore[untyped-decorator]
def refund(amount: int, tool_context: strands.ToolContext) -> str:
    """Pay an amount back."""
    answer = tool_context.interrupt("refund", reason={"amount": amount})
    return f"paid {amount}" if answer == "yes" else f"kept {amount}"


@strands.tool(context="about")  # type: ignore[untyped-decorator]
async def ship(about: strands.ToolContext) -> str:
    """Ship it."""
    return f"shipped: {about.interrupt('where')}, {about.interrupt('when')}"


@strands.tool  # type: ignore[untyped-decorator]
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def results(messages: list[Any]) -> list[Any]:
    return [
        block["toolResult"]["content"]
        for message in messages
        for block in message["content"]
        if "toolResult" in block
    ]


def test_they_ask_as_our_own_do() -> None:
    calls = [
        ToolCall("refund", {"amount": 1}),
        ToolCall("add", {"a": 1, "b": 1}),
        ToolCall("refund", {"amount": 2}),
    ]
    model = ScriptedModel([calls, "done"])
    agent = Agent(model=model, tools=[refund, add], callback_handler=None)
    asked = agent("go")
    assert asked.stop_reason == "interrupt" and asked.interrupts is not None
    assert [(one.name, one.reason) for one in asked.interrupts] == [
        ("refund", {"amount": 1}),
        ("refund", {"amount": 2}),
    ]
    first, second = asked.interrupts
    assert agent([response(second, "yes"), response(first, "no")]).stop_reason == "end_turn"
    assert results(agent.messages) == [[{"text": "kept 1"}], [{"text": "2"}], [{"text": "paid 2"}]]
    assert len(model.requests) == 2


def test_one_that_asks_twice() -> None:
    agent = Agent(model=ScriptedModel([[ToolCall("ship", {})], "done"]), tools=[ship], callback_handler=None)
    (where,) = agent("go").interrupts or ()
    (when,) = agent([response(where, "Bonn")]).interrupts or ()
    agent([response(when, "now")])
    assert results(agent.messages) == [[{"text": "shipped: Bonn, now"}]]


def test_in_a_graph(runner: Runner) -> None:
    model = ScriptedModel([[ToolCall("refund", {"amount": 1}), ToolCall("ship", {})], "done"])
    graph = create_react_agent(model, [refund, ship], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    one, other = runner.invoke(graph, {"messages": [{"role": "user", "content": "?"}]}, config)[
        "__interrupt__"
    ]
    runner.invoke(graph, Command(resume={other.id: "Bonn", one.id: "yes"}), config)
    found = runner.invoke(graph, Command(resume="now"), config)
    assert [message["content"] for message in found["messages"][-3:]] == [
        "paid 1",
        "shipped: Bonn, now",
        "done",
    ]


class Scripted(strands.models.Model):  # type: ignore[misc]
    """A model of Strands that streams what a model of ours would."""

    def __init__(self, *turns: Any) -> None:
        self.model = ScriptedModel(turns)

    def get_config(self) -> Any:
        return {}

    def update_config(self, **config: Any) -> None: ...

    async def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError
        yield

    async def stream(self, *args: Any, **kwargs: Any) -> Any:
        for chunk in self.model.stream(*args[:2]):
            yield chunk


def desk(*turns: Any) -> Any:
    """An agent of Strands that can pay back."""
    return strands.Agent(model=Scripted(*turns), tools=[refund], callback_handler=None, name="desk")


def test_an_agent_of_strands_is_a_tool() -> None:
    agent = Agent(
        model=ScriptedModel([[ToolCall("desk", {"input": "hello"})], "done"]),
        tools=[desk("hi")],
        callback_handler=None,
    )
    agent("go")
    assert results(agent.messages) == [[{"text": "hi\n"}]]


def test_an_agent_of_strands_that_asks_is_refused() -> None:
    """What it would go on from is in its own memory, where no saver keeps it."""
    agent = Agent(
        model=ScriptedModel([[ToolCall("desk", {"input": "refund it"})], "done"]),
        tools=[desk([ToolCall("refund", {"amount": 1})], "done")],
        callback_handler=None,
    )
    assert agent("go").stop_reason == "end_turn"
    ((told,),) = results(agent.messages)
    assert "asks 'refund'" in told["text"] and "from graphkit import Agent" in told["text"]
