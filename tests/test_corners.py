"""Where two features meet: each of these was wrong once."""

from __future__ import annotations

import asyncio
import operator
import threading
import time
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel, field_validator

from graphkit import START, Command, Send, StateGraph, interrupt
from graphkit.cache.memory import InMemoryCache
from graphkit.checkpoint.memory import InMemorySaver
from graphkit.checkpoint.sqlite import SqliteSaver
from graphkit.errors import (
    GraphVersionError,
    InvalidResponseError,
    InvalidThreadIdError,
    InvalidUpdateError,
    NoPendingInterruptError,
    UnserializableStateError,
)
from graphkit.store.memory import InMemoryStore
from graphkit.types import CachePolicy, RetryPolicy, RunnableConfig


class State(TypedDict, total=False):
    x: int
    y: Any
    log: Annotated[list[Any], operator.add]


def says(word: str) -> Any:
    return lambda state: {"log": [word]}


def line(saver: Any, *nodes: tuple[str, Any], **options: Any) -> Any:
    builder = StateGraph(State).add_sequence(list(nodes)).add_edge(START, nodes[0][0])
    return builder.compile(checkpointer=saver, **options)


# Resuming at an old checkpoint


def test_an_answer_at_an_old_breakpoint_answers_nothing_and_runs_nothing(
    runner: Any, saver: Any, config: RunnableConfig
) -> None:
    paid: list[int] = []
    graph = line(saver, ("b", says("b")), ("pay", lambda state: paid.append(1)), interrupt_before=["pay"])
    runner.invoke(graph, {"x": 1}, config)
    old = runner.get_state(graph, config).config
    runner.invoke(graph, None, config)
    with pytest.raises(NoPendingInterruptError):
        runner.invoke(graph, Command(resume="yes"), old)
    assert paid == [1]


def test_an_answer_given_again_with_an_update_has_no_effect(
    runner: Any, saver: Any, config: RunnableConfig
) -> None:
    paid: list[int] = []
    graph = line(saver, ("ask", lambda s: {"log": [interrupt("?")]}), ("pay", lambda s: paid.append(1)))
    (question,) = runner.run(graph, {"x": 1}, config).interrupts
    old = runner.get_state(graph, config).config
    answer: Any = Command(resume={question.id: "yes"}, update={"x": 5})
    first = runner.invoke(graph, answer, config)
    assert runner.invoke(graph, answer, old) == runner.invoke(graph, answer, config) == first
    assert (paid, runner.get_state(graph, config).values["x"]) == ([1], 5)


# Commands from outside


def test_an_update_beside_open_questions_outlives_a_new_turn(
    runner: Any, saver: Any, config: RunnableConfig
) -> None:
    graph = line(saver, ("ask", lambda s: {"log": [interrupt("?")]}))
    runner.invoke(graph, {"x": 1}, config)
    runner.invoke(graph, Command(update={"y": "kept"}), config)
    runner.invoke(graph, {"x": 2}, config)
    assert runner.get_state(graph, config).values["y"] == "kept"


def test_an_update_of_a_finished_thread_runs_nothing(runner: Any, saver: Any, config: RunnableConfig) -> None:
    graph = line(saver, ("n", says("n")))
    runner.invoke(graph, {"x": 1}, config)
    assert runner.invoke(graph, Command(update={"y": 1}), config) == {"x": 1, "y": 1, "log": ["n"]}


def test_an_update_at_an_old_checkpoint_goes_on_from_there(
    runner: Any, saver: Any, config: RunnableConfig
) -> None:
    graph = line(saver, ("a", says("a")), ("b", says("b")))
    runner.invoke(graph, {"x": 1}, config)
    old = next(point for point in runner.history(graph, config) if point.next == ("b",))
    assert runner.invoke(graph, Command(update={"y": 1}), old.config)["log"] == ["a", "b"]
    assert runner.get_state(graph, config).values["y"] == 1


def test_ending_a_thread_keeps_what_finished_tasks_wrote(
    runner: Any, saver: Any, config: RunnableConfig
) -> None:
    builder = StateGraph(State).add_node("a", says("a")).add_node("q", lambda s: {"log": [interrupt("?")]})
    graph = builder.add_edge(START, "a").add_edge(START, "q").compile(checkpointer=saver)
    runner.invoke(graph, {"x": 1}, config)
    runner.update_state(graph, config, None, as_node="__end__")
    state = runner.get_state(graph, config)
    assert (state.values["log"], state.next) == (["a"], ())


# Questions


def test_an_error_handler_asks_questions_of_its_own(runner: Any, saver: Any, config: RunnableConfig) -> None:
    def fails(state: State) -> State:
        interrupt("ok?")
        raise ValueError

    def handler(state: State, error: Any) -> State:
        return {"log": [interrupt("ok?")]}

    builder = StateGraph(State).add_node(fails, error_handler=handler).add_edge(START, "fails")
    graph = builder.compile(checkpointer=saver)
    (first,) = runner.run(graph, {"x": 1}, config).interrupts
    (second,) = runner.run(graph, Command(resume="for the node"), config).interrupts
    assert first.id != second.id
    assert runner.invoke(graph, Command(resume="for the handler"), config)["log"] == ["for the handler"]


class Even(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("odd")
        return value


def test_an_answer_that_only_the_class_refuses_leaves_a_nested_question_open(
    runner: Any, saver: Any, config: RunnableConfig
) -> None:
    retry = RetryPolicy(initial_interval=0, retry_on=Exception)
    ask = StateGraph(State).add_node("ask", lambda s: {"y": interrupt("n?", response_schema=Even).n})
    child = ask.add_edge(START, "ask").compile()
    builder = StateGraph(State).add_node("child", child, retry_policy=retry).add_edge(START, "child")
    graph = builder.compile(checkpointer=saver)
    (question,) = runner.run(graph, {"x": 1}, config).interrupts
    with pytest.raises(InvalidResponseError, match="odd"):
        runner.invoke(graph, Command(resume={"n": 3}), config)
    assert runner.get_state(graph, config).interrupts == (question,)
    assert runner.invoke(graph, Command(resume={"n": 4}), config)["y"] == 4


# Graphs in graphs


@pytest.mark.parametrize("stop", [{"interrupt_before": ["pay"]}, {"interrupt_after": ["first"]}])
def test_a_breakpoint_in_a_nested_graph_pauses_the_whole(
    runner: Any, saver: Any, config: RunnableConfig, stop: Any
) -> None:
    child = line(None, ("first", says("first")), ("pay", says("pay")), **stop)
    called = lambda state: {"log": child.invoke({"x": 1})["log"]}  # noqa: E731
    graph = line(saver, ("child", called), ("last", says("last")))
    paused = runner.run(graph, {"x": 1}, config)
    assert (paused.status, paused.next) == ("paused", ("child",))
    assert runner.invoke(graph, None, config)["log"] == ["first", "pay", "last"]


def test_an_async_graph_called_in_an_async_node_of_a_sync_run_does_not_wait_for_itself() -> None:
    async def inner(state: State) -> State:
        return {"x": 5}

    child = line(None, ("inner", inner))

    async def outer(state: State) -> State:
        found: State = child.invoke({"x": 1})
        return found

    assert line(None, ("outer", outer)).invoke({"x": 1})["x"] == 5


def test_a_graph_with_a_saver_in_one_without_uses_the_callers_thread(
    runner: Any, saver: Any, config: RunnableConfig
) -> None:
    child = line(saver, ("n", says("n")))
    graph = line(None, ("call", lambda state: {"y": child.invoke({"x": 7})["x"]}))
    assert runner.invoke(graph, {"x": 1}, config)["y"] == 7
    assert runner.get_state(child, config).values["x"] == 7
    with pytest.raises(InvalidThreadIdError):
        runner.invoke(graph, {"x": 1})


def test_a_cancellation_during_a_nested_commit_is_not_lost(tmp_path: Any, config: RunnableConfig) -> None:
    entered, cancelled = asyncio.Event(), threading.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    class Slow(SqliteSaver):
        def write_batch(self, batch: Any) -> Any:
            if batch[0].namespace and batch[0].checkpoints[-1].step > 0:
                loops[0].call_soon_threadsafe(entered.set)
                assert cancelled.wait(20)
            return super().write_batch(batch)

    async def quick(state: State) -> State:
        return {"log": ["quick"]}

    went_on: list[str] = []
    with Slow(tmp_path / "t.sqlite") as saver:
        child = line(None, ("quick", quick))

        async def parent(state: State) -> State:
            await child.ainvoke({"x": 0})
            went_on.append("parent")
            return {}

        async def cancels() -> None:
            loops.append(asyncio.get_running_loop())
            run = asyncio.create_task(line(saver, ("parent", parent)).ainvoke({"x": 1}, config))
            await entered.wait()
            run.cancel()
            # Once the run has heard of it.
            asyncio.get_running_loop().call_soon(cancelled.set)
            with pytest.raises(asyncio.CancelledError):
                await run

        asyncio.run(cancels())
    assert went_on == []


# Ending


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_leaving_from_an_async_node_leaves_the_loop_to_others(kind: type[BaseException]) -> None:
    async def leaves(state: State) -> State:
        raise kind

    async def stays(state: State) -> State:
        return {"x": 2}

    with pytest.raises(kind):
        line(None, ("leaves", leaves)).invoke({"x": 1})
    assert line(None, ("stays", stays)).invoke({"x": 1})["x"] == 2


# What cannot be stored


def test_one_output_that_cannot_be_stored_costs_no_sibling_its_own(
    runner: Any, saver: Any, config: RunnableConfig
) -> None:
    ran: list[str] = []

    def slow(state: State) -> State:
        time.sleep(0.05)  # long enough for the others to be recorded on their way
        ran.append("slow")
        return {"log": ["slow"]}

    def good(state: State) -> State:
        ran.append("good")
        return {"log": ["good"]}

    wrong: list[Any] = [object()]
    builder = StateGraph(State).add_node(slow).add_node(good)
    builder.add_node("bad", lambda state: {"y": wrong[0], "log": ["bad"]})
    for name in ("slow", "good", "bad"):
        builder.add_edge(START, name)
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(UnserializableStateError, match=r"'bad'.*'y'"):
        runner.invoke(graph, {"x": 1}, config)
    assert runner.get_state(graph, config).next == ("bad",)
    wrong[0] = "plain"
    assert runner.invoke(graph, None, config)["log"] == ["bad", "good", "slow"]
    assert sorted(ran) == ["good", "slow"]


def test_a_run_that_writes_at_its_end_keeps_what_came_before_a_refused_value(
    runner: Any, saver: Any, config: RunnableConfig
) -> None:
    graph = line(saver, ("a", says("a")), ("bad", lambda state: {"y": object()}))
    with pytest.raises(UnserializableStateError, match="'y'") as caught:
        runner.invoke(graph, {"x": 1}, config, durability="exit")
    assert (caught.value.channel, caught.value.type_name) == ("y", "object")
    state = runner.get_state(graph, config)
    assert (state.values["log"], state.next) == (["a"], ("bad",))


def picky(before: list[str], word: str) -> list[str]:
    if word == "bad":
        raise LookupError("picky")
    return [*(before or []), word]


class Picky(TypedDict):
    words: Annotated[list[str], picky]


def test_a_thread_can_be_looked_at_when_a_reducer_refuses(
    runner: Any, saver: Any, config: RunnableConfig
) -> None:
    builder = StateGraph(Picky)
    for word in ("bad", "good"):
        builder.add_node(word, lambda state, word=word: {"words": word}).add_edge(START, word)
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(LookupError, match="picky"):
        runner.invoke(graph, {"words": "in"}, config)
    assert runner.get_state(graph, config).values == {"words": ["in"]}


def test_a_question_beside_writes_that_contradict_each_other_is_not_lost(
    runner: Any, saver: Any, config: RunnableConfig
) -> None:
    builder = StateGraph(State).add_node("ask", lambda state: {"log": [interrupt("?")]})
    for name in ("a", "b"):
        builder.add_node(name, lambda state: {"y": 1}).add_edge(START, name)
    graph = builder.add_edge(START, "ask").compile(checkpointer=saver)
    paused = runner.run(graph, {"x": 1}, config)
    assert [question.value for question in paused.interrupts] == ["?"]
    with pytest.raises(InvalidUpdateError, match="'y'"):
        runner.invoke(graph, Command(resume="yes"), config)


# And the rest


def test_a_reducer_that_changes_its_argument_is_applied_once(runner: Any) -> None:
    def extend(before: list[str], more: list[str]) -> list[str]:
        before.extend(more)
        return before

    class Extended(TypedDict):
        words: Annotated[list[str], extend]

    Extended.__annotations__["words"] = Annotated[list[str], extend]
    builder = StateGraph(Extended).add_node("a", lambda state: {"words": ["a"]}).add_edge(START, "a")
    builder.add_conditional_edges("a", lambda state: "__end__", ["__end__"])
    assert runner.invoke(builder.compile(), {"words": ["in"]}) == {"words": ["in", "a"]}


def test_open_questions_are_streamed_again(runner: Any, saver: Any, config: RunnableConfig) -> None:
    graph = line(saver, ("ask", lambda s: {"log": [interrupt("?")]}))
    (question,) = runner.run(graph, {"x": 1}, config).interrupts
    assert runner.stream(graph, None, config) == [{"__interrupt__": (question,)}]


def test_every_node_as_a_breakpoint_does_not_mean_the_entry(
    runner: Any, saver: Any, config: RunnableConfig
) -> None:
    builder = StateGraph(State).add_node("a", says("a")).add_node("b", says("b")).add_edge("a", "b")
    builder.set_conditional_entry_point(lambda state: "a", ["a"])
    graph = builder.compile(checkpointer=saver, interrupt_after="*")
    assert runner.run(graph, {"x": 1}, config).next == ("b",)


def test_state_shows_what_the_output_leaves_out(runner: Any, saver: Any, config: RunnableConfig) -> None:
    class Answer(TypedDict):
        y: Any

    builder = StateGraph(State, output_schema=Answer).add_node("n", lambda state: {"y": 1, "log": ["n"]})
    graph = builder.add_edge(START, "n").compile(checkpointer=saver)
    assert runner.invoke(graph, {"x": 1}, config) == {"y": 1}
    assert runner.get_state(graph, config).values == {"x": 1, "y": 1, "log": ["n"]}


def test_a_node_that_is_gone_is_named(runner: Any, saver: Any, config: RunnableConfig) -> None:
    runner.invoke(line(saver, ("old", says("old")), interrupt_before=["old"]), {"x": 1}, config)
    with pytest.raises(GraphVersionError, match="'old'"):
        runner.invoke(line(saver, ("new", says("new"))), None, config)


def test_a_cached_output_belongs_to_the_input_as_it_was_given(runner: Any) -> None:
    from graphkit.cache.memory import InMemoryCache

    def changes_its_input(state: State) -> State:
        before = state["x"]
        state["x"] = 99
        return {"y": before}

    builder = StateGraph(State).add_node("n", changes_its_input, cache_policy=CachePolicy())
    graph = builder.add_edge(START, "n").compile(cache=InMemoryCache())
    assert [runner.invoke(graph, {"x": x})["y"] for x in (1, 99, 1)] == [1, 99, 1]


def test_retries_keep_to_max_concurrency(runner: Any) -> None:
    running: list[int] = []
    most: list[int] = []
    failed: list[int] = []

    def work(state: State) -> State:
        running.append(1)
        most.append(len(running))
        time.sleep(0.01)
        running.pop()
        if state["x"] == 0 and not failed:
            failed.append(1)
            raise ConnectionError
        return {"log": [state["x"]]}

    builder = StateGraph(State).add_node(work, retry_policy=RetryPolicy(initial_interval=0.001, jitter=False))
    builder.set_conditional_entry_point(lambda state: [Send("work", {"x": x}) for x in range(4)], ["work"])
    shown = runner.invoke(builder.compile(), {"x": 0}, {"max_concurrency": 1})
    assert (shown["log"], max(most)) == ([0, 1, 2, 3], 1)


# What a compiled graph is given later


def test_a_saver_and_a_store_may_be_given_to_a_compiled_graph(runner: Any, config: RunnableConfig) -> None:
    """As programs do that open them when a server starts (source: LangGraph)."""

    def remembers(state: State, store: Any) -> Any:
        store.put(("seen",), "x", {"x": state["x"]})
        return {"y": interrupt("?")}

    graph = line(None, ("asks", remembers))
    named = graph.with_config(tags=["mine"])
    graph.checkpointer, graph.store = InMemorySaver(), InMemoryStore()
    runner.invoke(graph, {"x": 1}, config)
    assert runner.get_state(graph, config).next == ("asks",)
    assert runner.invoke(graph, Command(resume="!"), config)["y"] == "!"
    assert graph.store.get(("seen",), "x").value == {"x": 1}
    assert named.checkpointer is None and named.store is None
    graph.checkpointer = None
    assert graph.checkpointer is None
    with pytest.raises(TypeError, match="checkpointer must be a saver"):
        graph.checkpointer = "memory"


def test_a_cache_may_be_given_to_a_compiled_graph(runner: Any) -> None:
    ran: list[int] = []
    builder = StateGraph(State).add_node("n", lambda state: ran.append(1), cache_policy=CachePolicy())
    graph = builder.add_edge(START, "n").compile()
    for cache, runs in ((None, 2), (InMemoryCache(), 3), (InMemoryCache(), 4)):
        graph.cache = cache
        assert graph.cache is cache
        for _ in range(2):
            runner.invoke(graph, {"x": 1})
        assert len(ran) == runs
