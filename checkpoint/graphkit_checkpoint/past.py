"""The past of a thread: which checkpoints it has, and which one is meant."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from typing import Any

from graphkit_checkpoint.admission import check_search, is_text, visible
from graphkit_checkpoint.layout import CheckpointRow
from graphkit_checkpoint.reading import Reader
from graphkit_checkpoint.records import Checkpoint, Pending, Saved, described
from graphkit_checkpoint.tables import PAGE
from graphkit_checkpoint.transactions import Transactions
from graphkit_checkpoint.ways import find_behind


class Past(Transactions):
    """What a saver tells of the checkpoints and records of a thread. All of it is as of one moment, or in pages that
    are."""

    def history(
        self,
        thread_id: str,
        namespace: str = "",
        *,
        before: str | None = None,
        limit: int | None = None,
        filter: Mapping[str, Any] | None = None,
    ) -> Iterator[Saved]:
        """Checkpoints, newest first: with ids below `before`, whose metadata (`Checkpoint.described`) has every
        item of `filter`, at most `limit`. Read in pages, each as of one moment."""
        check_search(filter, limit)
        left = limit
        while left is None or left > 0:
            page = PAGE if left is None or filter else min(left, PAGE)
            rows, found = self._page(thread_id, namespace, before, page, filter, left)
            yield from found
            if len(rows) < page:
                return
            before = rows[-1].id
            left = None if left is None else left - len(found)

    def _page(
        self,
        thread_id: str,
        namespace: str,
        before: str | None,
        page: int,
        filter: Mapping[str, Any] | None,
        left: int | None,
    ) -> tuple[list[CheckpointRow], list[Saved]]:
        with self.reading() as tables:
            root = visible(tables, thread_id)
            if root is None or not is_text(namespace + (before or "")):
                return [], []
            rows = tables.recent(thread_id, namespace, before, page)
            reader = Reader(tables, self.layout, thread_id, namespace)
            taken = [row for row in rows if not filter or self._matches(reader, row, filter)][:left]
            reader.look_ahead(taken)
            return rows, [reader.saved(row, root.state) for row in taken]

    @staticmethod
    def _matches(reader: Reader, row: CheckpointRow, filter: Mapping[str, Any]) -> bool:
        body = reader.body(row)
        metadata = described(body.source, row.step, reader.metadata(body))
        return all(key in metadata and metadata[key] == value for key, value in filter.items())

    def find_input(self, thread_id: str) -> Checkpoint | None:
        """The checkpoint with the input that the head of the root namespace came from, if there is one."""
        wanted: str | None = None
        for saved in self.history(thread_id):
            point = saved.checkpoint
            if wanted is None:
                wanted = saved.thread.head
            if point.id != wanted:
                continue
            if point.source == "input":
                return point
            wanted = point.parent_id
            if wanted is None:
                break
        return None

    def find_pending(self, thread_id: str, kind: str, key: str) -> list[Pending]:
        """The pending records of this kind and key at any checkpoint of the root namespace, newest first."""
        with self.reading() as tables:
            if visible(tables, thread_id) is None or not is_text(kind + key):
                return []
            rows = tables.pending_of(thread_id, "", kind, key)
            return [self.layout.open_pending(thread_id, "", row) for row in rows]

    def find_on_way(
        self, thread_id: str, namespace: str, at: str | None, behind: Collection[str] | None = None
    ) -> str | None:
        """The newest checkpoint of a nested graph's `namespace` that the thread has behind it at checkpoint `at` of
        the root. What ran beside a checkpoint is not behind a fork of that one. The newest of all if `at` is not
        stored.

        A run that has not written its checkpoints yet began `at` a stored one, and names those that are `behind` it:
        its own, and `at` itself if that is.
        """
        with self.reading() as tables:
            nested = Reader(tables, self.layout, thread_id, namespace)
            return find_behind(nested, Reader(tables, self.layout, thread_id, ""), at, behind)

    def namespaces(self, thread_id: str, under: str = "") -> list[str]:
        """The namespaces of a thread that begin with `under`, in order."""
        with self.reading() as tables:
            if visible(tables, thread_id) is None or not is_text(under):
                return []
            return tables.namespaces(thread_id, under)

    async def ahistory(
        self,
        thread_id: str,
        namespace: str = "",
        *,
        before: str | None = None,
        limit: int | None = None,
        filter: Mapping[str, Any] | None = None,
    ) -> AsyncIterator[Saved]:
        """`history` as an async iterator."""
        found = self.history(thread_id, namespace, before=before, limit=limit, filter=filter)
        while (saved := await self.off_loop(next, found, None)) is not None:
            yield saved
