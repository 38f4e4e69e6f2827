"""Watching an agent while it works: `python examples/agents/streaming.py`.

`agent.stream` gives every event that hooks get, in the same order: the answer token by token, what a tool reports
before it is done, each message. With `GRAPHKIT_MODEL=provider:model` a real model is asked.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

from graphkit import Agent, tool
from graphkit.hooks import (
    AgentResultEvent,
    BeforeToolCallEvent,
    ModelStreamUpdateEvent,
    ToolResultEvent,
    ToolStreamUpdateEvent,
)
from graphkit.models import ScriptedModel, ToolCall, Turn

SCRIPTED = ScriptedModel(
    [
        ToolCall("search", {"words": "graph engines"}),
        Turn(text="There are two: the one of 1736, and this one.", chunks=12),
    ]
)


@tool
async def search(words: str) -> AsyncIterator[str]:
    """Search the library.

    Args:
        words: What to look for.
    """
    yield f"looking for {words}"
    yield "2 books found"  # the last value is the result


def main() -> None:
    agent = Agent(
        None if "GRAPHKIT_MODEL" in os.environ else SCRIPTED,
        tools=[search],
        callback_handler=None,
    )
    for event in agent.stream("What do we have on graph engines?"):
        match event:
            case ModelStreamUpdateEvent():
                text = event.event.get("contentBlockDelta", {}).get("delta", {}).get("text", "")
                print(text, end="|" if text else "", flush=True)
            case BeforeToolCallEvent():
                print(f"[calls {event.tool_use['name']} with {event.tool_use['input']}]")
            case ToolStreamUpdateEvent():
                print(f"[{event.tool_use['name']}: {event.event}]")
            case ToolResultEvent():
                print(f"[result: {event.result['content'][0]['text']}]")
            case AgentResultEvent():
                usage = event.result.metrics.accumulated_usage
                print(f"\n{event.result.stop_reason} after {usage['totalTokens']} tokens")


if __name__ == "__main__":
    main()
