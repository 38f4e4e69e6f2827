"""What a function changes itself of what it encloses, such as a counter or a list of its calls.

That is no part of what the function is. It is read off the bytecode, where that says so plainly: an assignment, an
assignment of an item, a method of a container that changes it, `next()`.
"""

from __future__ import annotations

import dis
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator
from types import CodeType
from typing import Any

__all__ = ["changed_by", "is_changed"]

CONTAINERS = (list, dict, set, bytearray, deque, Counter, OrderedDict, defaultdict)
METHODS = frozenset(
    {"add", "append", "appendleft", "clear", "extend", "insert", "pop", "popleft", "setdefault", "update"}
)
_LOADS = ("LOAD_CONST", "LOAD_DEREF", "LOAD_FAST", "LOAD_GLOBAL")
"""What pushes one value, whatever was pushed before."""


def is_changed(name: str, value: Any, changes: frozenset[tuple[str, str]]) -> bool:
    """Whether an enclosed variable is one that its function changes, by `changed_by`."""
    if ("assigned", name) in changes or (("next", name) in changes and isinstance(value, Iterator)):
        return True
    return ("inside", name) in changes and type(value) in CONTAINERS


def changed_by(code: CodeType) -> frozenset[tuple[str, str]]:
    """(How, name) of each enclosed variable that the code seems to change: it is "assigned", something "inside" it
    is, or `next()` takes from it."""
    found: set[tuple[str, str]] = set()
    steps = list(dis.get_instructions(code))
    for container, before, step in zip(steps, steps[1:], steps[2:], strict=False):
        if step.opname in ("STORE_DEREF", "DELETE_DEREF"):
            found.add(("assigned", step.argval))
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            if before.opname == "LOAD_DEREF" and step.argval in METHODS:
                found.add(("inside", before.argval))
        elif step.opname in ("STORE_SUBSCR", "DELETE_SUBSCR", "COPY"):
            if container.opname == "LOAD_DEREF" and before.opname in _LOADS:
                found.add(("inside", container.argval))
        elif step.opname == "LOAD_DEREF" and before.opname == "LOAD_GLOBAL" and before.argval == "next":
            found.add(("next", step.argval))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= changed_by(constant)
    return frozenset(found)
