"""Door to `graphkit_checkpoint.cache.sqlite`."""

from graphkit_checkpoint.cache.sqlite import (
    SqliteCache,
)

__all__ = ["SqliteCache"]
