"""Door to `graphkit_checkpoint.store.sqlite`."""

from graphkit_checkpoint.store.sqlite import (
    AsyncSqliteStore,
)

__all__ = ["AsyncSqliteStore"]
