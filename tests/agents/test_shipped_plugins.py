"""The plugins that come with graphkit (S165): each does what it says, and is as a user could have written it."""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from graphkit import Agent, ToolContext, tool
from graphkit.cache.sqlite import SqliteCache
from graphkit.errors import NotHaltedError
from graphkit.hooks import AfterInvocationEvent, BeforeToolCallEvent
from graphkit.middleware import InvokeModelResult, InvokeModelStage
from graphkit.models import ScriptedModel, ToolCall
from graphkit.models.scripted import Turn
from graphkit.plugins import Plugin, hook, middleware
from graphkit.store.memory import InMemoryStore
from graphkit.store.sqlite import SqliteStore
from graphkit.types.exceptions import ModelThrottledException
from graphkit.vended_plugins import (
    ApprovalGate,
    BudgetGuard,
    HandOver,
    RateLimiter,
    ServiceRetry,
    ToolCallLimits,
    ToolResultCache,
)
from tests.agents.conftest import Answers, Door, Session, agent_of, script


@pytest.fixture(params=["call", "invoke_async"])
def door(request: pytest.FixtureRequest) -> Door:
    return Door(request.param)


@pytest.fixture
def ran() -> list[Any]:
    """What tools have done."""
    return []


@pytest.fixture
def pay(ran: list[Any]) -> Any:
    @tool
    def pay(amount: int) -> str:
        """Pay."""
        ran.append(amount)
        return f"paid {amount}"

    return pay


@pytest.fixture
def look(ran: list[Any]) -> Any:
    @tool
    def look(at: Any = None) -> str:
        """Look."""
        ran.append(at)
        return f"seen {at} ({len(ran)})"

    return look


def results(agent: Any) -> list[tuple[str, str]]:
    """Status and text of every result of a tool, in order."""
    return [
        (block["toolResult"]["status"], block["toolResult"]["content"][0]["text"])
        for message in agent.messages
        for block in message["content"]
        if "toolResult" in block
    ]


def resumed(door: Door, agent: Agent, name: str, data: Any = None) -> Any:
    if door.name == "call":
        return agent.resume(name, data)
    return asyncio.run(agent.resume_async(name, data))


# --- ApprovalGate ---------------------------------------------------------------------------------------


def paying(*amounts: int) -> list[Any]:
    return [[ToolCall("pay", {"amount": amount}) for amount in amounts], "done"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (True, ("success", "paid 5")),
        ("Yes", ("success", "paid 5")),
        ("t", ("success", "paid 5")),
        ("n", ("error", "The call of the tool pay was not approved")),
        (False, ("error", "The call of the tool pay was not approved")),
        (None, ("error", "The call of the tool pay was not approved")),
        ({"odd": []}, ("error", "The call of the tool pay was not approved")),
        ("too much", ("error", "The call of the tool pay was not approved: too much")),
    ],
)
def test_the_gate_asks_and_does_as_it_is_told(
    door: Door, answers: Answers, pay: Any, ran: list[Any], answer: Any, expected: Any
) -> None:
    agent = agent_of(*paying(5), tools=[pay], plugins=[ApprovalGate()])
    result = door(agent, "go")
    assert result.interrupts is not None and ran == []
    assert [(each.name, each.reason) for each in result.interrupts] == [
        ("approval_gate", {"tool": "pay", "input": {"amount": 5}})
    ]
    assert str(door(agent, answers(result, {"approval_gate": answer}))) == "done\n" and results(agent) == [
        expected
    ]


def test_trust_lasts_in_its_conversation_and_for_its_tool(
    session: Session, answers: Answers, pay: Any, look: Any, ran: list[Any]
) -> None:
    def fresh(*turns: Any) -> Agent:
        return session.agent(*turns, tools=[pay, look], plugins=[ApprovalGate()])

    agent = fresh(*paying(1), *paying(2), ToolCall("look"), "done", *paying(3))
    assert str(agent(answers(agent("go"), "trust"))) == "done\n" and ran == [1]
    assert str(fresh()("again")) == "done\n" and ran == [1, 2]
    look_first = fresh()("look")
    assert look_first.interrupts is not None and look_first.interrupts[0].reason["tool"] == "look"
    agent = fresh()
    agent(answers(look_first, "y"))
    assert agent("pay", thread_id="another").stop_reason == "interrupt"


def test_the_gate_guards_what_it_is_told_to(door: Door, pay: Any, look: Any, ran: list[Any]) -> None:
    by_name = ApprovalGate(["pay"], name="by_name")
    large = ApprovalGate(lambda use: use["input"].get("amount", 0) > 100, name="large")
    calls = [ToolCall("look"), ToolCall("pay", {"amount": 5}), ToolCall("pay", {"amount": 500})]
    agent = agent_of(calls, "done", tools=[pay, look], plugins=[by_name, large])
    result = door(agent, "go")
    assert result.interrupts is not None and ran == [None]
    assert [(each.name, each.reason["input"]["amount"]) for each in result.interrupts] == [
        ("by_name", 5),
        ("by_name", 500),
        ("large", 500),
    ]
    with pytest.raises(TypeError, match="list of the names"):
        ApprovalGate("pay")


# --- ToolResultCache ------------------------------------------------------------------------------------


def test_an_equal_call_is_not_made_again(door: Door, look: Any, pay: Any, ran: list[Any]) -> None:
    turns = [
        [ToolCall("look", {"at": 1}), ToolCall("pay", {"amount": 7})],
        [ToolCall("look", {"at": 1}), ToolCall("look", {"at": 2}), ToolCall("pay", {"amount": 7})],
        "done",
    ]
    agent = agent_of(*turns, tools=[look, pay], plugins=[ToolResultCache(["look"])])
    door(agent, "go")
    assert sorted(ran, key=str) == [1, 2, 7, 7]
    ids = [
        block["toolResult"]["toolUseId"]
        for message in agent.messages
        for block in message["content"]
        if "toolResult" in block
    ]
    assert len(set(ids)) == 5  # each result is that of its call
    first, again = (text for _, text in results(agent) if text.startswith("seen 1"))
    assert first == again


def test_results_outlast_the_process(look: Any, ran: list[Any], tmp_path: Path) -> None:
    for number in (1, 2):
        cache: Any
        with SqliteCache(path=str(tmp_path / "cache.sqlite")) as cache:
            agent = agent_of(
                ToolCall("look", {"at": 1}), "done", tools=[look], plugins=[ToolResultCache(cache=cache)]
            )
            agent("go")
        assert results(agent) == [("success", "seen 1 (1)")] and len(ran) == 1, number


def test_errors_and_what_holds_an_answer_are_not_kept(door: Door, answers: Answers, ran: list[Any]) -> None:
    @tool
    def broken() -> str:
        """Breaks."""
        ran.append("broken")
        raise OSError("no disk")

    @tool(context=True)
    def asks(tool_context: ToolContext) -> str:
        """Asks."""
        answer = tool_context.interrupt("which")
        ran.append(answer)
        return str(answer)

    calls = [ToolCall("broken"), ToolCall("asks")]
    agent = agent_of(calls, calls, "done", tools=[broken, asks], plugins=[ToolResultCache()])
    result, number = door(agent, "go"), 0
    while result.stop_reason == "interrupt":
        number += 1
        result = door(agent, answers(result, number))
    assert sorted(ran, key=str) == [1, 2, "broken", "broken"]


# --- RateLimiter ----------------------------------------------------------------------------------------


class Time:
    """A clock that goes on when somebody waits."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.waits.append(round(seconds, 6))
        self.now += seconds


def looking(*ats: Any) -> list[Any]:
    return [*(ToolCall("look", {"at": at}) for at in ats), "done"]


def test_calls_wait_for_tokens(door: Door, look: Any, ran: list[Any]) -> None:
    time = Time()
    limiter = RateLimiter(2, per=10, clock=time, sleep=time.sleep)
    agent = agent_of(*looking(1, 2, 3, 4), tools=[look], plugins=[limiter])
    door(agent, "go")
    assert ran == [1, 2, 3, 4] and time.waits == [5, 5]  # two at once, then one every five seconds


def test_the_bucket_survives_a_restart(session: Session, look: Any) -> None:
    time = Time()

    def fresh(*turns: Any) -> Agent:
        plugin = RateLimiter(1, per=60, clock=time, sleep=time.sleep)
        return session.agent(*turns, tools=[look], plugins=[plugin])

    fresh(*looking(1), *looking(2), *looking(3))("one")
    time.now += 20
    fresh()("two")
    assert time.waits == [40]  # what has flowed in since counts
    time.now += 600
    fresh()("three")
    assert time.waits == [40]


def test_a_store_has_one_bucket_for_all_conversations(door: Door, look: Any) -> None:
    time, store = Time(), InMemoryStore()
    for wait in ([], [60]):
        limiter = RateLimiter(1, per=60, store=store, clock=time, sleep=time.sleep)
        agent = agent_of(*looking(1), tools=[look], plugins=[limiter])
        door(agent, "go")
        assert time.waits == wait
    item = store.get(("rate_limiter",), "bucket")
    assert item is not None and item.value["tokens"] == pytest.approx(-1)


def test_who_shares_a_store_shares_the_bucket_while_all_live(door: Door, look: Any, tmp_path: Path) -> None:
    """As processes do: each has a limiter and a store of its own, on one file."""
    time = Time()

    async def sleep(seconds: float) -> None:
        time.waits.append(round(seconds, 6))

    path = str(tmp_path / "store.sqlite")
    with SqliteStore(path) as one, SqliteStore(path) as other:
        limiters = [RateLimiter(1, per=60, store=store, clock=time, sleep=sleep) for store in (one, other)]
        for number, waits in enumerate([[], [60], [60, 120], [60, 120, 180]]):
            agent = agent_of(*looking(1), tools=[look], plugins=[limiters[number % 2]])
            door(agent, "go")
            assert time.waits == waits


IN_A_PROCESS = """
import os, sys
from graphkit import tool
from graphkit.store.sqlite import SqliteStore
from graphkit.vended_plugins import RateLimiter
from tests.agents.conftest import agent_of
from tests.agents.test_shipped_plugins import looking

@tool
def look(at: int) -> int:
    return at

limiter = RateLimiter(2, per=60, store=SqliteStore(sys.argv[1]), clock=lambda: 1000.0)
agents = [agent_of(*looking(1), tools=[look], plugins=[limiter]) for _ in range(2)]
for number, agent in enumerate(agents):
    agent("go", thread_id=str(number))
os._exit(0)
"""


def test_the_bucket_of_all_conversations_outlives_its_process(door: Door, look: Any, tmp_path: Path) -> None:
    time, path = Time(), str(tmp_path / "store.sqlite")
    ran = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS, path],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    with SqliteStore(path) as store:
        limiter = RateLimiter(2, per=60, store=store, clock=time, sleep=time.sleep)
        door(agent_of(*looking(1), tools=[look], plugins=[limiter]), "go")
    assert time.waits == [30]


@pytest.mark.parametrize("door", [Door("call"), Door("invoke_async")], ids=["sync", "async"])
def test_conversations_side_by_side_get_a_token_each_of_a_store(door: Door, look: Any) -> None:
    time = Time()

    async def sleep(seconds: float) -> None:
        time.waits.append(round(seconds, 6))

    store = InMemoryStore()
    limiter = RateLimiter(1, per=1, store=store, clock=time, sleep=sleep)
    model = ScriptedModel(looking(1), repeat=True, per_thread=True)
    agent = agent_of(model=model, tools=[look], plugins=[limiter])
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda number: door(agent, "go", thread_id=str(number)), range(6)))
    assert sorted(time.waits) == [1, 2, 3, 4, 5]
    item = store.get(("rate_limiter",), "bucket")
    assert item is not None and item.value["tokens"] == -5


def test_calls_side_by_side_get_a_token_each(door: Door, look: Any) -> None:
    time = Time()

    async def sleep(seconds: float) -> None:
        time.waits.append(round(seconds, 6))  # time does not go on: they all wait now

    limiter = RateLimiter(1, per=1, clock=time, sleep=sleep)
    calls = [ToolCall("look", {"at": n}) for n in range(4)]
    agent = agent_of(calls, "done", tools=[look], plugins=[limiter])
    door(agent, "go")
    assert sorted(time.waits) == [1, 2, 3]


def test_who_would_wait_too_long_is_refused(door: Door, look: Any, ran: list[Any]) -> None:
    time = Time()
    limiter = RateLimiter(1, per=60, tools=["look"], max_wait=30, clock=time, sleep=time.sleep)
    agent = agent_of(*looking(1, 2), tools=[look], plugins=[limiter])
    door(agent, "go")
    assert ran == [1] and time.waits == []
    assert results(agent)[1] == (
        "error",
        "The tool look was called too often; it can be called again in 60 s",
    )


def test_the_model_may_be_limited(door: Door, look: Any) -> None:
    time = Time()
    waiting = RateLimiter(1, per=4, model=True, clock=time, sleep=time.sleep)
    door(agent_of(*looking(1, 2), tools=[look], plugins=[waiting]), "go")
    assert time.waits == [4, 4]  # three calls of the model; those of tools are not counted
    refusing = RateLimiter(1, per=4, model=True, max_wait=1, clock=time, sleep=time.sleep)
    agent = agent_of(*looking(1), tools=[look], plugins=[refusing], retry_strategy=None)
    with pytest.raises(ModelThrottledException, match="again in 4 s"):
        door(agent, "go")
    time.now += 4
    assert str(door(agent)) == "done\n"


@pytest.mark.parametrize(
    "wrong",
    [
        {"rate": 0},
        {"rate": 1, "per": -1},
        {"rate": 1, "burst": 0},
        {"rate": "5"},
        {"rate": 1, "per": math.inf},
    ],
    ids=str,
)
def test_a_rate_is_a_positive_number(wrong: Any) -> None:
    with pytest.raises(ValueError, match="must be a positive number"):
        RateLimiter(**wrong)


@pytest.mark.parametrize("max_wait", [-1, "5", True, math.nan])
def test_a_longest_wait_is_a_number_of_seconds(max_wait: Any) -> None:
    with pytest.raises(ValueError, match="max_wait must be"):
        RateLimiter(1, max_wait=max_wait)


# --- BudgetGuard ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "exceeded", "grant"),
    [
        ({"max_turns": 2}, "turns", {"turns": 5}),
        ({"max_tokens": 30}, "tokens", {"tokens": 100}),
        ({"max_cost": 0.5, "cost": lambda usage: usage["totalTokens"] / 60}, "cost", {"cost": 10}),
    ],
)
def test_a_budget_halts_and_goes_on_with_more(
    door: Door, look: Any, ran: list[Any], options: Any, exceeded: str, grant: Any
) -> None:
    agent = agent_of(*looking(1, 2, 3), tools=[look], plugins=[BudgetGuard(**options)])
    result = door(agent, "go")
    assert (result.stop_reason, result.plugin, result.resumable) == ("budget_exceeded", "budget_guard", True)
    assert result.data["exceeded"] == [exceeded]
    assert result.data["used"] == {
        "turns": 2,
        "tokens": 30,
        "cost": pytest.approx(result.data["used"]["cost"]),
    }
    assert ran == [1, 2] and len(script(agent).requests) == 2
    for nothing in (None, {}, {"other": 1}, {exceeded: 0}):
        with pytest.raises(ValueError, match=r"takes what is granted|positive number"):
            resumed(door, agent, "budget_guard", nothing)
    assert str(resumed(door, agent, "budget_guard", grant)) == "done\n" and ran == [1, 2, 3]
    with pytest.raises(NotHaltedError):
        resumed(door, agent, "budget_guard", grant)


def test_a_budget_is_the_conversation_s_and_survives_a_restart(session: Session, look: Any) -> None:
    def fresh(*turns: Any) -> Agent:
        return session.agent(*turns, tools=[look], plugins=[BudgetGuard(max_turns=3)])

    assert fresh(*looking(1), *looking(2), "more")("one").stop_reason == "end_turn"
    assert fresh()("two").stop_reason == "budget_exceeded"
    agent = fresh()
    assert agent("three", thread_id="another").stop_reason == "end_turn"
    assert str(fresh().resume("budget_guard", {"turns": 1})) == "more\n"


def test_a_budget_for_each_turn(door: Door, look: Any) -> None:
    guard = BudgetGuard(max_turns=2, per_invocation=True)
    agent = agent_of(*looking(1), *looking(2), *looking(3, 4), tools=[look], plugins=[guard])
    assert door(agent, "one").stop_reason == door(agent, "two").stop_reason == "end_turn"
    assert door(agent, "three").stop_reason == "budget_exceeded"


@pytest.mark.parametrize(
    "wrong", [{}, {"max_turns": 0}, {"max_tokens": "5"}, {"max_cost": 1}, {"max_turns": True}]
)
def test_a_budget_is_a_positive_number(wrong: Any) -> None:
    with pytest.raises(ValueError, match="BudgetGuard"):
        BudgetGuard(**wrong)


# --- HandOver -------------------------------------------------------------------------------------------


def test_a_turn_is_handed_over_before_a_tool(session: Session, pay: Any, look: Any, ran: list[Any]) -> None:
    """What runs beside it does; whoever goes on makes the call."""

    def fresh(*turns: Any) -> Agent:
        return session.agent(*turns, tools=[pay, look], plugins=[HandOver(["pay"])])

    agent = fresh([ToolCall("look", {"at": 1}), ToolCall("pay", {"amount": 5}, id="p")], "done")
    result = agent("go")
    assert (result.stop_reason, result.plugin, ran) == ("handed_over", "hand_over", [1])
    assert result.data == {
        "thread_id": agent.thread().id,
        "at": "call",
        "tool_uses": [{"toolUseId": "p", "name": "pay", "input": {"amount": 5}}],
    }
    assert str(fresh().resume("hand_over")) == "done\n" and ran == [1, 5]


def test_results_come_from_elsewhere(session: Session, pay: Any, ran: list[Any]) -> None:
    """An approval gate for an external system, which does the work itself."""

    def fresh(*turns: Any) -> Agent:
        return session.agent(*turns, tools=[pay], plugins=[HandOver(at="tools")])

    calls = [ToolCall("pay", {"amount": 1}, id="a"), ToolCall("pay", {"amount": 2}, id="b")]
    result = fresh(calls, *paying(3))("go")
    assert [use["toolUseId"] for use in result.data["tool_uses"]] == ["a", "b"]
    done = {"toolUseId": "b", "status": "success", "content": [{"text": "paid by bank"}]}
    again = fresh().resume("hand_over", [done])
    assert ran == [1] and again.stop_reason == "handed_over"  # the next batch is another point
    agent = fresh()
    assert str(agent.resume("hand_over")) == "done\n"
    assert [text for _, text in results(agent)] == ["paid 1", "paid by bank", "paid 3"]


def test_a_turn_is_handed_over_before_each_call_of_the_model(door: Door, look: Any) -> None:
    agent = agent_of(*looking(1), tools=[look], plugins=[HandOver(at="model")])
    stops = [door(agent, "go"), resumed(door, agent, "hand_over")]
    assert [(stop.stop_reason, stop.data["at"]) for stop in stops] == [("handed_over", "model")] * 2
    assert str(resumed(door, agent, "hand_over")) == "done\n"


@pytest.mark.parametrize("wrong", [{}, {"tools": ["a"], "at": "model"}, {"at": "end"}])
def test_a_hand_over_has_one_kind_of_point(wrong: Any) -> None:
    with pytest.raises(ValueError, match="HandOver stops before"):
        HandOver(**wrong)


@pytest.mark.parametrize("plugin", [HandOver, ToolResultCache])
def test_names_of_tools_are_a_list(plugin: Any) -> None:
    with pytest.raises(TypeError, match="a list of the names of tools, not the text 'pay'"):
        plugin("pay")


def test_a_direct_call_is_handed_over_to_nobody(pay: Any, ran: list[Any]) -> None:
    agent = agent_of(tools=[pay], plugins=[HandOver(["pay"])])
    with pytest.raises(RuntimeError, match="'pay' cannot be called directly: plugin 'hand_over'"):
        agent.tool.pay(amount=1)
    assert (ran, agent.messages) == ([], [])


# --- ToolCallLimits -------------------------------------------------------------------------------------


def test_tools_are_called_so_many_times_in_a_turn(door: Door, look: Any, pay: Any, ran: list[Any]) -> None:
    calls = [ToolCall("look", {"at": n}) for n in (1, 2)]
    turns = [[*calls, ToolCall("pay", {"amount": 9})], calls, "done", calls, "done"]
    agent = agent_of(*turns, tools=[look, pay], plugins=[ToolCallLimits({"look": 3})])
    door(agent, "go")
    assert sorted(ran) == [1, 1, 2, 9]
    status, text = results(agent)[-1]
    assert (
        status == "error"
        and text == "The tool look may be called 3 times in a turn, and was. Do not call it any more"
    )
    door(agent, "again")  # a new turn counts anew
    assert sorted(ran) == [1, 1, 1, 2, 2, 9]


def test_a_call_that_asks_counts_once(session: Session, answers: Answers, ran: list[Any]) -> None:
    @tool(context=True)
    def asks(tool_context: ToolContext) -> str:
        """Asks."""
        ran.append(tool_context.interrupt("which"))
        return "served"

    def fresh(*turns: Any) -> Agent:
        return session.agent(*turns, tools=[asks], plugins=[ToolCallLimits({"asks": 2})])

    result, number = fresh(ToolCall("asks"), ToolCall("asks"), ToolCall("asks"), "done")("go"), 0
    while result.stop_reason == "interrupt":
        number += 1
        result = fresh()(answers(result, number))
    assert ran == [1, 2] and results(fresh())[-1][0] == "error"


def test_a_direct_call_counts_in_a_turn_alone(look: Any, ran: list[Any]) -> None:
    def call(event: AfterInvocationEvent) -> None:
        event.agent.tool.look(at=2, record_direct_tool_call=False)

    @tool(context=True)
    def looks(tool_context: ToolContext) -> str:
        """Looks."""
        found = [tool_context.agent.tool.look(at=at, record_direct_tool_call=False) for at in (3, 4)]
        return " ".join(each["status"] for each in found)

    agent = agent_of(
        ToolCall("looks"), "done", tools=[look, looks], plugins=[ToolCallLimits({"look": 1})], hooks=[call]
    )
    for at in (0, 1):
        assert agent.tool.look(at=at, record_direct_tool_call=False)["status"] == "success"
    agent("go")
    assert (ran, results(agent)[-1]) == ([0, 1, 3, 2], ("success", "success error"))


def test_a_limit_is_a_number_of_times() -> None:
    with pytest.raises(ValueError, match="no number of times"):
        ToolCallLimits({"a": -1})


# --- ServiceRetry ---------------------------------------------------------------------------------------


class Unavailable(Exception):
    status_code = 503


@pytest.mark.parametrize(
    "error",
    [
        ConnectionError("lost"),
        TimeoutError(),
        Unavailable("x"),
        RuntimeError("ServiceUnavailable: try later"),
    ],
)
def test_an_error_of_the_service_is_retried(door: Door, error: Exception) -> None:
    agent = agent_of(error, Turn(text="par", error=error), "done", plugins=[ServiceRetry(initial_delay=0)])
    assert str(door(agent, "go")) == "done\n" and len(agent.messages) == 2


def test_other_errors_and_too_many_are_raised(door: Door) -> None:
    agent = agent_of(ValueError("a fault"), plugins=[ServiceRetry(initial_delay=0)])
    with pytest.raises(ValueError, match="a fault"):
        door(agent, "go")
    agent = agent_of(*[ConnectionError("lost")] * 5, plugins=[ServiceRetry(2, initial_delay=0)])
    with pytest.raises(ConnectionError):
        door(agent, "go")
    assert len(script(agent).requests) == 3


@pytest.mark.parametrize("errors", [[LookupError], lambda error: isinstance(error, LookupError)])
def test_which_errors_are_retried_can_be_said(door: Door, errors: Any) -> None:
    plugin = ServiceRetry(errors=errors, initial_delay=0)
    assert str(door(agent_of(KeyError("gone"), "done", plugins=[plugin]), "go")) == "done\n"
    throttled = agent_of(ModelThrottledException("busy"), plugins=[plugin], retry_strategy=None)
    with pytest.raises(ModelThrottledException):
        door(throttled, "go")


# --- Together -------------------------------------------------------------------------------------------


def test_all_of_them_in_one_agent(door: Door, answers: Answers, pay: Any, look: Any, ran: list[Any]) -> None:
    time = Time()
    plugins = [
        ApprovalGate(["pay"]),
        ToolResultCache(["look"]),
        RateLimiter(5, per=1, clock=time, sleep=time.sleep),
        BudgetGuard(max_turns=2),
        HandOver(lambda use: use["input"].get("amount", 0) > 100),
        ToolCallLimits({"look": 2}),
        ServiceRetry(initial_delay=0),
    ]
    turns = [
        [ToolCall("look", {"at": 1}), ToolCall("pay", {"amount": 500})],
        ConnectionError("lost"),
        [ToolCall("look", {"at": 1}), ToolCall("look", {"at": 2})],
        "done",
    ]
    agent = agent_of(*turns, tools=[pay, look], plugins=plugins)
    both = door(agent, "go")  # a question and a halt, side by side
    assert both.stop_reason == "handed_over" and both.interrupts is not None
    result = resumed(door, agent, "hand_over")
    result = door(agent, answers(result, "y"))
    assert result.stop_reason == "budget_exceeded" and sorted(ran) == [1, 500]
    assert str(resumed(door, agent, "budget_guard", {"turns": 1})) == "done\n"
    assert [status for status, _ in results(agent)] == ["success", "success", "success", "error"]


# --- What others build (S168) ---------------------------------------------------------------------------


class Steering(Plugin):
    """Strands' steering: a call that is not right is answered with guidance, in place of being made."""

    name = "steering"

    @hook
    def guide(self, event: BeforeToolCallEvent) -> None:
        if event.tool_use.input.get("amount", 0) > 100:
            event.cancel_tool = "Pay at most 100 at a time"


class GoalLoop(Plugin):
    """Strands' goal loop: the agent goes on until its answer is judged good enough."""

    name = "goal"

    @hook
    def judge(self, event: AfterInvocationEvent) -> None:
        if event.result is not None and "sources" not in str(event.result):
            event.resume = "Name your sources."


class Intervention(Plugin):
    """Strands' interventions: what is said is looked at, and put right, before anybody sees it."""

    name = "intervention"

    @middleware(InvokeModelStage.Output)
    def redact(self, result: InvokeModelResult) -> InvokeModelResult:
        for block in result.result.message["content"]:
            if "text" in block:
                block["text"] = block["text"].replace("4711", "****")
        return result


def test_steering_goals_and_interventions_are_plugins(door: Door, pay: Any, ran: list[Any]) -> None:
    turns = [
        ToolCall("pay", {"amount": 500}),
        ToolCall("pay", {"amount": 100}),
        "Paid from 4711.",
        "Paid from 4711, as the sources say.",
    ]
    agent = agent_of(*turns, tools=[pay], plugins=[Steering(), GoalLoop(), Intervention()])
    assert str(door(agent, "go")) == "Paid from ****, as the sources say.\n" and ran == [100]
    assert results(agent)[0] == ("error", "Pay at most 100 at a time")
    assert "4711" not in str(agent.messages)
