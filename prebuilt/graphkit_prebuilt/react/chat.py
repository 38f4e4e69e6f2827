"""`ChatMessage`: a message in the style of chat APIs, for conversations that hold no objects of a message library."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated, Any, Final, NotRequired

from graphkit.extensions import KNOWN, Extension
from graphkit.graph.message import add_messages
from graphkit.managed import RemainingSteps
from graphkit_checkpoint.serde import register_type

if sys.version_info >= (3, 12):
    from typing import TypedDict
else:  # pydantic refuses the one of typing
    from typing_extensions import TypedDict

TYPES: Final = {"user": "human", "assistant": "ai", "system": "system", "developer": "system", "tool": "tool"}
"""What LangChain calls the roles."""


class ChatMessage(dict[str, Any]):
    """A message `{"role", "content", …}`: a dict whose items can be read as attributes too, as those of LangChain's.

    An assistant's has `tool_calls` (`{"name", "args", "id", "type": "tool_call"}`), a tool's has `tool_call_id`, `name`
    and `status`. `type` is what LangChain calls the role; items that are not there are None, `tool_calls` is empty.
    """

    past: Any = None
    """What has been read of the conversation before it (`Past`): no part of the message, of copies neither."""

    def __reduce__(self) -> Any:
        return ChatMessage, ({**self},)

    @property
    def role(self) -> str:
        found: str = self["role"]
        return found

    @property
    def type(self) -> str:
        role: str = self.get("role", "")
        return TYPES.get(role, role)

    @property
    def content(self) -> Any:
        return self["content"]

    @property
    def text(self) -> str:
        """The text of the content."""
        content = self["content"]
        if isinstance(content, str):
            return content
        return "".join(part if isinstance(part, str) else part.get("text", "") for part in content)

    @property
    def id(self) -> str | None:
        return self.get("id")

    @property
    def name(self) -> str | None:
        return self.get("name")

    @property
    def tool_calls(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get("tool_calls", [])
        return found

    @property
    def tool_call_id(self) -> str | None:
        return self.get("tool_call_id")

    @property
    def status(self) -> str | None:
        return self.get("status")

    @property
    def usage_metadata(self) -> dict[str, int] | None:
        return self.get("usage_metadata")

    @property
    def response_metadata(self) -> dict[str, Any]:
        found: dict[str, Any] = self.get("response_metadata", {})
        return found

    def pretty_repr(self) -> str:
        """The message for a person to read."""
        return "\n".join(self._lines())

    def pretty_print(self) -> None:
        print(self.pretty_repr())

    def _lines(self) -> Iterator[str]:
        title = {"human": "Human", "ai": "Ai", "system": "System", "tool": "Tool"}.get(self.type, self.type)
        yield f" {title} Message ".center(80, "=")
        if self.name:
            yield f"Name: {self.name}"
        if self.text:
            yield f"\n{self.text}"
        if self.tool_calls:
            yield "Tool Calls:"
        for call in self.tool_calls:
            yield f"  {call['name']} ({call['id']})"
            args = call["args"]
            yield from (
                (f"    {key}: {value}" for key, value in args.items())
                if isinstance(args, dict)
                else [f"    {args}"]
            )


register_type(ChatMessage, name="graphkit:ChatMessage", to=dict, from_=ChatMessage)


def add_chat_messages(left: Any, right: Any) -> list[Any]:
    """`add_messages`, whose dicts, texts and pairs are `ChatMessage`s. Objects of a message library stay what they
    are."""
    merged: list[Any] = add_messages(left, _dressed(right))
    return merged


def _appended(left: Any, right: Any) -> tuple[Any, Extension] | None:
    return KNOWN[add_messages](left, _dressed(right))


KNOWN[add_chat_messages] = _appended


def _dressed(given: Any) -> Any:
    return [_chat(message) for message in given] if isinstance(given, list) else _chat(given)


def _chat(message: Any) -> Any:
    if type(message) is ChatMessage:
        return message
    if type(message) is dict:
        return ChatMessage(message)
    if isinstance(message, str):
        return ChatMessage(role="user", content=message)
    if isinstance(message, tuple) and len(message) == 2 and isinstance(message[0], str):
        return ChatMessage(role=message[0], content=message[1])
    return message


class AgentState(TypedDict):
    """The state of a `create_react_agent` that was given no other."""

    messages: Annotated[list[Any], add_chat_messages]
    remaining_steps: NotRequired[RemainingSteps]


class AgentStateWithStructuredResponse(AgentState):
    """The same with a `response_format`."""

    structured_response: Any
