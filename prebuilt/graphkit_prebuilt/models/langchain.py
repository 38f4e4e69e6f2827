"""A chat model of LangChain as a model of an agent. LangChain itself is not imported: the model's shape is enough."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from graphkit.constants import TAG_NOSTREAM
from graphkit.errors import ContextWindowOverflowException, ModelThrottledException
from graphkit_prebuilt.assembly import whole
from graphkit_prebuilt.content import Message, SystemContentBlock, ToolChoice, ToolSpec
from graphkit_prebuilt.models.model import Model
from graphkit_prebuilt.streaming import StreamEvent

STOP_REASONS = {
    "content_filter": "content_filtered",
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "refusal": "content_filtered",
    "safety": "content_filtered",
    "stop_sequence": "stop_sequence",
}
"""What providers call the ends that are neither the end of a turn nor a call of a tool, in small letters."""


class LangChainModel(Model):
    """A chat model of LangChain: an object with `bind_tools`, `stream` and `astream`.

    It gets its messages as dicts in OpenAI's shape. What an assistant thought is streamed, but not sent back.
    """

    def __init__(self, model: Any, **settings: Any) -> None:
        self.model = model
        self._settings = settings

    def __repr__(self) -> str:
        return f"LangChainModel({self.model!r})"

    def get_config(self) -> dict[str, Any]:
        name = getattr(self.model, "model_name", None) or getattr(self.model, "model", None)
        return {"model_id": name if isinstance(name, str) else type(self.model).__name__, **self._settings}

    def update_config(self, **model_config: Any) -> None:
        """Change what is passed to the model's `stream` as keywords, with every call."""
        self._settings.update(model_config)

    def stream(
        self,
        messages: list[Message],
        tool_specs: list[ToolSpec] | None = None,
        system_prompt: str | None = None,
        *,
        tool_choice: ToolChoice | None = None,
        system_prompt_content: list[SystemContentBlock] | None = None,
        **kwargs: Any,
    ) -> LangChainStream:
        bound = self.model
        if tool_specs:
            choice = {} if tool_choice is None else _choice(tool_choice)
            bound = bound.bind_tools([tool_of(spec) for spec in tool_specs], **choice)
        return LangChainStream(bound, list(sent(messages, system_prompt)), _quiet(self._settings))


class LangChainStream:
    """One answer of a chat model, to be read once, with a loop (`astream`) or without (`stream`)."""

    def __init__(self, bound: Any, messages: list[dict[str, Any]], settings: dict[str, Any]) -> None:
        self._bound = bound
        self._messages = messages
        self._settings = settings

    def __iter__(self) -> Iterator[StreamEvent]:
        with _named_errors():
            reading = _Reading()
            for answer in self._bound.stream(self._messages, **self._settings):
                yield from reading.feed(answer)
            yield from reading.end()

    async def __aiter__(self) -> AsyncIterator[StreamEvent]:
        with _named_errors():
            reading = _Reading()
            async for answer in self._bound.astream(self._messages, **self._settings):
                for chunk in reading.feed(answer):
                    yield chunk
            for chunk in reading.end():
                yield chunk


def _quiet(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a call whose tokens no callbacks of ours show: an agent shows what its model says itself."""
    config = settings.get("config") or {}
    return {**settings, "config": {**config, "tags": [*(config.get("tags") or ()), TAG_NOSTREAM]}}


@contextmanager
def _named_errors() -> Iterator[None]:
    """The two errors that an agent deals with, by LangChain's names for them and by what a provider answered."""
    try:
        yield
    except Exception as error:
        names = {base.__name__ for base in type(error).__mro__}
        if "ContextOverflowError" in names:
            raise ContextWindowOverflowException(str(error)) from error
        if names & {"ModelRateLimitError", "RateLimitError"} or getattr(error, "status_code", None) in (
            429,
            529,
        ):
            raise ModelThrottledException(str(error)) from error
        raise


# --- What is sent ---------------------------------------------------------------------------------------


def tool_of(spec: ToolSpec) -> dict[str, Any]:
    """A tool in OpenAI's shape."""
    function = {
        "name": spec["name"],
        "description": spec["description"],
        "parameters": spec["inputSchema"]["json"],
    }
    return {"type": "function", "function": function}


def _choice(choice: Any) -> dict[str, Any]:
    if "tool" in choice:
        return {"tool_choice": choice["tool"]["name"]}
    return {"tool_choice": "any"} if "any" in choice else {}


def sent(messages: Iterable[Message], system_prompt: str | None) -> Iterator[dict[str, Any]]:
    """The conversation in OpenAI's shape."""
    if system_prompt is not None:
        yield {"role": "system", "content": whole(system_prompt)}
    for message in messages:
        if message["role"] == "assistant":
            yield from _answered(message["content"])
        else:
            yield from _asked(message["content"])


def _answered(content: Iterable[Any]) -> Iterator[dict[str, Any]]:
    text = "".join(block["text"] for block in content if "text" in block)
    calls = [
        {
            "id": use["toolUseId"],
            "type": "function",
            "function": {"name": use["name"], "arguments": json.dumps(_object(use["input"]))},
        }
        for use in (block["toolUse"] for block in content if "toolUse" in block)
    ]
    if calls:
        yield {"role": "assistant", "content": text, "tool_calls": calls}
    elif text:
        yield {"role": "assistant", "content": text}


def _object(given: Any) -> dict[str, Any]:
    return given if isinstance(given, dict) else {"INVALID_JSON": given}


def _asked(content: Iterable[Any]) -> Iterator[dict[str, Any]]:
    said: list[dict[str, Any]] = []
    for block in content:
        if "toolResult" in block:
            if said:
                yield _user(said)
                said = []
            result = block["toolResult"]
            parts = [part for inner in result["content"] for part in _part(inner)]
            yield {
                "role": "tool",
                "tool_call_id": result["toolUseId"],
                "status": result.get("status", "success"),
                "content": _shortest(parts),
            }
        else:
            said += _part(block)
    if said:
        yield _user(said)


def _user(parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {"role": "user", "content": _shortest(parts)}


def _shortest(parts: list[dict[str, Any]]) -> Any:
    """Text, if there is nothing but text."""
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _part(block: Any) -> Iterator[dict[str, Any]]:
    if "text" in block:
        yield {"type": "text", "text": whole(block["text"])}
    elif "json" in block:
        yield {"type": "text", "text": json.dumps(block["json"], default=str)}
    elif "image" in block:
        image = block["image"]
        if (content := image["source"].get("bytes")) is None:
            raise ValueError("an image without its bytes cannot be sent through LangChain")
        url = f"data:image/{image['format']};base64,{base64.b64encode(content).decode()}"
        yield {"type": "image_url", "image_url": {"url": url}}
    elif "cachePoint" not in block:
        raise ValueError(f"a block of {', '.join(block)} cannot be sent through LangChain")


# --- What comes back ------------------------------------------------------------------------------------


class _Reading:
    """Makes chunks of what a chat model streams. The pieces of several calls may come in turns; a call is complete
    when the answer is."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._count = 0
        self._said: tuple[str, int] | None = None  # the kind and the index of the open block that is no call
        self._calls: dict[Any, int] = {}  # the indexes of the calls, by what LangChain calls their index
        self._reason: str | None = None
        self._usage = {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}

    def feed(self, answer: Any) -> Iterator[StreamEvent]:
        if not self._count:
            self._count = 1
            yield {"messageStart": {"role": "assistant"}}
        for kind, delta in _pieces(answer.content):
            if self._said is None or self._said[0] != kind:
                yield from self._hushed()
                self._said = (kind, self._count)
                yield from self._begin({})
            yield {"contentBlockDelta": {"contentBlockIndex": self._said[1], "delta": delta}}
        for call in _calls(answer):
            yield from self._hushed()
            yield from self._call(call)
        self._count_usage(getattr(answer, "usage_metadata", None) or {})
        about = getattr(answer, "response_metadata", None) or {}
        self._reason = (
            about.get("finish_reason") or about.get("stop_reason") or about.get("stopReason") or self._reason
        )

    def end(self) -> Iterator[StreamEvent]:
        yield from self._hushed()
        for index in self._calls.values():
            yield {"contentBlockStop": {"contentBlockIndex": index}}
        if self._count:
            reason = STOP_REASONS.get(str(self._reason).lower(), "end_turn")
            yield {"messageStop": {"stopReason": reason}}
        latency = round((time.monotonic() - self._started) * 1000)
        usage: Any = self._usage
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": latency}}}

    def _begin(self, start: Any) -> Iterator[StreamEvent]:
        yield {"contentBlockStart": {"contentBlockIndex": self._count, "start": start}}
        self._count += 1

    def _hushed(self) -> Iterator[StreamEvent]:
        if self._said is not None:
            yield {"contentBlockStop": {"contentBlockIndex": self._said[1]}}
            self._said = None

    def _call(self, call: Any) -> Iterator[StreamEvent]:
        key = call.get("index")
        if key is None and not call.get("name") and self._calls:
            key = list(self._calls)[-1]  # a piece that says nothing but its text
        elif key is None:
            key = call.get("id") or object()
        if key not in self._calls:
            self._calls[key] = self._count
            yield from self._begin({"toolUse": {"name": call.get("name"), "toolUseId": call.get("id")}})
        args = call.get("args")
        if args:
            delta: Any = {"toolUse": {"input": args if isinstance(args, str) else json.dumps(args)}}
            yield {"contentBlockDelta": {"contentBlockIndex": self._calls[key], "delta": delta}}

    def _count_usage(self, usage: Any) -> None:
        for ours, theirs in (
            ("inputTokens", "input_tokens"),
            ("outputTokens", "output_tokens"),
            ("totalTokens", "total_tokens"),
        ):
            self._usage[ours] += usage.get(theirs) or 0


def _calls(answer: Any) -> list[Any]:
    """The pieces of calls in a piece of an answer, or the calls of a whole one."""
    pieces = getattr(answer, "tool_call_chunks", None)
    return pieces or [
        *(getattr(answer, "tool_calls", None) or ()),
        *(getattr(answer, "invalid_tool_calls", None) or ()),
    ]


def _pieces(content: Any) -> Iterator[tuple[str, Any]]:
    for part in [content] if isinstance(content, str) else content:
        if isinstance(part, str):
            if part:
                yield "text", {"text": part}
            continue
        kind = part.get("type")
        if kind == "text" and part.get("text"):
            yield "text", {"text": part["text"]}
        elif kind in ("thinking", "reasoning"):
            if thought := part.get("thinking") or part.get("reasoning"):
                yield "reasoning", {"reasoningContent": {"text": thought}}
            if signature := part.get("signature"):
                yield "reasoning", {"reasoningContent": {"signature": signature}}
