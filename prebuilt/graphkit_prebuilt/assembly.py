"""The message that a model's chunks make."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from graphkit.errors import ModelStreamError
from graphkit_prebuilt.content import ContentBlock, Message
from graphkit_prebuilt.streaming import Metrics, StopReason, Usage


class _Block:
    """A block that is being streamed; `slot` is its place in the message. What most blocks do not have is a default of
    the class."""

    kind: str | None = None
    name: str | None = None
    id: str | None = None
    input: Any = None
    signature: str | None = None
    citations: list[Any] | None = None

    def __init__(self, index: Any, slot: int) -> None:
        self.index = index
        self.slot = slot
        self.pieces: list[Any] = []


class Assembly:
    """Makes one message of a model's chunks. Feed it every chunk, then call `finish()`; then read the attributes.

    Blocks stand in the order in which they began; those without any content are left out. What a provider leaves
    out is inferred: the start of a block from its first piece, its end from the next block or the end of the
    message, the id of a call (made here; also for a second call with the same id). The input of a call is what its
    text means as JSON, `{}` for no text, and the text itself if it is no JSON. The stop reason "tool_use" holds
    if and only if there are calls and the model meant to end its turn or to call.

    Everything that is no chunk, and a call without the name of a tool, is a `ModelStreamError`. Keys that are
    not known are passed over.
    """

    __slots__ = (
        "_blocks",
        "_content",
        "_current",
        "_ids",
        "_stopped",
        "metrics",
        "stop_reason",
        "taken_back",
        "usage",
    )

    def __init__(self) -> None:
        self.stop_reason: StopReason | str = "end_turn"
        self.usage: Usage = {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}
        self.metrics: Metrics = {"latencyMs": 0}
        self.taken_back: str | None = None
        """What is to stand in the place of what the model was asked, if a guardrail has taken that back."""
        self._content: list[Any] = []
        self._blocks: dict[Any, _Block] = {}  # the open ones, by index
        self._current: _Block | None = None  # the last one that was spoken of, if it is open
        self._ids: set[str] = set()
        self._stopped = False

    @property
    def message(self) -> Message:
        """The message so far: its complete blocks."""
        return {"role": "assistant", "content": [block for block in self._content if block is not None]}

    def feed(self, chunk: Any) -> ContentBlock | None:
        """Take the next chunk; returns the block that this chunk completes, if it does."""
        if not isinstance(chunk, dict):
            raise ModelStreamError(
                f"the model streamed {_shown(chunk)}, which is no chunk: a chunk is a dict"
            )
        try:
            if len(chunk) == 1:
                ((kind, event),) = chunk.items()
                take = _TAKE.get(kind)
                return None if take is None or event is None else take(self, event)
            for kind, take in _TAKE.items():
                if (event := chunk.get(kind)) is not None:
                    return take(self, event)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ModelStreamError(
                f"the model streamed {_shown(chunk)}, which is malformed: {type(error).__name__}: {error}"
            ) from error
        return None

    def finish(self) -> None:
        """The stream has ended. One that ended before its message did is a `ModelStreamError`."""
        if not self._stopped:
            raise ModelStreamError(
                "the model's stream ended before its message did (there was no messageStop)"
                if self._content
                else "the model's stream was empty"
            )

    def _start(self, event: Mapping[str, Any]) -> ContentBlock | None:
        index = event.get("contentBlockIndex")
        ended = self._ended_by(index) if self._blocks else None
        call = (event.get("start") or {}).get("toolUse")
        block = self._opened(index)
        if call:
            block.kind = "toolUse"
            block.name = call.get("name")
            block.id = call.get("toolUseId")
        return ended

    def _delta(self, event: Mapping[str, Any]) -> ContentBlock | None:
        delta = event["delta"]
        if "text" in delta:
            kind, piece = "text", delta["text"]
        elif "toolUse" in delta:
            kind, piece = "toolUse", delta["toolUse"]
        elif "reasoningContent" in delta:
            piece = delta["reasoningContent"]
            kind = "redacted" if piece.get("redactedContent") is not None else "reasoning"
        elif "citation" in delta:
            kind, piece = "text", delta
        else:
            return None
        index = event.get("contentBlockIndex")
        block = self._current
        if block is None or block.index != index:
            block = self._at(index)
        ended = None
        if block.kind is None:
            block.kind = kind
        elif block.kind != kind:
            ended = self._close(block)
            block = self._opened(index)
            block.kind = kind
        if kind == "text" and piece is not delta:
            block.pieces.append(piece)
        else:
            _grow(block, kind, piece)
        return ended

    def _stop(self, event: Mapping[str, Any]) -> ContentBlock | None:
        block = self._found(event.get("contentBlockIndex"))
        return None if block is None else self._close(block)

    def _message_stop(self, event: Mapping[str, Any]) -> ContentBlock | None:
        ended = None
        for block in list(self._blocks.values()):
            ended = self._close(block) or ended
        reason = event.get("stopReason") or "end_turn"
        if not isinstance(reason, str):
            raise TypeError("the stopReason is no text")
        if reason in ("end_turn", "tool_use"):
            reason = "tool_use" if self._ids else "end_turn"
        self.stop_reason = reason
        self._stopped = True
        return ended

    def _metadata(self, event: Mapping[str, Any]) -> ContentBlock | None:
        usage = self.usage
        _count(usage, event.get("usage"))
        usage["totalTokens"] = max(usage["totalTokens"], usage["inputTokens"] + usage["outputTokens"])
        _count(self.metrics, event.get("metrics"))
        return None

    def _redact(self, event: Mapping[str, Any]) -> ContentBlock | None:
        if (asked := event.get("redactUserContentMessage")) is not None:
            self.taken_back = str(asked)
        if (text := event.get("redactAssistantContentMessage")) is not None:
            self._content = [{"text": text}]
            self._blocks.clear()
            self._ids.clear()
            self._current = None
            if self._stopped and self.stop_reason == "tool_use":
                self.stop_reason = "end_turn"
        return None

    # --- Open blocks ---

    def _opened(self, index: Any) -> _Block:
        block = self._blocks[index] = self._current = _Block(index, len(self._content))
        self._content.append(None)
        return block

    def _found(self, index: Any) -> _Block | None:
        """The open block of this index; the current one, if one of the two has no index."""
        block = self._blocks.get(index)
        if block is None and (current := self._current) is not None and None in (index, current.index):
            return current
        return block

    def _at(self, index: Any) -> _Block:
        block = self._found(index)
        if block is None:
            return self._opened(index)
        self._current = block
        return block

    def _ended_by(self, index: Any) -> ContentBlock | None:
        """What ends because a block of this index begins: two without an index cannot be told apart."""
        block = self._found(index)
        return None if block is None else self._close(block)

    def _close(self, block: _Block) -> ContentBlock | None:
        self._blocks.pop(block.index, None)
        if self._current is block:
            self._current = None
        made = self._made(block)
        self._content[block.slot] = made
        return made

    def _made(self, block: _Block) -> ContentBlock | None:
        if block.kind == "text":
            text = whole("".join(block.pieces))
            if block.citations is not None:
                return {"citationsContent": {"citations": block.citations, "content": [{"text": text}]}}
            return {"text": text} if text else None
        if block.kind == "toolUse":
            return {"toolUse": self._call(block)}
        if block.kind == "reasoning":
            thought: Any = {"text": whole("".join(block.pieces))}
            if block.signature is not None:
                thought["signature"] = block.signature
            return {"reasoningContent": {"reasoningText": thought}}
        if block.kind == "redacted":
            return {"reasoningContent": {"redactedContent": b"".join(block.pieces)}}
        return None

    def _call(self, block: _Block) -> dict[str, Any]:
        if not block.name or not isinstance(block.name, str):
            raise ModelStreamError(f"the model called a tool and did not say which (its id is {block.id!r})")
        given = block.id
        if not given or given in self._ids:
            given = f"tooluse_{uuid.uuid4().hex}"
        if not isinstance(given, str):
            raise TypeError("the toolUseId is no text")
        self._ids.add(given)
        what = block.input if block.input is not None else _meant(whole("".join(block.pieces)))
        return {"toolUseId": given, "name": block.name, "input": what}


_TAKE: Final[Mapping[Any, Callable[[Assembly, Any], ContentBlock | None]]] = {
    "contentBlockDelta": Assembly._delta,
    "contentBlockStart": Assembly._start,
    "contentBlockStop": Assembly._stop,
    "messageStop": Assembly._message_stop,
    "metadata": Assembly._metadata,
    "redactContent": Assembly._redact,
}
"""What is done with a chunk, by its key. Of one with several keys the first of these counts."""


def _grow(block: _Block, kind: str, piece: Mapping[str, Any]) -> None:
    """Add a piece that is not just text."""
    if kind == "toolUse":
        block.name = block.name or piece.get("name")
        block.id = block.id or piece.get("toolUseId")
        given = piece.get("input")
        if isinstance(given, str):
            block.pieces.append(given)
        elif given is not None:  # not text: all of it at once
            block.input = given
    elif kind == "text":
        if block.citations is None:
            block.citations = []
        block.citations.append(piece["citation"])
    elif kind == "redacted":
        block.pieces.append(piece["redactedContent"])
    else:
        if (text := piece.get("text")) is not None:
            block.pieces.append(text)
        if (signature := piece.get("signature")) is not None:
            block.signature = (block.signature or "") + signature


def _meant(text: str) -> Any:
    """What the text of an input means: the text itself, if it is no JSON (a stream that was cut)."""
    if not text or text.isspace():
        return {}
    try:
        value = json.loads(text)
        if "\\u" in text:  # perhaps half a character
            value = json.loads(whole(json.dumps(value, ensure_ascii=False)))
    except (ValueError, RecursionError):
        return text
    return value


def whole(text: str) -> str:
    """The text with pairs of surrogates as characters, and single ones replaced: some providers cut a character in
    two, names of files hold what is none, and no provider can be sent half of one."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _count(counts: Any, given: Any) -> None:
    """Take over the numbers that are given."""
    if given:
        for key, value in given.items():
            if isinstance(value, (int, float)):
                counts[key] = value


def _shown(thing: Any) -> str:
    text = repr(thing)
    return text if len(text) <= 200 else f"{text[:200]}…"
