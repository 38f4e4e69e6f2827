"""`InMemoryCache`: values in the memory of this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from graphkit_checkpoint.cache.base import BaseCache, FullKey, Namespace, ValueT
from graphkit_checkpoint.serde import pack, unpack


class InMemoryCache(BaseCache[ValueT]):
    """Keeps values in memory, serialized, so that what one run does to them does not reach another.

    `clock` tells the time in unix seconds.
    """

    blocking = False

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._entries: dict[FullKey, tuple[bytes, float | None]] = {}
        self._lock = threading.Lock()

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        now = self._clock()
        with self._lock:
            found = {key: body for key in keys if (body := self._body(key, now)) is not None}
        return {key: unpack(body) for key, body in found.items()}

    def _body(self, key: FullKey, now: float) -> bytes | None:
        body, expiry = self._entries.get(key, (None, None))
        if expiry is not None and now >= expiry:
            del self._entries[key]
            return None
        return body

    def set(self, pairs: Mapping[FullKey, tuple[ValueT, float | None]]) -> None:
        now = self._clock()
        entries = {
            key: (pack(value), None if ttl is None else now + ttl) for key, (value, ttl) in pairs.items()
        }
        with self._lock:
            self._entries.update(entries)

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        with self._lock:
            if namespaces is None:
                self._entries = {}
            else:
                gone = set(namespaces)
                self._entries = {key: entry for key, entry in self._entries.items() if key[0] not in gone}
