"""A stored checkpoint as a user looks at it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphkit.constants import START
from graphkit.engine.prepare import reopen
from graphkit.engine.program import Program
from graphkit.engine.state import show, view_with
from graphkit.engine.tasks import Task, entries_of
from graphkit.streams import config_at, iso, update_of
from graphkit.types import PregelTask, RunnableConfig, StateSnapshot
from graphkit_checkpoint.records import Saved


def unknown(config: RunnableConfig) -> StateSnapshot:
    """A thread that does not exist."""
    return StateSnapshot(
        values={}, next=(), config=config, metadata=None, created_at=None, parent_config=None
    )


def snapshot(program: Program, saved: Saved, thread_id: str, namespace: str, at_head: bool) -> StateSnapshot:
    """The thread at this checkpoint. At the head, finished tasks of the unfinished superstep are shown with
    what they wrote and only open questions are listed; in history, the checkpoint is shown as it was
    stored, with every question that was asked."""
    standing = reopen(program, saved, namespace)
    point, tasks = saved.checkpoint, standing.tasks
    shown = tuple(_task(task, at_head) for task in tasks)
    # A superstep whose tasks have all finished still waits to be applied.
    waiting = [task for task in tasks if not task.finished] or tasks
    return StateSnapshot(
        values=_values(program, standing.state, tasks if at_head else ()),
        next=tuple(task.name for task in (waiting if at_head else tasks)),
        config=config_at(thread_id, point.id, namespace),
        metadata=point.described,
        created_at=iso(point.created_at),
        parent_config=config_at(thread_id, point.parent_id, namespace) if point.parent_id else None,
        tasks=shown,
        interrupts=tuple(question for task in shown for question in task.interrupts),
    )


def _values(program: Program, state: Any, tasks: Sequence[Task]) -> Any:
    entries = [entry for entry in entries_of(tasks, program) if entry.name != START]
    return show(program, view_with(state, entries), narrow=False)


def _task(task: Task, at_head: bool) -> PregelTask:
    asked = task.open_questions if at_head else [question for question, _ in task.questions.values()]
    return PregelTask(
        id=task.id,
        name=task.name,
        path=task.path,
        error=None if task.finished else task.error,
        interrupts=tuple(asked),
        result=update_of(task.output.writes) if task.output is not None else None,
    )
