"""How much one request may use: calls of the model, tokens (Strands' `Limits`)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graphkit import AgentResult, tool
from graphkit.models import ScriptedModel, ToolCall
from graphkit.telemetry import EventLoopMetrics
from graphkit.types.content import Message
from graphkit_prebuilt.models.scripted import Turn
from tests.agents.conftest import Door, agent_of, script


@tool
def again() -> str:
    """Asks to be called again."""
    return "again"


def busy(usage: dict[str, int] | None = None) -> Any:
    """An agent that calls its tool for ever; each call of the model takes this."""
    turn = Turn(calls=[ToolCall("again")], usage=usage)  # type: ignore[arg-type]
    return agent_of(model=ScriptedModel([turn], repeat=True), tools=[again])


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_turns_are_calls_of_the_model(door: Door, turns: int) -> None:
    agent = busy()
    result = door(agent, "go", limits={"turns": turns})
    assert result.stop_reason == "limit_turns"
    assert len(script(agent).requests) == turns
    assert result.message == agent.messages[-1]
    assert result.message["content"][0]["toolResult"]["status"] == "success"


def test_tokens_are_counted_between_two_calls(door: Door) -> None:
    usage = {"inputTokens": 10, "outputTokens": 4, "totalTokens": 14}
    for limits, calls, reason in [
        ({"output_tokens": 9}, 3, "limit_output_tokens"),
        ({"total_tokens": 15}, 2, "limit_total_tokens"),
        ({"total_tokens": 1, "output_tokens": 100}, 1, "limit_total_tokens"),
    ]:
        agent = busy(usage)
        assert door(agent, "go", limits=limits).stop_reason == reason
        assert len(script(agent).requests) == calls


def test_a_request_that_ends_before_its_limit_does_not_feel_it(door: Door) -> None:
    agent = agent_of(ToolCall("again"), "done", tools=[again])
    result = door(agent, "go", limits={"turns": 2, "output_tokens": 1000})
    assert (result.stop_reason, str(result)) == ("end_turn", "done\n")


def test_limits_are_those_of_one_request(door: Door) -> None:
    agent = busy()
    assert door(agent, "go", limits={"turns": 1}).stop_reason == "limit_turns"
    assert door(agent, "go on", limits={"turns": 2}).stop_reason == "limit_turns"
    assert len(script(agent).requests) == 3
    assert [message["role"] for message in agent.messages] == [
        *("user", "assistant", "user"),
        *("user", "assistant", "user", "assistant", "user"),
    ]


@pytest.mark.parametrize(
    "limits",
    [5, "turns", [("turns", 1)], *({"turns": none} for none in (0, -1, 1.5, True, "3", None)), {"calls": 1}],
)
def test_what_is_no_limit_is_refused_before_anything_runs(door: Door, limits: Any) -> None:
    agent = agent_of("never said")
    with pytest.raises(TypeError, match=r"limits"):
        door(agent, "go", limits=limits)
    assert script(agent).requests == [] and agent.messages == []


def test_metrics_are_those_of_the_request(door: Door) -> None:
    usage = {"inputTokens": 10, "outputTokens": 4, "totalTokens": 14}
    agent = busy(usage)
    door(agent, "go", limits={"turns": 3})
    metrics = door(agent, "go", limits={"turns": 2}).metrics
    assert metrics.cycle_count == len(metrics.cycle_durations) == 2
    assert metrics.accumulated_usage == {"inputTokens": 20, "outputTokens": 8, "totalTokens": 28}
    used = metrics.tool_metrics["again"]
    assert (used.call_count, used.success_count, used.error_count) == (2, 2, 0)
    summary = metrics.get_summary()
    assert summary["total_cycles"] == 2
    told = summary["tool_usage"]["again"]
    assert told["execution_stats"]["success_rate"] == 1 and told["execution_stats"]["call_count"] == 2
    assert told["tool_info"]["name"] == used.tool["name"] == "again"
    assert told["tool_info"]["input_params"] == {} and told["tool_info"]["tool_use_id"]
    assert summary["agent_invocations"] == [
        {"usage": metrics.accumulated_usage, "cycles": [{"usage": usage}] * 2}
    ]
    invocation = metrics.latest_agent_invocation
    assert invocation is not None and metrics.agent_invocations == [invocation]
    assert invocation.usage == metrics.accumulated_usage
    assert [cycle.usage for cycle in invocation.cycles] == [usage, usage]
    json.dumps(summary)


@pytest.mark.parametrize(
    ("usage", "size"),
    [
        ({"inputTokens": 10, "outputTokens": 4, "totalTokens": 14}, 10),
        ({"inputTokens": 10, "outputTokens": 4, "totalTokens": 14, "cacheReadInputTokens": 3}, 10),
        ({"inputTokens": 10, "outputTokens": 4, "totalTokens": 19, "cacheReadInputTokens": 5}, 15),
    ],
)
def test_the_size_of_the_context(door: Door, usage: dict[str, int], size: int) -> None:
    """What the last call of the model read, with what is cached; and with what it then said."""
    result = door(busy(usage), "go", limits={"turns": 1})
    assert result.context_size == result.metrics.latest_context_size == size
    assert result.projected_context_size == result.metrics.projected_context_size == size + 4


def test_nothing_is_known_of_a_context_before_a_call_of_the_model() -> None:
    metrics = EventLoopMetrics()
    assert (metrics.latest_context_size, metrics.projected_context_size) == (None, None)
    assert metrics.get_summary()["agent_invocations"] == []
    assert metrics.latest_agent_invocation is None
    message: Message = {"role": "assistant", "content": [{"text": "made by hand"}]}
    assert str(AgentResult("end_turn", message, metrics, {})) == "made by hand\n"
