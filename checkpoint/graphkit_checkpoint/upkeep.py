"""What is done to stored threads as a whole: copying, and removing part of a history.

Removing a checkpoint must not take away what others are read from. So checkpoints that are left and build on
a removed one are written again as bases, their parent becomes the nearest one that is left, what they have behind
them of nested graphs is noted (`ways`), and only those rows of values go that no checkpoint sees any more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from graphkit_checkpoint.layout import CheckpointRow, Layout, PendingRow, ValueRow, corrupt, listed
from graphkit_checkpoint.reading import Reader, spans
from graphkit_checkpoint.records import SCALAR, Version
from graphkit_checkpoint.tables import ReadTables, ThreadRow, WriteTables
from graphkit_checkpoint.ways import BEHIND, find_behind, is_for_one_task, parents_of

LAST_ID: Final = "\U0010ffff"
"""Sorts after every id. Records may be beside a checkpoint that is still to come."""

Used = dict[tuple[str, str], int]
"""How much of each log (channel, log) is seen: a number of items, `SCALAR` for a value."""


class _Part(NamedTuple):
    """A namespace of a thread, as it is written for another one."""

    namespace: str
    thread: ThreadRow
    checkpoints: list[CheckpointRow]
    values: list[ValueRow]
    pending: list[PendingRow]


def copy(tables: WriteTables, layout: Layout, source: str, target: str) -> None:
    """Write every row of a thread again under another id; a run that broke off is one of the copy too. What is damaged
    is found before the first is written."""
    parts = [_copied(tables, layout, source, target, namespace) for namespace in tables.namespaces(source)]
    for part in parts:
        place, row = (target, part.namespace), part.thread
        tables.put_thread(*place, row.state.head, row.state.epoch, row.ttl)
        tables.put_checkpoints(*place, part.checkpoints)
        tables.put_values(*place, part.values)
        tables.put_pending(*place, part.pending)
        if row.state.holder is not None:
            tables.break_off(target)


def _copied(tables: ReadTables, layout: Layout, source: str, target: str, namespace: str) -> _Part:
    row = tables.thread(source, namespace)
    assert row is not None
    old, new = (source, namespace), (target, namespace)
    checkpoints = tables.recent(*old, None, None)
    return _Part(
        namespace,
        row,
        [
            layout.cover_checkpoint(*new, found[:4], layout.open_checkpoint(*old, found))
            for found in checkpoints
        ],
        [
            layout.cover_value(*new, value[:6], layout.open_value(*old, log, value))
            for channel, log in dict.fromkeys((key[0], key[1]) for key in tables.value_keys(*old))
            for value in tables.values(*old, channel, log, None)
        ],
        [
            layout.cover_pending(*new, record[:4], layout.uncover_pending(*old, record))
            for record in tables.pending(*old, "", LAST_ID)
        ],
    )


def prune(
    tables: WriteTables, layout: Layout, thread_id: str, keep_last: int | None, kept_since: float | None
) -> int:
    """Remove what neither rule keeps; heads stay, a turn that broke off, and of nested graphs what the checkpoints of
    the root that stay go on with. A graph that ran for one task goes with the checkpoint of that task. Returns how many
    were removed."""
    doomed: dict[str, set[str]] = {}
    reached: dict[str, set[str]] = {}
    root = Reader(tables, layout, thread_id, "")
    for namespace in tables.namespaces(thread_id):  # a graph comes before those inside it
        thread = tables.thread(thread_id, namespace)
        reader = Reader(tables, layout, thread_id, namespace)
        rows = tables.recent(thread_id, namespace, None, None)
        kept = {
            row.id
            for index, row in enumerate(rows)
            if (keep_last is not None and index < keep_last)
            or (kept_since is not None and reader.body(row).created_at >= kept_since)
            or (thread and row.id == thread.state.head)
        }
        if not namespace and thread and thread.state.holder is not None:
            kept |= _turn(reader, rows, thread.state.head)
        if is_for_one_task(namespace):
            kept -= {row.id for row in rows if _is_out_of_reach(reader, row, reached)}
        elif namespace:
            kept |= _gone_on_with(root, reader, rows, reached[""], doomed[""])
        doomed[namespace] = {row.id for row in rows} - kept
        # A fork may still lead into what ran beside the checkpoint that it was made of.
        forks = [row for row in rows if row.id in kept and reader.body(row).source == "fork"]
        reached[namespace] = kept | {row.parent_id for row in forks if row.parent_id}
    return remove(tables, layout, thread_id, doomed)


def _turn(reader: Reader, rows: Sequence[CheckpointRow], head: str | None) -> set[str]:
    """The head and what it came from, back to the input: by these the same input or answer is known again."""
    by_id = {row.id: row for row in rows}
    turn: set[str] = set()
    while (row := by_id.get(head or "")) is not None:
        turn.add(row.id)
        head = None if reader.body(row).source == "input" else row.parent_id
    return turn


def _is_out_of_reach(reader: Reader, row: CheckpointRow, reached: Mapping[str, set[str]]) -> bool:
    """Whether a checkpoint around this one goes, or has gone."""
    parents = parents_of(reader, row).items()
    return any(around not in reached.get(namespace, ()) for namespace, around in parents)


def _gone_on_with(
    root: Reader, nested: Reader, rows: Sequence[CheckpointRow], kept: set[str], doomed: set[str]
) -> set[str]:
    """The checkpoints of a graph that goes on with its state: what ran last beside each that is kept of the root, and
    what those of them have behind them whose way is cut."""
    last = {parents_of(nested, row).get("", ""): row.id for row in reversed(rows)}
    behind = {find_behind(nested, root, row.id, ()) for row in _cut(root, doomed)}
    return {last[around] for around in kept & last.keys()} | {found for found in behind if found is not None}


def _cut(root: Reader, doomed: Collection[str]) -> list[CheckpointRow]:
    """The checkpoints of the root that stay and whose parents do not, or did not when others were removed."""
    rows = root.tables.recent(root.thread_id, "", None, None)
    staying = [row for row in rows if row.id not in doomed]
    return [row for row in staying if row.parent_id in doomed or BEHIND in root.body(row).control]


def made_by(
    tables: ReadTables, layout: Layout, thread_id: str, run_ids: frozenset[str]
) -> dict[str, set[str]]:
    """The checkpoints that these runs made, by namespace."""
    found: dict[str, set[str]] = {}
    for namespace in tables.namespaces(thread_id):
        reader = Reader(tables, layout, thread_id, namespace)
        found[namespace] = {
            row.id
            for row in tables.recent(thread_id, namespace, None, None)
            if _has_run(reader.metadata(reader.body(row)), run_ids)
        }
    return found


def _has_run(metadata: Mapping[str, object], run_ids: frozenset[str]) -> bool:
    run_id = metadata.get("run_id")
    return run_id is not None and str(run_id) in run_ids


def remove(tables: WriteTables, layout: Layout, thread_id: str, doomed: Mapping[str, set[str]]) -> int:
    """Remove checkpoints, given by namespace, and what only they need. Returns how many there were."""
    before, behind = tables.thread(thread_id), _behind(tables, layout, thread_id, doomed)
    for namespace, ids in doomed.items():
        if ids:
            _Removal(tables, layout, thread_id, namespace, ids, {} if namespace else behind).remove()
    count = sum(map(len, doomed.values()))
    root = tables.thread(thread_id)
    if root is None or not count:
        return count
    namespaces = tables.namespaces(thread_id)
    # Without a head at the root there may still be namespaces that were put from outside.
    lost_head = root.state.head is None and bool(doomed.get(""))
    if lost_head or not any(tables.recent(thread_id, namespace, None, 1) for namespace in namespaces):
        tables.drop_thread(thread_id)
        return count
    tables.move_head(thread_id, "", root.state.head)  # its epoch is the one that claims compare
    if before is not None and before.state.holder is not None:
        tables.break_off(thread_id)
    return count


def _behind(
    tables: ReadTables, layout: Layout, thread_id: str, doomed: Mapping[str, set[str]]
) -> dict[str, dict[str, str]]:
    """What those of the root whose way is cut have behind them of graphs that go on with their state, by namespace:
    nobody could find it any more."""
    lasting = [name for name in tables.namespaces(thread_id) if name and not is_for_one_task(name)]
    root = Reader(tables, layout, thread_id, "")
    cut = _cut(root, doomed.get("", ())) if lasting else []
    behind: dict[str, dict[str, str]] = {row.id: {} for row in cut}
    for namespace in lasting:
        nested = Reader(tables, layout, thread_id, namespace)
        for row in cut:
            found = find_behind(nested, root, row.id, (), without=doomed.get(namespace, ()))
            if found is not None:
                behind[row.id][namespace] = found
    return behind


class _Removal:
    """Part of one namespace's history on its way out. `behind`: `_behind`."""

    def __init__(
        self,
        tables: WriteTables,
        layout: Layout,
        thread_id: str,
        namespace: str,
        doomed: set[str],
        behind: Mapping[str, dict[str, str]],
    ) -> None:
        self.tables = tables
        self.layout = layout
        self.thread_id = thread_id
        self.namespace = namespace
        self.doomed = doomed
        self.behind = behind
        self.reader = Reader(tables, layout, thread_id, namespace)
        self.rows = {row.id: row for row in reversed(tables.recent(thread_id, namespace, None, None))}

    def remove(self) -> None:
        tables, place = self.tables, (self.thread_id, self.namespace)
        thread = tables.thread(*place)
        kept = [row for row in self.rows.values() if row.id not in self.doomed]
        if not kept:
            if self.namespace:
                tables.drop_namespace(*place)
            else:
                tables.drop_checkpoints(*place, self.doomed)
                tables.move_head(*place, None)
            return
        unused, rewritten = self._unused(kept), [row for old in kept for row in self._rewritten(old)]
        tables.drop_values(*place, unused)
        tables.put_checkpoints(*place, rewritten)
        tables.drop_checkpoints(*place, self.doomed)
        head = thread.state.head if thread else None
        tables.move_head(*place, self._survivor(head) or kept[-1].id)

    def _survivor(self, checkpoint_id: str | None) -> str | None:
        """The checkpoint itself, or the nearest before it on its branch, that is left."""
        while checkpoint_id is not None and checkpoint_id in self.doomed:
            checkpoint_id = self.rows[checkpoint_id].parent_id
        return checkpoint_id if checkpoint_id in self.rows else None

    def _rewritten(self, row: CheckpointRow) -> Iterable[CheckpointRow]:
        """The row as a base of its own, if it was read from a row that goes."""
        if row.parent_id not in self.doomed:
            return
        body = self.reader.body(row)._replace(versions=listed(self.reader.tip(row).versions))
        if behind := self.behind.get(row.id):
            body = body._replace(control={**body.control, BEHIND: behind})
        key = (row.id, self._survivor(row.parent_id), row.id, row.step)
        yield self.layout.cover_checkpoint(self.thread_id, self.namespace, key, body)

    def _unused(self, kept: Iterable[CheckpointRow]) -> list[tuple[str, str, int]]:
        keys = self.tables.value_keys(self.thread_id, self.namespace)
        for channel, log, start, _, _ in keys:
            if not isinstance(start, int):
                raise corrupt(self.thread_id, log, f"channel {channel!r} has a row at {start!r}")
        used = self._used(kept)
        older = {
            (channel, log): (previous, start)
            for channel, log, start, _, previous in keys
            if previous is not None
        }
        waiting = list(used)
        while waiting:
            key = waiting.pop()
            if key in older:
                previous, length = older[key]
                _use(used, key[0], Version(previous, length))
                waiting.append((key[0], previous))
        return [
            (channel, log, start)
            for channel, log, start, _, _ in keys
            if (channel, log) not in used or start >= max(used[channel, log], 1)
        ]

    def _used(self, kept: Iterable[CheckpointRow]) -> Used:
        used: Used = {}
        for row in kept:
            for channel, version in self.reader.tip(row).versions.items():
                _use(used, channel, version)
            for channel, version in spans(self.reader.body(row)):
                _use(used, channel, version)
        return used


def _use(used: Used, channel: str, version: Version) -> None:
    key = (channel, version.log)
    used[key] = max(used.get(key, SCALAR), version.length)
