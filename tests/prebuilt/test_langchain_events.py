"""What LangChain's callbacks hear of a run, and `astream_events`, which is made of it (L24, L30)."""

from __future__ import annotations

import asyncio
import json
import operator
import sys
from typing import Annotated, Any, TypedDict
from uuid import uuid4

import pytest

pytest.importorskip("langchain_core")

from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler, adispatch_custom_event
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool as langchain_tool

from graphkit import END, START, Command, MessagesState, Send, StateGraph, entrypoint, interrupt, task
from graphkit.checkpoint.memory import InMemorySaver
from graphkit.errors import GraphInterrupt
from graphkit.prebuilt import ToolNode, create_react_agent
from graphkit.types import RunnableConfig
from tests.conftest import Runner
from tests.prebuilt.test_langchain import calling, scripted


class Log(TypedDict):
    log: Annotated[list[Any], operator.add]


def writes(word: str) -> Any:
    def node(state: Log) -> Any:
        return {"log": [word]}

    return node


def chain(**nodes: Any) -> StateGraph:
    return StateGraph(Log).add_sequence([*nodes.items()]).add_edge(START, next(iter(nodes)))


def events(graph: Any, given: Any, config: Any = None, **options: Any) -> list[Any]:
    async def collect() -> list[Any]:
        return [event async for event in graph.astream_events(given, config, version="v2", **options)]

    return asyncio.run(collect())


def outline(found: list[Any]) -> list[tuple[str, str, int]]:
    """Event, name and depth of each."""
    return [(event["event"], event["name"], len(event["parent_ids"])) for event in found]


@langchain_tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def double(word: str) -> str:
    """Double."""
    return word * 2


class Heard(BaseCallbackHandler):
    """Everything as (what, name, name of what is around)."""

    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self.found: list[tuple[Any, ...]] = []

    def on_chain_start(
        self,
        serialized: Any,
        inputs: Any,
        *,
        run_id: Any,
        parent_run_id: Any = None,
        name: str = "",
        **more: Any,
    ) -> None:
        self.names[run_id] = name
        self.found.append(("start", name, self.names.get(parent_run_id), inputs))

    def on_chain_end(self, outputs: Any, *, run_id: Any, **more: Any) -> None:
        self.found.append(("end", self.names[run_id], outputs))

    def on_chain_error(self, error: BaseException, *, run_id: Any, **more: Any) -> None:
        self.found.append(("error", self.names[run_id], type(error)))


# --- Callbacks ----------------------------------------------------------------------------------------------


def test_a_run_and_its_nodes_are_chains(runner: Runner) -> None:
    heard = Heard()
    graph = chain(one=writes("1"), two=writes("2")).compile(name="pair")
    runner.invoke(graph, {"log": []}, {"callbacks": [heard]})
    assert heard.found == [
        ("start", "pair", None, {"log": []}),
        ("start", "one", "pair", {"log": []}),
        ("end", "one", {"log": ["1"]}),
        ("start", "two", "pair", {"log": ["1"]}),
        ("end", "two", {"log": ["2"]}),
        ("end", "pair", {"log": ["1", "2"]}),
    ]


def test_async_handlers_hear_both_colours(runner: Runner) -> None:
    names: list[Any] = []

    class Handler(AsyncCallbackHandler):
        async def on_chain_start(self, *given: Any, name: str = "", **more: Any) -> None:
            names.append(name)

    runner.invoke(chain(one=writes("1")).compile(), {"log": []}, {"callbacks": [Handler()]})
    assert names == ["LangGraph", "one"]  # as LangGraph calls a graph without a name


def test_handlers_hear_whatever_else_of_langchain_is_loaded(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    import graphkit.langchain  # noqa: F401  # it is loaded as a rule, and then with all that it needs

    monkeypatch.delitem(sys.modules, "langchain_core.runnables.config")
    heard = Heard()
    runner.invoke(chain(one=writes("1")).compile(), {"log": []}, {"callbacks": [heard]})
    assert [(what, name) for what, name, *_ in heard.found] == [
        ("start", "LangGraph"),
        ("start", "one"),
        ("end", "one"),
        ("end", "LangGraph"),
    ]


def test_handlers_from_everywhere_hear_together(runner: Runner) -> None:
    bound, given, inside = Heard(), Heard(), Heard()
    inner = chain(leaf=writes("leaf")).compile(name="inner")

    def node(state: Log) -> Any:
        return inner.invoke({"log": []}, {"callbacks": [inside]})

    graph = chain(node=node).compile(name="outer").with_config(callbacks=[bound])
    runner.invoke(graph, {"log": []}, {"callbacks": [given]})
    starts = [("outer", None), ("node", "outer"), ("inner", "node"), ("leaf", "inner")]
    for heard in (bound, given):
        assert [(name, around) for what, name, around, *_ in heard.found if what == "start"] == starts
    assert [name for what, name, *_ in inside.found if what == "start"] == ["inner", "leaf"]


def test_a_state_that_is_changed_is_no_run_of_a_node(runner: Runner, config: RunnableConfig) -> None:
    graph = chain(one=writes("1")).compile(checkpointer=InMemorySaver())
    heard = Heard()
    runner.update_state(graph, {**config, "callbacks": [heard]}, {"log": ["mine"]}, "one")
    assert heard.found == []


@pytest.mark.parametrize("side_by_side", [False, True])
def test_a_node_that_is_cancelled_is_heard_of(side_by_side: bool) -> None:
    heard, nodes = Heard(), ["one", "two"] if side_by_side else ["one"]
    begun: list[str] = []

    async def run() -> None:
        running = asyncio.Event()

        def waits(name: str) -> Any:
            async def node(state: Log) -> None:
                begun.append(name)
                if len(begun) == len(nodes):
                    running.set()
                await asyncio.Event().wait()

            return node

        builder = StateGraph(Log)
        for name in nodes:
            builder.add_node(name, waits(name)).add_edge(START, name)
        turn = asyncio.create_task(builder.compile().ainvoke({"log": []}, {"callbacks": [heard]}))
        await running.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    asyncio.run(run())
    ends = [("error", name, asyncio.CancelledError) for name in (*nodes, "LangGraph")]
    assert [each for each in heard.found if each[0] != "start"] == ends


def test_a_graph_inside_is_inside_its_node(runner: Runner) -> None:
    heard = Heard()
    inner = chain(leaf=writes("leaf")).compile(name="inner")

    class Calls:
        def invoke(self, state: Log) -> Any:
            return inner.invoke(state)

        async def ainvoke(self, state: Log) -> Any:
            return await inner.ainvoke(state)

    graph = chain(as_node=inner, called=Calls()).compile(name="outer")
    runner.invoke(graph, {"log": []}, {"callbacks": [heard], "run_id": uuid4(), "run_name": "mine"})
    assert [told[:3] for told in heard.found if told[0] == "start"] == [
        ("start", "mine", None),
        ("start", "as_node", "mine"),
        ("start", "inner", "as_node"),
        ("start", "leaf", "inner"),
        ("start", "called", "mine"),
        ("start", "inner", "called"),
        ("start", "leaf", "inner"),
    ]


def test_a_task_is_inside_its_caller(runner: Runner) -> None:
    heard = Heard()

    @task
    def increment(number: int) -> int:
        return number + 1

    @entrypoint()
    def flow(number: int) -> int:
        return increment(number).result()

    assert runner.invoke(flow, 1, {"callbacks": [heard]}) == 2
    starts = [told[:3] for told in heard.found if told[0] == "start"]
    assert starts == [("start", "flow", None), ("start", "flow", "flow"), ("start", "increment", "flow")]
    assert heard.found[-1] == ("end", "flow", 2)


def test_an_error_and_a_question_end_what_they_are_in(runner: Runner, config: RunnableConfig) -> None:
    def asks(state: Log) -> Any:
        return {"log": [interrupt("?")]}

    def fails(state: Log) -> Any:
        raise KeyError("gone")

    heard = Heard()
    graph = chain(asks=asks, fails=fails).compile(checkpointer=InMemorySaver(), name="g")
    traced: Any = {**config, "callbacks": [heard]}
    runner.invoke(graph, {"log": []}, traced)
    assert heard.found[2:] == [("error", "asks", GraphInterrupt), ("end", "g", {"log": []})]
    heard.found.clear()
    with pytest.raises(KeyError):
        runner.invoke(graph, Command(resume="!"), traced)
    assert [told[:2] for told in heard.found] == [
        ("start", "g"),
        ("start", "asks"),
        ("end", "asks"),
        ("start", "fails"),
        ("error", "fails"),
        ("error", "g"),
    ]


def test_a_handler_that_may_not_fail_fails_the_node(runner: Runner) -> None:
    class Handler(BaseCallbackHandler):
        raise_error = True

        def on_chain_end(self, outputs: Any, *, parent_run_id: Any = None, **more: Any) -> None:
            raise ValueError("no room for it")

    with pytest.raises(ValueError, match="no room"):
        runner.invoke(chain(one=writes("1")).compile(), {"log": []}, {"callbacks": [Handler()]})


# --- Events -------------------------------------------------------------------------------------------------


def test_nodes_models_and_tools_tell_of_themselves() -> None:
    model = scripted(calling(("add", {"a": 1, "b": 2}), ("double", {"word": "x"})), AIMessage("done"))
    model = model.model_copy(update={"disable_streaming": True})  # it cannot stream calls
    found = events(create_react_agent(model, [add, double]), {"messages": [HumanMessage("go")]})
    kinds = {(event["event"], event["name"], event["metadata"].get("langgraph_node")) for event in found}
    model_name = type(model).__name__
    for kind in ("start", "stream", "end"):
        assert {
            (f"on_chain_{kind}", "LangGraph", None),
            (f"on_chain_{kind}", "agent", "agent"),
            (f"on_chain_{kind}", "tools", "tools"),
        } <= kinds
    assert {(f"on_chat_model_{kind}", model_name, "agent") for kind in ("start", "end")} <= kinds
    tools = {event["name"]: event["data"] for event in found if event["event"] == "on_tool_end"}
    assert {name: (data["input"], data["output"].content) for name, data in tools.items()} == {
        "add": ({"a": 1, "b": 2}, "3"),
        "double": ({"word": "x"}, "xx"),
    }
    assert all(event["metadata"]["langgraph_node"] == "tools" for event in found if "tool_" in event["event"])
    assert [message.content for message in found[-1]["data"]["output"]["messages"]][-1] == "done"


def test_tokens_are_events() -> None:
    graph = create_react_agent(scripted(AIMessage("one two")), [])
    found = events(graph, {"messages": [HumanMessage("go")]})
    tokens = [event for event in found if event["event"] == "on_chat_model_stream"]
    assert "".join(event["data"]["chunk"].content for event in tokens) == "one two"
    assert {event["metadata"]["langgraph_node"] for event in tokens} == {"agent"}
    assert {event["metadata"]["checkpoint_ns"].split(":")[0] for event in tokens} == {"agent"}


def test_the_calls_of_a_tool_node_are_inside_it() -> None:
    graph = (
        StateGraph(MessagesState)
        .add_node("tools", ToolNode([add, double]))
        .add_edge(START, "tools")
        .compile()
    )
    said = calling(("add", {"a": 1, "b": 2}), ("double", {"word": "x"}))
    found = events(graph, {"messages": [said]}, include_types=["tool"])
    assert sorted(outline(found)) == [
        (f"on_tool_{kind}", name, 2) for kind in ("end", "start") for name in ("add", "double")
    ]
    assert {event["metadata"]["langgraph_node"] for event in found} == {"tools"}


def test_a_node_streams_what_it_returns() -> None:
    graph = chain(one=writes("1")).compile()
    found = events(graph, {"log": []}, {"tags": ["mine"], "metadata": {"user": "ada"}})
    assert outline(found) == [
        ("on_chain_start", "LangGraph", 0),
        ("on_chain_start", "one", 1),
        ("on_chain_stream", "one", 1),
        ("on_chain_end", "one", 1),
        ("on_chain_stream", "LangGraph", 0),
        ("on_chain_end", "LangGraph", 0),
    ]
    assert all("mine" in event["tags"] and event["metadata"]["user"] == "ada" for event in found)
    assert [event["data"]["chunk"] for event in found if "chunk" in event["data"]] == [
        {"log": ["1"]},
        {"one": {"log": ["1"]}},
    ]


def test_events_of_ones_own_and_those_that_are_chosen() -> None:
    async def node(state: Log, config: RunnableConfig) -> Any:
        await adispatch_custom_event("progress", {"done": 0.5}, config=config)
        return {"log": ["1"]}

    graph = chain(one=node, two=writes("2")).compile(name="g")
    found = events(graph, {"log": []}, include_names=["progress", "two"])
    assert (found[0]["event"], found[0]["data"]["done"]) == ("on_custom_event", 0.5)
    assert {event["name"] for event in found} == {"progress", "two"}


def test_a_question_is_a_chunk_and_the_end_of_the_run(config: RunnableConfig) -> None:
    def asks(state: Log) -> Any:
        return {"log": [interrupt("?")]}

    graph = chain(asks=asks).compile(checkpointer=InMemorySaver())
    *_, chunk, end = events(graph, {"log": []}, config)
    assert chunk["data"]["chunk"]["__interrupt__"][0].value == "?"
    assert (end["event"], end["data"]["output"]) == ("on_chain_end", {"log": []})
    assert events(graph, Command(resume="!"), config)[-1]["data"]["output"] == {"log": ["!"]}


def test_who_stops_listening_ends_the_run(config: RunnableConfig) -> None:
    graph = chain(one=writes("1"), two=writes("2")).compile(checkpointer=InMemorySaver())

    async def leave() -> Any:
        told = graph.astream_events({"log": []}, config)
        async for event in told:
            if event["name"] == "one":
                break
        await told.aclose()  # type: ignore[attr-defined]  # of a generator
        return await graph.ainvoke({"log": ["again"]}, config)

    assert asyncio.run(leave())["log"][-3:] == ["again", "1", "2"]


def test_each_task_of_a_fan_out_is_told_of() -> None:
    def fan(state: Log) -> list[Send]:
        return [Send("w", {"log": [number]}) for number in range(3)]

    builder = StateGraph(Log).add_node("w", lambda state: {"log": state["log"]})
    graph = builder.add_conditional_edges(START, fan, ["w"]).add_edge("w", END).compile()
    ends = [event for event in events(graph, {"log": []}) if event["event"] == "on_chain_end"]
    assert sorted(event["data"]["output"]["log"] for event in ends) == [[0], [0, 1, 2], [1], [2]]


# --- Runnables ----------------------------------------------------------------------------------------------


def test_a_graph_between_functions_and_runnables(runner: Runner) -> None:
    graph = chain(one=writes("1")).compile()

    def wrapped(word: str) -> Any:
        return {"log": [word]}

    def last(state: Any) -> Any:
        return state["log"][-1]

    left = RunnableLambda(wrapped) | graph.as_runnable()
    for sequence in (
        wrapped | graph | last,
        left | last,
        wrapped | (chain(zero=writes("0")).compile() | graph) | last,
        {"log": RunnableLambda(lambda word: [word])} | graph | last,
    ):
        assert runner.invoke(sequence, "0") == "1"


def test_without_langchain_it_is_said_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "graphkit.runnable", raising=False)
    monkeypatch.setitem(sys.modules, "langchain_core.runnables", None)
    with pytest.raises(ImportError, match="pip install langchain-core"):
        chain(one=writes("1")).compile().as_runnable()


@pytest.mark.filterwarnings("ignore:This API is in beta")
def test_a_graph_as_a_tool_of_langchain(runner: Runner) -> None:
    graph = StateGraph(Log, input_schema=Log).add_node("one", writes("1")).add_edge(START, "one").compile()
    made = graph.as_tool(name="count", description="Counts.", arg_types={"log": list})
    assert (made.name, runner.invoke(made, {"log": ["0"]})) == ("count", {"log": ["0", "1"]})


@pytest.mark.filterwarnings("ignore:This API is in beta")
def test_a_graph_among_the_tools_of_an_agent(runner: Runner) -> None:
    counts = StateGraph(Log).add_node("one", writes("1")).add_edge(START, "one").compile(name="counts")
    model = scripted(calling(("counts", {"log": ["0"]})), AIMessage("done"))
    result = runner.invoke(create_react_agent(model, [counts]), {"messages": [HumanMessage("go")]})
    assert json.loads(result["messages"][2].content) == {"log": ["0", "1"]}


def test_a_graph_that_is_tried_again(runner: Runner) -> None:
    attempts: list[int] = []

    def flaky(state: Log) -> Any:
        attempts.append(1)
        if len(attempts) < 3:
            raise ValueError("not yet")
        return {"log": ["there"]}

    options = {"stop_after_attempt": 3, "wait_exponential_jitter": False}
    graph = chain(flaky=flaky).compile().with_retry(**options)
    assert runner.invoke(graph, {"log": []}) == {"log": ["there"]}
