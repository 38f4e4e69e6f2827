"""What has been read of a conversation, so that it is not read again for every answer.

A conversation grows by a message at a time, and a model is given all of it for every answer. So what has been read
before a message of the assistant is kept with that message, and the next reading goes on from there. It is looked
whether messages and blocks still are what they were, which takes a fifth of reading them: nodes may change messages in
place, and models what they were given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Final, NamedTuple

from graphkit_prebuilt.content import Message, SystemContentBlock
from graphkit_prebuilt.react.chat import ChatMessage
from graphkit_prebuilt.react.converse import converse_of, read_on
from graphkit_prebuilt.react.reading import DICTS, answered_by, is_said, role_of

_SHORT: Final = 16
"""Messages that are read as quickly as looked through."""
_LEAVES: Final = frozenset({str, int, float, bool, NoneType, bytes})


class Reading(NamedTuple):
    """A conversation in content blocks, and what the system messages in it say. `recent` are its last messages, down
    to the last one in which somebody said something."""

    said: list[Message]
    system: list[SystemContentBlock]
    recent: Sequence[Any]


@dataclass(slots=True, eq=False)
class Past:
    """What stands before a message of the assistant, but for the system messages at the beginning: copies of the
    messages, their blocks, and the same blocks once more. Nobody reads with it but who has taken it from its
    message."""

    messages: list[Any] = field(default_factory=list)
    said: list[Any] = field(default_factory=list)
    copies: list[Any] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)
    """The last of the messages in which somebody said something, if there is one."""

    def leads(self, messages: Sequence[Any], start: int) -> bool:
        """Whether these messages begin, from there on, with what has been read, and no model has changed that. What is
        equal counts as the same: 1, 1.0 and True in the arguments of a call."""
        read = self.messages
        return messages[start : start + len(read)] == read and self.said == self.copies

    def grow(self, messages: Sequence[Any], said: Sequence[Any]) -> None:
        """Take in more messages and their blocks. Raises `_Unknown` if they hold what can change unseen."""
        self.messages += list(map(_kept, messages))
        self.said += said
        read_on(messages, self.copies, [])
        self.asked = next(([message] for message in reversed(messages) if is_said(message)), self.asked)


def read(messages: Sequence[Any]) -> Reading:
    """`converse_of`, that goes on from what has been read for the last answer. What it returns may be changed."""
    messages = messages if type(messages) is list else list(messages)
    start = 0
    while start < len(messages) and role_of(messages[start]) == "system":
        start += 1
    system = converse_of(messages[:start])[1] if start else []
    past = _taken(messages)
    if past is not None and not past.leads(messages, start):
        past = None
    elif past is None and len(messages) > _SHORT and answered_by(messages[-1]):
        past = Past()  # there has been a call before this one, so there will perhaps be more
    if past is None:
        said: list[Any] = []
        read_on(messages[start:], said, system)
        return Reading(said, system, messages)
    start += len(past.messages)
    said = [*past.said]
    recent = messages[start:]
    last = read_on(recent, said, system)
    recent = [*past.asked, *recent]
    if last is not None:
        place, length = last
        answer = messages[start + place]
        if type(answer) is ChatMessage:
            try:
                past.grow(messages[start : start + place], said[len(past.said) : length])
            except _Unknown:
                pass
            else:
                answer.past = past
    return Reading(said, system, recent)


def _taken(messages: Sequence[Any]) -> Past | None:
    """The latest past that is kept with a message, which has it no longer."""
    for message in reversed(messages):
        if type(message) is ChatMessage and message.past is not None:
            past: Past | None = vars(message).pop("past", None)  # of several threads, one has it
            return past
    return None


class _Unknown(Exception):
    """A value of which a copy cannot be compared."""


def _kept(message: Any) -> dict[str, Any]:
    """A copy of a message, with copies of what its blocks are made of. What they hold as it is, as the arguments of a
    call, or have nothing of, is the same."""
    if type(message) not in DICTS:
        raise _Unknown
    kept = {**message}
    if type(content := kept.get("content")) is not str:
        kept["content"] = _copied(content)
    if calls := kept.get("tool_calls"):
        kept["tool_calls"] = [_copied(call) if "function" in call else {**call} for call in calls]
    return kept


def _copied(value: Any) -> Any:
    """A copy of nested lists and dicts, in which what cannot change is the same."""
    kind = type(value)
    if kind in _LEAVES:
        return value
    if kind is dict:
        return {key: part if type(part) in _LEAVES else _copied(part) for key, part in value.items()}
    if kind is list:
        return list(map(_copied, value))
    raise _Unknown
