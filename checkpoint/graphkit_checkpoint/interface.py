"""LangGraph's saver interface, written once on top of the contract in `base`: every saver has it.

Threads of the engine are shown in LangGraph's shapes (`showing`). What comes through `put` is kept and comes
back as it was given (`putting`); a graph can go on from it. Like everything that changes a thread from
outside, both need it free.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from graphkit_checkpoint.admission import (
    addressed,
    check_search,
    check_thread_id,
    current,
    find_row,
    is_text,
    refuse_busy,
)
from graphkit_checkpoint.errors import ConcurrentUpdateError
from graphkit_checkpoint.layout import CheckpointRow, Rows
from graphkit_checkpoint.putting import Given, GivenWrites
from graphkit_checkpoint.reading import Reader
from graphkit_checkpoint.records import ThreadState
from graphkit_checkpoint.shapes import (
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    Place,
    RunnableConfig,
    config_of,
    get_checkpoint_metadata,
)
from graphkit_checkpoint.showing import metadata_of, shown
from graphkit_checkpoint.tables import PAGE, ReadTables
from graphkit_checkpoint.transactions import Transactions


class SaverInterface(Transactions):
    """`get_tuple`, `list`, `put`, `put_writes` and their async forms, for tools written against LangGraph's savers.

    Deleting, copying and pruning are in `ThreadLife`, with LangGraph's names.
    """

    # Looking

    @property
    def config_specs(self) -> Sequence[Any]:
        """Options of a config that are this saver's own: none."""
        return []

    def get(self, config: RunnableConfig) -> Checkpoint | None:
        """The checkpoint of `get_tuple`."""
        found = self.get_tuple(config)
        return found.checkpoint if found else None

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that the config addresses (default: the latest), or None.

        A checkpoint of the engine shows every value but internal ones; its pending records appear as writes:
        what tasks wrote, and per task `__interrupt__` with its `Question`s, `__resume__` with the answers in
        the order of the questions, `__error__` with the error's text. Raises `InvalidThreadIdError`,
        `CheckpointCorruptError`, `StorageError`s.
        """
        place = _place(config)
        with self.reading() as tables:
            root = current(tables.thread(place.thread_id))
            row = None if root is None else find_row(tables, *place, root)
            if root is None or row is None:
                return None
            return shown(Reader(tables, self.layout, *place[:2]), row, root.state)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: Mapping[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, newest first: of all threads, or of the config's thread, namespace and checkpoint.

        A config without `checkpoint_ns` means all namespaces. `filter` keeps those whose metadata has each of
        its items (compared by `==`), `before` those with smaller ids, `limit` that many at most.
        """
        check_search(filter, limit)
        end = addressed(before.get("configurable", {}), "checkpoint_id") if before else None
        listed = [_listed(self, place, end, filter) for place in _places(self, config)]
        found = heapq.merge(*listed, key=_id_of, reverse=True)
        return itertools.islice(found, None if limit is None else max(limit, 0))

    # Writing

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: Mapping[str, str | int | float],
    ) -> dict[str, Any]:
        """Keep a checkpoint whose parent is the one that the config addresses; returns the config of the new one.

        Values are kept of the channels in `channel_versions`: the given ones of those in `new_versions`, the
        parent's where that has the same version. An id that is there already is replaced, if it came through
        `put`. Raises `ConcurrentUpdateError` while a run owns the thread, `UnserializableStateError`,
        `StateTooLargeError`, `InvalidThreadIdError`, and `ValueError` for names that cannot be stored.
        """
        place, checkpoint_id = _checked_place(config), _name(checkpoint["id"], "checkpoint id")
        complete = get_checkpoint_metadata(config, metadata)
        given = Given(self.layout, place, checkpoint, complete, new_versions)
        while not _put(self, given):
            pass  # whoever was quicker got on, so this ends
        return config_of(place.thread_id, place.namespace, checkpoint_id)

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Keep writes of a task beside the checkpoint that the config addresses; it may come later.

        A write that is there already (same task, same place in the list) stays as it is; those to special
        channels (`WRITES_IDX_MAP`) have a place each and replace. Raises as `put` does.
        """
        place = _checked_place(config)
        _name(place.checkpoint_id, "checkpoint_id")
        given = GivenWrites(self.layout, place, writes, _name(task_id, "task_id"), task_path)
        while not _put_writes(self, given):
            pass  # as in `put`

    def get_next_version(
        self, current: str | int | float | None, channel: object = None
    ) -> str | int | float:
        """A version larger than `current`: numbers count up from 1, and so does a number inside a text."""
        if current is None:
            return 1
        return _text_after(current) if isinstance(current, str) else current + 1

    # The async doors

    async def aget(self, config: RunnableConfig) -> Checkpoint | None:
        return await self.off_loop(self.get, config)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await self.off_loop(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: Mapping[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        listed = await self.off_loop(self.list, config, filter=filter, before=before, limit=limit)
        while (found := await self.off_loop(next, listed, None)) is not None:
            yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: Mapping[str, str | int | float],
    ) -> dict[str, Any]:
        return await self.off_loop(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        await self.off_loop(self.put_writes, config, writes, task_id, task_path)


def _text_after(version: str) -> str:
    parts = version.split(".")
    for index, part in enumerate(parts):
        if part.isascii() and part.isdecimal() and set(part) != {"9"}:  # one digit more would sort before
            return ".".join([*parts[:index], f"{int(part) + 1:0{len(part)}}"])
    return f"{version}.{1:016}"


# Places


def _place(config: RunnableConfig) -> Place:
    configurable = config.get("configurable", {})
    thread_id = check_thread_id(configurable.get("thread_id"))
    namespace, checkpoint_id = (addressed(configurable, name) for name in ("checkpoint_ns", "checkpoint_id"))
    return Place(thread_id, namespace or "", checkpoint_id)


def _checked_place(config: RunnableConfig) -> Place:
    """A place to write to. Raises `ValueError` for names that not every database holds."""
    place = _place(config)
    _name(place.namespace or "-", "checkpoint_ns", longest=1000)
    _name(place.checkpoint_id or "-", "checkpoint_id")
    return place


def _name(value: object, what: str, longest: int = 255) -> str:
    if isinstance(value, str) and 1 <= len(value) <= longest and is_text(value):
        return value
    raise ValueError(
        f"{what} {value!r:.80} cannot be stored; use a string of 1 to {longest} characters without NUL and lone "
        f"surrogates"
    )


def _places(saver: SaverInterface, config: RunnableConfig | None) -> Sequence[Place]:
    """The namespaces that `list` looks at, each with the checkpoint that is wanted (None: all of them)."""
    wanted = _place(config) if config else None
    if config and wanted and config["configurable"].get("checkpoint_ns") is not None:
        return [wanted]
    with saver.reading() as tables:
        return [
            Place(thread_id, namespace, wanted.checkpoint_id if wanted else None)
            for thread_id in ([wanted.thread_id] if wanted else tables.thread_ids())
            for namespace in tables.namespaces(thread_id)
        ]


# Listing


def _listed(
    saver: SaverInterface, place: Place, before: str | None, filter: Mapping[str, Any] | None
) -> Iterator[CheckpointTuple]:
    """The checkpoints of one namespace, newest first. The first pages are small: often few are wanted."""
    if not is_text(place.namespace + (before or "") + (place.checkpoint_id or "")):
        return
    page = 1
    while True:
        with saver.reading() as tables:
            root = current(tables.thread(place.thread_id))
            if root is None:
                return
            rows = _rows(tables, place, before, page)
            reader = Reader(tables, saver.layout, *place[:2])
            taken = [row for row in rows if not filter or _matches(reader, row, filter)]
            found = [shown(reader, row, root.state) for row in taken]
        yield from found
        if len(rows) < page or place.checkpoint_id:
            return
        before, page = rows[-1].id, min(2 * page, PAGE)


def _rows(tables: ReadTables, place: Place, before: str | None, page: int) -> Sequence[CheckpointRow]:
    if place.checkpoint_id is None:
        return tables.recent(*place[:2], before, page)
    row = tables.checkpoint(*place)  # type: ignore[arg-type]
    return [row] if row is not None and (before is None or row.id < before) else []


def _matches(reader: Reader, row: CheckpointRow, filter: Mapping[str, Any]) -> bool:
    metadata = metadata_of(reader.checkpoint(row, reader.body(row)))
    return all(key in metadata and metadata[key] == value for key, value in filter.items())


def _id_of(found: CheckpointTuple) -> str:
    return found.checkpoint["id"]


# Writing: True when it is done, False if another writer was quicker


def _put(saver: SaverInterface, given: Given) -> bool:
    with saver.reading() as tables:
        seen = given.look(tables, _free(tables, given.place[0]))
    if seen.existing is None:
        return _written(saver, given.rows(seen))
    with saver.writing() as locked:
        seen = given.look(locked, _free(locked, given.place[0]))
        if seen.existing is not None:
            given.replace(locked, seen)
        return seen.existing is not None


def _put_writes(saver: SaverInterface, given: GivenWrites) -> bool:
    with saver.reading() as tables:
        rows = given.rows(tables, _free(tables, given.thread_id))
    return rows is None or _written(saver, rows)


def _written(saver: SaverInterface, rows: Rows) -> bool:
    try:
        saver.write(rows)
    except ConcurrentUpdateError:
        return False
    return True


def _free(tables: ReadTables, thread_id: str) -> ThreadState | None:
    """The thread, None if there is none. Raises `ConcurrentUpdateError` if a run owns it."""
    row = current(tables.thread(thread_id))
    if row is None:
        return None
    refuse_busy(thread_id, row.state.holder)
    return row.state
