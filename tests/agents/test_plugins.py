"""Plugins bundle hooks, tools and what else an agent is given (S151–S154)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from graphkit.hooks import (
    AfterModelCallEvent,
    AgentInitializedEvent,
    BaseHookEvent,
    BeforeInvocationEvent,
    BeforeModelCallEvent,
    HookOrder,
    HookRegistry,
)
from graphkit.plugins import Plugin, hook
from graphkit.tools import tool
from graphkit_prebuilt.plugins import attach
from graphkit_prebuilt.tools.box import ToolRegistry

NOBODY: Any = None


class Host:
    """As much of an agent as plugins need."""

    def __init__(self) -> None:
        self.hooks = HookRegistry()
        self.tool_registry = ToolRegistry()
        self.told: list[str] = []

    def add_hook(self, callback: Any, event_type: Any = None, *, order: float = 0) -> None:
        self.hooks.add_callback(event_type, callback, order=order)

    def add_middleware(self, stage_or_phase: Any, handler: Any) -> None:
        self.told.append(f"{stage_or_phase}: {handler.__name__}")

    def heard(self, event_type: type[BaseHookEvent]) -> list[str]:
        return [entry.callback.__name__ for entry in self.hooks.of(event_type)]


class Audit(Plugin):
    name = "audit"

    @hook
    def before(self, event: BeforeModelCallEvent) -> None: ...

    @hook
    async def around(self, event: BeforeModelCallEvent | AfterModelCallEvent) -> None: ...

    @hook()
    def after(self, event: AfterModelCallEvent) -> None: ...

    @hook(order=HookOrder.SDK_FIRST)
    def first(self, event: BeforeModelCallEvent) -> None: ...

    def no_hook(self, event: BeforeModelCallEvent) -> None: ...

    @tool
    def count(self, word: str) -> int:
        """Count a word."""
        return len(word)

    @property
    def expensive(self) -> int:
        raise AssertionError("a property is not looked into")


def test_marked_methods_are_hooks_and_tools_of_the_agent() -> None:
    host, plugin = Host(), Audit()
    assert attach(host, [plugin]) == {"audit": plugin}
    assert host.heard(BeforeModelCallEvent) == ["first", "before", "around"]
    assert host.heard(AfterModelCallEvent) == ["after", "around"]
    assert all(entry.callback.__self__ is plugin for entry in host.hooks.of(BeforeModelCallEvent))  # type: ignore[attr-defined]
    assert list(host.tool_registry.registry) == ["count"]
    assert [each.tool_name for each in plugin.tools] == ["count"]
    properties = host.tool_registry.get_all_tool_specs()[0]["inputSchema"]["json"]["properties"]
    assert list(properties) == ["word"]


class Strict(Audit):
    name = "strict"

    def before(self, event: BeforeModelCallEvent) -> None: ...  # overridden without a mark

    @hook
    def after(self, event: BeforeModelCallEvent) -> None: ...  # type: ignore[override]

    @hook
    def more(self, event: BeforeModelCallEvent) -> None: ...


def test_a_method_that_is_overridden_is_the_subclass_s_and_keeps_its_place() -> None:
    host = Host()
    attach(host, [Strict()])
    assert host.heard(BeforeModelCallEvent) == ["first", "around", "after", "more"]
    assert host.heard(AfterModelCallEvent) == ["around"]


class Forms(Plugin):
    name = "forms"

    @staticmethod
    @hook
    def static(event: BeforeModelCallEvent) -> None: ...

    @classmethod
    @hook
    def of_class(cls, event: BeforeModelCallEvent) -> None: ...


def test_static_and_class_methods_are_hooks_too() -> None:
    host = Host()
    attach(host, [Forms()])
    assert host.heard(BeforeModelCallEvent) == ["static", "of_class"]
    for entry in host.hooks.of(BeforeModelCallEvent):
        entry.callback(BeforeModelCallEvent(agent=NOBODY))


def recording(plugin_name: str, log: list[str]) -> Plugin:
    class Recording(Plugin):
        name = plugin_name

        def init_agent(self, agent: Any) -> None:
            log.append(f"{plugin_name}: init, tools {agent.tool_registry.registry.keys() & {plugin_name}}")
            agent.add_hook(lambda event: log.append(f"{plugin_name}: from init"), BeforeInvocationEvent)

        @hook
        def heard(self, event: BeforeInvocationEvent) -> None:
            log.append(f"{plugin_name}: hook")

        def get_tools(self) -> Iterable[Any]:
            @tool(name=plugin_name)
            def made() -> None:
                """Made by the plugin."""

            return [made]

    return Recording()


def test_each_plugin_in_order_has_its_init_then_its_hooks_then_its_tools() -> None:
    host, log = Host(), list[str]()
    attach(host, [recording("a", log), recording("b", log)])
    assert log == ["a: init, tools set()", "b: init, tools set()"]
    log.clear()
    for entry in host.hooks.of(BeforeInvocationEvent):
        entry.callback(BeforeInvocationEvent(agent=NOBODY))
    assert log == ["a: from init", "a: hook", "b: from init", "b: hook"]
    assert list(host.tool_registry.registry) == ["a", "b"]


class Waits(Plugin):
    name = "waits"

    async def init_agent(self, agent: Any) -> None:
        await asyncio.sleep(0)
        agent.told.append("ready")


@pytest.mark.parametrize("inside_a_loop", [False, True])
def test_an_async_init_is_waited_for(inside_a_loop: bool) -> None:
    host = Host()

    async def construct() -> None:
        attach(host, [Waits()])

    if inside_a_loop:
        asyncio.run(construct())
    else:
        attach(host, [Waits()])
    assert host.told == ["ready"]


class NoSuper(Plugin):
    """Names itself, and does not call the base's constructor."""

    def __init__(self, name: str) -> None:
        self.name = name

    @hook
    def heard(self, event: BeforeModelCallEvent) -> None: ...


def test_a_plugin_may_name_itself_and_need_not_call_the_base() -> None:
    host = Host()
    assert list(attach(host, [NoSuper("one"), NoSuper("two")])) == ["one", "two"]
    assert host.heard(BeforeModelCallEvent) == ["heard", "heard"]


def test_a_plugin_serves_several_agents() -> None:
    plugin, hosts = Audit(), [Host(), Host()]
    for host in hosts:
        attach(host, [plugin])
    assert hosts[0].heard(BeforeModelCallEvent) == hosts[1].heard(BeforeModelCallEvent)


class Nameless(Plugin):
    def init_agent(self, agent: Any) -> None:
        agent.told.append("called")


class Unnamed(Nameless):
    name = 5  # type: ignore[assignment]


class Named(Nameless):
    name = "named"


@pytest.mark.parametrize(
    ("plugins", "error", "message"),
    [
        ([Named(), Nameless()], ValueError, "Nameless.name must be text that is not empty, not ''"),
        ([Named(), Unnamed()], ValueError, "Unnamed.name must be text that is not empty, not 5"),
        ([Named(), Named()], ValueError, "two plugins are named 'named'"),
        ([Named(), 5], TypeError, "5 is no Plugin"),
        ([Named(), Audit], TypeError, r"is no Plugin; give an instance: Audit\(\)"),
    ],
)
def test_wrong_plugins_are_refused_before_anything_is_called(
    plugins: list[Any], error: type[Exception], message: str
) -> None:
    host = Host()
    with pytest.raises(error, match=message):
        attach(host, plugins)
    assert host.told == []


def test_a_hook_without_an_event_is_refused_where_it_is_defined() -> None:
    with pytest.raises(ValueError, match="nothing: parameter 'event' has no annotation"):

        class Wrong(Plugin):
            @hook
            def nothing(self, event): ...  # type: ignore[no-untyped-def]


def test_an_async_hook_cannot_hear_the_end_of_a_constructor() -> None:
    class Wrong(Plugin):
        name = "wrong"

        @hook
        async def late(self, event: AgentInitializedEvent) -> None: ...

    with pytest.raises(ValueError, match="late is async, but AgentInitializedEvent"):
        attach(Host(), [Wrong()])


class Raises(Plugin):
    name = "raises"

    def __init__(self, method: str) -> None:
        self.method = method

    def init_agent(self, agent: Any) -> None:
        if self.method == "init_agent":
            raise LookupError("nothing there")

    def get_tools(self) -> Iterable[Any]:
        if self.method == "get_tools":
            raise LookupError("nothing there")
        return []


@pytest.mark.parametrize("method", ["init_agent", "get_tools"])
def test_what_a_plugin_raises_says_where_it_comes_from(method: str) -> None:
    with pytest.raises(LookupError, match="nothing there") as raised:
        attach(Host(), [Raises(method)])
    assert raised.value.__notes__ == [f"raised by {method} of plugin 'raises'"]


class Gives(Plugin):
    """Gives a wrong thing in place of its tools."""

    name = "gives"

    def __init__(self, given: Any) -> None:
        self.given = given

    def get_tools(self) -> Any:
        return self.given


@pytest.mark.parametrize("given", [None, 3, [3], [object()], ["no_such_module"]], ids=range(5))
def test_tools_that_are_none_name_the_plugin(given: Any) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        attach(Host(), [Gives(given)])
    assert raised.value.__notes__[-1] == "raised by get_tools of plugin 'gives'"


@pytest.mark.parametrize("what", ["state_type", "invocation_state_type"])
def test_a_type_that_is_none_is_refused_before_anything_is_called(what: str) -> None:
    wrong = Named()
    setattr(wrong, what, 5)
    host = Host()
    with pytest.raises(TypeError, match=f"{what} of plugin 'named' is 5, of which no state can be made"):
        attach(host, [wrong])
    assert host.told == []
