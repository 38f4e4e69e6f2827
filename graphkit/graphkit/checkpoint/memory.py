"""Door to `graphkit_checkpoint.memory`."""

from graphkit_checkpoint.memory import (
    InMemorySaver,
)

__all__ = ["InMemorySaver"]
