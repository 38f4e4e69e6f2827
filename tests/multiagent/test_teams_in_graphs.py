"""An orchestrator as a node of a plain `StateGraph`, with its questions passing through."""

from typing import Any, TypedDict

import pytest

from graphkit import StateGraph
from graphkit.errors import InvalidPromptError
from graphkit.graph import END, START, MessagesState
from graphkit.multiagent import Graph
from graphkit.session import FileSessionManager
from graphkit.types import Command, RunnableConfig, interrupt
from tests.conftest import Reopen, Runner, Saver
from tests.multiagent.teams import Scripts

GO: Any = {"messages": [{"role": "user", "content": "go"}]}


class Task(TypedDict, total=False):
    task: str
    found: str


def team(scripts: Scripts, **options: Any) -> Graph:
    def ask(task: Any) -> str:
        return f"told {interrupt('what?')}"

    nodes = {"a": scripts.agent("a", "looked", "looked again"), "ask": ask}
    return Graph(nodes, [("a", "ask")], id="team", **options)


def test_a_question_in_it_is_one_of_the_graph(
    runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig, scripts: Scripts
) -> None:
    """Nothing that has finished runs again, in a new process too."""

    def build(saver: Saver) -> Any:
        builder = StateGraph(MessagesState).add_node("team", team(scripts))
        return builder.add_edge(START, "team").add_edge("team", END).compile(checkpointer=saver)

    [question] = runner.run(build(saver), GO, config).interrupts
    assert (question.value, question.node) == ("what?", "ask") and question.namespace.startswith("team:")
    end = runner.run(build(reopen(saver)), Command(resume={question.id: "this"}), config)
    assert end.value["messages"][-1]["content"] == [{"text": "a: looked\nask: told this"}]
    assert scripts.calls == {"a": 1}
    assert scripts.prompt("a") == ["go"]


def test_a_turn_that_fails_says_why(runner: Runner, scripts: Scripts) -> None:
    made = Graph(
        {"a": scripts.agent("a", "looked"), "b": scripts.agent("b", "x")}, [("a", "b")], max_node_executions=1
    )
    graph = StateGraph(MessagesState).add_node("team", made).add_edge(START, "team").compile()
    told = runner.run(graph, GO).value["messages"][-1]["content"]
    assert told == [
        {"text": "a: looked"},
        {"text": "The turn failed: the limit of 1 node executions was reached"},
    ]


def test_any_state_by_two_functions(runner: Runner, scripts: Scripts) -> None:
    node = Graph({"a": scripts.agent("a", "looked")}).as_node(
        prompt=lambda state: state["task"], update=lambda result: {"found": str(result.results["a"]).strip()}
    )
    graph = StateGraph(Task).add_node("team", node).add_edge(START, "team").compile()
    assert runner.run(graph, {"task": "find it"}).value == {"task": "find it", "found": "looked"}
    assert scripts.prompt("a") == ["find it"]


def test_what_cannot_be_a_node(runner: Runner, scripts: Scripts, tmp_path: Any) -> None:
    made = Graph({"a": scripts.agent("a", "looked")}, id="team")
    graph = StateGraph(Task).add_node("team", made).add_edge(START, "team").compile()
    with pytest.raises(InvalidPromptError, match=r"orchestrator 'team'.*no 'messages'.*as_node\(prompt="):
        runner.run(graph, {"task": "find it"})
    with pytest.raises(ValueError, match=r"as_node\(prompt="):
        made.as_node(preserve_context=True)
    with pytest.raises(ValueError, match="session of its own"):
        team(scripts, session_manager=FileSessionManager("s", tmp_path)).as_node()
