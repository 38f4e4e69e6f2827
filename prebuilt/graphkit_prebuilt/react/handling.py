"""Of which errors of tools a `ToolNode` makes results, and what they say."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from graphkit.annotations import choices, hints_of_function
from graphkit.errors import ToolInvocationError
from graphkit_prebuilt.tools.values import error_result

Handles = bool | str | Callable[..., str] | type[Exception] | tuple[type[Exception], ...]


def about_arguments(error: ToolInvocationError) -> str:
    """What a node does that is not told how: arguments that do not fit are the model's to mend."""
    return error_result("", error.source)["content"][0]["text"]


def told(handles: Handles, error: Exception) -> str:
    """What the model is told of an error that is handled."""
    if isinstance(handles, str):
        return handles
    if callable(handles) and not isinstance(handles, type):
        return handles(error)
    source = error.source if isinstance(error, ToolInvocationError) else error
    return error_result("", source)["content"][0]["text"]


def handled_by(handles: Any) -> tuple[type[Exception], ...]:
    """The exceptions of which results are made. Raises `ValueError` for what says nothing about any."""
    if isinstance(handles, (bool, str)):
        return (Exception,) if handles else ()
    if isinstance(handles, type) and issubclass(handles, Exception):
        return (handles,)
    if isinstance(handles, tuple):
        if not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in handles):
            raise ValueError(f"handle_tool_errors= is a tuple of exception classes, not {handles!r}")
        return handles
    if not callable(handles):
        raise ValueError(
            f"handle_tool_errors= is a bool, a text, a function or exception classes, not {handles!r}"
        )
    return _annotated(handles)


def _annotated(handles: Callable[..., Any]) -> tuple[type[Exception], ...]:
    hints = hints_of_function(handles)
    first = next(iter(inspect.signature(handles).parameters), None)
    kinds = choices(hints.get(first, Exception)) if first is not None else (Exception,)
    return tuple(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Exception)) or (
        Exception,
    )
