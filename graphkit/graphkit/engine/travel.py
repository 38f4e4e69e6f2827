"""The way down to a checkpoint of a nested graph, and whether the thread still stands there."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

from graphkit.engine import effects
from graphkit.engine.identity import task_id, task_in
from graphkit.engine.request import Position
from graphkit.engine.tasks import Task
from graphkit_checkpoint.records import ANSWER, OUTPUT, QUESTION, Opening, Saved

Stop = tuple[str, str]
"""A namespace and the id of one of its checkpoints."""


class Way(NamedTuple):
    """From the root to a checkpoint of a nested graph, one stop for each graph.

    `standing` are the graphs around it as they stand now, if the task that each next one runs in is unfinished:
    then to go on with the thread is to go on in the nested graph. Empty if the thread has left it.
    """

    stops: tuple[Stop, ...]
    target: Saved
    standing: tuple[Saved, ...]
    at_head: bool


def way_to(place: Position) -> Generator[effects.Effect, Any, Way]:
    """Raises `ValueError` if no nested graph has such a checkpoint."""
    opening: Opening = yield effects.Open(*place, False)
    target = opening.saved
    parents = target.checkpoint.metadata.get("parents") if target is not None else None
    if target is None or not parents:
        wanted = f" with a checkpoint {place.checkpoint_id!r}" if place.checkpoint_id else ""
        raise ValueError(
            f"thread {place.thread_id!r} has no nested graph in namespace {place.namespace!r}{wanted}; "
            f"get_state(config, subgraphs=True) shows the ones it has"
        )
    above = sorted(parents.items(), key=lambda stop: (bool(stop[0]), stop[0].count("|")))
    stops: tuple[Stop, ...] = (*above, (place.namespace, target.checkpoint.id))
    standing: list[Saved] = []
    for namespace, checkpoint_id in stops:
        opening = yield effects.Open(place.thread_id, namespace, None, False)
        if standing and (opening.saved is None or _is_left(standing[-1], namespace, opening.saved)):
            return Way(stops, target, (), False)
        if namespace != place.namespace and opening.saved is not None:
            if opening.saved.checkpoint.id != checkpoint_id:
                return Way(stops, target, (), False)
            standing.append(opening.saved)
    at_head = opening.saved is not None and opening.saved.checkpoint.id == target.checkpoint.id
    return Way(stops, target, tuple(standing), at_head)


def _is_left(outer: Saved, namespace: str, inner: Saved) -> bool:
    """Whether the task that runs the inner graph has finished."""
    task = task_in(namespace) or inner.checkpoint.control.get("task", "")
    return any(record.kind == OUTPUT and record.task_id == task for record in outer.pending)


def relayed(outer: Saved, namespace: str) -> list[tuple[str, str, str]]:
    """The records of questions that a graph passes on from this namespace, as `Commit.forget` names them."""
    asked = {
        record.key
        for record in outer.pending
        if record.kind == QUESTION and f"{record.value['namespace']}|".startswith(f"{namespace}|")
    }
    return [
        record.name for record in outer.pending if record.kind in (QUESTION, ANSWER) and record.key in asked
    ]


def inside(tasks: Sequence[Task], stops: Sequence[Stop], around: str) -> dict[str, Any]:
    """What a fork remembers of the way on, until the task that it leads through has begun.

    `tasks` are those of the checkpoint that is forked, in namespace `around`. Raises `ValueError` if none of them
    is on the way.
    """
    namespace = stops[0][0]
    wanted, node = task_in(namespace), namespace.rpartition("|")[2].partition(":")[0]
    for task in tasks:
        place = task.place
        here = task_id(place.checkpoint_id, around, place.step, place.path) if wanted else task.name
        if here == (wanted or node):
            return {"path": list(task.path), "stops": [list(stop) for stop in stops]}
    raise ValueError(
        f"the nested graph in namespace {namespace!r} cannot be run from there: no task of checkpoint "
        f"{tasks[0].place.checkpoint_id if tasks else None!r} runs it"
    )
