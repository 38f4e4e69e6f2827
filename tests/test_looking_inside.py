"""Looking inside a run (L24): `debug`, `print_mode`, notes on errors, and tracebacks without our frames."""

import asyncio
import re
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from graphkit.cache.memory import InMemoryCache
from graphkit.config import get_stream_writer
from graphkit.drivers import execute as execute_module
from graphkit.func import entrypoint, task
from graphkit.types import CachePolicy, Command, RetryPolicy, RunnableConfig
from tests.conftest import EMPTY, Build, Runner, State, asks, graph_of, in_a_row, says

Printed = pytest.CaptureFixture[str]


def lines(capsys: Printed) -> list[str]:
    """What was printed, with ids as `ID`."""
    return [
        re.sub(r"[0-9a-f]{11}-[0-9a-f]{6}-[0-9a-f]{8}", "ID", line)
        for line in capsys.readouterr().out.splitlines()
    ]


# debug


def test_debug_tells_what_happens_step_by_step(
    runner: Runner, build: Build, config: RunnableConfig, capsys: Printed
) -> None:
    graph = build({"a": says("a"), "ask": asks("sure?")}, in_a_row("a", "ask"), name="demo", debug=True)
    runner.invoke(graph, EMPTY, config)
    assert lines(capsys) == [
        "[demo] step -1: checkpoint ID, next: __start__",
        "[demo] step 0: checkpoint ID, next: a",
        "[demo] step 1: a starts with {'log': []}",
        "[demo] step 1: a wrote {'log': ['a']}",
        "[demo] step 1: checkpoint ID, next: ask",
        "[demo] step 2: ask starts with {'log': ['a']}",
        "[demo] step 2: ask asks ['sure?']",
        "[demo] waits for an answer",
    ]
    runner.invoke(graph, Command(resume="yes"), config)
    assert lines(capsys) == [
        "[demo] step 1: checkpoint ID, next: ask",
        "[demo] step 2: ask starts with {'log': ['a']}",
        "[demo] step 2: ask wrote {'log': ['yes']}",
        "[demo] step 2: checkpoint ID, next: nothing",
    ]


@pytest.mark.parametrize("subgraphs", [False, True])
def test_debug_tells_of_nested_runs_and_where_they_are(
    runner: Runner, capsys: Printed, subgraphs: bool
) -> None:
    low = graph_of({"low": says("low")})
    graph = graph_of({"outer": graph_of({"middle": low})}, name="demo")
    runner.stream(graph, EMPTY, debug=True, subgraphs=subgraphs)
    assert lines(capsys) == [
        "[demo] step 1: outer starts with {'log': []}",
        "[demo > outer] step 1: middle starts with {'log': []}",
        "[demo > outer > middle] step 1: low starts with {'log': []}",
        "[demo > outer > middle] step 1: low wrote {'log': ['low']}",
        "[demo > outer] step 1: middle wrote {'log': ['low']}",
        "[demo] step 1: outer wrote {'log': ['low']}",
    ]


def test_debug_tells_of_attempts_failures_breakpoints_and_the_cache(runner: Runner, capsys: Printed) -> None:
    errors = iter([ValueError("once"), None])

    def flaky(state: State) -> State:
        error = next(errors)
        if error is not None:
            raise error
        return {"log": ["done"]}

    policy = RetryPolicy(initial_interval=0.001, retry_on=ValueError)
    options: dict[str, Any] = {"flaky": {"retry_policy": policy, "cache_policy": CachePolicy()}}
    graph = graph_of({"flaky": flaky}, node_options=options, name="demo", cache=InMemoryCache())
    runner.invoke(graph, EMPTY, debug=True)
    assert lines(capsys) == [
        "[demo] step 1: flaky starts with {'log': []}",
        "[demo] step 1: flaky starts again (attempt 2) with {'log': []}",
        "[demo] step 1: flaky wrote {'log': ['done']}",
    ]
    runner.invoke(graph, EMPTY, debug=True)
    assert lines(capsys)[-1] == "[demo] step 1: flaky wrote {'log': ['done']} (found in the cache)"

    def fails(state: State) -> State:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        runner.invoke(graph_of({"fails": fails}, name="demo"), EMPTY, debug=True)
    assert lines(capsys)[-1] == "[demo] step 1: fails failed with ValueError('broken')"
    runner.invoke(graph_of({"a": says("a")}, name="demo"), EMPTY, debug=True, interrupt_before=["a"])
    assert lines(capsys) == ["[demo] pauses at a breakpoint"]


def test_debug_of_a_run_overrides_that_of_the_graph(runner: Runner, capsys: Printed) -> None:
    loud, quiet = (graph_of({"a": says("a")}, debug=debug) for debug in (True, False))
    runner.invoke(loud, EMPTY, debug=False)
    runner.invoke(quiet, EMPTY)
    assert lines(capsys) == []
    runner.invoke(loud, EMPTY, debug=None)
    assert len(lines(capsys)) == 2
    runner.run(quiet, EMPTY, debug=True)
    assert len(lines(capsys)) == 2


def test_debug_changes_nothing_of_what_a_stream_shows(runner: Runner, capsys: Printed) -> None:
    graph = graph_of({"outer": graph_of({"a": says("a")})})
    modes = ["updates", "values", "custom"]
    assert runner.stream(graph, EMPTY, stream_mode=modes, debug=True) == runner.stream(
        graph, EMPTY, stream_mode=modes
    )


def test_debug_tells_what_tasks_and_entrypoints_return(runner: Runner, capsys: Printed) -> None:
    @task
    def double(number: int) -> int:
        return 2 * number

    @entrypoint()
    def flow(given: int) -> int:
        return double(given).result() + 1

    assert runner.invoke(flow, 20, debug=True) == 41
    assert lines(capsys) == [
        "[flow] step 1: flow starts with 20",
        "[flow] step 1: double starts with ((20,), {})",
        "[flow] step 1: double returned 40",
        "[flow] step 1: flow returned 41",
    ]


def test_long_values_are_cut(runner: Runner, capsys: Printed) -> None:
    runner.invoke(graph_of({"a": says("x" * 1000)}), EMPTY, debug=True)
    assert max(map(len, lines(capsys))) < 300


# print_mode


def test_print_mode_prints_chunks_and_does_not_yield_them(runner: Runner, capsys: Printed) -> None:
    graph = graph_of({"a": lambda state: get_stream_writer()("hello") or {"log": ["a"]}})
    chunks = runner.stream(graph, EMPTY, stream_mode="values", print_mode=["updates", "custom"])
    assert chunks == [EMPTY, {"log": ["a"]}]
    assert lines(capsys) == ["[custom] 'hello'", "[updates] {'a': {'log': ['a']}}"]
    assert runner.invoke(graph, EMPTY, print_mode="updates") == {"log": ["a"]}
    assert lines(capsys) == ["[updates] {'a': {'log': ['a']}}"]


def test_print_mode_prints_nested_runs_if_the_stream_shows_them(runner: Runner, capsys: Printed) -> None:
    graph = graph_of({"outer": graph_of({"a": says("a")})})
    runner.stream(graph, EMPTY, print_mode="updates")
    assert lines(capsys) == ["[updates] {'outer': {'log': ['a']}}"]
    ((namespace, _), _) = runner.stream(graph, EMPTY, print_mode="updates", subgraphs=True)
    assert lines(capsys) == [
        f"[updates] [graph={namespace}] {{'a': {{'log': ['a']}}}}",
        "[updates] {'outer': {'log': ['a']}}",
    ]


def test_an_unknown_print_mode_is_refused_before_any_node_runs(runner: Runner) -> None:
    ran: list[Any] = []
    with pytest.raises(ValueError, match=r"print_mode 'vales'"):
        runner.invoke(graph_of({"a": ran.append}), EMPTY, print_mode="vales")
    assert ran == []


# Notes


def caught(runner: Runner, graph: Any, *args: Any, **options: Any) -> BaseException:
    with pytest.raises(Exception) as caught:
        runner.invoke(graph, *args, **options)
    return caught.value


def raises(error: Exception) -> Callable[[State], State]:
    def fails(state: State) -> State:
        raise error

    return fails


def test_a_note_says_where_an_error_was_raised(runner: Runner, build: Build, config: RunnableConfig) -> None:
    graph = build({"fails": raises(ValueError("broken"))}, name="demo")
    (note,) = caught(runner, graph, EMPTY, config).__notes__
    at = runner.get_state(graph, config).config["configurable"]["checkpoint_id"]
    assert note == f"in node 'fails' of graph 'demo', attempt 1, thread 't', checkpoint {at!r}"


def test_one_object_raised_again_and_again_has_one_note_for_each_place(runner: Runner) -> None:
    error = ValueError("the one")
    graph, other = (graph_of({"fails": raises(error)}, name=name) for name in ("demo", "other"))
    for _ in range(3):
        caught(runner, graph, EMPTY)
        caught(runner, other, EMPTY)
    assert error.__notes__ == [
        "in node 'fails' of graph 'demo', attempt 1",
        "in node 'fails' of graph 'other', attempt 1",
    ]


def test_every_level_of_nesting_adds_a_note(runner: Runner) -> None:
    inner = graph_of({"same": raises(ValueError("deep"))}, name="demo")
    graph = graph_of({"same": inner}, name="demo")
    assert caught(runner, graph, EMPTY).__notes__ == [
        "in node 'same' of graph 'demo' inside 'same', attempt 1",
        "in node 'same' of graph 'demo', attempt 1",
    ]


def test_a_task_that_is_called_adds_a_note_too(runner: Runner) -> None:
    error = ValueError("the one")

    @task
    def fails() -> None:
        raise error

    @entrypoint()
    def flow(given: int) -> None:
        fails().result()

    for _ in range(2):
        caught(runner, flow, 1)
    assert error.__notes__ == [
        "in task 'fails', called by 'flow', attempt 1",
        "in node 'flow' of graph 'flow', attempt 1",
    ]


def test_notes_of_others_are_kept(runner: Runner) -> None:
    error = ValueError("broken")
    error.add_note("by its author")
    assert len(caught(runner, graph_of({"fails": raises(error)}), EMPTY).__notes__) == 2


# Tracebacks


def helper() -> None:
    raise KeyError("deep")


def fails_deep(state: State) -> State:
    helper()
    return EMPTY


async def afails_deep(state: State) -> State:
    await asyncio.sleep(0)
    helper()
    return EMPTY


def calls(graph: Any) -> Callable[[State], State]:
    def call(state: State) -> State:
        graph.invoke(state)
        return EMPTY

    return call


def frames(error: BaseException) -> list[str]:
    """The functions of the traceback from the call of the graph on, without those of this test's runner."""
    names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    start = max(index for index, name in enumerate(names) if name in ("_call", "_collect", "through"))
    return names[start + 1 :]


@pytest.mark.parametrize("node", [fails_deep, afails_deep])
@pytest.mark.parametrize("door", ["invoke", "run", "stream"])
@pytest.mark.parametrize("side_by_side", [False, True])
def test_a_traceback_shows_the_users_frames_alone(
    runner: Runner, node: Callable[[State], Any], door: str, side_by_side: bool
) -> None:
    graph = graph_of({"fails": node, **({"other": says("other")} if side_by_side else {})})
    with pytest.raises(KeyError) as caught:
        getattr(runner, door)(graph, EMPTY)
    assert [name for name in frames(caught.value) if name != "<listcomp>"] == [node.__name__, "helper"]


def test_a_traceback_of_a_nested_run_shows_the_users_frames_of_all_levels(runner: Runner) -> None:
    graph = graph_of({"outer": calls(graph_of({"inner": graph_of({"fails": fails_deep})}))})
    assert frames(caught(runner, graph, EMPTY)) == ["call", "fails_deep", "helper"]


def test_a_branch_counts_as_the_users(runner: Runner) -> None:
    def branch(state: State) -> str:
        helper()
        return "a"

    graph = graph_of({"a": says("a")}, [("__start__", branch, ["a"])])
    assert frames(caught(runner, graph, EMPTY)) == ["branch", "helper"]


def test_what_the_users_code_called_of_ours_stays(runner: Runner) -> None:
    def node(state: State) -> State:
        graph_of({}, [("__start__", "nowhere")])
        return EMPTY

    names = frames(caught(runner, graph_of({"node": node}), EMPTY))
    assert names[:2] == ["node", "graph_of"]
    assert names[-1] != "graph_of"


def test_an_error_of_the_engine_keeps_its_frames(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute_module, "read_output", None)
    error = caught(runner, graph_of({"a": says("a")}), EMPTY)
    files = {frame.filename.rpartition("/")[2] for frame in traceback.extract_tb(error.__traceback__)}
    assert {"execute.py", "loop.py"} <= files


def test_an_error_of_a_wrong_input_keeps_its_frames(runner: Runner) -> None:
    error = caught(runner, graph_of({"a": says("a")}), "no mapping")
    assert "prepare.py" in {
        frame.filename.rpartition("/")[2] for frame in traceback.extract_tb(error.__traceback__)
    }
