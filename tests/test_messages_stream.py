"""Stream mode "messages" (L24): token by token, and complete messages once."""

import asyncio
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest

from graphkit import START, Command, MessagesState, RunResult, Send, interrupt
from graphkit.constants import TAG_NOSTREAM
from graphkit.errors import InvalidUpdateError
from graphkit.graph.message import push_message
from graphkit.runtime import Runtime, get_runtime
from graphkit.types import RetryPolicy, RunnableConfig
from tests.conftest import Build, Runner, graph_of, in_a_row


def message(content: str, id: str | None = None, role: str = "assistant") -> dict[str, Any]:
    return {"role": role, "content": content} | ({} if id is None else {"id": id})


class Said(TypedDict):
    """Messages as they are returned, without ids."""

    messages: Annotated[list[Any], operator.add]


@dataclass
class Message:
    """As message libraries have it."""

    content: str
    id: str | None = None


def speaks(*words: str, id: str = "m1", then: Any = None) -> Callable[..., Any]:
    """A node that streams `words` and returns `then`, by default the complete message."""

    def speak(state: Any, runtime: Runtime[Any]) -> Any:
        for word in words:
            runtime.message_writer(message(word, id))
        return {"messages": [message("".join(words), id)]} if then is None else then

    return speak


def talk(*nodes: Callable[..., Any], **options: Any) -> Any:
    named = {f"n{index}": node for index, node in enumerate(nodes)}
    return graph_of(named, in_a_row(*named), state=MessagesState, **options)


QUESTION = {"messages": [message("hi", "h1", "user")]}


def contents(chunks: list[Any]) -> list[str]:
    return [chunk["content"] for chunk, _ in chunks]


def test_a_message_is_shown_token_by_token_and_not_again_when_it_is_complete(runner: Runner) -> None:
    chunks = runner.stream(talk(speaks("Hel", "lo")), QUESTION, stream_mode="messages")
    assert contents(chunks) == ["Hel", "lo"]


def test_what_the_graph_is_given_is_not_shown_by_a_branch_that_leads_in(runner: Runner) -> None:
    def lead(state: Any, runtime: Runtime[Any]) -> str:
        runtime.message_writer(message("where to?", "b1"))
        return "n0"

    graph = graph_of({"n0": speaks("Hello")}, [(START, lead)], state=MessagesState)
    given = {"messages": [message("hi", None, "user")]}
    assert contents(runner.stream(graph, given, stream_mode="messages")) == ["where to?", "Hello"]


def test_a_complete_message_is_shown_when_its_node_returns_it(runner: Runner) -> None:
    returned = {"messages": [message("tool says", "t1", "tool"), message("without an id")]}
    chunks = runner.stream(talk(speaks("Hel", "lo", then=returned)), QUESTION, stream_mode="messages")
    assert contents(chunks) == ["Hel", "lo", "tool says", "without an id"]


def test_messages_that_a_node_was_given_are_not_shown(runner: Runner) -> None:
    def repeats(state: MessagesState) -> Any:
        return {"messages": [*state["messages"], message("new", "n1")]}

    assert contents(runner.stream(talk(repeats), QUESTION, stream_mode="messages")) == ["new"]


def test_a_message_is_shown_by_the_first_node_that_has_it(runner: Runner) -> None:
    again = {"messages": [message("Hello", "m1")]}
    chunks = runner.stream(talk(speaks("Hel", "lo"), lambda state: again), QUESTION, stream_mode="messages")
    assert [metadata["langgraph_node"] for _, metadata in chunks] == ["n0", "n0"]


def test_messages_in_commands_and_by_themselves_are_found(runner: Runner) -> None:
    def node(state: MessagesState) -> Any:
        return [
            Command(update={"messages": message("alone", "a1")}),
            {"messages": [message("listed", "l1")]},
        ]

    assert contents(runner.stream(talk(node), QUESTION, stream_mode="messages")) == ["alone", "listed"]


def test_objects_of_a_message_library_are_known_by_their_attributes(runner: Runner) -> None:
    def node(state: MessagesState) -> Any:
        get_runtime().message_writer(Message("Hel", "m1"))
        return {"messages": [Message("Hello", "m1"), Message("other", "m2")]}

    chunks = runner.stream(talk(node), QUESTION, stream_mode="messages")
    assert [chunk for chunk, _ in chunks] == [Message("Hel", "m1"), Message("other", "m2")]


def test_the_metadata_says_where_a_message_comes_from(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = talk(
        speaks("Hi", then={"messages": [message("tool", "t1")]}),
        saver=build({"n": len}).checkpointer,
        node_options={"n0": {"metadata": {"kind": "chat"}}},
    )
    run: RunnableConfig = {**config, "tags": ["mine"], "metadata": {"who": "me"}}
    chunks = runner.stream(graph, QUESTION, run, stream_mode=["messages", "tasks"])
    task = next(chunk["id"] for mode, chunk in chunks if mode == "tasks")
    metadata = {
        "who": "me",
        "kind": "chat",
        "tags": ["mine"],
        "thread_id": "t",
        "langgraph_step": 1,
        "langgraph_node": "n0",
        "langgraph_triggers": ("branch:to:n0",),
        "langgraph_path": ("pull", "n0"),
        "langgraph_checkpoint_ns": f"n0:{task}",
    }
    assert [chunk for mode, chunk in chunks if mode == "messages"] == [
        (message("Hi", "m1"), metadata),
        (message("tool", "t1"), metadata),
    ]


def test_a_writer_adds_metadata_of_its_own(runner: Runner) -> None:
    def node(state: MessagesState, runtime: Runtime[Any]) -> None:
        runtime.message_writer(message("a", "1"), {"model": "small", "tags": ["joke"]})
        runtime.message_writer(message("hidden", "2"), {"tags": [TAG_NOSTREAM]})
        runtime.message_writer(message("b", "3"))

    chunks = runner.stream(talk(node), QUESTION, stream_mode="messages")
    assert [(chunk["content"], found.get("model"), found.get("tags")) for chunk, found in chunks] == [
        ("a", "small", ["joke"]),
        ("b", None, None),
    ]


def test_a_message_that_a_second_attempt_streams_and_returns_is_shown_by_its_parts(runner: Runner) -> None:
    """Returned without the id that its parts had, it is known by its content."""

    def blocks(*words: str) -> list[dict[str, str]]:
        return [{"text": word} for word in words]

    attempts: list[int] = []

    def speak(state: Any, runtime: Runtime[Any]) -> Any:
        for word in ("Hel", "lo"):
            runtime.message_writer({"role": "assistant", "id": "m1", "content": blocks(word)})
        attempts.append(1)
        if len(attempts) == 1:
            raise ConnectionError("once more")
        return {"messages": [{"role": "assistant", "content": blocks("Hello")}]}

    retry = RetryPolicy(max_attempts=2, initial_interval=0, jitter=False)
    graph = graph_of({"speak": speak}, state=Said, node_options={"speak": {"retry_policy": retry}})
    shown = runner.stream(graph, {"messages": []}, stream_mode="messages")
    assert [chunk["content"] for chunk, _ in shown] == [blocks("Hel"), blocks("lo")] * 2


def test_tasks_of_sends_are_told_apart(runner: Runner) -> None:
    def say(number: int, runtime: Runtime[Any]) -> None:
        runtime.message_writer(message(str(number), str(number)))

    graph = graph_of(
        {"say": say},
        [(START, lambda state: [Send("say", n) for n in range(3)], ["say"])],
        state=MessagesState,
    )
    chunks = runner.stream(graph, QUESTION, stream_mode="messages")
    found = {chunk["content"]: metadata for chunk, metadata in chunks}
    assert {content: metadata["langgraph_path"] for content, metadata in found.items()} == {
        str(n): ("push", n) for n in range(3)
    }
    assert len({metadata["langgraph_checkpoint_ns"] for metadata in found.values()}) == 3


def test_messages_of_a_nested_run_are_shown_there_or_by_the_node_that_it_is(runner: Runner) -> None:
    graph = talk(talk(speaks("Hel", "lo")))
    inside = runner.stream(graph, QUESTION, stream_mode="messages", subgraphs=True)
    assert [(len(namespace), chunk["content"]) for namespace, (chunk, _) in inside] == [
        (1, "Hel"),
        (1, "lo"),
    ]
    namespace, (_, metadata) = inside[0]
    assert metadata["langgraph_checkpoint_ns"].startswith(f"{namespace[0]}|n0:")
    outside = runner.stream(graph, QUESTION, stream_mode="messages")
    assert [(chunk["content"], found["langgraph_node"]) for chunk, found in outside] == [("Hello", "n0")]


def test_without_the_mode_a_message_writer_is_harmless(runner: Runner) -> None:
    graph = talk(speaks("Hel", "lo"))
    assert len(runner.stream(graph, QUESTION, stream_mode="updates")) == 1
    assert isinstance(runner.run(graph, QUESTION), RunResult)


def test_a_token_arrives_while_its_node_still_runs() -> None:
    async def through() -> list[str]:
        heard = asyncio.Event()

        async def node(state: MessagesState, runtime: Runtime[Any]) -> Any:
            runtime.message_writer(message("Hel", "m1"))
            async with asyncio.timeout(20):
                await heard.wait()
            runtime.message_writer(message("lo", "m1"))
            return {"messages": [message("Hello", "m1")]}

        seen = []
        async for chunk, _ in talk(node).astream(QUESTION, stream_mode="messages"):
            seen.append(chunk["content"])
            heard.set()
        return seen

    assert asyncio.run(through()) == ["Hel", "lo"]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_messages_beside_other_modes(runner: Runner, version: str) -> None:
    modes = ["messages", "updates"]
    chunks = runner.stream(talk(speaks("Hi")), QUESTION, stream_mode=modes, version=version)
    shown = [chunk["type"] if version == "v2" else chunk[0] for chunk in chunks]
    assert shown == ["messages", "updates"]


def test_a_message_is_pushed_to_the_stream_and_into_the_state(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    def speak(state: Any) -> Any:
        pushed = push_message(message("working", "p"))
        return {"messages": [message(f"{pushed['content']}: done", "d")]}

    graph = build({"speak": speak}, state=MessagesState)
    chunks = runner.stream(graph, QUESTION, config, stream_mode="messages")
    assert contents(chunks) == ["working", "working: done"]
    state = runner.get_state(graph, config)
    assert [each["id"] for each in state.values["messages"]] == ["h1", "p", "d"]


def test_a_pushed_message_of_a_node_that_runs_again_is_there_once(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    def speak(state: Any) -> Any:
        push_message(message("may I?", "p"))
        return {"messages": [message(interrupt("?"), "d")]}

    graph = build({"speak": speak}, state=MessagesState)
    runner.invoke(graph, QUESTION, config)
    messages = runner.invoke(graph, Command(resume="yes"), config)["messages"]
    assert [each["content"] for each in messages] == ["hi", "may I?", "yes"]


def test_a_message_that_is_only_shown(runner: Runner) -> None:
    def speak(state: Any) -> Any:
        push_message(message("thinking", "t"), state_key=None)

    assert contents(runner.stream(talk(speak), QUESTION, stream_mode="messages")) == ["thinking"]
    assert runner.invoke(talk(speak), QUESTION) == QUESTION


def test_what_cannot_be_pushed(runner: Runner) -> None:
    with pytest.raises(ValueError, match="needs a message with an id"):
        runner.invoke(talk(lambda state: push_message(message("nobody's"))), QUESTION)
    with pytest.raises(InvalidUpdateError, match="'notes'"):
        runner.invoke(talk(lambda state: push_message(message("m", "m"), state_key="notes")), QUESTION)
    with pytest.raises(RuntimeError, match="push_message"):
        push_message(message("m", "m"))
