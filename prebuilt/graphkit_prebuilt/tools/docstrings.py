"""What a docstring says about a function and about its parameters (Google style, and `:param name: …`)."""

from __future__ import annotations

import inspect
import re
from typing import Any, NamedTuple

_HEADING = re.compile(r"(?:Args|Arguments|Parameters|Params):\s*$")
_ENTRY = re.compile(r"\*{0,2}(?P<name>\w+)\s*(?:\([^)]*\))?\s*:\s*(?P<text>.*)$")
_FIELD = re.compile(r":param\s+(?:[^:]*\s)?\*{0,2}(?P<name>\w+)\s*:\s*(?P<text>.*)$")


class Described(NamedTuple):
    """The text without what it says about parameters, and that, by parameter."""

    text: str
    parameters: dict[str, str]


def docstring_of(function: Any) -> str | None:
    """Of what a partial calls, if it is one."""
    found: str | None = getattr(function, "func", function).__doc__
    return found


def described(docstring: str | None) -> Described:
    """Take a docstring apart."""
    text: list[str] = []
    parameters: dict[str, list[str]] = {}
    lines = inspect.cleandoc(docstring or "").splitlines()
    while lines:
        line = lines.pop(0)
        if _HEADING.match(line):
            _take_entries(_indented(lines), parameters)
        elif field := _FIELD.match(line):
            parameters[field["name"]] = [field["text"].strip(), *map(str.strip, _indented(lines))]
        else:
            text.append(line)
    return Described(
        re.sub(r"\n{3,}", "\n\n", "\n".join(text)).strip(),
        {name: "\n".join(found).strip() for name, found in parameters.items()},
    )


def _indented(lines: list[str]) -> list[str]:
    """Take off the lines that are indented, with the empty ones between them."""
    count = 0
    for number, line in enumerate(lines, 1):
        if line[:1] in (" ", "\t"):
            count = number
        elif line.strip():
            break
    taken, lines[:] = lines[:count], lines[count:]
    return taken


def _take_entries(lines: list[str], parameters: dict[str, list[str]]) -> None:
    """`name (type): text`, each with the deeper lines below it."""
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    current: list[str] = []
    for line in lines:
        entry = _ENTRY.match(line[margin:]) if line[margin : margin + 1].strip() else None
        if entry is not None:
            current = parameters.setdefault(entry["name"], [])
            current.append(entry["text"].strip())
        elif line.strip():
            current.append(line.strip())
