"""`Threads`: the conversations of an agent that are at hand."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from graphkit_prebuilt.thread import AgentThread

if TYPE_CHECKING:
    from graphkit_prebuilt.agent import Agent

RECENT: Final = 256
"""How many are kept that have nothing to keep."""


class Threads:
    """There is one object for a thread, which knows what was changed since the last request.

    It is kept while somebody has it, or while what it knows is not stored, or while few others are in use.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._known: WeakValueDictionary[str, AgentThread] = WeakValueDictionary()
        self._recent: OrderedDict[str, AgentThread] = OrderedDict()
        self._adding = Lock()

    def get(self, thread_id: str) -> AgentThread:
        """The one object for this thread."""
        return self._known.get(thread_id) or self._added(thread_id)

    def keep(self, thread: AgentThread) -> None:
        """It is about to know something that is not stored."""
        self._recent[thread.id] = thread

    def _added(self, thread_id: str) -> AgentThread:
        with self._adding:
            thread = self._known.get(thread_id)
            if thread is None:
                thread = self._known[thread_id] = AgentThread(self._agent, thread_id)
                self._recent[thread_id] = thread
                if len(self._recent) > RECENT:
                    first_id, first = self._recent.popitem(last=False)
                    if first.is_changed:
                        self._recent[first_id] = first
        return thread
