"""`TeamRequest`: one call of an orchestrator, from its task to its result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from graphkit.engine.request import End
from graphkit.frame import Frame, depth_below
from graphkit.runs import undrained
from graphkit.types import Command, Overwrite, RunnableConfig
from graphkit_prebuilt.hooks.event import BaseHookEvent
from graphkit_prebuilt.hooks.firing import heard
from graphkit_prebuilt.host_thread import Taken
from graphkit_prebuilt.loop.steps import Either, Steps, awaited, blocking
from graphkit_prebuilt.multiagent.dicts import TeamDicts
from graphkit_prebuilt.multiagent.events import (
    AfterMultiAgentInvocationEvent,
    BeforeMultiAgentInvocationEvent,
    MultiAgentResultEvent,
)
from graphkit_prebuilt.multiagent.invocation import TeamInvocation
from graphkit_prebuilt.multiagent.nested import Tell
from graphkit_prebuilt.multiagent.outcome import result_of
from graphkit_prebuilt.multiagent.results import MultiAgentResult, Status
from graphkit_prebuilt.plugin_state import CLEARED
from graphkit_prebuilt.prompts import Given, read_prompt, refused
from graphkit_prebuilt.request import with_update
from graphkit_prebuilt.resuming import Resumption
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

GOES_ON: Mapping[str, Any] = {"new": False}
"""What is written when a turn goes on that has ended by a limit or a timeout."""


class TeamRequest(GraphRequest[MultiAgentResult]):
    """One call of an orchestrator. Made, it has checked what it was given.

    Raises `InvalidPromptError` for what is neither a task nor answers, `InvalidThreadIdError`, `TypeError`.
    """

    again = False
    """Whether it goes on with the turn that has failed, given its task."""

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
        self.thread = team.thread(thread_id)
        self.thread_id = self.thread.id
        self.invocation = TeamInvocation(
            source=team,
            thread_id=self.thread_id,
            invocation_state=invocation_state,
            show=_emit if live else None,
        )
        self._taken: Taken | None = None

    @property
    def config(self) -> RunnableConfig:
        config: RunnableConfig = {"configurable": {"thread_id": self.thread_id}}
        if self.team.trace_attributes:
            config["metadata"] = self.team.trace_attributes
        return config

    def _begin(self) -> Start:
        graph, given = self.team.graph_for(*self._heard()), self._input(self.given)
        self.thread.begin(self.invocation)
        return graph, given, self.config, {"context": self.invocation}

    def _heard(self) -> tuple[bool, bool]:
        """Whether anybody hears that a turn goes on, and that it comes to rest."""
        inv = self.invocation
        return heard(inv, BeforeMultiAgentInvocationEvent), bool(self.team.plugins) or heard(
            inv, AfterMultiAgentInvocationEvent, MultiAgentResultEvent
        )

    def _input(self, given: Given) -> Any:
        if given.kind == "answers":
            writes = self._take()
            return with_update(given.answers, writes) if writes else given.answers
        if given.kind == "nothing":
            if given.empty and (questions := self.thread.interrupts):
                raise refused(questions)
            if self._has_failed():
                return {**GOES_ON, **self._take()}
            writes = self._take() if self.thread.is_changed and self.thread.snapshot.next else {}
            return Command(update=writes) if writes else None
        task = self.task
        if not isinstance(task, str):
            task = [block for message in given.messages for block in message["content"]]
        cleared = {"turn": CLEARED} if self.team.plugins else {}
        return {**(GOES_ON if self.again else ANEW), **self._take(), **cleared, "task": task}

    def _has_failed(self) -> bool:
        """Whether the turn has ended by a limit or a timeout."""
        snapshot = self.thread.snapshot
        outcome = snapshot.values.get("outcome") or {}
        return not snapshot.next and outcome.get("status") == Status.FAILED.value

    def _take(self) -> dict[str, Any]:
        self._taken = self.thread.take(new_turn=False)
        return self._taken.writes

    def _leave(self) -> None:
        if self._taken is not None and not self.invocation.values:  # no task has run: nothing was stored
            self.thread.give_back(self._taken)
        self.thread.end(self.invocation)

    def _result_of(self, end: End) -> MultiAgentResult:
        undrained(end)
        return result_of(self.invocation, end.values, end.interrupts, end.namespace)

    def _dict_form(self) -> DictForm:
        return TeamDicts()


class TeamResumeRequest(TeamRequest):
    """`team.resume(plugin, data)`: halted nodes run again as the plugin directs."""

    def __init__(
        self,
        team: MultiAgentBase,
        plugin: str | None,
        data: Any,
        invocation_state: dict[str, Any] | None,
        thread_id: str | None,
    ) -> None:
        super().__init__(team, None, invocation_state, thread_id)
        self._resumption = Resumption(self.thread, plugin, data)

    def run(self) -> MultiAgentResult:
        blocking(self._resumption.steps(), depth_below())
        return super().run()

    async def arun(self) -> MultiAgentResult:
        await awaited(self._resumption.steps())
        return await super().arun()

    def _input(self, given: Given) -> Any:
        return self._resumption.command(self._take())


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
        name: str | None = None,
        again: bool = False,
    ) -> None:
        super().__init__(team, task, invocation_state)
        self.again = again
        self.keeps = keeps
        self.name = name
        self.invocation.fresh = not keeps
        if tell is not None:
            self.invocation.show = lambda frame, event: tell(event)

    def _take(self) -> dict[str, Any]:
        return {}  # what plugins have set between turns is of the orchestrator's own thread

    def steps(self) -> Steps[MultiAgentResult]:
        """Run it, as a part of the steps of the running task."""
        result: MultiAgentResult = yield Either(self.run, self.arun)
        return result

    def _begin(self) -> Start:
        graph = self.team.nested_graph(*self._heard(), keeps=self.keeps, name=self.name)
        given = self._input(self.given)
        self.thread.begin(self.invocation, inside=True)
        return graph, given, {}, {"context": self.invocation}


def _emit(frame: Frame | None, event: BaseHookEvent) -> None:
    """Show an event to whoever reads the stream of the call."""
    if frame is not None:
        frame.emit(event)
