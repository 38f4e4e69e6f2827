"""`HandOver`: the agent stops at a point with everything stored, and goes on elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphkit.frame import running
from graphkit_prebuilt.content import tool_uses
from graphkit_prebuilt.directive import ResumeDirective
from graphkit_prebuilt.halting import HaltSignal
from graphkit_prebuilt.hooks.catalogue import BeforeModelCallEvent, BeforeToolCallEvent, BeforeToolsEvent
from graphkit_prebuilt.plugins import Plugin, hook

__all__ = ["HandOver"]


@dataclass
class Points:
    """Where the turn has stopped, and where it was told to go on."""

    waiting: list[str] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)


class HandOver(Plugin):
    """Halts the agent before certain calls of tools, or before any `at` "model" or "tools", for another process.

    `tools` are names, or a function of the call that says whether it is one. With `at="tools"` it stops before a whole
    batch of calls, with `at="model"` before each call of the model. The result has the stop reason "handed_over";
    `data` has the `thread_id`, the point (`at`) and its `tool_uses`.

    Whoever has the same saver, or the same session, goes on: `agent.resume("hand_over")` makes the calls there;
    `agent.resume("hand_over", results)`, a list of tool results, brings those of calls that were made elsewhere.
    Nothing has to be running in the meantime: it is how an external system approves or does something in its own time,
    and how a long turn moves to another machine. It stops at each point one time. Raises `ValueError` unless there is
    just one of `tools` and `at`.
    """

    invocation_state_type = Points

    def __init__(
        self,
        tools: Iterable[str] | Callable[[Mapping[str, Any]], bool] | None = None,
        *,
        at: str | None = None,
        name: str = "hand_over",
    ) -> None:
        if (tools is None) == (at is None) or at not in (None, "model", "tools"):
            raise ValueError(
                f"HandOver stops before some tools=, or at='model' or at='tools'; it was given {tools!r}, {at!r}"
            )
        if isinstance(tools, str):
            raise TypeError(f"HandOver takes a list of the names of tools, not the text {tools!r}")
        self.name = name
        self.at = at
        self._wants: Callable[[Mapping[str, Any]], bool] = lambda tool_use: False
        if callable(tools):
            self._wants = tools
        elif tools is not None:
            names = frozenset(tools)
            self._wants = lambda tool_use: tool_use["name"] in names

    @hook
    def _before_model(self, event: BeforeModelCallEvent) -> None:
        if self.at == "model":
            self._stop(event.agent, f"model:{len(event.agent.messages)}", [])

    @hook
    def _before_tools(self, event: BeforeToolsEvent) -> None:
        if self.at == "tools":
            uses = tool_uses(event.message)
            self._stop(event.agent, f"tools:{uses[0]['toolUseId']}", uses)

    @hook
    def _before_call(self, event: BeforeToolCallEvent) -> None:
        if self._wants(event.tool_use):
            self._stop(event.agent, f"call:{event.tool_use['toolUseId']}", [event.tool_use])

    def _stop(self, agent: Any, point: str, uses: list[Any]) -> None:
        points: Points = agent.get_plugin_state(self.name, per_invocation=True)
        if point in points.passed:
            return
        data = {
            "thread_id": running(f"plugin {self.name!r}").attempt.scope.thread_id,
            "at": point.partition(":")[0],
            "tool_uses": [dict(use) for use in uses],
        }
        if point not in points.waiting:
            points.waiting.append(point)
            agent.set_plugin_state(self.name, points, per_invocation=True)
        raise HaltSignal("handed_over", data)

    def on_resume(self, agent: Any, data: Any) -> ResumeDirective:
        """`data` are the results of calls that were made elsewhere, if any."""
        points: Points = agent.get_plugin_state(self.name, per_invocation=True)
        points.passed, points.waiting = [*points.passed, *points.waiting], []
        agent.set_plugin_state(self.name, points, per_invocation=True)
        return ResumeDirective(completed_tool_results=() if data is None else data)
