"""Door to `graphkit_checkpoint.store.memory`."""

from graphkit_checkpoint.store.memory import (
    InMemoryStore,
)

__all__ = ["InMemoryStore"]
