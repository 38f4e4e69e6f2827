"""Every model that pydantic-ai reaches, as a model of an agent. Needs the extra `models`."""

from __future__ import annotations

import asyncio
import json
import time
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any, cast

try:
    import pydantic_ai.direct
except ImportError as missing:
    raise ImportError(
        "a model named by text is called through pydantic-ai; install it with pip install 'graphkit-engine[models]'"
    ) from missing
from pydantic_ai import messages as ai
from pydantic_ai.exceptions import ModelContextWindowExceededError, ModelHTTPError
from pydantic_ai.models import Model as AIModel
from pydantic_ai.models import ModelRequestParameters, infer_model
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from graphkit.errors import ContextWindowOverflowException, ModelThrottledException
from graphkit_prebuilt.content import (
    Message,
    SystemContentBlock,
    ToolChoice,
    ToolSpec,
)
from graphkit_prebuilt.models.model import Model
from graphkit_prebuilt.models.parts import REDACTED, asked
from graphkit_prebuilt.streaming import StreamEvent

THROTTLED = frozenset({429, 529})
STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "content_filter": "content_filtered",
    "tool_call": "tool_use",
    "error": "error",
}


class PydanticAIModel(Model):
    """A model by its name, `"provider:model"` ("anthropic:claude-sonnet-4-6"), or a model of pydantic-ai.

    `settings` are pydantic-ai's model settings (`temperature`, `max_tokens`, `max_retries` of the client, …). Keys and
    addresses of the provider come from its environment variables; they are read at the first call.

    A name gets one HTTP client for each event loop, which is closed with its loop; if this object goes before, with the
    next client that is opened there. A model object is used as it is, with the client it has; closing that is its
    owner's business.
    """

    def __init__(self, model: str | AIModel, **settings: Any) -> None:
        self.model = model
        self._settings = settings
        self._clients: dict[asyncio.AbstractEventLoop, _Client] = {}

    def __repr__(self) -> str:
        return f"PydanticAIModel({self.model!r})"

    def get_config(self) -> dict[str, Any]:
        name = self.model if isinstance(self.model, str) else self.model.model_name
        return {"model_id": name, **self._settings}

    def update_config(self, **model_config: Any) -> None:
        if "model_id" in model_config:
            self.model = model_config.pop("model_id")
            self._clients.clear()
        self._settings.update(model_config)

    async def stream(
        self,
        messages: list[Message],
        tool_specs: list[ToolSpec] | None = None,
        system_prompt: str | None = None,
        *,
        tool_choice: ToolChoice | None = None,
        system_prompt_content: list[SystemContentBlock] | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[StreamEvent]:
        settings = dict(self._settings)
        if tool_choice is not None and tool_specs:
            settings["tool_choice"] = _choice(tool_choice)
        tools = [
            ToolDefinition(
                name=spec["name"],
                description=spec["description"],
                parameters_json_schema=spec["inputSchema"]["json"],
            )
            for spec in tool_specs or ()
        ]
        started = time.monotonic()
        try:
            client = await self._here()
            async with pydantic_ai.direct.model_request_stream(
                client.model,
                asked(messages, system_prompt, client.model.system),
                model_settings=cast(ModelSettings, settings),
                model_request_parameters=ModelRequestParameters(function_tools=tools),
            ) as response:
                yield {"messageStart": {"role": "assistant"}}
                first: float | None = None
                blocks: set[int] = set()
                async for event in response:
                    first = time.monotonic() if first is None else first
                    for chunk in _chunks(event, blocks):
                        yield chunk
                for index in sorted(blocks):
                    yield _stop(index)
                answer = response.get()
                # Every provider says why it stops, or its stream broke off; pydantic-ai's models for tests do not.
                reason = _reason(answer) or ("end_turn" if client.model.provider is None else None)
                if reason is not None:
                    yield {"messageStop": {"stopReason": reason}}
                yield _metadata(answer, started, first)
        except ModelContextWindowExceededError as error:
            raise ContextWindowOverflowException(str(error)) from error
        except ModelHTTPError as error:
            if error.status_code in THROTTLED:
                raise ModelThrottledException(str(error)) from error
            raise

    async def _here(self) -> _Client:
        """The model with the client of the running loop."""
        if not isinstance(self.model, str):
            return _Client(self.model)
        loop = asyncio.get_running_loop()
        found = self._clients.get(loop)
        if found is None:
            found = self._clients[loop] = await _client(self.model)
            for ended in [other for other in self._clients if other.is_closed()]:
                del self._clients[ended]
        return found


class _Client:
    """A model of pydantic-ai, and the right to use it: its HTTP client stays open as long as this is held."""

    def __init__(self, model: AIModel) -> None:
        self.model = model


_Held = list[tuple[weakref.ref[_Client], AsyncGenerator[AIModel, None]]]

_held: dict[asyncio.AbstractEventLoop, _Held] = {}
"""What closes each client, by the loop it belongs to. A loop that ends closes its generators."""


async def _client(name: str) -> _Client:
    """A client for the running loop. It closes those that nobody holds any more: closing needs their loop, and in the
    end of an object there is none that would wait for it."""
    for ended in [loop for loop in list(_held) if loop.is_closed()]:
        _held.pop(ended, None)
    held = _held.setdefault(asyncio.get_running_loop(), [])
    unused = [generator for client, generator in held if client() is None]
    held[:] = [pair for pair in held if pair[1] not in unused]
    generator = _opened(name)
    client = _Client(await anext(generator))
    held.append((weakref.ref(client), generator))
    for other in unused:
        await other.aclose()
    return client


async def _opened(name: str) -> AsyncGenerator[AIModel, None]:
    async with infer_model(name) as model:
        yield model


def _choice(choice: Any) -> Any:
    if "tool" in choice:
        return [choice["tool"]["name"]]
    return "required" if "any" in choice else "auto"


# --- What comes back ------------------------------------------------------------------------------------


def _chunks(event: Any, blocks: set[int]) -> Iterator[StreamEvent]:
    """The chunks that this event of pydantic-ai means. `blocks` are the indexes of those that have begun and not ended;
    what is no block of ours (a tool that the provider runs itself) has not begun. Calls are left open: the pieces of
    several may come in turns, and pydantic-ai ends one when it sees another."""
    if isinstance(event, ai.PartStartEvent):
        part = event.part
        if isinstance(part, ai.ToolCallPart):
            blocks.add(event.index)
            call: Any = {"toolUse": {"name": part.tool_name, "toolUseId": part.tool_call_id}}
            yield {"contentBlockStart": {"contentBlockIndex": event.index, "start": call}}
            yield from _input(event.index, part.args)
        elif isinstance(part, ai.TextPart | ai.ThinkingPart):
            blocks.add(event.index)
            yield {"contentBlockStart": {"contentBlockIndex": event.index, "start": {}}}
            if isinstance(part, ai.TextPart):
                yield from _text(event.index, part.content)
            elif part.id == REDACTED and part.signature:
                yield _delta(event.index, {"reasoningContent": {"redactedContent": part.signature.encode()}})
            else:
                yield from _thought(event.index, part.content, part.signature)
    elif isinstance(event, ai.PartDeltaEvent) and event.index in blocks:
        delta = event.delta
        if isinstance(delta, ai.TextPartDelta):
            yield from _text(event.index, delta.content_delta)
        elif isinstance(delta, ai.ThinkingPartDelta):
            yield from _thought(event.index, delta.content_delta, delta.signature_delta)
        elif isinstance(delta, ai.ToolCallPartDelta):
            yield from _input(event.index, delta.args_delta)
    elif (
        isinstance(event, ai.PartEndEvent)
        and event.index in blocks
        and not isinstance(event.part, ai.ToolCallPart)
    ):
        blocks.discard(event.index)
        yield _stop(event.index)


def _stop(index: int) -> StreamEvent:
    return {"contentBlockStop": {"contentBlockIndex": index}}


def _delta(index: int, delta: Any) -> StreamEvent:
    return {"contentBlockDelta": {"contentBlockIndex": index, "delta": delta}}


def _text(index: int, text: str | None) -> Iterator[StreamEvent]:
    if text:
        yield _delta(index, {"text": text})


def _thought(index: int, text: str | None, signature: str | None) -> Iterator[StreamEvent]:
    if text:
        yield _delta(index, {"reasoningContent": {"text": text}})
    if signature:
        yield _delta(index, {"reasoningContent": {"signature": signature}})


def _input(index: int, given: Any) -> Iterator[StreamEvent]:
    if given:
        text = given if isinstance(given, str) else json.dumps(given)
        yield _delta(index, {"toolUse": {"input": text}})


def _reason(answer: ai.ModelResponse) -> str | None:
    """Why the model stopped, in the provider's own word if that is none of ours; None if its stream broke off. For
    OpenAI's protocol pydantic-ai then says "stop" all the same; such a stream has not even come to its usage."""
    said: str | None = (answer.provider_details or {}).get("finish_reason")
    reason = answer.finish_reason
    if reason is None or (reason in ("stop", "tool_call") and not said and not answer.usage.output_tokens):
        return said
    return STOP_REASONS[reason]


def _metadata(answer: ai.ModelResponse, started: float, first: float | None) -> StreamEvent:
    usage = answer.usage
    counted: Any = {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.input_tokens + usage.output_tokens,
    }
    if usage.cache_read_tokens:
        counted["cacheReadInputTokens"] = usage.cache_read_tokens
    if usage.cache_write_tokens:
        counted["cacheWriteInputTokens"] = usage.cache_write_tokens
    metrics: Any = {"latencyMs": _milliseconds(time.monotonic() - started)}
    if first is not None:
        metrics["timeToFirstByteMs"] = _milliseconds(first - started)
    return {"metadata": {"usage": counted, "metrics": metrics}}


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
