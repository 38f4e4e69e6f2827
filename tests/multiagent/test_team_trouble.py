"""Bad input, limits, and nodes that fail, take too long or are cancelled beside others: results that say so, never a
lost run."""

import asyncio
import threading
import time
from typing import Any

import pytest

from graphkit import Command, Send, tool
from graphkit.errors import ConcurrencyException, InvalidGraphError, NodeTimeoutError, RecordedError
from graphkit.hooks import (
    AfterMultiAgentInvocationEvent,
    AfterNodeCallEvent,
    BeforeNodeCallEvent,
    MultiAgentEvent,
)
from graphkit.models import ToolCall
from graphkit.multiagent import Graph, GraphBuilder, Status, Swarm
from graphkit.session import FileSessionManager
from tests.agents.conftest import agent_of
from tests.multiagent.teams import LONGER, Scripts, Storage, TeamDoor, answers, order, statuses

ROUND = [("a", "b"), ("b", "a")]


def say(task: Any) -> str:
    return "said"


# --- Making one -------------------------------------------------------------------------------------------


def test_an_agent_is_one_node_however_it_is_given() -> None:
    agent = agent_of("x", name="a")
    node = next(iter(Graph([agent]).nodes.values()))
    other = next(iter(Graph({"b": agent}).nodes.values()))
    for nodes in ([agent, agent], {"a": agent, "b": agent}, [node, other], [node, agent]):
        with pytest.raises(ValueError, match="'a' already"):
            Graph(nodes)
    with pytest.raises(ValueError, match="a node 'a' already"):
        Graph([agent, agent_of("y", name="a")])


def test_all_faults_of_the_structure_are_told_together() -> None:
    builder = GraphBuilder()
    builder.add_node(say, "a")
    builder.add_edge("a", "b")
    builder.add_edge("c", "a")
    builder.set_entry_point("d")
    with pytest.raises(InvalidGraphError) as error:
        builder.build()
    for fault in ("no node 'b'", "no node 'c'", "entry point 'd'"):
        assert fault in str(error.value)


@pytest.mark.parametrize(
    ("nodes", "edges", "options", "message"),
    [
        ({}, [], {}, "no nodes"),
        ({"a": say, "b": say}, ROUND, {}, "no entry point"),
        ({"a": say, "b": say}, ROUND, {"entry_points": ["a"]}, "'a' -> 'b' -> 'a' has no way out"),
        ({"a": say}, [("a", "a")], {"entry_points": ["a"]}, "'a' -> 'a' has no way out"),
        ({"a|b": say}, [], {}, "a|b"),
        ({"a:b": say}, [], {}, "a:b"),
        ({"__next__": say}, [], {}, "reserved"),
        ({"": say}, [], {}, "1 to 255"),
        ({"a": say}, [], {"id": "x/y"}, "x/y"),
        ({"a": say}, [], {"max_node_executions": 0}, "max_node_executions"),
        ({"a": say}, [], {"node_timeout": 0}, "node_timeout"),
        ({"a": say}, [], {"execution_timeout": True}, "execution_timeout"),
        ({"a": say}, [], {"hooks": [3]}, "neither a callback"),
    ],
)
def test_what_cannot_be_built(nodes: Any, edges: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("|", r"\|")):
        Graph(nodes, edges, **options)


def test_a_cycle_needs_a_condition_or_a_limit() -> None:
    for options in ({"max_node_executions": 3}, {"execution_timeout": 60.0}):
        Graph({"a": say, "b": say}, ROUND, entry_points=["a"], **options)
    Graph({"a": say, "b": say}, [("a", "b"), ("b", "a", lambda state: False)], entry_points=["a"])


def test_what_cannot_be_a_node(tmp_path: Any) -> None:
    agent = agent_of("x")
    builder = GraphBuilder()
    builder.add_node(agent, "a")
    with pytest.raises(ValueError, match="node 'a' already"):
        builder.add_node(agent, "b")
    with pytest.raises(ValueError, match="'a' already"):
        builder.add_node(agent_of("y"), "a")
    with pytest.raises(ValueError, match="session of its own"):
        builder.add_node(agent_of("z", session_manager=FileSessionManager("s", tmp_path)), "c")
    with pytest.raises(ValueError, match="session of its own"):
        builder.add_node(Graph([say], session_manager=FileSessionManager("s", tmp_path)), "c")
    with pytest.raises(ValueError, match="'any' or 'all'"):
        builder.add_node(say, "c", join="some")  # type: ignore[arg-type]

    def generate(task: Any) -> Any:
        yield "x"

    for wrong in ("text", 3, None, dict, generate):
        with pytest.raises(TypeError):
            builder.add_node(wrong, "c")
    with pytest.raises(TypeError, match="condition"):
        builder.add_edge("a", "a", "yes")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="an edge is"):
        Graph({"a": say}, [("a",)])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="not both"):
        Graph(nodes=[say], agents=[say])
    with pytest.raises(TypeError, match="as a list"):
        Graph(say)  # type: ignore[arg-type]


@pytest.mark.parametrize("task", [3, object(), b"x", {"text": "x"}, ["x"], [{"bogus": 1}]])
def test_what_is_no_task(door: TeamDoor, scripts: Scripts, task: Any) -> None:
    with pytest.raises(TypeError):
        door(Graph({"a": scripts.agent("a", "x")}), task)
    assert scripts.calls == {}


def test_wrong_options_of_a_call(either: TeamDoor) -> None:
    team = Graph([say])
    with pytest.raises(TypeError, match="invocation_state"):
        either(team, "go", invocation_state=[1])
    with pytest.raises(ValueError, match="thread_id"):
        either(team, "go", thread_id="")
    with pytest.raises(ValueError, match="no history"):
        either(team, None)


# --- Limits -----------------------------------------------------------------------------------------------


def test_a_turn_that_reaches_its_limit_says_so(door: TeamDoor) -> None:
    team = Graph({"a": say, "b": say}, ROUND, entry_points=["a"], max_node_executions=3)
    ended: list[Any] = []
    team.add_hook(ended.append, AfterMultiAgentInvocationEvent)
    result = door(team, "go")
    assert (result.status, result.reason) == (Status.FAILED, "the limit of 3 node executions was reached")
    assert order(result) == ["a", "b", "a"]
    assert statuses(result) == {"a": "completed", "b": "completed"}
    assert ended[0].result.status is Status.FAILED
    assert team.thread().result.reason == result.reason
    assert order(door(team, "again")) == ["a", "b", "a"]  # a turn is counted by itself


def test_a_turn_whose_time_is_over_lets_nobody_begin(
    either: TeamDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time that passes between nodes counts as well; here a hook takes it, on a clock that the test turns."""
    real, later = time.perf_counter, [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: real() + later[0])
    team = Graph({"a": say, "b": say}, [("a", "b")], execution_timeout=60.0)
    team.add_hook(lambda event: later.append(later.pop() + 100.0), AfterNodeCallEvent)
    result = either(team, "go")
    assert (result.status, order(result)) == (Status.FAILED, ["a"])
    assert result.reason == "the execution timeout of 60.0 s was reached"


@pytest.mark.parametrize("blocks", [True, False])
@pytest.mark.parametrize("limit", ["node_timeout", "execution_timeout"])
def test_a_node_that_takes_too_long(either: TeamDoor, blocks: bool, limit: str) -> None:
    """It fails, those beside it go on, what would come next does not."""

    def play(seconds: float) -> tuple[Any, Any, list[Any], Scripts]:
        over, scripts, ended = threading.Event(), Scripts(), list[Any]()

        def hangs(task: Any) -> str:
            over.wait(30)
            return "late"

        async def waits(task: Any) -> str:
            await asyncio.sleep(30)
            return "late"

        team = Graph(
            {"slow": hangs if blocks else waits, "beside": scripts.agent("beside", "done"), "next": say},
            [("slow", "next")],
            **{limit: seconds},  # type: ignore[arg-type]
        )
        team.add_hook(ended.append, AfterNodeCallEvent)
        result = either(team, "go")
        over.set()
        return team, result, ended, scripts

    for seconds in LONGER:
        team, result, ended, scripts = play(seconds)
        if statuses(result).get("beside") == "completed":
            break
    assert result.status is Status.FAILED and "slow" in result.reason
    assert statuses(result) == {"slow": "failed", "beside": "completed"}
    assert isinstance(result.results["slow"].result, NodeTimeoutError)
    assert {event.node_id: event.result.status for event in ended} == {
        "slow": Status.FAILED,
        "beside": Status.COMPLETED,
    }
    assert isinstance(team.thread().result.results["slow"].result, RecordedError)
    assert scripts.calls == {"beside": 1}


@pytest.mark.parametrize("storage", ["live", "sqlite"], indirect=True)
def test_a_turn_that_has_reached_a_limit_is_gone_on_with_when_there_is_more(
    either: TeamDoor, storage: Storage, scripts: Scripts
) -> None:
    def build(limit: int) -> Graph:
        nodes = {name: scripts.agent(name, name * 2) for name in "abcd"}
        edges = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
        return Graph(nodes, edges, max_node_executions=limit, session_manager=storage.session)

    assert order(either(build(2), "go")) == ["a"]
    assert (either(build(2)).status, scripts.calls) == (Status.FAILED, {"a": 1})
    assert order(either(build(3))) == ["a", "b", "c"]
    result = either(build(4))
    assert (result.status, result.reason) == (Status.COMPLETED, None)
    assert order(result) == ["a", "b", "c", "d"]
    assert scripts.calls == dict.fromkeys("abcd", 1)
    assert "From c:" in "".join(scripts.prompt("d"))


@pytest.mark.parametrize("storage", ["live", "sqlite"], indirect=True)
def test_a_swarm_that_has_reached_a_limit_is_gone_on_with(
    either: TeamDoor, storage: Storage, scripts: Scripts
) -> None:
    def build(limit: int) -> Swarm:
        to_b = ToolCall("handoff_to_agent", {"agent_name": "b", "message": "your turn"})
        members = [scripts.agent("a", [to_b], "given", name="a"), scripts.agent("b", "done", name="b")]
        return Swarm(members, max_handoffs=limit, session_manager=storage.session)

    assert "max_handoffs" in either(build(0), "go").reason
    result = either(build(1))
    assert (result.status, order(result), scripts.calls) == (Status.COMPLETED, ["a", "b"], {"a": 2, "b": 1})
    assert "your turn" in scripts.prompt("b")[0]


@pytest.mark.parametrize("storage", ["live", "sqlite"], indirect=True)
@pytest.mark.parametrize("heard", [False, True])
def test_a_turn_in_which_a_node_took_too_long_is_gone_on_with(
    either: TeamDoor, storage: Storage, scripts: Scripts, heard: bool
) -> None:
    """What finished beside it does not run again, and leads on."""
    waits, events = [True], list[Any]()

    async def slow(task: Any) -> Any:
        if waits:
            await asyncio.sleep(30)
        return Command(update="at last", goto=Send("extra", "more"))

    def fan(task: Any) -> Any:
        return Command(update="fanned", goto=Send("extra", "some"))

    def build(timeout: float) -> Graph:
        return Graph(
            {
                "slow": slow,
                "fan": fan,
                "a": scripts.agent("a", *["one"] * len(LONGER)),
                "after": scripts.agent("after", "two"),
                "end": scripts.agent("end", "three"),
                "extra": say,
            },
            [("a", "after"), ("slow", "end"), ("after", "end", lambda state: False)],
            entry_points=["slow", "fan", "a"],
            node_timeout=timeout,
            session_manager=storage.session,
        )

    for seconds in LONGER:
        result = either(build(seconds), "go")
        if statuses(result).get("a") == "completed":
            break
    assert result.status is Status.FAILED and order(result) == ["slow", "fan", "a"]
    waits.clear()
    calls, team = scripts.calls["a"], build(60)
    if heard:
        team.add_hook(events.append, MultiAgentEvent)
    result = either(team)
    assert (result.status, result.reason) == (Status.COMPLETED, None)
    assert order(result) == ["slow", "fan", "a", "slow", "after", "end", "extra", "extra"]
    assert scripts.calls == {"a": calls, "after": 1, "end": 1}
    assert statuses(result)["slow"] == "completed"
    if heard:
        told = [type(event).__name__.removesuffix("Event") for event in events]
        assert told[:2] == ["BeforeMultiAgentInvocation", "BeforeNodeCall"]
        assert told[-2:] == ["AfterMultiAgentInvocation", "MultiAgentResult"]
        assert told.count("BeforeMultiAgentInvocation") == told.count("MultiAgentHandoff") == 1


@pytest.mark.parametrize("storage", ["live", "sqlite"], indirect=True)
def test_a_limit_that_was_reached_further_in_is_gone_on_from_there(
    either: TeamDoor, storage: Storage, scripts: Scripts
) -> None:
    def build(limit: int) -> Graph:
        inner = Graph(
            {"a": scripts.agent("a", "one"), "b": scripts.agent("b", "two")},
            [("a", "b")],
            max_node_executions=limit,
        )
        nodes = {"inner": inner, "beside": scripts.agent("beside", "done"), "end": scripts.agent("end", "x")}
        return Graph(nodes, [("inner", "end")], session_manager=storage.session)

    result = either(build(1), "go")
    assert result.reason == "node 'inner' failed: the limit of 1 node executions was reached"
    used = result.results["beside"].accumulated_usage["totalTokens"]
    assert (statuses(result), result.status) == ({"inner": "failed", "beside": "completed"}, Status.FAILED)
    result = either(build(2))
    assert (order(result), result.status) == (["inner", "beside", "inner", "end"], Status.COMPLETED)
    assert scripts.calls == dict.fromkeys(["a", "b", "beside", "end"], 1)
    assert result.execution_count == 4 and result.results["inner"].execution_count == 1
    assert result.accumulated_usage["totalTokens"] == 4 * used
    assert either(build(2)).status is Status.COMPLETED
    assert scripts.calls["end"] == 1


def test_an_agent_that_takes_too_long_has_a_whole_conversation(either: TeamDoor) -> None:
    """What it was doing is closed, and its next turn goes on."""

    def play(seconds: float) -> tuple[str, str, list[str]]:
        hang, scripts = threading.Event(), Scripts()

        def slow() -> str:
            """Be slow."""
            hang.wait(30)
            return "late"

        turns = [ToolCall("slow", {})], "again"
        team = Graph({"a": scripts.agent("a", *turns, tools=[tool(slow)])}, node_timeout=seconds)
        first = either(team, "go")
        hang.set()
        then = either(team, "once more")
        results = [
            block["toolResult"]["status"]
            for message in scripts.models["a"].requests[-1].messages
            for block in message["content"]
            if "toolResult" in block
        ]
        return first.status.value, str(then), [*results]

    for seconds in LONGER:
        status, said, results = play(seconds)
        if results == ["error"]:
            break
    assert (status, said, results) == ("failed", "a: again", ["error"])


# --- Failures ---------------------------------------------------------------------------------------------


def test_a_node_that_fails_is_gone_on_with(door: TeamDoor, storage: Storage, scripts: Scripts) -> None:
    """Its exception is raised; what finished beside it does not run again."""
    tries: list[int] = []

    def flaky(task: Any) -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("not now")
        return "at last"

    def build() -> Graph:
        return Graph(
            {"a": scripts.agent("a", "one"), "flaky": flaky, "b": scripts.agent("b", "two"), "end": say},
            [("a", "flaky"), ("a", "b"), ("flaky", "end")],
            session_manager=storage.session,
        )

    team, ended = build(), list[Any]()
    team.add_hook(ended.append, [AfterNodeCallEvent, AfterMultiAgentInvocationEvent])
    with pytest.raises(ConnectionError, match="not now"):
        door(team, "go")
    first, *beside, last = [getattr(event.result, "status", None) for event in ended]
    assert (first, set(beside), last) == (Status.COMPLETED, {Status.FAILED, Status.COMPLETED}, None)
    state = build().state
    assert {key: one.status.value for key, one in state.results.items()} == {
        "a": "completed",
        "b": "completed",
        "flaky": "failed",
    }
    result = door(build())
    assert result.status is Status.COMPLETED
    assert order(result) == ["a", "flaky", "b", "end"]
    assert scripts.calls == {"a": 1, "b": 1} and len(tries) == 2
    assert str(result.results["flaky"]) == "at last\n"


def test_an_agent_that_failed_goes_on_where_it_was(
    either: TeamDoor, storage: Storage, scripts: Scripts
) -> None:
    ran: list[int] = []

    @tool
    def count(upto: int) -> str:
        """Count."""
        ran.append(upto)
        return "counted"

    turns = [[ToolCall("count", {"upto": 2})], RuntimeError("overloaded"), "done"]

    def build() -> Graph:
        return Graph({"a": scripts.agent("a", *turns, tools=[count])}, session_manager=storage.session)

    with pytest.raises(RuntimeError, match="overloaded"):
        either(build(), "go")
    result = either(build())
    assert (str(result), ran, scripts.calls) == ("a: done", [2], {"a": 3})
    assert len(scripts.models["a"].requests[-1].messages) == 3


def test_a_hook_that_fails_and_a_question_beside_it(either: TeamDoor, scripts: Scripts) -> None:
    """SEMANTICS 5: both are recorded, the error is raised, the question stays."""
    failing = [True]

    def hear(event: BeforeNodeCallEvent) -> None:
        if event.node_id == "a":
            event.interrupt("ok")
        elif failing[0]:
            raise LookupError("no such thing")

    team = Graph({"a": scripts.agent("a", "one"), "b": scripts.agent("b", "two")}, hooks=[hear])
    with pytest.raises(LookupError):
        either(team, "go")
    assert [question.name for question in team.interrupts] == ["ok"]
    failing.clear()
    failing.append(False)
    asked = either(team)
    assert scripts.calls == {"b": 1}
    assert either(team, answers(asked)).status is Status.COMPLETED
    assert scripts.calls == {"a": 1, "b": 1}


def test_a_condition_that_fails_can_be_asked_again(either: TeamDoor, scripts: Scripts) -> None:
    wrong = [True]

    def condition(state: Any) -> bool:
        if wrong.pop() if wrong else False:
            raise LookupError("which?")
        return True

    team = Graph({"a": scripts.agent("a", "one"), "b": say}, [("a", "b", condition)])
    with pytest.raises(LookupError):
        either(team, "go")
    assert order(either(team)) == ["a", "b"]
    assert scripts.calls == {"a": 1}


def test_one_turn_at_a_time_on_a_thread(either: TeamDoor) -> None:
    """And any number on several (N13)."""

    def inside(task: Any) -> str:
        with pytest.raises(ConcurrencyException):
            team("again", thread_id="one")
        return str(Graph([say])("x"))

    team = Graph([inside])
    assert either(team, "go", thread_id="one").status is Status.COMPLETED
