"""`AgentRequest`: one call of an agent, from its prompt to its result, through any of its doors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from threading import Event
from typing import TYPE_CHECKING, Any, TypedDict

from graphkit.engine.request import End
from graphkit.engine.resume import response_blocks
from graphkit.runs import undrained
from graphkit.types import Command
from graphkit_prebuilt.halting import questions_in
from graphkit_prebuilt.hooks.catalogue import (
    AfterInvocationEvent,
    AfterToolsEvent,
    AgentResultEvent,
    BeforeInvocationEvent,
    InterruptEvent,
    MessageAddedEvent,
)
from graphkit_prebuilt.hooks.firing import heard
from graphkit_prebuilt.host_thread import Taken
from graphkit_prebuilt.limits import Limits, check_limits
from graphkit_prebuilt.loop.invocation import Cancel, Invocation
from graphkit_prebuilt.loop.program import Heard
from graphkit_prebuilt.plugin_state import CLEARED
from graphkit_prebuilt.printing import CallbackHandler, check_handler
from graphkit_prebuilt.prompts import AgentInput, Given, read_prompt, refused
from graphkit_prebuilt.result import AgentResult, failure_of, result_of
from graphkit_prebuilt.running import DictForm, GraphRequest, Start
from graphkit_prebuilt.streams import DictStream, Shown
from graphkit_prebuilt.structured import OutputTool

if TYPE_CHECKING:
    from pydantic import BaseModel

    from graphkit_prebuilt.agent import Agent


class CallOptions(TypedDict, total=False):
    """Options of one call of an agent. Any other keyword is put into `invocation_state`.

    `thread_id` names the conversation (default: the agent's own). `invocation_state` is the dict that all events and
    tools of the request have as theirs, this very object; it is not stored. In its `"request_state"`, a dict that is
    put there if there is none, whoever sets `"stop_event_loop"` ends the turn after the tools.
    `structured_output_model` is a pydantic class that the answer must be an instance of, `structured_output_prompt`
    what a model is told that has answered otherwise; by default the agent's. `limits` are bounds of this request. When
    `cancel_signal` is set, the request ends with stop reason "cancelled". `callback_handler` is called in place of the
    agent's.
    """

    thread_id: str | None
    invocation_state: dict[str, Any] | None
    structured_output_model: type[BaseModel] | None
    structured_output_prompt: str | None
    limits: Limits | None
    cancel_signal: Event | None
    callback_handler: CallbackHandler | None


class AgentRequest(GraphRequest[AgentResult]):
    """One call of an agent. Made, it has checked what it was given; it runs when one of its doors is used, once.

    Raises `InvalidPromptError`, `InvalidThreadIdError`, `TypeError` for options of a wrong type, and `ValueError` for a
    structured output whose name a tool of the agent has.
    """

    def __init__(
        self, agent: Agent, prompt: AgentInput, options: Mapping[str, Any], live: bool = False
    ) -> None:
        self.agent = agent
        self.thread = agent.thread(options.get("thread_id"))
        self.given = read_prompt(prompt)
        handler = check_handler(options.get("callback_handler", agent.callback_handler))
        state = _invocation_state(options)
        self._shown: Shown | None = None
        if live or handler is not None:
            shown = Shown(DictStream(agent, state), handler, live)
            self._shown = shown if shown.is_anybody else None
        self.invocation = Invocation(
            agent=agent,
            thread_id=self.thread.id,
            invocation_state=state,
            limits=check_limits(options.get("limits")),
            output=_output(agent, options),
            cancel=Cancel(also=_signal(options.get("cancel_signal"))),
            sink=self._shown,
            sent=self.thread.sent,
        )
        self._taken: Taken | None = None

    def _begin(self) -> Start:
        inv = self.invocation
        who = self._heard()
        config = self.thread.config
        if self.agent.trace_attributes:
            config["metadata"] = self.agent.trace_attributes
        graph = self.agent.graph_for(who)
        given = self._given(self.given, who)
        inv.kept, self.thread.kept = self.thread.kept, None
        self.thread.begin(inv)
        return graph, given, config, {"context": inv}

    def _heard(self) -> Heard:
        """Whether anybody hears the edges of the request."""
        inv = self.invocation
        opening = heard(inv, BeforeInvocationEvent)
        return Heard(
            before=opening or heard(inv, MessageAddedEvent),
            opening=opening,
            closing=bool(self.agent.plugins)
            or heard(inv, AfterToolsEvent, InterruptEvent, AgentResultEvent, AfterInvocationEvent),
        )

    def _given(self, given: Given, who: Heard) -> Any:
        """The input of the graph: the prompt or the answers, and before them what was changed between requests."""
        if given.kind == "nothing" and self._is_unfinished(given.empty):
            writes = self._take(new_turn=False)
            return Command(update=writes) if writes else None
        if given.kind == "answers":
            writes = self._take(new_turn=False)
            return with_update(given.answers, writes) if writes else given.answers
        writes = self._take(new_turn=True)
        if self.agent.plugins:
            writes = {**writes, "turn": CLEARED}  # what is taken may have to be given back
        self.invocation.new = given.messages
        if who.before:
            return {**writes, "prompt": given.messages}
        return {**writes, "messages": [*writes.get("messages", ()), *given.messages]}

    def _is_unfinished(self, empty: bool) -> bool:
        """Whether there is a turn to go on with. Raises `InvalidPromptError` for `[]` while questions are open."""
        snapshot = self.thread.snapshot
        if empty and (questions := questions_in(snapshot.interrupts)):
            raise refused(questions)
        return bool(snapshot.next)

    def _take(self, new_turn: bool) -> dict[str, Any]:
        self._taken = self.thread.take(new_turn)
        if not new_turn:
            self.invocation.recorded = lambda: self.thread.snapshot.values
        return self._taken.writes

    # How it ends

    def _result_of(self, end: End) -> AgentResult:
        undrained(end)
        error = failure_of(end.values)
        if error is not None and end.status == "completed":
            raise error
        if end.status == "completed":
            self.thread.kept = self.invocation.let_go()
        return result_of(self.invocation, end.values, end.interrupts, end.status)

    def _leave(self) -> None:
        if self._taken is not None and not self.invocation.values:  # no task has run: nothing was stored
            self.thread.give_back(self._taken)
        self.thread.end(self.invocation)

    def _failed(self, error: Exception) -> None:
        if self._shown is not None:
            self._shown.handle(self._shown.dicts.failed(error))

    def _ended(self) -> AgentResult:
        result = super()._ended()
        if self._shown is not None:
            self._shown.handle(self._shown.dicts.ended(result))
        return result

    def _dict_form(self) -> DictForm:
        return DictStream(self.agent, self.invocation.invocation_state)


def with_update(answers: Any, writes: Mapping[str, Any]) -> Command[Any]:
    """The answers, with what was changed before them."""
    if isinstance(answers, Command):
        return replace(answers, update={**writes, **(answers.update or {})})
    return Command(update=dict(writes), resume=response_blocks(answers))


def _invocation_state(options: Mapping[str, Any]) -> dict[str, Any]:
    state = options.get("invocation_state")
    if state is None:
        state = {}
    elif not isinstance(state, dict):
        raise TypeError(f"invocation_state must be a dict, not {state!r:.100}")
    for key, value in options.items():
        if key not in CallOptions.__annotations__:
            state.setdefault(key, value)
    state.setdefault("request_state", {})
    return state


def _output(agent: Agent, options: Mapping[str, Any]) -> OutputTool | None:
    model = options.get("structured_output_model") or agent.structured_output_model
    prompt = options.get("structured_output_prompt") or agent.structured_output_prompt
    if model is None:
        return None
    output = OutputTool(model, prompt)
    if (other := agent.tool_registry.get(output.tool_name)) is not None:
        raise ValueError(
            f"{model!r} is offered to the model as a tool of that name, which {other!r} has already: rename one"
        )
    return output


def _signal(signal: Any) -> Any:
    if signal is not None and not callable(getattr(signal, "is_set", None)):
        raise TypeError(f"cancel_signal must be a threading.Event, not {signal!r:.100}")
    return signal
