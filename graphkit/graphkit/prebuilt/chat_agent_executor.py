"""Door to `graphkit_prebuilt.react.agent` and `.chat`."""

from graphkit_prebuilt.react.agent import create_react_agent
from graphkit_prebuilt.react.chat import AgentState, AgentStateWithStructuredResponse

__all__ = ["AgentState", "AgentStateWithStructuredResponse", "create_react_agent"]
