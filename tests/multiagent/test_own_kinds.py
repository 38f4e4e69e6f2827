"""A kind of orchestrator of one's own: `choose` and `input_for` are all that it says, or `invoke_async`."""

from typing import Any

import pytest

from graphkit.agent.agent_result import AgentResult
from graphkit.multiagent import GraphBuilder
from graphkit.multiagent.base import MultiAgentBase, MultiAgentResult, NodeResult, Status
from graphkit.telemetry.metrics import EventLoopMetrics
from graphkit.types import interrupt
from graphkit.types.content import ContentBlock, Message
from graphkit.types.event_loop import Usage
from graphkit_prebuilt.loop.steps import Call, Steps
from graphkit_prebuilt.multiagent.members import members_of
from graphkit_prebuilt.multiagent.nodes import Visit
from graphkit_prebuilt.multiagent.turns import Choice, Turn
from tests.agents.conftest import agent_of, script
from tests.multiagent.teams import Scripts, Storage, TeamDoor, answers, order


class Rota(MultiAgentBase):
    """Everybody once, in order, until `budget` tokens are used; `say_next` is asked before each."""

    def __init__(
        self, nodes: Any, say_next: Any, budget: int = 10**9, calls: bool = False, **options: Any
    ) -> None:
        self.say_next, self.budget, self.calls = say_next, budget, calls
        super().__init__(members_of(nodes), **options)

    def choose(self, turn: Turn) -> Steps[Choice]:
        left = list(self.nodes)[turn.state.executions :]
        used = turn.state.values.get("totals", {}).get("usage", {}).get("totalTokens", 0)
        if not left or used >= self.budget:
            return Choice(failed="the budget is used" if left else None)
        if self.calls:
            yield Call(self.say_next, (left[0],))
        else:
            self.say_next(left[0])
        return Choice(visits=[Visit(node=left[0], key=left[0])], own={"last": left[0]})

    def input_for(self, visit: Visit, state: Any) -> Any:
        return [
            {"text": f"{state.task} for {visit.node}, after {(state.values.get('own') or {}).get('last')}"}
        ]


@pytest.mark.parametrize("calls", [False, True])
def test_who_is_next_may_be_asked_of_a_person(either: TeamDoor, storage: Storage, calls: bool) -> None:
    """Nothing that has ended runs again for that."""
    ran: list[str] = []

    def say_next(name: str) -> None:
        if name == "b":
            assert interrupt("b too?") == "y"

    def work(task: Any) -> str:
        ran.append(task[0]["text"])
        return "done"

    def build() -> Rota:
        return Rota(dict.fromkeys("abc", work), say_next, calls=calls, session_manager=storage.session)

    asked = either(build(), "go")
    assert [question.value for question in asked.interrupts] == ["b too?"]
    result = either(build(), answers(asked))
    assert result.status is Status.COMPLETED and order(result) == ["a", "b", "c"]
    assert ran == [f"go for {name}, after {name}" for name in "abc"]


@pytest.mark.parametrize("calls", [False, True])
def test_a_choice_that_fails_can_be_made_again(either: TeamDoor, storage: Storage, calls: bool) -> None:
    ran, fails = list[int](), ["b"]

    def say_next(name: str) -> None:
        if name in fails:
            raise LookupError("who?")

    def build() -> Rota:
        nodes = dict.fromkeys("ab", lambda task: ran.append(1))
        return Rota(nodes, say_next, calls=calls, session_manager=storage.session)

    with pytest.raises(LookupError):
        either(build(), "go")
    fails.clear()
    assert order(either(build())) == ["a", "b"] and len(ran) == 2


def test_a_member_may_be_given_nothing(either: TeamDoor) -> None:
    class Silent(Rota):
        def input_for(self, visit: Visit, state: Any) -> Any:
            return []

    agent = agent_of("x")
    assert str(either(Silent({"a": agent}, lambda name: None), "go")) == "a: x"
    assert script(agent).requests[0].messages == []


def test_a_choice_sees_what_was_used(either: TeamDoor) -> None:

    team = Rota({name: agent_of("x") for name in "abc"}, lambda name: None, budget=30)
    result = either(team, "go")
    assert (result.status, result.reason, order(result)) == (Status.FAILED, "the budget is used", ["a", "b"])


class Shout(MultiAgentBase):
    """A node as programs written for Strands have it: all that it says is `invoke_async`."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    async def invoke_async(
        self, task: Any = None, invocation_state: dict[str, Any] | None = None, **kwargs: Any
    ) -> MultiAgentResult:
        self.seen.append((task, invocation_state))
        message = Message(role="assistant", content=[ContentBlock(text=task[-1]["text"].upper())])
        said = AgentResult(stop_reason="end_turn", message=message, metrics=EventLoopMetrics(), state={})
        usage = Usage(inputTokens=1, outputTokens=2, totalTokens=3)
        node = NodeResult(result=said, status=Status.COMPLETED, execution_time=5, accumulated_usage=usage)
        return MultiAgentResult(
            status=Status.COMPLETED, results={"shout": node}, accumulated_usage=usage, execution_count=1
        )


def test_an_orchestrator_that_runs_by_itself_is_a_node(either: TeamDoor, scripts: Scripts) -> None:
    """As in Strands' documentation of custom nodes."""
    shout, builder = Shout(), GraphBuilder()
    builder.add_node(shout, "shout")
    builder.add_node(scripts.agent("a", "read it"), "a")
    builder.add_edge("shout", "a")
    result = either(builder.build(), "go", invocation_state={"user": "u1"})
    assert result.status is Status.COMPLETED and order(result) == ["shout", "a"]
    assert shout.seen[0][0] == [{"text": "go"}] and shout.seen[0][1]["user"] == "u1"
    inner = result.results["shout"].result
    assert str(inner) == "shout: GO" and str(result.results["shout"].get_agent_results()[0]) == "GO\n"
    assert scripts.prompt("a")[-2:] == ["\nFrom shout:", "  - Agent: GO\n"]
    assert result.accumulated_usage["totalTokens"] >= 3


def test_results_may_be_made_by_position() -> None:
    """As Strands' dataclasses are."""
    said = AgentResult(
        "end_turn", {"role": "assistant", "content": [{"text": "yes"}]}, EventLoopMetrics(), {}
    )
    node = NodeResult(said, 7, Status.COMPLETED)
    result = MultiAgentResult(Status.COMPLETED, {"a": node})
    assert (node.execution_time, node.status, str(result)) == (7, Status.COMPLETED, "a: yes")


def test_an_orchestrator_that_does_not_say_who_is_next_cannot_be_called(either: TeamDoor) -> None:
    with pytest.raises(NotImplementedError, match=r"choose\(\).*Idle"):
        either(Idle(), "go")


class Idle(MultiAgentBase):
    pass
