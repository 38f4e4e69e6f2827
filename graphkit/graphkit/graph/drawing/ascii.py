"""A drawing as lines of text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING
from unicodedata import category, east_asian_width

from graphkit.graph.drawing.layout import Block, Point, Route, layout
from graphkit.graph.drawing.texts import Line

if TYPE_CHECKING:
    from graphkit.graph.draw import DrawableGraph


def text(graph: DrawableGraph) -> str:
    plan = layout(graph, _columns)
    canvas = _Canvas(plan.width, plan.height)
    marked = {place for place, look in graph.looks().items() if look in ("next", "question")}
    for box in plan.boxes:
        canvas.frame(box, box.id in marked)
    for route in plan.routes:
        canvas.lines(route, across=True)
    for route in plan.routes:
        canvas.lines(route, across=False)
    for route in plan.routes:
        canvas.ends(route)
    for box in plan.boxes:
        canvas.title(box)
    for node in plan.nodes:
        canvas.frame(node, node.id in marked)
        canvas.text(node.lines, node.column + 1, node.row + 1, node.width - 2)
    for route in plan.routes:
        if route.label is not None:
            canvas.text(route.label.lines, route.label.column, route.label.row, route.label.width)
    return str(canvas)


def _columns(line: Line) -> int:
    return sum(map(_width, line.text))


def _width(char: str) -> int:
    if category(char) in ("Mn", "Me"):
        return 0
    return 2 if east_asian_width(char) in ("W", "F") else 1


class _Canvas:
    """Cells of text; beside a wide sign there is an empty one."""

    def __init__(self, width: int, height: int) -> None:
        self.cells = [[" "] * width for _ in range(height)]

    def __str__(self) -> str:
        return "\n".join("".join(row).rstrip() for row in self.cells)

    def frame(self, block: Block, marked: bool) -> None:
        corner, across, down = ("#", "#", "#") if marked else ("+", "-", "|")
        right = block.column + block.width - 1
        for row in range(block.row, block.row + block.height):
            is_end = row in (block.row, block.row + block.height - 1)
            for column in range(block.column, right + 1) if is_end else (block.column, right):
                is_side = column in (block.column, right)
                self.cells[row][column] = corner if is_end and is_side else down if is_side else across

    def title(self, box: Block) -> None:
        [line] = box.lines
        self.cells[box.row][box.column + 1] = " "
        self._write(line.text, box.column + 2, box.row)
        self.cells[box.row][box.column + 2 + _columns(line)] = " "

    def text(self, lines: tuple[Line, ...], column: int, row: int, width: int) -> None:
        for number, line in enumerate(lines):
            self._write(line.text, column + (width - _columns(line)) // 2, row + number)

    def _write(self, text: str, column: int, row: int) -> None:
        for char in text:
            if not _width(char):
                self.cells[row][column - 1] += char
                continue
            self.cells[row][column] = char
            if _width(char) == 2:
                self.cells[row][column + 1] = ""
            column += _width(char)

    def lines(self, route: Route, across: bool) -> None:
        """What runs across is drawn before what runs down, so that it is broken where they cross."""
        dotted = route.edge.conditional
        for one, other in pairwise(route.points):
            if (one[1] == other[1]) == across:
                for column, row in _cells(one, other):
                    self.cells[row][column] = (
                        (":" if dotted else "|") if not across else "." if dotted else "-"
                    )

    def ends(self, route: Route) -> None:
        for column, row in route.points[1:-1]:
            self.cells[row][column] = "+"
        (column, row), (last_column, last_row) = route.points[-2:]
        step = (_sign(column - last_column), _sign(row - last_row))
        head = {(0, -1): "v", (0, 1): "^", (1, 0): "<"}[step]
        self.cells[last_row + step[1]][last_column + step[0]] = head


def _cells(one: Point, other: Point) -> Iterator[Point]:
    columns, rows = sorted((one[0], other[0])), sorted((one[1], other[1]))
    for row in range(rows[0], rows[1] + 1):
        for column in range(columns[0], columns[1] + 1):
            yield column, row


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)
