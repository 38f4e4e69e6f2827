"""An agent as a tool of another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphkit_prebuilt.content import Message, texts
from graphkit_prebuilt.multiagent.nested import NestedRequest, Tell, sessionless
from graphkit_prebuilt.request import AgentRequest
from graphkit_prebuilt.result import AgentResult
from graphkit_prebuilt.tools.context import ToolContext
from graphkit_prebuilt.tools.requests import RequestTool

if TYPE_CHECKING:
    from graphkit_prebuilt.agent import Agent


class AgentAsTool(RequestTool):
    """An agent as a `RequestTool`: a conversation of it begins with what the agent begins with, and it answers with the
    text that it comes to; with `delegate`, with its last message; as JSON, if that is a structured output.

    Raises `ValueError` for an agent with a session.

    Behaviour: Strands' `Agent.as_tool`.
    """

    def __init__(
        self,
        agent: Agent,
        name: str,
        description: str | None,
        preserve_context: bool,
        delegate: bool = False,
    ) -> None:
        self.agent = sessionless(agent)
        told = description or agent.description or f"Gives a task to the agent {name!r}"
        super().__init__(agent, name, told, preserve_context, delegate)

    def _nested(self, prompt: str, context: ToolContext, tell: Tell | None) -> NestedRequest:
        return NestedRequest(
            self.agent,
            prompt,
            _shared(context),
            keeps=self.preserve_context,
            tell=tell,
            name=self.tool_name,
        )

    def _request(self, prompt: str, context: ToolContext, thread_id: str | None) -> AgentRequest:
        return AgentRequest(self.agent, prompt, {**_shared(context), "thread_id": thread_id})

    def _forget(self, thread_id: str) -> None:
        self.agent.thread(thread_id).delete()

    def _answer(self, result: AgentResult, context: ToolContext) -> Any:
        if result.stop_reason == "cancelled" and context.cancel_signal.is_set():
            raise RuntimeError(f"the agent {self.tool_name!r} was cancelled")
        if result.structured_output is not None:
            shown = result.structured_output.model_dump(mode="json")
            return {"status": "success", "content": [{"json": shown}]}
        if self.delegate and (blocks := _said(result.message)):
            return {"status": "success", "content": blocks}
        return str(result).rstrip("\n") if self.delegate else str(result)


def _shared(context: ToolContext) -> dict[str, Any]:
    return {"invocation_state": context.invocation_state, "cancel_signal": context.cancel_signal}


def _said(message: Message) -> list[Any]:
    """What a message says, as blocks that a tool's result may have: of citations the cited text."""
    found: list[Any] = []
    for block in message["content"]:
        if "text" in block:
            found.append({"text": block["text"]})
        elif "citationsContent" in block:
            cited = texts([block])
            if cited:
                found.append({"text": "\n".join(cited)})
    return found
