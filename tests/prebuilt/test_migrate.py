"""`python -m graphkit.migrate`: imports are rewritten, everything else stays, and what has no home is said."""

from __future__ import annotations

import io
import runpy
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

pytest.importorskip("libcst")

from graphkit import Agent
from graphkit.migrate.__main__ import main
from graphkit.migrate.homes import new_home
from graphkit.migrate.rewriting import migrate
from graphkit.models.scripted import ScriptedModel, ToolCall


def rewritten(source: str) -> str:
    found = migrate(dedent(source).encode())
    assert found.unmapped == []
    return found.source.decode()


def ran(*arguments: Any) -> tuple[int, str, str]:
    """The exit status, the output and the errors of the command."""
    out, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        status = main([str(argument) for argument in arguments])
    return status, out.getvalue(), errors.getvalue()


# --- Imports ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from langgraph.graph import StateGraph", "from graphkit.graph import StateGraph"),
        ("from strands import Agent, tool", "from graphkit import Agent, tool"),
        ("from strands.hooks import HookProvider as H", "from graphkit.hooks import HookProvider as H"),
        ("from strands.interrupt import Interrupt", "from graphkit import Interrupt"),
        ("from langgraph import graph", "from graphkit import graph"),
        (
            "from langgraph.graph.state import CompiledStateGraph",
            "from graphkit.compiled import CompiledGraph as CompiledStateGraph",
        ),
        (
            "from langgraph.pregel import Pregel as P",
            "from graphkit.compiled import CompiledGraph as P",
        ),
        ("from langgraph.store.postgres import PostgresStore", "from graphkit.store.postgres import PostgresStore"),
        ("from langgraph.types import *", "from graphkit.types import *"),
        ("import langgraph.graph as lg, os", "import graphkit.graph as lg, os"),
        (
            "import langgraph.graph\nlanggraph.graph.StateGraph(langgraph.graph.END)",
            "import graphkit.graph\ngraphkit.graph.StateGraph(graphkit.graph.END)",
        ),
        (
            "if True:\n    from strands import (  # one\n        Agent,  # two\n        tool,\n    )",
            "if True:\n    from graphkit import (  # one\n        Agent,  # two\n        tool,\n    )",
        ),
    ],
)  # fmt: skip
def test_imports(before: str, after: str) -> None:
    assert rewritten(before) == after


@pytest.mark.parametrize(
    "source",
    [
        "",
        "import os",
        "from . import langgraph",
        "from .strands import Agent",
        "import mylanggraph, strands_tools",
        "langgraph = 1\nlanggraph.graph",
        "x = 'from langgraph.graph import StateGraph'  # from strands import Agent\r\n\tif\f",
        "from langchain_core.tools import tool",
        "# -*- coding: latin-1 -*-\nx = '\xe4'",
    ],
)
def test_what_stays(source: str) -> None:
    encoded = source.encode("latin-1")
    if "\tif" in source:
        encoded = encoded[: encoded.index(b"\tif")]
    found = migrate(encoded)
    assert (found.source, found.changed, found.unmapped) == (encoded, 0, [])


def test_an_import_is_taken_apart_where_names_go_different_ways() -> None:
    found = migrate(
        dedent(
            """
            # models
            from strands.models import BedrockModel, Model  # both

            from strands.hooks import (
                BeforeToolCallEvent,  # this
                Nothing,
            )
            """
        ).encode()
    )
    assert found.source.decode() == dedent(
        """
        # models
        from strands.models import BedrockModel
        from graphkit.models import Model  # both

        from graphkit.hooks import (
            BeforeToolCallEvent,  # this
        )
        from strands.hooks import (
            Nothing,
        )
        """
    )
    assert [(miss.line, miss.name) for miss in found.unmapped] == [
        (3, "strands.models.BedrockModel"),
        (5, "strands.hooks.Nothing"),
    ]
    assert "work here as they are" in found.unmapped[0].reason


def test_names_that_both_have_are_not_mixed_up() -> None:
    """`graphkit.task` is LangGraph's, and so no home for something of Strands."""
    assert new_home("strands.background_tasks", "task") is None
    assert new_home("langgraph.func", "task") == ("graphkit.func", "task")


# --- The command ----------------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in {
        "a.py": "from strands import Agent\n",
        "inner/b.py": "from langgraph.graph import StateGraph",
        "inner/other.txt": "from strands import Agent\n",
        "unrelated.py": "import os\n",
        ".hidden/c.py": "from strands import Agent\n",
        "venv/pyvenv.cfg": "",
        "venv/d.py": "from strands import Agent\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def contents(project: Path) -> dict[str, str]:
    return {str(path.relative_to(project)): path.read_text() for path in project.rglob("*") if path.is_file()}


def test_nothing_is_changed_without_write(project: Path) -> None:
    before = contents(project)
    status, out, errors = ran(project)
    assert (status, contents(project)) == (0, before)
    assert "-from strands import Agent\n+from graphkit import Agent\n" in out
    assert "+from graphkit.graph import StateGraph\n\\ No newline" in out
    assert errors.startswith("2 imports in 2 files to be rewritten")


def test_write(project: Path) -> None:
    before = contents(project)
    status, out, _ = ran(project, "--write")
    assert (status, out) == (0, "")
    assert contents(project) == {
        **before,
        "a.py": "from graphkit import Agent\n",
        "inner/b.py": "from graphkit.graph import StateGraph",
    }
    assert ran(project, "--write")[2].startswith("0 imports in 0 files")


def test_what_could_not_be_mapped_or_read_is_reported(project: Path) -> None:
    (project / "a.py").write_text("from strands import Agent\nfrom strands.sandbox import Sandbox\n")
    (project / "broken.py").write_text("def (:\n")
    (project / "bytes.py").write_bytes(b"# coding: utf-8\nx = '\xff'\n")
    status, _, errors = ran(project, "--write")
    assert status == 1
    assert f"{project / 'a.py'}:2: strands.sandbox.Sandbox: there is nothing of this name" in errors
    assert "broken.py: not read" in errors and "bytes.py: not read" in errors
    assert (
        project / "a.py"
    ).read_text() == "from graphkit import Agent\nfrom strands.sandbox import Sandbox\n"


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        ran(tmp_path / "nothing")
    assert ended.value.code == 2


def test_without_libcst(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "libcst", None)
    errors = io.StringIO()
    with pytest.raises(SystemExit), redirect_stderr(errors):
        main([str(tmp_path)])
    assert "graphkit-engine[migrate]" in errors.getvalue()


# --- The seeds ------------------------------------------------------------------------------------------------

SEED_IMPORTS = """
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.constants import START
from langgraph.graph import StateGraph
from langgraph.prebuilt import create_react_agent
from langgraph.prebuilt.interrupt import HumanInterruptConfig, HumanInterrupt
from langgraph.types import interrupt, Command
from strands import Agent, tool
from strands.agent import AgentResult
from strands.hooks import AfterInvocationEvent, AfterModelCallEvent, AfterToolCallEvent
from strands.hooks import BeforeInvocationEvent, BeforeModelCallEvent, BeforeToolCallEvent
from strands.hooks import HookOrder, HookProvider, HookRegistry
from strands.plugins import Plugin, hook
from strands.session import FileSessionManager
from strands.types.agent import AgentInput
from strands.types.tools import ToolContext
"""


def test_the_imports_of_the_seeds() -> None:
    found = rewritten(SEED_IMPORTS)
    assert "langgraph" not in found and "strands" not in found
    exec(found, {})


GRAPH = """
from typing import TypedDict
import uuid
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.constants import START
from langgraph.graph import StateGraph
from langgraph.types import interrupt, Command


class State(TypedDict):
    text_1: str
    text_2: str


def human_node_1(state: State):
    value = interrupt({"text_to_revise": state["text_1"]})
    return {"text_1": value}


def human_node_2(state: State):
    value = interrupt({"text_to_revise": state["text_2"]})
    return {"text_2": value}


graph_builder = StateGraph(State)
graph_builder.add_node("human_node_1", human_node_1)
graph_builder.add_node("human_node_2", human_node_2)

# Add both nodes in parallel from START
graph_builder.add_edge(START, "human_node_1")
graph_builder.add_edge(START, "human_node_2")

checkpointer = InMemorySaver()
graph = graph_builder.compile(checkpointer=checkpointer)

thread_id = str(uuid.uuid4())
config = {"configurable": {"thread_id": thread_id}}
result = graph.invoke(
    {"text_1": "original text 1", "text_2": "original text 2"}, config=config
)

# Resume with mapping of interrupt IDs to values
resume_map = {
    i.interrupt_id: f"edited text for {i.value['text_to_revise']}"
    for i in graph.get_state(config).interrupts
}
said = graph.invoke(Command(resume=resume_map), config=config)
"""

AGENT = """
from strands import Agent, tool
from strands.hooks import BeforeToolCallEvent, HookProvider, HookRegistry


@tool
def delete_files(paths: list[str]) -> bool:
    # Implementation here
    return True


class ApprovalHook(HookProvider):
    def register_hooks(self, registry: HookRegistry, **kwargs) -> None:
        registry.add_callback(BeforeToolCallEvent, self.approve)

    def approve(self, event: BeforeToolCallEvent) -> None:
        if event.tool_use["name"] != "delete_files":
            return
        approval = event.interrupt("myapp-approval", reason={"paths": event.tool_use["input"]["paths"]})
        if approval.lower() != "y":
            event.cancel_tool = "User denied permission to delete files"


agent = Agent(hooks=[ApprovalHook()], tools=[delete_files], callback_handler=None)
result = agent("paths are a")
responses = [
    {"interruptResponse": {"interruptId": interrupt.id, "response": "y"}}
    for interrupt in result.interrupts
    if interrupt.name == "myapp-approval"
]
said = agent(responses).stop_reason
"""


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (
            GRAPH,
            {"text_1": "edited text for original text 1", "text_2": "edited text for original text 2"},
        ),
        (AGENT, "end_turn"),
    ],
)
def test_samples_of_the_seeds_run_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, said: Any
) -> None:
    model = ScriptedModel([ToolCall("delete_files", {"paths": ["a"]}), "done"])
    monkeypatch.setattr(Agent, "default_model", model)
    path = tmp_path / "program.py"
    path.write_text(program)
    assert ran(path, "--write")[0] == 0
    assert runpy.run_path(str(path))["said"] == said
