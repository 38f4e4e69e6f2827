"""What a model streams that is no answer, and what answers mean that contradict themselves."""

from __future__ import annotations

from typing import Any

import pytest

from graphkit import tool
from graphkit.errors import MaxTokensReachedException, ModelStreamError
from graphkit.hooks import AfterModelCallEvent, MessageAddedEvent
from graphkit.models import ToolCall
from graphkit_prebuilt.content import user
from graphkit_prebuilt.models.scripted import Turn
from tests.agents.conftest import Answers, Door, Session, agent_of

START = {"messageStart": {"role": "assistant"}}
STOP = {"messageStop": {"stopReason": "end_turn"}}


def said(text: str) -> Any:
    return {"contentBlockDelta": {"delta": {"text": text}}}


def called(**use: Any) -> Any:
    return {"contentBlockStart": {"start": {"toolUse": use}}}


@tool
def look(at: str = "there") -> str:
    """Looks."""
    return f"saw {at}"


@pytest.mark.parametrize(
    "chunks",
    [
        [],
        [START],
        [START, said("half")],
        ["text"],
        [START, None],
        [START, {"contentBlockDelta": 5}],
        [START, called(toolUseId="t"), STOP],
        [START, called(toolUseId="t", name=""), STOP],
    ],
    ids=["empty", "begun", "cut", "text", "none", "number", "unnamed", "blank"],
)
def test_what_is_no_answer_is_an_error_and_leaves_nothing(door: Door, chunks: list[Any]) -> None:
    agent = agent_of(iter(chunks), "well", tools=[look])
    with pytest.raises(ModelStreamError):
        door(agent, "go")
    assert [message["role"] for message in agent.messages] == ["user"]
    assert str(door(agent)) == "well\n"
    assert [message["role"] for message in agent.messages] == ["user", "assistant"]


def test_an_unknown_chunk_is_passed_over(door: Door) -> None:
    agent = agent_of([START, {"weather": "fine"}, said("well"), STOP])
    assert str(door(agent, "go")) == "well\n"


def test_a_block_without_a_start_is_a_block(door: Door) -> None:
    agent = agent_of([said("well"), STOP])
    assert door(agent, "go").message["content"] == [{"text": "well"}]


def test_to_stop_for_tools_without_calling_any_ends_the_turn(door: Door) -> None:
    agent = agent_of(Turn(text="well", stop_reason="tool_use"))
    assert door(agent, "go").stop_reason == "end_turn"
    assert len(agent.messages) == 2


def test_calls_are_made_whatever_the_model_stopped_for(door: Door) -> None:
    agent = agent_of(Turn(calls=[ToolCall("look")], stop_reason="end_turn"), "done", tools=[look])
    assert str(door(agent, "go")) == "done\n"
    assert agent.messages[2]["content"][0]["toolResult"]["content"] == [{"text": "saw there"}]


def test_calls_without_an_id_or_with_one_id_are_told_apart(door: Door) -> None:
    chunks = [
        START,
        *(called(toolUseId="same", name="look"), {"contentBlockStop": {}}),
        *(called(toolUseId="same", name="look"), {"contentBlockStop": {}}),
        *(called(name="look"), {"contentBlockStop": {}}),
        {"messageStop": {"stopReason": "tool_use"}},
    ]
    agent = agent_of(chunks, "done", tools=[look])
    assert str(door(agent, "go")) == "done\n"
    calls = [block["toolUse"]["toolUseId"] for block in agent.messages[1]["content"]]
    assert calls[0] == "same" and len(set(calls)) == 3
    assert [block["toolResult"]["toolUseId"] for block in agent.messages[2]["content"]] == calls


def test_an_answer_that_was_cut_is_kept_and_its_calls_are_not_made(door: Door) -> None:
    cut = Turn(text="so far", calls=[ToolCall("look", '{"at": "the')], stop_reason="max_tokens")
    agent = agent_of(cut, "shorter", tools=[look])
    with pytest.raises(MaxTokensReachedException):
        door(agent, "go")
    assert [message["role"] for message in agent.messages] == ["user", "assistant"]
    blocks = agent.messages[1]["content"]
    assert blocks[0] == {"text": "so far"}
    assert "'look'" in blocks[1]["text"] and "toolUse" not in blocks[1]
    assert str(door(agent, "shorter, please")) == "shorter\n"


def test_the_input_of_a_call_that_was_cut_is_not_guessed(door: Door) -> None:
    agent = agent_of(ToolCall("look", '{"at": "the'), "done", tools=[look])
    door(agent, "go")
    result = agent.messages[2]["content"][0]["toolResult"]
    assert result["status"] == "error" and "saw" not in result["content"][0]["text"]


def test_a_model_that_breaks_off_has_said_nothing(door: Door) -> None:
    agent = agent_of(Turn(text="half", error=OSError("the line is dead"), error_after=3), "well")
    with pytest.raises(OSError, match="the line is dead"):
        door(agent, "go")
    assert len(agent.messages) == 1
    assert str(door(agent)) == "well\n"


def test_any_other_reason_to_stop_is_told_as_it_is(door: Door) -> None:
    agent = agent_of(Turn(text="no", stop_reason="content_filtered"), Turn(text="?", stop_reason="moonlight"))
    assert door(agent, "go").stop_reason == "content_filtered"
    assert door(agent, "go").stop_reason == "moonlight"


BLOCKED = {
    "redactContent": {"redactUserContentMessage": "[input]", "redactAssistantContentMessage": "[output]"}
}
STOPPED = {"messageStop": {"stopReason": "guardrail_intervened"}}


def test_what_a_guardrail_takes_back_is_read_by_nobody_again(door: Door, session: Session) -> None:
    agent = session.agent(iter([START, said("a secret"), BLOCKED, STOPPED]), "well")
    result = door(agent, "the password is 1234")
    assert (result.stop_reason, str(result)) == ("guardrail_intervened", "[output]\n")
    again = session.agent()
    assert [message["content"] for message in again.messages] == [
        [{"text": "[input]"}],
        [{"text": "[output]"}],
    ]
    door(again, "go on")
    assert "1234" not in repr(session.model.requests[-1].messages)


@pytest.mark.parametrize("event_type", [AfterModelCallEvent, MessageAddedEvent])
def test_what_a_guardrail_takes_back_stays_so_when_a_hook_asks(
    session: Session, answers: Answers, event_type: Any
) -> None:
    def ask(event: Any) -> None:
        if len(event.agent.messages) > (event_type is MessageAddedEvent):
            event.interrupt("approval")

    agent = session.agent(iter([START, said("a secret"), BLOCKED, STOPPED]))
    agent.add_hook(ask, event_type)
    asked = agent("the password is 1234")
    assert session.agent().messages == [user("[input]")]
    agent(answers(asked, True))
    assert [each["content"][0] for each in session.agent().messages] == [
        {"text": "[input]"},
        {"text": "[output]"},
    ]


def test_of_results_of_tools_a_guardrail_takes_back_what_they_say() -> None:
    agent = agent_of(ToolCall("look", {}), iter([START, said("x"), BLOCKED, STOPPED]), tools=[look])
    agent("go")
    asked, called, answered, _ = agent.messages
    (result,) = answered["content"]
    assert asked["content"] == [{"text": "go"}]
    assert result["toolResult"]["content"] == [{"text": "[input]"}]
    assert result["toolResult"]["toolUseId"] == called["content"][0]["toolUse"]["toolUseId"]
