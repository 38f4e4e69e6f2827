"""What every event is: read-only but for what its class lets callbacks write; some can ask."""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from graphkit.errors import UnserializableStateError
from graphkit.frame import running

if TYPE_CHECKING:
    from graphkit_prebuilt.agent import Agent


@dataclass(eq=False)
class BaseHookEvent:
    """The base of all events. Registering it (or another base) hears every event derived from it.

    Attributes are read-only once the event is made, but for the names in `writable`; writing another one
    raises `AttributeError`. With `should_reverse_callbacks` the callbacks of one `order` run in reverse order
    of registration.
    """

    should_reverse_callbacks: ClassVar[bool] = False
    writable: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        self.__dict__["_made"] = True

    def __setattr__(self, name: str, value: Any) -> None:
        if "_made" in self.__dict__:
            if name not in self.writable:
                can = ", ".join(sorted(self.writable)) or "nothing"
                raise AttributeError(
                    f"{type(self).__name__}.{name} cannot be written; callbacks may write: {can}"
                )
            value = self._accepted(name, value)
        object.__setattr__(self, name, value)

    def _accepted(self, name: str, value: Any) -> Any:
        """What a callback has written, in the form that is kept. Raises `TypeError` for what cannot be meant: here it
        is known whose doing it is."""
        return value


@dataclass(eq=False)
class HookableEvent(BaseHookEvent):
    """An event that callbacks hear and streams show."""


@dataclass(eq=False)
class HookEvent(HookableEvent):
    """An event in the life of `agent`."""

    agent: Agent


class NameTakenError(ValueError):
    """One event asks two questions under one name: a fault of the program, which no answer mends."""


class AsksMixin:
    """What may ask a person: an event on behalf of its callbacks, a call of a tool."""

    @property
    def _subject(self) -> str:
        """Which of several things of one kind this is about."""
        return ""

    def interrupt(
        self, name: str, reason: Any = None, response: Any = None, *, response_schema: Any = None
    ) -> Any:
        """Pause the agent with a question; when it goes on with the answer, return that answer.

        The first call raises `GraphInterrupt` (a `BaseException`). An event's other callbacks still run and may
        ask too; then the request ends with `stop_reason="interrupt"` and the questions among its `interrupts`.
        With the answers the event fires again, or the tool is called again, and this call returns its own.

        `name` names the question among those of this event or call of a tool (`ValueError` if it is asked twice;
        the same name elsewhere is another question). `reason` is what the person is shown; it must be JSON-serializable
        (`UnserializableStateError`, a `TypeError`). A `response` that is not None is returned as it is, and
        nobody is asked. `response_schema` as for `graphkit.interrupt`. Behaviour: Strands' `event.interrupt`.
        """
        event = type(self).__name__
        if not isinstance(name, str):
            raise TypeError(f"{event}.interrupt() needs a name that is text, not {name!r}")
        if not name:
            raise ValueError(f"{event}.interrupt() needs a name that is not empty")
        asked: set[str] = self.__dict__.setdefault("_asked", set())
        if name in asked:
            raise NameTakenError(
                f"{event}: a question named {name!r} was asked already; both would get the same answer: give each "
                f"a name of its own, f'{{app}}-{name}' for instance"
            )
        asked.add(name)
        if response is not None:
            return response
        try:
            json.dumps(reason)
        except (TypeError, ValueError, RecursionError) as error:
            raise UnserializableStateError(
                f"{event}: the reason of question {name!r} cannot be written as JSON: {error}"
            ) from error
        return running(f"{event}.interrupt()").ask(
            reason, name, response_schema, within=part_of(self, self.__dict__.get("_number", 0))
        )


def part_of(asking: Any, number: int = 0) -> str:
    """The part of its task in which something asks: the same name in another part is another question. `number` tells
    the second part of this name from the first, and so on."""
    subject = getattr(asking, "_subject", "")
    part = f"{_kind_of(type(asking).__name__)}:{subject}" if subject else _kind_of(type(asking).__name__)
    return f"{part}:{number}" if number else part


@functools.cache
def _kind_of(name: str) -> str:
    """`"before_tool_call"` of `"BeforeToolCallEvent"`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.removesuffix("Event")).lower()
