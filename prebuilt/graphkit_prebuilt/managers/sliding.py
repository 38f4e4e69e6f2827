"""`SlidingWindowConversationManager`: the last messages of a conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from graphkit_prebuilt.conversation import length
from graphkit_prebuilt.hooks.catalogue import BeforeModelCallEvent
from graphkit_prebuilt.hooks.registry import HookRegistry
from graphkit_prebuilt.loop.invocation import Invocation, invocation_of
from graphkit_prebuilt.managers.cutting import first_kept, has_results, pinned
from graphkit_prebuilt.managers.manager import ConversationManager

__all__ = ["SlidingWindowConversationManager"]

ENDS: Final = 200
"""Characters that are left of each end of a long result."""
LONG: Final = 2 * ENDS + 100
"""Characters from which on a result is long: with less, little would be gained."""


class SlidingWindowConversationManager(ConversationManager):
    """Keeps the last `window_size` messages and drops those before them, after each request.

    What is kept begins with a user's message, or with calls and their results: never with results alone. So it may be a
    little less than the window. The first `pin_first` messages stay always. `per_turn` manages before each call of the
    model too (True), or before every n-th of a request.

    When the model could not read the conversation, long results of the oldest tools are shortened first
    (`should_truncate_results`), pictures in them replaced by a line of text; else messages are dropped: those outside
    of the window, or the first two. Raises `ValueError` for numbers that make no sense. Behaviour: Strands'.
    """

    def __init__(
        self,
        window_size: int = 40,
        should_truncate_results: bool = True,
        *,
        per_turn: bool | int = False,
        pin_first: int | None = None,
        proactive_compression: bool | Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(proactive_compression=proactive_compression)
        if isinstance(window_size, bool) or not isinstance(window_size, int) or window_size < 0:
            raise ValueError(f"window_size must be a number of messages, 0 or more, not {window_size!r}")
        if not isinstance(per_turn, bool) and (not isinstance(per_turn, int) or per_turn < 1):
            raise ValueError(f"per_turn must be True, False, or a number of model calls, not {per_turn!r}")
        if pin_first is not None and (not isinstance(pin_first, int) or pin_first < 0):
            raise ValueError(f"pin_first must be a number of messages, 0 or more, not {pin_first!r}")
        self.window_size = window_size
        self.should_truncate_results = should_truncate_results
        self.per_turn = per_turn
        self.pin_first = pin_first

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        super().register_hooks(registry, **kwargs)
        if self.per_turn is not False:
            registry.add_callback(BeforeModelCallEvent, self._before_model_call)

    def apply_management(self, agent: Any, **kwargs: Any) -> None:
        """Drop what is outside of the window."""
        if len(agent.messages) > self.window_size:
            self.reduce_context(agent)

    def reduce_context(self, agent: Any, e: Exception | None = None, **kwargs: Any) -> None:
        """Make the conversation smaller. With `e`, raises that if nothing can be taken away; without, leaves it."""
        messages = agent.messages
        stays = pinned(messages, self.pin_first)
        if self.window_size == 0:
            cut: int | None = len(messages)
        elif e is not None and self.should_truncate_results and self._shorten(messages, stays):
            return
        else:
            over = len(messages) - self.window_size
            cut = first_kept(messages, max(2, stays + 1) if over <= 0 else over + stays)
        if cut is None or cut <= stays:
            if e is not None:
                e.add_note("the conversation manager has found nothing to take away")
                raise e
            return
        self.removed_message_count += cut - stays
        del messages[stays:cut]

    def _is_due(self, invocation: Invocation) -> bool:
        return length(invocation.values) + len(invocation.added) > self.window_size

    def _before_model_call(self, event: BeforeModelCallEvent) -> None:
        request = invocation_of(event.agent)
        if request is not None:
            calls = request.scratch[self] = request.scratch.get(self, 0) + 1
            if calls % int(self.per_turn):
                return
        self._managed(event.agent, lambda: self.apply_management(event.agent))

    def _shorten(self, messages: list[Any], stays: int) -> bool:
        """Shorten the oldest message with results that is longer than it need be; whether there was one."""
        for message in messages[stays:]:
            if has_results(message):
                content = [_shortened_block(block) for block in message["content"]]
                if content != message["content"]:
                    message["content"] = content
                    return True
        return False


def _shortened_block(block: Mapping[str, Any]) -> Any:
    if "toolResult" not in block:
        return block
    result = block["toolResult"]
    return {"toolResult": {**result, "content": [_shortened(part) for part in result["content"]]}}


def _shortened(part: Mapping[str, Any]) -> Any:
    if "image" in part:
        image = part["image"]
        size = len(image.get("source", {}).get("bytes", b""))
        return {"text": f"[image: {image.get('format', 'unknown')}, {size} bytes]"}
    text = part.get("text", "")
    if len(text) < LONG:
        return part
    return {"text": f"{text[:ENDS]}\n[… {len(text) - 2 * ENDS} characters left out …]\n{text[-ENDS:]}"}
