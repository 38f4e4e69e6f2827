"""Questions (SEMANTICS 2): what `interrupt()` reports, what a re-run may change, what answers must look like.

In nodes, edge functions and fan-out tasks.
"""

import asyncio
import contextlib
import contextvars
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from typing import Any, TypedDict

import pytest
from pydantic import BaseModel

from graphkit.errors import (
    GraphInterrupt,
    InterruptMismatchError,
    InvalidResponseError,
    UnserializableStateError,
)
from graphkit.graph import END, START
from graphkit.runtime import Runtime
from graphkit.types import Command, Interrupt, RetryPolicy, RunnableConfig, Send, interrupt
from tests.conftest import (
    EMPTY,
    Build,
    Edge,
    Reopen,
    Runner,
    Saver,
    Spelling,
    State,
    asks,
    in_a_row,
    questions,
    says,
)


def fan_out(asked: int) -> tuple[dict[str, Callable[..., Any]], list[Edge]]:
    """Nodes `z` and `b` and `asked` Sends to `worker`, all in one superstep, each asking."""

    def worker(state: dict[str, int]) -> State:
        return {"log": [interrupt(state["number"])]}

    def spread(state: State) -> list[str | Send]:
        return ["z", "b", *(Send("worker", {"number": number}) for number in range(asked))]

    nodes: dict[str, Callable[..., Any]] = {"z": asks("z?"), "worker": worker, "b": asks("b?")}
    return nodes, [(START, spread, ["z", "b", "worker"])]


def both(left: str, right: str) -> Callable[[State], Any]:
    """An async node that asks two questions at once."""

    async def answer(question: str) -> Any:
        return interrupt(question)

    async def ask(state: State) -> State:
        async with asyncio.TaskGroup() as group:
            answers = [group.create_task(answer(question)) for question in (left, right)]
        return {"log": [task.result() for task in answers]}

    return ask


# --- what a question says -------------------------------------------------------------------------


def test_a_question_says_what_is_asked_and_by_whom(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    asked = {"text": "Pay?", "amount": 10}
    graph = build({"pay": asks(asked)})

    result = runner.invoke(graph, {"log": ["in"]}, config)

    (question,) = result.pop("__interrupt__")
    assert result == {"log": ["in"]}
    assert (question.name, question.index, question.node, question.namespace) == (None, 0, "pay", "")
    assert question.response_schema is None
    assert question == Interrupt(asked, question.id), "who asks follows from the id"
    assert question != Interrupt(asked, "another") and question != Interrupt("Pay?", question.id)
    assert question.reason == question.value == asked
    assert question.interrupt_id == question.id
    assert re.fullmatch("[0-9a-f]{32}", question.id)


def test_the_state_shows_the_question_that_invoke_returned(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = build({"pay": asks("Pay?")})
    asked = runner.invoke(graph, {"log": ["in"]}, config)["__interrupt__"]

    state = runner.get_state(graph, config)

    assert list(state.interrupts) == asked
    assert state.next == ("pay",)
    assert state.values == {"log": ["in"]}
    (task,) = state.tasks
    assert (task.name, list(task.interrupts), task.error, task.result) == ("pay", asked, None, None)


def test_a_run_and_a_stream_show_the_same_question(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = build({"pay": asks("Pay?")})

    (chunk,) = runner.stream(graph, EMPTY, config)
    result = runner.run(graph, None, config)

    assert chunk == {"__interrupt__": result.interrupts}
    assert (result.status, result.next) == ("interrupted", ("pay",))
    assert [question.value for question in result.interrupts] == ["Pay?"]


def test_unnamed_questions_are_counted_and_named_ones_are_not(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    def ask(state: State) -> State:
        return {"log": [interrupt("a"), interrupt("b", name="budget"), interrupt("c")]}

    graph = build({"ask": ask})
    seen = []
    result = runner.invoke(graph, EMPTY, config)
    while "__interrupt__" in result:
        (question,) = result["__interrupt__"]
        seen.append((question.value, question.name, question.index))
        result = runner.invoke(graph, Command(resume=question.value.upper()), config)

    assert seen == [("a", None, 0), ("b", "budget", None), ("c", None, 1)]
    assert result == {"log": ["A", "B", "C"]}


# --- ids ------------------------------------------------------------------------------------------


def test_questions_have_ids_of_their_own_and_are_reported_in_task_order(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = build(*fan_out(12))

    result = runner.invoke(graph, EMPTY, config)

    assert list(questions(result)) == ["b?", "z?", *range(12)]
    assert len({question.id for question in result["__interrupt__"]}) == 14
    assert list(runner.get_state(graph, config).interrupts) == result["__interrupt__"]
    assert list(runner.run(graph, None, config).interrupts) == result["__interrupt__"]


def test_each_fan_out_task_gets_its_own_answer(runner: Runner, build: Build, config: RunnableConfig) -> None:
    graph = build(*fan_out(3))
    asked = questions(runner.invoke(graph, EMPTY, config))

    result = runner.invoke(graph, Command(resume={q.id: f"answer {v}" for v, q in asked.items()}), config)

    assert result == {"log": ["answer b?", "answer z?", "answer 0", "answer 1", "answer 2"]}


def test_successive_questions_of_one_task_have_different_ids(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    def ask(state: State) -> State:
        return {"log": [interrupt("same"), interrupt("same"), interrupt("same", name="same")]}

    graph = build({"ask": ask})
    results = [runner.invoke(graph, EMPTY, config)]
    results += [runner.invoke(graph, Command(resume=answer), config) for answer in (1, 2)]

    assert len({question.id for result in results for question in result["__interrupt__"]}) == 3
    assert runner.invoke(graph, Command(resume=3), config) == {"log": [1, 2, 3]}


def test_every_round_of_a_loop_and_every_thread_asks_anew(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = build(
        {"ask": asks("more?")}, [(START, "ask"), ("ask", lambda state: state["log"][-1], ["ask", END])]
    )
    other: RunnableConfig = {"configurable": {"thread_id": "other"}}

    first = questions(runner.invoke(graph, EMPTY, config))["more?"]
    second = questions(runner.invoke(graph, Command(resume="ask"), config))["more?"]
    elsewhere = questions(runner.invoke(graph, EMPTY, other))["more?"]

    assert len({first.id, second.id, elsewhere.id}) == 3
    assert runner.invoke(graph, Command(resume=END), config) == {"log": ["ask", END]}


def test_an_open_question_keeps_its_id_while_its_task_gets_other_answers(
    runner: Runner, build: Build, config: RunnableConfig, saver: Saver, reopen: Reopen
) -> None:
    nodes = {"ask": both("left", "right")}
    asked = questions(runner.invoke(build(nodes), EMPTY, config))
    elsewhere = build(nodes, saver=reopen(saver))

    result = runner.invoke(elsewhere, Command(resume={asked["right"].id: "R"}), config)

    assert result["__interrupt__"] == [asked["left"]]
    assert runner.get_state(elsewhere, config).interrupts == (asked["left"],)
    assert runner.invoke(elsewhere, Command(resume={asked["left"].id: "L"}), config) == {"log": ["L", "R"]}


# --- how a question leaves its task ---------------------------------------------------------------


def test_questions_in_an_exception_group_are_all_reported(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = build({"ask": both("left", "right")})

    result = runner.invoke(graph, EMPTY, config)
    asked = questions(result)

    assert list(asked) == ["left", "right"]
    assert [question.index for question in asked.values()] == [0, 1]
    answers = {asked["right"].id: "R", asked["left"].id: "L"}
    assert runner.invoke(graph, Command(resume=answers), config) == {"log": ["L", "R"]}


def test_except_exception_lets_a_question_pass(
    runner: Runner, build: Build, config: RunnableConfig, spell: Spelling
) -> None:
    def careful(state: State) -> State:
        try:
            return {"log": [interrupt("sure?")]}
        except Exception:
            return {"log": ["swallowed"]}

    graph = build({"careful": careful})
    asked = questions(runner.invoke(graph, EMPTY, config))["sure?"]

    assert not issubclass(GraphInterrupt, Exception)
    assert runner.invoke(graph, spell(asked, "yes"), config) == {"log": ["yes"]}


def swallow_by_except() -> Any:
    try:
        return interrupt("sure?")
    except BaseException:
        return "swallowed"


def swallow_by_suppress() -> Any:
    answer = "swallowed"
    with contextlib.suppress(BaseException):
        answer = interrupt("sure?")
    return answer


@pytest.mark.parametrize("swallow", [swallow_by_except, swallow_by_suppress])
def test_a_swallowed_question_is_asked_all_the_same(
    runner: Runner, build: Build, config: RunnableConfig, swallow: Callable[[], Any]
) -> None:
    def greedy(state: State) -> State:
        return {"log": [swallow()]}

    graph = build({"greedy": greedy, "next": says("next")}, in_a_row("greedy", "next"))

    with pytest.warns(Warning, match="greedy"):
        result = runner.invoke(graph, EMPTY, config)

    assert list(questions(result)) == ["sure?"]
    assert result["log"] == []
    assert runner.get_state(graph, config).next == ("greedy",)
    assert runner.invoke(graph, Command(resume="yes"), config) == {"log": ["yes", "next"]}


def test_siblings_of_a_question_run_to_their_end_and_never_again(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    asked = threading.Event()
    ran: list[str] = []

    def ask(state: State) -> State:
        ran.append("ask")
        asked.set()
        return {"log": [interrupt("q")]}

    def sibling(state: State) -> State:
        assert asked.wait(10)
        ran.append("sibling")
        return {"log": ["sibling"]}

    graph = build({"ask": ask, "sibling": sibling})
    runner.invoke(graph, EMPTY, config)

    state = runner.get_state(graph, config)
    assert state.next == ("ask",)
    assert {task.name: task.result for task in state.tasks} == {"ask": None, "sibling": {"log": ["sibling"]}}
    assert runner.invoke(graph, Command(resume="a"), config) == {"log": ["a", "sibling"]}
    assert sorted(ran) == ["ask", "ask", "sibling"]


def test_an_async_sibling_of_a_question_is_not_cancelled(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    ended: list[str] = []

    async def ask(state: State) -> State:
        return {"log": [interrupt("q")]}

    async def sibling(state: State) -> State:
        for _ in range(100):
            await asyncio.sleep(0)
        ended.append("sibling")
        return {"log": ["sibling"]}

    graph = build({"ask": ask, "sibling": sibling})
    runner.invoke(graph, EMPTY, config)

    assert ended == ["sibling"]
    assert runner.invoke(graph, Command(resume="a"), config) == {"log": ["a", "sibling"]}
    assert ended == ["sibling"]


def test_asking_and_answering_do_not_lengthen_the_history(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    def ask(state: State) -> State:
        return {"log": [interrupt(number) for number in range(3)]}

    graph = build({"ask": ask})
    runner.invoke(graph, EMPTY, config)
    before = runner.history(graph, config)

    for answer in ("a", "b"):
        runner.invoke(graph, Command(resume=answer), config)
        after = runner.history(graph, config)
        assert [snapshot.config for snapshot in after] == [snapshot.config for snapshot in before]
        assert runner.get_state(graph, config).config == before[0].config

    assert runner.invoke(graph, Command(resume="c"), config) == {"log": ["a", "b", "c"]}
    assert len(runner.history(graph, config)) == len(before) + 1


# --- where questions may be asked -----------------------------------------------------------------


def test_an_edge_function_may_ask(
    runner: Runner, build: Build, config: RunnableConfig, spell: Spelling
) -> None:
    nodes = {name: says(name) for name in ("work", "left", "right")}
    graph = build(nodes, [(START, "work"), ("work", lambda state: interrupt("where?"), ["left", "right"])])

    asked = questions(runner.invoke(graph, EMPTY, config))["where?"]

    assert (asked.node, asked.index) == ("work", 0)
    assert runner.get_state(graph, config).next == ("work",)
    assert runner.invoke(graph, spell(asked, "right"), config) == {"log": ["work", "right"]}


def test_a_node_and_its_edge_function_are_one_task_with_one_count(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    nodes = {"work": asks("what?"), "left": says("left")}
    graph = build(nodes, [(START, "work"), ("work", lambda state: interrupt("where?"), ["left"])])

    runner.invoke(graph, EMPTY, config)
    where = questions(runner.invoke(graph, Command(resume="this"), config))["where?"]

    assert (where.node, where.index) == ("work", 1)
    assert runner.invoke(graph, Command(resume="left"), config) == {"log": ["this", "left"]}


def test_the_entry_edge_may_ask(runner: Runner, build: Build, config: RunnableConfig) -> None:
    nodes = {name: says(name) for name in ("left", "right")}
    graph = build(nodes, [(START, lambda state: interrupt("where?"), ["left", "right"])])

    assert list(questions(runner.invoke(graph, {"log": ["in"]}, config))) == ["where?"]
    assert runner.invoke(graph, Command(resume="left"), config) == {"log": ["in", "left"]}


def test_outside_a_run_there_is_nobody_to_ask() -> None:
    with pytest.raises(RuntimeError, match="interrupt"):
        interrupt("anyone?")


def test_a_bare_thread_of_a_node_cannot_ask(runner: Runner, build: Build, config: RunnableConfig) -> None:
    def threaded(state: State) -> State:
        with ThreadPoolExecutor(1) as pool:
            return {"log": [pool.submit(interrupt, "q").result()]}

    graph = build({"threaded": threaded})

    with pytest.raises(RuntimeError, match=r"(?is)interrupt.*context"):
        runner.invoke(graph, EMPTY, config)


def test_a_thread_with_the_context_copied_can_ask(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    def threaded(state: State) -> State:
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(contextvars.copy_context().run, interrupt, "q").result()
        return {"log": [answer]}

    graph = build({"threaded": threaded})

    assert list(questions(runner.invoke(graph, EMPTY, config))) == ["q"]
    assert runner.invoke(graph, Command(resume="a"), config) == {"log": ["a"]}


def test_a_question_must_be_serializable(runner: Runner, build: Build, config: RunnableConfig) -> None:
    graph = build({"asks_an_object": asks({"what": object()})})

    with pytest.raises(UnserializableStateError, match="asks_an_object"):
        runner.invoke(graph, EMPTY, config)

    assert runner.get_state(graph, config).interrupts == ()


async def ask_async(state: State) -> State:
    await asyncio.sleep(0)
    return {"log": [interrupt("async?")]}


def test_async_and_blocking_nodes_ask_through_either_door(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = build({"async": ask_async, "blocking": asks("blocking?")})

    asked = questions(runner.invoke(graph, EMPTY, config))

    answers = {question.id: value for value, question in asked.items()}
    assert list(asked) == ["async?", "blocking?"]
    assert runner.invoke(graph, Command(resume=answers), config) == {"log": ["async?", "blocking?"]}


def test_a_blocking_node_does_not_stall_the_loop(build: Build, config: RunnableConfig) -> None:
    started, released = threading.Event(), threading.Event()

    def blocking(state: State) -> State:
        started.set()
        return {"log": [interrupt("go?"), released.wait(10)]}

    graph = build({"blocking": blocking})

    async def scenario() -> Any:
        await graph.ainvoke(EMPTY, config)
        started.clear()
        run = asyncio.create_task(graph.ainvoke(Command(resume="go"), config))
        while not started.is_set():
            await asyncio.sleep(0)
        released.set()
        return await run

    assert asyncio.run(scenario()) == {"log": ["go", True]}


# --- several questions in one node, and which answer belongs to which -----------------------------


def test_a_node_asks_until_the_answer_is_valid(
    runner: Runner, build: Build, config: RunnableConfig, saver: Saver, reopen: Reopen
) -> None:
    def age(state: State) -> State:
        question = "age?"
        while True:
            answer = interrupt(question)
            if isinstance(answer, int) and answer >= 0:
                return {"log": [answer]}
            question = f"{answer!r} is no age"

    result = runner.invoke(build({"age": age}), EMPTY, config)
    asked: list[str] = []
    for answer in ("x", -1, 0):
        asked += questions(result)
        result = runner.invoke(build({"age": age}, saver=reopen(saver)), Command(resume=answer), config)

    assert asked == ["age?", "'x' is no age", "-1 is no age"]
    assert result == {"log": [0]}


class Script:
    """A node that asks what `lines` hold at the moment; `heard` is what its questions returned."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.heard: list[tuple[str, Any]] = []

    def node(self, state: State) -> State:
        for line in self.lines:
            self.heard.append((line, interrupt(line)))
        return {"log": [answer for _, answer in self.heard[-len(self.lines) :]]}


@pytest.mark.parametrize(
    ("before", "after", "index"),
    [
        (["Pay ten?"], ["Pay a thousand?"], 0),
        (["Book?", "Pay ten?"], ["Book?", "Pay a thousand?"], 1),
        (["Pay ten?", "Book?"], ["Book?", "Pay ten?"], 0),
    ],
    ids=["changed", "changed second", "swapped"],
)
def test_an_answer_is_bound_to_what_was_shown(
    runner: Runner, build: Build, config: RunnableConfig, before: list[str], after: list[str], index: int
) -> None:
    script = Script(*before)
    graph = build({"pay": script.node})
    runner.invoke(graph, EMPTY, config)
    for answered in before[:index]:
        runner.invoke(graph, Command(resume=f"yes to {answered}"), config)
    script.lines, script.heard = after, []

    with pytest.raises(InterruptMismatchError) as refused:
        runner.invoke(graph, Command(resume=f"yes to {before[index]}"), config)

    for named in ("pay", str(index), before[index], after[index], "name"):
        assert named in str(refused.value)
    assert script.heard == [(line, f"yes to {line}") for line in before[:index]]
    state = runner.get_state(graph, config)
    assert (state.next, state.values) == (("pay",), EMPTY)
    script.lines, script.heard = before, []
    result = runner.invoke(graph, None, config)
    assert script.heard[: index + 1] == [(line, f"yes to {line}") for line in before[: index + 1]]
    assert ("__interrupt__" in result) == (len(before) > index + 1)


def test_another_process_with_another_question_does_not_take_the_answer(
    runner: Runner, build: Build, config: RunnableConfig, saver: Saver, reopen: Reopen
) -> None:
    old, new = Script("Pay ten?"), Script("Pay a thousand?")
    runner.invoke(build({"pay": old.node}), EMPTY, config)

    with pytest.raises(InterruptMismatchError, match="Pay a thousand"):
        runner.invoke(build({"pay": new.node}, saver=reopen(saver)), Command(resume=True), config)

    assert new.heard == []
    assert runner.invoke(build({"pay": old.node}, saver=reopen(saver)), None, config) == {"log": [True]}


def test_a_mismatch_that_user_code_swallows_fails_the_task_all_the_same(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    lines = ["Pay ten?"]

    def pay(state: State) -> State:
        try:
            return {"log": [interrupt(lines[0])]}
        except Exception:
            return {"log": ["paid"]}

    graph = build({"pay": pay})
    runner.invoke(graph, EMPTY, config)
    lines[0] = "Pay a thousand?"

    with pytest.raises(InterruptMismatchError, match="pay"):
        runner.invoke(graph, Command(resume=True), config)

    assert runner.get_state(graph, config).values == EMPTY


def test_index_matching_can_be_left_unchecked(runner: Runner, build: Build, config: RunnableConfig) -> None:
    script = Script("Pay ten?")
    graph = build({"pay": script.node}, interrupt_matching="index")
    runner.invoke(graph, EMPTY, config)
    script.lines = ["Pay a thousand?"]

    assert runner.invoke(graph, Command(resume=True), config) == {"log": [True]}


def test_a_draft_that_differs_on_every_run_needs_a_name(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    drafts = count()

    def unnamed(state: State) -> State:
        return {"log": [interrupt({"draft": next(drafts)})]}

    def named(state: State) -> State:
        return {"log": [interrupt({"draft": next(drafts)}, name="draft")]}

    other: RunnableConfig = {"configurable": {"thread_id": "other"}}
    for node, where in ((unnamed, config), (named, other)):
        runner.invoke(build({"review": node}), EMPTY, where)

    with pytest.raises(InterruptMismatchError, match="name"):
        runner.invoke(build({"review": unnamed}), Command(resume="ok"), config)
    assert runner.invoke(build({"review": named}), Command(resume="ok"), other) == {"log": ["ok"]}


def test_named_questions_may_change_their_order(runner: Runner, build: Build, config: RunnableConfig) -> None:
    order = ["budget", "date"]

    def plan(state: State) -> State:
        answers = {name: interrupt(f"{name}?", name=name) for name in order}
        return {"log": sorted(answers.items())}

    graph = build({"plan": plan})
    assert list(questions(runner.invoke(graph, EMPTY, config))) == ["budget?"]
    order.reverse()
    assert list(questions(runner.invoke(graph, Command(resume=100), config))) == ["date?"]
    order.reverse()

    result = runner.invoke(graph, Command(resume="May"), config)

    assert result == {"log": [("budget", 100), ("date", "May")]}


def test_named_questions_do_not_shift_the_unnamed(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    names = ["extra"]

    def plan(state: State) -> State:
        extra = [interrupt(f"{name}?", name=name) for name in names]
        return {"log": [interrupt("city?"), interrupt("date?"), *extra]}

    graph = build({"plan": plan})
    runner.invoke(graph, EMPTY, config)
    runner.invoke(graph, Command(resume="e"), config)
    runner.invoke(graph, Command(resume="Rome"), config)
    names.clear()

    assert runner.invoke(graph, Command(resume="May"), config) == {"log": ["Rome", "May"]}


def test_a_name_is_asked_once_in_a_task(runner: Runner, build: Build, config: RunnableConfig) -> None:
    graph = build({"plan": lambda state: {"log": [interrupt(word, name="budget") for word in ("a?", "b?")]}})
    runner.invoke(graph, EMPTY, config)
    with pytest.raises(ValueError, match=r"'plan' asks a question named 'budget' twice"):
        runner.invoke(graph, Command(resume=1), config)


# --- answers with a schema ------------------------------------------------------------------------


class PersonModel(BaseModel):
    name: str
    age: int


@dataclass
class PersonData:
    name: str
    age: int


class PersonDict(TypedDict):
    name: str
    age: int


PERSON_SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}
ADA = {"name": "Ada", "age": 36}
KINDS = pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (PersonModel, PersonModel(name="Ada", age=36)),
        (PersonData, PersonData(name="Ada", age=36)),
        (PersonDict, ADA),
        (PERSON_SCHEMA, ADA),
    ],
    ids=["pydantic", "dataclass", "TypedDict", "JSON schema"],
)


class Interview:
    """A node that asks for a person; `heard` is what it got, `runs` how often it started."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self.runs = 0
        self.heard: list[Any] = []

    def node(self, state: State) -> State:
        self.runs += 1
        self.heard.append(interrupt("who?", response_schema=self.schema))
        return {"log": ["heard"]}


@KINDS
def test_a_good_answer_arrives_as_the_type_asked_for(
    runner: Runner, build: Build, config: RunnableConfig, spell: Spelling, schema: Any, expected: Any
) -> None:
    interview = Interview(schema)
    graph = build({"ask": interview.node})

    asked = questions(runner.invoke(graph, EMPTY, config))["who?"]

    assert asked.response_schema is not None
    assert asked.response_schema["properties"].keys() == {"name", "age"}
    assert runner.get_state(graph, config).interrupts == (asked,)
    assert runner.invoke(graph, spell(asked, ADA), config) == {"log": ["heard"]}
    assert interview.heard == [expected]
    assert type(interview.heard[0]) is type(expected)


@KINDS
@pytest.mark.parametrize("bad", [{"name": "Ada", "age": "old"}, {"name": "Ada"}, "Ada", 0, None], ids=str)
def test_a_bad_answer_is_refused_and_the_question_stays_open(
    runner: Runner, build: Build, config: RunnableConfig, schema: Any, expected: Any, bad: Any
) -> None:
    interview = Interview(schema)
    graph = build({"ask": interview.node})
    asked = questions(runner.invoke(graph, EMPTY, config))["who?"]
    before = runner.thread(graph, config)

    with pytest.raises(InvalidResponseError):
        runner.invoke(graph, Command(resume={asked.id: bad}), config)

    assert runner.thread(graph, config) == before
    assert (interview.runs, interview.heard) == (1, [])
    assert runner.invoke(graph, None, config)["__interrupt__"] == [asked]
    assert runner.invoke(graph, Command(resume=ADA), config) == {"log": ["heard"]}
    assert interview.heard == [expected]


@KINDS
def test_answers_are_checked_in_another_process_too(
    runner: Runner,
    build: Build,
    config: RunnableConfig,
    saver: Saver,
    reopen: Reopen,
    schema: Any,
    expected: Any,
) -> None:
    here, there = Interview(schema), Interview(schema)
    asked = questions(runner.invoke(build({"ask": here.node}), EMPTY, config))["who?"]
    graph = build({"ask": there.node}, saver=reopen(saver))

    with pytest.raises(InvalidResponseError):
        runner.invoke(graph, Command(resume={"name": "Ada", "age": "old"}), config)

    assert there.runs == 0
    assert runner.get_state(graph, config).interrupts == (asked,)
    runner.invoke(graph, Command(resume=ADA), config)
    assert there.heard == [expected]
    assert type(there.heard[0]) is type(expected)


def test_one_bad_answer_in_a_map_refuses_the_whole_map(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    first, second = Interview(PersonModel), Interview(PersonModel)
    graph = build({"first": first.node, "second": second.node})
    one, two = runner.invoke(graph, EMPTY, config)["__interrupt__"]

    with pytest.raises(InvalidResponseError):
        runner.invoke(graph, Command(resume={one.id: ADA, two.id: "Ada"}), config)

    assert (first.runs, second.runs) == (1, 1)
    assert runner.get_state(graph, config).interrupts == (one, two)


# --- effects --------------------------------------------------------------------------------------


def test_the_idempotency_key_of_a_task_survives_its_re_runs(
    runner: Runner, build: Build, config: RunnableConfig, saver: Saver, reopen: Reopen
) -> None:
    keys: list[str] = []

    def pay(state: State, runtime: Runtime[Any]) -> State:
        keys.append(runtime.idempotency_key)
        answer = interrupt("Pay?")
        if len(keys) == 2:
            raise ConnectionError("try again")
        return {"log": [answer]}

    retry = {"pay": {"retry_policy": RetryPolicy(initial_interval=0.001, jitter=False)}}
    runner.invoke(build({"pay": pay}), EMPTY, config)
    graph = build({"pay": pay}, saver=reopen(saver), node_options=retry)
    assert runner.invoke(graph, Command(resume="yes"), config) == {"log": ["yes"]}

    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert isinstance(keys[0], str)
    assert keys[0]


def test_every_task_has_an_idempotency_key_of_its_own(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    keys: list[str] = []

    def pay(state: State, runtime: Runtime[Any]) -> State:
        keys.append(runtime.idempotency_key)
        return {"log": ["paid"]}

    edges: list[Edge] = [
        (START, lambda state: [Send("pay", state), Send("pay", state)], ["pay"]),
        ("pay", "also"),
        ("also", lambda state: "also" if len(state["log"]) < 4 else END, ["also", END]),
    ]
    graph = build({"pay": pay, "also": pay}, edges)
    other: RunnableConfig = {"configurable": {"thread_id": "other"}}

    for where in (config, other):
        assert len(runner.invoke(graph, EMPTY, where)["log"]) == 4

    assert len(keys) == len(set(keys)) == 8
