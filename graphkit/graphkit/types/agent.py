"""Door to what agents are given, and what they are to hooks and tools."""

from graphkit_prebuilt.limits import Limits
from graphkit_prebuilt.local import LocalAgent
from graphkit_prebuilt.prompts import AgentInput

__all__ = ["AgentInput", "Limits", "LocalAgent"]
