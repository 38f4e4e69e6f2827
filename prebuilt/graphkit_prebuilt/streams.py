"""What is shown of a request while it runs: its events as they are, or as the dicts that Strands streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from graphkit.frame import current
from graphkit_prebuilt.content import tool_results
from graphkit_prebuilt.hooks.catalogue import (
    AfterModelCallEvent,
    AfterToolCallEvent,
    BeforeInvocationEvent,
    BeforeModelCallEvent,
    InterruptEvent,
    MessageAddedEvent,
    ModelStreamUpdateEvent,
    ToolStreamUpdateEvent,
)
from graphkit_prebuilt.hooks.event import BaseHookEvent
from graphkit_prebuilt.printing import PRINTED, CallbackHandler, wanted_by
from graphkit_prebuilt.running import DictForm

Dict = dict[str, Any]


class DictStream(DictForm):
    """The events of one request as dicts, in the forms that Strands' `stream_async` and callback handlers know.

    `init_event_loop`, `start`, `start_event_loop`; `event` (the model's chunk) and what it adds: `data`,
    `reasoningText`, `reasoning_signature`, `reasoningRedactedContent`, `citation`, `current_tool_use`; `message` (the
    model's, and results of tools); `tool_stream_event`, `tool_cancel_event`, `tool_interrupt_event`;
    `event_loop_throttled_delay`. How a request ends is told with `ended` and `failed`.
    """

    def __init__(self, agent: Any, invocation_state: Mapping[str, Any]) -> None:
        self._common = {"agent": agent}
        self._invocation_state = invocation_state
        self._call: Dict = {}
        self._tried: AfterModelCallEvent | None = None
        self._asking: dict[str, Dict] = {}
        self._inside: dict[str, DictForm] = {}

    def of(self, event: BaseHookEvent) -> Iterator[Dict]:
        """The dicts of one event; of most events there are none."""
        again = self._tried is not None and self._tried.retry
        yield from self._throttled()
        if isinstance(event, InterruptEvent):
            self._asked(event)
            return
        yield from self._asking_calls()
        if isinstance(event, ModelStreamUpdateEvent):
            yield {"event": event.event}
            yield from self._chunk(event.event)
        elif isinstance(event, BeforeModelCallEvent):
            if not again:
                yield {"start": True}
                yield {"start_event_loop": True}
        elif isinstance(event, AfterModelCallEvent):
            self._tried = event
        elif isinstance(event, MessageAddedEvent):
            if event.message["role"] == "assistant" or tool_results(event.message):
                yield {"message": event.message}
        elif isinstance(event, BeforeInvocationEvent):
            yield {"init_event_loop": True, **self._invocation_state}
        elif isinstance(event, ToolStreamUpdateEvent):
            yield from self._of_tool(event)
        elif isinstance(event, AfterToolCallEvent) and event.cancel_message is not None:
            cancelled = {"tool_use": event.tool_use, "message": event.cancel_message}
            yield {"tool_cancel_event": cancelled}

    def _of_tool(self, event: ToolStreamUpdateEvent) -> Iterator[Dict]:
        """What a tool has yielded; of an agent or orchestrator that is one, the dicts of its events. Those of one that
        answers for the agent are shown as the agent's own."""
        inner = event.event
        if not isinstance(inner, BaseHookEvent):
            yield _progress(event, inner)
            return
        call = event.tool_use["toolUseId"]
        if call not in self._inside:
            from graphkit_prebuilt.multiagent.dicts import form_of

            self._inside[call] = form_of(inner, self._invocation_state)
        tool = event.agent.tool_registry.get(event.tool_use["name"])
        own = getattr(tool, "delegate", False)
        for shown in self._inside[call].of(inner):
            yield shown if own else _progress(event, shown)

    def ended(self, result: Any) -> Iterator[Dict]:
        """The last dicts of a request that has a result."""
        yield from self._asking_calls()
        if result.structured_output is not None:
            yield {"structured_output": result.structured_output}
        yield {"result": result}

    def failed(self, error: Exception) -> Iterator[Dict]:
        """The last dict of a request that has failed."""
        yield from self._throttled()
        yield from self._asking_calls()
        yield {"force_stop": True, "force_stop_reason": str(error)}

    def _throttled(self) -> Iterator[Dict]:
        """What the callbacks of the last try have done is known when the next event comes."""
        tried, self._tried = self._tried, None
        if tried is not None and tried.retry and (delay := vars(tried).get("delay")) is not None:
            yield {"event_loop_throttled_delay": delay}

    def _chunk(self, chunk: Any) -> Iterator[Dict]:
        if not isinstance(chunk, Mapping):
            return
        if "contentBlockStart" in chunk:
            start = (chunk["contentBlockStart"] or {}).get("start") or {}
            self._call = {**(start.get("toolUse") or {}), "input": ""}
        elif "contentBlockDelta" in chunk:
            delta = (chunk["contentBlockDelta"] or {}).get("delta") or {}
            for shown in self._delta(delta):
                yield {**shown, "delta": delta, **self._invocation_state, **self._common}

    def _delta(self, delta: Mapping[str, Any]) -> Iterator[Dict]:
        if "text" in delta:
            yield {"data": delta["text"]}
        if "toolUse" in delta:
            piece = (delta["toolUse"] or {}).get("input") or ""
            if isinstance(piece, str):
                self._call = {**self._call, "input": self._call.get("input", "") + piece}
            yield {"type": "tool_use_stream", "current_tool_use": self._call}
        if "reasoningContent" in delta:
            reasoning = delta["reasoningContent"] or {}
            if "text" in reasoning:
                yield {"reasoningText": reasoning["text"], "reasoning": True}
            if "signature" in reasoning:
                yield {"reasoning_signature": reasoning["signature"], "reasoning": True}
            if "redactedContent" in reasoning:
                yield {"reasoningRedactedContent": reasoning["redactedContent"], "reasoning": True}
        if "citation" in delta:
            yield {"citation": delta["citation"]}

    def _asked(self, event: InterruptEvent) -> None:
        use = vars(event).get("tool_use")
        if use is not None:
            call = self._asking.setdefault(use["toolUseId"], {"tool_use": use, "interrupts": []})
            call["interrupts"].append(event.interrupt)

    def _asking_calls(self) -> Iterator[Dict]:
        """A call that waits for answers is shown once, when all its questions are known."""
        asking, self._asking = self._asking, {}
        for call in asking.values():
            yield {"tool_interrupt_event": call}


def _progress(event: ToolStreamUpdateEvent, data: Any) -> Dict:
    return {"type": "tool_stream", "tool_stream_event": {"tool_use": event.tool_use, "data": data}}


TOLD: Final[frozenset[type[BaseHookEvent]]] = frozenset(
    {
        AfterModelCallEvent,
        AfterToolCallEvent,
        BeforeInvocationEvent,
        BeforeModelCallEvent,
        InterruptEvent,
        MessageAddedEvent,
        ModelStreamUpdateEvent,
        ToolStreamUpdateEvent,
    }
)
"""The events that dicts come of."""
CHUNKS: Final[frozenset[type[BaseHookEvent]]] = frozenset({ModelStreamUpdateEvent})


class Shown:
    """Who is shown the events of a request: a stream that reads them, a callback handler, or both.

    An instance is the `sink` of the request. With `live`, events are also given to the stream of the run that is
    around the running task. `wants` are the events that it does something with; None for all.
    """

    def __init__(self, dicts: DictStream, handler: CallbackHandler | None, live: bool) -> None:
        wanted = wanted_by(handler)
        self.dicts = dicts
        self.handler = None if wanted is not None and not wanted else handler
        self.live = live
        self.told = CHUNKS if wanted is not None and wanted <= PRINTED else TOLD
        self.wants = None if live else self.told

    @property
    def is_anybody(self) -> bool:
        return self.live or self.handler is not None

    def __call__(self, event: BaseHookEvent) -> None:
        if self.live and (frame := current.get()) is not None:
            frame.emit(event)
        if self.handler is not None and type(event) in self.told:
            self.handle(self.dicts.of(event))

    def handle(self, shown: Iterator[Dict]) -> None:
        """Call the handler with each of these."""
        if self.handler is not None:
            for each in shown:
                self.handler(**each)
