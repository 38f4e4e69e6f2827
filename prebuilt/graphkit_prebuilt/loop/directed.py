"""What the directive of a resumed turn has left for the nodes, in the channel `turn`, until it has been done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from graphkit_prebuilt.content import Message, ToolResult
from graphkit_prebuilt.log import DELETED

RESTORED: Final = "restored"
"""A message that stands for the model's answer."""
COMPLETED: Final = "completed"
"""The results of calls that are not to run, by the id of the call."""
AGAIN: Final = "again"
"""The model is to be called although it has answered: says by which halt this was wanted."""


def restored(view: Mapping[str, Any]) -> Message | None:
    """What is to be taken as the model's answer in place of a call."""
    turn = view.get("turn")
    return turn.get(RESTORED) if turn else None


def completed(view: Mapping[str, Any], call: str) -> ToolResult | None:
    """The result that a call has without being made."""
    turn = view.get("turn")
    return turn[COMPLETED].get(call) if turn and COMPLETED in turn else None


def again(view: Mapping[str, Any]) -> str | None:
    """By which halt it was wanted that the model is called again, if it was."""
    turn = view.get("turn")
    return turn.get(AGAIN) if turn else None


def done(view: Mapping[str, Any]) -> dict[str, Any]:
    """What is written when there is an answer: results are there for the calls of a restored one alone."""
    turn = view.get("turn") or {}
    over = (RESTORED, AGAIN) if RESTORED in turn else (COMPLETED, AGAIN)
    cleared = {key: DELETED for key in over if key in turn}
    return {"turn": cleared} if cleared else {}
