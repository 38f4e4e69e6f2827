"""A thread left by one version of a graph and continued by another: compatible, or `GraphVersionError`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, Literal, TypedDict

import pytest
from pydantic import BaseModel

from graphkit import START, Command, StateGraph, interrupt
from graphkit.channels import DeltaChannel
from graphkit.errors import GraphVersionError
from graphkit.types import RunnableConfig, Send
from tests.conftest import Graph, Reopen, Runner, Saver


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    count: int
    note: str


def ask(state: Any) -> Any:
    return {"log": [f"answer {interrupt('sure?')}"]}


def first(state: Any) -> Any:
    return {"log": ["first"], "count": 1}


def last(state: Any) -> Any:
    return {"log": ["last"]}


NODES: dict[str, Callable[..., Any]] = {"first": first, "ask": ask, "last": last, "aside": last}
EDGES: list[tuple[Any, str]] = [(START, "first"), ("first", "ask"), ("ask", "last")]


def version(
    saver: Saver,
    state: Any = State,
    nodes: dict[str, Callable[..., Any]] = NODES,
    edges: list[tuple[Any, str]] = EDGES,
    **options: Any,
) -> Graph:
    builder = StateGraph(state)
    for name, node in nodes.items():
        builder.add_node(name, node)
    for edge in edges:
        builder.add_edge(*edge)
    builder.add_conditional_edges("last", lambda state: "__end__", ["aside", "__end__"])
    return builder.compile(checkpointer=saver, **options)


def paused(runner: Runner, saver: Saver, config: RunnableConfig, **shape: Any) -> None:
    assert runner.run(version(saver, **shape), {"log": ["in"]}, config).status == "interrupted"


def without(names: dict[str, Any], *gone: str) -> dict[str, Any]:
    return {name: node for name, node in names.items() if name not in gone}


FIELDS: dict[str, Any] = {"log": Annotated[list[str], operator.add], "count": int, "note": str}


def typed(fields: dict[str, Any]) -> Any:
    return TypedDict("State", fields, total=False)  # type: ignore[operator]


def schema(**fields: Any) -> Any:
    """The state with some keys otherwise; None leaves one out."""
    return typed({key: typ for key, typ in {**FIELDS, **fields}.items() if typ is not None})


class Book(BaseModel):
    title: str


def short(old: list[str], new: list[str]) -> list[str]:
    return (old + new)[-5:]


HARMLESS: dict[str, dict[str, Any]] = {
    "nodes reordered": {"nodes": dict(reversed(NODES.items()))},
    "a node added": {"nodes": {**NODES, "new": last}, "edges": [*EDGES, ("first", "new")]},
    "a node removed that nothing waits for": {
        "nodes": without(NODES, "first"),
        "edges": [(START, "ask"), ("ask", "last")],
    },
    "an edge added": {"edges": [*EDGES, ("last", "aside")]},
    "a key added": {"state": schema(new=str)},
    "keys reordered": {"state": typed(dict(reversed(FIELDS.items())))},
    "a key removed that holds nothing": {"state": schema(note=None)},
    "a wider type": {"state": schema(count=int | None)},
    "a narrower type that the value has": {"state": schema(count=Literal[1, 2])},
    "a type of another key": {"state": schema(note=bytes)},
}

HARMFUL: dict[str, tuple[dict[str, Any], str]] = {
    "the waiting node removed": (
        {"nodes": without(NODES, "ask"), "edges": [(START, "first"), ("first", "last")]},
        "node 'ask'",
    ),
    "the waiting node renamed": (
        {
            "nodes": {**without(NODES, "ask"), "question": ask},
            "edges": [(START, "first"), ("first", "question"), ("question", "last")],
        },
        "node 'ask'.*question",
    ),
    "a key removed": ({"state": schema(count=None)}, "state key 'count' is gone"),
    "a key renamed": ({"state": schema(count=None, counter=int)}, "'count' is gone.*'counter'"),
    "a key retyped": ({"state": schema(count=str)}, "'count' was a int and is a str"),
    "a key narrowed": ({"state": schema(count=Literal[5])}, r"'count' was a int and is a Literal\[5\]"),
    "a key that is a class": ({"state": schema(count=Book)}, "'count' was a int and is a Book"),
    "a reducer removed": ({"state": schema(log=list[str])}, "'log' was a BinaryOperatorAggregate"),
    "a reducer added": ({"state": schema(count=Annotated[int, operator.add])}, "'count' was a LastValue"),
    "a reducer changed": ({"state": schema(log=Annotated[list[str], short])}, "'log' was add and is short"),
}


@pytest.mark.parametrize("change", HARMLESS)
def test_a_harmless_change_goes_on(
    runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig, change: str
) -> None:
    paused(runner, saver, config)
    graph = version(reopen(saver), **HARMLESS[change])
    done = runner.invoke(graph, Command(resume="yes"), config)
    assert done["log"] == [
        "in",
        "first",
        "answer yes",
        "last",
        *(["last"] if change == "an edge added" else []),
    ]
    assert done["count"] == 1


@pytest.mark.parametrize("change", HARMFUL)
def test_a_harmful_change_is_refused_by_name_and_nothing_is_lost(
    runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig, change: str
) -> None:
    shape, difference = HARMFUL[change]
    paused(runner, saver, config)
    before = runner.thread(version(saver), config)
    spellings: list[Any] = [Command(resume="yes"), [{"interruptResponse": _response(before[0])}]]
    for given in spellings:
        with pytest.raises(GraphVersionError, match=difference) as refused:
            runner.invoke(version(reopen(saver), **shape), given, config)
        assert "in thread 't'" in refused.value.__notes__
    assert runner.thread(version(saver), config) == before
    assert runner.invoke(version(saver), Command(resume="yes"), config)["log"][-1] == "last"


def _response(snapshot: Any) -> dict[str, Any]:
    return {"interruptId": snapshot.interrupts[0].id, "response": "yes"}


@pytest.mark.parametrize("change", [name for name in HARMFUL if "node" not in name])
def test_a_new_turn_does_not_drop_values_either(
    runner: Runner, saver: Saver, config: RunnableConfig, change: str
) -> None:
    shape, difference = HARMFUL[change]
    runner.invoke(version(saver), {"log": ["in"]}, config)
    runner.invoke(version(saver), Command(resume="yes"), config)
    with pytest.raises(GraphVersionError, match=difference):
        runner.invoke(version(saver, **shape), {"log": ["again"]}, config)


def test_a_change_can_be_accepted(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    paused(runner, saver, config)
    nodes = {**NODES, "first": last}
    other = version(saver, schema(count=None), nodes, on_version_change="accept")
    assert runner.invoke(other, Command(resume="yes"), config)["log"][-1] == "last"
    # From here on it is the thread's version; what the old one knew is still in the history.
    strict = version(saver, schema(count=None), nodes)
    assert runner.run(strict, {"log": ["more"]}, config).status == "interrupted"
    assert runner.get_state(version(saver), config).values["count"] == 1


@pytest.mark.parametrize(
    "accepting", ["accept", lambda values, differences: values], ids=["accept", "migrate"]
)
def test_a_node_that_is_gone_cannot_be_accepted_but_gone_around(
    runner: Runner, saver: Saver, config: RunnableConfig, accepting: Any
) -> None:
    paused(runner, saver, config)
    shape: dict[str, Any] = {"nodes": without(NODES, "ask"), "edges": [(START, "first"), ("first", "last")]}
    other = version(saver, **shape, on_version_change=accepting)
    with pytest.raises(
        GraphVersionError, match=r"at node 'ask', which graph .* does not have .*update_state"
    ):
        runner.invoke(other, Command(resume="yes"), config)
    assert runner.invoke(version(saver), Command(resume="no"), config)["log"][-2:] == ["answer no", "last"]

    paused(runner, saver, config)
    runner.update_state(other, config, None, as_node="first")
    assert runner.invoke(other, None, config)["log"][-3:] == ["in", "first", "last"]


def test_values_can_be_migrated(runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig) -> None:
    seen: list[list[str]] = []

    def migrate(values: dict[str, Any], differences: list[str]) -> dict[str, Any]:
        seen.append(differences)
        return {"log": values["log"], "counter": values["count"] + 41}

    paused(runner, saver, config)
    renamed = schema(count=None, counter=int)
    nodes = {**NODES, "first": last}
    graph = version(saver, renamed, nodes, on_version_change=migrate)
    assert runner.invoke(graph, Command(resume="yes"), config)["counter"] == 42
    assert len(seen) == 1
    assert "'count' is gone" in seen[0][0]
    again = version(reopen(saver), renamed, nodes)  # what was migrated needs no migration any more
    assert runner.get_state(again, config).values["counter"] == 42
    assert runner.run(again, {"log": ["again"]}, config).status == "interrupted"


def test_migrated_values_must_fit(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    paused(runner, saver, config)
    graph = version(saver, schema(count=None), on_version_change=lambda values, differences: values)
    with pytest.raises(GraphVersionError, match="'count'"):
        runner.invoke(graph, Command(resume="yes"), config)


def test_half_complete_joins_are_not_dropped(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    nodes = {"a": last, "b": ask, "c": last, "d": last}
    edges: list[Any] = [(START, "a"), (START, "b"), ("b", "d")]

    def joined(*sources: str) -> Graph:
        builder = StateGraph(State)
        for name, node in nodes.items():
            builder.add_node(name, node)
        for edge in [*edges, (list(sources), "c")]:
            builder.add_edge(*edge)
        return builder.compile(checkpointer=saver)

    assert runner.run(joined("a", "d"), {"log": []}, config).status == "interrupted"
    runner.run(joined("a", "d"), Command(resume="x"), config, interrupt_before=["d"])
    with pytest.raises(GraphVersionError, match="join of a, d into 'c'"):
        runner.invoke(joined("b", "d"), None, config)
    assert runner.run(joined("a", "d"), None, config).status == "completed"


def test_sends_to_a_node_that_is_gone(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    def build(name: str) -> Graph:
        builder = StateGraph(State).add_node("spread", lambda state: {}).add_node(name, ask)
        builder.add_edge(START, "spread")
        builder.add_conditional_edges("spread", lambda state: [Send(name, {}), Send(name, {})], [name])
        return builder.compile(checkpointer=saver)

    one, two = runner.run(build("old"), {"log": []}, config).interrupts
    with pytest.raises(GraphVersionError, match=r"'old'.*new"):
        runner.invoke(build("new"), Command(resume={one.id: "x", two.id: "y"}), config)


def reducer(limit: int, old: list[str], new: list[str]) -> list[str]:
    return (old + new)[-limit:]


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        (lambda: lambda old, new: old + new, lambda: lambda old, new: old + new, True),
        (lambda: lambda old, new: old + new, lambda: lambda old, new: new + old, False),
        (lambda: lambda old, new: (old + new)[-3:], lambda: lambda old, new: (old + new)[-4:], False),
        (lambda: partial(reducer, 3), lambda: partial(reducer, 3), True),
        (lambda: partial(reducer, 3), lambda: partial(reducer, 4), False),
    ],
)
def test_reducers_without_a_name_are_told_apart_by_their_code(
    runner: Runner, saver: Saver, config: RunnableConfig, before: Any, after: Any, same: bool
) -> None:
    paused(runner, saver, config, state=schema(log=Annotated[list[str], before()]))
    graph = version(saver, schema(log=Annotated[list[str], after()]))
    if same:
        assert runner.invoke(graph, Command(resume="yes"), config)["log"][-1] == "last"
    else:
        with pytest.raises(GraphVersionError, match="reducer"):
            runner.invoke(graph, Command(resume="yes"), config)


def joined_writes(value: list[str], writes: Sequence[list[str]]) -> list[str]:
    return [*value, *(word for write in writes for word in write)]


def last_write(value: list[str], writes: Sequence[list[str]]) -> list[str]:
    return list(writes[-1])


def test_a_delta_folded_by_another_function_is_another_version(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    paused(runner, saver, config, state=schema(log=Annotated[list[str], DeltaChannel(joined_writes)]))
    with pytest.raises(GraphVersionError, match="joined_writes and is last_write"):
        runner.invoke(
            version(saver, schema(log=Annotated[list[str], DeltaChannel(last_write)])),
            Command(resume="yes"),
            config,
        )


def test_a_nested_graph_is_compared_too(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    def build(**fields: Any) -> Graph:
        child = version(None, schema(**fields))
        builder = StateGraph(State).add_node("child", lambda state: {"log": child.invoke({})["log"]})
        return builder.add_edge(START, "child").compile(checkpointer=saver)

    assert runner.run(build(), {"log": []}, config).status == "interrupted"
    with pytest.raises(GraphVersionError, match="'count' was a int and is a str"):
        runner.invoke(build(count=str), Command(resume="yes"), config)


def test_the_shape_is_stored_once(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    wide = typed({f"key_{number}": str for number in range(300)})
    graph = (
        StateGraph(wide)
        .add_node("n", lambda state: {"key_1": "x"})
        .add_edge(START, "n")
        .compile(checkpointer=saver)
    )
    runner.invoke(graph, {"key_0": "a"}, config)
    once = saver.usage("t").bytes
    for _ in range(10):
        runner.invoke(graph, {"key_0": "a"}, config)
    assert once > 3000
    assert saver.usage("t").bytes < 2 * once


@pytest.mark.parametrize("option", ["ignore", None, 1])
def test_the_option_is_checked(option: Any) -> None:
    with pytest.raises(ValueError, match="on_version_change"):
        version(None, on_version_change=option)
