"""`agent.graph`: the agent as the graph that it is, to look at, to stop in, and to go back in."""

from typing import Any

import pytest

from graphkit import Agent, StateGraph, tool
from graphkit.checkpoint.memory import InMemorySaver
from graphkit.compiled import CompiledGraph
from graphkit.constants import END, START
from graphkit.graph import MessagesState
from graphkit.hooks import BeforeToolCallEvent, MessageAddedEvent, ModelStreamUpdateEvent
from graphkit.models import ModelRequest, ToolCall
from graphkit.types import Command
from tests.agents.conftest import agent_of
from tests.conftest import Runner

HERE: Any = {"configurable": {"thread_id": "t"}}
PROMPT: Any = {"messages": [{"role": "user", "content": [{"text": "go"}]}]}


class Adds:
    """Counts how often its tool has run."""

    def __init__(self) -> None:
        self.ran: list[tuple[int, int]] = []

    @tool
    def add(self, a: int, b: int) -> int:
        """Add."""
        self.ran.append((a, b))
        return a + b


def repeats(request: ModelRequest) -> str:
    """What the tool has said, as the model's last word."""
    results = [block["toolResult"]["content"][0]["text"] for block in request.messages[-1]["content"]]
    return ",".join(results)


TWO_CALLS = [ToolCall("add", {"a": 1, "b": 2}, id="x"), ToolCall("add", {"a": 3, "b": 4}, id="y")]


@pytest.fixture
def adds() -> Adds:
    return Adds()


def adding(adds: Adds, saver: Any = None, **options: Any) -> Agent:
    return agent_of(TWO_CALLS, repeats, tools=[adds.add], checkpointer=saver, **options)


def texts(agent: Agent, thread_id: str = "t") -> list[str]:
    return [
        block["text"] if "text" in block else next(iter(block))
        for message in agent.thread(thread_id).messages
        for block in message["content"]
    ]


# --- Looking --------------------------------------------------------------------------------------------


def test_history_shows_every_call_as_a_task(saver: Any, runner: Runner, adds: Adds) -> None:
    agent = adding(adds, saver)
    agent("go", thread_id="t")
    history = runner.history(agent.graph, HERE)
    assert [[task.name for task in snapshot.tasks] for snapshot in reversed(history)][-4:] == [
        ["model"],
        ["tools", "tools"],
        ["model"],
        [],
    ]
    assert [len(snapshot.values.get("messages", ())) for snapshot in history][:3] == [4, 3, 2]
    state = runner.get_state(agent.graph, HERE)
    assert state.values["messages"] == agent.thread("t").messages
    assert state.values["outcome"] == {"stop_reason": "end_turn"}


def test_tasks_are_streamed_by_the_graphs_own_modes(runner: Runner, adds: Adds) -> None:
    agent = adding(adds)
    started = [
        chunk["name"]
        for chunk in runner.stream(agent.graph, PROMPT, HERE, stream_mode="tasks")
        if "input" in chunk
    ]
    assert started == ["before", "model", "tools", "tools", "model"]
    assert texts(agent) == ["go", "toolUse", "toolUse", "toolResult", "toolResult", "3,7"]


def spoken(chunks: list[Any]) -> list[list[Any]]:
    """What stream mode "messages" has shown, message by message."""
    messages: dict[Any, list[Any]] = {}
    for number, (message, metadata) in enumerate(chunks):
        assert metadata["langgraph_node"] == "model"
        (block,) = message["content"]
        messages.setdefault(message.get("id", number), []).append(block.get("text", next(iter(block))))
    return list(messages.values())


@pytest.mark.parametrize("watched", [False, True], ids=["unwatched", "watched"])
def test_messages_mode_shows_the_models_answers_part_by_part(
    runner: Runner, adds: Adds, watched: bool
) -> None:
    """L24: token by token, the calls of tools when they are complete, and nothing again when the whole is there."""
    streamed = [
        {"messageStart": {"role": "assistant"}},
        *({"contentBlockDelta": {"delta": {"text": text}}} for text in ("all ", "of ", "it")),
        {"messageStop": {"stopReason": "end_turn"}},
    ]
    agent = agent_of(["so: ", *TWO_CALLS], streamed, tools=[adds.add])
    if watched:
        agent.add_hook(lambda event: None, ModelStreamUpdateEvent)
    shown = runner.stream(agent.graph, PROMPT, HERE, stream_mode="messages")
    first, second = spoken(shown)
    assert "".join(first[:-2]) == "so: "
    assert (first[-2:], second) == (["toolUse", "toolUse"], ["all ", "of ", "it"])
    assert texts(agent)[-1] == "all of it"


def test_messages_mode_shows_what_a_hook_has_made_of_an_answer(runner: Runner) -> None:
    def shout(event: MessageAddedEvent) -> None:
        if event.message["role"] == "assistant":
            event.message["content"][0]["text"] = event.message["content"][0]["text"].upper()

    agent = agent_of("quiet")
    agent.add_hook(shout, MessageAddedEvent)
    shown = runner.stream(agent.graph, PROMPT, HERE, stream_mode="messages")
    assert "".join(part for said in spoken(shown)[:-1] for part in said) == "quiet"
    assert spoken(shown)[-1] == ["QUIET"]


def test_messages_of_an_agent_inside_a_graph(runner: Runner) -> None:
    agent = agent_of("hello there")
    builder = StateGraph(MessagesState).add_node("agent", agent.graph).add_edge(START, "agent")
    around = builder.compile(checkpointer=InMemorySaver())
    chunks = runner.stream(around, PROMPT, HERE, stream_mode="messages", subgraphs=True)
    assert "".join(part for said in spoken([chunk for _, chunk in chunks]) for part in said) == "hello there"


def test_it_can_be_drawn(adds: Adds) -> None:
    drawn = adding(adds).graph.get_graph().draw_mermaid()
    for node in ("before", "model", "batch", "tools", "after"):
        assert node in drawn


def test_its_drawing_shows_the_loop(adds: Adds) -> None:
    agent = adding(adds)
    edges = {(edge.source, edge.target) for edge in agent.graph.get_graph().edges}
    assert {("__start__", "before"), ("before", "model"), ("model", "tools"), ("tools", "model")} <= edges
    assert {("model", "batch"), ("batch", "tools"), ("model", "__end__"), ("after", "before")} <= edges
    assert ("batch", "__end__") not in edges
    around = StateGraph(MessagesState).add_node("writer", agent).add_edge(START, "writer").compile()
    inside = {(edge.source, edge.target) for edge in around.get_graph(xray=True).edges}
    assert {("writer:model", "writer:tools"), ("writer:tools", "writer:model")} <= inside


def test_an_open_question_is_shown(saver: Any, runner: Runner, adds: Adds) -> None:
    agent = adding(adds, saver)
    agent.add_hook(lambda event: event.interrupt("sure", reason=event.tool_use["input"]), BeforeToolCallEvent)
    agent("go", thread_id="t")
    state = runner.get_state(agent.graph, HERE)
    assert state.next == ("tools", "tools")
    assert [(question.name, question.reason) for question in state.interrupts] == [
        ("sure", {"a": 1, "b": 2}),
        ("sure", {"a": 3, "b": 4}),
    ]
    assert [question.id for question in state.interrupts] == [
        question.id for question in agent.thread("t").interrupts
    ]


# --- Running --------------------------------------------------------------------------------------------


def test_the_graph_and_the_agent_go_on_with_each_other(saver: Any, runner: Runner, adds: Adds) -> None:
    """Its variants have one stored shape: a thread goes from one to the other."""
    agent = agent_of("one", "two", "three", checkpointer=saver)
    runner.invoke(agent.graph, PROMPT, HERE)
    agent("more", thread_id="t")
    runner.invoke(agent.graph, {"messages": [{"role": "user", "content": [{"text": "last"}]}]}, HERE)
    assert texts(agent) == ["go", "one", "more", "two", "last", "three"]


def test_questions_are_answered_at_the_graph(saver: Any, runner: Runner, adds: Adds) -> None:
    agent = adding(adds, saver)
    agent.add_hook(lambda event: event.interrupt("sure"), BeforeToolCallEvent)
    halted = agent("go", thread_id="t")
    first, second = halted.interrupts or ()
    runner.invoke(agent.graph, Command(resume={first.id: "y"}), HERE)
    assert adds.ran == [(1, 2)]
    assert [question.id for question in agent.thread("t").interrupts] == [second.id]
    assert str(agent(Command(resume="y"), thread_id="t")) == "3,7\n"
    assert sorted(adds.ran) == [(1, 2), (3, 4)]


def test_hooks_see_the_threads_conversation_when_the_graph_runs_by_itself(runner: Runner, adds: Adds) -> None:
    agent = adding(adds)
    seen: list[tuple[str, int]] = []

    def look(event: BeforeToolCallEvent) -> None:
        seen.append((event.agent.messages[0]["content"][0]["text"], len(event.agent.messages)))
        event.agent.state.set("asked", True)

    agent.add_hook(look)
    runner.invoke(agent.graph, PROMPT, HERE)
    assert seen == [("go", 2), ("go", 2)]
    assert agent.thread("t").state.get("asked") is True and agent.state.get() == {}


# --- Stopping -------------------------------------------------------------------------------------------


def test_a_breakpoint_before_the_tools(saver: Any, runner: Runner, adds: Adds) -> None:
    agent = adding(adds, saver)
    paused = runner.run(agent.graph, PROMPT, HERE, interrupt_before=["tools"])
    assert (paused.status, paused.next) == ("paused", ("tools", "tools"))
    assert adds.ran == []
    assert texts(agent) == ["go"]  # at rest no call is without its result
    assert str(agent(thread_id="t")) == "3,7\n"
    assert sorted(adds.ran) == [(1, 2), (3, 4)]


# --- Going back -----------------------------------------------------------------------------------------


def before_tools(agent: Agent, runner: Runner) -> Any:
    """The config of the checkpoint at which the tools are next."""
    found = [s for s in runner.history(agent.graph, HERE) if "tools" in s.next]
    return found[0].config


def test_a_fork_before_a_tool_with_another_answer(saver: Any, runner: Runner) -> None:
    """A person said no; back at the question, another branch says yes. Both branches stay in history."""
    agent = agent_of(
        [ToolCall("deletes", {"key": "k"}, id="d")], repeats, repeats, tools=[deletes], checkpointer=saver
    )

    def approve(event: BeforeToolCallEvent) -> None:
        if event.interrupt("approve", reason=event.tool_use["input"]) != "y":
            event.cancel_tool = "denied"

    agent.add_hook(approve)
    halted = agent("go", thread_id="t")
    assert halted.stop_reason == "interrupt"
    at_question = runner.get_state(agent.graph, HERE).config
    assert str(agent(Command(resume="n"), thread_id="t")) == "denied\n"
    asked = runner.run(agent.graph, None, at_question)
    assert [question.reason for question in asked.interrupts] == [{"key": "k"}]
    assert str(agent(Command(resume="y"), thread_id="t")) == "deleted k\n"
    assert texts(agent)[-1] == "deleted k"
    ends = [
        snapshot.values["messages"][-1]["content"][0]["text"]
        for snapshot in runner.history(agent.graph, HERE)
        if not snapshot.next
    ]
    assert sorted(ends) == ["deleted k", "denied"]


@tool
def deletes(key: str) -> str:
    """Delete."""
    return f"deleted {key}"


def test_a_fork_before_the_tools_runs_them_again(saver: Any, runner: Runner, adds: Adds) -> None:
    agent = agent_of(TWO_CALLS, repeats, repeats, tools=[adds.add], checkpointer=saver)
    agent("go", thread_id="t")
    assert len(adds.ran) == 2
    runner.invoke(agent.graph, None, before_tools(agent, runner))
    assert len(adds.ran) == 4
    assert texts(agent) == ["go", "toolUse", "toolUse", "toolResult", "toolResult", "3,7"]


def test_another_prompt_at_an_earlier_checkpoint(saver: Any, runner: Runner) -> None:
    agent = agent_of("one", "two", "other", checkpointer=saver)
    agent("a", thread_id="t")
    after_one = runner.get_state(agent.graph, HERE).config
    agent("b", thread_id="t")
    runner.invoke(agent.graph, {"messages": [{"role": "user", "content": [{"text": "c"}]}]}, after_one)
    assert texts(agent) == ["a", "one", "c", "other"]
    assert str(agent_of("last", checkpointer=saver)("d", thread_id="t")) == "last\n"


# --- In another graph -----------------------------------------------------------------------------------


def test_an_agent_in_a_node_keeps_its_own_thread(saver: Any, runner: Runner) -> None:
    agent = agent_of("one", checkpointer=saver)

    def ask(state: dict[str, Any]) -> dict[str, Any]:
        return {"said": str(agent("prompt", thread_id="inner"))}

    builder = StateGraph(dict)
    builder.add_node("ask", ask)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", END)
    graph = builder.compile(checkpointer=saver)
    runner.invoke(graph, {"a": 1}, {"configurable": {"thread_id": "outer"}})
    assert isinstance(graph, CompiledGraph)
    assert texts(agent, "inner") == ["prompt", "one"]


def test_the_graph_of_an_agent_nests_in_the_task_that_calls_it(
    saver: Any, runner: Runner, adds: Adds
) -> None:
    """Its questions are the outer graph's, and a resume goes on in place."""
    agent = adding(adds)
    agent.add_hook(
        lambda event: event.interrupt("sure", reason=event.tool_use["toolUseId"]), BeforeToolCallEvent
    )

    def ask(state: dict[str, Any]) -> dict[str, Any]:
        values = agent.graph.invoke(PROMPT)
        return {"said": values["messages"][-1]["content"][0]["text"]}

    builder = StateGraph(dict)
    builder.add_node("ask", ask)
    builder.add_edge(START, "ask")
    graph = builder.compile(checkpointer=saver)
    halted = runner.run(graph, {"a": 1}, HERE)
    assert [question.reason for question in halted.interrupts] == ["x", "y"]
    done = runner.run(graph, Command(resume={question.id: "y" for question in halted.interrupts}), HERE)
    assert done.value["said"] == "3,7"
    assert len(adds.ran) == 2
    assert agent.messages == []
