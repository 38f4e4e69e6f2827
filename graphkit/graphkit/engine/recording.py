"""What of a superstep is recorded beside its checkpoint, before the superstep is applied.

Invariant 5 (questions): questions, answers, errors and outputs of an unfinished superstep are records of its
checkpoint.
Invariant 6 (finished): what has finished beside slower tasks is recorded in batches while those run, so that it never
runs again, whatever becomes of them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from graphkit.engine import effects
from graphkit.engine.calls import CalledTask, result_record
from graphkit.engine.effects import Effects
from graphkit.engine.tasks import Task, output_record
from graphkit_checkpoint.errors import UnstorableError
from graphkit_checkpoint.records import Pending

if TYPE_CHECKING:
    from graphkit.engine.crew import Crew

BATCH_DELAY = 0.01
"""Seconds until a task that finished beside slower ones is recorded."""


class Recording:
    """The records of one superstep that are not written yet.

    `finished` are tasks whose output is to be recorded, `records` is everything else: what was asked and kept, and how
    nodes failed. `due` is when the next batch is written, None while there is none to wait for.
    """

    __slots__ = ("_crew", "due", "finished", "records")

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self.finished: list[Task] = []
        self.records: list[Pending] = []
        self.due: float | None = None

    def begin(self) -> None:
        """The next superstep: what there was of the one before is in its checkpoint."""
        self.finished, self.records, self.due = [], [], None

    def pending(self) -> list[Pending]:
        """All of them."""
        return [*self.outputs(), *self.records] if self.finished else list(self.records)

    def outputs(self, without: Collection[Task] = ()) -> list[Pending]:
        """Those of what has finished."""
        channels = self._crew.program.channels
        return [
            result_record(task) if isinstance(task, CalledTask) else output_record(task, channels)
            for task in self.finished
            if task not in without
        ]

    def forget(self, task: Task) -> None:
        """Nothing of this task is recorded."""
        if task in self.finished:
            self.finished.remove(task)
        self.records = [record for record in self.records if record.task_id != task.id]

    def write(self) -> Effects:
        """Write everything now, and show what was held back for it. What the storage refuses fails its task; the rest
        is written with the next batch."""
        crew = self._crew
        if not crew.run.durable:
            if not crew.request.stored:
                self.finished.clear()
            yield from crew.run.flush()
            return
        self.due = None
        try:
            yield from crew.run.record(self.pending(), crew.at)
        except UnstorableError as error:
            yield from crew.refused(error)
            return
        self.finished, self.records = [], []
        yield from crew.run.flush()

    def write_in_batches(self) -> Effects:
        """`write` what has waited long enough, while other tasks run."""
        if self._crew.run.durable:
            now: float = yield effects.TIMER
            if self.due is None:
                self.due = now + BATCH_DELAY
            if now < self.due:
                return
        yield from self.write()
