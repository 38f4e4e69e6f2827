"""The structural check of a graph: what `compile()` refuses, and what it warns of.

All faults are found and reported together, so that a graph is repaired in one go.

What START reaches is the least fixed point of two rules: an edge, a branch or a declared destination passes
on as soon as its source is reached; a join passes on when *all* its sources are. So a join never helps to
reach its own sources, while a loop that is entered by another way (`plan -> a, b; [a, b] -> plan`) is sound.
Each edge is looked at once. networkx is not used: it has no node that waits for all its predecessors, its
reachability alone would therefore answer another question, and importing it costs more than checking a
hundred thousand nodes.
"""

from __future__ import annotations

import itertools
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from graphkit.constants import END, START
from graphkit.errors import InvalidGraphError, UnreachableNodeWarning

__all__ = ["BranchDescription", "GraphDescription", "check_structure"]


@dataclass(frozen=True, slots=True)
class BranchDescription:
    """A conditional edge: from `source` to some of `targets`; None if it could go to any node."""

    source: str
    targets: tuple[str, ...] | None
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphDescription:
    """A graph by its names alone.

    `joins` are (sources, target); `destinations` are what a node declares its `Command`s may go to;
    `dynamic` are the nodes whose code may go elsewhere. START and END are not among the `nodes`. `misfits` are the
    nodes that are graphs whose state has nothing in common with that of this one.
    """

    nodes: tuple[str, ...]
    edges: tuple[tuple[str, str], ...] = ()
    joins: tuple[tuple[tuple[str, ...], str], ...] = ()
    branches: tuple[BranchDescription, ...] = ()
    destinations: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: dict[str, tuple[str, ...]]())
    dynamic: frozenset[str] = frozenset()
    misfits: tuple[str, ...] = ()


def check_structure(description: GraphDescription) -> None:
    """Raise `InvalidGraphError` with every structural fault; warn once of the nodes that nothing reaches.

    Faults: an endpoint of an edge, a join, a branch or a destination that is no node; an empty join; END as
    a source or START as a target; nothing that leads out of START; a join that can never be complete, if
    the structure alone decides that; a misfit. A node without a way out is legal. `UnreachableNodeWarning` names all
    unreachable nodes and is attributed to the caller of the function that called this one.
    """
    reached = _reached(description)
    faults = [
        *_endpoint_faults(description),
        *_entry_faults(description),
        *_join_faults(description, reached),
        *_misfit_faults(description),
    ]
    if faults:
        raise InvalidGraphError(_report(faults))
    unreachable = [node for node in description.nodes if node not in reached]
    if unreachable:
        warnings.warn(_unreachable(unreachable), UnreachableNodeWarning, stacklevel=3)


def _reached(description: GraphDescription) -> set[str]:
    """Every name that can be reached from START, START included."""
    ways: defaultdict[str, list[str]] = defaultdict(list)
    for source, target in itertools.chain(description.edges, _declared_ways(description)):
        ways[source].append(target)
    joins: defaultdict[str, list[int]] = defaultdict(list)  # source -> the joins that wait for it
    missing: list[int] = []
    for number, (sources, _) in enumerate(description.joins):
        missing.append(len(set(sources)))
        for source in set(sources):
            joins[source].append(number)
    anywhere = {branch.source for branch in description.branches if branch.targets is None}

    reached: set[str] = set()
    frontier = [START]
    while frontier:
        name = frontier.pop()
        if name in reached:
            continue
        if name in anywhere:
            return {START, END, *description.nodes}
        reached.add(name)
        if name in ways:
            frontier += ways[name]
        if name in joins:
            for number in joins[name]:
                missing[number] -= 1
                if not missing[number]:
                    frontier.append(description.joins[number][1])
    return reached


def _declared_ways(description: GraphDescription) -> Iterator[tuple[str, str]]:
    for branch in description.branches:
        for target in branch.targets or ():
            yield branch.source, target
    for source, targets in description.destinations.items():
        for target in targets:
            yield source, target


def _endpoint_faults(description: GraphDescription) -> Iterator[str]:
    nodes = frozenset(description.nodes)
    sources, targets = nodes | {START}, nodes | {END}
    for source, target in description.edges:
        if source not in sources:
            yield f"the edge {source!r} -> {target!r} starts at {_no_source(source, nodes)}"
        if target not in targets:
            yield f"the edge {source!r} -> {target!r} leads to {_no_target(target, nodes)}"
    for join_sources, target in description.joins:
        if not join_sources:
            yield f"the join into {target!r} has no sources; name some in add_edge([...], {target!r})"
        for source in join_sources:
            if source not in sources:
                yield f"the join {_join(join_sources, target)} starts at {_no_source(source, nodes)}"
        if target not in targets:
            yield f"the join {_join(join_sources, target)} leads to {_no_target(target, nodes)}"
    for branch in description.branches:
        if branch.source not in sources:
            yield f"the branch {branch.name!r} starts at {_no_source(branch.source, nodes)}"
        for target in branch.targets or ():
            if target not in targets:
                yield f"the branch {branch.name!r} of {branch.source!r} leads to {_no_target(target, nodes)}"
    for source, declared in description.destinations.items():
        if source not in nodes:
            yield f"destinations are declared for {_no_source(source, nodes)}"
        for target in declared:
            if target not in targets:
                yield f"the destinations of {source!r} name {_no_target(target, nodes)}"


def _entry_faults(description: GraphDescription) -> Iterator[str]:
    enters = (
        any(source == START for source, _ in description.edges)
        or any(branch.source == START for branch in description.branches)
        or any(set(sources) == {START} for sources, _ in description.joins)
    )
    if not enters:
        yield "it has no entry: nothing leads out of START; say add_edge(START, ...) or set_entry_point(...)"


def _join_faults(description: GraphDescription, reached: set[str]) -> Iterator[str]:
    if not reached.isdisjoint(description.dynamic):
        return  # a Command or a Send may reach what the structure does not
    known = frozenset(description.nodes)
    for sources, target in description.joins:
        # a source that is no node at all is a fault of its own
        never = [source for source in dict.fromkeys(sources) if source in known and source not in reached]
        if never:
            yield (
                f"the join {_join(sources, target)} can never be complete: nothing that runs before it leads "
                f"to {_listed(never)}; add an edge, or, if a Command goes there, declare it "
                "(add_node(..., destinations=...) or a return type Command[Literal[...]])"
            )


def _misfit_faults(description: GraphDescription) -> Iterator[str]:
    for node in description.misfits:
        yield (
            f"the node {node!r} is a graph whose state is one value, and the state of this graph has keys; call it "
            "inside of a function that says which key is meant: lambda state: {key: graph.invoke(state[key])}"
        )


def _no_source(name: str, nodes: frozenset[str]) -> str:
    return "END, where nothing goes on" if name == END else _unknown(name, nodes)


def _no_target(name: str, nodes: frozenset[str]) -> str:
    return "START, which only begins a run" if name == START else _unknown(name, nodes)


def _unknown(name: str, nodes: frozenset[str]) -> str:
    from difflib import get_close_matches  # only a faulty graph pays for it

    if name in ("START", "END"):
        return f"{name!r}, which is no node; did you mean graphkit.{name}, which is '__{name.lower()}__'?"
    near = get_close_matches(name, sorted(nodes), n=1)
    remedy = f"did you mean {near[0]!r}?" if near else f"add it with add_node({name!r}, ...)"
    return f"{name!r}, which is no node; {remedy}"


def _join(sources: tuple[str, ...], target: str) -> str:
    return f"{list(sources)!r} -> {target!r}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _report(faults: list[str]) -> str:
    if len(faults) == 1:
        return f"The graph cannot be compiled: {faults[0]}."
    return "\n".join(
        [f"The graph cannot be compiled, it has {len(faults)} faults:", *(f"- {f}" for f in faults)]
    )


def _unreachable(nodes: list[str]) -> str:
    return (
        f"No edge, branch or declared destination reaches {_listed(nodes)}; only a goto or a Send can. "
        "If one does, declare it: add_node(..., destinations=...) or a return type Command[Literal[...]]."
    )
