"""Stream modes: the engine's events in the shapes that users of the field know (source: LangGraph)."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Protocol, get_args

from graphkit.constants import INTERRUPT, START
from graphkit.engine.attempt import Write
from graphkit.engine.events import CheckpointSaved, Custom, Halted, StateChanged, TaskEnded, TaskStarted
from graphkit.types import RunnableConfig, StreamMode


class Abandonable(Protocol):
    def abandon(self) -> None: ...


class AsyncChunks(AsyncIterator[Any]):
    """An async stream that ends its run when it is closed, and also when it is simply dropped.

    A dropped async generator is closed some time later by the loop; until then its run would own the thread.
    """

    def __init__(self, inner: AsyncGenerator[Any, None], opened: Sequence[Abandonable]) -> None:
        self._inner = inner
        self._opened = opened

    async def __anext__(self) -> Any:
        return await anext(self._inner)

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __del__(self) -> None:
        for driver in self._opened:
            driver.abandon()


def check_modes(modes: StreamMode | Sequence[StreamMode]) -> tuple[StreamMode, ...]:
    """The modes as a tuple. Raises `ValueError` naming an unknown one."""
    wanted: tuple[Any, ...] = (modes,) if isinstance(modes, str) else tuple(modes)
    for mode in wanted:
        if mode not in get_args(StreamMode):
            raise ValueError(f"stream_mode {mode!r} is unknown; use one of {', '.join(get_args(StreamMode))}")
    if not wanted:
        raise ValueError(f"stream_mode is empty; use one of {', '.join(get_args(StreamMode))}")
    return wanted


def chunks(event: Any, modes: Sequence[StreamMode]) -> Iterator[tuple[StreamMode, Any]]:
    """What an event means in each of the modes; most mean something in one or two."""
    kind = type(event)
    for mode in modes:
        if mode == "values" and kind is StateChanged:
            yield mode, event.values
        elif kind is Halted and (mode == "updates" or (mode == "values" and event.interrupts)):
            yield mode, _halted(event, mode)
        elif mode == "updates" and kind is TaskEnded and event.writes is not None and event.name != START:
            yield mode, {event.name: update_of(event.writes)}
        elif mode == "tasks" and kind in (TaskStarted, TaskEnded) and event.name != START:
            yield mode, _task(event)
        elif mode == "checkpoints" and kind is CheckpointSaved:
            yield mode, _checkpoint(event)
        elif mode == "custom" and kind is Custom:
            yield mode, event.value
        elif mode == "debug" and kind in (TaskStarted, TaskEnded, CheckpointSaved):
            yield from ((mode, framed) for framed in _framed(event))


def _halted(event: Halted, mode: StreamMode) -> dict[str, Any]:
    shown = event.values if mode == "values" and isinstance(event.values, dict) else {}
    return {**shown, INTERRUPT: event.interrupts}


def update_of(writes: Sequence[Write]) -> Any:
    """A task's writes as the update a user would write: None, a dict, or several dicts."""
    if not writes:
        return None
    update = dict(writes)
    return update if len(update) == len(writes) else [{key: value} for key, value in writes]


def _task(event: TaskStarted | TaskEnded) -> dict[str, Any]:
    if isinstance(event, TaskStarted):
        return {"id": event.id, "name": event.name, "input": event.input, "triggers": ()}
    return {
        "id": event.id,
        "name": event.name,
        "error": event.error,
        "result": {} if event.writes is None else update_of(event.writes),
        "interrupts": [asdict(question) for question in event.interrupts],
    }


def _checkpoint(event: CheckpointSaved) -> dict[str, Any]:
    point = event.checkpoint
    parent = point.parent_id
    return {
        "config": config_at(event.thread_id, point.id, event.namespace),
        "parent_config": config_at(event.thread_id, parent, event.namespace) if parent else None,
        "values": event.values,
        "metadata": point.described,
        "next": list(event.next),
        "tasks": [{"id": task, "name": name, "interrupts": (), "state": None} for task, name in event.tasks],
    }


def _framed(event: Any) -> Iterator[dict[str, Any]]:
    """An event of "tasks" or "checkpoints" with its step, time and kind."""
    if isinstance(event, CheckpointSaved):
        step, moment, kind = event.checkpoint.step, event.checkpoint.created_at, "checkpoint"
        payload = _checkpoint(event)
    elif event.name == START:
        return
    else:
        step, moment, payload = event.step, time.time(), _task(event)
        kind = "task" if isinstance(event, TaskStarted) else "task_result"
    yield {"step": step, "timestamp": iso(moment), "type": kind, "payload": payload}


def config_at(thread_id: str, checkpoint_id: str | None, namespace: str = "") -> RunnableConfig:
    """The config that addresses a checkpoint."""
    configurable: dict[str, Any] = {"thread_id": thread_id, "checkpoint_ns": namespace}
    if checkpoint_id is not None:
        configurable["checkpoint_id"] = checkpoint_id
    return {"configurable": configurable}


def iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat()


def describe(event: Any) -> str | None:
    """An event as a line to read, for `compile(debug=True)`."""
    if isinstance(event, TaskStarted):
        return f"step {event.step}: {event.name} starts with {event.input!r:.200}"
    if isinstance(event, TaskEnded):
        if event.error is not None:
            return f"step {event.step}: {event.name} failed with {event.error}"
        if event.writes is None:
            return f"step {event.step}: {event.name} asks {[q.value for q in event.interrupts]!r:.200}"
        return f"step {event.step}: {event.name} wrote {update_of(event.writes)!r:.200}"
    return None
