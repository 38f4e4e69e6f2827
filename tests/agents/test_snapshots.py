"""`agent.take_snapshot` and `load_snapshot`: what an agent has been told, as plain data, and back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graphkit import Agent, Snapshot, tool
from graphkit.agent import SlidingWindowConversationManager
from graphkit.errors import InvalidUpdateError, SnapshotException
from graphkit.hooks import BeforeModelCallEvent, BeforeToolCallEvent
from graphkit.models import ScriptedModel, ToolCall
from graphkit_prebuilt.content import user
from tests.agents.conftest import Answers, Door, Session, agent_of, script


def texts(agent: Any) -> list[str]:
    return [message["content"][0]["text"] for message in agent.messages]


def through_json(snapshot: Snapshot) -> Snapshot:
    return Snapshot.from_dict(json.loads(json.dumps(snapshot.to_dict())))


def test_an_agent_goes_back_to_a_snapshot(door: Door, session: Session) -> None:
    agent = session.agent("one", "two", "three", state={"k": 1})
    door(agent, "a")
    taken = through_json(agent.take_snapshot(preset="session", app_data={"why": "before b"}))
    assert (taken.scope, taken.schema_version, taken.app_data) == ("agent", "1.0", {"why": "before b"})
    door(agent, "b")
    agent.state.set("k", 2)
    agent.load_snapshot(taken)
    assert texts(agent) == ["a", "one"] and agent.state.get("k") == 1
    again = session.agent()  # it is stored at once
    assert texts(again) == ["a", "one"] and again.state.get() == {"k": 1}
    door(agent, "c")
    assert texts(agent) == ["a", "one", "c", "three"]
    assert [message["content"][0]["text"] for message in session.model.requests[2].messages] == [
        "a",
        "one",
        "c",
    ]


def test_another_agent_goes_on_with_a_snapshot(door: Door) -> None:
    agent = agent_of("one", system_prompt="be kind", state={"k": [1]})
    door(agent, "a")
    taken = agent.take_snapshot(preset="session", include=["system_prompt"])
    agent.messages[0]["content"][0]["text"] = agent.state.get("k")  # a snapshot is a copy
    other = agent_of("two", system_prompt="be brief")
    other.load_snapshot(taken)
    taken.data["messages"].clear()
    assert (texts(other), other.state.get(), other.system_prompt) == (["a", "one"], {"k": [1]}, "be kind")
    door(other, "b")
    assert texts(other) == ["a", "one", "b", "two"] and len(script(other).requests[0].messages) == 3


def test_only_what_is_in_a_snapshot_is_loaded() -> None:
    agent = agent_of("one", "two", state={"k": 1})
    agent("a")
    only = agent.take_snapshot(include=["state"])
    assert only.data == {"state": {"k": 1}}
    agent("b")
    agent.state.set("k", 2)
    agent.load_snapshot(only)
    assert len(agent.messages) == 4 and agent.state.get() == {"k": 1}
    assert set(agent.take_snapshot(preset="session", exclude=["state"]).data) == {
        "messages",
        "conversation_manager_state",
        "interrupt_state",
        "model_state",
    }


def test_what_the_conversation_manager_knows_goes_with_it(door: Door) -> None:
    agent = agent_of("one", "two", conversation_manager=SlidingWindowConversationManager(window_size=2))
    door(agent, "a")
    door(agent, "b")
    taken = agent.take_snapshot(preset="session")
    assert taken.data["conversation_manager_state"]["removed_message_count"] == 2
    manager = SlidingWindowConversationManager(window_size=2)
    other = agent_of("three", conversation_manager=manager)
    other.load_snapshot(taken)
    door(other, "c")
    assert manager.removed_message_count == 4
    assert other.take_snapshot(preset="session").data["conversation_manager_state"] == manager.get_state()


def test_a_snapshot_of_one_conversation_of_many() -> None:
    agent = agent_of("one", "two", conversation_manager=SlidingWindowConversationManager(window_size=2))
    agent("a", thread_id="x")
    agent("b", thread_id="x")
    assert agent.take_snapshot(preset="session").data["messages"] == []

    def look(event: BeforeModelCallEvent) -> None:
        taken = event.agent.take_snapshot(include=["messages"])
        seen.append([message["content"][0]["text"] for message in taken.data["messages"]])
        event.agent.load_snapshot(empty)

    seen: list[list[str]] = []
    empty = agent.take_snapshot(include=["messages"])
    empty.data["messages"] = [{"role": "user", "content": [{"text": "instead"}]}]
    agent.model = ScriptedModel(["three"])
    agent.add_hook(look)
    agent("c", thread_id="x")
    assert seen == [["b", "two", "c"]] and texts(agent.thread("x")) == ["instead", "three"]


@tool
def add(a: int) -> int:
    """Add."""
    return a + 1


def asking() -> Agent:
    def ask(event: BeforeToolCallEvent) -> None:
        event.interrupt("ok")

    return agent_of("one", [ToolCall("add", {"a": 1})], "done", tools=[add], hooks=[ask])


def test_open_questions_are_in_no_snapshot(door: Door, answers: Answers) -> None:
    agent = asking()
    door(agent, "a")
    before = agent.take_snapshot(preset="session")
    asked = door(agent, "b")
    with pytest.raises(SnapshotException, match="waits for answers"):
        agent.take_snapshot(preset="session")
    assert len(agent.take_snapshot(preset="session", exclude=["interrupt_state"]).data["messages"]) == 3
    assert door(agent, answers(asked, "yes")).stop_reason == "end_turn"
    agent = asking()
    door(agent, "a")
    door(agent, "b")
    agent.load_snapshot(before)  # leaves what was asked
    assert agent.interrupts == [] and texts(agent) == ["a", "one"]
    assert str(door(agent, "c")) == "done\n"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "no field"),
        ({"exclude": ["state"]}, "no field"),
        ({"include": ["nothing"]}, "'nothing'"),
        ({"exclude": ["nothing"], "preset": "session"}, "'nothing'"),
        ({"preset": "nothing"}, "'nothing'"),
    ],
    ids=["none", "only without", "include", "exclude", "preset"],
)
def test_fields_that_are_none(options: Any, says: str) -> None:
    with pytest.raises(SnapshotException, match=says):
        agent_of("one").take_snapshot(**options)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"schema_version": "2.0"}, "'2.0'"),
        ({"scope": "multiAgent"}, "'multiAgent'"),
        ({"data": {"interrupt_state": {"activated": True}}}, "waits for answers"),
    ],
    ids=["version", "scope", "questions"],
)
def test_a_snapshot_that_cannot_be_loaded_changes_nothing(change: Any, says: str) -> None:
    agent = agent_of("one")
    agent("a")
    taken = agent.take_snapshot(preset="session").to_dict() | change
    with pytest.raises(SnapshotException, match=says):
        agent.load_snapshot(Snapshot(**taken))
    assert len(agent.messages) == 2


def test_what_was_not_stored_yet_stays_if_a_snapshot_cannot_be_loaded(door: Door) -> None:
    agent = agent_of("one", "two")
    door(agent, "a")
    taken = agent.take_snapshot(preset="session")
    taken.data["messages"].append("no message")
    agent.messages[0]["content"][0]["text"] = "A"
    agent.messages.append(user("b"))
    agent.state.set("n", 1)
    with pytest.raises(InvalidUpdateError, match="no message"):
        agent.load_snapshot(taken)
    assert (texts(agent), agent.state.get()) == (["A", "one", "b"], {"n": 1})
    door(agent, "c")
    assert (texts(agent), agent.state.get()) == (["A", "one", "b", "c", "two"], {"n": 1})


def test_what_is_no_snapshot_is_refused() -> None:
    with pytest.raises(SnapshotException, match="from_dict"):
        Snapshot.from_dict({"scope": "agent"})
