"""One node of a compiled graph, called alone, as a test does it (source: LangGraph's how-to on tests)."""

from __future__ import annotations

import inspect
from typing import Any

from graphkit.drivers.loops import run_in_standing_loop
from graphkit.drivers.pools import in_thread
from graphkit.engine.program import NodeSpec
from graphkit.frame import depth_below
from graphkit.runtime import Runtime
from graphkit.types import RunnableConfig

__all__ = ["CompiledNode"]


class CompiledNode:
    """Found in `CompiledGraph.nodes`. A call of it is a call of the function: it is no part of a run, stores nothing,
    and cannot ask. What is injected is there: the config given, the graph's store, a `Runtime` of nobody's run."""

    def __init__(self, spec: NodeSpec, store: Any = None) -> None:
        self.name = spec.name
        self._spec = spec
        self._store = store

    def __repr__(self) -> str:
        return f"CompiledNode({self.name!r})"

    def invoke(self, input: Any, config: RunnableConfig | None = None) -> Any:
        """What the node returns for this state: a dict, or what its schema makes of one."""
        given, things, callee = self._given(input), self._things(config), self._spec.callee
        function = callee.call or callee.acall
        assert function is not None
        returned = function(given, **things)
        return run_in_standing_loop(returned, depth_below()) if inspect.isawaitable(returned) else returned

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None) -> Any:
        """`invoke` on the running event loop; a blocking function runs in a thread."""
        given, things, callee = self._given(input), self._things(config), self._spec.callee
        if callee.acall is not None:
            return await callee.acall(given, **things)
        assert callee.call is not None
        returned = await in_thread(depth_below(), callee.call, given, **things)
        return await returned if inspect.isawaitable(returned) else returned

    def _given(self, state: Any) -> Any:
        return state if self._spec.shape.build is None else self._spec.shape.instance(state)

    def _things(self, config: RunnableConfig | None) -> dict[str, Any]:
        runtime: Runtime[Any] = Runtime(store=self._store, config=config or {})
        things = {
            "config": runtime.config,
            "runtime": runtime,
            "writer": runtime.stream_writer,
            "previous": None,
            "store": self._store,
        }
        return {name: things[name] for name in self._spec.callee.inject}
