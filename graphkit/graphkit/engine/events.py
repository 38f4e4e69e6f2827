"""What happens during a run, as data: one union, shaped into stream modes at the edge (`graphkit.streams`).

Every event has a `namespace`: "" in the run that was called, the path of tasks down to a nested one. Events are
not changed, but not frozen either: making a frozen instance takes several times as long, and there are many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Final, get_args

from graphkit.engine.about import About
from graphkit.engine.attempt import Called, Withdrawn, Write
from graphkit.types import Interrupt
from graphkit_checkpoint.records import Checkpoint


class _OfTask:
    """An event about one task."""

    __slots__ = ()
    about: About

    @property
    def namespace(self) -> str:
        return self.about.namespace


@dataclass(slots=True, kw_only=True, eq=False)
class TaskStarted(_OfTask):
    """An attempt at a task begins; `attempt` counts from 1. It is begun `again` if this run has tried it before."""

    about: About
    input: Any
    attempt: int = 1
    again: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class TaskEnded(_OfTask):
    """A task finished, asked or failed: one of `writes`, `interrupts`, `error` is set. `cached` says that
    the output was found in the cache and nothing ran, `whole` that what it returned is no update: the first write
    holds it."""

    about: About
    writes: tuple[Write, ...] | None = None
    interrupts: tuple[Interrupt, ...] = ()
    error: str | None = None
    cached: bool = False
    whole: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class StateChanged:
    """All values after a superstep that wrote to the channels `written`; where a run goes on it is None."""

    namespace: str
    values: Any
    written: Set[str] | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class Halted:
    """The run stops to wait for answers, or at a breakpoint (no questions)."""

    namespace: str
    interrupts: tuple[Interrupt, ...]
    values: Any


@dataclass(slots=True, kw_only=True, eq=False)
class TaskState:
    """A task that follows a checkpoint, with what is recorded of it: its questions, what it wrote, its error.
    `inside` is the namespace of the graph that it runs, "" if it is none or nothing of it is kept."""

    id: str
    name: str
    interrupts: tuple[Interrupt, ...] = ()
    writes: tuple[Write, ...] | None = None
    error: str | None = None
    inside: str = ""


@dataclass(slots=True, kw_only=True, eq=False)
class CheckpointSaved:
    thread_id: str
    namespace: str
    checkpoint: Checkpoint
    values: Any
    tasks: tuple[TaskState, ...]


@dataclass(slots=True, kw_only=True, eq=False)
class Custom:
    """What a node wrote to its stream writer."""

    namespace: str
    value: Any


@dataclass(slots=True, kw_only=True, eq=False)
class MessageChunk(_OfTask):
    """A message, or a part of one, that a node wrote to its message writer; `metadata` is the writer's own."""

    about: About
    chunk: Any
    metadata: Mapping[str, Any] = field(default_factory=dict)


Event = TaskStarted | TaskEnded | StateChanged | Halted | CheckpointSaved | Custom | MessageChunk
EVENTS = frozenset(get_args(Event))
Batch = Sequence[Event]
"""Events that come together, in their order."""


class Beat:
    """A sign that an attempt gets on, for idle timeouts. Shown to nobody."""

    __slots__ = ()


BEAT: Final = Beat()
HEARTBEAT: Final = Beat()
"""The node itself says so."""

News = Event | Beat | Called | Withdrawn
"""What comes from an attempt while it runs, on the way of outcomes: what its node shows and calls, and what happens
in the runs nested in it."""
