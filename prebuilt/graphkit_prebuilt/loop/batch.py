"""The node `batch`: somebody looks at the calls of one message before any of them starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphkit.frame import Frame
from graphkit.types import Command
from graphkit_prebuilt.content import Message, tool_result, tool_uses
from graphkit_prebuilt.conversation import copied, edit, last
from graphkit_prebuilt.hooks.catalogue import BeforeToolsEvent
from graphkit_prebuilt.hooks.firing import fire, heard
from graphkit_prebuilt.log import answered
from graphkit_prebuilt.loop.calls import wrapped_calls
from graphkit_prebuilt.loop.invocation import Invocation
from graphkit_prebuilt.loop.steps import Steps
from graphkit_prebuilt.loop.tools import block_of, to_tools
from graphkit_prebuilt.middleware.registry import Layer
from graphkit_prebuilt.middleware.stages import ExecuteToolsStage

DENIED = "The calls of tools were cancelled by a hook"


def batch(inv: Invocation, frame: Frame, view: Mapping[str, Any]) -> Steps[Command[Any]]:
    """The calls may be changed in the message, in place; how many there are may not."""
    log = view["messages"]
    calls = tool_uses(log[-1])
    message, shown = last(view), copied(last(view))
    event = BeforeToolsEvent(inv.agent, message=shown, invocation_state=inv.invocation_state)
    if heard(inv, BeforeToolsEvent):
        yield from fire(inv, event, "before_tools")
    writes: dict[str, Any] = {}
    if len(tool_uses(shown)) == len(calls) and (changes := edit(len(log) - 1, message, shown)):
        writes["edits"] = changes
    layers = inv.agent.middleware.of(ExecuteToolsStage)
    if layers and not event.cancel:
        if changes := writes.pop("edits", None):  # the hooks do not hear of the batch again if a layer asks
            frame.amend("edits", changes)
            inv.edit(changes)
            message = shown
        return (yield from _wrapped(inv, frame, layers, log, message))
    if not event.cancel:
        return Command(update=inv.settled(writes), goto=to_tools(len(calls)))
    text = event.cancel if isinstance(event.cancel, str) else DENIED
    results: Any = [{"toolResult": tool_result(call["toolUseId"], "error", text)} for call in calls]
    writes["messages"] = [{"role": "user", "content": results}]
    return Command(update=inv.settled(writes), goto="model")


def _wrapped(
    inv: Invocation, frame: Frame, layers: Sequence[Layer], log: list[Message], message: Message
) -> Steps[Command[Any]]:
    """The calls run inside of middleware, and their results are written here."""
    uses = tool_uses(message)
    results, changed = yield from wrapped_calls(inv, frame, layers, copied(message), uses)
    asked = tool_uses(log[-1])
    writes: dict[str, Any] = {
        "messages": [
            {
                "role": "user",
                "content": [
                    answered(call["toolUseId"], result) for call, result in zip(asked, results, strict=True)
                ],
            }
        ]
    }
    edits = {
        f"{len(log) - 1}.{block_of(message, index)}": {"toolUse": changed[use["toolUseId"]]}
        for index, use in enumerate(uses)
        if use["toolUseId"] in changed
    }
    if edits:
        writes["edits"] = edits
    return Command(update=inv.settled(writes), goto="model")
