"""Door to orchestrators whose members hand over to each other."""

from graphkit_prebuilt.multiagent.nodes import Node as SwarmNode
from graphkit_prebuilt.multiagent.state import MultiAgentState as SwarmState
from graphkit_prebuilt.multiagent.swarm import Swarm, SwarmResult

__all__ = ["Swarm", "SwarmNode", "SwarmResult", "SwarmState"]
