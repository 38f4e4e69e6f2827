"""Where a check of a store works."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from graphkit_checkpoint.conformance.suite import Bench, Lab
from graphkit_checkpoint.conformance.verdicts import PATIENCE
from graphkit_checkpoint.store.base import BaseStore, Namespace, PutOp
from graphkit_checkpoint.store.rows import Row, RowStore, path_of

T = TypeVar("T")


class DamageItem(Protocol):
    """Replaces the stored row of one item by what `change` makes of it."""

    def __call__(self, store: Any, namespace: Namespace, key: str, change: Callable[[Any], Any]) -> None: ...


def damage_row(store: Any, namespace: Namespace, key: str, change: Callable[[Row], Row]) -> None:
    """`DamageItem` for stores over rows, which write what they are given."""
    if not isinstance(store, RowStore):
        raise TypeError(f"{type(store).__name__} needs a damage= of its own")
    with store._rows("write") as rows:
        (row,) = rows.find(path_of(namespace), [key.encode()], 0)
        changed = change(row)
        rows.drop([row.place])
        rows.put([changed])


class StoreBench(Bench[Any]):
    def __init__(self, make: Any, without: Any, damage: DamageItem) -> None:
        super().__init__(make, without)
        self.damage = damage


class StoreLab(Lab[Any]):
    """The lab of stores. What it puts below its namespaces is deleted when it closes."""

    def __init__(self, bench: StoreBench) -> None:
        super().__init__(bench)
        self.store: BaseStore = bench.shared
        self.damage = bench.damage
        self._namespaces: list[str] = []

    def label(self, ending: str = "") -> str:
        """The first label of namespaces that nobody else uses."""
        self._namespaces.append(self.name() + ending)
        return self._namespaces[-1]

    def namespace(self, *labels: str) -> Namespace:
        """A namespace that nobody else uses."""
        return (self.label(), *labels)

    def close(self) -> None:
        for label in self._namespaces:
            with suppress(Exception):
                found = self.store.search((label,), limit=10_000)
                self.store.batch([PutOp(item.namespace, item.key, None) for item in found])
        super().close()


def through(work: Any) -> Any:
    """Run it in an event loop of its own."""

    async def patiently() -> Any:
        return await asyncio.wait_for(work, PATIENCE)

    return asyncio.run(patiently())


def keys(found: Any) -> list[str]:
    return [item.key for item in found]
