"""`python -m graphkit.migrate`: imports are rewritten, everything else stays, and what has no home is said.

What it does to whole programs: `tests/seeds/test_migrated_*.py`.
"""

from __future__ import annotations

import io
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

pytest.importorskip("libcst")

from graphkit.migrate.__main__ import main
from graphkit.migrate.homes import new_home
from graphkit.migrate.rewriting import migrate


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
            "from graphkit.graph.state import CompiledStateGraph",
        ),
        (
            "from langgraph.pregel import Pregel as P",
            "from graphkit.compiled import CompiledGraph as P",
        ),
        (
            "from langgraph.checkpoint.memory import MemorySaver",
            "from graphkit.checkpoint.memory import MemorySaver",
        ),
        (
            "from langgraph.constants import Send, START",
            "from graphkit.types import Send\nfrom graphkit.constants import START",
        ),
        (
            "from strands.experimental.hooks import AfterToolInvocationEvent as E",
            "from graphkit.hooks import AfterToolCallEvent as E",
        ),
        (
            "from strands.experimental.hooks.multiagent import BeforeNodeCallEvent",
            "from graphkit.hooks import BeforeNodeCallEvent",
        ),
        (
            "from strands.multiagent.graph import GraphState",
            "from graphkit.multiagent.graph import GraphState",
        ),
        (
            "from strands.tools.decorator import DecoratedFunctionTool, tool",
            "from graphkit.tools.decorator import FunctionTool as DecoratedFunctionTool, tool",
        ),
        (
            "from strands.event_loop._retry import ModelRetryStrategy",
            "from graphkit.agent import ModelRetryStrategy",
        ),
        (
            "from strands.types.events import ToolResultEvent, ModelStopReason",
            "from graphkit.middleware import ToolResultEvent, ModelStopReason",
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


@pytest.mark.parametrize(
    ("before", "after", "missed"),
    [
        (
            "import strands\nfrom strands.models import BedrockModel",
            "import graphkit\nfrom strands.models import BedrockModel",
            [(2, "strands.models.BedrockModel")],
        ),
        (
            "import langgraph.graph\nfrom langgraph.graph.state import CompiledStateGraph\n"
            "import langgraph.pregel.remote",
            "import graphkit.graph\nfrom graphkit.graph.state import CompiledStateGraph\n"
            "import langgraph.pregel.remote",
            [(3, "langgraph.pregel.remote")],
        ),
        (
            "import strands.models, os\nos.x\nstrands.Agent(strands.models.BedrockModel()).state",
            "import graphkit.models, strands.models, os\nos.x\ngraphkit.Agent(strands.models.BedrockModel()).state",
            [(3, "strands.models.BedrockModel")],
        ),
        (
            "def made():\n    return strands.interrupt.Interrupt, strands\nimport strands",
            "def made():\n    return strands.interrupt.Interrupt, graphkit\nimport graphkit, strands",
            [(2, "strands.interrupt.Interrupt")],
        ),
        (
            "import strands\ndef of(strands):\n    return strands.models.BedrockModel",
            "import graphkit\ndef of(strands):\n    return strands.models.BedrockModel",
            [],
        ),
        (
            "from langgraph.types import interrupt\nfor interrupt in asked:\n    print(interrupt.name)",
            "from graphkit.types import interrupt\nfor interrupt in asked:\n    print(interrupt.name)",
            [],
        ),
        (
            "import strands.models as m\nm.Model, m.BedrockModel",
            "import strands.models as m\nm.Model, m.BedrockModel",
            [(2, "strands.models.BedrockModel")],
        ),
        (
            "from strands import models, Agent as A\nmodels.BedrockModel()\nA.models.nothing",
            "from strands import models\nfrom graphkit import Agent as A\nmodels.BedrockModel()\nA.models.nothing",
            [(2, "strands.models.BedrockModel")],
        ),
        (
            "import strands as st, langgraph as lg\nst.Agent(), lg.graph.END",
            "import graphkit as st, graphkit as lg\nst.Agent(), lg.graph.END",
            [],
        ),
        (
            "try:\n    import strands\nexcept ImportError:\n    strands = None\nelse:\n    strands.Agent()",
            "try:\n    import graphkit as strands\nexcept ImportError:\n    strands = None\nelse:\n    strands.Agent()",
            [],
        ),
        (
            "if TYPE_CHECKING:\n    import os, langgraph.types\ndef f() -> 'list[langgraph.types.Send]': ...",
            "if TYPE_CHECKING:\n    import os, graphkit as langgraph, graphkit.types\n"
            "def f() -> 'list[langgraph.types.Send]': ...",
            [],
        ),
        (
            "try:\n    import strands\nexcept ImportError:\n    strands = None\nstrands.Agent\n"
            "def f():\n    import strands\n    strands.models.BedrockModel",
            "try:\n    import strands\nexcept ImportError:\n    strands = None\nstrands.Agent\n"
            "def f():\n    import strands\n    strands.models.BedrockModel",
            [(8, "strands.models.BedrockModel")],
        ),
    ],
)  # fmt: skip
def test_names_that_are_used_in_full_are_looked_for(
    before: str, after: str, missed: list[tuple[int, str]]
) -> None:
    """What is not here stays what it was, and so does its import. A name that the source assigns to itself too, or says
    in a text, goes on naming what is imported. A second time changes nothing."""
    found = migrate(before.encode())
    assert found.source.decode() == after
    assert [(miss.line, miss.name) for miss in found.unmapped] == missed
    again = migrate(found.source)
    assert (again.source, again.changed) == (found.source, 0)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("strands.session.RepositorySessionManager", r"SessionManager\(saver, session_id\)"),
        ("strands.session.session_repository.SessionRepository", r"SessionManager\(saver, session_id\)"),
        ("strands.types.session.SessionAgent", r"SessionManager\(saver, session_id\)"),
        ("strands.telemetry.StrandsTelemetry", "result.metrics"),
        ("strands.telemetry.tracer.get_tracer", "result.metrics"),
        ("strands.tools.loader.load_tool_from_string", r"Agent\(tools="),
        ("strands.tools.nothing", "nothing of this name"),
    ],
)
def test_what_is_left_out_says_what_there_is_instead(name: str, says: str) -> None:
    module, _, wanted = name.rpartition(".")
    [missed] = migrate(f"from {module} import {wanted}".encode()).unmapped
    assert missed.name == name and re.search(says, missed.reason)


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
    (project / "broken.py").write_text("import strands\ndef (:\n")
    (project / "bytes.py").write_bytes(b"# coding: utf-8\nimport strands\nx = '\xff'\n")
    (project / "deep.py").write_text(f"import strands\nx = {'+'.join('1' * 20_000)}\n")
    (project / "gone.py").symlink_to("nothing")
    (project / "inner/around").symlink_to(project)
    (project / "other.py").write_text("print 'nothing of them is in here'\n")
    status, _, errors = ran(project, "--write")
    assert status == 1
    assert "deep.py: not read" in errors and "gone.py: not read" in errors and "around" not in errors
    assert f"{project / 'a.py'}:2: strands.sandbox.Sandbox: there is nothing of this name" in errors
    assert "broken.py: not read" in errors and "bytes.py: not read" in errors and "other.py" not in errors
    assert (
        project / "a.py"
    ).read_text() == "from graphkit import Agent\nfrom strands.sandbox import Sandbox\n"


def test_a_notebook_is_not_read(tmp_path: Path) -> None:
    notebook = tmp_path / "a.ipynb"
    notebook.write_text('{"cells": [{"source": ["import strands"]}]}')
    status, _, errors = ran(notebook)
    assert status == 1 and "a.ipynb: not read: a notebook" in errors


def test_a_file_that_cannot_be_written_keeps_no_other_from_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Path.write_bytes

    def refuse(path: Path, data: bytes) -> int:
        if path.name == "a.py":
            raise PermissionError(13, "Permission denied")
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", refuse)
    status, _, errors = ran(project, "--write")
    assert status == 1 and "a.py: not written" in errors and "\n1 imports in 1 files rewritten" in errors


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
