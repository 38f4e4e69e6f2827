"""The Python samples of the seed on interrupts, with the imports changed and little else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from graphkit import Agent, tool
from graphkit.agent import AgentResult
from graphkit.hooks import BeforeToolCallEvent, HookProvider, HookRegistry
from graphkit.models.scripted import ScriptedModel, ToolCall
from graphkit.types.tools import ToolContext
from tests.seeds import file_server
from tests.seeds.conftest import Typed

PATHS = ["a/b/c.txt", "d/e/f.txt"]
CALLS = [ToolCall("delete_files", {"paths": PATHS}), ToolCall("inspect_files", {"paths": PATHS})]
DENIED = "User denied permission to delete files"


def tool_results(messages: Any) -> list[tuple[str, str]]:
    return [
        (block["toolResult"]["status"], block["toolResult"]["content"][0]["text"])
        for message in messages
        for block in message["content"]
        if "toolResult" in block
    ]


# --- Interrupts in hooks ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "deleted"), [("y", ("success", "null")), ("Y", ("success", "null")), ("N", ("error", DENIED))]
)
def test_a_hook_that_asks(
    model: ScriptedModel, typed_in: Typed, capsys: pytest.CaptureFixture[str], typed: str, deleted: Any
) -> None:
    model.turns = [CALLS, "Done."]
    typed_in.answers = [typed]

    @tool
    def delete_files(paths: list[str]) -> bool:  # type: ignore[empty-body]
        # Implementation here
        pass

    @tool
    def inspect_files(paths: list[str]) -> dict[str, Any]:  # type: ignore[empty-body]
        # Implementation here
        pass

    class ApprovalHook(HookProvider):
        def __init__(self, app_name: str) -> None:
            self.app_name = app_name

        def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
            registry.add_callback(BeforeToolCallEvent, self.approve)

        def approve(self, event: BeforeToolCallEvent) -> None:
            if event.tool_use["name"] != "delete_files":
                return

            approval = event.interrupt(
                f"{self.app_name}-approval", reason={"paths": event.tool_use["input"]["paths"]}
            )
            if approval.lower() != "y":
                event.cancel_tool = "User denied permission to delete files"

    agent = Agent(
        hooks=[ApprovalHook("myapp")],
        system_prompt="You delete files older than 5 days",
        tools=[delete_files, inspect_files],
        callback_handler=None,
    )

    paths = ["a/b/c.txt", "d/e/f.txt"]
    result = agent(f"paths=<{paths}>")

    while True:
        if result.stop_reason != "interrupt":
            break

        responses = []
        for interrupt in result.interrupts:  # type: ignore[union-attr]
            if interrupt.name == "myapp-approval":
                user_input = input(f"Do you want to delete {interrupt.reason['paths']} (y/N): ")
                responses.append({"interruptResponse": {"interruptId": interrupt.id, "response": user_input}})

        result = agent(responses)

    print(f"MESSAGE: {json.dumps(result.message)}")

    assert typed_in.asked == [f"Do you want to delete {PATHS} (y/N): "]
    assert tool_results(agent.messages) == [deleted, ("success", "null")]
    assert len(model.requests) == 2
    said = json.loads(capsys.readouterr().out.removeprefix("MESSAGE: "))
    assert (said["role"], said["content"]) == ("assistant", [{"text": "Done."}])


# --- Interrupts in tools ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("answer", "deleted"), [("y", "true"), ("N", "false")])
def test_a_tool_that_asks(model: ScriptedModel, answer: str, deleted: str) -> None:
    model.turns = [CALLS, "Done."]

    class DeleteTool:
        def __init__(self, app_name: str) -> None:
            self.app_name = app_name

        @tool(context=True)
        def delete_files(self, tool_context: ToolContext, paths: list[str]) -> bool:
            approval = tool_context.interrupt(f"{self.app_name}-approval", reason={"paths": paths})
            if approval.lower() != "y":  # noqa: SIM103
                return False

            # Implementation here

            return True

    @tool
    def inspect_files(paths: list[str]) -> dict[str, Any]:  # type: ignore[empty-body]
        # Implementation here
        pass

    agent = Agent(
        system_prompt="You delete files older than 5 days",
        tools=[DeleteTool("myapp").delete_files, inspect_files],
        callback_handler=None,
    )

    result = agent(f"paths=<{PATHS}>")
    assert result.stop_reason == "interrupt"
    (interrupt,) = result.interrupts or []
    assert (interrupt.name, interrupt.reason) == ("myapp-approval", {"paths": PATHS})
    result = agent([{"interruptResponse": {"interruptId": interrupt.id, "response": answer}}])
    assert result.stop_reason == "end_turn"
    assert tool_results(agent.messages) == [("success", deleted), ("success", "null")]
    assert len(model.requests) == 2


# --- Session management -----------------------------------------------------------------------------------


def client(server: Any, paths: list[str]) -> AgentResult:
    result: AgentResult = server(f"paths=<{paths}>")

    while True:
        if result.stop_reason != "interrupt":
            break

        responses = []
        for interrupt in result.interrupts:  # type: ignore[union-attr]
            if interrupt.name == "myapp-approval":
                user_input = input(f"Do you want to delete {interrupt.reason['paths']} (t/y/N): ")
                responses.append({"interruptResponse": {"interruptId": interrupt.id, "response": user_input}})

        result = server(responses)

    return result


def in_this_process(prompt: Any) -> Any:
    return file_server.server(prompt)


def in_a_process_of_its_own(prompt: Any) -> Any:
    """`server(prompt)` in a fresh interpreter."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.seeds.file_server"],
        input=json.dumps(prompt),
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "STORAGE": file_server.STORAGE},
    )
    assert run.returncode == 0, run.stderr
    shown = json.loads(run.stdout)
    shown["interrupts"] = [SimpleNamespace(**interrupt) for interrupt in shown["interrupts"] or []]
    return SimpleNamespace(**shown)


@pytest.mark.parametrize(
    ("server", "typed", "results"),
    [
        (in_a_process_of_its_own, ["y", "N"], [("success", "null"), ("error", DENIED)]),
        (in_this_process, ["N", "y"], [("error", DENIED), ("success", "null")]),
        (in_this_process, ["t"], [("success", "null"), ("success", "null")]),
    ],
)
def test_server_and_client(
    server: Any,
    typed: list[str],
    results: Any,
    model: ScriptedModel,
    typed_in: Typed,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model.turns = list(file_server.TURNS)
    monkeypatch.setattr(file_server, "STORAGE", str(tmp_path / "storage"))
    typed_in.answers = list(typed)
    first, second = client(server, PATHS), client(server, PATHS)
    assert [result.message["content"] for result in (first, second)] == [
        [{"text": "Done."}],
        [{"text": "Again."}],
    ]
    assert len(typed_in.asked) == len(typed)
    assert typed_in.asked[0] == f"Do you want to delete {PATHS} (t/y/N): "
    assert tool_results(file_server.messages()) == results
