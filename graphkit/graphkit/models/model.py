"""Door to `graphkit_prebuilt.models.model`."""

from graphkit_prebuilt.models.model import (
    Model,
)

__all__ = ["Model"]
