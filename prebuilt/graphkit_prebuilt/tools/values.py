"""From what a tool returns or raises to the result that the model sees."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from graphkit_checkpoint.errors import UnserializableStateError
from graphkit_checkpoint.serde import pack
from graphkit_prebuilt.content import TextBlock, ToolResult, ToolResultBlock, tool_result
from graphkit_prebuilt.tools.schema import faults

_STATUS: Final = ("success", "error")
_JSON: Final = (dict, list, tuple, int, float, bool, type(None))


def result_of(value: Any, tool_use_id: str) -> ToolResult:
    """The result of a call that returned `value`.

    Text is the text of the result; `{"status": "success" | "error", "content": [block, …]}` (or a `ToolResultBlock`)
    is the result itself, with this call's id, and so is LangChain's message of a tool; numbers, lists, dicts,
    dataclasses, pydantic models and None are shown as JSON, anything else as `str()`. Raises `ValueError` for a result
    whose content is no list of blocks, or holds what cannot be stored.
    """
    if isinstance(value, str):
        return tool_result(tool_use_id, "success", _sendable(str.__str__(value)))
    if isinstance(value, ToolResultBlock):
        value = {"status": value.status, "content": value.content}
    if getattr(value, "type", None) == "tool" and hasattr(value, "tool_call_id"):
        value = _of_message(value)
    if isinstance(value, Mapping) and "content" in value and value.get("status") in _STATUS:
        return _given(value, tool_use_id)
    return tool_result(tool_use_id, "success", _sendable(text_of(value)))


def error_result(tool_use_id: str, error: BaseException | str) -> ToolResult:
    """The result of a call that failed: "Error: " and what happened."""
    return tool_result(tool_use_id, "error", _sendable(f"Error: {_reason(error)}"))


def _of_message(message: Any) -> dict[str, Any]:
    from graphkit_prebuilt.react.converse import result_blocks  # for few tools: it needs what graphs need

    status = "error" if getattr(message, "status", None) == "error" else "success"
    return {"status": status, "content": list(result_blocks(message.content)) or [{"text": ""}]}


def _given(value: Mapping[str, Any], tool_use_id: str) -> ToolResult:
    content = value["content"]
    if not isinstance(content, Sequence) or isinstance(content, (str, bytes)):
        raise ValueError(f"the tool returned a result whose content is no list of blocks: {content!r:.200}")
    blocks: list[Any] = [part.to_dict() if isinstance(part, TextBlock) else part for part in content]
    for block in blocks:
        text = block.get("text", "") if isinstance(block, dict) and block else None
        if not isinstance(text, str):
            raise ValueError(f"the tool returned a result with a block that is none: {block!r:.200}")
    result: ToolResult = {"toolUseId": tool_use_id, "status": value["status"], "content": blocks}
    if "structuredContent" in value:
        result["structuredContent"] = value["structuredContent"]
    try:
        pack(result)
    except UnserializableStateError as error:
        raise ValueError(f"the tool returned a result that cannot be stored: {error}") from error
    return copy.deepcopy(result)  # hooks may change it, and the tool may return the same one again


def text_of(value: Any) -> str:
    if type(value) is int:
        return str(value)
    if isinstance(value, _JSON) or _is_record(value):
        try:
            return _encode(value)
        except (TypeError, ValueError, RecursionError):  # keys that are no text, a list inside itself
            pass
    return str(value)


def _is_record(value: Any) -> bool:
    return hasattr(value, "model_dump") or (dataclasses.is_dataclass(value) and not isinstance(value, type))


def _plain(value: Any) -> Any:
    """What `json` is to write instead of a value that it does not know."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return str(value)


_encode: Final = json.JSONEncoder(default=_plain, ensure_ascii=False).encode


def _reason(error: BaseException | str) -> str:
    if isinstance(error, str):
        return error
    title = getattr(error, "title", None)
    if isinstance(error, ValueError) and isinstance(title, str) and hasattr(error, "errors"):
        return f"invalid input for {title}:\n{faults(error)}"  # pydantic's, without links for the model
    try:
        return str(error) or type(error).__name__
    except Exception:
        return type(error).__name__


def _sendable(text: str) -> str:
    """Without lone surrogates, which no request to a model can carry."""
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8")
