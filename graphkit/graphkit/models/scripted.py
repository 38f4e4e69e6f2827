"""Door to `graphkit_prebuilt.models.scripted`."""

from graphkit_prebuilt.models.scripted import (
    ModelRequest,
    ScriptedModel,
    ToolCall,
    Turn,
)

__all__ = ["ModelRequest", "ScriptedModel", "ToolCall", "Turn"]
