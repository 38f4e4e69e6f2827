"""Values that the storage refuses: whose they were, and what of a superstep can be kept without them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from graphkit.engine.crew import Crew
from graphkit.engine.program import Program
from graphkit.engine.tasks import Task
from graphkit_checkpoint.errors import UnstorableError
from graphkit_checkpoint.records import ANSWER, Pending


def explained(error: UnstorableError, program: Program, crew: Crew | None, thread_id: str) -> UnstorableError:
    """The storage's refusal with the names it cannot know: whose value it was."""
    if error.channel is not None:
        where = f"{_writers(error.channel, crew)} wrote to channel {error.channel!r}"
    elif error.record is not None and error.record[0] == ANSWER:
        where = f"the answer to question {error.record[1]!r}"
    else:
        tasks = dict.fromkeys([*crew.tasks, *crew.recording.finished]) if crew is not None else ()
        found = [task for task in tasks if error.task_id in (None, task.id)]
        names = ", ".join(repr(task.name) for task in found)
        where = f"node {names}{_channel_at(error, program, found)}" if found else "the input"
    return error.of(f"thread {thread_id!r}, {where}")


def keepable(error: BaseException, crew: Crew) -> list[Pending]:
    """What the tasks of a superstep came to that ends by an error, without what was refused."""
    refused = error.task_id if isinstance(error, UnstorableError) else None
    others = [record for record in crew.recording.records if record.task_id != refused]
    return [*crew.recording.outputs(_culprits(error, crew)), *others]


def _culprits(error: BaseException, crew: Crew) -> list[Task]:
    """The tasks whose output cannot be stored; the others' must not be lost with it."""
    if not isinstance(error, UnstorableError):
        return []
    if error.channel is not None:
        return [task for task in crew.recording.finished if _wrote(task, error.channel)]
    return [task for task in crew.recording.finished if task.id == error.task_id]


def _channel_at(error: UnstorableError, program: Program, tasks: Sequence[Task]) -> str:
    """Which of a task's writes an error inside its recorded output is about."""
    place = re.match(r"\['writes'\]\[(\d+)\]", error.path)
    if place is None or len(tasks) != 1 or tasks[0].output is None:
        return ""
    channels = program.channels
    stored = [key for key, _ in tasks[0].output.writes if key in channels and channels[key].stored]
    if not stored:
        return " returned"
    return f" wrote to channel {stored[int(place[1])]!r}"


def _writers(channel: str, crew: Crew | None) -> str:
    if crew is None:
        return "the input"
    names = [task.name for task in crew.tasks if _wrote(task, channel)]
    return f"node {', '.join(map(repr, names))}" if names else "an earlier node"


def _wrote(task: Task, channel: str) -> bool:
    return task.output is not None and any(key == channel for key, _ in task.output.writes)
