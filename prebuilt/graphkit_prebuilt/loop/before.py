"""The node `before`: a request begins, and its prompt becomes part of the conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphkit.frame import Frame
from graphkit.types import Command
from graphkit_prebuilt.content import assistant
from graphkit_prebuilt.conversation import copied
from graphkit_prebuilt.hooks.catalogue import BeforeInvocationEvent, MessageAddedEvent
from graphkit_prebuilt.hooks.firing import fire, heard
from graphkit_prebuilt.loop.adding import added, finish
from graphkit_prebuilt.loop.invocation import Invocation
from graphkit_prebuilt.loop.steps import Steps

DENIED = "The request was denied by a hook"


def before(inv: Invocation, frame: Frame, view: Mapping[str, Any]) -> Steps[Command[Any]]:
    given = messages = view.get("prompt") or None
    if heard(inv, BeforeInvocationEvent):
        event = BeforeInvocationEvent(inv.agent, invocation_state=inv.invocation_state, messages=messages)
        yield from fire(inv, event, "before_invocation")
        if event.cancel:
            return (yield from finish(inv, {}, assistant(denial(event.cancel)), "end_turn"))
        messages = event.messages
    writes: dict[str, Any] = {}
    if given is not None:  # calls that a turn has left without results are not made any more
        writes["messages"] = []
    for number, message in enumerate(messages or ()):
        key = f"left:{number}"
        if key in frame.kept:
            message = copied(frame.kept[key])
        yield from added(inv, message, writes, f"added:{number}")
        if number + 1 < len(messages or ()) and heard(inv, MessageAddedEvent):
            frame.keep(key, copied(message))  # as it was left, if a callback of the next one asks
    inv.new = writes.get("messages", [])
    return Command(update=inv.settled(writes), goto="model")


def denial(cancel: bool | str) -> str:
    """What the caller gets of a request that a hook has cancelled."""
    return cancel if isinstance(cancel, str) else DENIED
