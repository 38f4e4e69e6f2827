"""The way to a checkpoint of the root, and what of nested graphs lies behind it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from graphkit_checkpoint.layout import CheckpointRow
from graphkit_checkpoint.reading import Reader
from graphkit_checkpoint.tables import PAGE

BEHIND: Final = "behind"
"""In the `control` of a checkpoint whose way was cut: which checkpoints, by namespace, it had behind it."""


def is_for_one_task(namespace: str) -> bool:
    """Whether a nested graph ran for one task alone, which its namespace names (`node:task`). The others go on with
    their state from task to task."""
    return bool(namespace.rpartition("|")[2].partition(":")[2].partition(":")[0])


def parents_of(reader: Reader, row: CheckpointRow) -> Mapping[str, str]:
    """The checkpoints around one of a nested graph, by namespace."""
    parents: Mapping[str, str] = reader.metadata(reader.body(row)).get("parents", {})
    return parents


def find_behind(
    nested: Reader,
    root: Reader,
    at: str | None,
    passed: Collection[str] | None = None,
    without: Collection[str] = (),
) -> str | None:
    """The newest checkpoint of a nested graph that checkpoint `at` of the root has behind it, `without` some.

    What ran beside a checkpoint is not behind a fork of that one. The newest of all if `at` is not stored. `passed` are
    checkpoints of the root beside which it may have run, too (None: `at` itself).
    """
    thread_id, namespace = nested.thread_id, nested.namespace
    current = root.tables.checkpoint(thread_id, "", at) if at is not None else None
    known, before = current is not None or passed is not None, None
    on_way = {at} if passed is None else set(passed)
    marked = {_mark(root, current, namespace)}
    while rows := nested.tables.recent(thread_id, namespace, before, PAGE):
        before = rows[-1].id
        for row in rows:
            around = parents_of(nested, row).get("")
            while current is not None and around is not None and current.id > around:
                parent = current.parent_id
                if parent is not None and root.body(current).source != "fork":
                    on_way.add(parent)
                current = root.tables.checkpoint(thread_id, "", parent) if parent is not None else None
                marked.add(_mark(root, current, namespace))
            if (not known or around in on_way or row.id in marked) and row.id not in without:
                return row.id
    return None


def _mark(root: Reader, row: CheckpointRow | None, namespace: str) -> str | None:
    found: str | None = None if row is None else root.body(row).control.get(BEHIND, {}).get(namespace)
    return found
