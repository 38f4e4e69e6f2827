"""New messages in the style of the conversation that they are added to: the only place that knows how a style is
written."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from graphkit.graph.message import new_id
from graphkit_prebuilt.content import ToolResult, tool_result
from graphkit_prebuilt.react.chat import ChatMessage
from graphkit_prebuilt.react.converse import result_blocks
from graphkit_prebuilt.react.reading import Style, ToolCall, is_said, style_of

_PARTS: Final = frozenset({"text", "image", "image_url", "document", "file", "search_result", "json"})


def style_for(messages: Sequence[Any]) -> Style:
    """The style of what is added to a conversation: that of the last thing that somebody said in it."""
    for message in reversed(messages):
        if is_said(message):
            return _writable(style_of(message))
    return _writable(style_of(messages[-1])) if messages else "chat"


def _writable(style: Style) -> Style:
    """Objects can be made where their library is there."""
    return style if style != "objects" or _library() is not None else "chat"


def _library() -> Any:
    return sys.modules.get("langchain_core.messages")


def answer(
    style: Style,
    content: Sequence[Any],
    *,
    stop_reason: str,
    usage: Mapping[str, Any],
    name: str | None = None,
    message_id: str | None = None,
) -> Any:
    """A message of the assistant that says these blocks."""
    about: dict[str, Any] = {"id": message_id or new_id()}
    if name is not None:
        about["name"] = name
    if stop_reason not in ("end_turn", "tool_use"):  # which anybody can see
        about["response_metadata"] = {"stop_reason": stop_reason}
    about["usage_metadata"] = {
        "input_tokens": usage["inputTokens"],
        "output_tokens": usage["outputTokens"],
        "total_tokens": usage["totalTokens"],
    }
    if style == "blocks":
        return ChatMessage(role="assistant", content=list(content), **about)
    uses = [block["toolUse"] for block in content if "toolUse" in block]
    calls: list[ToolCall] = [
        {"name": use["name"], "args": use["input"], "id": use["toolUseId"], "type": "tool_call"}
        for use in uses
    ]
    parts = _parts(block for block in content if "toolUse" not in block)
    if style == "objects":
        fitting = [call for call in calls if isinstance(call["args"], dict)]
        others = [
            {**call, "args": _text(call["args"]), "type": "invalid_tool_call", "error": None}
            for call in calls
            if not isinstance(call["args"], dict)
        ]
        return _library().AIMessage(content=parts, tool_calls=fitting, invalid_tool_calls=others, **about)
    if calls:
        about["tool_calls"] = calls
    return ChatMessage(role="assistant", content=parts, **about)


def piece(style: Style, text: str, message_id: str) -> Any:
    """A piece of a message that is being streamed."""
    if style == "objects":
        return _library().AIMessageChunk(content=text, id=message_id)
    content = [{"text": text}] if style == "blocks" else text
    return ChatMessage(role="assistant", content=content, id=message_id)


def result(style: Style, call: ToolCall, found: ToolResult) -> Any:
    """The message with what a call came to."""
    if style == "blocks":
        return ChatMessage(role="user", content=[{"toolResult": found}], id=new_id())
    about = {"name": call["name"], "tool_call_id": call["id"], "status": found["status"], "id": new_id()}
    content = _parts(found["content"])
    if style == "objects":
        return _library().ToolMessage(content=content, **about)
    return ChatMessage(role="tool", content=content, **about)


def is_content(value: Any) -> bool:
    """Whether what a function has returned is the content of a message as it is: parts that models know."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(part, dict) and part.get("type") in _PARTS for part in value)
    )


def result_with(style: Style, call: ToolCall, parts: list[Any]) -> Any:
    """The message of a call that came to these parts."""
    if style == "blocks":
        found = tool_result(call["id"], "success", *result_blocks(parts))
        return result(style, call, found)
    message = result(style, call, tool_result(call["id"], "success"))
    if style == "objects":
        message.content = parts
    else:
        message["content"] = parts
    return message


def _parts(blocks: Iterable[Any]) -> Any:
    """Blocks as the content of a chat message: text, if there is nothing but text."""
    parts = [_part(block) for block in blocks]
    if all(part.keys() == {"type", "text"} for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _part(block: Mapping[str, Any]) -> dict[str, Any]:
    if "text" in block:
        return {"type": "text", "text": block["text"]}
    if "json" in block:
        return {"type": "text", "text": _text(block["json"])}
    if "reasoningContent" in block:
        thought = block["reasoningContent"]
        if "redactedContent" in thought:
            return {"type": "redacted_thinking", "data": thought["redactedContent"]}
        said = thought["reasoningText"]
        signed = {"signature": said["signature"]} if said.get("signature") is not None else {}
        return {"type": "thinking", "thinking": said.get("text", ""), **signed}
    if "image" in block and "bytes" in block["image"]["source"]:
        image = block["image"]
        data = base64.b64encode(image["source"]["bytes"]).decode()
        return {"type": "image_url", "image_url": {"url": f"data:image/{image['format']};base64,{data}"}}
    return {
        "type": "text",
        "text": _text({key: value for key, value in block.items() if key != "cachePoint"}),
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
