"""Where a conversation may be cut, so that no result of a tool is left without its call."""

from __future__ import annotations

from collections.abc import Sequence

from graphkit_prebuilt.content import Message


def has_calls(message: Message) -> bool:
    return any("toolUse" in block for block in message["content"])


def has_results(message: Message) -> bool:
    return any("toolResult" in block for block in message["content"])


def is_pair(messages: Sequence[Message], index: int) -> bool:
    """Whether calls of tools and their results stand at this index and the next."""
    return index + 1 < len(messages) and has_calls(messages[index]) and has_results(messages[index + 1])


def first_kept(messages: Sequence[Message], start: int) -> int | None:
    """The first index from `start` on at which a conversation may begin: with what a user has said, or else, if
    nothing like that follows, with calls and their results. None if there is no such place."""
    for index in range(start, len(messages)):
        if messages[index]["role"] == "user" and not has_results(messages[index]):
            return index
    return next((index for index in range(start, len(messages)) if is_pair(messages, index)), None)


def first_after_summary(messages: Sequence[Message], start: int) -> int | None:
    """The first index from `start` on that may follow a message of the user: anything but results, and but calls
    without results, unless they are the last thing that was said."""
    for index in range(start, len(messages)):
        orphaned = has_calls(messages[index]) and index + 1 < len(messages) and not is_pair(messages, index)
        if not has_results(messages[index]) and not orphaned:
            return index
    return None


def pinned(messages: Sequence[Message], count: int | None) -> int:
    """How many messages at the beginning stay when the first `count` must: calls stay with their results."""
    stays = min(count or 0, len(messages))
    return stays + 1 if stays and is_pair(messages, stays - 1) else stays
