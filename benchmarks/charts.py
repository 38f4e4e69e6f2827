"""One picture for each group: how many times faster than the peer, how far from the bare limit, how much it grows."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.report import Report, RowDict, times

HEIGHT, WIDTH = 0.34, 6.0
"""Inches of a row, and of a panel."""
LABELS = 3.2
"""Inches for the metrics."""
LONGEST_LINE = 48
MET, MISSED, UNJUDGED, DISTANCE, DARK = "#2f7d4f", "#b5473c", "#5b7083", "#8a6fae", "#111111"

Panel = Callable[[Any, int, RowDict], None]
"""Draws a row at its place in a diagram."""


def draw(report: Report, folder: Path) -> list[str]:
    """Write `<full|quick>-<group>.png` for every group that has something to compare; returns their names."""
    names = []
    for group, rows in report.groups().items():
        compared = [row for row in rows if any(is_drawn(has, row) for _, has, _ in PANELS)]
        if compared:
            names.append(f"{report.name}-{group}.png")
            draw_group(group, compared, report, folder / names[-1])
    return names


def draw_group(group: str, rows: Sequence[RowDict], report: Report, path: Path) -> None:
    from matplotlib.figure import Figure

    wanted = [panel for panel in PANELS if any(is_drawn(panel[1], row) for row in rows)]
    size = (LABELS + WIDTH * len(wanted), 1.3 + HEIGHT * len(rows))
    figure = Figure(figsize=size, layout="constrained")
    diagrams = figure.subplots(1, len(wanted), sharey=True, squeeze=False)[0]
    form = "quick form, smaller sizes" if report.quick else f"{report.pairs} pairs"
    figure.suptitle(f"{group} — {form}", fontsize=10)
    for axes, (title, has, panel) in zip(diagrams, wanted, strict=True):
        axes.set_title(title, fontsize=8)
        for place, row in enumerate(rows):
            if is_drawn(has, row):
                panel(axes, place, row)
        finish(axes)
    metrics = ["\n".join(textwrap.wrap(row["metric"], LONGEST_LINE)) for row in rows]
    diagrams[0].set_yticks(range(len(rows)), metrics, fontsize=7)
    diagrams[0].invert_yaxis()
    figure.savefig(path, dpi=120)


def ratio(axes: Any, place: int, row: RowDict) -> None:
    low, high = row["quartiles"]
    value = row["ratio"]
    bar(axes, place, value, colour(row))
    spread = [[value - low], [high - value]]
    axes.errorbar(value, place, xerr=spread, color="#444444", capsize=2, linewidth=0.8)
    end = high
    if row["judged"] == "ratio":
        mark(axes, place, row["wanted"])
        end = max(high, row["wanted"])
    label(axes, place, end, value)


def distance(axes: Any, place: int, row: RowDict) -> None:
    bar(axes, place, row["distance"], DISTANCE)
    label(axes, place, row["distance"], row["distance"])


def growth(axes: Any, place: int, row: RowDict) -> None:
    value, ends = row["graphkit"], [row["graphkit"]]
    bar(axes, place, value, colour(row))
    if row["peer"] is not None:
        axes.plot(row["peer"], place, marker="D", markersize=4, color=DARK, markerfacecolor="white")
        ends.append(row["peer"])
    if row["judged"] == "at most":
        mark(axes, place, row["wanted"])
        ends.append(row["wanted"])
    label(axes, place, max(ends), value)


def is_growth(row: RowDict) -> bool:
    return bool(row["unit"] == "×")


PANELS: list[tuple[str, Callable[[RowDict], bool], Panel]] = [
    (
        "peer ÷ graphkit: median and quartiles; line: the target, at least",
        lambda row: row["ratio"] is not None and not is_growth(row),
        ratio,
    ),
    (
        "graphkit ÷ bare limit",
        lambda row: row["distance"] is not None and not is_growth(row),
        distance,
    ),
    ("quotient of costs or sizes; diamond: the peer's; line: the target, at most", is_growth, growth),
]


def is_drawn(has: Callable[[RowDict], bool], row: RowDict) -> bool:
    """A difference of times that noise has made negative has no place on a scale of quotients."""
    return has(row) and all((row[name] or 1) > 0 for name in ("peer", "graphkit", "ratio", "distance"))


def bar(axes: Any, place: int, value: float, colour: str) -> None:
    """From 1: what is slower points to the left."""
    axes.barh(place, value - 1, left=1, height=0.6, color=colour)


def mark(axes: Any, place: int, value: float) -> None:
    axes.plot([value] * 2, [place - 0.38, place + 0.38], color=DARK, linewidth=1.6)


def label(axes: Any, place: int, end: float, value: float) -> None:
    at = (max(end, 1), place)
    axes.annotate(times(value), at, (5, 0), textcoords="offset points", va="center", fontsize=7)


def colour(row: RowDict) -> str:
    """Sizes of the quick form are not those that targets are for."""
    return UNJUDGED if row["quick"] else {True: MET, False: MISSED, None: UNJUDGED}[row["met"]]


def finish(axes: Any) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, 0.8), max(high * 1.4, 3))
    wide = high / max(low, 0.01) > 300
    axes.xaxis.set_major_locator(LogLocator(subs=(1,) if wide else (1, 2, 5)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:g}×")
    axes.axvline(1, color="#999999", linewidth=0.8)
    axes.tick_params(axis="x", labelsize=7)
    axes.grid(axis="x", linewidth=0.3)
    axes.set_axisbelow(True)
