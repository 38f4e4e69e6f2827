"""Callback handlers: what is done with an agent's dict events while it runs. By default, they are printed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

CallbackHandler = Callable[..., Any]
"""Called with the items of each dict event as keywords; see `streams.DictStream`."""


class PrintingCallbackHandler:
    """Prints what a model says as it comes, and a line for each call of a tool that it makes.

    `verbose_tool_use=False` prints no lines for tools. `tool_count` is how many calls were printed.
    """

    def __init__(self, verbose_tool_use: bool = True) -> None:
        self.verbose_tool_use = verbose_tool_use
        self.tool_count = 0

    def __call__(self, **event: Any) -> None:
        print(event.get("reasoningText", "") + event.get("data", ""), end="", flush=True)
        chunk = event.get("event")
        if not isinstance(chunk, dict):
            return
        started = _started_tool(chunk)
        if started is not None:
            self.tool_count += 1
            if self.verbose_tool_use:
                print(f"\nTool #{self.tool_count}: {started}")
        elif "messageStop" in chunk and chunk["messageStop"].get("stopReason") != "tool_use":
            print()


class CompositeCallbackHandler:
    """Several handlers in one: each is called with every event, in this order."""

    def __init__(self, *handlers: CallbackHandler) -> None:
        self.handlers = handlers

    def __call__(self, **event: Any) -> None:
        for handler in self.handlers:
            handler(**event)


def null_callback_handler(**event: Any) -> None:
    """Does nothing: an agent with it is silent, as with `callback_handler=None`."""


PRINTED: Final = frozenset({"data", "reasoningText", "event"})
"""The keys of the dicts of which something is printed."""


def wanted_by(handler: CallbackHandler | None) -> frozenset[str] | None:
    """The keys of the dicts with which a handler does something; None if nobody knows, as of most of them."""
    if handler is None or handler is null_callback_handler:
        return frozenset()
    if type(handler) is PrintingCallbackHandler:
        return PRINTED
    if type(handler) is not CompositeCallbackHandler:
        return None
    wanted = frozenset[str]()
    for one in map(wanted_by, handler.handlers):
        if one is None:
            return None
        wanted |= one
    return wanted


def check_handler(handler: Any) -> CallbackHandler | None:
    """A callback handler, or None for none. Raises `TypeError`."""
    if handler is None:
        return None
    if not callable(handler):
        raise TypeError(f"callback_handler must be callable, not {handler!r:.100}")
    if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
        getattr(type(handler), "__call__", None)  # noqa: B004
    ):
        raise TypeError(
            f"callback_handler {handler!r:.100} is async, and a handler is not awaited: make it a plain function, or "
            f"read `agent.stream_async(prompt)`"
        )
    return handler  # type: ignore[no-any-return]


def _started_tool(chunk: dict[str, Any]) -> str | None:
    start = (chunk.get("contentBlockStart") or {}).get("start") or {}
    return (start.get("toolUse") or {}).get("name") if isinstance(start, dict) else None
