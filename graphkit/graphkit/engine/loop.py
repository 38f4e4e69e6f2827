"""The run: load and claim, then superstep after superstep, each ended by one commit.

    open -> prepare -> claim -> { start -> next outcome ... -> apply -> commit -> emit } -> end

Invariant 3 (ownership): no user code runs before the claim is committed, and every commit is made while
the thread is owned; the last commit of a run gives the thread back.
Invariant 4 (durability): with durability "sync" nothing is emitted before it is committed.
Invariant 5 (questions): a superstep with an open question is not applied; what its tasks produced is
recorded beside the checkpoint, which stays the head.
Invariant 6 (finished): a task with a recorded output is never started again.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence, Set
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from graphkit.engine import effects, identity
from graphkit.engine.crew import Crew
from graphkit.engine.effects import Effects
from graphkit.engine.events import Halted
from graphkit.engine.failures import HANDLED, annotate, error_record
from graphkit.engine.nested import locate
from graphkit.engine.prepare import Preparation, newest, place
from graphkit.engine.program import Program
from graphkit.engine.refusals import keepable
from graphkit.engine.request import End, Request, hit
from graphkit.engine.saving import Saving
from graphkit.engine.standing import Prepared, Standing
from graphkit.engine.state import Changes, Entry, names_of, show, view_with, work_of, writes_of
from graphkit.engine.tasks import Task, entries_of, make_tasks
from graphkit.engine.telling import state_changed, superstep_ended
from graphkit.engine.updates import together
from graphkit.errors import (
    ConcurrentUpdateError,
    GraphRecursionError,
    LeaseLostError,
    ParentCommand,
    StorageError,
)
from graphkit.types import Command, Interrupt, RunStatus
from graphkit_checkpoint.errors import UnstorableError
from graphkit_checkpoint.records import ANSWER, ERROR, KEPT, Checkpoint, Opening, Pending

if TYPE_CHECKING:
    from graphkit.engine.attendance import Attendance

NOTHING_STORED = Opening(None, None, False)

_OUTPUT = attrgetter("output")

FIRST_PAUSE, LONGEST_PAUSE = 0.005, 0.1
"""Seconds between two looks at a thread that somebody else has."""


def run(program: Program, request: Request) -> Generator[effects.Effect, Any, End]:
    """One run of a graph. Returns its `End`; raises what a node raised, and the errors of a wrong input."""
    return Run(program, request).run()


class ChildCommand(ParentCommand):
    """A `ParentCommand` on its way out of a nested graph, whose `node` gave it, to the task around that graph."""

    def __init__(self, command: Command[Any], node: str) -> None:
        super().__init__(command)
        self.node = node


class Run:
    """One run while it lasts."""

    def __init__(self, program: Program, request: Request) -> None:
        self.program = program
        self.request = request
        self.standing: Standing = None  # type: ignore[assignment]  # set before anything reads it
        self.opening = NOTHING_STORED
        self.hands: Crew = None  # type: ignore[assignment]  # set before anything reads it
        self.crew: Crew | None = None  # while it is at work
        self.saving = Saving(self)
        self.goes_on = False  # with a superstep that an earlier run has left
        self.paused = False
        listen = request.scope.listen
        self.listens = bool(listen)
        self.tells_values = "values" in listen
        self.written: Set[str] | None = None  # by the superstep that has ended
        self.may_break = bool(request.before or request.after)
        self.control = request.scope.live.control if request.drains else None
        self.drained: str | None = None
        self.steps = 0
        self.held: list[Any] = []
        self.beside: list[Pending] = []  # records of this checkpoint, to be written when the run ends
        self.durable = self.saving.durable

    def run(self) -> Generator[effects.Effect, Any, End]:
        try:
            end: End | None = None
            patient = self.request.patience > 0
            idle = yield from (self._start_when_free() if patient else self._start())
            if idle:
                return (yield from self._idle())
            self.hands = Crew(self)
            if self.goes_on and (self.program.attended or self.standing.attending):
                end = yield from self._begin_attended()
            if end is None:
                end = yield from self._supersteps()
            if end is not None:
                return end
        except BaseException as error:
            if self.crew is not None and self.crew.live:
                yield effects.Cancel(list(self.crew.live))
            if self.saving.active:
                yield from self._give_back(error)
            raise
        else:
            return self._end()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """The run is over. Its parts know each other: what they hold is not to wait for the garbage collector."""
        if self.hands is not None:
            self.hands.let_go()
        self.__dict__.clear()

    # Beginning and ending

    def _start_when_free(self) -> Generator[effects.Effect, Any, bool]:
        """`_start`, as often as somebody else has the thread, while there is patience."""
        until: float | None = None
        pause = FIRST_PAUSE
        while True:
            try:
                return (yield from self._start())
            except ConcurrentUpdateError:
                if self.saving.active:
                    raise
                now: float = yield effects.TIMER
                until = now + self.request.patience if until is None else until
                if now >= until:
                    raise
                yield effects.Next(min(now + pause, until))
                pause = min(pause * 1.5, LONGEST_PAUSE)
                self.saving.unsaved.clear()

    def _start(self) -> Generator[effects.Effect, Any, bool]:
        """Open the thread, prepare and claim it. Returns whether there is nothing to do."""
        if self.request.called is not None:
            self.request = yield from locate(self.request)
        request = self.request
        if request.stored:
            scope = request.scope
            self.opening = yield effects.Open(
                scope.thread_id, scope.namespace, request.checkpoint_id, not request.nested
            )
        prepared: Prepared = yield from Preparation(self.program, request, self.opening).prepare()
        self.standing = prepared.standing
        self.goes_on, self.paused = not prepared.arriving, prepared.paused
        if not prepared.idle:
            yield from self._enter(prepared)
        if prepared.command is not None:
            raise ChildCommand(*prepared.command)
        return prepared.idle

    def _idle(self) -> Generator[effects.Effect, Any, End]:
        """Nothing to do: show what there is, and what is still waited for."""
        end = self._end()
        if end.asked:
            self._show_halt(end)
        elif self.tells_values and not self.paused:
            self.held.append(state_changed(self))
        yield from self.flush()
        return end

    def _show_halt(self, end: End) -> None:
        if self.listens and self.request.listen & {"updates", "values"}:
            event = Halted(
                namespace=self.request.namespace, interrupts=end.interrupts, values=self._everything()
            )
            self.held.append(event)

    def _enter(self, prepared: Prepared) -> Effects:
        """Claim the thread. A new input is applied in the same commit unless a branch has to choose."""
        now: float = yield effects.NOW
        place(prepared, self.request, now, newest(self.opening, self.request))
        standing, checkpoints = self.standing, list(prepared.checkpoints)
        at = standing.checkpoint_id or ""
        if prepared.arriving and standing.tasks[0].output is not None:
            checkpoints += self._advance(now, count=False)
            self.paused = self.may_break and self._breaks_before()
        over = not standing.tasks or self.paused
        if self.control is not None and self.control.shared and not over:
            over = yield from self._drains()
        yield from self.saving.commit(checkpoints, prepared.pending, at, claims=True, release=over)
        if self.listens:
            self.held.extend(superstep_ended(self, checkpoints or self._found()))
            yield from self.flush()

    def _found(self) -> tuple[Checkpoint, ...]:
        """The checkpoint that the run goes on from without one of its own."""
        saved = self.opening.saved
        at_it = saved is not None and saved.checkpoint.id == self.standing.checkpoint_id
        return (saved.checkpoint,) if saved is not None and at_it else ()

    def _end(self) -> End:
        standing = self.standing
        asked: list[tuple[Interrupt, str]] = []
        left = []
        for task in standing.tasks:
            if task.output is None:
                left.append(task.name)
                asked += [task.questions[question.id] for question in task.open_questions]
        if standing.tasks and not left:  # all have finished, and the superstep still waits to be applied
            left = [task.name for task in standing.tasks]
        scope = self.request.scope
        status: RunStatus = "interrupted" if asked else self._rest if left or self.paused else "completed"
        end = End(
            status, show(self.program, self.view()), tuple(left), asked, scope.thread_id, scope.namespace
        )
        if self.request.stored:
            end.checkpoint_id = standing.checkpoint_id
        end.drained = self.drained
        return end

    @property
    def _rest(self) -> RunStatus:
        """Why tasks are left though none of them waits for an answer."""
        return "paused" if self.drained is None else "drained"

    def _drains(self) -> Generator[effects.Effect, Any, bool]:
        """Whether the run has been asked to stop between supersteps. Breakpoints come first: going on from a place
        in front of one passes it."""
        self.drained = yield effects.DRAINING
        return self.drained is not None

    def view(self) -> Mapping[str, Any]:
        """The state, with what finished tasks of an unfinished superstep wrote."""
        standing = self.standing
        if not standing.tasks:
            return standing.state.view
        return view_with(standing.state, entries_of(standing.tasks, self.program))

    def _everything(self) -> Any:
        return show(self.program, self.view(), narrow=False)

    def _refuse_more(self) -> Effects:
        names = ", ".join(repr(task.name) for task in self.standing.tasks[:5])
        remedy = (
            f"go on with invoke(None) on thread {self.request.thread_id!r} and a higher limit"
            if self.request.stored
            else "give a higher limit: config={'recursion_limit': ...}"
        )
        error = GraphRecursionError(
            f"graph {self.program.name!r} used up its recursion_limit of {self.request.recursion_limit} "
            f"supersteps and {names} would run next; {remedy}"
        )
        if "closing" in self.program.attended:
            yield from self._close((), error)
        raise error

    def _give_back(self, error: BaseException) -> Effects:
        """The run ends by an error: release the thread, keep what tasks have produced."""
        crew = self.crew
        if isinstance(error, (LeaseLostError, StorageError)):
            return  # nothing more can be written; the claim ends with this run's token
        if isinstance(error, UnstorableError) and self.saving.unsaved:
            yield from self.saving.keep_what_can_be_stored()
            return
        pending = [*self.beside, *([] if crew is None else keepable(error, crew))]
        at = crew.at if crew is not None else self.standing.checkpoint_id or ""
        try:
            yield from self.saving.commit((), pending, at, release=True)
        except Exception as second:
            error.add_note(f"and the thread could not be given back: {second!r}")

    # Supersteps

    def _supersteps(self) -> Generator[effects.Effect, Any, End | None]:
        """Run the tasks that can run, then apply, ask or fail, while there are tasks. Returns an `End` if the run stops
        within a superstep."""
        request, standing, crew = self.request, self.standing, self.hands
        while standing.tasks and not self.paused and self.drained is None:
            if self.steps >= request.recursion_limit:
                yield from self._refuse_more()
            self.crew = crew
            crew.begin()
            yield from crew.work()
            if crew.leavings.amended:
                crew.leavings.apply()
            if crew.failures:
                yield from self.fail(crew)
            if crew.for_parent:
                command, node = self._for_parent(crew)
                yield from self._leave(crew, command, node)
                raise ChildCommand(command, node)
            if None in map(_OUTPUT, standing.tasks):
                end: End | None = yield from self.halt()
                if end is not None:
                    return end
                continue
            now: float = (yield effects.NOW) if request.stored else 0.0
            ran = standing.tasks
            checkpoints = self._advance(now, count=ran[0].name != self.program.entry.name)
            self.paused = self.may_break and (self._breaks_after(ran) or self._breaks_before())
            over = self.paused or not standing.tasks or self.steps >= request.recursion_limit
            if self.control is not None and self.control.shared and not over:
                over = yield from self._drains()
            if over and standing.tasks and not self.paused and "closing" in self.program.attended:
                # If it is because of the limit, what closes the run still writes.
                over = self.drained is not None
            if request.stored:
                stale = self._stale(ran)
                yield from self.saving.commit(checkpoints, (), crew.at, forget=stale, release=over)
            self.crew = None
            if self.listens:
                self.held.extend(superstep_ended(self, checkpoints))
                if over or not crew.tells_starts:  # else with the start of what follows
                    yield from self.flush()
        return None

    def _stale(self, ran: Sequence[Task]) -> list[tuple[str, str, str]]:
        """What is recorded of tasks that have finished, and of no use any more."""
        stale: list[tuple[str, str, str]] = []
        for task in ran:
            if task.error is not None:
                stale += [(task.id, ERROR, ""), (task.id, ERROR, HANDLED)]
        kept = self.standing.kept
        if kept:
            stale += [(task_id, KEPT, key) for task_id, keys in kept.items() for key in keys]
            self.standing.kept = {}
        return stale

    def _for_parent(self, crew: Crew) -> tuple[Command[Any], str]:
        """What tasks command the graph around this one, whichever has finished first, and the first of them."""
        place = self.standing.tasks.index
        given = sorted(crew.for_parent, key=lambda each: place(each[0]))
        return together([command for _, command in given]), given[0][0].name

    def _leave(self, crew: Crew, command: Command[Any], node: str) -> Effects:
        """A task commands the graph around this one, which ends: with what its tasks wrote, and with the command,
        so that it is given again if the task around runs again."""
        if not (self.request.stored and self.request.nested):
            return
        now: float = yield effects.NOW
        (checkpoint,) = self._advance(now)
        self.standing.tasks = []
        checkpoint.control = {**checkpoint.control, "next": []}
        checkpoint.work = {"command": command, "node": node}
        try:
            yield from self.saving.commit([checkpoint], (), crew.at, release=True)
        except UnstorableError:
            return  # the graph around may take what cannot be stored; the command is given here once more
        self.crew = None
        self.held.extend(superstep_ended(self, (checkpoint,)))
        yield from self.flush()

    def _advance(self, now: float, count: bool = True) -> tuple[Checkpoint, ...]:
        """Apply what the tasks wrote and plan what runs next; returns the checkpoint, if it is stored."""
        standing, request = self.standing, self.request
        state, step, parent = standing.state, standing.step + 1, standing.checkpoint_id
        if standing.attending:
            standing.tasks = [task for task in standing.tasks if task not in standing.attending]
            standing.attending = []
        if self.beside:
            self.beside = []
        entries = entries_of(standing.tasks, self.program)
        changes = state.apply(entries)
        amended = standing.amended
        if self.tells_values:
            self.written = self._written(entries, amended)
        if amended.changed or amended.cleared:
            changes, standing.amended = standing.amended.add(changes), Changes()
        plan = names, sends = state.follow(entries)
        if not (names or sends):
            state.finish(changes)
        if request.stored:
            new_id = identity.checkpoint_id(now, step, request.nonce, parent)
        else:
            new_id = identity.unstored_id(request.nonce, step)
        standing.step, standing.checkpoint_id, standing.amends = step, new_id, 0
        standing.tasks = make_tasks(plan, new_id, request.scope.namespace, step)
        self.steps += count
        if not request.stored:
            return ()
        checkpoint = Checkpoint(
            new_id,
            parent,
            step,
            "loop",
            now,
            request.metadata,
            state.control(plan, names_of(entries)),
            work_of(plan) if sends else None,
            changes.changed,
            changes.cleared,
            None,
            changes.extended,
        )
        return (checkpoint,)

    def _written(self, entries: Sequence[Entry], amended: Changes) -> Set[str] | None:
        """The channels that a superstep has written to. Of a command from outside the state is shown in any case."""
        written = {key for key, _ in writes_of(entries)}
        if self.crew is not None:
            return written.union(amended.changed, amended.cleared)
        return None if isinstance(self.request.input, Command) else written

    def halt(self) -> Generator[effects.Effect, Any, End | None]:
        """Questions are open, or a graph inside a task is to be gone on with: record everything beside the checkpoint
        and stop, unless the program's closing has something to go on with. Returns the `End` if the run stops."""
        crew = self.crew
        pending = [] if crew is None else crew.recording.pending()
        if "closing" in self.program.attended and any(task.open_questions for task in self.standing.tasks):
            if (yield from self._close(pending, None)):
                self.hands.breaks = False
                return (yield from self._attendance.open())
            pending = []
        if self.control is not None and not (crew is not None and crew.breaks):
            yield from self._drains()
        return (yield from self.rest(pending))

    def rest(self, pending: Sequence[Pending] = ()) -> Generator[effects.Effect, Any, End]:
        """Stop in front of what is left."""
        at = self.standing.checkpoint_id or ""
        yield from self.saving.commit((), [*self.beside, *pending], at, release=True)
        end = self._end()
        self._show_halt(end)
        yield from self.flush()
        return end

    def fail(self, crew: Crew) -> Effects:
        """Record what there is and raise the error of the first failed task in task-path order."""
        pending = crew.recording.pending()
        lasting = [(task, failed) for task, failed in crew.failures if task in self.standing.tasks]
        pending += [error_record(task.id, failed.error) for task, failed in lasting]
        forget = [(task.id, ANSWER, failed.rejected) for task, failed in lasting if failed.rejected]
        order = {task: index for index, task in enumerate(crew.tasks)}
        task, failed = min(crew.failures, key=lambda pair: order[pair[0]])
        self._annotate(failed.error, task)
        if "closing" in self.program.attended and task.path[0] != "closing":
            yield from self._close(pending, failed.error)
            pending = []
        yield from self.saving.commit((), [*self.beside, *pending], crew.at, forget=forget, release=True)
        yield from self.flush()
        raise failed.error

    @property
    def _attendance(self) -> Attendance:
        from graphkit.engine.attendance import Attendance

        return Attendance(self)

    def _begin_attended(self) -> Generator[effects.Effect, Any, End | None]:
        over = not self.standing.tasks or self.paused or self.drained is not None
        return None if over else (yield from self._attendance.begin())

    def _close(self, pending: Sequence[Pending], error: BaseException | None) -> Effects:
        """The run is about to end early: record why, then let the program close it. Reply: whether it goes on."""
        yield from self.record_beside(pending)
        self.crew = None
        yield from self.flush()
        return (yield from self._attendance.close(error))

    def record_beside(self, pending: Sequence[Pending]) -> Effects:
        """Record something that has to outlive the run, at once unless it writes only at its end."""
        if not self.durable:
            self.beside += pending
        elif pending:
            yield from self.saving.commit((), pending, self.standing.checkpoint_id or "")

    def _annotate(self, error: BaseException, task: Task) -> None:
        around = " > ".join(part.split(":")[0] for part in self.request.namespace.split("|") if part)
        inside = f" inside {around!r}" if around else ""
        place = f"in node {task.name!r} of graph {self.program.name!r}{inside}, attempt "
        more = str(task.attempts)
        if self.request.stored:
            more += f", thread {self.request.thread_id!r}, checkpoint {self.standing.checkpoint_id!r}"
        annotate(error, place, more)

    def _breaks_before(self) -> bool:
        names = self.request.before
        return bool(names) and any(hit(names, task.name) for task in self.standing.tasks)

    def _breaks_after(self, ran: Sequence[Task]) -> bool:
        names, request = self.request.after, self.request
        if not names or ran[0].name == self.program.entry.name:
            return False
        if not self.standing.tasks and not (request.nested and request.stored):
            return False  # the end of everything is no pause; at that of a nested graph its task waits
        return any(hit(names, task.name) for task in ran)

    # Saving and showing

    def record(self, pending: Sequence[Pending], at: str) -> Effects:
        """Record something beside the checkpoint while the superstep goes on."""
        yield from self.saving.commit((), pending, at)

    def flush(self) -> Effects:
        """Show what was held back until it was durable."""
        if self.held:
            held, self.held = self.held, []
            yield effects.Emit(held)
