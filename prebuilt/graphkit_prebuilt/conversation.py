"""What an agent's conversation is: everything that was said, as later changes have left it.

Two channels make it. `messages` (a `Log`) holds what was said and is only appended to. `edits` (a `Keyed`) holds what
was changed afterwards, by key: `"7"` is what stands for message 7 of the log, `"7.2"` for its block 2, and `"head"`
is `{"parts", "first"}`, what stands for the first messages: from message `first` on the log is as it is, before that
come the parts, each a message or a range `[start, stop]` of the log. So a window that slides costs a few bytes, a
summary costs itself once, and a changed block costs that block (SEMANTICS 8: bytes stay linear).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final, NamedTuple, TypeAlias, cast

from graphkit.errors import InvalidUpdateError
from graphkit_prebuilt.content import Message
from graphkit_prebuilt.log import DELETED, unfinished

__all__ = ["Messages", "at_rest", "copied", "dangling", "edit", "last", "length", "view"]

HEAD: Final = "head"
_FIXED: Final = frozenset({str, int, bytes, type(None), bool, float})

WHOLE: Final[Mapping[str, Any]] = {"parts": [], "first": 0}
"""The head of a conversation that is its log."""


def view(values: Mapping[str, Any]) -> list[Message]:
    """The conversation in these channels: a new list of the messages as they are stored, not to be changed."""
    log, edits = _log(values), _edits(values)
    if not edits:
        return list(log)
    log, head = _changed(log, edits), edits.get(HEAD, WHOLE)
    seen: list[Message] = []
    for part in head["parts"]:
        seen += log[part[0] : part[1]] if isinstance(part, list) else [part]
    return seen + log[head["first"] :]


def length(values: Mapping[str, Any]) -> int:
    """How many messages `view` has."""
    log, head = _log(values), _edits(values).get(HEAD, WHOLE)
    parts = sum(part[1] - part[0] if isinstance(part, list) else 1 for part in head["parts"])
    return parts + max(0, len(log) - int(head["first"]))


def last(values: Mapping[str, Any]) -> Message:
    """The message at the end of the log, with what was changed in it since. The log must not be empty."""
    log, edits = _log(values), _edits(values)
    place = len(log) - 1
    if not edits:
        return log[place]
    message: dict[str, Any] = edits.get(str(place), log[place])
    content = [edits.get(f"{place}.{index}", block) for index, block in enumerate(message["content"])]
    return cast(Message, {**message, "content": content})


def dangling(message: Mapping[str, Any]) -> bool:
    """Whether a message calls tools, so that their results have to follow it."""
    return message["role"] == "assistant" and any("toolUse" in block for block in message["content"])


def at_rest(messages: Sequence[Message]) -> Sequence[Message]:
    """These messages without the turn at their end whose calls have not all been answered, if there is one."""
    if unfinished(messages) is None:
        return messages
    return messages[: -1 if messages[-1]["role"] == "assistant" else -2]


def copied(value: Any) -> Any:
    """A copy that shares nothing with the original that could be changed."""
    kind = type(value)
    if kind is dict:
        copy = value.copy()
        for key, one in value.items():
            if type(one) not in _FIXED:
                copy[key] = copied(one)
        return copy
    if kind is list:
        return [one if type(one) in _FIXED else copied(one) for one in value]
    return value if kind in _FIXED else deepcopy(value)


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


class Messages(list[Message]):
    """The conversation as user code has it: a list, and messages, that may be changed in any way.

    It holds copies: what is stored never changes by itself. `follow(values)` brings it up to date with the channels,
    `writes()` says what has to be written to them so that they hold what the list holds. A message that was not
    changed stays the same object. At rest (`resting`) a turn whose calls have not all been answered is not shown.
    """

    def __init__(self, values: Mapping[str, Any] | None = None, *, resting: bool = False) -> None:
        super().__init__()
        self.resting = resting
        self._entries: list[_Entry] = []
        self._log: list[Message] | None = None
        self._edits: Mapping[str, Any] = _NO_EDITS
        self._taken = 0
        self._written: list[Message] | None = None
        if values is not None:
            self.follow(values)

    @property
    def edited(self) -> bool:
        """Whether the list, or a message in it, is no longer what it was given or has written."""
        return len(self) != len(self._entries) or any(
            message is not entry.shown or message != entry.stored
            for message, entry in zip(self, self._entries, strict=True)
        )

    def follow(self, values: Mapping[str, Any]) -> None:
        """Show what these channels hold. Changes that were not written yet stay; what was said since comes after."""
        log, edits = _log(values), _edits(values)
        if log is self._log and edits is self._edits:
            return
        found = _seen(values)
        taken = len(log)
        if self.resting:
            kept = at_rest([stored for _, stored in found])
            taken -= len(found) - len(kept)
            found = found[: len(kept)]
        written, self._written = self._written, None
        if self.edited or (
            written is not None and [stored for _, stored in found[: len(written)]] != written
        ):
            # Not stored yet; or another task of the superstep has written its own: the next writes have both.
            self._keep(found)
        else:
            known = {id(entry.stored): entry.shown for entry in self._entries}
            for (_, stored), mine in zip(found, self, strict=False):
                if mine == stored:
                    known.setdefault(id(stored), mine)
            self._entries = _shown(found, known)
            self[:] = [entry.shown for entry in self._entries]
        self._log, self._edits, self._taken = log, edits, taken

    def writes(self, *, new_turn: bool = False) -> dict[str, Any]:
        """What to write to which channel (`messages` to append, `edits`), and from then on as if it were stored; `{}`
        if nothing was changed. One task of a superstep may do so.

        With `new_turn` a prompt comes after it: an unfinished turn that the list does not show is left, and shown no
        more. Raises `InvalidUpdateError` for what is no message.
        """
        if not self.edited:
            return {}
        mine = list(self)  # tools that run side by side may change it
        _check(mine)
        places = self._placed(mine)
        log, old = self._log or [], self._edits.get(HEAD, WHOLE)
        waits = unfinished(log) is not None
        left = old["first"] > len(log)  # the unfinished turn, before this
        shown = len(mine)
        if not waits or new_turn or left:  # else what comes next in the log are the results that it waits for
            while shown and places[shown - 1] is None:
                shown -= 1
        changes: dict[str, Any] = {}
        parts: list[Any] = []
        for message, entry in zip(mine[:shown], places, strict=False):
            if entry is None or entry.place is None:
                parts.append(copied(message))
                continue
            if message != entry.stored:
                changes |= edit(entry.place, entry.stored, message, self._edits)
            if parts and isinstance(parts[-1], list) and parts[-1][1] == entry.place:
                parts[-1][1] += 1
            else:
                parts.append([entry.place, entry.place + 1])
        first = self._taken
        if left:
            first = old["first"]
        elif new_turn and waits and first < len(log):
            first += 2  # past the calls and their results, which come now
        elif parts and isinstance(parts[-1], list) and parts[-1][1] == first:
            first = parts.pop()[0]
        if (head := {"parts": parts, "first": first}) != old:
            changes[HEAD] = head
        said = [copied(message) for message in mine[shown:]]
        self._adopt(mine, places)
        if not said and not self.resting:
            self._written = [entry.stored for entry in self._entries]
        return {key: write for key, write in (("messages", said), ("edits", changes)) if write}

    def _keep(self, found: Sequence[_Seen]) -> None:
        """Stay as it is on top of these: only what was not changed here becomes what it is there, and what was said
        since comes after it."""
        stands = {place: stored for place, stored in found if place is not None}
        known: dict[int, Message] = {}
        for old in self._entries:
            new = stands.get(old.place) if old.place is not None else None
            if new is not None and (old.shown != old.stored or old.shown == new):
                known[id(new)] = old.shown
        entries = _shown(found, known)
        there = {entry.place: entry for entry in entries if entry.place is not None}
        shown = {
            id(old.shown): there[old.place].shown
            for old in self._entries
            if old.place is not None and old.place in there
        }
        since = [entry.shown for place, entry in there.items() if place is not None and place >= self._taken]
        self[:] = [shown.get(id(message), message) for message in self] + since
        self._entries = entries

    def _placed(self, messages: Sequence[Message]) -> list[_Entry | None]:
        """Of each message, which one it was: the same object, or else one that is equal, at the same distance from
        the beginning or the end."""
        entries = self._entries
        known = {id(entry.shown): entry for entry in entries}
        found: list[_Entry | None] = [known.pop(id(message), None) for message in messages]
        for indexes in (range(len(messages)), range(-1, -len(messages) - 1, -1)):
            for index in indexes:
                if not -len(entries) <= index < len(entries):
                    break
                if found[index] is entries[index]:
                    continue
                if found[index] is not None or id(entries[index].shown) not in known:
                    break
                if messages[index] != entries[index].stored:
                    break
                found[index] = known.pop(id(entries[index].shown))
        return found

    def _adopt(self, messages: Sequence[Message], places: Sequence[_Entry | None]) -> None:
        self._entries = [
            _Entry(
                None if entry is None else entry.place,
                entry.stored if entry is not None and entry.stored == message else copied(message),
                message,
            )
            for message, entry in zip(messages, places, strict=True)
        ]


_Seen: TypeAlias = tuple[int | None, Message]
"""A message of a view as stored, and where in the log it is (None: only in the head)."""


class _Entry(NamedTuple):
    """A message of a view: where in the log it is (None: only in the head), as stored, and as user code has it."""

    place: int | None
    stored: Message
    shown: Message


_NOTHING: Final[list[Message]] = []
_NO_EDITS: Final[dict[str, Any]] = {}


def _log(values: Mapping[str, Any]) -> list[Message]:
    return values.get("messages") or _NOTHING


def _edits(values: Mapping[str, Any]) -> Mapping[str, Any]:
    return values.get("edits") or _NO_EDITS


def _seen(values: Mapping[str, Any]) -> list[_Seen]:
    edits = _edits(values)
    places: list[_Seen] = list(enumerate(_changed(_log(values), edits)))
    if HEAD not in edits:
        return places
    found: list[_Seen] = []
    for part in edits[HEAD]["parts"]:
        found += places[part[0] : part[1]] if isinstance(part, list) else [(None, part)]
    return found + places[edits[HEAD]["first"] :]


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


def _shown(found: Iterable[_Seen], known: Mapping[int, Message]) -> list[_Entry]:
    return [_Entry(place, stored, known.get(id(stored)) or copied(stored)) for place, stored in found]


def _check(messages: Iterable[Any]) -> None:
    for message in messages:
        if not (isinstance(message, dict) and "role" in message and isinstance(message.get("content"), list)):
            raise InvalidUpdateError(
                f"agent.messages holds {message!r:.200}, which is no message: it needs 'role' and 'content', a list"
            )
