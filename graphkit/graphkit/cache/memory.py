"""Door to `graphkit_checkpoint.cache`."""

from graphkit_checkpoint.cache import (
    InMemoryCache,
)

__all__ = ["InMemoryCache"]
