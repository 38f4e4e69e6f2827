"""A stored checkpoint as a user looks at it.

Everything here blocks: the async doors of `CompiledGraph` call it where the saver may wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from graphkit.compiled import CompiledGraph
from graphkit.constants import START
from graphkit.engine.identity import below, call_at, call_key, call_of, lasting
from graphkit.engine.program import Program
from graphkit.engine.request import Position
from graphkit.engine.standing import reopen
from graphkit.engine.state import show, view_with
from graphkit.engine.tasks import Task, entries_of
from graphkit.graph.nesting import children_of, graph_at
from graphkit.shapes import config_at, iso, update_of
from graphkit.types import PregelTask, RunnableConfig, StateSnapshot
from graphkit_checkpoint.base import BaseCheckpointSaver
from graphkit_checkpoint.records import Saved


class Viewer:
    """Shows the checkpoints of a graph and of the graphs inside it. `deep` shows those inside with each task.
    `namespace` is where the graph itself runs, if it is inside another one."""

    def __init__(
        self, graph: CompiledGraph, saver: BaseCheckpointSaver, deep: bool = False, *, namespace: str = ""
    ) -> None:
        self.graph = graph
        self.saver = saver
        self.deep = deep
        self.namespace = namespace
        self._children: dict[tuple[int, str], list[CompiledGraph]] = {}

    def state(self, place: Position) -> StateSnapshot:
        """One checkpoint. A thread or namespace that does not exist gives an empty snapshot."""
        return self._state(self.saver.load(*place), place)

    def peek(self, place: Position) -> StateSnapshot:
        """`state`, whose values the next run may have too: for those who change none of them."""
        return self._state(self.saver.find_for_run(*place)[1], place)

    def _state(self, saved: Saved | None, place: Position) -> StateSnapshot:
        if saved is None:
            config = config_at(place.thread_id, place.checkpoint_id, place.namespace)
            return StateSnapshot(
                values={}, next=(), config=config, metadata=None, created_at=None, parent_config=None
            )
        return self._snapshot(self._graph_at(place.namespace), saved, place)

    def _graph_at(self, namespace: str) -> CompiledGraph:
        """A namespace of nobody we know is shown as far as the outer graph's state keys go."""
        inside = namespace[len(self.namespace) :].lstrip("|")
        return graph_at(self.graph, inside) or self.graph

    def history(self, place: Position, **which: Any) -> Iterator[StateSnapshot]:
        """The checkpoints of a namespace, newest first; `which` as `BaseCheckpointSaver.history` takes it."""
        graph = self._graph_at(place.namespace)
        for saved in self.saver.history(place.thread_id, place.namespace, **which):
            yield self._snapshot(graph, saved, place._replace(checkpoint_id=saved.checkpoint.id))

    def _snapshot(self, graph: CompiledGraph, saved: Saved, place: Position) -> StateSnapshot:
        """At the head, finished tasks of the unfinished superstep are shown with what they wrote and only open
        questions are listed; in history, the checkpoint is shown as it was stored, with every question that
        was asked."""
        at_head = place.checkpoint_id is None
        standing = reopen(graph.program, saved, place.namespace)
        point, tasks = saved.checkpoint, standing.tasks
        shown = tuple(_task(task, at_head, self._inside(graph, task, place)) for task in tasks)
        # A superstep whose tasks have all finished still waits to be applied.
        waiting = [task for task in tasks if not task.finished] or tasks
        metadata = {"parents": {}, **point.described}
        config = _config(place, point.id, metadata["parents"])
        return StateSnapshot(
            values=_values(graph.program, standing.state, tasks if at_head else ()),
            next=tuple(task.name for task in (waiting if at_head else tasks)),
            config=config,
            metadata=metadata,
            created_at=iso(point.created_at),
            parent_config=_config(place, point.parent_id, metadata["parents"]) if point.parent_id else None,
            tasks=shown,
            interrupts=tuple(question for task in shown for question in task.interrupts),
        )

    def _inside(
        self, graph: CompiledGraph, task: Task, place: Position
    ) -> RunnableConfig | StateSnapshot | None:
        """The graph that runs in a task: its config, or its state."""
        known = self._children.get((id(graph), task.name))
        if known is None:  # looked for once: it means reading what the node's function refers to
            known = self._children[id(graph), task.name] = children_of(graph, task.name)
        children = [child for child in known if child.keeps is not False]
        if not children:
            return None
        base = below(place.namespace, task.name, task.id)
        if graph.program.specs[task.name].subgraph is not None:
            namespace = lasting(base) if children[0].keeps is True else base
        else:
            namespace = self._last_call(base, children, place.thread_id)
        if not namespace:
            return None
        if not self.deep:
            return config_at(place.thread_id, None, namespace)
        return self.state(Position(place.thread_id, namespace))

    def _last_call(self, base: str, children: Sequence[CompiledGraph], thread_id: str) -> str:
        """The namespace of the graph that a function called last; "" if it has called none."""
        found = self.saver.namespaces(thread_id, f"{base}:")
        calls = [key for name in found if "|" not in (key := name[len(base) + 1 :])]
        if calls:
            return f"{base}:{max(calls, key=lambda key: call_at(key)[0])}"
        kept = next((child for child in children if child.keeps is True), None)
        return "" if kept is None else lasting(f"{base}:{call_key(0, call_of(kept.program.called, ''))}")


def _config(place: Position, checkpoint_id: str, parents: Mapping[str, str]) -> RunnableConfig:
    return config_at(place.thread_id, checkpoint_id, place.namespace, parents)


def _values(program: Program, state: Any, tasks: Sequence[Task]) -> Any:
    entries = [entry for entry in entries_of(tasks, program) if entry[0] != START]
    return show(program, view_with(state, entries), narrow=False)


def _task(task: Task, at_head: bool, inside: Any) -> PregelTask:
    asked = task.open_questions if at_head else task.all_questions
    return PregelTask(
        id=task.id,
        name=task.name,
        path=task.path,
        error=None if task.finished else task.error,
        interrupts=tuple(asked),
        state=inside,
        result=update_of(task.output.writes) if task.output is not None else None,
    )
