"""Messages of every style, read as one: with `converse` (what they say) the only place that knows how a style is read.

Styles: dicts in that of chat APIs (`{"role", "content": "text", "tool_calls"}`, content may be a list of typed parts),
dicts of content blocks (Converse, as in `graphkit_prebuilt.content`), and objects of LangChain, known by their `type`
and `content`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

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
_NO_USERS: Final = ("tool", "assistant")


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


def is_said(message: Any) -> bool:
    """Whether somebody says something in it: it is a user's, and not with results of calls."""
    if type(message) in DICTS and message.get("role") in _NO_USERS:  # as most in a long turn are
        return False
    if role_of(message) != "user":
        return False
    content = item(message, "content")
    return not isinstance(content, list) or not any(
        isinstance(part, dict) and "toolResult" in part for part in content
    )


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
    open_calls: dict[Any, Mapping[str, Any]] = {}
    for message in messages:
        # All of a conversation is read for every answer: what long ones are made of, at once.
        is_dict = type(message) in DICTS
        kind = message.get("role") if is_dict else getattr(message, "type", None)
        if kind == "tool":
            if open_calls:
                open_calls.pop(item(message, "tool_call_id"), None)
            yield message
            continue
        if kind == "ai" and not is_dict:
            if open_calls:
                yield from _filled(open_calls)
            for call in getattr(message, "tool_calls", None) or ():
                open_calls[call.get("id")] = call
            yield message
            continue
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
    """Whether it is worth looking for calls in a message."""
    if isinstance(message, dict):
        return "tool_calls" in message or not isinstance(message.get("content"), str)
    return getattr(message, "type", None) not in _NO_CALLS


def _filled(open_calls: dict[Any, Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for call in map(_read_call, open_calls.values()):
        yield {
            "role": "tool",
            "content": UNANSWERED,
            "tool_call_id": call["id"],
            "name": call["name"],
            "status": "error",
        }
    open_calls.clear()


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
