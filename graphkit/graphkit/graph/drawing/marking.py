"""Where in a drawing a thread stands, and what it asks there."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import TYPE_CHECKING, Any

from graphkit.graph.draw import shortened
from graphkit.types import Interrupt, StateSnapshot

if TYPE_CHECKING:
    from graphkit.graph.draw import DrawableGraph

Path = tuple[str, ...]
"""Node names from the drawn graph inwards."""


def position(
    graph: DrawableGraph, snapshot: StateSnapshot
) -> tuple[frozenset[str], dict[str, tuple[str, ...]]]:
    """The ids that are next, and the texts of the open questions by id, in the order asked.

    A place that is not drawn, since its graph is not expanded, counts for the innermost place around it. A box
    is next only if nothing in it is known to be.
    """
    asked: dict[str, list[str]] = {}
    own = _namespace(snapshot)
    drawn = {*graph.nodes, *(box.id for box in graph.nesting())}
    for question in {question.id: question for question in _questions(snapshot)}.values():
        place = _innermost(drawn, (*_names(question.namespace, own), question.node))
        if place is not None:
            asked.setdefault(place, []).append(_text(question))
    places = {place for path in _standing(snapshot, ()) if (place := _innermost(drawn, path))} | set(asked)
    outer = {place for place in places if any(other.startswith(f"{place}:") for other in places)}
    return frozenset(places - (outer - set(asked))), {place: tuple(texts) for place, texts in asked.items()}


def _standing(snapshot: StateSnapshot, around: Path) -> Iterator[Path]:
    for name in dict.fromkeys(snapshot.next):
        yield (*around, name)
        for task in snapshot.tasks:
            if task.name == name and isinstance(task.state, StateSnapshot):
                yield from _standing(task.state, (*around, name))


def _questions(snapshot: StateSnapshot) -> Iterator[Interrupt]:
    yield from snapshot.interrupts
    for task in snapshot.tasks:
        if isinstance(task.state, StateSnapshot):
            yield from _questions(task.state)


def _namespace(snapshot: StateSnapshot) -> str:
    namespace: Any = snapshot.config.get("configurable", {}).get("checkpoint_ns")
    return namespace or ""


def _names(namespace: str, own: str) -> Path:
    """The node names of a namespace ("outer:task|inner:task"), from the graph whose namespace is `own`."""
    if own and f"{namespace}|".startswith(f"{own}|"):
        namespace = namespace[len(own) + 1 :]
    return tuple(part.partition(":")[0] for part in namespace.split("|")) if namespace else ()


def _innermost(drawn: Set[str], path: Path) -> str | None:
    places = (":".join(path[:depth]) for depth in range(len(path), 0, -1))
    return next((place for place in places if place in drawn), None)


def _text(question: Interrupt) -> str:
    return shortened(f"{question.name}: {question.value}" if question.name else str(question.value))
