"""What the processes of test_concurrency.py run: several on one thread, or one that is killed.

Effects are witnessed by lines in a file that is only ever appended to, outside of the database.
"""

import asyncio
import operator
import os
import signal
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import Annotated, Any, TypedDict

from graphkit import START, StateGraph, interrupt
from graphkit.checkpoint.postgres import PostgresSaver
from graphkit.checkpoint.sqlite import SqliteSaver
from graphkit.types import RunnableConfig

PATIENCE = 60
"""Seconds after which a process gives up waiting for another one; reached only by a defect."""


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


def note(witness: str, line: str) -> None:
    """One line in one write: never torn, whoever writes at the same time."""
    descriptor = os.open(witness, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


def open_saver(location: str) -> Any:
    """On an SQLite file or, by its URL, a PostgreSQL database."""
    return PostgresSaver(location) if location.startswith("postgresql") else SqliteSaver(location)


def thread(name: str) -> RunnableConfig:
    return {"configurable": {"thread_id": name}}


def call(colour: str, graph: Any, given: Any, config: RunnableConfig, **options: Any) -> Any:
    if colour == "sync":
        return graph.invoke(given, config, **options)
    return asyncio.run(graph.ainvoke(given, config, **options))


# Several processes on one thread

barriers: dict[str, Barrier] = {}


def meet_at(start: Barrier, together: Barrier) -> None:
    """Run once per process."""
    barriers.update(start=start, together=together)


class Party:
    """One of several processes that make the same call at the same moment.

    With `overlap` the one that is inside its node stays there until all others have been refused.
    """

    def __init__(self, me: str, path: str, witness: str, overlap: bool) -> None:
        self.me = me
        self.witness = witness
        self.overlap = overlap
        self.met = False
        self.saver = open_saver(path)
        self.graph = StateGraph(State).add_node("work", self.work).add_edge(START, "work").compile(self.saver)

    def work(self, state: State, config: RunnableConfig) -> State:
        if state["log"][0] == "ask":
            interrupt("sure?")
        note(self.witness, f"{config['configurable']['thread_id']} {self.me}")
        self.meet()
        return {"log": [f"out {self.me}"]}

    def meet(self) -> None:
        if self.overlap and not self.met:
            self.met = True
            barriers["together"].wait(PATIENCE)

    def attempt(self, colour: str, name: str, given: Any) -> Any:
        """The log of a call that worked, or the name of the error that it raised."""
        self.met = False
        barriers["start"].wait(PATIENCE)
        try:
            return call(colour, self.graph, given, thread(name))["log"]
        except Exception as error:
            return type(error).__name__
        finally:
            self.meet()


def take_part(
    me: str, path: str, witness: str, calls: Sequence[tuple[str, Any]], colour: str, overlap: bool
) -> list[Any]:
    """Make each call (thread, input) together with the others; what came of it."""
    party = Party(me, path, witness, overlap)
    try:
        return [party.attempt(colour, name, given) for name, given in calls]
    finally:
        party.saver.close()


# A process that is killed

Gate = Callable[[], None]


def line_of_three(path: str, witness: str, gate_at: str, gate: Gate) -> tuple[Any, Any]:
    """a, b, c in a row; the node `gate_at` goes through the gate before it returns."""

    def node(name: str) -> Callable[[State], State]:
        def work(state: State) -> State:
            note(witness, name)
            if name == gate_at:
                gate()
            return {"log": [name]}

        return work

    saver = open_saver(path)
    builder: StateGraph[Any] = (
        StateGraph(State).add_sequence([(name, node(name)) for name in "abc"]).add_edge(START, "a")
    )
    return builder.compile(saver), saver


def two_beside(path: str, witness: str, gate_at: str, gate: Gate) -> tuple[Any, Any]:
    """`quick` and `slow` side by side; `slow` goes through the gate when `quick` has been recorded."""
    saver = open_saver(path)

    def quick(state: State) -> State:
        note(witness, "quick")
        return {"log": ["quick"]}

    def slow(state: State) -> State:
        note(witness, "slow")
        if gate_at:
            with open_saver(path) as reader:
                while not recorded(reader):
                    pass
            gate()
        return {"log": ["slow"]}

    def recorded(reader: Any) -> bool:
        tasks = graph_on(reader).get_state(thread("t")).tasks
        return any(task.name == "quick" and task.result for task in tasks)

    def graph_on(saver: Any) -> Any:
        builder: StateGraph[Any] = StateGraph(State).add_node("quick", quick).add_node("slow", slow)
        return builder.add_edge(START, "quick").add_edge(START, "slow").compile(saver)

    return graph_on(saver), saver


GRAPHS: dict[str, Callable[[str, str, str, Gate], tuple[Any, Any]]] = {
    "line": line_of_three,
    "beside": two_beside,
}


def run_until_killed(
    shape: str, path: str, witness: str, gate_at: str, to_parent: Connection, colour: str, durability: str
) -> None:
    """Run the graph; inside of `gate_at`, tell the parent and wait for the end."""
    # A test run that was started in the background of a shell ignores SIGINT, and so would its children.
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def gate() -> None:
        to_parent.send("inside")
        to_parent.recv()

    graph, _ = GRAPHS[shape](path, witness, gate_at, gate)
    call(colour, graph, {"log": ["in"]}, thread("t"), durability=durability)
