"""Supersteps (L19) and steering (L20): what runs when, what it sees, in which order writes are applied."""

import asyncio
import contextvars
import operator
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphkit import END, START, Command, Send, StateGraph
from graphkit.checkpoint.sqlite import SqliteSaver
from graphkit.errors import GraphRecursionError, InvalidUpdateError
from graphkit.types import RunnableConfig
from tests.conftest import EMPTY, Build, Edge, Runner, Saver, State, graph_of, in_a_row, says

Node = Callable[[Any], Any]

PATIENCE = 20
"""Seconds after which a test that waits for something gives up; reached only by a defect."""


def logging_nodes(*names: str) -> dict[str, Node]:
    """A node per name that logs it."""
    return {name: says(name) for name in names}


def log_of(runner: Runner, graph: Any, config: RunnableConfig | None = None) -> list[Any]:
    log: list[Any] = runner.invoke(graph, EMPTY, config)["log"]
    return log


def looks(seen: dict[str, Any], name: str) -> Node:
    """A node that keeps the log it was given and adds its name."""

    def look(state: State) -> State:
        seen[name] = list(state["log"])
        return {"log": [name]}

    return look


def reports(word: str) -> Node:
    """A node that logs what it was sent."""
    return lambda given: {"log": [f"{word}:{given}"]}


def counts(rounds: int) -> tuple[dict[str, Node], list[Edge]]:
    """A loop of `rounds` supersteps."""

    def back(state: State) -> str:
        return END if len(state["log"]) >= rounds else "turn"

    return logging_nodes("turn"), [(START, "turn"), ("turn", back, ["turn", END])]


# What a node sees


def test_nodes_of_one_superstep_do_not_see_each_other_and_the_next_one_sees_both(runner: Runner) -> None:
    seen: dict[str, Any] = {}
    nodes = {name: looks(seen, name) for name in "abc"}
    assert log_of(runner, graph_of(nodes, [(START, "a"), (START, "b"), (["a", "b"], "c")])) == ["a", "b", "c"]
    assert seen == {"a": [], "b": [], "c": ["a", "b"]}


def test_arms_of_different_length_advance_together(runner: Runner) -> None:
    seen: dict[str, Any] = {}
    nodes = {name: looks(seen, name) for name in "abcd"}
    log_of(runner, graph_of(nodes, [(START, "a"), (START, "b"), ("b", "c"), ("c", "d")]))
    assert seen == {"a": [], "b": [], "c": ["a", "b"], "d": ["a", "b", "c"]}


def test_a_node_reached_by_two_edges_in_one_superstep_runs_once(runner: Runner) -> None:
    edges: list[Edge] = [(START, "a"), (START, "b"), ("a", "c"), ("b", "c")]
    assert log_of(runner, graph_of(logging_nodes(*"abc"), edges)) == ["a", "b", "c"]


# The order in which writes are applied


def test_writes_are_applied_by_node_name_not_by_the_order_of_building(runner: Runner) -> None:
    assert log_of(runner, graph_of(logging_nodes(*"zbxa"))) == ["a", "b", "x", "z"]


def fan_out(targets: Callable[[Any], list[Any]], *names: str) -> Any:
    """`start`, then whatever `targets` says; the nodes report what they were sent."""
    nodes = logging_nodes("start") | {name: reports(name) for name in names}
    return graph_of(nodes, [(START, "start"), ("start", targets, list(names))])


def test_sends_are_applied_in_their_order(runner: Runner) -> None:
    graph = fan_out(lambda state: [Send("w", number) for number in (3, 1, 2)], "w")
    assert log_of(runner, graph) == ["start", "w:3", "w:1", "w:2"]


def test_sends_to_several_nodes_are_applied_in_the_order_of_the_sends(runner: Runner) -> None:
    graph = fan_out(lambda state: [Send("z", 1), Send("a", 2), Send("z", 3)], "a", "z")
    assert log_of(runner, graph) == ["start", "z:1", "a:2", "z:3"]


def test_nodes_reached_by_an_edge_are_applied_before_sends(runner: Runner) -> None:
    graph = fan_out(lambda state: [Send("a", 1), "z"], "a", "z")
    assert log_of(runner, graph) == ["start", "z:{'log': ['start']}", "a:1"]


def test_sends_of_several_senders_are_applied_by_sender(runner: Runner) -> None:
    nodes = logging_nodes(*"qp") | {"w": reports("w")}
    graph = graph_of(
        nodes,
        [
            (START, "q"),
            (START, "p"),
            ("q", lambda state: [Send("w", "q0"), Send("w", "q1")], ["w"]),
            ("p", lambda state: [Send("w", "p0")], ["w"]),
        ],
    )
    assert log_of(runner, graph) == ["p", "q", "w:p0", "w:q0", "w:q1"]


class Finish:
    """Async nodes that finish in a given order, whatever the order in which they start."""

    def __init__(self, order: list[Any]) -> None:
        self.order = order
        self.finished: list[Any] = []
        self.turn = {key: asyncio.Event() for key in order}
        self.turn[order[0]].set()

    async def node(self, key: Any) -> State:
        async with asyncio.timeout(PATIENCE):
            await self.turn[key].wait()
        self.finished.append(key)
        if len(self.finished) < len(self.order):
            self.turn[self.order[len(self.finished)]].set()
        return {"log": [key]}


def waits_for(finish: Finish, name: str) -> Node:
    async def wait(state: State) -> State:
        return await finish.node(name)

    return wait


@pytest.mark.parametrize("colour", ["sync", "async"])
@settings(max_examples=25, deadline=None)
@given(order=st.permutations("fbdace"))
def test_the_order_of_completion_does_not_matter_for_nodes(colour: str, order: list[str]) -> None:
    finish = Finish(order)
    graph = graph_of({name: waits_for(finish, name) for name in sorted(order, reverse=True)})
    assert log_of(Runner(colour), graph) == sorted(order)
    assert finish.finished == order


@pytest.mark.parametrize("colour", ["sync", "async"])
@settings(max_examples=25, deadline=None)
@given(order=st.permutations(range(6)))
def test_the_order_of_completion_does_not_matter_for_sends(colour: str, order: list[int]) -> None:
    finish = Finish(order)

    async def worker(number: int) -> State:
        return await finish.node(number)

    graph = graph_of({"w": worker}, [(START, lambda state: [Send("w", n) for n in range(6)], ["w"])])
    assert log_of(Runner(colour), graph) == list(range(6))
    assert finish.finished == order


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")], ids="".join)
def test_the_order_of_completion_does_not_matter_for_blocking_nodes(
    runner: Runner, order: tuple[str, str]
) -> None:
    first_is_done = threading.Event()

    def node(name: str) -> Node:
        def work(state: State) -> State:
            if name == order[1]:
                assert first_is_done.wait(PATIENCE)
            else:
                first_is_done.set()
            return {"log": [name]}

        return work

    assert log_of(runner, graph_of({name: node(name) for name in "ba"})) == ["a", "b"]


# How many run at once


def limited(limit: int | None) -> RunnableConfig:
    return {"max_concurrency": limit}


class Crowd:
    """Counts how many are inside at once."""

    def __init__(self) -> None:
        self.inside = 0
        self.peak = 0
        self.lock = threading.Lock()

    def __enter__(self) -> None:
        with self.lock:
            self.inside += 1
            self.peak = max(self.peak, self.inside)

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.inside -= 1


def six_of(node: Node) -> Any:
    return graph_of({"w": node}, [(START, lambda state: [Send("w", n) for n in range(6)], ["w"])])


@pytest.mark.parametrize("limit", [1, 2, 3, 6])
def test_max_concurrency_bounds_async_nodes_and_is_used_up(runner: Runner, limit: int) -> None:
    crowd, together = Crowd(), asyncio.Barrier(limit)

    async def work(number: int) -> State:
        with crowd:
            async with asyncio.timeout(PATIENCE):
                await together.wait()
        return {"log": [number]}

    assert log_of(runner, six_of(work), limited(limit)) == [0, 1, 2, 3, 4, 5]
    assert crowd.peak == limit


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_max_concurrency_bounds_blocking_nodes_and_is_used_up(runner: Runner, limit: int) -> None:
    crowd, together = Crowd(), threading.Barrier(limit)

    def work(number: int) -> State:
        with crowd:
            together.wait(PATIENCE)
        return {"log": [number]}

    assert log_of(runner, six_of(work), limited(limit)) == [0, 1, 2, 3, 4, 5]
    assert crowd.peak == limit


def test_without_a_limit_all_async_nodes_run_at_once(runner: Runner) -> None:
    together = asyncio.Barrier(6)

    async def work(number: int) -> State:
        async with asyncio.timeout(PATIENCE):
            await together.wait()
        return {"log": [number]}

    assert log_of(runner, six_of(work)) == [0, 1, 2, 3, 4, 5]


# The recursion limit


@pytest.mark.parametrize("names", ["a", "abc"])
def test_a_limit_of_just_enough_supersteps_is_enough(runner: Runner, names: str) -> None:
    graph = graph_of(logging_nodes(*names), in_a_row(*names))
    assert log_of(runner, graph, {"recursion_limit": len(names)}) == list(names)


def test_a_limit_counts_supersteps_not_tasks(runner: Runner) -> None:
    assert log_of(runner, graph_of(logging_nodes(*"abcdef")), {"recursion_limit": 1}) == list("abcdef")


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_the_limit_stops_a_loop_after_that_many_supersteps(
    runner: Runner, build: Build, config: RunnableConfig, limit: int
) -> None:
    graph = build(*counts(6))
    with pytest.raises(GraphRecursionError, match=str(limit)):
        runner.invoke(graph, EMPTY, {**config, "recursion_limit": limit})
    state = runner.get_state(graph, config)
    assert state.values == {"log": ["turn"] * limit}
    assert state.next == ("turn",)
    assert len(runner.history(graph, config)) == limit + 2


def test_a_run_stopped_by_the_limit_goes_on_with_none(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = build(*counts(6))
    for done in (2, 4):
        with pytest.raises(GraphRecursionError):
            runner.invoke(graph, EMPTY if done == 2 else None, {**config, "recursion_limit": 2})
        assert runner.get_state(graph, config).values == {"log": ["turn"] * done}
    assert runner.invoke(graph, None, {**config, "recursion_limit": 50}) == {"log": ["turn"] * 6}


def test_the_default_limit_is_a_hundred(runner: Runner) -> None:
    assert len(log_of(runner, graph_of(*counts(100)))) == 100
    ran: list[int] = []
    graph = graph_of({"turn": ran.append}, [(START, "turn"), ("turn", "turn")])
    with pytest.raises(GraphRecursionError, match="100"):
        runner.invoke(graph, EMPTY)
    assert len(ran) == 100


def test_a_graph_may_have_a_limit_of_its_own(runner: Runner) -> None:
    graph = graph_of(*counts(6)).with_config({"recursion_limit": 3})
    with pytest.raises(GraphRecursionError, match="3"):
        runner.invoke(graph, EMPTY)
    assert len(log_of(runner, graph, {"recursion_limit": 6})) == 6


# Send


def test_a_send_gives_its_node_an_input_of_its_own(runner: Runner) -> None:
    seen: list[Any] = []
    sends = [Send("w", {"page": 1}), Send("w", (2,))]
    runner.invoke(graph_of({"w": seen.append}, [(START, lambda state: sends, ["w"])]), {"log": ["hidden"]})
    assert sorted(seen, key=str) == [(2,), {"page": 1}]


def test_no_sends_end_that_path(runner: Runner) -> None:
    assert log_of(runner, fan_out(lambda state: [], "w")) == ["start"]


def test_a_node_reached_by_an_edge_and_by_a_send_runs_for_both(runner: Runner) -> None:
    graph = fan_out(lambda state: ["w", Send("w", 1)], "w")
    assert log_of(runner, graph) == ["start", "w:{'log': ['start']}", "w:1"]


def test_edges_after_a_fan_out_run_their_target_once(runner: Runner) -> None:
    nodes = {"w": reports("w"), "reduce": says("reduce")}
    spread: Edge = (START, lambda state: [Send("w", n) for n in range(3)], ["w"])
    assert log_of(runner, graph_of(nodes, [spread, ("w", "reduce")])) == ["w:0", "w:1", "w:2", "reduce"]


def test_each_send_goes_on_by_its_own_branch(runner: Runner) -> None:
    def parity(state: Any) -> Any:
        return Command(update={"log": [f"sort:{state}"]}, goto=Send("odd" if state % 2 else "even", state))

    graph = graph_of(
        {"sort": parity, "odd": reports("odd"), "even": reports("even")},
        [(START, lambda state: [Send("sort", n) for n in range(3)], ["sort"])],
        node_options={"sort": {"destinations": ("odd", "even")}},
    )
    log = log_of(runner, graph)
    assert log == ["sort:0", "sort:1", "sort:2", "even:0", "odd:1", "even:2"]


def test_a_send_may_go_to_a_subgraph(runner: Runner) -> None:
    inner = graph_of({"inner": lambda state: {"log": [f"inner {state['log'][0]}"]}})
    sends = [Send("sub", {"log": [name]}) for name in "ba"]
    graph = graph_of({"sub": inner}, [(START, lambda state: sends, ["sub"])])
    assert log_of(runner, graph) == ["b", "inner b", "a", "inner a"]


# Command


def led_by(lead: Any, *edges: Edge, **nodes: Node) -> Any:
    """A graph that starts with `lead`; nodes b, c and any given are there to go to."""
    followers: dict[str, Node] = {"b": says("b"), "c": says("c"), **nodes}
    options = {"lead": {"destinations": tuple(followers)}}
    return graph_of({"lead": lead, **followers}, [(START, "lead"), *edges], node_options=options)


def commands(command: Any, *edges: Edge, **nodes: Node) -> Any:
    """`lead` returns `command`."""
    return led_by(lambda state: command, *edges, **nodes)


def below(command: Any, *edges: Edge, **nodes: Node) -> Any:
    """`lead` is a graph, one of whose nodes returns `command`."""
    deep: dict[str, Node] = {"deep": lambda state: command, "never": says("never")}
    return led_by(graph_of(deep, in_a_row("deep", "never")), *edges, **nodes)


@pytest.mark.parametrize(
    ("command", "log"),
    [
        (Command(update={"log": ["lead"]}, goto="b"), ["lead", "b"]),
        (Command(update={"log": ["lead"]}, goto=["c", "b"]), ["lead", "b", "c"]),
        (Command(update={"log": ["lead"]}, goto=["c"]), ["lead", "c"]),
        (Command(update={"log": ["lead"]}, goto=["b", "b"]), ["lead", "b"]),
        (Command(update={"log": ["lead"]}, goto=END), ["lead"]),
        (Command(update={"log": ["lead"]}, goto=[END, "b"]), ["lead", "b"]),
        (Command(update={"log": ["lead"]}, goto=[]), ["lead"]),
        (Command(update={"log": ["lead"]}), ["lead"]),
        (Command(update=[("log", ["lead"]), ("log", ["twice"])]), ["lead", "twice"]),
        (Command(goto="b"), ["b"]),
        ([Command(update={"log": ["lead"]}), Command(goto="b")], ["lead", "b"]),
        ([{"log": ["lead"]}, Command(update={"log": ["more"]}, goto="c")], ["lead", "more", "c"]),
    ],
)
def test_a_command_writes_and_goes(runner: Runner, command: Any, log: list[str]) -> None:
    assert log_of(runner, commands(command)) == log


@pytest.mark.parametrize(
    ("goto", "log"),
    [
        (Send("w", 1), ["w:1"]),
        ([Send("w", 2), Send("w", 1)], ["w:2", "w:1"]),
        ([Send("w", 1), "b"], ["b", "w:1"]),
    ],
)
def test_a_command_may_send(runner: Runner, goto: Any, log: list[str]) -> None:
    assert log_of(runner, commands(Command(goto=goto), w=reports("w"))) == log


@pytest.mark.parametrize(("goto", "log"), [("c", ["b", "c"]), (END, ["b"]), ((), ["b"])])
def test_static_edges_are_followed_besides_goto(runner: Runner, goto: Any, log: list[str]) -> None:
    assert log_of(runner, commands(Command(goto=goto), ("lead", "b"))) == log


def test_an_async_node_may_return_a_command(runner: Runner) -> None:
    async def lead(state: State) -> Command[Any]:
        await asyncio.sleep(0)
        return Command(update={"log": ["lead"]}, goto="b")

    assert log_of(runner, led_by(lead)) == ["lead", "b"]


@pytest.mark.parametrize(
    ("goto", "edges", "log"),
    [
        ("b", [], ["up", "b"]),
        (["c", "b"], [], ["up", "b", "c"]),
        ([Send("w", 2), Send("w", 1)], [], ["up", "w:2", "w:1"]),
        (END, [], ["up"]),
        ((), [("lead", "b")], ["up", "b"]),
        ("c", [("lead", "b")], ["up", "b", "c"]),
    ],
)
def test_a_command_to_the_parent_leaves_the_subgraph(
    runner: Runner, goto: Any, edges: list[Edge], log: list[str]
) -> None:
    command: Command[Any] = Command(graph=Command.PARENT, update={"log": ["up"]}, goto=goto)
    assert log_of(runner, below(command, *edges, w=reports("w"))) == log


def test_a_command_to_the_parent_drops_what_the_subgraph_had_written(runner: Runner) -> None:
    nodes: dict[str, Node] = {
        "early": says("early"),
        "deep": lambda state: Command(graph=Command.PARENT, goto="b"),
    }
    assert log_of(runner, led_by(graph_of(nodes, in_a_row("early", "deep")))) == ["b"]


def test_a_command_to_the_parent_at_the_top_is_an_error(runner: Runner) -> None:
    with pytest.raises(InvalidUpdateError, match="lead"):
        log_of(runner, commands(Command(graph=Command.PARENT, goto="b")))


@pytest.mark.parametrize(
    "goto",
    ["ghost", ["b", "ghost"], Send("ghost", 1), ["b", Send("ghost", 1)]],
    ids=["name", "list", "send", "both"],
)
@pytest.mark.parametrize("shape", [commands, below])
def test_going_to_an_unknown_node_is_an_error_that_names_it(
    runner: Runner, shape: Callable[..., Any], goto: Any
) -> None:
    parent = Command.PARENT if shape is below else None
    ran: list[int] = []
    graph = shape(Command(graph=parent, goto=goto), b=ran.append)
    with pytest.raises(InvalidUpdateError, match="ghost"):
        log_of(runner, graph)
    assert ran == []


def test_going_to_the_start_is_an_error(runner: Runner) -> None:
    with pytest.raises(InvalidUpdateError, match=START):
        log_of(runner, commands(Command(goto=START)))


@pytest.mark.parametrize("target", ["ghost", START, None, 3, ["ghost"], Send("ghost", 1)], ids=repr)
def test_a_branch_without_a_map_to_an_unknown_node_is_an_error(runner: Runner, target: Any) -> None:
    graph = graph_of(logging_nodes("a"), [(START, "a"), ("a", lambda state: target)])
    with pytest.raises(ValueError, match=r"'a'|`a`|\ba\b"):
        log_of(runner, graph)


def test_a_branch_outside_its_map_is_an_error_that_names_the_result(runner: Runner) -> None:
    graph = graph_of(logging_nodes(*"ab"), [(START, "a"), ("a", lambda state: "maybe", {"yes": "b"})])
    with pytest.raises((ValueError, KeyError), match="maybe"):
        log_of(runner, graph)


# What is no update


@pytest.mark.parametrize(
    "returned", [3, "text", ["item"], {"set"}, 1.5, True, object()], ids=lambda v: type(v).__name__
)
def test_what_is_no_update_is_an_error_that_names_node_and_type(
    runner: Runner, build: Build, config: RunnableConfig, returned: Any
) -> None:
    graph = build({"culprit": lambda state: returned, "after": says("after")}, in_a_row("culprit", "after"))
    with pytest.raises(InvalidUpdateError, match="culprit") as caught:
        runner.invoke(graph, {"log": ["in"]}, config)
    assert type(returned).__name__ in str(caught.value)
    state = runner.get_state(graph, config)
    assert (state.values, state.next) == ({"log": ["in"]}, ("culprit",))


def test_none_and_an_empty_update_are_updates(runner: Runner) -> None:
    graph = graph_of(
        {"a": lambda state: None, "b": lambda state: {}, "c": says("c")}, in_a_row("a", "b", "c")
    )
    assert log_of(runner, graph) == ["c"]


def test_a_reducer_that_fails_fails_the_run_and_stores_nothing_of_the_step(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = build({"a": lambda state: {"log": 3}})
    with pytest.raises(TypeError):
        runner.invoke(graph, {"log": ["in"]}, config)
    assert runner.get_state(graph, config).values == {"log": ["in"]}


# Sync and async (N17), and what a run returns (N20)


def test_async_nodes_run_under_invoke_and_blocking_ones_under_ainvoke(runner: Runner) -> None:
    async def gentle(state: State) -> State:
        await asyncio.sleep(0)
        return {"log": ["async"]}

    nodes: dict[str, Node] = {"a": gentle, "b": says("blocking"), "c": gentle}
    assert log_of(runner, graph_of(nodes, in_a_row("a", "b", "c"))) == ["async", "blocking", "async"]
    assert log_of(runner, graph_of(nodes)) == ["async", "blocking", "async"]


def test_an_async_callable_object_is_an_async_node(runner: Runner) -> None:
    class Agent:
        async def __call__(self, state: State) -> State:
            await asyncio.sleep(0)
            return {"log": ["object"]}

    assert log_of(runner, graph_of({"agent": Agent()})) == ["object"]


@pytest.mark.parametrize("beside", [{}, {"sibling": says("sibling")}], ids=["alone", "beside a sibling"])
def test_a_blocking_node_does_not_stall_the_loop_of_its_caller(beside: dict[str, Node]) -> None:
    inside, release = threading.Event(), threading.Event()

    def block(state: State) -> State:
        inside.set()
        return {"log": ["released" if release.wait(PATIENCE) else "stalled"]}

    async def both() -> Any:
        run = asyncio.create_task(graph_of({"block": block, **beside}).ainvoke(EMPTY))
        while not inside.is_set():
            await asyncio.sleep(0)
        release.set()
        return await run

    assert asyncio.run(both())["log"][0] == "released"


class Counted(TypedDict):
    n: int


def test_nodes_that_never_wait_let_others_on_the_loop_have_a_turn() -> None:
    """Also where each of them is a run of its own, which is over at once."""
    seen = asyncio.Event()

    async def add(state: Counted) -> Counted:
        return {"n": state["n"] + 1}

    def until_seen(state: Counted) -> str:
        return END if seen.is_set() else "inner"

    inner = StateGraph(Counted).add_node("add", add).add_edge(START, "add").compile()
    graph = StateGraph(Counted).add_node("inner", inner).add_edge(START, "inner")
    graph.add_conditional_edges("inner", until_seen, ["inner", END])

    async def both() -> Any:
        run = asyncio.create_task(graph.compile().ainvoke({"n": 0}, {"recursion_limit": 20_000}))
        await asyncio.sleep(0)
        seen.set()
        return await run

    assert asyncio.run(both())["n"] > 0


@pytest.mark.parametrize("supersteps", [1, 30], ids=["many runs", "a long run"])
def test_runs_inside_a_node_let_others_on_the_loop_have_a_turn(supersteps: int) -> None:
    seen = asyncio.Event()

    async def add(state: Counted) -> Counted:
        return {"n": state["n"] + 1}

    def again(state: Counted) -> str:
        return END if state["n"] % supersteps == 0 else "add"

    inner = StateGraph(Counted).add_node("add", add).add_edge(START, "add")
    called = inner.add_conditional_edges("add", again, ["add", END]).compile()

    async def call(state: Counted) -> Counted:
        while not seen.is_set() and state["n"] < 3_000:
            state = {"n": (await called.ainvoke(state, {"recursion_limit": 100}))["n"]}
        return state

    async def both() -> Any:
        graph = StateGraph(Counted).add_node("call", call).add_edge(START, "call").compile()
        run = asyncio.create_task(graph.ainvoke({"n": 0}))
        for _ in range(5):
            await asyncio.sleep(0)
        seen.set()
        return await run

    assert 0 < asyncio.run(both())["n"] < 3_000


def test_a_node_that_cancels_its_own_run_is_the_last_one() -> None:
    ran: list[str] = []

    async def ends(state: State) -> State:
        ran.append("ends")
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return {}

    async def follows(state: State) -> State:
        ran.append("follows")
        return {}

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(graph_of({"ends": ends, "follows": follows}, in_a_row("ends", "follows")).ainvoke(EMPTY))
    assert ran == ["ends"]


def test_an_async_node_goes_on_while_a_blocking_sibling_waits_for_it(runner: Runner) -> None:
    release = threading.Event()

    def block(state: State) -> State:
        return {"log": ["released" if release.wait(PATIENCE) else "stalled"]}

    async def let_go(state: State) -> State:
        release.set()
        return {}

    assert log_of(runner, graph_of({"a": block, "b": let_go})) == ["released"]


def test_invoke_works_inside_a_running_loop() -> None:
    async def gentle(state: State) -> State:
        await asyncio.sleep(0)
        return {"log": ["async"]}

    async def caller() -> Any:
        return graph_of({"a": gentle, "b": says("b")}).invoke(EMPTY)

    assert asyncio.run(caller()) == {"log": ["async", "b"]}


def test_one_saver_serves_sync_and_async_callers(saver: Saver, config: RunnableConfig) -> None:
    graph = graph_of(logging_nodes("a"), saver=saver)
    for colour in ("sync", "async", "async", "sync"):
        Runner(colour).invoke(graph, EMPTY, config)
    states = [Runner(colour).get_state(graph, config) for colour in ("sync", "async")]
    assert states[0] == states[1]
    assert states[0].values == {"log": ["a"] * 4}


def test_many_threads_at_once_through_one_graph(saver: Saver) -> None:
    graph = graph_of(logging_nodes(*"ab"), in_a_row("a", "b"), saver=saver)

    async def all_of_them() -> list[Any]:
        runs = [
            graph.ainvoke({"log": [number]}, {"configurable": {"thread_id": f"t{number}"}})
            for number in range(20)
        ]
        return await asyncio.gather(*runs)

    assert [result["log"] for result in asyncio.run(all_of_them())] == [[n, "a", "b"] for n in range(20)]


def test_nodes_see_the_context_variables_of_their_caller(runner: Runner) -> None:
    tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")

    async def gentle(state: State) -> State:
        return {"log": [tenant.get()]}

    graph = graph_of({"a": lambda state: {"log": [tenant.get()]}, "b": gentle})
    in_a_context = contextvars.copy_context()
    in_a_context.run(tenant.set, "acme")
    assert in_a_context.run(log_of, runner, graph) == ["acme", "acme"]


def test_run_tells_completion_by_status(runner: Runner, build: Build, config: RunnableConfig) -> None:
    graph = build(logging_nodes(*"ab"), in_a_row("a", "b"))
    result = runner.run(graph, EMPTY, config)
    assert (result.status, result.value, result.next) == ("completed", {"log": ["a", "b"]}, ())
    assert result.interrupts == ()
    assert runner.get_state(graph, result.config).values == result.value


def test_run_works_without_a_saver(runner: Runner) -> None:
    result = runner.run(graph_of(logging_nodes("a")), EMPTY)
    assert (result.status, result.value) == ("completed", {"log": ["a"]})


class Sum(TypedDict):
    total: Annotated[int, operator.add]


def test_ten_thousand_sends_are_one_superstep_and_one_checkpoint(runner: Runner, tmp_path: Path) -> None:
    """Finished tasks are recorded in a few batches on the way, by time and not by number."""
    tasks = 10_000

    def work(state: Sum) -> dict[str, int]:
        return {"total": state["total"]}

    builder = StateGraph(Sum).add_node("work", work)
    builder.add_conditional_edges(START, lambda state: [Send("work", {"total": 1})] * tasks, ["work"])
    with SqliteSaver(tmp_path / "sends.sqlite", synchronous="NORMAL") as saver:
        graph = builder.compile(checkpointer=saver)
        config: Any = {"configurable": {"thread_id": "many"}}
        assert runner.invoke(graph, {"total": 0}, config) == {"total": tasks}
        assert [dict(found.metadata or {})["step"] for found in graph.get_state_history(config)] == [1, 0, -1]
        assert len(graph.get_state(config).tasks) == 0
        assert saver.usage("many").checkpoints == 3
