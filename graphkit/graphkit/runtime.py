"""`Runtime`: what a node may know of its run beside the state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from graphkit.frame import Frame, running
from graphkit.types import RunnableConfig, StreamWriter

__all__ = ["Runtime", "get_runtime"]

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    ContextT = TypeVar("ContextT", default=Any)
else:
    from typing import TypeVar

    ContextT = TypeVar("ContextT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime(Generic[ContextT]):
    """Given to a node that has a parameter `runtime`, and by `get_runtime()`.

    `context` is what the caller passed as `context=`, `store` the graph's store. `stream_writer(value)`
    emits a value in stream mode "custom". `idempotency_key` is the same for every attempt at and every
    re-run of this task, also in another process, and different for every other task: give it to external
    services, since nothing outside the database is promised to happen exactly once.
    """

    context: ContextT
    store: Any
    stream_writer: StreamWriter
    idempotency_key: str
    config: RunnableConfig
    node: str
    attempt: int


def get_runtime(context_schema: type[ContextT] | None = None) -> Runtime[ContextT]:
    """The running node's `Runtime`. `context_schema` only types the result. Outside a run: `RuntimeError`."""
    return runtime_of(running("get_runtime()"))


def runtime_of(frame: Frame) -> Runtime[Any]:
    live = frame.attempt.scope.live
    return Runtime(
        context=live.context,
        store=live.store,
        stream_writer=frame.emit,
        idempotency_key=frame.id,
        config=config_of(frame),
        node=frame.attempt.node.name,
        attempt=frame.attempt.number,
    )


def config_of(frame: Frame) -> RunnableConfig:
    """The run's config as the running task sees it: with its node's metadata."""
    config, metadata = frame.attempt.scope.config, frame.attempt.node.metadata
    if not metadata:
        return config
    return {**config, "metadata": {**config.get("metadata", {}), **metadata}}


INJECTED: dict[str, Callable[[Frame], Any]] = {
    "config": config_of,
    "runtime": runtime_of,
    "writer": lambda frame: frame.emit,
    "store": lambda frame: frame.attempt.scope.live.store,
}
"""What a function gets for having a parameter of this name."""


def injected(names: Sequence[str], frame: Frame) -> dict[str, Any]:
    return {name: INJECTED[name](frame) for name in names}
