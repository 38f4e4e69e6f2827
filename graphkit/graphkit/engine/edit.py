"""Editing a thread from outside: `update_state` and `bulk_update_state`, as one commit.

An update is applied as if its node had run: its writes, its edges and its branches. It makes a checkpoint
of its own, so what was planned before is replaced by what follows that node.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from graphkit.constants import COPY, END, INPUT, START
from graphkit.engine import effects, identity
from graphkit.engine.attempt import Attempt, Done, Failed, Place, Write
from graphkit.engine.effects import Effects
from graphkit.engine.prepare import newest
from graphkit.engine.program import Callee, NodeSpec, Program
from graphkit.engine.request import Position, Request
from graphkit.engine.standing import Standing, reopen
from graphkit.engine.state import Changes, Entry, State, names_of, plan_of, work_of
from graphkit.engine.tasks import entries_of, make_tasks
from graphkit.engine.travel import Way, relayed, way_to
from graphkit.engine.updates import writes_of_input
from graphkit.errors import InvalidUpdateError
from graphkit.types import StateUpdate
from graphkit_checkpoint.errors import UnstorableError
from graphkit_checkpoint.records import Checkpoint, Opening, Tip


def edit(
    program: Program, request: Request, supersteps: Sequence[Sequence[StateUpdate]]
) -> Generator[effects.Effect, Any, Checkpoint]:
    """Apply supersteps of updates; returns the checkpoint they lead to.

    Raises `InvalidUpdateError` for an unknown node, a node that has to be named and was not, and values
    that cannot be applied; nothing is written then.
    """
    opening: Opening = yield effects.Open(request.thread_id, request.namespace, request.checkpoint_id, True)
    editor = Editor(program, request, opening)
    now: float = yield effects.NOW
    for updates in supersteps:
        yield from editor.superstep(list(updates), now)
    above: list[effects.Save] = []
    if request.namespace:
        above = yield from _closed_above(request, opening)
        for commit in above:
            yield commit
    commit = effects.Save(
        request.thread_id,
        request.namespace,
        request.scope.token,
        editor.standing.tip,
        not above,
        opening.thread,
        True,
        editor.checkpoints,
    )
    try:
        yield commit
    except UnstorableError as error:
        nodes = [repr(update.as_node) for updates in supersteps for update in updates if update.as_node]
        named = f" as {', '.join(nodes)}" if nodes else ""
        channel = f"channel {error.channel!r}"
        raise error.of(f"update_state of thread {request.thread_id!r}{named}, {channel}") from error
    return editor.checkpoints[-1]


def _closed_above(request: Request, opening: Opening) -> Generator[effects.Effect, Any, list[effects.Save]]:
    """What a nested graph has asked is asked no more: forget it in the graphs around, the outermost first, so that
    wherever this breaks off, the task around is ready to run and asks again."""
    assert opening.saved is not None
    way: Way = yield from way_to(Position(request.thread_id, request.namespace, opening.saved.checkpoint.id))
    commits: list[effects.Save] = []
    for (namespace, at), outer in zip(way.stops, way.standing, strict=False):
        forget = relayed(outer, request.namespace)
        if forget:
            commits.append(
                effects.Save(
                    request.thread_id,
                    namespace,
                    request.scope.token,
                    outer.tip,
                    claims=not commits,
                    acquire=opening.thread,
                    at=at,
                    forget=forget,
                )
            )
    return commits


class Editor:
    """The thread while it is edited."""

    def __init__(self, program: Program, request: Request, opening: Opening) -> None:
        self.program = program
        self.request = request
        self.checkpoints: list[Checkpoint] = []
        self.newest = newest(opening, request)
        saved = opening.saved
        if request.checkpoint_id and saved is None:
            raise ValueError(f"thread {request.thread_id!r} has no checkpoint {request.checkpoint_id!r}")
        self.metadata = dict(request.metadata)
        if request.namespace:
            if saved is None:
                raise ValueError(
                    f"thread {request.thread_id!r} has nothing in namespace {request.namespace!r} that could be updated"
                )
            self.metadata["parents"] = saved.checkpoint.metadata.get("parents", {})
        if saved is None:
            self.standing = Standing(State(program, {}, None), [], -2, None, Tip())
            self.control: dict[str, Any] = {"next": [], "ran": []}
            self.work: Any = None
            self.given: Any = None
        else:
            self.standing = reopen(program, saved, request.namespace)
            self.control, self.work = dict(saved.checkpoint.control), saved.checkpoint.work
            self.given = saved.checkpoint.given
            if not request.namespace and saved.checkpoint.id != saved.thread.head:
                self.standing.state.branch = request.nonce

    def superstep(self, updates: list[StateUpdate], now: float) -> Effects:
        if not updates:
            raise ValueError("a superstep of updates is empty; give at least one StateUpdate")
        special = [update for update in updates if update.as_node in (END, COPY, INPUT)]
        if special and len(updates) > 1:
            raise InvalidUpdateError(f"an update as {special[0].as_node!r} must be alone in its superstep")
        if special:
            self._special(special[0], now)
        elif len(updates) == 1 and updates[0].values is None and updates[0].as_node is None:
            self._append("update", Changes(), self.control, self.work, now, self.given)
        else:
            yield from self._as_nodes(updates, now)

    def _special(self, update: StateUpdate, now: float) -> None:
        if update.as_node == INPUT:
            writes = writes_of_input(self.program, update.values)
            self._append("input", Changes(), {"next": [START], "ran": []}, None, now, writes)
        elif update.values is not None:
            raise InvalidUpdateError(f"an update as {update.as_node!r} takes no values; give None")
        elif self.standing.checkpoint_id is None:
            raise InvalidUpdateError(f"thread {self.request.thread_id!r} has no checkpoint to copy or to end")
        elif update.as_node == COPY:
            self._append("fork", Changes(), self.control, self.work, now, self.given)
        else:
            finished = [task for task in self.standing.tasks if task.name != START]
            changes = self.standing.state.apply(entries_of(finished, self.program))
            control = {key: value for key, value in self.control.items() if key in ("ran", "task")}
            self._append("update", changes, {"ran": [], **control, "next": []}, None, now)

    def _as_nodes(self, updates: list[StateUpdate], now: float) -> Effects:
        if len(updates) > 1 and any(update.as_node is None for update in updates):
            raise InvalidUpdateError("each of several updates of a superstep needs its as_node=")
        entries: list[Entry] = []
        for index, update in enumerate(updates):
            name = update.as_node if update.as_node is not None else self._author()
            spec = self._spec(name)
            done: Done = yield from self._output(spec, update, index)
            entries.append((name, spec, done.writes, done.targets))
        names = names_of(entries)
        if any(task.name in names for task in self.standing.tasks):
            # The update stands for a task of this superstep; what its siblings finished is kept.
            siblings = [task for task in self.standing.tasks if task.name not in names]
            entries = entries_of(siblings, self.program) + entries
        state = self.standing.state
        changes = state.apply(entries)
        plan = state.follow(entries)
        self._append("update", changes, state.control(plan, sorted(names)), work_of(plan), now)

    def _spec(self, name: str) -> NodeSpec:
        if name != START and name not in self.program.nodes:
            raise InvalidUpdateError(
                f"as_node {name!r} is no node of the graph; it has {', '.join(self.program.nodes)}"
            )
        return self.program.specs[name]

    def _author(self) -> str:
        """The node that an update without `as_node` stands for: the one that ran last, on a fresh thread the start; of
        an entrypoint its only node."""
        nodes = list(self.program.nodes.values())
        if len(nodes) == 1 and nodes[0].result is not None:
            return nodes[0].name
        ran: list[str] = self.control.get("ran", [])
        if len(ran) > 1:
            raise InvalidUpdateError(
                f"ambiguous update: {', '.join(map(repr, ran))} ran last; say for which with as_node="
            )
        return ran[0] if ran else START

    def _output(self, spec: NodeSpec, update: StateUpdate, index: int) -> Effects:
        """What the node would have put out: the values go through its edge functions."""
        values = {} if update.values is None and spec.result is None else update.values
        path = ("update", index)
        place = Place(self.standing.checkpoint_id or "", self.request.namespace, self.standing.step, path)
        given = Callee(spec.name, _given, None)
        stand_in = NodeSpec(
            name=spec.name,
            callee=given,
            shape=spec.shape,
            branches=spec.branches,
            result=spec.result,
            shown=False,
        )
        state = self.standing.state
        attempt = Attempt(stand_in, values, place, self.request.scope, self.program.words)
        if spec.branches:
            attempt.state = (state.channels, state.view, self.request.recursion_limit)
        arrived = yield effects.Start((attempt,))
        _, outcome = arrived or (yield effects.ANY)
        if isinstance(outcome, Failed):
            raise outcome.error
        if not isinstance(outcome, Done):
            raise RuntimeError(f"an edge function of node {spec.name!r} asked a question during update_state")
        return outcome

    def _append(
        self,
        source: str,
        changes: Changes,
        control: dict[str, Any],
        work: Any,
        now: float,
        given: Sequence[Write] | None = None,
    ) -> None:
        standing = self.standing
        if source == "fork" and not self.request.namespace:
            standing.state.branch = self.request.nonce
        if standing.state.branch:
            control = {**control, "branch": standing.state.branch}
        changes, standing.amended = standing.amended.add(changes), Changes()
        first = -1 if source == "input" else 0
        step, parent = max(first, standing.step + 1), standing.checkpoint_id
        new_id = self.newest = identity.checkpoint_id(now, step, self.request.nonce, self.newest)
        self.checkpoints.append(
            Checkpoint(
                new_id,
                parent,
                step,
                source,
                now,
                self.metadata,
                control,
                work,
                changes.changed,
                changes.cleared,
                given,
                changes.extended,
            )
        )
        standing.step, standing.checkpoint_id = step, new_id
        self.control, self.work, self.given = control, work, given
        standing.tasks = make_tasks(plan_of(control, work), new_id, self.request.namespace, step)


def _given(values: Any) -> Any:
    return values
