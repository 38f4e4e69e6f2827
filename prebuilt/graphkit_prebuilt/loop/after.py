"""The node `after`: a turn has ended; hooks see its result, and may let the request go on with another prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphkit.engine.resume import nothing_pending
from graphkit.frame import Frame
from graphkit.types import Command
from graphkit_prebuilt.hooks.catalogue import (
    AfterInvocationEvent,
    AgentResultEvent,
    BeforeInvocationEvent,
    MessageAddedEvent,
)
from graphkit_prebuilt.hooks.firing import fire, heard
from graphkit_prebuilt.loop.adding import ended
from graphkit_prebuilt.loop.invocation import Invocation
from graphkit_prebuilt.loop.steps import Steps
from graphkit_prebuilt.prompts import read_prompt
from graphkit_prebuilt.result import failure_of, result_of


def after(inv: Invocation, frame: Frame, view: Mapping[str, Any]) -> Steps[Any]:
    result = None if failure_of(view) is not None else result_of(inv, view)
    if result is not None and heard(inv, AgentResultEvent):
        shown = AgentResultEvent(inv.agent, result=result, invocation_state=inv.invocation_state)
        yield from fire(inv, shown)  # in each request that comes here: it is what that one returns
    event = AfterInvocationEvent(inv.agent, invocation_state=inv.invocation_state, result=result)
    yield from fire(inv, event, "after_invocation")
    if result is None or event.resume is None:
        return ended(inv, inv.settled({}))
    given = read_prompt(event.resume)
    if given.kind == "answers":
        raise nothing_pending(inv.thread_id)
    if given.kind == "nothing":
        return ended(inv, inv.settled({}))
    inv.new, inv.structured_output = given.messages, None
    if heard(inv, BeforeInvocationEvent, MessageAddedEvent):
        writes = ended(inv, inv.settled({"prompt": given.messages}))
        return Command(update=writes, goto="before")
    writes = ended(inv, inv.settled({}))
    writes["messages"] = [*writes.get("messages", ()), *given.messages]
    return Command(update=writes, goto="model")
