"""Conversations as models are given them: messages of every style in content blocks, as in
`graphkit_prebuilt.content`."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from graphkit_prebuilt.content import Message, SystemContentBlock, ToolResult, tool_result
from graphkit_prebuilt.react.reading import DICTS, UNANSWERED, calls_of, item, role_of
from graphkit_prebuilt.tools.values import text_of


def converse_of(messages: Iterable[Any]) -> tuple[list[Message], list[SystemContentBlock]]:
    """The conversation in content blocks, and what the system messages in it say. The results of one message's calls
    are one message; a call that has none gets an error result. Answers have no texts without a word."""
    said: list[Any] = []
    system: list[Any] = []
    read_on(messages, said, system)
    return said, system


def read_on(messages: Iterable[Any], said: list[Any], system: list[Any]) -> tuple[int, int] | None:
    """Add what these messages say. Returns the place of the last message of the assistant, with no system message
    before it, and how many blocks' messages stand before what it says: they stay as they are, whatever comes.

    What long conversations are made of, dicts with text that call tools and that have their results, is read here, in
    one look.
    """
    last: tuple[int, int] | None = None
    told = False
    open_calls: dict[Any, Any] = {}
    results: list[Any] | None = None  # the blocks of the last message, if that is one of results
    for place, message in enumerate(messages):
        is_plain = type(message) in DICTS and type(message.get("content")) is str
        role = message.get("role") if is_plain else None
        if role == "tool" and (open_calls or results is not None):
            open_calls.pop(message["tool_call_id"], None)
            if results is None:
                results = []
                said.append({"role": "user", "content": results})
            results.append(_result_block(message))
            continue
        role, blocks = (_plain(message, role) if is_plain else None) or _read(message)
        if role == "assistant":
            if open_calls:
                _close(open_calls, said, results)
            if blocks:
                if not told:
                    last = place, len(said)
                said.append({"role": role, "content": blocks})
                results = None
                for block in blocks:
                    if "toolUse" in block:
                        open_calls[block["toolUse"]["toolUseId"]] = block
            continue
        if role == "system":
            system += blocks
            told = True
            continue
        if open_calls or results is not None:  # a provider wants them in one message
            for block in blocks:
                if "toolResult" in block:
                    open_calls.pop(block["toolResult"]["toolUseId"], None)
                elif open_calls:
                    results = _close(open_calls, said, results)
                if results is None:
                    results = []
                    said.append({"role": "user", "content": results})
                results.append(block)
        elif blocks:
            said.append({"role": role, "content": blocks})
            results = blocks if "toolResult" in blocks[-1] else None
    if open_calls:
        _close(open_calls, said, results)
    return last


def _close(open_calls: dict[Any, Any], said: list[Any], results: list[Any] | None) -> list[Any]:
    """Give every open call an error result, in the message of results that there is or in a new one."""
    blocks: list[Any] = [] if results is None else results
    blocks += [{"toolResult": tool_result(call_id, "error", UNANSWERED)} for call_id in open_calls]
    if results is None:
        said.append({"role": "user", "content": blocks})
    open_calls.clear()
    return blocks


def _read(message: Any) -> tuple[str, list[Any]]:
    """The role, in content blocks, and the blocks of any message."""
    role = role_of(message)
    if role == "tool":
        return "user", [{"toolResult": _result(message)}]
    blocks = list(_blocks(item(message, "content")))
    if role == "assistant":
        blocks = [block for block in blocks if block.get("text", "-").strip()]
        blocks += _tool_uses(message, blocks)
    return role, blocks


def _plain(message: Mapping[str, Any], role: Any) -> tuple[str, list[Any]] | None:
    """The role and the blocks of a dict in the style of chat APIs whose content is text."""
    if role == "tool":
        return "user", [_result_block(message)]
    content = message["content"]
    blocks: list[Any] = [{"text": content}] if content else []
    if role == "user":
        return role, blocks
    if role != "assistant":
        return None
    if content.isspace():
        blocks = []
    for call in message.get("tool_calls", ()):
        if "function" in call:
            return None
        blocks.append({"toolUse": {"toolUseId": call["id"], "name": call["name"], "input": call["args"]}})
    return role, blocks


def _result_block(message: Mapping[str, Any]) -> Any:
    """The same for the result of a call: its block."""
    content = message["content"]
    return {
        "toolResult": {
            "toolUseId": message["tool_call_id"],
            "status": message.get("status", "success"),
            "content": [{"text": content}] if content else [],
        }
    }


def _tool_uses(message: Any, blocks: Sequence[Any]) -> list[Any]:
    if any("toolUse" in block for block in blocks):
        return []
    return [
        {"toolUse": {"toolUseId": call["id"], "name": call["name"], "input": call["args"]}}
        for call in calls_of(message)
    ]


def _result(message: Any) -> ToolResult:
    status: Any = item(message, "status") or "success"
    return tool_result(item(message, "tool_call_id"), status, *result_blocks(item(message, "content")))


def _blocks(content: Any) -> Iterator[Any]:
    """The blocks of a content of any style."""
    if isinstance(content, str):
        if content:
            yield {"text": content}
        return
    for part in content or ():
        if isinstance(part, str):
            yield {"text": part}
        elif "type" not in part:
            yield part
        else:
            yield from _typed(part)


def result_blocks(content: Any) -> Iterator[Any]:
    """The same for the content of a result: what a model cannot be sent is text in it."""
    for part in [content] if isinstance(content, str) else content or ():
        try:
            yield from _blocks([part] if part else ())
        except ValueError:
            yield {"text": text_of(part)}


def _typed(part: Mapping[str, Any]) -> Iterator[Any]:
    kind = part["type"]
    if kind == "text":
        if part["text"]:
            yield {"text": part["text"]}
    elif kind in ("thinking", "reasoning"):
        thought: dict[str, Any] = {"text": part.get("thinking") or part.get("reasoning") or ""}
        if part.get("signature") is not None:
            thought["signature"] = part["signature"]
        yield {"reasoningContent": {"reasoningText": thought}}
    elif kind == "redacted_thinking":
        yield {"reasoningContent": {"redactedContent": part["data"]}}
    elif kind in ("image", "image_url"):
        yield {"image": _image(part)}
    elif kind not in ("tool_use", "tool_call", "input_json_delta"):  # which `tool_calls` has
        raise ValueError(f"a content part of type {kind!r} cannot be sent to this model: {part!r:.200}")


def _image(part: Mapping[str, Any]) -> dict[str, Any]:
    """An image of OpenAI's, Anthropic's and LangChain's forms."""
    source = part.get("source")
    if part["type"] == "image_url":
        url = part["image_url"]
        url = url if isinstance(url, str) else url["url"]
        media_type, comma, data = url.removeprefix("data:").partition(";base64,")
        if not comma or not url.startswith("data:"):
            raise ValueError(f"an image by its address cannot be sent to this model: {url!r:.200}")
    elif isinstance(source, dict):
        media_type, data = source.get("media_type"), source.get("data")
    else:
        media_type, data = part.get("mime_type"), part.get("base64") or part.get("data")
    if not isinstance(media_type, str) or not isinstance(data, str):
        raise ValueError(f"an image without its bytes cannot be sent to this model: {part!r:.200}")
    return {"format": media_type.partition("/")[2], "source": {"bytes": base64.b64decode(data)}}
