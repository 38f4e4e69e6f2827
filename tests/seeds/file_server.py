"""The server of the seed on interrupts (its file server.py), with the imports and the folder changed.

As a program it answers one prompt, given as JSON, and ends: `STORAGE=… python -m tests.seeds.file_server`.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from graphkit import Agent, tool
from graphkit.agent import AgentResult
from graphkit.hooks import BeforeToolCallEvent, HookProvider, HookRegistry
from graphkit.models.scripted import ScriptedModel, ToolCall
from graphkit.session import FileSessionManager
from graphkit.types.agent import AgentInput
from graphkit.types.content import Message

STORAGE = os.environ.get("STORAGE", "")
PATHS = {"paths": ["a/b/c.txt", "d/e/f.txt"]}
TURNS: list[Any] = [[ToolCall("delete_files", PATHS)], "Done.", [ToolCall("delete_files", PATHS)], "Again."]


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

        if event.agent.state.get(f"{self.app_name}-approval") == "t":  # (t)rust
            return

        approval = event.interrupt(
            f"{self.app_name}-approval", reason={"paths": event.tool_use["input"]["paths"]}
        )
        if approval.lower() not in ["y", "t"]:
            event.cancel_tool = "User denied permission to delete files"

        event.agent.state.set(f"{self.app_name}-approval", approval.lower())


def server(prompt: AgentInput) -> AgentResult:
    agent = Agent(
        hooks=[ApprovalHook("myapp")],
        session_manager=FileSessionManager(session_id="myapp", storage_dir=STORAGE),
        system_prompt="You delete files older than 5 days",
        tools=[delete_files, inspect_files],
        callback_handler=None,
    )
    return agent(prompt)


def messages() -> list[Message]:
    """The conversation as it is stored."""
    manager = FileSessionManager(session_id="myapp", storage_dir=STORAGE)
    return Agent(session_manager=manager, callback_handler=None).messages


if __name__ == "__main__":
    Agent.default_model = ScriptedModel(TURNS, per_thread=True)
    answered = server(json.load(sys.stdin))
    shown = {
        "stop_reason": answered.stop_reason,
        "message": answered.message,
        "interrupts": [interrupt.to_dict() for interrupt in answered.interrupts or []],
    }
    print(json.dumps(shown))
