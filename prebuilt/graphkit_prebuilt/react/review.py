"""A person looks at the calls of a tool first: `add_human_in_the_loop`, and the shapes that Agent Inbox and Agent Chat
UI understand. A list of one request goes out, a list of one response comes in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Literal, NotRequired, TypedDict

from graphkit.questions import interrupt
from graphkit_prebuilt.content import ToolSpec, ToolUse
from graphkit_prebuilt.loop.steps import Steps
from graphkit_prebuilt.react.functions import graph_tool
from graphkit_prebuilt.tools.context import ToolContext
from graphkit_prebuilt.tools.tool import AgentTool, Progress, StepTool


class ActionRequest(TypedDict):
    """A call of a tool: its name and its arguments."""

    action: str
    args: dict[str, Any]


class HumanInterruptConfig(TypedDict, total=False):
    """What a person may do with a request. What is left out is not allowed."""

    allow_ignore: bool
    allow_respond: bool
    allow_edit: bool
    allow_accept: bool


class HumanInterrupt(TypedDict):
    """A request to a person."""

    action_request: ActionRequest
    config: HumanInterruptConfig
    description: NotRequired[str | None]


class HumanResponse(TypedDict):
    """What a person has done with a request: "accept" it, "edit" it (`args` is an `ActionRequest`, whose args are
    used), give a "response" to the model instead (`args` is the text), or "ignore" it."""

    type: Literal["accept", "ignore", "response", "edit"]
    args: NotRequired[str | ActionRequest | None]


DEFAULT_CONFIG: Final[HumanInterruptConfig] = {
    "allow_accept": True,
    "allow_edit": True,
    "allow_respond": True,
}
IGNORED: Final = "The call was not made: a person has chosen to ignore it."

_ALLOWS: Final = {
    "allow_accept": "accept",
    "allow_edit": "edit",
    "allow_respond": "response",
    "allow_ignore": "ignore",
}


def add_human_in_the_loop(
    tool: Callable[..., Any] | Any, *, interrupt_config: HumanInterruptConfig | None = None
) -> AgentTool:
    """The tool, each call of which a person looks at before it is made; for `create_react_agent`, `ToolNode` and
    `Agent`.

    The call asks `[HumanInterrupt]` and is answered by `[HumanResponse]`: with "accept" the tool is called as the
    model wanted, with "edit" with the person's arguments; the text of a "response" is what the model gets instead, and
    for "ignore" it is told so. `interrupt_config` says which of these are allowed, by default all but "ignore". An
    answer of another type, form or number is refused with `InvalidResponseError`, and the question stays open.

    Raises `TypeError` for what is no tool, `ValueError` for a config that allows nothing or has an unknown key.
    """
    config = DEFAULT_CONFIG if interrupt_config is None else interrupt_config
    unknown = [key for key in config if key not in _ALLOWS]
    if unknown:
        raise ValueError(f"interrupt_config= has no {unknown[0]!r}; there are {', '.join(_ALLOWS)}")
    if not any(config.values()):
        raise ValueError("interrupt_config= allows nothing, so nobody could answer")
    return ReviewedTool(graph_tool(tool), {**config})


class ReviewedTool(StepTool):
    """A tool whose calls a person looks at first."""

    def __init__(self, tool: AgentTool, config: HumanInterruptConfig) -> None:
        self.reviewed = tool
        self.is_plain = getattr(tool, "is_plain", False)
        self.config = config
        self.return_direct = getattr(tool, "return_direct", False)
        self._schema = _schema(config)

    @property
    def tool_name(self) -> str:
        return self.reviewed.tool_name

    @property
    def tool_spec(self) -> ToolSpec:
        return self.reviewed.tool_spec

    @property
    def tool_type(self) -> str:
        return self.reviewed.tool_type

    def take(self, context: ToolContext, progress: Progress) -> Steps[Any]:
        use = context.tool_use
        request: HumanInterrupt = {
            "action_request": {"action": use["name"], "args": use["input"]},
            "config": self.config,
            "description": "Please review the tool call",
        }
        response = interrupt([request], response_schema=self._schema)[0]
        if response["type"] == "response":
            return response["args"]
        if response["type"] == "ignore":
            return IGNORED
        if response["type"] == "edit":
            edited = ToolUse({**use, "input": response["args"]["args"]})
            context = replace(context, tool_use=edited)
        return (yield from self.reviewed.take(context, progress))


def _schema(config: HumanInterruptConfig) -> dict[str, Any]:
    """The JSON schema of an answer to a request."""
    args: dict[str, Any] = {
        "accept": {},
        "ignore": {},
        "edit": {"type": "object", "properties": {"args": {"type": "object"}}, "required": ["args"]},
        "response": {"type": "string"},
    }
    forms = [
        {
            "type": "object",
            "properties": {"type": {"const": kind}, "args": args[kind]},
            "required": ["type", "args"] if args[kind] else ["type"],
        }
        for key, kind in _ALLOWS.items()
        if config.get(key)
    ]
    return {"type": "array", "items": {"anyOf": forms}, "minItems": 1, "maxItems": 1}
