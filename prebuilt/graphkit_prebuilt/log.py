"""The channels of an agent: `Log`, the append-only list of what was said, and `Keyed`, values by key.

Both say what an update added, so that a saver stores only that: the bytes of a conversation grow with what is said,
however long it is already (SEMANTICS 8).

`Log` keeps one invariant: the result of every call of a tool is in the message that follows the call, in the order of
the calls. The only calls without results are those at the very end: the turn that is going on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final, Literal, NamedTuple

from graphkit.channels import MISSING, BaseChannel
from graphkit.errors import InvalidUpdateError
from graphkit.extensions import Extension
from graphkit.types import Overwrite
from graphkit_checkpoint.serde import register_type
from graphkit_prebuilt.content import Message, ToolResult, tool_result

__all__ = ["DELETED", "UNFINISHED", "Keyed", "Log", "answered", "unfinished"]

UNFINISHED: Final = "The call was not completed."
"""What a model is told of a call whose turn was left before it had a result."""


class _Deleted(Enum):
    """Written in place of a value, it takes the key away. A write may be stored before it is applied."""

    DELETED = "deleted"


register_type(_Deleted, name="graphkit:Deleted")
DELETED: Final = _Deleted.DELETED


def answered(call: str, result: ToolResult | Mapping[str, Any]) -> dict[str, Any]:
    """The write of the result of one call to a `Log`: `call` is the `toolUseId` that the log has for it, which the
    result need not have, if a hook has given the call another one."""
    return {"toolResult": result} if result["toolUseId"] == call else {"toolResult": result, "call": call}


class Log(BaseChannel[list[Message]]):
    """What was said, in the order in which it was: a list that is only appended to.

    A write is a list of messages, or one block `{"toolResult": …}` (see `answered`). The blocks of one superstep become
    one user message, in the order of the calls they answer. Messages close a batch of calls that has results for only
    some of them, or for none: the others get error results. A write of no messages at all (`[]`) does so too.
    `Overwrite(messages)` replaces everything. Raises `InvalidUpdateError` for anything else, and for a result that no
    call waits for.
    """

    transient = False

    def __init__(self, typ: Any = list, key: str = "messages") -> None:
        self.typ = typ
        self.key = key
        self.value: list[Message] = []
        self._extension: Extension | None = None

    @property
    def extension(self) -> Extension | None:
        return self._extension

    def update(self, values: Sequence[Any]) -> bool:
        if not values:
            return False
        self._extension = None
        results: list[dict[str, Any]] = []
        said: list[Message] = []
        closes = False
        for write in values:
            if type(write) is dict and "toolResult" in write:
                results.append(write)
            elif type(write) is Overwrite:
                self.value = _checked(write.value, self.key)
                return True
            else:
                said += _checked(write, self.key)
                closes = True
        addition = _addition(self.value, results, said, closes, self.key)
        if not addition.messages:
            return False
        kept = self.value[: -addition.replaced] if addition.replaced else self.value
        self.value = kept + addition.messages
        if not addition.replaced and not addition.merged:
            self._extension = len(addition.messages)
        return True

    def get(self) -> list[Message]:
        return self.value

    def is_available(self) -> bool:
        return True

    def checkpoint(self) -> Any:
        return self.value or MISSING

    def from_checkpoint(self, checkpoint: Any) -> Log:
        channel = Log(self.typ, self.key)
        if checkpoint is not MISSING:
            channel.value = checkpoint
        return channel


class Batch(NamedTuple):
    """The calls of an assistant's message that wait for results: their ids, in order, and the content of the
    message after it, if some have theirs already."""

    calls: tuple[str, ...]
    given: tuple[Any, ...] = ()


def unfinished(messages: Sequence[Message]) -> Batch | None:
    """The batch at the end of these messages, if it waits for results."""
    if not messages:
        return None
    last = messages[-1]
    if last["role"] == "assistant":
        calls = _calls(last)
        return Batch(calls) if calls else None
    if len(messages) > 1 and (given := _results(last)):
        calls = _calls(messages[-2])
        if len(given) < len(calls):
            return Batch(calls, tuple(last["content"]))
    return None


class _Addition(NamedTuple):
    """Messages to append when `replaced` old ones are gone; `merged`: one that was written has become another."""

    messages: list[Message]
    replaced: Literal[0, 1] = 0
    merged: bool = False


def _addition(
    old: Sequence[Message], results: Sequence[dict[str, Any]], said: list[Message], closes: bool, key: str
) -> _Addition:
    batch = unfinished(old)
    if batch is None:
        if results:
            raise _unasked(results[0], key)
        if len(said) < 2 or not any(map(_calls, said[:-1])):
            return _Addition(said)
    elif not said and not closes and not batch.given and [*map(_call_of, results)] == [*batch.calls]:
        return _Addition(
            [{"role": "user", "content": [{"toolResult": one["toolResult"]} for one in results]}]
        )
    added: list[Message] = []
    merged = False
    if batch is not None and results:
        batch = batch._replace(given=_with(batch, results, key))
    replaced: Literal[0, 1] = 1 if batch is not None and old[-1]["role"] == "user" else 0
    if batch is not None and not closes:
        return _Addition([_message(batch, fill=False)], replaced)
    for message in said:
        if batch is not None:
            if not batch.given and _results(message):
                closed = _message(batch._replace(given=tuple(message["content"])), fill=True)
                merged = merged or closed["content"] != message["content"]
                message = {**message, "content": closed["content"]}
            else:
                added.append(_message(batch, fill=True))
        added.append(message)
        calls = _calls(message)
        batch = Batch(calls) if calls else None
    if batch is not None and not said:
        added.append(_message(batch, fill=True))
    return _Addition(added, replaced, merged)


def _with(batch: Batch, results: Sequence[dict[str, Any]], key: str) -> tuple[Any, ...]:
    """What the message after the calls holds with these results. Their order is made right by `_message`."""
    for write in results:
        if _call_of(write) not in batch.calls:
            raise _unasked(write, key)
    return (*batch.given, *results)


def _call_of(result: Mapping[str, Any]) -> Any:
    """The id of the call that this is the result of."""
    return result["call"] if "call" in result else result["toolResult"]["toolUseId"]


def _message(batch: Batch, fill: bool) -> Message:
    """The message of the results, in the order of the calls; what is no result comes after them."""
    places = {call: place for place, call in enumerate(batch.calls)}
    slots: dict[int, Any] = {}
    strangers: list[Any] = []  # results with ids that no call has, in a message that was written as a whole
    others: list[Any] = []
    for block in batch.given:
        if "toolResult" not in block:
            others.append(block)
            continue
        place = places.get(block.get("call", block["toolResult"].get("toolUseId")))
        if place is None or place in slots:
            strangers.append(block)
        else:
            slots[place] = block
    free = [place for place in range(len(batch.calls)) if place not in slots]
    slots.update(zip(free, strangers, strict=False))
    if fill:
        for place in free[len(strangers) :]:
            slots[place] = {"toolResult": tool_result(batch.calls[place], "error", UNFINISHED)}
    found = [slots[place] for place in sorted(slots)]
    if len(found) == len(batch.calls):  # complete: nobody asks any more which call a result is of
        found = [{"toolResult": block["toolResult"]} for block in found]
    return {"role": "user", "content": [*found, *strangers[len(free) :], *others]}


def _calls(message: Message) -> tuple[str, ...]:
    if message["role"] != "assistant":
        return ()
    return tuple([block["toolUse"]["toolUseId"] for block in message["content"] if "toolUse" in block])


def _results(message: Message) -> list[Any]:
    return (
        [block for block in message["content"] if "toolResult" in block] if message["role"] == "user" else []
    )


def _checked(written: Any, key: str) -> list[Message]:
    if not isinstance(written, list):
        raise InvalidUpdateError(
            f"channel {key!r} takes a list of messages or one {{'toolResult': …}} block, not {written!r:.200}"
        )
    for message in written:
        if not (isinstance(message, dict) and "role" in message and isinstance(message.get("content"), list)):
            raise InvalidUpdateError(
                f"channel {key!r} was given {message!r:.200}, which is no message: that has a 'role', and a 'content' "
                f"that is a list"
            )
    return written


def _unasked(write: Mapping[str, Any], key: str) -> InvalidUpdateError:
    call = write.get("call", write["toolResult"].get("toolUseId"))
    return InvalidUpdateError(
        f"channel {key!r} was given the result of call {call!r}, which nothing waits for"
    )


class Keyed(BaseChannel[dict[str, Any]]):
    """Values by key. A write is a dict of keys to set, or to take away: `{key: DELETED}`.

    Of several writes of one key the last stays. `Overwrite(values)` replaces everything. Raises
    `InvalidUpdateError` for what is no dict.
    """

    transient = False

    def __init__(self, typ: Any = dict, key: str = "") -> None:
        self.typ = typ
        self.key = key
        self.value: dict[str, Any] = {}
        self._extension: Extension | None = None

    @property
    def extension(self) -> Extension | None:
        return self._extension

    def update(self, values: Sequence[Any]) -> bool:
        before, value = self.value, dict(self.value)
        keys: dict[str, None] = {}
        whole = False
        for write in values:
            if type(write) is Overwrite:
                write, whole = write.value, True
                value = {}
            if not isinstance(write, dict):
                raise InvalidUpdateError(f"channel {self.key!r} takes a dict of its keys, not {write!r:.200}")
            for key, one in write.items():
                if one is not DELETED:
                    value[key] = one
                    keys[key] = None
                elif key in value:
                    del value[key]
                    whole = True
        if not keys and not whole:
            return False
        self.value = value
        # Taking away is no extension; a key that was taken away and set again has lost its place.
        self._extension = None if whole and before else tuple(key for key in keys if key in value)
        return True

    def get(self) -> dict[str, Any]:
        return self.value

    def is_available(self) -> bool:
        return bool(self.value)

    def checkpoint(self) -> Any:
        return self.value or MISSING

    def from_checkpoint(self, checkpoint: Any) -> Keyed:
        channel = Keyed(self.typ, self.key)
        if checkpoint is not MISSING:
            channel.value = checkpoint
        return channel
