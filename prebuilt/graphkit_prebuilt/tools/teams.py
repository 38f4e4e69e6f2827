"""An orchestrator as a tool of an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphkit_prebuilt.multiagent.nested import Tell, sessionless
from graphkit_prebuilt.multiagent.request import NestedTeamRequest, TeamRequest
from graphkit_prebuilt.multiagent.results import MultiAgentResult, Status
from graphkit_prebuilt.tools.context import ToolContext
from graphkit_prebuilt.tools.requests import RequestTool

if TYPE_CHECKING:
    from graphkit_prebuilt.multiagent.base import MultiAgentBase


class TeamAsTool(RequestTool):
    """An orchestrator as a `RequestTool`: it answers with the texts of its nodes; a turn of it that has failed is an
    error result with the reason.

    Raises `ValueError` for an orchestrator with a session.
    """

    def __init__(
        self,
        team: MultiAgentBase,
        name: str,
        description: str | None,
        preserve_context: bool,
        delegate: bool,
    ) -> None:
        self.team = sessionless(team)
        told = description or f"Gives a task to the team {name!r}: {', '.join(team.nodes)}"
        super().__init__(team, name, told, preserve_context, delegate)

    def _nested(self, prompt: str, context: ToolContext, tell: Tell | None) -> NestedTeamRequest:
        request = NestedTeamRequest(
            self.team,
            prompt,
            context.invocation_state,
            keeps=self.preserve_context,
            tell=tell,
            name=self.tool_name,
        )
        request.invocation.cancel = context.cancel_signal
        return request

    def _request(self, prompt: str, context: ToolContext, thread_id: str | None) -> TeamRequest:
        request = TeamRequest(self.team, prompt, context.invocation_state, thread_id)
        request.invocation.cancel = context.cancel_signal
        return request

    def _forget(self, thread_id: str) -> None:
        self.team.thread(thread_id).delete()

    def _answer(self, result: MultiAgentResult, context: ToolContext) -> str:
        if context.cancel_signal.is_set():
            raise RuntimeError(f"the team {self.tool_name!r} was cancelled")
        if result.status is not Status.COMPLETED:
            raise RuntimeError(f"the team {self.tool_name!r} failed: {result.reason}\n{result}")
        return str(result)
