"""Registering callbacks and providers: what is accepted, what is refused, who hears what (S55–S64, S68, S70)."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from graphkit.hooks import (
    AfterModelCallEvent,
    AgentInitializedEvent,
    BaseHookEvent,
    BeforeModelCallEvent,
    BeforeToolCallEvent,
    HookableEvent,
    HookEvent,
    HookProvider,
    HookRegistry,
)


def callback(event: BeforeModelCallEvent) -> None: ...
def generator(event: BeforeModelCallEvent) -> Any:
    yield


async def async_generator(event: BeforeModelCallEvent) -> Any:
    yield


def other(event: BeforeModelCallEvent) -> None: ...


def heard_by(registry: HookRegistry, event_type: type[BaseHookEvent]) -> list[Any]:
    return [entry.callback for entry in registry.of(event_type)]


def test_an_event_has_several_callbacks_and_other_events_have_none_of_them() -> None:
    registry = HookRegistry()
    assert not registry.has_callbacks()
    registry.add_callback(BeforeModelCallEvent, callback)
    registry.add_callback(BeforeModelCallEvent, other)
    assert registry.has_callbacks()
    assert heard_by(registry, BeforeModelCallEvent) == [callback, other]
    assert heard_by(registry, AfterModelCallEvent) == []


def test_a_list_of_event_types_registers_for_each() -> None:
    registry = HookRegistry()
    registry.add_callback([BeforeModelCallEvent, AfterModelCallEvent, BeforeModelCallEvent], callback)
    assert heard_by(registry, BeforeModelCallEvent) == heard_by(registry, AfterModelCallEvent) == [callback]


@pytest.mark.parametrize("base", [BaseHookEvent, HookableEvent, HookEvent])
def test_a_base_class_hears_everything_that_derives_from_it_once(base: type[BaseHookEvent]) -> None:
    class Mine(BeforeModelCallEvent):
        pass

    registry = HookRegistry()
    registry.add_callback([base, BeforeModelCallEvent], callback)
    for event_type in (AgentInitializedEvent, BeforeModelCallEvent, AfterModelCallEvent, Mine):
        assert heard_by(registry, event_type) == [callback]
    registry.add_callback(BeforeModelCallEvent, other)
    assert heard_by(registry, Mine) == [callback, other]


def test_what_is_registered_later_is_heard() -> None:
    registry = HookRegistry()
    registry.add_callback(BeforeModelCallEvent, callback)
    assert heard_by(registry, BeforeModelCallEvent) == [callback]
    registry.add_callback(BeforeModelCallEvent, other)
    assert heard_by(registry, BeforeModelCallEvent) == [callback, other]


def test_registering_from_many_threads_loses_nothing() -> None:
    registry = HookRegistry()
    together = threading.Barrier(8)

    def register() -> None:
        together.wait()
        for _ in range(50):
            registry.add_callback(BeforeModelCallEvent, callback)
            registry.of(BeforeModelCallEvent)

    threads = [threading.Thread(target=register) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(registry.of(BeforeModelCallEvent)) == 400


class WithKeywords(HookProvider):
    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        assert kwargs == {}
        registry.add_callback(BeforeModelCallEvent, self.hear)

    def hear(self, event: BeforeModelCallEvent) -> None: ...


class Without(HookProvider):
    def register_hooks(self, registry: HookRegistry) -> None:
        registry.add_callback(BeforeModelCallEvent, self.hear)

    def hear(self, event: BeforeModelCallEvent) -> None: ...


class NotDerived:
    def register_hooks(self, registry: HookRegistry) -> None:
        registry.add_callback(BeforeModelCallEvent, callback)


@pytest.mark.parametrize("provider", [WithKeywords(), Without(), NotDerived()])
def test_a_provider_registers_its_callbacks(provider: HookProvider) -> None:
    registry = HookRegistry()
    registry.add_hook(provider)
    assert heard_by(registry, BeforeModelCallEvent) == [getattr(provider, "hear", callback)]


@pytest.mark.parametrize(
    ("provider", "message"),
    [
        (5, "5 is no hook provider"),
        (None, "None is no hook provider"),
        (callback, "is no hook provider"),
        (WithKeywords, r"WithKeywords is a class; give an instance: WithKeywords\(\)"),
    ],
)
def test_what_is_no_provider_is_refused(provider: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HookRegistry().add_hook(provider)


@pytest.mark.parametrize(
    ("event_type", "given", "error", "message"),
    [
        ([], callback, ValueError, "callback: the list of event types is empty"),
        ([None], callback, ValueError, "callback: None is no event class"),
        ([BeforeModelCallEvent, int], callback, ValueError, "<class 'int'> is no event class"),
        (int, callback, ValueError, "<class 'int'> is no event class"),
        (5, callback, ValueError, "5 is no event class"),
        ("BeforeModelCallEvent", callback, ValueError, "'BeforeModelCallEvent' is no event class"),
        (BeforeModelCallEvent, 5, TypeError, "5 is no callback"),
        (BeforeModelCallEvent, None, TypeError, "None is no callback"),
        (callback, BeforeModelCallEvent, TypeError, "swapped: BeforeModelCallEvent is the event class"),
        (None, BeforeModelCallEvent, TypeError, "swapped"),
        (BeforeModelCallEvent, generator, TypeError, "generator is a generator function"),
        (None, async_generator, TypeError, "async_generator is a generator function"),
    ],
)
def test_wrong_arguments_are_refused_when_they_are_registered(
    event_type: Any, given: Any, error: type[Exception], message: str
) -> None:
    registry = HookRegistry()
    with pytest.raises(error, match=message):
        registry.add_callback(event_type, given)
    assert not registry.has_callbacks()


class AsyncCallable:
    async def __call__(self, event: Any) -> None: ...


async def waits(event: AgentInitializedEvent) -> None: ...


@pytest.mark.parametrize("given", [waits, AsyncCallable()])
def test_an_agent_cannot_be_initialized_with_an_async_callback(given: Any) -> None:
    registry = HookRegistry()
    with pytest.raises(ValueError, match=r"is async, but AgentInitializedEvent"):
        registry.add_callback(AgentInitializedEvent, given)
    registry.add_callback(BeforeToolCallEvent, given)
    assert heard_by(registry, BeforeToolCallEvent) == [given]


def test_an_async_callback_of_all_events_is_spared_the_one_that_cannot_wait() -> None:
    registry = HookRegistry()
    registry.add_callback(HookEvent, AsyncCallable())
    registry.add_callback(HookEvent, print)
    assert heard_by(registry, AgentInitializedEvent) == [print]
    assert len(registry.of(BeforeModelCallEvent)) == 2
