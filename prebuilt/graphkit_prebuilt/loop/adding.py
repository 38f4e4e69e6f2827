"""Adding a message to the conversation, and ending a turn with one."""

from __future__ import annotations

from typing import Any

from graphkit.constants import END
from graphkit.types import Command
from graphkit_prebuilt.content import Message
from graphkit_prebuilt.conversation import copied, edit
from graphkit_prebuilt.hooks.catalogue import AfterInvocationEvent, AgentResultEvent, MessageAddedEvent
from graphkit_prebuilt.hooks.firing import fire, heard
from graphkit_prebuilt.loop.invocation import Invocation
from graphkit_prebuilt.loop.steps import Steps
from graphkit_prebuilt.plugin_state import end_turn

Writes = dict[str, Any]


def added(inv: Invocation, message: Message, writes: Writes, once: str = "added") -> Steps[None]:
    """Write a message, and tell of it. Callbacks may change it in place before it is stored."""
    writes.setdefault("messages", []).append(message)
    inv.add(message)
    if heard(inv, MessageAddedEvent):
        event = MessageAddedEvent(inv.agent, message=message, invocation_state=inv.invocation_state)
        yield from fire(inv, event, once, number=len(inv.added))


def changed_in_place(inv: Invocation, place: int, message: Message, once: str) -> Steps[Writes]:
    """Tell of the message at this place of the log. Returns the edits by which callbacks have changed it."""
    shown = copied(message)
    event = MessageAddedEvent(inv.agent, message=shown, invocation_state=inv.invocation_state)
    yield from fire(inv, event, once)
    return edit(place, message, shown)


def finish(
    inv: Invocation, writes: Writes, message: Message | None, stop_reason: str, once: str = "added"
) -> Steps[Command[Any]]:
    """End the turn: with this message, or with what was said last."""
    inv.final = message
    if message is not None:
        yield from added(inv, message, writes, once)
    writes["outcome"] = {"stop_reason": stop_reason}
    if heard(inv, AgentResultEvent, AfterInvocationEvent):
        return Command(update=inv.settled(writes), goto="after")
    return Command(update=ended(inv, inv.settled(writes)), goto=END)


def ended(inv: Invocation, writes: Writes) -> Writes:
    """What the last node of a turn writes: what plugins keep for as long as it lasts is gone."""
    if inv.agent.plugins:
        end_turn(inv, writes)
    return writes
