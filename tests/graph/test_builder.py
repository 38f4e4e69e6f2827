"""The builder (L16): what it accepts, what it refuses and by which name, and what node options do."""

import asyncio
import re
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypedDict, assert_type

import pytest
from pydantic import BaseModel

from graphkit import END, START, Command, Send, StateGraph, interrupt, task
from graphkit.cache.memory import InMemoryCache
from graphkit.checkpoint.memory import InMemorySaver
from graphkit.compiled import CompiledGraph
from graphkit.config import get_config
from graphkit.errors import (
    InvalidGraphError,
    InvalidUpdateError,
    NodeError,
    NodeTimeoutError,
    UnreachableNodeWarning,
)
from graphkit.prebuilt import ToolRuntime
from graphkit.runtime import Runtime
from graphkit.store.memory import InMemoryStore
from graphkit.types import (
    CachePolicy,
    GraphOutput,
    RetryPolicy,
    RunnableConfig,
    StreamPart,
    StreamWriter,
    TimeoutPolicy,
)
from tests.conftest import Runner, Saver, says
from tests.conftest import State as Logged

Node = Callable[[Any], Any]


class State(Logged, total=False):
    choice: Any


def nodes(names: str) -> StateGraph[Any]:
    """A builder with a node per letter and no edges."""
    builder: StateGraph[Any] = StateGraph(State)
    for name in names:
        builder.add_node(name, says(name), input_schema=State)
    return builder


def log_of(runner: Runner, builder: Any, choice: Any = None, **options: Any) -> list[str]:
    graph = builder.compile(**options)
    log: list[str] = runner.invoke(graph, {"log": [], "choice": choice})["log"]
    return log


def first(state: State) -> State:
    return {"log": ["first"]}


def second(state: State) -> State:
    return {"log": ["second"]}


class Clerk:
    def __call__(self, state: State) -> State:
        return {"log": ["clerk"]}

    def archive(self, state: State) -> State:
        return {"log": ["archive"]}


# Types


class Context(TypedDict):
    user: str


class Asked(TypedDict):
    choice: Any


class Told(TypedDict):
    log: list[str]


@dataclass
class Person:
    name: str


def test_a_graph_has_the_types_of_its_schemas_and_those_on_the_right_may_be_left_out() -> None:
    assert_type(StateGraph(State), StateGraph[State])
    assert_type(StateGraph(State), StateGraph[State, Any, State, State])
    assert_type(StateGraph(State, Context), StateGraph[State, Context])
    assert_type(StateGraph(State, input_schema=Asked), StateGraph[State, Any, Asked, State])
    builder = StateGraph(State, Context, input_schema=Asked, output_schema=Told)
    assert_type(builder, StateGraph[State, Context, Asked, Told])
    graph = builder.add_node(first).add_edge(START, "first").compile()
    assert_type(graph, CompiledGraph[State, Context, Asked, Told])

    written = StateGraph[State, Context, Asked](State).add_node(first).add_edge(START, "first").compile()
    assert written.invoke({}) == {"log": ["first"]}


def test_the_second_version_of_what_is_shown_has_types() -> None:
    graph = StateGraph(State, output_schema=Told).add_node(first).add_edge(START, "first").compile()
    shown = graph.invoke({}, version="v2")
    assert_type(shown, GraphOutput[Told])
    assert shown.value == {"log": ["first"]}
    streamed = graph.stream({}, version="v2", stream_mode=["values", "updates"])
    assert_type(streamed, Iterator[StreamPart])
    assert [part["data"] for part in streamed if part["type"] == "updates"] == [{"first": {"log": ["first"]}}]
    assert_type(graph.stream({}), Iterator[Any])
    assert_type(graph.astream({}, version="v2"), AsyncIterator[StreamPart])


def test_what_a_model_validates_has_its_type() -> None:
    def asks(state: State) -> State:
        told = interrupt("who?", response_schema=Person)
        assert_type(told, Person)
        assert_type(interrupt("which?"), Any)
        return {"log": [told.name]}

    graph = StateGraph(State).add_node(asks).add_edge(START, "asks").compile()
    assert graph.run({}).status == "interrupted"


@pytest.mark.parametrize("generic", [StateGraph, CompiledGraph, ToolRuntime])
def test_an_annotation_may_give_any_number_of_types_there_is_a_variable_for(generic: Any) -> None:
    variables = len(generic.__parameters__)
    for number in range(1, variables + 1):
        given = (State, Context, Asked, Told)[:number]
        assert generic[given].__args__ == given + (Any,) * (variables - number)
    assert generic[State] == generic[(State,)]
    with pytest.raises(TypeError, match="many"):
        generic[(State,) * (variables + 1)]


# Names


def test_a_node_is_named_after_its_function_method_or_class() -> None:
    builder: StateGraph[Any] = StateGraph(State).add_node(first).add_node(Clerk().archive).add_node(Clerk())
    assert list(builder.nodes) == ["first", "archive", "Clerk"]


def test_a_given_name_wins() -> None:
    assert list(StateGraph(State).add_node("begin", first).nodes) == ["begin"]


def test_the_same_name_twice_is_an_error_that_names_it() -> None:
    with pytest.raises(InvalidGraphError, match="first"):
        StateGraph(State).add_node(first).add_node("first", second)


@pytest.mark.parametrize(
    "name", ["__start__", "__end__", "__interrupt__", "__copy__", "__input__", "__parent__"]
)
def test_reserved_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidGraphError, match=name):
        StateGraph(State).add_node(name, first).add_edge(START, name).compile()


@pytest.mark.parametrize("name", ["a|b", "a:b", "|", ":"])
def test_separators_of_namespaces_are_refused_in_names(name: str) -> None:
    with pytest.raises(InvalidGraphError, match=re.escape(name)):
        StateGraph(State).add_node(name, first).add_edge(START, name).compile()


@pytest.mark.parametrize("name", ["a\0b", "\ud800"], ids=ascii)
def test_what_databases_cannot_hold_is_refused_in_names(name: str) -> None:
    with pytest.raises(InvalidGraphError, match="NUL or a lone surrogate"):
        StateGraph(State).add_node(name, first)
    with pytest.raises(InvalidGraphError, match="NUL or a lone surrogate"):
        StateGraph(TypedDict("Odd", {name: str}))  # type: ignore[operator]


@pytest.mark.parametrize("name", ["two words", "größe", "a.b", "a/b", "0"])
def test_other_names_are_fine(runner: Runner, name: str) -> None:
    assert log_of(runner, StateGraph(State).add_node(name, says(name)).add_edge(START, name)) == [name]


@pytest.mark.parametrize("name", ["", 3, None], ids=repr)
def test_a_name_is_text(name: Any) -> None:
    with pytest.raises(InvalidGraphError, match="must be a non-empty string"):
        StateGraph(State).add_node(name, first)


def test_a_name_alone_is_no_node() -> None:
    with pytest.raises(InvalidGraphError, match=r"node 'first' has no function"):
        StateGraph(State).add_node("first")


def test_something_that_cannot_be_called_is_no_node() -> None:
    with pytest.raises((TypeError, InvalidGraphError)):
        StateGraph(State).add_node("number", 3).add_edge(START, "number").compile()


def test_a_graph_is_compiled_before_it_is_run_or_is_a_node() -> None:
    builder: Any = nodes("a")
    for run in ("invoke", "ainvoke", "stream", "get_state"):
        with pytest.raises(AttributeError, match=rf"no attribute '{run}'.*compile\(\)"):
            getattr(builder, run)
    with pytest.raises(AttributeError, match=r"no attribute 'nothing'$"):
        _ = builder.nothing
    with pytest.raises(InvalidGraphError, match=r"compile\(\) it first"):
        StateGraph(State).add_node("inner", builder)


@pytest.mark.parametrize("schema", [{"log": list}, ["log"], "State", 5])
def test_a_value_is_no_schema(schema: Any) -> None:
    with pytest.raises(InvalidGraphError, match=r"schema is a class .* not .*" + re.escape(repr(schema))):
        StateGraph(schema)


def test_an_instance_is_no_schema_either() -> None:
    with pytest.raises(InvalidGraphError, match=r"not .*Person\(name='Ada'\)"):
        StateGraph(Person("Ada"))  # type: ignore[arg-type]


# Edges and branches


def test_building_can_be_chained() -> None:
    builder: StateGraph[Any] = StateGraph(State)
    steps: list[Callable[[], Any]] = [
        lambda: builder.add_node(first),
        lambda: builder.add_node(second),
        lambda: builder.add_edge(START, "first"),
        lambda: builder.add_edge(["first", "second"], END),
        lambda: builder.add_conditional_edges("first", lambda state: "second", ["second"]),
        lambda: builder.add_sequence([("third", first), ("fourth", second)]),
        lambda: builder.set_entry_point("third"),
        lambda: builder.set_conditional_entry_point(lambda state: "third", ["third"]),
        lambda: builder.set_finish_point("fourth"),
        lambda: builder.set_node_defaults(retry_policy=RetryPolicy()),
    ]
    assert all(step() is builder for step in steps)
    builder.compile()


def test_a_list_of_sources_is_a_join(runner: Runner) -> None:
    builder = nodes("abcz").add_edge(START, "a").add_edge(START, "b").add_edge("b", "c")
    assert log_of(runner, builder.add_edge(["a", "c"], "z")) == ["a", "b", "c", "z"]


def test_two_plain_edges_are_no_join(runner: Runner) -> None:
    builder = nodes("abcz").add_edge(START, "a").add_edge(START, "b").add_edge("b", "c")
    builder.add_edge("a", "z").add_edge("c", "z")
    assert log_of(runner, builder) == ["a", "b", "c", "z", "z"]


def test_a_join_starts_over_in_a_loop(runner: Runner) -> None:
    builder = nodes("abz").add_edge(START, "a").add_edge(START, "b").add_edge(["a", "b"], "z")
    builder.add_conditional_edges("z", lambda state: ["a", "b"] if len(state["log"]) < 6 else END)
    assert log_of(runner, builder) == ["a", "b", "z", "a", "b", "z"]


def test_the_same_edge_twice_runs_its_target_once(runner: Runner) -> None:
    assert log_of(runner, nodes("a").add_edge(START, "a").add_edge(START, "a")) == ["a"]


def routed(path_map: Any = None) -> StateGraph[Any]:
    """a, then whatever `choice` says."""
    builder = nodes("abc").add_edge(START, "a")
    return builder.add_conditional_edges("a", lambda state: state["choice"], path_map)


@pytest.mark.parametrize(
    ("path_map", "choice", "log"),
    [
        ({"yes": "b", "no": "c"}, "yes", ["a", "b"]),
        ({"yes": "b", "no": "c", "stop": END}, "stop", ["a"]),
        ({True: "b", False: "c"}, False, ["a", "c"]),
        ({1: "b", 2: "c"}, [2, 1], ["a", "b", "c"]),
        (["b", "c"], "c", ["a", "c"]),
        (["b", "c", END], END, ["a"]),
        (["b", "c"], ["c", "b"], ["a", "b", "c"]),
        (["b", "c"], [], ["a"]),
    ],
)
def test_a_branch_goes_where_its_function_says(
    runner: Runner, path_map: Any, choice: Any, log: list[str]
) -> None:
    assert log_of(runner, routed(path_map), choice) == log


@pytest.mark.parametrize(("choice", "log"), [("b", ["a", "b"]), (END, ["a"]), (["c", "b"], ["a", "b", "c"])])
def test_a_branch_without_a_map_may_go_to_any_node(runner: Runner, choice: Any, log: list[str]) -> None:
    assert log_of(runner, routed(), choice) == log


def to_b_or_end(state: State) -> Literal["b", "__end__"]:
    return "b" if state["choice"] else "__end__"


@pytest.mark.parametrize(("choice", "log"), [(True, ["a", "b"]), (False, ["a"])])
def test_a_literal_annotation_is_the_map(runner: Runner, choice: bool, log: list[str]) -> None:
    builder = nodes("ab").add_edge(START, "a").add_conditional_edges("a", to_b_or_end)
    assert log_of(runner, builder, choice) == log


def test_a_branch_sees_what_its_node_wrote_and_not_what_a_sibling_wrote(runner: Runner) -> None:
    seen: list[list[str]] = []

    def look(state: Any) -> str:
        seen.append(state["log"])
        return END

    builder = nodes("ab").add_edge(START, "a").add_edge(START, "b").add_conditional_edges("b", look, [END])
    assert log_of(runner, builder) == ["a", "b"]
    assert seen == [["b"]]


def test_an_async_branch(runner: Runner) -> None:
    async def route(state: Any) -> str:
        await asyncio.sleep(0)
        return "b"

    assert log_of(runner, nodes("ab").add_edge(START, "a").add_conditional_edges("a", route, ["b"])) == [
        "a",
        "b",
    ]


def test_a_sequence_runs_in_order_and_takes_names(runner: Runner) -> None:
    builder: StateGraph[Any] = StateGraph(State).add_sequence([first, ("named", says("named")), second])
    assert log_of(runner, builder.set_entry_point("first")) == ["first", "named", "second"]


@pytest.mark.parametrize("sequence", [[], [first, first]])
def test_an_empty_sequence_or_one_with_a_name_twice_is_an_error(sequence: list[Node]) -> None:
    with pytest.raises(InvalidGraphError):
        StateGraph(State).add_sequence(sequence)


def test_entry_and_finish_point(runner: Runner) -> None:
    builder = nodes("ab").set_entry_point("a").add_edge("a", "b").set_finish_point("b")
    assert log_of(runner, builder) == ["a", "b"]


@pytest.mark.parametrize(("choice", "log"), [("a", ["a"]), ("b", ["b"]), (END, [])])
def test_conditional_entry_point(runner: Runner, choice: str, log: list[str]) -> None:
    builder = nodes("ab").set_conditional_entry_point(lambda state: state["choice"], ["a", "b", END])
    assert log_of(runner, builder, choice) == log


def test_a_conditional_entry_point_may_fan_out(runner: Runner) -> None:
    builder: StateGraph[Any] = StateGraph(State).add_node("each", lambda number: {"log": [str(number)]})
    builder.set_conditional_entry_point(lambda state: [Send("each", n) for n in range(3)], ["each"])
    assert log_of(runner, builder) == ["0", "1", "2"]


def test_a_node_without_a_way_out_ends_the_run(runner: Runner) -> None:
    assert log_of(runner, nodes("a").add_edge(START, "a")) == ["a"]


def test_what_is_added_after_compiling_does_not_change_the_compiled_graph(runner: Runner) -> None:
    builder = nodes("a").add_edge(START, "a")
    graph = builder.compile()
    builder.add_node("b", says("b")).add_edge("a", "b")
    assert runner.invoke(graph, {"log": []})["log"] == ["a"]
    assert log_of(runner, builder) == ["a", "b"]


# Faults


def test_all_faults_are_reported_together_by_name() -> None:
    builder = nodes("ab").add_edge("a", "ghost_target").add_edge("ghost_source", "b")
    builder.add_edge(["a", "ghost_joined"], "b").add_edge(["a", "b"], "ghost_after_join")
    builder.add_conditional_edges("a", lambda state: "x", {"x": "ghost_branch"})
    builder.add_conditional_edges("ghost_router", lambda state: "b", ["b"])
    builder.add_node("jumper", says("jumper"), destinations=("ghost_destination",))
    ghosts = [
        "ghost_target",
        "ghost_source",
        "ghost_joined",
        "ghost_after_join",
        "ghost_branch",
        "ghost_router",
        "ghost_destination",
    ]
    with pytest.raises(InvalidGraphError) as caught:
        builder.compile()
    message = str(caught.value)
    assert [ghost for ghost in ghosts if ghost not in message] == []
    assert START in message or "entry" in message


@pytest.mark.parametrize(
    "build",
    [
        lambda builder: builder.add_edge(START, first),
        lambda builder: builder.add_edge(first, "b"),
        lambda builder: builder.add_edge(["a", first], "b"),
        lambda builder: builder.set_entry_point(first),
        lambda builder: builder.add_conditional_edges(first, lambda state: "b"),
        lambda builder: builder.add_conditional_edges("a", lambda state: "x", {"x": first}),
        lambda builder: builder.add_conditional_edges("a", lambda state: "x", [first]),
    ],
)
def test_an_edge_leads_between_names_and_not_functions(build: Callable[[StateGraph[Any]], Any]) -> None:
    with pytest.raises(InvalidGraphError, match=r"names of nodes, not <function first.*'first'"):
        build(nodes("ab"))


def faulty(build: Callable[[StateGraph[Any]], Any]) -> StateGraph[Any]:
    """A sound graph of a and b with one fault added."""
    builder = nodes("ab").add_edge(START, "a").add_edge("a", "b")
    build(builder)
    return builder


@pytest.mark.parametrize(
    ("build", "named"),
    [
        (lambda builder: builder.add_edge("a", "ghost"), "ghost"),
        (lambda builder: builder.add_edge("ghost", "a"), "ghost"),
        (lambda builder: builder.add_edge(["a", "ghost"], "b"), "ghost"),
        (lambda builder: builder.add_edge([], "b"), "b"),
        (lambda builder: builder.add_edge(["a", END], "b"), "__end__|END"),
        (lambda builder: builder.add_edge(END, "a"), "__end__|END"),
        (lambda builder: builder.add_edge("a", START), "__start__|START"),
        (lambda builder: builder.set_entry_point("ghost"), "ghost"),
        (lambda builder: builder.set_finish_point("ghost"), "ghost"),
        (lambda builder: builder.add_conditional_edges("a", lambda state: "ghost", ["ghost"]), "ghost"),
        (lambda builder: builder.add_conditional_edges("a", lambda state: "x", {"x": "ghost"}), "ghost"),
        (lambda builder: builder.add_conditional_edges("ghost", lambda state: "a", ["a"]), "ghost"),
        (lambda builder: builder.add_node("c", first, destinations={"ghost": "when lost"}), "ghost"),
    ],
)
def test_each_fault_is_an_error_that_names_it(build: Callable[[StateGraph[Any]], Any], named: str) -> None:
    with pytest.raises(InvalidGraphError, match=named):
        faulty(build).compile()


@pytest.mark.parametrize("builder", [StateGraph(State), nodes("a"), nodes("ab").add_edge("a", "b")])
def test_a_graph_needs_an_entry(builder: StateGraph[Any]) -> None:
    with pytest.raises(InvalidGraphError, match=r"(?i)entry|__start__"):
        builder.compile()


def test_an_error_of_the_graph_leaves_the_builder_usable(runner: Runner) -> None:
    builder = nodes("a").add_edge(START, "a").add_edge("a", "b")
    with pytest.raises(InvalidGraphError, match="b"):
        builder.compile()
    assert log_of(runner, builder.add_node("b", says("b"))) == ["a", "b"]


def test_a_node_that_nothing_reaches_is_a_warning_and_no_error(runner: Runner) -> None:
    with pytest.warns(UnreachableNodeWarning, match="island") as caught:
        graph = nodes("a").add_node("island", says("island")).add_edge(START, "a").compile()
    assert len(caught) == 1
    assert runner.invoke(graph, {"log": []})["log"] == ["a"]


def jump_to_b(state: State) -> Command[Literal["b"]]:
    return Command(goto="b")


@pytest.mark.parametrize(
    ("jump", "options"),
    [
        (lambda state: Command(goto="b"), {"destinations": ("b",)}),
        (lambda state: Command(goto="b"), {"destinations": {"b": "always"}}),
        (jump_to_b, {}),
    ],
)
def test_a_declared_destination_reaches_its_node(runner: Runner, jump: Node, options: dict[str, Any]) -> None:
    builder = nodes("b").add_node("jump", jump, **options).add_edge(START, "jump")
    assert log_of(runner, builder) == ["b"]


def test_an_undeclared_goto_works_with_the_warning(runner: Runner) -> None:
    builder = nodes("b").add_node("jump", lambda state: Command(goto="b")).add_edge(START, "jump")
    with pytest.warns(UnreachableNodeWarning, match="b"):
        graph = builder.compile()
    assert runner.invoke(graph, {"log": []})["log"] == ["b"]


# Options of compile


def test_a_compiled_graph_has_the_name_it_was_given() -> None:
    assert nodes("a").add_edge(START, "a").compile(name="clearing").name == "clearing"


@pytest.mark.parametrize("option", ["interrupt_before", "interrupt_after"])
def test_breakpoints_at_unknown_nodes_are_refused(runner: Runner, option: str) -> None:
    builder = nodes("a").add_edge(START, "a")
    unknown: dict[str, Any] = {option: ["a", "ghost"]}
    with pytest.raises(ValueError, match="ghost"):
        builder.compile(**unknown)
    with pytest.raises(ValueError, match="ghost"):
        runner.invoke(builder.compile(), {"log": []}, **unknown)


@pytest.mark.parametrize("saver", [object(), "threads.sqlite", InMemorySaver], ids=["object", "str", "class"])
def test_a_checkpointer_that_is_none_is_refused(saver: Saver) -> None:
    with pytest.raises(TypeError):
        nodes("a").add_edge(START, "a").compile(checkpointer=saver)


@pytest.mark.parametrize("option", ["cache", "store"])
@pytest.mark.parametrize("given", [True, InMemoryCache, InMemoryStore], ids=str)
def test_so_is_a_cache_or_a_store_that_is_none(option: str, given: Any) -> None:
    with pytest.raises(TypeError, match=f"{option} must be a {option}.* not "):
        nodes("a").add_edge(START, "a").compile(**{option: given})


@pytest.mark.parametrize("option", ["interrupt_matching", "on_version_change"])
def test_options_of_a_few_words_are_checked(option: str) -> None:
    unknown: dict[str, Any] = {option: "always"}
    with pytest.raises(ValueError, match=f"{option} must be .* not 'always'"):
        nodes("a").add_edge(START, "a").compile(**unknown)


def test_one_builder_compiles_to_independent_graphs(runner: Runner, config: RunnableConfig) -> None:
    builder = nodes("ab").add_sequence([("c", says("c"))]).add_edge(START, "a").add_edge("a", "b")
    builder.add_edge("b", "c")
    with_memory = builder.compile(checkpointer=InMemorySaver(), interrupt_before=["b"])
    without = builder.compile()
    assert runner.invoke(with_memory, {"log": []}, config)["log"] == ["a"]
    assert runner.invoke(without, {"log": []})["log"] == ["a", "b", "c"]


# Options of nodes


def test_metadata_of_a_node_is_seen_in_its_config(runner: Runner) -> None:
    seen: list[Any] = []

    def by_argument(state: State, config: RunnableConfig) -> State:
        seen.append(config.get("metadata", {}).get("team"))
        return {}

    def by_call(state: State) -> State:
        seen.append(get_config().get("metadata", {}).get("team"))
        return {}

    builder: StateGraph[Any] = StateGraph(State).add_node(by_argument, metadata={"team": "claims"})
    builder.add_node(by_call, metadata={"team": "audit"}).add_edge(START, "by_argument")
    builder.add_edge("by_argument", "by_call")
    runner.invoke(builder.compile(), {"log": []})
    assert seen == ["claims", "audit"]


class OnlyChoice(TypedDict):
    choice: str


def test_input_schema_narrows_what_a_node_sees(runner: Runner) -> None:
    seen: list[Any] = []
    builder: StateGraph[Any] = StateGraph(State).add_node("narrow", seen.append, input_schema=OnlyChoice)
    runner.invoke(builder.add_edge(START, "narrow").compile(), {"log": ["hidden"], "choice": "shown"})
    assert seen == [{"choice": "shown"}]


def deferred(defer: bool) -> StateGraph[Any]:
    """a fans out to b and c → d; both arms lead to z."""
    builder = nodes("abcd").add_node("z", says("z"), defer=defer)
    for arm in ["ab", "ac", "cd", "bz", "dz"]:
        builder.add_edge(arm[0], arm[1])
    return builder.add_edge(START, "a")


def test_a_deferred_node_runs_once_after_everything_else(runner: Runner) -> None:
    assert log_of(runner, deferred(True)) == ["a", "b", "c", "d", "z"]
    assert log_of(runner, deferred(False)) == ["a", "b", "c", "d", "z", "z"]


def test_what_follows_a_deferred_node_runs_after_it(runner: Runner) -> None:
    builder = deferred(True).add_node("after", says("after")).add_edge("z", "after")
    assert log_of(runner, builder) == ["a", "b", "c", "d", "z", "after"]


def test_a_deferred_join(runner: Runner) -> None:
    builder = nodes("abcd").add_node("z", says("z"), defer=True).add_edge(START, "a").add_edge(START, "b")
    builder.add_edge("b", "c").add_edge("c", "d").add_edge(["a", "b"], "z")
    assert log_of(runner, builder) == ["a", "b", "c", "d", "z"]


# Retries


class Flaky:
    """A node that fails with `error` until its `successful` attempt."""

    def __init__(self, error: Exception, successful: int) -> None:
        self.error = error
        self.successful = successful
        self.attempts = 0

    def __call__(self, state: State) -> State:
        self.attempts += 1
        if self.attempts < self.successful:
            raise self.error
        return {"log": [f"attempt {self.attempts}"]}


def retry(attempts: int = 3, **options: Any) -> RetryPolicy:
    return RetryPolicy(initial_interval=0.0, jitter=False, max_attempts=attempts, **options)


def alone(node: Node, **options: Any) -> StateGraph[Any]:
    return StateGraph(State).add_node("node", node, **options).add_edge(START, "node")


def test_a_node_is_tried_again_until_it_succeeds(runner: Runner) -> None:
    assert log_of(runner, alone(Flaky(ConnectionError("gone"), 3), retry_policy=retry())) == ["attempt 3"]


@pytest.mark.parametrize(
    ("policy", "error", "attempts"),
    [
        (None, ConnectionError(), 1),
        (retry(), ConnectionError(), 3),
        (retry(2), ConnectionError(), 2),
        (retry(1), ConnectionError(), 1),
        (retry(), ValueError(), 1),
        (retry(retry_on=ValueError), ValueError(), 3),
        (retry(retry_on=LookupError), KeyError(), 3),
        (retry(retry_on=ValueError), ConnectionError(), 1),
        (retry(retry_on=(KeyError, ValueError)), ValueError(), 3),
        (retry(retry_on=[KeyError, ValueError]), ValueError(), 3),
        (retry(4, retry_on=lambda error: "again" in str(error)), ValueError("try again"), 4),
        (retry(4, retry_on=lambda error: "again" in str(error)), ValueError("hopeless"), 1),
        ([retry(5, retry_on=ValueError), retry(2, retry_on=KeyError)], KeyError(), 2),
        ([retry(5, retry_on=ValueError), retry(2, retry_on=KeyError)], ValueError(), 5),
    ],
)
def test_how_often_a_node_is_tried(runner: Runner, policy: Any, error: Exception, attempts: int) -> None:
    node = Flaky(error, 99)
    with pytest.raises(type(error)) as caught:
        log_of(runner, alone(node, retry_policy=policy))
    assert caught.value is error
    assert node.attempts == attempts


def test_the_error_of_a_node_carries_its_name_as_a_note(runner: Runner) -> None:
    with pytest.raises(ValueError, match="broken") as caught:
        log_of(runner, alone(Flaky(ValueError("broken"), 99)))
    assert any("node" in note for note in caught.value.__notes__)


def test_a_sibling_runs_once_while_another_node_is_retried(runner: Runner) -> None:
    runs: list[str] = []
    builder = alone(Flaky(ConnectionError(), 3), retry_policy=retry()).add_node("sibling", runs.append)
    assert log_of(runner, builder.add_edge(START, "sibling")) == ["attempt 3"]
    assert len(runs) == 1


@pytest.mark.parametrize("policy", [{"max_attempts": 3}, 3, ["often"]], ids=str)
def test_a_retry_policy_that_is_none_is_refused(policy: Any) -> None:
    for build in (
        lambda: nodes("a").add_node("node", first, retry_policy=policy),
        lambda: task(retry_policy=policy)(first),
    ):
        with pytest.raises(TypeError, match=r"retry_policy must be a RetryPolicy or several.* not "):
            build()


def test_so_is_a_cache_policy() -> None:
    wrong: Any = True
    for build in (
        lambda: nodes("a").add_node("node", first, cache_policy=wrong),
        lambda: task(cache_policy=wrong)(first),
    ):
        with pytest.raises(TypeError, match="cache_policy must be a CachePolicy, not True"):
            build()


def test_node_defaults_apply_to_nodes_without_an_option_of_their_own(runner: Runner) -> None:
    plain, own, late = (Flaky(ConnectionError(), n) for n in (3, 2, 3))
    builder: StateGraph[Any] = (
        StateGraph(State).add_node("plain", plain).add_node("own", own, retry_policy=retry(2))
    )
    builder.set_node_defaults(retry_policy=retry(3)).add_node("late", late)
    builder.add_edge(START, "plain").add_edge("plain", "own").add_edge("own", "late")
    assert log_of(runner, builder) == ["attempt 3", "attempt 2", "attempt 3"]


def test_an_option_of_the_node_wins_over_the_default(runner: Runner) -> None:
    node = Flaky(ConnectionError(), 99)
    builder = alone(node, retry_policy=retry(2)).set_node_defaults(retry_policy=retry(5))
    with pytest.raises(ConnectionError):
        log_of(runner, builder)
    assert node.attempts == 2


# Timeouts


async def never(state: State) -> State:
    await asyncio.Event().wait()
    return {"log": ["late"]}


@pytest.mark.parametrize(
    "timeout",
    [0.02, timedelta(milliseconds=20), TimeoutPolicy(run_timeout=0.02)],
    ids=["seconds", "timedelta", "policy"],
)
def test_an_async_node_that_takes_too_long_is_cancelled(runner: Runner, timeout: Any) -> None:
    with pytest.raises(NodeTimeoutError, match="node"):
        log_of(runner, alone(never, timeout=timeout))


@pytest.mark.parametrize("blocking", [True, False])
def test_a_node_within_its_timeout_is_not_disturbed_nor_waited_for(runner: Runner, blocking: bool) -> None:
    async def gentle(state: State) -> State:
        return {"log": ["first"]}

    logs: list[list[str]] = []
    builder = alone(first if blocking else gentle, timeout=timedelta(hours=1))
    run = threading.Thread(target=lambda: logs.append(log_of(runner, builder)), daemon=True)
    run.start()
    run.join(20)
    assert logs == [["first"]], "the run waits for the timeout of a node that has finished"


def test_the_default_timeout_applies(runner: Runner) -> None:
    with pytest.raises(NodeTimeoutError, match="node"):
        log_of(runner, alone(never).set_node_defaults(timeout=0.02))


def test_a_timeout_counts_as_a_failed_attempt(runner: Runner) -> None:
    attempts: list[int] = []

    async def slow_once(state: State) -> State:
        attempts.append(1)
        return await never(state) if len(attempts) == 1 else {"log": ["quick"]}

    # A machine that stands still may take more than one.
    assert log_of(runner, alone(slow_once, timeout=0.02, retry_policy=retry(100))) == ["quick"]
    assert len(attempts) > 1


class Stuck:
    """A blocking node whose first call waits until it is let go."""

    def __init__(self) -> None:
        self.calls = 0
        self.release = threading.Event()
        self.let_go_in_time: bool | None = None
        self.returned = threading.Event()

    def __call__(self, state: State) -> State:
        self.calls += 1
        if self.calls > 1:
            return {"log": ["second call"]}
        self.let_go_in_time = self.release.wait(20)
        self.returned.set()
        return {"log": ["late"]}


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    node = Stuck()
    yield node
    node.release.set()


def test_a_blocking_node_that_takes_too_long_does_not_hold_its_caller(runner: Runner, stuck: Stuck) -> None:
    with pytest.raises(NodeTimeoutError, match="node"):
        log_of(runner, alone(stuck, timeout=0.02))
    stuck.release.set()
    assert stuck.returned.wait(20)
    assert stuck.let_go_in_time


def test_the_late_result_of_a_blocking_node_is_refused(
    runner: Runner, saver: Saver, config: RunnableConfig, stuck: Stuck
) -> None:
    hasty, graph = (
        alone(stuck, timeout=timeout)
        .add_node("other", says("other"))
        .add_edge("node", "other")
        .compile(checkpointer=saver)
        for timeout in (0.02, 20)
    )
    with pytest.raises(NodeTimeoutError):
        runner.invoke(hasty, {"log": []}, config)
    stuck.release.set()
    assert stuck.returned.wait(20)
    assert runner.get_state(graph, config).next == ("node",)
    assert runner.invoke(graph, None, config)["log"] == ["second call", "other"]
    assert stuck.calls == 2


# Error handlers


def test_an_error_handler_gives_the_update_of_a_node_that_failed_for_good(runner: Runner) -> None:
    node = Flaky(ConnectionError("no line"), 99)
    handled: list[Any] = []

    def handler(state: State, error: Any) -> State:
        handled.append((state["log"], repr(error)))
        return {"log": ["handled"]}

    builder = alone(node, retry_policy=retry(2), error_handler=handler)
    assert log_of(runner, builder) == ["handled"]
    assert node.attempts == 2
    (state, error), *more = handled
    assert (state, more) == ([], [])
    assert "no line" in error


def test_an_error_handler_may_ask_for_the_error_as_in_langgraph(runner: Runner) -> None:
    failure = ValueError("no line")

    def handler(state: State, error: NodeError) -> State:
        return {"log": [error.node, str(error.error is failure)]}

    assert log_of(runner, alone(Flaky(failure, 99), error_handler=handler)) == ["node", "True"]


def test_an_error_handler_is_not_called_when_a_retry_succeeds(runner: Runner) -> None:
    def handler(state: State, error: Any) -> State:
        raise AssertionError("called")

    builder = alone(Flaky(ConnectionError(), 2), retry_policy=retry(), error_handler=handler)
    assert log_of(runner, builder) == ["attempt 2"]


def test_an_error_handler_may_steer(runner: Runner) -> None:
    def handler(state: State, error: Any) -> Command[Any]:
        return Command(update={"log": ["handled"]}, goto="rescue")

    builder = alone(Flaky(ValueError(), 99), error_handler=handler, destinations=("rescue",))
    assert log_of(runner, builder.add_node("rescue", says("rescue"))) == ["handled", "rescue"]


def test_the_structure_can_be_checked_without_compiling() -> None:
    builder = StateGraph(Logged).add_node("node", says("node"))
    with pytest.raises(InvalidGraphError, match="entry"):
        builder.validate()
    assert builder.add_edge(START, "node").validate() is builder


@pytest.mark.parametrize(
    "returned, log",
    [
        (Send("work", {"log": ["one"]}), ["next", "one"]),
        ([Send("work", {"log": ["one"]}), Send("work", {"log": ["two"]})], ["next", "one", "two"]),
        (({"log": ["own"]}, Send("work", {"log": ["one"]})), ["own", "next", "one"]),
        ([Command(update={"log": ["own"]}), Send("work", {"log": ["one"]})], ["own", "next", "one"]),
    ],
    ids=["one", "list", "beside-update", "beside-command"],
)
def test_a_node_may_return_sends(runner: Runner, returned: Any, log: list[str]) -> None:
    """LangGraph takes one; in a list it refuses them or loses them."""
    builder = alone(lambda state: returned, destinations=("work",))
    builder.add_node("work", lambda sent: {"log": sent["log"]}).add_node("next", says("next"))
    assert log_of(runner, builder.add_edge("node", "next")) == log


def test_a_node_cannot_send_to_nobody(runner: Runner) -> None:
    with pytest.raises(InvalidUpdateError, match="'node' goes to 'nobody', which is no node"):
        log_of(runner, alone(lambda state: Send("nobody", {})))


@pytest.mark.parametrize(
    "returned, log",
    [
        ({"log": ["handled"]}, ["handled", "next"]),
        (Command(update={"log": ["handled"]}), ["handled", "next"]),
        (Command(update={"log": ["handled"]}, goto="rescue"), ["handled", "rescue"]),
        (Command(goto=END), []),
    ],
    ids=["update", "command", "goto", "goto-end"],
)
@pytest.mark.parametrize("edge", ["edge", "conditional"])
def test_where_an_error_handler_goes_the_edges_of_its_node_do_not(
    runner: Runner, edge: str, returned: Any, log: list[str]
) -> None:
    """As in LangGraph: what is to follow a charge does not follow the refund of one that failed."""
    options: dict[str, Any] = {"error_handler": lambda state, error: returned, "destinations": ("rescue",)}
    builder = alone(Flaky(ValueError(), 99), **options)
    builder.add_node("rescue", says("rescue")).add_node("next", says("next"))
    if edge == "edge":
        builder.add_edge("node", "next")
    else:
        builder.add_conditional_edges("node", lambda state: "next", ["next", "rescue"])
    assert log_of(runner, builder) == log


@pytest.mark.parametrize("kind", ["of the node", "default"])
def test_a_join_may_wait_for_what_an_error_handler_goes_to(runner: Runner, kind: str) -> None:
    def handler(state: State, error: Any) -> Command[Literal["a", "b"]]:
        return Command(goto=["a", "b"])

    def undeclared(state: State, error: Any) -> Any:
        return Command(goto=["a", "b"])

    for function in (handler, undeclared):
        options: dict[str, Any] = {"error_handler": function}
        builder = alone(Flaky(ValueError(), 99), **(options if kind == "of the node" else {}))
        if kind == "default":
            builder.set_node_defaults(**options)
        for name in ("a", "b", "joined"):
            builder.add_node(name, says(name))
        builder.add_edge(["a", "b"], "joined")
        with warnings.catch_warnings():
            warnings.simplefilter("error" if function is handler else "ignore", UnreachableNodeWarning)
            assert log_of(runner, builder) == ["a", "b", "joined"]


def test_an_error_handler_that_fails_fails_the_run(runner: Runner) -> None:
    def handler(state: State, error: Any) -> State:
        raise LookupError("handler broke")

    with pytest.raises(LookupError, match="handler broke"):
        log_of(runner, alone(Flaky(ValueError(), 99), error_handler=handler))


def test_the_default_error_handler_applies(runner: Runner) -> None:
    def handler(state: State, error: Any) -> State:
        return {"log": ["handled"]}

    builder = alone(Flaky(ValueError(), 99)).set_node_defaults(error_handler=handler)
    assert log_of(runner, builder) == ["handled"]


# Caches


class Priced:
    """A node that counts its runs and logs its choice."""

    def __init__(self) -> None:
        self.runs = 0

    def __call__(self, state: Any) -> State:
        self.runs += 1
        return {"log": [f"run {self.runs} for {state['choice']}"]}


def test_a_cached_node_does_not_run_again_for_equal_input(runner: Runner) -> None:
    node = Priced()
    graph = alone(node, cache_policy=CachePolicy()).compile(cache=InMemoryCache())
    results = [runner.invoke(graph, {"log": [], "choice": choice})["log"] for choice in "xyx"]
    assert results == [["run 1 for x"], ["run 2 for y"], ["run 1 for x"]]
    assert node.runs == 2


def test_without_a_cache_or_a_policy_every_run_counts(runner: Runner) -> None:
    node = Priced()
    for graph in (
        alone(node, cache_policy=CachePolicy()).compile(),
        alone(node).compile(cache=InMemoryCache()),
    ):
        for _ in range(2):
            runner.invoke(graph, {"log": [], "choice": "x"})
    assert node.runs == 4


def test_key_func_decides_what_is_equal(runner: Runner) -> None:
    node = Priced()
    policy = CachePolicy(key_func=lambda state: state["choice"].lower())
    graph = alone(node, cache_policy=policy).compile(cache=InMemoryCache())
    assert [runner.invoke(graph, {"log": [], "choice": choice})["log"] for choice in "xX"] == [
        ["run 1 for x"]
    ] * 2


def test_two_nodes_do_not_share_cached_results(runner: Runner) -> None:
    builder = alone(Priced(), cache_policy=CachePolicy())
    builder.add_node("other", lambda state: {"log": ["other"]}, cache_policy=CachePolicy())
    graph = builder.add_edge(START, "other").compile(cache=InMemoryCache())
    for _ in range(2):
        assert runner.invoke(graph, {"log": [], "choice": "x"})["log"] == ["run 1 for x", "other"]


def test_a_failed_run_is_not_cached(runner: Runner) -> None:
    node = Flaky(ValueError(), 2)
    graph = alone(node, cache_policy=CachePolicy()).compile(cache=InMemoryCache())
    with pytest.raises(ValueError):
        runner.invoke(graph, {"log": [], "choice": "x"})
    assert runner.invoke(graph, {"log": [], "choice": "x"})["log"] == ["attempt 2"]
    assert node.attempts == 2


def test_the_default_cache_policy_applies(runner: Runner) -> None:
    node = Priced()
    graph = alone(node).set_node_defaults(cache_policy=CachePolicy()).compile(cache=InMemoryCache())
    for _ in range(2):
        runner.invoke(graph, {"log": [], "choice": "x"})
    assert node.runs == 1


# What is said of values that are of no use


@pytest.mark.parametrize("retry_on", [5, [ValueError, "KeyError"]], ids=repr)
def test_errors_to_retry_on_are_classes_or_a_function(retry_on: Any) -> None:
    with pytest.raises(TypeError, match=r"retry_on must be an exception class, .* not "):
        RetryPolicy(retry_on=retry_on)


def test_what_cannot_be_called_is_shown() -> None:
    with pytest.raises(InvalidGraphError, match=r"^3\.5 cannot be called"):
        StateGraph(State).add_node("node", 3.5)


def test_a_branch_that_goes_nowhere_is_named(runner: Runner) -> None:
    def elsewhere(state: State) -> str:
        return "ghost"

    builder = nodes("a").add_edge(START, "a").add_conditional_edges("a", elsewhere)
    with pytest.raises(
        InvalidUpdateError, match=r"^the branch .elsewhere. of node .a. goes to 'ghost', which is no"
    ):
        runner.invoke(builder.compile(), {"log": []})


# Nodes called alone, as LangGraph's how-to on tests does


class Model(BaseModel):
    amount: int = 0


@pytest.mark.parametrize(
    "called",
    [
        lambda node, *given: node.invoke(*given),
        lambda node, *given: asyncio.run(node.ainvoke(*given)),
    ],
    ids=["invoke", "ainvoke"],
)
def test_a_node_of_a_compiled_graph_can_be_called_alone(called: Callable[..., Any]) -> None:
    async def pays(state: Model, runtime: Runtime[Any], *, writer: StreamWriter) -> dict[str, Any]:
        writer("nobody listens")
        return {"amount": state.amount + 1, "store": runtime.store}

    def knows(state: State, config: RunnableConfig) -> dict[str, Any]:
        return {"user": config["configurable"]["user"], **state}

    inner: Any = StateGraph(Model).add_node("pays", pays).add_edge(START, "pays").compile()
    builder = (
        StateGraph(State).add_node(knows).add_node("pays", pays, input_schema=Model).add_node("graph", inner)
    )
    for name in ("knows", "pays", "graph"):
        builder.add_edge(START, name)
    saver = InMemorySaver()
    graph = builder.compile(checkpointer=saver, store="the store")
    assert list(graph.nodes) == ["knows", "pays", "graph"]
    told = called(graph.nodes["knows"], {"choice": 1}, {"configurable": {"user": "ada"}})
    assert told == {"user": "ada", "choice": 1}
    assert called(graph.nodes["pays"], {"amount": 2}) == {"amount": 3, "store": "the store"}
    assert list(saver.list(None)) == []


def test_a_node_called_alone_runs_where_a_run_would_run_it() -> None:
    async def pays(state: State) -> State:
        return {"choice": threading.get_ident()}

    def knows(state: State) -> State:
        return {"choice": threading.get_ident()}

    def passes(state: State) -> Any:
        return pays(state)

    builder = StateGraph(State).add_node(pays).add_node(knows).add_node(passes)
    for name in ("knows", "pays", "passes"):
        builder.add_edge(START, name)
    node = builder.compile().nodes
    here = threading.get_ident()
    assert node["knows"].invoke({}) == {"choice": here}
    assert node["passes"].invoke({}).keys() == {"choice"}

    async def main() -> list[State]:
        return [await node[name].ainvoke({}) for name in ("pays", "passes", "knows")]

    pays_in, passes_in, knows_in = (given["choice"] for given in asyncio.run(main()))
    assert (pays_in, passes_in) == (here, here)
    assert knows_in != here  # it may block, and keeps no loop waiting

    async def calls(state: State) -> Any:
        return node["pays"].invoke(state)

    around = StateGraph(State).add_node(calls).add_edge(START, "calls").compile()
    assert "choice" in around.invoke({})  # on another loop than the node that waits for it
