"""Shapes of streams (L24): the options of `stream` and `invoke`, version "v2", and what each mode's chunks hold.

The shapes are LangGraph's: what a program written for it looks at is there under the same name.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel

from graphkit import START, Command, Send, StateGraph
from graphkit.cache.memory import InMemoryCache
from graphkit.config import get_stream_writer
from graphkit.types import CachePolicy, GraphOutput, RunnableConfig
from tests.conftest import EMPTY, Build, Runner, State, asks, graph_of, in_a_row, says


class Wide(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    count: int
    note: str


class Narrow(TypedDict, total=False):
    count: int


def counts(state: Wide) -> Wide:
    return {"log": ["counted"], "count": state.get("count", 0) + 1}


def wide(**options: Any) -> Any:
    return graph_of({"a": counts, "b": counts}, in_a_row("a", "b"), state=Wide, **options)


def log(*words: str) -> State:
    return {"log": list(words)}


# Options of stream


def test_no_mode_means_updates(runner: Runner) -> None:
    graph = graph_of({"a": says("a")})
    assert runner.stream(graph, EMPTY, stream_mode=None) == [{"a": log("a")}]


def test_output_keys_limit_values_and_updates(runner: Runner) -> None:
    chunks = runner.stream(wide(), {"count": 0}, stream_mode=["values", "updates"], output_keys=["count"])
    assert chunks == [
        ("values", {"count": 0}),
        ("updates", {"a": {"count": 1}}),
        ("values", {"count": 1}),
        ("updates", {"b": {"count": 2}}),
        ("values", {"count": 2}),
    ]


def test_one_output_key_shows_its_value_alone(runner: Runner) -> None:
    chunks = runner.stream(wide(), {"count": 0}, stream_mode=["values", "updates"], output_keys="count")
    assert chunks == [
        ("values", 0),
        ("updates", {"a": 1}),
        ("values", 1),
        ("updates", {"b": 2}),
        ("values", 2),
    ]


def test_a_node_that_writes_none_of_the_output_keys_is_shown_with_none(runner: Runner) -> None:
    graph = graph_of({"a": says("a")}, state=Wide)
    options: dict[str, Any] = {"stream_mode": ["values", "updates"], "output_keys": ["note"]}
    assert runner.stream(graph, EMPTY, **options) == [("updates", {"a": None})]


def test_output_keys_name_keys_of_the_state(runner: Runner) -> None:
    ran: list[Any] = []
    graph = graph_of({"a": ran.append})
    for door in (runner.stream, runner.invoke):
        with pytest.raises(ValueError, match=r"output_keys .*'nope'.*log"):
            door(graph, EMPTY, output_keys=["log", "nope"])
    assert ran == []


def test_values_show_the_whole_state_whatever_the_output_schema(runner: Runner) -> None:
    builder_options: dict[str, Any] = {"state": Wide}
    graph = graph_of({"a": counts}, **builder_options).builder
    graph.output_schema = Narrow
    compiled = graph.compile()
    assert runner.stream(compiled, {"count": 0}, stream_mode="values")[-1] == {"log": ["counted"], "count": 1}


# Options of invoke


def test_invoke_with_a_mode_returns_what_the_stream_shows(runner: Runner) -> None:
    graph = graph_of({"a": says("a")})
    assert runner.invoke(graph, EMPTY, stream_mode="updates") == [{"a": log("a")}]
    assert runner.invoke(graph, EMPTY, stream_mode=["updates", "values"]) == [
        ("values", EMPTY),
        ("updates", {"a": log("a")}),
        ("values", log("a")),
    ]
    nested = graph_of({"outer": graph})
    assert [chunk for _, chunk in runner.invoke(nested, EMPTY, stream_mode="updates", subgraphs=True)] == [
        {"a": log("a")},
        {"outer": log("a")},
    ]


def test_invoke_with_output_keys_returns_those_of_the_state(runner: Runner) -> None:
    assert runner.invoke(wide(), {"count": 0}, output_keys="count") == 2
    assert runner.invoke(wide(), {"count": 0}, output_keys=["count"]) == {"count": 2}


def test_invoke_with_output_keys_reports_questions(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = build({"ask": asks("sure?")})
    result = runner.invoke(graph, log("in"), config, output_keys=["log"])
    assert result["log"] == ["in"]
    assert [question.value for question in result["__interrupt__"]] == ["sure?"]
    assert runner.invoke(graph, Command(resume="yes"), config, output_keys="log") == ["in", "yes"]


# Version 2


def test_a_part_says_what_it_is(runner: Runner) -> None:
    graph = graph_of({"a": lambda state: get_stream_writer()("hello") or log("a")})
    assert runner.stream(graph, EMPTY, stream_mode=["values", "updates", "custom"], version="v2") == [
        {"type": "values", "ns": (), "data": EMPTY, "interrupts": ()},
        {"type": "custom", "ns": (), "data": "hello"},
        {"type": "updates", "ns": (), "data": {"a": log("a")}},
        {"type": "values", "ns": (), "data": log("a"), "interrupts": ()},
    ]


def test_a_part_of_a_nested_run_has_its_namespace(runner: Runner) -> None:
    graph = graph_of({"outer": graph_of({"a": says("a")})})
    parts = runner.stream(graph, EMPTY, subgraphs=True, version="v2")
    assert [(len(part["ns"]), part["data"]) for part in parts] == [
        (1, {"a": log("a")}),
        (0, {"outer": log("a")}),
    ]


def test_questions_are_beside_the_values_of_a_part(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    last = runner.stream(
        build({"ask": asks("sure?")}), log("in"), config, stream_mode="values", version="v2"
    )[-1]
    assert last["data"] == log("in")
    assert [question.value for question in last["interrupts"]] == ["sure?"]


def test_invoke_of_version_2_returns_value_and_interrupts(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = build({"ask": asks("sure?")})
    asked = runner.invoke(graph, log("in"), config, version="v2")
    assert isinstance(asked, GraphOutput)
    assert (asked.value, [question.value for question in asked.interrupts]) == (log("in"), ["sure?"])
    answered = runner.invoke(graph, Command(resume="yes"), config, version="v2")
    assert answered == GraphOutput(log("in", "yes"))
    parts = runner.invoke(
        graph, EMPTY, {"configurable": {"thread_id": "u"}}, version="v2", stream_mode="updates"
    )
    assert [part["type"] for part in parts] == ["updates"]


class Model(BaseModel):
    log: Annotated[list[str], operator.add] = []


@dataclass
class Data:
    log: Annotated[list[str], operator.add] = field(default_factory=list)


@pytest.mark.parametrize("schema", [Model, Data])
def test_version_2_gives_instances_of_the_schema(runner: Runner, schema: Callable[..., Any]) -> None:
    graph = graph_of({"a": says("a")}, state=schema)
    parts = runner.stream(graph, log("in"), stream_mode="values", version="v2")
    assert [part["data"] for part in parts] == [schema(log=["in"]), schema(log=["in", "a"])]
    assert runner.invoke(graph, log("in"), version="v2").value == schema(log=["in", "a"])
    assert runner.stream(graph, log("in"), stream_mode="values")[-1] == log("in", "a")


class First(TypedDict):
    first: str


class Strict(BaseModel):
    first: str
    second: str


def test_values_that_are_not_complete_yet_stay_a_dict(runner: Runner) -> None:
    def adds(state: Any) -> dict[str, str]:
        return {"second": "2"}

    graph = graph_of({"a": adds}, state=Strict, node_options={"a": {"input_schema": First}})
    parts = runner.stream(graph, {"first": "1"}, stream_mode="values", version="v2")
    assert parts[0]["data"] == {"first": "1"}
    assert parts[-1]["data"] == Strict(first="1", second="2")


@pytest.mark.parametrize("door", ["stream", "invoke"])
def test_an_unknown_version_is_refused_before_any_node_runs(runner: Runner, door: str) -> None:
    ran: list[Any] = []
    with pytest.raises(ValueError, match="v9"):
        getattr(runner, door)(graph_of({"a": ran.append}), EMPTY, version="v9")
    assert ran == []


# Tasks


def starts(runner: Runner, graph: Any, given: Any = EMPTY, **options: Any) -> dict[str, Any]:
    chunks = runner.stream(graph, given, stream_mode="tasks", **options)
    return {chunk["name"]: chunk for chunk in chunks if "input" in chunk}


def test_a_task_says_what_triggered_it(runner: Runner) -> None:
    nodes: dict[str, Any] = {name: says(name) for name in "abcd"}
    edges = [
        (START, "a"),
        (START, "b"),
        (["a", "b"], "c"),
        ("c", lambda state: [Send("d", EMPTY)], ["d"]),
    ]
    triggers = {name: start["triggers"] for name, start in starts(runner, graph_of(nodes, edges)).items()}
    assert triggers == {
        "a": ("branch:to:a",),
        "b": ("branch:to:b",),
        "c": ("join:a+b:c",),
        "d": ("__pregel_push",),
    }


def test_a_task_has_the_metadata_of_its_run_and_its_node(runner: Runner) -> None:
    graph = graph_of({"a": says("a"), "b": says("b")}, node_options={"a": {"metadata": {"kind": "first"}}})
    config: RunnableConfig = {"metadata": {"who": "me"}, "tags": ["x"], "configurable": {"thread_id": "t"}}
    shown = starts(runner, graph, config=config)
    assert shown["a"]["metadata"] == {"who": "me", "kind": "first", "tags": ["x"]}
    assert shown["b"]["metadata"] == {"who": "me", "tags": ["x"]}
    assert "metadata" not in starts(runner, graph)["b"]


def test_several_writes_of_a_task_to_one_key_are_all_in_its_result(runner: Runner) -> None:
    graph = graph_of({"a": lambda state: [Command(update=log("1")), Command(update=log("2"))]})
    chunks = runner.stream(graph, EMPTY, stream_mode=["updates", "tasks"])
    assert chunks[1] == ("updates", {"a": [log("1"), log("2")]})
    assert chunks[2][1]["result"] == {"log": {"$writes": [["1"], ["2"]]}}


def test_the_update_of_a_state_without_keys_is_its_value(
    runner: Runner, saver: Any, config: RunnableConfig
) -> None:
    schema: Any = Annotated[list[Any], operator.add]
    builder = StateGraph(schema).add_edge(START, "a")
    builder.add_node("a", lambda state: ["a", len(state)])
    builder.add_node("b", lambda state: [Command(update=["b"]), Command(update=["c"])]).add_edge("a", "b")
    graph = builder.compile(checkpointer=saver)
    chunks = runner.stream(graph, ["given"], config, stream_mode=["updates", "tasks"])
    assert [chunk for mode, chunk in chunks if mode == "updates"] == [
        {"a": ["a", 1]},
        {"b": [["b"], ["c"]]},
    ]
    assert chunks[2][1]["result"] == {"__root__": ["a", 1]}
    [start] = runner.history(graph, config)[-1].tasks
    assert start.result == ["given"]


def test_a_cached_result_is_marked(runner: Runner) -> None:
    graph = graph_of(
        {"a": says("a")}, node_options={"a": {"cache_policy": CachePolicy()}}, cache=InMemoryCache()
    )
    assert runner.stream(graph, EMPTY) == [{"a": log("a")}]
    chunks = runner.stream(graph, EMPTY, stream_mode=["updates", "tasks"])
    assert chunks[1] == ("updates", {"a": log("a"), "__metadata__": {"cached": True}})
    assert [chunk["name"] for mode, chunk in chunks if mode == "tasks"] == ["a", "a"]


# Checkpoints


def test_a_resumed_stream_shows_the_checkpoint_it_goes_on_from(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = build({"ask": asks("sure?"), "other": says("other")})
    runner.invoke(graph, EMPTY, config)
    found, after = runner.stream(graph, Command(resume="yes"), config, stream_mode="checkpoints")
    tasks = {task["name"]: task for task in found["tasks"]}
    assert [question["value"] for question in tasks["ask"]["interrupts"]] == ["sure?"]
    assert tasks["other"]["result"] == log("other")
    assert after["next"] == []


def test_a_failed_task_is_shown_with_its_error_at_its_checkpoint(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    errors = iter([ValueError("broken"), None])

    def fails_once(state: State) -> State:
        error = next(errors)
        if error is not None:
            raise error
        return log("done")

    graph = build({"fails": fails_once})
    with pytest.raises(ValueError, match="broken"):
        runner.invoke(graph, EMPTY, config)
    found, _ = runner.stream(graph, None, config, stream_mode="checkpoints")
    (task,) = found["tasks"]
    assert "broken" in task["error"]


def test_a_task_that_is_a_graph_says_where_its_state_is(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = build({"outer": graph_of({"ask": asks("sure?")}), "plain": says("plain")})
    chunks = runner.stream(graph, EMPTY, config, stream_mode="checkpoints")
    tasks = {task["name"]: task for task in chunks[-1]["tasks"]}
    snapshot = {task.name: task for task in runner.get_state(graph, config).tasks}
    assert tasks["outer"]["state"] == snapshot["outer"].state
    assert tasks["plain"]["state"] is None
