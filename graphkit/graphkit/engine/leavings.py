"""What attempts at the tasks of a superstep leave behind: values that are kept for the next attempt, and amends.

Amends of a task that finishes are part of its output. Those of one that asks or has failed for good are recorded
and applied on their own, before any output: in the order of the tasks, which is that of the records' keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphkit.engine.attempt import Done, Failed, ForParent, Keeping, Outcome, Write
from graphkit.engine.calls import CalledTask
from graphkit.engine.standing import amend, amend_record
from graphkit.engine.state import preview
from graphkit.engine.tasks import Task, kept_records
from graphkit.errors import UnserializableStateError
from graphkit_checkpoint.serde import fingerprint

if TYPE_CHECKING:
    from graphkit.engine.crew import Crew


class Leavings:
    """Those of one superstep. `amended` is what is to be applied on its own, by the key of its record."""

    __slots__ = ("_crew", "amended")

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self.amended: dict[str, list[Write]] = {}

    def take(self, task: Task, outcome: Outcome, keeping: Keeping) -> Outcome:
        """Take over what an attempt has left behind. Returns what the attempt has come to by that: its output with
        the amends, or an error if they are refused."""
        task.keeping = keeping
        if not keeping.amends:
            return outcome
        if isinstance(outcome, (Done, ForParent)) and not isinstance(task, CalledTask):
            outcome.writes = [*keeping.amends, *outcome.writes]
            return outcome
        try:
            self.preview(task)
        except Exception as error:
            keeping.amends.clear()
            return Failed(error)
        if type(outcome) is Done:  # a call, whose result is recorded as soon as it has finished
            self._record_amends(task, keeping)
        return outcome

    def preview(self, task: Task) -> dict[str, Any]:
        """The state with what the task has amended. Raises what channels raise that refuse it."""
        assert task.keeping is not None
        state = self._crew.run.standing.state
        return preview(state.channels, state.view, task.keeping.amends)

    def record(self, task: Task, error: BaseException | None = None) -> None:
        """The task does not finish now. If that is because of an error, it is the one to be raised, and no other."""
        keeping = task.keeping
        if keeping is None:
            return
        if error is not None:
            _drop_what_cannot_be_stored(keeping, error)
        self._crew.recording.records += kept_records(task)
        if keeping.kept:
            self._crew.run.standing.kept[task.id] = keeping.kept
        if keeping.amends:
            self._record_amends(task, keeping)

    def _record_amends(self, task: Task, keeping: Keeping) -> None:
        """Under a key that depends on the place of the task, and not on who was faster."""
        crew = self._crew
        place = crew.tasks.index(task.root if isinstance(task, CalledTask) else task)
        before = f"{crew.run.standing.amends:06d}-{place:06d}-"
        key = f"{before}{sum(known.startswith(before) for known in self.amended):06d}"
        writes, keeping.amends = keeping.amends, []
        self.amended[key] = writes
        stored = [(name, value) for name, value in writes if crew.program.channels[name].stored]
        crew.recording.records.append(amend_record(key, stored, (), task.id))

    def apply(self) -> None:
        """All tasks have ended: apply what they have amended and not put out."""
        for _, writes in sorted(self.amended.items()):
            amend(self._crew.run.standing, ([], []), writes, ())
        self.amended.clear()


def _drop_what_cannot_be_stored(keeping: Keeping, error: BaseException) -> None:
    for key, value in list(keeping.kept.items()):
        try:
            fingerprint(value)
        except UnserializableStateError as problem:
            del keeping.kept[key]
            error.add_note(f"and what was kept as {key!r} for the next attempt is lost: {problem}")
