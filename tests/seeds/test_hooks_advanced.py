"""The samples on hooks, "Advanced usage" and "Best practices", with only the imports changed."""

from __future__ import annotations

import logging
import sqlite3
from typing import Any

import pytest

from graphkit import Agent, tool
from graphkit.hooks import (
    AfterInvocationEvent,
    AfterToolCallEvent,
    BeforeInvocationEvent,
    BeforeToolCallEvent,
    HookProvider,
    HookRegistry,
)
from graphkit.models import ScriptedModel
from graphkit.models.scripted import ToolCall
from graphkit.plugins import Plugin
from graphkit.types.content import TextBlock
from graphkit.types.tools import AgentTool, ToolResultBlock

pytestmark = pytest.mark.usefixtures("either_colour")

logger = logging.getLogger(__name__)


def results_seen_by(model: ScriptedModel) -> list[dict[str, Any]]:
    """The tool results in what the model was sent last."""
    blocks = [block for message in model.requests[-1].messages for block in message["content"]]
    return [dict(block["toolResult"]) for block in blocks if "toolResult" in block]


# --- Accessing invocation state in hooks ----------------------------------------------------------------


@tool
def my_tool() -> str:
    """Do something."""
    return "done"


def log_with_context(event: BeforeToolCallEvent) -> None:
    """Log tool invocations with context from invocation state."""
    # Access invocation state from the event
    user_id = event.invocation_state.get("user_id", "unknown")
    session_id = event.invocation_state.get("session_id")

    # Access non-JSON serializable objects like database connections
    db_connection = event.invocation_state.get("database_connection")
    logger_instance = event.invocation_state.get("custom_logger")

    # Use custom logger if provided, otherwise use default
    logger = logger_instance if logger_instance else logging.getLogger(__name__)

    logger.info(
        f"User {user_id} in session {session_id} "
        f"invoking tool: {event.tool_use['name']} "
        f"with DB connection: {db_connection is not None}"
    )


def test_accessing_invocation_state_in_hooks(model: ScriptedModel, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    model.turns = [ToolCall("my_tool"), "processed"] * 2

    # Register the hook
    agent = Agent(tools=[my_tool])
    agent.hooks.add_callback(BeforeToolCallEvent, log_with_context)

    # Execute with context including non-serializable objects
    custom_logger = logging.getLogger("custom")
    db_conn = sqlite3.connect(":memory:")

    result = agent(
        "Process the data",
        user_id="user123",
        session_id="sess456",
        database_connection=db_conn,  # Non-JSON serializable object
        custom_logger=custom_logger,  # Non-JSON serializable object
    )
    db_conn.close()
    said = "User user123 in session sess456 invoking tool: my_tool with DB connection: True"
    assert ("custom", logging.INFO, said) in caplog.record_tuples
    assert result.invocation_state["database_connection"] is db_conn

    agent("Process more data")
    said = "User unknown in session None invoking tool: my_tool with DB connection: False"
    assert (__name__, logging.INFO, said) in caplog.record_tuples


def test_the_same_invocation_state_is_returned_on_the_result(
    model: ScriptedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    """The TypeScript sample."""
    model.turns = [ToolCall("my_tool"), "processed"]
    agent = Agent(tools=[my_tool], callback_handler=None)

    def callback(event: BeforeToolCallEvent) -> None:
        # Read caller-provided context
        user_id = event.invocation_state["user_id"]
        session_id = event.invocation_state["session_id"]

        print(f"User {user_id} (session {session_id}) invoking tool: {event.tool_use.name}")

    agent.add_hook(callback, BeforeToolCallEvent)

    # Pass invocation state when invoking the agent
    state = {
        "user_id": "user123",
        "session_id": "sess456",
    }
    result = agent("Process the data", invocation_state=state)

    # The same object is returned on the result
    assert result.invocation_state["user_id"] == "user123"
    assert result.invocation_state is state
    assert capsys.readouterr().out == "User user123 (session sess456) invoking tool: my_tool\n"


# --- Tool interception ----------------------------------------------------------------------------------

ran: list[str] = []


@tool
def sensitive_tool(text: str) -> str:
    """Do something dangerous."""
    ran.append(f"sensitive {text}")
    return "danger"


@tool
def safe_tool(text: str) -> str:
    """Do something safe."""
    ran.append(f"safe {text}")
    return "safety"


class ToolInterceptor(HookProvider):
    def register_hooks(self, registry: HookRegistry) -> None:
        registry.add_callback(BeforeToolCallEvent, self.intercept_tool)

    def intercept_tool(self, event: BeforeToolCallEvent) -> None:
        if event.tool_use.name == "sensitive_tool":
            # Replace with a safer alternative
            event.selected_tool = self.safe_alternative_tool
            event.tool_use["name"] = "safe_tool"

    safe_alternative_tool = safe_tool


class ToolInterceptorPlugin(Plugin):
    """The TypeScript sample."""

    name = "tool-interceptor"

    def __init__(self, safe_alternative: AgentTool) -> None:
        self._safe_alternative = safe_alternative

    def init_agent(self, agent: Agent) -> None:
        agent.add_hook(lambda event: self._intercept_tool(event), BeforeToolCallEvent)

    def _intercept_tool(self, event: BeforeToolCallEvent) -> None:
        if event.tool_use.name != "sensitive_tool":
            return
        # Run a safer tool in place of the registry's match for this call.
        event.selected_tool = self._safe_alternative
        # Mirror the rename on tool_use so the model sees the substitution.
        event.tool_use.name = self._safe_alternative.tool_name


@pytest.mark.parametrize("form", ["provider", "plugin"])
def test_tool_interception(form: str, model: ScriptedModel) -> None:
    """S131."""
    ran.clear()
    model.turns = [ToolCall("sensitive_tool", {"text": "x"}), ToolCall("my_tool"), "done"]
    tools = [sensitive_tool, my_tool]  # the safe tool is not the agent's
    agent = (
        Agent(tools=tools, hooks=[ToolInterceptor()])
        if form == "provider"
        else Agent(tools=tools, plugins=[ToolInterceptorPlugin(safe_tool)])
    )
    agent("Do it")
    assert ran == ["safe x"]
    assert results_seen_by(model)[0]["content"] == [{"text": "safety"}]
    calls = [
        block["toolUse"]["name"]
        for message in model.requests[-1].messages
        for block in message["content"]
        if "toolUse" in block
    ]
    assert calls == ["safe_tool", "my_tool"]


# --- Result modification --------------------------------------------------------------------------------


@tool
def calculator(expression: str) -> str:
    """Calculate."""
    return "42"


class ResultProcessor(HookProvider):
    def register_hooks(self, registry: HookRegistry) -> None:
        registry.add_callback(AfterToolCallEvent, self.process_result)

    def process_result(self, event: AfterToolCallEvent) -> None:
        if event.tool_use.name == "calculator":
            # Add formatting to calculator results
            original_content = event.result["content"][0]["text"]
            event.result["content"][0]["text"] = f"Result: {original_content}"


class LoggingResultProcessor(HookProvider):
    """The sample of "Event property modifications"."""

    def register_hooks(self, registry: HookRegistry) -> None:
        registry.add_callback(AfterToolCallEvent, self.process_result)

    def process_result(self, event: AfterToolCallEvent) -> None:
        if event.tool_use.name == "calculator":
            original_content = event.result["content"][0]["text"]
            logger.info(f"Modifying calculator result: {original_content}")
            event.result["content"][0]["text"] = f"Result: {original_content}"


class ResultProcessorPlugin(Plugin):
    """The TypeScript sample: a new result is assigned."""

    name = "result-processor"

    def init_agent(self, agent: Agent) -> None:
        agent.add_hook(lambda event: self._process_result(event), AfterToolCallEvent)

    def _process_result(self, event: AfterToolCallEvent) -> None:
        if event.tool_use.name != "calculator":
            return

        # Prefix calculator output before it propagates to the model.
        event.result = ToolResultBlock(  # type: ignore[assignment]
            tool_use_id=event.result["toolUseId"],
            status=event.result["status"],
            content=[
                TextBlock(f"Result: {block['text']}") if "text" in block else block  # type: ignore[misc]
                for block in event.result["content"]
            ],
        )


@pytest.mark.parametrize(
    "options",
    [
        {"hooks": [ResultProcessor()]},
        {"hooks": [LoggingResultProcessor()]},
        {"plugins": [ResultProcessorPlugin()]},
    ],
    ids=["provider", "logging", "plugin"],
)
def test_result_modification(
    options: dict[str, Any], model: ScriptedModel, caplog: pytest.LogCaptureFixture
) -> None:
    """S132, S135."""
    caplog.set_level(logging.INFO)
    model.turns = [[ToolCall("calculator", {"expression": "6 * 7"}), ToolCall("my_tool")], "It is 42"]
    agent = Agent(tools=[calculator, my_tool], **options)
    agent("How much is 6 * 7?")
    expected = [[{"text": "Result: 42"}], [{"text": "done"}]]
    assert [result["content"] for result in results_seen_by(model)] == expected
    assert [block["toolResult"]["content"] for block in agent.messages[2]["content"]] == expected
    logged = "Modifying calculator result: 42" in caplog.messages
    assert logged is isinstance(options.get("hooks", [None])[0], LoggingResultProcessor)


# --- Composability --------------------------------------------------------------------------------------


class RequestLoggingHook(HookProvider):
    def register_hooks(self, registry: HookRegistry) -> None:
        registry.add_callback(BeforeInvocationEvent, self.log_request)
        registry.add_callback(AfterInvocationEvent, self.log_response)
        registry.add_callback(BeforeToolCallEvent, self.log_tool_use)

    def __init__(self) -> None:
        self.log: list[str] = []

    def log_request(self, event: BeforeInvocationEvent) -> None:
        assert event.messages is not None
        self.log.append(f"request {event.messages[0]['content'][0]['text']}")

    def log_response(self, event: AfterInvocationEvent) -> None:
        self.log.append(f"response {event.result}".strip())

    def log_tool_use(self, event: BeforeToolCallEvent) -> None:
        self.log.append(f"tool {event.tool_use.name}")


class RequestLoggingPlugin(Plugin):
    """The TypeScript sample."""

    name = "request-logging"

    def __init__(self) -> None:
        self.hook = RequestLoggingHook()

    def init_agent(self, agent: Agent) -> None:
        agent.add_hook(lambda ev: self.hook.log_request(ev), BeforeInvocationEvent)
        agent.add_hook(lambda ev: self.hook.log_response(ev), AfterInvocationEvent)
        agent.add_hook(lambda ev: self.hook.log_tool_use(ev), BeforeToolCallEvent)


def test_composability(model: ScriptedModel) -> None:
    """S134."""
    model.turns = [ToolCall("my_tool"), "processed"]
    provider, plugin = RequestLoggingHook(), RequestLoggingPlugin()
    agent = Agent(tools=[my_tool], hooks=[provider], plugins=[plugin])
    agent("Process the data")
    assert (
        provider.log == plugin.hook.log == ["request Process the data", "tool my_tool", "response processed"]
    )
