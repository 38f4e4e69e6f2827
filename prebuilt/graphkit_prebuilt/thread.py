"""`AgentThread`: one conversation of an agent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING, Any

from graphkit.frame import current
from graphkit_prebuilt.content import Message
from graphkit_prebuilt.conversation import copied
from graphkit_prebuilt.directive import ResumeDirective, Way, way_of
from graphkit_prebuilt.halting import Halt
from graphkit_prebuilt.host_thread import HostThread, Taken, Within
from graphkit_prebuilt.loop.invocation import Cancel, Invocation
from graphkit_prebuilt.messages import Messages
from graphkit_prebuilt.models.sent import Sent
from graphkit_prebuilt.prompts import AgentInput
from graphkit_prebuilt.result import AgentResult
from graphkit_prebuilt.state import AgentState

if TYPE_CHECKING:
    from graphkit_prebuilt.agent import Agent
    from graphkit_prebuilt.hooks.event import BaseHookEvent
    from graphkit_prebuilt.plugins import MultiAgentPlugin

Writes = dict[str, Any]


class AgentThread(HostThread):
    """The conversation `id` of an agent: the calls of the agent on it, and what it holds.

    In a hook or a tool of a request on this thread, `messages` and `state` are those of the request, at that moment.
    Otherwise they are what is stored, and changes of them are stored by the next request, before anything else of it.
    """

    def __init__(self, agent: Agent, id: str, within: Within | None = None) -> None:
        super().__init__(agent, id, within)
        self.agent = agent
        self._messages: Messages | None = None
        self._guard = RLock()  # of the conversation, which somebody may look at while a request begins
        self.sent = Sent()
        self.kept: Messages | None = None
        self._state: Writes = {}  # what was set since the last request
        self._begun = (
            within is not None or not agent.begins_with
        )  # whether the thread is known to be stored, or to begin with nothing
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

    def cancel(self, message: str | None = None, *, after_current_tools: bool = False) -> None:
        """End the request that runs on this thread, or else the next one, as `agent.cancel` does."""
        running = self._running
        requests = [*self._requests, *self._inside] if running is None else [running]
        if requests:
            for request in requests:
                request.cancel.cancel(message, after_current_tools)
        elif not after_current_tools:
            self._cancelled = Cancel()
            self._cancelled.cancel(message)
            self.agent.threads.keep(self)

    @property
    def cancel_signal(self) -> Cancel:
        """What is set when the request that runs on this thread is to end, or else the next one."""
        running = self._running
        requests = [*self._requests, *self._inside] if running is None else [running]
        if requests:
            signal: Cancel = requests[0].cancel
            return signal
        return self._cancelled or Cancel()

    # What it holds

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

    def delete(self) -> None:
        """Forget the conversation, and all that is stored of it. Raises `ConcurrencyException` while a request runs."""
        self.agent.saver.delete_thread(self.id)
        self._messages, self._state, self._begun = None, {}, not self.agent.begins_with
        self.pieces, self.sent, self.kept = {}, Sent(), None

    @property
    def is_changed(self) -> bool:
        """Whether it knows something that is not stored."""
        messages = self._messages
        return bool(
            super().is_changed or self._state or self._cancelled or (messages is not None and messages.edited)
        )

    def add(self, messages: list[Message]) -> None:
        """Add messages to the conversation, as a turn of their own. Raises as `store` does."""
        self.store({}, messages)

    def store(self, writes: Writes, messages: Sequence[Message] = ()) -> None:
        """Store what was set here, these channels, and these messages behind the others. Between requests it is a turn
        of its own, and leaves an unfinished one behind; in a task of a request on this thread, its outcome. Raises
        `ConcurrencyException` while a request runs elsewhere, in whatever process."""
        running, frame = self._running, current.get()
        if running is not None and frame is not None:
            for channel, value in writes.items():
                frame.amend(channel, value)
            running.messages.extend(messages)
            return
        taken = self.take(new_turn=True)
        said = [*taken.writes.get("messages", []), *messages]
        try:
            self.agent.graph.update_state(
                self.config, {**taken.writes, **writes, "messages": said}, as_node="after"
            )
        except BaseException:
            self.give_back(taken)
            raise

    @property
    def values(self) -> Mapping[str, Any]:
        """Its channels: those that the task of a request sees that runs here, else as they are stored."""
        running = self._running
        values: Mapping[str, Any] = self.snapshot.values if running is None else running.values
        return values

    @property
    def _resting(self) -> Messages:
        with self._guard:
            values = self.snapshot.values
            if self._messages is None:
                self._messages = Messages(resting=True)
            self._messages.follow(values)
            self._begin(values)
            self.keep()
            return self._messages

    def _read(self) -> Mapping[str, Any]:
        values = self.snapshot.values
        self._begin(values)
        return {**(values.get("state") or {}), **self._state}

    def _write(self, key: str, value: Any) -> None:
        self._state[key] = value
        self.keep()

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

    def begin(self, request: Invocation, inside: bool = False) -> None:
        cancelled, self._cancelled = self._cancelled, None
        if cancelled is not None:
            request.cancel.cancel(cancelled.message)
        super().begin(request, inside)

    def take(self, new_turn: bool) -> Taken:
        """What was changed since the last request. With `new_turn` a prompt comes after it."""
        if not self._begun:
            self._begin(self.snapshot.values)
        writes: Writes = {}
        before = None
        if self._messages is not None:
            with self._guard:
                if self._messages.edited:
                    before = self._messages.as_it_is
                    writes = self._messages.writes(new_turn=new_turn)
        if self._state:
            writes["state"], self._state = self._state, {}
        if self.pieces:
            writes |= super().take(new_turn).writes
        return Taken(writes, before)

    @contextmanager
    def tentative(self) -> Iterator[None]:
        """While this lasts, what is set here is set no more if it ends in an error."""
        state, messages = dict(self._state), self._messages
        before: list[Message] = [] if messages is None else list(messages)
        copies = copied(before) if messages is not None and messages.edited else None
        try:
            with super().tentative():
                yield
        except BaseException:
            self._state = state
            if messages is None or copies is None:  # as they are stored
                self._messages = None
            else:
                messages[:] = [
                    each if each == copy else copy for each, copy in zip(before, copies, strict=True)
                ]
            raise

    def at_rest(self) -> Invocation:
        return Invocation(agent=self.agent, thread_id=self.id, thread=self)

    def way_of(self, directive: ResumeDirective, halts: Mapping[str, Halt], plugin: MultiAgentPlugin) -> Way:
        return way_of(directive, halts, self.snapshot, plugin)

    def give_back(self, given: Taken) -> None:
        """The request has stored nothing of it."""
        if given.before is not None and self._messages is not None:
            with self._guard:
                self._messages.go_back(given.before)
        self._state = {**given.writes.get("state", {}), **self._state}
        super().give_back(given)
