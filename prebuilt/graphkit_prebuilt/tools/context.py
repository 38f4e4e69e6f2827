"""What a tool is told about the call that it serves."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphkit_prebuilt.content import ToolUse
from graphkit_prebuilt.hooks.event import AsksMixin


@dataclass(eq=False)
class ToolContext(AsksMixin):
    """One call of a tool: which it is, whose, and what the request around it shares.

    `agent` is None when the tool is not called by an agent. `invocation_state` is the request's own dict, the same
    object for hooks and tools. `cancel_signal` is set when the request is cancelled: a tool that takes long looks at
    it. `interrupt(name, reason=…)` asks a person: the tool runs again from its top when the answer is there, and the
    call returns it. A name may be asked once in a call (`ValueError`).
    """

    tool_use: ToolUse | Mapping[str, Any]
    agent: Any = None
    invocation_state: dict[str, Any] = field(default_factory=dict)
    cancel_signal: threading.Event = field(default_factory=threading.Event)

    @property
    def _subject(self) -> str:
        return str(self.tool_use.get("toolUseId", ""))
