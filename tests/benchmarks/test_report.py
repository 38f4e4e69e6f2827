"""The table: what becomes of pairs, and how it is written."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.charts import draw
from benchmarks.limits import anywhere
from benchmarks.measure import Missing, Pair, summarize
from benchmarks.report import Report, with_unit
from benchmarks.run import peers, required_packages, write
from benchmarks.scenario import Scenario, Target

SCENARIO = Scenario(
    "superstep",
    "µs",
    Target("ratio", 5, stretch=10),
    lambda framework, saver: lambda: 0.0,
    limit=anywhere("a plain loop", lambda: 0.0),
)
PAIRS: list[Pair] = [
    {"peer": 80e-6, "graphkit": 10e-6, "limit": 1e-6},
    {"peer": 60e-6, "graphkit": 10e-6, "limit": 2e-6},
    {"peer": 70e-6, "graphkit": 10e-6, "limit": 4e-6},
]


def row(scenario: Scenario = SCENARIO, pairs: list[Pair] = PAIRS, quick: bool = False) -> dict[str, Any]:
    return asdict(summarize("supersteps", scenario, pairs, quick))


def report(*rows: dict[str, Any], quick: bool = False, missing: list[dict[str, Any]] | None = None) -> Report:
    return Report(rows, missing or [], 3, quick, ["LangGraph 1", "Strands 2"])


def line_of(found: Report) -> list[str]:
    lines = [line for line in found.markdown().splitlines() if line.startswith("| superstep")]
    assert len(lines) == 1
    return [cell.strip() for cell in lines[0].strip("|").split("|")]


def test_a_row_has_medians_of_the_quotients_of_pairs() -> None:
    found = row()
    assert (found["peer"], found["graphkit"], found["limit"]) == pytest.approx((70, 10, 2))
    assert found["ratio"] == pytest.approx(7)
    assert found["quartiles"] == pytest.approx((6.5, 7.5))
    assert found["distance"] == pytest.approx(5)
    assert found["met"] is True
    assert found["stretched"] is False


def test_a_line_of_the_table() -> None:
    assert line_of(report(row())) == [
        "superstep",
        "70.0 µs",
        "10.0 µs",
        "2.00 µs",
        "7.0× (6.5–7.5)",
        "5.0×",
        "≥ 5×, stretch 10×",
        "yes",
    ]


def test_what_is_not_there_is_a_dash() -> None:
    scenario = replace(SCENARIO, target=None, limit=None, with_peer=False)
    assert line_of(report(row(scenario, [{"graphkit": 1e-6}]))) == [
        *("superstep", "–", "1.00 µs", "–"),
        *("–", "–", "–", "–"),
    ]


@pytest.mark.parametrize(
    ("target", "verdict"),
    [
        (Target("ratio", 6.9), "yes"),
        (Target("ratio", 7.1), "no"),
        (Target("ratio", 5, stretch=6.9), "yes, stretch too"),
        (Target("at most", 10), "yes"),
        (Target("at most", 9.9), "no"),
        (Target("exactly", 11), "no"),
        (Target("rounded", 10), "yes"),
    ],
)
def test_what_is_met(target: Target, verdict: str) -> None:
    assert line_of(report(row(replace(SCENARIO, target=target))))[-1] == verdict


def test_another_peer_than_the_usual_one_is_named() -> None:
    assert line_of(report(row(replace(SCENARIO, peer="Strands"))))[1] == "70.0 µs (Strands)"


def test_the_quick_form_says_what_it_is_and_has_files_of_its_own() -> None:
    quick = report(row(quick=True), quick=True)
    assert quick.markdown().startswith("**Quick form**")
    assert line_of(quick)[-1] == "(yes)"
    assert quick.name != report(row()).name
    assert json.loads(quick.json())["quick"] is True


def test_what_could_not_be_measured_is_listed() -> None:
    missing = asdict(Missing("superstep, PostgreSQL", "no PostgreSQL"))
    found = report(row(), missing=[missing])
    assert "- superstep, PostgreSQL (no PostgreSQL)" in found.markdown()
    assert json.loads(found.json())["missing"] == [missing]


def test_the_notes_say_what_each_limit_is_and_which_rows_have_fewer_pairs() -> None:
    text = report(row(pairs=PAIRS[:2])).markdown()
    assert "- superstep: a plain loop" in text
    assert "superstep (2)" in text
    assert "LangGraph 1 and Strands 2" in text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0003, "ms", "0.30 µs"),
        (0.5, "ms", "0.50 ms"),
        (12.34, "ms", "12.3 ms"),
        (21, "commits", "21 commits"),
    ],
)
def test_values_are_readable(value: float, unit: str, text: str) -> None:
    assert with_unit(value, unit) == text


def test_tables_and_a_chart_for_each_group_are_written(tmp_path: Path) -> None:
    grown = replace(SCENARIO, metric="grown", unit="×", target=Target("at most", 2), limit=None)
    slower: list[Pair] = [{"peer": 1e-6, "graphkit": 2e-6, "limit": 3e-6}]
    found = report(row(), row(grown), row(pairs=slower), {**row(), "group": "agents"})
    text = write(found, tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"full.md", "full.json", "full-supersteps.png", "full-agents.png"}
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in names if "png" in name)
    assert (tmp_path / "full.md").read_text(encoding="utf-8") == text
    assert "![full-supersteps](full-supersteps.png)" in text
    assert len(json.loads((tmp_path / "full.json").read_text(encoding="utf-8"))["rows"]) == 4


def test_a_group_with_nothing_to_compare_has_no_chart(tmp_path: Path) -> None:
    alone = replace(SCENARIO, with_peer=False, limit=None)
    noise: list[Pair] = [{"peer": -1e-6, "graphkit": 2e-6}]
    assert draw(report(row(alone, [{"graphkit": 1e-6}]), row(pairs=noise)), tmp_path) == []


def test_the_peers_are_pinned_and_installed_with_what_graphkit_needs() -> None:
    assert [name.partition(" ")[0] for name in peers()] == ["LangGraph", "Strands"]
    packages = required_packages()
    assert "strands-agents==1.62.0" in packages
    assert any(package.startswith("sqlalchemy") for package in packages)
    assert any(package.startswith("psycopg") for package in packages)
