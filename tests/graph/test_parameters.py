"""What functions get for their parameters: the state, the error, and what is injected by name or annotation."""

from __future__ import annotations

import dataclasses
import functools
import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypedDict

import pytest

from graphkit import START, Command, StateGraph
from graphkit.errors import InvalidGraphError, NodeError
from graphkit.graph.node import callee_of, handler_of
from graphkit.runtime import Runtime
from graphkit.store.base import BaseStore
from graphkit.store.memory import InMemoryStore
from graphkit.types import RunnableConfig, StreamWriter
from tests.conftest import Runner

if TYPE_CHECKING:
    from somewhere import Unknown  # type: ignore[import-not-found]


@dataclasses.dataclass
class Context:
    user: str


class State(TypedDict, total=False):
    x: int
    seen: Any


Given = dict[str, Any]
"""What a function saw, by what it asked for."""


def seen(runner: Runner, node: Any, **options: Any) -> Given:
    """What the graph's only node reports to have got."""
    builder = StateGraph(State, Context).add_node("n", node, **options).add_edge(START, "n")
    graph = builder.compile(store=InMemoryStore())
    config: RunnableConfig = {"configurable": {"who": "ada"}}
    given: Given = runner.invoke(graph, {"x": 1}, config, context=Context("ada"))["seen"]
    return given


def described(**things: Any) -> State:
    """What there is to see, in a form that tells the things apart."""
    return {"seen": {name: _kind(thing) for name, thing in things.items()}}


def _kind(thing: Any) -> Any:
    if isinstance(thing, Runtime):
        return f"runtime of {thing.context.user}"
    if isinstance(thing, NodeError):
        return f"{thing.node} failed: {thing.error!r}"
    if isinstance(thing, BaseStore):
        return "store"
    if callable(thing):
        return "writer"
    if isinstance(thing, dict) and "configurable" in thing:
        return f"config of {thing['configurable']['who']}"
    return thing


# Nodes


def by_name(state: State, config: Any, runtime: Any, store: Any, writer: Any) -> State:
    return described(config=config, runtime=runtime, store=store, writer=writer)


def by_annotation(state: State, c: RunnableConfig, rt: Runtime[Context], kept: BaseStore) -> State:
    return described(config=c, runtime=rt, store=kept, writer=rt.stream_writer)


def by_keyword(
    state: State, *, c: RunnableConfig, rt: Runtime, kept: InMemoryStore, writer: StreamWriter
) -> State:
    return described(config=c, runtime=rt, store=kept, writer=writer)


def by_choice(
    state: State,
    c: RunnableConfig | None = None,
    rt: Runtime[Context] | None = None,
    kept: BaseStore | None = None,
) -> State:
    assert rt is not None
    return described(config=c, runtime=rt, store=kept, writer=rt.stream_writer)


def by_both(state: State, runtime: Any, rt: Runtime[Context], config: Any, store: Any) -> State:
    assert rt == runtime
    return described(config=config, runtime=rt, store=store, writer=rt.stream_writer)


def beside_unknown(state: Unknown, c: RunnableConfig, rt: Runtime[Context], kept: BaseStore) -> Unknown:
    return described(config=c, runtime=rt, store=kept, writer=rt.stream_writer)


async def awaited(state: State, c: RunnableConfig, rt: Runtime[Context], kept: BaseStore) -> State:
    return by_annotation(state, c, rt, kept)


class Node:
    def __call__(self, state: State, c: RunnableConfig, rt: Runtime[Context], kept: BaseStore) -> State:
        return by_annotation(state, c, rt, kept)

    def method(self, state: State, c: RunnableConfig, rt: Runtime[Context], kept: BaseStore) -> State:
        return by_annotation(state, c, rt, kept)


def first_bound(word: str, state: State, c: RunnableConfig, rt: Runtime[Context], kept: BaseStore) -> State:
    assert word == "word"
    return by_annotation(state, c, rt, kept)


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


ASKING: dict[str, Any] = {
    "by name": by_name,
    "by annotation": by_annotation,
    "by keyword": by_keyword,
    "by choice": by_choice,
    "by both": by_both,
    "beside what only a type checker knows": beside_unknown,
    "a coroutine function": awaited,
    "an object": Node(),
    "a method": Node().method,
    "a partial": functools.partial(first_bound, "word"),
    "a decorated function": wrapped(by_annotation),
}


@pytest.mark.parametrize("node", ASKING.values(), ids=ASKING)
def test_what_a_node_asks_for(runner: Runner, node: Any) -> None:
    expected = {"config": "config of ada", "runtime": "runtime of ada", "store": "store", "writer": "writer"}
    assert seen(runner, node) == expected


def test_an_edge_function_asks_the_same_way(runner: Runner) -> None:
    def choose(state: State, rt: Runtime[Context], *, c: RunnableConfig) -> str:
        return f"{rt.context.user} {c['configurable']['who']}"

    builder = StateGraph(State, Context).add_node("n", lambda state: {"seen": "n"}).add_edge(START, "n")
    builder.add_node("m", lambda state: {"seen": "m"})
    graph = builder.add_conditional_edges("n", choose, {"ada ada": "m"}).compile()
    assert runner.invoke(graph, {}, {"configurable": {"who": "ada"}}, context=Context("ada"))["seen"] == "m"


def test_what_a_partial_has_bound_stays(runner: Runner) -> None:
    def node(state: State, rt: Runtime[Context], config: Any, c: RunnableConfig) -> State:
        return described(runtime=rt, config=config, c=c)

    mine: Any = "mine"
    bound = functools.partial(node, rt=mine, config=mine)
    assert seen(runner, bound) == {"runtime": "mine", "config": "mine", "c": "config of ada"}


def test_the_state_is_the_state_whatever_it_is_called(runner: Runner) -> None:
    def node(runtime: State) -> State:
        return described(state=runtime["x"])

    assert seen(runner, node) == {"state": 1}


def test_other_parameters_keep_their_defaults(runner: Runner) -> None:
    def node(state: State, log: Callable[[Any], None] = print, limit: int = 3) -> State:
        return {"seen": {"log": log is print, "limit": limit}}

    assert seen(runner, node) == {"log": True, "limit": 3}


def test_adapted_functions_can_cross_to_another_process() -> None:
    for callee in (callee_of(by_annotation, "n"), handler_of(error_first, "n")):
        adapted: Any = callee.call
        assert pickle.loads(pickle.dumps(adapted)).args == adapted.args


def test_a_function_that_asks_as_usual_is_called_as_it_is() -> None:
    assert callee_of(by_name, "n").call is by_name
    assert handler_of(state_and_error, "n").call is state_and_error


# Error handlers


def state_and_error(state: State, error: Any) -> State:
    return described(state=state["x"], error=error)


def any_names(given: State, problem: Any) -> State:
    return described(state=given["x"], error=problem)


def error_by_keyword(state: State, *, error: NodeError) -> State:
    return described(state=state["x"], error=error)


def unannotated_error_by_keyword(state: State, *, error: Any) -> State:
    return described(state=state["x"], error=error)


def other_name_by_keyword(state: State, *, problem: NodeError) -> State:
    return described(state=state["x"], error=problem)


def only_parameter_by_keyword(state: State, *, problem: Any) -> State:
    return described(state=state["x"], error=problem)


def error_last(state: State, rt: Runtime[Context], runtime: Any, problem: NodeError) -> State:
    assert rt == runtime
    return described(state=state["x"], error=problem)


def unannotated_last(state: State, runtime: Any, problem: Any) -> State:
    return described(state=state["x"], error=problem)


def error_first(problem: NodeError, state: State) -> State:
    return described(state=state["x"], error=problem)


def named_error_first(error: Any, state: State) -> State:
    return described(state=state["x"], error=error)


def maybe_error(state: State, problem: NodeError | None = None) -> State:
    return described(state=state["x"], error=problem)


def positional_only(state: State, problem: NodeError, /) -> State:
    return described(state=state["x"], error=problem)


def anything(*given: Any) -> State:
    return described(state=given[0]["x"], error=given[1])


def more_than_needed(state: State, *more: Any, problem: NodeError, **others: Any) -> State:
    assert (more, others) == ((), {})
    return described(state=state["x"], error=problem)


def state_and_more(state: State, *more: Any, rt: Runtime[Context]) -> State:
    assert isinstance(rt, Runtime)
    return described(state=state["x"], error=more[0])


async def awaited_handler(state: State, *, error: NodeError) -> State:
    return described(state=state["x"], error=error)


class Handler:
    def __call__(self, state: State, *, problem: NodeError) -> State:
        return described(state=state["x"], error=problem)


HANDLERS: list[Any] = [
    state_and_error, any_names, error_by_keyword, unannotated_error_by_keyword, other_name_by_keyword,
    only_parameter_by_keyword, error_last, unannotated_last, error_first, named_error_first, maybe_error,
    positional_only, anything, more_than_needed, state_and_more, awaited_handler, Handler(),
]  # fmt: skip


def fails(state: State) -> State:
    raise LookupError("broken")


@pytest.mark.parametrize("handler", HANDLERS, ids=lambda handler: getattr(handler, "__name__", "Handler"))
def test_an_error_handler_gets_state_and_error(runner: Runner, handler: Any) -> None:
    expected = {"state": 1, "error": "n failed: LookupError('broken')"}
    assert seen(runner, fails, error_handler=handler) == expected


def test_an_error_handler_may_want_less(runner: Runner) -> None:
    def only_state(state: State) -> State:
        return described(state=state["x"])

    def state_and_runtime(state: State, runtime: Runtime[Context]) -> State:
        return described(state=state["x"], runtime=runtime)

    def only_error(problem: NodeError) -> State:
        return described(error=problem)

    def only_error_by_keyword(*, error: NodeError) -> State:
        return described(error=error)

    def state_and_others(state: State, **others: Any) -> State:
        return described(state=state["x"], others=others)

    def nothing() -> State:
        return described()

    def with_default(state: State, limit: int = 3) -> State:
        return described(limit=limit)

    failed = "n failed: LookupError('broken')"
    assert seen(runner, fails, error_handler=only_state) == {"state": 1}
    assert seen(runner, fails, error_handler=state_and_runtime) == {"state": 1, "runtime": "runtime of ada"}
    assert seen(runner, fails, error_handler=only_error) == {"error": failed}
    assert seen(runner, fails, error_handler=only_error_by_keyword) == {"error": failed}
    assert seen(runner, fails, error_handler=state_and_others) == {"state": 1, "others": {}}
    assert seen(runner, fails, error_handler=nothing) == {}
    assert seen(runner, fails, error_handler=with_default) == {
        "limit": failed
    }  # the second one is the error's


def test_the_error_and_what_is_injected_together(runner: Runner) -> None:
    def handler(
        state: State, c: RunnableConfig, *, problem: NodeError, rt: Runtime[Context], writer: Any
    ) -> State:
        return described(state=state["x"], config=c, error=problem, runtime=rt, writer=writer)

    assert seen(runner, fails, error_handler=handler) == {
        "state": 1,
        "config": "config of ada",
        "error": "n failed: LookupError('broken')",
        "runtime": "runtime of ada",
        "writer": "writer",
    }


def test_a_default_handler_is_called_the_same_way(runner: Runner) -> None:
    def handler(state: State, *, error: NodeError) -> Command[Any]:
        return Command(update=described(error=error), goto=())

    builder = (
        StateGraph(State).add_node("n", fails).add_edge(START, "n").set_node_defaults(error_handler=handler)
    )
    assert runner.invoke(builder.compile(), {"x": 1})["seen"] == {"error": "n failed: LookupError('broken')"}


# Graphs whose state is one value


def doubling() -> Any:
    return StateGraph(int).add_node("double", lambda value: value * 2).add_edge(START, "double").compile()


def test_a_graph_of_one_value_is_no_node_of_a_graph_with_keys() -> None:
    builder = (
        StateGraph(State).add_node("child", doubling()).add_edge(START, "child").add_edge("child", "lost")
    )
    with pytest.raises(InvalidGraphError) as caught:
        builder.compile()
    message = str(caught.value)
    assert "2 faults" in message  # together with what else is wrong
    assert "the node 'child' is a graph whose state is one value" in message
    assert "'lost'" in message


def test_a_graph_of_one_value_may_be_called_and_may_be_a_node_of_another_such_graph(runner: Runner) -> None:
    child = doubling()
    calling = (
        StateGraph(State).add_node("n", lambda state: {"x": child.invoke(state["x"])}).add_edge(START, "n")
    )
    assert runner.invoke(calling.compile(), {"x": 3}) == {"x": 6}
    parent = StateGraph(int).add_node("child", child).add_node("again", child)
    graph = parent.add_edge(START, "child").add_edge("child", "again").compile()
    assert runner.invoke(graph, 3) == 12


def test_a_graph_with_keys_may_be_a_node_of_a_graph_whose_one_value_is_a_dict(runner: Runner) -> None:
    child = StateGraph(State).add_node("n", lambda state: {"seen": state["x"]}).add_edge(START, "n").compile()
    graph = StateGraph(dict).add_node("child", child).add_edge(START, "child").compile()
    assert runner.invoke(graph, {"x": 3, "more": 4}) == {"x": 3, "seen": 3}
