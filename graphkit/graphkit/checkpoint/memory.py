"""Door to `graphkit_checkpoint.memory`."""

from graphkit_checkpoint.memory import (
    InMemorySaver,
    MemorySaver,
)

__all__ = ["InMemorySaver", "MemorySaver"]
