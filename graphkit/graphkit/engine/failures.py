"""Failures that outlive a process: what is recorded of the exception that an error handler is to answer for.

It is recorded before the handler starts, so that a task that is opened again starts at its handler. The exception
is made again if its class is one of Python's own or of `graphkit.errors` and what it was made of can be stored; for
any other a `RecordedError` stands. Nothing is ever imported or called because of a name that was stored.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any, NamedTuple

from graphkit import errors
from graphkit.errors import RecordedError, UnserializableStateError
from graphkit_checkpoint.records import ERROR, Pending
from graphkit_checkpoint.serde import fingerprint

HANDLED = "handled"
"""The key of such a record, beside that of the error which a task shows."""

LONGEST_TEXT = 800
"""Characters that are kept of an exception's text; the exception itself is raised as it is."""


class Failure(NamedTuple):
    """What the last attempt at a node failed with, and which attempt it was."""

    error: BaseException
    attempt: int


def annotate(error: BaseException, place: str, more: str) -> None:
    """Note where an error came from. An object that is raised again and again keeps the last note of each place."""
    notes = getattr(error, "__notes__", [])
    notes[:] = [note for note in notes if not note.startswith(place)]
    error.add_note(f"{place}{more}")


def error_record(task_id: str, error: BaseException) -> Pending:
    """What is shown of a task that has failed."""
    return Pending(task_id, ERROR, "", _described(error))


def _described(error: BaseException) -> dict[str, Any]:
    return {"type": type(error).__name__, "text": _short(repr(error))}


def failure_record(task_id: str, failure: Failure) -> Pending:
    error = failure.error
    value = {
        **_described(error),
        "message": _short(str(error)),
        "attempt": failure.attempt,
        "made_of": _parts(error),
    }
    return Pending(task_id, ERROR, HANDLED, value)


def failure_of(value: Mapping[str, Any]) -> Failure:
    """The failure of a `failure_record`."""
    made_of = value["made_of"]
    cls = None if made_of is None else _class_named(value["type"])
    if cls is None or made_of is None:
        return Failure(RecordedError(value["type"], value["message"]), value["attempt"])
    args, attributes = made_of
    if _is_builtin(cls):
        error = cls(*args)
    else:  # past `__init__`, which takes other arguments
        error = cls.__new__(cls)
        error.args = tuple(args)
    vars(error).update(attributes)
    return Failure(error, value["attempt"])


def _parts(error: BaseException) -> list[Any] | None:
    """What an exception of a class that is known here is made of: its arguments and attributes."""
    cls = type(error)
    if _class_named(cls.__name__) is not cls:
        return None
    # Those of the operating system have arguments that `args` does not show.
    args = error.__reduce__()[1] if _is_builtin(cls) else error.args
    parts = [tuple(args), dict(vars(error))]
    try:
        fingerprint(parts)
    except UnserializableStateError:
        return None
    return parts


def _class_named(name: str) -> type[Exception] | None:
    for module in (builtins, errors):
        found = vars(module).get(name)
        if isinstance(found, type) and issubclass(found, Exception):
            return found
    return None


def _is_builtin(cls: type[Any]) -> bool:
    return vars(builtins).get(cls.__name__) is cls


def _short(text: str) -> str:
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"
