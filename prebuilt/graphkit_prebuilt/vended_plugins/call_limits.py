"""`ToolCallLimits`: a tool is called so many times in a turn, and no more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from graphkit_prebuilt.hooks.catalogue import BeforeToolCallEvent
from graphkit_prebuilt.loop.invocation import invocation_of
from graphkit_prebuilt.plugins import Plugin, hook

__all__ = ["ToolCallLimits"]


@dataclass
class Calls:
    """The calls of this turn, by tool: their ids, since one that has asked comes again."""

    made: dict[str, list[str]] = field(default_factory=dict)


class ToolCallLimits(Plugin):
    """Cancels the calls of a tool that are more than `max_tool_counts` allows in one turn, `{"sleep": 3}`; the model is
    told to stop calling it. A turn counts from its prompt to its end, also over questions and restarts; direct calls
    between turns are not counted.

    Raises `ValueError` for a number that is no whole number of at least 0. After Strands' cookbook of hooks.
    """

    invocation_state_type = Calls

    def __init__(self, max_tool_counts: Mapping[str, int], *, name: str = "tool_call_limits") -> None:
        for tool, most in max_tool_counts.items():
            if isinstance(most, bool) or not isinstance(most, int) or most < 0:
                raise ValueError(
                    f"ToolCallLimits: {tool!r} may be called {most!r} times, which is no number of times"
                )
        self.name = name
        self.max_tool_counts = dict(max_tool_counts)

    @hook
    def _count(self, event: BeforeToolCallEvent) -> None:
        tool, call = event.tool_use["name"], event.tool_use["toolUseId"]
        most = self.max_tool_counts.get(tool)
        if most is None or invocation_of(event.agent) is None:
            return
        calls: Calls = event.agent.get_plugin_state(self.name, per_invocation=True)
        made = calls.made.setdefault(tool, [])
        if call not in made:
            made.append(call)
            event.agent.set_plugin_state(self.name, calls, per_invocation=True)
        if made.index(call) >= most:
            event.cancel_tool = (
                f"The tool {tool} may be called {most} times in a turn, and was. Do not call it any more"
            )
