"""One call of an orchestrator while it lasts: what its nodes need beside the channels. Never stored."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphkit.frame import Frame, current
from graphkit_prebuilt.log import DELETED
from graphkit_prebuilt.loop.invocation import here
from graphkit_prebuilt.multiagent.results import NodeResult
from graphkit_prebuilt.multiagent.state import MultiAgentState
from graphkit_prebuilt.plugin_state import RunningStates
from graphkit_prebuilt.state import AgentState

if TYPE_CHECKING:
    from graphkit_prebuilt.hooks.event import BaseHookEvent
    from graphkit_prebuilt.loop.steps import Steps
    from graphkit_prebuilt.multiagent.base import MultiAgentBase


@dataclass(slots=True, kw_only=True, eq=False)
class TeamInvocation:
    """A call of `source`, until it returns.

    `show` is given every event before its callbacks, if anybody is shown them, with the frame of its task; callbacks
    run under `lock`, one at a time. `live` are the results that nodes have had in this call, by their keys. `counted`
    is when the time of the turn was counted last, by `time.perf_counter`; `closes` says that the last events of the
    call have begun. With `fresh` no member goes on with an earlier conversation. When `cancel` is set, agents end.
    The others are as in an `Invocation`.
    """

    source: MultiAgentBase
    invocation_state: dict[str, Any] = field(default_factory=dict)
    show: Callable[[Frame | None, BaseHookEvent], Steps[None] | None] | None = None
    lock: Any = field(default_factory=threading.RLock)
    live: dict[str, NodeResult] = field(default_factory=dict)
    counted: float = field(default_factory=time.perf_counter)
    closes: bool = False
    fresh: bool = False
    cancel: threading.Event | None = None
    thread_id: str = ""
    thread: Any = None
    around: Any = field(default_factory=here.get)
    values: Mapping[str, Any] = field(default_factory=dict)
    halts: Sequence[Any] = ()
    scratch: dict[Any, Any] = field(default_factory=dict)
    guard: threading.Lock = field(default_factory=threading.Lock)
    states: RunningStates | None = None
    recorded: Callable[[], Mapping[str, Any]] | None = None

    @property
    def agent(self) -> MultiAgentBase:
        """Whose callbacks hear its events."""
        return self.source

    @property
    def plugin_states(self) -> RunningStates:
        """What plugins keep."""
        if self.states is None:
            self.states = RunningStates(self)
        return self.states

    @property
    def sink(self) -> Callable[[BaseHookEvent], Steps[None] | None] | None:
        return None if self.show is None else self.sink_of(current.get())

    def sink_of(self, frame: Frame | None) -> Callable[[BaseHookEvent], Steps[None] | None] | None:
        """Who is shown the events of a task."""
        return None if self.show is None else functools.partial(self.show, frame)

    def state(self, values: Mapping[str, Any], frame: Frame | None = None) -> MultiAgentState:
        """Where the turn stands by these channels. In a task `app` can be written."""
        pairs = dict(values.get("app") or {})

        def write(key: str, value: Any) -> None:
            if frame is not None:
                frame.amend("app", {key: value})
            if value is DELETED:
                pairs.pop(key, None)
            else:
                pairs[key] = value

        return self.source.state_of(values, self.live, AgentState.over(lambda: pairs, write))

    def spent(self, values: Mapping[str, Any]) -> int:
        """The milliseconds that the turn has taken so far, without those in which answers were waited for."""
        return int(values.get("spent") or 0) + round((time.perf_counter() - self.counted) * 1000)
