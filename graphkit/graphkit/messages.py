"""Stream mode "messages": what nodes say, token by token, and their complete messages once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from graphkit.constants import TAG_NOSTREAM
from graphkit.engine.about import About
from graphkit.engine.events import MessageChunk, TaskEnded, TaskStarted
from graphkit.engine.identity import below
from graphkit.shapes import origin, returned

Said = tuple[Any, dict[str, Any]]
"""A message, or a part of one, and where it comes from."""


class Messages:
    """The messages of a run that have been shown.

    Each is shown as it was streamed, or when a task returns it complete, whichever comes first; one that the task
    was given is not shown. Messages are told apart by their ids. One without is shown whenever it is returned, unless
    it says what the task has streamed part by part (dicts of one id whose contents are lists of blocks), or what was
    shown of a graph inside the task.
    """

    def __init__(self) -> None:
        self._shown: set[str] = set()
        self._given: dict[str, Any] = {}
        self._parts: dict[str, dict[str, list[Any]]] = {}
        self._inside: dict[str, list[Any]] = {}  # by namespace, the contents of messages without an id

    def written(self, event: MessageChunk) -> Said | None:
        """What a node has written to its message writer."""
        metadata = {**origin(event.about), **event.metadata}
        if TAG_NOSTREAM in metadata.get("tags", ()):
            return None
        named = _id(event.chunk)
        if named is not None:
            self._shown.add(named)
            if isinstance(event.chunk, dict) and isinstance(event.chunk.get("content"), list):
                said = self._parts.setdefault(event.about.id, {})
                said[named] = _joined(said.get(named, []), event.chunk["content"])
        return event.chunk, metadata

    def started(self, event: TaskStarted) -> None:
        self._given[event.about.id] = event.input
        self._parts.pop(event.about.id, None)  # what a failed attempt has said was another message

    def returned(self, event: TaskEnded) -> Iterator[Said]:
        """The complete messages in what a task returned."""
        given, known = self._given.pop(event.about.id, None), None
        said = [*self._parts.pop(event.about.id, {}).values()] if self._parts else []
        said += self._said_inside(event.about) if self._inside else []
        for message in _found(value for _, value in returned(event)):
            named = _id(message)
            if named is not None:
                if known is None:
                    known = {_id(old) for old in _found(_values_of(given))}
                if named in self._shown or named in known:
                    continue
                self._shown.add(named)
            elif isinstance(message, dict):
                if event.about.namespace:
                    self._inside.setdefault(event.about.namespace, []).append(message["content"])
                if message["content"] in said:
                    continue
            yield message, origin(event.about)

    def _said_inside(self, about: About) -> list[Any]:
        """The contents of the messages without an id that were shown of graphs inside a task, which has ended."""
        base = below(about.namespace, about.name, about.id)
        found = [
            namespace for namespace in self._inside if namespace == base or namespace.startswith(f"{base}:")
        ]
        return [content for namespace in found for content in self._inside.pop(namespace)]


def _joined(blocks: list[Any], more: list[Any]) -> list[Any]:
    """The blocks with more at their end; a text goes on with the next one."""
    for block in more:
        if blocks and _is_text(blocks[-1]) and _is_text(block):
            blocks = [*blocks[:-1], {"text": blocks[-1]["text"] + block["text"]}]
        else:
            blocks = [*blocks, block]
    return blocks


def _is_text(block: Any) -> bool:
    return isinstance(block, dict) and [*block] == ["text"] and isinstance(block["text"], str)


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
