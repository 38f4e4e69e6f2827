"""Messages of every style, read as one: the only place that knows how a style is read.

Styles: dicts in that of chat APIs (`{"role", "content": "text", "tool_calls"}`, content may be a list of typed parts),
dicts of content blocks (Converse, as in `graphkit_prebuilt.content`), and objects of LangChain, known by their `type`
and `content`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from graphkit_prebuilt.content import Message, SystemContentBlock, ToolResult, tool_result
from graphkit_prebuilt.react.chat import ChatMessage

Style = Literal["chat", "blocks", "objects"]
ToolCall = dict[str, Any]
"""`{"name", "args", "id", "type": "tool_call"}`; `args` is what the model gave, an object if it did as it was told."""

UNANSWERED: Final = "The call was not completed."

_ROLES: Final = {
    "user": "user",
    "human": "user",
    "HumanMessageChunk": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}

_NO_CALLS: Final = ("human", "tool", "system")
"""The types of LangChain's objects that call no tools."""

DICTS: Final = (dict, ChatMessage)


def role_of(message: Any) -> str:
    """ "user", "assistant", "system" or "tool". Raises `ValueError` for what is no message."""
    if isinstance(message, dict):
        role = _role(message.get("role") or message.get("type"))
    else:  # an object of LangChain has no role, and takes long to say so
        role = _role(getattr(message, "type", None)) or _role(getattr(message, "role", None))
    if role is not None:
        return role
    raise ValueError(
        f"{message!r:.200} is no message of a conversation: it needs a role (user, assistant, system, tool)"
    )


def _role(named: Any) -> str | None:
    return _ROLES.get(named) if isinstance(named, str) else None


def item(message: Any, key: str) -> Any:
    """An item of a dict, or an attribute of an object; None if there is none."""
    return message.get(key) if isinstance(message, dict) else getattr(message, key, None)


def style_of(message: Any) -> Style:
    if not isinstance(message, dict):
        return "objects" if hasattr(message, "content") else "chat"
    content = message.get("content")
    if isinstance(content, list) and any(isinstance(part, dict) and "type" not in part for part in content):
        return "blocks"
    return "chat"


def calls_of(message: Any) -> list[ToolCall]:
    """The calls of tools in a message, in its order."""
    if (
        isinstance(message, dict)
        and not isinstance(message.get("content"), str)
        and style_of(message) == "blocks"
    ):
        uses = [part["toolUse"] for part in message["content"] if "toolUse" in part]
        return [_call(use["name"], use["input"], use["toolUseId"]) for use in uses]
    return [_read_call(call) for call in item(message, "tool_calls") or ()]


def answered_by(message: Any) -> list[str]:
    """The ids of the calls whose results a message has."""
    if role_of(message) == "tool":
        return [item(message, "tool_call_id")]
    if isinstance(message, dict) and style_of(message) == "blocks":
        return [part["toolResult"]["toolUseId"] for part in message["content"] if "toolResult" in part]
    return []


def last_answer(messages: Sequence[Any]) -> tuple[Any, list[ToolCall]]:
    """The last message of the assistant, None if there is none, and those of its calls that have no result."""
    answered: set[Any] = set()
    for message in reversed(messages):
        if role_of(message) == "assistant":
            calls = calls_of(message)
            return message, [call for call in calls if call["id"] not in answered] if answered else calls
        answered.update(answered_by(message))
    return None, []


def completed(messages: Iterable[Any]) -> Iterator[Any]:
    """The conversation with an error result for every call that has none: a model is sent no call without a result."""
    open_calls: dict[Any, ToolCall] = {}
    for message in messages:
        if open_calls and role_of(message) != "system":
            found = answered_by(message)
            if not found:
                yield from _filled(open_calls)
            for answered in found:
                open_calls.pop(answered, None)
        if _may_call(message):
            open_calls.update((call["id"], call) for call in calls_of(message))
        yield message
    yield from _filled(open_calls)


def _may_call(message: Any) -> bool:
    """Whether it is worth looking for calls in a message: all of a conversation is read for every answer."""
    if isinstance(message, dict):
        return "tool_calls" in message or not isinstance(message.get("content"), str)
    return getattr(message, "type", None) not in _NO_CALLS


def _filled(open_calls: dict[Any, ToolCall]) -> Iterator[dict[str, Any]]:
    for call in open_calls.values():
        yield {
            "role": "tool",
            "content": UNANSWERED,
            "tool_call_id": call["id"],
            "name": call["name"],
            "status": "error",
        }
    open_calls.clear()


def converse_of(messages: Iterable[Any]) -> tuple[list[Message], list[SystemContentBlock]]:
    """The conversation in content blocks, and what the system messages in it say. The results of one message's calls
    are one message; a call that has none gets an error result.

    All of it is read for every answer of a model, so what long conversations are made of, dicts with text that call
    tools and that have their results, is read here, in one look.
    """
    said: list[Any] = []
    system: list[Any] = []
    open_calls: dict[Any, Any] = {}
    results: list[Any] | None = None  # the blocks of the last message, if that is one of results
    for message in messages:
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
                said.append({"role": role, "content": blocks})
                results = None
                for block in blocks:
                    if "toolUse" in block:
                        open_calls[block["toolUse"]["toolUseId"]] = block
            continue
        if role == "system":
            system += blocks
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
    return said, system


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
    status = item(message, "status") or "success"
    return tool_result(item(message, "tool_call_id"), status, *_blocks(item(message, "content")))  # type: ignore[arg-type]


def _call(name: str, args: Any, call_id: Any) -> ToolCall:
    return {"name": name, "args": args, "id": call_id, "type": "tool_call"}


def _read_call(call: Mapping[str, Any]) -> ToolCall:
    """A call in LangChain's form or in OpenAI's."""
    function = call.get("function")
    if function is None:
        return _call(call["name"], call["args"], call.get("id"))
    arguments = function.get("arguments")
    try:
        args = json.loads(arguments) if arguments else {}
    except (TypeError, ValueError):
        args = arguments
    return _call(function["name"], args, call.get("id"))


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
