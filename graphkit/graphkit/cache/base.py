"""Door to `graphkit_checkpoint.cache.base`."""

from graphkit_checkpoint.cache.base import (
    BaseCache,
    FullKey,
    Namespace,
)

__all__ = ["BaseCache", "FullKey", "Namespace"]
