"""The cookbook of the document on hooks, with only the imports changed: each recipe with its usage, and its TypeScript
twin under its Python names."""
# mypy: disable-error-code="no-untyped-def, assignment, no-untyped-call, var-annotated"

from __future__ import annotations

import asyncio
import logging
import random
from threading import Lock
from typing import Any

import pytest
from pydantic import ValidationError

from graphkit import Agent, tool
from graphkit.hooks import (
    AfterModelCallEvent,
    AfterToolCallEvent,
    BeforeInvocationEvent,
    BeforeToolCallEvent,
    HookableEvent,
    HookProvider,
    HookRegistry,
    ToolResultEvent,
)
from graphkit.models import ScriptedModel
from graphkit.models.scripted import ToolCall
from graphkit.plugins import Plugin

pytestmark = pytest.mark.usefixtures("either_colour")

logger = logging.getLogger(__name__)


def results(agent: Agent) -> list[tuple[str, str]]:
    """Status and text of the tool results in a conversation."""
    found = [
        block["toolResult"]
        for message in agent.messages
        for block in message["content"]
        if "toolResult" in block
    ]
    return [(result["status"], result["content"][0]["text"]) for result in found]


# --- Fixed tool arguments -------------------------------------------------------------------------------


class ConstantToolArguments(HookProvider):
    """Use constant argument values for specific parameters of a tool."""

    def __init__(self, fixed_tool_arguments: dict[str, dict[str, Any]]):
        """
        Initialize fixed parameter values for tools.

        Args:
            fixed_tool_arguments: A dictionary mapping tool names to dictionaries of
                parameter names and their fixed values. These values will override any
                values provided by the agent when the tool is invoked.
        """
        self._tools_to_fix = fixed_tool_arguments

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        registry.add_callback(BeforeToolCallEvent, self._fix_tool_arguments)

    def _fix_tool_arguments(self, event: BeforeToolCallEvent):
        # If the tool is in our list of parameters, then use those parameters
        if parameters_to_fix := self._tools_to_fix.get(event.tool_use["name"]):
            tool_input: dict[str, Any] = event.tool_use["input"]
            tool_input.update(parameters_to_fix)


class ConstantToolArgumentsPlugin(Plugin):
    """The TypeScript sample."""

    def __init__(self, fixed_tool_arguments: dict[str, dict[str, Any]]) -> None:
        self._fixed_tool_arguments = fixed_tool_arguments

    name = "constant-tool-arguments"

    def init_agent(self, agent: Agent) -> None:
        agent.add_hook(lambda ev: self._fix_tool_arguments(ev), BeforeToolCallEvent)

    def _fix_tool_arguments(self, event: BeforeToolCallEvent) -> None:
        # If the tool is in our list of parameters, then use those parameters
        parameters_to_fix = self._fixed_tool_arguments.get(event.tool_use.name)
        if parameters_to_fix:
            tool_input = event.tool_use.input
            tool_input.update(parameters_to_fix)


@tool
def calculator(expression: str, precision: int = 10) -> str:
    """Calculate.

    Args:
        expression: What to calculate.
        precision: How many digits.
    """
    assert expression == "2 / 3"
    return f"{2 / 3:.{precision}f}"


def test_fixed_tool_arguments(model: ScriptedModel) -> None:
    """S136."""
    model.turns = [ToolCall("calculator", {"expression": "2 / 3", "precision": 5}), "about 0.7"]

    fix_parameters = ConstantToolArguments({
        "calculator": {
            "precision": 1,
        }
    })  # fmt: skip

    agent = Agent(tools=[calculator], hooks=[fix_parameters])
    result = agent("What is 2 / 3?")

    assert str(result) == "about 0.7\n"
    assert results(agent) == [("success", "0.7")]


def test_fixed_tool_arguments_as_a_plugin(model: ScriptedModel) -> None:
    model.turns = [ToolCall("calculator", {"expression": "2 / 3"}), "about 0.7"]

    fix_parameters = ConstantToolArgumentsPlugin(
        {
            "calculator": {
                "precision": 1,
            },
        }
    )

    agent = Agent(tools=[calculator], plugins=[fix_parameters])
    agent("What is 2 / 3?")

    assert results(agent) == [("success", "0.7")]
    call = agent.messages[1]["content"][0]["toolUse"]
    assert call["input"] == {"expression": "2 / 3", "precision": 1}


# --- Limit tool counts ----------------------------------------------------------------------------------


class LimitToolCounts(HookProvider):
    """Limits the number of times tools can be called per agent invocation"""

    def __init__(self, max_tool_counts: dict[str, int]):
        """
        Initializer.

        Args:
            max_tool_counts: A dictionary mapping tool names to max call counts for
                tools. If a tool is not specified in it, the tool can be called as many
                times as desired
        """
        self.max_tool_counts = max_tool_counts
        self.tool_counts = {}
        self._lock = Lock()

    def register_hooks(self, registry: HookRegistry) -> None:
        registry.add_callback(BeforeInvocationEvent, self.reset_counts)
        registry.add_callback(BeforeToolCallEvent, self.intercept_tool)

    def reset_counts(self, event: BeforeInvocationEvent) -> None:
        with self._lock:
            self.tool_counts = {}

    def intercept_tool(self, event: BeforeToolCallEvent) -> None:
        tool_name = event.tool_use["name"]
        with self._lock:
            max_tool_count = self.max_tool_counts.get(tool_name)
            tool_count = self.tool_counts.get(tool_name, 0) + 1
            self.tool_counts[tool_name] = tool_count

        if max_tool_count and tool_count > max_tool_count:
            event.cancel_tool = (
                f"Tool '{tool_name}' has been invoked too many and is now being throttled. "
                f"DO NOT CALL THIS TOOL ANYMORE "
            )


class LimitToolCountsPlugin(Plugin):
    """The TypeScript sample."""

    def __init__(self, max_tool_counts: dict[str, int]) -> None:
        self._max_tool_counts = max_tool_counts
        self._tool_counts: dict[str, int] = {}

    name = "limit-tool-counts"

    def init_agent(self, agent: Agent) -> None:
        agent.add_hook(lambda event: self._reset_counts(), BeforeInvocationEvent)
        agent.add_hook(lambda event: self._intercept_tool(event), BeforeToolCallEvent)

    def _reset_counts(self) -> None:
        self._tool_counts = {}

    def _intercept_tool(self, event: BeforeToolCallEvent) -> None:
        tool_name = event.tool_use.name
        max_tool_count = self._max_tool_counts.get(tool_name)
        tool_count = self._tool_counts.get(tool_name, 0) + 1
        self._tool_counts[tool_name] = tool_count

        if max_tool_count is not None and tool_count > max_tool_count:
            event.cancel = (
                f"Tool '{tool_name}' has been invoked too many times and is now being throttled. "
                f"DO NOT CALL THIS TOOL ANYMORE"
            )


@tool
def sleep(milliseconds: int) -> str:
    """Sleep.

    Args:
        milliseconds: How long.
    """
    return f"slept {milliseconds} ms"


@pytest.mark.parametrize("form", ["provider", "plugin"])
@pytest.mark.parametrize("side_by_side", [False, True])
def test_limit_tool_counts(form: str, side_by_side: bool, model: ScriptedModel) -> None:
    """S137."""
    call = ToolCall("sleep", {"milliseconds": 10})
    model.turns = [*([[call] * 5] if side_by_side else [call] * 5), "I can't", call, "done"]
    if form == "provider":
        limit_hook = LimitToolCounts(max_tool_counts={"sleep": 3})

        agent = Agent(tools=[sleep], hooks=[limit_hook])
    else:
        limit_plugin = LimitToolCountsPlugin({"sleep": 3})

        agent = Agent(tools=[sleep], plugins=[limit_plugin])

    # This call will only have 3 successful sleeps
    agent("Sleep 5 times for 10ms each or until you can't anymore")
    assert sorted(status for status, _ in results(agent)) == ["error"] * 2 + ["success"] * 3
    refused = [text for status, text in results(agent) if status == "error"]
    assert all("DO NOT CALL THIS TOOL ANYMORE" in text for text in refused)
    # This will sleep successfully again because the count resets every invocation
    agent("Sleep once")
    assert results(agent)[5:] == [("success", "slept 10 ms")]


# --- Model call retry -----------------------------------------------------------------------------------


class RetryOnServiceUnavailable(HookProvider):
    """Retry model calls when ServiceUnavailable errors occur."""

    def __init__(self, max_retries: int = 3):
        self.max_retries = max_retries
        self.retry_count = 0

    def register_hooks(self, registry: HookRegistry) -> None:
        registry.add_callback(BeforeInvocationEvent, self.reset_counts)
        registry.add_callback(AfterModelCallEvent, self.handle_retry)

    def reset_counts(self, event: BeforeInvocationEvent = None) -> None:
        self.retry_count = 0

    async def handle_retry(self, event: AfterModelCallEvent) -> None:
        if event.exception:
            if "ServiceUnavailable" in str(event.exception):
                logger.info("ServiceUnavailable encountered")
                if self.retry_count < self.max_retries:
                    logger.info("Retrying model call")
                    self.retry_count += 1
                    event.retry = True
                    await asyncio.sleep(2 ** self.retry_count)  # Exponential backoff  # fmt: skip
        else:
            # Reset counts on successful call
            self.reset_counts()


def test_model_call_retry(model: ScriptedModel, slept: list[float]) -> None:
    """S138."""
    away = RuntimeError("ServiceUnavailable: try again")
    model.turns = [away, away, away, "Paris"]

    retry_hook = RetryOnServiceUnavailable(max_retries=3)
    agent = Agent(hooks=[retry_hook])

    result = agent("What is the capital of France?")

    assert str(result) == "Paris\n"
    assert slept == [2, 4, 8]
    assert retry_hook.retry_count == 0
    assert [message["role"] for message in agent.messages] == ["user", "assistant"]


def test_model_call_retry_gives_up(model: ScriptedModel, slept: list[float]) -> None:
    model.turns = [RuntimeError("ServiceUnavailable: try again")] * 3 + ["Paris"]
    agent = Agent(hooks=[RetryOnServiceUnavailable(max_retries=2)])
    with pytest.raises(RuntimeError, match="ServiceUnavailable"):
        agent("What is the capital of France?")
    assert slept == [2, 4]
    # The turn can go on: nothing was said yet.
    assert str(agent()) == "Paris\n"


def test_model_call_retry_of_another_error(model: ScriptedModel, slept: list[float]) -> None:
    model.turns = [RuntimeError("no such model")]
    agent = Agent(hooks=[RetryOnServiceUnavailable()])
    with pytest.raises(RuntimeError, match="no such model"):
        agent("What is the capital of France?")
    assert slept == []


# --- Exception handling ---------------------------------------------------------------------------------


class PropagateUnexpectedExceptions(HookProvider):
    """Re-raise unexpected exceptions instead of returning them to the model."""

    def __init__(self, allowed_exceptions: tuple[type[Exception], ...] = (ValueError,)):
        self.allowed_exceptions = allowed_exceptions

    def register_hooks(self, registry: HookRegistry) -> None:
        registry.add_callback(AfterToolCallEvent, self._check_exception)

    def _check_exception(self, event: AfterToolCallEvent) -> None:
        if event.exception is None:
            return  # Tool succeeded
        if isinstance(event.exception, self.allowed_exceptions):
            return  # Let model retry these
        raise event.exception  # Propagate unexpected errors


raises: list[Exception] = []


@tool
def my_tool(value: int) -> str:
    """Do something.

    Args:
        value: With what.
    """
    if raises:
        raise raises.pop()
    return f"got {value}"


def test_exception_handling(model: ScriptedModel) -> None:
    """S139."""
    # Usage
    agent = Agent(
        model=model,
        tools=[my_tool],
        hooks=[PropagateUnexpectedExceptions(allowed_exceptions=(ValueError, ValidationError))],
    )

    call = ToolCall("my_tool", {"value": 1})
    raises[:] = [ValueError("not this one")]
    model.turns = [call, ToolCall("my_tool", {"value": "no number"}), call, "done"]
    agent("Do it")
    statuses = [status for status, _ in results(agent)]
    assert statuses == ["error", "error", "success"]
    assert "not this one" in results(agent)[0][1]

    unexpected = AssertionError("a bug")
    raises[:] = [unexpected]
    model.turns += [call, "never said"]
    with pytest.raises(AssertionError) as raised:
        agent("Do it again")
    assert raised.value is unexpected


# --- Tool call retry ------------------------------------------------------------------------------------


class RetryOnToolError(HookProvider):
    """Retry tool calls that fail with errors."""

    def __init__(self, max_retries: int = 1):
        self.max_retries = max_retries
        self._attempt_counts: dict[str, int] = {}

    def register_hooks(self, registry: HookRegistry) -> None:
        registry.add_callback(AfterToolCallEvent, self.handle_retry)

    def handle_retry(self, event: AfterToolCallEvent) -> None:
        tool_use_id = str(event.tool_use.get("toolUseId", ""))
        tool_name = event.tool_use.get("name", "unknown")

        # Track attempts per tool_use_id
        attempt = self._attempt_counts.get(tool_use_id, 0) + 1
        self._attempt_counts[tool_use_id] = attempt

        if event.result.get("status") == "error" and attempt <= self.max_retries:
            logger.info(f"Retrying tool '{tool_name}' (attempt {attempt}/{self.max_retries})")
            event.retry = True
        elif event.result.get("status") != "error":
            # Clean up tracking on success
            self._attempt_counts.pop(tool_use_id, None)


@tool
def flaky_api_call(query: str) -> str:
    """Call an external API that sometimes fails.

    Args:
        query: The query to send.
    """
    import random

    if random.random() < 0.5:  # fmt: skip
        raise RuntimeError("Service temporarily unavailable")
    return f"Result for: {query}"


@pytest.mark.parametrize(
    ("thrown", "expected"),
    [
        ([0.7], ("success", "Result for: weather")),
        ([0.2, 0.7], ("success", "Result for: weather")),
        ([0.2, 0.3], ("error", "Error: Service temporarily unavailable")),
    ],
)
def test_tool_call_retry(
    thrown: list[float], expected: tuple[str, str], model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S140: the same `toolUseId`, and only the final attempt's result event."""
    left = list(thrown)
    monkeypatch.setattr(random, "random", lambda: left.pop(0))
    model.turns = [ToolCall("flaky_api_call", {"query": "weather"}), "done"]

    retry_hook = RetryOnToolError(max_retries=1)
    agent = Agent(tools=[flaky_api_call], hooks=[retry_hook])

    seen: list[HookableEvent] = []
    agent.add_hook(seen.append, [BeforeToolCallEvent, AfterToolCallEvent, ToolResultEvent])
    agent("Look up the weather")

    assert left == []
    assert results(agent) == [expected]
    tries = [event for event in seen if isinstance(event, BeforeToolCallEvent)]
    assert len(tries) == len(thrown)
    assert len({event.tool_use["toolUseId"] for event in tries}) == 1
    (final,) = [event for event in seen if isinstance(event, ToolResultEvent)]
    assert (final.result["status"], final.result["content"][0]["text"]) == expected
