"""The multi-agent samples of the seeds on interrupts and on hooks that are about graphs, with the imports changed and
little else; those for TypeScript under their Python names."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphkit import Agent, tool
from graphkit.hooks import (
    AfterNodeCallEvent,
    BeforeNodeCallEvent,
    BeforeToolCallEvent,
    HookProvider,
    HookRegistry,
)
from graphkit.models.scripted import ScriptedModel, ToolCall
from graphkit.multiagent import Graph, GraphBuilder, MultiAgentResult, Status
from graphkit.plugins import MultiAgentPlugin, Plugin, hook
from graphkit.session import FileSessionManager
from graphkit.types.tools import ToolContext
from tests.seeds.conftest import Typed


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


@pytest.mark.parametrize(
    ("typed", "text", "status"),
    [
        ("y", "Cleaned up.", Status.COMPLETED),
        ("n", "User denied permission to cleanup resources", Status.CANCELLED),
    ],
)
def test_a_hook_of_a_graph_asks(
    model: ScriptedModel,
    typed_in: Typed,
    capsys: pytest.CaptureFixture[str],
    typed: str,
    text: str,
    status: Status,
) -> None:
    """S42, S45, S46, S47, S48, S49."""
    model.per_thread = False
    model.turns = ["Inspected.", "Cleaned up."]
    typed_in.answers = [typed]

    inspector_agent = Agent(name="inspector", system_prompt="You inspect resources.", callback_handler=None)
    cleanup_agent = Agent(
        name="cleanup", system_prompt="You clean up resources older than 5 days.", callback_handler=None
    )
    builder = GraphBuilder()
    builder.add_node(inspector_agent, "inspector")
    builder.add_node(cleanup_agent, "cleanup")
    builder.add_edge("inspector", "cleanup")
    builder.set_entry_point("inspector")
    builder.set_hook_providers([ApprovalHook("myapp")])
    graph = builder.build()

    result = graph("Inspect and clean up my resources")
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
        result = graph(responses)

    print(f"MESSAGE: {json.dumps(result.results['cleanup'].result.message, indent=2)}")  # type: ignore[union-attr]

    assert typed_in.asked == ["Do you want to cleanup example (y/N): "]
    assert text in capsys.readouterr().out
    assert (result.status, result.results["cleanup"].status) == (Status.COMPLETED, status)
    assert len(model.requests) == (2 if typed == "y" else 1)


# --- The rules for interrupts in graphs ---------------------------------------------------------------------


def answered(result: MultiAgentResult, value: Any = "y") -> list[dict[str, Any]]:
    return [
        {"interruptResponse": {"interruptId": interrupt.id, "response": value}}
        for interrupt in result.interrupts
    ]


def quiet(*turns: Any, **options: Any) -> Agent:
    return Agent(ScriptedModel(turns), callback_handler=None, **options)


def test_all_hooks_on_the_event_execute_and_may_ask() -> None:
    """S50, S51."""
    ran: list[str] = []

    def asks(name: str) -> Callable[[BeforeNodeCallEvent], None]:
        def ask(event: BeforeNodeCallEvent) -> None:
            ran.append(name)
            event.interrupt(name)

        return ask

    graph = Graph([quiet("done", name="a")], hooks=[asks("one"), asks("two")])
    result = graph("go")
    assert (ran, [interrupt.name for interrupt in result.interrupts]) == (["one", "two"], ["one", "two"])
    assert graph(answered(result)).status is Status.COMPLETED


def test_one_hook_asks_one_question_after_the_other() -> None:
    got: list[Any] = []

    def ask(event: BeforeNodeCallEvent) -> None:
        got[:] = [event.interrupt("first"), event.interrupt("second")]

    graph = Graph([quiet("done", name="a")], hooks=[ask])
    first = graph("go")
    second = graph(answered(first, 1))
    assert [interrupt.name for interrupt in second.interrupts] == ["second"]
    assert graph(answered(second, 2)).status is Status.COMPLETED
    assert got == [1, 2]


def test_one_node_asks_several_questions() -> None:
    """Following the single-agent patterns: two tools of one agent, side by side."""

    @tool(context=True)
    def delete(path: str, tool_context: ToolContext) -> str:
        """Delete."""
        return f"{path}: {tool_context.interrupt('approve', reason=path)}"

    agent = quiet(
        [ToolCall("delete", {"path": "a"}), ToolCall("delete", {"path": "b"})], "done", tools=[delete]
    )
    graph = Graph({"cleanup": agent})
    result = graph("go")
    assert [interrupt.reason for interrupt in result.interrupts] == ["a", "b"]
    assert graph(answered(result)).status is Status.COMPLETED


def test_all_nodes_running_concurrently_execute_and_are_interruptible() -> None:
    """S51: two gated ones ask, the third completes once."""

    def ask(event: BeforeNodeCallEvent) -> None:
        if event.node_id != "plain":
            event.interrupt("gate", reason=event.node_id)

    plain = quiet("plain")
    graph = Graph({"one": quiet("1"), "plain": plain, "two": quiet("2")}, hooks=[ask])
    result = graph("go")
    assert [interrupt.reason for interrupt in result.interrupts] == ["one", "two"]
    assert result.results["plain"].status is Status.COMPLETED
    done = graph(answered(result))
    assert [node.status for node in done.results.values()] == [Status.COMPLETED] * 3
    assert isinstance(plain.model, ScriptedModel) and len(plain.model.requests) == 1


def test_interrupts_of_a_graph_are_kept_in_a_session(tmp_path: Path) -> None:
    """S52: a fresh graph for each call, as a server makes one."""

    def server(given: Any) -> MultiAgentResult:
        agents = [quiet("Inspected.", name="inspector"), quiet("Cleaned up.", name="cleanup")]
        result: MultiAgentResult = Graph(
            agents,
            [("inspector", "cleanup")],
            hooks=[ApprovalHook("myapp")],
            session_manager=FileSessionManager("session", tmp_path),
        )(given)
        return result

    result = server("Clean up")
    assert result.status is Status.INTERRUPTED
    done = server(answered(result))
    assert str(done) == "inspector: Inspected.\ncleanup: Cleaned up."


# --- Hooks --------------------------------------------------------------------------------------------------


def test_individual_callbacks_on_an_orchestrator(capsys: pytest.CaptureFixture[str]) -> None:
    """S61."""
    orchestrator = Graph([quiet("x", name="a")])

    def my_callback(event: BeforeNodeCallEvent) -> None:
        print("Custom callback triggered")

    orchestrator.hooks.add_callback(BeforeNodeCallEvent, my_callback)
    orchestrator("go")
    assert capsys.readouterr().out == "Custom callback triggered\n"


def test_add_hook_of_a_graph(model: ScriptedModel) -> None:
    """S61, S65, S66 (TypeScript form)."""
    model.turns = ["researched", "written"]
    model.per_thread = False
    said: list[str] = []
    researcher = Agent(id="researcher", system_prompt="You are a research specialist.", callback_handler=None)
    writer = Agent(id="writer", system_prompt="You are a writing specialist.", callback_handler=None)

    graph = Graph(nodes=[researcher, writer], edges=[("researcher", "writer")])

    graph.add_hook(lambda event: said.append(f"Node {event.node_id} starting"), BeforeNodeCallEvent)
    graph.add_hook(lambda event: said.append(f"Node {event.node_id} completed"), AfterNodeCallEvent)

    graph("go")
    assert said == [
        "Node researcher starting",
        "Node researcher completed",
        "Node writer starting",
        "Node writer completed",
    ]


class ConditionalExecutionHook(HookProvider):
    def __init__(self, skip_conditions: dict[str, Callable[[Any], bool]]) -> None:
        self.skip_conditions = skip_conditions

    def register_hooks(self, registry: HookRegistry) -> None:
        registry.add_callback(BeforeNodeCallEvent, self.check_execution_conditions)

    def check_execution_conditions(self, event: BeforeNodeCallEvent) -> None:
        node_id = event.node_id
        if node_id in self.skip_conditions:
            condition_func = self.skip_conditions[node_id]
            if condition_func(event.invocation_state):
                print(f"Skipping node {node_id} due to condition")
                event.cancel = "Skipping review for this run"


def test_conditional_node_execution(capsys: pytest.CaptureFixture[str]) -> None:
    """S133: the node is really skipped."""
    researcher, writer = quiet("r", "r", id="researcher"), quiet("w", "w", id="writer")
    reviewer = quiet("reviewed", id="reviewer")
    graph = Graph(
        nodes=[researcher, writer, reviewer],
        edges=[("researcher", "writer"), ("writer", "reviewer")],
        hooks=[ConditionalExecutionHook({"reviewer": lambda state: state.get("draft", False)})],
    )
    result = graph("write", invocation_state={"draft": True})
    assert result.status is Status.COMPLETED
    assert result.results["reviewer"].status is Status.CANCELLED
    assert capsys.readouterr().out == "Skipping node reviewer due to condition\n"
    assert graph("write", invocation_state={}).results["reviewer"].status is Status.COMPLETED


class UniversalMultiAgentHook(HookProvider):
    def __init__(self) -> None:
        self.handled: list[str] = []

    def register_hooks(self, registry: HookRegistry) -> None:
        registry.add_callback(BeforeNodeCallEvent, self.handle_node_execution)

    def handle_node_execution(self, event: BeforeNodeCallEvent) -> None:
        orchestrator_type = type(event.source).__name__
        print(f"Executing node {event.node_id} in {orchestrator_type} orchestrator")

        if orchestrator_type == "Graph":
            self.handle_graph_node(event)
        elif orchestrator_type == "Swarm":
            self.handle_swarm_node(event)

    def handle_graph_node(self, event: BeforeNodeCallEvent) -> None:
        self.handled.append("graph")

    def handle_swarm_node(self, event: BeforeNodeCallEvent) -> None:
        self.handled.append("swarm")


def test_orchestrator_agnostic_design(capsys: pytest.CaptureFixture[str]) -> None:
    """S128."""
    universal = UniversalMultiAgentHook()
    Graph([quiet("x", name="a")], hooks=[universal])("go")
    assert universal.handled == ["graph"]
    assert capsys.readouterr().out == "Executing node a in Graph orchestrator\n"


def test_a_universal_plugin() -> None:
    """S128, S129 (TypeScript form)."""
    handled: list[str] = []

    class UniversalMultiAgentPlugin(MultiAgentPlugin):
        name = "universal-multi-agent"

        def init_multi_agent(self, orchestrator: Any) -> None:
            def handle(event: BeforeNodeCallEvent) -> None:
                handled.append(f"Executing node {event.node_id} in {orchestrator.id} orchestrator")
                assert isinstance(orchestrator, Graph)

            orchestrator.add_hook(handle)

    Graph([quiet("x", name="a")], plugins=[UniversalMultiAgentPlugin()])("go")
    assert handled == ["Executing node a in default_graph orchestrator"]


def test_a_plugin_of_both_kinds() -> None:
    class ObservabilityPlugin(Plugin, MultiAgentPlugin):
        name = "observability"

        def __init__(self) -> None:
            self.said: list[str] = []

        @hook
        def on_agent_tool(self, event: BeforeToolCallEvent) -> None:
            self.said.append("tool")

        @hook
        def on_node_call(self, event: BeforeNodeCallEvent) -> None:
            self.said.append("node")

    @tool
    def tool1() -> str:
        """Work."""
        return "done"

    plugin = ObservabilityPlugin()
    agent = quiet([ToolCall("tool1", {})], "done", name="a", tools=[tool1], plugins=[plugin])
    Graph([agent], plugins=[plugin])("go")
    assert plugin.said == ["node", "tool"]


class AgentLevelHook(HookProvider):
    def register_hooks(self, registry: HookRegistry) -> None:
        registry.add_callback(BeforeToolCallEvent, self.log_tool_use)

    def log_tool_use(self, event: BeforeToolCallEvent) -> None:
        print(f"Agent tool call: {event.tool_use['name']}")


class OrchestratorLevelHook(HookProvider):
    def register_hooks(self, registry: HookRegistry) -> None:
        registry.add_callback(BeforeNodeCallEvent, self.log_node_execution)

    def log_node_execution(self, event: BeforeNodeCallEvent) -> None:
        print(f"Orchestrator node execution: {event.node_id}")


def test_integration_with_multi_agent_systems(capsys: pytest.CaptureFixture[str]) -> None:
    """S65, S130: both levels fire."""

    @tool
    def tool1() -> str:
        """Work."""
        return "done"

    @tool
    def tool2() -> str:
        """Work."""
        return "done"

    agent1 = quiet([ToolCall("tool1", {})], "done", tools=[tool1], hooks=[AgentLevelHook()])
    agent2 = quiet([ToolCall("tool2", {})], "done", tools=[tool2], hooks=[AgentLevelHook()])

    orchestrator = Graph(agents={"agent1": agent1, "agent2": agent2}, hooks=[OrchestratorLevelHook()])

    orchestrator("go")
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "Agent tool call: tool1",
        "Agent tool call: tool2",
        "Orchestrator node execution: agent1",
        "Orchestrator node execution: agent2",
    ]
