"""Teams beside Strands: a ring of agents that hand a task on, and a graph of agents in layers.

The model is scripted and the same for both (`agents.scripted`); limits are the same and never reached. What is
measured is a turn of a new team: the call, not the making of the agents.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from importlib import import_module
from itertools import count, pairwise
from time import perf_counter
from typing import Any

from benchmarks.agent_frameworks import AgentFramework
from benchmarks.agents import Chunks, calling, saying, scripted
from benchmarks.scenario import Sample, Scenario, Sizes, Target

SAID = "This is my part of it."


def member(framework: AgentFramework, name: str, answer: Callable[[int], Chunks]) -> Any:
    return framework.Agent(
        model=scripted(framework, answer),
        name=name,
        callback_handler=None,
        conversation_manager=framework.NullConversationManager(),
    )


def ring_of(framework: AgentFramework, agents: int, handoffs: int) -> Any:
    """A swarm in which each agent hands over to the next one, so many times in all."""
    made = count()

    def handing_to(name: str) -> Callable[[int], Chunks]:
        def answer(number: int) -> Chunks:
            if number % 2 or next(made) >= handoffs:
                return saying(SAID)
            return calling("handoff_to_agent", number, {"agent_name": name, "message": "go on"})

        return answer

    names = [f"agent_{number}" for number in range(agents)]
    nodes = [
        member(framework, name, handing_to(names[(place + 1) % agents])) for place, name in enumerate(names)
    ]
    limits = {"max_handoffs": 2 * handoffs + 2, "max_iterations": 2 * handoffs + 2}
    return import_module(f"{framework.name.lower()}.multiagent").Swarm(nodes, **limits)


def layers_of(framework: AgentFramework, width: int) -> Any:
    """A graph of as many layers as each has agents, each of which depends on all of the layer before."""
    builder = import_module(f"{framework.name.lower()}.multiagent").GraphBuilder()
    layers = [[f"agent_{layer}_{place}" for place in range(width)] for layer in range(width)]
    for name in (name for layer in layers for name in layer):
        builder.add_node(member(framework, name, lambda number: saying(SAID)), name)
    for before, after in pairwise(layers):
        for source in before:
            for target in after:
                builder.add_edge(source, target)
    builder.set_max_node_executions(2 * width * width)
    return builder.build()


def turn(
    framework: AgentFramework, saver: Any, team: Callable[[AgentFramework], Any], executions: int
) -> Sample:
    """Seconds of a turn of a new team, in which so many nodes are executed."""

    def sample() -> float:
        orchestrator = team(framework)
        started = perf_counter()
        result = orchestrator("go")
        elapsed = perf_counter() - started
        assert (result.status.value, result.execution_count) == ("completed", executions)
        return elapsed

    return sample


def turn_awaited(
    framework: AgentFramework, saver: Any, team: Callable[[AgentFramework], Any], executions: int
) -> Sample:
    """The same in a running event loop; starting the loop is no part of it."""

    async def seconds() -> float:
        orchestrator = team(framework)
        started = perf_counter()
        result = await orchestrator.invoke_async("go")
        elapsed = perf_counter() - started
        assert (result.status.value, result.execution_count) == ("completed", executions)
        return elapsed

    return lambda: asyncio.run(seconds())


def rows(sizes: Sizes) -> list[Scenario]:
    agents, handoffs, width = sizes.ring, sizes.handoffs, sizes.layers
    ring: dict[str, Any] = {
        "team": partial(ring_of, agents=agents, handoffs=handoffs),
        "executions": handoffs + 1,
    }
    layers: dict[str, Any] = {"team": partial(layers_of, width=width), "executions": width * width}
    return [
        Scenario(
            f"team: ring of {agents} agents, {handoffs} handoffs, scripted models, in memory",
            "ms",
            Target("ratio", 5),
            partial(turn, **ring),
            peer="Strands",
        ),
        Scenario(
            "team: the ring, awaited", "ms", None, partial(turn_awaited, **ring), peer="Strands", slow=True
        ),
        Scenario(
            f"team: graph of {width} × {width} agents in layers, scripted models, in memory",
            "ms",
            Target("ratio", 5),
            partial(turn, **layers),
            peer="Strands",
        ),
        Scenario(
            "team: the graph, awaited", "ms", None, partial(turn_awaited, **layers), peer="Strands", slow=True
        ),
    ]
