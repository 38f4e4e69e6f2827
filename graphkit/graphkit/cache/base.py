"""Door to `graphkit_checkpoint.cache.base`."""

from graphkit_checkpoint.cache.base import (
    BaseCache,
)

__all__ = ["BaseCache"]
