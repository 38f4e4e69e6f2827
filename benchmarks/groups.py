"""All lines of the table, in its order; each group has a chart."""

from __future__ import annotations

from benchmarks import (
    agents,
    conversations,
    counts,
    growth,
    programs,
    react,
    runs,
    starting,
    supersteps,
    teams,
)
from benchmarks.scenario import Scenario, Sizes


def groups(sizes: Sizes) -> dict[str, list[Scenario]]:
    modules = (starting, supersteps, growth, runs, conversations, counts, programs, react, agents, teams)
    return {module.__name__.rpartition(".")[2]: module.rows(sizes) for module in modules}
