"""`ApprovalGate`: a person is asked before a tool runs, until they say that they trust it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from graphkit_prebuilt.hooks.catalogue import BeforeToolCallEvent
from graphkit_prebuilt.plugins import Plugin, hook

__all__ = ["ApprovalGate"]

APPROVING: Final = frozenset({"y", "yes", "approve", "approved", "ok"})
TRUSTING: Final = frozenset({"t", "trust", "always"})
_REFUSING: Final = frozenset({"", "n", "no", "deny", "denied", "reject", "rejected"})


@dataclass
class Trust:
    """The tools that are trusted in a conversation."""

    tools: list[str] = field(default_factory=list)


class ApprovalGate(Plugin):
    """Asks before each call of certain tools; `tools` are their names, or a function of the call that says whether it
    wants approval; None is all tools.

    The question is named as the plugin, its reason is `{"tool": name, "input": input}`. True, "y" and their like run
    the call. "t" or "trust" do too, and the tool is not asked about in this conversation again, also not in
    another process. Anything else refuses: the model gets an error result, with the answer if that says more than no.
    """

    state_type = Trust

    def __init__(
        self,
        tools: Iterable[str] | Callable[[dict[str, Any]], bool] | None = None,
        *,
        name: str = "approval_gate",
    ) -> None:
        self.name = name
        if tools is None:
            self._wants: Callable[[Any], bool] = lambda tool_use: True
        elif callable(tools):
            self._wants = tools
        elif isinstance(tools, str):
            raise TypeError(f"ApprovalGate takes a list of the names of tools, not the text {tools!r}")
        else:
            guarded = frozenset(tools)
            self._wants = lambda tool_use: tool_use["name"] in guarded

    @hook
    def _ask(self, event: BeforeToolCallEvent) -> None:
        use = event.tool_use
        trust: Trust = event.agent.get_plugin_state(self.name)
        if use["name"] in trust.tools or not self._wants(use):
            return
        answer = event.interrupt(self.name, reason={"tool": use["name"], "input": use["input"]})
        said = answer.strip().lower() if isinstance(answer, str) else answer
        if isinstance(said, str) and said in TRUSTING:
            trust.tools.append(use["name"])
            event.agent.set_plugin_state(self.name, trust)
        elif said is not True and not (isinstance(said, str) and said in APPROVING):
            event.cancel_tool = _refusal(use["name"], answer)


def _refusal(tool: str, answer: Any) -> str:
    text = f"The call of the tool {tool} was not approved"
    if not isinstance(answer, str) or answer.strip().lower() in _REFUSING:
        return text
    return f"{text}: {answer}"
