"""Door to `graphkit_checkpoint.postgres`."""

from graphkit_checkpoint.postgres import (
    AsyncPostgresSaver,
)

__all__ = ["AsyncPostgresSaver"]
