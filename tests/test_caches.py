"""Cached nodes: whose results are found again, whose are not, and what a cache never does to a run."""

from __future__ import annotations

import asyncio
import functools
import operator
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pydantic
import pytest

from graphkit import END, START, Command, Send, StateGraph, interrupt
from graphkit.cache.base import BaseCache, FullKey, Namespace
from graphkit.cache.memory import InMemoryCache
from graphkit.cache.sqlite import SqliteCache
from graphkit.errors import StorageBusyError
from graphkit.types import CachePolicy, RunnableConfig
from tests.conftest import Runner, Saver


class State(TypedDict, total=False):
    x: Any
    y: Any
    log: Annotated[list[Any], operator.add]


class Narrow(TypedDict, total=False):
    x: Any


@pytest.fixture(params=["memory", "sqlite"])
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseCache]:
    if request.param == "memory":
        yield InMemoryCache()
    else:
        with SqliteCache(tmp_path / "c.sqlite") as cache:
            yield cache


@pytest.fixture
def ran() -> list[Any]:
    """What nodes report when they run."""
    return []


def cached(node: Any, policy: CachePolicy | None = None, **options: Any) -> StateGraph[Any]:
    """A graph with one node, which is cached."""
    builder: StateGraph[Any] = StateGraph(State)
    return builder.add_node("n", node, cache_policy=policy or CachePolicy(), **options).add_edge(START, "n")


# Whose result it is


def one(state: State) -> State:
    return {"y": "one"}


def two(state: State) -> State:
    return {"y": "two"}


def saying(word: Any) -> Callable[[State], State]:
    def say(state: State) -> State:
        return {"y": word}

    return say


def defaulting(word: Any) -> Callable[..., State]:
    def say(state: State, *, said: Any = word) -> State:
        return {"y": said}

    return say


def say(word: Any, state: State) -> State:
    return {"y": word}


def calling(function: Callable[[State], State]) -> Callable[[State], State]:
    return lambda state: function(state)


def wrapping(function: Callable[[State], State]) -> Callable[[State], State]:
    @functools.wraps(function)
    def shouting(state: State) -> State:
        return {"y": function(state)["y"].upper()}

    return shouting


class Speaker:
    def __init__(self, word: Any) -> None:
        self.word = word

    def __call__(self, state: State) -> State:
        return {"y": self.word}

    def speak(self, state: State) -> State:
        return {"y": self.word}


class Client:
    """What nodes hold and no storage can: a connection, a model."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.lock = threading.Lock()

    def speak(self, state: State) -> State:
        return {"y": self.word}

    def add(self, state: State) -> None:
        pass


def asking(client: Any) -> Callable[[State], State]:
    return lambda state: {"y": client.word}


def looking_up(clients: Mapping[str, Client]) -> Callable[[State], State]:
    return lambda state: {"y": clients["any"].word}


def counting_by(word: str, runs: dict[str, list[str]]) -> Callable[[State], State]:
    def counted(state: State) -> State:
        runs[word] = [*runs.get(word, []), word]
        runs[word].append(word)
        return {"y": word}

    return counted


def writing(client: Client) -> Callable[[State], State]:
    def write(state: State) -> State:
        client.add(state)  # not the `add` of a container: which client it is counts
        return {"y": client.word}

    return write


def graph_saying(word: str) -> Any:
    return StateGraph(State).add_node("say", saying(word)).add_edge(START, "say").compile()


def graph_choosing(node: str) -> Any:
    """Two nodes, of which an edge chooses one."""
    builder = StateGraph(State).add_node("one", one).add_node("two", two)
    return builder.add_conditional_edges(START, lambda state: node, ["one", "two"]).compile()


def object_saying(word: str) -> Any:
    class Local:
        def __call__(self, state: State) -> State:
            return {"y": word}

    return Local()


def object_of_class_saying(word: str) -> Any:
    class Local:
        said = word

        def __call__(self, state: State) -> State:
            return {"y": self.said}

    return Local()


def object_inheriting(word: str) -> Any:
    class Local(type(object_saying(word))):  # type: ignore[misc]
        pass

    return Local()


def graph_adding(reducer: Callable[[Any, Any], Any]) -> Any:
    class Added(TypedDict, total=False):
        x: Any
        y: Any

    Added.__annotations__["y"] = Annotated[list[str], reducer]
    builder: StateGraph[Any] = StateGraph(Added).add_node("a", lambda state: {"y": ["a"]})
    return builder.add_node("b", lambda state: {"y": ["b"]}).add_edge(START, "a").add_edge("a", "b").compile()


def graph_excusing(word: str) -> Any:
    def fail(state: State) -> State:
        raise ConnectionError

    builder: StateGraph[Any] = StateGraph(State).add_node("n", fail, error_handler=saying(word))
    return builder.add_edge(START, "n").compile()


class Meeting:
    """Two functions in one scope whose closures hold each other."""

    def __init__(self, word: str) -> None:
        def first(state: State) -> State:
            return {"y": word} if state["x"] else second(state)

        def second(state: State) -> State:
            return first({"x": 1})

        self.node = first


TWINS: dict[str, tuple[Any, Any]] = {
    "functions": (one, two),
    "lambdas": (lambda state: {"y": "one"}, lambda state: {"y": "two"}),
    "constants that are equal": (lambda state: {"y": 1}, lambda state: {"y": True}),
    "attributes": (lambda state: {"y": state.__len__()}, lambda state: {"y": state.__sizeof__()}),
    "nested code": (lambda state: {"y": [1 for _ in "a"]}, lambda state: {"y": [2 for _ in "a"]}),
    "closures": (saying("one"), saying("two")),
    "closures over functions": (calling(one), calling(two)),
    "closures over closures": (calling(saying("one")), calling(saying("two"))),
    "closures over each other": (Meeting("one").node, Meeting("two").node),
    "defaults": (defaulting("one"), defaulting("two")),
    "partials": (functools.partial(say, "one"), functools.partial(say, "two")),
    "objects": (Speaker("one"), Speaker("two")),
    "methods": (Speaker("one").speak, Speaker("two").speak),
    "what cannot be stored": (asking(Client("one")), asking(Client("two"))),
    "methods of what cannot be stored": (Client("one").speak, Client("two").speak),
    "dicts of what cannot be stored": (looking_up({"any": Client("1")}), looking_up({"any": Client("2")})),
    "closures that count by name": (counting_by("one", {}), counting_by("two", {})),
    "closures that change what cannot be stored": (writing(Client("one")), writing(Client("two"))),
    "a class and its objects": (asking(Client("one")), asking(Speaker("two"))),
    "wrapped": (one, wrapping(one)),
    "wrapped alike": (wrapping(one), wrapping(two)),
    "objects of local classes": (object_saying("one"), object_saying("two")),
    "objects of classes with other attributes": (
        object_of_class_saying("one"),
        object_of_class_saying("two"),
    ),
    "objects of classes with other bases": (object_inheriting("one"), object_inheriting("two")),
    "graphs": (graph_saying("one"), graph_saying("two")),
    "graphs with other reducers": (graph_adding(operator.add), graph_adding(lambda old, new: new)),
    "graphs with other error handlers": (graph_excusing("one"), graph_excusing("two")),
    "graphs with other edges": (graph_choosing("one"), graph_choosing("two")),
}


@pytest.mark.parametrize("twins", TWINS.values(), ids=TWINS)
def test_two_functions_never_share_a_result(cache: BaseCache, twins: tuple[Any, Any]) -> None:
    expected = [repr(cached(twin).compile().invoke({"x": 1})["y"]) for twin in twins]
    graphs = [cached(twin).compile(cache=cache) for twin in twins]
    assert expected[0] != expected[1]
    assert [repr(graph.invoke({"x": 1})["y"]) for graph in graphs] == expected
    assert [repr(graph.invoke({"x": 1})["y"]) for graph in graphs] == expected


RUNS: list[Any] = []
CLIENT = Client("one")


def logged(state: State) -> State:
    RUNS.append(state["x"])
    return {"y": state["x"]}


def logged_as(word: str) -> Callable[[State], State]:
    def log(state: State) -> State:
        return {**logged(state), "y": word}

    return log


def logged_by(client: Client) -> Callable[[State], State]:
    def log(state: State) -> State:
        return {**logged(state), "y": client.word}

    return log


class Logger:
    def __init__(self, word: str) -> None:
        self.word = word

    def log(self, state: State) -> State:
        return {**logged(state), "y": self.word}


def logging_graph() -> Any:
    builder = StateGraph(State).add_node("log", lambda state: logged(state)).add_edge(START, "log")
    return builder.compile()


def logging_object(word: str) -> Any:
    class Local:
        limit = 3

        def __call__(self, state: State) -> State:
            return {**logged(state), "y": word}

        @staticmethod
        def helps() -> None:
            pass

    return Local()


def counting(kind: str) -> Callable[[], Any]:
    """Makes the same function anew, which counts its runs in what all of them enclose."""
    runs: list[int] = []
    seen: dict[Any, int] = {"n": 0}
    numbers = count()
    number = 0

    def make() -> Any:
        def appends(state: State) -> State:
            runs.append(number)
            return logged(state)

        def assigns(state: State) -> State:
            nonlocal number
            number += 1
            return logged(state)

        def assigns_items(state: State) -> State:
            seen["n"] += 1
            seen[state["x"]] = 1
            return logged(state)

        def takes(state: State) -> State:
            next(numbers)
            return logged(state)

        def within(state: State) -> State:
            return next(appends(state) for _ in "a")

        return locals()[kind]

    return make


SAME: dict[str, Callable[[], Any]] = {
    "a function": lambda: logged,
    "a lambda": lambda: lambda state: logged(state),
    "a closure": lambda: logged_as("word"),
    "a closure over what cannot be stored": lambda: logged_by(CLIENT),
    "a partial": lambda: functools.partial(logged),
    "a method of an object with equal fields": lambda: Logger("word").log,
    "an object of a local class": lambda: logging_object("word"),
    "a graph": logging_graph,
    "a closure that appends to what it encloses": counting("appends"),
    "a closure that assigns what it encloses": counting("assigns"),
    "a closure that assigns items of what it encloses": counting("assigns_items"),
    "a closure that takes from what it encloses": counting("takes"),
    "a closure around a closure that does": counting("within"),
}


@pytest.mark.parametrize("make", SAME.values(), ids=SAME)
def test_the_same_function_is_known_again(runner: Runner, cache: BaseCache, make: Callable[[], Any]) -> None:
    RUNS.clear()
    for _ in range(2):
        assert runner.invoke(cached(make()).compile(cache=cache), {"x": 1})["y"] in (1, "word", "one")
    assert RUNS == [1]


SCRIPT = """
import sys
from typing import Any, TypedDict
from graphkit import START, StateGraph
from graphkit.cache.sqlite import SqliteCache
from graphkit.types import CachePolicy

class State(TypedDict, total=False):
    x: Any
    y: Any

def node(state):
    print("ran")
    return {{"y": {value!r}}}

def make():
    words = {{"b", "a", "c"}}
    def local(state):
        print("ran")
        return {{"y": [{value!r}, *sorted(words), "x" in {{"x", "y", "z"}}]}}
    return local

with SqliteCache(sys.argv[1]) as cache:
    for function in (node, make(), lambda state: print("ran") or {{"y": {value!r}}}):
        builder = StateGraph(State).add_node("n", function, cache_policy=CachePolicy()).add_edge(START, "n")
        print(builder.compile(cache=cache).invoke({{"x": 1}})["y"])
"""


def test_programs_that_share_a_file_share_results_of_the_same_functions_only(tmp_path: Path) -> None:
    def run(value: str) -> list[str]:
        command = [sys.executable, "-c", SCRIPT.format(value=value), str(tmp_path / "c.sqlite")]
        shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
        return shown.stdout.splitlines()

    first, second = ([said, f"[{said!r}, 'a', 'b', 'c', True]", said] for said in ("one", "two"))
    assert run("one") == [line for said in first for line in ("ran", said)]
    assert run("two") == [line for said in second for line in ("ran", said)]
    assert run("one") == first


def test_conditional_edges_are_decided_anew(runner: Runner, cache: BaseCache) -> None:
    def node(state: Narrow) -> State:
        RUNS.append("n")
        return {"log": ["n"]}

    def choose(state: State) -> str:
        return str(state["y"])

    def going(mapped: dict[Any, str]) -> Any:
        builder = cached(node).add_node("a", lambda state: {"log": ["a"]})
        builder.add_node("b", lambda state: {"log": ["b"]})
        return builder.add_conditional_edges("n", choose, mapped).compile(cache=cache)

    RUNS.clear()
    graph = going({"a": "a", "b": "b", "none": END})
    assert [runner.invoke(graph, {"x": 1, "y": y})["log"] for y in ("a", "b", "none")] == [
        ["n", "a"],
        ["n", "b"],
        ["n"],
    ]
    assert runner.invoke(going({"a": "b", "b": "a"}), {"x": 1, "y": "a"})["log"] == ["n", "b"]
    assert RUNS == ["n"]


def test_a_command_goes_where_it_went(runner: Runner, cache: BaseCache) -> None:
    def node(state: State) -> Command[Any]:
        RUNS.append("n")
        return Command(update={"log": ["n"]}, goto=[Send("a", {"x": 2}), "a"])

    def a(state: State) -> State:
        return {"log": [state["x"]]}

    RUNS.clear()
    graph = cached(node, destinations=("a",)).add_node("a", a).compile(cache=cache)
    assert [runner.invoke(graph, {"x": 1})["log"] for _ in range(2)] == [["n", 1, 2]] * 2
    assert RUNS == ["n"]


def test_a_state_of_one_value_is_found_again_with_its_edges(runner: Runner, cache: BaseCache) -> None:
    def double(state: int) -> int:
        RUNS.append(state)
        return state * 2

    RUNS.clear()
    builder: StateGraph[Any] = StateGraph(int).add_node("n", double, cache_policy=CachePolicy())
    builder.add_edge(START, "n").add_conditional_edges(
        "n", lambda state: "n" if state < 8 else END, ["n", END]
    )
    graph = builder.compile(cache=cache)
    assert [runner.invoke(graph, 1), runner.invoke(graph, 1), runner.invoke(graph, 2)] == [8, 8, 8]
    assert RUNS == [1, 2, 4]


def test_where_a_graph_below_commanded_to_go_is_found_again_as_it_was(
    runner: Runner, cache: BaseCache
) -> None:
    def leave(state: State) -> Command[Any]:
        RUNS.append("left")
        return Command(graph=Command.PARENT, update={"log": ["left"]}, goto="a")

    RUNS.clear()
    child = StateGraph(State).add_node("leave", leave).add_edge(START, "leave").compile()
    builder = (
        cached(child).add_node("a", lambda state: {"log": ["a"]}).add_node("b", lambda state: {"log": ["b"]})
    )
    graph = builder.add_conditional_edges("n", lambda state: "b", ["a", "b"]).compile(cache=cache)
    first, again = (runner.invoke(graph, {"x": 1})["log"] for _ in range(2))
    assert first == again == ["left", "a", "b"]
    assert RUNS == ["left"]


@pytest.mark.parametrize("found", [None, 7, {}, {"writes": 7, "targets": [], "final": True}], ids=repr)
def test_what_makes_no_sense_is_a_miss(runner: Runner, found: Any) -> None:
    class Foreign(InMemoryCache):
        def get(self, keys: Sequence[FullKey]) -> dict[FullKey, Any]:
            return dict.fromkeys(keys, found)

    assert runner.invoke(cached(one).compile(cache=Foreign()), {"x": 1})["y"] == "one"


def test_what_another_version_of_the_graph_left_is_a_miss(runner: Runner, cache: BaseCache) -> None:
    cached_one = cached(one).compile(cache=cache)
    assert runner.invoke(cached_one, {"x": 1}) == {"x": 1, "y": "one", "log": []}
    builder: StateGraph[Any] = StateGraph(Narrow)
    other = builder.add_node("n", one, input_schema=Narrow, cache_policy=CachePolicy()).add_edge(START, "n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `y` is no key here
        assert runner.invoke(other.compile(cache=cache), {"x": 1}) == {"x": 1}


# Keys


def test_the_order_of_the_keys_does_not_matter(runner: Runner, cache: BaseCache) -> None:
    RUNS.clear()
    builder = StateGraph(State).add_node("n", logged, cache_policy=CachePolicy())
    builder.set_conditional_entry_point(lambda state: [Send("n", state["x"])], ["n"])
    graph = builder.compile(cache=cache)
    for given in ({"x": 1, "y": 2}, {"y": 2, "x": 1}, {"x": 1, "y": {"a": 1, "b": 2}}):
        runner.invoke(graph, {"x": given})
    runner.invoke(graph, {"x": {"x": 1, "y": {"b": 2, "a": 1}}})  # here a node may see the difference
    assert len(RUNS) == 3


class Model(pydantic.BaseModel):
    x: int
    y: Any = None


def test_key_func_sees_the_input_as_the_node_does(runner: Runner, cache: BaseCache) -> None:
    seen: list[Any] = []

    def key_func(state: Model) -> bytes:
        seen.append(state)
        return bytes([state.x % 10])

    builder = StateGraph(Model).add_node(
        "n", lambda state: {"y": state.x}, cache_policy=CachePolicy(key_func=key_func)
    )
    graph = builder.add_edge(START, "n").compile(cache=cache)
    assert [runner.invoke(graph, {"x": x})["y"] for x in (1, 11, 2)] == [1, 1, 2]
    assert seen == [Model(x=1), Model(x=11), Model(x=2)]


# Graphs below


def reporting(ran: list[Any], word: str) -> Callable[[State], State]:
    def report(state: State) -> State:
        ran.append(word)
        return {"y": word}

    return report


def test_a_graph_below_uses_the_cache_around_it_unless_it_has_its_own(
    runner: Runner, cache: BaseCache, ran: list[Any]
) -> None:
    child = cached(reporting(ran, "child")).compile()
    for around in (
        StateGraph(State).add_node("c", child),
        StateGraph(State).add_node("c", lambda state: child.invoke({"x": 1})),
    ):
        graph = around.add_edge(START, "c").compile(cache=cache)
        for _ in range(2):
            runner.invoke(graph, {"x": 1})
    assert ran == ["child"]

    own = cached(reporting(ran, "own")).compile(cache=InMemoryCache())
    graph = StateGraph(State).add_node("c", own).add_edge(START, "c").compile(cache=cache)
    runner.invoke(own, {"x": 1})
    runner.invoke(graph, {"x": 1})
    assert ran == ["child", "own"]


# Questions and failures


def test_a_result_that_holds_an_answer_is_never_cached(
    runner: Runner, saver: Saver, cache: BaseCache
) -> None:
    def approve(state: State) -> State:
        return {"y": interrupt("pay?")}

    graph = cached(approve).compile(checkpointer=saver, cache=cache)
    for number, answer in enumerate((True, False)):
        config: RunnableConfig = {"configurable": {"thread_id": str(number)}}
        assert "__interrupt__" in runner.invoke(graph, {"x": 1}, config)
        assert runner.invoke(graph, Command(resume=answer), config)["y"] is answer


def test_an_answer_is_not_lost_to_a_result_that_was_cached_meanwhile(
    runner: Runner, saver: Saver, cache: BaseCache
) -> None:
    sure = [False]

    def approve(state: State) -> State:
        return {"y": "sure" if sure[0] else interrupt("pay?")}

    graph = cached(approve).compile(checkpointer=saver, cache=cache)
    first: RunnableConfig = {"configurable": {"thread_id": "1"}}
    second: RunnableConfig = {"configurable": {"thread_id": "2"}}
    runner.invoke(graph, {"x": 1}, first)
    sure[0] = True
    assert runner.invoke(graph, {"x": 1}, second)["y"] == "sure"
    sure[0] = False
    assert runner.invoke(graph, Command(resume="no"), first)["y"] == "no"


def test_a_question_asked_further_below_counts_too(runner: Runner, saver: Saver, cache: BaseCache) -> None:
    child = StateGraph(State).add_node("ask", lambda state: {"y": interrupt("?")}).add_edge(START, "ask")
    graph = cached(child.compile()).compile(checkpointer=saver, cache=cache)
    for answer in ("one", "two"):
        config: RunnableConfig = {"configurable": {"thread_id": answer}}
        assert "__interrupt__" in runner.invoke(graph, {"x": 1}, config)
        assert runner.invoke(graph, Command(resume=answer), config)["y"] == answer


def test_what_an_error_handler_makes_of_a_failure_is_not_cached(
    runner: Runner, cache: BaseCache, ran: list[Any]
) -> None:
    def fails_once(state: State) -> State:
        ran.append("n")
        if len(ran) == 1:
            raise ConnectionError
        return {"y": "result"}

    graph = cached(fails_once, error_handler=lambda state: {"y": "excuse"}).compile(cache=cache)
    assert [runner.invoke(graph, {"x": 1})["y"] for _ in range(3)] == ["excuse", "result", "result"]


def test_a_failure_that_is_to_be_handled_is_not_forgotten_for_a_cached_result(
    runner: Runner, saver: Saver, cache: BaseCache, config: RunnableConfig
) -> None:
    works = [False]

    def node(state: State) -> State:
        if not works[0]:
            raise ConnectionError
        return {"y": "result"}

    def handler(state: State) -> State:
        return {"y": f"excuse: {interrupt('which?')}"}

    graph = cached(node, error_handler=handler).compile(checkpointer=saver, cache=cache)
    assert "__interrupt__" in runner.invoke(graph, {"x": 1}, config)
    works[0] = True
    assert runner.invoke(graph, {"x": 1}, {"configurable": {"thread_id": "other"}})["y"] == "result"
    assert runner.invoke(graph, Command(resume="a good one"), config)["y"] == "excuse: a good one"


# What a cache never does to a run


class Watched(InMemoryCache):
    """A cache that may wait, and notes which threads it is called in."""

    blocking = True

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[str] = set()

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, Any]:
        self.threads.add(threading.current_thread().name)
        return super().get(keys)

    def set(self, pairs: Mapping[FullKey, tuple[Any, float | None]]) -> None:
        self.threads.add(threading.current_thread().name)
        super().set(pairs)

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        self.threads.add(threading.current_thread().name)
        super().clear(namespaces)


@pytest.mark.parametrize("stored", [False, True])
def test_a_cache_that_may_wait_keeps_no_loop_and_no_saver_waiting(saver: Saver, stored: bool) -> None:
    cache = Watched()
    graph = cached(one).compile(cache=cache, checkpointer=saver if stored else None)

    async def use() -> None:
        for number in range(2):
            config: RunnableConfig = {"configurable": {"thread_id": str(number)}}
            assert (await graph.ainvoke({"x": 1}, config))["y"] == "one"
        await graph.aclear_cache()

    asyncio.run(use())
    assert len(cache.threads) == 1
    assert cache.threads.pop().startswith("graphkit-cache")


def test_a_slow_cache_lets_the_loop_go_on(tmp_path: Path) -> None:
    asked, answered = threading.Event(), threading.Event()

    class Slow(Watched):
        def get(self, keys: Sequence[FullKey]) -> dict[FullKey, Any]:
            asked.set()
            assert answered.wait(10), "the loop stood still"
            return super().get(keys)

    graph = cached(one).compile(cache=Slow())

    async def use() -> None:
        run = asyncio.ensure_future(graph.ainvoke({"x": 1}))
        await asyncio.to_thread(asked.wait, 10)
        answered.set()
        assert (await run)["y"] == "one"

    asyncio.run(use())


def test_a_run_that_waits_for_its_cache_can_be_cancelled(saver: Saver, config: RunnableConfig) -> None:
    class Stuck(Watched):
        def get(self, keys: Sequence[FullKey]) -> dict[FullKey, Any]:
            asked.set()
            assert released.wait(10)
            return super().get(keys)

    asked, released = threading.Event(), threading.Event()
    graph = cached(one).compile(cache=Stuck(), checkpointer=saver)

    async def use() -> None:
        run = asyncio.ensure_future(graph.ainvoke({"x": 1}, config))
        await asyncio.to_thread(asked.wait, 10)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        released.set()
        assert (await graph.ainvoke(None, config))["y"] == "one"

    asyncio.run(use())


def test_a_cache_with_async_forms_of_its_own_is_called_by_them() -> None:
    class Remote(Watched):
        async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, Any]:
            await asyncio.sleep(0)
            return super().get(keys)

        async def aset(self, pairs: Mapping[FullKey, tuple[Any, float | None]]) -> None:
            await asyncio.sleep(0)
            super().set(pairs)

    cache = Remote()
    graph = cached(one).compile(cache=cache)
    assert [asyncio.run(graph.ainvoke({"x": 1}))["y"] for _ in range(2)] == ["one", "one"]
    assert cache.threads == {threading.current_thread().name}


class Unstorable:
    pass


def test_a_value_that_cannot_be_stored_is_warned_of_once(runner: Runner, cache: BaseCache) -> None:
    values = iter("abc")

    def node(state: State) -> State:
        return {"x": 1, "y": (next(values), Unstorable())}

    graph = cached(node).compile(cache=cache)
    with pytest.warns(RuntimeWarning, match=r"'n'.*'y'.*Unstorable") as caught:
        assert [runner.invoke(graph, {"x": 1})["y"][0] for _ in range(3)] == ["a", "b", "c"]
    assert len(caught) == 1


def test_an_input_that_cannot_be_stored_is_warned_of_once(runner: Runner, cache: BaseCache) -> None:
    graph = cached(lambda state: {"y": "done"}).compile(cache=cache)
    with pytest.warns(RuntimeWarning, match=r"'n'.*'x'.*Unstorable.*key_func") as caught:
        assert [runner.invoke(graph, {"x": Unstorable()})["y"] for _ in range(3)] == ["done"] * 3
    assert len(caught) == 1


def test_without_a_cache_nothing_has_to_be_storable(runner: Runner) -> None:
    assert runner.invoke(cached(one).compile(), {"x": Unstorable()})["y"] == "one"


def raising(state: Any) -> str:
    raise LookupError("no key today")


@pytest.mark.parametrize(
    ("key_func", "said"),
    [(lambda state: 7, "int"), (lambda state: None, "NoneType"), (raising, "no key today")],
    ids=["a number", "nothing", "an error"],
)
def test_a_key_func_that_gives_no_key_is_warned_of_once(
    runner: Runner, cache: BaseCache, key_func: Any, said: str
) -> None:
    graph = cached(one, CachePolicy(key_func=key_func)).compile(cache=cache)
    with pytest.warns(RuntimeWarning, match=rf"key_func.*'n'.*{said}") as caught:
        assert [runner.invoke(graph, {"x": 1})["y"] for _ in range(3)] == ["one"] * 3
    assert len(caught) == 1


@pytest.mark.parametrize("call", ["get", "set"])
def test_a_cache_that_fails_is_warned_of_once(runner: Runner, call: str) -> None:
    class Failing(InMemoryCache):
        pass

    def fail(self: Any, *args: Any) -> Any:
        raise StorageBusyError("locked")

    setattr(Failing, call, fail)
    graph = cached(one).compile(cache=Failing())
    with pytest.warns(RuntimeWarning, match=r"'n'.*locked") as caught:
        assert [runner.invoke(graph, {"x": 1})["y"] for _ in range(3)] == ["one"] * 3
    assert len(caught) == 1


# Clearing


def clear(runner: Runner, graph: Any, nodes: Sequence[str] | None = None) -> None:
    if runner.colour == "sync":
        graph.clear_cache(nodes)
    else:
        asyncio.run(graph.aclear_cache(nodes))


def two_cached(cache: BaseCache | None) -> Any:
    builder: StateGraph[Any] = StateGraph(State)
    for name in ("a", "b"):
        builder.add_node(name, functools.partial(_reporting, name), cache_policy=CachePolicy())
        builder.add_edge(START, name)
    return builder.compile(cache=cache)


REPORTS: list[str] = []


def _reporting(name: str, state: State) -> State:
    REPORTS.append(name)
    return {"log": [name]}


def reports(runner: Runner, graph: Any) -> list[str]:
    """Which nodes really run."""
    REPORTS.clear()
    runner.invoke(graph, {"x": 1})
    return sorted(REPORTS)


def test_the_cached_results_of_a_graph_can_be_cleared(runner: Runner, cache: BaseCache) -> None:
    graph, other = two_cached(cache), cached(one).compile(cache=cache)
    assert reports(runner, graph) == ["a", "b"]
    assert reports(runner, graph) == []
    clear(runner, graph, ["b"])
    assert reports(runner, graph) == ["b"]
    clear(runner, graph, [])
    clear(runner, other)
    assert reports(runner, graph) == []
    clear(runner, graph)
    assert reports(runner, graph) == ["a", "b"]


def test_clearing_reaches_the_graphs_below(runner: Runner, cache: BaseCache) -> None:
    below = StateGraph(State).add_node("deep", two_cached(None)).add_edge(START, "deep").compile()
    graph = StateGraph(State).add_node("below", below).add_edge(START, "below").compile(cache=cache)
    reports(runner, graph)
    assert reports(runner, graph) == []
    clear(runner, graph, ["below"])
    assert reports(runner, graph) == ["a", "b"]
    clear(runner, graph)
    assert reports(runner, graph) == ["a", "b"]


def test_clearing_needs_a_cache_and_nodes_of_the_graph(runner: Runner, cache: BaseCache) -> None:
    with pytest.raises(ValueError, match=r"compile\(cache="):
        clear(runner, cached(one).compile())
    with pytest.raises(ValueError, match="'m'"):
        clear(runner, cached(one).compile(cache=cache), ["n", "m"])
