"""The event of a callback is inferred from the annotation of its first parameter (S57, S58, S70)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Optional, Union

import pytest
from typing_extensions import TypeAliasType

from graphkit.hooks import (
    AfterModelCallEvent,
    BeforeModelCallEvent,
    BeforeToolCallEvent,
    HookEvent,
    HookRegistry,
)

BOTH = (BeforeModelCallEvent, AfterModelCallEvent)
Either = TypeAliasType("Either", BeforeModelCallEvent | AfterModelCallEvent)


def plain(event: BeforeModelCallEvent) -> None: ...
def union(event: BeforeModelCallEvent | AfterModelCallEvent) -> None: ...
def old_union(event: Union[BeforeModelCallEvent, AfterModelCallEvent]) -> None: ...  # noqa: UP007
def alias(event: Either) -> None: ...
def defaults(event: BeforeModelCallEvent, more: int = 1, *rest: Any, **named: Any) -> None: ...
def default_of_its_own(event: BeforeModelCallEvent = None) -> None: ...  # type: ignore[assignment]
def other_annotations_are_not_looked_at(event: BeforeModelCallEvent, x: Nowhere = 1) -> Nowhere: ...  # type: ignore  # noqa: F821
async def asynchronous(event: BeforeModelCallEvent) -> None: ...
def base(event: HookEvent) -> None: ...


class Methods:
    def bound(self, event: BeforeModelCallEvent) -> None: ...
    def both(self, event: BeforeModelCallEvent | AfterModelCallEvent) -> None: ...

    @classmethod
    def of_class(cls, event: BeforeModelCallEvent) -> None: ...

    @staticmethod
    def static(event: BeforeModelCallEvent) -> None: ...


class Callable_:
    def __call__(self, event: BeforeModelCallEvent) -> None: ...


def with_an_option(option: int, event: BeforeModelCallEvent) -> None: ...


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def of_a_local_class() -> tuple[Callable[..., Any], type[HookEvent]]:
    class Mine(BeforeModelCallEvent):
        pass

    def local(event: Mine) -> type[Mine]:
        return Mine

    return local, Mine


@pytest.mark.parametrize(
    ("callback", "expected"),
    [
        (plain, BOTH[:1]),
        (union, BOTH),
        (old_union, BOTH),
        (alias, BOTH),
        (defaults, BOTH[:1]),
        (default_of_its_own, BOTH[:1]),
        (other_annotations_are_not_looked_at, BOTH[:1]),
        (asynchronous, BOTH[:1]),
        (base, (HookEvent,)),
        (Methods().bound, BOTH[:1]),
        (Methods.bound, BOTH[:1]),
        (Methods().both, BOTH),
        (Methods.of_class, BOTH[:1]),
        (Methods.static, BOTH[:1]),
        (Callable_(), BOTH[:1]),
        (functools.partial(with_an_option, 1), BOTH[:1]),
        (decorated(plain), BOTH[:1]),
        (of_a_local_class()[0], None),
    ],
    ids=lambda value: getattr(value, "__qualname__", None) or type(value).__name__,
)
def test_the_first_parameter_names_the_events(
    callback: Callable[..., Any], expected: tuple[type[HookEvent], ...] | None
) -> None:
    registry = HookRegistry()
    registry.add_callback(None, callback)
    if expected is None:
        expected = (callback(None),)
    for event_type in (*BOTH, BeforeToolCallEvent, *expected):
        heard = [entry.callback for entry in registry.of(event_type)]
        assert heard == ([callback] if issubclass(event_type, expected) else [])


def untyped(event): ...  # type: ignore[no-untyped-def]
def no_event(event: int) -> None: ...
def with_none(event: BeforeModelCallEvent | None) -> None: ...
def optional(event: Optional[BeforeModelCallEvent]) -> None: ...  # noqa: UP045
def with_an_int(event: BeforeModelCallEvent | int) -> None: ...
def nowhere(event: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def no_parameter() -> None: ...
def needs_more(event: BeforeModelCallEvent, more: int) -> None: ...
def needs_a_keyword(event: BeforeModelCallEvent, *, more: int) -> None: ...
def any_number(*events: BeforeModelCallEvent) -> None: ...


@pytest.mark.parametrize(
    ("callback", "message"),
    [
        (untyped, "untyped: parameter 'event' has no annotation; give the event class to add_hook"),
        (lambda event: None, "parameter 'event' has no annotation"),
        (no_event, "no_event: parameter 'event' is annotated with <class 'int'>, which is no event class"),
        (with_none, "<class 'NoneType'>, which is no event class"),
        (optional, "<class 'NoneType'>, which is no event class"),
        (with_an_int, "<class 'int'>, which is no event class"),
        (nowhere, "'Nowhere' of parameter 'event' cannot be resolved"),
        (no_parameter, "no_parameter takes no parameter"),
        (needs_more, "needs_more is called with the event alone, but needs 'more' too"),
        (needs_a_keyword, "needs 'more' too"),
        (iter, "parameters cannot be seen|has no annotation"),
    ],
    ids=lambda value: getattr(value, "__qualname__", None),
)
def test_a_callback_without_an_event_type_is_refused_by_name(
    callback: Callable[..., Any], message: str
) -> None:
    registry = HookRegistry()
    with pytest.raises(ValueError, match=message):
        registry.add_callback(None, callback)
    assert not registry.has_callbacks()


def test_the_parameter_may_collect_arguments() -> None:
    registry = HookRegistry()
    registry.add_callback(None, any_number)
    assert [entry.callback for entry in registry.of(BeforeModelCallEvent)] == [any_number]
