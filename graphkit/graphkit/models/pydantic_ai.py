"""Door to `graphkit_prebuilt.models.pydantic_ai`."""

from graphkit_prebuilt.models.pydantic_ai import (
    PydanticAIModel,
)

__all__ = ["PydanticAIModel"]
