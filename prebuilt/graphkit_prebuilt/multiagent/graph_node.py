"""`AgentNode`, `TeamNode`: an agent and an orchestrator as a node of a `StateGraph`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from graphkit.errors import InvalidPromptError
from graphkit.frame import running
from graphkit_prebuilt.content import Message, assistant
from graphkit_prebuilt.hooks.event import BaseHookEvent
from graphkit_prebuilt.loop.program import EVERYTHING
from graphkit_prebuilt.loop.steps import Steps, awaited, blocking
from graphkit_prebuilt.multiagent.nested import NestedRequest, Tell, nested_graph, sessionless
from graphkit_prebuilt.multiagent.request import NestedTeamRequest
from graphkit_prebuilt.multiagent.results import MultiAgentResult
from graphkit_prebuilt.prompts import AgentInput, read_prompt
from graphkit_prebuilt.react.converse import converse_of
from graphkit_prebuilt.result import AgentResult

if TYPE_CHECKING:
    from graphkit_prebuilt.agent import Agent
    from graphkit_prebuilt.multiagent.base import MultiAgentBase

Ask = Callable[[Any], AgentInput]
Update = Callable[[Any], Any]


class RequestNode(ABC):
    """A request as a part of the task that it is called in: on its thread, with its saver.

    `prompt(state)` is what is given, `update(result)` what the node returns. Each task is a conversation of its own;
    with `preserve_context` one goes on from task to task of the thread.

    A question in it is one of the graph, and it goes on where it was when that is answered. A dict that is the run's
    `context` is the `invocation_state`. In stream mode "custom" the graph shows what happens in it.
    """

    graph: Any
    """What it is, to look inside."""

    def __init__(self, prompt: Ask | None, update: Update | None, preserve_context: bool) -> None:
        if preserve_context and prompt is None:
            raise ValueError(
                "preserve_context keeps a conversation beside the state's messages: say what is to be given of the "
                "state, as_node(prompt=...)"
            )
        self.prompt = prompt
        self.update = update
        self.preserve_context = preserve_context

    def invoke(self, state: Any) -> Any:
        return blocking(self._steps(state))

    async def ainvoke(self, state: Any) -> Any:
        return await awaited(self._steps(state))

    def _steps(self, state: Any) -> Steps[Any]:
        frame = running("an agent as a node")
        context = frame.attempt.scope.live.context

        def tell(event: BaseHookEvent) -> None:
            frame.emit(event)

        return (
            yield from self._request(
                self._messages_in(state) if self.prompt is None else self.prompt(state),
                context if isinstance(context, dict) else None,
                tell if "custom" in frame.attempt.scope.listen else None,
            )
        )

    @abstractmethod
    def _request(self, prompt: Any, invocation_state: dict[str, Any] | None, tell: Tell | None) -> Steps[Any]:
        """One request; returns what the node does."""

    def _messages_in(self, state: Any) -> list[Message]:
        """The conversation in a state, or what a `Send` gives in its place. Raises `InvalidPromptError`."""
        if isinstance(state, (str, list)):
            return read_prompt(state).messages
        found = state.get("messages") if isinstance(state, Mapping) else getattr(state, "messages", None)
        try:
            said, system = converse_of(found if isinstance(found, (list, tuple)) else ())
        except ValueError as error:
            raise InvalidPromptError(f"{self._who} is a node: {error}") from error
        if system:
            raise InvalidPromptError(
                f"{self._who} is a node whose state has a system message: {system!r:.200}; give the agent a "
                f"system_prompt, or say what it is given, as_node(prompt=lambda state: ...)"
            )
        if not said:
            raise InvalidPromptError(
                f"{self._who} is a node whose state has no 'messages' to go on with: {state!r:.200}; say what it is "
                f"given, as_node(prompt=lambda state: ...)"
            )
        return said

    @property
    @abstractmethod
    def _who(self) -> str:
        """Which it is, for errors."""


class AgentNode(RequestNode):
    """An agent as a `RequestNode`. Without `prompt` and `update` it goes on with the state's `messages`, and adds to
    them what is said: state messages may be of any style (content blocks, dicts of chat APIs, objects of LangChain),
    and a `Send` may give a prompt in place of a state. With `prompt` alone the answer is added to `messages`."""

    def __init__(
        self, agent: Agent, prompt: Ask | None, update: Update | None, preserve_context: bool
    ) -> None:
        super().__init__(prompt, update, preserve_context)
        self.agent = sessionless(agent)
        self.graph = nested_graph(EVERYTHING, False, preserve_context)

    @property
    def _who(self) -> str:
        return f"agent {self.agent.name!r}"

    def _request(self, prompt: Any, invocation_state: dict[str, Any] | None, tell: Tell | None) -> Steps[Any]:
        options = {"invocation_state": invocation_state}
        request = NestedRequest(self.agent, prompt, options, keeps=self.preserve_context, tell=tell)
        result: AgentResult = yield from request.steps()
        if self.update is not None:
            return self.update(result)
        if self.prompt is not None:
            return {"messages": [result.message]}
        return {"messages": request.said[len(prompt) :]}


class TeamNode(RequestNode):
    """An orchestrator as a `RequestNode`. Without `prompt` its task is the last one of the state's `messages`; without
    `update` what its nodes have come to is added to them, as one message, and why the turn has failed if it has.

    Raises `ValueError` for an orchestrator with a session.
    """

    def __init__(
        self, team: MultiAgentBase, prompt: Ask | None, update: Update | None, preserve_context: bool
    ) -> None:
        super().__init__(prompt, update, preserve_context)
        self.team = sessionless(team)
        self.graph = team.nested_graph(True, True, keeps=preserve_context)

    @property
    def _who(self) -> str:
        return f"orchestrator {self.team.id!r}"

    def _request(self, prompt: Any, invocation_state: dict[str, Any] | None, tell: Tell | None) -> Steps[Any]:
        task = prompt if self.prompt is not None else prompt[-1]["content"]
        request = NestedTeamRequest(self.team, task, invocation_state, keeps=self.preserve_context, tell=tell)
        result: MultiAgentResult = yield from request.steps()
        if self.update is not None:
            return self.update(result)
        said = [str(result), f"The turn failed: {result.reason}"] if result.reason else [str(result)]
        return {"messages": [assistant(*said)]}
