"""Stored checkpoints in LangGraph's shapes: those of the engine, and those that came through `put`.

What came through `put` is shown as it was given: its values are channels like any others, the rest of it is
in the checkpoint's `work`, which `putting` has written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, Final, NamedTuple

from graphkit_checkpoint import records
from graphkit_checkpoint.layout import CheckpointBody, CheckpointRow
from graphkit_checkpoint.reading import Reader
from graphkit_checkpoint.records import Pending, Saved, ThreadState, Version
from graphkit_checkpoint.shapes import (
    ERROR,
    INTERRUPT,
    LATEST_VERSION,
    RESUME,
    WRITES_IDX_MAP,
    Checkpoint,
    CheckpointTuple,
    PendingWrite,
    Question,
    config_of,
)

PUT: Final = "put"
"""The key in `work` of what came through `put`: "fields" of LangGraph's checkpoint, values that stand "aside", and
"parent" if the row names another."""
WRITE: Final = "write"
"""The kind of records that came through `put_writes`: [channel, value, task path], by place in the task's list."""
ROOT: Final = "__root__"
"""The one channel of a graph whose state is a single value."""
OWN_CHANNELS: Final = ("branch:", "join:", "__pregel_")
"""How the names of LangGraph's own channels begin, those in double underscores apart."""
LONGEST_CHANNEL: Final = 255


def shown(reader: Reader, row: CheckpointRow, thread: ThreadState) -> CheckpointTuple:
    """A stored checkpoint in LangGraph's shape. Raises `CheckpointCorruptError`."""
    saved, place = reader.saved(row, thread), (reader.thread_id, reader.namespace)
    point, put = saved.checkpoint, put_with(saved.checkpoint)
    fields = _of_engine(saved, reader.body(row)) if put is None else put["fields"]
    checkpoint: Any = {**fields, "channel_values": values_of(saved)}
    metadata: Any = metadata_of(point)
    parent = parent_of(point)
    return CheckpointTuple(
        config_of(*place, row.id),
        checkpoint,
        metadata,
        config_of(*place, parent) if parent else None,
        writes_of(saved.pending),
    )


def metadata_of(point: records.Checkpoint) -> dict[str, Any]:
    """As it was put, or what the engine and its user say of the checkpoint."""
    return {"parents": {}, **point.described} if put_with(point) is None else dict(point.metadata)


def parent_of(point: records.Checkpoint) -> str | None:
    parent: str | None = (put_with(point) or {}).get("parent", point.parent_id)
    return parent


def put_with(point: records.Checkpoint) -> Mapping[str, Any] | None:
    """What was put with the values of a checkpoint; None for one of the engine."""
    put: Mapping[str, Any] | None = (point.work or {}).get(PUT)
    # A fork copies `work`: what a put checkpoint says of itself is not true of its copies.
    return put if put is not None and put["fields"]["id"] == point.id else None


def versions_of(saved: Saved) -> Mapping[str, Any]:
    """The versions of the channels that a checkpoint shows."""
    put = put_with(saved.checkpoint)
    if put is None:
        return {name: _text(found) for name, found in saved.tip.versions.items() if not is_internal(name)}
    given: Mapping[str, Any] | None = put["fields"].get("channel_versions")
    return dict.fromkeys(_all_values(saved, put)) if given is None else given


def values_of(saved: Saved) -> dict[str, Any]:
    """The values of the channels that a checkpoint shows."""
    values = _all_values(saved, put_with(saved.checkpoint) or {})
    return {name: values[name] for name in versions_of(saved) if name in values}


def _all_values(saved: Saved, put: Mapping[str, Any]) -> dict[str, Any]:
    values = {name: value for name, value in saved.values.items() if not is_internal(name)}
    return {**values, **put.get("aside", {})}


def _of_engine(saved: Saved, body: CheckpointBody) -> Checkpoint:
    point = saved.checkpoint
    return Checkpoint(
        v=LATEST_VERSION,
        id=point.id,
        ts=datetime.fromtimestamp(point.created_at, UTC).isoformat(),
        channel_values={},
        channel_versions=dict(versions_of(saved)),
        versions_seen={},
        updated_channels=sorted(name for name in {*body.changed, *body.cleared} if not is_internal(name)),
    )


def _text(version: Version) -> str:
    """Grows with every change: logs are named by checkpoints, and one log only gets longer."""
    return f"{version.log}.{version.length + 1:016}"


def is_internal(channel: str) -> bool:
    return channel.startswith("__") and channel.endswith("__") and channel != ROOT


def stands_aside(channel: object) -> bool:
    """Whether this channel of a checkpoint that is put can be no state key of a graph: LangGraph's own, and names
    that not every database can hold."""
    if not isinstance(channel, str) or not channel.isprintable() or len(channel) > LONGEST_CHANNEL:
        return True
    return is_internal(channel) or channel.startswith(OWN_CHANNELS)


# Pending records


def writes_of(pending: Iterable[Pending]) -> list[PendingWrite]:
    """Pending records as writes, in LangGraph's order: by task path, task, and place in the task's list."""
    conversations: dict[str, _Conversation] = {}
    found: list[tuple[tuple[str, str, int], PendingWrite]] = []
    for record in pending:
        task, value = record.task_id, record.value
        if record.kind == WRITE:
            channel, written, path = value
            found.append(((path, task, int(record.key)), (task, channel, written)))
        elif record.kind in (records.OUTPUT, records.AMEND):
            for channel, written in value["writes"]:
                found.append((("", task, len(found)), (task, channel, written)))
        elif record.kind == records.ERROR:
            found.append((("", task, WRITES_IDX_MAP[ERROR]), (task, ERROR, value["text"])))
        elif record.kind in (records.QUESTION, records.ANSWER):
            conversations.setdefault(task, _Conversation([], {})).add(record)
    for task, conversation in conversations.items():
        for channel, items in conversation.writes():
            found.append((("", task, WRITES_IDX_MAP[channel]), (task, channel, items)))
    return [write for _, write in sorted(found, key=itemgetter(0))]


class _Conversation(NamedTuple):
    """What one task asked, and the answers by question id."""

    questions: list[tuple[int, Question]]
    answers: dict[str, Any]

    def add(self, record: Pending) -> None:
        if record.kind == records.ANSWER:
            self.answers[record.key] = record.value["value"]
        else:
            question = Question(**{name: record.value[name] for name in Question.__slots__})
            self.questions.append((records.order_of(record.value), question))

    def writes(self) -> Iterator[tuple[str, list[Any]]]:
        """`__interrupt__` with all questions, `__resume__` with the answers in the order of the questions."""
        questions = [question for _, question in sorted(self.questions, key=itemgetter(0))]
        if questions:
            yield INTERRUPT, questions
        if self.answers:
            places = {question.id: place for place, question in enumerate(questions)}
            answered = sorted(self.answers, key=lambda question: places.get(question, len(places)))
            yield RESUME, [self.answers[question] for question in answered]
