"""The samples with a `Swarm` of the seeds, with the imports changed and little else."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from graphkit import Agent, tool
from graphkit.hooks import BeforeNodeCallEvent, BeforeToolCallEvent, HookProvider, HookRegistry
from graphkit.models.scripted import ScriptedModel, ToolCall
from graphkit.multiagent import Graph, Status, Swarm
from graphkit.session import FileSessionManager
from tests.seeds.conftest import Typed

DENIED = "User denied permission to cleanup resources"


@pytest.fixture(params=["call", "invoke_async"], autouse=True)
def either_door(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a test twice: as it is, and with `swarm(...)` going through `invoke_async`."""
    if request.param == "invoke_async":

        def call(swarm: Swarm, *args: Any, **kwargs: Any) -> Any:
            return asyncio.run(swarm.invoke_async(*args, **kwargs))

        monkeypatch.setattr(Swarm, "__call__", call)


class ApprovalHook(HookProvider):
    def __init__(self, app_name: str) -> None:
        self.app_name = app_name

    def register_hooks(self, registry: HookRegistry) -> None:
        registry.add_callback(BeforeNodeCallEvent, self.approve)

    def approve(self, event: BeforeNodeCallEvent) -> None:
        if event.node_id != "cleanup":
            return

        approval = event.interrupt(f"{self.app_name}-approval", reason={"resources": "example"})
        if approval.lower() != "y":
            event.cancel_node = "User denied permission to cleanup resources"


@pytest.mark.parametrize(("typed", "said"), [("y", "Cleaned."), ("N", DENIED)])
def test_a_hook_that_asks_before_a_node(
    model: ScriptedModel, typed_in: Typed, capsys: pytest.CaptureFixture[str], typed: str, said: str
) -> None:
    model.turns = ["Cleaned."]
    typed_in.answers = [typed]

    swarm = Swarm(
        [
            Agent(
                name="cleanup",
                system_prompt="You clean up resources older than 5 days.",
                callback_handler=None,
            ),
        ],
        hooks=[ApprovalHook("myapp")],
    )
    result = swarm("Clean up my resources")

    while result.status == Status.INTERRUPTED:
        responses = []
        for interrupt in result.interrupts:
            if interrupt.name == "myapp-approval":
                user_input = input(f"Do you want to cleanup {interrupt.reason['resources']} (y/N): ")
                responses.append(
                    {
                        "interruptResponse": {
                            "interruptId": interrupt.id,
                            "response": user_input,
                        },
                    }
                )

        result = swarm(responses)

    print(f"MESSAGE: {json.dumps(result.results['cleanup'].result.message, indent=2)}")  # type: ignore[union-attr]

    assert typed_in.asked == ["Do you want to cleanup example (y/N): "]
    shown = json.loads(capsys.readouterr().out.removeprefix("MESSAGE: "))
    assert (shown["role"], shown["content"]) == ("assistant", [{"text": said}])
    assert len(model.requests) == (1 if typed == "y" else 0)


@pytest.mark.parametrize("kept", ["object", "session"])
def test_questions_from_within_the_nodes(model: ScriptedModel, tmp_path: Any, kept: str) -> None:
    """Of a hook and of a tool of an agent, one after the other; with a session, by a fresh swarm each time."""
    handoff = ToolCall("handoff_to_agent", {"agent_name": "cleanup", "message": "the old ones"})
    model.per_thread = True
    model.turns = [
        lambda request: [handoff] if "inspect" in (request.system_prompt or "") else [ToolCall("delete", {})],
        "Done.",
    ]
    deleted: list[str] = []

    def swarm() -> Swarm:
        @tool(context=True)
        def delete(tool_context: Any) -> str:
            """Delete resources."""
            approval = tool_context.interrupt("tool-approval", reason="from the tool")
            deleted.append(approval)
            return "deleted"

        def approve(event: BeforeToolCallEvent) -> None:
            if event.tool_use["name"] == "delete":
                event.interrupt("hook-approval", reason="from the hook")

        return Swarm(
            [
                Agent(name="inspector", system_prompt="You inspect resources.", callback_handler=None),
                Agent(name="cleanup", tools=[delete], hooks=[approve], callback_handler=None),
            ],
            session_manager=FileSessionManager("s", str(tmp_path)) if kept == "session" else None,
        )

    asked = []
    team = swarm()
    result = team("Clean up my resources")
    while result.status == Status.INTERRUPTED:
        [interrupt] = result.interrupts
        asked.append((interrupt.name, interrupt.reason))
        response = {"interruptResponse": {"interruptId": interrupt.id, "response": interrupt.name}}
        team = swarm() if kept == "session" else team
        result = team([response])

    assert asked == [("hook-approval", "from the hook"), ("tool-approval", "from the tool")]
    assert deleted == ["tool-approval"]
    assert [node.node_id for node in result.node_history] == ["inspector", "cleanup"]
    assert result.results["cleanup"].result.message["content"] == [{"text": "Done."}]  # type: ignore[union-attr]
    assert len(model.requests) == 4


def test_a_hook_for_any_orchestrator(model: ScriptedModel, capsys: pytest.CaptureFixture[str]) -> None:
    model.repeat, model.turns = True, ["Done."]
    handled: list[tuple[str, str]] = []

    class UniversalMultiAgentHook(HookProvider):
        def register_hooks(self, registry: HookRegistry) -> None:
            registry.add_callback(BeforeNodeCallEvent, self.handle_node_execution)

        def handle_node_execution(self, event: BeforeNodeCallEvent) -> None:
            orchestrator_type = type(event.source).__name__
            print(f"Executing node {event.node_id} in {orchestrator_type} orchestrator")

            # Handle orchestrator-specific logic if needed
            if orchestrator_type == "Graph":
                self.handle_graph_node(event)
            elif orchestrator_type == "Swarm":
                self.handle_swarm_node(event)

        def handle_graph_node(self, event: BeforeNodeCallEvent) -> None:
            # Graph-specific handling
            assert isinstance(event.source, Graph)
            handled.append(("graph", event.node_id))

        def handle_swarm_node(self, event: BeforeNodeCallEvent) -> None:
            # Swarm-specific handling
            assert isinstance(event.source, Swarm)
            handled.append(("swarm", event.node_id))

    hook = UniversalMultiAgentHook()
    inner = Swarm([Agent(name="writer", callback_handler=None)], hooks=[hook])
    Graph({"swarm": inner}, hooks=[hook])("Go")
    assert handled == [("graph", "swarm"), ("swarm", "writer")]
    assert capsys.readouterr().out.splitlines() == [
        "Executing node swarm in Graph orchestrator",
        "Executing node writer in Swarm orchestrator",
    ]
