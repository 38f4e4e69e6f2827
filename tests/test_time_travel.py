"""Time travel (L22): reading a thread's past, running from it, and writing into it."""

from typing import Any

import pytest

from graphkit import END, START, interrupt
from graphkit.checkpoint.memory import InMemorySaver
from graphkit.errors import EmptyInputError, InvalidUpdateError
from graphkit.types import RunnableConfig, StateSnapshot, StateUpdate
from tests.conftest import EMPTY, Build, Reopen, Runner, Saver, State, graph_of, in_a_row, says

COPY, INPUT = "__copy__", "__input__"


def chain(build: Any, names: str = "abc", **options: Any) -> Any:
    """A graph of nodes in a row that log their names."""
    return build({name: says(name) for name in names}, in_a_row(*names), **options)


def joined(build: Any) -> Any:
    """a and b side by side, then c, with a stop before c."""
    edges: list[Any] = [(START, "a"), (START, "b"), (["a", "b"], "c")]
    return build({name: says(name) for name in "abc"}, edges, interrupt_before=["c"])


def log(*words: str) -> State:
    return {"log": list(words)}


def summary(snapshot: StateSnapshot) -> tuple[Any, ...]:
    """(source, step, log, next) of a checkpoint."""
    assert snapshot.metadata is not None
    metadata = snapshot.metadata
    return metadata["source"], metadata["step"], snapshot.values.get("log"), snapshot.next


def ids(config: RunnableConfig | None) -> Any:
    return None if config is None else config["configurable"]["checkpoint_id"]


def lineage(runner: Runner, graph: Any, config: RunnableConfig) -> list[tuple[Any, ...]]:
    """`summary` of the checkpoint at `config` and of its ancestors, newest first."""
    line = []
    current: RunnableConfig | None = config
    while current is not None:
        snapshot = runner.get_state(graph, current)
        line.append(summary(snapshot))
        current = snapshot.parent_config
    return line


def past(runner: Runner, graph: Any, config: RunnableConfig, *upcoming: str) -> StateSnapshot:
    """The newest checkpoint whose next nodes are these."""
    return next(snapshot for snapshot in runner.history(graph, config) if snapshot.next == upcoming)


WHOLE_RUN = [
    ("loop", 3, ["in", "a", "b", "c"], ()),
    ("loop", 2, ["in", "a", "b"], ("c",)),
    ("loop", 1, ["in", "a"], ("b",)),
    ("loop", 0, ["in"], ("a",)),
    ("input", -1, [], (START,)),
]


@pytest.fixture
def ran(build: Build, runner: Runner, config: RunnableConfig) -> Any:
    """A graph of a, b, c that has run once."""
    graph = chain(build)
    runner.invoke(graph, log("in"), config)
    return graph


# Reading


def test_snapshots_and_tasks_are_tuples(runner: Runner, build: Build, config: RunnableConfig) -> None:
    graph = chain(build)
    runner.invoke(graph, log("in"), config, interrupt_before=["b"])
    snapshot = runner.get_state(graph, config)
    values, upcoming, *_ = snapshot
    assert (values, upcoming) == (snapshot.values, snapshot.next) == (log("in", "a"), ("b",))
    assert snapshot._asdict()["config"] == snapshot.config
    (task,) = snapshot.tasks
    assert task._asdict()["name"] == task[1] == "b"


def test_an_unknown_thread_has_no_state_and_no_history(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = chain(build)
    state = runner.get_state(graph, config)
    assert (dict(state.values), state.next, state.tasks, state.interrupts) == ({}, (), (), ())
    assert (state.metadata, state.created_at, state.parent_config) == (None, None, None)
    assert state.config["configurable"]["thread_id"] == "t"
    assert runner.history(graph, config) == []


def test_history_is_newest_first_with_the_exact_values_of_every_checkpoint(
    runner: Runner, ran: Any, config: RunnableConfig
) -> None:
    assert [summary(snapshot) for snapshot in runner.history(ran, config)] == WHOLE_RUN


def test_every_checkpoint_knows_its_parent_and_can_be_read_by_its_config(
    runner: Runner, ran: Any, config: RunnableConfig
) -> None:
    history = runner.history(ran, config)
    own = [ids(snapshot.config) for snapshot in history]
    assert len(set(own)) == 5
    assert [ids(snapshot.parent_config) for snapshot in history] == [*own[1:], None]
    assert [runner.get_state(ran, snapshot.config) for snapshot in history] == history
    assert runner.get_state(ran, config) == history[0]
    assert all(snapshot.config["configurable"]["thread_id"] == "t" for snapshot in history)


def test_checkpoint_ids_and_times_rise(runner: Runner, ran: Any, config: RunnableConfig) -> None:
    history = runner.history(ran, config)
    own = [ids(snapshot.config) for snapshot in history]
    times = [str(snapshot.created_at) for snapshot in history]
    assert own == sorted(own, reverse=True)
    assert times == sorted(times, reverse=True)


def test_history_is_the_same_for_another_saver_on_the_same_storage(
    runner: Runner, saver: Saver, ran: Any, config: RunnableConfig, reopen: Reopen
) -> None:
    again = chain(graph_of, saver=reopen(saver))
    assert runner.history(again, config) == runner.history(ran, config)


def test_a_past_checkpoint_shows_its_tasks(runner: Runner, ran: Any, config: RunnableConfig) -> None:
    tasks = [snapshot.tasks for snapshot in runner.history(ran, config)]
    assert [[(task.name, task.error, task.interrupts) for task in of_one] for of_one in tasks] == [
        [],
        [("c", None, ())],
        [("b", None, ())],
        [("a", None, ())],
        [(START, None, ())],
    ]
    # A superstep of one task records no output beside its checkpoint: the next one carries what it wrote.
    assert [of_one[0].result for of_one in tasks[1:4]] == [None, None, None]


def test_a_second_turn_goes_on_counting_steps(runner: Runner, ran: Any, config: RunnableConfig) -> None:
    runner.invoke(ran, log("more"), config)
    history = [summary(snapshot) for snapshot in runner.history(ran, config)]
    first_turn = ["in", "a", "b", "c"]
    assert history == [
        ("loop", 8, [*first_turn, "more", "a", "b", "c"], ()),
        ("loop", 7, [*first_turn, "more", "a", "b"], ("c",)),
        ("loop", 6, [*first_turn, "more", "a"], ("b",)),
        ("loop", 5, [*first_turn, "more"], ("a",)),
        ("input", 4, first_turn, (START,)),
        *WHOLE_RUN,
    ]


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({"limit": 2}, [3, 2]),
        ({"limit": 0}, []),
        ({"limit": 99}, [3, 2, 1, 0, -1]),
        ({"filter": {"source": "loop"}}, [3, 2, 1, 0]),
        ({"filter": {"source": "input"}}, [-1]),
        ({"filter": {"step": 1}}, [1]),
        ({"filter": {"source": "loop", "step": -1}}, []),
        ({"filter": {"source": "update"}}, []),
        ({"filter": {"absent": 1}}, []),
        ({"filter": {}}, [3, 2, 1, 0, -1]),
        ({"filter": {"source": "loop"}, "limit": 1}, [3]),
        ({"filter": {"source": "input"}, "limit": 1}, [-1]),
    ],
)
def test_history_takes_a_filter_and_a_limit(
    runner: Runner, ran: Any, config: RunnableConfig, options: Any, steps: list[int]
) -> None:
    assert [summary(snapshot)[1] for snapshot in runner.history(ran, config, **options)] == steps


def test_history_before_a_checkpoint(runner: Runner, ran: Any, config: RunnableConfig) -> None:
    middle = past(runner, ran, config, "b")
    assert [summary(s)[1] for s in runner.history(ran, config, before=middle.config)] == [0, -1]
    assert [summary(s)[1] for s in runner.history(ran, config, before=middle.config, limit=1)] == [0]
    first = runner.history(ran, config)[-1]
    assert runner.history(ran, config, before=first.config) == []


def test_metadata_of_a_run_is_kept_and_can_be_filtered(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = chain(build, "a")
    for tenant in ("acme", "other"):
        runner.invoke(graph, EMPTY, {**config, "metadata": {"tenant": tenant}})
    history = runner.history(graph, config, filter={"tenant": "acme"})
    assert [summary(snapshot)[1] for snapshot in history] == [1, 0, -1]


def test_threads_do_not_see_each_other(runner: Runner, ran: Any) -> None:
    other: RunnableConfig = {"configurable": {"thread_id": "other"}}
    assert runner.history(ran, other) == []
    runner.invoke(ran, log("elsewhere"), other)
    assert runner.get_state(ran, other).values == log("elsewhere", "a", "b", "c")


@pytest.mark.parametrize("door", ["get_state", "history", "update_state", "bulk_update_state"])
def test_without_a_saver_there_is_no_past(runner: Runner, config: RunnableConfig, door: str) -> None:
    arguments: dict[str, tuple[Any, ...]] = {
        "update_state": (EMPTY,),
        "bulk_update_state": ([[StateUpdate(EMPTY, "a")]],),
    }
    with pytest.raises(ValueError, match="checkpointer"):
        getattr(runner, door)(chain(graph_of), config, *arguments.get(door, ()))


# Running from the past


def test_running_from_a_checkpoint_writes_a_fork_of_it_first(
    runner: Runner, ran: Any, config: RunnableConfig
) -> None:
    old = past(runner, ran, config, "b")
    assert runner.invoke(ran, None, old.config) == log("in", "a", "b", "c")
    history = runner.history(ran, config)
    assert [summary(snapshot) for snapshot in history] == [
        ("loop", 4, ["in", "a", "b", "c"], ()),
        ("loop", 3, ["in", "a", "b"], ("c",)),
        ("fork", 2, ["in", "a"], ("b",)),
        *WHOLE_RUN,
    ]
    assert ids(history[2].parent_config) == ids(old.config)
    assert lineage(runner, ran, config) == [
        *(summary(snapshot) for snapshot in history[:3]),
        *WHOLE_RUN[2:],
    ]


def test_nodes_after_the_checkpoint_run_again_and_those_before_do_not(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    ran: list[str] = []

    def node(name: str) -> Any:
        def work(state: State) -> State:
            ran.append(name)
            return log(name)

        return work

    graph = build({name: node(name) for name in "abc"}, in_a_row(*"abc"))
    runner.invoke(graph, log("in"), config)
    runner.invoke(graph, None, past(runner, graph, config, "b").config)
    assert ran == ["a", "b", "c", "b", "c"]


def test_new_input_at_a_checkpoint_branches_there(runner: Runner, ran: Any, config: RunnableConfig) -> None:
    old = past(runner, ran, config, "b")
    assert runner.invoke(ran, log("new"), old.config) == log("in", "a", "new", "a", "b", "c")
    assert lineage(runner, ran, config) == [
        ("loop", 6, ["in", "a", "new", "a", "b", "c"], ()),
        ("loop", 5, ["in", "a", "new", "a", "b"], ("c",)),
        ("loop", 4, ["in", "a", "new", "a"], ("b",)),
        ("loop", 3, ["in", "a", "new"], ("a",)),
        ("input", 2, ["in", "a"], (START,)),
        *WHOLE_RUN[2:],
    ]


def test_a_fork_leaves_the_original_branch_as_it_was(
    runner: Runner, ran: Any, config: RunnableConfig
) -> None:
    before = runner.history(ran, config)
    runner.invoke(ran, log("new"), past(runner, ran, config, "b").config)
    runner.invoke(ran, None, past(runner, ran, config, "a").config)
    runner.update_state(ran, before[1].config, log("edited"), as_node="a")
    assert [runner.get_state(ran, snapshot.config) for snapshot in before] == before
    assert runner.history(ran, config)[-len(before) :] == before
    assert lineage(runner, ran, before[0].config) == WHOLE_RUN


def test_the_newest_branch_is_the_thread(runner: Runner, ran: Any, config: RunnableConfig) -> None:
    runner.invoke(ran, log("new"), past(runner, ran, config, "b").config)
    assert runner.invoke(ran, log("turn"), config)["log"][:6] == ["in", "a", "new", "a", "b", "c"]


def test_forks_of_forks(runner: Runner, ran: Any, config: RunnableConfig) -> None:
    for word in ("x", "y", "z"):
        old = past(runner, ran, config, "b")
        fork = runner.update_state(ran, old.config, log(word), as_node="a")
        assert runner.invoke(ran, None, fork)["log"][-3:] == [word, "b", "c"]
    assert runner.get_state(ran, config).values == log("in", "a", "x", "y", "z", "b", "c")


def test_going_on_at_the_end_does_nothing(runner: Runner, ran: Any, config: RunnableConfig) -> None:
    assert runner.invoke(ran, None, config) == log("in", "a", "b", "c")
    assert [summary(snapshot) for snapshot in runner.history(ran, config)] == WHOLE_RUN


def test_running_from_the_input_checkpoint_starts_over(
    runner: Runner, ran: Any, config: RunnableConfig
) -> None:
    first = runner.history(ran, config)[-1]
    assert runner.invoke(ran, None, first.config) == log("in", "a", "b", "c")


def test_going_on_from_a_checkpoint_that_does_not_exist(
    runner: Runner, ran: Any, config: RunnableConfig
) -> None:
    nowhere: RunnableConfig = {"configurable": {"thread_id": "t", "checkpoint_id": "nowhere"}}
    with pytest.raises((ValueError, LookupError)):
        runner.invoke(ran, None, nowhere)
    assert runner.get_state(ran, nowhere).metadata is None
    assert [summary(snapshot) for snapshot in runner.history(ran, config)] == WHOLE_RUN


def test_none_on_an_unknown_thread(runner: Runner, build: Build, config: RunnableConfig) -> None:
    graph = chain(build)
    with pytest.raises(EmptyInputError):
        runner.invoke(graph, None, config)
    assert runner.history(graph, config) == []


def test_checkpoints_made_later_sort_later_also_when_they_fork_an_old_one(
    runner: Runner, ran: Any, config: RunnableConfig
) -> None:
    old = past(runner, ran, config, "b").config
    made = [ids(runner.update_state(ran, old, log(f"{number}"), as_node="a")) for number in range(40)]
    history = [ids(snapshot.config) for snapshot in runner.history(ran, config)]
    assert history[:40] == made[::-1]
    assert made == sorted(made)


# Writing


def test_an_update_as_a_node_is_what_that_node_would_have_written(
    runner: Runner, ran: Any, config: RunnableConfig
) -> None:
    updated = runner.update_state(ran, config, log("u"), as_node="a")
    state = runner.get_state(ran, config)
    assert summary(state) == ("update", 4, ["in", "a", "b", "c", "u"], ("b",))
    assert ids(updated) == ids(state.config)
    assert ids(state.parent_config) == ids(runner.history(ran, config)[1].config)
    assert runner.invoke(ran, None, config) == log("in", "a", "b", "c", "u", "b", "c")


@pytest.mark.parametrize(
    ("stop", "upcoming"), [({"interrupt_before": ["b"]}, ("b",)), ({"interrupt_after": ["b"]}, ("c",))]
)
def test_without_a_node_the_last_one_that_ran_is_meant(
    runner: Runner, build: Build, config: RunnableConfig, stop: Any, upcoming: tuple[str, ...]
) -> None:
    graph = chain(build, **stop)
    runner.invoke(graph, log("in"), config)
    runner.update_state(graph, config, log("u"))
    state = runner.get_state(graph, config)
    assert (state.next, state.values["log"][-1]) == (upcoming, "u")
    rest = "abc"["abc".index(upcoming[0]) :]
    assert runner.invoke(graph, None, config, interrupt_before=[], interrupt_after=[])["log"][
        -len(rest) :
    ] == list(rest)


def test_without_a_node_at_the_end_the_run_stays_ended(
    runner: Runner, ran: Any, config: RunnableConfig
) -> None:
    runner.update_state(ran, config, log("u"))
    assert summary(runner.get_state(ran, config)) == ("update", 4, ["in", "a", "b", "c", "u"], ())


def test_without_a_node_before_the_first_one_it_is_still_next(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = chain(build, interrupt_before=["a"])
    runner.invoke(graph, log("in"), config)
    runner.update_state(graph, config, log("u"))
    assert summary(runner.get_state(graph, config)) == ("update", 1, ["in", "u"], ("a",))


def test_without_a_node_after_two_at_once_it_is_ambiguous(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = joined(build)
    runner.invoke(graph, log("in"), config)
    before = runner.history(graph, config)
    with pytest.raises(InvalidUpdateError, match="as_node"):
        runner.update_state(graph, config, log("u"))
    assert runner.history(graph, config) == before
    runner.update_state(graph, config, log("u"), as_node="a")
    assert runner.get_state(graph, config).values == log("in", "a", "b", "u")
    assert runner.get_state(graph, config).next == ("c",)


def test_an_update_follows_the_branch_of_its_node(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    def route(state: State) -> str:
        return "b" if state["log"][-1] == "left" else "c"

    graph = build({name: says(name) for name in "abc"}, [(START, "a"), ("a", route, ["b", "c"])])
    for word, upcoming in (("left", "b"), ("right", "c")):
        runner.update_state(graph, config, log(word), as_node="a")
        assert runner.get_state(graph, config).next == (upcoming,)


@pytest.mark.parametrize("values", [None, {}], ids=["none", "empty"])
def test_an_update_without_values_only_moves(
    runner: Runner, ran: Any, config: RunnableConfig, values: Any
) -> None:
    runner.update_state(ran, config, values, as_node="b")
    assert summary(runner.get_state(ran, config)) == ("update", 4, ["in", "a", "b", "c"], ("c",))


def test_an_update_as_the_end_ends_the_run(runner: Runner, build: Build, config: RunnableConfig) -> None:
    graph = chain(build, interrupt_before=["b"])
    runner.invoke(graph, log("in"), config)
    runner.update_state(graph, config, None, as_node=END)
    assert summary(runner.get_state(graph, config)) == ("update", 2, ["in", "a"], ())
    assert runner.invoke(graph, None, config) == log("in", "a")


def test_an_update_as_input_is_a_new_turn(runner: Runner, ran: Any, config: RunnableConfig) -> None:
    runner.update_state(ran, config, log("i"), as_node=INPUT)
    assert summary(runner.get_state(ran, config)) == ("input", 4, ["in", "a", "b", "c"], (START,))
    assert runner.invoke(ran, None, config) == log("in", "a", "b", "c", "i", "a", "b", "c")


def test_an_update_as_start_is_applied_at_once(runner: Runner, ran: Any, config: RunnableConfig) -> None:
    runner.update_state(ran, config, log("s"), as_node=START)
    assert summary(runner.get_state(ran, config)) == ("update", 4, ["in", "a", "b", "c", "s"], ("a",))
    assert runner.invoke(ran, None, config) == log("in", "a", "b", "c", "s", "a", "b", "c")


def test_a_copy_is_the_same_state_again(runner: Runner, build: Build, config: RunnableConfig) -> None:
    graph = chain(build, interrupt_before=["b"])
    runner.invoke(graph, log("in"), config)
    runner.update_state(graph, config, None, as_node=COPY)
    assert summary(runner.get_state(graph, config)) == ("fork", 2, ["in", "a"], ("b",))
    assert runner.invoke(graph, None, config) == log("in", "a", "b", "c")


def test_a_copy_of_an_old_checkpoint_brings_it_back(runner: Runner, ran: Any, config: RunnableConfig) -> None:
    old = past(runner, ran, config, "b")
    runner.update_state(ran, old.config, None, as_node=COPY)
    assert summary(runner.get_state(ran, config)) == ("fork", 2, ["in", "a"], ("b",))
    assert runner.invoke(ran, None, config) == log("in", "a", "b", "c")


def test_an_update_of_an_old_checkpoint_branches_there(
    runner: Runner, ran: Any, config: RunnableConfig
) -> None:
    fork = runner.update_state(ran, past(runner, ran, config, "b").config, log("u"))
    assert lineage(runner, ran, fork) == [("update", 2, ["in", "a", "u"], ("b",)), *WHOLE_RUN[2:]]
    assert runner.get_state(ran, config) == runner.get_state(ran, fork)
    assert runner.invoke(ran, None, config) == log("in", "a", "u", "b", "c")


@pytest.mark.parametrize("as_node", ["ghost", "__interrupt__", "__parent__"])
def test_an_update_as_an_unknown_node_is_an_error_that_names_it(
    runner: Runner, ran: Any, config: RunnableConfig, as_node: str
) -> None:
    with pytest.raises(InvalidUpdateError, match=as_node):
        runner.update_state(ran, config, log("u"), as_node=as_node)
    assert [summary(snapshot) for snapshot in runner.history(ran, config)] == WHOLE_RUN


def test_an_update_at_a_checkpoint_that_does_not_exist(
    runner: Runner, ran: Any, config: RunnableConfig
) -> None:
    nowhere: RunnableConfig = {"configurable": {"thread_id": "t", "checkpoint_id": "nowhere"}}
    with pytest.raises(ValueError, match="has no checkpoint 'nowhere'"):
        runner.update_state(ran, nowhere, log("u"))
    assert [summary(snapshot) for snapshot in runner.history(ran, config)] == WHOLE_RUN


@pytest.mark.parametrize("as_node", [END, COPY])
def test_an_end_and_a_copy_take_no_values(
    runner: Runner, ran: Any, config: RunnableConfig, as_node: str
) -> None:
    with pytest.raises(InvalidUpdateError, match=f"{as_node}' takes no values"):
        runner.update_state(ran, config, log("u"), as_node=as_node)


def test_an_update_of_nothing_is_the_same_state_again(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = chain(build, interrupt_before=["b"])
    runner.invoke(graph, log("in"), config)
    runner.update_state(graph, config, None)
    assert summary(runner.get_state(graph, config)) == ("update", 2, ["in", "a"], ("b",))
    assert runner.invoke(graph, None, config) == log("in", "a", "b", "c")


@pytest.mark.parametrize("names", ["a", "ab"])
def test_an_update_of_a_fresh_thread_is_its_input(
    runner: Runner, build: Build, config: RunnableConfig, names: str
) -> None:
    graph = build({name: says(name) for name in names}, in_a_row(*names))
    runner.update_state(graph, config, log("in"))
    assert summary(runner.get_state(graph, config)) == ("update", 0, ["in"], ("a",))
    assert runner.invoke(graph, None, config) == log("in", *names)


def test_an_edge_function_cannot_ask_during_an_update(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = build({"a": says("a")}, [(START, "a"), ("a", lambda state: interrupt("where to?"))])
    with pytest.raises(RuntimeError, match="edge function of node 'a' asked a question during update_state"):
        runner.update_state(graph, config, log("u"), as_node="a")
    assert runner.history(graph, config) == []


@pytest.mark.parametrize("values", [3, "text", ["item"]], ids=repr)
def test_values_that_are_no_update_are_an_error(
    runner: Runner, ran: Any, config: RunnableConfig, values: Any
) -> None:
    with pytest.raises(InvalidUpdateError):
        runner.update_state(ran, config, values, as_node="a")
    assert [summary(snapshot) for snapshot in runner.history(ran, config)] == WHOLE_RUN


@pytest.mark.parametrize(
    ("as_node", "expected"),
    [
        ("a", ("update", 0, ["f"], ("b",))),
        ("c", ("update", 0, ["f"], ())),
        (START, ("update", 0, ["f"], ("a",))),
        (INPUT, ("input", -1, [], (START,))),
    ],
)
def test_an_update_may_begin_a_thread(
    runner: Runner, build: Build, config: RunnableConfig, as_node: str, expected: tuple[Any, ...]
) -> None:
    graph = chain(build)
    runner.update_state(graph, config, log("f"), as_node=as_node)
    (only,) = runner.history(graph, config)
    assert summary(only) == expected
    assert only.parent_config is None


def test_an_update_without_a_node_may_begin_a_thread(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = chain(build)
    runner.update_state(graph, config, log("f"))
    assert runner.invoke(graph, None, config) == log("f", "a", "b", "c")


def test_there_is_nothing_to_copy_on_an_unknown_thread(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = chain(build)
    with pytest.raises(InvalidUpdateError):
        runner.update_state(graph, config, None, as_node=COPY)
    assert runner.history(graph, config) == []


# Several supersteps at once


def test_a_bulk_update_replays_a_run(runner: Runner, build: Build, config: RunnableConfig) -> None:
    graph = chain(build)
    steps = [(START, log("in")), ("a", log("A")), ("b", log("B"))]
    last = runner.bulk_update_state(graph, config, [[StateUpdate(values, node)] for node, values in steps])
    assert [summary(snapshot) for snapshot in runner.history(graph, config)] == [
        ("update", 2, ["in", "A", "B"], ("c",)),
        ("update", 1, ["in", "A"], ("b",)),
        ("update", 0, ["in"], ("a",)),
    ]
    assert ids(last) == ids(runner.get_state(graph, config).config)
    assert runner.invoke(graph, None, config) == log("in", "A", "B", "c")


def test_a_bulk_update_may_begin_with_the_input(runner: Runner, build: Build, config: RunnableConfig) -> None:
    graph = chain(build)
    runner.bulk_update_state(
        graph,
        config,
        [[StateUpdate(log("in"), INPUT)], [StateUpdate(log("in"), START)], [StateUpdate(log("A"), "a")]],
    )
    assert [summary(snapshot) for snapshot in runner.history(graph, config)] == [
        ("update", 1, ["in", "A"], ("b",)),
        ("update", 0, ["in"], ("a",)),
        ("input", -1, [], (START,)),
    ]


def test_updates_of_one_superstep_meet_in_a_join(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = joined(build)
    runner.bulk_update_state(graph, config, [[StateUpdate(log("A"), "a"), StateUpdate(log("B"), "b")]])
    (only,) = runner.history(graph, config)
    assert summary(only) == ("update", 0, ["A", "B"], ("c",))


def test_one_half_of_a_join_waits_for_the_other(runner: Runner, build: Build, config: RunnableConfig) -> None:
    graph = joined(build)
    runner.update_state(graph, config, log("A"), as_node="a")
    assert "c" not in runner.get_state(graph, config).next
    runner.update_state(graph, config, log("B"), as_node="b")
    assert runner.get_state(graph, config).next == ("c",)


@pytest.mark.parametrize(
    "supersteps",
    [[], [[]], [[StateUpdate(log("u"), "a")], []], [[], [StateUpdate(log("u"), "a")]]],
    ids=["no supersteps", "an empty one", "an empty last one", "an empty first one"],
)
def test_empty_bulk_updates_are_an_error_and_write_nothing(
    runner: Runner, ran: Any, config: RunnableConfig, supersteps: Any
) -> None:
    with pytest.raises(ValueError):
        runner.bulk_update_state(ran, config, supersteps)
    assert [summary(snapshot) for snapshot in runner.history(ran, config)] == WHOLE_RUN


@pytest.mark.parametrize(
    "updates",
    [
        [StateUpdate(log("u"), "ghost")],
        [StateUpdate(log("u"), "a"), StateUpdate(log("u"), "ghost")],
        [StateUpdate(log("u"), "a"), StateUpdate(None, END)],
        [StateUpdate(log("u"), "a"), StateUpdate(None, COPY)],
        [StateUpdate(log("u"), "a"), StateUpdate(log("i"), INPUT)],
        [StateUpdate(log("u"), "a"), StateUpdate(log("u"), None)],
    ],
    ids=[
        "unknown",
        "one unknown of two",
        "end beside a node",
        "copy beside a node",
        "input beside a node",
        "nobody's beside a node's",
    ],
)
def test_a_bulk_update_that_cannot_be_applied_is_an_error(
    runner: Runner, ran: Any, config: RunnableConfig, updates: list[StateUpdate]
) -> None:
    with pytest.raises(InvalidUpdateError):
        runner.bulk_update_state(ran, config, [updates])
    assert [summary(snapshot) for snapshot in runner.history(ran, config)] == WHOLE_RUN


def test_a_bulk_update_at_an_old_checkpoint_branches_there(
    runner: Runner, ran: Any, config: RunnableConfig
) -> None:
    old = past(runner, ran, config, "b")
    last = runner.bulk_update_state(
        ran, old.config, [[StateUpdate(log("B"), "b")], [StateUpdate(log("C"), "c")]]
    )
    assert lineage(runner, ran, last) == [
        ("update", 3, ["in", "a", "B", "C"], ()),
        ("update", 2, ["in", "a", "B"], ("c",)),
        *WHOLE_RUN[2:],
    ]


# Reading a long past


def test_every_checkpoint_of_a_long_thread_has_its_own_values(
    runner: Runner, saver: Saver, config: RunnableConfig, reopen: Reopen
) -> None:
    """Values are stored as extensions and folded (SEMANTICS 8); history must not show the seams."""
    graph = chain(graph_of, "a", saver=saver)
    for turn in range(150):
        runner.invoke(graph, log(f"turn {turn}"), config)
    again = chain(graph_of, "a", saver=reopen(saver))
    everything = [word for turn in range(150) for word in (f"turn {turn}", "a")]
    history = runner.history(again, config)
    lengths = [len(snapshot.values["log"]) for snapshot in history]
    assert [snapshot.values["log"] for snapshot in history] == [everything[:length] for length in lengths]
    assert lengths == [2 * turn + more for turn in reversed(range(150)) for more in (2, 1, 0)]


def test_a_fork_of_a_long_thread_extends_its_own_past(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = chain(build, "a")
    for turn in range(40):
        runner.invoke(graph, log(f"turn {turn}"), config)
    history = runner.history(graph, config)
    for old in (history[3], history[60], history[-2]):
        forked = runner.update_state(graph, old.config, log("forked"), as_node="a")
        assert runner.get_state(graph, forked).values["log"] == [*old.values["log"], "forked"]
    assert [runner.get_state(graph, snapshot.config).values for snapshot in history] == [
        snapshot.values for snapshot in history
    ]


def test_a_snapshot_is_not_changed_by_what_happens_later(runner: Runner, config: RunnableConfig) -> None:
    graph = chain(graph_of, saver=InMemorySaver())
    runner.invoke(graph, log("in"), config)
    before = runner.get_state(graph, config)
    copy = list(before.values["log"])
    runner.invoke(graph, log("more"), config)
    before.values["log"].append("spoiled")
    assert copy == ["in", "a", "b", "c"]
    assert "spoiled" not in runner.get_state(graph, config).values["log"]
    assert "spoiled" not in runner.history(graph, config)[5].values["log"]
