"""`AgentThread`: one conversation of an agent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from graphkit.engine.request import Position
from graphkit.snapshot import Viewer
from graphkit.types import Interrupt, RunnableConfig, StateSnapshot
from graphkit_prebuilt.content import Message
from graphkit_prebuilt.conversation import Messages, copied
from graphkit_prebuilt.halting import Halt, halts_in, questions_in
from graphkit_prebuilt.loop.invocation import Cancel, Invocation, invocation_of
from graphkit_prebuilt.plugin_state import PARTS, Part, Pieces, PluginStates
from graphkit_prebuilt.prompts import AgentInput
from graphkit_prebuilt.result import AgentResult
from graphkit_prebuilt.state import AgentState

if TYPE_CHECKING:
    from graphkit_prebuilt.agent import Agent
    from graphkit_prebuilt.hooks.event import BaseHookEvent

Writes = dict[str, Any]


class Taken(NamedTuple):
    """Changes on their way into a request: what is written to the graph's channels, and how the conversation knew
    before that they were not stored."""

    writes: Writes
    before: dict[str, Any]


class AgentThread:
    """The conversation `id` of an agent: the calls of the agent on it, and what it holds.

    In a hook or a tool of a request on this thread, `messages` and `state` are those of the request, at that moment.
    Otherwise they are what is stored, and changes of them are stored by the next request, before anything else of it.
    """

    def __init__(self, agent: Agent, id: str) -> None:
        self.agent = agent
        self.id = id
        self._messages: Messages | None = None
        self._state: Writes = {}  # what was set since the last request
        self._begun = (
            not agent.begins_with
        )  # whether the thread is known to be stored, or to begin with nothing
        self._pieces: dict[Part, Pieces] = {}  # what plugins have set since
        self._requests: list[Invocation] = []
        self._cancelled: Cancel | None = None  # before the next request

    def __repr__(self) -> str:
        return f"AgentThread({self.agent.agent_id!r}, {self.id!r})"

    # Requests

    def __call__(self, prompt: AgentInput = None, **options: Any) -> AgentResult:
        """`agent(prompt)` on this thread."""
        return self.agent(prompt, **self._here(options))

    invoke = __call__

    async def invoke_async(self, prompt: AgentInput = None, **options: Any) -> AgentResult:
        """`agent.invoke_async(prompt)` on this thread."""
        return await self.agent.invoke_async(prompt, **self._here(options))

    def stream(self, prompt: AgentInput = None, **options: Any) -> Iterator[BaseHookEvent]:
        """`agent.stream(prompt)` on this thread."""
        return self.agent.stream(prompt, **self._here(options))

    def astream(self, prompt: AgentInput = None, **options: Any) -> AsyncIterator[BaseHookEvent]:
        """`agent.astream(prompt)` on this thread."""
        return self.agent.astream(prompt, **self._here(options))

    def stream_async(self, prompt: AgentInput = None, **options: Any) -> AsyncIterator[dict[str, Any]]:
        """`agent.stream_async(prompt)` on this thread."""
        return self.agent.stream_async(prompt, **self._here(options))

    def resume(self, plugin_name: str | None = None, data: Any = None, **options: Any) -> AgentResult:
        """`agent.resume(plugin_name, data)` on this thread."""
        return self.agent.resume(plugin_name, data, **self._here(options))

    async def resume_async(
        self, plugin_name: str | None = None, data: Any = None, **options: Any
    ) -> AgentResult:
        """`agent.resume_async(plugin_name, data)` on this thread."""
        return await self.agent.resume_async(plugin_name, data, **self._here(options))

    def _here(self, options: dict[str, Any]) -> dict[str, Any]:
        if options.get("thread_id", self.id) != self.id:
            raise ValueError(f"thread_id={options['thread_id']!r} was given to a call on thread {self.id!r}")
        return {**options, "thread_id": self.id}

    def cancel(self, message: str | None = None) -> None:
        """End the request that runs on this thread, or else the next one, as `agent.cancel` does."""
        running = self._running
        requests = self._requests if running is None else [running]
        if requests:
            for request in requests:
                request.cancel.cancel(message)
        else:
            self._cancelled = Cancel()
            self._cancelled.cancel(message)
            self.agent.threads.keep(self)

    # What it holds

    @property
    def config(self) -> RunnableConfig:
        """What addresses this thread in `agent.graph`."""
        return {"configurable": {"thread_id": self.id}}

    @property
    def snapshot(self) -> StateSnapshot:
        """The thread as it is stored; its values are not to be changed."""
        return Viewer(self.agent.graph, self.agent.saver).peek(Position(self.id))

    @property
    def messages(self) -> list[Message]:
        """The conversation. At rest, without calls of tools that have no results yet."""
        running = self._running
        return self._resting if running is None else running.messages

    @messages.setter
    def messages(self, messages: Sequence[Message]) -> None:
        self.messages[:] = messages

    @property
    def state(self) -> AgentState:
        """What is kept beside the conversation, by key."""
        running = self._running
        return AgentState.over(self._read, self._write) if running is None else running.state

    @state.setter
    def state(self, state: Mapping[str, Any] | AgentState) -> None:
        self.state.replace(state.get() if isinstance(state, AgentState) else state)

    app_state = state

    @property
    def interrupts(self) -> list[Interrupt]:
        """The open questions."""
        return questions_in(self.snapshot.interrupts)

    @property
    def halts(self) -> list[Halt]:
        """What has halted the agent: those of which a plugin's `resume` goes on, and those after which nothing does."""
        return halts_in(self.snapshot.interrupts)

    def get_plugin_state(self, name: str, *, per_invocation: bool = False) -> Any:
        """`agent.get_plugin_state` of this thread."""
        return self._plugin_states.get(name, "turn" if per_invocation else "plugins")

    def set_plugin_state(self, name: str, state: Any, *, per_invocation: bool = False) -> None:
        """`agent.set_plugin_state` of this thread. Raises `RuntimeError` for a state per invocation if no turn is going
        on."""
        if per_invocation and self._running is None and not self.snapshot.next:
            raise RuntimeError(
                f"the state of plugin {name!r} cannot be set per invocation while no turn of thread {self.id!r} "
                f"is going on"
            )
        self._plugin_states.set(name, state, "turn" if per_invocation else "plugins")

    def delete(self) -> None:
        """Forget the conversation, and all that is stored of it. Raises `ConcurrencyException` while a request runs."""
        self.agent.saver.delete_thread(self.id)
        self._messages, self._state, self._begun = None, {}, not self.agent.begins_with
        self._pieces = {}

    @property
    def is_running(self) -> bool:
        """Whether a request of this agent object runs on this thread."""
        return bool(self._requests)

    @property
    def is_changed(self) -> bool:
        """Whether it knows something that is not stored."""
        messages = self._messages
        return bool(
            self._requests
            or self._state
            or self._pieces
            or self._cancelled
            or (messages is not None and messages.edited)
        )

    def add(self, messages: list[Message]) -> None:
        """Add messages to the conversation, as a turn of their own. Raises `ConcurrencyException` while a request runs,
        in whatever process."""
        taken = self.take(new_turn=True)
        said = [*taken.writes.get("messages", []), *messages]
        try:
            self.agent.graph.update_state(self.config, {**taken.writes, "messages": said}, as_node="after")
        except BaseException:
            self.give_back(taken)
            raise

    @property
    def _running(self) -> Invocation | None:
        running = invocation_of(self.agent)
        here = running is not None and running.thread_id == self.id and running.values
        return running if here else None

    @property
    def _resting(self) -> Messages:
        values = self.snapshot.values
        if self._messages is None:
            self._messages = Messages(resting=True)
        self._messages.follow(values)
        self._begin(values)
        self.agent.threads.keep(self)
        return self._messages

    def _read(self) -> Mapping[str, Any]:
        values = self.snapshot.values
        self._begin(values)
        return {**(values.get("state") or {}), **self._state}

    def _write(self, key: str, value: Any) -> None:
        self._state[key] = value
        self.agent.threads.keep(self)

    @property
    def _plugin_states(self) -> PluginStates:
        running = self._running
        if running is not None:
            return running.plugin_states
        return PluginStates(self.agent.plugins, self._read_pieces, self._write_pieces, nullcontext())

    def _read_pieces(self, part: Part) -> Pieces:
        return {**(self.snapshot.values.get(part) or {}), **self._pieces.get(part, {})}

    def _write_pieces(self, part: Part, pieces: Pieces) -> None:
        self._pieces.setdefault(part, {}).update(pieces)
        self.agent.threads.keep(self)

    def _begin(self, values: Mapping[str, Any]) -> None:
        """A thread of which nothing is stored begins with what the agent was given."""
        if self._begun:
            return
        self._begun = True
        if values:
            return
        beginning = self.agent.begins_with
        self._state = {**copied(beginning.get("state", {})), **self._state}
        if messages := beginning.get("messages"):
            if self._messages is None:
                self._messages = Messages({}, resting=True)
            self._messages[:0] = copied(messages)

    # For a request

    def begin(self, request: Invocation) -> None:
        """A request runs on this thread, until its `end`."""
        cancelled, self._cancelled = self._cancelled, None
        if cancelled is not None:
            request.cancel.cancel(cancelled.message)
        self._requests.append(request)

    def end(self, request: Invocation) -> None:
        self._requests.remove(request)

    def take(self, new_turn: bool) -> Taken:
        """What was changed since the last request. With `new_turn` a prompt comes after it."""
        if not self._begun:
            self._begin(self.snapshot.values)
        writes: Writes = {}
        before: dict[str, Any] = {}
        if self._messages is not None:
            before = dict(vars(self._messages))
            writes = self._messages.writes(new_turn=new_turn)
        if self._state:
            writes["state"], self._state = self._state, {}
        if self._pieces:
            for part, pieces in self._pieces.items():
                writes[part] = pieces
            self._pieces = {}
        return Taken(writes, before)

    @contextmanager
    def tentative(self) -> Iterator[None]:
        """While this lasts, what is set here is set no more if it ends in an error."""
        state, pieces = dict(self._state), {part: dict(some) for part, some in self._pieces.items()}
        edited = self._messages is not None and self._messages.edited
        try:
            yield
        except BaseException:
            self._state, self._pieces = state, pieces
            if not edited:
                self._messages = None
            raise

    def give_back(self, taken: Taken) -> None:
        """The request has stored nothing of it."""
        if self._messages is not None:
            vars(self._messages).update(taken.before)
        self._state = {**taken.writes.get("state", {}), **self._state}
        for part in PARTS:
            if pieces := taken.writes.get(part):
                self._pieces[part] = {**pieces, **self._pieces.get(part, {})}
