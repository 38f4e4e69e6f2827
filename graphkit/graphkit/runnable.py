"""A compiled graph as a runnable of LangChain. Loaded only where LangChain is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import Runnable

from graphkit.pydantic_types import for_pydantic
from graphkit.tracing import name_of

if TYPE_CHECKING:
    from graphkit.compiled import CompiledGraph

__all__ = ["GraphRunnable"]


class GraphRunnable(Runnable[Any, Any]):
    """A graph with everything that LangChain builds of a runnable: `|`, `with_retry`, `as_tool`, `astream_events`, …

    Calls of it are calls of the graph; what is bound or given beside input and config are options of a run.
    """

    def __init__(self, graph: CompiledGraph[Any, Any, Any, Any]) -> None:
        self.graph = graph

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        return super().get_name(suffix, name=name or name_of(self.graph.program))

    @property
    def InputType(self) -> Any:
        return for_pydantic(getattr(self.graph.builder, "input_schema", Any))

    @property
    def OutputType(self) -> Any:
        return for_pydantic(getattr(self.graph.builder, "output_schema", Any))

    def invoke(self, input: Any, config: Any = None, **options: Any) -> Any:
        return self.graph.invoke(input, config, **options)

    async def ainvoke(self, input: Any, config: Any = None, **options: Any) -> Any:
        return await self.graph.ainvoke(input, config, **options)

    def stream(self, input: Any, config: Any = None, **options: Any) -> Iterator[Any]:
        return self.graph.stream(input, config, **options)

    async def astream(self, input: Any, config: Any = None, **options: Any) -> AsyncIterator[Any]:
        async with aclosing(self.graph.astream(input, config, **options)) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                yield chunk
