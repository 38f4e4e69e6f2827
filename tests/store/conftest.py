"""Every kind of store over storage of the test's own, through both doors, with a clock that the test turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from graphkit.store.memory import InMemoryStore
from graphkit.store.postgres import PostgresStore
from graphkit.store.sqlite import SqliteStore
from tests.postgres import unsynced

Store: TypeAlias = Any
"""One of the three kinds."""
OpenStore: TypeAlias = Callable[..., Store]
"""Opens a store on the test's storage, and closes it after the test."""


class Clock:
    """Unix seconds, which pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now

    def minutes(self, number: float) -> None:
        self.now += number * 60


class Calls:
    """A store's (or cache's) calls through one door: `colour` "sync" takes `put`, …, "async" takes `aput`, …."""

    def __init__(self, store: Store, colour: str) -> None:
        self.store = store
        self.colour = colour

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if self.colour == "sync":
                return getattr(self.store, name)(*args, **options)

            async def through() -> Any:
                return await getattr(self.store, f"a{name}")(*args, **options)

            return asyncio.run(through())

        return call


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def location(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> str | None:
    """Where the test's stores keep their items; in memory that is each store itself."""
    if kind == "memory":
        return None
    return (
        str(tmp_path / "s.sqlite") if kind == "sqlite" else unsynced(request.getfixturevalue("postgres_url"))
    )


@pytest.fixture
def open_store(location: str | None, clock: Clock) -> Iterator[OpenStore]:
    opened: list[Store] = []

    def open_another(**options: Any) -> Store:
        opened.append(store_at(location, clock=clock, **options))
        return opened[-1]

    yield open_another
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: OpenStore) -> Store:
    return open_store()


@pytest.fixture(params=["sync", "async"])
def calls(request: pytest.FixtureRequest, store: Store) -> Calls:
    return Calls(store, request.param)


def store_at(location: str | None, **options: Any) -> Store:
    if location is None:
        return InMemoryStore(**options)
    kind = PostgresStore if location.startswith("postgresql") else SqliteStore
    return kind(location, **options)
