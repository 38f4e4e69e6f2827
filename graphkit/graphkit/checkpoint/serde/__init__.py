"""Door to `graphkit_checkpoint.serde`."""

from graphkit_checkpoint.serde import (
    register_type,
)

__all__ = ["register_type"]
