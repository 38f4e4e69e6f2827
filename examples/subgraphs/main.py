"""Graphs inside a graph: `python examples/subgraphs/main.py FILE`.

A trip is planned by three smaller graphs. One *is* a node: it shares the state keys that both declare, and what it
keeps to itself stays private. One is *called* by a node's function, several times side by side. One is compiled with
`checkpointer=True`: it goes on with its own state when the thread takes its next turn. Questions come out of any
depth and are answered by their ids; the graph that asked goes on, and what has run does not run again.
"""

from __future__ import annotations

import argparse
import operator
import sys
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Annotated, Any, TypedDict

from graphkit import START, Command, StateGraph, interrupt
from graphkit.checkpoint.sqlite import SqliteSaver
from graphkit.types import RunnableConfig

LIMIT = 300
PRICES = {"Lisbon": 240, "Porto": 410, "Faro": 330}


class Offer(TypedDict, total=False):
    city: str
    price: int
    accepted: bool


class Notes(TypedDict, total=False):
    cities: list[str]
    seen: Annotated[list[str], operator.add]


class Trip(TypedDict, total=False):
    cities: list[str]
    budget: int
    booked: Annotated[list[str], operator.add]


class Money(TypedDict, total=False):
    cities: list[str]
    estimates: Annotated[list[int], operator.add]
    budget: int


def estimate(state: Money) -> Money:
    print("  estimating")
    return {"estimates": [PRICES[city] for city in state["cities"]]}


def ask_for_budget(state: Money) -> Money:
    return {"budget": interrupt(f"The trip costs about {sum(state['estimates'])}. What may it cost?")}


def find_offer(state: Offer) -> Offer:
    sys.stdout.write(
        f"  looking for a hotel in {state['city']}\n"
    )  # one write: several look at the same time
    return {"price": PRICES[state["city"]]}


def accept(state: Offer) -> Offer:
    dear = state["price"] > LIMIT
    return {"accepted": not dear or interrupt(f"{state['price']} in {state['city']}?")}


def remember(state: Notes) -> Notes:
    return {"seen": state["cities"]}


budget = StateGraph(Money).add_sequence([estimate, ask_for_budget]).add_edge(START, "estimate").compile()
offer = StateGraph(Offer).add_sequence([find_offer, accept]).add_edge(START, "find_offer").compile()
diary = StateGraph(Notes).add_node(remember).add_edge(START, "remember").compile(checkpointer=True)


def book(state: Trip) -> Trip:
    """Calls a graph for each city. When this runs again, each call finds its own."""
    with ThreadPoolExecutor() as pool:
        calls = [pool.submit(copy_context().run, offer.invoke, {"city": city}) for city in state["cities"]]
    asked = [error for call in calls if (error := call.exception()) is not None]
    if asked:
        raise BaseExceptionGroup("offers", asked)
    return {"booked": [call.result()["city"] for call in calls if call.result()["accepted"]]}


def build_graph(saver: SqliteSaver) -> Any:
    builder = StateGraph(Trip).add_sequence([("budget", budget), ("book", book), ("diary", diary)])
    return builder.add_edge(START, "budget").compile(checkpointer=saver)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("file")
    config: RunnableConfig = {"configurable": {"thread_id": "trip"}}
    with SqliteSaver.from_conn_string(parser.parse_args().file) as saver:
        saver.delete_thread("trip")  # what an earlier run of this program has left
        graph = build_graph(saver)
        result = graph.run({"cities": ["Lisbon", "Porto", "Faro"]}, config)
        (task,) = graph.get_state(config, subgraphs=True).tasks
        print(f"inside {task.name}: {task.state.values['estimates']}, next {task.state.next}")
        print(f"asked: {result.interrupts[0].value}")
        result = graph.run(Command(resume=1000), config)
        for question in result.interrupts:
            print(f"asked: {question.value}")
        answers = {question.id: "Faro" in question.value for question in result.interrupts}
        result = graph.run(Command(resume=answers), config)
        print(f"booked: {', '.join(result.value['booked'])}")

        graph.invoke({"cities": ["Lisbon"]}, config)
        graph.invoke(Command(resume=300), config)
        noted = graph.get_state({"configurable": {"thread_id": "trip", "checkpoint_ns": "diary"}})
        print(f"the diary of both turns: {', '.join(noted.values['seen'])}")


if __name__ == "__main__":
    main()
