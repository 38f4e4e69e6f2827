"""What a request of an agent came to."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from graphkit.errors import MaxTokensReachedException, StructuredOutputException
from graphkit.types import Interrupt
from graphkit_prebuilt.content import Message, texts
from graphkit_prebuilt.halting import Halt, Halted, halts_in, halts_told, questions_in
from graphkit_prebuilt.metrics import RequestMetrics
from graphkit_prebuilt.structured import REFUSED

if TYPE_CHECKING:
    from pydantic import BaseModel

    from graphkit_prebuilt.loop.invocation import Invocation


@dataclass(slots=True)
class AgentResult(Halted):
    """Why the agent stopped, and with which message.

    While it waits for answers `stop_reason` is "interrupt", `interrupts` are its questions (None otherwise) and
    `message` holds the calls that are pending. `message` is a plain dict. `state` is what was left in
    `invocation_state["request_state"]`, `invocation_state` the very object that was given. `str(result)` is the
    structured output as JSON, else the open questions, else the text, each block followed by a line's end. The
    structured output of a result that was stored is a dict where nobody knows the class.

    `halts` are what has halted the agent, in the order of the calls (several calls of tools may halt side by side). The
    first gives the `stop_reason`, also beside questions, and is what `data`, `resumable` and `plugin` tell of.
    """

    stop_reason: str
    message: Message
    metrics: RequestMetrics = field(default_factory=RequestMetrics)
    state: Any = field(default_factory=dict)
    interrupts: Sequence[Interrupt] | None = None
    structured_output: BaseModel | Any = None
    invocation_state: dict[str, Any] = field(default_factory=dict)
    halts: Sequence[Halt] = ()

    def __str__(self) -> str:
        output = self.structured_output
        if output is not None:
            if isinstance(output, dict):
                return json.dumps(output, ensure_ascii=False, separators=(",", ":"))
            return output.model_dump_json()
        if self.interrupts:
            return str([question.to_dict() for question in self.interrupts])
        return "".join([f"{text}\n" for text in texts(self.message.get("content") or ())])

    @property
    def context_size(self) -> int | None:
        """See `RequestMetrics.latest_context_size`."""
        return self.metrics.latest_context_size

    @property
    def projected_context_size(self) -> int | None:
        """See `RequestMetrics.projected_context_size`."""
        return self.metrics.projected_context_size

    def to_dict(self) -> dict[str, Any]:
        """What can be stored of it: message, with bytes as text, stop reason, structured output and halts."""
        plain: dict[str, Any] = {
            "type": "agent_result",
            "message": _plain(self.message),
            "stop_reason": self.stop_reason,
        }
        output = self.structured_output
        if output is not None:
            plain["structured_output"] = (
                output if isinstance(output, dict) else output.model_dump(mode="json")
            )
        if self.halts:
            plain["halts"] = [halt.to_dict() for halt in self.halts]
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> AgentResult:
        """The result that `to_dict` was made of. Raises `TypeError` for a dict of something else."""
        if data.get("type") != "agent_result":
            raise TypeError(f"AgentResult.from_dict() was given {json.dumps(data, default=str):.100}")
        return cls(
            stop_reason=data["stop_reason"],
            message=_unplain(data["message"]),
            structured_output=data.get("structured_output"),
            halts=halts_told(data),
        )


_BYTES: Final = "__bytes__"
_AS_IT_IS: Final = frozenset({str, int, float, bool, type(None)})


def _plain(value: Any) -> Any:
    """What a message holds, such that it can be written as JSON. A dict that looks like bytes does is put into one."""
    if type(value) in _AS_IT_IS:
        return value
    if isinstance(value, bytes):
        return {_BYTES: b64encode(value).decode()}
    if isinstance(value, dict):
        plain = {key: one if type(one) in _AS_IT_IS else _plain(one) for key, one in value.items()}
        return {_BYTES: plain} if value.keys() == {_BYTES} else plain
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _unplain(value: Any) -> Any:
    """What `_plain` was made of."""
    if isinstance(value, dict):
        if value.keys() == {_BYTES}:
            held = value[_BYTES]
            if isinstance(held, str):
                return b64decode(held)
            value = held
        return {key: _unplain(one) for key, one in value.items()}
    return [_unplain(one) for one in value] if isinstance(value, list) else value


def result_of(
    inv: Invocation,
    values: Mapping[str, Any],
    interrupts: Sequence[Interrupt] = (),
    status: str = "completed",
) -> AgentResult:
    """The result of a request that has left the channels like this. A run of the graph that was not "completed" is
    what the request has stopped for: questions, a breakpoint, a drain."""
    if inv.denied is not None:
        interrupts, status = (), "completed"
    halts, questions = halts_in(interrupts), questions_in(interrupts)
    reason = halts[0].stop_reason if halts else "interrupt" if interrupts else status
    message = inv.denied or (None if interrupts else inv.final)
    if reason == "completed":
        reason = _outcome(values).get("stop_reason", "end_turn") if inv.denied is None else "end_turn"
    return AgentResult(
        stop_reason=reason,
        message=_last(values.get("messages") or [], reason, bool(interrupts)) if message is None else message,
        metrics=inv.metrics,
        state=inv.request_state,
        interrupts=questions or None,
        halts=halts,
        structured_output=inv.structured_output,
        invocation_state=inv.invocation_state,
    )


def failure_of(values: Mapping[str, Any]) -> Exception | None:
    """What is raised instead of a result for a turn that has ended like this. The turn is at rest."""
    reason = _outcome(values).get("stop_reason")
    if reason == "max_tokens":
        return MaxTokensReachedException(
            "the model's answer was cut at its token limit; what there is of it is the last message of the "
            "conversation, so that the agent can be called again"
        )
    if reason == REFUSED:
        return StructuredOutputException(
            "the model answered with text although it was told to give the structured output by calling its tool"
        )
    return None


def _outcome(values: Mapping[str, Any]) -> Mapping[str, Any]:
    return values.get("outcome") or {}


def _last(log: Sequence[Message], reason: str, waits: bool) -> Message:
    """The message that a turn has ended with, or waits at: of one that ended at a tool, the one with the call."""
    nothing: Message = {"role": "assistant", "content": []}
    said = (message for message in reversed(log) if message["role"] == "assistant")
    return next(said, nothing) if waits or reason in ("tool_use", "cancelled") or not log else log[-1]
