"""Which parameters of a tool function are the graph's to fill, and with what."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Final, get_args, get_origin

from graphkit.annotations import choices
from graphkit.frame import Frame, current
from graphkit.runtime import Runtime, runtime_of
from graphkit.types import RunnableConfig
from graphkit_prebuilt.react.reading import item
from graphkit_prebuilt.tools.context import ToolContext
from graphkit_prebuilt.tools.schema import NotThere

FIELD: Final = "state."
HIDDEN: Final = "hidden"
"""The key of parameters that are neither a model's nor a graph's to fill: LangChain's `InjectedToolArg`."""


def key_of(name: str, annotation: Any) -> str | None:
    """What a parameter of this annotation is filled with (see `CallContext.get`); None if the model fills it."""
    if get_origin(annotation) is Annotated:
        kind, *marks = get_args(annotation)
        for mark in marks:
            key = _mark(mark)
            if key is not None:
                return key
        annotation = kind
    for choice in choices(annotation):
        if get_origin(choice) is Annotated:
            return key_of(name, choice)
        kind = get_origin(choice) or choice
        if isinstance(kind, type) and issubclass(kind, ToolContext):
            return "context"
        key = _mark(kind) if isinstance(kind, type) else None
        if key is not None:
            return key
        if kind is Runtime:
            return "graph_runtime"
        if (
            kind is RunnableConfig or getattr(kind, "__name__", "") == "RunnableConfig"
        ):  # LangChain has one too
            return "config"
    return None


def _mark(mark: Any) -> str | None:
    named = mark.__name__ if isinstance(mark, type) else type(mark).__name__
    if named == "InjectedToolCallId":  # LangChain's
        return "tool_call_id"
    key = getattr(mark, "injects", None)
    if key == "state" and not isinstance(mark, type) and mark.field is not None:
        return f"{FIELD}{mark.field}"
    if isinstance(key, str):
        return key
    kinds = mark.__mro__ if isinstance(mark, type) else type(mark).__mro__
    return HIDDEN if any(kind.__name__ == "InjectedToolArg" for kind in kinds) else None


@dataclass(eq=False)
class CallContext(ToolContext):
    """A call of a tool in a graph: what `ToolContext` tells, and what there is to fill parameters with."""

    state: Any = None
    frame: Frame | None = None
    tools: Collection[Any] = ()
    given_config: Mapping[str, Any] | None = None

    def get(self, key: str) -> Any:
        """What belongs into a parameter of this key."""
        if key.startswith(FIELD):
            return self._field(key.removeprefix(FIELD))
        return _FILLS[key](self) if key in _FILLS else None

    @cached_property
    def graph_runtime(self) -> Runtime[Any]:
        return Runtime() if self.frame is None else runtime_of(self.frame)

    @property
    def config(self) -> Mapping[str, Any]:
        return self.graph_runtime.config if self.given_config is None else self.given_config

    @property
    def runtime(self) -> Any:
        from graphkit_prebuilt.react.injection import ToolRuntime

        runtime = self.graph_runtime
        return ToolRuntime(
            state=self.state,
            context=runtime.context,
            config=self.config,
            stream_writer=runtime.stream_writer,
            tool_call_id=self.tool_use.get("toolUseId"),
            store=runtime.store,
            tools=list(self.tools),
            execution_info=runtime.execution_info,
        )

    def _store(self) -> Any:
        store = self.graph_runtime.store
        if store is None:
            raise NotThere(
                f"tool {self.tool_use['name']!r} wants the graph's store, and the graph has none: give it a store="
            )
        return store

    def _hidden(self) -> Any:
        raise NotThere(
            f"tool {self.tool_use['name']!r} has a parameter marked InjectedToolArg, which nobody fills here: give it "
            f"a default"
        )

    def _field(self, name: str) -> Any:
        found = (
            self.state.get(name, self) if isinstance(self.state, Mapping) else getattr(self.state, name, self)
        )
        if found is self:
            raise NotThere(f"tool {self.tool_use['name']!r} wants {name!r} of the state, which is not there")
        return found


_FILLS: Final[Mapping[str, Callable[[CallContext], Any]]] = {
    "agent": lambda context: context.agent,
    "config": lambda context: context.config,
    "context": lambda context: context,
    "graph_runtime": lambda context: context.graph_runtime,
    HIDDEN: CallContext._hidden,
    "runtime": lambda context: context.runtime,
    "state": lambda context: context.state,
    "store": CallContext._store,
    "tool_call_id": lambda context: item(context.tool_use, "toolUseId"),
}


def in_graph(context: ToolContext) -> CallContext:
    """The context of a call that an `Agent` makes too."""
    if isinstance(context, CallContext):
        return context
    return CallContext(
        context.tool_use, context.agent, context.invocation_state, context.cancel_signal, frame=current.get()
    )
