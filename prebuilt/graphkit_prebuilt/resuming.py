"""`agent.resume(plugin, data)`: going on with a turn that a plugin has halted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from graphkit.errors import (
    ConcurrencyException,
    HaltedTwiceError,
    InvalidDirectiveError,
    NotHaltedError,
    UnknownPluginError,
)
from graphkit.types import Command, StateSnapshot
from graphkit_prebuilt.directive import ResumeDirective, Way, chosen, way_of
from graphkit_prebuilt.halting import RESUMED, Halt, HaltSignal, halts_in
from graphkit_prebuilt.loop.invocation import here
from graphkit_prebuilt.loop.program import Heard
from graphkit_prebuilt.loop.steps import Call, Steps, awaited, blocking, depth_below
from graphkit_prebuilt.prompts import Given
from graphkit_prebuilt.request import AgentRequest
from graphkit_prebuilt.result import AgentResult

if TYPE_CHECKING:
    from graphkit_prebuilt.agent import Agent
    from graphkit_prebuilt.plugins import Plugin

__all__ = ["ResumeRequest"]


class ResumeRequest(AgentRequest):
    """`agent.resume(plugin, data)`: halted tasks run again as the plugin directs."""

    def __init__(self, agent: Agent, plugin: str | None, data: Any, options: Mapping[str, Any]) -> None:
        super().__init__(agent, None, options)
        self._plugin = plugin
        self._data = data
        self._halts: dict[str, Halt] = {}
        self._way = Way({})

    def run(self) -> AgentResult:
        blocking(self._prepare(), depth_below())
        return super().run()

    async def arun(self) -> AgentResult:
        await awaited(self._prepare())
        return await super().arun()

    def _given(self, given: Given, who: Heard) -> Any:
        writes = self._take(new_turn=self._way.anew)
        for channel, write in self._way.writes.items():
            merged = {**writes.get(channel, {}), **write} if isinstance(write, dict) else write
            writes[channel] = merged
        if self._way.anew:
            return writes
        return Command(update=writes or None, resume=dict.fromkeys(self._halts, RESUMED))

    def _prepare(self) -> Steps[None]:
        """Let the plugin say how to go on. Raises everything that is wrong with that before anything runs."""
        thread = self.thread
        if thread.is_running:
            raise ConcurrencyException(f"a request runs on thread {thread.id!r}: it is not halted")
        snapshot = thread.snapshot
        self._halts = _halts_of(self._plugin, snapshot, thread.id)
        if self._plugin is None:
            return
        plugin = self.agent.plugins.get(self._plugin)
        if plugin is None:
            raise UnknownPluginError(
                f"thread {thread.id!r} was halted by plugin {self._plugin!r}, which this agent does not have: it has "
                f"{list(self.agent.plugins)}. The thread stays halted; give the agent the plugin and resume it again"
            )
        with thread.tentative():
            directive = yield from self._directive_of(plugin)
            self._halts = chosen(directive, self._halts, plugin)
            self._way = way_of(directive, self._halts, snapshot, plugin)

    def _directive_of(self, plugin: Plugin) -> Steps[ResumeDirective]:
        what = f"on_resume of plugin {plugin.name!r}"
        token = here.set(self.invocation)
        try:
            directive = yield Call(plugin.on_resume, (self.agent, self._data))
        except HaltSignal as signal:
            directive = signal
        except Exception as error:
            error.add_note(f"raised by {what}; the thread stays halted")
            raise
        finally:
            here.reset(token)
        if isinstance(directive, HaltSignal):
            raise HaltedTwiceError(
                f"{what} halts ({directive.stop_reason!r}); the thread stays halted as it was"
            )
        if directive is None:
            return ResumeDirective()
        if not isinstance(directive, ResumeDirective):
            raise InvalidDirectiveError(f"{what} returned {directive!r:.200}, which is no ResumeDirective")
        return directive


def _halts_of(plugin: str | None, snapshot: StateSnapshot, thread_id: str) -> dict[str, Halt]:
    """The halts of a plugin, by the id of what is open."""
    found = {
        each.id: each.value
        for each in snapshot.interrupts
        if type(each.value) is Halt and each.value.plugin == plugin
    }
    if not found:
        others = [each.plugin for each in halts_in(snapshot.interrupts)]
        state = (
            f"it was halted by {', '.join(map(repr, others))}"
            if others
            else "a turn of it is unfinished, and goes on with agent()"
            if snapshot.next
            else "no turn of it is going on"
        )
        who = "nothing outside of plugins has" if plugin is None else f"plugin {plugin!r} has not"
        raise NotHaltedError(f"{who} halted thread {thread_id!r}: {state}")
    for halt in found.values():
        if not halt.resumable:
            raise NotHaltedError(
                f"thread {thread_id!r} was halted for good ({halt.stop_reason!r}, plugin {plugin!r}, "
                f"resumable=False); a new prompt goes on"
            )
    return found
