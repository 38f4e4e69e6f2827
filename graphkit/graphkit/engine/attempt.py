"""What crosses to a worker and what comes back: plain data on both ways.

An `Attempt` is one try at one task; executing it (`graphkit.drivers.execute`) gives an `Outcome`. Both can
be pickled if the user's functions and values can; live connections (`Scope.live`) stay behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from graphkit.channels import BaseChannel
from graphkit.control import RunControl
from graphkit.engine.about import About
from graphkit.engine.identity import task_id
from graphkit.engine.program import NodeSpec, Vocabulary
from graphkit.types import Command, Durability, Interrupt, RunnableConfig, Send

if TYPE_CHECKING:
    from graphkit.engine.unwritten import Unwritten

_NOTHING: Mapping[str, Any] = {}


class Answer(NamedTuple):
    """The recorded answer to a question, with the fingerprint of what was asked. `taken` when the task has asked
    again since: a graph inside it that waits for several answers has gone on with this one. `fresh` if it was given to
    this very run."""

    value: Any
    fingerprint: str
    asked: Any
    taken: bool = False
    fresh: bool = False


@dataclass(slots=True, eq=False, repr=False)
class Live:
    """What a run holds that cannot leave its process.

    `post` tells the kernel of this run something of an attempt; `emit` hands an event of one to whoever listens.
    `beat` and `heartbeat` are there in a run inside of an attempt whose idle timeout wants to know that it gets on:
    by itself, or because a node says so. `busy` are the namespaces of graphs that run inside and can do so once at
    a time. `unwritten` is there in a run that writes only at its end.
    """

    busy: dict[str, Any]
    saver: Any = None
    cache: Any = None
    store: Any = None
    context: Any = None
    emit: Emitter | None = None
    pool: Any = None
    post: Callable[[Attempt, Any], None] | None = None
    beat: Callable[[], None] | None = None
    heartbeat: Callable[[], None] | None = None
    control: RunControl | None = None
    unwritten: Unwritten | None = None


NOTHING: Final = Live({})
"""What there is where no run is around, and in other processes."""


@dataclass(slots=True, eq=False, repr=False)
class Scope:
    """What all tasks of one run share. `parents` are the checkpoints of the graphs around it, by namespace."""

    config: RunnableConfig
    thread_id: str = ""
    namespace: str = ""
    token: str = ""
    durability: Durability = "sync"
    unchecked_matching: bool = False
    depth: int = 0
    listen: frozenset[str] = frozenset()
    """The kinds of events that anybody wants of this run."""
    below: frozenset[str] = frozenset()
    """The kinds that anybody wants of runs nested in this one."""
    parents: Mapping[str, str] = field(default_factory=dict)
    branch: str = ""
    """Of the thread, where the outermost graph stands."""
    heard: bool = False
    """Whether models of LangChain that nodes call are to know of this run."""
    live: Live = NOTHING

    def __reduce__(self) -> Any:
        # All but what is live, and who listens here.
        config = {key: value for key, value in self.config.items() if key != "callbacks"}
        return Scope, (config, *[getattr(self, each.name) for each in fields(self)[1:-1]])


Write = tuple[str, Any]
Target = str | Send


@dataclass(slots=True, eq=False, repr=False)
class Keeping:
    """What attempts at a task leave behind: what they `kept` for the next one, which counts if the task asks or
    fails, and `amends`, writes that stand whatever it comes to."""

    kept: dict[str, Any] = field(default_factory=dict)
    amends: list[Write] = field(default_factory=list)


class Past(NamedTuple):
    """What there is of a task that has been tried before: the namespaces that its questions come from, and, in a
    fork that begins inside a nested graph, the (namespace, checkpoint id) of each graph on the way down."""

    asked: tuple[str, ...] = ()
    inside: tuple[tuple[str, str], ...] = ()


class Place:
    """Which task this is: the parts its id is derived from, once, for the task and all attempts at it."""

    __slots__ = ("_id", "checkpoint_id", "namespace", "path", "step")

    def __init__(self, checkpoint_id: str, namespace: str, step: int, path: tuple[str | int, ...]) -> None:
        self.checkpoint_id = checkpoint_id
        self.namespace = namespace
        self.step = step
        self.path = path
        self._id = ""

    @property
    def id(self) -> str:
        if not self._id:
            self._id = task_id(self.checkpoint_id, self.namespace, self.step, self.path)
        return self._id

    def along(self, path: tuple[str | int, ...]) -> Place:
        """That of another task at the same checkpoint."""
        return Place(self.checkpoint_id, self.namespace, self.step, path)


Emitter = Callable[["Attempt", Any], None]


class Stoppable(Protocol):
    def stop(self) -> bool: ...


class Attempt:
    """One try at a task: call the node with `arg`, then its branches.

    Made for every task that runs, so what most of them have not is a default of the class, but for what is looked at
    of every one.

    `state` is there for branches, which see the state with the node's own writes applied: its channels, what the node
    has seen of them, and how many supersteps are left.
    `failure` is set when the node has failed for good and its error handler is to be called. `alone` says
    that its superstep has no other task. `watched` says that its caller has an
    idle timeout; `beating` is the sign of progress that is on its way to the kernel.
    `past` is None for a task that nothing can be recorded of. `about` is there if anybody listens to its task.
    `keeping` is what earlier attempts left behind, `branch` that of the thread, `joins` those that it was started by.

    `begun` is there if another one waits until it is called.
    `frame` is there while the attempt runs in this process; `stopped` says that it has been given up. `context` is
    the caller's, for a task that was called. `local` attempts run in this process and never keep the driver
    waiting: those that wait for others, which must not take their places.
    """

    number: int = 1
    state: tuple[Mapping[str, BaseChannel[Any]], Mapping[str, Any], int] | None = None
    alone: bool = False
    watched: bool = False
    beating: object = None
    first_seen: float | None = None
    past: Past | None = None
    context: Context | None = None
    local: bool = False
    keeping: Keeping | None = None
    branch: str = ""
    joins: tuple[str, ...] = ()
    begun: Callable[[], None] | None = None
    frame: Stoppable | None = None
    stopped: bool = False

    def __init__(
        self,
        node: NodeSpec,
        arg: Any,
        place: Place,
        scope: Scope,
        words: Vocabulary,
        answers: Mapping[str, Answer] = _NOTHING,
    ) -> None:
        self.node = node
        self.arg = arg
        self.place = place
        self.scope = scope
        self.words = words
        self.answers = answers
        self.failure: BaseException | None = None
        self.cache_key: tuple[tuple[str, ...], str] | None = None
        self.about: About | None = None

    def again(self, **changes: Any) -> Attempt:
        """Another try at the same task."""
        other = Attempt(self.node, self.arg, self.place, self.scope, self.words, self.answers)
        other.__dict__.update({**self.__dict__, "begun": None, "frame": None, "stopped": False, **changes})
        return other

    def stop(self) -> bool:
        """Give the attempt up: whatever it comes to is refused, and what runs inside it is woken to end. Returns
        whether anything does."""
        self.stopped = True  # first: whoever enters the frame looks at it afterwards
        frame = self.frame
        return frame is not None and frame.stop()


@dataclass(slots=True, eq=False, repr=False)
class Done:
    """The task's output: its writes in order and where it goes. `events` are those it emitted if nobody could
    listen while it ran. `chosen` is how many of the targets, the last ones, its branches chose; None if they were
    not asked. `resume` is the command by which it answers questions, which only the closing of a run may. It is
    `steered` if an error handler said where to go, be it to the end, so that the node's own edges do not count.
    `parent` is what it commands the graph around: then it is no outcome yet, but what becomes a `ForParent`."""

    writes: list[Write]
    targets: Sequence[Target] = ()
    events: Sequence[Any] = ()
    chosen: int | None = None
    keeping: Keeping | None = None
    resume: Command[Any] | None = None
    steered: bool = False
    parent: Command[Any] | None = None


@dataclass(slots=True, eq=False, repr=False)
class Asked:
    """The task waits for answers, or for a graph inside it to be gone on with: it `breaks` if one of those is at a
    breakpoint. `left` are the namespaces of graphs that an earlier attempt has called and this one has not."""

    questions: list[tuple[Interrupt, str]]
    events: list[Any] = field(default_factory=list)
    breaks: bool = False
    keeping: Keeping | None = None
    left: tuple[str, ...] = ()


@dataclass(slots=True, eq=False, repr=False)
class Failed:
    """The task raised `error`. `rejected` is the id of a question whose recorded answer turned out to be
    invalid: the answer is withdrawn."""

    error: BaseException
    rejected: str | None = None
    events: list[Any] = field(default_factory=list)
    keeping: Keeping | None = None


@dataclass(slots=True, eq=False, repr=False)
class ForParent:
    """The task commands the graph around this one. `writes` are what it wrote to its own."""

    command: Command[Any]
    writes: list[Write] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)
    keeping: Keeping | None = None


Outcome = Done | Asked | Failed | ForParent


class Reply(Protocol):
    """Whoever waits for what a call of a task comes to."""

    def settle(self, outcome: Outcome) -> None: ...


@dataclass(slots=True, eq=False, repr=False)
class Called:
    """A running attempt calls a task. Comes the way of outcomes. `mark` is the fingerprint of `arg`, "" for
    something that cannot be stored; `ordered` if the caller makes one call after the other; `context` the caller's."""

    node: NodeSpec
    arg: tuple[tuple[Any, ...], dict[str, Any]]
    mark: str
    ordered: bool
    reply: Reply
    context: Context


@dataclass(slots=True, eq=False, repr=False)
class Withdrawn:
    """Whoever called a task does not want to wait for it any more. Comes the way of outcomes."""

    reply: Reply
