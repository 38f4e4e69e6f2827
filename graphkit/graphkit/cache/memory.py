"""Door to `graphkit_checkpoint.cache.memory`."""

from graphkit_checkpoint.cache.memory import (
    InMemoryCache,
)

__all__ = ["InMemoryCache"]
