"""What everything that is written once for all savers stands on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from graphkit_checkpoint.layout import Layout, Rows
from graphkit_checkpoint.tables import ReadTables, WriteTables

T = TypeVar("T")


class Transactions(ABC):
    """Transactions on the tables of a saver, and one encoded commit."""

    layout: Layout

    @abstractmethod
    def reading(self) -> AbstractContextManager[ReadTables]:
        """A transaction that sees all tables as of one moment. Raises `StorageError`s."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[WriteTables]:
        """A transaction that no other writer gets in between of. Raises `StorageError`s."""

    @abstractmethod
    def write(self, rows: Rows) -> None:
        """Write one encoded commit atomically. Raises `ConcurrentUpdateError`, `LeaseLostError` and
        `StorageError`s, and has written nothing then."""

    @abstractmethod
    async def off_loop(self, call: Callable[..., T], *args: Any, **options: Any) -> T:
        """Run a method of this saver where it keeps no event loop waiting."""
