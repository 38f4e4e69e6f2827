"""A tool to which its agent hands a turn over: what the tool answers is the agent's answer, and its model is not asked
again.

A call of such a tool is the only one of its message: beside others, none of them runs, and the model is told. A call
that fails, that answers with nothing, or in a request that is to come to a structured output, is like one of any tool.
Behaviour: Strands' `Agent.as_tool(delegate=True)`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from graphkit_prebuilt.content import ContentBlock, Message, tool_results, tool_uses
from graphkit_prebuilt.conversation import dangling
from graphkit_prebuilt.hooks.catalogue import AfterToolsEvent, BeforeToolsEvent
from graphkit_prebuilt.hooks.order import HookOrder
from graphkit_prebuilt.hooks.registry import HookRegistry
from graphkit_prebuilt.loop.invocation import Invocation, here

if TYPE_CHECKING:
    from graphkit_prebuilt.tools.tool import AgentTool

TOLD: Final = (
    " Its answer is given to the user as the final one: call it alone, with no other tool beside it."
)
DENIED: Final = (
    "Not called: {name!r} gives the final answer, and cannot be called beside other tools. Call it alone, or the "
    "others without it."
)


def register(tool: AgentTool, registry: HookRegistry) -> None:
    """Let the agent of these callbacks hand its turns over to `tool`."""

    def refuse(event: BeforeToolsEvent) -> None:
        calls = tool_uses(event.message)
        if len(calls) > 1 and any(_serves(tool, event.agent, call["name"]) for call in calls):
            event.cancel = DENIED.format(name=tool.tool_name)

    def end(event: AfterToolsEvent) -> None:
        results, request = tool_results(event.message), here.get()
        if (
            len(results) != 1
            or results[0]["status"] != "success"
            or request is None
            or request.output is not None
        ):
            return
        calls = tool_uses(_called(request))
        if len(calls) != 1 or not _serves(tool, event.agent, calls[0]["name"]):
            return
        blocks = blocks_of(results[0]["content"])
        if any(block.get("text") != "" for block in blocks):
            event.end_turn = blocks

    registry.add_callback(BeforeToolsEvent, refuse)
    registry.add_callback(AfterToolsEvent, end, order=HookOrder.SDK_LAST)


def _called(request: Invocation) -> Message:
    """The message whose calls have just ended, as hooks have changed it, unless they have left it out."""
    seen = request.seen
    if len(seen) > 1 and dangling(seen[-2]):
        return seen[-2]
    log: list[Message] = request.values["messages"]
    return log[-2]


def _serves(tool: AgentTool, agent: Any, name: Any) -> bool:
    return bool(name == tool.tool_name and agent.tool_registry.get(name) == tool)


def blocks_of(content: Sequence[Any]) -> list[ContentBlock]:
    """A tool's result as what an assistant says: JSON is written as text."""
    return [
        {"text": json.dumps(block["json"], ensure_ascii=False)} if "json" in block else block
        for block in content
    ]
