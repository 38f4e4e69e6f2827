"""Storage grows with what was said: bytes, rows and commits are counted, never times."""

from __future__ import annotations

import asyncio
import operator
import random
import string
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from sqlalchemy import event

from graphkit import END, START, StateGraph
from graphkit.checkpoint.memory import InMemorySaver
from graphkit.checkpoint.sqlite import SqliteSaver
from graphkit.graph.message import add_messages
from graphkit.types import RunnableConfig
from tests.conftest import EMPTY, Graph, Reopen, Runner, Saver, graph_of, in_a_row, says

CHANCE = random.Random(20)
"""Text that does not compress, the same every time."""


def message(size: int = 1000) -> dict[str, str]:
    return {"role": "user", "content": "".join(CHANCE.choices(string.ascii_letters, k=size))}


def appended(left: list[Any], right: list[Any]) -> list[Any]:
    return [*left, *right]


def appended_in_place(left: list[Any], right: list[Any]) -> list[Any]:
    left.extend(right)
    return left


REDUCERS: dict[str, Callable[[Any, Any], Any]] = {
    "operator.add": operator.add,
    "add_messages": add_messages,
    "a function of the user's": appended,
    "a function that changes the list": appended_in_place,
    "lambda": lambda left, right: left + right,
}


LONG = ["operator.add", "add_messages", "lambda"]
"""Those of the long tests: known, known with ids, and unknown."""


def conversation(reducer: Callable[[Any, Any], Any]) -> Any:
    return TypedDict("Conversation", {"messages": Annotated[list[Any], reducer]})  # type: ignore[operator]


def talking(saver: Saver, schema: Any, turns: int) -> Graph:
    """One run that says `turns` messages, a superstep each."""
    builder = StateGraph(schema).add_node("say", lambda state: {"messages": [message()]})
    builder.add_edge(START, "say")
    builder.add_conditional_edges(
        "say", lambda state: "say" if len(state["messages"]) < turns else END, ["say", END]
    )
    return builder.compile(checkpointer=saver, recursion_limit=turns + 1)


def listening(saver: Saver, schema: Any) -> Graph:
    """A graph that takes a message and says nothing."""
    builder = StateGraph(schema).add_node("listen", lambda state: None)
    return builder.add_edge(START, "listen").compile(checkpointer=saver)


@pytest.mark.parametrize("reducer", LONG)
def test_a_long_run_takes_little_more_than_its_messages(
    tmp_path: Path, config: RunnableConfig, reducer: str
) -> None:
    path = tmp_path / "t.sqlite"
    with SqliteSaver(path, synchronous="NORMAL") as saver:
        result = talking(saver, conversation(REDUCERS[reducer]), 1000).invoke({"messages": []}, config)
    assert path.stat().st_size <= 1_600_000
    with SqliteSaver(path) as saver:
        assert listening(saver, conversation(REDUCERS[reducer])).get_state(config).values == result


@pytest.mark.parametrize("reducer", LONG)
def test_many_short_runs_take_little_more_than_their_messages(
    tmp_path: Path, config: RunnableConfig, reducer: str
) -> None:
    path = tmp_path / "t.sqlite"
    with SqliteSaver(path, synchronous="NORMAL") as saver:
        graph = listening(saver, conversation(REDUCERS[reducer]))
        for _ in range(1000):
            result = graph.invoke({"messages": [message()]}, config)
    assert path.stat().st_size <= 2_200_000
    with SqliteSaver(path) as saver:
        assert listening(saver, conversation(REDUCERS[reducer])).get_state(config).values == result


@pytest.mark.parametrize("reducer", REDUCERS)
def test_every_checkpoint_can_still_be_read(
    runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig, reducer: str
) -> None:
    schema = conversation(REDUCERS[reducer])
    said = runner.invoke(talking(saver, schema, 150), {"messages": []}, config)["messages"]
    history = runner.history(listening(reopen(saver), schema), config)
    assert [len(snapshot.values["messages"]) for snapshot in history[:-1]] == [*range(150, -1, -1)]
    for snapshot in history[:-1]:
        assert snapshot.values["messages"] == said[: len(snapshot.values["messages"])]


@pytest.mark.parametrize("reducer", REDUCERS)
def test_bytes_are_linear_on_every_saver(saver: Saver, reducer: str) -> None:
    def stored(turns: int) -> int:
        config: RunnableConfig = {"configurable": {"thread_id": str(turns)}}
        talking(saver, conversation(REDUCERS[reducer]), turns).invoke({"messages": []}, config)
        size: int = saver.usage(str(turns)).bytes
        return size

    assert stored(200) <= 2.1 * stored(100)


class Facts(TypedDict):
    facts: Annotated[dict[str, Any], operator.or_]
    note: list[str]


def test_a_dict_stores_the_keys_that_are_set(
    runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig
) -> None:
    def learn(state: Facts) -> Any:
        known = len(state["facts"])
        return {"facts": {f"fact {known}": "x" * 1000, "last": known}}

    builder = StateGraph(Facts).add_node("learn", learn).add_edge(START, "learn")
    builder.add_conditional_edges(
        "learn", lambda state: "learn" if len(state["facts"]) < 200 else END, ["learn", END]
    )
    graph = builder.compile(checkpointer=saver, recursion_limit=1000)
    result = runner.invoke(graph, {"facts": {}}, config)
    assert saver.usage("t").bytes < 2 * 200 * 1000
    stored = runner.get_state(builder.compile(checkpointer=reopen(saver)), config).values
    assert stored == result
    assert list(stored["facts"]) == list(result["facts"])


def test_a_value_written_again_with_more_stores_what_is_more(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    """A key without a reducer, whose node returns the old list and a new item."""

    def note(state: Facts) -> Any:
        return {"note": [*state.get("note", []), "x" * 1000]}

    builder = StateGraph(Facts).add_node("note", note).add_edge(START, "note")
    builder.add_conditional_edges(
        "note", lambda state: "note" if len(state["note"]) < 100 else END, ["note", END]
    )
    graph = builder.compile(checkpointer=saver, recursion_limit=1000)
    runner.invoke(graph, {"facts": {}}, config)
    assert saver.usage("t").bytes < 2 * 100 * 1000


def test_what_a_node_changes_in_place_is_not_stored_as_it_was(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    """By a reducer that is not known: what is stored is compared with what there is, byte by byte."""

    def corrected(left: list[Any], right: list[Any]) -> list[Any]:
        for item in left:
            item["seen"] = True
        return left + right

    builder = StateGraph(conversation(corrected))
    builder.add_node("n", lambda state: {"messages": [{"seen": False}]})
    builder.add_edge(START, "n")
    graph = builder.compile(checkpointer=saver)
    for _ in range(3):
        result = runner.invoke(graph, {"messages": [{"seen": False}]}, config)
    assert [item["seen"] for item in result["messages"]] == [True] * 5 + [False]
    assert runner.get_state(graph, config).values == result


def test_forks_share_what_they_share(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    schema = conversation(operator.add)
    graph = talking(saver, schema, 50)
    runner.invoke(graph, {"messages": []}, config)
    before = saver.usage("t").bytes
    middle = runner.history(graph, config)[25]
    for _ in range(10):
        runner.update_state(graph, middle.config, {"messages": [message()]}, as_node="say")
    assert saver.usage("t").bytes - before < 10 * 1000 * 1.5
    assert len(runner.get_state(graph, config).values["messages"]) == len(middle.values["messages"]) + 1


def test_the_input_is_stored_once_and_given_back(
    runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig
) -> None:
    for reducer in REDUCERS.values():
        where: RunnableConfig = {"configurable": {"thread_id": str(id(reducer))}}
        graph = listening(saver, conversation(reducer))
        runner.invoke(graph, {"messages": [message(20_000)]}, where)
        runner.invoke(graph, {"messages": [message(20_000)]}, where)
        assert saver.usage(where["configurable"]["thread_id"]).bytes < 42_000
        first = runner.history(listening(reopen(saver), conversation(reducer)), where)[-1]
        assert first.next == (START,)
        again = runner.invoke(graph, None, first.config)
        assert len(again["messages"]) == 1
        assert len(again["messages"][0]["content"]) == 20_000


def test_the_size_of_a_thread_in_memory(config: RunnableConfig) -> None:
    saver = InMemorySaver()
    graph = listening(saver, conversation(operator.add))
    for _ in range(300):
        graph.invoke({"messages": [message()]}, config)
    assert saver.usage("t").bytes < 1.5 * 300 * 1000


# Commits


def counted(saver: Saver) -> list[None]:
    commits: list[None] = []
    event.listen(saver.engine, "commit", lambda connection: commits.append(None))
    return commits


def test_runs_at_the_same_time_share_commits(open_sqlite: Callable[[], Saver]) -> None:
    saver = open_sqlite()
    names = [f"n{number}" for number in range(5)]

    async def say(state: Any) -> Any:
        return {"log": ["x"]}

    graph = graph_of(dict.fromkeys(names, say), list(zip([START, *names], names, strict=False)), saver=saver)
    commits = counted(saver)

    async def all_at_once() -> list[Any]:
        runs = (graph.ainvoke(EMPTY, {"configurable": {"thread_id": str(run)}}) for run in range(50))
        return await asyncio.gather(*runs)

    assert asyncio.run(all_at_once()) == [{"log": ["x"] * 5}] * 50
    assert len(commits) < 50 * 6 / 4
    assert all(
        len(list(graph.get_state_history({"configurable": {"thread_id": str(run)}}))) == 7 for run in (0, 49)
    )


def test_no_commit_is_forgotten_in_a_queue(
    open_sqlite: Callable[[], Saver], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever gets to write takes along what came before; its own may not be among the first."""
    monkeypatch.setattr("graphkit_checkpoint.sql.MOST_AT_ONCE", 1)
    nodes = {name: says(name) for name in ("a", "b", "c", "d")}
    graph = graph_of(nodes, in_a_row(*nodes), saver=open_sqlite())

    def invoke(run: int) -> Any:
        return graph.invoke(EMPTY, {"configurable": {"thread_id": str(run)}})

    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(invoke, range(64)))
    assert results == [{"log": ["a", "b", "c", "d"]}] * 64
    for run in range(64):
        assert graph.get_state({"configurable": {"thread_id": str(run)}}).values == results[run]


def test_a_commit_that_is_refused_leaves_those_beside_it_alone(open_sqlite: Callable[[], Saver]) -> None:
    from graphkit.errors import ConcurrentUpdateError

    saver = open_sqlite()
    graph = graph_of({"n": says("x")}, saver=saver)

    async def all_at_once() -> list[Any]:
        runs = (graph.ainvoke(EMPTY, {"configurable": {"thread_id": str(run % 10)}}) for run in range(40))
        return await asyncio.gather(*runs, return_exceptions=True)

    results = asyncio.run(all_at_once())
    won = [run for run, result in enumerate(results) if not isinstance(result, Exception)]
    assert all(isinstance(result, (dict, ConcurrentUpdateError)) for result in results)
    for thread in range(10):
        state = graph.get_state({"configurable": {"thread_id": str(thread)}}).values
        assert state == {"log": ["x"] * len([run for run in won if run % 10 == thread])}
        assert len(state["log"]) >= 1
