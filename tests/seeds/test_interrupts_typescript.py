"""The TypeScript samples of the seed on interrupts, under the Python names: lines as close as Python lets them be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from graphkit import Agent, tool
from graphkit.agent import AgentResult
from graphkit.hooks import BeforeToolCallEvent, BeforeToolsEvent
from graphkit.models.scripted import ScriptedModel, ToolCall
from graphkit.session import FileStorage, SessionManager
from graphkit.types.interrupt import InterruptResponseContent
from graphkit.types.tools import ToolContext

PATHS = ["a/b/c.txt", "d/e/f.txt"]
DELETE, INSPECT = ToolCall("delete_files", {"paths": PATHS}), ToolCall("inspect_files", {"paths": PATHS})
DENIED = "User denied permission to delete files"
SCHEMA = {"type": "object", "properties": {"paths": {"type": "array", "items": {"type": "string"}}}}

pytestmark = pytest.mark.usefixtures("either_colour")


@tool(name="delete_files", description="Delete files at the given paths", input_schema=SCHEMA)
def delete_files(paths: list[str]) -> bool:
    # Implementation here
    return True


@tool(name="inspect_files", description="Inspect files at the given paths", input_schema=SCHEMA)
def inspect_files(paths: list[str]) -> dict[str, Any]:
    # Implementation here
    return {}


def responses(result: AgentResult, response: Any) -> list[InterruptResponseContent]:
    return [
        {
            "interruptResponse": {
                "interruptId": interrupt.id,
                # In a real app, collect user input here
                "response": response,
            }
        }
        for interrupt in result.interrupts or []
    ]


def tool_results(messages: Any) -> list[tuple[str, str]]:
    return [
        (block["toolResult"]["status"], block["toolResult"]["content"][0]["text"])
        for message in messages
        for block in message["content"]
        if "toolResult" in block
    ]


# --- Interrupts in hooks ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("response", "deleted"),
    [("y", ("success", "true")), ("Y", ("success", "true")), ("n", ("error", DENIED))],
)
def test_before_tool_call(
    response: str, deleted: Any, model: ScriptedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    model.turns = [[DELETE, INSPECT], "Done."]

    agent = Agent(
        system_prompt="You delete files older than 5 days",
        tools=[delete_files, inspect_files],
        callback_handler=None,
    )

    def hook(event: BeforeToolCallEvent) -> None:
        if event.tool_use.name != "delete_files":
            return

        approval = event.interrupt(name="myapp-approval", reason={"paths": event.tool_use.input["paths"]})
        if approval.lower() != "y":
            event.cancel = "User denied permission to delete files"

    agent.add_hook(hook, BeforeToolCallEvent)

    paths = ["a/b/c.txt", "d/e/f.txt"]
    result = agent.invoke(f"paths=<{json.dumps(paths)}>")
    reasons = [(interrupt.name, interrupt.reason) for interrupt in result.interrupts or []]

    while result.stop_reason == "interrupt":
        result = agent.invoke(responses(result, response))

    print("MESSAGE:", json.dumps(result.message))

    assert reasons == [("myapp-approval", {"paths": PATHS})]
    assert tool_results(agent.messages) == [deleted, ("success", "{}")]
    assert json.loads(capsys.readouterr().out.removeprefix("MESSAGE: "))["content"] == [{"text": "Done."}]
    assert [spec["inputSchema"] for spec in model.requests[0].tool_specs or []] == [{"json": SCHEMA}] * 2


@pytest.mark.parametrize("approved", [True, False])
def test_before_tools(approved: bool, model: ScriptedModel) -> None:
    model.turns = [[DELETE, INSPECT], "Done."]

    agent = Agent(tools=[delete_files, inspect_files], callback_handler=None)

    def hook(event: BeforeToolsEvent) -> None:
        dangerous_tools = [
            block["toolUse"]
            for block in event.message["content"]
            if "toolUse" in block and block["toolUse"]["name"] in ["delete_files"]
        ]

        if len(dangerous_tools) > 0:
            response = event.interrupt(
                name="batch_approval", reason=f"Approve {len(dangerous_tools)} dangerous tool calls?"
            )
            if not response["approved"]:
                event.cancel = "Batch cancelled by user"

    agent.add_hook(hook, BeforeToolsEvent)

    result = agent.invoke("go")
    (interrupt,) = result.interrupts or []
    assert (interrupt.name, interrupt.reason) == ("batch_approval", "Approve 1 dangerous tool calls?")
    assert tool_results(agent.messages) == []
    result = agent.invoke(responses(result, {"approved": approved}))
    assert result.stop_reason == "end_turn"
    expected = (
        [("success", "true"), ("success", "{}")] if approved else [("error", "Batch cancelled by user")] * 2
    )
    assert tool_results(agent.messages) == expected


def test_before_tools_without_dangerous_tools_asks_nothing(model: ScriptedModel) -> None:
    model.turns = [[INSPECT], "Done."]
    agent = Agent(tools=[delete_files, inspect_files], callback_handler=None)

    def hook(event: BeforeToolsEvent) -> None:
        if any(block["toolUse"]["name"] == "delete_files" for block in event.message["content"]):
            event.interrupt(name="batch_approval")

    agent.add_hook(hook, BeforeToolsEvent)
    assert agent.invoke("go").stop_reason == "end_turn"


# --- Interrupts in tools ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("response", "deleted"), [("y", "true"), ("n", "false")])
def test_a_tool_with_a_context(response: str, deleted: str, model: ScriptedModel) -> None:
    model.turns = [[DELETE, INSPECT], "Done."]

    @tool(
        name="delete_files",
        description="Delete files at the given paths",
        input_schema=SCHEMA,
        context="context",
    )
    def delete_files(paths: list[str], context: ToolContext) -> bool:
        approval = context.interrupt(name="myapp-approval", reason={"paths": paths})
        if approval.lower() != "y":  # noqa: SIM103
            return False

        # Implementation here

        return True

    agent = Agent(
        system_prompt="You delete files older than 5 days",
        tools=[delete_files, inspect_files],
        callback_handler=None,
    )

    result = agent.invoke("go")
    (interrupt,) = result.interrupts or []
    assert (interrupt.name, interrupt.reason) == ("myapp-approval", {"paths": PATHS})
    result = agent.invoke(responses(result, response))
    assert result.stop_reason == "end_turn"
    assert tool_results(agent.messages) == [("success", deleted), ("success", "{}")]


# --- Session management -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "asked", "results"),
    [
        ("y", 2, [("success", "true"), ("success", "true")]),
        ("n", 2, [("error", DENIED), ("error", DENIED)]),
        ("t", 1, [("success", "true"), ("success", "true")]),
    ],
)
def test_server_and_client(
    given: str, asked: int, results: Any, model: ScriptedModel, tmp_path: Path
) -> None:
    model.turns = [[DELETE], "Done.", [DELETE], "Again."]
    agents: list[Agent] = []
    rounds: list[AgentResult] = []

    # Server function: creates a fresh agent with session management each call
    def server(prompt: str | list[InterruptResponseContent]) -> AgentResult:
        agent = Agent(
            system_prompt="You delete files older than 5 days",
            tools=[delete_files, inspect_files],
            session_manager=SessionManager(
                session_id="myapp",
                storage={"snapshot": FileStorage(str(tmp_path / "storage"))},
            ),
            callback_handler=None,
        )

        def hook(event: BeforeToolCallEvent) -> None:
            if event.tool_use.name != "delete_files":
                return

            # Check if user already trusted this approval
            if event.agent.app_state.get("myapp-approval") == "t":
                return

            approval = event.interrupt(name="myapp-approval", reason={"paths": event.tool_use.input["paths"]})
            if approval.lower() not in ["y", "t"]:
                event.cancel = "User denied permission to delete files"

            event.agent.app_state.set("myapp-approval", approval.lower())

        agent.add_hook(hook, BeforeToolCallEvent)
        agents.append(agent)
        return agent.invoke(prompt)

    # Client function
    def client(paths: list[str]) -> AgentResult:
        result = server(f"paths=<{json.dumps(paths)}>")

        while result.stop_reason == "interrupt":
            rounds.append(result)
            result = server(responses(result, given))

        return result

    first, second = client(PATHS), client(PATHS)
    assert [result.message["content"] for result in (first, second)] == [
        [{"text": "Done."}],
        [{"text": "Again."}],
    ]
    assert len(rounds) == asked
    assert tool_results(agents[-1].messages) == results
    assert agents[-1].app_state.get("myapp-approval") == given
