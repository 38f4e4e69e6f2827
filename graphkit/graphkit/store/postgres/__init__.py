"""Door to `graphkit_checkpoint.store.postgres`."""

from graphkit_checkpoint.store.postgres import (
    AsyncPostgresStore,
    PostgresStore,
)

__all__ = ["AsyncPostgresStore", "PostgresStore"]
