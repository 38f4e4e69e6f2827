"""Who hears which event."""

from __future__ import annotations

import functools
import inspect
import math
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, TypeVar, overload

from graphkit_prebuilt.hooks.catalogue import AgentInitializedEvent
from graphkit_prebuilt.hooks.event import BaseHookEvent
from graphkit_prebuilt.hooks.hints import EventTypes, event_types_of, is_event_type, name_of
from graphkit_prebuilt.hooks.order import HookOrder

E = TypeVar("E", bound=BaseHookEvent)
Heard_contra = TypeVar("Heard_contra", bound=BaseHookEvent, contravariant=True)


class HookCallback(Protocol[Heard_contra]):
    """What is called with an event: a function or a coroutine function, which is awaited."""

    def __call__(self, event: Heard_contra, /) -> Awaitable[Any] | Any: ...


class HookProvider(Protocol):
    """Something that registers several callbacks at once."""

    def register_hooks(self, registry: HookRegistry) -> None:
        """Register the callbacks. It is called without keywords, so `**kwargs` may be declared or not."""
        ...


class Entry(NamedTuple):
    """One registered callback. `when(invocation)` false means that it has nothing to do now. `plugin` is the name of
    the plugin that has registered it, if one has."""

    callback: Callable[[Any], Any]
    order: float
    when: Callable[[Any], bool] | None = None
    plugin: str | None = None


Row = tuple[EventTypes, Entry]


class Found(dict[type[BaseHookEvent], Sequence[Entry]]):
    """The callbacks of each event class among these rows, in the order in which they run. Nobody hears those that are
    `unheard`; nor, perhaps, others."""

    def __init__(self, rows: Sequence[Row], types: frozenset[type[BaseHookEvent]]) -> None:
        self.unheard = _unheard(types)
        self._rows = rows

    def __missing__(self, event_type: type[BaseHookEvent]) -> Sequence[Entry]:
        if event_type in self.unheard:
            return self.setdefault(event_type, ())
        heard = [entry for types, entry in self._rows if issubclass(event_type, types)]
        if issubclass(event_type, AgentInitializedEvent):  # async ones that are there for all events
            heard = [entry for entry in heard if not _is_async(entry.callback)]
        if event_type.should_reverse_callbacks:
            heard.reverse()
        entries = self[event_type] = tuple(sorted(heard, key=lambda entry: entry.order))
        return entries


@functools.lru_cache(maxsize=64)
def _unheard(types: frozenset[type[BaseHookEvent]]) -> frozenset[type[BaseHookEvent]]:
    """The events that nobody hears who hears these: most of those of most agents."""
    kinds: list[type[BaseHookEvent]] = [BaseHookEvent]
    for kind in kinds:
        kinds += kind.__subclasses__()
    return frozenset([kind for kind in kinds if types.isdisjoint(kind.__mro__)])


class HookRegistry:
    """The callbacks of one agent or orchestrator. May be added to from any thread, also during a request.

    Per event, callbacks run by `order`, lower first; those of one order as they were registered, or, where the
    event says so (After events), in reverse.
    """

    def __init__(self) -> None:
        self._rows: tuple[Row, ...] = ()
        self._types: frozenset[type[BaseHookEvent]] = frozenset()
        self.found = Found((), frozenset())
        self._adding = threading.Lock()
        self._owner: str | None = None

    @overload
    def add_callback(
        self,
        event_type: type[E],
        callback: HookCallback[E],
        *,
        order: float = ...,
        when: Callable[[Any], bool] | None = ...,
    ) -> None: ...
    @overload
    def add_callback(
        self,
        event_type: Sequence[type[BaseHookEvent]] | None,
        callback: HookCallback[Any],
        *,
        order: float = ...,
        when: Callable[[Any], bool] | None = ...,
    ) -> None: ...
    def add_callback(
        self,
        event_type: Any,
        callback: Callable[[Any], Any],
        *,
        order: float = HookOrder.DEFAULT,
        when: Callable[[Any], bool] | None = None,
    ) -> None:
        """Call `callback` with every event of this class, of one of several, or (None) of those that its first
        parameter is annotated with.

        A base class stands for all events derived from it. `when` is asked with the invocation before an event
        is made: while it is false for every callback, the event costs nothing.

        Raises `TypeError` for a callback that cannot be called or is a generator, and for swapped arguments;
        `ValueError` for an event type that is none, for an `order` that is no number, and for an async callback of
        `AgentInitializedEvent`, since a constructor cannot wait (registered for a base class it does not hear it).
        """
        types = _checked(event_type, callback)
        if isinstance(order, bool) or not isinstance(order, (int, float)) or math.isnan(order):
            raise ValueError(f"{name_of(callback)}: order must be a number, not {order!r}")
        with self._adding:
            self._types = self._types.union(types)
            self._rows = (*self._rows, (types, Entry(callback, order, when, self._owner)))
            self.found = Found(self._rows, self._types)

    @property
    def owner(self) -> str | None:
        """The plugin whose what is registered now is."""
        return self._owner

    @contextmanager
    def owned_by(self, plugin: str) -> Iterator[None]:
        """While this lasts, what is registered is that of a plugin."""
        before, self._owner = self._owner, plugin
        try:
            yield
        finally:
            self._owner = before

    def add_hook(self, provider: HookProvider) -> None:
        """Let a provider register its callbacks. Raises `ValueError` if it has no `register_hooks`."""
        if isinstance(provider, type):
            raise ValueError(f"{provider.__name__} is a class; give an instance: {provider.__name__}()")
        if not callable(getattr(provider, "register_hooks", None)):
            raise ValueError(f"{provider!r} is no hook provider: it has no register_hooks(registry)")
        provider.register_hooks(self)

    def of(self, event_type: type[BaseHookEvent]) -> Sequence[Entry]:
        """The callbacks of an event class, in the order in which they run."""
        return self.found[event_type]

    @property
    def entries(self) -> Iterator[Entry]:
        """Everything that is registered, as it was."""
        return (entry for _, entry in self._rows)

    def has_callbacks(self) -> bool:
        """Whether anything is registered at all."""
        return bool(self._rows)


def _checked(event_type: Any, callback: Any) -> EventTypes:
    """The event classes meant, each once."""
    if is_event_type(callback) and not is_event_type(event_type):
        raise TypeError(f"the arguments are swapped: {callback.__name__} is the event class")
    if not callable(callback):
        raise TypeError(f"{callback!r} is no callback: it cannot be called")
    if inspect.isgeneratorfunction(callback) or inspect.isasyncgenfunction(callback):
        raise TypeError(
            f"{name_of(callback)} is a generator function; a callback does its work when it is called"
        )
    if event_type is None:
        types = event_types_of(callback)
    else:
        given = event_type if isinstance(event_type, (list, tuple)) else [event_type]
        if not given:
            raise ValueError(f"{name_of(callback)}: the list of event types is empty")
        for each in given:
            if not is_event_type(each):
                raise ValueError(f"{name_of(callback)}: {each!r} is no event class")
        types = tuple(dict.fromkeys(given))
    if AgentInitializedEvent in types and _is_async(callback):
        raise ValueError(
            f"{name_of(callback)} is async, but AgentInitializedEvent fires in a constructor, which cannot wait"
        )
    return types


def _is_async(callback: Any) -> bool:
    return inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(
        getattr(callback, "__call__", None)  # noqa: B004
    )
