"""A drawing as a PNG or SVG picture, made on this machine.

Graphviz draws it if pydot and the program `dot` are there, else matplotlib draws our own layout. Both show the
same texts and colours.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

from graphkit.graph.draw import NodeStyles

if TYPE_CHECKING:
    from graphkit.graph.draw import DrawableGraph, Look

Kind = Literal["png", "svg"]

FILL, STROKE = "#f2f0ff", "#9370db"


@dataclass(frozen=True, slots=True, kw_only=True)
class Canvas:
    """What is drawn upon and with: `padding` in points, `background` a colour or None; `words` is how many of
    them an edge's label has in a line."""

    styles: NodeStyles = field(default_factory=NodeStyles)
    background: str | None = "white"
    padding: int = 10
    fontname: str | None = None
    words: int | None = None


@dataclass(frozen=True, slots=True)
class Paint:
    """A node's colours (None: nothing is filled) and the width of its border in points."""

    fill: str | None
    stroke: str
    width: float


def picture(graph: DrawableGraph, kind: Kind, canvas: Canvas) -> bytes:
    """`ImportError` if there is nothing to draw with, `ValueError` for an edge to an id that is no node."""
    dot = shutil.which("dot")
    if dot is not None and find_spec("pydot") is not None:
        from graphkit.graph.drawing.graphviz import graphviz_picture

        return graphviz_picture(graph, kind, canvas, dot)
    if find_spec("matplotlib") is not None:
        from graphkit.graph.drawing.plot import plotted_picture

        return plotted_picture(graph, kind, canvas)
    missing = [
        *(["the package pydot"] if find_spec("pydot") is None else []),
        *(["the program dot of Graphviz"] if dot is None else []),
    ]
    raise ImportError(
        f"draw_{kind}() needs the package matplotlib, or pydot and Graphviz; missing are matplotlib and "
        f'{" and ".join(missing)}. Install the packages with: pip install "graphkit-engine[draw]"'
    )


def paint(styles: NodeStyles, look: Look) -> Paint:
    """The colours in a style, which is CSS; what it does not say is as in the default style."""
    css = _declarations(styles.default) | _declarations(getattr(styles, look))
    see_through = css.get("fill-opacity") == "0" or css.get("fill") in ("none", "transparent")
    width = re.match(r"\d+\.?\d*", css.get("stroke-width", ""))
    return Paint(
        None if see_through else _known(css.get("fill"), FILL),
        _known(css.get("stroke"), STROKE),
        float(width[0]) if width else 1.0,
    )


def _known(name: str | None, usual: str) -> str:
    return colour(name) if name and re.fullmatch(r"#[0-9a-fA-F]{3,8}|[a-zA-Z]+", name) else usual


def _declarations(css: str) -> dict[str, str]:
    parts = (part.partition(":") for part in css.replace(";", ",").split(","))
    return {name.strip(): value.strip() for name, colon, value in parts if colon}


def colour(name: str) -> str:
    """A colour as matplotlib and Graphviz both know it: `#abc` is `#aabbcc`."""
    is_short = name.startswith("#") and len(name) in (4, 5)
    return "#" + "".join(digit * 2 for digit in name[1:]) if is_short else name
