"""Runs one graph and prints everything there is to see of it, without ids and times: test_determinism.py."""

import json
import operator
import sys
from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypedDict

from graphkit import END, START, Command, Send, StateGraph
from graphkit.checkpoint.memory import InMemorySaver
from graphkit.types import RunnableConfig

MODES = ["values", "updates", "tasks", "checkpoints", "custom"]


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    seen: Annotated[set[str], operator.or_]


def says(name: str) -> Callable[[Any], State]:
    return lambda state: {"log": [name], "seen": {name}}


def scatter(state: State) -> list[Any]:
    """Sends, names and duplicates, in no order."""
    return [Send("worker", 2), "zeta", Send("alpha", 1), "alpha", Send("worker", 0), "zeta"]


def tangled() -> Any:
    """Nodes added in no order; branches, joins, sends and gotos meet."""
    builder: StateGraph[Any] = StateGraph(State)
    for name in ("zeta", "mid", "alpha", "join", "last", "late"):
        builder.add_node(name, says(name), defer=name == "late")
    builder.add_node("worker", lambda number: {"log": [f"worker {number}"], "seen": {f"w{number}"}})
    builder.add_node("jump", lambda state: Command(update={"log": ["jump"]}, goto=["last", "alpha"]))
    builder.add_edge(START, "mid").add_edge("mid", "jump").add_edge(["alpha", "zeta"], "join")
    builder.add_conditional_edges(START, scatter, ["worker", "zeta", "alpha"])
    builder.add_conditional_edges("join", lambda state: ["last", END], ["last", END])
    builder.add_edge("worker", "late").add_edge("join", "late")
    return builder.compile(InMemorySaver())


def without_ids(value: Any) -> Any:
    """Plain data, without what differs from run to run."""
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if key not in ("id", "config", "parent_config")}
        return {str(key): without_ids(item) for key, item in kept.items()}
    if isinstance(value, list | tuple):
        return [without_ids(item) for item in value]
    return sorted(value) if isinstance(value, set) else repr(value)


def by_kind(chunks: Iterable[tuple[str, Any]]) -> dict[str, list[Any]]:
    """A stream of several modes, each kind by itself: how kinds interleave depends on when tasks are recorded."""
    kinds: dict[str, list[Any]] = {}
    for mode, chunk in chunks:
        kind = f"{mode} started" if mode == "tasks" and "input" in chunk else mode
        kinds.setdefault(kind, []).append(without_ids(chunk))
    return kinds


def everything() -> dict[str, Any]:
    """The stream, one task at a time, and the history, without results: when a superstep takes long, those of tasks
    that have finished are recorded meanwhile."""
    graph = tangled()
    config: RunnableConfig = {"configurable": {"thread_id": "t"}, "max_concurrency": 1}
    stream = by_kind(graph.stream({"log": []}, config, stream_mode=MODES))
    history = [
        without_ids((snapshot.values, snapshot.next, [(t.name, t.path) for t in snapshot.tasks]))
        for snapshot in graph.get_state_history(config)
    ]
    return {"stream": stream, "history": history}


if __name__ == "__main__":
    json.dump(everything(), sys.stdout, indent=1)
