"""Graphs whose every effect is witnessed, and a client that brings a thread to its end whatever happened to it."""

from __future__ import annotations

import asyncio
import operator
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict

from graphkit import START, Command, Send, StateGraph, interrupt
from graphkit.checkpoint.postgres import PostgresSaver
from graphkit.checkpoint.sqlite import SqliteSaver
from graphkit.types import RunnableConfig
from tests.faults import Witness
from tests.safety.forks import rehearse

COLOURS = ("sync", "async")
GIVEN: Any = {"log": ["in"]}
ANSWER = "yes"


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


def open_saver(database: str, **options: Any) -> Any:
    return (SqliteSaver if database.startswith("sqlite") else PostgresSaver)(database, **options)


def thread(name: str) -> RunnableConfig:
    return {"configurable": {"thread_id": name}}


def call(colour: str, graph: Any, given: Any, config: RunnableConfig, **options: Any) -> Any:
    if colour == "sync":
        return graph.invoke(given, config, **options)
    return asyncio.run(graph.ainvoke(given, config, **options))


def shown(colour: str, graph: Any, given: Any, config: RunnableConfig, **options: Any) -> Iterator[Any]:
    """What a stream shows, when it shows it."""
    if colour == "sync":
        yield from graph.stream(given, config, **options)
        return
    with asyncio.Runner() as loop:
        stream = graph.astream(given, config, **options)
        while (chunk := loop.run(anext(stream, None))) is not None:
            yield chunk


# Nodes


def nothing(name: str) -> None:
    pass


@dataclass(frozen=True)
class Cast:
    """Makes the nodes of one process. Each notes its thread and name in the witness before it does anything,
    and calls `on_effect` after that."""

    colour: str
    witness: Witness
    on_effect: Callable[[str], None] = nothing

    def node(self, name: str, work: Callable[[str], Any] | None = None) -> Callable[..., Any]:
        """A node that logs its name, or what `work` makes of the thread's."""

        def run(state: Any, config: RunnableConfig) -> State:
            self.effect(config, name)
            return {"log": [name if work is None else work(config["configurable"]["thread_id"])]}

        async def arun(state: Any, config: RunnableConfig) -> State:
            return run(state, config)

        return arun if self.colour == "async" else run

    def around(self, name: str, graph: Any) -> Callable[..., Any]:
        """A node that has an effect and then runs another graph."""

        def run(state: State, config: RunnableConfig) -> State:
            self.effect(config, name)
            return {"log": [name, *graph.invoke({"log": []})["log"]]}

        async def arun(state: State, config: RunnableConfig) -> State:
            self.effect(config, name)
            return {"log": [name, *(await graph.ainvoke({"log": []}))["log"]]}

        return arun if self.colour == "async" else run

    def effect(self, config: RunnableConfig, name: str) -> None:
        self.witness.note(f"{config['configurable']['thread_id']} {name}")
        self.on_effect(name)


def effects(witness: Witness) -> dict[str, Counter[str]]:
    """How often each node of each thread has had its effect."""
    found: dict[str, Counter[str]] = {}
    for line in witness.lines():
        name, _, node = line.rpartition(" ")
        found.setdefault(name, Counter())[node] += 1
    return found


def in_a_row(builder: StateGraph[Any], nodes: Mapping[str, Callable[..., Any]]) -> StateGraph[Any]:
    return builder.add_sequence(list(nodes.items())).add_edge(START, next(iter(nodes)))


# Scenarios


@dataclass(frozen=True)
class Scenario:
    """A graph, and which effects belong to one superstep: after a crash those of one may come once more.

    With `one_by_one` the tasks of a superstep do not run side by side, for which of several threads ends first
    would decide how often what has finished is recorded.
    """

    build: Callable[[Cast, str], StateGraph[Any]]
    supersteps: Sequence[frozenset[str]]
    one_by_one: bool = False

    def config(self, name: str) -> RunnableConfig:
        return {**thread(name), "max_concurrency": 1} if self.one_by_one else thread(name)

    def may_repeat(self, repeated: Counter[str]) -> bool:
        once = all(count == 1 for count in repeated.values())
        return once and any(repeated.keys() <= names for names in self.supersteps)


def _linear(cast: Cast, folder: str) -> StateGraph[Any]:
    return in_a_row(StateGraph(State), {name: cast.node(name) for name in "abc"})


def _fan_out(cast: Cast, folder: str) -> StateGraph[Any]:
    builder = (
        StateGraph(State).add_node("a", cast.node("a")).add_edge(START, "a").add_node("z", cast.node("z"))
    )
    for name in ("p", "q", "r"):
        builder.add_node(name, cast.node(name)).add_edge("a", name)
    return builder.add_edge(["p", "q", "r"], "z")


def _interrupt(cast: Cast, folder: str) -> StateGraph[Any]:
    nodes = {"a": cast.node("a"), "b": cast.node("b", lambda thread: interrupt("sure?")), "c": cast.node("c")}
    return in_a_row(StateGraph(State), nodes)


def _subgraph(cast: Cast, folder: str) -> StateGraph[Any]:
    inner = in_a_row(StateGraph(State), {"x": cast.node("x"), "y": cast.node("y")}).compile()
    nodes = {"a": cast.node("a"), "outer": cast.around("outer", inner), "c": cast.node("c")}
    return in_a_row(StateGraph(State), nodes)


def _error(cast: Cast, folder: str) -> StateGraph[Any]:
    def fragile(thread: str) -> str:
        if not Path(folder, f"{thread} mended").exists():
            raise ValueError("s is broken")
        return "s"

    builder = StateGraph(State).add_node("a", cast.node("a")).add_edge(START, "a")
    builder.add_node("q", cast.node("q")).add_edge("a", "q")
    builder.add_node("s", cast.node("s", fragile)).add_edge("a", "s")
    return builder.add_node("z", cast.node("z")).add_edge(["q", "s"], "z")


def _map(cast: Cast, folder: str) -> StateGraph[Any]:
    def scatter(state: State) -> list[Send]:
        return [Send("work", number) for number in range(3)]

    async def awork(number: int, config: RunnableConfig) -> State:
        return work(number, config)

    def work(number: int, config: RunnableConfig) -> State:
        cast.effect(config, f"work{number}")
        return {"log": [number]}

    builder = StateGraph(State).add_node("work", awork if cast.colour == "async" else work)
    builder.add_node("z", cast.node("z")).add_edge("work", "z")
    return builder.add_conditional_edges(START, scatter, ["work"])


def _supersteps(*names: str) -> list[frozenset[str]]:
    return [frozenset(together.split()) for together in names]


SCENARIOS = {
    "linear": Scenario(_linear, _supersteps("a", "b", "c")),
    "fan-out": Scenario(_fan_out, _supersteps("a", "p q r", "z")),
    "interrupt": Scenario(_interrupt, _supersteps("a", "b", "c")),
    "subgraph": Scenario(_subgraph, _supersteps("a", "outer x", "outer y", "c")),
    "error": Scenario(_error, _supersteps("a", "q s", "z"), one_by_one=True),
    "map": Scenario(_map, _supersteps("work0 work1 work2", "z")),
}


# The client


class View(NamedTuple):
    """A thread as it is seen from outside, without ids and times."""

    values: Any
    next: tuple[str, ...]
    history: list[tuple[int, str, tuple[str, ...], Any]]


def view(graph: Any, config: RunnableConfig) -> View:
    state = graph.get_state(config)
    history = list(graph.get_state_history(config))
    parents = [snapshot.parent_config for snapshot in history]
    assert parents == [*(snapshot.config for snapshot in history[1:]), None][: len(parents)], "history forks"
    ids = [snapshot.config["configurable"]["checkpoint_id"] for snapshot in history]
    assert ids == sorted(ids, reverse=True), "ids do not sort by time"
    entries = [(s.metadata["step"], s.metadata["source"], s.next, s.values) for s in history]
    return View(state.values, state.next, entries)


def next_call(graph: Any, config: RunnableConfig) -> Any:
    """What a client that knows nothing but the thread gives to `invoke` next; None when it has ended."""
    state = graph.get_state(config)
    if state.metadata is None:
        return (GIVEN,)
    if state.interrupts:
        return (Command(resume={question.id: ANSWER for question in state.interrupts}),)
    return (None,) if state.next else None


def finish(colour: str, graph: Any, config: RunnableConfig, folder: str) -> View:
    """Bring the thread to its end, wherever it is."""
    while (given := next_call(graph, config)) is not None:
        call_mending(colour, graph, given[0], config, folder)
    return view(graph, config)


def run_whole(colour: str, graph: Any, config: RunnableConfig, folder: str) -> None:
    """Run a new thread to its end, without looking at it in between."""
    result = call_mending(colour, graph, GIVEN, config, folder)
    if result is None:
        result = call(colour, graph, None, config)
    if "__interrupt__" in result:
        call(colour, graph, Command(resume=ANSWER), config)


def call_mending(colour: str, graph: Any, given: Any, config: RunnableConfig, folder: str) -> Any:
    """The result; None if a node failed: then a file in `folder` says that it is mended."""
    try:
        return call(colour, graph, given, config)
    except ValueError as error:
        assert "is broken" in str(error)
        Path(folder, f"{config['configurable']['thread_id']} mended").touch()
        return None


def warm_up(database: str, colour: str) -> None:
    """Prepare a nursery for runs of a graph; see `rehearse`."""
    rehearse(_run_and_look, database, colour)


def _run_and_look(database: str, colour: str) -> None:
    witness = Witness(os.devnull)
    graph = in_a_row(StateGraph(State), {"a": Cast(colour, witness).node("a")}).compile(open_saver(database))
    call(colour, graph, GIVEN, thread("warm"))
    view(graph, thread("warm"))
