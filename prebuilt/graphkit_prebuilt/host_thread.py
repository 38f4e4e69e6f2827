"""`HostThread`: what a thread of an agent and one of an orchestrator have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar, NamedTuple

from graphkit.engine.attempt import Scope
from graphkit.engine.identity import TASK
from graphkit.engine.request import Position
from graphkit.snapshot import Viewer
from graphkit.types import Interrupt, RunnableConfig, StateSnapshot
from graphkit_checkpoint.base import BaseCheckpointSaver
from graphkit_prebuilt.directive import ResumeDirective, Way
from graphkit_prebuilt.halting import Halt, halts_in, questions_in
from graphkit_prebuilt.loop.invocation import invocation_of
from graphkit_prebuilt.plugin_pieces import Pieces
from graphkit_prebuilt.plugin_state import (
    Part,
    PluginStates,
    RestingStates,
    given_back,
    taken,
    tentative,
)

__all__ = ["HostThread", "Taken", "Within", "recorded_of"]


class Taken(NamedTuple):
    """Changes on their way into a request: what is written to the graph's channels, and the conversation as it was
    before that, if it was changed (`Messages.as_it_is`)."""

    writes: dict[str, Any]
    before: Any = None


class Within(NamedTuple):
    """Where the thread of a member is: in a namespace of the thread of what is around it, on the saver of that."""

    saver: BaseCheckpointSaver
    namespace: str


class HostThread(ABC):
    """The thread `id` of `host`, an agent or orchestrator: what is stored of it, and what was set since by plugins.

    `within` it is that of a member: what a plugin is shown that says how a halted member goes on. Then what is set here
    is stored by the `resume` that asks the plugin, and by nothing else.
    """

    kind: ClassVar[str] = "agent"

    def __init__(self, host: Any, id: str, within: Within | None = None) -> None:
        self.id = id
        self.pieces: dict[Part, Pieces] = {}
        self._host = host
        self._within = within
        self._requests: list[Any] = []
        self._inside: list[Any] = []

    @property
    def config(self) -> RunnableConfig:
        """What addresses this thread in the `graph` of the agent or orchestrator."""
        return {"configurable": {"thread_id": self.id}}

    @property
    def snapshot(self) -> StateSnapshot:
        """The thread as it is stored; its values are not to be changed."""
        within = self._within
        if within is None:
            return Viewer(self._host.graph, self._host.saver).peek(Position(self.id))
        place = Position(self.id, within.namespace)
        return Viewer(self._host.graph, within.saver, namespace=within.namespace).peek(place)

    @property
    def saver(self) -> BaseCheckpointSaver:
        """Where it is stored."""
        saver: BaseCheckpointSaver = self._host.saver if self._within is None else self._within.saver
        return saver

    @property
    def host(self) -> Any:
        return self._host

    @property
    def plugins(self) -> Mapping[str, Any]:
        """The plugins of its agent or orchestrator, by name."""
        plugins: Mapping[str, Any] = self._host.plugins
        return plugins

    @property
    def namespace(self) -> str:
        return "" if self._within is None else self._within.namespace

    @property
    def interrupts(self) -> list[Interrupt]:
        """The open questions."""
        return questions_in(self.snapshot.interrupts)

    @property
    def halts(self) -> list[Halt]:
        """What has halted it: what a plugin's `resume` goes on after, and what nothing goes on after."""
        return halts_in(self.snapshot.interrupts)

    def get_plugin_state(self, name: str, *, per_invocation: bool = False) -> Any:
        """`get_plugin_state` of the agent or orchestrator, of this thread."""
        return self._plugin_states.get(name, "turn" if per_invocation else "plugins")

    def set_plugin_state(self, name: str, state: Any, *, per_invocation: bool = False) -> None:
        """`set_plugin_state` of the agent or orchestrator, of this thread. Raises `RuntimeError` for a state per
        invocation if no turn is going on."""
        if per_invocation and self._running is None and not self.snapshot.next:
            raise RuntimeError(
                f"the state of plugin {name!r} cannot be set per invocation while no turn of thread {self.id!r} "
                f"is going on"
            )
        self._plugin_states.set(name, state, "turn" if per_invocation else "plugins")

    def begin(self, request: Any, inside: bool = False) -> None:
        """A request runs on this thread, until its `end`; or `inside` of something, on the thread of that."""
        (self._inside if inside else self._requests).append(request)

    def end(self, request: Any) -> None:
        (self._inside if request in self._inside else self._requests).remove(request)

    @property
    def is_running(self) -> bool:
        """Whether a request of this agent or orchestrator, this very object, runs on this thread."""
        return bool(self._requests)

    @property
    def is_changed(self) -> bool:
        """Whether it knows something that is not stored."""
        return bool(self._requests or self._inside or self.pieces)

    def keep(self) -> None:
        """It is about to know something that is not stored."""
        if self._within is None:
            self._host.threads.keep(self)

    @property
    def _running(self) -> Any:
        """The request on this thread that runs here."""
        running = invocation_of(self._host)
        here = running is not None and running.thread_id == self.id and running.values
        return running if here else None

    @property
    def _plugin_states(self) -> PluginStates:
        running = self._running
        if running is not None:
            states: PluginStates = running.plugin_states
            return states
        return RestingStates(self._host.plugins, self)

    # For a request that resumes it

    @abstractmethod
    def at_rest(self) -> Any:
        """An invocation that does not run, in which the agent or orchestrator shows this thread as its own."""

    def take(self, new_turn: bool) -> Taken:
        """What was changed since the last request. With `new_turn` a prompt comes after it."""
        writes: dict[str, Any] = {}
        if self.pieces:
            taken(self, writes)
        return Taken(writes)

    def give_back(self, given: Taken) -> None:
        """The request has stored nothing of it."""
        given_back(self, given.writes)

    @abstractmethod
    def way_of(self, directive: ResumeDirective, halts: Mapping[str, Halt], plugin: Any) -> Way:
        """What a directive comes to here. Raises `InvalidDirectiveError`."""

    def tentative(self) -> AbstractContextManager[None]:
        """While this lasts, what is set here is set no more if it ends in an error."""
        return tentative(self)

    def way_to(self, namespace: str) -> Iterator[HostThread]:
        """This thread, and those of the agents and orchestrators further in on the way to a namespace, as far as they
        are known here."""
        yield self
        host, at = self._host, ""
        for part in namespace.split("|"):
            at = f"{at}|{part}" if at else part
            if f":{TASK}" in part:  # a task, which is no host
                continue
            host = host.member_in(part)
            if host is None:
                return
            yield host.thread_within(self.id, Within(self.saver, at))


def recorded_of(host: Any, scope: Scope) -> Mapping[str, Any]:
    """The channels of an agent or orchestrator in its run, with what was recorded of the superstep."""
    thread: HostThread = host.thread_within(scope.thread_id, Within(scope.live.saver, scope.namespace))
    values: Mapping[str, Any] = thread.snapshot.values
    return values
