"""The example of graphs inside a graph, run as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "examples" / "subgraphs" / "main.py"


def test_each_graph_inside_goes_on_where_it_asked(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAM), str(tmp_path / "trip.sqlite")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240).stdout
    check(printed)
    check(subprocess.run(command, capture_output=True, text=True, check=True, timeout=240).stdout)


def check(printed: str) -> None:
    first, second = printed.split("booked: Lisbon, Faro\n")
    assert first.count("  estimating\n") == 1
    assert sorted(line for line in first.splitlines() if "looking" in line) == [
        f"  looking for a hotel in {city}" for city in ("Faro", "Lisbon", "Porto")
    ]
    assert "inside budget: [240, 410, 330], next ('ask_for_budget',)\n" in first
    asked = [line for line in first.splitlines() if line.startswith("asked: ")]
    assert sorted(asked) == [
        "asked: 330 in Faro?",
        "asked: 410 in Porto?",
        "asked: The trip costs about 980. What may it cost?",
    ]
    assert second.endswith("the diary of both turns: Lisbon, Porto, Faro, Lisbon\n")
