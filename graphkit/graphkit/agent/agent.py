"""Door to `graphkit_prebuilt.agent`."""

from graphkit_prebuilt.agent import Agent
from graphkit_prebuilt.thread import AgentThread

__all__ = ["Agent", "AgentThread"]
