"""Columns: how far left or right each item of a level stands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from math import floor, inf

from graphkit.graph.drawing.levels import Item, Level, Step

BLOCK_GAP = 3
"""Columns between two blocks."""
LINE_GAP = 2
"""Columns beside a line. With 2, a line may be moved by one column and still be apart (`routing.py`)."""
PORT_GAP = 1 + LINE_GAP
"""From one end of an edge at a node to the next."""
PADDING = 2
"""Columns from the side of a box to what is in it, the border included."""
SMALL_BEND = 4
"""Columns by which a line is moved to make it straight."""
STRAIGHTNESS = {0: 1, 1: 2, 2: 8}
"""How strongly the two ends of a step attract each other, by how many of them are parts of a line."""
LOOSE = 0.1
"""The weight of what nothing attracts: it makes room for everything else."""
SWEEPS = 8


def spread(
    wishes: Sequence[tuple[float, float]], gaps: Sequence[int], low: float = -inf, high: float = inf
) -> list[float]:
    """Columns in the given order, at least `gaps` apart, as near to the wishes (column, weight) as can be.

    The sum of weighted squares is least: isotonic regression by pooling adjacent violators. With whole `gaps`
    the columns can be rounded (`whole`) and stay apart.
    """
    if not wishes:
        return []
    offsets = [0, *accumulate(gaps)]
    pools: list[tuple[float, float, int]] = []
    for (wish, weight), offset in zip(wishes, offsets, strict=True):
        mean, total, count = wish - offset, weight, 1
        while pools and pools[-1][0] >= mean:
            other, other_total, other_count = pools.pop()
            mean = (mean * total + other * other_total) / (total + other_total)
            total, count = total + other_total, count + other_count
        pools.append((mean, total, count))
    means = [mean for mean, _, count in pools for _ in range(count)]
    return [
        min(max(mean, low), high - offsets[-1]) + offset for mean, offset in zip(means, offsets, strict=True)
    ]


def whole(column: float) -> int:
    return floor(round(column, 6) + 0.5)


def gap(one: Item, other: Item) -> int:
    """From the column of an item to that of the next one, at least."""
    blank = LINE_GAP if one.is_line or other.is_line else BLOCK_GAP
    return one.right + other.left + 1 + blank


def place(level: Level) -> None:
    """Give every item its column; the leftmost cell of the level is 0. Levels inside have been placed."""
    for layer in level.layers:
        _shift(layer, [(0, 1)] * len(layer))
    count = len(level.layers)
    for sweep in range(SWEEPS):
        # first from one end to the other, so that what follows knows where things are; then both sides count
        early, upwards = sweep < SWEEPS // 2, sweep % 2 == 1
        for index in reversed(range(count)) if upwards else range(count):
            _attract(level, index, above=not (early and upwards), below=not early or upwards)
    for layer in level.layers:
        for item in layer:
            item.column = whole(item.column)
    for index in reversed(range(count - 1)):
        lines = [step for step in level.steps[index] if step.lower.kind not in ("node", "box")]
        straighten(level.layers[index], [(step.upper, step.lower.column) for step in lines])
    _frame(level)


def _shift(layer: Sequence[Item], wishes: Sequence[tuple[float, float]]) -> None:
    gaps = [gap(one, other) for one, other in pairwise(layer)]
    for item, column in zip(layer, spread(wishes, gaps), strict=True):
        item.column = column


def _attract(level: Level, index: int, *, above: bool, below: bool) -> None:
    """Move the items of a layer to where their neighbours above and below pull them."""
    layer = level.layers[index]
    pulls: dict[Item, list[tuple[float, int]]] = {item: [] for item in layer}
    for step in level.steps[index - 1] if above and index else ():
        wish = (
            step.upper.column + step.upper.offset(step.edge, "bottom") - step.lower.offset(step.edge, "top")
        )
        pulls[step.lower].append((wish, _strength(step)))
    for step in level.steps[index] if below and index < len(level.steps) else ():
        wish = (
            step.lower.column + step.lower.offset(step.edge, "top") - step.upper.offset(step.edge, "bottom")
        )
        pulls[step.upper].append((wish, _strength(step)))
    _shift(layer, [_mean(pull) if pull else (item.column, LOOSE) for item, pull in pulls.items()])


def _strength(step: Step) -> int:
    return STRAIGHTNESS[step.upper.is_line + step.lower.is_line]


def _mean(pull: Sequence[tuple[float, int]]) -> tuple[float, float]:
    total = sum(weight for _, weight in pull)
    return sum(wish * weight for wish, weight in pull) / total, total


def straighten(
    layer: Sequence[Item], wishes: Iterable[tuple[Item, float]], low: float = -inf, high: float = inf
) -> None:
    """Move lines and labels by a few columns to where they would be straight, and push nodes out of the way."""
    at = {item: number for number, item in enumerate(layer)}
    for item, wish in wishes:
        if item.kind in ("bend", "label", "port") and 0 < abs(item.column - wish) <= SMALL_BEND:
            rightwards = wish > item.column
            side = layer[at[item] :] if rightwards else layer[at[item] :: -1]
            for moved, column in _pushed(side, wish, low, high, 1 if rightwards else -1):
                moved.column = column


def _pushed(
    side: Sequence[Item], column: float, low: float, high: float, sign: int
) -> list[tuple[Item, float]]:
    """The moves that bring the first item to `column`; none if another line would bend or leave the limits."""
    moves: list[tuple[Item, float]] = []
    for item, other in pairwise([*side, None]):
        assert item is not None
        if not low <= column - item.left <= column + item.right <= high:
            return []
        moves.append((item, column))
        if other is None:
            break
        column += sign * gap(*((item, other) if sign > 0 else (other, item)))
        if (other.column - column) * sign >= 0:
            break
        if other.kind not in ("node", "box"):
            return []
    return moves


def _frame(level: Level) -> None:
    """Move the level to its left edge; in a box the title stands there, and ports right of it."""
    items = [item for layer in level.layers for item in layer]
    left = min((item.column - item.left for item in items), default=0)
    indent, title = 0, level.title
    if title is not None:
        indent = PADDING
        title.column = PADDING
        for port in level.tops.values():
            indent = max(indent, PADDING + title.right + 1 + LINE_GAP - int(port.column - left))
        level.layers[0].insert(0, title)
    for item in items:
        item.column += indent - left
    rightmost = max((item.column + item.right for layer in level.layers for item in layer), default=-1)
    level.width = int(rightmost) + 1 + (PADDING if title is not None else 0)
