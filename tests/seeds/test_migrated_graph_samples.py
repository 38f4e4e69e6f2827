"""The samples for LangGraph as the seed has them, moved over by `python -m graphkit.migrate`: each runs.

What a sample takes from around it ("add the node to the graph in an appropriate location") is given to it under the
names it uses, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, TypedDict

import pytest

from graphkit import START, Command, StateGraph
from graphkit.checkpoint.memory import InMemorySaver
from graphkit.types import interrupt
from tests.agents.llm_server import Reply, Serve, serving
from tests.seeds.conftest import SAMPLES, Sample

CONFIG: Any = {"configurable": {"thread_id": "some_id"}}


class State(TypedDict, total=False):
    some_text: str
    llm_output: str
    llm_generated_summary: str
    age: Any
    taken: list[str]


class Running(StateGraph[Any]):
    """A builder whose graph has been run until it asked, where a sample goes on from there."""

    def compile(self, *args: Any, **options: Any) -> Any:
        graph = super().compile(*args, **options)
        graph.invoke({"llm_output": "draft", "llm_generated_summary": "a summary"}, CONFIG)
        return graph


def around(entry: str, node: Callable[..., Any] | None = None, builder: Any = StateGraph) -> dict[str, Any]:
    """What stands around a sample whose graph begins with `entry`; without `node` it adds that one itself."""
    graph_builder = builder(State).add_edge(START, entry)
    if node is not None:
        graph_builder.add_node(entry, node)
    return {"State": State, "graph_builder": graph_builder, "checkpointer": InMemorySaver()}


def played(entry: str, node: Callable[..., Any]) -> Any:
    """A graph of one node of a sample."""
    return StateGraph(State).add_node(entry, node).add_edge(START, entry).compile(InMemorySaver())


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    pytest.importorskip("pydantic_ai")
    with serving(monkeypatch) as start:
        yield start


def test_graph_pause(sample: Sample, capsys: pytest.CaptureFixture[str]) -> None:
    found = sample(**around("human_node", sample.later("human_node")))
    assert found["result"]["__interrupt__"][0].value == {"text_to_revise": "original text"}
    assert capsys.readouterr().out.endswith("{'some_text': 'Edited text'}\n")


def test_graph_resume(sample: Sample) -> None:
    graph = played("ask", lambda state: {"age": interrupt("Who are you?")})
    graph.invoke({}, CONFIG)
    sample(graph=graph, thread_config=CONFIG, Command=Command)
    assert graph.get_state(CONFIG).values == {"age": {"age": "25"}}


def test_graph_several_questions(sample: Sample, capsys: pytest.CaptureFixture[str]) -> None:
    """It reads the questions of `parent` under `thread_config`, by which it means `graph` under `config`."""
    pytest.importorskip("langchain_core")
    parent = SimpleNamespace(get_state=lambda config: sample.names["graph"].get_state(sample.names["config"]))
    sample(parent=parent, thread_config=None)
    asked = ["{'text_to_revise': 'original text 1'}", "{'text_to_revise': 'original text 2'}"]
    said = {f"text_{n}": f"human input for prompt {question}" for n, question in enumerate(asked, 1)}
    assert capsys.readouterr().out == f"{said}\n"


def test_graph_approve_or_reject(sample: Sample) -> None:
    names = around("human_approval", builder=Running)
    for node in ("some_node", "another_node"):
        names["graph_builder"].add_node(node, lambda state, node=node: {"taken": [node]})
    found = sample(**names)
    assert found["graph"].get_state(CONFIG).values["taken"] == ["some_node"]


def test_graph_edit_state(sample: Sample) -> None:
    found = sample(**around("human_editing", builder=Running), Command=Command)
    assert found["graph"].get_state(CONFIG).values["llm_generated_summary"] == "The edited text"


HOTEL = Reply(tools=[("book_hotel", {"hotel_name": "McKittrick hotel"}, "call_1")])


def test_graph_review_tool_calls(serve: Serve, sample: Sample, capsys: pytest.CaptureFixture[str]) -> None:
    server = serve(HOTEL, Reply(text="It is booked."))
    sample()
    said = capsys.readouterr().out
    assert "Trying to call `book_hotel` with args {'hotel_name': McKittrick hotel}" in said
    assert "Successfully booked a stay at McKittrick hotel." in said and "It is booked." in said
    assert len(server.seen) == 2


def test_graph_any_tool(serve: Serve, sample: Sample, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("langchain_core")
    server = serve(HOTEL, Reply(text="It is booked."))
    sample()
    said = capsys.readouterr().out
    assert "Please review the tool call" in said
    assert "Successfully booked a stay at McKittrick hotel." in said and "It is booked." in said
    assert len(server.seen) == 2


def test_graph_validate(sample: Sample, capsys: pytest.CaptureFixture[str]) -> None:
    graph = played("human_node", sample(State=State)["human_node"])
    graph.invoke({}, CONFIG)
    (question,) = graph.invoke(Command(resume="young"), CONFIG)["__interrupt__"]
    assert question.value == "'young is not a valid age. What is your age?"
    assert graph.invoke(Command(resume=25), CONFIG)["age"] == 25
    assert capsys.readouterr().out == "The human in the loop is 25 years old.\n"


def test_graph_breakpoints(sample: Sample) -> None:
    def taking(name: str) -> tuple[str, Callable[[State], State]]:
        return name, lambda state: {"taken": [*state["taken"], name]}

    builder = StateGraph(State).add_sequence([taking(name) for name in ("node_a", "node_b", "node_c")])
    builder.add_edge(START, "node_a")
    found = sample(
        graph_builder=builder, checkpointer=InMemorySaver(), inputs={"taken": []}, thread_config=CONFIG
    )
    state = found["graph"].get_state(CONFIG)
    assert (state.values["taken"], state.next) == (["node_a", "node_b"], ("node_c",))


def test_graph_side_effects(sample: Sample) -> None:
    called: list[Any] = []
    names = sample(State=State, question="Who?", api_call=called.append)
    graph = played("human_node", names["human_node"])
    graph.invoke({}, CONFIG)
    graph.invoke(Command(resume="me"), CONFIG)
    assert called == ["me"]


def test_graph_subgraph_as_function(sample: Sample) -> None:
    ran: list[str] = []
    child = (
        StateGraph(State).add_node("ask", lambda state: {"age": interrupt("How old?")}).add_edge(START, "ask")
    )
    names = sample(State=State, some_code=lambda: ran.append("code"), subgraph=child.compile(), some_input={})
    graph = played("node_in_parent_graph", names["node_in_parent_graph"])
    assert graph.invoke({}, CONFIG)["__interrupt__"][0].value == "How old?"
    assert "__interrupt__" not in graph.invoke(Command(resume=36), CONFIG)
    assert ran == ["code", "code"]


def test_every_sample_is_run() -> None:
    assert {each.stem for each in SAMPLES.glob("graph_*")} == {
        name.removeprefix("test_") for name in globals() if name.startswith("test_graph_")
    }
