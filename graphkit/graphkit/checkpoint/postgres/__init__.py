"""Door to `graphkit_checkpoint.postgres`."""

from graphkit_checkpoint.postgres import (
    PostgresSaver,
)

__all__ = ["PostgresSaver"]
