"""Going on with a turn that a plugin has halted, of an agent or an orchestrator: `resume(plugin, data)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from graphkit.engine.answers import Directed
from graphkit.engine.identity import run_of
from graphkit.errors import (
    ConcurrencyException,
    HaltedTwiceError,
    InvalidDirectiveError,
    NotHaltedError,
    UnknownPluginError,
)
from graphkit.frame import depth_below
from graphkit.types import Command, Interrupt, StateSnapshot
from graphkit_prebuilt.directive import ResumeDirective, chosen
from graphkit_prebuilt.halting import Halt, HaltSignal
from graphkit_prebuilt.host_thread import HostThread
from graphkit_prebuilt.loop.invocation import here
from graphkit_prebuilt.loop.program import Heard
from graphkit_prebuilt.loop.steps import Call, Steps, awaited, blocking
from graphkit_prebuilt.prompts import Given
from graphkit_prebuilt.request import AgentRequest
from graphkit_prebuilt.result import AgentResult

if TYPE_CHECKING:
    from graphkit_prebuilt.agent import Agent
    from graphkit_prebuilt.plugins import MultiAgentPlugin

__all__ = ["ResumeRequest", "Resumption"]

Halts = dict[str, Halt]
"""Halts by the id of what is open."""


class Resumption:
    """How a thread goes on that `plugin` has halted, in itself or in members of it, at whatever depth.

    `answers` end its halts. What the plugin changes in a member, and how that goes on, is a part of them, so that it is
    stored with the one commit of the resume, and reaches the member once.
    """

    def __init__(self, thread: HostThread, plugin: str | None, data: Any) -> None:
        self.thread = thread
        self.plugin = plugin
        self.data = data
        self.answers: dict[str, Directed] = {}
        self.anew = False

    def steps(self) -> Steps[None]:
        """Let the plugin say how to go on. Raises everything that is wrong with that before anything runs."""
        thread = self.thread
        if thread.is_running:
            raise ConcurrencyException(f"a request runs on thread {thread.id!r}: it is not halted")
        halted = _halts_of(self.plugin, thread.snapshot, thread)
        if self.plugin is None:
            self.answers = {each.id: Directed() for each in halted}
            return
        with ExitStack() as undo:
            for place, halts in self._by_place(halted).values():
                undo.enter_context(place.tentative())
                yield from self._direct(place, place.plugins[self.plugin], halts)

    def command(self, writes: Mapping[str, Any]) -> Command[Any]:
        """What is given to the graph; `writes` are those that were made between two requests."""
        return Command(update=writes or None, resume=self.answers)

    def _by_place(self, halted: Sequence[Interrupt]) -> dict[str, tuple[HostThread, Halts]]:
        """The halts by the namespace of whose plugin it is: what was halted, or else what is next around it."""
        found: dict[str, tuple[HostThread, Halts]] = {}
        for each in halted:
            way = list(self.thread.way_to(run_of(each.namespace)))
            place = next((place for place in reversed(way) if self.plugin in place.plugins), None)
            if place is None:
                raise self._gone(way[-1])
            found.setdefault(place.namespace, (place, {}))[1][each.id] = each.value
        return found

    def _gone(self, place: HostThread) -> UnknownPluginError:
        where = f" in {place.namespace!r}" if place.namespace else ""
        there = f"this {place.kind}{where} does not have: it has {list(place.plugins)}"
        return UnknownPluginError(
            f"thread {self.thread.id!r} was halted by plugin {self.plugin!r}, which {there}. The thread stays halted; "
            f"give back the plugin and resume it again"
        )

    def _direct(self, place: HostThread, plugin: MultiAgentPlugin, halts: Halts) -> Steps[None]:
        directive = yield from self._directive_of(plugin, place)
        halts = chosen(directive, halts, plugin)
        way = place.way_of(directive, halts, plugin)
        writes = way.writes
        if place is self.thread:
            self.anew = way.anew
        else:
            writes = dict(place.take(way.anew).writes)
            for channel, write in way.writes.items():
                merged = {**writes.get(channel, {}), **write} if isinstance(write, dict) else write
                writes[channel] = merged
        first, *others = halts
        directed = Directed(writes, place.namespace, way.anew)
        self.answers |= {first: directed, **dict.fromkeys(others, Directed())}

    def _directive_of(self, plugin: MultiAgentPlugin, place: HostThread) -> Steps[ResumeDirective]:
        what = f"on_resume of plugin {plugin.name!r}"
        token = here.set(place.at_rest())
        try:
            directive = yield Call(plugin.on_resume, (place.host, self.data))
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


class ResumeRequest(AgentRequest):
    """`agent.resume(plugin, data)`: halted tasks run again as the plugin directs."""

    def __init__(self, agent: Agent, plugin: str | None, data: Any, options: Mapping[str, Any]) -> None:
        super().__init__(agent, None, options)
        self._resumption = Resumption(self.thread, plugin, data)

    def run(self) -> AgentResult:
        blocking(self._resumption.steps(), depth_below())
        return super().run()

    async def arun(self) -> AgentResult:
        await awaited(self._resumption.steps())
        return await super().arun()

    def _given(self, given: Given, who: Heard) -> Any:
        return self._resumption.command(self._take(new_turn=self._resumption.anew))


def _halts_of(plugin: str | None, snapshot: StateSnapshot, thread: HostThread) -> list[Interrupt]:
    """The halts of a plugin, as questions, in their order."""
    halted = [each for each in snapshot.interrupts if type(each.value) is Halt]
    found = [each for each in halted if each.value.plugin == plugin]
    if not found:
        others = [each.value.plugin for each in halted]
        state = (
            f"it was halted by {', '.join(map(repr, others))}"
            if others
            else f"a turn of it is unfinished, and goes on with {thread.kind}()"
            if snapshot.next
            else "no turn of it is going on"
        )
        who = "nothing outside of plugins has" if plugin is None else f"plugin {plugin!r} has not"
        raise NotHaltedError(f"{who} halted thread {thread.id!r}: {state}")
    for halt in (each.value for each in found):
        if not halt.resumable:
            raise NotHaltedError(
                f"thread {thread.id!r} was halted for good ({halt.stop_reason!r}, plugin {plugin!r}, "
                f"resumable=False); a new prompt goes on"
            )
    return found
