"""Where the names are, and what importing them costs."""

import importlib
import subprocess
import sys

import pytest

NAMES = {
    "graphkit.prebuilt": "InjectedState InjectedStore ToolNode ToolRuntime add_human_in_the_loop create_react_agent "
    "tools_condition",
    "graphkit.prebuilt.interrupt": "ActionRequest HumanInterrupt HumanInterruptConfig HumanResponse",
    "graphkit.prebuilt.tool_node": "InjectedState InjectedStore ToolCallRequest ToolInvocationError ToolNode "
    "ToolRuntime tools_condition",
    "graphkit.prebuilt.chat_agent_executor": "AgentState AgentStateWithStructuredResponse create_react_agent",
}


@pytest.mark.parametrize("door", NAMES)
def test_the_names_are_there_and_documented(door: str) -> None:
    module = importlib.import_module(door)
    assert sorted(module.__all__) == sorted(NAMES[door].split())
    for name in module.__all__:
        assert getattr(module, name).__doc__
    assert set(module.__all__) <= set(dir(module))


def test_other_names_are_not() -> None:
    module = importlib.import_module("graphkit.prebuilt")
    with pytest.raises(AttributeError, match="create_agent"):
        module.create_agent  # noqa: B018


@pytest.mark.parametrize(
    ("statement", "needless"),
    [
        ("from graphkit.prebuilt import create_react_agent, ToolNode", ("langchain_core", "pydantic_ai")),
        ("import graphkit.prebuilt", ("graphkit_prebuilt",)),
    ],
)
def test_what_is_not_used_is_not_loaded(statement: str, needless: tuple[str, ...]) -> None:
    program = f"{statement}\nimport sys\nprint(*[name for name in {needless!r} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []
