"""`ConversationManager`: what every manager is, and when it is asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final

from graphkit.errors import ContextWindowOverflowException
from graphkit.frame import current
from graphkit_prebuilt.hooks.catalogue import AfterInvocationEvent, AfterModelCallEvent
from graphkit_prebuilt.hooks.order import HookOrder
from graphkit_prebuilt.hooks.registry import HookRegistry
from graphkit_prebuilt.loop.invocation import Invocation, invocation_of

__all__ = ["ConversationManager", "NullConversationManager"]

KEPT_AS: Final = "conversation_manager"
"""The key in the channel `plugins` under which the state of a manager is kept."""


class ConversationManager(ABC):
    """Keeps a conversation small enough for its model. A hook provider like any other.

    `apply_management` is called after each request, `reduce_context` when the model could not read the conversation
    (`ContextWindowOverflowException`), after all other callbacks; then the model is called again. Both change
    `agent.messages`, in any way. What `get_state()` returns is kept with the conversation when it has changed, and
    given to `restore_from_session` in another process, or when the object turns to another conversation. Behaviour:
    Strands' `ConversationManager`.
    """

    removed_message_count: int = 0
    """How many messages of the user and the model were taken away from the conversation that was managed last."""

    _manages: str | None = None
    _unused: dict[str, Any] | None = None

    def __init__(self) -> None:
        self.removed_message_count = 0

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

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        """Register the two callbacks. One that overrides it calls this too."""
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

    def _managed(self, agent: Any, manage: Callable[[], None]) -> None:
        """Manage with the state that is kept with the conversation, and keep what becomes of it."""
        request, frame = invocation_of(agent), current.get()
        if request is None or frame is None:
            manage()
            return
        if self._unused is None:
            self._unused = self.get_state()
        kept = (request.values.get("plugins") or {}).get(KEPT_AS)
        if kept is None or kept.get("__name__") != self._unused.get("__name__"):
            kept = self._unused  # a new conversation, or one that another manager had
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


def _has_overflowed(invocation: Invocation) -> bool:
    return isinstance(invocation.exception, ContextWindowOverflowException)
