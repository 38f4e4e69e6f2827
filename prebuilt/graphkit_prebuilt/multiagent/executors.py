"""How agents, functions and orchestrators are executed as nodes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from graphkit.errors import InvalidPromptError, InvalidUpdateError
from graphkit.types import Command, Send
from graphkit_prebuilt.content import ContentBlock, Message, assistant
from graphkit_prebuilt.conversation import copied
from graphkit_prebuilt.halting import HaltSignal
from graphkit_prebuilt.hooks.event import BaseHookEvent
from graphkit_prebuilt.hooks.firing import fire, heard
from graphkit_prebuilt.loop.program import EVERYTHING
from graphkit_prebuilt.loop.steps import Call, Steps
from graphkit_prebuilt.multiagent.events import NodeStreamUpdateEvent
from graphkit_prebuilt.multiagent.nested import NestedRequest, Tell, nested_graph
from graphkit_prebuilt.multiagent.nodes import Executor, NodeCall
from graphkit_prebuilt.multiagent.request import NestedTeamRequest
from graphkit_prebuilt.multiagent.results import MultiAgentResult, NodeResult, Status, less
from graphkit_prebuilt.multiagent.used import Used
from graphkit_prebuilt.prompts import read_prompt
from graphkit_prebuilt.result import AgentResult

if TYPE_CHECKING:
    from graphkit.compiled import CompiledGraph
    from graphkit_prebuilt.agent import Agent
    from graphkit_prebuilt.multiagent.base import MultiAgentBase
    from graphkit_prebuilt.multiagent.invocation import TeamInvocation


class AgentExecutor(Executor):
    """An agent: a request of it, with the node's input as its prompt."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    @property
    def graph(self) -> CompiledGraph:
        return nested_graph(EVERYTHING, False, True)

    def run(self, call: NodeCall) -> Steps[NodeResult]:
        options: dict[str, Any] = {"invocation_state": call.inv.invocation_state}
        if call.inv.cancel is not None:
            options["cancel_signal"] = call.inv.cancel
        request = NestedRequest(
            self.agent, call.input, options, keeps=_keeps(call), tell=told(call), once=True
        )
        call.team.prepare(call, request)
        try:
            result = yield from request.steps()
        except BaseException:
            Used.until_now(call.frame, request).keep(call.frame)
            raise
        call.request = request
        used = Used.of(call.frame, request)
        return NodeResult(
            result=result,
            status=Status.CANCELLED if result.stop_reason == "cancelled" else Status.COMPLETED,
            accumulated_usage=used.usage,
            accumulated_metrics=used.metrics,
            execution_count=1,
        )

    def restore(self, result: NodeResult) -> NodeResult:
        said, model = result.result, self.agent.structured_output_model
        if isinstance(said, AgentResult) and isinstance(said.structured_output, dict) and model is not None:
            with suppress(ValueError):  # of another version of the model: it stays the dict
                said.structured_output = model.model_validate(said.structured_output)
        return result


class TeamExecutor(Executor):
    """An orchestrator: a turn of it, with the node's input as its task."""

    kind = "multiagent"

    def __init__(self, team: MultiAgentBase) -> None:
        self.team = team

    @property
    def graph(self) -> CompiledGraph:
        return self.team.nested_graph(True, True, keeps=True)

    def run(self, call: NodeCall) -> Steps[NodeResult]:
        state = call.inv.invocation_state
        carries = call.visit.carries
        request = NestedTeamRequest(
            self.team, call.input, state, keeps=_keeps(call), tell=told(call), again=carries is not None
        )
        request.invocation.cancel = call.inv.cancel
        result = _of_team((yield from request.steps()))
        return _since(carries["used"], result) if carries is not None and request.keeps else result

    def restore(self, result: NodeResult) -> NodeResult:
        if isinstance(result.result, MultiAgentResult):
            for inner in result.result.results.values():
                if (node := self.team.nodes.get(inner.node)) is not None:
                    node.work.restore(inner)
        return result


class FunctionExecutor(Executor):
    """A function: called with the node's input, if its first parameter is neither of those that it takes by name, which
    are `state` and `invocation_state`. It returns a text, content blocks, a message, an `AgentResult` or a
    `MultiAgentResult`; and, alone or in a `Command`, `Send`s to members, each with its own input. A `HaltSignal` that
    it raises or returns halts the orchestrator."""

    kind = "function"

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.takes_input, self.wants = _wanted(function)

    def run(self, call: NodeCall) -> Steps[NodeResult]:
        offered = {"state": call.state, "invocation_state": call.inv.invocation_state}
        given = {name: offered[name] for name in self.wants}
        returned = yield Call(self.function, (call.input,) if self.takes_input else (), given, blocks=True)
        if isinstance(returned, HaltSignal):
            raise returned
        value, sends = _parted(returned)
        if sends:
            call.writes["sends"] = [{"node": send.node, "input": _input_in(send, call)} for send in sends]
        if isinstance(value, MultiAgentResult):
            return _of_team(value)
        return NodeResult(result=_result_in(value, call), status=Status.COMPLETED)


def _of_team(result: MultiAgentResult) -> NodeResult:
    return NodeResult(
        result=result,
        status=result.status,
        accumulated_usage=result.accumulated_usage,
        accumulated_metrics=result.accumulated_metrics,
        execution_count=result.execution_count,
    )


def _since(used: Mapping[str, Any], result: NodeResult) -> NodeResult:
    """The result of a turn that has gone on, with what it has used since it had failed."""
    return replace(
        result,
        accumulated_usage=less(result.accumulated_usage, used["usage"]),
        accumulated_metrics=less(result.accumulated_metrics, used["metrics"]),
        execution_count=result.execution_count - used["count"],
    )


def _keeps(call: NodeCall) -> bool:
    return not (call.visit.fresh or call.inv.fresh)


def told(call: NodeCall) -> Tell | None:
    """Who is told what happens inside a node; None if nobody listens."""
    inv = call.inv
    if not heard(inv, NodeStreamUpdateEvent):
        return None
    around = _Around(inv, inv.lock, inv.sink_of(call.frame))

    def tell(event: BaseHookEvent) -> Steps[None]:
        update = NodeStreamUpdateEvent(
            inv.source,
            call.node.node_id,
            key=call.visit.key,
            event=event,
            invocation_state=inv.invocation_state,
            state=call.state,
        )
        yield from fire(around, update)

    return tell


class _Around(NamedTuple):
    """An orchestrator's call as it hears what happens inside one of its nodes, in another task."""

    inv: TeamInvocation
    lock: Any
    sink: Callable[[BaseHookEvent], Steps[None] | None] | None

    @property
    def agent(self) -> MultiAgentBase:
        return self.inv.source


OFFERED = ("state", "invocation_state")


def _wanted(function: Callable[..., Any]) -> tuple[bool, tuple[str, ...]]:
    """Whether a function takes the input, and which of what is offered by name it takes."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return True, ()
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    names = tuple(name for name in OFFERED if name in parameters and parameters[name].kind in kinds)
    return bool(parameters) and next(iter(parameters)) not in names, names


def _parted(returned: Any) -> tuple[Any, list[Send]]:
    """What a function has returned, and whom it sends to."""
    if isinstance(returned, Command):
        goto = returned.goto
        targets: list[Any] = list(goto) if isinstance(goto, (list, tuple)) else [goto] if goto else []
        if returned.resume is not None or returned.graph is not None:
            raise InvalidUpdateError(
                "a node of an orchestrator may return Command(update=..., goto=...), no other"
            )
        return returned.update, [one if isinstance(one, Send) else Send(one, None) for one in targets]
    if isinstance(returned, Send):
        return None, [returned]
    if isinstance(returned, (list, tuple)) and returned and all(isinstance(one, Send) for one in returned):
        return None, list(returned)
    return returned, []


def _input_in(send: Send, call: NodeCall) -> list[Any] | None:
    """The input that a `Send` gives: blocks; None for the one that the member would have anyway."""
    if send.node not in call.team.nodes:
        raise InvalidUpdateError(
            f"node {call.node.node_id!r} of {call.team.id!r} sends to {send.node!r}, which is none of its nodes: "
            f"{', '.join(call.team.nodes)}"
        )
    return None if send.arg is None else input_blocks(send.arg)


def _result_in(value: Any, call: NodeCall) -> AgentResult:
    """What a function returned, as a result."""
    if isinstance(value, AgentResult):
        return value
    state = call.inv.invocation_state
    return AgentResult(stop_reason="end_turn", message=_message_in(value, call), invocation_state=state)


def _message_in(value: Any, call: NodeCall) -> Message:
    if value is None:
        return assistant()
    if isinstance(value, str):
        return assistant(value)
    if isinstance(value, Mapping) and "role" in value and isinstance(value.get("content"), list):
        return cast(Message, copied(value))
    blocks = value if isinstance(value, (list, tuple)) else [value]
    try:
        return assistant(*input_blocks(list(blocks)))
    except InvalidPromptError:
        raise InvalidUpdateError(
            f"node {call.node.node_id!r} of {call.team.id!r} returned {value!r:.100} ({type(value).__name__}); a "
            f"function returns a text, content blocks, a message, an AgentResult or Sends"
        ) from None


def input_blocks(given: Any) -> list[ContentBlock]:
    """Text, blocks or messages as the content of one prompt. Raises `InvalidPromptError`."""
    read = read_prompt(given)
    if read.kind != "messages":
        raise InvalidPromptError(f"{given!r:.100} is neither a text nor content blocks")
    return [block for message in read.messages for block in message["content"]]
