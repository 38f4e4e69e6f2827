"""Door to `graphkit_checkpoint.sqlite`."""

from graphkit_checkpoint.sqlite import (
    SqliteSaver,
)

__all__ = ["SqliteSaver"]
