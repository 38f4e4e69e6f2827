"""Door to `graphkit_checkpoint.store.sqlite`."""

from graphkit_checkpoint.store.sqlite import (
    AsyncSqliteStore,
    SqliteStore,
)

__all__ = ["AsyncSqliteStore", "SqliteStore"]
