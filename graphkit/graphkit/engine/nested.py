"""Where a graph that is called inside a task stands: its namespace, new or found again."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from graphkit.engine import effects
from graphkit.engine.attempt import Past
from graphkit.engine.identity import TASK, call_at, call_key, call_of, lasting
from graphkit.engine.matching import Call, Calls, mark_of
from graphkit.engine.program import Program
from graphkit.engine.updates import writes_of_input
from graphkit.types import Command

if TYPE_CHECKING:
    from graphkit.engine.request import Request


class Origin(NamedTuple):
    """Where a nested graph begins in a fork of the graph around it: at this checkpoint (None: the last one) of
    this namespace. `inside` leads on, to a checkpoint of a graph inside that one."""

    namespace: str
    checkpoint_id: str | None
    inside: tuple[tuple[str, str], ...] = ()


class Known:
    """The calls that earlier attempts made, by the keys that they have in namespaces."""

    __slots__ = ("_calls",)

    def __init__(self, keys: Iterable[str]) -> None:
        self._calls = Calls(map(call_at, keys))

    def claim(self, call: Call) -> str:
        return call_key(*self._calls.claim(call))

    @property
    def left(self) -> list[str]:
        """Those that were not made again."""
        return [call_key(*known) for known in self._calls.left]


class Site:
    """Where one attempt at a task calls graphs from. `base` is the task's part of their namespaces, `past` what
    there is of the task (None: nothing, so nothing is looked up)."""

    __slots__ = ("_known", "_lasting", "_origins", "base", "entered", "inside", "past")

    def __init__(self, base: str, past: Past | None) -> None:
        self.base = base
        self.past = past
        self.inside = past.inside if past is not None else ()
        self.entered = False
        self._known: dict[str, Known] = {}
        self._origins: dict[str, Origin] = {}
        self._lasting: dict[str, int] = {}
        if past is None:
            self.remember(())

    @property
    def is_known(self) -> bool:
        return "stored" in self._known

    @property
    def origin(self) -> Origin | None:
        """Where the addressed graph begins in a fork: the one that is the node of this task, or is called by it."""
        return Origin(*self.inside[0], self.inside[1:]) if self.inside else None

    @property
    def base_before(self) -> str:
        """`base` of the task that this one is forked from, if that one called graphs; else ""."""
        return self.inside[0][0].rpartition(":")[0] if self.inside and _key(self.inside[0][0]) else ""

    def remember(self, own: Iterable[str], before: Iterable[str] = ()) -> None:
        """Take note of the namespaces of calls: the task's own, and those of the task that it is forked from.
        Only the first time: what comes later may have been made by calls of this attempt."""
        origin = self.origin
        if origin is not None and self.base_before:
            last = call_at(_key(origin.namespace))[0]
            for namespace in before:
                key = _key(namespace)
                if call_at(key)[0] <= last:
                    self._origins[key] = origin if namespace == origin.namespace else Origin(namespace, None)
        self._known.setdefault("stored", Known({*map(_key, own), *self._origins}))

    def claim(self, call: Call) -> tuple[str, Origin | None]:
        """The namespace of a call of a stored graph, and where it begins if it is part of a fork."""
        key = self._known["stored"].claim(call)
        return f"{self.base}:{key}", self._origins.get(key)

    def claim_unstored(self, call: Call) -> str:
        """The namespace of a graph that keeps nothing. Of earlier calls only their questions are known."""
        if "unstored" not in self._known:
            asked = self.past.asked if self.past is not None else ()
            mine = [name[len(self.base) + 1 :] for name in asked if name.startswith(f"{self.base}:")]
            keys = {name.partition("|")[0] for name in mine if not name.startswith(TASK)}
            self._known.setdefault("unstored", Known(keys))
        return f"{self.base}:{self._known['unstored'].claim(call)}"

    def claim_lasting(self, call: Call, first: str) -> str:
        """The namespace of a graph that keeps its state: one for each call of it that the node makes in turn, the
        `first` of which is `lasting(call)`."""
        number = self._lasting[call.name] = self._lasting.get(call.name, -1) + 1
        return self.lasting(call, number) if number else first

    def lasting(self, call: Call, number: int = 0) -> str:
        return lasting(f"{self.base}:{call_key(number, call)}")

    @property
    def left(self) -> tuple[str, ...]:
        """The namespaces of earlier calls that were not made again."""
        return tuple(f"{self.base}:{key}" for known in self._known.values() for key in known.left)

    def number_of(self, namespace: str) -> int:
        """Which of the task's calls a question of this namespace comes from; -1 for the task's own questions."""
        if not namespace.startswith(self.base):
            return -1
        key = namespace[len(self.base) :].partition("|")[0]
        return call_at(key[1:])[0] if key else 0


def _key(namespace: str) -> str:
    """The call at the end of a namespace; "" at the end of one that is a node's own."""
    parts = namespace.rpartition("|")[2].split(":")
    return parts[2] if len(parts) == 3 else ""


def _directly(namespaces: list[str], base: str) -> list[str]:
    """Without those of graphs further down."""
    return [namespace for namespace in namespaces if "|" not in namespace[len(base) :]]


def call_of_graph(program: Program, given: Any) -> Call:
    """A call of a graph with this input, as it is known again."""
    return call_of(program.called, "" if program.called_once else _mark(program, given))


def _mark(program: Program, given: Any) -> str:
    if given is None or isinstance(given, (Command, list)):
        return mark_of(given)
    writes = writes_of_input(program, given)
    return mark_of([(key, value) for key, value in writes if program.channels[key].stored])


def locate(request: Request) -> Generator[effects.Effect, Any, Request]:
    """The request of a call in a task that runs again, with its namespace."""
    assert request.called is not None
    site, call = request.called
    if not site.is_known:
        own = yield effects.FindNamespaces(request.thread_id, f"{site.base}:")
        before: list[str] = []
        if site.base_before:
            before = yield effects.FindNamespaces(request.thread_id, f"{site.base_before}:")
        site.remember(_directly(own, site.base), _directly(before, site.base_before))
    namespace, origin = site.claim(call)
    return replace(request, scope=replace(request.scope, namespace=namespace), origin=origin)
