"""Door to `graphkit_checkpoint.store.postgres`."""

from graphkit_checkpoint.store.postgres import (
    AsyncPostgresStore,
)

__all__ = ["AsyncPostgresStore"]
