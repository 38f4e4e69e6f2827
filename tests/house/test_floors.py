"""The house rules that a machine can check: imports go down only, doors are doors, the kernel is pure."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = {
    "graphkit_checkpoint": ROOT / "checkpoint",
    "graphkit": ROOT / "graphkit",
    "graphkit_prebuilt": ROOT / "prebuilt",
}
FLOORS = {"graphkit_checkpoint": 1, "graphkit": 2, "graphkit_prebuilt": 3}


def modules(package: str) -> Iterator[tuple[str, ast.Module]]:
    for path in sorted((SOURCES[package] / package).rglob("*.py")):
        parts = path.relative_to(SOURCES[package]).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        yield name, ast.parse(path.read_text())


def imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, module) of every import, wherever it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, node.module or ""


def all_modules() -> list[tuple[str, ast.Module]]:
    return [module for package in SOURCES for module in modules(package)]


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def only_lets_through(tree: ast.Module) -> bool:
    """Whether a module does nothing but import names and list them in `__all__`."""
    listed = False
    for node in tree.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if [ast.unparse(target) for target in targets] != ["__all__"]:
                return False
            listed = True
        elif not isinstance(node, ast.ImportFrom) and not _is_docstring(node):
            return False
    return listed


# A door is a module of floor 2 that only re-exports; it may open to any floor. Some open late, to each name alone.
DOORS = {name: tree for name, tree in modules("graphkit") if only_lets_through(tree)}
LATE_DOORS = ("graphkit", "graphkit.prebuilt")


def test_imports_go_down_only() -> None:
    upwards = [
        f"{name}:{line} imports {target}"
        for name, tree in all_modules()
        for line, target in imports(tree)
        if FLOORS.get(target.split(".")[0], 0) > FLOORS[name.split(".")[0]]
        and name not in {*DOORS, *LATE_DOORS}
    ]
    assert upwards == []


def test_doors_are_where_users_look_for_them() -> None:
    folders = (
        "agent",
        "cache",
        "checkpoint",
        "handlers",
        "hooks",
        "middleware",
        "models",
        "multiagent",
        "plugins",
        "session",
        "store",
        "telemetry",
        "tools",
        "vended_plugins",
    )
    others = [
        name for name, _ in modules("graphkit") if name.split(".")[1:2] and name.split(".")[1] in folders
    ]  # fmt: skip
    assert sorted(set(others) - DOORS.keys()) == []
    assert {name.split(".")[1] for name in others} == set(folders)


def test_nothing_of_ours_imports_a_door() -> None:
    through = [
        f"{name}:{line} imports {target}"
        for name, tree in all_modules()
        for line, target in imports(tree)
        if target in DOORS
    ]
    assert through == []


@pytest.mark.parametrize("name", DOORS)
def test_a_door_shows_what_is_behind_it(name: str) -> None:
    door = importlib.import_module(name)
    behind = {
        alias.asname or alias.name: getattr(importlib.import_module(node.module), alias.name)
        for node in DOORS[name].body
        if isinstance(node, ast.ImportFrom) and node.module and node.module != "__future__"
        for alias in node.names
    }
    assert sorted(behind) == sorted(door.__all__)
    assert all(getattr(door, exported) is behind[exported] for exported in door.__all__)


@pytest.mark.parametrize("package", SOURCES)
def test_modules_of_a_floor_do_not_import_each_other_in_a_circle(package: str) -> None:
    """Not when they are loaded. What a function imports when it is called, and what only types need, is later."""
    names = {name for name, _ in modules(package)}
    needs = {
        name: {target for target in loaded_first(tree) if target in names and target != name}
        for name, tree in modules(package)
    }
    TopologicalSorter(needs).prepare()  # raises `CycleError`, which shows the circle


def loaded_first(tree: ast.Module) -> Iterator[str]:
    """The modules that are imported when this one is."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


IMPURE = {
    "asyncio", "concurrent", "datetime", "io", "multiprocessing", "os", "pathlib", "queue", "random",
    "secrets", "socket", "sqlite3", "sqlalchemy", "subprocess", "threading", "time", "uuid",
}  # fmt: skip


def test_the_kernel_has_no_clock_chance_thread_or_io() -> None:
    kernel = [(name, tree) for name, tree in modules("graphkit") if name.startswith("graphkit.engine")]
    assert len(kernel) > 5
    found = [
        f"{name}:{line} imports {target}"
        for name, tree in kernel
        for line, target in imports(tree)
        if target.split(".")[0] in IMPURE
    ]
    found += [
        f"{name}:{node.lineno} is async"
        for name, tree in kernel
        for node in ast.walk(tree)
        if isinstance(node, (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith))
    ]
    found += [
        f"{name}:{node.lineno} calls {node.func.id}"
        for name, tree in kernel
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"open", "print"}
    ]
    assert found == []


@pytest.mark.parametrize(
    "statement",
    ["import graphkit", "from graphkit import StateGraph, START, END, interrupt, Command, Send"],
)
def test_importing_graphkit_loads_nothing_heavy(statement: str) -> None:
    assert loaded(statement, "networkx", "sqlalchemy", "pydantic", "asyncio", "graphkit_prebuilt") == []


@pytest.mark.parametrize(
    "statement",
    ["from graphkit import Agent, AgentResult, Plugin, tool", "import graphkit; graphkit.Agent()"],
)
def test_an_agent_loads_what_it_needs(statement: str) -> None:
    assert loaded(statement, "networkx", "sqlalchemy", "pydantic", "pydantic_ai", "langchain_core") == []


def loaded(statement: str, *names: str) -> list[str]:
    """Which of these modules a fresh process has imported after a statement."""
    program = f"{statement}\nimport sys\nprint(*[name for name in {names!r} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return ran.stdout.split()


def test_every_public_name_is_there_and_documented() -> None:
    import graphkit

    for name in graphkit.__all__:
        value = getattr(graphkit, name)
        assert isinstance(value, str) or (value.__doc__ or "").strip(), name
    assert set(graphkit.__all__) <= set(dir(graphkit))
    with pytest.raises(AttributeError, match="no_such_name"):
        graphkit.no_such_name  # noqa: B018
