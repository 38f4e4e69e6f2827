"""What an agent's conversation is: everything that was said, as later changes have left it.

Two channels make it. `messages` (a `Log`) holds what was said and is only appended to. `edits` (a `Keyed`) holds what
was changed afterwards, by key: `"7"` is what stands for message 7 of the log, `"7.2"` for its block 2, and `"head"`
is `{"parts", "first"}`, what stands for the first messages: from message `first` on the log is as it is, before that
come the parts, each a message or a range `[start, stop]` of the log. So a window that slides costs a few bytes, a
summary costs itself once, and a changed block costs that block (SEMANTICS 8: bytes stay linear).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from graphkit_checkpoint.watched import copied
from graphkit_prebuilt.content import Message
from graphkit_prebuilt.log import DELETED, unfinished

__all__ = [
    "HEAD",
    "NO_EDITS",
    "WHOLE",
    "at_rest",
    "copied",
    "dangling",
    "edit",
    "edits_of",
    "last",
    "length",
    "located",
    "log_of",
    "view",
]

HEAD: Final = "head"

WHOLE: Final[Mapping[str, Any]] = {"parts": [], "first": 0}
"""The head of a conversation that is its log."""


def view(values: Mapping[str, Any]) -> list[Message]:
    """The conversation in these channels: a new list of the messages as they are stored, not to be changed."""
    return list(located(values)[1])


def length(values: Mapping[str, Any]) -> int:
    """How many messages `view` has."""
    log, head = log_of(values), edits_of(values).get(HEAD, WHOLE)
    parts = sum(part[1] - part[0] if isinstance(part, list) else 1 for part in head["parts"])
    return parts + max(0, len(log) - int(head["first"]))


def last(values: Mapping[str, Any]) -> Message:
    """The message at the end of the log, with what was changed in it since. The log must not be empty."""
    log, edits = log_of(values), edits_of(values)
    place = len(log) - 1
    if not edits:
        return log[place]
    message: dict[str, Any] = edits.get(str(place), log[place])
    content = [edits.get(f"{place}.{index}", block) for index, block in enumerate(message["content"])]
    return cast(Message, {**message, "content": content})


def dangling(message: Mapping[str, Any]) -> bool:
    """Whether a message calls tools, so that their results have to follow it."""
    return message["role"] == "assistant" and any("toolUse" in block for block in message["content"])


def at_rest(messages: list[Message]) -> list[Message]:
    """These messages without the turn at their end whose calls have not all been answered, if there is one."""
    if unfinished(messages) is None:
        return messages
    return messages[: -1 if messages[-1]["role"] == "assistant" else -2]


def edit(
    place: int, before: Mapping[str, Any], after: Mapping[str, Any], edits: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The write to `edits` that makes message `place` of the log, seen as `before` until now, `after`. `edits` are
    those that are stored. `{}` if nothing has changed; `after` is copied."""
    old, new = before["content"], after["content"]
    others = [{key: one for key, one in message.items() if key != "content"} for message in (before, after)]
    if others[0] == others[1] and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return {f"{place}.{index}": copied(block) for index, (was, block) in pairs if was != block}
    outdated = [key for key in edits or () if key.startswith(f"{place}.")]
    return {**dict.fromkeys(outdated, DELETED), str(place): copied(after)}


_NOTHING: Final[list[Message]] = []
NO_EDITS: Final[dict[str, Any]] = {}


def log_of(values: Mapping[str, Any]) -> list[Message]:
    return values.get("messages") or _NOTHING


def edits_of(values: Mapping[str, Any]) -> Mapping[str, Any]:
    return values.get("edits") or NO_EDITS


def located(values: Mapping[str, Any]) -> tuple[Sequence[int | None], list[Message]]:
    """Where the messages of the view are in the log (None: only in the head), and the messages as they are stored."""
    edits = edits_of(values)
    log = _changed(log_of(values), edits)
    if HEAD not in edits:
        return range(len(log)), log
    places: list[int | None] = []
    stored: list[Message] = []
    for part in edits[HEAD]["parts"]:
        if isinstance(part, list):
            places += range(part[0], part[1])
            stored += log[part[0] : part[1]]
        else:
            places.append(None)
            stored.append(part)
    first = edits[HEAD]["first"]
    places += range(first, len(log))
    return places, stored + log[first:]


def _changed(log: list[Message], edits: Mapping[str, Any]) -> list[Message]:
    """The log with the messages and blocks that were changed."""
    if not edits or (len(edits) == 1 and HEAD in edits):
        return log
    changed = list(log)
    blocks: list[tuple[int, int, Any]] = []
    for key, value in edits.items():
        if key == HEAD:
            continue
        place, _, block = key.partition(".")
        if block:
            blocks.append((int(place), int(block), value))
        else:
            changed[int(place)] = value
    content: dict[int, list[Any]] = {}
    for index, block_index, value in blocks:
        if index not in content:
            content[index] = list(changed[index]["content"])
            changed[index] = {**changed[index], "content": content[index]}
        content[index][block_index] = value
    return changed
