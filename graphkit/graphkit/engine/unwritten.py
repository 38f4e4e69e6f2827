"""What a run with durability "exit" has still to write: the checkpoints of its outermost graph.

Graphs inside it write at the end of their own runs. A checkpoint of such a graph is of no use without those around
it, from which its place in the thread is known, and at which one goes on who goes back to it. So those are written
too; only what lies between them is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from graphkit.engine.state import Changes
from graphkit_checkpoint.records import Checkpoint


@dataclass(slots=True, eq=False, repr=False)
class Unwritten:
    """`checkpoints` of the outermost graph, in order; `needed` are the ids of those, of all graphs, around which a
    graph inside has stored something. `run` labels what graphs have stored in this run."""

    run: str
    checkpoints: list[Checkpoint] = field(default_factory=list)
    needed: set[str] = field(default_factory=set)

    def behind(self) -> tuple[str | None, frozenset[str]]:
        """What the outermost graph has behind it: the stored checkpoint that the run began at, and the ids of this
        run's; with that of the stored one, unless the run is a fork of it."""
        first = self.checkpoints[0] if self.checkpoints else None
        start = None if first is None else first.parent_id
        ids = {checkpoint.id for checkpoint in self.checkpoints}
        if first is not None and start is not None and first.source != "fork":
            ids.add(start)
        return start, frozenset(ids)


def squashed(checkpoints: Sequence[Checkpoint], needed: Collection[str]) -> list[Checkpoint]:
    """The last of the checkpoints and those that are `needed`, each with the changes of those that are left out."""
    kept: list[Checkpoint] = []
    parent = checkpoints[0].parent_id if checkpoints else None
    changes = Changes()
    for checkpoint in checkpoints:
        changes.add(Changes.of(checkpoint.changed, checkpoint.cleared, checkpoint.extended))
        if checkpoint is checkpoints[-1] or checkpoint.id in needed:
            kept.append(
                replace(
                    checkpoint,
                    parent_id=parent,
                    changed=changes.changed,
                    cleared=changes.cleared,
                    extended=changes.extended,
                )
            )
            parent, changes = checkpoint.id, Changes()
    return kept
