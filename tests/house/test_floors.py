"""The house rules that a machine can check: imports go down only, doors are doors, the kernel is pure."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = {
    "graphkit_checkpoint": ROOT / "checkpoint",
    "graphkit": ROOT / "graphkit",
    "graphkit_prebuilt": ROOT / "prebuilt",
}
FLOORS = {"graphkit_checkpoint": 1, "graphkit": 2, "graphkit_prebuilt": 3}
DOOR_FOLDERS = ("checkpoint", "cache", "store")


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


def is_door(name: str) -> bool:
    parts = name.split(".")
    return len(parts) > 1 and parts[0] == "graphkit" and parts[1] in DOOR_FOLDERS


def doors() -> list[str]:
    return [name for name, _ in modules("graphkit") if is_door(name)]


def test_imports_go_down_only() -> None:
    upwards = [
        f"{name}:{line} imports {target}"
        for name, tree in all_modules()
        for line, target in imports(tree)
        if FLOORS.get(target.split(".")[0], 0) > FLOORS[name.split(".")[0]]
    ]
    assert upwards == []


def test_nothing_of_ours_imports_a_door() -> None:
    through = [
        f"{name}:{line} imports {target}"
        for name, tree in all_modules()
        for line, target in imports(tree)
        if is_door(target)
    ]
    assert through == []


@pytest.mark.parametrize("name", doors())
def test_a_door_only_lets_through(name: str) -> None:
    tree = dict(modules("graphkit"))[name]
    for node in tree.body:
        assert isinstance(node, (ast.ImportFrom, ast.Assign, ast.AnnAssign)) or _is_docstring(node)
    door = importlib.import_module(name)
    behind = {
        alias.asname or alias.name: getattr(importlib.import_module(node.module or ""), alias.name)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted(behind) == sorted(door.__all__)
    assert all(getattr(door, exported) is behind[exported] for exported in door.__all__)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


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
    heavy = ("networkx", "sqlalchemy", "pydantic", "asyncio")
    program = f"{statement}\nimport sys\nprint([name for name in {heavy!r} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_every_public_name_is_there_and_documented() -> None:
    import graphkit

    for name in graphkit.__all__:
        value = getattr(graphkit, name)
        assert isinstance(value, str) or (value.__doc__ or "").strip(), name
    assert set(graphkit.__all__) <= set(dir(graphkit))
    with pytest.raises(AttributeError, match="no_such_name"):
        graphkit.no_such_name  # noqa: B018
