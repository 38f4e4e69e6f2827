"""Callbacks of one event run by `order`; After events reverse those of one order (S117–S122)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from graphkit.hooks import AfterModelCallEvent, BaseHookEvent, BeforeModelCallEvent, HookOrder, HookRegistry


def named(name: str) -> Callable[[Any], None]:
    def callback(event: Any) -> None: ...

    callback.__name__ = callback.__qualname__ = name
    return callback


def order_of(registry: HookRegistry, event_type: type[BaseHookEvent]) -> list[str]:
    return [entry.callback.__name__ for entry in registry.of(event_type)]


def registered(*rows: tuple[str, float]) -> HookRegistry:
    """Each name for a Before and an After event alike."""
    registry = HookRegistry()
    for name, order in rows:
        registry.add_callback([BeforeModelCallEvent, AfterModelCallEvent], named(name), order=order)
    return registry


def test_without_an_order_before_events_keep_the_order_of_registration_and_after_events_reverse_it() -> None:
    registry = HookRegistry()
    for name in "abc":
        registry.add_callback([BeforeModelCallEvent, AfterModelCallEvent], named(name))
    assert order_of(registry, BeforeModelCallEvent) == ["a", "b", "c"]
    assert order_of(registry, AfterModelCallEvent) == ["c", "b", "a"]


def test_lower_orders_run_first_for_before_and_after_events_and_only_one_order_is_reversed() -> None:
    registry = registered(
        ("default 1", HookOrder.DEFAULT),
        ("last", HookOrder.SDK_LAST),
        ("-50 a", -50),
        ("default 2", HookOrder.DEFAULT),
        ("first", HookOrder.SDK_FIRST),
        ("-50 b", -50.0),
    )
    assert order_of(registry, BeforeModelCallEvent) == [
        "first", "-50 a", "-50 b", "default 1", "default 2", "last",
    ]  # fmt: skip
    assert order_of(registry, AfterModelCallEvent) == [
        "first", "-50 b", "-50 a", "default 2", "default 1", "last",
    ]  # fmt: skip


def test_the_presets_are_marks_and_no_bounds() -> None:
    assert (HookOrder.SDK_FIRST, HookOrder.DEFAULT, HookOrder.SDK_LAST) == (-100, 0, 100)
    registry = registered(
        ("inf", math.inf),
        ("last + 0.5", HookOrder.SDK_LAST + 0.5),
        ("last", HookOrder.SDK_LAST),
        ("first", HookOrder.SDK_FIRST),
        ("first - 1", HookOrder.SDK_FIRST - 1),
        ("-inf", -math.inf),
    )
    expected = ["-inf", "first - 1", "first", "last", "last + 0.5", "inf"]
    assert order_of(registry, BeforeModelCallEvent) == expected
    assert order_of(registry, AfterModelCallEvent) == expected


@pytest.mark.parametrize("order", [math.nan, "1", None, True, [1]])
def test_an_order_that_is_no_number_is_refused(order: Any) -> None:
    registry = HookRegistry()
    with pytest.raises(ValueError, match="some_name: order must be a number"):
        registry.add_callback(BeforeModelCallEvent, named("some_name"), order=order)
    assert not registry.has_callbacks()
