"""Where a thread stands, in its graph's drawing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypedDict

import pytest

from graphkit.checkpoint.memory import InMemorySaver
from graphkit.constants import END, START
from graphkit.graph.draw import DrawableGraph, DrawEdge, DrawNode
from graphkit.graph.state import StateGraph
from graphkit.types import Command, Interrupt, PregelTask, RunnableConfig, Send, StateSnapshot, interrupt
from tests.conftest import Build, Runner, asks, in_a_row, says


class State(TypedDict, total=False):
    value: str


def drawing(*ids: str) -> DrawableGraph:
    return DrawableGraph({node: DrawNode(node, node.rpartition(":")[2]) for node in ids})


def question(
    text: Any = "Sure?", node: str = "ask", namespace: str = "", name: str | None = None
) -> Interrupt:
    return Interrupt(value=text, id=f"{namespace}/{node}/{text}", node=node, namespace=namespace, name=name)


def snapshot(
    *next_nodes: str,
    asked: tuple[Interrupt, ...] = (),
    inside: dict[str, StateSnapshot] | None = None,
    namespace: str = "",
) -> StateSnapshot:
    return StateSnapshot(
        values={},
        next=next_nodes,
        config={"configurable": {"thread_id": "t", "checkpoint_ns": namespace}},
        metadata=None,
        created_at=None,
        parent_config=None,
        tasks=tuple(
            PregelTask(id=node, name=node, path=("pull", node), state=(inside or {}).get(node))
            for node in next_nodes
        ),
        interrupts=asked,
    )


# A thread of its own graph


def test_a_thread_that_waits_at_a_breakpoint(build: Build, runner: Runner, config: RunnableConfig) -> None:
    graph = build({"a": says(1), "b": says(2)}, in_a_row("a", "b"), interrupt_before=["b"])
    runner.invoke(graph, {}, config)
    marked = graph.get_graph().marked(runner.get_state(graph, config))
    assert marked.next == {"b"}
    assert marked.questions == {}
    assert marked.notes("b") == ["interrupt before", "next"]
    assert marked.notes("a") == []


def test_questions_of_parallel_nodes(build: Build, runner: Runner, config: RunnableConfig) -> None:
    graph = build({"a": asks("Pay this?"), "b": asks("How much?", name="sum"), "c": says(1)})
    runner.invoke(graph, {}, config)
    marked = graph.get_graph().marked(runner.get_state(graph, config))
    assert marked.next == {"a", "b"}
    assert marked.questions == {"a": ("Pay this?",), "b": ("sum: How much?",)}
    runner.invoke(
        graph, Command(resume={q.id: 1 for q in runner.get_state(graph, config).interrupts}), config
    )
    done = marked.marked(runner.get_state(graph, config))
    assert done == graph.get_graph()


def test_an_unknown_thread_marks_nothing(build: Build, runner: Runner, config: RunnableConfig) -> None:
    graph = build({"a": says(1)})
    assert graph.get_graph().marked(runner.get_state(graph, config)) == graph.get_graph()


def test_a_checkpoint_of_the_past_marks_where_the_thread_stood() -> None:
    graph = (
        StateGraph(State)
        .add_node("a", lambda state: {})
        .add_node("b", lambda state: {})
        .add_sequence([("c", lambda state: {})])
        .add_edge(START, "a")
        .add_edge("a", "b")
        .add_edge("b", "c")
        .compile(checkpointer=InMemorySaver())
    )
    config: RunnableConfig = {"configurable": {"thread_id": "t"}}
    graph.invoke({"value": ""}, config)
    plain = graph.get_graph()
    stood = [plain.marked(past).next for past in graph.get_state_history(config)]
    assert stood == [set(), {"c"}, {"b"}, {"a"}, {START}]


def nested(saver: Any) -> Any:
    """outer: START -> team -> END; team: START -> plan -> inner -> END; inner: START -> ask -> END."""

    def ask(state: State) -> State:
        return {"value": interrupt("Sure?")}

    inner = StateGraph(State).add_node("ask", ask).add_edge(START, "ask").compile()
    team = StateGraph(State).add_node("plan", lambda state: {}).add_node("inner", inner)
    team.add_edge(START, "plan").add_edge("plan", "inner")
    outer = StateGraph(State).add_node("team", team.compile()).add_edge(START, "team").add_edge("team", END)
    return outer.compile(checkpointer=saver)


@pytest.mark.parametrize(
    ("xray", "place"), [(False, "team"), (1, "team:inner"), (2, "team:inner:ask"), (True, "team:inner:ask")]
)
def test_a_question_is_marked_as_deep_as_it_is_drawn(
    saver: Any, runner: Runner, config: RunnableConfig, xray: bool | int, place: str
) -> None:
    graph = nested(saver)
    runner.invoke(graph, {"value": ""}, config)
    marked = graph.get_graph(xray=xray).marked(runner.get_state(graph, config))
    assert marked.questions == {place: ("Sure?",)}
    assert marked.next == {place}


@pytest.mark.parametrize(("xray", "place"), [(False, "call"), (True, "call:ask")])
def test_a_question_of_a_graph_that_a_function_calls_is_marked_as_deep_as_it_is_drawn(
    config: RunnableConfig, xray: bool, place: str
) -> None:
    inner = (
        StateGraph(State).add_node("ask", lambda state: {"value": interrupt("Sure?")}).add_edge(START, "ask")
    )
    called = inner.compile()
    outer = StateGraph(State).add_node("call", lambda state: called.invoke(state)).add_edge(START, "call")
    graph = outer.compile(checkpointer=InMemorySaver())
    graph.invoke({"value": ""}, config)
    assert graph.get_graph(xray=xray).marked(graph.get_state(config)).questions == {place: ("Sure?",)}


@pytest.mark.parametrize(("subgraphs", "place"), [(False, "team"), (True, "team:do")])
def test_a_breakpoint_inside_is_marked_inside_if_the_snapshot_tells_of_it(
    saver: Any, runner: Runner, config: RunnableConfig, subgraphs: bool, place: str
) -> None:
    team = StateGraph(State).add_sequence([("plan", lambda state: {}), ("do", lambda state: {})])
    outer = StateGraph(State).add_edge(START, "team")
    outer.add_node("team", team.add_edge(START, "plan").compile(interrupt_before=["do"]))
    graph = outer.compile(checkpointer=saver)
    runner.invoke(graph, {"value": ""}, config)
    state = runner.get_state(graph, config, subgraphs=subgraphs)
    assert graph.get_graph(xray=True).marked(state).next == {place}


def test_many_tasks_of_one_node_are_not_all_written_down(config: RunnableConfig) -> None:
    builder = StateGraph(State).add_node("ask", lambda number: {"value": interrupt(f"{number}?")})
    builder.add_conditional_edges(START, lambda state: [Send("ask", number) for number in range(10)], ["ask"])
    graph = builder.compile(checkpointer=InMemorySaver())
    graph.invoke({"value": ""}, config)
    marked = graph.get_graph().marked(graph.get_state(config))
    assert len(marked.questions["ask"]) == 10
    assert marked.notes("ask") == ["? 0?", "? 1?", "? 2?", "? and 7 more"]


# Snapshots with the snapshots of nested graphs in them


def test_a_position_inside_is_marked_there_and_not_at_its_box() -> None:
    graph = drawing(START, "team:plan", "team:inner:ask", "team:inner:do", END)
    inner = snapshot("do", namespace="team:1|inner:2")
    team = snapshot("inner", inside={"inner": inner}, namespace="team:1")
    assert graph.marked(snapshot("team", inside={"team": team})).next == {"team:inner:do"}
    assert graph.marked(snapshot("team", inside={"team": snapshot("inner")})).next == {"team:inner"}
    assert graph.marked(snapshot("team")).next == {"team"}


def test_a_position_inside_a_node_that_is_not_expanded_is_marked_at_the_node() -> None:
    outer = snapshot("team", inside={"team": snapshot("plan", asked=(question(namespace="team:1"),))})
    marked = drawing(START, "team", END).marked(outer)
    assert marked.next == {"team"}
    assert marked.questions == {"team": ("Sure?",)}


def test_a_question_that_two_snapshots_tell_of_is_marked_once() -> None:
    asked = (question(namespace="team:1"),)
    outer = snapshot("team", asked=asked, inside={"team": snapshot("ask", asked=asked, namespace="team:1")})
    assert drawing("team:ask").marked(outer).questions == {"team:ask": ("Sure?",)}


def test_the_snapshot_of_a_nested_graph_marks_that_graphs_own_drawing() -> None:
    asked = (question(namespace="team:1"), question("Deeper?", namespace="team:1|inner:2"))
    marked = drawing(START, "ask", "inner:ask", END).marked(
        snapshot("ask", "inner", asked=asked, namespace="team:1")
    )
    assert marked.questions == {"ask": ("Sure?",), "inner:ask": ("Deeper?",)}
    assert marked.next == {"ask", "inner:ask"}


def test_what_is_not_drawn_is_not_marked() -> None:
    marked = drawing("a").marked(snapshot("a", "hidden", asked=(question(node="hidden"),)))
    assert marked.next == {"a"}
    assert marked.questions == {}


# What is seen of it


def test_marking_changes_nothing_else_and_can_be_repeated() -> None:
    graph = replace(drawing("a", "b"), edges=[DrawEdge("a", "b")], interrupt_after=frozenset("a"))
    marked = graph.marked(snapshot("a"))
    assert graph.next == frozenset()
    assert replace(marked, next=frozenset()) == graph
    assert marked.marked(snapshot("b")) == graph.marked(snapshot("b"))


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("one\ntwo", "? one two"),
        ({"pay": 9}, "? {'pay': 9}"),
        ("word " * 30, "? word word word word word word word word word word word..."),
        ("x" * 100, f"? {'x' * 57}..."),
        (None, "? None"),
    ],
)
def test_questions_are_shown_in_one_short_line(text: Any, note: str) -> None:
    marked = drawing("ask").marked(snapshot("ask", asked=(question(text),)))
    assert marked.notes("ask") == [note]


def test_mermaid_has_classes_for_positions_and_questions() -> None:
    graph = drawing(START, "ask", "team:do", "other", END)
    graph = replace(graph, edges=[DrawEdge(START, "ask"), DrawEdge("ask", END)])
    marked = graph.marked(snapshot("ask", "team", "other", asked=(question('Is "1 < 2"?'),)))
    text = marked.draw_mermaid()
    assert 'ask["ask<br/><small>? Is #34;1 #60; 2#34;?</small>"]' in text
    assert 'subgraph team_3a_["team<br/><small>next</small>"]' in text
    assert (
        "\tclassDef next fill:#fff3bf,stroke:#f08c00,stroke-width:2px\n\tclass team_3a_,other next\n" in text
    )
    assert "\tclassDef question fill:#ffe3e3,stroke:#e03131,stroke-width:2px\n\tclass ask question\n" in text
    assert "classDef next" not in graph.draw_mermaid()
    bare = marked.draw_mermaid(with_styles=False)
    assert "classDef" not in bare
    assert "<small>next</small>" in bare
