"""What an orchestrator adds to the work of its members, in counts that no busy machine changes."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from graphkit.hooks import MultiAgentHandoffEvent
from graphkit.models import ScriptedModel, ToolCall
from graphkit.multiagent import Graph, MultiAgentBase, Swarm
from tests.agents.conftest import agent_of
from tests.multiagent.teams import TeamDoor

NODES = 12


def chain() -> Graph:
    names = [f"n{number:02}" for number in range(NODES)]
    return Graph({name: agent_of("said") for name in names}, list(itertools.pairwise(names)))


def layers() -> Graph:
    """Four layers of three, each node after all of the layer before."""
    layers = [[f"n{layer}{number}" for number in range(3)] for layer in range(NODES // 3)]
    edges = [(one, other) for a, b in itertools.pairwise(layers) for one in a for other in b]
    return Graph({name: agent_of("said") for layer in layers for name in layer}, edges)


def ring() -> Swarm:
    calls = [
        [ToolCall("handoff_to_agent", {"agent_name": f"a{(number + 1) % 3}", "message": "go on"})]
        for number in range(3)
    ]
    models = [ScriptedModel([call, "ok"], repeat=True) for call in calls]
    agents = {f"a{number}": agent_of(model=model) for number, model in enumerate(models)}
    return Swarm(agents, max_iterations=NODES, max_handoffs=NODES)


@pytest.mark.parametrize(
    ("make", "own"),
    [(chain, NODES), (layers, 2 * NODES // 3), (ring, NODES)],
    ids=["chain", "layers", "ring"],
)
@pytest.mark.parametrize("heard", [False, True])
def test_an_orchestrators_own_supersteps(
    either: TeamDoor, make: Callable[[], MultiAgentBase], own: int, heard: bool
) -> None:
    """One for each execution where nobody hears what follows it, else two; nodes side by side share theirs. A turn has
    three more: its input, the state with it, and its beginning."""
    team = make()
    if heard:
        team.add_hook(lambda event: None, MultiAgentHandoffEvent)
        own = 2 * NODES if own == NODES else own
    result = either(team, "go")
    assert len(result.execution_order) == NODES
    assert len(list(team.graph.get_state_history(team.thread().config))) == own + 3


def test_a_node_that_ran_alone_says_what_follows_as_the_node_after_it_would(either: TeamDoor) -> None:
    """Whether anybody hears of it or not, the same happens, and the same is kept."""

    def kept(team: MultiAgentBase) -> Any:
        result = either(team, "go")
        values = team.thread().snapshot.values
        shown = {key: values[key] for key in ("order", "own", "outcome") if key in values}
        return shown, result.status, result.reason, result.accumulated_usage, result.execution_count

    for make in (chain, ring):
        heard = make()
        heard.add_hook(lambda event: None, MultiAgentHandoffEvent)
        assert kept(make()) == kept(heard)
