"""A question anywhere below an orchestrator surfaces once and is answered there: nothing above it runs again, no model
is called again, and what has finished stays finished, in another process too."""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from graphkit import Agent, Send, tool
from graphkit.errors import AlreadyAnsweredError, NoPendingInterruptError, UnknownInterruptError
from graphkit.hooks import AfterModelCallEvent, AfterNodeCallEvent, BeforeNodeCallEvent, BeforeToolCallEvent
from graphkit.models import ToolCall
from graphkit.multiagent import Graph, Status
from graphkit.tools.executors import SequentialToolExecutor
from graphkit.types import Command, interrupt
from graphkit.types.tools import ToolContext
from tests.conftest import SPELLINGS, response
from tests.multiagent.teams import Scripts, Storage, TeamDoor, answers, order, statuses

Build = Callable[[], Graph]


class Till:
    """A tool that asks, and what it did."""

    def __init__(self) -> None:
        self.log: list[Any] = []

    @tool(context=True)
    def pay(self, amount: int, tool_context: ToolContext) -> str:
        """Pay."""
        how = tool_context.interrupt("how", reason=amount)
        self.log.append(how)
        return f"paid by {how}"


def in_a_team(build: Callable[[], Any], scripts: Scripts, storage: Storage) -> Build:
    """A team whose middle is what `build` makes, with a sibling beside it, a node before it and one after it."""

    def team() -> Graph:
        return Graph(
            {
                "first": scripts.agent("first", "one"),
                "middle": build(),
                "beside": scripts.agent("beside", "two"),
                "last": scripts.agent("last", "three"),
            },
            [("first", "middle"), ("first", "beside"), ("middle", "last")],
            session_manager=storage.session,
        )

    return team


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_tool_of_an_agent_asks_at_any_depth(
    door: TeamDoor, storage: Storage, scripts: Scripts, depth: int
) -> None:
    till = Till()

    def payer() -> Any:
        made: Any = scripts.agent("payer", [ToolCall("pay", {"amount": 3})], "paid", tools=[till.pay])
        for level in range(depth):
            made = Graph(
                {f"before{level}": scripts.agent(f"before{level}", "ready"), f"inside{level}": made},
                [(f"before{level}", f"inside{level}")],
                id=f"team{level}",
            )
        return made

    team = in_a_team(payer, scripts, storage)
    asked = door(team(), "go")
    assert statuses(asked) == {"first": "completed", "beside": "completed", "middle": "interrupted"}
    [question] = asked.interrupts
    inside = [f"inside{level}" for level in reversed(range(depth))]
    assert (question.name, question.reason) == ("how", 3)
    assert question.path == ("middle", *inside, "tools")
    assert asked.results["middle"].interrupts == [question]

    before = scripts.calls
    result = door(team(), answers(asked, "card"))
    assert result.status is Status.COMPLETED
    assert order(result) == ["first", "middle", "beside", "last"]
    assert scripts.calls == {**before, "payer": 2, "last": 1}
    assert till.log == ["card"]
    # both calls of the payer's model are counted, and everybody else's
    assert result.accumulated_usage["totalTokens"] == 15 * sum(scripts.calls.values())


@pytest.mark.parametrize("event", [BeforeNodeCallEvent, AfterNodeCallEvent])
def test_a_hook_of_a_node_asks(either: TeamDoor, storage: Storage, scripts: Scripts, event: Any) -> None:
    heard: list[Any] = []

    def build() -> Graph:
        team = in_a_team(lambda: scripts.agent("middle", "done"), scripts, storage)()

        def ask(event: Any) -> None:
            if event.node_id == "middle":
                heard.append(event.interrupt("ok", reason={"node": event.node_id}))

        team.add_hook(ask, event)
        return team

    asked = either(build(), "go")
    ran = {"first": 1, "beside": 1}
    assert scripts.calls == (ran if event is BeforeNodeCallEvent else {**ran, "middle": 1})
    assert [(question.name, question.path) for question in asked.interrupts] == [("ok", ("middle",))]
    result = either(build(), answers(asked, True))
    assert statuses(result) == dict.fromkeys(["first", "middle", "beside", "last"], "completed")
    assert scripts.calls == {**ran, "middle": 1, "last": 1}
    assert heard == [True]
    assert result.results["middle"].result.message["content"] == [{"text": "done"}]


@pytest.mark.parametrize("event", [BeforeToolCallEvent, AfterModelCallEvent])
def test_a_hook_of_an_agent_asks(either: TeamDoor, storage: Storage, scripts: Scripts, event: Any) -> None:
    ran: list[int] = []

    @tool
    def count(upto: int) -> str:
        """Count."""
        ran.append(upto)
        return "counted"

    def build() -> Agent:
        def ask(event: Any) -> None:
            event.interrupt("ok")

        agent = scripts.agent("middle", [ToolCall("count", {"upto": 2})], "done", tools=[count])
        agent.add_hook(ask, event)
        return agent

    team = in_a_team(build, scripts, storage)
    result = either(team(), "go")
    for _ in range(1 if event is BeforeToolCallEvent else 2):
        result = either(team(), answers(result))
    assert result.status is Status.COMPLETED
    assert (scripts.calls["middle"], ran) == (2, [2])


def test_a_function_asks(either: TeamDoor, storage: Storage, scripts: Scripts) -> None:
    def middle(task: Any) -> str:
        return f"told {interrupt('what?')}"

    team = in_a_team(lambda: middle, scripts, storage)
    asked = either(team(), "go")
    result = either(team(), Command(resume="that"))
    assert str(result.results["middle"]) == "told that\n"
    assert asked.interrupts[0].path == ("middle",)


def test_nodes_side_by_side_ask_and_are_answered_one_by_one(
    either: TeamDoor, storage: Storage, scripts: Scripts
) -> None:
    """S51, N6: only what is answered runs."""
    tills = {name: Till() for name in ("a", "b")}

    def build() -> Graph:
        nodes: dict[str, Any] = {
            name: scripts.agent(name, [ToolCall("pay", {"amount": 1})], f"{name} done", tools=[till.pay])
            for name, till in tills.items()
        }
        nodes["c"] = scripts.agent("c", "c done")
        nodes["end"] = scripts.agent("end", "end")
        edges = [(name, "end") for name in ("a", "b", "c")]
        return Graph(nodes, edges, session_manager=storage.session)

    asked = either(build(), "go")
    assert [question.path[0] for question in asked.interrupts] == ["a", "b"]
    assert len({question.id for question in asked.interrupts}) == 2
    half = either(build(), [response(asked.interrupts[1], "second")])
    assert [question.id for question in half.interrupts] == [asked.interrupts[0].id]
    assert scripts.calls == {"a": 1, "b": 2, "c": 1}
    result = either(build(), [response(asked.interrupts[0], "first")])
    assert result.status is Status.COMPLETED
    assert scripts.calls == {"a": 2, "b": 2, "c": 1, "end": 1}
    assert (tills["a"].log, tills["b"].log) == (["first"], ["second"])


def test_the_same_agent_asks_again_in_its_next_turn(either: TeamDoor, scripts: Scripts) -> None:
    """Its conversation goes on from turn to turn, and so does that of the team inside."""
    till = Till()
    turns = [[ToolCall("pay", {"amount": 1})], "one", [ToolCall("pay", {"amount": 2})], "two"]
    inside = Graph({"payer": scripts.agent("payer", *turns, tools=[till.pay])}, id="inside")
    team = Graph({"inside": inside})
    for amount, word in ((1, "one"), (2, "two")):
        asked = either(team, f"pay {amount}")
        assert asked.interrupts[0].reason == amount
        result = either(team, answers(asked, amount))
        assert str(result) == f"inside: payer: {word}"
    assert till.log == [1, 2]
    assert len(scripts.models["payer"].requests[-1].messages) == 7


def test_a_wrong_answer_is_an_error_before_any_node_runs(
    either: TeamDoor, storage: Storage, scripts: Scripts
) -> None:
    """N3, and SEMANTICS 3 and 6."""
    team = in_a_team(
        lambda: scripts.agent("middle", [ToolCall("pay", {"amount": 3})], "paid", tools=[Till().pay]),
        scripts,
        storage,
    )
    with pytest.raises(NoPendingInterruptError):
        either(team(), [response("0" * 32, 1)])
    asked = either(team(), "go")
    before = scripts.calls
    with pytest.raises(UnknownInterruptError):
        either(team(), [response("0" * 32, 1)])
    for prompt in ("another task", [{"text": "another task"}], []):
        with pytest.raises(TypeError, match="waits for answers"):
            either(team(), prompt)
    for answer in (object(), {1, 2}):
        with pytest.raises(TypeError, match="JSON"):
            either(team(), [response(asked.interrupts[0], answer)])
    assert either(team()).interrupts == asked.interrupts
    assert scripts.calls == before
    given = answers(asked, "card")
    done = either(team(), given)
    assert str(either(team(), given)) == str(done)  # N5
    after = scripts.calls
    with pytest.raises(AlreadyAnsweredError):
        either(team(), answers(asked, "cash"))
    with pytest.raises(NoPendingInterruptError):
        either(team(), Command(resume="cash"))
    assert scripts.calls == after


@pytest.mark.parametrize("spelling", ["value", "map", "blocks"])
def test_a_question_is_answered_in_every_spelling(door: TeamDoor, scripts: Scripts, spelling: str) -> None:
    """N2."""
    till = Till()
    agent = scripts.agent("a", [ToolCall("pay", {"amount": 3})], "paid", tools=[till.pay])
    team = Graph({"inside": Graph({"a": agent}, id="inside")})
    [question] = door(team, "go").interrupts
    assert door(team, SPELLINGS[spelling](question, "cash")).status is Status.COMPLETED
    assert till.log == ["cash"]


@pytest.mark.parametrize("answer", [False, None, 0, "", [], {"a": [1]}])
def test_an_answer_comes_as_it_was_given(scripts: Scripts, answer: Any) -> None:
    heard: list[Any] = []

    def ask(event: BeforeNodeCallEvent) -> None:
        heard.append(event.interrupt("ok"))

    team = Graph({"a": scripts.agent("a", "done")}, hooks=[ask])
    result = team(answers(team("go"), answer))
    assert result.status is Status.COMPLETED
    assert heard == [answer] and type(heard[0]) is type(answer)


@tool(context=True)
def count(by: int, tool_context: ToolContext) -> int:
    """Counts in the state of the agent."""
    state = tool_context.agent.state
    state.set("n", (state.get("n") or 0) + by)
    return int(state.get("n"))


@pytest.mark.parametrize(
    "goto",
    ["beside", Send("beside", "this"), Send("beside", [{"text": "this"}])],
    ids=["name", "text", "blocks"],
)
def test_an_answer_may_let_another_node_run_beside(
    either: TeamDoor, storage: Storage, scripts: Scripts, goto: Any
) -> None:
    """SEMANTICS 3: a resume with an update and a goto, which runs in the same superstep."""

    def ask(task: Any) -> str:
        return f"by {interrupt('how?')}"

    def build() -> Graph:
        members = {"ask": ask, "beside": scripts.agent("beside", "too"), "end": lambda state: state.task}
        return Graph(members, [("ask", "end")], entry_points=["ask"], session_manager=storage.session)

    either(build(), "go")
    result = either(build(), Command(resume="card", update={"task": "other"}, goto=goto))
    assert sorted(order(result)) == ["ask", "beside", "end"] and order(result)[-1] == "end"
    assert str(result) == "ask: by card\nbeside: too\nend: other"
    assert scripts.prompt("beside") == ["other" if goto == "beside" else "this"]


class Found(BaseModel):
    place: str


@pytest.mark.parametrize("nested", [False, True])
def test_what_a_node_has_given_is_the_same_for_the_next_one_after_a_pause(
    either: TeamDoor, storage: Storage, scripts: Scripts, nested: bool
) -> None:
    def ask(event: BeforeNodeCallEvent) -> None:
        if event.node_id == "last":
            event.interrupt("go on?")

    def build(asks: bool, name: str) -> Graph:
        first: Any = scripts.agent(
            f"first{asks}", [ToolCall("Found", {"place": "Tōkyō"})], structured_output_model=Found
        )
        if nested:
            first = Graph({"inner": first})
        members = {"first": first, "last": scripts.agent(name, "done")}
        hooks = [ask] if asks else []
        return Graph(members, [("first", "last")], session_manager=storage.session, hooks=hooks)

    either(build(False, "without"), "go")
    asked = either(build(True, "with"), "go")
    result = either(build(True, "with"), answers(asked))
    assert scripts.prompt("with") == scripts.prompt("without")
    assert '{"place":"Tōkyō"}' in scripts.prompt("with")[-1]
    [said] = result.results["first"].get_agent_results()
    assert said.structured_output == Found(place="Tōkyō")


@pytest.mark.parametrize("depth", [0, 1])
def test_a_member_sees_what_its_tools_have_set_before_the_pause(
    either: TeamDoor, storage: Storage, scripts: Scripts, depth: int
) -> None:
    def ask(event: BeforeToolCallEvent) -> None:
        if event.tool_use["input"]["by"] == 4:
            event.interrupt("ok")

    batch = [ToolCall("count", {"by": by}) for by in (3, 4, 1)]

    def build() -> Graph:
        member: Any = scripts.agent(
            "a", batch, "done", tools=[count], hooks=[ask], tool_executor=SequentialToolExecutor()
        )
        for level in range(depth):
            member = Graph({"a": member}, id=f"level{level}")
        return Graph({"a": member}, session_manager=storage.session)

    either(build(), answers(either(build(), "go"), "yes"))
    results = [block["toolResult"] for block in scripts.models["a"].requests[1].messages[-1]["content"]]
    assert [result["content"][0]["text"] for result in results] == ["3", "7", "8"]
