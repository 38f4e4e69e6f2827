"""Door to `graphkit_prebuilt.state`."""

from graphkit_prebuilt.state import AgentState

__all__ = ["AgentState"]
