"""The samples for Strands as the seeds have them, moved over by `python -m graphkit.migrate`: each runs.

What a sample takes from around it (tools, a model, the imports of the sample before it) is given to it under the names
it uses, and nothing else. Their rules and their TypeScript twins are tested in the other files of this folder.
"""

from __future__ import annotations

import json
import logging
import random
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from graphkit import Agent, tool
from graphkit.hooks import (
    AfterInvocationEvent,
    AfterToolCallEvent,
    BeforeInvocationEvent,
    BeforeNodeCallEvent,
    BeforeToolCallEvent,
    HookProvider,
    HookRegistry,
)
from graphkit.models import ScriptedModel, ToolCall
from graphkit.multiagent import Graph, Status, Swarm
from tests.seeds.conftest import SAMPLES, Sample, Typed, responses

HOOKS: dict[str, Any] = {
    each.__name__: each
    for each in (
        AfterInvocationEvent,
        AfterToolCallEvent,
        BeforeInvocationEvent,
        BeforeNodeCallEvent,
        BeforeToolCallEvent,
        HookProvider,
        HookRegistry,
    )
}
"""What a sample of the document on hooks takes as imported."""

PATHS = {"paths": ["a/b/c.txt", "d/e/f.txt"]}
FILES = [ToolCall("delete_files", PATHS), ToolCall("inspect_files", PATHS)]


@tool
def calculator(expression: str, precision: int = 10) -> str:
    """Calculate."""
    return f"{2 / 3:.{precision}f}"


CALCULATE = ToolCall("calculator", {"expression": "2 / 3"})


@tool
def my_tool() -> str:
    """Do something."""
    return "done"


def results(agent: Agent) -> list[str]:
    """The texts of the tool results in a conversation."""
    return [
        block["toolResult"]["content"][0]["text"]
        for message in agent.messages
        for block in message["content"]
        if "toolResult" in block
    ]


# --- Interrupts -------------------------------------------------------------------------------------------------


def test_interrupts_in_hooks(sample: Sample, model: ScriptedModel, typed_in: Typed) -> None:
    model.turns, typed_in.answers = [FILES, "Done."], ["N"]
    found = sample()
    assert typed_in.asked == [f"Do you want to delete {PATHS['paths']} (y/N): "]
    assert results(found["agent"]) == ["User denied permission to delete files", "null"]
    assert found["result"].stop_reason == "end_turn"


def test_interrupts_in_tools(sample: Sample, model: ScriptedModel) -> None:
    model.turns = [FILES, "Done."]
    agent = sample()["agent"]
    asked = agent("paths are ...")
    assert [question.reason for question in asked.interrupts] == [PATHS]
    assert agent(responses(asked, "y")).stop_reason == "end_turn"
    assert results(agent) == ["true", "null"]


def test_interrupts_in_sessions(
    sample: Sample, model: ScriptedModel, typed_in: Typed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model.turns, typed_in.answers = [FILES, "Done.", FILES, "Again."], ["t"]
    found = sample(replaced=("/path/to/storage", str(tmp_path)))
    assert capsys.readouterr().out.startswith('MESSAGE: {"role": "assistant", "content": [{"text": "Done."}]')
    assert found["client"](["g"]).message["content"] == [{"text": "Again."}]  # trusted: nobody is asked
    assert len(typed_in.asked) == 1


@pytest.mark.parametrize(
    ("typed", "said"), [("y", "Cleaned."), ("N", "User denied permission to cleanup resources")]
)
def test_interrupts_in_swarms(
    sample: Sample,
    model: ScriptedModel,
    typed_in: Typed,
    capsys: pytest.CaptureFixture[str],
    typed: str,
    said: str,
) -> None:
    model.turns, typed_in.answers = ["Cleaned."], [typed]
    assert sample()["result"].status is Status.COMPLETED
    assert json.loads(capsys.readouterr().out.removeprefix("MESSAGE: "))["content"] == [{"text": said}]


def test_interrupts_in_graphs(
    sample: Sample, model: ScriptedModel, typed_in: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    model.turns, typed_in.answers = ["Inspected.", "Cleaned."], ["y"]
    assert sample()["result"].completed_nodes == 2
    assert json.loads(capsys.readouterr().out.removeprefix("MESSAGE: "))["content"] == [{"text": "Cleaned."}]


# --- Hooks: registering, order, plugins -----------------------------------------------------------------------


def test_hooks_callbacks(sample: Sample, model: ScriptedModel, capsys: pytest.CaptureFixture[str]) -> None:
    model.turns = [CALCULATE, "two thirds"]
    agent = sample()["agent"]
    agent.tool_registry.process_tools([calculator])
    agent("How much?")
    said = capsys.readouterr().out
    assert said.index("Custom callback triggered") < said.index("Tool called: calculator")


def test_hooks_orchestrator(sample: Sample, model: ScriptedModel, capsys: pytest.CaptureFixture[str]) -> None:
    """`Graph(...)` stands for any."""
    model.turns = ["done"]
    found = sample(Graph=lambda _: Graph([Agent(callback_handler=None)]), **HOOKS)
    found["orchestrator"]("go")
    assert capsys.readouterr().out == "Custom callback triggered\n"


def test_hooks_plugin(sample: Sample, model: ScriptedModel, capsys: pytest.CaptureFixture[str]) -> None:
    model.turns = [CALCULATE, "two thirds"]
    agent = sample()["agent"]
    agent.tool_registry.process_tools([calculator])
    agent("How much?")
    said = capsys.readouterr().out
    assert said.index("Calling: calculator") < said.index("Completed: calculator")


def test_hooks_order(sample: Sample, model: ScriptedModel, capsys: pytest.CaptureFixture[str]) -> None:
    model.turns = ["hello"]
    sample()["agent"]("hello")
    said = capsys.readouterr().out
    assert said.index("I run first") < said.index("I run last")


def test_hooks_provider(sample: Sample, model: ScriptedModel, capsys: pytest.CaptureFixture[str]) -> None:
    model.turns = ["hello"]
    sample(Agent=Agent)["agent"]("hello")
    assert capsys.readouterr().out.count("Request completed for agent: graphkit agent") == 2


# --- Hooks: advanced usage ------------------------------------------------------------------------------------


def test_hooks_invocation_state(
    sample: Sample, model: ScriptedModel, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "custom")
    model.turns = [ToolCall("my_tool"), "processed"]
    found = sample(Agent=Agent, my_tool=my_tool)
    found["db_conn"].close()
    assert caplog.messages == [
        "User user123 in session sess456 invoking tool: my_tool with DB connection: True"
    ]


def test_hooks_tool_interception(sample: Sample, model: ScriptedModel) -> None:
    @tool
    def sensitive_tool() -> str:
        """Do something dangerous."""
        raise AssertionError("it ran")

    interceptor = sample(**HOOKS)["ToolInterceptor"]()
    interceptor.safe_alternative_tool = my_tool
    model.turns = [ToolCall("sensitive_tool"), "done"]
    agent = Agent(tools=[sensitive_tool], hooks=[interceptor], callback_handler=None)
    agent("go")
    assert results(agent) == ["done"]
    assert agent.messages[1]["content"][0]["toolUse"]["name"] == "safe_tool"


def modified(names: dict[str, Any], model: ScriptedModel) -> list[str]:
    """The results that a sample's `ResultProcessor` leaves."""
    model.turns = [[CALCULATE, ToolCall("my_tool")], "done"]
    agent = Agent(tools=[calculator, my_tool], hooks=[names["ResultProcessor"]()], callback_handler=None)
    agent("go")
    return results(agent)


def test_hooks_result_modification(sample: Sample, model: ScriptedModel) -> None:
    assert modified(sample(**HOOKS), model) == ["Result: 0.6666666667", "done"]


def test_hooks_logged_modification(
    sample: Sample, model: ScriptedModel, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "audit")
    names = sample(logger=logging.getLogger("audit"), **HOOKS)
    assert modified(names, model) == ["Result: 0.6666666667", "done"]
    assert caplog.messages == ["Modifying calculator result: 0.6666666667"]


def test_hooks_conditional_nodes(
    sample: Sample, model: ScriptedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    """It only says that it would skip the node."""
    model.turns = ["written", "reviewed"]
    skips = sample(**HOOKS)["ConditionalExecutionHook"]({"reviewer": lambda state: state["draft"]})
    agents = [Agent(name=name, callback_handler=None) for name in ("writer", "reviewer")]
    Graph(agents, [("writer", "reviewer")], hooks=[skips])("go", invocation_state={"draft": True})
    assert capsys.readouterr().out == "Skipping node reviewer due to condition\n"


def test_hooks_composability(sample: Sample, model: ScriptedModel) -> None:
    """Its methods are left out."""
    said: list[str] = []

    def log(hook: Any, event: Any) -> None:
        said.append(type(event).__name__)

    methods = dict.fromkeys(("log_request", "log_response", "log_tool_use"), log)
    hook = type("Whole", (sample(**HOOKS)["RequestLoggingHook"],), methods)()
    model.turns = [ToolCall("my_tool"), "done"]
    Agent(tools=[my_tool], hooks=[hook], callback_handler=None)("go")
    assert said == ["BeforeInvocationEvent", "BeforeToolCallEvent", "AfterInvocationEvent"]


def test_hooks_any_orchestrator(
    sample: Sample, model: ScriptedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    model.turns = ["done"]
    hook = sample(**HOOKS)["UniversalMultiAgentHook"]()
    swarm = Swarm([Agent(name="writer", callback_handler=None)], hooks=[hook])
    Graph({"team": swarm}, hooks=[hook])("go")
    assert capsys.readouterr().out.splitlines() == [
        "Executing node team in Graph orchestrator",
        "Executing node writer in Swarm orchestrator",
    ]


def test_hooks_both_levels(sample: Sample, model: ScriptedModel, capsys: pytest.CaptureFixture[str]) -> None:
    tools = {name: tool(lambda: "done", name=name, description=name) for name in ("tool1", "tool2")}  # type: ignore[call-overload]
    model.per_thread = True
    model.turns = [lambda request: [ToolCall(spec["name"]) for spec in request.tool_specs or ()], "done"]
    sample(Agent=Agent, Graph=Graph, **tools, **HOOKS)["orchestrator"]("go")
    said = [
        line for line in capsys.readouterr().out.splitlines() if line.startswith(("Agent ", "Orchestrator "))
    ]
    assert sorted(said) == [
        *(f"Agent tool call: {name}" for name in tools),
        *(f"Orchestrator node execution: {name}" for name in ("agent1", "agent2")),
    ]


# --- Hooks: cookbook --------------------------------------------------------------------------------------------


def test_hooks_fixed_arguments(sample: Sample, model: ScriptedModel) -> None:
    model.turns = [CALCULATE, "about 0.7"]
    assert results(sample(Agent=Agent, calculator=calculator)["agent"]) == ["0.7"]


def test_hooks_limit_tool_counts(sample: Sample, model: ScriptedModel) -> None:
    @tool
    def sleep() -> str:
        """Sleep."""
        return "slept"

    call = ToolCall("sleep")
    model.turns = [*[call] * 5, "I can't", call, "done"]
    said = results(sample(Agent=Agent, sleep=sleep)["agent"])
    assert [text == "slept" for text in said] == [True, True, True, False, False, True]


def test_hooks_model_retry(sample: Sample, model: ScriptedModel, slept: list[float]) -> None:
    model.turns = [*[RuntimeError("ServiceUnavailable")] * 3, "Paris"]
    assert str(sample()["result"]) == "Paris\n"
    assert slept == [2, 4, 8]


def test_hooks_exceptions(sample: Sample, model: ScriptedModel) -> None:
    raises: list[Exception] = [AssertionError("a bug"), ValueError("try again")]

    @tool
    def my_tool() -> str:
        """Do something."""
        raise raises.pop()

    model.turns = [ToolCall("my_tool"), ToolCall("my_tool")]
    names = sample(Agent=Agent, model=model, my_tool=my_tool, ValidationError=ValidationError, **HOOKS)
    with pytest.raises(AssertionError, match="a bug"):
        names["agent"]("go")
    assert results(names["agent"]) == ["Error: try again"]


def test_hooks_tool_retry(sample: Sample, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    thrown = [0.2, 0.7]
    monkeypatch.setattr(random, "random", lambda: thrown.pop(0))
    model.turns = [ToolCall("flaky_api_call", {"query": "weather"}), "done"]
    assert results(sample()["agent"]) == ["Result for: weather"]
    assert thrown == []


# --- Hooks: going on by oneself ---------------------------------------------------------------------------------


def test_hooks_summarize(sample: Sample, model: ScriptedModel) -> None:
    model.turns = ["It rains.", "I looked it up."]
    assert str(sample()["result"]) == "I looked it up.\n"


def test_hooks_refinement(sample: Sample, model: ScriptedModel) -> None:
    model.turns = ["draft", "better", "still better", "best"]
    assert str(sample()["result"]) == "best\n"


def test_hooks_auto_approve(sample: Sample, model: ScriptedModel) -> None:
    model.turns = [ToolCall("send_email", {"to": "alice@example.com", "body": "hello"}), "Sent."]
    found = sample()
    assert (found["result"].stop_reason, str(found["result"])) == ("end_turn", "Sent.\n")
    assert results(found["agent"]) == ["Email sent to alice@example.com"]


def test_every_sample_is_run() -> None:
    stems = {each.stem for each in SAMPLES.iterdir() if not each.stem.startswith("graph_")}
    assert stems == {
        name.removeprefix("test_")
        for name in globals()
        if name.startswith(("test_hooks_", "test_interrupts_"))
    }
