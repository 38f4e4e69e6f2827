"""What an orchestrator is asked, and what it answers: who is next?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphkit_prebuilt.multiagent.nodes import Visit
from graphkit_prebuilt.multiagent.state import MultiAgentState


@dataclass(slots=True, kw_only=True, eq=False)
class Turn:
    """Where an orchestrator has to decide who is next. `begins` before any node, else `ended` are the keys of the
    executions that have ended just now, in order (their results are in `state.results`). `sends` are the executions
    that functions among them have sent for. `own` is what the orchestrator has kept in this turn. `undone` are those
    that have failed, of a turn that has ended by that."""

    state: MultiAgentState
    begins: bool
    ended: Sequence[str]
    sends: Sequence[Visit]
    own: Mapping[str, Any]
    invocation_state: dict[str, Any]
    undone: Sequence[Visit] = ()


@dataclass(slots=True, kw_only=True, eq=False)
class Choice:
    """Who is next: `visits`, which run side by side; nobody if the turn has ended, and if it `failed`, why. `own` is
    kept for the rest of the turn, key by key: plain values. `message` goes into the handoff event."""

    visits: Sequence[Visit] = ()
    failed: str | None = None
    own: Mapping[str, Any] = field(default_factory=dict)
    message: str | None = None
