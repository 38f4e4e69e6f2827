"""Tasks at the edges of a run, beside those of its superstep: what is recorded of them, and made of it again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from graphkit.channels import MISSING
from graphkit.engine.attempt import Place
from graphkit.engine.program import Closing
from graphkit.engine.tasks import Task
from graphkit.errors import RecordedError
from graphkit_checkpoint.records import QUESTION, Pending

Edge = Literal["opening", "closing"]


class Attendant(Task):
    """An opening or a closing. `about` is what its argument is made of, in plain values."""

    def __init__(
        self, name: str, edge: Edge, number: int, at: Place, about: Mapping[str, Any], arg: Any = MISSING
    ) -> None:
        super().__init__(name, at.along((edge, number)), arg)
        self.about = about
        self.steered = True  # no edges follow it

    @property
    def is_opening(self) -> bool:
        return self.path[0] == "opening"

    @property
    def place_in_line(self) -> tuple[bool, int]:
        """Openings come before closings."""
        return not self.is_opening, int(self.path[1])

    @property
    def attends(self) -> dict[str, Any]:
        return {"name": self.name, "path": list(self.path), "about": dict(self.about)}

    def argument(self, tasks: Sequence[Task]) -> Any:
        """What its node is given: that of an earlier run again, if it began there."""
        if self.arg is MISSING:
            self.arg = tuple(self.about["nodes"]) if self.is_opening else self._closing(tasks)
        return self.arg

    def _closing(self, tasks: Sequence[Task]) -> Closing:
        asked = {question.id: question for task in tasks for question in task.all_questions}
        error = self.about["error"]
        return Closing(
            questions=tuple(asked[id] for id in self.about["questions"] if id in asked),
            error=None if error is None else RecordedError(*error),
            nodes=tuple(self.about["nodes"]),
        )


def attendants_in(pending: Iterable[Pending], at: Place) -> list[Attendant]:
    """Those that have asked, at a checkpoint, in order."""
    found: dict[str, Attendant] = {}
    for record in pending:
        if record.kind == QUESTION and "attends" in record.value and record.task_id not in found:
            attends = record.value["attends"]
            edge, number = attends["path"]
            found[record.task_id] = Attendant(attends["name"], edge, number, at, attends["about"])
    return sorted(found.values(), key=lambda task: task.place_in_line)


def unfinished(attending: Iterable[Attendant], edge: Edge) -> Attendant | None:
    """The one that waits for answers; no other of its edge begins before it has finished."""
    return next((task for task in attending if task.path[0] == edge and not task.finished), None)
