"""Messages and what is in them: plain dicts in the shapes of Bedrock's Converse API, as Strands uses them.

A message is `{"role", "content": [block, …]}`; a block has one key, which says what it is. Nothing here is stored
as anything but plain dicts, lists and text: `ToolUse` and the `…Block` classes are forms for reading and writing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

from graphkit_prebuilt.media import AudioContent, DocumentContent, ImageContent, VideoContent

Role = Literal["user", "assistant"]
"""Who says a message."""
JSONSchema = dict[str, Any]
ToolResultStatus = Literal["success", "error"]


# --- Tools ----------------------------------------------------------------------------------------------


class ToolSpec(TypedDict):
    """What a model is told about a tool. `inputSchema` is `{"json": <JSON schema>}`."""

    name: str
    description: str
    inputSchema: JSONSchema
    outputSchema: NotRequired[JSONSchema]


class ToolResultContent(TypedDict, total=False):
    """One part of a tool's result: one of these keys."""

    text: str
    json: Any
    image: ImageContent
    document: DocumentContent


class ToolResult(TypedDict):
    """What a call of a tool came to, as the model sees it."""

    toolUseId: str
    status: ToolResultStatus
    content: list[ToolResultContent]
    structuredContent: NotRequired[Any]  # of a tool of an MCP server: for programs, no model is sent it


class ToolChoiceAuto(TypedDict):
    """The model may call tools or not."""


class ToolChoiceAny(TypedDict):
    """The model must call some tool."""


class ToolChoiceTool(TypedDict):
    """The model must call this tool."""

    name: str


ToolChoiceAutoDict = dict[Literal["auto"], ToolChoiceAuto]
ToolChoiceAnyDict = dict[Literal["any"], ToolChoiceAny]
ToolChoiceToolDict = dict[Literal["tool"], ToolChoiceTool]
ToolChoice = ToolChoiceAutoDict | ToolChoiceAnyDict | ToolChoiceToolDict
"""Whether a model may call tools, must call one, or must call this one."""


class ToolUse(dict[str, Any]):
    """A call of a tool that a model wants: a dict whose items can be read and written as attributes too.

    `input` is what the model gave: an object, if the model did as it was told.
    """

    @property
    def toolUseId(self) -> str:
        found: str = self["toolUseId"]
        return found

    @toolUseId.setter
    def toolUseId(self, value: str) -> None:
        self["toolUseId"] = value

    tool_use_id = toolUseId

    @property
    def name(self) -> str:
        found: str = self["name"]
        return found

    @name.setter
    def name(self, value: str) -> None:
        self["name"] = value

    @property
    def input(self) -> Any:
        return self["input"]

    @input.setter
    def input(self, value: Any) -> None:
        self["input"] = value


# --- Messages -------------------------------------------------------------------------------------------


class ReasoningTextBlock(TypedDict, total=False):
    """What a model thought, and the signature by which its provider knows it again."""

    text: str
    signature: str | None


class ReasoningContentBlock(TypedDict, total=False):
    """What a model thought; `redactedContent` is what its provider does not show."""

    reasoningText: ReasoningTextBlock
    redactedContent: bytes


class CachePoint(TypedDict):
    """Up to here a provider may cache what it was given."""

    type: str
    ttl: NotRequired[str]


class ContentBlock(TypedDict, total=False):
    """One part of a message: one of these keys."""

    text: str
    toolUse: ToolUse | dict[str, Any]
    toolResult: ToolResult
    reasoningContent: ReasoningContentBlock
    image: ImageContent
    document: DocumentContent
    video: VideoContent
    audio: AudioContent
    cachePoint: CachePoint
    guardContent: dict[str, Any]
    citationsContent: dict[str, Any]


class SystemContentBlock(TypedDict, total=False):
    """One part of a system prompt: one of these keys."""

    text: str
    cachePoint: CachePoint


class Message(TypedDict):
    """What one side said. `metadata` of an assistant's message holds `usage` and `metrics`."""

    role: Role
    content: list[ContentBlock]
    metadata: NotRequired[dict[str, Any]]


Messages = list[Message]
"""A conversation, in its order."""
SystemPrompt = str | list[SystemContentBlock] | None


class InterruptResponse(TypedDict):
    """The answer to one question."""

    interruptId: str
    response: Any


class InterruptResponseContent(TypedDict):
    """The answer to one question, as a block of a prompt."""

    interruptResponse: InterruptResponse


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A block of text; `to_dict()` is the block itself."""

    text: str

    def to_dict(self) -> ContentBlock:
        return {"text": self.text}


@dataclass(frozen=True, slots=True)
class ToolResultBlock:
    """A block with a tool's result; `to_dict()` is the block itself."""

    tool_use_id: str
    status: ToolResultStatus
    content: list[ToolResultContent]

    def to_dict(self) -> ContentBlock:
        return {"toolResult": tool_result(self.tool_use_id, self.status, *self.content)}


# --- Reading and writing --------------------------------------------------------------------------------


def block_of(content: ContentBlock | TextBlock | ToolResultBlock | str) -> ContentBlock:
    """The block that this is: text becomes a text block."""
    if isinstance(content, str):
        return {"text": content}
    return content.to_dict() if isinstance(content, (TextBlock, ToolResultBlock)) else content


def user(*content: ContentBlock | TextBlock | ToolResultBlock | str) -> Message:
    """A user's message of these blocks."""
    return {"role": "user", "content": [block_of(part) for part in content]}


def assistant(*content: ContentBlock | TextBlock | str) -> Message:
    """An assistant's message of these blocks."""
    return {"role": "assistant", "content": [block_of(part) for part in content]}


def tool_result(
    tool_use_id: str, status: ToolResultStatus, *content: ToolResultContent | TextBlock | str
) -> ToolResult:
    """The result of a call of a tool, of these parts."""
    return {
        "toolUseId": tool_use_id,
        "status": status,
        "content": [block_of(part) for part in content],  # type: ignore[misc, arg-type]
    }


def tool_uses(message: Mapping[str, Any]) -> list[ToolUse]:
    """The calls of tools in a message, in its order. Setting their items does not change the message."""
    return [ToolUse(block["toolUse"]) for block in message["content"] if "toolUse" in block]


def tool_results(message: Mapping[str, Any]) -> list[ToolResult]:
    """The results of tools in a message, in its order."""
    return [block["toolResult"] for block in message["content"] if "toolResult" in block]


def texts(content: Iterable[Mapping[str, Any]]) -> list[str]:
    """The texts among these blocks, with citations or without, in their order."""
    found: list[str] = []
    for block in content:
        if "text" in block:
            found.append(block["text"])
        elif "citationsContent" in block:
            found += texts(block["citationsContent"].get("content") or ())
    return found
