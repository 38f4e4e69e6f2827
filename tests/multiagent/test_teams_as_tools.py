"""An orchestrator that is a tool of an agent: its questions are the agent's, and nothing in it happens twice."""

import asyncio
from typing import Any

import pytest

from graphkit import Agent
from graphkit.errors import InvalidToolUseNameException
from graphkit.hooks import BeforeNodeCallEvent, BeforeToolCallEvent, InterruptEvent, ToolStreamUpdateEvent
from graphkit.models import ScriptedModel, ToolCall
from graphkit.multiagent import Graph, MultiAgentBase, Swarm
from graphkit.session import FileSessionManager
from graphkit.types import interrupt
from tests.agents.conftest import Session, agent_of, script
from tests.conftest import response
from tests.multiagent.teams import Scripts, TeamDoor

GIVE = ToolCall("team", {"input": "look into it"}, id="one")
HAND_OVER = ToolCall("handoff_to_agent", {"agent_name": "b", "message": "go on"})


def results_of(agent: Agent) -> list[tuple[str, str]]:
    """Status and text of every tool result in a conversation."""
    blocks = [block for message in agent.messages for block in message["content"]]
    results = [block["toolResult"] for block in blocks if "toolResult" in block]
    return [(result["status"], result["content"][0]["text"]) for result in results]


def swarm(scripts: Scripts, **options: Any) -> Swarm:
    a, b = scripts.agent("a", [HAND_OVER], "over to b", name="a"), scripts.agent("b", "found", name="b")
    return Swarm([a, b], id="team", **options)


def graph(scripts: Scripts, **options: Any) -> Graph:
    nodes = {"a": scripts.agent("a", "looked"), "b": scripts.agent("b", "found")}
    return Graph(nodes, [("a", "b")], id="team", **options)


@pytest.mark.parametrize("kind", [graph, swarm])
def test_a_model_gives_a_team_a_task(either: TeamDoor, scripts: Scripts, kind: Any) -> None:
    agent = agent_of([GIVE], "done", tools=[kind(scripts)])
    assert str(either(agent, "hello")) == "done\n"
    [(status, text)] = results_of(agent)
    assert status == "success" and text.endswith("b: found")
    assert "look into it" in " ".join(scripts.prompt("a"))


@pytest.mark.parametrize("kind", [graph, swarm])
@pytest.mark.parametrize("session", ["memory", "sqlite"], indirect=True)
def test_its_questions_are_the_agents(
    either: TeamDoor, session: Session, scripts: Scripts, kind: Any
) -> None:
    """N10: once, with an id and a path of their own; nothing above or beside runs again, in a new process too."""

    def ask(event: BeforeNodeCallEvent) -> None:
        if event.node_id == "b":
            assert event.interrupt("sure", reason="on to b?") == "y"

    def tools() -> list[Any]:
        return [kind(scripts, hooks=[ask])]

    asked = either(session.agent([GIVE], "done", tools=tools()), "hello")
    [question] = asked.interrupts
    assert (question.name, question.value) == ("sure", "on to b?")
    assert (question.namespace.split(":")[0], question.node) == ("tools", "b")
    before = dict(scripts.calls)
    result = either(session.agent(tools=tools()), [response(question, "y")])
    assert str(result) == "done\n"
    assert scripts.calls == {**before, "b": 1}
    assert len(session.model.requests) == 2


def test_a_question_far_below_comes_up_and_is_answered_there(either: TeamDoor, session: Session) -> None:
    """A function in a graph in a swarm that is a tool of an agent in a graph that is a tool of an agent."""
    answers: list[Any] = []
    middle = ScriptedModel([[ToolCall("deep", {"input": "x"})], "well"])

    def ask(task: Any) -> str:
        answers.append(interrupt("how much?"))
        return f"{answers[-1]} EUR"

    def tools() -> list[Any]:
        inner = Swarm({"deepest": Graph({"ask": ask})}, id="inner")
        agent = Agent(middle, tools=[Graph({"swarm": inner}, id="deep")], callback_handler=None)
        return [Graph({"agent": agent}, id="team")]

    asked = either(session.agent([GIVE], "done", tools=tools()), "go")
    [question] = asked.interrupts
    assert [part.split(":")[0] for part in question.namespace.split("|")] == [
        *("tools", "agent", "tools", "swarm", "deepest")
    ]
    result = either(session.agent(tools=tools()), [response(question, 7)])
    assert str(result) == "done\n"
    assert (answers, len(middle.requests), len(session.model.requests)) == ([7], 2, 2)


def test_two_calls_at_once_ask_each_for_itself(either: TeamDoor, scripts: Scripts) -> None:
    def ask(task: Any) -> str:
        return f"{interrupt(task[0]['text'])}"

    calls = [ToolCall("team", {"input": f"task {n}"}, id=f"call{n}") for n in range(2)]
    agent = agent_of(calls, "done", tools=[Graph({"ask": ask}, id="team")])
    asked = either(agent, "hello")
    assert [question.value for question in asked.interrupts] == ["task 0", "task 1"]
    assert len({question.id for question in asked.interrupts}) == 2
    either(agent, [response(question, question.value[-1]) for question in asked.interrupts])
    assert [text for _, text in results_of(agent)] == ["ask: 0", "ask: 1"]


def test_a_hook_of_the_agent_may_answer_it(either: TeamDoor) -> None:
    """S144: auto-approval hears of it as of any question."""
    heard: list[Any] = []
    team = Graph({"ask": lambda task: str(interrupt("sure?"))}, id="team")
    agent = agent_of([GIVE], "done", tools=[team])
    agent.add_hook(heard.append, InterruptEvent)
    [question] = either(agent, "hello").interrupts
    assert [event.interrupt.id for event in heard] == [question.id]


@pytest.mark.parametrize("preserve_context", [False, True])
def test_each_call_begins_anew_unless_it_is_told_not_to(scripts: Scripts, preserve_context: bool) -> None:
    team = Graph({"a": scripts.agent("a", "one", "two")}, id="team")
    agent = agent_of([GIVE], "x", [GIVE], "y", tools=[team.as_tool(preserve_context=preserve_context)])
    agent("hello")
    agent("again")
    assert [len(request.messages) for request in scripts.models["a"].requests] == [
        1,
        3 if preserve_context else 1,
    ]


def test_a_turn_that_fails_is_an_error_for_the_model(either: TeamDoor, scripts: Scripts) -> None:
    def fails(task: Any) -> str:
        raise LookupError("no such thing")

    limited = Graph(
        {"a": scripts.agent("a", "x", "y")}, [("a", "a")], ["a"], max_node_executions=1, id="team"
    )
    for team, told in (
        (limited, "the limit of 1 node executions"),
        (Graph([fails], id="team"), "no such thing"),
    ):
        agent = agent_of([GIVE], "a pity", tools=[team])
        assert str(either(agent, "hello")) == "a pity\n"
        [(status, text)] = results_of(agent)
        assert status == "error" and told in text


def test_a_caller_that_is_cancelled_cancels_it(scripts: Scripts) -> None:
    def cancel(request: Any) -> str:
        agent.cancel()
        return "too late"

    team = Graph({"a": scripts.agent("a", cancel), "b": scripts.agent("b", "never")}, [("a", "b")], id="team")
    agent = agent_of([GIVE], "never", tools=[team])
    assert agent("hello").stop_reason == "cancelled"
    [(status, text)] = results_of(agent)
    assert status == "error" and "cancelled" in text
    assert scripts.calls == {"a": 1}


def test_it_may_answer_for_the_agent(either: TeamDoor, scripts: Scripts) -> None:
    agent = agent_of(
        [GIVE], tools=[Graph({"b": scripts.agent("b", "found")}, id="team").as_tool(delegate=True)]
    )
    assert str(either(agent, "hello")) == "b: found\n"


def test_what_happens_inside_is_progress_of_the_tool(scripts: Scripts) -> None:
    agent = agent_of([GIVE], "done", tools=[graph(scripts)])
    heard: list[Any] = []
    agent.add_hook(heard.append, ToolStreamUpdateEvent)

    async def streamed() -> list[Any]:
        return [each async for each in agent.stream_async("go")]

    shown = [
        each["tool_stream_event"]["data"] for each in asyncio.run(streamed()) if "tool_stream_event" in each
    ]
    assert heard and {event.tool_use["toolUseId"] for event in heard} == {"one"}
    assert [each["node_id"] for each in shown if each["type"] == "multiagent_node_start"] == ["a", "b"]
    said = [each["event"].get("data") for each in shown if each["type"] == "multiagent_node_stream"]
    assert [text for text in said if text] == ["looked", "found"]


def test_what_the_model_is_told_of_it(scripts: Scripts) -> None:
    team: MultiAgentBase = graph(scripts)
    assert team.as_tool().tool_spec["description"] == "Gives a task to the team 'team': a, b"
    named = team.as_tool(name="experts", description="They know.").tool_spec
    assert (named["name"], named["description"]) == ("experts", "They know.")
    with pytest.raises(InvalidToolUseNameException):
        team.as_tool(name="no name")


def test_one_with_a_session_is_no_part_of_an_agent(scripts: Scripts, tmp_path: Any) -> None:
    with pytest.raises(ValueError, match="session of its own"):
        graph(scripts, session_manager=FileSessionManager("s", tmp_path)).as_tool()


def test_a_direct_call_answers_and_leaves_nothing_behind(scripts: Scripts) -> None:
    team = graph(scripts)
    agent = agent_of("never", tools=[team])
    assert agent.tool.team(input="go")["content"] == [{"text": "a: looked\nb: found"}]
    assert team.saver.thread_ids() == [] if hasattr(team.saver, "thread_ids") else True
    assert script(agent).requests == []


def test_a_hook_of_the_agent_sees_one_call(scripts: Scripts) -> None:
    calls: list[str] = []

    def note(event: BeforeToolCallEvent) -> None:
        calls.append(event.tool_use["name"])

    agent_of([GIVE], "done", tools=[swarm(scripts)], hooks=[note])("hello")
    assert calls == ["team"]
