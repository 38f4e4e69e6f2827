"""What a run says of itself to those who listen: states, checkpoints, and that it has halted."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, Protocol

from graphkit.engine import identity
from graphkit.engine.events import CheckpointSaved, Event, Halted, StateChanged, TaskState
from graphkit.engine.program import Program
from graphkit.engine.request import Request
from graphkit.engine.standing import Standing
from graphkit.engine.state import State
from graphkit.engine.tasks import Task, start_task
from graphkit_checkpoint.records import Checkpoint, Opening


class Teller(Protocol):
    """The run as far as it tells of itself."""

    program: Program
    request: Request
    standing: Standing
    opening: Opening
    paused: bool
    written: Set[str] | None


def superstep_ended(run: Teller, checkpoints: Sequence[Checkpoint]) -> list[Event]:
    """What there is to tell where a run stands, with the checkpoints that it has just got, if it stores them."""
    listen = run.request.listen
    told: list[Any] = []
    if "checkpoints" in listen and run.request.stored:
        told += [_checkpoint_saved(run, checkpoint) for checkpoint in checkpoints]
    if "values" in listen and not _has_nothing_to_show(run):
        told.append(state_changed(run, told[-1] if told else None, run.written))
    if run.paused and "updates" in listen and not run.request.nested:  # the run around it says so too
        told.append(Halted(namespace=run.request.namespace, interrupts=(), values=None))
    return told


def state_changed(
    run: Teller, saved: CheckpointSaved | None = None, written: Set[str] | None = None
) -> StateChanged:
    """All values where the run stands: a copy of those of the checkpoint that it has just got, if it is told of one."""
    if saved is None or saved.checkpoint.id != run.standing.checkpoint_id or run.program.gives is not None:
        values = run.standing.state.everything()
    else:
        values = saved.values.copy()
    return StateChanged(namespace=run.request.namespace, values=values, written=written)


def _has_nothing_to_show(run: Teller) -> bool:
    """The input is stored and not applied yet, since a branch has to choose what runs first; or the one task of an
    entrypoint, which has no values beside what it returns, is still to run."""
    tasks, program = run.standing.tasks, run.program
    return bool(tasks) and (tasks[0].name == program.entry.name or program.specs[tasks[0].name].coordinates)


def _checkpoint_saved(run: Teller, checkpoint: Checkpoint) -> CheckpointSaved:
    state, tasks, request = run.standing.state, run.standing.tasks, run.request
    if checkpoint.id != run.standing.checkpoint_id:
        # The input's own checkpoint: the state as it was before, with what was changed beside it.
        before = run.opening.saved.values if run.opening.saved else {}
        kept = {key: value for key, value in before.items() if key not in checkpoint.cleared}
        state = State(run.program, {**kept, **checkpoint.changed}, None)
        tasks = [start_task(None, checkpoint.id, request.namespace, checkpoint.step)]
    return CheckpointSaved(
        thread_id=request.thread_id,
        namespace=request.namespace,
        checkpoint=checkpoint,
        values=state.everything(),
        tasks=tuple([_task_state(run, task) for task in tasks]),
    )


def _task_state(run: Teller, task: Task) -> TaskState:
    spec, inside = run.program.specs[task.name], ""
    if spec.subgraph is None and task.output is None and task.error is None and not task.questions:
        return TaskState(id=task.id, name=task.name)
    if spec.subgraph is not None and spec.keeps is not False and run.request.stored:
        inside = identity.below(run.request.namespace, task.name, task.id)
        inside = identity.lasting(inside) if spec.keeps else inside
    return TaskState(
        id=task.id,
        name=task.name,
        interrupts=tuple(task.all_questions),
        writes=None if task.output is None else tuple(task.output.writes)[: 1 if spec.result else None],
        error=None if task.finished else task.error,
        inside=inside,
    )
