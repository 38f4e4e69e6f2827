"""How a run writes: commit by commit or, with durability "exit", once at its end.

Invariant 3 (ownership): every commit is made while the thread is owned; the last one of a run gives it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from graphkit.engine import effects
from graphkit.engine.crew import Crew
from graphkit.engine.effects import Effects
from graphkit.engine.program import Program
from graphkit.engine.refusals import explained
from graphkit.engine.request import Request
from graphkit.engine.standing import Standing
from graphkit.engine.unwritten import squashed
from graphkit.errors import GraphkitError
from graphkit_checkpoint.errors import UnstorableError
from graphkit_checkpoint.records import Checkpoint, Opening, Pending

Keys = Sequence[tuple[str, str, str]]
NOTHING: frozenset[str] = frozenset()


class Writer(Protocol):
    """The run as its saving knows it."""

    program: Program
    request: Request
    standing: Standing
    opening: Opening
    crew: Crew | None


class Saving:
    """The commits of one run. `active` while it holds the thread and has not given it back; `durable` if it writes
    what it has to record at once; `unsaved` are checkpoints that it has still to write."""

    def __init__(self, run: Writer) -> None:
        request = run.request
        self.run = run
        self.active = False
        self.durable = request.stored and request.scope.durability != "exit"
        self.unwritten = request.scope.live.unwritten
        shared = self.unwritten if not request.nested else None
        self.unsaved: list[Checkpoint] = [] if shared is None else shared.checkpoints
        # Records of the checkpoint that the run went on from, to be forgotten when it ends.
        self.stale: tuple[str, Keys] | None = None

    def commit(
        self,
        checkpoints: Sequence[Checkpoint],
        pending: Sequence[Pending],
        at: str,
        *,
        forget: Keys = (),
        claims: bool = False,
        release: bool = False,
    ) -> Effects:
        """Write checkpoints, and beside the checkpoint `at` what is pending, without what is to be forgotten there."""
        write = self._write if self.durable else self._later
        return write(checkpoints, pending, at, forget, claims, release)

    def _later(
        self,
        checkpoints: Sequence[Checkpoint],
        pending: Sequence[Pending],
        at: str,
        forget: Keys,
        claims: bool,
        release: bool,
    ) -> Effects:
        """Only the claim is written at once, and the rest with the release."""
        if not self.run.request.stored:
            return
        self.unsaved.extend(checkpoints)
        if not release:
            found = self.run.opening.saved
            if forget and found is not None and at == found.checkpoint.id:
                self.stale = at, forget  # nothing else is recorded yet
            if claims:
                yield from self._write((), pending, at, forget, claims, release)
            return
        checkpoints = squashed(self.unsaved, NOTHING if self.unwritten is None else self.unwritten.needed)
        if checkpoints and self.stale is not None:
            before, stale = self.stale
            if pending or forget:  # a commit records beside one checkpoint
                yield from self._write(checkpoints, (), before, stale, False, False)
                self._saved()
                checkpoints = ()
            else:
                at, forget = before, stale
        yield from self._write(checkpoints, pending, at, forget, claims, release)
        self._saved()

    def _saved(self) -> None:
        self.unsaved.clear()
        self.stale = None

    def _write(
        self,
        checkpoints: Sequence[Checkpoint],
        pending: Sequence[Pending],
        at: str,
        forget: Keys,
        claims: bool,
        release: bool,
    ) -> Effects:
        run, request, scope = self.run, self.run.request, self.run.request.scope
        owns = not request.nested
        self.active = True
        if not (owns or checkpoints or pending or forget):
            return
        commit = effects.Save(
            scope.thread_id,
            scope.namespace,
            scope.token,
            run.standing.tip,
            claims and owns,
            run.opening.thread,
            release and owns,
            checkpoints,
            at,
            pending,
            forget,
            release or claims or scope.durability != "async",
        )
        try:
            yield commit
        except GraphkitError as error:
            self.active = not claims
            if isinstance(error, UnstorableError):
                raise explained(error, run.program, run.crew, scope.thread_id) from error
            raise
        self.active = not release
        if checkpoints and request.nested and self.unwritten is not None:
            self.unwritten.needed.update(scope.parents.values())

    def keep_what_can_be_stored(self) -> Effects:
        """With durability "exit": write as far as the first value that was refused."""
        while self.active:
            try:
                yield from self.commit((), (), "", release=True)
            except UnstorableError:
                self.unsaved.pop()
