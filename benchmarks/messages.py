"""Conversations of messages of 1 KB: the messages, and graphs that say them or are told them.

A message is a dict with a role and 1 KB of random ASCII, which nothing compresses. A *turn* is either one superstep
of a running graph, whose node appends the message, or one invoke, whose input is the message.
"""

from __future__ import annotations

import operator
import random
import string
from collections.abc import Callable
from time import perf_counter
from typing import Annotated, Any, TypedDict

from benchmarks.frameworks import Framework
from benchmarks.scenario import FULL, options

MESSAGE_SIZE = 1024

Reducer = Callable[[Any, Any], Any]

chance = random.Random(1000)


def new_message() -> dict[str, str]:
    return {"role": "user", "content": "".join(chance.choices(string.ascii_letters, k=MESSAGE_SIZE))}


MESSAGES = [new_message() for _ in range(FULL.memory_turns)]
"""Made beforehand: what a message costs to make is not what is measured."""


def state_with(reducer: Reducer) -> Any:
    return TypedDict(  # type: ignore[operator]
        "Conversation", {"messages": Annotated[list[Any], reducer], "turn": int, "goal": int}
    )


def compile_running(framework: Framework, saver: Any, reducer: Reducer, note: Callable[[float], None]) -> Any:
    """A node that appends a message and runs again, until `goal` turns are done. `note` gets the moments at
    which it begins."""

    def say(state: Any) -> dict[str, Any]:
        note(perf_counter())
        turn = state["turn"]
        return {"messages": [dict(MESSAGES[turn % len(MESSAGES)])], "turn": turn + 1}

    def again(state: Any) -> str:
        return framework.END if state["turn"] >= state["goal"] else "say"

    graph = framework.StateGraph(state_with(reducer))
    graph.add_node("say", say)
    graph.add_edge(framework.START, "say")
    graph.add_conditional_edges("say", again, ["say", framework.END])
    return graph.compile(checkpointer=saver)


def compile_listening(framework: Framework, saver: Any, reducer: Reducer) -> Any:
    """One node, which counts; the messages come as input."""

    def listen(state: Any) -> dict[str, int]:
        return {"turn": state.get("turn", 0) + 1}

    graph = framework.StateGraph(state_with(reducer))
    graph.add_node("listen", listen)
    graph.add_edge(framework.START, "listen")
    graph.add_edge("listen", framework.END)
    return graph.compile(checkpointer=saver)


def run_turns(
    framework: Framework,
    saver: Any,
    turns: int,
    reducer: Reducer = operator.add,
    note: Callable[[float], None] = lambda moment: None,
) -> dict[str, Any]:
    """One run of so many supersteps; returns the config of its thread."""
    app = compile_running(framework, saver, reducer, note)
    run = options(saver)
    result = app.invoke({"messages": [], "turn": 0, "goal": turns}, **run)
    assert len(result["messages"]) == turns
    return dict(run["config"])


def invoke_turns(app: Any, run: dict[str, Any], turns: range) -> None:
    for turn in turns:
        app.invoke({"messages": [dict(MESSAGES[turn % len(MESSAGES)])]}, **run)
