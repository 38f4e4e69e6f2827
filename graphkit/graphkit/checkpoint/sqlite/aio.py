"""Door to `graphkit_checkpoint.sqlite`."""

from graphkit_checkpoint.sqlite import (
    AsyncSqliteSaver,
)

__all__ = ["AsyncSqliteSaver"]
