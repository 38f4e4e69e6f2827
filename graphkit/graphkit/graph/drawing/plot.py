"""Pictures by matplotlib, of our own layout."""

from __future__ import annotations

import io
import warnings
from functools import lru_cache
from math import ceil, hypot, sqrt
from threading import Lock
from typing import TYPE_CHECKING

import matplotlib
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, get_font_names
from matplotlib.patches import FancyBboxPatch, PathPatch, Polygon
from matplotlib.path import Path
from matplotlib.textpath import text_to_path

from graphkit.constants import END, START
from graphkit.graph.drawing.layout import Block, Layout, Route, layout
from graphkit.graph.drawing.picture import Canvas, Kind, Paint, colour, paint
from graphkit.graph.drawing.texts import Line

if TYPE_CHECKING:
    from graphkit.graph.draw import DrawableGraph

# Points
COLUMN, ROW = 5.0, 12.0
NAME_SIZE, NOTE_SIZE = 9.0, 7.5
BEND = 4.0
HEAD_LENGTH, HEAD_WIDTH = 6.0, 5.0

DOTS_PER_INCH = 200
MOST_DOTS = 2**15
"""Of a side: matplotlib refuses 2**16."""
MOST_PIXELS = 10**8

LINE, TEXT, BOX = "#495057", "#212529", "#adb5bd"
FONTS = ("DejaVu Sans",)
"""Comes with matplotlib, so that pictures look the same everywhere."""
MORE_FONTS = (
    "Noto Sans CJK JP", "Noto Sans CJK SC", "Source Han Sans", "WenQuanYi Micro Hei", "PingFang SC",
    "Hiragino Sans", "Apple SD Gothic Neo", "Microsoft YaHei", "Yu Gothic", "Malgun Gothic", "Arial Unicode MS",
)  # fmt: skip
"""For names that it has no signs for, where they are installed."""

_drawing = Lock()
"""matplotlib's settings and Python's warning filters belong to the whole process."""


def plotted_picture(graph: DrawableGraph, kind: Kind, canvas: Canvas) -> bytes:
    with (
        _drawing,
        warnings.catch_warnings(),
        matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "graphkit"}),
    ):
        # A sign that no font has is drawn as a box; the SVG has it as text all the same.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        plot = _Plot(graph, canvas)
        return plot.png() if kind == "png" else plot.svg()


@lru_cache(maxsize=8)
def _fonts(fontname: str | None) -> tuple[str, ...]:
    installed = set(get_font_names())
    return (*((fontname,) if fontname else ()), *FONTS, *(name for name in MORE_FONTS if name in installed))


class _Plot:
    """One figure; a unit of its coordinates is a point, and rows lead down."""

    def __init__(self, graph: DrawableGraph, canvas: Canvas) -> None:
        self.graph = graph
        self.canvas = canvas
        self.fonts = [
            FontProperties(family=list(_fonts(canvas.fontname)), size=size) for size in (NAME_SIZE, NOTE_SIZE)
        ]
        plan = layout(graph, self._columns, canvas.words)
        padding = canvas.padding
        width, height = max(plan.width * COLUMN, 1) + 2 * padding, max(plan.height * ROW, 1) + 2 * padding
        self.figure = Figure(figsize=(width / 72, height / 72))
        self.figure.patch.set_facecolor(colour(canvas.background) if canvas.background else "none")
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set_axis_off()
        self.axes.set_xlim(-padding, width - padding)
        self.axes.set_ylim(height - padding, -padding)
        self._draw(plan)

    def png(self) -> bytes:
        width, height = self.figure.get_size_inches()
        dots = min(DOTS_PER_INCH, MOST_DOTS / max(width, height), sqrt(MOST_PIXELS / (width * height)))
        data = io.BytesIO()
        self.figure.savefig(data, format="png", dpi=dots, metadata={"Software": None})
        return data.getvalue()

    def svg(self) -> bytes:
        data = io.BytesIO()
        self.figure.savefig(data, format="svg", metadata={"Date": None, "Creator": None})
        return data.getvalue()

    def _font(self, line: Line) -> FontProperties:
        return self.fonts[line.is_note]

    def _columns(self, line: Line) -> int:
        width, _, _ = text_to_path.get_text_width_height_descent(line.text, self._font(line), ismath=False)
        return ceil(width / COLUMN)

    def _draw(self, plan: Layout) -> None:
        looks = self.graph.looks()
        for order, box in enumerate(plan.boxes):
            look = looks[box.id]
            marked = paint(self.canvas.styles, look) if look in ("next", "question") else None
            self._box(box, marked or Paint(None, BOX, 0.8), order)
        for route in plan.routes:
            self._route(route)
        for route in plan.routes:
            if route.label is not None:
                self._lines(route.label, on_line=True)
        for node in plan.nodes:
            is_end = self.graph.nodes[node.id].name in (START, END)
            self._node(node, paint(self.canvas.styles, looks[node.id]), is_end)

    def _box(self, box: Block, style: Paint, order: int) -> None:
        # from the upper edge of the border's cells, so that the title is inside
        left, top = (box.column + 0.5) * COLUMN, box.row * ROW
        self._rounded(left, top, (box.width - 1) * COLUMN, (box.height - 0.5) * ROW, 5, style, order / 1000)
        [line] = box.lines
        self._text((box.column + 2) * COLUMN, (box.row + 0.55) * ROW, line, "left", 3)

    def _node(self, node: Block, style: Paint, is_end: bool) -> None:
        left, top = (node.column + 0.5) * COLUMN, (node.row + 0.5) * ROW
        width, height = (node.width - 1) * COLUMN, (node.height - 1) * ROW
        self._rounded(left, top, width, height, height / 2 if is_end else 4, style, 2)
        self._lines(node)

    def _rounded(
        self, left: float, top: float, width: float, height: float, radius: float, style: Paint, order: float
    ) -> None:
        self.axes.add_patch(
            FancyBboxPatch(
                (left, top),
                width,
                height,
                boxstyle=f"round,pad=0,rounding_size={min(radius, width / 2, height / 2)}",
                facecolor=style.fill or "none",
                edgecolor=style.stroke,
                linewidth=style.width,
                zorder=order,
            )
        )

    def _lines(self, block: Block, *, on_line: bool = False) -> None:
        middle = (block.column + block.width / 2) * COLUMN
        # in a node that is higher than its lines they stand in the middle
        first = block.row + (block.height - len(block.lines)) / 2 + 0.5
        for number, line in enumerate(block.lines):
            self._text(middle, (first + number) * ROW, line, "center", 3, on_line=on_line)

    def _text(self, x: float, y: float, line: Line, align: str, order: int, *, on_line: bool = False) -> None:
        under = {"facecolor": self.canvas.background or "white", "edgecolor": "none", "pad": 1.0}
        self.axes.text(
            x, y, line.text, ha=align, va="center", color=TEXT, fontproperties=self._font(line), zorder=order,
            parse_math=False, bbox=under if on_line else None,
        )  # fmt: skip

    def _route(self, route: Route) -> None:
        points = [((column + 0.5) * COLUMN, (row + 0.5) * ROW) for column, row in route.points]
        (x, y), (tip_x, tip_y) = points[-2:]
        length = hypot(tip_x - x, tip_y - y)
        across, down = (tip_x - x) / length, (tip_y - y) / length
        end = (tip_x - across * HEAD_LENGTH, tip_y - down * HEAD_LENGTH)
        half = HEAD_WIDTH / 2
        head = [
            (tip_x, tip_y),
            (end[0] - down * half, end[1] + across * half),
            (end[0] + down * half, end[1] - across * half),
        ]
        self.axes.add_patch(
            PathPatch(
                _rounded_way([*points[:-1], end]),
                fill=False,
                edgecolor=LINE,
                linewidth=0.9,
                linestyle=(0, (3, 2)) if route.edge.conditional else "solid",
                zorder=1,
            )
        )
        self.axes.add_patch(Polygon(head, closed=True, facecolor=LINE, edgecolor="none", zorder=2.5))


def _rounded_way(points: list[tuple[float, float]]) -> Path:
    vertices, codes = [points[0]], [Path.MOVETO]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        vertices += [_towards(corner, before), corner, _towards(corner, after)]
        codes += [Path.LINETO, Path.CURVE3, Path.CURVE3]
    return Path([*vertices, points[-1]], [*codes, Path.LINETO])


def _towards(corner: tuple[float, float], point: tuple[float, float]) -> tuple[float, float]:
    """The point at which the bend at a corner begins: at most half way to the next corner."""
    x, y = point[0] - corner[0], point[1] - corner[1]
    length = hypot(x, y)
    part = min(BEND, length / 2) / length
    return corner[0] + x * part, corner[1] + y * part
