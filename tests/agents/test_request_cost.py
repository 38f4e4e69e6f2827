"""What a request costs however long the conversation is, in counts that no busy machine changes."""

from __future__ import annotations

import gc
import sys
from itertools import pairwise
from typing import Any

import pytest

from graphkit import Agent, tool
from graphkit.agent import NullConversationManager
from graphkit.models import Model
from tests.agents.conftest import Door, agent_of, script

FEW, MANY = 10, 60


@pytest.fixture(params=["call", "invoke_async"])
def door(request: pytest.FixtureRequest) -> Door:
    return Door(request.param)


@tool
def work() -> str:
    """Works."""
    return "worked"


class Chatty(Model):
    """Calls a tool and says something, and so on; keeps what it was sent last."""

    def __init__(self) -> None:
        self.calls = 0
        self.sent: list[Any] = []

    def stream(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        self.sent = messages
        self.calls += 1
        start = {"toolUse": {"name": "work", "toolUseId": f"call-{self.calls}"}} if self.calls % 2 else {}
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": start}}
        if not start:
            yield {"contentBlockDelta": {"delta": {"text": "done"}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if start else "end_turn"}}

    def get_config(self) -> dict[str, Any]:
        return {}

    def update_config(self, **config: Any) -> None: ...

    def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


def lines_of(door: Door, agent: Agent) -> int:
    """Lines of ours that one request runs, but for those that depend on which thread has just gone to sleep."""
    lines = 0

    def trace(frame: Any, happened: str, argument: Any) -> Any:
        nonlocal lines
        file = frame.f_code.co_filename
        lines += happened == "line" and "graphkit" in file and "/drivers/" not in file
        return trace

    outer = sys.gettrace()
    gc.collect()
    gc.disable()  # what others have left is finalized in lines of its own
    sys.settrace(trace)
    try:
        door(agent, "go")
    finally:
        sys.settrace(outer)
        gc.enable()
    return lines


def test_a_request_runs_no_more_lines_however_long_the_conversation_is(door: Door) -> None:
    model = Chatty()
    agent = Agent(model, tools=[work], conversation_manager=NullConversationManager(), callback_handler=None)
    counted: dict[int, int] = {}
    for turn in range(MANY + 1):
        if turn in (FEW, MANY):
            counted[turn] = lines_of(door, agent)
        else:
            door(agent, "go")
    assert len(model.sent) == 4 * MANY + 3
    assert all(message.keys() == {"role", "content"} for message in model.sent)
    assert counted[MANY] == counted[FEW]


def test_the_model_is_sent_what_was_changed_since_its_last_call(door: Door) -> None:
    agent = agent_of("one", "two", "three", "four")
    for prompt in "abc":
        door(agent, prompt)
    agent.messages[1]["content"] = [{"text": "changed"}]
    del agent.messages[2:4]
    door(agent, "d")
    sent = script(agent).requests[-1].messages
    assert [message["content"][0]["text"] for message in sent] == ["a", "changed", "c", "three", "d"]
    assert all(message.keys() == {"role", "content"} for message in sent)


def test_what_a_model_does_to_what_it_is_sent_is_its_own_affair(door: Door) -> None:
    """To the list and the messages in it, that is; their content is the agent's."""
    seen: list[Any] = []

    class Spoiling(Chatty):
        def stream(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
            seen.append([{**message} for message in messages])
            for message in messages:
                message.update(role="assistant", content=[], more=1)
            messages.clear()
            return super().stream(messages)

    agent = Agent(Spoiling(), tools=[work], callback_handler=None)
    door(agent, "a")
    door(agent, "b")
    assert [len(each) for each in seen] == [1, 3, 5, 7]
    for earlier, later in pairwise(seen):
        assert later[: len(earlier)] == earlier
    kept = [{key: message[key] for key in ("role", "content")} for message in agent.messages]
    assert kept[:-1] == seen[-1]
