"""Door to orchestrators."""

from graphkit_prebuilt.multiagent.base import MultiAgentBase
from graphkit_prebuilt.multiagent.builder import GraphBuilder
from graphkit_prebuilt.multiagent.edge import GraphEdge
from graphkit_prebuilt.multiagent.graph import Graph, GraphResult
from graphkit_prebuilt.multiagent.nodes import Node
from graphkit_prebuilt.multiagent.results import MultiAgentResult, NodeResult, Status
from graphkit_prebuilt.multiagent.state import MultiAgentState
from graphkit_prebuilt.multiagent.swarm import Swarm, SwarmResult
from graphkit_prebuilt.multiagent.thread import TeamThread

__all__ = [
    "Graph",
    "GraphBuilder",
    "GraphEdge",
    "GraphResult",
    "MultiAgentBase",
    "MultiAgentResult",
    "MultiAgentState",
    "Node",
    "NodeResult",
    "Status",
    "Swarm",
    "SwarmResult",
    "TeamThread",
]
