"""`Messages`: the conversation as user code has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from operator import is_
from typing import Any, NamedTuple

from graphkit.errors import InvalidUpdateError
from graphkit_checkpoint.watched import WatchedList, copied, watched
from graphkit_prebuilt.content import Message
from graphkit_prebuilt.conversation import HEAD, NO_EDITS, WHOLE, at_rest, edit, edits_of, located, log_of
from graphkit_prebuilt.log import unfinished

__all__ = ["Messages"]


class Messages(WatchedList):
    """The conversation as user code has it: a list, and messages, that may be changed in any way.

    It holds copies: what is stored never changes by itself. `follow(values)` brings it up to date with the channels,
    `writes()` says what has to be written to them so that they hold what the list holds. A message that was not
    changed stays the same object. During a request, where it is looked at before and after each step, the copies tell
    when they are changed; at rest (`resting`) they are plain, and a turn whose calls have not all been answered is not
    shown.
    """

    def __init__(self, values: Mapping[str, Any] | None = None, *, resting: bool = False) -> None:
        super().__init__()
        self.resting = resting
        self._touched: set[bool] = set()  # not empty once something was changed
        self.tell = partial(self._touched.add, True)
        # Of each message that it was given or has written: where in the log it is (None: only in the head), as user
        # code has it, and as it is stored.
        self._places: Sequence[int | None] = ()
        self._shown: list[Message] = []
        self._stored: list[Message] = []
        self._log: list[Message] | None = None
        self._edits: Mapping[str, Any] = NO_EDITS
        self._taken = 0
        self._waits = False  # for the results of calls, at the end of the log
        self._written: list[Message] | None = None
        if values is not None:
            self.follow(values)

    @property
    def edited(self) -> bool:
        """Whether the list, or a message in it, is no longer what it was given or has written."""
        if self.is_untouched:
            return False
        shown = self._shown
        return len(self) != len(shown) or not all(map(is_, self, shown)) or shown != self._stored

    @property
    def is_untouched(self) -> bool:
        """Whether certainly nothing was changed in it, ever, without a look at the messages."""
        return not (self._touched or self.resting)

    @property
    def as_stored(self) -> list[Message]:
        """The messages as they are now, such that nobody changes them in place: those that are stored like this, and
        copies of the others."""
        if not self.edited:
            return list(self._stored)
        known = {id(shown): stored for shown, stored in zip(self._shown, self._stored, strict=True)}
        found: list[Message] = []
        for message in list(self):
            stored = known.get(id(message))
            found.append(stored if stored is not None and stored == message else copied(message))
        return found

    def follow(self, values: Mapping[str, Any]) -> None:
        """Show what these channels hold. Changes that were not written yet stay; what was said since comes after."""
        log, edits = log_of(values), edits_of(values)
        if log is self._log and edits is self._edits:
            return
        places, stored = located(values)
        taken = len(log)
        if self.resting:
            kept = at_rest(stored)
            taken -= len(stored) - len(kept)
            places, stored = places[: len(kept)], kept
        written, self._written = self._written, None
        if self.edited or (written is not None and stored[: len(written)] != written):
            # Not stored yet; or another task of the superstep has written its own: the next writes have both.
            self._keep(places, stored)
        else:
            self._show(places, stored)
        self._log, self._edits, self._taken = log, edits, taken
        self._waits = unfinished(log) is not None

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
        waits = self._waits
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
            self._written = self._stored
        return {key: write for key, write in (("messages", said), ("edits", changes)) if write}

    @property
    def as_it_is(self) -> tuple[list[Message], dict[str, Any]]:
        """What `go_back` goes back to: what it holds, and what it knows of that."""
        return list(self), dict(vars(self))

    def go_back(self, before: tuple[list[Message], dict[str, Any]]) -> None:
        """What was written since then was not stored, and is to be written again."""
        messages, known = before
        if self._log is not known["_log"] or self._edits is not known["_edits"]:  # it has followed since then
            self[:] = messages
        vars(self).update(known)

    def settle(self) -> None:
        """What it has written is stored: from now on the channels are right, whoever changes them."""
        self._written = None

    def _show(self, places: Sequence[int | None], stored: list[Message]) -> None:
        """Become these. A message that was there stays the same object."""
        before = self._stored
        only_more = len(before) <= len(stored) and all(map(is_, before, stored))
        if only_more:
            shown = [*self._shown, *map(self._copy, stored[len(before) :])]
        else:
            known = {id(each): mine for each, mine in zip(before, self._shown, strict=True)}
            for each, mine in zip(stored, self, strict=False):
                if mine == each:
                    known.setdefault(id(each), mine)
            shown = self._copies(stored, known)
        self._places, self._stored, self._shown = places, stored, shown
        list.__setitem__(self, slice(None), shown)

    def _copy(self, message: Message) -> Message:
        copy: Message = copied(message) if self.resting else watched(message, self.tell)
        return copy

    def _copies(self, stored: Iterable[Message], known: Mapping[int, Message]) -> list[Message]:
        return [known.get(id(each)) or self._copy(each) for each in stored]

    def _keep(self, places: Sequence[int | None], stored: list[Message]) -> None:
        """Stay as it is on top of these: only what was not changed here becomes what it is there, and what was said
        since comes after it."""
        stands = {place: each for place, each in zip(places, stored, strict=True) if place is not None}
        entries, known = self._entries, dict[int, Message]()
        for old in entries:
            new = stands.get(old.place) if old.place is not None else None
            if new is not None and (old.shown != old.stored or old.shown == new):
                known[id(new)] = old.shown
        shown = self._copies(stored, known)
        there = {place: each for place, each in zip(places, shown, strict=True) if place is not None}
        mine = {
            id(old.shown): there[old.place] for old in entries if old.place is not None and old.place in there
        }
        since = [each for place, each in there.items() if place >= self._taken]
        self[:] = [mine.get(id(message), message) for message in self] + since
        self._places, self._stored, self._shown = places, stored, shown

    @property
    def _entries(self) -> list[_Entry]:
        return list(map(_Entry, self._places, self._stored, self._shown))

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

    def _adopt(self, messages: list[Message], entries: Sequence[_Entry | None]) -> None:
        self._places = [None if entry is None else entry.place for entry in entries]
        self._stored = [
            entry.stored if entry is not None and entry.stored == message else copied(message)
            for message, entry in zip(messages, entries, strict=True)
        ]
        self._shown = messages


class _Entry(NamedTuple):
    """A message of a view: where in the log it is (None: only in the head), as stored, and as user code has it."""

    place: int | None
    stored: Message
    shown: Message


def _check(messages: Iterable[Any]) -> None:
    for message in messages:
        if not (isinstance(message, dict) and "role" in message and isinstance(message.get("content"), list)):
            raise InvalidUpdateError(
                f"agent.messages holds {message!r:.200}, which is no message: it needs 'role' and 'content', a list"
            )
