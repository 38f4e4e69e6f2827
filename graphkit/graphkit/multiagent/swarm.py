"""Door to orchestrators whose members hand over to each other."""

from graphkit_prebuilt.multiagent.nodes import Node as SwarmNode
from graphkit_prebuilt.multiagent.swarm import Swarm, SwarmResult
from graphkit_prebuilt.multiagent.swarm_state import SharedContext, SwarmState

__all__ = ["SharedContext", "Swarm", "SwarmNode", "SwarmResult", "SwarmState"]
