"""`ToolResultCache`: a call that was made before is not made again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from graphkit.errors import GraphInterrupt, UnserializableStateError
from graphkit_checkpoint.cache.base import BaseCache
from graphkit_checkpoint.cache.memory import InMemoryCache
from graphkit_checkpoint.serde import fingerprint
from graphkit_prebuilt.hooks.catalogue import ToolResultEvent
from graphkit_prebuilt.middleware.contexts import ExecuteToolContext
from graphkit_prebuilt.middleware.marks import middleware
from graphkit_prebuilt.middleware.stages import ExecuteToolStage
from graphkit_prebuilt.plugins import Plugin

__all__ = ["ToolResultCache"]


@dataclass
class Asked:
    """The calls of this turn that have asked a person."""

    calls: list[str] = field(default_factory=list)


class ToolResultCache(Plugin):
    """Keeps the results of tools: a call of the same tool with an equal input gets the one that is there.

    `tools` are the names of those that it serves, None for all: it is for tools that do nothing but look. `cache` keeps
    the results, in this process unless it is another one (`graphkit.cache.sqlite.SqliteCache` outlasts it), each for
    `ttl` seconds, for ever without; conversations and agents that share it share results. Not kept are errors, and what
    a person's answer is in.
    """

    invocation_state_type = Asked

    def __init__(
        self,
        tools: Iterable[str] | None = None,
        *,
        ttl: float | None = None,
        cache: BaseCache[Any] | None = None,
        name: str = "tool_result_cache",
    ) -> None:
        self.name = name
        if isinstance(tools, str):
            raise TypeError(f"ToolResultCache takes a list of the names of tools, not the text {tools!r}")
        self.tool_names = None if tools is None else frozenset(tools)
        self.ttl = ttl
        self.cache: BaseCache[Any] = InMemoryCache() if cache is None else cache

    @middleware(ExecuteToolStage)
    def _serve(self, context: ExecuteToolContext, next: Any) -> Any:
        key = self._key(context)
        if key is None:
            return (yield from next(context))
        found = yield self.cache.aget([key])
        if key in found:
            return ToolResultEvent(found[key])
        try:
            event = yield from next(context)
        except (GraphInterrupt, BaseExceptionGroup):
            self._has_asked(context)
            raise
        if event.result["status"] == "success" and not self._asked(context):
            yield self.cache.aset({key: (dict(event.result), self.ttl)})
        return event

    def _key(self, context: ExecuteToolContext) -> tuple[tuple[str, ...], str] | None:
        """None for a call that is not served."""
        name = context.tool_use["name"]
        if context.tool is None or (self.tool_names is not None and name not in self.tool_names):
            return None
        try:
            return (self.name, name), fingerprint(context.tool_use["input"])
        except UnserializableStateError:
            return None

    def _asked(self, context: ExecuteToolContext) -> bool:
        asked: Asked = context.agent.get_plugin_state(self.name, per_invocation=True)
        return context.tool_use["toolUseId"] in asked.calls

    def _has_asked(self, context: ExecuteToolContext) -> None:
        asked: Asked = context.agent.get_plugin_state(self.name, per_invocation=True)
        if context.tool_use["toolUseId"] not in asked.calls:
            asked.calls.append(context.tool_use["toolUseId"])
            context.agent.set_plugin_state(self.name, asked, per_invocation=True)
