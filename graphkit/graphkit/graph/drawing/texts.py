"""Names, notes and labels as lines of text, whatever users put into them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from unicodedata import category

if TYPE_CHECKING:
    from graphkit.graph.draw import DrawableGraph

WIDEST_LINE = 28
"""Columns after which a name, a note or a label is broken."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text; a note is drawn smaller than a name."""

    text: str
    is_note: bool = False


Measure = Callable[[Line], int]
"""How many columns a line takes."""


def node_lines(graph: DrawableGraph, node_id: str, name: str, measure: Measure) -> tuple[Line, ...]:
    """A node's name and notes: at least one line."""
    names = [Line(text) for text in broken(name, measure)]
    notes = [Line(text, True) for note in graph.notes(node_id) for text in broken(note, measure, True)]
    return (*(names or [Line(" ")]), *notes)


def title_line(graph: DrawableGraph, box_id: str, name: str) -> Line:
    """A box's name and notes, in one line."""
    notes = ", ".join(map(shown, graph.notes(box_id)))
    return Line(f"{shown(name)} ({notes})" if notes else shown(name) or " ")


def label_lines(label: str | None, measure: Measure, words: int | None) -> tuple[Line, ...]:
    """An edge's label, at most `words` of it in a line; no lines if there is nothing to show."""
    parts = shown(label or "").split()
    step = words or len(parts) or 1
    pieces = (" ".join(parts[start : start + step]) for start in range(0, len(parts), step))
    return tuple(Line(text, True) for piece in pieces for text in broken(piece, measure, True))


def shown(text: str) -> str:
    """A text as one line: white space is one blank, invisible marks are left out, control characters a "?"."""
    line = "".join(char if char.isprintable() else _substitute(char) for char in " ".join(text.split()))
    return line.strip()


def _substitute(char: str) -> str:
    return "" if category(char) == "Cf" else "?"


def broken(text: str, measure: Measure, is_note: bool = False) -> Iterator[str]:
    """Lines of at most `WIDEST_LINE` columns, broken where it hurts least: after blanks and `_ - . /`."""
    line = ""
    for piece in _pieces(shown(text), measure, is_note):
        if line and measure(Line((line + piece).rstrip(), is_note)) > WIDEST_LINE:
            yield line.rstrip()
            line = ""
        line += piece
    if line.strip():
        yield line.rstrip()


def _pieces(text: str, measure: Measure, is_note: bool) -> Iterator[str]:
    for piece in re.findall(r"[^\s_./-]*[\s_./-]*", text):
        while measure(Line(piece.rstrip(), is_note)) > WIDEST_LINE:
            length = next(
                length
                for length in range(len(piece) - 1, 0, -1)
                if length == 1 or measure(Line(piece[:length], is_note)) <= WIDEST_LINE
            )
            yield piece[:length]
            piece = piece[length:]
        yield piece
