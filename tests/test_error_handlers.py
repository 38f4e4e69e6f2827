"""Error handlers that outlive the process: once a node has failed for good, it is its handler that goes on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphkit import START, Command, StateGraph, interrupt
from graphkit.checkpoint.postgres import PostgresSaver
from graphkit.checkpoint.sqlite import SqliteSaver
from graphkit.engine.failures import Failure, failure_of, failure_record
from graphkit.errors import NodeCancelledError, NodeError, NodeTimeoutError, RecordedError
from graphkit.runtime import get_runtime
from graphkit.types import CachePolicy, RetryPolicy, RunnableConfig
from graphkit_checkpoint.serde import pack, unpack
from tests.conftest import EMPTY, Reopen, Runner, Saver, State, graph_of, says
from tests.faults import fork_child

SOON = 0.02


class Custom(Exception):
    """Of a class that graphkit does not know."""


def failing(error: BaseException, runs: list[str]) -> Callable[[State], State]:
    def fails(state: State) -> State:
        runs.append("node")
        raise error

    return fails


def guarded(
    node: Callable[..., Any], handler: Callable[..., Any], saver: Saver = None, **options: Any
) -> Any:
    return graph_of({"node": node}, saver=saver, node_options={"node": {"error_handler": handler, **options}})


# A process that dies in the handler

ERRORS: dict[str, Exception] = {
    "plain": ValueError("no line", 3),
    "of the system": FileNotFoundError(2, "No such file", "x.csv"),
    "of a codec": UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
    "custom": Custom("no line"),
}


def run_once(colour: str, database: str, log: Path, name: str, dies: bool) -> Any:
    """One run of a graph whose node fails; the handler's process dies, or it tells what it was given."""

    def fails(state: State) -> State:
        _write(log, "node")
        raise ERRORS[name]

    def handler(state: State, error: NodeError) -> State:
        _write(log, "handler")
        if dies:
            os._exit(9)
        return {"log": [error.node, type(error.error).__name__, repr(error.error), str(error.error)]}

    saver: Saver = (SqliteSaver if database.startswith("sqlite") else PostgresSaver)(database)
    options = {
        "node": {"error_handler": handler, "retry_policy": RetryPolicy(initial_interval=0, max_attempts=2)}
    }
    graph = graph_of({"node": fails, "sibling": says("s")}, saver=saver, node_options=options)
    config: RunnableConfig = {"configurable": {"thread_id": "t"}}
    given = EMPTY if dies else None
    result = Runner(colour).invoke(graph, given, config)
    saver.close()
    return result["log"]


def _write(log: Path, word: str) -> None:
    with log.open("a") as file:
        file.write(f"{word}\n")


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 't.sqlite'}"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.mark.parametrize("name", ERRORS)
def test_after_a_crash_in_the_handler_it_is_the_handler_that_runs_again(
    runner: Runner, database: str, tmp_path: Path, name: str
) -> None:
    log, error = tmp_path / "log", ERRORS[name]
    assert fork_child(run_once, runner.colour, database, log, name, True).wait() == 9
    before = log.read_text().split()
    assert before[-1] == "handler" and before.count("handler") == 1
    node, kind, represented, shown, *rest = fork_child(
        run_once, runner.colour, database, log, name, False
    ).result()
    assert log.read_text().split() == [*before, "handler"], "the node has run again"
    assert (node, rest) == ("node", ["s"])
    if name == "custom":
        assert (kind, shown) == ("RecordedError", "no line")
    else:
        assert (kind, represented, shown) == (type(error).__name__, repr(error), str(error))


# A handler that asks, or fails


def test_a_handler_that_asks_is_gone_on_with(
    runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig
) -> None:
    runs: list[str] = []

    def handler(state: State, error: NodeError) -> State:
        runs.append("handler")
        return {"log": [interrupt("what now?"), repr(error.error)]}

    fails = failing(ValueError("no line"), runs)
    graph = guarded(fails, handler, saver)
    result = runner.run(graph, EMPTY, config)
    assert [question.value for question in result.interrupts] == ["what now?"]
    (task,) = runner.get_state(graph, config).tasks
    assert task.error == "ValueError('no line')"
    again = guarded(fails, handler, reopen(saver))
    assert runner.invoke(again, Command(resume="go"), config)["log"] == ["go", "ValueError('no line')"]
    assert runs == ["node", "handler", "handler"]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_handler_that_asks_is_gone_on_with_whatever_the_durability(
    runner: Runner, saver: Saver, config: RunnableConfig, durability: Any
) -> None:
    runs: list[str] = []
    graph = guarded(failing(ValueError(), runs), lambda state, error: {"log": [interrupt("?")]}, saver)
    runner.invoke(graph, EMPTY, config, durability=durability)
    assert runner.invoke(graph, Command(resume="go"), config, durability=durability)["log"] == ["go"]
    assert runs == ["node"]


def test_a_handler_that_fails_is_tried_again_without_the_node(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    runs: list[str] = []

    def handler(state: State, error: NodeError) -> State:
        runs.append("handler")
        if runs.count("handler") == 1:
            raise LookupError("handler broke")
        return {"log": [repr(error.error)]}

    graph = guarded(failing(ValueError("first"), runs), handler, saver)
    with pytest.raises(LookupError):
        runner.invoke(graph, EMPTY, config)
    assert runner.get_state(graph, config).tasks[0].error == "LookupError('handler broke')"
    assert runner.invoke(graph, None, config)["log"] == ["ValueError('first')"]
    assert runs == ["node", "handler", "handler"]


def test_a_failure_that_was_answered_for_is_not_shown_any_more(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    graph = guarded(failing(ValueError("gone"), []), lambda state, error: {"log": ["handled"]}, saver)
    assert runner.invoke(graph, EMPTY, config)["log"] == ["handled"]
    assert all(task.error is None for state in runner.thread(graph, config) for task in state.tasks)


def test_a_handler_that_waits_for_a_sibling_that_failed_starts_when_the_run_goes_on(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    runs: list[str] = []

    def other(state: State) -> State:
        runs.append("other")
        if runs.count("other") == 1:
            raise LookupError("other broke")
        return {"log": ["other"]}

    nodes = {"node": failing(ValueError(), runs), "other": other}
    options = {"node": {"error_handler": lambda state, error: {"log": ["handled"]}}}
    graph = graph_of(nodes, saver=saver, node_options=options)
    with pytest.raises(LookupError):
        runner.invoke(graph, EMPTY, {**config, "max_concurrency": 2})
    assert runner.invoke(graph, None, config)["log"] == ["handled", "other"]
    assert runs.count("node") == 1


def test_where_a_handler_has_gone_is_recorded_with_what_it_wrote(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    """The superstep waits for a question beside the handler; then the edges of the failed node are not followed."""

    def handler(state: State, error: NodeError) -> Command[Any]:
        return Command(update={"log": ["handled"]}, goto="rescue")

    nodes = {
        "node": failing(ValueError(), []),
        "ask": lambda state: {"log": [interrupt("?")]},
        "next": says("next"),
        "rescue": says("rescue"),
    }
    edges = [(START, "node"), (START, "ask"), ("node", "next")]
    options = {"node": {"error_handler": handler, "destinations": ("rescue",)}}
    graph = graph_of(nodes, edges, saver=saver, node_options=options)
    runner.invoke(graph, EMPTY, config)
    assert runner.invoke(graph, Command(resume="go"), config)["log"] == ["go", "handled", "rescue"]


def test_a_graph_that_has_lost_its_handler_runs_the_node(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    runs: list[str] = []
    graph = guarded(failing(ValueError(), runs), lambda state, error: {"log": [interrupt("?")]}, saver)
    runner.invoke(graph, EMPTY, config)
    without = graph_of({"node": says("mended")}, saver=saver)
    assert runner.invoke(without, Command(resume="go"), config)["log"] == ["mended"]


def test_a_fork_begins_at_the_node(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    runs: list[str] = []
    graph = guarded(failing(ValueError(), runs), lambda state, error: {"log": [interrupt("?")]}, saver)
    runner.invoke(graph, EMPTY, config)
    fork = runner.update_state(graph, runner.get_state(graph, config).config, None, as_node="__copy__")
    runner.invoke(graph, None, fork)
    assert runs == ["node", "node"]


def test_a_handler_in_a_nested_graph_is_gone_on_with(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    runs: list[str] = []
    child = guarded(failing(ValueError(), runs), lambda state, error: {"log": [interrupt("?")]})
    graph = graph_of({"child": child}, saver=saver)
    runner.invoke(graph, EMPTY, config)
    assert runner.invoke(graph, Command(resume="go"), config)["log"] == ["go"]
    assert runs == ["node"]


def test_the_answers_of_the_node_and_of_its_handler_are_apart(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    def fails(state: State) -> State:
        interrupt("for the node")
        raise ValueError

    graph = guarded(fails, lambda state, error: {"log": [interrupt("for the handler")]}, saver)
    (first,) = runner.run(graph, EMPTY, config).interrupts
    (second,) = runner.run(graph, Command(resume="one"), config).interrupts
    assert (first.value, second.value) == ("for the node", "for the handler")
    assert runner.invoke(graph, Command(resume="two"), config)["log"] == ["two"]


def test_a_handler_knows_which_attempt_was_the_last(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    seen: list[int] = []

    def handler(state: State, error: NodeError) -> State:
        seen.append(get_runtime().attempt)
        return {"log": [interrupt("?")]}

    policy = RetryPolicy(initial_interval=0, jitter=False, max_attempts=3, retry_on=ValueError)
    graph = guarded(failing(ValueError(), []), handler, saver, retry_policy=policy)
    runner.invoke(graph, EMPTY, config)
    runner.invoke(graph, Command(resume="go"), config)
    assert seen == [3, 3]


@pytest.mark.parametrize("policy", ["of the node", "default"])
def test_a_handler_is_tried_again_by_the_default_policy_alone(
    runner: Runner, saver: Saver, config: RunnableConfig, policy: str
) -> None:
    """As in LangGraph: the policy of a node is for that node."""
    retry, tried = RetryPolicy(initial_interval=0, jitter=False, max_attempts=3), []

    def node(state: State) -> State:
        tried.append("node")
        raise ConnectionError

    def handler(state: State, error: NodeError) -> State:
        tried.append("handler")
        if tried.count("handler") % 3:
            raise ConnectionError
        return {"log": ["handled"]}

    builder = StateGraph(State)
    if policy == "default":
        builder.set_node_defaults(retry_policy=retry)
    options: dict[str, Any] = {} if policy == "default" else {"retry_policy": retry}
    builder.add_node("node", node, error_handler=handler, **options).add_edge(START, "node")
    graph = builder.compile(checkpointer=saver)
    if policy == "default":
        assert runner.invoke(graph, EMPTY, config)["log"] == ["handled"]
        assert tried == ["node"] * 3 + ["handler"] * 3
        return
    with pytest.raises(ConnectionError):
        runner.invoke(graph, EMPTY, config)
    assert tried == ["node"] * 3 + ["handler"]


def test_what_a_handler_returns_is_not_kept_in_the_cache(runner: Runner) -> None:
    from graphkit.cache.memory import InMemoryCache

    runs: list[str] = []
    options = {"error_handler": lambda state, error: {"log": ["handled"]}, "cache_policy": CachePolicy()}
    graph = graph_of(
        {"node": failing(ValueError(), runs)}, node_options={"node": options}, cache=InMemoryCache()
    )
    for _ in range(2):
        assert runner.invoke(graph, EMPTY)["log"] == ["handled"]
    assert runs == ["node", "node"]


# What is recorded


@pytest.mark.parametrize(
    "error",
    [
        ValueError(),
        KeyError(("a", 1)),
        OSError(28, "No space left", "a", None, "b"),
        ConnectionResetError(104, "reset"),
        UnicodeDecodeError("ascii", b"\xe4", 0, 1, "ordinal not in range"),
        StopIteration(5),
        NodeTimeoutError("node", 1.5, kind="run", run_timeout=1.0),
        NodeCancelledError("node"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_exception_that_is_known_is_made_again(error: Exception) -> None:
    error.add_note("seen before")
    record = failure_record("task", Failure(error, 2))
    again, attempt = failure_of(unpack(pack(record.value)))
    assert (type(again), again.args, str(again), vars(again)) == (
        type(error),
        error.args,
        str(error),
        vars(error),
    )
    assert attempt == 2
    assert again.__notes__ == ["seen before"]


class Unstorable:
    """A value that no storage takes."""


class ValueErrorOfOurs(ValueError):
    """A child of a class that is known."""


ValueErrorOfOurs.__name__ = "ValueError"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Custom("text"), "Custom"),
        (ValueError(Unstorable()), "ValueError"),
        (ValueErrorOfOurs("text"), "ValueError"),
        (ExceptionGroup("several", [ValueError()]), "ExceptionGroup"),
        (ValueError("lone \udc80 surrogate", Unstorable()), "ValueError"),
    ],
    ids=["class", "argument", "namesake", "group", "surrogate"],
)
def test_another_exception_has_a_stand_in(error: Exception, kind: str) -> None:
    record = failure_record("task", Failure(error, 1))
    again, _ = failure_of(unpack(pack(record.value)))
    assert isinstance(again, RecordedError)
    assert again.kind == kind


@pytest.mark.parametrize("name", ["eval", "print", "SystemExit", "BaseException", "Any", "os", "Custom"])
def test_a_stored_name_that_is_no_exception_is_not_looked_up(name: str) -> None:
    stored = {"type": name, "text": "x", "message": "x", "attempt": 1, "made_of": [("1 + 1",), {}]}
    assert type(failure_of(stored).error) is RecordedError
