"""One call of the model: as it is, or inside of middleware."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple
from uuid import uuid4

from graphkit.frame import Frame
from graphkit_prebuilt.assembly import Assembly
from graphkit_prebuilt.content import ContentBlock, Message, SystemPrompt, ToolChoice, ToolSpec, assistant
from graphkit_prebuilt.conversation import copied
from graphkit_prebuilt.hooks.catalogue import ContentBlockEvent, ModelStreamUpdateEvent
from graphkit_prebuilt.hooks.event import HookEvent
from graphkit_prebuilt.hooks.firing import fire, heard
from graphkit_prebuilt.loop.invocation import Cancel, Invocation
from graphkit_prebuilt.loop.steps import OVER, Steps, Stream
from graphkit_prebuilt.middleware.contexts import InvokeModelContext
from graphkit_prebuilt.middleware.onion import Onion
from graphkit_prebuilt.middleware.registry import Layer
from graphkit_prebuilt.middleware.stages import InvokeModelStage, ModelStopReason
from graphkit_prebuilt.models.model import Calling, call_model
from graphkit_prebuilt.models.sent import Sent
from graphkit_prebuilt.streaming import Metrics, Usage

CANCELLED: Final = "Cancelled by user"
_NO_USAGE: Final[Usage] = {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}
_NO_METRICS: Final[Metrics] = {"latencyMs": 0}

_TEXT: Final = frozenset({"text", "citationsContent"})
"""The blocks whose text is shown as it comes."""
Feed = Callable[[Any], ContentBlock | None]
"""Takes a chunk; returns the block that it completes, if it does."""

SHOWN: Final = (ModelStreamUpdateEvent, ContentBlockEvent)
"""The events of a call while it lasts."""

Answer = tuple[Message, str]
"""A message of the assistant, and why the model stopped."""


def wrapped_call(
    inv: Invocation, frame: Frame, layers: Sequence[Layer], context: InvokeModelContext, tries: int
) -> Steps[Answer]:
    """Go through the middleware of one call. What the model has said is kept, in case that a layer asks then."""

    seen = context.given("messages")

    def inside(context: InvokeModelContext, number: int) -> Steps[ModelStopReason]:
        key, given = f"said:{tries}:{number}", context.given
        kept = frame.kept.get(key)
        if kept is not None:
            message, reason = copied(kept["message"]), kept["stop_reason"]
        else:
            told, messages = _Told(context.invocation_state, inv.cancel), given("messages")
            message, reason = yield from plain_call(
                inv,
                frame,
                context.model,
                messages,
                given("tool_specs"),
                given("system_prompt"),
                context.tool_choice,
                told,
                inv.sent if messages is seen else None,  # what a layer gives, it may change in place
                _hand_out if onion.watched or heard(inv, *SHOWN) else None,
            )
            frame.keep(key, {"message": copied(message), "stop_reason": reason})
        measured = message.get("metadata", {})
        return ModelStopReason(reason, message, measured.get("usage"), measured.get("metrics"))

    onion = Onion(InvokeModelStage, layers, frame, inside)
    event = yield from onion.steps(inv, context)
    message = _checked(event.message)
    if not onion.entered:  # a call of the model all the same, as far as limits go
        inv.metrics.add_call(event.usage or _NO_USAGE, event.metrics or _NO_METRICS, 0.0)
    return message, event.stop_reason


class _Told(NamedTuple):
    """What a model is told of the request that calls it."""

    invocation_state: dict[str, Any]
    cancel: Cancel


def _hand_out(event: HookEvent) -> Steps[None]:
    """Show what happens inside of middleware when it comes out."""
    yield event  # type: ignore[misc]


def plain_call(
    inv: Invocation,
    frame: Frame,
    model: Any,
    messages: list[Message],
    specs: Sequence[ToolSpec],
    system_prompt: SystemPrompt,
    choice: ToolChoice | None,
    told: Calling,
    sent: Sent | None,
    show: Callable[[HookEvent], Steps[None]] | None = None,
) -> Steps[Answer]:
    """Call the model. What it streams is shown to who hears it, or all of it by `show`. `sent` are the messages as
    models were sent them, if nobody changes them in place."""
    begun = time.perf_counter()
    assembly = Assembly()
    feed = _saying(frame, assembly) if "messages" in frame.attempt.scope.listen else assembly.feed
    chunks = call_model(model, messages, specs, system_prompt, choice, told, sent)
    if show is not None or heard(inv, *SHOWN):
        yield from _show(inv, Stream(chunks), feed, show)
    else:
        cancel = inv.cancel

        def take(chunk: Any) -> bool:
            if cancel.given_up or (cancel.also is not None and cancel.is_set()):
                return True
            feed(chunk)
            return False

        yield Stream(chunks, each=take)
    if assembly.taken_back is not None:
        _take_back(inv, frame, assembly.taken_back)
    if inv.cancel.is_set():
        return assistant(inv.cancel.message or CANCELLED), "cancelled"
    assembly.finish()
    message = assembly.message
    message["metadata"] = {"usage": assembly.usage, "metrics": assembly.metrics}
    inv.metrics.add_call(assembly.usage, assembly.metrics, time.perf_counter() - begun)
    return message, assembly.stop_reason


def _take_back(inv: Invocation, frame: Frame, text: str) -> None:
    """Put the text of a guardrail into the place of the last message, of results of tools into that of their content:
    no model and no reader of the conversation is shown again what was there, whatever the task comes to. The log and
    its history keep it."""
    messages = inv.messages
    if messages:
        last: Message = messages[-1]
        results = (block["toolResult"] for block in last["content"] if "toolResult" in block)
        content: list[ContentBlock] = [
            {"toolResult": {**result, "content": [{"text": text}]}} for result in results
        ]
        last["content"] = content or [{"text": text}]
        inv.hold(frame)


def _show(
    inv: Invocation,
    stream: Stream,
    feed: Feed,
    show: Callable[[HookEvent], Steps[None]] | None,
) -> Steps[None]:
    """Read the stream to its end, or until the request is cancelled, and show what comes."""
    try:
        while (chunk := (yield stream)) is not OVER:
            if inv.cancel.is_set():
                yield stream.closing
                return
            block = feed(chunk)
            if show is not None or heard(inv, ModelStreamUpdateEvent):
                event = ModelStreamUpdateEvent(inv.agent, event=chunk, invocation_state=inv.invocation_state)
                yield from show(event) if show is not None else fire(inv, event)
            if block is not None and (show is not None or heard(inv, ContentBlockEvent)):
                said = _block_event(inv, block)
                yield from show(said) if show is not None else fire(inv, said)
    except Exception:
        yield stream.closing
        raise


def _saying(frame: Frame, assembly: Assembly) -> Feed:
    """Feeds the assembly, and shows what comes in stream mode "messages": text as it is streamed, any other block when
    it is complete. The parts of one message have an id in common."""
    message_id = uuid4().hex

    def say(block: ContentBlock) -> None:
        frame.emit_message({"role": "assistant", "content": [block], "id": message_id})

    def feed(chunk: Any) -> ContentBlock | None:
        block = assembly.feed(chunk)
        if block is not None and block.keys().isdisjoint(_TEXT):
            say(block)
        delta = chunk.get("contentBlockDelta")
        if delta is not None and (text := delta["delta"].get("text")):
            say({"text": text})
        return block

    return feed


def _block_event(inv: Invocation, block: ContentBlock) -> ContentBlockEvent:
    return ContentBlockEvent(inv.agent, content_block=block, invocation_state=inv.invocation_state)


def _checked(message: Any) -> Message:
    """The message that middleware has come to. Raises `TypeError` if it is none of the assistant's."""
    if (
        isinstance(message, dict)
        and message.get("role") == "assistant"
        and isinstance(message.get("content"), list)
    ):
        return message  # type: ignore[return-value]
    raise TypeError(
        f"middleware of {InvokeModelStage!r} has come to {message!r:.100}, which is no message of the assistant's"
    )
