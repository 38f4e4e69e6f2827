"""Door to models: what an agent asks for the next message."""

from graphkit_prebuilt.models.model import (
    Model,
)
from graphkit_prebuilt.models.resolve import (
    resolve_model,
)
from graphkit_prebuilt.models.scripted import (
    ModelRequest,
    ScriptedModel,
    ToolCall,
    Turn,
)

__all__ = ["Model", "ModelRequest", "ScriptedModel", "ToolCall", "Turn", "resolve_model"]
