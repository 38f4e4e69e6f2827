"""The chunks of `stream(version="v2")` as types: dicts that say what they are (source: LangGraph)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, NotRequired, TypedDict, TypeVar

if TYPE_CHECKING:
    from graphkit.types import Interrupt, RunnableConfig

__all__ = [
    "CheckpointPayload",
    "CheckpointStreamPart",
    "CheckpointTask",
    "CustomStreamPart",
    "DebugPayload",
    "DebugStreamPart",
    "GraphOutput",
    "MessagesStreamPart",
    "StreamPart",
    "TaskPayload",
    "TaskResultPayload",
    "TasksStreamPart",
    "UpdatesStreamPart",
    "ValuesStreamPart",
]

OutputT = TypeVar("OutputT")


class TaskPayload(TypedDict):
    """A task starts. `metadata` is there if its run or its node has any."""

    id: str
    name: str
    input: Any
    triggers: tuple[str, ...]
    metadata: NotRequired[dict[str, Any]]


class TaskResultPayload(TypedDict):
    """A task has ended. `result` is what it wrote, by key; several writes to one key are {"$writes": [...]}."""

    id: str
    name: str
    error: str | None
    interrupts: list[dict[str, Any]]
    result: dict[str, Any]


class CheckpointTask(TypedDict):
    """A task that follows a checkpoint: `error` if it has failed, `result` if it has finished."""

    id: str
    name: str
    error: NotRequired[str]
    result: NotRequired[Any]
    interrupts: NotRequired[tuple[dict[str, Any], ...]]
    state: Any


class CheckpointPayload(TypedDict):
    """A checkpoint: the values, the names of the nodes that are `next`, and their tasks."""

    config: RunnableConfig
    parent_config: RunnableConfig | None
    values: Any
    metadata: dict[str, Any]
    next: list[str]
    tasks: list[CheckpointTask]


class DebugPayload(TypedDict):
    """`payload` is what `type` says."""

    step: int
    timestamp: str
    type: Literal["checkpoint", "task", "task_result"]
    payload: CheckpointPayload | TaskPayload | TaskResultPayload


class ValuesStreamPart(TypedDict, Generic[OutputT]):
    """`data` is an instance of the output schema if that is a model or dataclass, else a dict."""

    type: Literal["values"]
    ns: tuple[str, ...]
    data: OutputT
    interrupts: tuple[Interrupt, ...]


class UpdatesStreamPart(TypedDict):
    """`data` is {node: what it returned} of a finished task."""

    type: Literal["updates"]
    ns: tuple[str, ...]
    data: dict[str, Any]


class MessagesStreamPart(TypedDict):
    """`data` is a message or a part of one, and its metadata."""

    type: Literal["messages"]
    ns: tuple[str, ...]
    data: tuple[Any, dict[str, Any]]


class CustomStreamPart(TypedDict):
    """`data` is what a node wrote to its stream writer."""

    type: Literal["custom"]
    ns: tuple[str, ...]
    data: Any


class CheckpointStreamPart(TypedDict):
    """`data` is a checkpoint that was made."""

    type: Literal["checkpoints"]
    ns: tuple[str, ...]
    data: CheckpointPayload


class TasksStreamPart(TypedDict):
    """`data` is the start of a task or its end."""

    type: Literal["tasks"]
    ns: tuple[str, ...]
    data: TaskPayload | TaskResultPayload


class DebugStreamPart(TypedDict):
    """`data` is a checkpoint or a task's start or end, with step and time."""

    type: Literal["debug"]
    ns: tuple[str, ...]
    data: DebugPayload


StreamPart = (
    ValuesStreamPart[Any]
    | UpdatesStreamPart
    | MessagesStreamPart
    | CustomStreamPart
    | CheckpointStreamPart
    | TasksStreamPart
    | DebugStreamPart
)


@dataclass(frozen=True, slots=True)
class GraphOutput(Generic[OutputT]):
    """What `invoke(version="v2")` returns: the output values and the open questions."""

    value: OutputT
    interrupts: tuple[Interrupt, ...] = ()
