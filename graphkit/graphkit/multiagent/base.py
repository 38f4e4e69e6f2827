"""Door to what all orchestrators have."""

from graphkit_prebuilt.multiagent.base import MultiAgentBase
from graphkit_prebuilt.multiagent.results import MultiAgentResult, NodeResult, Status

__all__ = ["MultiAgentBase", "MultiAgentResult", "NodeResult", "Status"]
