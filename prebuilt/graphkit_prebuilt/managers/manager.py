"""`ConversationManager`: what every manager is, and when it is asked."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final

from graphkit.errors import ContextWindowOverflowException
from graphkit.frame import current
from graphkit_prebuilt.hooks.catalogue import AfterInvocationEvent, AfterModelCallEvent, BeforeModelCallEvent
from graphkit_prebuilt.hooks.order import HookOrder
from graphkit_prebuilt.hooks.registry import HookRegistry
from graphkit_prebuilt.loop.invocation import Invocation, invocation_of

__all__ = ["ConversationManager", "NullConversationManager"]

SHARE: Final = 0.7
"""Of what a model can read: from here on a conversation is made smaller in advance."""
READABLE: Final = 200_000
"""Tokens that a model can read that does not say how many."""
_log = logging.getLogger(__name__)

KEPT_AS: Final = "conversation_manager"
"""The key in the channel `plugins` under which the state of a manager is kept."""


class ConversationManager(ABC):
    """Keeps a conversation small enough for its model. A hook provider like any other.

    `apply_management` is called after each request, `reduce_context` when the model could not read the conversation
    (`ContextWindowOverflowException`), after all other callbacks; then the model is called again. Both change
    `agent.messages`, in any way. What `get_state()` returns is kept with the conversation when it has changed, and
    given to `restore_from_session` in another process, or when the object turns to another conversation. Behaviour:
    Strands' `ConversationManager`.

    With `proactive_compression` it reduces before a call of the model, too, that would probably take 0.7 of what the
    model can read, or `{"compression_threshold": share}` of it; what that raises is logged, and the call is made. What
    the model can read is `context_window_limit` in its settings, in tokens (else 200,000). Raises `ValueError` for a
    share that is none.
    """

    removed_message_count: int = 0
    """How many messages of the user and the model were taken away from the conversation that was managed last."""

    _threshold: float | None = None
    _manages: str | None = None
    _unused: dict[str, Any] | None = None

    def __init__(self, *, proactive_compression: bool | Mapping[str, Any] | None = None) -> None:
        self.removed_message_count = 0
        self._threshold = _share(proactive_compression)

    @abstractmethod
    def apply_management(self, agent: Any, **kwargs: Any) -> None:
        """Make the conversation smaller if it is too large by the manager's own measure."""

    @abstractmethod
    def reduce_context(self, agent: Any, e: Exception | None = None, **kwargs: Any) -> None:
        """Make the conversation smaller, so that the model can read it; raise `e` if nothing is left to take away."""

    def get_state(self) -> dict[str, Any]:
        """What the manager has to remember, serializable. One that overrides it extends what this returns."""
        return {"__name__": type(self).__name__, "removed_message_count": self.removed_message_count}

    def restore_from_session(self, state: dict[str, Any]) -> Any:
        """Take over what `get_state()` returned in another process. Raises `ValueError` for another manager's state."""
        if state.get("__name__") != type(self).__name__:
            raise ValueError(f"{state!r:.200} is not the state of a {type(self).__name__}")
        self.removed_message_count = state["removed_message_count"]

    def state_in(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Its state of the conversation that these channels hold."""
        if self._unused is None:
            self._unused = self.get_state()
        kept: dict[str, Any] | None = (values.get("plugins") or {}).get(KEPT_AS)
        if kept is None or kept.get("__name__") != self._unused.get("__name__"):
            return self._unused  # a new conversation, or one that another manager had
        return kept

    def handed_over(self, state: dict[str, Any]) -> dict[str, Any]:
        """By channel, what is to be stored so that it goes on with a state; it then asks for it before it manages."""
        self._manages = None
        return {"plugins": {KEPT_AS: state}}

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        """Register its callbacks. One that overrides it calls this too."""
        if self._threshold is not None:
            registry.add_callback(BeforeModelCallEvent, self._before_a_large_call)
        registry.add_callback(
            AfterInvocationEvent, self._after_invocation, order=HookOrder.SDK_FIRST, when=self._is_due
        )
        registry.add_callback(
            AfterModelCallEvent, self._after_model_call, order=HookOrder.SDK_LAST, when=_has_overflowed
        )

    def _is_due(self, invocation: Invocation) -> bool:
        """Whether `apply_management` may have something to do, as far as that is cheap to see."""
        return True

    def _after_invocation(self, event: AfterInvocationEvent) -> Any:
        self._managed(event.agent, lambda: self.apply_management(event.agent))

    def _after_model_call(self, event: AfterModelCallEvent) -> Any:
        """Reduce after an overflow. One that cannot be reduced is the model's error, as it is without a manager."""
        overflow = event.exception
        if not isinstance(overflow, ContextWindowOverflowException):
            return
        try:
            self._managed(event.agent, lambda: self.reduce_context(event.agent, e=overflow))
        except ContextWindowOverflowException as error:
            if error is not overflow:
                raise
            return
        event.retry = True

    def _is_large(self, event: BeforeModelCallEvent) -> bool:
        """Whether a call would probably take more of what the model can read than it should."""
        share = (event.projected_input_tokens or 0) / _readable(event.agent.model)
        return self._threshold is not None and share >= self._threshold

    def _before_a_large_call(self, event: BeforeModelCallEvent) -> Any:
        if not self._is_large(event):
            return
        try:
            self._managed(event.agent, lambda: self.reduce_context(event.agent))
        except Exception:
            _log.warning("the conversation was not made smaller before a large call", exc_info=True)

    def _managed(self, agent: Any, manage: Callable[[], None]) -> None:
        """Manage with the state that is kept with the conversation, and keep what becomes of it."""
        request, frame = invocation_of(agent), current.get()
        if request is None or frame is None:
            manage()
            return
        kept = self.state_in(request.values)
        if self._manages != request.thread_id:
            self._manages = request.thread_id
            if self.get_state() != kept:
                self.restore_from_session(kept)
        manage()
        if (state := self.get_state()) != kept:
            frame.amend("plugins", {KEPT_AS: state})


class NullConversationManager(ConversationManager):
    """Leaves the conversation as it is: one that the model cannot read is an error."""

    def apply_management(self, agent: Any, **kwargs: Any) -> None:
        pass

    def reduce_context(self, agent: Any, e: Exception | None = None, **kwargs: Any) -> None:
        if e is not None:
            raise e

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        pass


def _share(given: Any) -> float | None:
    if given is None or given is False:
        return None
    share = SHARE if given is True else given.get("compression_threshold", SHARE)
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share <= 1:
        raise ValueError(f"compression_threshold must be a share above 0 and up to 1, not {share!r}")
    return float(share)


def _readable(model: Any) -> int:
    """How many tokens a model can read."""
    settings = model.get_config()
    limit = settings.get("context_window_limit") if isinstance(settings, Mapping) else None
    return getattr(model, "context_window_limit", None) or limit or READABLE


def _has_overflowed(invocation: Invocation) -> bool:
    return isinstance(invocation.exception, ContextWindowOverflowException)
