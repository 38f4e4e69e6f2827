"""Door to `graphkit_prebuilt.result`."""

from graphkit_prebuilt.result import AgentResult

__all__ = ["AgentResult"]
