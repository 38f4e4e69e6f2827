"""What attempts leave behind: values for the next attempt, writes that stand whatever the task comes to, and
questions whose names count within a part of a task."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from graphkit import END, Command, Send, entrypoint, task
from graphkit.engine.program import Branch, Callee, Shape
from graphkit.errors import InvalidUpdateError, NodeError, UnserializableStateError
from graphkit.runtime import get_runtime
from graphkit.types import Interrupt, RetryPolicy, RunnableConfig
from graphkit_checkpoint.records import AMEND, KEPT
from tests.conftest import EMPTY, Reopen, Runner, Saver
from tests.engine.programs import ask, graph, here

SOON = RetryPolicy(initial_interval=0.001, jitter=False, retry_on=ConnectionError)


def kinds(saver: Saver) -> list[str]:
    """The kinds of the records beside the head."""
    found = saver.load("t")
    assert found is not None
    return sorted(record.kind for record in found.pending)


# Keeping


def test_what_a_task_has_kept_is_there_when_it_runs_again(
    runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig
) -> None:
    paid = []

    def node(view: Any) -> Any:
        kept = here().kept
        if "bill" not in kept:
            paid.append(1)
            here().keep("bill", {"paid": len(paid)})
        answer = ask("fine?")
        return {"log": [here().kept["bill"], answer]}

    built = graph(runner, saver, {"node": node})
    assert runner.run(built, EMPTY, config).status == "interrupted"
    assert KEPT in kinds(saver)
    again = graph(runner, reopen(saver), {"node": node})
    result = runner.run(again, Command(resume="yes"), config)
    assert result.value["log"] == [{"paid": 1}, "yes"]
    assert KEPT not in kinds(saver)
    assert all(
        record.kind != KEPT for saved in saver.history("t") for record in saved.pending
    )  # forgotten when the task has finished


def test_what_a_task_has_kept_is_there_after_it_has_failed(
    runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig
) -> None:
    seen = []

    def node(view: Any) -> Any:
        seen.append(dict(here().kept))
        here().keep("tries", len(seen))
        if len(seen) < 3:
            raise ValueError("not yet")
        return {"log": [dict(here().kept)]}

    for given in (EMPTY, None):
        with pytest.raises(ValueError, match="not yet"):
            runner.run(graph(runner, reopen(saver), {"node": node}), given, config)
    runner.run(graph(runner, reopen(saver), {"node": node}), None, config)
    assert seen == [{}, {"tries": 1}, {"tries": 2}]
    assert KEPT not in kinds(saver)


def test_a_retry_finds_what_was_kept_and_amended_before_it(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    seen: list[Any] = []

    def node(view: Any) -> Any:
        seen.append((dict(here().kept), view.get("notes")))
        here().keep("tries", len(seen))
        here().amend("notes", {f"try{len(seen)}": True})
        if len(seen) < 3:
            raise ConnectionError
        return {"log": ["done"]}

    built = graph(runner, saver, {"node": node}, options={"node": {"retry": (SOON,)}})
    result = runner.run(built, EMPTY, config)
    assert [kept for kept, _ in seen] == [{}, {"tries": 1}, {"tries": 2}]
    assert [notes or {} for _, notes in seen] == [{}, {"try1": True}, {"try1": True, "try2": True}]
    assert result.value == {"log": ["done"], "notes": {"try1": True, "try2": True, "try3": True}}


def test_nothing_is_recorded_of_a_task_that_finishes(
    runner: Runner, saver: Saver, config: RunnableConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: list[Any] = []

    def watched(commit: Any) -> Any:
        commits.append(commit)
        return given(commit)

    door = "encode" if saver.blocking else "commit"
    given = getattr(saver, door)
    monkeypatch.setattr(saver, door, watched)

    def node(view: Any) -> Any:
        here().keep("big", "x" * 1000)
        here().amend("notes", {"a": 1})
        return {"log": ["done"]}

    result = runner.run(graph(runner, saver, {"node": node}), EMPTY, config)
    assert result.value == {"log": ["done"], "notes": {"a": 1}}
    assert len(commits) == 2
    assert not any(given.pending or given.forget for given in commits)
    assert kinds(saver) == []


def test_the_last_value_under_a_key_counts(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    def node(view: Any) -> Any:
        kept = dict(here().kept)
        here().keep("at", 1)
        here().keep("at", None)
        here().keep("other", [2])
        ask("go on?")
        return {"log": [kept]}

    built = graph(runner, saver, {"node": node})
    runner.run(built, EMPTY, config)
    assert runner.run(built, Command(resume=1), config).value["log"] == [{"at": None, "other": [2]}]


def test_an_error_handler_finds_what_the_node_has_kept(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    def node(view: Any) -> Any:
        here().keep("half", 1)
        here().amend("notes", {"node": "failed"})
        raise ValueError("broken")

    def handle(view: Any, error: NodeError) -> Any:
        answer = ask("repair?")
        return {"log": [dict(here().kept), answer]}

    async def ahandle(view: Any, error: NodeError) -> Any:
        return handle(view, error)

    sync = runner.colour == "sync"
    handler = Callee("handler", handle if sync else None, None if sync else ahandle)
    built = graph(runner, saver, {"node": node}, options={"node": {"handler": handler}})
    assert runner.run(built, EMPTY, config).status == "interrupted"
    result = runner.run(built, Command(resume="yes"), config)
    assert result.value == {"log": [{"half": 1}, "yes"], "notes": {"node": "failed"}}


def test_what_was_kept_and_cannot_be_stored_fails_the_task(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    def node(view: Any) -> Any:
        here().keep("lock", object())
        ask("go on?")

    with pytest.raises(UnserializableStateError, match="node 'node'"):
        runner.run(graph(runner, saver, {"node": node}), EMPTY, config)


def test_an_error_is_not_hidden_by_what_was_kept_and_cannot_be_stored(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    seen = []

    def node(view: Any) -> Any:
        seen.append(dict(here().kept))
        here().keep("lock", object())
        here().keep("fine", 1)
        raise ValueError("the reason")

    built = graph(runner, saver, {"node": node})
    with pytest.raises(ValueError, match="the reason") as raised:
        runner.run(built, EMPTY, config)
    assert any("'lock'" in note for note in raised.value.__notes__)
    with pytest.raises(ValueError, match="the reason"):
        runner.run(built, None, config)
    assert seen == [{}, {"fine": 1}]


def test_a_fork_begins_its_tasks_anew(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    seen = []

    def node(view: Any) -> Any:
        seen.append((dict(here().kept), view.get("notes", {})))
        here().keep("k", 1)
        here().amend("notes", {"by": "node"})
        return {"log": [ask("well?")]}

    built = graph(runner, saver, {"node": node})
    asked = runner.run(built, EMPTY, config)
    runner.run(built, Command(resume="first"), config)
    runner.run(built, None, asked.config)
    assert seen == [({}, {}), ({"k": 1}, {"by": "node"}), ({}, {})]


# Amends


def test_an_amend_stands_whatever_becomes_of_the_task(
    runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig
) -> None:
    seen = []

    def asks(view: Any) -> Any:
        seen.append(view.get("notes", {}))
        here().amend("notes", {"asks": len(seen)})
        return {"log": [ask("well?")]}

    def fails(view: Any) -> Any:
        here().amend("notes", {"fails": True})
        raise ValueError("no")

    def says(view: Any) -> Any:
        here().amend("notes", {"says": True})
        return {"notes": {"said": True}}

    built = graph(runner, saver, {"asks": asks, "fails": fails, "says": says})
    with pytest.raises(ValueError, match="no"):
        runner.run(built, EMPTY, config)
    other = graph(runner, reopen(saver), {"asks": asks, "fails": fails, "says": says})
    at_rest = runner.get_state(other, config)
    assert at_rest.values["notes"] == {"asks": 1, "fails": True, "says": True, "said": True}
    assert at_rest.next == ("asks", "fails")
    calm = graph(runner, reopen(saver), {"asks": asks, "fails": lambda view: None, "says": says})
    result = runner.run(calm, Command(resume="yes"), config)
    assert seen == [{}, {"asks": 1, "fails": True}]
    assert result.value["notes"] == {"asks": 2, "fails": True, "says": True, "said": True}
    assert result.value["log"] == ["yes"]


def test_amends_are_applied_in_the_order_of_tasks(
    runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig
) -> None:
    second_has_asked = threading.Event()

    def each(number: Any) -> Any:
        here().amend("log", [number])
        if number == 1:
            second_has_asked.set()
        elif runner.colour == "sync":
            assert second_has_asked.wait(20)
        return {"log": [ask(number)]}

    def spread(view: Any) -> Any:
        return Command(goto=[Send("each", 0), Send("each", 1)])

    nodes = {"spread": spread, "each": each}
    built = graph(runner, saver, nodes, first=["spread"])
    result = runner.run(built, EMPTY, config)
    assert result.value["log"] == [0, 1]
    other = graph(runner, reopen(saver), nodes, first=["spread"])
    assert runner.get_state(other, config).values["log"] == [0, 1]
    one, two = result.interrupts
    assert runner.run(other, Command(resume={two.id: "b"}), config).value["log"] == [0, 1, 1, "b"]
    assert runner.get_state(other, config).values["log"] == [0, 1, 1, "b"]
    assert runner.run(other, Command(resume={one.id: "a"}), config).value["log"] == [0, 1, 0, "a", 1, "b"]


def test_several_rounds_of_amends_and_commands_keep_their_order(
    runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig
) -> None:
    def node(view: Any) -> Any:
        here().amend("log", [f"round {len(view['log'])}"])
        return {"log": [ask("a", "a"), ask("b", "b"), ask("c", "c")]}

    built = graph(runner, saver, {"node": node})
    runner.run(built, {"log": ["in"]}, config)
    runner.run(built, Command(update={"log": ["outside"]}), config)
    expected = ["in", "round 1", "outside"]
    other = graph(runner, reopen(saver), {"node": node})
    assert runner.get_state(other, config).values["log"] == expected
    for answer in ("A", "B"):
        runner.run(other, Command(resume=answer), config)
        expected = [*expected, f"round {len(expected)}"]
        assert runner.get_state(other, config).values["log"] == expected
    assert runner.run(other, Command(resume="C"), config).value["log"] == [*expected, "round 5", *"ABC"]


def test_amends_of_the_next_superstep_are_in_order_too(
    runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig
) -> None:
    def node(view: Any) -> Any:
        here().amend("log", [f"round {len(view['log'])}"])
        ask("a", "a")
        ask("b", "b")

    def built() -> Any:
        nodes = {"one": node, "two": node}
        return graph(runner, reopen(saver), nodes, first=["one"], after={"one": ["two"]})

    runner.run(built(), {"log": ["in"]}, config)
    for _ in range(4):
        runner.run(built(), Command(resume="yes"), config)
    log = runner.get_state(built(), config).values["log"]
    assert log == ["in", *(f"round {number}" for number in range(1, 7))]


def test_a_new_turn_has_what_was_amended(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    def node(view: Any) -> Any:
        here().amend("notes", {"seen": len(view["log"])})
        return {"log": [ask("well?")]} if len(view["log"]) == 1 else None

    built = graph(runner, saver, {"node": node})
    runner.run(built, {"log": ["one"]}, config)
    result = runner.run(built, {"log": ["two"]}, config)
    assert result.value == {"log": ["one", "two"], "notes": {"seen": 2}}


def test_a_branch_sees_what_was_amended(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    def node(view: Any) -> Any:
        here().amend("last", "north")
        return {"log": ["node"]}

    def where(view: Any) -> Any:
        return "north" if view["last"] == "north" else END

    branch = Branch(Callee("where", where, None), Shape(None), None)
    nodes = {"node": node, "north": lambda view: {"log": ["north"]}}
    built = graph(runner, saver, nodes, first=["node"], options={"node": {"branches": (branch,)}})
    assert runner.run(built, EMPTY, config).value["log"] == ["node", "north"]


def test_amends_of_unknown_channels_and_refused_values_fail_the_task(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    def unknown(view: Any) -> Any:
        here().amend("nothing", 1)

    with pytest.raises(InvalidUpdateError, match="'nothing'"):
        runner.run(graph(runner, saver, {"node": unknown}), EMPTY, config)

    def refused(view: Any) -> Any:
        here().amend("log", 1)
        ask("well?")

    with pytest.raises(TypeError):
        runner.run(graph(runner, saver, {"node": refused}), EMPTY, config)
    state = runner.get_state(graph(runner, saver, {"node": refused}), config)
    assert state.next == ("node",) and state.interrupts == ()
    assert AMEND not in kinds(saver)


def test_without_a_saver_amends_and_keeping_last_as_long_as_the_run(runner: Runner) -> None:
    def node(view: Any) -> Any:
        here().amend("notes", {"a": 1})
        here().keep("k", 1)
        return {"log": [ask("well?")]}

    result = runner.run(graph(runner, None, {"node": node}), EMPTY)
    assert result.status == "interrupted"
    assert result.value["notes"] == {"a": 1}


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_every_durability_keeps(
    durability: Any, runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig
) -> None:
    def node(view: Any) -> Any:
        known = dict(here().kept)
        here().keep("k", 1)
        here().amend("notes", {"n": len(view.get("notes", {}))})
        return {"log": [known, ask("well?")]}

    nodes = {"before": lambda view: {"log": ["before"]}, "node": node}
    edges: Any = {"first": ["before"], "after": {"before": ["node"]}}
    runner.run(graph(runner, saver, nodes, **edges), EMPTY, config, durability=durability)
    other = graph(runner, reopen(saver), nodes, **edges)
    result = runner.run(other, Command(resume="yes"), config, durability=durability)
    assert result.value == {"log": ["before", {"k": 1}, "yes"], "notes": {"n": 1}}


# Calls


def test_a_called_task_keeps_and_amends_too(
    runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig
) -> None:
    paid = []

    @task
    def pay(number: int) -> Any:
        if "paid" not in here().kept:
            paid.append(number)
            here().keep("paid", number)
        answer = ask("fine?")
        return [here().kept["paid"], answer]

    @task
    def note(number: int) -> int:
        here().keep("number", number)
        return number

    @entrypoint(checkpointer=saver)
    def flow(given: Any) -> Any:
        assert get_runtime() is not None
        return [pay(given).result(), note(given).result()]

    runner.invoke(flow, 5, config)
    assert KEPT in kinds(saver)
    assert runner.invoke(flow, Command(resume="yes"), config) == [[5, "yes"], 5]
    assert paid == [5]
    assert KEPT not in kinds(saver)


def test_a_call_inside_a_node_amends_the_nodes_graph(
    runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig
) -> None:
    ran = []

    @task
    def work(number: int) -> int:
        ran.append(number)
        here().amend("notes", {f"call {number}": True})
        return number

    def node(view: Any) -> Any:
        return {"log": [work(1).result(), ask("well?")]}

    async def anode(view: Any) -> Any:
        return {"log": [await work(1), ask("well?")]}

    def calling(saver: Saver) -> Any:
        built = graph(runner, saver, {"node": node})
        if runner.colour == "async":
            built.program.nodes["node"].callee = Callee("node", None, anode)
        return built

    built = calling(saver)
    assert runner.run(built, EMPTY, config).value["notes"] == {"call 1": True}
    result = runner.run(calling(reopen(saver)), Command(resume="yes"), config)
    assert result.value == {"log": [1, "yes"], "notes": {"call 1": True}}
    assert ran == [1]


# Questions within a part of a task


def test_the_same_name_in_another_part_of_a_task_is_another_question(
    runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig
) -> None:
    def node(view: Any) -> Any:
        before = ask("before?", "ok", within="before:1")
        after = ask("after?", "ok", within="after:1")
        plain = ask("plain?", "ok")
        return {"log": [before, after, plain]}

    built = graph(runner, saver, {"node": node})
    asked: list[Interrupt] = []
    given: Any = EMPTY
    for answer in ("a", "b", "c"):
        result = runner.run(built, given, config)
        (question,) = result.interrupts
        asked.append(question)
        given = Command(resume={question.id: answer})
        built = graph(runner, reopen(saver), {"node": node})
    assert runner.run(built, given, config).value["log"] == ["a", "b", "c"]
    assert [question.name for question in asked] == ["ok", "ok", "ok"]
    assert len({question.id for question in asked}) == 3


def test_a_question_within_a_part_may_be_asked_again(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    def node(view: Any) -> Any:
        return {"log": [ask("ok?", "ok", within="try") for _ in range(2)]}

    built = graph(runner, saver, {"node": node})
    (question,) = runner.run(built, EMPTY, config).interrupts
    assert runner.run(built, Command(resume=7), config).value["log"] == [7, 7]
    assert question.name == "ok"


# What is shown of questions


def test_a_question_shows_its_answer_where_it_has_been_answered(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    def node(view: Any) -> Any:
        return {"log": [ask("first?", "one"), ask("second?", "two")]}

    built = graph(runner, saver, {"node": node})
    (first,) = runner.run(built, EMPTY, config).interrupts
    assert first.to_dict() == {"id": first.id, "name": "one", "reason": "first?", "response": None}
    runner.run(built, Command(resume="A"), config)
    (second,) = runner.get_state(built, config).interrupts
    assert second.name == "two" and second.response is None
    runner.run(built, Command(resume="B"), config)
    past = [snapshot for snapshot in runner.history(built, config) if snapshot.interrupts]
    assert [question.response for question in past[0].interrupts] == ["A", "B"]
    assert [question.to_dict()["response"] for question in past[0].interrupts] == ["A", "B"]
