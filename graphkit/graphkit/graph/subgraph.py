"""A compiled graph as a node of another graph: the keys they share go in and come out, or the one value.

An entrypoint is given the state, and what it returns is the node's update.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphkit.channels import BaseChannel
from graphkit.compiled import CompiledGraph
from graphkit.engine.program import ROOT, Callee


class SubgraphNode:
    """Calls a graph with the part of the state that it declares, and returns the part that the caller does."""

    def __init__(self, graph: CompiledGraph, outer: Mapping[str, BaseChannel[Any]]) -> None:
        self.graph = graph
        self.outer = outer

    def invoke(self, state: Any) -> Any:
        return self._out(self.graph.invoke(self._in(state)))

    async def ainvoke(self, state: Any) -> Any:
        return self._out(await self.graph.ainvoke(self._in(state)))

    def _in(self, state: Any) -> Any:
        if self.graph.program.takes is not None:
            return state
        if not isinstance(state, Mapping):
            state = {key: getattr(state, key) for key in self.graph.program.input_keys if hasattr(state, key)}
        return {key: value for key, value in state.items() if key in self.graph.program.input_keys}

    def _out(self, values: Any) -> Any:
        if ROOT in self.outer or self.graph.program.gives is not None:
            return values
        return {key: value for key, value in values.items() if key in self.outer}


def subgraph_callee(graph: CompiledGraph, outer: Mapping[str, BaseChannel[Any]]) -> Callee:
    node = SubgraphNode(graph, outer)
    return Callee(graph.name, node.invoke, node.ainvoke)
