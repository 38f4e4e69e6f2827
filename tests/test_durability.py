"""Durability (L21, N14): what is on disk when, in how many commits, and what never runs twice."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from graphkit import END, START, Command, Send
from graphkit.checkpoint.sqlite import SqliteSaver
from graphkit.errors import UnserializableStateError
from graphkit.types import RunnableConfig
from tests.conftest import EMPTY, Build, Edge, Runner, Saver, State, asks, graph_of, in_a_row, says

Node = Callable[[Any], Any]
Open = Callable[[], Saver]

PATIENCE = 20
"""Seconds after which a test that waits for something gives up; reached only by a defect."""

DURABILITIES = ["sync", "async", "exit"]


def chain(saver: Saver, length: int, **nodes: Node) -> Any:
    """n0, n1, … in a row."""
    names = [f"n{index}" for index in range(length)]
    return graph_of({name: says(name) for name in names} | nodes, in_a_row(*names), saver=saver)


def commits_of(saver: Saver) -> list[int]:
    """Grows by one with every commit of the saver."""
    seen: list[int] = []
    event.listen(saver.engine, "commit", lambda connection: seen.append(1))
    return seen


def stored(graph: Any, config: RunnableConfig) -> list[Any]:
    """The log as another saver reads it."""
    log: list[Any] = graph.get_state(config).values.get("log", [])
    return log


# How many commits


@pytest.mark.parametrize("length", [1, 2, 3, 10])
def test_a_run_of_n_supersteps_makes_n_plus_one_commits(
    runner: Runner, open_sqlite: Open, config: RunnableConfig, length: int
) -> None:
    saver = open_sqlite()
    commits = commits_of(saver)
    runner.invoke(chain(saver, length), EMPTY, config)
    assert len(commits) == length + 1
    runner.invoke(chain(saver, length), EMPTY, config)
    assert len(commits) == 2 * (length + 1)


def test_reading_makes_no_commit(runner: Runner, open_sqlite: Open, config: RunnableConfig) -> None:
    saver = open_sqlite()
    graph = chain(saver, 2)
    runner.invoke(graph, EMPTY, config)
    commits = commits_of(saver)
    runner.get_state(graph, config)
    runner.history(graph, config)
    assert commits == []


def test_a_question_and_its_answer_take_a_commit_each(
    runner: Runner, open_sqlite: Open, config: RunnableConfig
) -> None:
    saver = open_sqlite()
    graph = chain(saver, 2, n1=asks("sure?"))
    commits = commits_of(saver)
    runner.invoke(graph, EMPTY, config)
    assert len(commits) == 3  # the input, n0, the question
    runner.invoke(graph, Command(resume="yes"), config)
    assert len(commits) == 5  # the answer, n1


def test_streaming_and_several_modes_do_not_change_the_number(
    runner: Runner, open_sqlite: Open, config: RunnableConfig
) -> None:
    saver = open_sqlite()
    commits = commits_of(saver)
    runner.stream(chain(saver, 3), EMPTY, config, stream_mode=["values", "updates", "checkpoints", "tasks"])
    assert len(commits) == 4


def test_exit_makes_the_same_few_commits_for_any_length(runner: Runner, open_sqlite: Open) -> None:
    saver = open_sqlite()
    counts = []
    for length in (1, 5, 20):
        commits = commits_of(saver)
        thread: RunnableConfig = {"configurable": {"thread_id": f"{length}"}}
        runner.invoke(chain(saver, length), EMPTY, thread, durability="exit")
        counts.append(len(commits))
    assert counts[0] == counts[1] == counts[2] <= 2


# What is in history


@pytest.mark.parametrize(
    ("durability", "steps"), [("sync", [3, 2, 1, 0, -1]), ("async", [3, 2, 1, 0, -1]), ("exit", [3])]
)
def test_the_checkpoints_that_each_durability_keeps(
    runner: Runner, saver: Saver, config: RunnableConfig, durability: str, steps: list[int]
) -> None:
    graph = chain(saver, 3)
    result = runner.invoke(graph, EMPTY, config, durability=durability)
    assert result == {"log": ["n0", "n1", "n2"]}
    history = runner.history(graph, config)
    assert [(snapshot.metadata or {})["step"] for snapshot in history] == steps
    assert history[0].values == result
    assert history[0].next == ()


def test_turns_of_different_durability_follow_each_other(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    graph = chain(saver, 1)
    for turn, durability in enumerate(["exit", "sync", "exit", "async", "exit"], 1):
        assert runner.invoke(graph, EMPTY, config, durability=durability) == {"log": ["n0"] * turn}
    assert runner.get_state(graph, config).values == {"log": ["n0"] * 5}


def test_an_unknown_durability_is_an_error_that_names_it(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    ran: list[Any] = []
    graph = chain(saver, 1, n0=ran.append)
    with pytest.raises(ValueError, match="eventually"):
        runner.invoke(graph, EMPTY, config, durability="eventually")
    assert ran == []


# What is on disk when


@pytest.mark.parametrize(("durability", "behind"), [("sync", 0), ("async", 1)])
def test_a_node_starts_when_what_it_sees_is_committed_or_at_most_one_superstep_behind(
    runner: Runner, open_sqlite: Open, config: RunnableConfig, durability: str, behind: int
) -> None:
    lag: list[int] = []
    other = chain(open_sqlite(), 6)

    def look(state: State) -> State:
        lag.append(len(state["log"]) - len(stored(other, config)))
        return {"log": ["looked"]}

    nodes = {f"n{index}": look for index in range(6)}
    runner.invoke(chain(open_sqlite(), 6, **nodes), {"log": ["in"]}, config, durability=durability)
    assert len(lag) == 6
    assert max(lag) <= behind
    assert stored(other, config) == ["in", *["looked"] * 6]


def test_with_async_a_superstep_is_committed_while_the_next_one_runs(
    runner: Runner, open_sqlite: Open, config: RunnableConfig
) -> None:
    other = chain(open_sqlite(), 2)

    async def wait_for_the_one_before(state: State) -> State:
        async with asyncio.timeout(PATIENCE):
            while stored(other, config) != ["in", "n0"]:
                await asyncio.sleep(0)
        return {"log": ["n1"]}

    graph = chain(open_sqlite(), 2, n1=wait_for_the_one_before)
    result = runner.invoke(graph, {"log": ["in"]}, config, durability="async")
    assert result == {"log": ["in", "n0", "n1"]}


def test_with_exit_nothing_is_on_disk_while_the_run_lasts(
    runner: Runner, open_sqlite: Open, config: RunnableConfig
) -> None:
    seen: list[Any] = []
    other = chain(open_sqlite(), 2)
    graph = chain(open_sqlite(), 2, n1=lambda state: seen.append(stored(other, config)))
    runner.invoke(graph, {"log": ["in"]}, config, durability="exit")
    assert seen == [[]]
    assert stored(other, config) == ["in", "n0"]


def consume(
    runner: Runner, graph: Any, given: Any, config: RunnableConfig, mode: str, look: Callable[[Any], None]
) -> None:
    """Call `look` with every chunk while the stream waits."""

    async def through() -> None:
        async for chunk in graph.astream(given, config, stream_mode=mode):
            look(chunk)

    if runner.colour == "async":
        asyncio.run(through())
    else:
        for chunk in graph.stream(given, config, stream_mode=mode):
            look(chunk)


def test_values_are_shown_when_they_are_committed(
    runner: Runner, open_sqlite: Open, config: RunnableConfig
) -> None:
    shown: list[Any] = []
    other = chain(open_sqlite(), 5)

    def look(chunk: Any) -> None:
        shown.append(chunk)
        on_disk = stored(other, config)
        assert on_disk[: len(chunk["log"])] == chunk["log"]

    consume(runner, chain(open_sqlite(), 5), {"log": ["in"]}, config, "values", look)
    assert [len(chunk["log"]) for chunk in shown] == [1, 2, 3, 4, 5, 6]


def test_updates_are_shown_when_they_are_committed_or_recorded(
    runner: Runner, open_sqlite: Open, config: RunnableConfig
) -> None:
    nodes: dict[str, Node] = {"start": says("start"), "w": lambda n: {"log": [n]}, "end": says("end")}
    edges: list[Edge] = [
        (START, "start"),
        ("start", lambda state: [Send("w", n) for n in range(8)], ["w"]),
        ("w", "end"),
    ]
    other = graph_of(nodes, edges, saver=open_sqlite())
    shown: list[Any] = []

    def look(chunk: Any) -> None:
        ((_, update),) = chunk.items()
        state = other.get_state(config)
        recorded = [word for task in state.tasks if task.result for word in task.result["log"]]
        assert update["log"][0] in [*state.values["log"], *recorded]
        shown.append(update["log"][0])

    consume(runner, graph_of(nodes, edges, saver=open_sqlite()), EMPTY, config, "updates", look)
    assert shown[0] == "start"
    assert sorted(shown[1:-1]) == list(range(8))
    assert shown[-1] == "end"


def test_a_checkpoint_is_shown_when_it_can_be_read(
    runner: Runner, open_sqlite: Open, config: RunnableConfig
) -> None:
    other = chain(open_sqlite(), 3)
    shown: list[Any] = []

    def look(chunk: Any) -> None:
        shown.append(chunk["metadata"]["step"])
        assert other.get_state(chunk["config"]).values == chunk["values"]

    consume(runner, chain(open_sqlite(), 3), EMPTY, config, "checkpoints", look)
    assert shown == [-1, 0, 1, 2, 3]


def test_a_question_is_shown_when_it_can_be_answered_elsewhere(
    runner: Runner, open_sqlite: Open, config: RunnableConfig
) -> None:
    nodes: dict[str, Node] = {"n1": asks("sure?")}
    other = chain(open_sqlite(), 2, **nodes)
    shown: list[Any] = []

    def look(chunk: Any) -> None:
        if "__interrupt__" in chunk:
            shown.extend(chunk["__interrupt__"])
            assert other.get_state(config).interrupts == tuple(chunk["__interrupt__"])

    consume(runner, chain(open_sqlite(), 2, **nodes), EMPTY, config, "updates", look)
    assert [question.value for question in shown] == ["sure?"]
    assert other.invoke(Command(resume="yes"), config) == {"log": ["n0", "yes"]}


def test_finished_tasks_are_recorded_while_others_still_run(
    runner: Runner, open_sqlite: Open, config: RunnableConfig
) -> None:
    nodes: dict[str, Node] = {"quick": says("quick"), "slow": says("slow")}
    other = graph_of(nodes, saver=open_sqlite())

    async def slow(state: State) -> State:
        async with asyncio.timeout(PATIENCE):
            while not any(task.name == "quick" and task.result for task in other.get_state(config).tasks):
                await asyncio.sleep(0)
        return {"log": ["slow"]}

    graph = graph_of(nodes | {"slow": slow}, saver=open_sqlite())
    assert runner.invoke(graph, EMPTY, config) == {"log": ["quick", "slow"]}


# What never runs twice


class Witness:
    """Nodes that count their runs; `broken` names those that fail until they are mended."""

    def __init__(self, *broken: str) -> None:
        self.broken = set(broken)
        self.runs: list[str] = []

    def node(self, name: str) -> Node:
        def work(state: State) -> State:
            self.runs.append(name)
            if name in self.broken:
                raise ValueError(f"{name} is broken")
            return {"log": [name]}

        return work

    def nodes(self, names: str) -> dict[str, Node]:
        return {name: self.node(name) for name in names}


@pytest.mark.parametrize("durability", DURABILITIES)
def test_supersteps_before_an_error_do_not_run_again(
    runner: Runner, build: Build, config: RunnableConfig, durability: str
) -> None:
    witness = Witness("c")
    graph = build(witness.nodes("abcd"), in_a_row(*"abcd"))
    with pytest.raises(ValueError, match="c is broken"):
        runner.invoke(graph, EMPTY, config, durability=durability)
    state = runner.get_state(graph, config)
    assert (state.values, state.next) == ({"log": ["a", "b"]}, ("c",))
    witness.broken.clear()
    assert runner.invoke(graph, None, config, durability=durability) == {"log": ["a", "b", "c", "d"]}
    assert witness.runs == ["a", "b", "c", "c", "d"]


@pytest.mark.parametrize("durability", DURABILITIES)
def test_tasks_that_finished_before_their_sibling_failed_do_not_run_again(
    runner: Runner, build: Build, config: RunnableConfig, durability: str
) -> None:
    witness = Witness("b")
    one_by_one: RunnableConfig = {**config, "max_concurrency": 1}
    graph = build(witness.nodes("ab"))
    with pytest.raises(ValueError, match="b is broken"):
        runner.invoke(graph, EMPTY, one_by_one, durability=durability)
    state = runner.get_state(graph, config)
    assert state.next == ("b",)
    results = {task.name: (task.result, task.error is not None) for task in state.tasks}
    assert results == {"a": ({"log": ["a"]}, False), "b": (None, True)}
    witness.broken.clear()
    assert runner.invoke(graph, None, config, durability=durability) == {"log": ["a", "b"]}
    assert witness.runs == ["a", "b", "b"]


@pytest.mark.parametrize("durability", DURABILITIES)
def test_async_tasks_that_finished_before_their_sibling_failed_do_not_run_again(
    runner: Runner, build: Build, config: RunnableConfig, durability: str
) -> None:
    runs: list[str] = []
    others_done: list[str] = []

    async def good(name: str) -> State:
        runs.append(name)
        await asyncio.sleep(0)
        others_done.append(name)
        return {"log": [name]}

    async def bad(name: str) -> State:
        runs.append(name)
        async with asyncio.timeout(PATIENCE):
            while len(others_done) < 5:
                await asyncio.sleep(0)
        if runs.count(name) == 1:
            raise ValueError("bad is broken")
        return {"log": [name]}

    sends = [Send("good", f"g{n}") for n in range(5)]
    sends.insert(2, Send("bad", "bad"))
    graph = build({"good": good, "bad": bad}, [(START, lambda state: sends, ["good", "bad"])])
    with pytest.raises(ValueError, match="bad is broken"):
        runner.invoke(graph, EMPTY, config, durability=durability)
    assert runner.get_state(graph, config).next == ("bad",)
    result = runner.invoke(graph, None, config, durability=durability)
    assert result == {"log": ["g0", "g1", "bad", "g2", "g3", "g4"]}
    assert sorted(runs) == ["bad", "bad", "g0", "g1", "g2", "g3", "g4"]


@pytest.mark.parametrize("durability", DURABILITIES)
def test_tasks_beside_a_question_do_not_run_again(
    runner: Runner, build: Build, config: RunnableConfig, durability: str
) -> None:
    witness = Witness()
    graph = build({**witness.nodes("ac"), "b": asks("sure?")})
    runner.invoke(graph, EMPTY, config, durability=durability)
    result = runner.invoke(graph, Command(resume="yes"), config, durability=durability)
    assert result == {"log": ["a", "yes", "c"]}
    assert sorted(witness.runs) == ["a", "c"]


def test_a_recorded_error_disappears_when_its_task_succeeds(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    witness = Witness("a")
    graph = build(witness.nodes("ab"), in_a_row(*"ab"))
    with pytest.raises(ValueError, match="a is broken"):
        runner.invoke(graph, EMPTY, config)
    (task,) = runner.get_state(graph, config).tasks
    assert "a is broken" in str(task.error)
    witness.broken.clear()
    runner.invoke(graph, None, config)
    assert [task.error for snapshot in runner.history(graph, config) for task in snapshot.tasks] == [None] * 3


@pytest.mark.parametrize("begun", [False, True], ids=["new", "resumed"])
def test_what_came_before_a_record_that_cannot_be_stored_is_kept_at_exit(
    runner: Runner, build: Build, config: RunnableConfig, begun: bool
) -> None:
    witness = Witness("a", "d")
    nodes = {**witness.nodes("abd"), "c": says(object())}
    graph = build(nodes, [*in_a_row(*"ab"), ("b", "c"), ("b", "d")])
    given: State | None = {"log": ["in"]}
    if begun:
        with pytest.raises(ValueError, match="a is broken"):
            runner.invoke(graph, given, config)
        given = None
    witness.broken.remove("a")
    with pytest.raises(UnserializableStateError, match="'c'"):
        runner.invoke(graph, given, config, durability="exit")
    snapshot = runner.get_state(graph, config)
    assert (snapshot.values["log"], snapshot.next) == (["in", "a", "b"], ("c", "d"))
    _, *older = runner.history(graph, config)
    assert [snapshot.next for snapshot in older] == ([("a",), (START,)] if begun else [])
    assert [task.error for snapshot in older for task in snapshot.tasks] == [None] * len(older)


def test_an_error_again_and_again_leaves_one_history(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    witness = Witness("b")
    graph = build(witness.nodes("ab"), in_a_row(*"ab"))
    for given in (EMPTY, None, None):
        with pytest.raises(ValueError, match="b is broken"):
            runner.invoke(graph, given, config)
    assert witness.runs == ["a", "b", "b", "b"]
    assert len(runner.history(graph, config)) == 3


def test_new_input_after_an_error_is_a_new_turn(runner: Runner, build: Build, config: RunnableConfig) -> None:
    witness = Witness("b")
    graph = build(witness.nodes("ab"), in_a_row(*"ab"))
    with pytest.raises(ValueError, match="b is broken"):
        runner.invoke(graph, {"log": ["one"]}, config)
    witness.broken.clear()
    assert runner.invoke(graph, {"log": ["two"]}, config) == {"log": ["one", "a", "two", "a", "b"]}


def test_a_saver_reopened_after_an_error_goes_on(
    runner: Runner, open_sqlite: Open, config: RunnableConfig
) -> None:
    witness = Witness("b")
    with pytest.raises(ValueError, match="b is broken"):
        runner.invoke(
            graph_of(witness.nodes("abc"), saver=open_sqlite()), EMPTY, {**config, "max_concurrency": 1}
        )
    witness.broken.clear()
    again = graph_of(witness.nodes("abc"), saver=open_sqlite())
    assert runner.invoke(again, None, config) == {"log": ["a", "b", "c"]}
    assert (witness.runs.count("a"), witness.runs.count("b")) == (1, 2)


# How much is stored (N14)


def test_a_checkpoint_does_not_grow_with_the_size_of_the_graph(tmp_path: Path) -> None:
    def size(bystanders: int) -> int:
        path = tmp_path / f"{bystanders}.sqlite"
        saver = SqliteSaver(path)
        idle = [f"idle{number}" for number in range(bystanders)]
        nodes = {name: says(name) for name in ["turn", *idle]}
        graph = graph_of(nodes, [(START, "turn"), ("turn", lambda state: END, [*idle, END])], saver=saver)
        for _ in range(50):
            graph.invoke(EMPTY, {"configurable": {"thread_id": "t"}})
        saver.close()
        return path.stat().st_size

    assert size(200) <= 1.1 * size(2)
