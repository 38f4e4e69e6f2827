"""One request of an agent while it lasts: what its nodes need beside the channels. Never stored."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphkit.frame import Frame, current
from graphkit_prebuilt.content import Message, ToolChoice, ToolSpec
from graphkit_prebuilt.conversation import view
from graphkit_prebuilt.limits import Limits
from graphkit_prebuilt.log import DELETED
from graphkit_prebuilt.messages import Messages
from graphkit_prebuilt.metrics import RequestMetrics
from graphkit_prebuilt.models.sent import Sent
from graphkit_prebuilt.plugin_state import RunningStates
from graphkit_prebuilt.state import AgentState

if TYPE_CHECKING:
    from graphkit_prebuilt.hooks.event import BaseHookEvent
    from graphkit_prebuilt.structured import OutputTool
    from graphkit_prebuilt.tools.tool import AgentTool

Writes = dict[str, Any]

here: ContextVar[Any] = ContextVar("graphkit_invocation", default=None)
"""The request whose node runs here: an `Invocation`, or a `TeamInvocation` of an orchestrator."""


class Cancel(threading.Event):
    """Set when a request is to end; `message` is what is said then instead of the usual. `also` is another signal that
    means the same: the caller's own. `after_tools`, though not set, ends it after the next results of tools."""

    def __init__(self, also: Any = None) -> None:
        super().__init__()
        self.also = also
        self.message: str | None = None
        self.given_up = False
        self.after_tools = False

    def cancel(self, message: str | None = None, after_current_tools: bool = False) -> None:
        self.message = self.message if message is None else message
        if after_current_tools:
            self.after_tools = True
        else:
            self.set()

    def set(self) -> None:
        self.given_up = True
        super().set()

    def is_set(self) -> bool:
        return self.given_up or (self.also is not None and self.also.is_set())


@dataclass(slots=True, kw_only=True, eq=False)
class Invocation:
    """A request, from the call of the agent to its result.

    `new` are the messages of its prompt, None if it goes on with answers. `sink` is given every event before its
    callbacks, if anybody is shown them; callbacks run under `lock`, one at a time; `guard` is for what tasks that run
    side by side change here. `values` are the channels as the task that runs now sees them, `added` the messages that
    it has added to them; `final` is the one that ended the turn, `denied` what the caller gets if a hook did not let
    the request go on. `extra` are tools by name that the agent has in this request beside its own. `exception` is what
    the last call of the model came to, if that. `sent` is what models were sent of the conversation, `kept` what user
    code had of it in the last request. `asking` are the calls of tools whose questions are open, by the id of the
    question; `halts` are those for which the request comes to rest. `thread` is the one that `thread_id` names, if the
    agent does not know it by that. `recorded()` are the channels as the thread has them, with what was recorded of the
    superstep that the request goes on with; None where it begins with one. In `scratch` hook providers keep, each under
    itself, what they must remember until the request ends.
    """

    agent: Any
    thread_id: str = ""
    invocation_state: dict[str, Any] = field(default_factory=dict)
    new: list[Message] | None = None
    limits: Limits | None = None
    output: OutputTool | None = None
    extra: Mapping[str, AgentTool] | None = None
    cancel: Cancel = field(default_factory=Cancel)
    sink: Callable[[BaseHookEvent], Any] | None = None
    thread: Any = None
    around: Any = field(default_factory=here.get)
    lock: Any = field(default_factory=threading.RLock)
    guard: threading.Lock = field(default_factory=threading.Lock)
    metrics: RequestMetrics = field(default_factory=RequestMetrics)
    sent: Sent = field(default_factory=Sent)
    kept: Messages | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    added: list[Message] = field(default_factory=list)
    structured_output: Any = None
    final: Message | None = None
    denied: Message | None = None
    exception: Exception | None = None
    asking: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    halts: Sequence[Any] = ()
    scratch: dict[Any, Any] = field(default_factory=dict)
    _messages: Messages | None = None
    _state: AgentState | None = None
    _kept: Mapping[str, Any] | None = None
    _pairs: dict[str, Any] | None = None
    states: RunningStates | None = None
    recorded: Callable[[], Mapping[str, Any]] | None = None

    # The running task

    def enter(self, values: Mapping[str, Any]) -> None:
        """A task begins, which sees these channels."""
        self.values = values
        if self.added:
            self.added = []
        if self._messages is not None:
            with self.guard:
                self._messages.follow(values)

    def add(self, message: Message) -> None:
        """The running task has added a message, which is stored when it has finished."""
        self.added.append(message)
        if self._messages is not None:
            with self.guard:
                self._messages.follow(self._shown)

    def edit(self, edits: Writes) -> None:
        """The running task has changed messages of the log."""
        self.values = {**self.values, "edits": {**(self.values.get("edits") or {}), **edits}}
        if self._messages is not None:
            with self.guard:
                self._messages.follow(self._shown)

    def settled(self, writes: Writes) -> Writes:
        """What a task writes, together with what user code has done to the conversation in it."""
        if self._messages is None:
            return writes
        with self.guard:
            changed = self._messages.writes()
        if said := changed.get("messages"):
            writes["messages"] = [*writes.get("messages", ()), *said]
        if edits := changed.get("edits"):
            writes["edits"] = {**writes.get("edits", {}), **edits}
        return writes

    def hold(self, frame: Frame) -> None:
        """The running task may ask or fail: what was done to the conversation in it until now stays all the same."""
        if self._messages is None or self.added:
            return
        with self.guard:
            changed = self._messages.writes()
        for channel, write in changed.items():
            frame.amend(channel, write)

    # What the model is given

    @property
    def seen(self) -> list[Message]:
        """The conversation as it is now, for the model: messages that nobody changes, not even who asks for them."""
        return view(self._shown) if self._messages is None else self._messages.as_stored

    def offered(self) -> tuple[list[ToolSpec], ToolChoice | None]:
        """The tools that the model may call, and which it must."""
        specs = self.agent.tool_registry.get_all_tool_specs()
        if self.extra:
            specs = [*specs, *(tool.tool_spec for tool in self.extra.values())]
        if self.output is None:
            return specs, None
        return [*specs, self.output.tool_spec], self.output.choice(self.values["messages"])

    def tool(self, name: Any) -> Any:
        """The tool of this name; None if there is none."""
        if self.output is not None and name == self.output.tool_name:
            return self.output
        if self.extra and isinstance(name, str) and name in self.extra:
            return self.extra[name]
        return self.agent.tool_registry.get(name)

    # What user code sees

    @property
    def _shown(self) -> Mapping[str, Any]:
        if not self.added:
            return self.values
        return {**self.values, "messages": [*self.values["messages"], *self.added]}

    @property
    def messages(self) -> Messages:
        """The conversation, with what the running task has added; may be changed in any way."""
        with self.guard:
            if self._messages is None:
                kept, self.kept = self.kept, None
                if kept is None or kept.edited:  # since then, which is no part of this request
                    kept = Messages()
                kept.follow(self._shown)
                self._messages = kept
        return self._messages

    def let_go(self) -> Messages | None:
        """The request is over: what the next one may have as its `kept`."""
        kept = self.kept if self._messages is None else self._messages
        if kept is not None:
            kept.settle()
        return kept

    @property
    def state(self) -> AgentState:
        """What is kept beside the conversation. What is set is kept whatever becomes of the task that sets it."""
        if self._state is None:
            self._state = AgentState.over(self._read, self._write)
        return self._state

    def _read(self) -> Mapping[str, Any]:
        stored = self.values.get("state")
        if self._pairs is None and (recorded := self.recorded) is not None:
            with self.guard:
                if self._pairs is None:
                    self._kept, self._pairs = stored, dict(recorded().get("state") or {})
        if (
            self._pairs is None or stored is not self._kept
        ):  # a superstep, in which everything that was set is there
            self._kept, self._pairs = stored, dict(stored or {})
        return self._pairs

    def _write(self, key: str, value: Any) -> None:
        self._read()
        assert self._pairs is not None
        if value is DELETED:
            self._pairs.pop(key, None)
        else:
            self._pairs[key] = value
        frame = current.get()
        assert frame is not None
        frame.amend("state", {key: value})

    @property
    def plugin_states(self) -> RunningStates:
        """What plugins keep."""
        if self.states is None:
            self.states = RunningStates(self)
        return self.states

    @property
    def request_state(self) -> Any:
        """What hooks and tools have left in `invocation_state["request_state"]`."""
        return self.invocation_state.get("request_state") or {}


def invocation_of(agent: Any) -> Any:
    """The request of this agent or orchestrator that runs here; of several, one inside the other, the innermost."""
    found = here.get()
    while found is not None and found.agent is not agent:
        found = found.around
    return found
