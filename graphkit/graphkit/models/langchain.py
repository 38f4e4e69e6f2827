"""Door to `graphkit_prebuilt.models.langchain`."""

from graphkit_prebuilt.models.langchain import (
    LangChainModel,
)

__all__ = ["LangChainModel"]
