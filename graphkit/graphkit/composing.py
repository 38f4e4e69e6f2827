"""What LangChain builds of a graph, as its users call it on the graph itself. All of it needs langchain-core."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Literal, cast

from graphkit.types import RunnableConfig

if TYPE_CHECKING:
    from graphkit.compiled import CompiledGraph
    from graphkit.runnable import GraphRunnable

__all__ = ["Composable"]


class Composable:
    """A compiled graph among LangChain's runnables. Methods of `Runnable` that are not here are those of
    `as_runnable()`."""

    def astream_events(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        version: Literal["v1", "v2"] = "v2",
        **options: Any,
    ) -> AsyncIterator[Any]:
        """What happens in a run as LangChain tells it: dicts {"event", "name", "data", "metadata", "tags", "run_id",
        "parent_ids"}.

        The run and its nodes are chains ("on_chain_start", "on_chain_stream", "on_chain_end"; a graph without a name
        is called "LangGraph"), models and tools of LangChain tell of themselves ("on_chat_model_stream",
        "on_tool_start", ...): all as it happens, before it is committed. `include_names`, `include_types`,
        `include_tags` and their `exclude_` forms choose, the other options are those of `astream`. Needs
        langchain-core. Behaviour: LangChain's `Runnable.astream_events`.
        """
        return self.as_runnable().astream_events(input, config, version=version, **options)

    def as_runnable(self) -> GraphRunnable:
        """The graph for what LangChain builds of a `Runnable`: `prompt | graph.as_runnable()`, `.with_fallbacks(...)`,
        `.bind(...)`, `RunnablePassthrough.assign(answer=graph.as_runnable())`. Needs langchain-core."""
        try:
            from graphkit.runnable import GraphRunnable
        except ImportError as error:
            raise ImportError("a graph as a runnable needs LangChain: pip install langchain-core") from error
        return GraphRunnable(cast("CompiledGraph[Any, Any, Any, Any]", self))

    def as_tool(self, args_schema: Any = None, **described: Any) -> Any:
        """The graph as a tool of LangChain; `described` is what `Runnable.as_tool` takes: `name`, `description`,
        `arg_types`."""
        return self.as_runnable().as_tool(args_schema, **described)

    def with_retry(self, **options: Any) -> Any:
        """A runnable that runs the graph again if it fails; `options` are those of `Runnable.with_retry`. On a thread
        the same input goes on where it broke off; a node's own `retry_policy` tries less again."""
        return self.as_runnable().with_retry(**options)

    def __or__(self, other: Any) -> Any:
        """The graph, then another graph, or a runnable or function of LangChain's users: a `RunnableSequence`."""
        return self.as_runnable() | (other.as_runnable() if isinstance(other, Composable) else other)

    def __ror__(self, other: Any) -> Any:
        """A function or a dict of some, then the graph. A runnable on the left wants `as_runnable()`."""
        return other | self.as_runnable()
