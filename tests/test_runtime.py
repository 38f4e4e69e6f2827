"""What a node can know of its run: context, config, store, steps left; and what debug=True prints."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest

from graphkit import START, StateGraph, interrupt
from graphkit.checkpoint.memory import InMemorySaver
from graphkit.config import get_config, get_store, get_stream_writer
from graphkit.managed import IsLastStep, RemainingSteps
from graphkit.runtime import Runtime, get_runtime
from graphkit.types import Checkpointer, RunnableConfig


@dataclasses.dataclass
class Context:
    user: str
    limit: int = 3


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    left: RemainingSteps
    last: IsLastStep


def alone(node: Callable[..., Any], context_schema: Any = None) -> StateGraph[Any]:
    return StateGraph(State, context_schema).add_node("node", node).add_edge(START, "node")


@pytest.mark.parametrize("context", [Context("ada"), {"user": "ada"}], ids=["instance", "dict"])
def test_context_reaches_nodes_and_graphs_below(runner: Any, context: Any) -> None:
    def below(state: State, runtime: Runtime[Context]) -> State:
        return {"log": [runtime.context.user]}

    child = alone(below).compile()

    def node(state: State, runtime: Runtime[Context]) -> State:
        assert get_runtime(Context) == runtime
        return {"log": [runtime.context, runtime.node, runtime.attempt, *child.invoke({})["log"]]}

    shown = runner.invoke(alone(node, Context).compile(), {}, context=context)
    assert shown["log"] == [Context("ada"), "node", 1, "ada"]


def test_the_store_is_the_graphs_own(runner: Any) -> None:
    store = {"a": 1}

    def node(state: State, store: Any) -> State:
        return {"log": [store is get_store(), store["a"]]}

    assert runner.invoke(alone(node).compile(store=store), {})["log"] == [True, 1]


def test_a_graphs_own_config_is_overridden_key_by_key(runner: Any, saver: Any) -> None:
    def node(state: State, config: RunnableConfig) -> State:
        assert get_config() == config
        return {"log": [config["configurable"][key] for key in ("thread_id", "user")]}

    graph = alone(node).compile(checkpointer=saver)
    named = graph.with_config({"configurable": {"user": "ada", "thread_id": "default"}})
    assert runner.invoke(named, {})["log"] == ["default", "ada"]
    assert runner.invoke(named, {}, {"configurable": {"thread_id": "t"}})["log"] == ["t", "ada"]


def test_defaults_of_a_config_are_given_by_key_too(runner: Any) -> None:
    def node(state: State, config: RunnableConfig) -> State:
        return {"log": [config["recursion_limit"], config["tags"], config["configurable"]["user"]]}

    graph = (
        alone(node).compile().with_config({"tags": ["a"]}, recursion_limit=7, configurable={"user": "ada"})
    )
    assert runner.invoke(graph, {})["log"] == [7, ["a"], "ada"]
    assert runner.invoke(graph.with_config(tags=["b"]), {}, {"tags": ["c", "a"]})["log"][1] == ["a", "b", "c"]


def test_a_node_knows_where_it_runs(runner: Any, saver: Any) -> None:
    """LangGraph's how-to on the recursion counter: `config["metadata"]["langgraph_step"]`."""
    seen: list[dict[str, Any]] = []

    def node(state: State, config: RunnableConfig) -> State:
        assert get_config() == config == get_runtime().config
        assert not {"run_name", "run_id"} & set(config)
        seen.append(config["metadata"])
        return {}

    def calls(state: State, config: RunnableConfig) -> State:
        node(state, config)
        alone(node).compile().invoke({}, config)
        return {}

    builder = (
        StateGraph(State).add_node("a", calls).add_node("b", node).add_node("c", node, metadata={"team": "x"})
    )
    builder.add_edge(START, "a").add_edge("a", "b").add_edge(["a", "b"], "c")
    graph, config = builder.compile(checkpointer=saver), {"configurable": {"thread_id": "t"}}
    runner.invoke(graph, {}, {**config, "metadata": {"mine": 1}, "run_name": "name", "run_id": "id"})
    names = [(each["langgraph_step"], each["langgraph_node"]) for each in seen]
    assert names == [(1, "a"), (1, "node"), (2, "b"), (3, "c")]
    assert seen[3] == {
        "mine": 1,
        "team": "x",
        "langgraph_step": 3,
        "langgraph_node": "c",
        "langgraph_triggers": ("join:a+b:c",),
        "langgraph_path": ("pull", "c"),
        "langgraph_checkpoint_ns": seen[3]["langgraph_checkpoint_ns"],
    }
    [outer, inner] = [each["langgraph_checkpoint_ns"] for each in seen[:2]]
    assert outer.startswith("a:") and inner.startswith(f"{outer}") and "|node:" in inner
    [last] = saver.list(config, limit=1)
    assert not any(key.startswith("langgraph_") for key in last.metadata)


def test_a_node_can_see_how_many_steps_are_left(runner: Any) -> None:
    def node(state: State) -> State:
        return {"log": [(state["left"], state["last"])]}

    builder = alone(node).add_conditional_edges("node", lambda s: "node" if len(s["log"]) < 3 else "__end__")
    shown = runner.invoke(builder.compile(), {}, {"recursion_limit": 3})
    assert shown == {"log": [(3, False), (2, False), (1, True)]}


def test_an_edge_function_sees_as_many_steps_left_as_its_node(runner: Any, saver: Any) -> None:
    seen: list[tuple[int, bool]] = []

    def edge(state: State) -> str:
        seen.append((state["left"], state["last"]))
        return "__end__" if state["last"] else "node"

    builder = StateGraph(State).add_node("node", lambda state: {"log": [state["left"]]})
    builder.add_conditional_edges(START, edge).add_conditional_edges("node", edge)
    graph, config = builder.compile(checkpointer=saver), {"configurable": {"thread_id": "t"}}
    assert runner.invoke(graph, {}, {**config, "recursion_limit": 3})["log"] == [3, 2, 1]
    assert seen == [(3, False), (3, False), (2, False), (1, True)]
    runner.update_state(graph, config, {"log": []}, as_node="node")
    assert seen[4:] == [(100, False)]


@pytest.mark.parametrize(
    "call",
    [get_config, get_runtime, get_store, get_stream_writer, lambda: interrupt("?")],
    ids=["get_config", "get_runtime", "get_store", "get_stream_writer", "interrupt"],
)
def test_outside_of_a_run_there_is_nothing_to_know(call: Callable[[], Any]) -> None:
    with pytest.raises(RuntimeError, match="outside of a graph run"):
        call()


def test_debug_prints_what_happens(runner: Any, capsys: pytest.CaptureFixture[str]) -> None:
    graph = alone(lambda state: {"log": ["done"]}).compile(debug=True, name="demo")
    runner.invoke(graph, {"log": ["in"]})
    assert capsys.readouterr().out.splitlines() == [
        "[demo] step 1: node starts with {'log': ['in'], 'left': 100, 'last': False}",
        "[demo] step 1: node wrote {'log': ['done']}",
    ]


def test_one_runtime_is_merged_into_another(runner: Any) -> None:
    merged: list[Runtime[Any]] = []

    class Elementwise:
        """Compares as arrays do."""

        def __ne__(self, other: object) -> Any:
            raise ValueError("the truth of this is ambiguous")

    def node(state: Any, runtime: Runtime[Any]) -> None:
        merged.append(runtime.merge(Runtime(context="other", attempt=7)))
        merged.append(runtime.merge(Runtime(context=Elementwise())))
        merged.append(Runtime(context="mine", store="store").merge(runtime))

    runner.invoke(alone(node).compile(), {"log": []}, context="given")
    first, array, second = merged
    assert (first.context, first.attempt, first.node) == ("other", 7, "node")
    assert type(array.context) is Elementwise
    assert (second.context, second.store, second.node) == ("given", "store", "node")


def test_what_a_graph_takes_as_a_checkpointer_has_a_type() -> None:
    assert isinstance(InMemorySaver(), Checkpointer)
    assert isinstance(True, Checkpointer)
    assert not isinstance("saver", Checkpointer)
