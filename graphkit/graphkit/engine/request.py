"""One run, as asked for: read once from the caller's config, typed from there on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from graphkit.engine.attempt import Answer, Scope
from graphkit.types import Durability, Interrupt, RunStatus

DEFAULT_RECURSION_LIMIT = 100
EVERY: Literal["*"] = "*"

Names = frozenset[str] | Literal["*"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """`nonce` makes this run's checkpoint ids unique; the scope's `token` is its claim on the thread.

    `stored` says that there is a saver. A `nested` run happens inside a task of another run: the claim is
    that run's, and its `answers` are looked through for questions asked here. `listen` names the kinds of
    events that anybody wants. `patience` is how many seconds to wait for a thread that somebody else has.
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
    listen: frozenset[str] = frozenset()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    nested: bool = False
    patience: float = 0.0
    answers: Mapping[str, Answer] = field(default_factory=dict)

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
    def writes_at_end(self) -> bool:
        return self.stored and not self.nested and self.durability == "exit"


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class End:
    """How a run ended. `asked` are the open questions with their fingerprints."""

    status: RunStatus
    values: Any
    next: tuple[str, ...] = ()
    asked: list[tuple[Interrupt, str]] = field(default_factory=list)
    thread_id: str = ""
    namespace: str = ""
    checkpoint_id: str | None = None

    @property
    def waits(self) -> bool:
        return self.status in ("interrupted", "paused")

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        return tuple(question for question, _ in self.asked)


def hit(names: Names, name: str) -> bool:
    return names == EVERY or name in names
