"""`handoff_to_agent`: the tool with which a member of a swarm says who goes on, and how its calls are read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from graphkit_prebuilt.content import Message, ToolSpec, tool_uses
from graphkit_prebuilt.loop.steps import Steps
from graphkit_prebuilt.tools.context import ToolContext
from graphkit_prebuilt.tools.tool import Progress, StepTool

HANDOFF: Final = "handoff_to_agent"


class Handoff(NamedTuple):
    """One member wants another one to go on: `target`, whom it tells `message`, and what it leaves for all that come
    after it."""

    target: str
    message: str
    context: dict[str, Any]


class HandoffTool(StepTool):
    """Hand the task over, from the member `giver` to one of `targets`. A call of it takes effect when the turn of the
    giver has ended."""

    def __init__(self, giver: str, targets: Sequence[str]) -> None:
        self.giver = giver
        self.targets = targets
        who = {"type": "string", "description": "The name of the agent that goes on."}
        self._spec: ToolSpec = {
            "name": HANDOFF,
            "description": "Let another agent of the team go on with the task, when your own answer is complete.",
            "inputSchema": {
                "json": {
                    "type": "object",
                    "properties": {
                        "agent_name": {**who, "enum": list(targets)} if targets else who,
                        "message": {
                            "type": "string",
                            "description": "What that agent is to do, and why it and not you.",
                        },
                        "context": {
                            "type": "object",
                            "description": "Facts that you have found, for all agents that come after you.",
                        },
                    },
                    "required": ["agent_name", "message"],
                }
            },
        }

    def take(self, context: ToolContext, progress: Progress) -> Steps[Any]:
        handoff = self.read(context.tool_use["input"])
        yield from ()
        return f"{handoff.target} goes on when you have ended your turn."

    def read(self, given: Any) -> Handoff:
        """What is wanted. Raises `ValueError`, for the model."""
        if not isinstance(given, Mapping):
            raise ValueError(f"the input is no JSON object: {given!r:.200}")
        target, message, context = given.get("agent_name"), given.get("message"), given.get("context")
        if target == self.giver:
            raise ValueError(f"you are {target!r} yourself: go on, or name another agent")
        if not isinstance(target, str) or target not in self.targets:
            others = ", ".join(self.targets) or "none"
            raise ValueError(f"there is no agent {target!r:.200}; the others are: {others}")
        if not isinstance(message, str) or not message.strip():
            raise ValueError(f"'message' must say what {target!r} is to do, not {message!r:.200}")
        if context is None:
            context = {}
        if not isinstance(context, dict) or not all(isinstance(key, str) and key.strip() for key in context):
            raise ValueError(
                f"'context' must be a JSON object whose keys say something, not {context!r:.200}"
            )
        try:
            if context:
                json.dumps(context)
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"'context' cannot be written as JSON: {error}") from error
        return Handoff(target, message, context)


def _hands_over(message: Message) -> bool:
    return any("toolUse" in block and block["toolUse"]["name"] == HANDOFF for block in message["content"])


def handoffs_in(messages: Sequence[Message], tool: HandoffTool) -> Iterator[Handoff]:
    """The handoffs that stand in a conversation, in the order in which they were asked for: the calls that have
    succeeded, as hooks have left them."""
    for message, answer in pairwise(messages):
        if message["role"] != "assistant" or not _hands_over(message):
            continue
        calls = tool_uses(message)
        results = [block["toolResult"] for block in answer["content"] if "toolResult" in block]
        for call, result in zip(calls, results, strict=False):
            if call["name"] == HANDOFF and result["status"] == "success":
                try:
                    yield tool.read(call["input"])
                except ValueError:  # a hook has made a success of it, or the members have changed
                    continue
