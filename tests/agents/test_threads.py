"""One agent object, many conversations at the same time (N13)."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from graphkit import Agent, ToolContext, tool
from graphkit.agent import AgentThread, NullConversationManager
from graphkit.checkpoint.memory import InMemorySaver
from graphkit.errors import InvalidThreadIdError
from graphkit.hooks import AfterInvocationEvent, BeforeModelCallEvent, BeforeToolCallEvent, MessageAddedEvent
from graphkit.models import ModelRequest, ScriptedModel, ToolCall
from graphkit.types.exceptions import ConcurrencyException
from tests.agents.conftest import agent_of

THREADS, TURNS = 8, 8


@tool(context=True)
def remember(word: str, tool_context: ToolContext) -> str:
    """Remember a word."""
    said = tool_context.agent.state.get("words") or []
    tool_context.agent.state.set("words", [*said, word])
    return word


def says(request: ModelRequest) -> Any:
    """A call of the tool with what the user has said last, then an answer that repeats it."""
    last = request.messages[-1]["content"][0]
    if "toolResult" in last:
        return "heard " + last["toolResult"]["content"][0]["text"]
    return ToolCall("remember", {"word": last["text"]})


def busy_agent(saver: Any) -> tuple[Agent, dict[str, list[str]]]:
    """An agent and what its hooks have seen of each thread, by the thread that the first message names."""
    seen: dict[str, list[str]] = {f"t{number}": [] for number in range(THREADS)}
    agent = agent_of(
        model=ScriptedModel([says], repeat=True),
        tools=[remember],
        checkpointer=saver,
        conversation_manager=NullConversationManager(),
    )

    def look(event: MessageAddedEvent) -> None:
        block = event.message["content"][0]
        if "text" in block and event.message["role"] == "assistant":
            own = event.agent.messages[0]["content"][0]["text"].split("-")[0]
            seen[own].append(block["text"])

    agent.add_hook(look)
    return agent, seen


def check(agent: Agent, seen: dict[str, list[str]]) -> None:
    for number in range(THREADS):
        own = f"t{number}"
        words = [f"{own}-{turn}" for turn in range(TURNS)]
        thread = agent.thread(own)
        assert [m["content"][0]["text"] for m in thread.messages if "text" in m["content"][0]] == [
            text for word in words for text in (word, f"heard {word}")
        ]
        assert len(thread.messages) == 4 * TURNS
        assert thread.state.get("words") == words
        assert seen[own] == [f"heard {word}" for word in words]


def test_threads_do_not_mix(saver: Any) -> None:
    agent, seen = busy_agent(saver)
    started = threading.Barrier(THREADS)

    def converse(own: str) -> None:
        started.wait(30)
        for turn in range(TURNS):
            result = agent(f"{own}-{turn}", thread_id=own, invocation_state={"own": own})
            assert str(result) == f"heard {own}-{turn}\n"
            assert result.invocation_state == {"own": own, "request_state": {}}
            assert result.metrics.tool_metrics["remember"].call_count == 1

    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(converse, own) for own in seen]:
            done.result()
    check(agent, seen)


def test_tasks_of_a_loop_do_not_mix(saver: Any) -> None:
    agent, seen = busy_agent(saver)

    async def converse(own: str) -> None:
        for turn in range(TURNS):
            result = await agent.invoke_async(f"{own}-{turn}", thread_id=own)
            assert str(result) == f"heard {own}-{turn}\n"

    async def all_of_them() -> None:
        await asyncio.gather(*(converse(own) for own in seen))

    asyncio.run(all_of_them())
    check(agent, seen)


def test_streams_of_several_threads_do_not_mix() -> None:
    agent, _ = busy_agent(InMemorySaver())

    async def one(own: str) -> str:
        shown = [each async for each in agent.stream_async(f"{own}-0", thread_id=own)]
        return "".join(each.get("data", "") for each in shown)

    async def all_of_them() -> list[str]:
        return await asyncio.gather(*(one(f"t{number}") for number in range(THREADS)))

    assert asyncio.run(all_of_them()) == [f"heard t{number}-0" for number in range(THREADS)]


# --- The same thread twice ------------------------------------------------------------------------------


class Held:
    """A hook in which a request waits until it is let go."""

    def __init__(self) -> None:
        self.reached, self.let_go = threading.Event(), threading.Event()

    def __call__(self, event: BeforeModelCallEvent) -> None:
        self.reached.set()
        assert self.let_go.wait(30)


def test_the_same_thread_twice_is_refused(session: Any, door: Any) -> None:
    held = Held()
    first = session.agent("one", "two", hooks=[held])
    second = session.agent(hooks=[])
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(first, "first")
        assert held.reached.wait(30)
        try:
            with pytest.raises(ConcurrencyException):
                door(second, "second")
        finally:
            held.let_go.set()
        assert str(running.result()) == "one\n"
    assert [message["content"] for message in second.messages] == [[{"text": "first"}], [{"text": "one"}]]
    assert str(door(second, "third")) == "two\n"


def test_another_thread_of_the_same_agent_is_not_refused(door: Any) -> None:
    held = Held()
    agent = agent_of("one", "two")
    agent.add_hook(
        lambda event: held(event) if event.agent.messages[0]["content"] == [{"text": "a"}] else None,
        BeforeModelCallEvent,
    )
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(agent, "a", thread_id="a")
        assert held.reached.wait(30)
        try:
            assert str(door(agent, "b", thread_id="b")) == "one\n"
        finally:
            held.let_go.set()
        assert str(running.result()) == "two\n"


@pytest.mark.parametrize("inner", ["call", "invoke_async"])
def test_an_agent_cannot_call_itself_on_its_own_thread(door: Any, inner: str) -> None:
    """From a hook: it would wait for itself."""
    refused: list[type] = []
    agent = agent_of([ToolCall("remember", {"word": "w"})], "done", tools=[remember])

    async def nested(event: BeforeToolCallEvent) -> None:
        try:
            await event.agent.invoke_async("nested") if inner == "invoke_async" else event.agent("nested")
        except Exception as error:
            refused.append(type(error))

    agent.add_hook(nested)
    assert door(agent, "go").stop_reason == "end_turn"
    assert refused == [ConcurrencyException]
    assert len(agent.messages) == 4


def test_an_agent_can_call_itself_on_another_thread(door: Any) -> None:
    agent = agent_of([ToolCall("ask_again")], "inner", "outer")

    @tool
    def ask_again() -> str:
        """Ask again."""
        return str(agent("inner prompt", thread_id="other"))

    agent.tool_registry.process_tools([ask_again])
    assert str(door(agent, "go")) == "outer\n"
    assert [message["content"][0]["text"] for message in agent.thread("other").messages] == [
        "inner prompt",
        "inner",
    ]
    assert len(agent.messages) == 4


def test_two_agents_with_threads_of_one_name_do_not_mix(door: Any) -> None:
    """An agent in a tool of another one keeps its own conversation, though both call it the same."""
    inner = agent_of("inner", checkpointer=InMemorySaver())

    @tool
    def ask_inner() -> str:
        """Ask the inner agent."""
        return str(inner("to inner", thread_id="user-1"))

    outer = agent_of([ToolCall("ask_inner")], "outer", tools=[ask_inner], checkpointer=InMemorySaver())
    assert str(door(outer, "to outer", thread_id="user-1")) == "outer\n"
    assert [m["content"][0].get("text") for m in inner.thread("user-1").messages] == ["to inner", "inner"]
    assert len(outer.thread("user-1").messages) == 4


# --- What a thread holds --------------------------------------------------------------------------------


def thread_doors(agent: Agent) -> dict[str, Callable[[], AgentThread]]:
    return {"own": agent.thread, "named": lambda: agent.thread("x")}


@pytest.mark.parametrize("which", ["own", "named"])
def test_a_thread_has_the_same_calls(door: Any, which: str) -> None:
    agent = agent_of("one", "two")
    thread = thread_doors(agent)[which]()
    assert str(door(thread, "hi")) == "one\n"
    assert len(thread.messages) == 2
    assert len(agent.messages) == (2 if which == "own" else 0)
    assert thread.interrupts == []
    thread.state.set("k", 1)
    assert thread.app_state.get("k") == 1
    thread.delete()
    assert (thread.messages, thread.state.get()) == ([], {})
    assert str(door(thread, "hi")) == "two\n"


def test_changes_of_a_thread_outlast_the_look_at_many_others() -> None:
    agent = agent_of("one")
    agent.thread("first").state.set("k", 1)
    agent.thread("second").messages.append({"role": "user", "content": [{"text": "before"}]})
    held = agent.thread("held")
    for number in range(1000):
        assert agent.thread(f"other-{number}").messages == []
    assert agent.thread("first").state.get("k") == 1
    assert len(agent.thread("second").messages) == 1
    assert agent.thread("held") is held
    held.state.set("k", 2)
    del held
    assert agent.thread("held").state.get("k") == 2
    agent("hi", thread_id="second")
    assert [m["content"][0]["text"] for m in agent.thread("second").messages] == ["before", "hi", "one"]


def test_a_call_inside_a_running_loop_waits_in_place() -> None:
    """As in a notebook: an agent with async tools is called synchronously where a loop runs."""

    @tool
    async def later() -> str:
        """Later."""
        await asyncio.sleep(0)
        return "later"

    agent = agent_of([ToolCall("later")], "done", tools=[later])

    async def main() -> str:
        return str(agent("go"))

    assert asyncio.run(main()) == "done\n"


def test_agents_inside_agents_in_both_colours(door: Any) -> None:
    innermost = agent_of([ToolCall("remember", {"word": "deep"})], "deep", tools=[remember])

    @tool
    async def below(text: str) -> str:
        """Ask an agent, on the loop."""
        return str(await innermost.invoke_async(text))

    middle = agent_of([ToolCall("below", {"text": "further"})], "middle", tools=[below])

    @tool
    def ask_middle() -> str:
        """Ask an agent, without a loop."""
        return str(middle("down"))

    agent = agent_of([ToolCall("ask_middle")], "top", tools=[ask_middle])
    assert str(door(agent, "go")) == "top\n"
    assert [len(each.messages) for each in (innermost, middle, agent)] == [4, 4, 4]
    assert innermost.state.get("words") == ["deep"]


def test_a_thread_refuses_another_threads_id(door: Any) -> None:
    with pytest.raises(ValueError, match="thread_id='y'"):
        door(agent_of("one").thread("x"), "hi", thread_id="y")


@pytest.mark.parametrize("bad", ["", "x" * 256, "a\0b", 5, b"x"])
def test_a_bad_thread_id_is_named(door: Any, bad: Any) -> None:
    agent = agent_of("one")
    with pytest.raises(InvalidThreadIdError):
        door(agent, "hi", thread_id=bad)
    with pytest.raises(InvalidThreadIdError):
        agent.thread(bad)


def test_questions_of_several_threads_are_answered_apart(door: Any, answers: Any, saver: Any) -> None:
    agent = agent_of(model=ScriptedModel([says], repeat=True), tools=[remember], checkpointer=saver)
    agent.add_hook(lambda event: event.interrupt("ok", reason=event.tool_use["input"]), BeforeToolCallEvent)
    halted = {own: door(agent, f"{own}-word", thread_id=own) for own in ("a", "b")}
    assert [agent.thread(own).interrupts[0].reason for own in ("a", "b")] == [
        {"word": "a-word"},
        {"word": "b-word"},
    ]
    done = door(agent, answers(halted["b"], "y"), thread_id="b")
    assert str(done) == "heard b-word\n"
    assert agent.thread("b").interrupts == [] and len(agent.thread("a").interrupts) == 1
    assert str(door(agent, answers(halted["a"], "y"), thread_id="a")) == "heard a-word\n"


def test_what_agents_begin_with_is_every_threads(door: Any, saver: Any) -> None:
    began: list[Any] = [
        {"role": "user", "content": [{"text": "before"}]},
        {"role": "assistant", "content": [{"text": "yes"}]},
    ]
    agent = agent_of("one", "two", "three", messages=began, state={"k": [1]}, checkpointer=saver)
    for own in ("a", "b"):
        assert len(agent.thread(own).messages) == 2
        door(agent, "hi", thread_id=own)
        assert [m["content"][0]["text"] for m in agent.thread(own).messages[:3]] == ["before", "yes", "hi"]
        assert agent.thread(own).state.get("k") == [1]
    # What is stored wins over what another agent begins with.
    other = agent_of("three", messages=[], state={"k": [2], "new": 1}, checkpointer=saver)
    assert other.thread("a").state.get() == {"k": [1]}
    assert door(other, "more", thread_id="a").invocation_state == {"request_state": {}}
    assert len(other.thread("a").messages) == 6
    assert began == [
        {"role": "user", "content": [{"text": "before"}]},
        {"role": "assistant", "content": [{"text": "yes"}]},
    ]


def test_cancelling_a_thread_is_that_threads_alone(door: Any) -> None:
    held = Held()
    agent = agent_of("one", "two", hooks=[held])
    with ThreadPoolExecutor(2) as pool:
        a = pool.submit(agent, "hi", thread_id="a")
        assert held.reached.wait(30)
        agent.thread("a").cancel("stop it")
        agent.thread("b").cancel()  # the next one
        held.let_go.set()
        assert a.result().stop_reason == "cancelled"
    assert str(a.result()) == "stop it\n"
    assert door(agent, "hi", thread_id="b").stop_reason == "cancelled"
    assert door(agent, "hi", thread_id="b").stop_reason == "end_turn"


def test_a_hook_sees_its_own_threads_result(door: Any) -> None:
    agent = agent_of(model=ScriptedModel([says], repeat=True), tools=[remember])
    results: list[str] = []
    agent.add_hook(lambda event: results.append(str(event.result)), AfterInvocationEvent)
    for own in ("a", "b"):
        door(agent, own, thread_id=own)
    assert results == ["heard a\n", "heard b\n"]
