"""The samples on hooks: registering callbacks, plugins, ordering, and the two diagrams of a request.

The samples stand as they do in the document, with only the imports changed; where it has one in TypeScript alone, that
stands under its Python names.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from graphkit import Agent, tool
from graphkit.hooks import (
    AfterToolCallEvent,
    BeforeInvocationEvent,
    BeforeModelCallEvent,
    BeforeToolCallEvent,
    HookEvent,
    HookOrder,
)
from graphkit.models import ScriptedModel
from graphkit.models.scripted import ToolCall, Turn
from graphkit.plugins import Plugin, hook

pytestmark = pytest.mark.usefixtures("either_colour")


@tool
def calculator(expression: str) -> str:
    """Calculate.

    Args:
        expression: What to calculate.
    """
    return {"1 + 1": "2"}[expression]


CALL = ToolCall("calculator", {"expression": "1 + 1"})


# --- Registering individual hook callbacks --------------------------------------------------------------


def test_registering_individual_callbacks(model: ScriptedModel, capsys: pytest.CaptureFixture[str]) -> None:
    agent = Agent()

    # Register individual callbacks
    def my_callback(event: BeforeInvocationEvent) -> None:
        print("Custom callback triggered")

    agent.add_hook(my_callback, BeforeInvocationEvent)

    # Type inference: If your callback has a type hint, the event type is inferred
    def typed_callback(event: BeforeToolCallEvent) -> None:
        print(f"Tool called: {event.tool_use['name']}")

    agent.add_hook(typed_callback)  # Event type inferred from type hint

    model.turns = [CALL, "2"]
    result = agent("How much is 1 + 1?")
    assert result.stop_reason == "end_turn"
    printed = capsys.readouterr().out
    assert printed.count("Custom callback triggered") == 1
    assert printed.count("Tool called: calculator") == 1
    assert printed.index("Custom callback") < printed.index("Tool called")


def test_registering_an_individual_callback_for_a_type(
    model: ScriptedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    """The TypeScript sample: the type is given, the callback has no annotation."""
    agent = Agent()

    # Register individual callback
    my_callback = lambda event: print("Custom callback triggered")  # noqa: E731

    agent.add_hook(my_callback, BeforeInvocationEvent)

    model.turns = ["hello", "again"]
    for times in (1, 1):
        agent("hello")
        assert capsys.readouterr().out.count("Custom callback triggered") == times


def test_registering_on_the_registry(model: ScriptedModel, capsys: pytest.CaptureFixture[str]) -> None:
    """As the sample for orchestrators does."""
    agent = Agent(tools=[calculator])

    # Register individual callbacks
    def my_callback(event: BeforeToolCallEvent) -> None:
        print("Custom callback triggered")

    agent.hooks.add_callback(BeforeToolCallEvent, my_callback)

    model.turns = [[CALL, CALL], "2"]
    agent("How much is 1 + 1, twice?")
    assert capsys.readouterr().out.count("Custom callback triggered") == 2


# --- Using plugins for multiple hooks -------------------------------------------------------------------


class LoggingPlugin(Plugin):
    name = "logging-plugin"

    @hook
    def log_before(self, event: BeforeToolCallEvent) -> None:
        print(f"Calling: {event.tool_use['name']}")

    @hook
    def log_after(self, event: AfterToolCallEvent) -> None:
        print(f"Completed: {event.tool_use['name']}")


class LoggingPluginByInit(Plugin):
    """The TypeScript sample."""

    name = "logging-plugin"

    def init_agent(self, agent: Agent) -> None:
        def before(event: BeforeToolCallEvent) -> None:
            print(f"Calling: {event.tool_use.name}")

        agent.add_hook(before, BeforeToolCallEvent)

        def after(event: AfterToolCallEvent) -> None:
            print(f"Completed: {event.tool_use.name}")

        agent.add_hook(after, AfterToolCallEvent)


@pytest.mark.parametrize("plugin", [LoggingPlugin, LoggingPluginByInit])
def test_a_plugin_for_multiple_hooks(
    plugin: type[Plugin], model: ScriptedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = Agent(plugins=[plugin()])
    agent.tool_registry.process_tools([calculator])

    model.turns = [CALL, "2"]
    agent("How much is 1 + 1?")
    printed = capsys.readouterr().out
    assert printed.index("Calling: calculator") < printed.index("Completed: calculator")
    assert (printed.count("Calling:"), printed.count("Completed:")) == (1, 1)


# --- Callback ordering ----------------------------------------------------------------------------------


def test_callback_ordering(model: ScriptedModel, capsys: pytest.CaptureFixture[str]) -> None:
    agent = Agent()

    def early_hook(event: BeforeModelCallEvent) -> None:
        print("I run first")

    def late_hook(event: BeforeModelCallEvent) -> None:
        print("I run last")

    agent.add_hook(late_hook, order=HookOrder.SDK_LAST)
    agent.add_hook(early_hook, order=HookOrder.SDK_FIRST)

    model.turns = ["hello"]
    agent("hello")
    printed = capsys.readouterr().out
    assert printed.index("I run first") < printed.index("I run last")


def test_callback_ordering_with_arbitrary_numbers(
    model: ScriptedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    """The TypeScript sample."""
    agent = Agent()

    agent.add_hook(
        lambda event: print("[logging] Tool called:", event.tool_use.name), BeforeToolCallEvent
    )  # HookOrder.DEFAULT (0)

    # Run before the SDK's earliest hooks
    agent.add_hook(
        lambda event: print("[guardrail] Runs before SDK hooks"),
        BeforeToolCallEvent,
        order=HookOrder.SDK_FIRST - 1,
    )

    # Arbitrary numbers for fine-grained control
    agent.add_hook(lambda event: print("[validation] Validating input"), BeforeToolCallEvent, order=-50)

    # Use -Infinity/Infinity for guaranteed absolute first/last
    agent.add_hook(
        lambda event: print("[absolute] Always runs first, no matter what"),
        BeforeToolCallEvent,
        order=float("-inf"),
    )

    model.turns = [CALL, "done"]
    agent("calculate")
    printed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("[")]
    assert printed == [
        "[absolute] Always runs first, no matter what",
        "[guardrail] Runs before SDK hooks",
        "[validation] Validating input",
        "[logging] Tool called: calculator",
    ]


# --- The lifecycle of a request -------------------------------------------------------------------------


@tool
async def search(query: str) -> AsyncIterator[str]:
    """Search.

    Args:
        query: For what.
    """
    yield "looking"
    yield "still looking"
    yield f"found {query}"


def watched(**options: Any) -> tuple[Agent, list[str]]:
    """An agent, and the names of its events as they come."""
    seen: list[str] = []
    agent = Agent(callback_handler=None, **options)
    agent.add_hook(lambda event: seen.append(type(event).__name__.removesuffix("Event")), HookEvent)
    return agent, seen


PYTHON = {
    "BeforeInvocation", "MessageAdded", "BeforeModelCall", "AfterModelCall", "BeforeToolCall", "AfterToolCall",
    "AfterInvocation",
}  # fmt: skip
"""The events of the Python diagram."""


def test_the_lifecycle_in_python(model: ScriptedModel) -> None:
    """S99."""
    agent, seen = watched(tools=[calculator])
    model.turns = [CALL, CALL, "2"]
    agent("How much is 1 + 1?")
    model_events = ["BeforeModelCall", "AfterModelCall", "MessageAdded"]
    tool_events = ["BeforeToolCall", "AfterToolCall", "MessageAdded"]
    assert [name for name in seen if name in PYTHON] == [
        "BeforeInvocation", "MessageAdded",
        *model_events, *tool_events, *model_events, *tool_events, *model_events,
        "AfterInvocation",
    ]  # fmt: skip


def test_the_lifecycle_in_typescript(model: ScriptedModel) -> None:
    """S100, with a block of thoughts and progress of the tool."""
    agent, seen = watched(tools=[search])
    model.turns = [
        Turn(reasoning="hm", text="I look.", calls=[ToolCall("search", {"query": "it"})]),
        Turn(text="Here it is.", chunks=3),
    ]
    agent("Where is it?")
    chunk = "ModelStreamUpdate"
    assert [name for name, _ in itertools.groupby(seen)] == [
        "BeforeInvocation", "MessageAdded",
        "BeforeModelCall", chunk, "ContentBlock", chunk, "ContentBlock", chunk, "ContentBlock", chunk,
        "ModelMessage", "AfterModelCall", "MessageAdded",
        "BeforeTools", "BeforeToolCall", "ToolStreamUpdate", "ToolResult", "AfterToolCall", "AfterTools",
        "MessageAdded",
        "BeforeModelCall", chunk, "ContentBlock", chunk, "ModelMessage", "AfterModelCall", "MessageAdded",
        "AgentResult", "AfterInvocation",
    ]  # fmt: skip
    assert seen.count("ToolStreamUpdate") == 3
    assert seen.count(chunk) == (1 + 3 * 3 + 2) + (1 + 1 + 3 + 1 + 2)


def test_the_lifecycle_of_two_calls_side_by_side(model: ScriptedModel) -> None:
    """Between calls only this is promised: each is before its own end, all of them inside the batch."""
    agent, seen = watched(tools=[calculator])
    model.turns = [[CALL, CALL], "2"]
    agent("How much is 1 + 1, twice?")
    batch = seen[seen.index("BeforeTools") : seen.index("AfterTools") + 1]
    assert sorted(batch) == sorted(
        ["BeforeTools", *["BeforeToolCall", "ToolResult", "AfterToolCall"] * 2, "AfterTools"]
    )
    assert batch[1] == "BeforeToolCall"
    assert seen.count("MessageAdded") == 4


def test_the_lifecycle_of_a_request_that_fails(model: ScriptedModel) -> None:
    agent, seen = watched()
    model.turns = [RuntimeError("no such model")]
    with pytest.raises(RuntimeError, match="no such model"):
        agent("hello")
    assert seen == [
        "BeforeInvocation", "MessageAdded", "BeforeModelCall", "AfterModelCall", "AfterInvocation",
    ]  # fmt: skip


def test_the_lifecycle_of_a_request_that_halts_and_goes_on(model: ScriptedModel) -> None:
    agent, seen = watched(tools=[calculator])
    agent.add_hook(lambda event: event.interrupt("ok?"), BeforeToolCallEvent)
    model.turns = [CALL, "2"]
    result = agent("How much is 1 + 1?")
    without_chunks = [name for name in seen if name != "ModelStreamUpdate"]
    assert without_chunks == [
        "BeforeInvocation", "MessageAdded",
        "BeforeModelCall", "ContentBlock", "ModelMessage", "AfterModelCall", "MessageAdded",
        "BeforeTools", "BeforeToolCall", "AfterTools", "Interrupt", "AgentResult", "AfterInvocation",
    ]  # fmt: skip
    seen.clear()
    answers = [
        {"interruptResponse": {"interruptId": each.id, "response": "y"}} for each in result.interrupts or ()
    ]
    assert agent(answers).stop_reason == "end_turn"
    without_chunks = [name for name in seen if name != "ModelStreamUpdate"]
    assert without_chunks == [
        "BeforeInvocation", "BeforeToolCall", "ToolResult", "AfterToolCall", "AfterTools", "MessageAdded",
        "BeforeModelCall", "ContentBlock", "ModelMessage", "AfterModelCall", "MessageAdded",
        "AgentResult", "AfterInvocation",
    ]  # fmt: skip
