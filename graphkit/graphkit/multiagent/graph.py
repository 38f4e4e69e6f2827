"""Door to orchestrators of nodes and edges."""

from graphkit_prebuilt.multiagent.builder import GraphBuilder
from graphkit_prebuilt.multiagent.edge import GraphEdge
from graphkit_prebuilt.multiagent.graph import Graph, GraphResult
from graphkit_prebuilt.multiagent.nodes import Node as GraphNode
from graphkit_prebuilt.multiagent.state import MultiAgentState as GraphState

__all__ = ["Graph", "GraphBuilder", "GraphEdge", "GraphNode", "GraphResult", "GraphState"]
