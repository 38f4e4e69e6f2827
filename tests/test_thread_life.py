"""The life of a thread: deleting, copying, pruning, forgetting runs, time to live, and the space it takes."""

from __future__ import annotations

import asyncio
import math
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from graphkit.checkpoint.memory import InMemorySaver
from graphkit.checkpoint.postgres import PostgresSaver
from graphkit.checkpoint.sqlite import SqliteSaver
from graphkit.errors import (
    ConcurrentUpdateError,
    InvalidThreadIdError,
    LeaseLostError,
    NoPendingInterruptError,
    StorageUnavailableError,
)
from graphkit.types import Command, RunnableConfig
from graphkit_checkpoint.ownership import forget_token, new_token
from graphkit_checkpoint.records import Checkpoint, Commit, Tip
from tests.conftest import EMPTY, Build, Graph, Reopen, Runner, Saver, asks, graph_of, in_a_row, says

OTHER: RunnableConfig = {"configurable": {"thread_id": "other"}}


def call(runner: Runner, saver: Saver, name: str, *args: Any, **options: Any) -> Any:
    """A method of the saver through the runner's door."""
    if runner.colour == "sync":
        return getattr(saver, name)(*args, **options)
    return asyncio.run(getattr(saver, f"a{name}")(*args, **options))


def chain(saver: Saver, *names: str, **nodes: Callable[..., Any]) -> Graph:
    """Nodes in a row that log their names, unless they are given."""
    return graph_of({name: nodes.get(name, says(name)) for name in names}, in_a_row(*names), saver=saver)


def asking(saver: Saver) -> Graph:
    return chain(saver, "a", "ask", "b", ask=asks("sure?"))


def at(snapshot: Any) -> str:
    checkpoint_id: str = snapshot.config["configurable"]["checkpoint_id"]
    return checkpoint_id


# Copying


def test_a_copy_has_history_and_questions_and_goes_its_own_way(
    runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig
) -> None:
    graph = asking(saver)
    (question,) = runner.invoke(graph, EMPTY, config)["__interrupt__"]
    call(runner, saver, "copy_thread", "t", "other")
    copied = asking(reopen(saver))
    assert [(s.values, s.next, s.metadata) for s in runner.history(copied, OTHER)] == [
        (s.values, s.next, s.metadata) for s in runner.history(graph, config)
    ]
    assert runner.get_state(copied, OTHER).interrupts == (question,)
    assert runner.invoke(copied, Command(resume={question.id: "yes"}), OTHER) == {"log": ["a", "yes", "b"]}
    assert runner.get_state(graph, config).next == ("ask",)
    assert runner.invoke(graph, Command(resume="no"), config) == {"log": ["a", "no", "b"]}


def test_a_copy_of_a_nested_pause_resumes_where_it_stopped(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    ran: list[str] = []

    def before(state: Any) -> Any:
        ran.append("before")
        return {"log": ["before"]}

    child = chain(None, "before", "ask", before=before, ask=asks("sure?"))
    graph = chain(saver, "outer", outer=lambda state: child.invoke(EMPTY))
    runner.invoke(graph, EMPTY, config)
    call(runner, saver, "copy_thread", "t", "other")
    assert runner.invoke(graph, Command(resume="yes"), OTHER) == {"log": ["before", "yes"]}
    assert ran == ["before"]


def test_what_copying_refuses(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    graph = asking(saver)
    runner.invoke(graph, EMPTY, config)
    runner.invoke(graph, EMPTY, OTHER)
    with pytest.raises(ValueError, match="'other' exists"):
        call(runner, saver, "copy_thread", "t", "other")
    with pytest.raises(InvalidThreadIdError):
        call(runner, saver, "copy_thread", "t", "")
    call(runner, saver, "copy_thread", "nobody", "third")
    assert call(runner, saver, "thread_ids") == ["other", "t"]


# Pruning


def long_history(runner: Runner, saver: Saver, config: RunnableConfig) -> Graph:
    graph = chain(saver, "a", "b")
    for turn in range(20):
        runner.invoke(graph, {"log": [turn]}, config)
    return graph


@pytest.mark.parametrize("keep", [1, 2, 7, 1000])
def test_the_last_checkpoints_stay_as_they_are(
    runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig, keep: int
) -> None:
    graph = long_history(runner, saver, config)
    before = runner.history(graph, config)
    space = call(runner, saver, "usage", "t")
    removed = call(runner, saver, "prune", "t", keep_last=keep)
    assert removed == max(0, len(before) - keep)
    after = runner.history(chain(reopen(saver), "a", "b"), config)
    assert [(at(s), s.values, s.next, s.metadata) for s in after] == [
        (at(s), s.values, s.next, s.metadata) for s in before[:keep]
    ]
    assert runner.invoke(graph, {"log": ["on"]}, config)["log"] == [*before[0].values["log"], "on", "a", "b"]
    assert (call(runner, saver, "usage", "t").bytes < space.bytes) == (keep < 20)


def test_pruning_by_age(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    graph = long_history(runner, saver, config)
    count = len(runner.history(graph, config))
    assert call(runner, saver, "prune", "t", older_than=3600) == 0
    assert call(runner, saver, "prune", "t", older_than=3600, keep_last=1) == 0  # what either keeps stays
    assert call(runner, saver, "prune", "t", older_than=0) == count - 1
    assert len(runner.history(graph, config)) == 1


def test_forks_keep_what_they_share(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    graph = long_history(runner, saver, config)
    old = runner.history(graph, config)[30]
    fork = runner.update_state(graph, old.config, {"log": ["fork"]}, as_node="b")
    assert runner.get_state(graph, config).values["log"] == [*old.values["log"], "fork"]
    call(runner, saver, "prune", "t", keep_last=10)
    left = runner.history(graph, config)
    assert len(left) == 10
    assert left[0].config == fork
    assert left[0].values["log"] == [*old.values["log"], "fork"]
    assert left[1].values["log"][-1] == "b"  # the other branch is whole, too
    assert len(left[1].values["log"]) == 60


def test_what_ran_for_a_task_goes_with_its_checkpoint(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    child = chain(None, "in", "ask", ask=asks("sure?"))
    graph = chain(saver, "node", "caller", node=child, caller=lambda state: child.invoke(EMPTY))
    counts = []
    for _ in range(3):
        asked = runner.run(graph, EMPTY, config)
        call(runner, saver, "prune", "t", keep_last=1)
        while asked.interrupts:  # what is inside the task that waits stays
            asked = runner.run(graph, Command(resume="yes"), config)
        call(runner, saver, "prune", "t", keep_last=1)
        counts.append(call(runner, saver, "usage", "t").checkpoints)
    assert counts == [1, 1, 1]


def counting(saver: Saver) -> Graph:
    """Each turn adds how often its nested graph, which goes on with its state, has been there."""
    child = chain(None, "in")
    child.checkpointer = True

    def count(state: Any) -> Any:
        return {"log": [len(child.invoke(EMPTY)["log"])]}

    return chain(saver, "before", "count", count=count)


@pytest.mark.parametrize("keep", [1, 3])
def test_a_branch_goes_on_with_its_own_nested_state_after_pruning(
    runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig, keep: int
) -> None:
    graph = counting(saver)
    ends = []
    for _ in range(4):
        runner.invoke(graph, EMPTY, config)
        ends.append(runner.get_state(graph, config).config)
    runner.update_state(graph, ends[1], {"log": ["fork"]}, as_node="count")
    for _ in range(2):  # what is known of the way is known after pruning again
        call(runner, saver, "prune", "t", keep_last=keep)
    graph = counting(reopen(saver))
    assert runner.invoke(graph, EMPTY, config)["log"][-4:] == [2, "fork", "before", 3]
    assert runner.invoke(graph, EMPTY, config)["log"][-1] == 4


def test_deleting_a_run_takes_a_nested_graph_back_too(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    graph = counting(saver)
    for run in ("a", "b", "c", "d"):
        runner.invoke(graph, EMPTY, {**config, "run_id": run})
    call(runner, saver, "delete_for_runs", ["b", "d"])
    end = runner.get_state(graph, config)
    assert end.values["log"][-1] == 3  # it was there before the third turn
    fork = runner.update_state(graph, end.config, {"log": ["fork"]}, as_node="count")
    assert runner.invoke(graph, EMPTY, fork)["log"][-3:] == ["fork", "before", 4]


def test_a_question_survives_pruning(
    runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig
) -> None:
    graph = asking(saver)
    runner.invoke(graph, EMPTY, config)
    runner.invoke(graph, Command(resume="first"), config)
    (question,) = runner.invoke(graph, EMPTY, config)["__interrupt__"]
    call(runner, saver, "prune", keep_last=1)
    resumed = runner.invoke(asking(reopen(saver)), Command(resume={question.id: "x"}), config)
    assert resumed == {"log": ["a", "first", "b", "a", "x", "b"]}


def test_an_answer_that_was_pruned_is_not_known_any_more(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    graph = asking(saver)
    (question,) = runner.invoke(graph, EMPTY, config)["__interrupt__"]
    runner.invoke(graph, Command(resume="first"), config)
    call(runner, saver, "prune", "t", keep_last=1)
    with pytest.raises(NoPendingInterruptError):
        runner.invoke(graph, Command(resume={question.id: "first"}), config)


def test_strategies_by_the_names_that_langgraph_has(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    graph = long_history(runner, saver, config)
    runner.invoke(graph, EMPTY, OTHER)
    call(runner, saver, "prune", ["t"], strategy="keep_latest")
    assert (len(runner.history(graph, config)), len(runner.history(graph, OTHER))) == (1, 4)
    call(runner, saver, "prune", ["other"])
    assert len(runner.history(graph, OTHER)) == 1, "which is what named threads get without any rule"
    call(runner, saver, "prune", ["other"], strategy="delete")
    assert call(runner, saver, "thread_ids") == ["t"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"keep_last": 0},
        {"keep_last": True},
        {"keep_last": 2.5},
        {"keep_last": "1"},
        {"strategy": "all"},
        {"strategy": "delete", "keep_last": 1},
        {"older_than": "1 day"},
        {"older_than": -1},
        {"older_than": True},
    ],
)
def test_what_pruning_refuses(saver: Saver, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"prune|keep_last|strategy|older_than"):
        saver.prune(**options)


UPKEEP: dict[str, Callable[[Runner, Saver], None]] = {
    "set_ttl": lambda runner, saver: call(runner, saver, "set_ttl", "t", 1000),
    "prune": lambda runner, saver: call(runner, saver, "prune", keep_last=1),
    "copy_thread": lambda runner, saver: call(runner, saver, "copy_thread", "t", "copy"),
}


@pytest.mark.parametrize("upkeep", UPKEEP)
@pytest.mark.parametrize("given", ["input", "answer"])
def test_the_same_call_goes_on_with_a_run_that_broke_off_whatever_was_done_in_between(
    runner: Runner,
    saver: Saver,
    config: RunnableConfig,
    monkeypatch: pytest.MonkeyPatch,
    given: str,
    upkeep: str,
) -> None:
    def gone(*_: Any) -> Any:
        raise StorageUnavailableError("the server went away")

    def breaks(state: Any) -> Any:
        if not broken:
            broken.append(True)
            for name in ("commit", "encode"):
                monkeypatch.setattr(saver, name, gone)
        return {"log": ["breaks"]}

    broken: list[bool] = []
    again: Any = {"log": ["in"]}
    if given == "input":
        graph, ran = chain(saver, "a", "b", "breaks", "c", breaks=breaks), ["a", "b"]
    else:
        graph, ran = chain(saver, "ask", "b", "breaks", "c", ask=asks("?"), breaks=breaks), ["yes", "b"]
        (question,) = runner.invoke(graph, again, config)["__interrupt__"]
        again = Command(resume={question.id: "yes"})
    with pytest.raises(StorageUnavailableError):
        runner.invoke(graph, again, config)
    monkeypatch.undo()
    UPKEEP[upkeep](runner, saver)
    for thread in call(runner, saver, "thread_ids"):
        config = {"configurable": {"thread_id": thread}}
        assert runner.get_state(graph, config).values == {"log": ["in", *ran]}
        assert runner.invoke(graph, again, config) == {"log": ["in", *ran, "breaks", "c"]}
        call(runner, saver, "prune", keep_last=1)
        assert call(runner, saver, "usage", thread).checkpoints == 1


# Forgetting runs


def test_the_checkpoints_of_a_run_can_be_removed(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    graph = chain(saver, "a")
    for run in ("one", "two", "three"):
        runner.invoke(graph, {"log": [run]}, {**config, "run_id": run})
    runner.invoke(graph, {"log": ["x"]}, {**OTHER, "run_id": "three"})
    assert [(s.metadata or {})["run_id"] for s in runner.history(graph, config)] == [
        *["three"] * 3,
        *["two"] * 3,
        *["one"] * 3,
    ]
    assert call(runner, saver, "delete_for_runs", ["three"]) == 6
    assert call(runner, saver, "thread_ids") == ["t"]
    assert runner.get_state(graph, config).values == {"log": ["one", "a", "two", "a"]}
    assert call(runner, saver, "delete_for_runs", ["one", "no such run"]) == 3
    assert runner.invoke(graph, {"log": ["on"]}, config) == {"log": ["one", "a", "two", "a", "on", "a"]}


def test_ids_alone_and_uuids_are_taken_everywhere(runner: Runner, saver: Saver) -> None:
    thread_id, run_id = uuid.UUID(int=1), uuid.UUID(int=2)
    graph = chain(saver, "a")
    config: RunnableConfig = {"configurable": {"thread_id": thread_id}, "run_id": run_id}
    for _ in range(2):
        runner.invoke(graph, EMPTY, config)
    assert call(runner, saver, "usage", thread_id).checkpoints == 6
    assert call(runner, saver, "prune", thread_id, keep_last=4) == 2
    assert call(runner, saver, "prune", [thread_id], keep_last=3) == 1
    assert call(runner, saver, "delete_for_runs", str(run_id)) == 3
    assert call(runner, saver, "thread_ids") == []
    runner.invoke(graph, EMPTY, config)
    assert call(runner, saver, "delete_for_runs", run_id) == 3


# Time to live


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def open_with(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Callable[..., Saver]]:
    """Opens savers of one kind, on one storage, with options."""
    opened: list[Saver] = []

    def open_another(**options: Any) -> Saver:
        if request.param == "memory":
            saver: Saver = InMemorySaver(**options)
        elif request.param == "sqlite":
            saver = SqliteSaver(tmp_path / "t.sqlite", **options)
        else:
            saver = PostgresSaver(request.getfixturevalue("postgres_url"), **options)
        opened.append(saver)
        return saver

    if request.param == "postgres":
        request.getfixturevalue("postgres_url")
    yield open_another
    for saver in opened:
        saver.close()


AT_ONCE = 1e-3
"""A time to live that is over after a moment; databases count in milliseconds."""


def a_moment_later() -> None:
    time.sleep(2 * AT_ONCE)


def test_a_thread_ends_with_its_time(runner: Runner, open_with: Any, config: RunnableConfig) -> None:
    saver = open_with(ttl=AT_ONCE)
    graph = chain(saver, "a")
    assert runner.invoke(graph, {"log": ["in"]}, config) == {"log": ["in", "a"]}
    a_moment_later()
    assert runner.get_state(graph, config).values == {}
    assert runner.history(graph, config) == []
    assert call(runner, saver, "thread_ids") == []
    with pytest.raises(NoPendingInterruptError):
        runner.invoke(graph, Command(resume="x"), config)
    assert runner.invoke(graph, {"log": ["new"]}, config) == {"log": ["new", "a"]}
    assert call(runner, saver, "usage", "t").checkpoints == 3  # nothing of the first is left
    a_moment_later()
    assert call(runner, saver, "delete_expired") == ["t"]
    assert call(runner, saver, "usage", "t") == (0, 0, 0, 0)


def test_a_thread_may_have_its_own_time(runner: Runner, open_with: Any, config: RunnableConfig) -> None:
    saver = open_with()
    graph = chain(saver, "a")
    for where in (config, OTHER):
        runner.invoke(graph, EMPTY, where)
    call(runner, saver, "set_ttl", "other", AT_ONCE)
    a_moment_later()
    assert call(runner, saver, "thread_ids") == ["t"]
    call(runner, saver, "set_ttl", "t", 3600)
    call(runner, saver, "set_ttl", "t", None)
    assert runner.get_state(graph, config).values == {"log": ["a"]}
    with pytest.raises(ValueError, match="'nobody'"):
        call(runner, saver, "set_ttl", "nobody", 1)
    with pytest.raises(ValueError, match="ttl"):
        call(runner, saver, "set_ttl", "t", 0)


def test_a_thread_may_be_kept_for_ever(runner: Runner, open_with: Any, config: RunnableConfig) -> None:
    saver = open_with(ttl=3600)
    graph = chain(saver, "a")
    runner.invoke(graph, EMPTY, config)
    call(runner, saver, "set_ttl", "t", math.inf)
    runner.invoke(graph, EMPTY, config)
    assert runner.get_state(graph, config).values == {"log": ["a", "a"]}
    assert call(runner, saver, "delete_expired") == []


def test_a_running_run_does_not_lose_its_thread_to_the_clock(
    runner: Runner, open_with: Any, config: RunnableConfig
) -> None:
    saver = open_with(ttl=AT_ONCE)
    seen: list[Any] = []

    def look(state: Any) -> Any:
        a_moment_later()
        seen.append((saver.delete_expired(), saver.load("t").values["log"]))
        return {"log": ["looked"]}

    graph = chain(saver, "a", "look", "b", look=look)
    assert runner.invoke(graph, EMPTY, config) == {"log": ["a", "looked", "b"]}
    assert seen == [([], ["a"])]


@pytest.mark.parametrize(
    "options", [{"ttl": 0}, {"ttl": -1}, {"ttl": "x"}, {"lease": 0}, {"max_value_bytes": 0}]
)
def test_options_are_checked(open_with: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        open_with(**options)


# Beside a running run


def test_nothing_is_done_to_a_thread_that_runs(
    saver: Saver, build: Build, reopen: Reopen, config: RunnableConfig
) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def slow(state: Any) -> Any:
        entered.set()
        assert go_on.wait(30)
        return {"log": ["slow"]}

    quick = build({"n": says("quick")})
    for _ in range(3):
        quick.invoke(EMPTY, {**config, "run_id": "earlier"})
        quick.invoke(EMPTY, OTHER)
    run = threading.Thread(target=build({"slow": slow}).invoke, args=(EMPTY, config))
    run.start()
    assert entered.wait(30)
    other = reopen(saver)
    works: list[Callable[[], Any]] = [
        lambda: other.delete_thread("t"),
        lambda: other.copy_thread("t", "copy"),
        lambda: other.prune("t", keep_last=1),
        lambda: other.delete_for_runs(["earlier"]),
        lambda: other.set_ttl("t", 1),
    ]
    for work in works:
        with pytest.raises(ConcurrentUpdateError, match="'t'"):
            work()
    assert other.prune(keep_last=1) == 8  # of the thread that is free
    go_on.set()
    run.join()
    assert quick.get_state(config).values["log"] == [*["quick"] * 3, "slow"]
    assert other.prune("t", keep_last=1) > 8


def test_a_run_that_loaded_before_pruning_cannot_claim_after(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    graph = long_history(runner, saver, config)
    opening = saver.open("t")
    saver.prune("t", keep_last=1)
    token = new_token()
    with pytest.raises(ConcurrentUpdateError, match="changed by another"):
        saver.commit(Commit("t", "", token, opening.saved.tip, True, opening.thread))
    forget_token(token)
    assert len(runner.invoke(graph, {"log": ["on"]}, config)["log"]) == 63


@pytest.mark.parametrize(
    "open_with", ["sqlite", "postgres"], indirect=True
)  # in memory owners are seen to live
@pytest.mark.parametrize("work", ["prune", "delete_for_runs", "set_ttl"])
def test_a_run_that_lost_its_lease_cannot_write_after_upkeep(
    open_with: Callable[..., Saver], work: str
) -> None:
    """What it knows of the history may be gone."""
    saver = open_with(lease=AT_ONCE)
    tip, token = Tip(), "another host/1/1/1"
    points = [
        Checkpoint(
            f"c{step}",
            f"c{step - 1}" if step else None,
            step,
            "input" if step == 1 else "loop",  # a turn that broke off would stay as a whole
            1.0,
            {"run_id": str(step)},
            changed={"k": step},
        )
        for step in range(3)
    ]
    saver.commit(Commit("t", "", token, tip, claims=True, checkpoints=points[:2]))
    a_moment_later()
    {
        "prune": lambda: saver.prune("t", keep_last=1),
        "delete_for_runs": lambda: saver.delete_for_runs(["1"]),
        "set_ttl": lambda: saver.set_ttl("t", 100),
    }[work]()
    with pytest.raises(LeaseLostError):
        saver.commit(Commit("t", "", token, tip, checkpoints=points[2:]))
    assert len(list(saver.history("t"))) == (2 if work == "set_ttl" else 1)


# Space


def test_the_space_of_a_thread_is_told(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    assert call(runner, saver, "usage", "t") == (0, 0, 0, 0)
    graph = asking(saver)
    runner.invoke(graph, {"log": ["x" * 1000]}, config)
    usage = call(runner, saver, "usage", "t")
    assert (usage.checkpoints, usage.pending) == (3, 1)
    assert 1000 < usage.bytes < 2000
