"""Where a run stands: at a checkpoint, with the tasks of the superstep that follows it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from graphkit.constants import END, START
from graphkit.engine.attempt import Answer, Done, Past, Place, Target, Write
from graphkit.engine.attendants import Attendant, attendants_in, unfinished
from graphkit.engine.calls import results_in
from graphkit.engine.program import Program
from graphkit.engine.state import Changes, Entry, Plan, State, plan_of
from graphkit.engine.tasks import (
    BREAKPOINT,
    OUTSIDE,
    Task,
    kept_in,
    lines_of,
    make_tasks,
    restore,
    start_task,
)
from graphkit.types import Command
from graphkit_checkpoint.records import AMEND, KEPT, OUTPUT, Checkpoint, Pending, Saved, Tip

NEVER_ASKED = Past()


@dataclass(slots=True, eq=False, repr=False)
class Standing:
    """Where a run stands: at a checkpoint, with the tasks of the superstep that follows it.

    `amended` is what commands from outside, and tasks whatever became of them, changed since the checkpoint; it is
    stored with the next one. `results` are those of tasks that the tasks have called, `kept` what is
    recorded as kept, by the id of the task or call.
    """

    state: State
    tasks: list[Task]
    step: int
    checkpoint_id: str | None
    tip: Tip = field(default_factory=Tip)
    amended: Changes = field(default_factory=Changes)
    amends: int = 0
    results: dict[str, Done] = field(default_factory=dict)
    kept: dict[str, dict[str, Any]] = field(default_factory=dict)
    attending: list[Attendant] = field(default_factory=list)
    """Those of the tasks that are at an edge of the run and have asked."""


@dataclass(slots=True, eq=False, repr=False)
class Prepared:
    """What to write with the claim, and where to go on. `arriving` is False where a breakpoint was passed
    already; `idle` means that there is nothing to do and nothing to write, `paused` that it is because of a breakpoint.
    `command` is what the graph left to the one around it when it ended, with the name of the node."""

    standing: Standing
    checkpoints: list[Checkpoint] = field(default_factory=list)
    pending: list[Pending] = field(default_factory=list)
    arriving: bool = True
    idle: bool = False
    paused: bool = False
    command: tuple[Command[Any], str] | None = None


def reopen(program: Program, saved: Saved, namespace: str, fork: bool = False) -> Standing:
    """Where a run stands at a stored checkpoint. In a fork, tasks begin anew: nothing recorded of them counts."""
    checkpoint = saved.checkpoint
    control, work = checkpoint.control, checkpoint.work or {}
    state = State(program, saved.values, control)
    at = checkpoint.id
    pending = list(filter(_is_from_outside, saved.pending)) if fork else saved.pending
    standing = Standing(state, [], checkpoint.step, at, saved.tip)
    plan = names, sends = plan_of(control, work)
    kinds = set(map(attrgetter("kind"), pending))
    for record in amends_in(pending) if AMEND in kinds else ():
        amend(standing, plan, record.value["writes"], record.value["targets"])
    if checkpoint.given is not None:
        standing.tasks = [start(program, checkpoint.given, work, at, namespace, checkpoint.step)]
        standing.tasks += make_tasks(
            ([n for n in names if n != START], sends), at, namespace, checkpoint.step
        )
    else:
        standing.tasks = make_tasks(plan, at, namespace, checkpoint.step)
    if pending:
        standing.attending = attendants_in(pending, Place(at, namespace, checkpoint.step, ()))
        standing.tasks += standing.attending
        restore(standing.tasks, pending)
        if OUTPUT in kinds:
            standing.results = results_in(pending)
        if KEPT in kinds:
            standing.kept = kept_in(pending)
    for task in standing.tasks:
        asked = dict.fromkeys([question.namespace for question, _ in task.questions.values()])
        task.past = Past(tuple(asked)) if asked else NEVER_ASKED
    lead_inside(standing.tasks, work)
    return standing


def lead_inside(tasks: Sequence[Task], work: Mapping[str, Any]) -> None:
    """In a fork that begins inside a nested graph: tell the task that runs it."""
    if "inside" not in work:
        return
    path, stops = tuple(work["inside"]["path"]), work["inside"]["stops"]
    for task in tasks:
        if task.path == path:
            asked = task.past.asked if task.past is not None else ()
            task.past = Past(asked, tuple((namespace, at) for namespace, at in stops))


def start(
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
    names, sends = plan
    entry: Entry = ("Command", None, [(key, value) for key, value in writes], ())
    standing.amended.add(standing.state.apply([entry], advance=False))
    standing.amends += 1
    for target in targets:
        if not isinstance(target, str):
            sends.append(target)
        elif target != END and target not in names:
            names.append(target)
    names.sort()


def _is_from_outside(record: Pending) -> bool:
    return record.kind == AMEND and record.task_id == OUTSIDE


def amends_in(pending: Iterable[Pending]) -> list[Pending]:
    """What is applied before any output, in the order in which it was: a record's key says so."""
    return sorted([record for record in pending if record.kind == AMEND], key=attrgetter("key"))


def amend_record(
    key: str, writes: Iterable[Write], targets: Iterable[Target], task_id: str = OUTSIDE
) -> Pending:
    value = {"writes": [[name, written] for name, written in writes], "targets": list(targets)}
    return Pending(task_id, AMEND, key, value)


def rest_at_breakpoints(standing: Standing, fresh: Collection[str]) -> None:
    """These questions were answered. Who waits at a breakpoint inside does not go on by that, unless it is answered."""
    fresh = frozenset(fresh)
    for task in standing.tasks:
        answered = [question for question in task.answers if question in fresh]
        if answered:
            fresh_ones = {question: _fresh(task.answers[question]) for question in answered}
            task.answers = {**task.answers, **fresh_ones}
        at_breakpoint = BREAKPOINT in standing.kept.get(task.id, ()) and task.error is None
        task.rests = at_breakpoint and not answered


def _fresh(answer: Answer) -> Answer:
    return Answer(answer.value, answer.fingerprint, answer.asked, answer.taken, True)


def can_move(standing: Standing) -> bool:
    """Whether anything would happen: a task can run, or all have finished and wait to be applied. Nothing runs before
    an opening has finished that waits for an answer."""
    tasks = standing.tasks
    opening = unfinished(standing.attending, "opening")
    if opening is not None:
        return opening.runnable
    lines = lines_of(tasks, standing.state.program.in_order)
    held = [task for line in lines.values() for task in line[1:]]
    runs = any(task.runnable and task not in held for task in tasks)
    return bool(tasks) and (runs or all(task.finished for task in tasks))


def command_in(saved: Saved) -> tuple[Command[Any], str] | None:
    work = saved.checkpoint.work or {}
    return (work["command"], work["node"]) if "command" in work else None
