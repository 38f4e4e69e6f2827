"""Streams (L24): what each mode shows, in which order, and what happens when nobody listens any more."""

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import pytest

from graphkit import END, START, Command, Send
from graphkit.cache.base import FullKey
from graphkit.cache.memory import InMemoryCache
from graphkit.config import get_stream_writer
from graphkit.drivers.loops import StandingLoop
from graphkit.errors import GraphRecursionError
from graphkit.func import task
from graphkit.runtime import Runtime
from graphkit.types import CachePolicy, RetryPolicy, RunnableConfig, StreamWriter
from tests.conftest import EMPTY, Build, Runner, State, asks, graph_of, in_a_row, says

Node = Callable[[Any], Any]


def chain(build: Callable[..., Any], names: str = "ab", **options: Any) -> Any:
    return build({name: says(name) for name in names}, in_a_row(*names), **options)


def log(*words: str) -> State:
    return {"log": list(words)}


# Modes


def test_values_shows_the_state_after_the_input_and_after_every_superstep(runner: Runner) -> None:
    chunks = runner.stream(chain(graph_of), log("in"), stream_mode="values")
    assert chunks == [log("in"), log("in", "a"), log("in", "a", "b")]


def test_values_shows_the_state_once_after_the_input_when_a_branch_leads_in(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    edges = [(START, lambda state: ["a"], ["a"])]
    for graph in (graph_of({"a": says("a")}, edges), build({"a": says("a")}, edges)):
        assert runner.stream(graph, log("in"), config, stream_mode="values") == [log("in"), log("in", "a")]


def test_updates_is_the_default_and_shows_what_each_node_wrote(runner: Runner) -> None:
    choices: list[dict[str, Any]] = [{}, {"stream_mode": "updates"}]
    for options in choices:
        assert runner.stream(chain(graph_of), log("in"), **options) == [{"a": log("a")}, {"b": log("b")}]


def test_a_node_that_writes_nothing_is_shown_with_none(runner: Runner) -> None:
    graph = graph_of({"a": lambda state: None})
    assert runner.stream(graph, log("in"), stream_mode="updates") == [{"a": None}]


def test_an_update_is_shown_per_task(runner: Runner) -> None:
    nodes: dict[str, Node] = {"a": lambda given: {"log": [f"a{given}"]}}
    graph = graph_of(nodes, [(START, lambda state: [Send("a", n) for n in range(3)], ["a"])])
    chunks = runner.stream(graph, EMPTY, stream_mode="updates")
    assert sorted(chunks, key=str) == [{"a": log("a0")}, {"a": log("a1")}, {"a": log("a2")}]


def test_the_update_of_a_command_is_shown_as_an_update(runner: Runner) -> None:
    graph = graph_of({"a": lambda state: Command(update=log("a"))})
    assert runner.stream(graph, EMPTY, stream_mode="updates") == [{"a": log("a")}]


def test_values_of_parallel_nodes_are_shown_once_per_superstep(runner: Runner) -> None:
    graph = graph_of({name: says(name) for name in "ba"})
    assert runner.stream(graph, log("in"), stream_mode="values") == [log("in"), log("in", "a", "b")]


def test_values_are_shown_where_something_was_written(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    silent: dict[str, Node] = {
        "a": lambda state: None,
        "b": lambda state: Command(goto="c"),
        "d": lambda state: {},
    }
    nodes: dict[str, Node] = {**silent, "c": lambda state: {"log": []}}
    edges = [(START, "a"), ("a", "b"), ("c", "d")]
    options = {"b": {"destinations": ("c",)}}
    for graph in (graph_of(nodes, edges, node_options=options), build(nodes, edges, node_options=options)):
        for version in ("v1", "v2"):
            given = f"in {version}"
            shown = runner.stream(graph, log(given), config, stream_mode="values", version=version)
            assert len(shown) == 2, "after the input, and after what c wrote"
            shown = runner.stream(graph, {}, config, stream_mode="values", version=version)
            assert len(shown) == 1, "an empty input writes nothing"
            assert "log" in runner.invoke(graph, {}, config, output_keys=["log"])


def test_values_of_some_keys_are_shown_where_one_of_them_was_written(runner: Runner) -> None:
    class Two(State, total=False):
        word: str

    nodes: dict[str, Node] = {"a": says("a"), "b": lambda state: {"word": "b"}, "c": says("c")}
    graph = graph_of(nodes, in_a_row("a", "b", "c"), state=Two)
    for keys, expected in (("word", ["b"]), (["word"], [{"word": "b"}])):
        assert runner.stream(graph, log("in"), stream_mode="values", output_keys=keys) == expected


def test_tasks_shows_each_task_when_it_starts_and_when_it_has_ended(runner: Runner) -> None:
    chunks = runner.stream(chain(graph_of), log("in"), stream_mode="tasks")
    starts, ends = chunks[::2], chunks[1::2]
    assert [(chunk["name"], chunk["input"]) for chunk in starts] == [("a", log("in")), ("b", log("in", "a"))]
    assert [
        (chunk["name"], chunk["result"], chunk["error"], list(chunk["interrupts"])) for chunk in ends
    ] == [
        ("a", log("a"), None, []),
        ("b", log("b"), None, []),
    ]
    assert [chunk["id"] for chunk in starts] == [chunk["id"] for chunk in ends]
    assert len({chunk["id"] for chunk in starts}) == 2


def test_a_task_that_is_tried_again_starts_once(runner: Runner) -> None:
    tries: list[int] = []

    def node(state: State) -> State:
        tries.append(len(tries))
        if len(tries) < 3:
            raise ConnectionError("line is down")
        return log("a")

    def handler(state: State) -> State:
        return log("handled")

    policy = RetryPolicy(initial_interval=0.001, max_attempts=2)
    handled: dict[str, Any] = {"retry_policy": policy, "error_handler": handler}
    options = {"a": {"retry_policy": policy}, "b": handled}
    nodes: dict[str, Node] = {"b": node, "a": node}
    for mode in ("tasks", "debug"):
        tries.clear()
        graph = graph_of(nodes, in_a_row("b", "a"), node_options=options)
        shown = runner.stream(graph, EMPTY, stream_mode=mode)
        chunks = [chunk.get("payload", chunk) for chunk in shown]
        assert [(chunk["name"], "input" in chunk) for chunk in chunks] == [
            ("b", True),
            ("b", False),
            ("a", True),
            ("a", False),
        ]
        assert len(tries) == 3


def collect_until_error(runner: Runner, graph: Any, mode: Any) -> tuple[list[Any], Exception | None]:
    """What a stream shows before it raises."""
    chunks: list[Any] = []
    keep = chunks.append

    async def through() -> None:
        async for chunk in graph.astream(log("in"), stream_mode=mode):
            keep(chunk)

    try:
        if runner.colour == "sync":
            for chunk in graph.stream(log("in"), stream_mode=mode):
                keep(chunk)
        else:
            asyncio.run(through())
    except (ValueError, GraphRecursionError) as error:
        return chunks, error
    return chunks, None


def fails(state: State) -> State:
    raise ValueError("broken")


def test_a_failed_task_is_shown_with_its_error_before_the_stream_raises(runner: Runner) -> None:
    graph = graph_of({"a": says("a"), "bad": fails}, in_a_row("a", "bad"))
    chunks, error = collect_until_error(runner, graph, "tasks")
    assert "broken" in str(error)
    assert "broken" in str(chunks[-1]["error"])
    assert [chunk["name"] for chunk in chunks] == ["a", "a", "bad", "bad"]


def test_what_was_done_before_an_error_has_been_shown(runner: Runner) -> None:
    graph = graph_of({"a": says("a"), "bad": fails}, in_a_row("a", "bad"))
    chunks, error = collect_until_error(runner, graph, ["updates", "values"])
    assert "broken" in str(error)
    assert chunks == [("values", log("in")), ("updates", {"a": log("a")}), ("values", log("in", "a"))]


@pytest.mark.parametrize("mode", ["tasks", "updates"])
def test_what_was_done_before_the_recursion_limit_has_been_shown(runner: Runner, mode: str) -> None:
    graph = chain(graph_of).with_config({"recursion_limit": 1})
    chunks, error = collect_until_error(runner, graph, [mode, "values"])
    assert isinstance(error, GraphRecursionError)
    assert [kind for kind, _ in chunks] == ["values", *[mode] * (2 if mode == "tasks" else 1), "values"]
    assert chunks[-1] == ("values", log("in", "a"))


def test_what_was_done_before_a_cached_node_is_shown_before_its_result_is_looked_up() -> None:
    seen: list[Any] = []
    found: list[Any] = []

    class Watched(InMemoryCache[Any]):
        def get(self, keys: Sequence[FullKey]) -> dict[FullKey, Any]:
            found.append(list(seen))
            return super().get(keys)

    cached = {"b": {"cache_policy": CachePolicy()}}
    graph = chain(graph_of, node_options=cached, cache=Watched())
    for _ in range(2):
        seen.clear()
        for mode, chunk in graph.stream(log("in"), stream_mode=["tasks", "values"]):
            seen.append(chunk["name"] if mode == "tasks" else chunk["log"])
        assert seen == [["in"], "a", "a", ["in", "a"], "b", "b", ["in", "a", "b"]]
        assert found.pop() == [["in"], "a", "a", ["in", "a"]]


def test_a_consumer_that_stops_when_a_task_starts_keeps_it_from_running(runner: Runner) -> None:
    ran: list[str] = []
    graph = graph_of({"a": says("a"), "b": lambda state: ran.append("b")}, in_a_row("a", "b"))

    async def until_it_starts() -> list[str]:
        names = []
        async for chunk in graph.astream(log("in"), stream_mode="tasks"):
            names.append(chunk["name"])
            if names[-1] == "b":
                break
        return names

    if runner.colour == "sync":
        names = [chunk["name"] for chunk in islice(graph.stream(log("in"), stream_mode="tasks"), 3)]
    else:
        names = asyncio.run(until_it_starts())
    assert (names, ran) == (["a", "a", "b"], [])


def test_checkpoints_shows_every_checkpoint_as_it_is_in_history(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = chain(build)
    chunks = runner.stream(graph, log("in"), config, stream_mode="checkpoints")
    history = runner.history(graph, config)[::-1]
    assert [(c["metadata"]["source"], c["metadata"]["step"]) for c in chunks] == [
        ("input", -1),
        ("loop", 0),
        ("loop", 1),
        ("loop", 2),
    ]
    for chunk, snapshot in zip(chunks, history, strict=True):
        shown = {
            key: chunk[key]["configurable"]["checkpoint_id"]
            for key in ("config", "parent_config")
            if chunk[key]
        }
        stored = {"config": snapshot.config["configurable"]["checkpoint_id"]}
        if snapshot.parent_config:
            stored["parent_config"] = snapshot.parent_config["configurable"]["checkpoint_id"]
        assert shown == stored
        assert chunk["values"] == snapshot.values
        assert tuple(chunk["next"]) == snapshot.next
        assert [task["name"] for task in chunk["tasks"]] == [task.name for task in snapshot.tasks]


def test_debug_shows_checkpoints_and_tasks_in_one_stream(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    chunks = runner.stream(chain(build, "a"), log("in"), config, stream_mode="debug")
    assert [(chunk["type"], chunk["step"]) for chunk in chunks] == [
        ("checkpoint", -1),
        ("checkpoint", 0),
        ("task", 1),
        ("task_result", 1),
        ("checkpoint", 1),
    ]
    assert chunks[3]["payload"]["result"] == log("a")


# Several modes


def test_several_modes_come_as_pairs_of_mode_and_chunk(runner: Runner) -> None:
    assert runner.stream(chain(graph_of), log("in"), stream_mode=["values", "updates"]) == [
        ("values", log("in")),
        ("updates", {"a": log("a")}),
        ("values", log("in", "a")),
        ("updates", {"b": log("b")}),
        ("values", log("in", "a", "b")),
    ]


def test_a_list_of_one_mode_gives_pairs_too(runner: Runner) -> None:
    chunks = runner.stream(chain(graph_of, "a"), log("in"), stream_mode=["updates"])
    assert chunks == [("updates", {"a": log("a")})]


@pytest.mark.parametrize("mode", ["checkpoints", "debug"])
def test_a_run_that_stores_nothing_shows_no_checkpoints(runner: Runner, mode: str) -> None:
    shown = runner.stream(chain(graph_of, "a"), log("in"), stream_mode=["values", mode])
    assert [chunk for _, chunk in shown if "values" in chunk or chunk.get("type") == "checkpoint"] == []
    assert [chunk for given, chunk in shown if given == "values"] == [log("in"), log("in", "a")]


def test_every_mode_at_once(runner: Runner, build: Build, config: RunnableConfig) -> None:
    modes = ["values", "updates", "tasks", "checkpoints", "custom"]
    chunks = runner.stream(chain(build, "a"), log("in"), config, stream_mode=modes)
    single: dict[str, list[Any]] = {mode: [] for mode in modes}
    for mode, chunk in chunks:
        single[mode].append(chunk)
    assert single["values"] == [log("in"), log("in", "a")]
    assert single["updates"] == [{"a": log("a")}]
    assert [len(single[mode]) for mode in ("tasks", "checkpoints", "custom")] == [2, 3, 0]


@pytest.mark.parametrize(
    ("mode", "named"),
    [("vales", "vales"), (["values", "vales"], "vales"), ("", "''"), (["Values"], "Values")],
)
def test_an_unknown_mode_is_an_error_that_names_it_before_any_node_runs(
    runner: Runner, build: Build, config: RunnableConfig, mode: Any, named: str
) -> None:
    ran: list[Any] = []
    graph = build({"a": ran.append})
    with pytest.raises(ValueError, match=named):
        runner.stream(graph, EMPTY, config, stream_mode=mode)
    assert ran == []
    assert runner.history(graph, config) == []


# Custom events


def by_call(state: State) -> State:
    get_stream_writer()("by call")
    return {"log": ["call"]}


def by_parameter(state: State, writer: StreamWriter) -> State:
    writer({"by": "parameter"})
    writer(["twice"])
    return {"log": ["parameter"]}


def by_runtime(state: State, runtime: Runtime[Any]) -> State:
    runtime.stream_writer("by runtime")
    return {"log": ["runtime"]}


async def by_async_call(state: State) -> State:
    await asyncio.sleep(0)
    get_stream_writer()("by async call")
    return {"log": ["async call"]}


WRITERS: dict[str, Callable[..., Any]] = {
    "call": by_call,
    "parameter": by_parameter,
    "runtime": by_runtime,
    "async_call": by_async_call,
}


def writers() -> Any:
    return graph_of(WRITERS, in_a_row(*WRITERS))


def test_custom_events_come_from_every_kind_of_writer(runner: Runner) -> None:
    chunks = runner.stream(writers(), EMPTY, stream_mode="custom")
    assert chunks == ["by call", {"by": "parameter"}, ["twice"], "by runtime", "by async call"]


def test_custom_events_of_a_node_come_before_its_update(runner: Runner) -> None:
    chunks = runner.stream(writers(), EMPTY, stream_mode=["custom", "updates"])
    assert [next(iter(chunk)) if mode == "updates" else "event" for mode, chunk in chunks] == [
        "event",
        "call",
        "event",
        "event",
        "parameter",
        "event",
        "runtime",
        "event",
        "async_call",
    ]


def test_writing_an_event_without_the_mode_is_harmless(runner: Runner) -> None:
    assert len(runner.stream(writers(), EMPTY, stream_mode="updates")) == 4
    assert len(runner.invoke(writers(), EMPTY)["log"]) == 4


def test_an_event_reaches_a_consumer_while_its_node_still_runs() -> None:
    async def through() -> list[str]:
        heard = asyncio.Event()

        async def node(state: State) -> State:
            get_stream_writer()("listening?")
            async with asyncio.timeout(20):
                await heard.wait()
            return {"log": ["heard"]}

        seen = []
        async for mode, chunk in graph_of({"node": node}).astream(EMPTY, stream_mode=["custom", "updates"]):
            seen.append(mode)
            if chunk == "listening?":
                heard.set()
        return seen

    assert asyncio.run(through()) == ["custom", "updates"]


def test_what_a_thread_has_shown_comes_before_what_its_node_shows_afterwards(runner: Runner) -> None:
    async def node(state: State) -> State:
        writer = get_stream_writer()
        thread = threading.Thread(target=writer, args=("thread",))
        thread.start()
        thread.join()
        writer("node")
        return EMPTY

    assert runner.stream(graph_of({"node": node}), EMPTY, stream_mode="custom") == ["thread", "node"]


def test_a_thread_that_has_run_the_loop_before_is_heard_at_once() -> None:
    standing, began, heard = StandingLoop(), threading.Event(), threading.Event()
    writers, left = [], []

    async def node(state: State) -> State:
        writers.append(get_stream_writer())
        began.set()
        await asyncio.Event().wait()
        return EMPTY

    async def listen() -> None:
        async for _ in graph_of({"node": node}).astream(EMPTY, stream_mode="custom"):
            heard.set()
            break

    async def leave() -> None:
        left.append(asyncio.create_task(listen()))
        while not began.is_set():
            await asyncio.sleep(0)

    standing.run(leave())
    standing.submit(asyncio.sleep(0), contextvars.copy_context()).result(20)  # the background runs it now
    writers[0]("here")
    assert heard.wait(20)


def test_a_coroutine_that_never_waits_is_shown_in_order(runner: Runner) -> None:
    async def node(state: State) -> State:
        writer = get_stream_writer()
        for number in range(3):
            writer(number)
        thread = threading.Thread(target=contextvars.copy_context().run, args=(writer, "from a thread"))
        thread.start()
        thread.join()
        return {"log": ["done"]}

    chunks = runner.stream(graph_of({"node": node}), EMPTY, stream_mode=["updates", "custom", "values"])
    assert chunks == [
        ("values", {"log": []}),
        *(("custom", chunk) for chunk in (0, 1, 2, "from a thread")),
        ("updates", {"node": log("done")}),
        ("values", log("done")),
    ]


def test_what_a_coroutine_that_never_waits_has_called_is_shown_while_it_runs() -> None:
    async def through() -> list[Any]:
        heard = asyncio.Event()

        @task
        async def called() -> None:
            get_stream_writer()("listening?")
            async with asyncio.timeout(20):
                await heard.wait()
            get_stream_writer()("heard")

        async def node(state: State) -> State:
            called()
            return {"log": ["called"]}

        seen = []
        async for _, chunk in graph_of({"node": node}).astream(EMPTY, stream_mode=["custom", "updates"]):
            seen.append(chunk)
            if chunk == "listening?":
                heard.set()
        return seen

    updates = [{"called": None}, {"node": log("called")}]
    assert asyncio.run(through()) == ["listening?", "heard", *updates]


def test_an_edge_function_may_give_something_to_wait_for_while_its_node_is_shown() -> None:
    async def through() -> list[Any]:
        heard = asyncio.Event()

        async def node(state: State) -> State:
            get_stream_writer()("listening?")
            return {"log": ["done"]}

        async def choose() -> str:
            async with asyncio.timeout(20):
                await heard.wait()
            return END

        edges = [(START, "node"), ("node", lambda state: choose())]
        seen = []
        async for _, chunk in graph_of({"node": node}, edges).astream(
            EMPTY, stream_mode=["custom", "updates"]
        ):
            seen.append(chunk)
            if chunk == "listening?":
                heard.set()
        return seen

    assert asyncio.run(through()) == ["listening?", {"node": log("done")}]


def test_a_writer_outside_of_a_run_is_an_error() -> None:
    with pytest.raises(RuntimeError, match=r"get_stream_writer|run"):
        get_stream_writer()


# Questions


def asking(build: Build) -> Any:
    return build({"a": says("a"), "ask": asks("sure?")}, in_a_row("a", "ask"))


def test_a_question_ends_the_stream_of_updates(runner: Runner, build: Build, config: RunnableConfig) -> None:
    graph = asking(build)
    first, last = runner.stream(graph, EMPTY, config, stream_mode="updates")
    assert first == {"a": log("a")}
    (question,) = last["__interrupt__"]
    assert (list(last), question.value) == (["__interrupt__"], "sure?")
    assert isinstance(last["__interrupt__"], tuple)
    assert runner.get_state(graph, config).interrupts == (question,)


def test_an_answered_question_is_not_shown_again(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = asking(build)
    runner.stream(graph, EMPTY, config)
    assert runner.stream(graph, Command(resume="yes"), config, stream_mode="updates") == [{"ask": log("yes")}]


def test_values_ends_with_the_state_and_the_question(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    chunks = runner.stream(asking(build), EMPTY, config, stream_mode="values")
    assert chunks[:-1] == [EMPTY, log("a")]
    assert [question.value for question in chunks[-1]["__interrupt__"]] == ["sure?"]


@pytest.mark.parametrize("modes", [["values", "updates"], ["updates", "values"]], ids="-".join)
def test_values_come_after_updates_when_a_question_ends_them_too(
    runner: Runner, build: Build, config: RunnableConfig, modes: list[Any]
) -> None:
    graph = build({"a": says("a"), "ask": asks("sure?")}, in_a_row("a", "ask"))
    shown = [mode for mode, _ in runner.stream(graph, EMPTY, config, stream_mode=modes)]
    assert shown == ["values", "updates", "values", "updates", "values"]


def test_a_resumed_stream_of_values_begins_with_the_state(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = asking(build)
    runner.stream(graph, EMPTY, config)
    chunks = runner.stream(graph, Command(resume="yes"), config, stream_mode="values")
    assert chunks == [log("a"), log("a", "yes")]


def test_a_task_that_asks_is_shown_with_its_question(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    last = runner.stream(asking(build), EMPTY, config, stream_mode="tasks")[-1]
    assert (last["name"], last["error"], len(last["interrupts"])) == ("ask", None, 1)


def test_a_breakpoint_is_an_empty_interrupt_among_updates(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = chain(build, interrupt_before=["b"])
    assert runner.stream(graph, EMPTY, config, stream_mode="updates") == [
        {"a": log("a")},
        {"__interrupt__": ()},
    ]
    assert runner.stream(graph, None, config, stream_mode="updates") == [{"b": log("b")}]


# A consumer that stops early


def stop_by_closing(graph: Any, config: RunnableConfig, after: int) -> None:
    with contextlib.closing(graph.stream(log("in"), config, stream_mode="updates")) as stream:
        take(stream, after)


def stop_by_leaving(graph: Any, config: RunnableConfig, after: int) -> None:
    for count, _ in enumerate(graph.stream(log("in"), config, stream_mode="updates"), 1):
        if count == after:
            break


def take(stream: Iterator[Any], count: int) -> None:
    for _ in range(count):
        next(stream)


@pytest.mark.parametrize("stop", [stop_by_closing, stop_by_leaving])
@pytest.mark.parametrize("after", [1, 2])
def test_a_thread_is_free_as_soon_as_its_consumer_has_stopped(
    build: Build, config: RunnableConfig, stop: Callable[[Any, RunnableConfig, int], None], after: int
) -> None:
    graph = chain(build, "abc")
    stop(graph, config, after)
    shown = list("abc"[:after])
    assert graph.get_state(config).values["log"][: after + 1] == ["in", *shown]
    assert graph.invoke(None, config) == log("in", "a", "b", "c")


async def astop_by_closing(graph: Any, config: RunnableConfig) -> None:
    stream: AsyncIterator[Any] = graph.astream(log("in"), config, stream_mode="updates")
    async with contextlib.aclosing(stream):  # type: ignore[type-var]
        await anext(stream)


async def astop_by_leaving(graph: Any, config: RunnableConfig) -> None:
    async for _ in graph.astream(log("in"), config, stream_mode="updates"):
        break


async def astop_by_cancelling(graph: Any, config: RunnableConfig) -> None:
    first = asyncio.Event()

    async def consume() -> None:
        async for _ in graph.astream(log("in"), config, stream_mode="updates"):
            first.set()
            await asyncio.Event().wait()

    consumer = asyncio.create_task(consume())
    await first.wait()
    consumer.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await consumer


@pytest.mark.parametrize("stop", [astop_by_closing, astop_by_leaving, astop_by_cancelling])
def test_a_thread_is_free_as_soon_as_its_async_consumer_has_stopped(
    build: Build, config: RunnableConfig, stop: Callable[[Any, RunnableConfig], Any]
) -> None:
    graph = chain(build, "abc")

    async def stop_and_go_on() -> Any:
        await stop(graph, config)
        return await graph.ainvoke(None, config)

    assert asyncio.run(stop_and_go_on()) == log("in", "a", "b", "c")


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_stream_that_is_never_read_starts_nothing(
    build: Build, config: RunnableConfig, colour: str
) -> None:
    ran: list[Any] = []
    graph = build({"a": ran.append})
    stream = graph.stream(EMPTY, config) if colour == "sync" else graph.astream(EMPTY, config)
    del stream
    assert ran == []
    assert Runner(colour).history(graph, config) == []


def test_new_input_after_an_early_stop_is_a_new_turn(build: Build, config: RunnableConfig) -> None:
    graph = chain(build, "abc")
    stop_by_closing(graph, config, 1)
    done = graph.get_state(config).values["log"]
    assert graph.invoke(log("next"), config) == {"log": [*done, "next", "a", "b", "c"]}
