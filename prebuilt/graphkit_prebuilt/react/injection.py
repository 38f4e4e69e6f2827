"""What a tool function may have of the graph around it: marks for its parameters, which no model fills.

The marks derive from LangChain's own where that is installed, so that its models are not told of these parameters
either. Importing it takes time, so this module is imported for the marks alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from graphkit.type_variables import ContextT, Defaulting, StateT

if TYPE_CHECKING:

    class ToolArgument: ...

    class DirectToolArgument: ...

else:
    try:
        from langchain_core.tools.base import InjectedToolArg as ToolArgument
    except ImportError:
        ToolArgument = type("ToolArgument", (), {})
    try:
        from langchain_core.tools.base import _DirectlyInjectedToolArg as DirectToolArgument
    except ImportError:
        DirectToolArgument = type("DirectToolArgument", (), {})

__all__ = ["InjectedState", "InjectedStore", "ToolRuntime"]


class InjectedState(ToolArgument):
    """`state: Annotated[State, InjectedState]` is the graph's state, `Annotated[T, InjectedState("key")]` one key of
    it."""

    injects: ClassVar[str] = "state"

    def __init__(self, field: str | None = None) -> None:
        self.field = field


class InjectedStore(ToolArgument):
    """`store: Annotated[BaseStore, InjectedStore()]` is the graph's store."""

    injects: ClassVar[str] = "store"


@dataclass
class ToolRuntime(Defaulting, DirectToolArgument, Generic[ContextT, StateT]):
    """`runtime: ToolRuntime` is all that a tool may know of its call and the run around it.

    `tools` are all tools of the node, as a model is told of them.
    """

    injects: ClassVar[str] = "runtime"

    state: StateT
    context: ContextT
    config: Mapping[str, Any]
    stream_writer: Any
    tool_call_id: str | None
    store: Any
    tools: Sequence[Any] = field(default_factory=list)
    execution_info: Any = None
