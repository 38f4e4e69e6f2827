"""One run, as asked for: read once from the caller's config, typed from there on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from graphkit.engine.attempt import Answer, Scope
from graphkit.engine.matching import Call
from graphkit.engine.nested import Origin, Site
from graphkit.types import Durability, Interrupt, RunStatus
from graphkit_checkpoint.admission import addressed

DEFAULT_RECURSION_LIMIT = 100
EVERY: Literal["*"] = "*"

Names = frozenset[str] | Literal["*"]


class Position(NamedTuple):
    """What a config addresses: the head of a namespace, or one of its checkpoints."""

    thread_id: str
    namespace: str = ""
    checkpoint_id: str | None = None

    @classmethod
    def of(cls, thread_id: str, configurable: Mapping[str, Any]) -> Position:
        """A `checkpoint_map` stands for a `checkpoint_id` that is not given. Raises `ValueError`."""
        namespace = addressed(configurable, "checkpoint_ns") or ""
        mapped = (configurable.get("checkpoint_map") or {}).get(namespace)
        return cls(thread_id, namespace, addressed(configurable, "checkpoint_id") or mapped)


@dataclass(slots=True, eq=False, repr=False)
class Request:
    """`nonce` makes this run's checkpoint ids unique; the scope's `token` is its claim on the thread.

    `stored` says that there is a saver. A `nested` run happens inside a task of another run: the claim is
    that run's, and its `answers` are looked through for questions asked here. `patience` is how many seconds to
    wait for a thread that somebody else has.
    It `drains` if it stops when asked to, and `beats` if a timeout around it wants to know of its progress.
    `called` is set while it is not known which of a task's recorded calls this run is; `origin` is where a
    nested run begins if nothing is stored of it. `task` is the task around a run that goes on with what it kept
    from earlier ones. `inside` is the checkpoint of a nested graph at which to go on.
    """

    input: Any
    scope: Scope
    nonce: str
    stored: bool
    checkpoint_id: str | None = None
    recursion_limit: int = DEFAULT_RECURSION_LIMIT
    max_concurrency: int | None = None
    before: Names = frozenset()
    after: Names = frozenset()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    nested: bool = False
    drains: bool = False
    beats: bool = False
    patience: float = 0.0
    answers: Mapping[str, Answer] = field(default_factory=dict)
    called: tuple[Site, Call] | None = None
    origin: Origin | None = None
    task: str = ""
    inside: Position | None = None

    @property
    def thread_id(self) -> str:
        return self.scope.thread_id

    @property
    def namespace(self) -> str:
        return self.scope.namespace

    @property
    def durability(self) -> Durability:
        return self.scope.durability

    @property
    def listen(self) -> frozenset[str]:
        return self.scope.listen

    @property
    def writes_at_end(self) -> bool:
        return self.stored and not self.nested and self.durability == "exit"


@dataclass(slots=True, eq=False, repr=False)
class End:
    """How a run ended. `asked` are the open questions with their fingerprints; `drained` says why it was drained."""

    status: RunStatus
    values: Any
    next: tuple[str, ...] = ()
    asked: list[tuple[Interrupt, str]] = field(default_factory=list)
    thread_id: str = ""
    namespace: str = ""
    checkpoint_id: str | None = None
    drained: str | None = None

    @property
    def waits(self) -> bool:
        return self.status != "completed"

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        return tuple([question for question, _ in self.asked])


def hit(names: Names, name: str) -> bool:
    return names == EVERY or name in names
