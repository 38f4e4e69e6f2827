"""Stream mode "messages": what nodes say, token by token, and their complete messages once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from graphkit.constants import TAG_NOSTREAM
from graphkit.engine.events import MessageChunk, TaskEnded, TaskStarted
from graphkit.shapes import origin, returned

Said = tuple[Any, dict[str, Any]]
"""A message, or a part of one, and where it comes from."""


class Messages:
    """The messages of a run that have been shown.

    Each is shown as it was streamed, or when a task returns it complete, whichever comes first; one that the task
    was given is not shown. Messages are told apart by their ids: one without is shown whenever it is returned.
    """

    def __init__(self) -> None:
        self._shown: set[str] = set()
        self._given: dict[str, Any] = {}

    def written(self, event: MessageChunk) -> Said | None:
        """What a node has written to its message writer."""
        metadata = {**origin(event.about), **event.metadata}
        if TAG_NOSTREAM in metadata.get("tags", ()):
            return None
        named = _id(event.chunk)
        if named is not None:
            self._shown.add(named)
        return event.chunk, metadata

    def started(self, event: TaskStarted) -> None:
        self._given[event.about.id] = event.input

    def returned(self, event: TaskEnded) -> Iterator[Said]:
        """The complete messages in what a task returned."""
        given, known = self._given.pop(event.about.id, None), None
        for message in _found(value for _, value in returned(event)):
            named = _id(message)
            if named is not None:
                if known is None:
                    known = {_id(old) for old in _found(_values_of(given))}
                if named in self._shown or named in known:
                    continue
                self._shown.add(named)
            yield message, origin(event.about)


def _found(values: Iterator[Any]) -> Iterator[Any]:
    """The messages among some values and the items of lists among them."""
    for value in values:
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if _is_message(item):
                yield item


def _values_of(state: Any) -> Iterator[Any]:
    values = state if isinstance(state, Mapping) else getattr(state, "__dict__", {})
    return iter(values.values())


def _is_message(value: Any) -> bool:
    """A dict with a role and content, or an object of a message library: one with an id and content."""
    if isinstance(value, dict):
        return "content" in value and ("role" in value or "type" in value)
    return hasattr(value, "id") and hasattr(value, "content") and getattr(value, "type", "") != "remove"


def _id(message: Any) -> str | None:
    found = message.get("id") if isinstance(message, dict) else getattr(message, "id", None)
    return found if isinstance(found, str) else None
