"""`Sent`: a conversation as models are sent it, made once."""

from __future__ import annotations

from functools import partial
from itertools import islice
from operator import is_
from threading import Lock
from typing import Final

from graphkit_checkpoint.watched import watched
from graphkit_prebuilt.content import ContentBlock, Message

__all__ = ["WORDLESS", "Sent", "as_sent"]

WORDLESS: Final = "(no answer)"
"""What a model is told of an answer without a word."""


class Sent:
    """What models were sent of a conversation: the next call of one is sent most of it again, so that it costs what
    was said since.

    A model may do with it what it likes: these are copies, and what one has changed is copied anew for the next call.
    """

    __slots__ = ("_changed", "_known", "_lock", "_said")

    def __init__(self) -> None:
        self._known: list[Message] = []
        self._said: list[Message] = []
        self._changed: set[int] = set()
        self._lock = Lock()

    def of(self, messages: list[Message]) -> list[Message]:
        """These messages as a model sees them, in a list of its own. They are known again by their identity, so they
        must be such that nobody changes them in place."""
        with self._lock:
            known, said = self._known, self._said
            kept: dict[int, Message] = {}
            if self._changed or len(known) > len(messages) or not all(map(is_, known, messages)):
                kept = {id(message): copy for message, copy in zip(known, said, strict=True)}
                for changed in [*self._changed]:
                    kept.pop(changed, None)
                self._changed.clear()
                known, said = self._known, self._said = list[Message](), list[Message]()
            for message in islice(messages, len(known), None):
                said.append(kept.get(id(message)) or self._copy(message))
                known.append(message)
            return list(said)

    def _copy(self, message: Message) -> Message:
        copy: Message = watched(as_sent(message), partial(self._changed.add, id(message)))
        return copy


def as_sent(message: Message) -> Message:
    """What a model sees of a message: role and content, since what else we keep with it is not for a provider; and no
    texts of the assistant without a word, which providers refuse."""
    role, content = message["role"], message["content"]
    return {"role": role, "content": _worded(content) if role == "assistant" else content}


def _worded(content: list[ContentBlock]) -> list[ContentBlock]:
    """An answer without its texts without a word."""
    for block in content:
        if "text" in block and not block["text"].strip():
            return [each for each in content if each.get("text", "-").strip()] or [{"text": WORDLESS}]
    return content or [{"text": WORDLESS}]
