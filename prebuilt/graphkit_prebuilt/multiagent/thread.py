"""`TeamThread`: one thread of an orchestrator."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from graphkit_prebuilt.directive import ResumeDirective, Way, way_of_team
from graphkit_prebuilt.halting import Halt
from graphkit_prebuilt.host_thread import HostThread, Within
from graphkit_prebuilt.multiagent.invocation import TeamInvocation
from graphkit_prebuilt.multiagent.outcome import result_of, status_of
from graphkit_prebuilt.multiagent.state import MultiAgentState

if TYPE_CHECKING:
    from graphkit_prebuilt.hooks.event import BaseHookEvent
    from graphkit_prebuilt.multiagent.base import MultiAgentBase
    from graphkit_prebuilt.multiagent.results import MultiAgentResult
    from graphkit_prebuilt.plugins import MultiAgentPlugin


class TeamThread(HostThread):
    """The thread `id` of an orchestrator: the calls of the orchestrator on it, and what it holds."""

    kind = "team"

    def __init__(self, team: MultiAgentBase, id: str, within: Within | None = None) -> None:
        super().__init__(team, id, within)
        self.team = team

    def __repr__(self) -> str:
        return f"TeamThread({self.team.id!r}, {self.id!r})"

    def __call__(self, task: Any = None, invocation_state: dict[str, Any] | None = None) -> MultiAgentResult:
        """`team(task)` on this thread."""
        return self.team(task, invocation_state, thread_id=self.id)

    invoke = __call__

    async def invoke_async(
        self, task: Any = None, invocation_state: dict[str, Any] | None = None
    ) -> MultiAgentResult:
        """`team.invoke_async(task)` on this thread."""
        return await self.team.invoke_async(task, invocation_state, thread_id=self.id)

    def stream(
        self, task: Any = None, invocation_state: dict[str, Any] | None = None
    ) -> Iterator[BaseHookEvent]:
        """`team.stream(task)` on this thread."""
        return self.team.stream(task, invocation_state, thread_id=self.id)

    def astream(
        self, task: Any = None, invocation_state: dict[str, Any] | None = None
    ) -> AsyncIterator[BaseHookEvent]:
        """`team.astream(task)` on this thread."""
        return self.team.astream(task, invocation_state, thread_id=self.id)

    def stream_async(
        self, task: Any = None, invocation_state: dict[str, Any] | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        """`team.stream_async(task)` on this thread."""
        return self.team.stream_async(task, invocation_state, thread_id=self.id)

    def resume(
        self,
        plugin_name: str | None = None,
        data: Any = None,
        invocation_state: dict[str, Any] | None = None,
    ) -> MultiAgentResult:
        """`team.resume(plugin_name, data)` on this thread."""
        return self.team.resume(plugin_name, data, invocation_state, thread_id=self.id)

    async def resume_async(
        self,
        plugin_name: str | None = None,
        data: Any = None,
        invocation_state: dict[str, Any] | None = None,
    ) -> MultiAgentResult:
        """`team.resume_async(plugin_name, data)` on this thread."""
        return await self.team.resume_async(plugin_name, data, invocation_state, thread_id=self.id)

    # What it holds

    @property
    def state(self) -> MultiAgentState:
        """Where its last turn stands."""
        snapshot = self.snapshot
        state = TeamInvocation(source=self.team).state(snapshot.values)
        if not self.is_running:
            state.resting = status_of(snapshot.values, snapshot.interrupts)
        return state

    @property
    def result(self) -> MultiAgentResult:
        """What its last call has returned, as far as it is stored."""
        snapshot = self.snapshot
        return result_of(TeamInvocation(source=self.team), snapshot.values, snapshot.interrupts)

    def delete(self) -> None:
        """Forget the thread, and all that is stored of it. Raises `ConcurrencyException` while a turn runs."""
        self.team.saver.delete_thread(self.id)
        self.pieces = {}

    def at_rest(self) -> TeamInvocation:
        return TeamInvocation(source=self.team, thread_id=self.id, thread=self)

    def way_of(self, directive: ResumeDirective, halts: Mapping[str, Halt], plugin: MultiAgentPlugin) -> Way:
        return way_of_team(directive, plugin)
