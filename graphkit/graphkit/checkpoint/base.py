"""Door to `graphkit_checkpoint.base`."""

from graphkit_checkpoint.base import (
    BaseCheckpointSaver,
)

__all__ = ["BaseCheckpointSaver"]
