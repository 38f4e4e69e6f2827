"""`Runtime`: what a node may know of its run beside the state."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Generic

from graphkit.control import RunControl
from graphkit.engine.about import whereabouts
from graphkit.engine.identity import below
from graphkit.frame import Frame, running
from graphkit.type_variables import ContextT
from graphkit.types import MessageWriter, RunnableConfig, StreamWriter

__all__ = ["ExecutionInfo", "RunControl", "Runtime", "get_runtime"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionInfo:
    """Where an attempt runs. `thread_id` is None without a checkpointer, `run_id` unless the config names one.

    `checkpoint_ns` is the namespace of what runs inside this task; `node_attempt` counts from 1;
    `node_first_attempt_time` is the unix time at which an attempt at this task first asked for its `Runtime`
    in this run.
    """

    checkpoint_id: str
    checkpoint_ns: str
    task_id: str
    thread_id: str | None = None
    run_id: str | None = None
    node_attempt: int = 1
    node_first_attempt_time: float | None = None


def _ignore(chunk: Any = None, metadata: Any = None) -> None:
    """What there is to write to outside of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime(Generic[ContextT]):
    """Given to a node that has a parameter `runtime`, and by `get_runtime()`.

    `context` is what the caller passed as `context=`, `store` the graph's store. `stream_writer(value)`
    emits a value in stream mode "custom", `message_writer(chunk)` a message or a part of one in stream mode
    "messages". `idempotency_key` is the same for every attempt at and every
    re-run of this task, also in another process, and different for every other task: give it to external
    services, since nothing outside the database is promised to happen exactly once.

    `previous` is what the last run of an entrypoint on this thread has saved for this one.

    `heartbeat()` tells an `idle_timeout`, of this node or of one that this graph runs inside of, that the work
    gets on; without one it does nothing. `control` is the run's own: a node may ask its run to drain with it,
    and see in `drain_requested` whether somebody has. Every field has a default, so that a function that takes
    a `Runtime` can be called without a run.
    """

    context: ContextT = None  # type: ignore[assignment]
    store: Any = None
    stream_writer: StreamWriter = _ignore
    message_writer: MessageWriter = _ignore
    previous: Any = None
    heartbeat: Callable[[], None] = _ignore
    control: RunControl | None = None
    execution_info: ExecutionInfo | None = None
    idempotency_key: str = ""
    config: RunnableConfig = field(default_factory=lambda: RunnableConfig())
    node: str = ""
    attempt: int = 1

    @property
    def drain_requested(self) -> bool:
        """Whether the run was asked to stop: a node that takes long may end early."""
        return self.control is not None and self.control.drain_requested

    @property
    def drain_reason(self) -> str | None:
        """Why the run was asked to stop; None if it was not."""
        return None if self.control is None else self.control.drain_reason

    def merge(self, other: Runtime[ContextT]) -> Runtime[ContextT]:
        """The same with every value of `other` that it was given, and that is no default."""
        given = {}
        for each in fields(Runtime):
            value, default = getattr(other, each.name), getattr(_BLANK, each.name)
            # Contexts and stores may compare as they like.
            if type(value) is not type(default) or value != default:
                given[each.name] = value
        return replace(self, **given)

    def override(self, **changes: Any) -> Runtime[ContextT]:
        """The same with other values for the fields named."""
        return replace(self, **changes)


_BLANK: Runtime[Any] = Runtime()


def get_runtime(context_schema: type[ContextT] | None = None) -> Runtime[ContextT]:
    """The running node's `Runtime`. `context_schema` only types the result. Outside a run: `RuntimeError`."""
    return runtime_of(running("get_runtime()"))


def runtime_of(frame: Frame) -> Runtime[Any]:
    live = frame.attempt.scope.live
    if live.control is not None:
        live.control.shared = True
    return Runtime(
        context=live.context,
        store=live.store,
        stream_writer=frame.emit,
        message_writer=frame.emit_message,
        previous=frame.previous,
        heartbeat=frame.heartbeat,
        control=live.control,
        execution_info=_execution_info(frame),
        idempotency_key=frame.id,
        config=config_of(frame),
        node=frame.attempt.node.name,
        attempt=frame.attempt.number,
    )


def _execution_info(frame: Frame) -> ExecutionInfo:
    attempt, scope = frame.attempt, frame.attempt.scope
    if attempt.first_seen is None:
        attempt.first_seen = time.time()
    run_id = scope.config.get("run_id")
    return ExecutionInfo(
        checkpoint_id=attempt.place.checkpoint_id,
        checkpoint_ns=below(scope.namespace, attempt.node.name, frame.id),
        task_id=frame.id,
        thread_id=scope.thread_id or None,
        run_id=None if run_id is None else str(run_id),
        node_attempt=attempt.number,
        node_first_attempt_time=attempt.first_seen,
    )


def config_of(frame: Frame) -> RunnableConfig:
    """The run's config as the running task sees it: with its node's metadata and where it runs, without what names the
    run, since whatever it is passed on to is another one."""
    attempt = frame.attempt
    scope, node, place = attempt.scope, attempt.node, attempt.place
    inside = below(scope.namespace, node.name, place.id)
    where = whereabouts(node.name, place.step + 1, place.path, attempt.joins, inside)
    config: RunnableConfig = {
        **scope.config,
        "metadata": {**scope.config.get("metadata", {}), **node.metadata, **where},
    }
    config.pop("run_name", None)
    config.pop("run_id", None)
    if frame.traced is not None:
        config["callbacks"] = frame.traced.children
    elif scope.heard:
        from graphkit.langchain import with_manager

        return with_manager(config, shows="messages" in scope.listen)
    return config


INJECTED: dict[str, Callable[[Frame], Any]] = {
    "config": config_of,
    "runtime": runtime_of,
    "writer": lambda frame: frame.emit,
    "previous": lambda frame: frame.previous,
    "store": lambda frame: frame.attempt.scope.live.store,
}
"""What a function gets for having a parameter of this name."""


def injected(names: Sequence[str], frame: Frame) -> dict[str, Any]:
    return {name: INJECTED[name](frame) for name in names}
