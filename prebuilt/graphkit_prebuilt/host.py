"""`Host`: what an agent and an orchestrator have in common, as those that plugins are given to."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from graphkit.types import Interrupt
from graphkit_checkpoint.admission import check_thread_id
from graphkit_prebuilt.halting import Halt
from graphkit_prebuilt.hooks.order import HookOrder
from graphkit_prebuilt.hooks.registry import HookRegistry
from graphkit_prebuilt.host_thread import HostThread
from graphkit_prebuilt.loop.invocation import invocation_of
from graphkit_prebuilt.threads import Threads

__all__ = ["Host"]

T = TypeVar("T", bound=HostThread)


class Host(Generic[T]):
    """Callbacks, and any number of `threads`, one of them its own. What is said of the thread that it is on is said of
    the one of the request that runs here, else of its own."""

    hooks: HookRegistry
    threads: Threads[T]
    _thread_id: str

    def add_hook(self, callback: Any, event_type: Any = None, *, order: float = HookOrder.DEFAULT) -> None:
        """Call `callback` with each event of this type, of these types (a list), or, without, of the types that its
        first parameter is annotated with. Raises what `HookRegistry.add_callback` raises."""
        self.hooks.add_callback(event_type, callback, order=order)

    def thread(self, thread_id: str | None = None) -> T:
        """One of its threads; without an id, its own. Raises `InvalidThreadIdError`."""
        return self.threads.get(self._thread_id if thread_id is None else check_thread_id(thread_id))

    @property
    def interrupts(self) -> list[Interrupt]:
        """The open questions of the thread."""
        return self._here.interrupts

    @property
    def halts(self) -> list[Halt]:
        """What has halted the thread, of an orchestrator also in a member; empty if nothing has."""
        return self._here.halts

    def get_plugin_state(self, name: str, *, per_invocation: bool = False) -> Any:
        """What a plugin keeps with the thread. A copy.

        Without a declared type None if nothing is kept; with one, an instance of the type, if nothing is kept one that
        is made without arguments (None if it cannot be). `per_invocation` is the part that ends with the turn: with its
        last message, or when another prompt leaves it; it outlasts questions, halts and failures.

        Raises `UnknownPluginError` for a name of which neither a plugin nor a state is there, `ValueError` for a
        state that is not of the plugin's type.
        """
        return self._here.get_plugin_state(name, per_invocation=per_invocation)

    def set_plugin_state(self, name: str, state: Any, *, per_invocation: bool = False) -> None:
        """Keep the state of a plugin: see `get_plugin_state`. None for nothing.

        In a hook or a tool it is kept whatever becomes of it; between requests it is stored by the next one. Only what
        differs from the state before is written. Raises `UnknownPluginError`, `ValueError` for what is not of the
        type that the plugin declares, and `UnserializableStateError` for what cannot be stored.
        """
        self._here.set_plugin_state(name, state, per_invocation=per_invocation)

    @property
    def _here(self) -> T:
        """The thread of the request that runs here, else its own."""
        running = invocation_of(self)
        if running is None:
            return self.thread()
        return running.thread or self.thread(running.thread_id)
