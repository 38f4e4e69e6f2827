"""The databases that the safety tests run on, and the table at the end of `make chaos`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.safety.figures import PROPERTY, SCALE, SEED, Record, report

Report = Callable[[str, str], None]
"""`report(row, text)`: see `figures.report`."""


@pytest.fixture
def reports(record_property: Record) -> Report:
    return partial(report, record_property)


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'threads.sqlite'}"
    else:
        yield request.getfixturevalue("postgres_url")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    rows = []
    for outcome in ("passed", "failed", "skipped"):
        for test in terminalreporter.stats.get(outcome, []):
            found = [value for name, value in getattr(test, "user_properties", ()) if name == PROPERTY]
            if outcome == "failed" or not SCALE:
                found = [(row, f"{text} [{outcome}]") for row, text in found]
            rows += found
    if not rows:
        return
    terminalreporter.section(f"safety, GRAPHKIT_CHAOS={SCALE:g} GRAPHKIT_SEED={SEED}")
    rows.sort(key=lambda row: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", row[0])])
    width = max(len(row) for row, _ in rows)
    for row, text in rows:
        terminalreporter.line(f"{row:<{width}}  {text}")
