"""`NestedRequest`: a request of an agent that is part of the run around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from graphkit.compiled import CompiledGraph
from graphkit.engine.request import End
from graphkit.engine.updates import Beginning
from graphkit.frame import running
from graphkit_prebuilt.content import Message
from graphkit_prebuilt.conversation import HEAD, copied, view
from graphkit_prebuilt.hooks.event import BaseHookEvent
from graphkit_prebuilt.host_thread import recorded_of
from graphkit_prebuilt.limits import ENDLESS
from graphkit_prebuilt.loop.drawing import Loop
from graphkit_prebuilt.loop.program import Heard, program_of
from graphkit_prebuilt.loop.steps import Either, Steps
from graphkit_prebuilt.models.sent import Sent
from graphkit_prebuilt.plugin_state import CLEARED
from graphkit_prebuilt.prompts import AgentInput
from graphkit_prebuilt.request import AgentRequest
from graphkit_prebuilt.result import AgentResult
from graphkit_prebuilt.running import Start

if TYPE_CHECKING:
    from graphkit_prebuilt.agent import Agent
    from graphkit_prebuilt.multiagent.base import MultiAgentBase

AGENT = "agent"
"""What the graph of an agent is called."""

Tell = Callable[[BaseHookEvent], Steps[None] | None]
H = TypeVar("H", "Agent", "MultiAgentBase")


class NestedRequest(AgentRequest):
    """A request inside the running task: on the thread and the saver of its run, below it.

    With `keeps` the conversation goes on from one task of this node to the next (it runs once at a time); else it is
    that of this task, and begins with what the agent begins with. When the task runs again, the request goes on where
    it was, whatever the prompt; a question that is asked in it leaves as `GraphInterrupt`. `tell` is given every event.
    `once` says that the task makes no other request.
    A node that keeps several conversations tells them apart by `name`.
    """

    def __init__(
        self,
        agent: Agent,
        prompt: AgentInput,
        options: Mapping[str, Any],
        *,
        keeps: bool,
        tell: Tell | None = None,
        name: str = AGENT,
        once: bool = False,
    ) -> None:
        super().__init__(agent, prompt, options)
        self.keeps = keeps
        self.name = name
        self.once = once
        if not keeps:
            self.invocation.sent = Sent()  # which nobody goes on with
        if tell is not None:
            shown = self.invocation.sink

            def sink(event: BaseHookEvent) -> Steps[None] | None:
                if shown is not None:
                    shown(event)
                return tell(event)

            self.invocation.sink = sink

    def steps(self) -> Steps[AgentResult]:
        """Run it, as a part of the steps of the running task."""
        result: AgentResult = yield Either(self.run, self.arun)
        return result

    values: Mapping[str, Any] = {}
    """The channels of the agent, as the request has left them."""

    @property
    def said(self) -> list[Message]:
        """Its conversation, without what the agent begins with; also what a conversation manager has taken away."""
        edits = {key: edit for key, edit in (self.values.get("edits") or {}).items() if key != HEAD}
        beginning = self.agent.begins_with.get("messages", ())
        return view({**self.values, "edits": edits})[len(beginning) :]

    def recorded(self) -> list[Mapping[str, Any]]:
        """The `metadata` of the answers that the conversation holds of this turn, last first; also of those that
        another process was given. None of a turn whose beginning is not known again, since a hook has changed its
        prompt."""
        log, prompt = self.values.get("messages") or (), next(reversed(self.given.messages), None)
        found: list[Mapping[str, Any]] = []
        end = 0 if self.keeps else len(self.agent.begins_with.get("messages", ()))
        for message in reversed(log[end:]):
            if message == prompt:
                return found
            if (about := message.get("metadata")) is not None:
                found.append(about)
        return [] if self.keeps else found

    def _result_of(self, end: End) -> AgentResult:
        self.values = end.values
        return super()._result_of(end)

    def _begin(self) -> Start:
        who = self._heard()
        self.invocation.new = self.given.messages
        given: dict[str, Any] = {"prompt" if who.before else "messages": list(self.given.messages)}
        if self.agent.plugins:
            given["turn"] = CLEARED
        if self.agent.begins_with:
            given = Beginning(given, copied(self.agent.begins_with))
        agent = self.agent
        graph = nested_graph(who, agent.tool_executor.in_order, self.keeps, agent.store, self.name, self.once)
        self.thread.begin(self.invocation, inside=True)
        past = running("the request of an agent").attempt.past
        if past is not None and past.asked:
            self.invocation.recorded = self._recorded
        return graph, given, {}, {"context": self.invocation}

    def _recorded(self) -> Mapping[str, Any]:
        """In a task of the agent."""
        return recorded_of(self.agent, running("agent.state").attempt.scope)


@lru_cache(maxsize=256)
def nested_graph(
    heard: Heard, in_order: bool, keeps: bool, store: Any = None, name: str = AGENT, once: bool = False
) -> CompiledGraph:
    """The graph of any agent, inside a task, which calls it `once`, or any number of times."""
    return CompiledGraph(
        replace(program_of(None, heard, in_order), name=name, admits=None, called_once=once),
        builder=Loop(),
        checkpointer=True if keeps else None,
        store=store,
        recursion_limit=ENDLESS,
    )


def sessionless(host: H) -> H:
    """An agent or orchestrator that may be a part of something. Raises `ValueError` if it has a session: what is kept
    of it is to be in one place."""
    if host.session_manager is not None:
        raise ValueError(
            f"{host!r:.200} has a session of its own, and as a part of something it is kept with that: give the "
            f"session_manager to what is around it"
        )
    return host
