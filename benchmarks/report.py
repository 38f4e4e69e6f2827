"""The table, for people (Markdown) and for programs (JSON)."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RowDict = dict[str, Any]
"""A `measure.Row` as it was printed."""

COLUMNS = (
    "metric",
    "peer",
    "graphkit",
    "bare limit",
    "ratio to the peer (quartiles)",
    "distance from the limit",
    "target",
    "met",
)
NOTHING = "–"


@dataclass(frozen=True)
class Report:
    """What was measured, and what was not (`measure.Missing`). `peers` are names with versions; `quick` is the short
    form."""

    rows: Sequence[RowDict]
    missing: Sequence[dict[str, Any]]
    pairs: int
    quick: bool
    peers: Sequence[str]

    @property
    def name(self) -> str:
        """Of the files: a short form never takes the place of a full table."""
        return "quick" if self.quick else "full"

    def groups(self) -> dict[str, list[RowDict]]:
        found: dict[str, list[RowDict]] = {}
        for row in self.rows:
            found.setdefault(row["group"], []).append(row)
        return found

    def markdown(self, charts: Sequence[str] = ()) -> str:
        """`charts` are names of image files beside the table."""
        parts = [
            self._headline(),
            table_of(self.rows),
            self._missing(),
            self._conditions(),
            limits_of(self.rows),
        ]
        parts += [f"![{Path(chart).stem}]({chart})" for chart in charts]
        return "\n\n".join(part for part in parts if part) + "\n"

    def json(self) -> str:
        found = {
            "quick": self.quick,
            "pairs": self.pairs,
            "peers": list(self.peers),
            "rows": list(self.rows),
            "missing": list(self.missing),
        }
        return json.dumps(found, indent=2, ensure_ascii=False) + "\n"

    def _headline(self) -> str:
        if self.quick:
            return (
                f"**Quick form**: {self.pairs} pairs, smaller sizes, and without the slow rows. It shows that "
                "everything runs, and roughly where it stands; the targets are for the full sizes, so what is met "
                "is in parentheses. The full table is made by `make bench`."
            )
        return f"**Full form**: {self.pairs} pairs."

    def _missing(self) -> str:
        lines = [f"- {line['missing']} ({line['why']})" for line in self.missing]
        return "\n".join(["**Not measured:**", "", *lines]) if lines else ""

    def _conditions(self) -> str:
        fewer = [f"{row['metric']} ({row['pairs']})" for row in self.rows if row["pairs"] < self.pairs]
        return "\n".join(
            [
                f"graphkit beside {' and '.join(self.peers)}: medians of the pairs, both in turn in one process.",
                "The ratio is that of each pair, peer ÷ graphkit; the distance is graphkit ÷ bare limit, which is",
                "measured as the third of each pair. A peer's figure without a name is LangGraph's.",
                'Both with one saver each and durability="sync"; SQLite in WAL mode with synchronous=NORMAL unless it',
                "says FULL. PostgreSQL: one server on this machine by a Unix socket, fsync on, a database for each.",
                "Cost per superstep: a loop of many supersteps less one of few, divided by the difference.",
                *([f"Fewer pairs, since a sample takes seconds: {'; '.join(fewer)}."] if fewer else []),
                f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.system()}, "
                f"{os.cpu_count()} processors.",
            ]
        )


def table_of(rows: Sequence[RowDict]) -> str:
    lines = [COLUMNS, *(cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]
    padded = [
        " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
    ]
    padded.insert(1, " | ".join("-" * width for width in widths))
    return "\n".join(f"| {line} |" for line in padded)


def cells(row: RowDict) -> tuple[str, ...]:
    peer = with_unit(row["peer"], row["unit"])
    if row["peer"] is not None and row["peer_name"] != "LangGraph":
        peer += f" ({row['peer_name']})"
    return (
        row["metric"],
        peer,
        with_unit(row["graphkit"], row["unit"]),
        with_unit(row["limit"], row["unit"]),
        quotient(row["ratio"], row["quartiles"]),
        NOTHING if row["distance"] is None else times(row["distance"]),
        row["target"],
        verdict(row),
    )


def verdict(row: RowDict) -> str:
    if row["met"] is None:
        return NOTHING
    word = "yes, stretch too" if row["stretched"] else "yes" if row["met"] else "no"
    return f"({word})" if row["quick"] else word


def quotient(value: float | None, quartiles: Sequence[float] | None) -> str:
    if value is None or quartiles is None:
        return NOTHING
    return f"{times(value)} ({quartiles[0]:.1f}–{quartiles[1]:.1f})"


def times(value: float) -> str:
    return f"{value:.0f}×" if value >= 100 else f"{value:.1f}×"


def with_unit(value: float | None, unit: str) -> str:
    if value is None:
        return NOTHING
    if unit == "ms" and value < 0.1:
        value, unit = value * 1000, "µs"
    digits = 0 if unit == "commits" else 1 if value >= 10 else 2
    return f"{value:.{digits}f} {unit}"


def limits_of(rows: Sequence[RowDict]) -> str:
    """What each bare limit is."""
    lines = [f"- {row['metric']}: {row['limit_is']}" for row in rows if row["limit_is"]]
    return "\n".join(["Bare limits, plain loops without a framework:", "", *lines]) if lines else ""
