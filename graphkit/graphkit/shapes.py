"""The shapes in which users of the field know what happens in a run: plain dicts (source: LangGraph)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from graphkit.engine.about import About
from graphkit.engine.attempt import Write
from graphkit.engine.events import CheckpointSaved, TaskEnded, TaskStarted, TaskState
from graphkit.engine.program import ROOT
from graphkit.types import RunnableConfig


def update_of(writes: Sequence[Write]) -> Any:
    """A task's writes as the update a user would write: None, a dict, or several dicts; of a state that has no keys
    its value, or several."""
    if not writes:
        return None
    if writes[0][0] == ROOT:
        return writes[0][1] if len(writes) == 1 else [value for _, value in writes]
    update = dict(writes)
    return update if len(update) == len(writes) else [{key: value} for key, value in writes]


def returned(event: TaskEnded) -> Sequence[Write]:
    """What a task returned; whatever else it wrote is between it and its graph."""
    writes = event.writes or ()
    return writes[:1] if event.whole else writes


def result_of(writes: Sequence[Write]) -> dict[str, Any]:
    """A task's writes by key; several to one key as {"$writes": [...]}."""
    once = dict(writes)
    if len(once) == len(writes):
        return once
    result: dict[str, list[Any]] = {}
    for key, value in writes:
        result.setdefault(key, []).append(value)
    return {key: values[0] if len(values) == 1 else {"$writes": values} for key, values in result.items()}


def task_started(event: TaskStarted) -> dict[str, Any]:
    about = event.about
    shown = {"id": about.id, "name": about.name, "input": event.input, "triggers": about.triggers}
    metadata = about.metadata
    if metadata:
        shown["metadata"] = metadata
    return shown


def task_ended(event: TaskEnded) -> dict[str, Any]:
    about, questions = event.about, event.interrupts
    return {
        "id": about.id,
        "name": about.name,
        "error": event.error,
        "result": {} if event.writes is None else result_of(returned(event)),
        "interrupts": [asdict(question) for question in questions] if questions else [],
    }


def checkpoint(event: CheckpointSaved) -> dict[str, Any]:
    point, thread_id, namespace, tasks = event.checkpoint, event.thread_id, event.namespace, event.tasks
    parent, metadata = point.parent_id, point.described
    parents = metadata.setdefault("parents", {})
    return {
        "config": config_at(thread_id, point.id, namespace, parents),
        "parent_config": config_at(thread_id, parent, namespace, parents) if parent else None,
        "values": event.values,
        "metadata": metadata,
        "next": [task.name for task in tasks],
        "tasks": [_task_state(task, thread_id) for task in tasks],
    }


def _task_state(task: TaskState, thread_id: str) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": task.id, "name": task.name}
    if task.error is not None:
        shown["error"] = task.error
    else:
        if task.writes is not None:
            shown["result"] = result_of(task.writes)
        questions = task.interrupts
        shown["interrupts"] = tuple([asdict(question) for question in questions]) if questions else ()
    shown["state"] = config_at(thread_id, None, task.inside) if task.inside else None
    return shown


def framed(event: TaskStarted | TaskEnded | CheckpointSaved) -> dict[str, Any]:
    """An event of "tasks" or "checkpoints" with its step, time and kind."""
    payload: dict[str, Any]
    if isinstance(event, CheckpointSaved):
        point = event.checkpoint
        step, moment, kind, payload = point.step, point.created_at, "checkpoint", checkpoint(event)
    elif isinstance(event, TaskStarted):
        step, moment, kind, payload = event.about.step, time.time(), "task", task_started(event)
    else:
        step, moment, kind, payload = event.about.step, time.time(), "task_result", task_ended(event)
    return {"step": step, "timestamp": iso(moment), "type": kind, "payload": payload}


def origin(about: About) -> dict[str, Any]:
    """Where a message comes from."""
    metadata = {**about.metadata, **about.whereabouts}
    if about.thread_id is not None:
        metadata["thread_id"] = about.thread_id
    return metadata


def config_at(
    thread_id: str,
    checkpoint_id: str | None,
    namespace: str = "",
    parents: Mapping[str, str] | None = None,
) -> RunnableConfig:
    """The config that addresses a checkpoint. That of a nested graph has a `checkpoint_map` with its `parents`, the
    checkpoints of the graphs around it."""
    configurable: dict[str, Any] = {"thread_id": thread_id, "checkpoint_ns": namespace}
    if checkpoint_id is not None:
        configurable["checkpoint_id"] = checkpoint_id
        if namespace:
            configurable["checkpoint_map"] = {**(parents or {}), namespace: checkpoint_id}
    return {"configurable": configurable}


def iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat()
