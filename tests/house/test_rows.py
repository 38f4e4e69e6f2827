"""Every row of what graphkit must do has a test that shows it, and so has every difference that the README names:
`rows.toml` says which."""

from __future__ import annotations

import ast
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = tomllib.loads(Path(__file__).with_name("rows.toml").read_text())
ROWS: dict[str, list[str]] = TABLE["rows"]
LEFT_OUT: dict[str, str] = TABLE["left_out"]
README_TABLES = {"## Coming from LangGraph": "from_langgraph", "## Coming from Strands": "from_strands"}
SHOWN: dict[str, list[str]] = ROWS | TABLE["from_langgraph"] | TABLE["from_strands"]


@cache
def names_in(path: str) -> frozenset[str]:
    """The tests of a file, by what stands behind its name in their ids. The file is read, not imported."""
    found = set()
    for node in ast.parse((ROOT / path).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
    return frozenset(name for name in found if name.split("::")[-1].startswith("test_"))


def test_no_row_is_missing() -> None:
    expected = [
        f"{letter}{number}" for letter, last in TABLE["last"].items() for number in range(1, last + 1)
    ]
    assert sorted([*ROWS, *LEFT_OUT]) == sorted(expected)
    assert all(LEFT_OUT.values()), "what is left out says why"


def test_every_row_has_tests_that_are_there() -> None:
    assert [row for row, named in SHOWN.items() if not named or len(set(named)) < len(named)] == []
    split = [(row, *test.partition("::")[::2]) for row, named in SHOWN.items() for test in named]
    assert [(row, path, name) for row, path, name in split if name not in names_in(path)] == []


@pytest.mark.parametrize("heading", README_TABLES)
def test_no_difference_of_the_readme_is_missing(heading: str) -> None:
    section = (ROOT / "README.md").read_text().split(f"{heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    situations = [line.split(" | ")[0].removeprefix("| ") for line in lines][1:]
    assert len(situations) > 10
    assert [each for each in situations if each not in TABLE[README_TABLES[heading]]] == []
