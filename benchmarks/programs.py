"""Whole programs of the kinds that people build: a chain, a fan-out to subgraphs, wide states, an agent.

Their shapes and sizes follow LangGraph's own set of benchmarks; each sample is one run from input to result, with
a saver in memory, so that every superstep is stored and no disk is measured.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Annotated, Any, TypedDict

from frameworks import Framework
from pydantic import BaseModel, Field
from scenarios import Counter, Sample, Scenario, build_chain, forget, options

CHAIN = 100
JOKES = 100
AGENT_TURNS = 100
WIDE_STATES = ((25, 300), (9, 1200))
"""(entries of each field, fields)."""
DICT_SIZE = 2500
"""Entries of the one dict of a wide dict."""
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


def chain(framework: Framework, saver: Any) -> Sample:
    app = build_chain(framework, CHAIN).compile(checkpointer=saver)
    return run_of(app, saver, lambda: Counter(n=0, goal=0))


class Joke(TypedDict):
    subject: str
    jokes: Annotated[list[str], operator.add]


class Subjects(TypedDict):
    subjects: list[str]
    jokes: Annotated[list[str], operator.add]


def fan_out_to_subgraph(framework: Framework, saver: Any) -> Sample:
    """JOKES tasks in one superstep, each a graph of two nodes, one of which may go round again."""

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
    return run_of(app, saver, lambda: {"subjects": [f"subject {number}" for number in range(JOKES)]})


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


def wide_state(size: int, fields: int) -> Callable[[Framework, Any], Sample]:
    """A state of so many fields, each a dict with `size` entries."""

    def prepare(framework: Framework, saver: Any) -> Sample:
        names = field_names(fields)
        schema: Any = TypedDict("Wide", {**dict.fromkeys(names, dict), "rounds": int, "gathered": dict})  # type: ignore[misc]
        graph = add_rounds(framework, framework.StateGraph(schema), names[0], names[1])
        given = {**{name: entries(size) for name in names}, "rounds": 0}
        return run_of(graph.compile(checkpointer=saver), saver, lambda: given)

    return prepare


class OneDict(TypedDict):
    large: dict[str, Any]
    left: dict[str, Any]
    right: dict[str, Any]
    rounds: int
    gathered: dict[str, Any]


def wide_dict(framework: Framework, saver: Any) -> Sample:
    """A state with one dict of many entries."""
    graph = add_rounds(framework, framework.StateGraph(OneDict), "left", "right")
    given = {"large": entries(DICT_SIZE), "rounds": 0}
    return run_of(graph.compile(checkpointer=saver), saver, lambda: given)


def pydantic_state(framework: Framework, saver: Any) -> Sample:
    """The first wide state as a pydantic model, which validates what every node is given."""
    size, fields = WIDE_STATES[0]
    names = field_names(fields)
    annotations: dict[str, Any] = {**dict.fromkeys(names, dict), "rounds": int, "gathered": dict}
    defaults = {"gathered": Field(default_factory=dict)}
    schema: Any = type("WideModel", (BaseModel,), {"__annotations__": annotations, **defaults})
    graph = add_rounds(framework, framework.StateGraph(schema), names[0], names[1])
    given = {**{name: entries(size) for name in names}, "rounds": 0}
    return run_of(graph.compile(checkpointer=saver), saver, lambda: given)


def react_agent(framework: Framework, saver: Any) -> Sample:
    """AGENT_TURNS turns of a model that asks for a tool, with the conversation in the state."""

    schema: Any = TypedDict("Conversation", {"messages": Annotated[list[Any], framework.add_messages]})

    def model(state: Any) -> dict[str, Any]:
        turn = len(state["messages"]) // 2
        calls = [{"name": "search", "args": {"query": f"question {turn}"}, "id": f"call-{turn}"}]
        message = {"role": "assistant", "content": f"turn {turn}", "id": f"model-{turn}"}
        return {"messages": [{**message, "tool_calls": calls} if turn < AGENT_TURNS else message]}

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


def _row(metric: str, prepare: Callable[[Framework, Any], Sample]) -> Scenario:
    return Scenario(f"program: {metric}", "ms", None, prepare, "memory")


PROGRAMS = [
    _row(f"chain of {CHAIN} nodes", chain),
    _row(f"fan-out to {JOKES} subgraphs", fan_out_to_subgraph),
    *(_row(f"wide state, {size} × {fields}", wide_state(size, fields)) for size, fields in WIDE_STATES),
    _row(f"wide dict of {DICT_SIZE} entries", wide_dict),
    _row("pydantic state, {} × {}".format(*WIDE_STATES[0]), pydantic_state),
    _row(f"react agent, {AGENT_TURNS} turns", react_agent),
]
