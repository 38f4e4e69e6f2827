"""The node `model`: what follows a batch of tools, one call of the model, and where its answer leads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphkit.frame import Frame
from graphkit.types import Command
from graphkit_prebuilt.content import ContentBlock, Message, assistant, block_of, tool_uses
from graphkit_prebuilt.conversation import copied, dangling, edit, last
from graphkit_prebuilt.hooks.catalogue import (
    AfterModelCallEvent,
    AfterToolsEvent,
    BeforeModelCallEvent,
    BeforeToolsEvent,
    MessageAddedEvent,
    ModelMessageEvent,
)
from graphkit_prebuilt.hooks.firing import fire, heard
from graphkit_prebuilt.limits import exceeded
from graphkit_prebuilt.loop import directed
from graphkit_prebuilt.loop.adding import added, changed_in_place, finish
from graphkit_prebuilt.loop.invocation import Invocation
from graphkit_prebuilt.loop.model_call import CANCELLED, Answer, plain_call, wrapped_call
from graphkit_prebuilt.loop.steps import Steps
from graphkit_prebuilt.loop.tools import to_tools
from graphkit_prebuilt.metrics import tokens_read
from graphkit_prebuilt.middleware.contexts import InvokeModelContext
from graphkit_prebuilt.middleware.stages import ExecuteToolsStage, InvokeModelStage
from graphkit_prebuilt.models.model import known
from graphkit_prebuilt.structured import REFUSED

DENIED = "The call of the model was denied by a hook"
ENDED = "A hook ended the turn after the tools"


def model(inv: Invocation, frame: Frame, view: Mapping[str, Any]) -> Steps[Command[Any]]:
    log: list[Message] = view.get("messages") or []
    writes: dict[str, Any] = {}
    came_from_tools = bool(log) and _are_results(inv, log[-1])
    if came_from_tools:
        ended = yield from _after_tools(inv, frame, log)
        if ended is not None:
            return (yield from finish(inv, writes, ended, "end_turn"))
        if inv.output is not None and (found := inv.output.found(inv.seen)) is not None:
            inv.structured_output = found
            return (yield from finish(inv, writes, None, "tool_use"))
        if inv.request_state.get("stop_event_loop"):
            return (yield from finish(inv, writes, None, "tool_use"))
    if inv.cancel.is_set() or (came_from_tools and inv.cancel.after_tools):
        said = inv.cancel.message or (None if came_from_tools else CANCELLED)
        return (yield from finish(inv, writes, assistant(said) if said else None, "cancelled"))
    given = directed.restored(view)
    if given is None and log and dangling(log[-1]) and _are_there(inv, log[-1]):
        return _batch_of(inv, writes, log[-1])  # calls that the program has put there
    if given is not None:
        message, reason = copied(given), "tool_use" if tool_uses(given) else "end_turn"
    else:
        if inv.limits is not None and inv.metrics.cycle_count:
            exhausted = exceeded(inv.limits, inv.metrics)
            if exhausted is not None:
                return (yield from finish(inv, writes, None, exhausted))
        message, reason = yield from _answer(inv, frame)
    writes |= directed.done(view)
    calls = tool_uses(message)
    if reason == "max_tokens" and calls:
        message, calls = _without_calls(message), []
    if not calls or reason == "cancelled":
        if inv.output is None or reason != "end_turn":
            return (yield from finish(inv, writes, message, reason))
        if not inv.output.insists(log):
            inv.structured_output = inv.output.read(message)
            refused = inv.structured_output is None
            return (yield from finish(inv, writes, message, REFUSED if refused else reason))
        yield from added(inv, message, writes)
        if heard(inv, MessageAddedEvent):
            _keep(frame, (message, reason))
        yield from added(inv, inv.output.insisting, writes, "insisting")
        return Command(update=inv.settled(writes), goto="model")
    yield from added(inv, message, writes)
    return _batch_of(inv, writes, message)


def _batch_of(inv: Invocation, writes: dict[str, Any], message: Message) -> Command[Any]:
    """Where the calls of a message lead."""
    if heard(inv, BeforeToolsEvent) or inv.agent.middleware.of(ExecuteToolsStage):
        return Command(update=inv.settled(writes), goto="batch")
    return Command(update=inv.settled(writes), goto=to_tools(len(tool_uses(message))))


def _are_there(inv: Invocation, message: Message) -> bool:
    """Whether the calls of the last message of the log are at the end of the conversation: hooks may have taken some of
    them away, or all that was said."""
    seen = inv.seen
    return bool(seen) and len(tool_uses(seen[-1])) == len(tool_uses(message))


def _are_results(inv: Invocation, last: Message) -> bool:
    """Whether a batch of tools has just ended: not where a prompt ends with results."""
    if last["role"] != "user" or not last["content"] or "toolResult" not in last["content"][0]:
        return False
    return not inv.new or inv.new[-1] != last


def _after_tools(inv: Invocation, frame: Frame, log: list[Message]) -> Steps[Message | None]:
    """The events of the end of a batch. Returns the message that ends the turn, if a hook wants it to end."""
    ended: Any = False
    position = len(log) - 1
    if heard(inv, AfterToolsEvent):
        before = last(inv.values)
        event = AfterToolsEvent(inv.agent, message=copied(before), invocation_state=inv.invocation_state)
        ended = (yield from fire(inv, event, "after_tools")).end_turn
        _edit(inv, frame, edit(position, before, event.message))
    if heard(inv, MessageAddedEvent):
        changes = yield from changed_in_place(inv, position, last(inv.values), "added_results")
        _edit(inv, frame, changes)
    if ended is False or ended is None:
        return None
    if isinstance(ended, (list, tuple)):
        return assistant(*ended) if ended else None
    return assistant(ended if isinstance(ended, str) and ended else ENDED)


def _edit(inv: Invocation, frame: Frame, changes: Mapping[str, Any]) -> None:
    """The model is to see what callbacks have changed, and it stays if its call fails or asks."""
    if changes:
        frame.amend("edits", changes)
        inv.edit(dict(changes))


# One call


def _answer(inv: Invocation, frame: Frame) -> Steps[Answer]:
    """The model's answer, after as many tries as hooks want."""
    keeps = heard(inv, AfterModelCallEvent, ModelMessageEvent, MessageAddedEvent)
    tries: int = frame.kept.get("tries", 0)
    answer: Answer | None = None
    kept = frame.kept.get("answer")
    wanted = directed.again(inv.values)
    if wanted is not None and frame.kept.get("again") != wanted:
        tries, kept = tries + 1, None
        for key, value in (("again", wanted), ("tries", tries), ("answer", None)):
            frame.keep(key, value)
    if kept is not None:
        answer = copied(kept["message"]), kept["stop_reason"]
    while True:
        error: Exception | None = None
        inv.exception = None
        if answer is None:
            try:
                answer = yield from _try(inv, frame, tries)
            except Exception as problem:
                inv.exception = error = known(problem)
            if answer is not None and keeps:
                _keep(frame, answer)
        if answer is not None and heard(inv, ModelMessageEvent):
            message = ModelMessageEvent(
                inv.agent,
                message=answer[0],
                stop_reason=answer[1],
                invocation_state=inv.invocation_state,
            )
            yield from fire(inv, message, f"message:{tries}")
            _keep(frame, answer)
        if heard(inv, AfterModelCallEvent):
            event = AfterModelCallEvent(
                inv.agent,
                invocation_state=inv.invocation_state,
                stop_response=None if answer is None else AfterModelCallEvent.ModelStopResponse(*answer),
                exception=error,
            )
            once = f"after_model:{tries}" if error is None else None
            try:
                retry = (yield from fire(inv, event, once, number=tries)).retry
            except Exception as problem:
                raise problem from error
            if retry:
                tries, answer = tries + 1, None
                frame.keep("tries", tries)
                frame.keep("answer", None)
                continue
            if answer is not None:
                _keep(frame, answer)
        if answer is None:
            assert error is not None
            raise error
        return answer


def _keep(frame: Frame, answer: Answer) -> None:
    """Keep the answer for the next attempt, as it is now: callbacks that ask are called again, and find it so."""
    frame.keep("answer", {"message": copied(answer[0]), "stop_reason": answer[1]})


def _try(inv: Invocation, frame: Frame, tries: int) -> Steps[Answer]:
    if heard(inv, BeforeModelCallEvent):
        event = BeforeModelCallEvent(
            inv.agent, invocation_state=inv.invocation_state, projected_input_tokens=_projected(inv.seen)
        )
        cancel = (yield from fire(inv, event)).cancel
        if cancel:
            return assistant(cancel if isinstance(cancel, str) else DENIED), "end_turn"
    agent, (specs, choice) = inv.agent, inv.offered()
    if layers := agent.middleware.of(InvokeModelStage):
        seen = inv.seen
        context = InvokeModelContext(
            agent,
            seen,
            agent.system_prompt_content,
            specs,
            choice,
            inv.invocation_state,
            agent.model,
            _projected(seen),
        )
        return (yield from wrapped_call(inv, frame, layers, context, tries))
    return (
        yield from plain_call(
            inv, frame, agent.model, inv.seen, specs, agent.system_prompt_content, choice, inv, inv.sent
        )
    )


def _projected(messages: list[Message]) -> int:
    """About how many tokens the next call reads: what the last one took, and a quarter of the letters since."""
    known, since = 0, messages
    for index in range(len(messages) - 1, -1, -1):
        usage = messages[index].get("metadata", {}).get("usage")
        if messages[index]["role"] == "assistant" and usage:
            known = tokens_read(usage) + usage["outputTokens"]
            since = messages[index + 1 :]
            break
    return known + sum(len(str(message["content"])) for message in since) // 4


def _without_calls(message: Message) -> Message:
    """A message that was cut: its calls may be cut too, so they become a text that says which they were."""
    content: list[ContentBlock] = []
    for block in message["content"]:
        if "toolUse" in block:
            name = block["toolUse"].get("name", "")
            block = block_of(
                f"The call of the tool {name!r} was cut at the model's token limit and not made."
            )
        content.append(block)
    return {**message, "content": content}
