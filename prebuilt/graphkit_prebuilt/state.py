"""`agent.state`: what is kept beside the conversation."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from graphkit_prebuilt.conversation import copied
from graphkit_prebuilt.log import DELETED

__all__ = ["AgentState"]


class AgentState:
    """Values by key, kept with the conversation and not shown to any model.

    A key is text that is not blank, a value anything that `json.dumps` takes: `ValueError` otherwise. Values are
    copied on their way in and out, so that only `set` changes them. Behaviour: Strands' `AgentState`.
    """

    __slots__ = ("_read", "_write")

    def __init__(self, initial_state: Mapping[str, Any] | None = None) -> None:
        values: dict[str, Any] = {}
        self._read: Callable[[], Mapping[str, Any]] = lambda: values
        self._write: Callable[[str, Any], None] = values.__setitem__
        if initial_state is not None:
            self.replace(initial_state)

    @classmethod
    def over(cls, read: Callable[[], Mapping[str, Any]], write: Callable[[str, Any], None]) -> AgentState:
        """The state that `read()` gives; `write(key, value)` sets a key, with `DELETED` takes it away."""
        state = cls()
        state._read, state._write = read, write
        return state

    def get(self, key: str | None = None) -> Any:
        """The value of a key, None if there is none; without a key a dict of everything."""
        values = self._read()
        if key is None:
            return {name: copied(value) for name, value in values.items() if value is not DELETED}
        value = values.get(key)
        return None if value is DELETED else copied(value)

    def set(self, key: str, value: Any) -> None:
        """Set a key. What a hook or a tool has set stays, whatever becomes of it."""
        _check(key, value)
        self._write(key, copied(value))

    def delete(self, key: str) -> None:
        """Take a key away; one that is not there is left alone."""
        _check(key, None)
        if self._read().get(key, DELETED) is not DELETED:
            self._write(key, DELETED)

    def replace(self, values: Mapping[str, Any]) -> None:
        """Have these values and no others. Nothing is changed if one of them is refused."""
        if not isinstance(values, Mapping):
            raise ValueError(f"the state of an agent is a dict of its keys, not {values!r:.200}")
        for key, value in values.items():
            _check(key, value)
        for key in [key for key in self._read() if key not in values]:
            self.delete(key)
        for key, value in values.items():
            self._write(key, copied(value))

    def __repr__(self) -> str:
        return f"AgentState({self.get()!r})"


def _check(key: Any, value: Any) -> None:
    if not isinstance(key, str) or not key.strip():
        raise ValueError(f"a key of the state of an agent is text that is not blank, not {key!r:.200}")
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"the value of {key!r} in the state of an agent cannot be written as JSON: {error}"
        ) from error
