"""From what is stored and what the caller gave to the first superstep: input, resume, replay, fork.

Everything here happens before the thread is claimed. A wrong input is an error that leaves no trace.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphkit.channels import MISSING
from graphkit.constants import END, START
from graphkit.engine import effects, identity
from graphkit.engine.attempt import Done, Target, Write
from graphkit.engine.program import Program
from graphkit.engine.request import Request
from graphkit.engine.resume import (
    Answers,
    answers_in,
    check_same,
    nothing_pending,
    response_blocks,
    route,
    unknown,
)
from graphkit.engine.state import Changes, Entry, Plan, State, plan_of
from graphkit.engine.tasks import OUTSIDE, Task, answer_record, make_tasks, restore, start_task
from graphkit.engine.updates import command_parts, writes_of_input
from graphkit.engine.versions import settle
from graphkit.errors import EmptyInputError, UnserializableStateError
from graphkit.types import Command, Send
from graphkit_checkpoint.records import AMEND, Checkpoint, Opening, Pending, Saved, Tip
from graphkit_checkpoint.serde import fingerprint

Effects = Generator[effects.Effect, Any, Any]


@dataclass(slots=True, eq=False, repr=False)
class Standing:
    """Where a run stands: at a checkpoint, with the tasks of the superstep that follows it.

    `amended` is what commands from outside changed since the checkpoint; it is stored with the next one.
    """

    state: State
    tasks: list[Task]
    step: int
    checkpoint_id: str | None
    tip: Tip = field(default_factory=Tip)
    amended: Changes = field(default_factory=Changes)
    amends: int = 0


@dataclass(slots=True, eq=False, repr=False)
class Prepared:
    """What to write with the claim, and where to go on. `arriving` is False where a breakpoint was passed
    already; `idle` means that there is nothing to do and nothing to write."""

    standing: Standing
    checkpoints: list[Checkpoint] = field(default_factory=list)
    pending: list[Pending] = field(default_factory=list)
    arriving: bool = True
    idle: bool = False


def reopen(program: Program, saved: Saved, namespace: str, fork: bool = False) -> Standing:
    """Where a run stands at a stored checkpoint. In a fork, tasks begin anew: nothing recorded of them counts."""
    checkpoint = saved.checkpoint
    control, work = checkpoint.control, checkpoint.work or {}
    state = State(program, saved.values, control)
    at = checkpoint.id
    pending = [record for record in saved.pending if not fork or record.kind == AMEND]
    standing = Standing(state, [], checkpoint.step, at, saved.tip)
    plan = plan_of(control, work)
    for record in pending:
        if record.kind == AMEND:
            amend(standing, plan, record.value["writes"], record.value["targets"])
    if checkpoint.given is not None:
        standing.tasks = [_start(program, checkpoint.given, work, at, namespace, checkpoint.step)]
        standing.tasks += make_tasks(
            Plan([n for n in plan.names if n != START], plan.sends), at, namespace, checkpoint.step
        )
    else:
        standing.tasks = make_tasks(plan, at, namespace, checkpoint.step)
    restore(standing.tasks, pending)
    return standing


def _start(
    program: Program, given: Sequence[Write], work: Mapping[str, Any], at: str, namespace: str, step: int
) -> Task:
    """The task that takes in the input; it is finished unless a conditional entry has to choose."""
    task = start_task(dict(given), at, namespace, step)
    goto = work.get("goto")
    if goto is not None or not program.entry.branches:
        task.output = Done(list(given), list(goto or ()))
        task.steered = goto is not None
    return task


def amend(standing: Standing, plan: Plan, writes: Iterable[Write], targets: Iterable[Target]) -> None:
    """Apply a command from outside to the current checkpoint: its update now, its targets in this superstep."""
    entry = Entry("Command", None, [(key, value) for key, value in writes], ())
    standing.amended.add(standing.state.apply([entry], advance=False))
    standing.amends += 1
    for target in targets:
        if not isinstance(target, str):
            plan.sends.append(target)
        elif target != END and target not in plan.names:
            plan.names.append(target)
    plan.names.sort()


def amend_record(key: str, writes: Iterable[Write], targets: Iterable[Target]) -> Pending:
    value = {"writes": [[name, written] for name, written in writes], "targets": list(targets)}
    return Pending(OUTSIDE, AMEND, key, value)


class Preparation:
    """Decides what a run starts from. One method per kind of input."""

    def __init__(self, program: Program, request: Request, opening: Opening) -> None:
        self.program = program
        self.request = request
        self.opening = opening
        self.saved = opening.saved

    def prepare(self) -> Effects:
        """Reply: `Prepared`. Raises everything a wrong input can raise."""
        prepared: Prepared = yield from self._prepare()
        if self.request.stored and not prepared.idle:
            standing = prepared.standing
            new_turn = any(checkpoint.source == "input" for checkpoint in prepared.checkpoints)
            goes_on = None if new_turn else [task.name for task in standing.tasks]
            standing.amended.add(settle(self.program, self.saved, standing.state, goes_on))
        return prepared

    def _prepare(self) -> Effects:
        given = self.request.input
        self._check_checkpoint()
        if self.request.nested and self.saved is not None:
            return self._continue_nested(self.saved)
        blocks = response_blocks(given)
        if blocks is not None:
            return (yield from self._resume(Answers(by_id=blocks), [], []))
        if isinstance(given, Command):
            return (yield from self._command(given))
        if given is None:
            return self._proceed()
        writes = writes_of_input(self.program, given)
        mark = self._mark(writes)
        if mark and (yield from self._was_broken_off(mark)):
            return self._proceed()
        return self._begin(writes, None, mark)

    def _check_checkpoint(self) -> None:
        wanted = self.request.checkpoint_id
        if wanted and self.saved is None:
            raise ValueError(
                f"thread {self.request.thread_id!r} has no checkpoint {wanted!r}; "
                f"get_state_history(config) lists the ones it has"
            )

    @property
    def _at_head(self) -> bool:
        saved = self.saved
        if saved is None or self.request.namespace:
            return True
        return saved.checkpoint.id == saved.thread.head

    # A new turn

    def _mark(self, writes: list[Write]) -> str:
        """A fingerprint of an input, by which it is known again; "" for one that cannot be stored."""
        if not self.request.stored or self.request.nested:
            return ""
        try:
            return fingerprint(self._stored(writes))
        except UnserializableStateError:
            return ""  # the commit says so, and where it is

    def _stored(self, writes: list[Write]) -> list[Write]:
        return [(key, value) for key, value in writes if self.program.channels[key].stored]

    def _was_broken_off(self, mark: str) -> Effects:
        """Whether the last run was given the same input and ended without giving the thread back.

        Its process died, or its storage failed: then the same call again goes on (SEMANTICS 10).
        """
        saved = self.saved
        if saved is None or not self.opening.abandoned or self.request.checkpoint_id:
            return False
        if not reopen(self.program, saved, self.request.namespace).tasks:
            return False
        found: Checkpoint | None = yield effects.FindInput(self.request.thread_id)
        return found is not None and found.control.get("input") == mark

    def _begin(self, writes: list[Write], goto: list[Target] | None, mark: str = "") -> Prepared:
        """Two checkpoints: the input as given, and the state with it applied."""
        saved, request = self.saved, self.request
        parent = saved.checkpoint.id if saved else None
        step = saved.checkpoint.step + 1 if saved else -1
        work: dict[str, Any] = {} if goto is None else {"goto": goto}
        state = State(self.program, saved.values if saved else {}, None)
        standing = Standing(state, [], step, None, saved.tip if saved else Tip())
        for record in saved.pending if saved else ():
            if record.kind == AMEND:  # an update that was to be stored with the next checkpoint: this one
                amend(standing, Plan(), record.value["writes"], ())
        prepared = Prepared(standing)
        control = {"next": [START], "ran": [], **({"input": mark} if mark else {})}
        given = self._stored(writes)
        prepared.checkpoints.append(
            Checkpoint("", parent, step, "input", 0.0, request.metadata, control, work, given=given)
        )
        standing.tasks = [_start(self.program, writes, work, "", request.namespace, step)]
        return prepared

    # Going on

    def _proceed(self) -> Prepared:
        saved = self.saved
        if saved is None:
            raise EmptyInputError(
                f"thread {self.request.thread_id!r} has no history to go on from; give it an input"
            )
        if not self._at_head:
            return self._fork(saved)
        standing = reopen(self.program, saved, self.request.namespace)
        return Prepared(standing, arriving=False, idle=not can_move(standing))

    def _fork(self, saved: Saved) -> Prepared:
        """A copy of the checkpoint, with what commands from outside changed beside it and nothing else."""
        old = saved.checkpoint
        standing = reopen(self.program, saved, self.request.namespace, fork=True)
        changes, standing.amended = standing.amended, Changes()
        names = [task.name for task in standing.tasks if task.arg is MISSING or task.name == START]
        sends = [Send(task.name, task.arg) for task in standing.tasks if task.path[0] == "push"]
        work = {**(old.work or {}), "sends": sends} if sends else old.work
        copy = Checkpoint(
            "",
            old.id,
            old.step + 1,
            "fork",
            0.0,
            self.request.metadata,
            {**old.control, "next": names},
            work,
            changes.changed,
            changes.cleared,
            old.given,
            changes.extended,
        )
        return Prepared(standing, [copy], arriving=False)

    def _continue_nested(self, saved: Saved) -> Prepared:
        """The task around this graph runs again: go on where the graph stopped, with the answers that came."""
        standing = reopen(self.program, saved, self.request.namespace)
        prepared = Prepared(standing, arriving=False)
        for task in standing.tasks:
            for question in task.open_questions:
                answer = self.request.answers.get(question.id)
                if answer is not None:
                    record = answer_record(task.id, question.id, answer.value, answer.fingerprint)
                    prepared.pending.append(record)
                    task.answers[question.id] = answer
        prepared.idle = not can_move(standing)
        return prepared

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
            return self._fork(saved)
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
            yield from self._check_elsewhere(question, value)
        if not self._at_head:
            if routed.fresh:
                raise unknown(next(iter(routed.fresh)), thread_id)
            if routed.dropped:
                raise nothing_pending(thread_id)
            return (yield from self._current())
        if routed.dropped and self.opening.abandoned:
            return self._proceed()  # the same call as that of a run that broke off after taking the answer
        if routed.dropped:
            warnings.warn(
                f"thread {thread_id!r} waits at a breakpoint, not for an answer: the resume value was dropped. "
                f"Go on with invoke(None, config)",
                UserWarning,
                stacklevel=2,
            )
        prepared = Prepared(standing, arriving=False)
        self._record(prepared, routed.fresh)
        if routed.fresh or routed.dropped:
            self._amend(prepared, writes, targets)
        else:  # given before, update and goto included: no effect
            prepared.idle = not self._retries(standing, bool(routed.repeated))
        return prepared

    def _current(self) -> Effects:
        """The thread as it is now: what an answer that was given before leads to."""
        request = self.request
        opening: Opening = yield effects.Open(request.thread_id, request.namespace, None)
        assert opening.saved is not None
        return Prepared(reopen(self.program, opening.saved, request.namespace), arriving=False, idle=True)

    def _check_elsewhere(self, question: str, value: Any) -> Effects:
        found = yield effects.FindAnswers(self.request.thread_id, question)
        if not found:
            raise unknown(question, self.request.thread_id)
        check_same(question, found[0].value["value"], value)

    def _record(self, prepared: Prepared, fresh: Mapping[str, Any]) -> None:
        from graphkit.engine.answers import accept

        saved = self.saved
        assert saved is not None
        for task in prepared.standing.tasks:
            for question, (asked, mark) in task.questions.items():
                if question in fresh:
                    value = accept(asked, fresh[question])
                    prepared.pending.append(answer_record(task.id, question, value, mark))
        saved.pending.extend(prepared.pending)
        restore(prepared.standing.tasks, prepared.pending)

    def _retries(self, standing: Standing, here: bool) -> bool:
        """An answer given again has no effect, but picks up a run that broke off after it."""
        return can_move(standing) and (here or self.opening.abandoned)


def can_move(standing: Standing) -> bool:
    """Whether anything would happen: a task can run, or all have finished and wait to be applied."""
    tasks = standing.tasks
    return bool(tasks) and (any(task.runnable for task in tasks) or all(task.finished for task in tasks))


def newest(opening: Opening, request: Request) -> str | None:
    """The id after which those of this run have to sort."""
    if request.namespace or opening.thread is None:
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
