"""`InMemoryCache`: values in the memory of this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from graphkit_checkpoint.cache.base import BaseCache
from graphkit_checkpoint.serde import pack, unpack


class InMemoryCache(BaseCache):
    """Keeps values in memory, serialized, so that what one run does to them does not reach another.

    `clock` tells the time in unix seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._entries: dict[tuple[str, str], tuple[bytes, float | None]] = {}
        self._lock = threading.Lock()

    def get(self, namespace: str, key: str) -> Any:
        with self._lock:
            entry = self._entries.get((namespace, key))
            if entry is None:
                return None
            body, expiry = entry
            if expiry is not None and self._clock() >= expiry:
                del self._entries[namespace, key]
                return None
        return unpack(body)

    def put(self, namespace: str, key: str, value: Any, ttl: float | None) -> None:
        expiry = None if ttl is None else self._clock() + ttl
        with self._lock:
            self._entries[namespace, key] = (pack(value), expiry)

    def clear(self, namespace: str | None = None) -> None:
        with self._lock:
            kept = {} if namespace is None else {k: v for k, v in self._entries.items() if k[0] != namespace}
            self._entries = kept
