"""`AgentNode`: an agent as a node of a `StateGraph`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from graphkit.errors import InvalidPromptError
from graphkit.frame import running
from graphkit_prebuilt.content import Message
from graphkit_prebuilt.hooks.event import BaseHookEvent
from graphkit_prebuilt.loop.program import EVERYTHING
from graphkit_prebuilt.loop.steps import Steps, awaited, blocking
from graphkit_prebuilt.multiagent.nested import NestedRequest, nested_graph, sessionless
from graphkit_prebuilt.prompts import AgentInput, read_prompt
from graphkit_prebuilt.result import AgentResult

if TYPE_CHECKING:
    from graphkit_prebuilt.agent import Agent

Ask = Callable[[Any], AgentInput]
Update = Callable[[AgentResult], Any]


class AgentNode:
    """A request of an agent as a part of the task that it is called in: on its thread, with its saver.

    `prompt(state)` is what the agent is given, `update(result)` what the node returns. Without them the agent goes on
    with the state's `messages`, and adds to them what is said: state messages may have a text for their content, and a
    `Send` may give a prompt in place of a state. With `prompt` alone the answer is added to `messages`. Each task is a
    conversation of its own; with `preserve_context` one goes on from task to task of the thread.

    A question in it is one of the graph, and the agent goes on where it was when it is answered. A dict that is the
    run's `context` is the `invocation_state`. In stream mode "custom" the graph shows the agent's events.
    """

    def __init__(
        self, agent: Agent, prompt: Ask | None, update: Update | None, preserve_context: bool
    ) -> None:
        if preserve_context and prompt is None:
            raise ValueError(
                "preserve_context keeps a conversation beside the state's messages: say what the agent is given of "
                "the state, as_node(prompt=...)"
            )
        self.agent = sessionless(agent)
        self.prompt = prompt
        self.update = update
        self.preserve_context = preserve_context
        self.graph = nested_graph(EVERYTHING, False, preserve_context)  # to look inside

    def invoke(self, state: Any) -> Any:
        return blocking(self._steps(state))

    async def ainvoke(self, state: Any) -> Any:
        return await awaited(self._steps(state))

    def _steps(self, state: Any) -> Steps[Any]:
        frame = running("an agent as a node")
        context = frame.attempt.scope.live.context
        prompt: Any = self._messages_in(state) if self.prompt is None else self.prompt(state)

        def tell(event: BaseHookEvent) -> None:
            frame.emit(event)

        request = NestedRequest(
            self.agent,
            prompt,
            {"invocation_state": context if isinstance(context, dict) else None},
            keeps=self.preserve_context,
            tell=tell if "custom" in frame.attempt.scope.listen else None,
        )
        result = yield from request.steps()
        if self.update is not None:
            return self.update(result)
        if self.prompt is not None:
            return {"messages": [result.message]}
        return {"messages": request.said[len(prompt) :]}

    def _messages_in(self, state: Any) -> list[Message]:
        """The conversation in a state, or what a `Send` gives in its place. Raises `InvalidPromptError`."""
        if isinstance(state, (str, list)):
            return read_prompt(state).messages
        found = state.get("messages") if isinstance(state, Mapping) else getattr(state, "messages", None)
        if not isinstance(found, (list, tuple)) or not found:
            raise InvalidPromptError(
                f"agent {self.agent.name!r} is a node whose state has no 'messages' to go on with: {state!r:.200}; say "
                f"what it is given, agent.as_node(prompt=lambda state: ...)"
            )
        return [_message(one) for one in found]


def _message(given: Any) -> Any:
    """A message of a state, without the id that its reducer has given it."""
    if not isinstance(given, Mapping) or "content" not in given:
        return given
    content = given["content"]
    if isinstance(content, str):
        content = [{"text": content}]
    return {"role": given.get("role"), "content": content}
