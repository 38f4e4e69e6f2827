"""`TeamRequest`: one call of an orchestrator, from its task to its result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from graphkit.engine.request import End
from graphkit.frame import Frame
from graphkit.runs import undrained
from graphkit.types import Overwrite, RunnableConfig
from graphkit_prebuilt.hooks.event import BaseHookEvent
from graphkit_prebuilt.hooks.firing import heard
from graphkit_prebuilt.loop.steps import Either, Steps
from graphkit_prebuilt.multiagent.dicts import TeamDicts
from graphkit_prebuilt.multiagent.events import (
    AfterMultiAgentInvocationEvent,
    BeforeMultiAgentInvocationEvent,
    MultiAgentResultEvent,
)
from graphkit_prebuilt.multiagent.invocation import TeamInvocation
from graphkit_prebuilt.multiagent.nested import Tell
from graphkit_prebuilt.multiagent.outcome import result_of
from graphkit_prebuilt.multiagent.results import MultiAgentResult
from graphkit_prebuilt.prompts import Given, read_prompt, refused
from graphkit_prebuilt.running import DictForm, GraphRequest, Start

if TYPE_CHECKING:
    from graphkit_prebuilt.multiagent.base import MultiAgentBase

ANEW: Mapping[str, Any] = {
    "new": True,
    "results": Overwrite({}),
    "order": Overwrite([]),
    "totals": Overwrite({}),
    "own": Overwrite({}),
    "spent": 0,
    "outcome": None,
}
"""What is written when a turn begins: nothing of the one before is left."""


class TeamRequest(GraphRequest[MultiAgentResult]):
    """One call of an orchestrator. Made, it has checked what it was given.

    Raises `InvalidPromptError` for what is neither a task nor answers, `InvalidThreadIdError`, `TypeError`.
    """

    def __init__(
        self,
        team: MultiAgentBase,
        task: Any,
        invocation_state: dict[str, Any] | None,
        thread_id: str | None = None,
        live: bool = False,
    ) -> None:
        if invocation_state is None:
            invocation_state = {}
        elif not isinstance(invocation_state, dict):
            raise TypeError(f"invocation_state must be a dict, not {invocation_state!r:.100}")
        self.team = team
        self.task = task
        self.given = read_prompt(task)
        self.thread_id = team.thread_id_of(thread_id)
        self.invocation = TeamInvocation(
            source=team, invocation_state=invocation_state, show=_emit if live else None
        )

    @property
    def config(self) -> RunnableConfig:
        config: RunnableConfig = {"configurable": {"thread_id": self.thread_id}}
        if self.team.trace_attributes:
            config["metadata"] = self.team.trace_attributes
        return config

    def _begin(self) -> Start:
        graph = self.team.graph_for(*self._heard())
        return graph, self._input(self.given), self.config, {"context": self.invocation}

    def _heard(self) -> tuple[bool, bool]:
        """Whether anybody hears that a turn goes on, and that it comes to rest."""
        inv = self.invocation
        return heard(inv, BeforeMultiAgentInvocationEvent), heard(
            inv, AfterMultiAgentInvocationEvent, MultiAgentResultEvent
        )

    def _input(self, given: Given) -> Any:
        if given.kind == "answers":
            return given.answers
        if given.kind == "nothing":
            if given.empty and (questions := self.team.thread(self.thread_id).interrupts):
                raise refused(questions)
            return None
        task = self.task
        if not isinstance(task, str):
            task = [block for message in given.messages for block in message["content"]]
        return {**ANEW, "task": task}

    def _result_of(self, end: End) -> MultiAgentResult:
        undrained(end)
        return result_of(self.invocation, end.values, end.interrupts, end.namespace)

    def _dict_form(self) -> DictForm:
        return TeamDicts()


class NestedTeamRequest(TeamRequest):
    """A call of an orchestrator inside the running task: on the thread and the saver of its run, below it. As
    `NestedRequest` is one of an agent."""

    def __init__(
        self,
        team: MultiAgentBase,
        task: Any,
        invocation_state: dict[str, Any] | None,
        *,
        keeps: bool,
        tell: Tell | None = None,
    ) -> None:
        super().__init__(team, task, invocation_state)
        self.keeps = keeps
        self.invocation.fresh = not keeps
        if tell is not None:
            self.invocation.show = lambda frame, event: tell(event)

    def steps(self) -> Steps[MultiAgentResult]:
        """Run it, as a part of the steps of the running task."""
        result: MultiAgentResult = yield Either(self.run, self.arun)
        return result

    def _begin(self) -> Start:
        graph = self.team.nested_graph(*self._heard(), keeps=self.keeps)
        return graph, self._input(self.given), {}, {"context": self.invocation}


def _emit(frame: Frame | None, event: BaseHookEvent) -> None:
    """Show an event to whoever reads the stream of the call."""
    if frame is not None:
        frame.emit(event)
