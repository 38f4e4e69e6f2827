"""Caches: what a task came to, for equal input, some time long."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from typing import Any

from graphkit_checkpoint.serde import pack, unpack


class BaseCache(ABC):
    """Values by (namespace, key). A value that has expired is gone."""

    @abstractmethod
    def get(self, namespace: str, key: str) -> Any:
        """The value, or None."""

    @abstractmethod
    def put(self, namespace: str, key: str, value: Any, ttl: float | None) -> None:
        """Keep a value, `ttl` seconds long (None: for ever)."""

    @abstractmethod
    def clear(self, namespace: str | None = None) -> None:
        """Forget a namespace, or everything."""


class InMemoryCache(BaseCache):
    """Keeps values in memory, serialized, so that what one run does to them does not reach another."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], tuple[bytes, float | None]] = {}
        self._lock = threading.Lock()

    def get(self, namespace: str, key: str) -> Any:
        with self._lock:
            entry = self._entries.get((namespace, key))
            if entry is None:
                return None
            body, expiry = entry
            if expiry is not None and time.time() >= expiry:
                del self._entries[namespace, key]
                return None
        return unpack(body)

    def put(self, namespace: str, key: str, value: Any, ttl: float | None) -> None:
        expiry = None if ttl is None else time.time() + ttl
        with self._lock:
            self._entries[namespace, key] = (pack(value), expiry)

    def clear(self, namespace: str | None = None) -> None:
        with self._lock:
            kept = {} if namespace is None else {k: v for k, v in self._entries.items() if k[0] != namespace}
            self._entries = kept
