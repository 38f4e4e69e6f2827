"""The edges of a run: what a program does when a run goes on, and when it is about to end early.

- The *opening* runs when a run goes on with an unfinished superstep, before any task of it. It is given the names of
  the tasks that have not finished. If it goes to END, nothing else runs.
- The *closing* runs when a run is about to wait for answers, or to raise the error of a task; what the tasks came to
  is recorded before. It is given a `Closing`. If it returns `Command(resume=...)` where no error is raised, the
  answers are taken as if they had been given to the next run, and this one goes on.

Neither runs at a breakpoint, at a drain, or where a run finds nothing to do. Both see the state (a `Seen`); what they
write is applied at once, as a command from outside is. If one asks, it is a task of the superstep, which is not
applied before it has finished; until then no other of its edge begins, and before an opening has finished no task
runs. Of one that does not ask, only its writes are recorded.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from graphkit.constants import END
from graphkit.engine import effects
from graphkit.engine.answers import accepted
from graphkit.engine.attempt import Done, Place
from graphkit.engine.attendants import Attendant, Edge, unfinished
from graphkit.engine.crew import Crew
from graphkit.engine.effects import Effects
from graphkit.engine.prepare import check_elsewhere
from graphkit.engine.program import Closing
from graphkit.engine.request import End
from graphkit.engine.resume import answers_in, route
from graphkit.engine.standing import amend, amend_record, rest_at_breakpoints
from graphkit.engine.tasks import Task
from graphkit.errors import InvalidUpdateError
from graphkit.types import Command
from graphkit_checkpoint.records import OUTPUT, Pending

if TYPE_CHECKING:
    from graphkit.engine.loop import Run


class Attendance:
    """The edges of one run."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.program = run.program
        self.standing = run.standing

    def begin(self) -> Generator[effects.Effect, Any, End | None]:
        """The run goes on. Returns its `End` if nothing else runs.

        A closing that waited for answers belongs to the run before, so it comes first.
        """
        closing = unfinished(self.standing.attending, "closing")
        if closing is not None and closing.runnable:
            done = yield from self._work(closing)
            yield from self._takes_answers(done)
        return (yield from self.open())

    def open(self) -> Generator[effects.Effect, Any, End | None]:
        """Before the tasks run. Returns the run's `End` if they do not."""
        task = unfinished(self.standing.attending, "opening")
        if task is None:
            if "opening" not in self.program.attended:
                return None
            nodes = self._left()
            task = self._attendant("opening", {"nodes": list(nodes)}, nodes)
        if not task.runnable:
            return (yield from self.run.halt())
        done = yield from self._work(task)
        if done is None:
            return (yield from self.run.halt())
        if END in done.targets:
            return (yield from self.run.rest())
        return None

    def close(self, error: BaseException | None) -> Generator[effects.Effect, Any, bool]:
        """Before the run ends early. Returns whether it goes on instead."""
        if unfinished(self.standing.attending, "closing") is not None:
            return False
        questions = tuple(question for task in self.standing.tasks for question in task.open_questions)
        nodes = self._left()
        about = {
            "questions": [question.id for question in questions],
            "error": None if error is None else [type(error).__name__, str(error)],
            "nodes": list(nodes),
        }
        task = self._attendant("closing", about, Closing(questions=questions, error=error, nodes=nodes))
        try:
            done = yield from self._work(task)
        except Exception as own:
            if error is None or own is error:
                raise
            raise own from error
        return error is None and (yield from self._takes_answers(done))

    def _left(self) -> tuple[str, ...]:
        """The nodes whose tasks have not finished, each once."""
        tasks = self.standing.tasks
        return tuple(
            dict.fromkeys(task.name for task in tasks if not (task.finished or isinstance(task, Attendant)))
        )

    def _attendant(self, edge: Edge, about: Mapping[str, Any], arg: Any) -> Attendant:
        spec = self.program.opening if edge == "opening" else self.program.closing
        assert spec is not None
        standing = self.standing
        number = sum(task.path[0] == edge for task in standing.attending)
        at = Place(standing.checkpoint_id or "", self.run.request.namespace, standing.step, ())
        return Attendant(spec.name, edge, number, at, about, arg)

    def _work(self, task: Attendant) -> Generator[effects.Effect, Any, Done | None]:
        """Run it and take up what it comes to. Returns what it put out, None if it asks; raises what it raised."""
        run, standing = self.run, self.standing
        arg = task.argument(standing.tasks)
        if type(arg) is Closing:
            task.arg = replace(arg, view=run.view())
        around, run.crew = run.crew, Crew(run)
        crew = run.crew
        crew.begin_with(task)
        yield from crew.work()
        crew.leavings.apply()
        lasts = task in standing.attending
        if crew.failures:
            yield from run.fail(crew)
        if crew.for_parent:
            raise InvalidUpdateError(
                f"{task.name!r} is at the edge of graph {self.program.name!r} and cannot command the one around it"
            )
        done = task.output
        if done is None and not lasts:
            self._add(task)
        elif done is not None:
            crew.recording.records += self._applied(task, done)
            if lasts:
                crew.recording.records.append(Pending(task.id, OUTPUT, "", {"writes": [], "targets": []}))
                task.output = Done([], [])
        yield from run.record_beside(crew.recording.records)
        run.crew = around
        return done

    def _add(self, task: Attendant) -> None:
        """Make it one of the superstep's tasks, after the others."""
        tasks, attending = self.standing.tasks, self.standing.attending
        before = len(tasks) - len(attending)
        attending.append(task)
        attending.sort(key=lambda task: task.place_in_line)
        tasks[before:] = attending

    def _applied(self, task: Task, done: Done) -> list[Pending]:
        """Apply what it wrote; returns the record of it."""
        if not done.writes:
            return []
        key, channels = f"{self.standing.amends:06d}", self.program.channels
        amend(self.standing, ([], []), done.writes, ())
        stored = [(name, value) for name, value in done.writes if channels[name].stored]
        return [amend_record(key, stored, (), task.id)]

    def _takes_answers(self, done: Done | None) -> Effects:
        """Take the answers that a closing has given. Reply: whether there were any."""
        command: Command[Any] | None = None if done is None else done.resume
        answers = None if command is None else answers_in(command)
        if answers is None:
            return False
        run, tasks = self.run, self.standing.tasks
        routed, elsewhere = route(answers, tasks, run.request.thread_id)
        for question, value in elsewhere.items():
            yield from check_elsewhere(run.request.thread_id, tasks, question, value)
        yield from run.record_beside(accepted(tasks, routed.fresh))
        rest_at_breakpoints(self.standing, routed.fresh)
        run.steps += 1  # so that it does not go on for ever
        return bool(routed.fresh)
