"""What crosses to a worker and what comes back: plain data on both ways.

An `Attempt` is one try at one task; executing it (`graphkit.drivers.execute`) gives an `Outcome`. Both can
be pickled if the user's functions and values can; live connections (`Scope.live`) stay behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from graphkit.channels import BaseChannel
from graphkit.engine.identity import task_id
from graphkit.engine.program import NodeSpec, Vocabulary
from graphkit.types import Command, Durability, Interrupt, RunnableConfig, Send


@dataclass(frozen=True, slots=True)
class Answer:
    """The recorded answer to a question, with the fingerprint of what was asked."""

    value: Any
    fingerprint: str
    asked: Any


@dataclass(frozen=True, slots=True)
class Live:
    """What a run holds that cannot leave its process."""

    saver: Any = None
    store: Any = None
    context: Any = None
    emit: Callable[[Any], None] | None = None
    pool: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What all tasks of one run share."""

    config: RunnableConfig
    thread_id: str = ""
    namespace: str = ""
    token: str = ""
    durability: Durability = "sync"
    unchecked_matching: bool = False
    depth: int = 0
    live: Live = Live()

    def __reduce__(self) -> Any:
        kept = {name: getattr(self, name) for name in self.__slots__ if name != "live"}
        return _scope_from, (kept,)


def _scope_from(fields: dict[str, Any]) -> Scope:
    return Scope(**fields)


class Place(NamedTuple):
    """Which task this is: the parts its id is derived from."""

    checkpoint_id: str
    namespace: str
    step: int
    path: tuple[str | int, ...]

    @property
    def id(self) -> str:
        return task_id(self.checkpoint_id, self.namespace, self.step, self.path)


@dataclass(slots=True, eq=False)
class Attempt:
    """One try at a task: call the node with `arg`, then its branches.

    `state` is there for branches, which see the state with the node's own writes applied.
    `failure` is set when the node has failed for good and its error handler is to be called. `alone` says
    that its superstep has no other task.
    """

    node: NodeSpec
    arg: Any
    place: Place
    scope: Scope
    words: Vocabulary
    answers: Mapping[str, Answer] = field(default_factory=dict)
    number: int = 1
    state: tuple[Mapping[str, BaseChannel[Any]], Mapping[str, Any]] | None = None
    failure: BaseException | None = None
    cache_key: tuple[str, str] | None = None
    alone: bool = False

    def again(self, **changes: Any) -> Attempt:
        return replace(self, **changes)


Write = tuple[str, Any]
Target = str | Send


@dataclass(slots=True, eq=False, repr=False)
class Done:
    """The task's output: its writes in order and where it goes. `events` are what it emitted if nobody could
    listen while it ran."""

    writes: list[Write]
    targets: list[Target]
    events: list[Any] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class Asked:
    """The task waits for answers."""

    questions: list[tuple[Interrupt, str]]
    events: list[Any] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class Failed:
    """The task raised `error`. `rejected` is the id of a question whose recorded answer turned out to be
    invalid: the answer is withdrawn."""

    error: BaseException
    rejected: str | None = None
    events: list[Any] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ForParent:
    """The task commands the graph around this one."""

    command: Command[Any]
    events: list[Any] = field(default_factory=list)


Outcome = Done | Asked | Failed | ForParent
