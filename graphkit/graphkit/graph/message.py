"""Conversations: the reducer `add_messages` and the state built on it.

A message is whatever the user's model library says it is. This module needs one thing of it, an id,
and keeps everything else as given: a dict stays a dict, an object of another library stays that object.
Ids are what makes a list of messages editable: the same id again replaces, a `RemoveMessage` deletes.

A conversation grows by a message at a time and may be long. So the common case, new messages without an id
of their own, costs a shallow copy of the list and looks at nothing else: a fresh id collides with no
message. The ids are read only when a change names one, and their places only if it is there already. Whether
the old messages have ids is read off the first and the last of them, because every list that this reducer
returned has them throughout.
"""

from __future__ import annotations

import os
import sys
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Final, Literal, TypeGuard

from graphkit.errors import InvalidUpdateError
from graphkit.extensions import KNOWN, Extension
from graphkit_checkpoint.serde import register_type

if sys.version_info >= (3, 12):
    from typing import TypedDict
else:  # pydantic, and so a tool that asks for its state, refuses the one of typing
    from typing_extensions import TypedDict

__all__ = ["REMOVE_ALL_MESSAGES", "MessagesState", "RemoveMessage", "add_messages", "push_message"]

_id_of = attrgetter("id")

REMOVE_ALL_MESSAGES: Final = "__remove_all__"
"""`RemoveMessage(REMOVE_ALL_MESSAGES)`: delete every message before this one."""


@partial(register_type, name="graphkit:RemoveMessage")  # a write may be stored before it is applied
@dataclass(frozen=True, slots=True)
class RemoveMessage:
    """Delete the message with this `id`, or all of them: `REMOVE_ALL_MESSAGES`."""

    id: str

    type: ClassVar[str] = "remove"  # LangChain's RemoveMessage says it this way; it is honoured too


Format = Literal["langchain-openai"]


def add_messages(left: Any = None, right: Any = None, *, format: Format | None = None) -> Any:
    """Append the messages of `right` to those of `left`; an id that is there already replaces in place.

    Each side is a message or a list of them: a dict, a string (the user's), a pair `("user", "text")`, or
    any object with an attribute `id`. Returns a new list and changes neither argument; a message without
    an id is copied and given one. A `RemoveMessage` deletes; when a message of the same id follows it,
    that one takes the old place. Raises `InvalidUpdateError` (a `ValueError`) for a `RemoveMessage` that
    names no message, and for what is not a message.

    Called without messages it is the reducer with this `format`: `Annotated[list, add_messages(format=...)]`. With
    "langchain-openai" the result are LangChain's objects with contents as OpenAI's chat API has them. Raises
    `ValueError` for another format. Behaviour: LangGraph's `add_messages`.
    """
    if left is None and right is None:
        return partial(add_messages, format=format)
    if format is not None:
        return _formatted(add_messages(left, right), format)
    messages, changes = _listed(left), _listed(right)
    clearing = [place for place, change in enumerate(changes) if _clears(change)]
    if clearing:
        return _merged([], changes[clearing[-1] + 1 :])
    if messages and (_id(messages[0]) is None or _id(messages[-1]) is None):
        messages = [_identified(message) for message in messages]
    return _merged(messages, changes)


def _formatted(messages: list[Any], format: Format) -> list[Any]:
    if format != "langchain-openai":
        raise ValueError(f"format= is 'langchain-openai' or None, not {format!r}")
    from langchain_core.messages import convert_to_messages, convert_to_openai_messages

    return convert_to_messages(convert_to_openai_messages(messages, include_id=True))


def _appended(left: Any, right: Any) -> tuple[Any, Extension] | None:
    """`add_messages` where it does nothing but append."""
    changes = right if type(right) is list else _listed(right)
    if type(left) is not list or (left and (_id(left[0]) is None or _id(left[-1]) is None)):
        return None
    messages, known = [*left], None
    for change in changes:
        if _removes(change):
            return None
        message = _identified(change)
        if message is change:  # else its id is new
            if known is None:
                known = _ids(messages)
            change_id = _id(change)
            if change_id in known:
                return None
            known.add(change_id)
        messages.append(message)
    return messages, len(changes)


KNOWN[add_messages] = _appended


class MessagesState(TypedDict):
    """A state whose `messages` is a conversation. Derive from it to add keys."""

    messages: Annotated[list[Any], add_messages]


def new_id() -> str:
    """An id that no message has: 32 random hex digits."""
    return os.urandom(16).hex()


def _merged(messages: list[Any], changes: list[Any]) -> list[Any]:
    """Apply `changes` in order to `messages`, a list that belongs to the caller of this function alone."""
    known: set[Any] | None = None
    places: dict[Any, int] | None = None
    removed: set[Any] = set()
    for change in changes:
        removes = _removes(change)
        message = change if removes else _identified(change)
        if message is not change:  # its id is new, so there is nothing to replace
            messages.append(message)
            continue
        if known is None:
            known = _ids(messages)
        change_id = _id(change)
        if removes:
            removed.add(_checked(change_id, known))
        elif change_id in known:
            if places is None:
                places = {_id(message): place for place, message in enumerate(messages)}
            messages[places[change_id]] = change
            removed.discard(change_id)
        else:
            known.add(change_id)
            if places is not None:
                places[change_id] = len(messages)
            messages.append(change)
    if removed:
        return [message for message in messages if _id(message) not in removed]
    return messages


def _listed(value: Any) -> list[Any]:
    return [*value] if isinstance(value, list) else [value]


def _is_pair(message: Any) -> TypeGuard[tuple[str, Any]]:
    """Whether this is a role and a content: `("user", "text")`."""
    match message:
        case (str(), _):
            return isinstance(message, tuple)
        case _:
            return False


def _removes(change: Any) -> bool:
    return not isinstance(change, dict) and getattr(change, "type", None) == RemoveMessage.type


def _clears(change: Any) -> bool:
    return _removes(change) and change.id == REMOVE_ALL_MESSAGES


def _checked(message_id: Any, known: set[Any]) -> Any:
    if message_id not in known:
        raise InvalidUpdateError(
            f"RemoveMessage({message_id!r}): no message has this id. Remove messages by the ids in the state."
        )
    return message_id


def _id(message: Any) -> Any:
    return message.get("id") if isinstance(message, dict) else getattr(message, "id", None)


def _ids(messages: list[Any]) -> set[Any]:
    """The ids of these messages. Those of dicts, and those of objects, are read without a call of Python for each:
    there may be many."""
    try:
        return {*map(dict.get, messages, repeat("id"))}
    except TypeError:  # they are no dicts
        pass
    try:
        return {*map(_id_of, messages)}
    except AttributeError:  # some are
        return {_id(message) for message in messages}


def _identified(message: Any) -> Any:
    """The message itself if it has an id, else a copy of it that has one."""
    if isinstance(message, dict):
        return message if message.get("id") is not None else _dict_with_id(message)
    if isinstance(message, str):
        return {"role": "user", "content": message, "id": new_id()}
    if _is_pair(message):
        return {"role": message[0], "content": message[1], "id": new_id()}
    if not hasattr(message, "id"):
        raise InvalidUpdateError(
            f"add_messages was given {type(message).__name__}, which is no message: it takes dicts, strings, "
            '("role", "text") pairs and objects with an attribute `id`, alone or in a list.'
        )
    return message if message.id is not None else _copied_with_id(message)


def _dict_with_id(message: dict[str, Any]) -> dict[str, Any]:
    twin = {**message} if type(message) is dict else copy(message)
    twin["id"] = new_id()
    return twin


def _copied_with_id(message: Any) -> Any:
    if hasattr(message, "model_copy"):
        return message.model_copy(update={"id": new_id()})
    twin = copy(message)
    object.__setattr__(twin, "id", new_id())  # not setattr: a frozen dataclass would refuse it
    return twin


def push_message(message: Any, *, state_key: str | None = "messages") -> Any:
    """Show a message in stream mode "messages" while the node runs, and write it to `state_key` (None: to no key).
    Returns the message.

    It is written whatever the task comes to, before what the node returns. Raises `ValueError` for a message without
    an id, by which it is known again if the node runs again, `InvalidUpdateError` for a key that is no channel, and
    `RuntimeError` outside of a run.
    """
    from graphkit.frame import running

    frame = running("push_message()")
    if _id(message) is None:
        raise ValueError(
            f"push_message() needs a message with an id, by which it replaces itself, not {message!r:.200}"
        )
    frame.emit_message(message)
    if state_key is not None:
        frame.amend(state_key, message)
    return message
