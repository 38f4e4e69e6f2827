"""What the kernel asks a driver to do.

*Tell* effects get no reply: `Settle`, `Emit`, `PROGRESS`. *Ask* effects do: `Open`, `FindInput`, `FindAnswers`,
`FindNamespaces`, `FindOnWay`, `Save`, `Start`, `Next`, `Cancel`, `NOW`, `TIMER`, `DRAINING`, `CacheGet`, `CachePut`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from graphkit_checkpoint.records import Commit

if TYPE_CHECKING:
    from graphkit.engine.attempt import Attempt, Outcome, Reply


@dataclass(slots=True, eq=False, repr=False)
class Open:
    """Load a thread's checkpoint for writing. Reply: `Opening`. With `claims` the thread must be free."""

    thread_id: str
    namespace: str
    checkpoint_id: str | None
    claims: bool = True


@dataclass(slots=True, eq=False, repr=False)
class FindInput:
    """The checkpoint of the input that the head came from. Reply: `Checkpoint`, or None."""

    thread_id: str


@dataclass(slots=True, eq=False, repr=False)
class FindAnswers:
    """The recorded answers to a question anywhere in a thread's history. Reply: `list[Pending]`."""

    thread_id: str
    question_id: str


@dataclass(slots=True, eq=False, repr=False)
class FindOnWay:
    """The newest checkpoint of a nested graph that the thread has behind it at checkpoint `at` of the root. Reply: its
    id, or None. Of a run that writes only at its end, `behind` are the checkpoints that it has behind it beside those
    before `at`, where it began."""

    thread_id: str
    namespace: str
    at: str | None
    behind: frozenset[str] | None = None


@dataclass(slots=True, eq=False, repr=False)
class FindNamespaces:
    """The namespaces of a thread that begin with `under`, in order. Reply: `list[str]`."""

    thread_id: str
    under: str


@dataclass(slots=True, eq=False, repr=False)
class Save(Commit):
    """Commit this. With `wait` the reply (None) comes when it is durable; without, when the commit before it is."""

    wait: bool = True


@dataclass(slots=True, eq=False, repr=False)
class Start:
    """Start attempts; their outcomes come by `Next`. Reply: None, or what arrived first if the driver has run the
    only one itself."""

    attempts: Sequence[Attempt]


@dataclass(slots=True, eq=False, repr=False)
class Next:
    """Wait for an outcome. Reply: (attempt, outcome), or None once the timer has passed `until`."""

    until: float | None = None


ANY: Final = Next()
"""Wait for an outcome however long it takes."""


@dataclass(slots=True, eq=False, repr=False)
class Cancel:
    """Cancel attempts as far as they can be. Reply: those that were stopped, whose outcomes never come.
    A blocking node that runs already goes on, and its outcome comes unless nobody waits for it any more.
    `patience` is how many seconds to wait for coroutines to end."""

    attempts: Sequence[Attempt]
    patience: float = 5.0


@dataclass(slots=True, eq=False, repr=False)
class Settle:
    """Tell whoever called a task what came of it."""

    reply: Reply
    outcome: Outcome


@dataclass(slots=True, eq=False, repr=False)
class Emit:
    """Hand events to whoever listens."""

    events: Sequence[Any]


@dataclass(slots=True, eq=False, repr=False)
class CacheGet:
    """Reply: the cached value or None."""

    namespace: tuple[str, ...]
    key: str


@dataclass(slots=True, eq=False, repr=False)
class CachePut:
    """Reply: None."""

    namespace: tuple[str, ...]
    key: str
    value: Any
    ttl: float | None


class _Now:
    """Reply: unix time in seconds, for what is stored and shown."""

    __slots__ = ()


class _Timer:
    """Reply: seconds on a clock that nobody sets, for deadlines and pauses. It stands still while the caller reads
    what is emitted: that time is nobody's else."""

    __slots__ = ()


class _Draining:
    """Reply: why the run was asked to stop between supersteps, or None."""

    __slots__ = ()


class _Progress:
    """Tell whoever waits for this run that it gets on."""

    __slots__ = ()


NOW: Final = _Now()
TIMER: Final = _Timer()
DRAINING: Final = _Draining()
PROGRESS: Final = _Progress()

Effect = (
    Open
    | FindInput
    | FindAnswers
    | FindNamespaces
    | FindOnWay
    | Save
    | Start
    | Next
    | Cancel
    | Settle
    | Emit
    | CacheGet
    | CachePut
    | _Now
    | _Timer
    | _Draining
    | _Progress
)

Effects = Generator[Effect, Any, Any]
"""What kernel functions are: they ask for effects and return something."""
