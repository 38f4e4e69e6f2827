"""A graph inside a node, called or added as one: it pauses and resumes in place."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel

from graphkit import START, Command, StateGraph, interrupt
from graphkit.config import get_config
from graphkit.errors import ConcurrentUpdateError
from graphkit.types import RunnableConfig
from tests.conftest import Runner


class Child(TypedDict, total=False):
    word: str
    answer: str


class Parent(TypedDict, total=False):
    word: str
    answer: str
    log: Annotated[list[str], operator.add]


@pytest.fixture
def ran() -> list[str]:
    return []


@pytest.fixture
def child(ran: list[str]) -> Any:
    def before(state: Child) -> Child:
        ran.append("before")
        return {"word": state["word"] + "!"}

    def ask(state: Child) -> Child:
        ran.append("ask")
        return {"answer": interrupt(state["word"])}

    return StateGraph(Child).add_sequence([before, ask]).add_edge(START, "before").compile()


def around(child: Any, saver: Any = None) -> Any:
    """The child as a node of a graph."""
    return StateGraph(Parent).add_node("child", child).add_edge(START, "child").compile(checkpointer=saver)


def test_a_called_graph_resumes_at_the_node_that_asked(
    runner: Any, saver: Any, config: RunnableConfig, child: Any, ran: list[str]
) -> None:
    def parent(state: Parent) -> Parent:
        ran.append("parent")
        first = child.invoke({"word": "one"})["answer"]
        own = interrupt("own")
        second = child.invoke({"word": "two"})["answer"]
        return {"log": [first, own, second]}

    graph = StateGraph(Parent).add_node(parent).add_edge(START, "parent").compile(checkpointer=saver)
    asked = []
    result = runner.run(graph, {"log": []}, config)
    for answer in ("1", "mine", "2"):
        (question,) = result.interrupts
        asked.append((question.value, question.node))
        assert runner.get_state(graph, config).interrupts == (question,)
        result = runner.run(graph, Command(resume={question.id: answer}), config)
    assert asked == [("one!", "ask"), ("own", "parent"), ("two!", "ask")]
    assert result.value["log"] == ["1", "mine", "2"]
    assert ran.count("parent") == 4
    assert ran.count("before") == 2, "a node of the called graph that has run does not run again"


def test_a_graph_as_a_node_shares_the_keys_that_both_declare(
    runner: Any, saver: Any, config: RunnableConfig, child: Any
) -> None:
    graph = around(child, saver)
    runner.invoke(graph, {"word": "w", "log": ["kept"]}, config)
    assert runner.invoke(graph, Command(resume="yes"), config) == {
        "word": "w!",
        "answer": "yes",
        "log": ["kept"],
    }


@dataclass
class AsData:
    log: Annotated[list[str], operator.add] = field(default_factory=list)
    word: str = ""


class AsModel(BaseModel):
    log: Annotated[list[str], operator.add] = []
    word: str = ""


class AsDict(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    word: str


@pytest.mark.parametrize("outer", [AsData, AsModel, AsDict])
@pytest.mark.parametrize("inner", [AsData, AsModel, AsDict])
def test_graphs_share_keys_whatever_their_states_are(
    runner: Any, saver: Any, config: RunnableConfig, inner: type, outer: type
) -> None:
    def below(state: Any) -> Any:
        word = state["word"] if inner is AsDict else state.word
        return {"log": [type(state).__name__], "word": f"{word}!"}

    child = StateGraph(inner).add_node(below).add_edge(START, "below").compile()
    graph = StateGraph(outer).add_node("child", child).add_edge(START, "child").compile(checkpointer=saver)
    seen = "dict" if inner is AsDict else inner.__name__
    assert runner.invoke(graph, {"word": "w"}, config) == {"log": [seen], "word": "w!"}


def test_a_question_three_graphs_deep_is_answered_there(
    runner: Any, saver: Any, reopen: Any, config: RunnableConfig, child: Any, ran: list[str]
) -> None:
    def stacked(saver: Any) -> Any:
        return around(around(child), saver)

    (question,) = runner.run(stacked(saver), {"word": "deep"}, config).interrupts
    assert question.value == "deep!"
    assert question.namespace.count("|") == 1
    ran.clear()
    assert runner.invoke(stacked(reopen(saver)), Command(resume="found"), config)["answer"] == "found"
    assert ran == ["ask"]


def test_parallel_graphs_ask_with_ids_of_their_own(
    runner: Any, saver: Any, config: RunnableConfig, child: Any
) -> None:
    def call(word: str) -> Any:
        return lambda state: {"log": [child.invoke({"word": word})["answer"]]}

    builder = StateGraph(Parent)
    for name in "ab":
        builder.add_node(name, call(name)).add_edge(START, name)
    graph = builder.compile(checkpointer=saver)
    first, second = runner.run(graph, {"log": []}, config).interrupts
    assert (first.value, second.value, first.id != second.id) == ("a!", "b!", True)
    runner.invoke(graph, Command(resume={second.id: "B"}), config)
    assert runner.invoke(graph, Command(resume={first.id: "A"}), config)["log"] == ["A", "B"]


def test_without_a_saver_the_question_comes_out_all_the_same(runner: Any, child: Any) -> None:
    shown = runner.invoke(around(child), {"word": "w"})
    assert [question.value for question in shown["__interrupt__"]] == ["w!"]


def test_an_error_in_a_called_graph_does_not_run_its_finished_nodes_again(
    runner: Any, saver: Any, config: RunnableConfig
) -> None:
    runs: list[str] = []

    def steady(state: Child) -> Child:
        runs.append("steady")
        return {"word": "w"}

    def shaky(state: Child) -> Child:
        runs.append("shaky")
        if len(runs) < 3:
            raise ConnectionError("line is down")
        return {"answer": "up"}

    inner = StateGraph(Child).add_sequence([steady, shaky]).add_edge(START, "steady").compile()
    graph = around(inner, saver)
    with pytest.raises(ConnectionError, match="line is down"):
        runner.invoke(graph, {"word": ""}, config)
    assert runner.invoke(graph, None, config)["answer"] == "up"
    assert runs == ["steady", "shaky", "shaky"]


def test_a_called_graph_sees_the_callers_config(runner: Any, saver: Any, config: RunnableConfig) -> None:
    def look(state: Child) -> Child:
        return {"answer": get_config()["configurable"]["user"]}

    inner = StateGraph(Child).add_node(look).add_edge(START, "look").compile()
    named: RunnableConfig = {"configurable": {**config["configurable"], "user": "ada"}}
    assert runner.invoke(around(inner, saver), {"word": ""}, named)["answer"] == "ada"


def test_a_node_cannot_edit_the_thread_it_runs_on(runner: Any, saver: Any, config: RunnableConfig) -> None:
    def edit(state: Child) -> Child:
        with pytest.raises(ConcurrentUpdateError, match="owned"):
            graph.update_state(config, {"word": "edited"})
        return {"answer": "refused"}

    graph = StateGraph(Child).add_node(edit).add_edge(START, "edit").compile(checkpointer=saver)
    assert runner.invoke(graph, {"word": "w"}, config) == {"word": "w", "answer": "refused"}


def test_a_graph_with_a_thread_of_its_own_runs_by_itself(
    runner: Any, saver: Any, config: RunnableConfig, child: Any
) -> None:
    inner = child.builder.compile(checkpointer=saver)
    elsewhere: RunnableConfig = {"configurable": {"thread_id": "elsewhere"}}

    def call(state: Parent) -> Parent:
        shown = inner.invoke({"word": "w"}, elsewhere)
        return {"log": [question.value for question in shown["__interrupt__"]]}

    graph = StateGraph(Parent).add_node(call).add_edge(START, "call").compile(checkpointer=saver)
    assert runner.invoke(graph, {"log": []}, config) == {"log": ["w!"]}
    assert runner.invoke(inner, Command(resume="later"), elsewhere)["answer"] == "later"


def test_a_breakpoint_inside_pauses_the_whole_and_goes_on_in_place(
    runner: Runner, saver: Any, reopen: Any, config: RunnableConfig, ran: list[str]
) -> None:
    def inner() -> Any:
        def step(name: str) -> Any:
            return lambda state: ran.append(name)

        builder = StateGraph(Child).add_sequence([(name, step(name)) for name in ("one", "two")])
        return builder.add_edge(START, "one").compile(interrupt_before=["two"])

    result = runner.run(around(around(inner()), saver), {"word": "w"}, config)
    assert (result.status, result.next, ran) == ("paused", ("child",), ["one"])
    result = runner.run(around(around(inner()), reopen(saver)), None, config)
    assert (result.status, ran) == ("completed", ["one", "two"])


def test_what_a_nested_graph_keeps_to_itself_stays_private(
    runner: Runner, saver: Any, config: RunnableConfig
) -> None:
    class Secretive(TypedDict, total=False):
        word: str
        secret: str

    seen: list[Any] = []

    def hide(state: Secretive) -> Secretive:
        seen.append(dict(state))
        return {"word": "told", "secret": "hidden"}

    child = StateGraph(Secretive).add_node(hide).add_edge(START, "hide").compile()
    graph = around(child, saver)
    for _ in range(2):
        assert runner.invoke(graph, {"word": "w", "log": ["kept"]}, config)["word"] == "told"
    assert seen == [{"word": "w"}] * 2, "nothing of the parent's, and nothing of the turn before"
    assert "secret" not in runner.get_state(graph, config).values


def test_questions_from_several_depths_at_once_are_answered_by_id_in_another_process(
    runner: Runner, saver: Any, reopen: Any, config: RunnableConfig
) -> None:
    def asking(answer: str) -> Any:
        def ask(state: Child) -> Child:
            return {"answer": interrupt(answer)}

        return StateGraph(Child).add_node(ask).add_edge(START, "ask").compile()

    def call(depth: int) -> Any:
        graph = asking(f"at {depth}")
        for _ in range(depth):
            graph = around(graph)
        return lambda state: {"log": [graph.invoke({"word": ""})["answer"]]}

    def build(saver: Any) -> Any:
        builder = StateGraph(Parent)
        for depth in range(3):
            builder.add_node(f"n{depth}", call(depth)).add_edge(START, f"n{depth}")
        return builder.compile(checkpointer=saver)

    asked = runner.run(build(saver), {"log": []}, config).interrupts
    assert [question.value for question in asked] == ["at 0", "at 1", "at 2"]
    assert [question.namespace.count("|") for question in asked] == [0, 1, 2]
    left = runner.run(build(reopen(saver)), Command(resume={asked[2].id: "2"}), config)
    assert left.interrupts == asked[:2]
    answers = {asked[0].id: "0", asked[1].id: "1"}
    assert runner.invoke(build(reopen(saver)), Command(resume=answers), config)["log"] == ["0", "1", "2"]
