"""`InMemoryStore`: items in the memory of this process, gone with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from graphkit_checkpoint.errors import StorageUnavailableError
from graphkit_checkpoint.store.base import IndexConfig, TTLConfig
from graphkit_checkpoint.store.rows import Mode, Place, Row, Rows, RowStore, is_live, newest_first


class InMemoryStore(RowStore):
    """Keeps items in memory, serialized: what is done to a value that was put or read changes nothing.

    `ttl` says how long items live (`TTLConfig`, in minutes). `clock` tells the time in unix seconds.
    With an `index` they can be searched by meaning.
    """

    blocking = False

    def __init__(
        self,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(index=index, ttl=ttl, clock=clock)
        self._table = MemoryRows()
        self._closed = False

    def close(self) -> None:
        super().close()
        self._closed = True

    @contextmanager
    def _rows(self, mode: Mode) -> Iterator[Rows]:
        with self.lock:
            if self._closed:
                raise StorageUnavailableError(
                    "this InMemoryStore is closed; its items can be reached no more"
                )
            yield self._table


class MemoryRows(Rows):
    """Every change is one statement that cannot fail halfway, so nothing has to be taken back."""

    def __init__(self) -> None:
        self._kept: dict[bytes, dict[bytes, Row]] = {}

    def find(self, namespace: bytes, keys: Sequence[bytes], now: int) -> Iterable[Row]:
        members = self._kept.get(namespace, {})
        found = (members.get(key) for key in keys)
        return [row for row in found if row is not None and is_live(row, now)]

    def below(self, start: bytes, now: int) -> Iterable[Row]:
        rows = (
            row
            for namespace, members in self._kept.items()
            if namespace.startswith(start)
            for row in members.values()
            if is_live(row, now)
        )
        return sorted(rows, key=newest_first)

    def namespaces(self, start: bytes, now: int) -> Iterable[bytes]:
        return [
            namespace
            for namespace, members in self._kept.items()
            if namespace.startswith(start) and any(is_live(row, now) for row in members.values())
        ]

    def put(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._kept.setdefault(row.namespace, {})[row.key] = row

    def drop(self, places: Sequence[Place]) -> None:
        for place in places:
            members = self._kept.get(place.namespace, {})
            members.pop(place.key, None)
            if not members:
                self._kept.pop(place.namespace, None)

    def exchange(self, pairs: Sequence[tuple[Row, Row]]) -> None:
        self.put([new for old, new in pairs if self._kept.get(old.namespace, {}).get(old.key) == old])

    def sweep(self, now: int) -> int:
        expired = [
            row.place for members in self._kept.values() for row in members.values() if not is_live(row, now)
        ]
        self.drop(expired)
        return len(expired)
