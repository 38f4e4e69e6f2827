"""The import promise: every name of `names.toml` is there, under its path, says what it is, and has types."""

from __future__ import annotations

import ast
import importlib
import inspect
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType
from typing import Any, is_typeddict

import pytest

from graphkit.graph import StateGraph
from graphkit.migrate.homes import new_home

NAMES: dict[str, list[str]] = {
    module: names.split()
    for module, names in tomllib.loads(Path(__file__).with_name("names.toml").read_text())["names"].items()
}
OURS = ("graphkit", "graphkit_checkpoint", "graphkit_prebuilt")


@cache
def source_of(module: str) -> tuple[ast.Module, list[str]]:
    spec = find_spec(module)
    assert spec is not None and spec.origin is not None
    text = Path(spec.origin).read_text()
    return ast.parse(text), text.splitlines()


def definition(module: str, name: str) -> tuple[str, ast.stmt, ast.stmt | None]:
    """Where a name is made, by way of doors: the module, the statement and the one after it."""
    tree, _ = source_of(module)
    for statement, following in zip(tree.body, [*tree.body[1:], None], strict=True):
        if (
            isinstance(statement, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
            and statement.name == name
        ):
            return module, statement, following
        if name in _assigned(statement):
            return module, statement, following
    for home, imported in _imported(tree, name):
        return definition(home, imported)
    raise AssertionError(f"{module} has no {name}")


def _assigned(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.Assign):
        return [target.id for target in statement.targets if isinstance(target, ast.Name)]
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return [statement.target.id]
    return []


def _imported(tree: ast.Module, name: str) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in OURS:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    yield node.module or "", alias.name


def is_documented(module: str, name: str, value: Any) -> bool:
    """A docstring of its own (not the one that `dataclass` writes); for a constant or an alias, a string or a comment
    at its definition."""
    if inspect.isclass(value) or isinstance(value, FunctionType):
        doc = value.__dict__.get("__doc__") if inspect.isclass(value) else value.__doc__
        return isinstance(doc, str) and doc != "" and not doc.startswith(f"{value.__name__}(")
    home, statement, following = definition(module, name)
    if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
        return isinstance(following.value.value, str)
    _, lines = source_of(home)
    above, line = lines[statement.lineno - 2], lines[(statement.end_lineno or statement.lineno) - 1]
    return above.lstrip().startswith("#") or "  # " in line


def untyped(value: Any) -> list[str]:
    """The public functions of a name that lack a type for a parameter or for what they return."""
    functions: list[FunctionType] = [value] if isinstance(value, FunctionType) else []
    if inspect.isclass(value) and not is_typeddict(value):
        functions = [
            member
            for key, member in vars(value).items()
            if isinstance(member, FunctionType)
            and (key == "__init__" or not key.startswith("_"))
            and member.__module__ == value.__module__
            and not getattr(value, "__dataclass_fields__", None)
        ]
    return [
        f"{function.__qualname__}({parameter})"
        for function in functions
        for parameter in [*inspect.signature(function).parameters, "return"]
        if parameter not in ("self", "cls", "mcs") and parameter not in function.__annotations__
    ]


@pytest.mark.parametrize("module", NAMES)
def test_every_name_that_was_promised_is_there(module: str) -> None:
    found = importlib.import_module(module)
    missing = [name for name in NAMES[module] if not hasattr(found, name)]
    hidden = [name for name in NAMES[module] if name not in getattr(found, "__all__", NAMES[module])]
    unlisted = [name for name in NAMES[module] if name not in dir(found)]
    assert (missing, hidden, unlisted) == ([], [], [])


@pytest.mark.parametrize("module", NAMES)
def test_every_name_says_what_it_is_and_has_types(module: str) -> None:
    found = importlib.import_module(module)
    silent = [name for name in NAMES[module] if not is_documented(module, name, getattr(found, name))]
    loose = [each for name in NAMES[module] for each in untyped(getattr(found, name))]
    assert (silent, loose) == ([], [])


@pytest.mark.parametrize("module", NAMES)
def test_migrate_finds_every_name(module: str) -> None:
    for name in NAMES[module]:
        for anchor in ("langgraph", "strands"):
            assert new_home(module.replace("graphkit", anchor, 1), name) == (module, name)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("graphkit.errors", "NodeInterrupt"),
        ("graphkit.graph", "MessageGraph"),
        ("graphkit.prebuilt", "ValidationNode"),
        ("graphkit.hooks", "BeforeToolInvocationEvent"),
        ("graphkit.hooks", "AfterModelInvocationEvent"),
        ("graphkit", "experimental"),
    ],
)
def test_no_name_stands_for_one_that_an_anchor_has_given_up(module: str, name: str) -> None:
    """S169."""
    assert not hasattr(importlib.import_module(module), name)
    assert new_home(module, name) is None


@pytest.mark.parametrize("keyword", ["config_schema", "input", "output"])
def test_no_keyword_either(keyword: str) -> None:
    """S169: it is `context_schema`, `input_schema`, `output_schema` and, of a node, `retry_policy`."""
    with pytest.raises(TypeError, match=keyword):
        StateGraph(dict, **{keyword: dict})
    with pytest.raises(TypeError, match="retry"):
        StateGraph(dict).add_node("node", print, retry=None)  # type: ignore[call-arg]


@pytest.mark.parametrize("package", OURS)
def test_the_types_are_for_everybody(package: str) -> None:
    spec = find_spec(package)
    assert spec is not None and spec.origin is not None
    assert Path(spec.origin).with_name("py.typed").exists()
