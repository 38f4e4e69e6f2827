"""`ModelRetryStrategy`: how often a throttled model is called again, and after how long."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from graphkit import ModelRetryStrategy
from graphkit.hooks import AfterModelCallEvent, HookRegistry
from graphkit.models import ScriptedModel, ToolCall
from graphkit.types.exceptions import (
    ContextWindowOverflowException,
    ModelThrottledException,
    StructuredOutputException,
)
from graphkit_prebuilt import retry
from tests.agents.conftest import Door, agent_of, script

Throttled = ModelThrottledException


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that a strategy would have waited."""
    seconds: list[float] = []

    async def sleep(delay: float) -> None:
        seconds.append(delay)

    monkeypatch.setattr(retry, "asyncio", SimpleNamespace(sleep=sleep))
    return seconds


def throttled(times: int) -> list[Any]:
    return [Throttled(f"busy {number}") for number in range(1, times + 1)]


def test_a_throttled_model_is_called_again(door: Door, slept: list[float]) -> None:
    agent = agent_of(*throttled(2), "fine")
    assert str(door(agent, "hi")) == "fine\n"
    assert slept == [4, 8]
    assert [len(request.messages) for request in script(agent).requests] == [1, 1, 1]
    assert len(agent.messages) == 2


def of_strands(name: str) -> Exception:
    """What a provider of Strands raises."""
    base = type(name, (Exception,), {"__module__": "strands.types.exceptions"})
    error: Exception = type("OfTheProvider", (base,), {})("busy")
    return error


def test_what_a_provider_of_strands_raises_is_known(door: Door, slept: list[float]) -> None:
    """An agent waits and makes room as for its own; hooks and callers get our classes, made from the provider's."""
    given, heard = of_strands("ModelThrottledException"), list[Exception | None]()
    agent = agent_of(given, "fine")
    agent.add_hook(lambda event: heard.append(event.exception), AfterModelCallEvent)
    assert str(door(agent, "hi")) == "fine\n" and slept == [4]
    assert isinstance(heard[0], ModelThrottledException) and heard[0].__cause__ is given
    agent = agent_of("one", of_strands("ContextWindowOverflowException"), "two")
    door(agent, "hi")
    assert str(door(agent, "again")) == "two\n" and len(agent.messages) == 2
    with pytest.raises(ContextWindowOverflowException, match="busy"):
        door(agent_of(of_strands("ContextWindowOverflowException")), "hi")
    other = of_strands("SomethingElse")
    with pytest.raises(type(other)):
        door(agent_of(other), "hi")


def test_after_so_many_attempts_the_error_is_raised(door: Door, slept: list[float]) -> None:
    agent = agent_of(*throttled(6), "fine")
    with pytest.raises(Throttled, match="busy 6"):
        door(agent, "hi")
    assert slept == [4, 8, 16, 32, 64]
    assert str(door(agent)) == "fine\n"


def test_the_delay_doubles_up_to_the_longest(door: Door, slept: list[float]) -> None:
    strategy = ModelRetryStrategy(max_attempts=7, initial_delay=0.5, max_delay=3)
    with pytest.raises(Throttled):
        door(agent_of(*throttled(7), retry_strategy=strategy), "hi")
    assert slept == [0.5, 1, 2, 3, 3, 3]


def test_one_attempt_is_no_retry(door: Door, slept: list[float]) -> None:
    with pytest.raises(Throttled, match="busy 1"):
        door(agent_of(*throttled(2), retry_strategy=ModelRetryStrategy(max_attempts=1)), "hi")
    assert slept == []


def test_without_a_strategy_nothing_is_retried(door: Door, slept: list[float]) -> None:
    agent = agent_of(*throttled(1), "fine", retry_strategy=None)
    with pytest.raises(Throttled):
        door(agent, "hi")
    assert len(script(agent).requests) == 1


def test_other_errors_are_not_retried(door: Door, slept: list[float]) -> None:
    agent = agent_of(ConnectionError("gone"), "fine")
    with pytest.raises(ConnectionError, match="gone"):
        door(agent, "hi")
    assert slept == []


def test_a_subclass_says_what_is_retried(door: Door, slept: list[float]) -> None:
    class Stubborn(ModelRetryStrategy):
        def is_retryable(self, exception: Exception) -> bool:
            return isinstance(exception, ConnectionResetError)

    strategy = Stubborn(initial_delay=1)
    assert (
        str(door(agent_of(ConnectionResetError("gone"), "fine", retry_strategy=strategy), "hi")) == "fine\n"
    )
    with pytest.raises(Throttled):
        door(agent_of(*throttled(1), retry_strategy=strategy), "hi")
    assert slept == [1]


def test_attempts_are_counted_anew_when_the_model_has_answered(door: Door, slept: list[float]) -> None:
    turns = [*throttled(2), [ToolCall("nothing")], *throttled(2), "fine"]
    door(agent_of(*turns, retry_strategy=ModelRetryStrategy(max_attempts=3, initial_delay=1)), "hi")
    assert slept == [1, 2, 1, 2]


def test_attempts_are_counted_by_request(door: Door, slept: list[float]) -> None:
    agent = agent_of(
        *throttled(2), "one", *throttled(2), "two", retry_strategy=ModelRetryStrategy(max_attempts=3)
    )
    for prompt in ("1", "2"):
        door(agent, prompt)
    assert slept == [4, 8, 4, 8]


def test_requests_at_the_same_time_do_not_count_for_each_other(slept: list[float]) -> None:
    failed: dict[str, int] = {}

    def turn(request: Any) -> Any:
        name = request.messages[0]["content"][0]["text"]
        failed[name] = failed.get(name, 0) + 1
        return Throttled(name) if failed[name] < 3 else name

    agent = agent_of(
        model=ScriptedModel([turn], repeat=True), retry_strategy=ModelRetryStrategy(max_attempts=3)
    )

    async def all_at_once() -> list[str]:
        names = [f"thread {number}" for number in range(5)]
        calls = [agent.invoke_async(name, thread_id=name) for name in names]
        return [str(result).strip() for result in await asyncio.gather(*calls)]

    assert asyncio.run(all_at_once()) == [f"thread {number}" for number in range(5)]
    assert sorted(slept) == [4] * 5 + [8] * 5


def test_what_another_hook_retries_is_left_to_it(door: Door, slept: list[float]) -> None:
    agent = agent_of(*throttled(3), "fine")

    def again(event: AfterModelCallEvent) -> None:
        event.retry = event.exception is not None

    agent.add_hook(again)
    assert str(door(agent, "hi")) == "fine\n"
    assert slept == []


def test_a_stream_tells_of_the_delay(slept: list[float]) -> None:
    agent = agent_of(*throttled(2), "fine")

    async def shown() -> list[Any]:
        return [each async for each in agent.stream_async("hi")]

    told = [
        each["event_loop_throttled_delay"]
        for each in asyncio.run(shown())
        if "event_loop_throttled_delay" in each
    ]
    assert told == [4, 8]


class Patient:
    """A strategy of the user's own: any hook provider."""

    def __init__(self) -> None:
        self.tries = 0

    def register_hooks(self, registry: HookRegistry) -> None:
        registry.add_callback(AfterModelCallEvent, self.again)

    def again(self, event: AfterModelCallEvent) -> None:
        self.tries += 1
        event.retry = isinstance(event.exception, Throttled)


def test_a_strategy_of_the_users_own(door: Door, slept: list[float]) -> None:
    strategy = Patient()
    assert str(door(agent_of(*throttled(9), "fine", retry_strategy=strategy), "hi")) == "fine\n"
    assert strategy.tries == 10
    assert slept == []


@pytest.mark.parametrize(
    "options",
    [
        {"max_attempts": 0},
        {"max_attempts": 2.5},
        {"max_attempts": True},
        {"initial_delay": -1},
        {"initial_delay": float("nan")},
        {"max_delay": "long"},
    ],
    ids=str,
)
def test_numbers_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        ModelRetryStrategy(**options)


@pytest.mark.parametrize("kind", [ModelThrottledException, StructuredOutputException])
def test_what_an_error_says_is_its_message(kind: Any) -> None:
    assert kind("too much").message == str(kind("too much")) == "too much"
