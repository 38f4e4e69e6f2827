"""The model for tests: what it streams with and without a loop, what it remembers, and what it says at its end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from graphkit.models import ModelRequest, ScriptedModel, ToolCall, Turn
from graphkit_prebuilt.assembly import Assembly
from graphkit_prebuilt.content import assistant, user
from graphkit_prebuilt.models.model import call_model

Read = Callable[..., list[Any]]


@pytest.fixture(params=["with a loop", "without a loop"])
def read(request: pytest.FixtureRequest) -> Read:
    """Call a model and read its chunks."""

    async def with_loop(model: Any, *args: Any) -> list[Any]:
        return [chunk async for chunk in call_model(model, *args)]  # type: ignore[union-attr]

    if request.param == "with a loop":
        return lambda model, *args: asyncio.run(with_loop(model, *(args or ([user("hi")],))))
    return lambda model, *args: list(call_model(model, *(args or ([user("hi")],))))  # type: ignore[arg-type]


def assembled(chunks: list[Any]) -> Assembly:
    assembly = Assembly()
    for chunk in chunks:
        assembly.feed(chunk)
    assembly.finish()
    return assembly


def content(chunks: list[Any]) -> Any:
    return assembled(chunks).message["content"]


def kinds(chunks: list[Any]) -> list[str]:
    return [key for chunk in chunks for key in chunk]


def pieces(chunks: list[Any]) -> list[Any]:
    return [chunk["contentBlockDelta"]["delta"] for chunk in chunks if "contentBlockDelta" in chunk]


def call(name: str, given: Any, call_id: str) -> Any:
    return {"toolUse": {"toolUseId": call_id, "name": name, "input": given}}


def test_a_text_in_the_chunks_of_a_provider(read: Read) -> None:
    chunks = read(ScriptedModel(["hello"]))
    assert kinds(chunks) == [
        "messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata",
    ]  # fmt: skip
    made = assembled(chunks)
    assert made.message == assistant("hello")
    assert made.stop_reason == "end_turn"
    assert made.usage == {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}


def test_calls_of_tools(read: Read) -> None:
    model = ScriptedModel(
        [ToolCall("add", {"a": 1}, id="t1"), [ToolCall("add", {}, id="t2"), ToolCall("sub", id="t3")]]
    )
    first, second = assembled(read(model)), assembled(read(model))
    assert first.message["content"] == [call("add", {"a": 1}, "t1")]
    assert second.message["content"] == [call("add", {}, "t2"), call("sub", {}, "t3")]
    assert first.stop_reason == second.stop_reason == "tool_use"


def test_text_and_calls_in_one_turn_keep_their_order(read: Read) -> None:
    model = ScriptedModel([["Let me see.", ToolCall("add", {"a": 1}, id="t1"), "And."]])
    assert content(read(model)) == [{"text": "Let me see."}, call("add", {"a": 1}, "t1"), {"text": "And."}]


def test_calls_without_an_id_get_different_ones_in_a_conversation(read: Read) -> None:
    both = [ToolCall("add"), ToolCall("add")]
    model = ScriptedModel([both, both])
    once = content(read(model, [user("hi")]))
    again = content(read(model, [user("hi"), assistant(*once), user("go on")]))
    fresh = content(read(ScriptedModel([both]), [user("hi"), assistant(*once), user("go on")]))
    ids = [block["toolUse"]["toolUseId"] for block in [*once, *again]]
    assert len(set(ids)) == 4
    assert not {block["toolUse"]["toolUseId"] for block in fresh} & set(ids[:2])


def test_a_turn_in_detail(read: Read) -> None:
    turn = Turn(
        reasoning="hm",
        text="hello",
        calls=[ToolCall("add", {"a": 1}, id="t1")],
        stop_reason="max_tokens",
        usage={"inputTokens": 1, "outputTokens": 2, "totalTokens": 3},
    )
    made = assembled(read(ScriptedModel([turn])))
    assert made.message["content"] == [
        {"reasoningContent": {"reasoningText": {"text": "hm"}}},
        {"text": "hello"},
        call("add", {"a": 1}, "t1"),
    ]
    assert made.stop_reason == "max_tokens"
    assert made.usage == {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}


def test_a_turn_token_by_token(read: Read) -> None:
    chunks = read(ScriptedModel([Turn(text="abcdefg", calls=[ToolCall("add", {"a": 1}, id="t1")], chunks=3)]))
    texts = [piece["text"] for piece in pieces(chunks) if "text" in piece]
    inputs = [piece["toolUse"]["input"] for piece in pieces(chunks) if "toolUse" in piece]
    assert texts == ["abc", "def", "g"]
    assert (len(inputs), "".join(inputs)) == (3, '{"a": 1}')
    assert content(chunks) == [{"text": "abcdefg"}, call("add", {"a": 1}, "t1")]


def test_an_input_that_was_cut(read: Read) -> None:
    assert content(read(ScriptedModel([ToolCall("add", '{"a": ', id="t1")]))) == [call("add", '{"a": ', "t1")]


def test_raw_chunks_are_streamed_as_they_are(read: Read) -> None:
    raw: list[Any] = [{"messageStart": {"role": "assistant"}}, {"odd": 1}]
    assert read(ScriptedModel([raw])) == raw
    assert read(ScriptedModel([iter(raw)])) == raw
    assert read(ScriptedModel([[]])) == []


def test_an_error_in_the_place_of_an_answer(read: Read) -> None:
    model = ScriptedModel([ConnectionError("gone"), TimeoutError, "fine"])
    with pytest.raises(ConnectionError, match="gone"):
        read(model)
    with pytest.raises(TimeoutError):
        read(model)
    assert content(read(model)) == [{"text": "fine"}]


@pytest.mark.parametrize(("after", "seen"), [(0, 0), (3, 3), (99, 6)])
def test_an_error_in_the_middle_of_an_answer(after: int, seen: int) -> None:
    got: list[Any] = []
    model = ScriptedModel([Turn(text="abc", error=ConnectionError("gone"), error_after=after)])
    with pytest.raises(ConnectionError, match="gone"):
        got.extend(model.stream([user("hi")]))
    assert len(got) == seen


def test_an_error_that_is_raised_twice_does_not_collect_tracebacks(read: Read) -> None:
    error = ConnectionError("gone")
    model = ScriptedModel([error], repeat=True)
    lengths = []
    for _ in range(3):
        with pytest.raises(ConnectionError):
            read(model)
        lengths.append(len(list(_frames(error))))
    assert lengths[0] == lengths[2]


def _frames(error: BaseException) -> Iterator[Any]:
    at = error.__traceback__
    while at is not None:
        yield at
        at = at.tb_next


def test_a_delay_waits_before_each_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def asleep(seconds: float) -> None:
        waited.append(seconds)

    async def streamed(model: Any) -> list[Any]:
        return [chunk async for chunk in model.stream([])]

    monkeypatch.setattr("time.sleep", waited.append)
    monkeypatch.setattr("asyncio.sleep", asleep)
    model = ScriptedModel([Turn(text="a", delay=2.5), Turn(text="a", delay=1.5), "a"])
    assert len(list(model.stream([]))) == 6
    assert waited == [2.5] * 6
    assert len(asyncio.run(streamed(model))) == 6
    assert waited[6:] == [1.5] * 6
    list(model.stream([]))
    assert len(waited) == 12


def test_a_turn_may_be_a_function_of_what_was_asked(read: Read) -> None:
    def echo(request: ModelRequest) -> Any:
        block = request.messages[-1]["content"][0]
        return [f"you said {block['text']}", ToolCall("add", {"n": len(request.messages)}, id="t1")]

    model = ScriptedModel([echo])
    assert content(read(model, [user("so")])) == [{"text": "you said so"}, call("add", {"n": 1}, "t1")]


def test_every_request_is_remembered(read: Read) -> None:
    model = ScriptedModel(["a", "b"])
    messages = [user("hi")]
    spec: Any = {"name": "add", "description": "Adds.", "inputSchema": {"json": {"type": "object"}}}
    read(model, messages, [spec], "Be short.", {"any": {}})
    messages.append(assistant("a"))
    messages.append(user("more"))
    read(model, messages)
    first, second = model.requests
    assert first.messages == [user("hi")]
    assert first.tool_specs == [spec]
    assert first.system_prompt == "Be short."
    assert first.system_prompt_content == [{"text": "Be short."}]
    assert first.tool_choice == {"any": {}}
    assert second.messages == messages
    assert (second.tool_specs, second.system_prompt, second.tool_choice) == (None, None, None)


def test_the_end_of_the_script_is_an_error_that_counts_the_turns(read: Read) -> None:
    model = ScriptedModel(["a", "b"])
    read(model)
    read(model)
    with pytest.raises(LookupError, match=r"turn 3.*has 2"):
        read(model)
    with pytest.raises(LookupError, match=r"turn 1.*has 0"):
        read(ScriptedModel([], repeat=True))


def test_a_script_may_grow(read: Read) -> None:
    model = ScriptedModel(["a"])
    read(model)
    model.turns.append("b")
    assert content(read(model)) == [{"text": "b"}]


def test_a_script_may_repeat(read: Read) -> None:
    model = ScriptedModel(["a", "b"], repeat=True)
    assert [content(read(model))[0]["text"] for _ in range(5)] == ["a", "b", "a", "b", "a"]


def test_turns_of_each_conversation(read: Read) -> None:
    model = ScriptedModel(["first", "second"], per_thread=True)
    assert content(read(model, [user("hi")])) == [{"text": "first"}]
    assert content(read(model, [user("ho")])) == [{"text": "first"}]
    assert content(read(model, [user("hi"), assistant("first"), user("more")])) == [{"text": "second"}]
    with pytest.raises(LookupError, match="turn 3"):
        read(model, [assistant("a"), assistant("b")])


def test_threads_get_a_turn_each() -> None:
    model = ScriptedModel([str(number) for number in range(200)])
    together = threading.Barrier(8)

    def take() -> list[str]:
        together.wait()
        return [content(list(call_model(model, [])))[0]["text"] for _ in range(25)]  # type: ignore[arg-type]

    with ThreadPoolExecutor(8) as pool:
        taken = [text for future in [pool.submit(take) for _ in range(8)] for text in future.result()]
    assert sorted(taken, key=int) == [str(number) for number in range(200)]
    assert len(model.requests) == 200


@pytest.mark.parametrize("turns", ["hello", ToolCall("add"), Turn(text="a"), {"text": "a"}])
def test_one_turn_in_the_place_of_a_list_is_refused(turns: Any) -> None:
    with pytest.raises(TypeError, match="list of turns"):
        ScriptedModel(turns)


@pytest.mark.parametrize("turn", [7, None, b"x", {"text": "a"}])
def test_what_is_no_turn_is_named(turn: Any) -> None:
    with pytest.raises(TypeError, match="no turn"):
        list(ScriptedModel([turn]).stream([]))


def test_its_configuration() -> None:
    model = ScriptedModel([])
    model.update_config(temperature=1)
    assert model.get_config() == {"temperature": 1}
