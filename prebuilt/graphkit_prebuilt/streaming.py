"""What a model streams: chunks in the shapes of Bedrock's ConverseStream, as Strands uses them.

One chunk is a dict with one key. A message comes as `messageStart`, then per block `contentBlockStart`,
`contentBlockDelta`…, `contentBlockStop`, then `messageStop` and `metadata`.
`assembly.Assembly` makes a message of them.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, Required, TypedDict

from graphkit_prebuilt.content import Role

StopReason = Literal[
    "cancelled",
    "content_filtered",
    "end_turn",
    "guardrail_intervened",
    "interrupt",
    "limit_output_tokens",
    "limit_total_tokens",
    "limit_turns",
    "max_tokens",
    "stop_sequence",
    "tool_use",
]
"""Why a model, or the agent around it, has stopped. A provider may give others, which are kept as they are."""


class Usage(TypedDict, total=False):
    """What a call of a model took, in tokens."""

    inputTokens: Required[int]
    outputTokens: Required[int]
    totalTokens: Required[int]
    cacheReadInputTokens: int
    cacheWriteInputTokens: int


class Metrics(TypedDict, total=False):
    """How long a call of a model took, in milliseconds."""

    latencyMs: Required[int]
    timeToFirstByteMs: int


# --- Chunks ---------------------------------------------------------------------------------------------


class MessageStartEvent(TypedDict):
    """A message begins."""

    role: Role


class ContentBlockStartToolUse(TypedDict):
    """The block that begins is a call of a tool."""

    name: str
    toolUseId: str


class ContentBlockStart(TypedDict, total=False):
    """What kind of block begins: empty, if it is no call of a tool."""

    toolUse: ContentBlockStartToolUse


class ContentBlockStartEvent(TypedDict, total=False):
    """A block begins; `contentBlockIndex` tells blocks apart that are streamed at the same time."""

    contentBlockIndex: int | None
    start: ContentBlockStart


class ContentBlockDeltaToolUse(TypedDict):
    """The next piece of the JSON text of a call's input. Some providers name the tool here only."""

    input: str
    toolUseId: NotRequired[str]
    name: NotRequired[str]


class ReasoningContentBlockDelta(TypedDict, total=False):
    """The next piece of what the model thinks: one of these keys."""

    text: str | None
    signature: str | None
    redactedContent: bytes | None


class ContentBlockDelta(TypedDict, total=False):
    """The next piece of a block: one of these keys."""

    text: str
    toolUse: ContentBlockDeltaToolUse
    reasoningContent: ReasoningContentBlockDelta
    citation: dict[str, Any]


class ContentBlockDeltaEvent(TypedDict, total=False):
    """A block goes on."""

    contentBlockIndex: int | None
    delta: ContentBlockDelta


class ContentBlockStopEvent(TypedDict, total=False):
    """A block is complete."""

    contentBlockIndex: int | None


class MessageStopEvent(TypedDict, total=False):
    """The message is complete."""

    stopReason: StopReason | str
    additionalModelResponseFields: Any


class MetadataEvent(TypedDict, total=False):
    """What the call took."""

    usage: Usage
    metrics: Metrics
    trace: Any


class RedactContentEvent(TypedDict, total=False):
    """A guardrail puts this text in the place of the answer."""

    redactAssistantContentMessage: str | None
    redactUserContentMessage: str | None


class StreamEvent(TypedDict, total=False):
    """One chunk: one of these keys."""

    messageStart: MessageStartEvent
    contentBlockStart: ContentBlockStartEvent
    contentBlockDelta: ContentBlockDeltaEvent
    contentBlockStop: ContentBlockStopEvent
    messageStop: MessageStopEvent
    metadata: MetadataEvent
    redactContent: RedactContentEvent
