"""Rows and routes: how far down everything stands and where edges run, from the top layer on.

Between two layers every edge goes straight down, or down to a *track*, along it, and down again. Where an edge
leaves a node is chosen by where it goes; where it arrives, by where it left; so most go straight. Two rules keep
edges apart:

- No edge arrives in a column in which another one leaves: its end is moved by one column. Since ends are at
  least two columns apart, the column beside is free.
- Edges whose ways along a track would touch have different tracks. Edges that go right have theirs the lower
  the further left they leave, edges that go left the other way round, so that they do not cross one another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from graphkit.graph.drawing.columns import PADDING, PORT_GAP, spread, straighten, whole
from graphkit.graph.drawing.layout import Block, Layout, Point, Route
from graphkit.graph.drawing.levels import LOOP, Item, Level, Plan, Side, Step
from graphkit.graph.drawing.texts import Line


def routed(plan: Plan) -> Layout:
    root = plan.levels[()]
    height = _rows(root, {})
    places = _Places(plan)
    places.collect(root, 0, 0)
    return Layout(
        width=root.width,
        height=height,
        boxes=tuple(places.boxes),
        nodes=tuple(places.nodes[node_id] for node_id in plan.graph.nodes),
        routes=tuple(places.routes()),
    )


def _rows(level: Level, entries: Mapping[int, int]) -> int:
    """Give every item of a level its row and every step its columns; the level's height. `entries` says in
    which columns edges come in from above."""
    for edge, column in entries.items():
        level.tops[edge].column = column
    row = 0
    arriving: Sequence[Step] = ()
    for index, layer in enumerate(level.layers):
        for item in layer:
            if item.level is not None:
                left = int(item.column) - item.left
                ends = {step.edge: step.end - left for step in arriving if step.lower is item}
                item.height = _rows(item.level, ends)
        height = max((item.height for item in layer), default=0)
        for item in layer:
            item.row = row + (height - item.height) // 2
        row += height
        if index < len(level.steps):
            arriving = level.steps[index]
            row += _lead(level, index, row)
    return row


def _lead(level: Level, index: int, row: int) -> int:
    """Lead the steps from a layer to the next, `row` being the first one between them; the rows it takes."""
    steps = level.steps[index]
    for item, leaving in _by_item(steps, lambda step: step.upper):
        for step, column in _ends(item, leaving, "bottom", lambda step: _middle(step, step.lower)):
            step.start = column
    margin = PADDING if level.title is not None else 0
    wishes = [(step.lower, step.start) for step in steps]
    straighten(level.layers[index + 1], wishes, margin, level.width - 1 - margin)
    for item, coming in _by_item(steps, lambda step: step.lower):
        for step, column in _ends(item, coming, "top", lambda step: step.start):
            step.end = column
    starts = {step.start: step for step in steps}
    for step in steps:
        if starts.get(step.end, step) is not step:
            step.end += 1
        if step.lower.kind in ("bend", "label", "port"):
            step.lower.column = step.end
    bent = [step for step in steps if step.start != step.end]
    # a stub below what a line leaves, and a row for the arrowheads
    stub = any(step.upper.kind in ("node", "box") for step in steps)
    stub = stub or any(step.upper.kind == "label" for step in bent)
    tracks = _tracks(bent, row + stub)
    return max(1, stub + tracks + any(step.lower.kind == "node" for step in steps))


def _by_item(steps: Sequence[Step], end: Callable[[Step], Item]) -> Iterable[tuple[Item, list[Step]]]:
    groups: dict[Item, list[Step]] = {}
    for step in steps:
        groups.setdefault(end(step), []).append(step)
    return groups.items()


def _middle(step: Step, item: Item) -> float:
    return item.column + item.offset(step.edge, "top")


def _ends(
    item: Item, steps: list[Step], side: Side, wish: Callable[[Step], float]
) -> Iterator[tuple[Step, int]]:
    """The column of each step's end at an item: near to its other end, as far as the item allows."""
    if item.kind != "node":
        for step in steps:
            yield step, int(item.column + item.offset(step.edge, side))
        return
    steps = sorted(steps, key=wish)
    low, high = item.column - item.left + 2, item.column + item.reach - 2
    wishes = [(min(max(wish(step), low), high), 1.0) for step in steps]
    columns = spread(wishes, [PORT_GAP] * (len(steps) - 1), low, high)
    yield from zip(steps, map(whole, columns), strict=True)


def _tracks(bent: Iterable[Step], first: int) -> int:
    """Give steps that are not straight their tracks, from row `first`; how many tracks there are."""
    rightwards = sorted((s for s in bent if s.start < s.end), key=lambda step: -step.start)
    leftwards = sorted((s for s in bent if s.start > s.end), key=lambda step: step.start)
    taken: list[list[tuple[int, int]]] = []
    for side in (rightwards, leftwards):
        mine: list[tuple[int, tuple[int, int]]] = []
        for step in side:
            span = (min(step.start, step.end), max(step.start, step.end))
            track = max((other + 1 for other, near in mine if _touch(span, near)), default=0)
            while track < len(taken) and any(_touch(span, other) for other in taken[track]):
                track += 1
            taken += [[]] if track == len(taken) else []
            taken[track].append(span)
            mine.append((track, span))
            step.track = first + track
    return len(taken)


def _touch(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] <= other[1] + 1 and other[0] <= one[1] + 1


class _Places:
    """Everything where it finally is."""

    def __init__(self, plan: Plan) -> None:
        self.edges = plan.edges
        self.turned = plan.turned
        self.boxes: list[Block] = []
        self.nodes: dict[str, Block] = {}
        self._points: list[list[Point]] = [[] for _ in plan.edges]
        self._labels: dict[int, Block] = {}

    def collect(self, level: Level, column: int, row: int) -> None:
        """Take over a level whose upper left cell is at `column` and `row`."""
        for item in (item for layer in level.layers for item in layer):
            left, top = column + int(item.column) - item.left, row + item.row
            if item.level is not None:
                title = item.level.title
                lines = title.lines if title is not None else ()
                self.boxes.append(_block(item.id, lines, left, top, item.level.width, item.height))
                self.collect(item.level, left, top)
            elif item.kind == "node":
                self.nodes[item.id] = _block(
                    item.id, item.lines, left, top, item.left + item.reach + 1, item.height
                )
                self._loops(item, self.nodes[item.id])
            elif item.kind == "label" and item.edge is not None:
                width = item.left + item.right + 1
                self._labels[item.edge] = _block("", item.lines, left, top, width, item.height)
        for steps in level.steps:
            for step in steps:
                self._points[step.edge] += _shifted(step, column, row)

    def _loops(self, item: Item, block: Block) -> None:
        right = block.column + block.width - 1
        for loop in item.loops:
            top = block.row + 1 + loop.first
            self._points[loop.edge] = [
                (right, top), (right + LOOP, top), (right + LOOP, top + 1), (right, top + 1)
            ]  # fmt: skip
            if loop.lines:
                width = item.right - item.reach - LOOP - 2
                self._labels[loop.edge] = _block(
                    "", loop.lines, right + LOOP + 2, top, width, len(loop.lines)
                )

    def routes(self) -> Iterator[Route]:
        for number, edge in enumerate(self.edges):
            # Every way leads down, and its pieces come from several levels. (A loop's points are in order, too.)
            points = sorted(self._points[number], key=lambda point: point[1])
            way = _corners(points)
            yield Route(
                edge=edge,
                points=tuple(reversed(way) if number in self.turned else way),
                label=self._labels.get(number),
            )


def _block(block_id: str, lines: tuple[Line, ...], column: int, row: int, width: int, height: int) -> Block:
    return Block(id=block_id, lines=lines, column=column, row=row, width=width, height=height)


def _shifted(step: Step, column: int, row: int) -> Iterator[Point]:
    yield column + step.start, row + step.upper.row + max(step.upper.height - 1, 0)
    if step.track is not None:
        yield column + step.start, row + step.track
        yield column + step.end, row + step.track
    yield column + step.end, row + step.lower.row


def _corners(points: Sequence[Point]) -> list[Point]:
    """The way without points that it passes straight."""
    kept: list[Point] = []
    for point in points:
        if kept and point == kept[-1]:
            continue
        if len(kept) > 1 and any(kept[-2][axis] == kept[-1][axis] == point[axis] for axis in (0, 1)):
            kept.pop()
        kept.append(point)
    return kept
