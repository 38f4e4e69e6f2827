"""Models through pydantic-ai and the real clients of OpenAI and Anthropic, against a local server of both protocols."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

import pydantic_ai.exceptions
from pydantic_ai.models.test import TestModel

from graphkit.drivers.loops import run_in_standing_loop
from graphkit.errors import ContextWindowOverflowException, ModelStreamError, ModelThrottledException
from graphkit.models import resolve_model
from graphkit.models.pydantic_ai import PydanticAIModel
from graphkit_prebuilt.assembly import Assembly
from graphkit_prebuilt.content import assistant, tool_result, user
from graphkit_prebuilt.models.model import call_model
from tests.agents.llm_server import Reply, Serve, serving

OPENAI, ANTHROPIC = "openai-chat:any", "anthropic:any"
ADD: Any = {
    "name": "add",
    "description": "Adds.",
    "inputSchema": {"json": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}},
}
PICTURE = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    with serving(monkeypatch) as start:
        yield start


@pytest.fixture(params=[OPENAI, ANTHROPIC])
def name(request: pytest.FixtureRequest) -> str:
    named: str = request.param
    return named


def model_of(name: str, **settings: Any) -> PydanticAIModel:
    return PydanticAIModel(name, **{"max_retries": 0, **settings})


async def chunks_of(model: Any, *args: Any) -> list[Any]:
    stream: Any = call_model(model, *(args or ([user("hi")],)))
    return [chunk async for chunk in stream]


async def ask(model: Any, *args: Any) -> Assembly:
    assembly = Assembly()
    for chunk in await chunks_of(model, *args):
        assembly.feed(chunk)
    assembly.finish()
    return assembly


def call(given: Any, call_id: str, name: str = "add") -> Any:
    return {"toolUse": {"toolUseId": call_id, "name": name, "input": given}}


def test_a_text_comes_in_pieces(serve: Serve, name: str) -> None:
    serve(Reply(text="hello world, how are you"))
    chunks = asyncio.run(chunks_of(model_of(name)))
    pieces = [chunk["contentBlockDelta"]["delta"]["text"] for chunk in chunks if "contentBlockDelta" in chunk]
    assert len(pieces) > 2
    assert "".join(pieces) == "hello world, how are you"
    assert chunks[-2] == {"messageStop": {"stopReason": "end_turn"}}
    metadata = chunks[-1]["metadata"]
    assert metadata["usage"] == {"inputTokens": 11, "outputTokens": 7, "totalTokens": 18}
    assert 0 <= metadata["metrics"]["timeToFirstByteMs"] <= metadata["metrics"]["latencyMs"]


def test_calls_of_tools(serve: Serve, name: str) -> None:
    serve(
        Reply(
            text="Let me see.",
            tools=[("add", {"a": 1}, "t1"), ("add", {"a": 22_222_222}, "t2"), ("add", "", "t3")],
        )
    )
    answer = asyncio.run(ask(model_of(name), [user("hi")], [ADD]))
    assert answer.message["content"] == [
        {"text": "Let me see."},
        call({"a": 1}, "t1"),
        call({"a": 22_222_222}, "t2"),
        call({}, "t3"),
    ]
    assert answer.stop_reason == "tool_use"


def test_an_input_that_was_cut_stays_text(serve: Serve, name: str) -> None:
    serve(Reply(tools=[("add", '{"a": ', "t1")]))
    assert asyncio.run(ask(model_of(name), [user("hi")], [ADD])).message["content"] == [call('{"a": ', "t1")]


@pytest.mark.parametrize(
    ("named", "word", "meant"),
    [
        (OPENAI, "length", "max_tokens"),
        (OPENAI, "content_filter", "content_filtered"),
        (ANTHROPIC, "max_tokens", "max_tokens"),
        (ANTHROPIC, "refusal", "content_filtered"),
        (ANTHROPIC, "stop_sequence", "end_turn"),
    ],
)
def test_why_a_model_stopped(serve: Serve, named: str, word: str, meant: str) -> None:
    serve(Reply(text="and so", stop=word))
    assert asyncio.run(ask(model_of(named))).stop_reason == meant


def test_what_a_model_thinks_goes_back_to_it_with_its_signature(serve: Serve) -> None:
    server = serve(Reply(thinking="hm, let me think", text="a"), Reply(text="b"))
    model = model_of(ANTHROPIC)

    async def talk() -> Any:
        first = (await ask(model)).message
        await ask(model, [user("hi"), first, user("more")])
        return first["content"]

    assert asyncio.run(talk()) == [
        {"reasoningContent": {"reasoningText": {"text": "hm, let me think", "signature": "sig"}}},
        {"text": "a"},
    ]
    assert server.seen[1][1]["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "hm, let me think", "signature": "sig"},
        {"type": "text", "text": "a"},
    ]


def test_what_is_not_shown_of_its_thoughts_goes_back_too(serve: Serve) -> None:
    server = serve(Reply(text="b"))
    hidden: Any = {"reasoningContent": {"redactedContent": b"xyz"}}
    asyncio.run(ask(model_of(ANTHROPIC), [user("hi"), assistant(hidden, "a"), user("more")]))
    assert server.seen[0][1]["messages"][1]["content"][0] == {"type": "redacted_thinking", "data": "xyz"}


def test_thoughts_without_a_signature_are_not_sent(serve: Serve, name: str) -> None:
    server = serve(Reply(text="b"))
    thought: Any = {"reasoningContent": {"reasoningText": {"text": "hm"}}}
    asyncio.run(ask(model_of(name), [user("hi"), assistant(thought, "a"), user("more")]))
    assert "hm" not in str(server.seen[0][1])


CONVERSATION: Any = [
    user("hi"),
    assistant("Let me see.", call({"a": 1}, "t1"), call({"a": 2}, "t2")),
    user(
        {"toolResult": tool_result("t1", "success", "3", {"json": {"b": [1]}})},
        {"toolResult": tool_result("t2", "error", "Error: no")},
    ),
    assistant("It is 3."),
    user("and", "now?"),
]


def test_a_conversation_as_openai_is_sent_it(serve: Serve) -> None:
    server = serve(Reply(text="a"))
    asyncio.run(ask(model_of(OPENAI, temperature=0.5), CONVERSATION, [ADD], "Be short."))
    path, body = server.seen[0]
    assert path == "/v1/chat/completions"
    assert body["temperature"] == 0.5
    system, hello, calls, first, second, answer, more = body["messages"]
    assert system == {"role": "system", "content": "Be short."}
    assert hello == {"role": "user", "content": "hi"}
    assert [(use["id"], use["function"]["arguments"]) for use in calls["tool_calls"]] == [
        ("t1", '{"a":1}'), ("t2", '{"a":2}'),
    ]  # fmt: skip
    assert first == {"role": "tool", "tool_call_id": "t1", "content": '3\n{"b": [1]}'}
    assert (second["tool_call_id"], "Error: no" in second["content"]) == ("t2", True)
    assert answer["content"] == "It is 3."
    assert [part["text"] for part in more["content"]] == ["and", "now?"]
    assert body["tools"][0]["function"]["name"] == "add"


def test_a_conversation_as_anthropic_is_sent_it(serve: Serve) -> None:
    server = serve(Reply(text="a"))
    asyncio.run(ask(model_of(ANTHROPIC, max_tokens=99), CONVERSATION, [ADD], "Be short."))
    path, body = server.seen[0]
    assert path.startswith("/v1/messages")
    assert body["max_tokens"] == 99
    assert "Be short." in str(body["system"])
    hello, calls, results, answer, more = body["messages"]
    assert hello["content"][0]["text"] == "hi"
    assert [(use["id"], use["input"]) for use in calls["content"][1:]] == [("t1", {"a": 1}), ("t2", {"a": 2})]
    first, second = results["content"]
    assert (first["tool_use_id"], first["is_error"]) == ("t1", False)
    assert (second["tool_use_id"], second["is_error"]) == ("t2", True)
    assert "Error: no" in str(second["content"])
    assert answer["content"][0]["text"] == "It is 3."
    assert [part["text"] for part in more["content"]] == ["and", "now?"]
    assert body["tools"][0]["input_schema"]["required"] == ["a"]


def test_pictures_in_prompts_and_in_results(serve: Serve, name: str) -> None:
    server = serve(Reply(text="a"))
    picture: Any = {"image": {"format": "png", "source": {"bytes": PICTURE}}}
    conversation = [
        user("what is this?", picture),
        assistant(call({}, "t1")),
        user({"toolResult": tool_result("t1", "success", "a picture", picture)}),
    ]
    asyncio.run(ask(model_of(name), conversation, [ADD]))
    assert str(server.seen[0][1]).count("iVBORw0KGgo=") == 2


def test_a_picture_that_lies_elsewhere_is_refused(serve: Serve) -> None:
    serve()
    picture: Any = {"image": {"format": "png", "source": {"location": {"type": "s3", "uri": "s3://a/b"}}}}
    with pytest.raises(ValueError, match="no bytes"):
        asyncio.run(ask(model_of(OPENAI), [user(picture)]))


def test_an_input_that_was_no_object_is_sent_as_one(serve: Serve, name: str) -> None:
    server = serve(Reply(text="a"))
    broken = user({"toolResult": tool_result("t1", "error", "Error: no JSON")})
    asyncio.run(ask(model_of(name), [user("hi"), assistant(call('{"a": ', "t1")), broken], [ADD]))
    assert "INVALID_JSON" in str(server.seen[0][1])


def test_half_a_character_does_not_stop_a_conversation(serve: Serve, name: str) -> None:
    """As in the name of a file that is no UTF-8."""
    server = serve(Reply(text="a"))
    result = user({"toolResult": tool_result("t1", "success", "file \udcff", {"json": {"at": "\ud800"}})})
    asyncio.run(
        ask(model_of(name), [user("hi \ud800"), assistant(call({}, "t1")), result], [ADD], "be \ud800")
    )
    assert "hi \ufffd" in str(server.seen[0][1])
    assert "file \ufffd" in str(server.seen[0][1])
    assert "be \ufffd" in str(server.seen[0][1])


def test_a_tool_may_be_forced(serve: Serve, name: str) -> None:
    server = serve(*[Reply(text="a")] * 3)
    model = model_of(name)

    async def forcing() -> None:
        choices: Any = [{"tool": {"name": "add"}}, {"any": {}}, {"auto": {}}]
        for choice in choices:
            await ask(model, [user("hi")], [ADD, {**ADD, "name": "sub"}], None, choice)

    asyncio.run(forcing())
    forced, some, free = (body["tool_choice"] for _, body in server.seen)
    if name == OPENAI:
        assert forced == {"type": "function", "function": {"name": "add"}}
        assert (some, free) == ("required", "auto")
    else:
        assert (forced["type"], forced["name"]) == ("tool", "add")
        assert (some["type"], free["type"]) == ("any", "auto")


# --- Errors ---


@pytest.mark.parametrize(("named", "status"), [(OPENAI, 429), (ANTHROPIC, 429), (ANTHROPIC, 529)])
def test_a_service_that_has_too_much_to_do(serve: Serve, named: str, status: int) -> None:
    serve(
        Reply(
            status=status,
            body={"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}},
        )
    )
    with pytest.raises(ModelThrottledException, match="slow down"):
        asyncio.run(ask(model_of(named)))


@pytest.mark.parametrize(
    ("named", "error"),
    [
        (
            OPENAI,
            {
                "message": "This model's maximum context length is 10 tokens",
                "code": "context_length_exceeded",
            },
        ),
        (ANTHROPIC, {"message": "prompt is too long: 210000 tokens > 200000 maximum"}),
    ],
)
def test_a_conversation_that_is_too_large(serve: Serve, named: str, error: Any) -> None:
    body = {"type": "error", "error": {"type": "invalid_request_error", **error}}
    serve(Reply(status=400, body=body))
    with pytest.raises(ContextWindowOverflowException):
        asyncio.run(ask(model_of(named)))


@pytest.mark.parametrize("status", [400, 401, 500, 503])
def test_other_errors_come_as_they_are(serve: Serve, name: str, status: int) -> None:
    serve(
        Reply(
            status=status, body={"type": "error", "error": {"type": "some_error", "message": "no such thing"}}
        )
    )
    with pytest.raises(pydantic_ai.exceptions.ModelHTTPError, match="no such thing") as caught:
        asyncio.run(ask(model_of(name)))
    assert caught.value.status_code == status


def test_a_connection_that_is_lost_in_the_middle(serve: Serve, name: str) -> None:
    serve(Reply(text="hello world, how are you", cut="torn"), Reply(text="again"))
    model = model_of(name)

    async def twice() -> Assembly:
        with pytest.raises(Exception, match=r"(?i)connection|closed|incomplete"):
            await ask(model)
        return await ask(model)

    assert asyncio.run(twice()).message == assistant("again")


def test_a_stream_that_ends_too_early_is_no_answer(serve: Serve, name: str) -> None:
    serve(
        Reply(text="hello world, how are you", cut="short"),
        Reply(tools=[("add", {"a": 1}, "x")], cut="short"),
    )
    for _ in range(2):
        with pytest.raises((ModelStreamError, pydantic_ai.exceptions.AgentRunError)):
            asyncio.run(ask(model_of(name)))


def test_a_reason_that_nobody_knows_is_a_reason_to_stop(serve: Serve, name: str) -> None:
    serve(Reply(text="hello", stop="tired"))
    assembly = asyncio.run(ask(model_of(name)))
    assert (assembly.message, assembly.stop_reason) == (assistant("hello"), "tired")


def test_calls_whose_pieces_come_in_turns(serve: Serve, name: str) -> None:
    first, second = {"a": 1, "b": [20, 30]}, {"a": 2, "b": [40, 50]}
    serve(Reply(tools=[("add", first, "x"), ("add", second, "y")], in_turns=True))
    message = asyncio.run(ask(model_of(name))).message
    assert message["content"] == [call(first, "x"), call(second, "y")]


def test_a_provider_without_its_key_is_an_error_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    model = resolve_model("openai-chat:any")
    with pytest.raises(pydantic_ai.exceptions.UserError, match="OPENAI_API_KEY"):
        asyncio.run(ask(model))


def test_a_provider_that_does_not_exist_is_an_error_of_the_call() -> None:
    with pytest.raises(pydantic_ai.exceptions.UserError, match="nobody:any"):
        asyncio.run(ask(resolve_model("nobody:any")))


# --- Loops, clients, settings ---


def test_one_model_on_one_loop_after_the_other(serve: Serve, name: str) -> None:
    server = serve(*[Reply(text="a")] * 4)
    model = model_of(name)
    for _ in range(3):
        asyncio.run(ask(model))
    run_in_standing_loop(ask(model), 0)
    assert len(server.seen) == 4


def test_calls_on_one_loop_share_a_client(serve: Serve, name: str) -> None:
    server = serve(*[Reply(text="a")] * 5)
    model = model_of(name)

    async def several() -> None:
        await asyncio.gather(ask(model), ask(model))
        together = len(server.connections)
        for _ in range(3):
            await ask(model)
        assert len(server.connections) == together <= 2

    asyncio.run(several())


def test_clients_of_models_that_are_gone_are_closed(serve: Serve, name: str) -> None:
    server = serve(*[Reply(text="a")] * 20)

    async def many() -> None:
        for _ in range(20):
            await ask(model_of(name))
        for _ in range(18):
            assert server.ended.acquire(timeout=30)

    asyncio.run(many())
    assert len(server.connections) == 20


def test_a_model_may_go_while_it_streams(serve: Serve, name: str) -> None:
    serve(Reply(text="hello world, how are you"))

    async def orphaned() -> list[Any]:
        stream: Any = call_model(model_of(name), [user("hi")])
        chunks: list[Any] = []
        async for chunk in stream:
            if not chunks:
                gc.collect()
            chunks.append(chunk)
        return chunks

    assert "metadata" in asyncio.run(orphaned())[-1]


def test_a_stream_may_be_left_early(serve: Serve, name: str) -> None:
    serve(Reply(text="hello world, how are you"), Reply(text="again"))
    model = model_of(name)

    async def left() -> Assembly:
        stream: Any = call_model(model, [user("hi")])
        await anext(stream)
        await anext(stream)
        await stream.aclose()
        return await ask(model)

    assert asyncio.run(left()).message == assistant("again")


def test_its_settings_may_change(serve: Serve) -> None:
    server = serve(Reply(text="a"), Reply(text="a"), Reply(text="a"))
    model = model_of(OPENAI, temperature=0.5)

    async def changing() -> None:
        await ask(model)
        model.update_config(temperature=0.25)
        await ask(model)
        model.update_config(model_id=ANTHROPIC)
        await ask(model)

    asyncio.run(changing())
    assert [body.get("temperature") for _, body in server.seen] == [0.5, 0.25, 0.25]
    assert server.seen[2][0].startswith("/v1/messages")
    assert model.get_config() == {"model_id": ANTHROPIC, "max_retries": 0, "temperature": 0.25}


def test_a_model_of_pydantic_ai_is_used_as_it_is() -> None:
    model = resolve_model(TestModel(custom_output_text="from the test model"))
    assert isinstance(model, PydanticAIModel)
    assert asyncio.run(ask(model)).message == assistant("from the test model")
    assert model.get_config() == {"model_id": "test"}
