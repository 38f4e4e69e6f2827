"""Whole programs of the kinds that people build: a chain, a fan-out to subgraphs, wide states, an agent.

Their shapes and sizes follow LangGraph's own set of benchmarks; each sample is one run from input to result, with
a saver in memory, so that every superstep is stored and no disk is measured.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import partial
from time import perf_counter
from typing import Annotated, Any, TypedDict

from pydantic import BaseModel, Field

from benchmarks.frameworks import Framework
from benchmarks.scenario import Sample, Scenario, Sizes, forget, options
from benchmarks.supersteps import Counter, build_chain

ROUNDS = 3


def run_of(app: Any, saver: Any, given: Callable[[], Any]) -> Sample:
    """Seconds of one run on a thread of its own."""

    def sample() -> float:
        run, value = options(saver), given()
        started = perf_counter()
        app.invoke(value, **run)
        elapsed = perf_counter() - started
        forget(saver, run)
        return elapsed

    return sample


def chain(framework: Framework, saver: Any, nodes: int) -> Sample:
    app = build_chain(framework, nodes).compile(checkpointer=saver)
    return run_of(app, saver, lambda: Counter(n=0, goal=0))


class Joke(TypedDict):
    subject: str
    jokes: Annotated[list[str], operator.add]


class Subjects(TypedDict):
    subjects: list[str]
    jokes: Annotated[list[str], operator.add]


def fan_out_to_subgraph(framework: Framework, saver: Any, jokes: int) -> Sample:
    """So many tasks in one superstep, each a graph of two nodes, one of which may go round again."""

    def edit(state: Joke) -> dict[str, Any]:
        return {"subject": f"{state['subject']} - hohoho"}

    def write(state: Joke) -> dict[str, Any]:
        return {"jokes": [f"Joke about {state['subject']}"]}

    def again(state: Joke) -> str:
        return framework.END if state["subject"].endswith(" - hohoho" * 2) else "edit"

    def bump(state: Joke) -> dict[str, Any]:
        return {"jokes": [f"{state['jokes'][0]} a"]}

    inner = framework.StateGraph(Joke)
    for name, node in (("edit", edit), ("write", write), ("bump", bump)):
        inner.add_node(name, node)
    inner.add_edge(framework.START, "edit")
    inner.add_edge("edit", "write")
    inner.add_edge("write", "bump")
    inner.add_conditional_edges("bump", again, ["edit", framework.END])

    def spread(state: Subjects) -> list[Any]:
        return [framework.Send("joke", {"subject": subject}) for subject in state["subjects"]]

    outer = framework.StateGraph(Subjects)
    outer.add_node("joke", inner.compile())
    outer.add_conditional_edges(framework.START, spread, ["joke"])
    outer.add_edge("joke", framework.END)
    app = outer.compile(checkpointer=saver)
    return run_of(app, saver, lambda: {"subjects": [f"subject {number}" for number in range(jokes)]})


def entries(count: int) -> dict[str, list[Any]]:
    return {f"entry {number}": ["hi?" * 10, True, 1, 6327816386138, None] for number in range(count)}


def add_rounds(framework: Framework, graph: Any, one: str, other: str) -> Any:
    """Two nodes in parallel after a first one, ROUNDS times round; each changes one field."""

    def count(state: Any) -> dict[str, Any]:
        rounds = state["rounds"] if isinstance(state, Mapping) else state.rounds
        return {"rounds": rounds + 1}

    def changing(field: str) -> Callable[[Any], dict[str, Any]]:
        return lambda state: {field: entries(1)}

    def again(state: Any) -> str:
        rounds = state["rounds"] if isinstance(state, Mapping) else state.rounds
        return framework.END if rounds >= ROUNDS else "count"

    graph.add_node("count", count)
    graph.add_node("left", changing(one))
    graph.add_node("right", changing(other))
    graph.add_node("gather", lambda state: {"gathered": entries(1)})
    graph.add_edge(framework.START, "count")
    graph.add_edge("count", "left")
    graph.add_edge("count", "right")
    graph.add_edge(["left", "right"], "gather")
    graph.add_conditional_edges("gather", again, ["count", framework.END])
    return graph


def field_names(fields: int) -> list[str]:
    return [f"field_{number}" for number in range(fields)]


def wide_state(framework: Framework, saver: Any, size: int, fields: int) -> Sample:
    """A state of so many fields, each a dict with `size` entries."""
    names = field_names(fields)
    schema: Any = TypedDict("Wide", {**dict.fromkeys(names, dict), "rounds": int, "gathered": dict})  # type: ignore[misc]
    graph = add_rounds(framework, framework.StateGraph(schema), names[0], names[1])
    given = {**{name: entries(size) for name in names}, "rounds": 0}
    return run_of(graph.compile(checkpointer=saver), saver, lambda: given)


class OneDict(TypedDict):
    large: dict[str, Any]
    left: dict[str, Any]
    right: dict[str, Any]
    rounds: int
    gathered: dict[str, Any]


def wide_dict(framework: Framework, saver: Any, size: int) -> Sample:
    """A state with one dict of many entries."""
    graph = add_rounds(framework, framework.StateGraph(OneDict), "left", "right")
    given = {"large": entries(size), "rounds": 0}
    return run_of(graph.compile(checkpointer=saver), saver, lambda: given)


def pydantic_state(framework: Framework, saver: Any, size: int, fields: int) -> Sample:
    """A wide state as a pydantic model, which validates what every node is given."""
    names = field_names(fields)
    annotations: dict[str, Any] = {**dict.fromkeys(names, dict), "rounds": int, "gathered": dict}
    defaults: dict[str, Any] = {"gathered": Field(default_factory=dict)}
    schema: Any = type("WideModel", (BaseModel,), {"__annotations__": annotations, **defaults})
    graph = add_rounds(framework, framework.StateGraph(schema), names[0], names[1])
    given = {**{name: entries(size) for name in names}, "rounds": 0}
    return run_of(graph.compile(checkpointer=saver), saver, lambda: given)


def react_agent(framework: Framework, saver: Any, turns: int) -> Sample:
    """So many turns of a model that asks for a tool, with the conversation in the state."""

    fields = {"messages": Annotated[list[Any], framework.add_messages]}
    schema: Any = TypedDict("Conversation", fields)  # type: ignore[misc]

    def model(state: Any) -> dict[str, Any]:
        turn = len(state["messages"]) // 2
        calls = [{"name": "search", "args": {"query": f"question {turn}"}, "id": f"call-{turn}"}]
        message = {"role": "assistant", "content": f"turn {turn}", "id": f"model-{turn}"}
        return {"messages": [{**message, "tool_calls": calls} if turn < turns else message]}

    def tools(state: Any) -> dict[str, Any]:
        turn = len(state["messages"]) // 2 - 1
        found = {"role": "tool", "content": f"result {turn}", "tool_call_id": f"call-{turn}"}
        return {"messages": [{**found, "id": f"tool-{turn}"}]}

    def route(state: Any) -> str:
        last = state["messages"][-1]  # the peer makes objects of messages
        calls = last.get("tool_calls") if isinstance(last, dict) else last.tool_calls
        return "tools" if calls else framework.END

    graph = framework.StateGraph(schema)
    graph.add_node("model", model)
    graph.add_node("tools", tools)
    graph.add_edge(framework.START, "model")
    graph.add_conditional_edges("model", route, ["tools", framework.END])
    graph.add_edge("tools", "model")
    app = graph.compile(checkpointer=saver)
    return run_of(app, saver, lambda: {"messages": [{"role": "user", "content": "go", "id": "user"}]})


def row(metric: str, prepare: Callable[..., Sample], **size: int) -> Scenario:
    return Scenario(f"program: {metric}", "ms", None, partial(prepare, **size), "memory")


def rows(sizes: Sizes) -> list[Scenario]:
    first = sizes.wide_states[0]
    return [
        row(f"chain of {sizes.chain} nodes", chain, nodes=sizes.chain),
        row(f"fan-out to {sizes.jokes} subgraphs", fan_out_to_subgraph, jokes=sizes.jokes),
        *(
            row(f"wide state, {size} × {fields}", wide_state, size=size, fields=fields)
            for size, fields in sizes.wide_states
        ),
        row(f"wide dict of {sizes.dict_entries} entries", wide_dict, size=sizes.dict_entries),
        row("pydantic state, {} × {}".format(*first), pydantic_state, size=first[0], fields=first[1]),
        row(f"react agent, {sizes.react_turns} turns", react_agent, turns=sizes.react_turns),
    ]
