"""Agents whose models are asked over HTTP, in the protocols of OpenAI and of Anthropic, in both colours."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

from pydantic import BaseModel

from graphkit import Agent, ModelRetryStrategy, tool
from graphkit.agent import SlidingWindowConversationManager
from graphkit.errors import ContextWindowOverflowException, ModelThrottledException, StructuredOutputException
from graphkit.hooks import BeforeToolCallEvent, ModelStreamUpdateEvent
from graphkit.models.pydantic_ai import PydanticAIModel
from graphkit_prebuilt.content import assistant, tool_uses, user
from tests.agents.conftest import Answers, Door, Session
from tests.agents.llm_server import Reply, Serve, serving

OPENAI, ANTHROPIC = "openai-chat:any", "anthropic:any"
BUSY = Reply(
    status=429, body={"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}
)
TOO_LONG = Reply(
    status=400,
    body={
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "code": "context_length_exceeded",
            "message": "prompt is too long: 210000 tokens > 200000 maximum",
        },
    },
)


class Person(BaseModel):
    """Somebody."""

    name: str
    age: int


@tool
def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The one.
        b: The other.
    """
    return a + b


@tool
def divide(a: int, b: int) -> float:
    """Divide two numbers."""
    return a / b


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    with serving(monkeypatch) as start:
        yield start


@pytest.fixture(params=["call", "invoke_async"])
def door(request: pytest.FixtureRequest) -> Door:
    return Door(request.param)


@pytest.fixture(params=[OPENAI, ANTHROPIC])
def name(request: pytest.FixtureRequest) -> str:
    named: str = request.param
    return named


def agent_on(name: str, **options: Any) -> Agent:
    return Agent(PydanticAIModel(name, max_retries=0), callback_handler=None, **options)


def sent_results(body: Any) -> list[tuple[str, str]]:
    """The results of tools in what a provider was sent: (id of the call, text)."""
    found = []
    for message in body["messages"]:
        if message["role"] == "tool":
            found.append((message["tool_call_id"], str(message["content"])))
        elif message["role"] == "user" and isinstance(message["content"], list):
            found += [
                (block["tool_use_id"], str(block["content"]))
                for block in message["content"]
                if block.get("type") == "tool_result"
            ]
    return found


def test_calls_side_by_side_are_answered_in_their_order(serve: Serve, name: str, door: Door) -> None:
    calls = [
        ("add", {"a": 1, "b": 2}, "t1"),
        ("divide", {"a": 1, "b": 0}, "t2"),
        ("add", {"a": 3, "b": 4}, "t3"),
    ]
    server = serve(Reply(text="Let me see.", tools=calls), Reply(text="3, nothing and 7."))
    result = door(agent_on(name, tools=[add, divide], system_prompt="Be short."), "1 + 2, 1 / 0, 3 + 4?")
    assert str(result) == "3, nothing and 7.\n"
    assert result.stop_reason == "end_turn"
    results = sent_results(server.seen[1][1])
    assert [call_id for call_id, _ in results] == ["t1", "t2", "t3"]
    assert all(
        text in result for text, (_, result) in zip(["3", "division by zero", "7"], results, strict=True)
    )
    assert result.metrics.accumulated_usage["totalTokens"] == 36


def test_an_answer_is_shown_while_it_comes(serve: Serve, name: str) -> None:
    serve(Reply(text="hello world, how are you"))
    updates = [each.event for each in agent_on(name).stream("hi") if isinstance(each, ModelStreamUpdateEvent)]
    pieces = [
        update["contentBlockDelta"]["delta"]["text"] for update in updates if "contentBlockDelta" in update
    ]
    assert len(pieces) > 2
    assert "".join(pieces) == "hello world, how are you"


def test_an_input_that_was_cut_is_an_error_for_the_model(serve: Serve, name: str, door: Door) -> None:
    server = serve(
        Reply(tools=[("add", '{"a": 1, "b"', "t1")]),
        Reply(tools=[("add", {"a": 1, "b": 2}, "t2")]),
        Reply(text="3."),
    )
    assert str(door(agent_on(name, tools=[add]), "1 + 2?")) == "3.\n"
    (first, text), (second, answer) = sent_results(server.seen[2][1])
    assert (first, second) == ("t1", "t2")
    assert "error" in text.lower()
    assert "3" in answer


# --- Structured output ---


def test_structured_output(serve: Serve, name: str, door: Door) -> None:
    server = serve(Reply(tools=[("Person", {"name": "Ada", "age": 36}, "t1")]))
    result = door(agent_on(name), "Who was she?", structured_output_model=Person)
    assert result.structured_output == Person(name="Ada", age=36)
    assert result.stop_reason == "tool_use"
    assert len(server.seen) == 1
    assert "Somebody." in str(server.seen[0][1]["tools"])


def test_structured_output_is_insisted_on(serve: Serve, name: str, door: Door) -> None:
    server = serve(Reply(text="It was Ada."), Reply(tools=[("Person", {"name": "Ada", "age": 36}, "t1")]))
    result = door(agent_on(name, tools=[add]), "Who was she?", structured_output_model=Person)
    assert result.structured_output == Person(name="Ada", age=36)
    free, forced = (body["tool_choice"] for _, body in server.seen)
    assert "Person" not in str(free)
    assert "Person" in str(forced)


def test_structured_output_that_does_not_fit_is_tried_again(serve: Serve, name: str, door: Door) -> None:
    server = serve(
        Reply(tools=[("Person", {"name": "Ada", "age": "old"}, "t1")]),
        Reply(tools=[("Person", {"name": "Ada", "age": 36}, "t2")]),
    )
    result = door(agent_on(name), "Who was she?", structured_output_model=Person)
    assert result.structured_output == Person(name="Ada", age=36)
    ((call_id, text),) = sent_results(server.seen[1][1])
    assert call_id == "t1"
    assert "age" in text


def test_structured_output_that_is_refused_twice_is_an_error(serve: Serve, name: str, door: Door) -> None:
    serve(Reply(text="It was Ada."), Reply(text="As I said."))
    with pytest.raises(StructuredOutputException):
        door(agent_on(name), "Who was she?", structured_output_model=Person)


def test_structured_output_of_the_model_itself(serve: Serve, name: str) -> None:
    server = serve(*[Reply(tools=[("Person", {"name": "Ada", "age": 36}, "t1")])] * 2)
    agent = agent_on(name)
    assert agent.structured_output(Person, "Who was she?") == Person(name="Ada", age=36)
    assert asyncio.run(agent.structured_output_async(Person, "Who?")) == Person(name="Ada", age=36)
    assert agent.messages == []
    for _, body in server.seen:  # with one tool, to call some tool is to call it
        assert body["tool_choice"] in ("required", {"type": "any"})
        assert "Person" in str(body["tools"])


# --- What goes wrong ---


def test_a_conversation_that_is_too_long_is_cut(serve: Serve, name: str, door: Door) -> None:
    server = serve(TOO_LONG, Reply(text="well"))
    agent = agent_on(
        name,
        messages=[user("one"), assistant("two"), user("three"), assistant("four")],
        conversation_manager=SlidingWindowConversationManager(window_size=3),
    )
    assert str(door(agent, "five")) == "well\n"
    long, short = (str(body["messages"]) for _, body in server.seen)
    assert "one" in long
    assert "one" not in short
    assert "five" in short


def test_a_conversation_that_cannot_be_cut_is_an_error(serve: Serve, name: str, door: Door) -> None:
    serve(TOO_LONG)
    with pytest.raises(ContextWindowOverflowException):
        door(agent_on(name), "one")


def test_a_service_that_has_too_much_to_do_is_asked_again(serve: Serve, name: str, door: Door) -> None:
    server = serve(BUSY, BUSY, Reply(text="well"))
    agent = agent_on(name, retry_strategy=ModelRetryStrategy(max_attempts=3, initial_delay=0))
    assert str(door(agent, "hi")) == "well\n"
    assert len(server.seen) == 3


def test_a_service_that_stays_busy_is_an_error(serve: Serve, name: str, door: Door) -> None:
    server = serve(BUSY, BUSY, BUSY)
    agent = agent_on(name, retry_strategy=ModelRetryStrategy(max_attempts=2, initial_delay=0))
    with pytest.raises(ModelThrottledException):
        door(agent, "hi")
    assert len(server.seen) == 2


def test_after_a_lost_connection_the_turn_goes_on(serve: Serve, name: str, door: Door) -> None:
    server = serve(Reply(text="hello world, how are you", cut="torn"), Reply(text="well"))
    agent = agent_on(name)
    with pytest.raises(Exception, match=r"(?i)connection|closed|incomplete"):
        door(agent, "hi")
    assert str(door(agent)) == "well\n"
    assert [message["role"] for message in agent.messages] == ["user", "assistant"]
    assert len(server.seen) == 2


def test_a_cancelled_answer_is_left_early(serve: Serve, name: str, door: Door) -> None:
    server = serve(Reply(text="hello world, how are you " * 10), Reply(text="well"))
    agent = agent_on(name)

    def cancel(event: ModelStreamUpdateEvent) -> None:
        if "contentBlockDelta" in event.event:
            agent.cancel()

    agent.add_hook(cancel)
    result = door(agent, "hi")
    assert result.stop_reason == "cancelled"
    assert server.ended.acquire(timeout=30)  # nobody reads the rest
    assert "hello" not in str(agent.messages)
    agent = agent_on(name, messages=agent.messages)
    assert str(door(agent, "and now?")) == "well\n"


def test_a_task_that_is_cancelled_leaves_nothing_behind(serve: Serve, name: str) -> None:
    server = serve(Reply(text="hello world, how are you " * 10), Reply(text="well"))
    agent = agent_on(name)
    begun = asyncio.Event()

    async def begin(event: ModelStreamUpdateEvent) -> None:
        if "contentBlockDelta" in event.event and not begun.is_set():
            begun.set()
            await asyncio.Event().wait()

    async def cancelled() -> None:
        agent.add_hook(begin)
        task = asyncio.create_task(agent.invoke_async("hi"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert str(await agent.invoke_async()) == "well\n"

    asyncio.run(cancelled())
    assert [message["role"] for message in agent.messages] == ["user", "assistant"]
    assert len(server.seen) == 2


# --- Over processes, loops and threads ---


def test_a_question_is_answered_to_another_agent(
    serve: Serve, name: str, door: Door, session: Session, answers: Answers
) -> None:
    server = serve(Reply(tools=[("add", {"a": 1, "b": 2}, "t1")]), Reply(text="3."))

    def approve(event: BeforeToolCallEvent) -> None:
        if event.interrupt("approval", reason=event.tool_use.input) != "yes":
            event.cancel_tool = "not allowed"

    options: Any = {"tools": [add], "hooks": [approve]}
    asked = door(session.agent(model=PydanticAIModel(name, max_retries=0), **options), "1 + 2?")
    assert [question.reason for question in asked.interrupts or ()] == [{"a": 1, "b": 2}]
    assert len(server.seen) == 1
    result = door(session.agent(model=PydanticAIModel(name, max_retries=0), **options), answers(asked, "yes"))
    assert str(result) == "3.\n"
    assert len(server.seen) == 2
    assert sent_results(server.seen[1][1]) != []


def test_one_agent_through_all_doors(serve: Serve, name: str) -> None:
    server = serve(*[Reply(text="well")] * 10)
    agent = agent_on(name)
    for _ in range(2):
        for way in ("call", "invoke_async", "stream", "astream", "stream_async"):
            assert str(Door(way)(agent, "hi")) == "well\n"
    assert len(server.seen[-1][1]["messages"]) == 19


def test_threads_at_the_same_time(serve: Serve, name: str) -> None:
    def answer(body: Any) -> Reply:
        """Adds to itself the number that was asked for, and says what came of it."""
        results = sent_results(body)
        if results:
            return Reply(text=f"It is {results[-1][1]}.")
        number = next(int(word) for word in str(body["messages"]).split("'") if word.isdigit())
        return Reply(tools=[("add", {"a": number, "b": number}, f"t{number}")])

    serve(*[answer] * 16)
    agent = agent_on(name, tools=[add])

    async def together() -> list[Any]:
        return await asyncio.gather(*(agent.invoke_async(str(n), thread_id=f"thread {n}") for n in range(8)))

    results = asyncio.run(together())
    for number, result in enumerate(results):
        said = agent.thread(f"thread {number}").messages
        assert said[0] == user(str(number))
        assert [use.toolUseId for message in said for use in tool_uses(message)] == [f"t{number}"]
        assert str(2 * number) in str(result)
