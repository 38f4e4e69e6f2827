"""From what is stored and what the caller gave to the first superstep: input, resume, replay, fork.

Everything here happens before the thread is claimed. A wrong input is an error that leaves no trace.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphkit.constants import START
from graphkit.engine import effects, identity
from graphkit.engine.answers import accepted, directions
from graphkit.engine.attempt import Target, Write
from graphkit.engine.effects import Effects
from graphkit.engine.fork import fork
from graphkit.engine.nested import Origin
from graphkit.engine.program import Program
from graphkit.engine.request import Position, Request, hit
from graphkit.engine.resume import (
    Answers,
    answers_in,
    check_same,
    nothing_pending,
    refused,
    response_blocks,
    route,
    unknown,
)
from graphkit.engine.standing import (
    Prepared,
    Standing,
    amend,
    amend_record,
    amends_in,
    can_move,
    command_in,
    reopen,
    rest_at_breakpoints,
    start,
)
from graphkit.engine.state import Changes, State
from graphkit.engine.tasks import Task, answer_record, entries_of
from graphkit.engine.travel import Way, way_to
from graphkit.engine.updates import Beginning, command_parts, update_writes, writes_of_input
from graphkit.engine.versions import settle
from graphkit.errors import (
    ConcurrentUpdateError,
    EmptyInputError,
    GraphVersionError,
    UnserializableStateError,
)
from graphkit.types import Command, Interrupt
from graphkit_checkpoint.records import Checkpoint, Opening, Saved, Tip
from graphkit_checkpoint.serde import fingerprint


class Preparation:
    """Decides what a run starts from. One method per kind of input."""

    def __init__(self, program: Program, request: Request, opening: Opening) -> None:
        self.program = program
        self.request = request
        self.opening = opening
        self.saved = opening.saved

    def prepare(self) -> Effects:
        """Reply: `Prepared`. Raises everything a wrong input can raise."""
        try:
            prepared: Prepared = yield from self._prepare()
            if self.request.stored and not prepared.idle:
                standing = prepared.standing
                goes_on: list[str] | None = None
                if "input" not in [checkpoint.source for checkpoint in prepared.checkpoints]:
                    goes_on = [task.name for task in standing.tasks if task not in standing.attending]
                standing.amended.add(settle(self.program, self.saved, standing.state, goes_on))
        except GraphVersionError as error:
            error.add_note(f"in thread {self.request.thread_id!r}")
            raise
        return prepared

    def _prepare(self) -> Effects:
        given = self.request.input
        if self.saved is None and self.request.checkpoint_id:
            raise self._unknown_checkpoint()
        if self.request.nested and self.saved is not None and self._is_of_this_task(self.saved):
            return self._continue_nested(self.saved)
        if self.request.origin is not None:
            return (yield from self._begin_at(self.request.origin))
        if self.request.task and self.saved is not None:
            self._refuse_beside(self.saved)
            yield from self._go_back_to_way()
        # Where any value is an input, an empty list is one.
        asks = isinstance(given, list) and not (self.program.takes is not None and not given)
        blocks = response_blocks(given) if asks else None
        resumes = blocks is not None or (isinstance(given, Command) and given.resume is not None)
        if self.request.inside is not None and not resumes:
            return (yield from self._go_inside(self.request.inside))
        if blocks is not None:
            return (yield from self._resume(Answers(by_id=blocks), [], []))
        if isinstance(given, Command):
            return (yield from self._command(given))
        if given is None:
            return self._proceed()
        writes = writes_of_input(self.program, given)
        if self.saved is None and type(given) is Beginning:
            writes[:0] = writes_of_input(self.program, given.first)
        if self.opening.abandoned and (yield from self._was_broken_off(writes)):
            return self._proceed()
        if self.program.admits is not None:
            self._ask_whether_to_admit(self.program.admits)
        return self._begin(writes, None)

    def _unknown_checkpoint(self) -> ValueError:
        return ValueError(
            f"thread {self.request.thread_id!r} has no checkpoint {self.request.checkpoint_id!r}; "
            f"get_state_history(config) lists the ones it has"
        )

    def _is_of_this_task(self, saved: Saved) -> bool:
        """Whether the task around a nested run has been here before; else it is a new turn of a graph that goes on
        with the state it had."""
        task = self.request.task
        return not task or saved.checkpoint.control.get("task") == task

    def _refuse_beside(self, saved: Saved) -> None:
        """A graph that keeps its state cannot begin anew while a call of it by another task of the superstep around
        waits: what that call has come to, and the answers to it, would be lost. (While it runs, the door refuses.)"""
        if saved.checkpoint.metadata.get("parents") != self.request.metadata.get("parents"):
            return  # the task around that call is not in this superstep
        tasks = reopen(self.program, saved, self.request.namespace).tasks
        stops = bool(self.request.before or self.request.after)
        waits = any(task.open_questions for task in tasks) or (stops and bool(tasks))
        if waits and not any(task.error for task in tasks):
            raise ConcurrentUpdateError(
                f"graph {self.program.name!r} keeps its state (checkpointer=True), so tasks of one superstep can call "
                f"it once at a time, and a call of it waits for an answer or at a breakpoint; go on with that one "
                f"first, or compile the graph without checkpointer=True"
            )

    def _go_back_to_way(self) -> Effects:
        """A graph that goes on with the state it had: with the one that the thread has behind it, which in a branch
        is not the newest."""
        request = self.request
        assert self.saved is not None
        if self.saved.checkpoint.control.get("branch", "") == self._branch:
            return  # there is no fork between the two
        unwritten = request.scope.live.unwritten
        if unwritten is not None and unwritten.checkpoints:
            find = effects.FindOnWay(request.thread_id, request.namespace, *unwritten.behind())
        else:
            find = effects.FindOnWay(request.thread_id, request.namespace, request.scope.parents[""])
        found = yield find
        if found != self.saved.checkpoint.id:
            opening = Opening(None, None, False)
            if found is not None:
                opening = yield effects.Open(request.thread_id, request.namespace, found, False)
            self.saved = opening.saved

    @property
    def _branch(self) -> str:
        """The branch of the thread that a new turn is in: that of the graph around, or a new one if it does not begin
        at the head."""
        if self.request.nested:
            branch, unwritten = self.request.scope.branch, self.request.scope.live.unwritten
            if unwritten is None or not self.request.task or branch.endswith(unwritten.run):
                return branch
            # Should this run never come to write the checkpoints around it, nobody goes on with what is stored here.
            return f"{branch}/{unwritten.run}"
        if not self._at_head:
            return self.request.nonce
        return "" if self.saved is None else str(self.saved.checkpoint.control.get("branch", ""))

    @property
    def _at_head(self) -> bool:
        saved = self.saved
        if saved is None or self.request.scope.namespace:
            return True
        return saved.checkpoint.id == saved.thread.head

    # A new turn

    def _ask_whether_to_admit(self, admits: Callable[[Sequence[Interrupt]], None]) -> None:
        """A new input closes the questions that are open. In a branch it closes none."""
        saved = self.saved
        if saved is None or not saved.pending or not self._at_head:
            return
        tasks = reopen(self.program, saved, self.request.namespace).tasks
        asked = [question for task in tasks for question in task.open_questions]
        if asked:
            admits(asked)

    def _stored(self, writes: list[Write]) -> list[Write]:
        return [(key, value) for key, value in writes if self.program.channels[key].stored]

    def _was_broken_off(self, writes: list[Write]) -> Effects:
        """Whether the last run was given the same input and ended without giving the thread back.

        Its process died, or its storage failed: then the same call again goes on (SEMANTICS 10).
        """
        saved = self.saved
        if saved is None or self.request.checkpoint_id or self.request.nested:
            return False
        if not reopen(self.program, saved, self.request.namespace).tasks:
            return False
        found: Checkpoint | None = yield effects.FindInput(self.request.thread_id)
        if found is None or found.given is None:
            return False
        try:
            return fingerprint(list(found.given)) == fingerprint(self._stored(writes))
        except UnserializableStateError:
            return False  # the commit says so, and where it is

    def _begin(self, writes: list[Write], goto: list[Target] | None) -> Prepared:
        """Two checkpoints: the input as given, and the state with it applied."""
        saved, request = self.saved, self.request
        parent = saved.checkpoint.id if saved else None
        step = saved.checkpoint.step + 1 if saved else -1
        work: dict[str, Any] = {} if goto is None else {"goto": goto}
        state = State(self.program, saved.values if saved else {}, None)
        standing = Standing(state, [], step, None, saved.tip if saved else Tip())
        # Changes that were to be stored with the next checkpoint: this one.
        for record in amends_in(saved.pending) if saved else ():
            amend(standing, ([], []), record.value["writes"], ())
        if self.program.keeps_finished and saved is not None and saved.pending:
            finished = entries_of(reopen(self.program, saved, request.namespace).tasks, self.program)
            standing.amended.add(state.apply(finished, advance=False))
        changes, standing.amended = standing.amended, Changes()
        prepared = Prepared(standing)
        control: dict[str, Any] = {"next": [START], "ran": []}
        if request.task:
            control["task"] = state.task = request.task
        if branch := self._branch:
            control["branch"] = state.branch = branch
        given = self._stored(writes)
        prepared.checkpoints.append(
            Checkpoint(
                "",
                parent,
                step,
                "input",
                0.0,
                request.metadata,
                control,
                work,
                changes.changed,
                changes.cleared,
                given,
                changes.extended,
            )
        )
        standing.tasks = [start(self.program, writes, work, "", request.namespace, step)]
        return prepared

    # Going on

    def _proceed(self) -> Prepared:
        saved = self.saved
        if saved is None:
            thread = (
                f"thread {self.request.thread_id!r}"
                if self.request.stored
                else "a run without a checkpointer"
            )
            raise EmptyInputError(f"{thread} has no history to go on from; give it an input")
        if not self._at_head:
            return fork(self.program, self.request, saved)
        standing = reopen(self.program, saved, self.request.namespace)
        return Prepared(standing, arriving=False, idle=not can_move(standing))

    def _go_inside(self, place: Position) -> Effects:
        """Go on at a checkpoint of a nested graph: in place if the thread stands there, else in a fork that leads
        to it."""
        way: Way = yield from way_to(place)
        if self.request.input is not None:
            raise ValueError(
                f"namespace {place.namespace!r} is that of a nested graph, which takes no input and no command from "
                f"outside: run with None to go on there, after update_state if something is to be changed, or "
                f"without checkpoint_ns for a turn of the whole graph"
            )
        if way.standing and way.at_head:
            return self._proceed()
        opening: Opening = yield effects.Open(place.thread_id, *way.stops[0], False)
        if opening.saved is None:
            raise _gone(place.thread_id, *way.stops[0])
        self.saved = opening.saved
        return fork(self.program, self.request, self.saved, way.stops[1:])

    def _begin_at(self, origin: Origin) -> Effects:
        """Begin where another run of this graph stood: the task around it is a fork of the one around that run."""
        thread_id = self.request.thread_id
        opening: Opening = yield effects.Open(thread_id, origin.namespace, origin.checkpoint_id, False)
        if opening.saved is None:
            raise _gone(thread_id, origin.namespace, origin.checkpoint_id)
        self.saved = opening.saved
        return fork(self.program, self.request, self.saved, origin.inside, origin.namespace)

    def _continue_nested(self, saved: Saved) -> Prepared:
        """The task around this graph runs again: go on where the graph stopped, with the answers that came."""
        standing = reopen(self.program, saved, self.request.namespace)
        prepared = Prepared(standing, arriving=False, command=command_in(saved))
        given = {id: answer.value for id, answer in self.request.answers.items()}
        update, anew = self._directed(standing, given)
        if anew:
            return self._begin(update, None)
        self._amend(prepared, update, [])
        for task in prepared.standing.tasks:
            for question in task.open_questions:
                answer = self.request.answers.get(question.id)
                if answer is not None:
                    record = answer_record(task.id, question.id, answer.value, answer.fingerprint)
                    prepared.pending.append(record)
                    task.answers = {**task.answers, question.id: answer._replace(taken=False)}
        fresh = [id for id, answer in self.request.answers.items() if answer.fresh]
        if fresh:
            rest_at_breakpoints(prepared.standing, fresh)
            prepared.paused = self._is_at_breakpoint(prepared.standing, saved)
        prepared.idle = prepared.paused or not can_move(prepared.standing)
        return prepared

    def _is_at_breakpoint(self, standing: Standing, saved: Saved) -> bool:
        """Whether it is a breakpoint that the next superstep has not begun for."""
        before, after, tasks = self.request.before, self.request.after, standing.tasks
        if not (before or after) or any(task.finished or task.questions or task.error for task in tasks):
            return False
        ran = [name for name in saved.checkpoint.control.get("ran", ()) if name != START]
        return any(hit(before, task.name) for task in tasks) or (
            bool(tasks) and any(hit(after, name) for name in ran)
        )

    # Commands

    def _command(self, command: Command[Any]) -> Effects:
        writes, targets = command_parts(self.program.words, command)
        answers = answers_in(command)
        if answers is not None:
            return (yield from self._resume(answers, writes, targets))
        if command.update is None and not targets:
            raise ValueError("Command() is empty; give it resume=, update= or goto=")
        saved = self.saved
        if saved is None:
            return self._begin(writes, targets or None)
        if not self._at_head:
            saved.pending.append(amend_record("~", writes, targets))
            return fork(self.program, self.request, saved)
        standing = reopen(self.program, saved, self.request.namespace)
        if not standing.tasks:
            return self._begin(writes, targets)
        prepared = Prepared(standing, arriving=False)
        self._amend(prepared, writes, targets)
        return prepared

    def _amend(self, prepared: Prepared, writes: list[Write], targets: list[Target]) -> None:
        if not writes and not targets:
            return
        standing = prepared.standing
        saved = self.saved
        assert saved is not None
        stored = self._stored(writes)
        key = f"{standing.amends:06d}"
        saved.pending.append(amend_record(key, writes, targets))
        prepared.standing = reopen(self.program, saved, self.request.namespace)
        prepared.pending.append(amend_record(key, stored, targets))

    # Answers

    def _resume(self, answers: Answers, writes: list[Write], targets: list[Target]) -> Effects:
        thread_id = self.request.thread_id
        if not self.request.stored:
            raise RuntimeError(
                "an answer can only be given to a graph with a checkpointer: compile(checkpointer=...) and run "
                "with config={'configurable': {'thread_id': ...}}"
            )
        saved = self.saved
        if saved is None:
            raise nothing_pending(thread_id)
        standing = reopen(self.program, saved, self.request.namespace)
        routed, elsewhere = route(answers, standing.tasks, thread_id)
        for question, value in elsewhere.items():
            yield from check_elsewhere(thread_id, standing.tasks, question, value)
        if not self._at_head:
            if routed.fresh:
                raise unknown(next(iter(routed.fresh)), thread_id)
            if routed.dropped:
                raise nothing_pending(thread_id)
            return (yield from self._current())
        if routed.dropped and self.opening.abandoned:
            return self._proceed()  # the same call as that of a run that broke off after taking the answer
        if routed.dropped:
            stands = "waits at a breakpoint, not for an answer"
            if saved.checkpoint.source == "update":
                stands = "has asked nothing since it was edited"
            warnings.warn(
                f"thread {thread_id!r} {stands}: the resume value was dropped. Go on with invoke(None, config)",
                UserWarning,
                stacklevel=2,
            )
        prepared = Prepared(standing, arriving=False)
        update, anew = self._directed(standing, routed.fresh)
        self._record(prepared, routed.fresh)
        if anew:
            return self._begin([*writes, *update], targets or None)
        if routed.fresh or routed.dropped:
            self._amend(prepared, [*writes, *update], targets)
        else:  # given before, update and goto included: no effect
            rest_at_breakpoints(standing, self._undelivered(standing, routed.repeated))
            prepared.idle = not self._retries(standing, bool(routed.repeated))
        if routed.fresh:
            rest_at_breakpoints(prepared.standing, routed.fresh)
        return prepared

    def _directed(self, standing: Standing, answers: Mapping[str, Any]) -> tuple[list[Write], bool]:
        """What these answers to open questions write to this graph, and whether it is to begin anew with that."""
        found = directions(standing.tasks, answers, self.request.scope.namespace)
        if not found:
            return [], False
        updates = [update_writes(one.update, "Command", self.program.words) for one in found]
        return [write for writes in updates for write in writes], any(one.anew for one in found)

    def _current(self) -> Effects:
        """The thread as it is now: what an answer that was given before leads to."""
        request = self.request
        opening: Opening = yield effects.Open(request.thread_id, request.namespace, None)
        assert opening.saved is not None
        return Prepared(reopen(self.program, opening.saved, request.namespace), arriving=False, idle=True)

    def _record(self, prepared: Prepared, fresh: Mapping[str, Any]) -> None:
        """Give the tasks these answers. Raises `GraphVersionError` before it takes any if the graph has lost a node of
        theirs: what was taken cannot be given again."""
        saved = self.saved
        assert saved is not None
        for task in prepared.standing.tasks:
            if not task.questions.keys().isdisjoint(fresh):
                _ = self.program.specs[task.name]
        prepared.pending += accepted(prepared.standing.tasks, fresh)
        saved.pending.extend(prepared.pending)

    def _undelivered(self, standing: Standing, repeated: list[str]) -> list[str]:
        """The answers that a run took and broke off before anybody had them: they pass a breakpoint as new ones do."""
        if self.opening.abandoned:
            return repeated
        return [
            id for id in repeated for task in standing.tasks if id in task.answers and task.has_for_inside(id)
        ]

    def _retries(self, standing: Standing, here: bool) -> bool:
        """An answer given again has no effect, but picks up a run that broke off after it."""
        return can_move(standing) and (here or self.opening.abandoned)


def check_elsewhere(thread_id: str, tasks: Sequence[Task], question: str, value: Any) -> Effects:
    """An answer to a question that none of the tasks has: given before, and the same one, or an error."""
    found = yield effects.FindAnswers(thread_id, question)
    if not found:
        raise refused(question, tasks, thread_id)
    check_same(question, found[0].value["value"], value)


def _gone(thread_id: str, namespace: str, checkpoint_id: str | None) -> ValueError:
    return ValueError(
        f"checkpoint {checkpoint_id!r} in namespace {namespace!r} of thread {thread_id!r}, which is on the way, is not "
        f"stored: it was pruned, or its run wrote only at its end (durability='exit')"
    )


def newest(opening: Opening, request: Request) -> str | None:
    """The id after which those of this run have to sort."""
    if request.scope.namespace or opening.thread is None:
        return opening.saved.checkpoint.id if opening.saved else None
    return opening.thread.head


def place(prepared: Prepared, request: Request, now: float, after: str | None) -> None:
    """Give the new checkpoint its id and the tasks theirs."""
    if not prepared.checkpoints:
        return
    for checkpoint in prepared.checkpoints:
        checkpoint.id = after = identity.checkpoint_id(now, checkpoint.step, request.nonce, after)
        checkpoint.created_at = now
    standing, last = prepared.standing, prepared.checkpoints[-1]
    standing.checkpoint_id, standing.step = last.id, last.step
    for task in standing.tasks:
        task.move(last.id, last.step)
