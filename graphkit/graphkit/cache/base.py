"""Door to `graphkit_checkpoint.cache`."""

from graphkit_checkpoint.cache import (
    BaseCache,
)

__all__ = ["BaseCache"]
