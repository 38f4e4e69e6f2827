"""Agents as nodes of a plain `StateGraph`, and teams whose size a function decides."""

import operator
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import pytest

from graphkit import Agent, Command, Send, StateGraph, tool
from graphkit.errors import InvalidPromptError
from graphkit.graph import END, START, MessagesState
from graphkit.hooks import AfterModelCallEvent, BeforeToolCallEvent, ModelMessageEvent
from graphkit.models import ScriptedModel, ToolCall
from graphkit.multiagent import Graph, GraphBuilder, Status
from graphkit.types import RunnableConfig
from tests.conftest import Reopen, Runner, Saver, response
from tests.multiagent.teams import Scripts, Storage, TeamDoor, answers, order, statuses

GO: Any = {"messages": [{"role": "user", "content": "go"}]}


def texts(messages: Any) -> list[str]:
    """The texts in messages of any style."""
    found = []
    for message in messages:
        content = message["content"]
        found += (
            [content] if isinstance(content, str) else [block["text"] for block in content if "text" in block]
        )
    return found


def ask(event: BeforeToolCallEvent) -> None:
    if event.interrupt("sure", reason=event.tool_use["input"]) != "y":
        event.cancel_tool = "no"


class Worker:
    """An agent that works, which is asked for; its models and what was done outlive it."""

    def __init__(self, *turns: Any, per_thread: bool = False) -> None:
        said: Any = turns or [[ToolCall("work", {"on": "it"})], "worked"]
        self.model = ScriptedModel(said, per_thread=per_thread)
        self.done: list[str] = []

    def agent(self, **options: Any) -> Agent:
        @tool
        def work(on: str) -> str:
            """Work."""
            self.done.append(on)
            return f"{on} is done"

        return Agent(self.model, tools=[work], hooks=[ask], callback_handler=None, **options)


# --- Of a plain graph -------------------------------------------------------------------------------------


def test_a_question_of_an_agent_is_one_of_the_graph(
    runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig
) -> None:
    worker, ran = Worker(), []

    def first(state: MessagesState) -> None:
        ran.append("first")

    def graph(saver: Saver) -> Any:
        builder = StateGraph(MessagesState)
        builder.add_node("first", first).add_node("worker", worker.agent()).add_node("beside", first)
        builder.add_edge(START, "first").add_edge("first", "worker").add_edge("first", "beside")
        return builder.compile(saver)

    asked = runner.invoke(graph(saver), GO, config)
    [question] = asked["__interrupt__"]
    assert (question.name, question.value) == ("sure", {"on": "it"})
    assert question.namespace.startswith("worker:")
    assert ran == ["first", "first"] and len(worker.model.requests) == 1

    result = runner.invoke(graph(reopen(saver)), [response(question, "y")], config)
    assert texts(result["messages"]) == ["go", "worked"]
    roles = [message["role"] for message in result["messages"]]
    assert roles == ["user", "assistant", "user", "assistant"]
    assert len({message["id"] for message in result["messages"]}) == 4
    assert ran == ["first", "first"] and worker.done == ["it"] and len(worker.model.requests) == 2


def test_agents_go_on_with_one_conversation(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    beginning: Any = [{"role": "user", "content": [{"text": "before"}]}]
    one = Agent(ScriptedModel(["from one", "one again"]), callback_handler=None, messages=beginning)
    two = Agent(ScriptedModel(["from two", "two again"]), callback_handler=None)
    builder = StateGraph(MessagesState).add_sequence([("one", one), ("two", two)]).add_edge(START, "one")
    graph = builder.compile(saver)
    runner.invoke(graph, GO, config)
    result = runner.invoke(graph, {"messages": [{"role": "user", "content": "more"}]}, config)
    assert texts(result["messages"]) == ["go", "from one", "from two", "more", "one again", "two again"]
    assert isinstance(two.model, ScriptedModel) and isinstance(one.model, ScriptedModel)
    assert texts(two.model.requests[0].messages) == ["go", "from one"]
    assert texts(one.model.requests[1].messages) == ["before", "go", "from one", "from two", "more"]
    assert all("id" not in message for message in two.model.requests[0].messages)
    assert one.messages == beginning and two.messages == []


def calling(name: str, call_id: str) -> dict[str, Any]:
    return {"name": name, "args": {}, "id": call_id, "type": "tool_call"}


CHAT: Any = [
    {"role": "user", "content": "go"},
    {"role": "assistant", "content": "", "tool_calls": [calling("look", "1")]},
    {"role": "tool", "content": "seen", "tool_call_id": "1"},
    {"role": "user", "content": [{"type": "text", "text": "more"}]},
]


@pytest.mark.parametrize("objects", [False, True], ids=["dicts", "objects"])
def test_messages_of_any_style_are_its_conversation(runner: Runner, objects: bool) -> None:
    model = ScriptedModel(["hi"])
    graph = StateGraph(MessagesState).add_node("a", Agent(model, callback_handler=None)).add_edge(START, "a")
    given = CHAT
    if objects:
        given = pytest.importorskip("langchain_core.messages").convert_to_messages(CHAT)
    said = runner.invoke(graph.compile(), {"messages": given})["messages"]
    assert len(said) == 5 and said[-1]["content"] == [{"text": "hi"}]
    sent = model.requests[0].messages
    assert [message["role"] for message in sent] == ["user", "assistant", "user"]
    assert sent[1]["content"] == [{"toolUse": {"toolUseId": "1", "name": "look", "input": {}}}]
    assert sent[2]["content"][0]["toolResult"]["content"] == [{"text": "seen"}]
    assert texts(sent) == ["go", "more"]


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ({"role": "system", "content": "be kind"}, "system_prompt"),
        ({"role": "critic", "content": "x"}, "role"),
    ],
)
def test_messages_that_it_cannot_be_given(runner: Runner, message: Any, told: str) -> None:
    agent = Agent(ScriptedModel(["hi"]), callback_handler=None, name="helper")
    graph = StateGraph(MessagesState).add_node("a", agent).add_edge(START, "a").compile()
    with pytest.raises(InvalidPromptError, match=f"'helper'.*{told}"):
        runner.invoke(graph, {"messages": [message]})


class Work(TypedDict, total=False):
    task: str
    found: Annotated[list[str], operator.add]


def researcher(model: ScriptedModel, **options: Any) -> Any:
    agent = Agent(model, callback_handler=None)
    return agent.as_node(
        prompt=lambda state: state["task"], update=lambda result: {"found": [str(result).strip()]}, **options
    )


def test_any_state_by_two_functions(runner: Runner) -> None:
    model = ScriptedModel(["a fact"])
    graph = StateGraph(Work).add_node("r", researcher(model)).add_edge(START, "r").compile()
    assert runner.invoke(graph, {"task": "find out"}) == {"task": "find out", "found": ["a fact"]}
    assert texts(model.requests[0].messages) == ["find out"]


def test_a_conversation_of_its_own_that_goes_on(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    model = ScriptedModel(["one", "two", "three"])
    node = researcher(model, preserve_context=True)
    graph = StateGraph(Work).add_node("r", node).add_edge(START, "r").compile(saver)
    runner.invoke(graph, {"task": "first"}, config)
    runner.invoke(graph, {"task": "second"}, config)
    assert texts(model.requests[1].messages) == ["first", "one", "second"]
    runner.invoke(graph, {"task": "elsewhere"}, {"configurable": {"thread_id": "other"}})
    assert texts(model.requests[2].messages) == ["elsewhere"]


@dataclass
class Said:
    messages: Annotated[list[Any], operator.add] = field(default_factory=list)


def test_a_state_that_is_no_dict(runner: Runner) -> None:
    agent = Agent(ScriptedModel(["hi"]), callback_handler=None)
    graph = StateGraph(Said).add_node("a", agent).add_edge(START, "a").compile()
    said = runner.invoke(graph, {"messages": [{"role": "user", "content": [{"text": "go"}]}]})
    assert texts(said["messages"]) == ["go", "hi"]


@pytest.mark.parametrize("given", [{"task": "x"}, {}])
def test_a_state_without_messages(runner: Runner, given: Any) -> None:
    agent = Agent(ScriptedModel(["hi"]), callback_handler=None, name="helper")
    graph = StateGraph(Work).add_node("a", agent).add_edge(START, "a").compile()
    with pytest.raises(InvalidPromptError, match=r"'helper'.*no 'messages'.*as_node\(prompt="):
        runner.invoke(graph, {"found": [], **given})


def test_a_conversation_that_is_kept_needs_a_prompt() -> None:
    with pytest.raises(ValueError, match=r"as_node\(prompt="):
        Agent(ScriptedModel(["x"])).as_node(preserve_context=True)


def test_what_it_shares_and_shows(runner: Runner) -> None:
    agent = Agent(ScriptedModel(["hi"]), callback_handler=None)
    seen: list[Any] = []
    agent.add_hook(lambda event: seen.append(event.invocation_state), AfterModelCallEvent)
    graph = StateGraph(MessagesState).add_node("a", agent).add_edge(START, "a").compile()
    context = {"connection": object()}
    events = runner.stream(graph, GO, stream_mode="custom", context=context)
    assert seen and all(each is context for each in seen)
    [message] = [event.message for event in events if isinstance(event, ModelMessageEvent)]
    assert message["content"] == [{"text": "hi"}]


def test_looking_inside(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    builder = StateGraph(MessagesState).add_node("worker", Worker().agent()).add_edge(START, "worker")
    graph = builder.compile(saver)
    runner.invoke(graph, GO, config)
    [task] = runner.get_state(graph, config, subgraphs=True).tasks
    assert task.state is not None and not isinstance(task.state, dict)
    assert texts(task.state.values["messages"]) == ["go"] and task.state.next == ("tools",)


# --- Teams of any size ------------------------------------------------------------------------------------


def test_a_planner_sends_to_as_many_workers_as_it_likes(
    runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig
) -> None:
    worker = Worker([ToolCall("work", {"on": "it"})], "worked", per_thread=True)

    def plan(state: MessagesState) -> Any:
        tasks = [{"role": "user", "content": f"part {number}"} for number in range(4)]
        return Command(goto=[Send("worker", {"messages": [task]}) for task in tasks])

    def graph(saver: Saver) -> Any:
        builder = StateGraph(MessagesState).add_node("plan", plan, destinations=["worker"])
        builder.add_node("worker", worker.agent()).add_edge(START, "plan").add_edge("worker", END)
        return builder.compile(saver)

    asked = runner.invoke(graph(saver), GO, config)["__interrupt__"]
    assert len({question.id for question in asked}) == 4 and not worker.done
    partly = runner.invoke(graph(reopen(saver)), [response(asked[2], "y")], config)["__interrupt__"]
    assert [question.id for question in partly] == [asked[index].id for index in (0, 1, 3)]
    assert worker.done == ["it"] and len(worker.model.requests) == 5
    rest = [response(question, "y") for question in partly]
    result = runner.invoke(graph(reopen(saver)), rest, config)
    assert texts(result["messages"]) == ["go", "worked", "worked", "worked", "worked"]
    assert worker.done == ["it"] * 4 and len(worker.model.requests) == 8


def test_a_send_may_give_a_prompt(runner: Runner) -> None:
    def plan(state: MessagesState) -> Any:
        return Command(goto=[Send("worker", "part 0"), Send("worker", [{"text": "part 1"}])])

    model = ScriptedModel([lambda request: "did " + texts(request.messages)[-1]], repeat=True)
    agent = Agent(model, callback_handler=None)
    builder = StateGraph(MessagesState).add_node("plan", plan, destinations=["worker"])
    graph = builder.add_node("worker", agent).add_edge(START, "plan").compile()
    assert texts(runner.invoke(graph, GO)["messages"]) == ["go", "did part 0", "did part 1"]


def test_a_function_of_a_team_sends_to_agents(either: TeamDoor, storage: Storage) -> None:
    """The workers run side by side under keys of their own; the one who comes after them has all they found."""
    worker = Worker(
        [ToolCall("work", {"on": "it"})],
        lambda request: "found " + request.messages[0]["content"][0]["text"],
        per_thread=True,
    )
    scripts = Scripts()

    def plan(task: Any) -> Any:
        return [Send("worker", f"part {number}") for number in range(3)]

    def team() -> Graph:
        builder = GraphBuilder()
        builder.add_node(plan, "plan")
        builder.add_node(worker.agent(), "worker")
        builder.add_node(scripts.agent("writer", "written"), "writer")
        builder.add_edge("worker", "writer")
        builder.set_entry_point("plan")
        builder.set_session_manager(storage.session)
        return builder.build()

    asked = either(team(), "go")
    assert asked.status is Status.INTERRUPTED
    assert len({question.id for question in asked.interrupts}) == 3
    partly = either(team(), [response(asked.interrupts[1], "y")])
    assert [question.id for question in partly.interrupts] == [asked.interrupts[at].id for at in (0, 2)]
    result = either(team(), answers(partly))
    assert result.status is Status.COMPLETED
    assert order(result) == ["plan", "worker", "worker", "worker", "writer"]
    assert statuses(result) == dict.fromkeys(
        ["plan", "worker[0]", "worker[1]", "worker[2]", "writer"], "completed"
    )
    assert [str(result.results[f"worker[{number}]"]) for number in range(3)] == [
        f"found part {number}\n" for number in range(3)
    ]
    assert worker.done == ["it"] * 3 and len(worker.model.requests) == 6
    told = "".join(scripts.prompt("writer"))
    assert told.index("found part 0") < told.index("found part 1") < told.index("found part 2")
    assert scripts.calls == {"writer": 1}
