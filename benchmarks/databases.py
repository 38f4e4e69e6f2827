"""The PostgreSQL that both frameworks are measured on: one server, and a database of its own for each saver."""

from __future__ import annotations

from contextlib import suppress
from typing import Literal, Self

from tests.postgres import PostgresServer, PostgresUnavailableError

Commit = Literal["on", "off"]


class Databases:
    """Started by the first database that is asked for, gone at the end; `available` tells without starting."""

    def __init__(self) -> None:
        self.server: PostgresServer | None = None
        self._started = False
        with suppress(PostgresUnavailableError):
            self.server = PostgresServer()

    @property
    def available(self) -> bool:
        return self.server is not None

    def create(self, synchronous_commit: Commit) -> str:
        """The libpq URL of a new database whose connections all commit in this way."""
        import psycopg

        assert self.server is not None
        if not self._started:
            self.server.start()
            self._started = True
        name = self.server.create_database()
        url = self.server.url(name).replace("+psycopg", "", 1)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                f"ALTER DATABASE {name} SET synchronous_commit = {synchronous_commit}".encode()
            )
        return url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.server is not None:
            self.server.close()
