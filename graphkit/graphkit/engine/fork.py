"""Branches: a copy of a checkpoint, from which a run goes on."""

from __future__ import annotations

from collections.abc import Sequence

from graphkit.channels import MISSING
from graphkit.constants import START
from graphkit.engine.program import Program
from graphkit.engine.request import Request
from graphkit.engine.standing import Prepared, command_in, lead_inside, reopen
from graphkit.engine.state import Changes
from graphkit.engine.travel import Stop, inside
from graphkit.types import Send
from graphkit_checkpoint.records import Checkpoint, Saved, Tip


def fork(
    program: Program, request: Request, saved: Saved, stops: Sequence[Stop] = (), namespace: str | None = None
) -> Prepared:
    """A copy of the checkpoint, with what commands from outside changed beside it and nothing else.

    `stops` lead on, to a checkpoint of a graph inside this one. A checkpoint of another `namespace` is copied
    with all its values.
    """
    old, own = saved.checkpoint, request.namespace
    standing = reopen(program, saved, own, fork=True)
    changes, standing.amended = standing.amended, Changes()
    parent: str | None = old.id
    if namespace is not None and namespace != own:
        parent, standing.tip = None, Tip()
        changes = Changes.of(saved.values).add(Changes.of(changes.changed, changes.cleared))
    names = [task.name for task in standing.tasks if task.arg is MISSING or task.name == START]
    pushed = [task for task in standing.tasks if task.path[0] == "push"]
    sends = [Send(task.name, task.arg, timeout=task.timeout) for task in pushed]
    work = {**(old.work or {}), "sends": sends} if sends else old.work
    if stops:
        work = {
            **(work or {}),
            "inside": inside(standing.tasks, stops, own if namespace is None else namespace),
        }
        lead_inside(standing.tasks, work)
    control = {**old.control, "next": names}
    if request.task:
        control["task"] = standing.state.task = request.task
    standing.state.branch = request.scope.branch if request.nested else request.nonce
    if standing.state.branch:
        control["branch"] = standing.state.branch
    copy = Checkpoint(
        "",
        parent,
        old.step + 1,
        "fork",
        0.0,
        request.metadata,
        control,
        work,
        changes.changed,
        changes.cleared,
        old.given,
        changes.extended,
    )
    return Prepared(standing, [copy], arriving=False, command=command_in(saved))
