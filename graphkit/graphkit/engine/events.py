"""What happens during a run, as data: one union, shaped into stream modes at the edge (`graphkit.streams`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphkit.engine.attempt import Write
from graphkit.types import Interrupt
from graphkit_checkpoint.records import Checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStarted:
    id: str
    name: str
    input: Any
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEnded:
    """A task finished, asked or failed: one of `writes`, `interrupts`, `error` is set."""

    id: str
    name: str
    step: int
    writes: tuple[Write, ...] | None = None
    interrupts: tuple[Interrupt, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChanged:
    """The output values after a superstep (or at the start of a run)."""

    values: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Halted:
    """The run stops to wait for answers."""

    interrupts: tuple[Interrupt, ...]
    values: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSaved:
    thread_id: str
    namespace: str
    checkpoint: Checkpoint
    values: Any
    next: tuple[str, ...]
    tasks: tuple[tuple[str, str], ...]
    """(id, name) of the tasks that are next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Custom:
    """What a node wrote to its stream writer."""

    value: Any


Event = TaskStarted | TaskEnded | StateChanged | Halted | CheckpointSaved | Custom
