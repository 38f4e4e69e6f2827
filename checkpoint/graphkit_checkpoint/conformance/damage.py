"""Damage on purpose: a stored row is replaced by another, past everything that would notice at writing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Protocol

from graphkit_checkpoint.base import BaseCheckpointSaver
from graphkit_checkpoint.layout import CheckpointRow, PendingRow, ValueRow
from graphkit_checkpoint.tables import ReadTables, WriteTables

Row = CheckpointRow | ValueRow | PendingRow
Kind = Literal["checkpoint", "value", "pending"]
KINDS: Final[Mapping[str, Kind]] = {"checkpoint": "checkpoint", "value": "value", "record": "pending"}
Change = Callable[[Any], Row | None]
"""Given the row as stored, returns what shall stand there instead: another row, or None for none."""


class Damage(Protocol):
    """Replaces the newest row of this kind in the root namespace of a thread."""

    def __call__(self, saver: BaseCheckpointSaver, thread_id: str, kind: Kind, change: Change) -> None: ...


def damage_tables(saver: BaseCheckpointSaver, thread_id: str, kind: Kind, change: Change) -> None:
    """`Damage` through the saver's own tables, which write what they are given."""
    with saver.writing() as tables:
        row = newest(tables, thread_id, kind)
        replacement = change(row)
        _remove(tables, thread_id, row)
        if replacement is not None:
            put(tables, thread_id, replacement)


def newest(tables: ReadTables, thread_id: str, kind: Kind) -> Row:
    """The last row of this kind."""
    if kind == "checkpoint":
        return tables.recent(thread_id, "", None, 1)[0]
    if kind == "value":
        channel, log, *_ = max(tables.value_keys(thread_id, ""), key=lambda key: (key[1], key[2]))
        return list(tables.values(thread_id, "", channel, log, None))[-1]
    beside = (tables.pending(thread_id, "", row.id) for row in tables.recent(thread_id, "", None, None))
    return next(filter(None, beside))[-1]


def put(tables: WriteTables, thread_id: str, row: Row) -> None:
    """Write a row as it is."""
    if isinstance(row, CheckpointRow):
        tables.put_checkpoints(thread_id, "", [row])
    elif isinstance(row, ValueRow):
        tables.put_values(thread_id, "", [row])
    else:
        tables.put_pending(thread_id, "", [row])


def _remove(tables: WriteTables, thread_id: str, row: Row) -> None:
    if isinstance(row, CheckpointRow):
        beside = tables.pending(thread_id, "", row.id)
        tables.drop_checkpoints(thread_id, "", [row.id])
        tables.put_pending(thread_id, "", beside)
    elif isinstance(row, ValueRow):
        tables.drop_values(thread_id, "", [(row.channel, row.log, row.start)])
    else:
        beside = [other for other in tables.pending(thread_id, "", row.checkpoint_id) if other != row]
        checkpoint = tables.checkpoint(thread_id, "", row.checkpoint_id)
        tables.drop_checkpoints(thread_id, "", [row.checkpoint_id])
        if checkpoint is not None:
            tables.put_checkpoints(thread_id, "", [checkpoint])
        tables.put_pending(thread_id, "", beside)
