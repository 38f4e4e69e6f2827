"""A model that says what it was told to say: for tests, examples and figures, without a network."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from graphkit_prebuilt.content import Message, SystemContentBlock, ToolChoice, ToolSpec
from graphkit_prebuilt.models.model import Model
from graphkit_prebuilt.streaming import StopReason, StreamEvent, Usage


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool, as a model would make it. Without `id` it gets one that no other call of the conversation has.

    `input` may be text, which is streamed as it is: what is no JSON shows how a tool deals with a broken stream.
    """

    name: str
    input: Any = None
    id: str | None = None
    text: str = field(init=False, repr=False, compare=False)
    """The input as it is streamed: JSON, unless it was given as text."""

    def __post_init__(self) -> None:
        given = {} if self.input is None else self.input
        object.__setattr__(self, "text", given if isinstance(given, str) else json.dumps(given))


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One answer of a `ScriptedModel`, in detail.

    It says `reasoning`, then `text`, then makes its `calls`. `stop_reason` is otherwise "tool_use" with calls and
    "end_turn" without. Each text and each input comes in `chunks` pieces, each chunk after `delay` seconds. With an
    `error`, that is raised after `error_after` chunks, at the end of the stream if there are fewer.
    """

    text: str | None = None
    calls: Sequence[ToolCall] = ()
    reasoning: str | None = None
    stop_reason: StopReason | str | None = None
    usage: Usage | None = None
    chunks: int = 1
    delay: float = 0.0
    error: BaseException | None = None
    error_after: int = 0


@dataclass(slots=True)
class ModelRequest:
    """What a `ScriptedModel` was given for one answer. The messages are those of then, the list is a copy."""

    messages: list[Message]
    tool_specs: list[ToolSpec] | None
    system_prompt: str | None
    system_prompt_content: list[SystemContentBlock] | None
    tool_choice: ToolChoice | None
    invocation_state: dict[str, Any] | None


USAGE: Final[Usage] = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}
"""What an answer takes, unless a `Turn` says something else."""

Says = (
    str
    | ToolCall
    | Turn
    | BaseException
    | Iterable["str | ToolCall | StreamEvent"]
    | Callable[[ModelRequest], Any]
)
"""What one turn of a script may be; see `ScriptedModel`."""


class ScriptedModel(Model):
    """A model that gives these turns, one for each call, and remembers in `requests` what it was called with.

    A turn is a text, a `ToolCall`, a list of those, a `Turn`, an exception (or its class), which is raised, or chunks
    (an iterable of dicts), which are streamed as they are. It may also be a function of the `ModelRequest` that
    returns one of these.

    When there are no more turns, `repeat=True` begins again with the first one; else that is a `LookupError`. With
    `per_thread=True` the turn is not the next one, but that of the conversation that was sent: the first for one
    without an answer of the assistant, and so on. So one model serves many conversations at the same time, and a
    conversation goes on in another process.

    It streams without a loop where the agent is called synchronously. `turns` may be changed at any time.
    """

    def __init__(self, turns: Iterable[Says], *, repeat: bool = False, per_thread: bool = False) -> None:
        if isinstance(turns, (str, ToolCall, Turn, Mapping)):
            raise TypeError(f"ScriptedModel takes a list of turns; put {turns!r} into one")
        self.turns: list[Says] = list(turns)
        self.repeat = repeat
        self.per_thread = per_thread
        self.requests: list[ModelRequest] = []
        self._config: dict[str, Any] = {}
        self._taken = itertools.count()

    def stream(
        self,
        messages: list[Message],
        tool_specs: list[ToolSpec] | None = None,
        system_prompt: str | None = None,
        *,
        tool_choice: ToolChoice | None = None,
        system_prompt_content: list[SystemContentBlock] | None = None,
        invocation_state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> ScriptedStream:
        request = ModelRequest(
            list(messages), tool_specs, system_prompt, system_prompt_content, tool_choice, invocation_state
        )
        self.requests.append(request)
        number = next(self._taken)
        at = sum(message["role"] == "assistant" for message in messages) if self.per_thread else number
        turns = self.turns
        if at >= len(turns):
            if not (self.repeat and turns):
                raise LookupError(
                    f"this ScriptedModel was called for turn {at + 1}, and its script has {len(turns)}: give it "
                    "more turns, or repeat=True"
                )
            at %= len(turns)
        return ScriptedStream(turns[at], request, f"{len(messages)}_{number}")

    def get_config(self) -> dict[str, Any]:
        return self._config

    def update_config(self, **model_config: Any) -> None:
        self._config.update(model_config)


class ScriptedStream:
    """The chunks of one turn, to be read once, with a loop or without."""

    def __init__(self, says: Any, request: ModelRequest, mark: str) -> None:
        while callable(says):
            is_error = isinstance(says, type) and issubclass(says, BaseException)
            says = says() if is_error else says(request)
        self._turn = says if isinstance(says, Turn) else None
        self._chunks = _chunks(says, mark)

    def __iter__(self) -> Iterator[StreamEvent]:
        if self._turn is None:
            return self._chunks
        return self._paced(self._turn)

    def _paced(self, turn: Turn) -> Iterator[StreamEvent]:
        for chunk in self._chunks:
            if turn.delay:
                time.sleep(turn.delay)
            yield chunk

    async def __aiter__(self) -> AsyncIterator[StreamEvent]:
        delay = 0.0 if self._turn is None else self._turn.delay
        for chunk in self._chunks:
            if delay:
                await asyncio.sleep(delay)
            yield chunk


def _chunks(says: Any, mark: str) -> Iterator[Any]:
    """What a model streams that says this; `mark` makes the ids of its calls its own."""
    if isinstance(says, (str, ToolCall)):
        return _told([_block_of(says, f"{mark}_0")], 1)
    if isinstance(says, (list, tuple)):
        if says and all(isinstance(part, (str, ToolCall)) for part in says):
            return _told([_block_of(part, f"{mark}_{n}") for n, part in enumerate(says)], 1)
        return iter(says)
    if isinstance(says, Turn):
        chunks = _told(_blocks_of(says, mark), says.chunks, says.stop_reason, says.usage)
        return chunks if says.error is None else _broken(chunks, says.error, says.error_after)
    if isinstance(says, BaseException):
        return _broken(iter(()), says, 0)
    if not isinstance(says, Iterable) or isinstance(says, (bytes, Mapping)):
        raise TypeError(f"{says!r} is no turn of a ScriptedModel")
    return iter(says)


_Blocks = list[
    tuple[Any, str, Callable[[str], Any]]
]  # how a block begins, its text, what a piece of that looks like


def _block_of(part: str | ToolCall, mark: str) -> tuple[Any, str, Callable[[str], Any]]:
    if isinstance(part, str):
        return {}, part, _text
    start = {"toolUse": {"toolUseId": part.id or f"tooluse_{mark}", "name": part.name}}
    return start, part.text, _input


def _blocks_of(turn: Turn, mark: str) -> _Blocks:
    blocks: _Blocks = [] if turn.reasoning is None else [({}, turn.reasoning, _thought)]
    if turn.text is not None:
        blocks.append(({}, turn.text, _text))
    blocks += [_block_of(call, f"{mark}_{n}") for n, call in enumerate(turn.calls)]
    return blocks


def _text(piece: str) -> Any:
    return {"text": piece}


def _thought(piece: str) -> Any:
    return {"reasoningContent": {"text": piece}}


def _input(piece: str) -> Any:
    return {"toolUse": {"input": piece}}


def _told(
    blocks: _Blocks, pieces: int, stop_reason: str | None = None, usage: Usage | None = None
) -> Iterator[Any]:
    yield {"messageStart": {"role": "assistant"}}
    calls = False
    for index, (start, text, delta) in enumerate(blocks):
        calls = calls or "toolUse" in start
        yield {"contentBlockStart": {"contentBlockIndex": index, "start": start}}
        for piece in _cut(text, pieces) if pieces > 1 else (text,):
            yield {"contentBlockDelta": {"contentBlockIndex": index, "delta": delta(piece)}}
        yield {"contentBlockStop": {"contentBlockIndex": index}}
    yield {"messageStop": {"stopReason": stop_reason or ("tool_use" if calls else "end_turn")}}
    yield {"metadata": {"usage": usage or dict(USAGE), "metrics": {"latencyMs": 0}}}


def _cut(text: str, pieces: int) -> Iterator[str]:
    """The text in at most so many pieces of the same length, but for the last one."""
    size = max(1, -(-len(text) // pieces))
    return (text[at : at + size] for at in range(0, len(text), size))


def _broken(chunks: Iterator[Any], error: BaseException, after: int) -> Iterator[Any]:
    yield from itertools.islice(chunks, after)
    raise error.with_traceback(None)
