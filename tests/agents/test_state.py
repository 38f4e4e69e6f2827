"""`agent.state`: what goes in and what comes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from graphkit import Agent, ToolContext, tool
from graphkit.hooks import BeforeToolCallEvent
from graphkit.models import ToolCall
from graphkit.tools.executors import SequentialToolExecutor
from graphkit_prebuilt.log import DELETED
from graphkit_prebuilt.state import AgentState
from tests.agents.conftest import Door, Session
from tests.conftest import response


class Written:
    """A place for a state to be over, which notes what is written."""

    def __init__(self, **values: Any) -> None:
        self.values: dict[str, Any] = values
        self.writes: list[tuple[str, Any]] = []

    def write(self, key: str, value: Any) -> None:
        self.writes.append((key, value))
        if value is DELETED:
            del self.values[key]
        else:
            self.values[key] = value

    @property
    def state(self) -> AgentState:
        return AgentState.over(lambda: self.values, self.write)


MAKERS: dict[str, Callable[..., AgentState]] = {
    "of its own": lambda **values: AgentState(values),
    "over a channel": lambda **values: Written(**values).state,
}


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Callable[..., AgentState]:
    return MAKERS[request.param]


def test_keys_are_set_got_and_deleted(make: Callable[..., AgentState]) -> None:
    state = make(a=1)
    state.set("b", {"c": [None, True, "x", 1.5]})
    assert state.get() == {"a": 1, "b": {"c": [None, True, "x", 1.5]}}
    assert state.get("a") == 1
    assert state.get("missing") is None
    state.delete("a")
    state.delete("missing")
    assert state.get() == {"b": {"c": [None, True, "x", 1.5]}}


def test_only_set_changes_anything(make: Callable[..., AgentState]) -> None:
    given = {"list": [1]}
    state = make()
    state.set("a", given)
    given["list"].append(2)
    state.get("a")["list"].append(3)
    state.get()["a"]["list"].append(4)
    assert state.get() == {"a": {"list": [1]}}


@pytest.mark.parametrize("key", [None, "", " \n", 5, ("a",)], ids=repr)
def test_a_key_is_text(make: Callable[..., AgentState], key: Any) -> None:
    state = make(a=1)
    changes: list[Callable[[], None]] = [
        lambda: state.set(key, 1),
        lambda: state.delete(key),
        lambda: state.replace({key: 1}),
    ]
    for change in changes:
        with pytest.raises(ValueError, match="a key of the state"):
            change()
    assert state.get() == {"a": 1}


@pytest.mark.parametrize(
    "value",
    [object(), {1}, b"x", lambda: None, {"deep": [object()]}],
    ids=["object", "set", "bytes", "function", "object inside"],
)
def test_a_value_is_json(make: Callable[..., AgentState], value: Any) -> None:
    state = make(a=1)
    with pytest.raises(ValueError, match=r"the value of 'b' .* cannot be written as JSON"):
        state.set("b", value)
    with pytest.raises(ValueError, match="the value of 'b'"):
        state.replace({"c": 1, "b": value})
    assert state.get() == {"a": 1}


@pytest.mark.parametrize("values", [[("a", 1)], "a", 5], ids=repr)
def test_a_state_is_a_dict(values: Any) -> None:
    with pytest.raises(ValueError, match="a dict of its keys"):
        AgentState(values)


def test_everything_is_replaced(make: Callable[..., AgentState]) -> None:
    state = make(a=1, b=2)
    state.replace({"b": 3, "c": 4})
    assert state.get() == {"b": 3, "c": 4}


def test_what_is_written_is_what_was_changed() -> None:
    written = Written(a=1, b=2)
    written.state.delete("missing")
    written.state.replace({"b": 3})
    written.state.set("a", 4)
    assert written.writes == [("a", DELETED), ("b", 3), ("a", 4)]


def test_it_shows_what_it_holds(make: Callable[..., AgentState]) -> None:
    assert repr(make(a=1)) == "AgentState({'a': 1})"


@tool(context=True)
def count(by: int, tool_context: ToolContext) -> int:
    """Counts in the state of the agent."""
    state = tool_context.agent.state
    state.set("n", (state.get("n") or 0) + by)
    return int(state.get("n"))


def counted(agent: Agent) -> list[str]:
    blocks = [block for message in agent.messages for block in message["content"]]
    return [block["toolResult"]["content"][0]["text"] for block in blocks if "toolResult" in block]


@pytest.mark.parametrize("fresh", [False, True], ids=["same", "fresh"])
def test_calls_that_were_answered_see_what_those_beside_them_have_set(
    door: Door, session: Session, fresh: bool
) -> None:
    """Also if those have run before the pause, or in another process."""

    def ask(event: BeforeToolCallEvent) -> None:
        if event.tool_use["input"]["by"] in (4, 5):
            event.interrupt("ok")

    batch = [ToolCall("count", {"by": by}) for by in (3, 4, 5)]
    agent = session.agent(
        batch,
        [ToolCall("count", {"by": 1})],
        "done",
        tools=[count],
        hooks=[ask],
        tool_executor=SequentialToolExecutor(),
    )
    door(agent, "go")
    assert agent.state.get("n") == 3
    for expected in (7, 12):
        if fresh:
            agent = session.agent()
        door(agent, [response(agent.interrupts[0], "yes")])
        if agent.interrupts:
            assert agent.state.get("n") == expected
    assert (counted(agent), session.agent().state.get("n")) == (["3", "7", "12", "13"], 13)
