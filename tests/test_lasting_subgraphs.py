"""Graphs with `checkpointer=True`: inside another graph they go on with the state they had."""

from __future__ import annotations

import asyncio
import contextvars
import operator
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Annotated, Any, TypedDict

import pytest

from graphkit import START, Command, Send, StateGraph, interrupt
from graphkit.errors import ConcurrentUpdateError, StorageUnavailableError
from graphkit.types import RunnableConfig
from graphkit_checkpoint.records import Commit
from tests.conftest import Build, Reopen, Runner, Saver, in_a_row


class Notes(TypedDict, total=False):
    word: str
    notes: Annotated[list[Any], operator.add]


class Seen(TypedDict, total=False):
    seen: Annotated[list[Any], operator.add]


class Outer(TypedDict, total=False):
    word: str
    seen: Annotated[list[Any], operator.add]


def notebook(*, asks: bool = False, **options: Any) -> Any:
    """A graph that notes its word, and an answer if it asks for one."""

    def note(state: Notes) -> Notes:
        return {"notes": [state["word"]]}

    def ask(state: Notes) -> Notes:
        return {"notes": [interrupt(state["word"])]}

    builder = StateGraph(Notes).add_node(note).add_edge(START, "note")
    if asks:
        builder.add_node(ask).add_edge("note", "ask")
    return builder.compile(**{"checkpointer": True, **options})


def calling(child: Any, *words: str) -> Any:
    def call(state: Outer) -> Outer:
        return {"seen": [child.invoke({"word": f"{state['word']}{word}"})["notes"] for word in words]}

    return call


def test_it_keeps_its_state_from_turn_to_turn(runner: Runner, build: Build, config: RunnableConfig) -> None:
    graph = build({"child": notebook()}, state=Outer)
    for word in "ab":
        runner.invoke(graph, {"word": word}, config)
    child = runner.get_state(graph, {"configurable": {**config["configurable"], "checkpoint_ns": "child"}})
    assert child.values == {"word": "b", "notes": ["a", "b"]}


def test_a_graph_compiled_without_it_begins_anew(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = build({"call": calling(notebook(checkpointer=None), "")}, state=Outer)
    runner.invoke(graph, {"word": "a"}, config)
    assert runner.invoke(graph, {"word": "b"}, config)["seen"] == [["a"], ["b"]]


def test_a_graph_compiled_with_false_stores_nothing(
    runner: Runner, build: Build, saver: Saver, config: RunnableConfig
) -> None:
    graph = build(
        {"child": notebook(checkpointer=False), "call": calling(notebook(checkpointer=False), "!")},
        state=Outer,
    )
    result = runner.invoke(graph, {"word": "a"}, config)
    assert result["seen"] == [["a!"]]
    assert {found.config["configurable"]["checkpoint_ns"] for found in saver.list(config)} == {""}
    for name in ("child", "call"):
        inside = runner.get_state(graph, {"configurable": {**config["configurable"], "checkpoint_ns": name}})
        assert inside.values == {}


def test_a_graph_compiled_with_false_that_asks_begins_anew(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    """What it had done before it asked is not kept; its answer is."""
    began: list[str] = []

    def begin(state: Notes) -> Notes:
        began.append(state["word"])
        return {"notes": ["begun"]}

    def ask(state: Notes) -> Notes:
        return {"notes": [interrupt("sure?")]}

    builder = (
        StateGraph(Notes).add_node(begin).add_node(ask).add_edge(START, "begin").add_edge("begin", "ask")
    )
    graph = build({"call": calling(builder.compile(checkpointer=False), "!")}, state=Outer)
    assert len(runner.invoke(graph, {"word": "a"}, config)["__interrupt__"]) == 1
    assert runner.invoke(graph, Command(resume="yes"), config)["seen"] == [["begun", "yes"]]
    assert began == ["a!", "a!"]


def test_each_call_of_it_in_a_task_has_a_state_of_its_own(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = build({"call": calling(notebook(), "1", "2")}, state=Outer)
    runner.invoke(graph, {"word": "a"}, config)
    shown = runner.invoke(graph, {"word": "b"}, config)
    assert shown["seen"] == [["a1"], ["a2"], ["a1", "b1"], ["a2", "b2"]]


def test_it_resumes_where_it_asked_and_then_goes_on(
    runner: Runner, build: Build, config: RunnableConfig, saver: Saver, reopen: Any
) -> None:
    graph = build({"call": calling(notebook(asks=True), "1", "2")}, state=Outer)
    for word in "ab":
        asked = []
        result = runner.run(graph, {"word": word}, config)
        while result.interrupts:
            asked.append(result.interrupts[0].value)
            graph = build({"call": calling(notebook(asks=True), "1", "2")}, state=Outer, saver=reopen(saver))
            result = runner.run(graph, Command(resume=f"!{word}"), config)
        assert asked == [f"{word}1", f"{word}2"]
    assert result.value["seen"][2:] == [["a1", "!a", "b1", "!b"], ["a2", "!a", "b2", "!b"]]


def test_a_turn_that_was_left_open_is_closed_by_the_next_one(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = build({"call": calling(notebook(asks=True), "")}, state=Outer)
    runner.invoke(graph, {"word": "a"}, config)
    runner.invoke(graph, {"word": "b"}, config)
    assert runner.invoke(graph, Command(resume="!"), config)["seen"] == [["a", "b", "!"]]


def test_a_task_that_runs_again_does_not_give_it_another_turn(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    child, tries = notebook(), iter([ConnectionError("line is down"), None])

    def call(state: Outer) -> Outer:
        seen = child.invoke({"word": state["word"]})["notes"]
        if error := next(tries):
            raise error
        return {"seen": [seen]}

    graph = build({"call": call}, state=Outer)
    with pytest.raises(ConnectionError):
        runner.invoke(graph, {"word": "a"}, config)
    assert runner.invoke(graph, None, config)["seen"] == [["a"]]


def test_inside_a_graph_that_begins_anew_it_keeps_its_state_all_the_same(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    middle = StateGraph(Outer).add_node("call", calling(notebook(), "")).add_edge(START, "call").compile()

    def call(state: Outer) -> Outer:
        return {"seen": [middle.invoke({"word": state["word"]})["seen"]]}

    graph = build({"call": call}, state=Outer)
    runner.invoke(graph, {"word": "a"}, config)
    assert runner.invoke(graph, {"word": "b"}, config)["seen"] == [[["a"]], [["a", "b"]]]


def test_concurrent_calls_of_it_are_refused(runner: Runner, build: Build, config: RunnableConfig) -> None:
    inside = threading.Event()

    def wait(state: Notes) -> None:
        assert inside.wait(20)

    child = StateGraph(Notes).add_node(wait).add_edge(START, "wait").compile(checkpointer=True)

    def call(state: Outer) -> None:
        with ThreadPoolExecutor(2) as pool:
            calls = [pool.submit(contextvars.copy_context().run, child.invoke, {"word": w}) for w in "ab"]
            refused = next(as_completed(calls))
            inside.set()
            refused.result()

    graph = build({"call": call}, state=Outer)
    with pytest.raises(ConcurrentUpdateError, match="once at a time"):
        runner.invoke(graph, {"word": ""}, config)


def test_tasks_that_run_side_by_side_cannot_share_it(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    both = asyncio.Event()

    async def wait(state: Notes) -> None:
        await both.wait()

    child = StateGraph(Notes).add_node(wait).add_edge(START, "wait").compile(checkpointer=True)

    async def node(state: Notes) -> None:
        try:
            await child.ainvoke({"word": state["word"]})
        finally:
            both.set()

    edges = [(START, lambda state: [Send("node", {"word": word}) for word in "ab"], ["node"])]
    graph = build({"node": node}, edges, state=Outer)
    with pytest.raises(ConcurrentUpdateError, match="once at a time"):
        runner.invoke(graph, {"word": ""}, config)


@pytest.mark.parametrize("shape", ["node", "function"])
@pytest.mark.parametrize("stop", ["question", "breakpoint"])
def test_a_task_cannot_begin_it_while_a_call_of_another_one_waits(
    runner: Runner, build: Build, config: RunnableConfig, stop: str, shape: str
) -> None:
    """The state of the call that waits would be lost, and the answer to it."""

    def ask(state: Notes) -> Notes:
        return {"notes": [interrupt(f"{state['word']}?") if stop == "question" else state["word"]]}

    before = ["ask"] if stop == "breakpoint" else None
    child = (
        StateGraph(Notes)
        .add_node(ask)
        .add_edge(START, "ask")
        .compile(checkpointer=True, interrupt_before=before)
    )

    def call(state: Notes) -> Outer:
        return {"seen": [child.invoke(state)["notes"]]}

    edges = [(START, lambda state: [Send("node", {"word": word}) for word in "ab"], ["node"])]
    graph = build({"node": child if shape == "node" else call}, edges, state=Seen)
    one_by_one: RunnableConfig = {**config, "max_concurrency": 1}
    with pytest.raises(ConcurrentUpdateError, match="once at a time"):
        runner.invoke(graph, {"seen": []}, one_by_one)
    for word in "ab":
        asked = [question.value for question in runner.get_state(graph, config).interrupts]
        assert asked == ([f"{word}?"] if stop == "question" else [])
        runner.invoke(graph, Command(resume=word) if asked else None, one_by_one)
    state = runner.get_state(graph, config, subgraphs=True)
    assert (state.next, state.values["seen"]) == ((), [["a"], ["a", "b"]] if shape == "function" else [])


def test_it_runs_only_inside_a_graph(runner: Runner, config: RunnableConfig) -> None:
    with pytest.raises(RuntimeError, match="only inside a node"):
        runner.invoke(notebook(), {"word": "a"}, config)


def test_in_a_graph_without_a_saver_it_keeps_nothing(runner: Runner, build: Build) -> None:
    graph = build({"call": calling(notebook(), "")}, state=Outer, saver=None)
    for _ in range(2):
        assert runner.invoke(graph, {"word": "a"})["seen"] == [["a"]]


def test_a_new_saver_object_finds_the_state(
    runner: Runner, build: Build, config: RunnableConfig, saver: Saver, reopen: Any
) -> None:
    runner.invoke(build({"call": calling(notebook(), "")}, state=Outer), {"word": "a"}, config)
    graph = build({"call": calling(notebook(), "")}, state=Outer, saver=reopen(saver))
    assert runner.invoke(graph, {"word": "b"}, config)["seen"] == [["a"], ["a", "b"]]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("shape", ["node", "function"])
def test_a_branch_goes_on_with_the_state_that_it_had_there(
    runner: Runner, build: Build, config: RunnableConfig, shape: str, durability: str
) -> None:
    node = notebook() if shape == "node" else calling(notebook(), "")
    graph = build({"child": node}, state=Outer)
    for word in "abc":
        runner.invoke(graph, {"word": word}, config, durability=durability)
    before_b = next(
        state
        for state in runner.history(graph, config)
        if state.next == ("child",) and state.values["word"] == "b"
    )
    inside = before_b.tasks[0].state
    runner.invoke(graph, None, before_b.config, durability=durability)
    assert runner.get_state(graph, inside).values["notes"] == ["a", "b"]
    runner.invoke(graph, {"word": "d"}, config, durability=durability)
    assert runner.get_state(graph, inside).values["notes"] == ["a", "b", "d"]
    first = [state for state in runner.history(graph, config) if state.next == ("child",)][-1]
    runner.invoke(graph, None, first.config, durability=durability)
    assert runner.get_state(graph, inside).values["notes"] == ["a"]


@pytest.mark.parametrize("shape", ["node", "function"])
def test_a_new_turn_at_an_older_checkpoint_knows_what_it_knew_there(
    runner: Runner, build: Build, config: RunnableConfig, shape: str
) -> None:
    """A run that writes only at its end has not stored the checkpoint from which the graph inside is called."""
    node = notebook() if shape == "node" else calling(notebook(), "")
    graph = build({"child": node, "last": lambda state: None}, in_a_row("child", "last"), state=Outer)
    ends = []
    for word in "abc":
        runner.invoke(graph, {"word": word}, config, durability="exit")
        ends.append(runner.get_state(graph, config).config)
    runner.invoke(graph, {"word": "d"}, ends[0], durability="exit")
    inside: Any = next(s for s in runner.history(graph, config) if s.next == ("child",)).tasks[0].state
    assert runner.get_state(graph, inside).values["notes"] == ["a", "d"]


def test_what_a_run_left_behind_that_never_wrote_is_nobodys(
    runner: Runner,
    build: Build,
    config: RunnableConfig,
    saver: Saver,
    reopen: Reopen,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It breaks off after the graph inside has stored its state, and before the one around it has."""
    graph = build({"child": calling(notebook(), "")}, state=Outer)
    runner.invoke(graph, {"word": "a"}, config, durability="exit")
    door = "encode" if saver.blocking else "commit"
    given = getattr(type(saver), door)

    def breaks_off(self: Any, commit: Commit) -> Any:
        if commit.release:
            raise StorageUnavailableError("the storage is gone")
        return given(self, commit)

    with monkeypatch.context() as patched:
        patched.setattr(type(saver), door, breaks_off)
        with pytest.raises(StorageUnavailableError):
            runner.invoke(graph, {"word": "b"}, config, durability="exit")
    (inside,) = [
        s for s in saver.history("t", saver.namespaces("t", "child")[0]) if s.values["notes"] == ["a", "b"]
    ]
    assert inside.checkpoint.control["next"] == []
    graph = build({"child": calling(notebook(), "")}, state=Outer, saver=reopen(saver))
    assert runner.invoke(graph, {"word": "b"}, config)["seen"] == [["a"], ["a", "b"]]
