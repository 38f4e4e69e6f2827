"""The cache contract, in the shapes of LangGraph's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from graphkit_checkpoint.worker import Worker

    ValueT = TypeVar("ValueT", default=Any)
else:
    from typing import TypeVar

    ValueT = TypeVar("ValueT")

Namespace: TypeAlias = tuple[str, ...]
FullKey: TypeAlias = tuple[Namespace, str]


class BaseCache(ABC, Generic[ValueT]):
    """Values by namespace and key. A value that has expired is gone.

    A cache implements `get`, `set` and `clear`. Their async forms call them in a thread of the cache's own,
    one after the other; a cache that has a better way overrides them.
    """

    blocking = True
    """Whether an operation may wait for I/O: then async callers are served by a thread of the cache's."""

    @abstractmethod
    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        """The values that are there, by their keys."""

    @abstractmethod
    def set(self, pairs: Mapping[FullKey, tuple[ValueT, float | None]]) -> None:
        """Keep values, each for a number of seconds (None: for ever); all of them or, after an error, none."""

    @abstractmethod
    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Forget what is in these namespaces, or everything. A namespace does not contain longer ones."""

    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        """`get` for async callers."""
        return await self._worker.call(self.get, keys) if self.blocking else self.get(keys)

    async def aset(self, pairs: Mapping[FullKey, tuple[ValueT, float | None]]) -> None:
        """`set` for async callers."""
        await self._worker.call(self.set, pairs) if self.blocking else self.set(pairs)

    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """`clear` for async callers."""
        await self._worker.call(self.clear, namespaces) if self.blocking else self.clear(namespaces)

    @cached_property
    def _worker(self) -> Worker:
        from graphkit_checkpoint.worker import Worker

        return Worker("graphkit-cache")
