"""Plugins: hooks, tools and their configuration in one object."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, overload

from graphkit.frame import depth_below
from graphkit_prebuilt.halting import HaltSignal
from graphkit_prebuilt.hooks.hints import EventTypes, event_types_of
from graphkit_prebuilt.hooks.order import HookOrder
from graphkit_prebuilt.hooks.registry import HookRegistry
from graphkit_prebuilt.loop.steps import Call, Steps, blocking
from graphkit_prebuilt.middleware.marks import MARK as MIDDLEWARE
from graphkit_prebuilt.plugin_types import check_types

if TYPE_CHECKING:
    from graphkit_prebuilt.directive import ResumeDirective

C = TypeVar("C", bound=Callable[..., Any])

_MARK = "__graphkit_hook__"


class Hook(NamedTuple):
    """A method of a plugin that hears events."""

    callback: Callable[[Any], Any]
    event_types: EventTypes
    order: float


@overload
def hook(function: C, /) -> C: ...
@overload
def hook(*, order: float = ...) -> Callable[[C], C]: ...
def hook(function: C | None = None, /, *, order: float = HookOrder.DEFAULT) -> C | Callable[[C], C]:
    """Mark a method of a `Plugin` as a callback of the events that its first parameter is annotated with.

    Used bare or with `order=` (see `HookOrder`). Raises `ValueError` where the method is defined if the annotation
    names no event.
    """

    def mark(method: C) -> C:
        setattr(method, _MARK, (event_types_of(method), order))
        return method

    return mark if function is None else mark(function)


class Orchestrator(Protocol):
    """What a plugin is attached to: something that has hooks."""

    def add_hook(self, callback: Any, event_type: Any = None, *, order: float = 0) -> None: ...
    @property
    def hooks(self) -> HookRegistry: ...


class AgentHost(Orchestrator, Protocol):
    """An agent, which has tools and middleware too."""

    def add_middleware(self, stage_or_phase: Any, handler: Any) -> None: ...
    @property
    def tool_registry(self) -> Any: ...


P = TypeVar("P", bound="MultiAgentPlugin")


class MultiAgentPlugin:
    """The base of plugins of orchestrators: a `name`, methods marked `@hook`, a state, `on_resume`, and
    `init_multi_agent` for the rest.

    Every `Plugin` is one, and may be given to agents and orchestrators alike. One plugin may be given to several, so
    what it must remember of a thread belongs into `set_plugin_state(self.name, ...)` of the agent or orchestrator: kept
    with the thread, it is there after a restart. `state_type` and `invocation_state_type` are the types of that state
    and of its part that ends with the turn: a pydantic model, a dataclass, or any other type that pydantic knows.
    Without one it may be anything that can be stored.

    What a method raises comes out of the call that led to it. Behaviour: Strands' `MultiAgentPlugin`.
    """

    name: str = ""
    state_type: Any = None
    invocation_state_type: Any = None

    @property
    def hooks(self) -> list[Hook]:
        """The methods marked `@hook`, bound to this plugin."""
        return [
            Hook(getattr(self, name), *getattr(method, _MARK))
            for name, method in self._methods()
            if hasattr(method, _MARK)
        ]

    def init_multi_agent(self, orchestrator: Any) -> Awaitable[None] | None:
        """Called once for each orchestrator that the plugin is given to, as `init_agent` is for an agent."""

    def on_resume(self, agent: Any, data: Any) -> Awaitable[ResumeDirective | None] | ResumeDirective | None:
        """Called by `resume(name, data)` for each agent and orchestrator that the plugin has halted: says how it goes
        on; None as it would have gone on without the halt. May be a coroutine function.

        `agent` is the agent or orchestrator that was halted; a member of what is resumed may be it. Nothing is stored
        before all have returned. In it `agent.messages`, `agent.state` and the plugin's state are those that were
        halted, and what it changes in them is stored if it returns.
        """
        return None

    def _methods(self) -> Iterator[tuple[str, Any]]:
        kind = type(self)
        names = dict.fromkeys(name for base in reversed(kind.__mro__) for name in vars(base))
        for name in names:
            found = next(vars(base)[name] for base in kind.__mro__ if name in vars(base))
            yield name, getattr(found, "__func__", found)


class Plugin(MultiAgentPlugin):
    """The base of plugins: a `name`, methods marked `@hook`, `@middleware` and `@tool`, a state, and some methods more.

    Marked methods are found in the order of their definition, those of base classes first; a method that a
    subclass overrides is the subclass's (no callback or tool any more, if it is not marked there), in the place of the
    one that it overrides. Behaviour: Strands' `Plugin`.
    """

    @property
    def middleware(self) -> list[tuple[Any, Any]]:
        """The stages or phases, and the methods marked `@middleware` for them, bound to this plugin."""
        return [
            (getattr(method, MIDDLEWARE), getattr(self, name))
            for name, method in self._methods()
            if hasattr(method, MIDDLEWARE)
        ]

    @property
    def tools(self) -> list[Any]:
        """What `get_tools` gives."""
        return list(self.get_tools())

    def get_tools(self) -> Iterable[Any]:
        """The tools of this plugin: its methods marked `@tool`, unless a subclass says otherwise."""
        return [getattr(self, name) for name, method in self._methods() if hasattr(method, "tool_spec")]

    def init_agent(self, agent: Any) -> Awaitable[None] | None:
        """Called once for each agent that the plugin is given to, before its hooks and tools are registered. May be
        a coroutine function; the agent's constructor waits for it."""


def attach(
    agent: AgentHost, plugins: Iterable[Plugin], attached: dict[str, Plugin] | None = None
) -> dict[str, Plugin]:
    """Give an agent these plugins, in order: each one's `init_agent`, then its hooks, middleware, and tools.

    Returns all plugins of the agent by name: `attached`, to which these are added. Raises, before anything is called,
    `TypeError` for what is no plugin or declares a type that is none, and `ValueError` for a name that is empty, no
    text, or given twice.
    """
    named = {} if attached is None else attached
    new = _named(plugins, named, Plugin)
    named.update(new)
    for plugin in new.values():
        with agent.hooks.owned_by(plugin.name):
            blocking(_initialized(plugin, plugin.init_agent, agent), depth_below())
            for callback, event_types, order in plugin.hooks:
                agent.add_hook(callback, list(event_types), order=order)
            for stage_or_phase, handler in plugin.middleware:
                agent.add_middleware(stage_or_phase, handler)
        for tool in _registered(plugin, agent.tool_registry):
            agent.tool_registry.owners[tool] = plugin.name
    return named


def _registered(plugin: Plugin, registry: Any) -> list[str]:
    """Register the tools of a plugin. Returns their names."""
    try:
        names: list[str] = registry.process_tools(plugin.tools)
        return names
    except Exception as error:
        error.add_note(f"raised by get_tools of plugin {plugin.name!r}")
        raise


def attach_to_team(
    team: Orchestrator, plugins: Iterable[MultiAgentPlugin], attached: dict[str, MultiAgentPlugin]
) -> None:
    """Give an orchestrator these plugins, in order, and add them to those `attached`: each one's `init_multi_agent`,
    then its hooks. Its tools and middleware are for agents. Raises as `attach`."""
    attached.update(_named(plugins, attached, MultiAgentPlugin))
    for plugin in attached.values():
        with team.hooks.owned_by(plugin.name):
            blocking(_initialized(plugin, plugin.init_multi_agent, team), depth_below())
            for callback, event_types, order in plugin.hooks:
                team.add_hook(callback, list(event_types), order=order)


def _named(plugins: Iterable[P], taken: Mapping[str, P], kind: type[P]) -> dict[str, P]:
    """These plugins by name. Raises for one that cannot be attached beside those that are."""
    new: dict[str, P] = {}
    for plugin in plugins:
        new[_name(plugin, {**taken, **new}, kind)] = plugin
    for plugin in new.values():
        check_types(plugin)
    return new


def _name(plugin: Any, taken: Mapping[str, MultiAgentPlugin], kind: type[MultiAgentPlugin]) -> str:
    if not isinstance(plugin, kind):
        hint = f"; give an instance: {plugin.__name__}()" if isinstance(plugin, type) else ""
        raise TypeError(f"{plugin!r} is no {kind.__name__}{hint}")
    name = plugin.name
    if not isinstance(name, str) or not name:
        raise ValueError(f"{type(plugin).__name__}.name must be text that is not empty, not {name!r}")
    if name in taken:
        raise ValueError(f"two plugins are named {name!r}: {taken[name]!r} and {plugin!r}")
    return name


def _initialized(plugin: MultiAgentPlugin, init: Callable[[Any], Any], host: Orchestrator) -> Steps[None]:
    try:
        returned = yield Call(init, (host,))
        if isinstance(returned, HaltSignal):
            raise returned
    except HaltSignal as signal:
        raise RuntimeError(
            f"{init.__name__} of plugin {plugin.name!r} halts ({signal.stop_reason!r}), and nothing runs yet"
        ) from signal
    except Exception as error:
        error.add_note(f"raised by {init.__name__} of plugin {plugin.name!r}")
        raise
