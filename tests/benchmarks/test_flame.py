"""`make profile`: which scenario is meant, and that a picture of it is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.flame import UnknownScenarioError, find, path_of, record, work
from benchmarks.processes import can_trace


@pytest.mark.parametrize(
    ("text", "metric"),
    [
        ("superstep, SQLite", "superstep, SQLite NORMAL"),
        ("superstep, sqlite normal, async saver", "superstep, SQLite NORMAL, async saver"),
        ("compile", "compile a graph of 1000 nodes"),
        ("react", "program: react agent, 100 turns"),
    ],
)
def test_a_scenario_is_found_by_a_part_of_its_name(text: str, metric: str) -> None:
    assert find(text).metric == metric


@pytest.mark.parametrize("text", ["", "no such row"])
def test_an_unknown_one_is_told_what_there_is(text: str) -> None:
    with pytest.raises(UnknownScenarioError, match="superstep, SQLite NORMAL"):
        find(text)


def test_the_picture_is_named_after_the_scenario(tmp_path: Path) -> None:
    assert path_of(find("superstep, SQLite"), tmp_path).name == "profile-superstep-sqlite-normal.svg"


def test_the_work_is_done_at_least_once() -> None:
    done = []

    def sample() -> float:
        done.append(1)
        return 0.0

    assert work(sample, seconds=0) == len(done) == 1


@pytest.mark.skipif(not can_trace(), reason="processes may not be traced here")
def test_a_flame_graph_shows_the_engine(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    scenario = find("superstep, no checkpointer, sync")
    path = path_of(scenario, tmp_path)
    record(scenario, path, seconds=0.5)
    picture = path.read_text(encoding="utf-8")
    assert picture.lstrip().startswith("<?xml")
    assert "graphkit/engine/loop.py" in picture
    assert "samples" in capfd.readouterr().err
