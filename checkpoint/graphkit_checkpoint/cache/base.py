"""The cache contract."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


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
