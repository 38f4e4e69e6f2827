"""Conversations as pydantic-ai has them: requests and responses, made of parts. Needs the extra `models`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic_ai import messages as ai

from graphkit_prebuilt.assembly import whole
from graphkit_prebuilt.content import ContentBlock, Message, ToolResult

REDACTED = "redacted_thinking"
"""The id of a part that holds what a model thought and its provider does not show."""

MEDIA_TYPES = {
    "pdf": "application/pdf",
    "csv": "text/csv",
    "doc": "application/msword",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xls": "application/vnd.ms-excel",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "html": "text/html",
    "txt": "text/plain",
    "md": "text/markdown",
    "mp3": "audio/mpeg",
    "mov": "video/quicktime",
    "mkv": "video/x-matroska",
    "three_gp": "video/3gpp",
    "wmv": "video/x-ms-wmv",
    "flv": "video/x-flv",
}


def asked(messages: Iterable[Message], system_prompt: str | None, system: str) -> list[ai.ModelMessage]:
    names: dict[str, str] = {}
    said: list[ai.ModelMessage] = []
    parts: list[Any] = [] if system_prompt is None else [ai.SystemPromptPart(whole(system_prompt))]
    for message in messages:
        if message["role"] == "user":
            parts += _requested(message["content"], names)
            continue
        if parts:
            said.append(ai.ModelRequest(parts=parts))
            parts = []
        if answered := list(_responded(message["content"], names, system)):
            said.append(ai.ModelResponse(parts=answered))
    if parts:
        said.append(ai.ModelRequest(parts=parts))
    return said


def _requested(content: Iterable[ContentBlock], names: dict[str, str]) -> Iterator[Any]:
    """The parts of a user's message. `names` are those of the tools, by the id of the call."""
    said: list[Any] = []
    for block in content:
        if "toolResult" in block:
            if said:
                yield ai.UserPromptPart(said)
                said = []
            result = block["toolResult"]
            yield ai.ToolReturnPart(
                names.get(result["toolUseId"], "unknown"),
                _returned(result),
                result["toolUseId"],
                outcome="failed" if result.get("status") == "error" else "success",
            )
        else:
            said += _said(block)
    if said:
        yield ai.UserPromptPart(said[0] if len(said) == 1 and isinstance(said[0], str) else said)


def _said(block: Any) -> Iterator[Any]:
    if "text" in block:
        yield whole(block["text"])
    elif "cachePoint" in block:
        ttl = block["cachePoint"].get("ttl")
        yield ai.CachePoint(ttl=ttl) if ttl else ai.CachePoint()
    elif "guardContent" in block:
        yield block["guardContent"]["text"]["text"]
    else:
        yield from _media(block)


def _media(block: Any) -> Iterator[Any]:
    for kind in ("image", "document", "video", "audio"):
        if kind not in block:
            continue
        thing = block[kind]
        family = "text" if kind == "document" else kind
        media_type = MEDIA_TYPES.get(thing["format"], f"{family}/{thing['format']}")
        if (content := thing["source"].get("bytes")) is None:
            raise ValueError(
                f"{kind} {thing.get('name', '')!r} has no bytes; pydantic-ai cannot send one by location"
            )
        yield ai.BinaryContent(content, media_type=media_type)


def _returned(result: ToolResult) -> Any:
    """What a tool gave: text, unless there are files among it."""
    texts: list[str] = []
    files: list[Any] = []
    for block in result["content"]:
        if "text" in block:
            texts.append(block["text"])
        elif "json" in block:
            texts.append(json.dumps(block["json"], default=str))
        else:
            files += _media(block)
    text = whole("\n".join(texts))
    return [text, *files] if files else text


def _responded(content: Iterable[Any], names: dict[str, str], system: str) -> Iterator[Any]:
    """The parts of an assistant's message. What it thought goes back to the provider it has a signature of."""
    for block in content:
        if "text" in block:
            yield ai.TextPart(block["text"])
        elif "toolUse" in block:
            use = block["toolUse"]
            names[use["toolUseId"]] = use["name"]
            given = use["input"] if isinstance(use["input"], dict) else {"INVALID_JSON": use["input"]}
            yield ai.ToolCallPart(use["name"], given, use["toolUseId"])
        elif "reasoningContent" in block:
            thought = block["reasoningContent"]
            if (hidden := thought.get("redactedContent")) is not None:
                yield ai.ThinkingPart("", id=REDACTED, signature=hidden.decode(), provider_name=system)
            elif (signature := thought["reasoningText"].get("signature")) is not None:
                text = thought["reasoningText"]["text"]
                yield ai.ThinkingPart(text, signature=signature, provider_name=system)
        elif "citationsContent" in block:
            yield from (ai.TextPart(part["text"]) for part in block["citationsContent"].get("content", ()))
