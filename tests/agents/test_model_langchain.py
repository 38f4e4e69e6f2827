"""Chat models of LangChain as they are: what they are sent, and what their answers mean. With a loop and without."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

pytest.importorskip("langchain_core")

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import Field

from graphkit import Agent, tool
from graphkit.errors import ContextWindowOverflowException, ModelThrottledException
from graphkit.models import resolve_model
from graphkit.models.langchain import LangChainModel
from graphkit_prebuilt.assembly import Assembly
from graphkit_prebuilt.content import assistant, tool_result, user
from graphkit_prebuilt.models.model import call_model
from tests.agents.conftest import Door

ADD: Any = {
    "name": "add",
    "description": "Adds.",
    "inputSchema": {"json": {"type": "object", "properties": {"a": {"type": "integer"}}}},
}


class Chat(BaseChatModel):
    """A chat model that streams these pieces, or gives a whole message; an exception among them is raised."""

    pieces: Sequence[Any]
    asked: list[list[BaseMessage]] = Field(default_factory=list)
    keywords: list[dict[str, Any]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "chat"

    def bind_tools(self, tools: Any, *, tool_choice: Any = None, **kwargs: Any) -> Any:
        return self.bind(tools=tools, tool_choice=tool_choice)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        raise NotImplementedError

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        self.asked.append(messages)
        self.keywords.append(kwargs)
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            yield ChatGenerationChunk(message=piece)


class Whole(Chat):
    """One that does not stream."""

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.pieces[0])])

    _stream = BaseChatModel._stream


Ask = Callable[..., Assembly]


@pytest.fixture(params=["with a loop", "without a loop"])
def ask(request: pytest.FixtureRequest) -> Ask:
    async def with_loop(model: Any, *args: Any) -> list[Any]:
        stream: Any = call_model(model, *args)
        return [chunk async for chunk in stream]

    def asking(chat: Any, *args: Any) -> Assembly:
        model, args = resolve_model(chat), args or ([user("hi")],)
        stream: Any = (
            asyncio.run(with_loop(model, *args))
            if "without" not in request.param
            else call_model(model, *args)
        )
        assembly = Assembly()
        for chunk in stream:
            assembly.feed(chunk)
        assembly.finish()
        return assembly

    return asking


def chunk(content: Any = "", **about: Any) -> AIMessageChunk:
    return AIMessageChunk(content=content, **about)


def piece(
    args: str, index: int | None = 0, name: str | None = None, call_id: str | None = None
) -> AIMessageChunk:
    return chunk(
        tool_call_chunks=[
            {"name": name, "args": args, "id": call_id, "index": index, "type": "tool_call_chunk"}
        ]
    )


def call(given: Any, call_id: str, name: str = "add") -> Any:
    return {"toolUse": {"toolUseId": call_id, "name": name, "input": given}}


def test_a_chat_model_is_known_by_its_shape() -> None:
    chat = Chat(pieces=[])
    model = resolve_model(chat)
    assert isinstance(model, LangChainModel)
    assert model.model is chat
    assert model.get_config() == {"model_id": "Chat"}


def test_a_text_comes_in_pieces(ask: Ask) -> None:
    usage: Any = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    answer = ask(Chat(pieces=[chunk("hello "), chunk(""), chunk("world", usage_metadata=usage)]))
    assert answer.message == assistant("hello world")
    assert answer.stop_reason == "end_turn"
    assert answer.usage == {"inputTokens": 3, "outputTokens": 4, "totalTokens": 7}


def test_calls_come_in_pieces_even_in_turns(ask: Ask) -> None:
    pieces = [
        chunk("Let me see."),
        piece("", 0, "add", "t1"),
        piece('{"a"', 0),
        piece("", 1, "sub", "t2"),
        piece('{"b": 2}', 1),
        piece(": 1}", 0),
    ]
    answer = ask(Chat(pieces=pieces), [user("hi")], [ADD])
    assert answer.message["content"] == [
        {"text": "Let me see."},
        call({"a": 1}, "t1"),
        call({"b": 2}, "t2", "sub"),
    ]
    assert answer.stop_reason == "tool_use"


def test_pieces_of_calls_without_an_index(ask: Ask) -> None:
    pieces = [piece('{"a"', None, "add", "t1"), piece(": 1}", None), piece('{"b": 2}', None, "sub", "t2")]
    assert ask(Chat(pieces=pieces)).message["content"] == [call({"a": 1}, "t1"), call({"b": 2}, "t2", "sub")]


def test_a_whole_message(ask: Ask) -> None:
    said = AIMessage(
        content="Let me see.",
        tool_calls=[{"name": "add", "args": {"a": 1}, "id": "t1"}, {"name": "add", "args": {}, "id": "t2"}],
        invalid_tool_calls=[{"name": "add", "args": '{"a": ', "id": "t3", "error": None}],
    )
    assert ask(Whole(pieces=[said])).message["content"] == [
        {"text": "Let me see."},
        call({"a": 1}, "t1"),
        call({}, "t2"),
        call('{"a": ', "t3"),
    ]


def test_the_fake_that_langchain_ships(ask: Ask) -> None:
    fake = GenericFakeChatModel(messages=iter([AIMessage(content="hello there")]))
    assert ask(fake).message == assistant("hello there")


def test_content_in_blocks(ask: Ask) -> None:
    pieces = [
        chunk([{"type": "thinking", "thinking": "hm", "index": 0}]),
        chunk([{"type": "thinking", "signature": "sig", "index": 0}]),
        chunk([{"type": "text", "text": "a", "index": 1}]),
        chunk([{"type": "input_json_delta", "partial_json": "{}", "index": 2}]),
        chunk(["b"]),
    ]
    assert ask(Chat(pieces=pieces)).message["content"] == [
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "sig"}}},
        {"text": "ab"},
    ]


@pytest.mark.parametrize(
    ("about", "meant"),
    [
        ({"finish_reason": "stop"}, "end_turn"),
        ({"finish_reason": "length"}, "max_tokens"),
        ({"finish_reason": "MAX_TOKENS"}, "max_tokens"),
        ({"stop_reason": "max_tokens"}, "max_tokens"),
        ({"stopReason": "stop_sequence"}, "stop_sequence"),
        ({"finish_reason": "content_filter"}, "content_filtered"),
        ({"stop_reason": "refusal"}, "content_filtered"),
        ({"finish_reason": None}, "end_turn"),
    ],
)
def test_why_a_model_stopped(ask: Ask, about: Any, meant: str) -> None:
    assert ask(Chat(pieces=[chunk("a", response_metadata=about), chunk("")])).stop_reason == meant


def test_usage_is_added_up_over_the_pieces(ask: Ask) -> None:
    first: Any = {"input_tokens": 3, "output_tokens": 0, "total_tokens": 3}
    last: Any = {"input_tokens": 0, "output_tokens": 4, "total_tokens": 4}
    answer = ask(Chat(pieces=[chunk("a", usage_metadata=first), chunk("b", usage_metadata=last)]))
    assert answer.usage == {"inputTokens": 3, "outputTokens": 4, "totalTokens": 7}


def test_what_a_chat_model_is_sent(ask: Ask) -> None:
    chat = Chat(pieces=[chunk("a")])
    thought: Any = {"reasoningContent": {"reasoningText": {"text": "hm"}}}
    picture: Any = {"image": {"format": "png", "source": {"bytes": b"xyz"}}}
    conversation = [
        user("hi", "there"),
        assistant(thought, "Let me see.", call({"a": 1}, "t1"), call('{"a": ', "t2")),
        user(
            {"toolResult": tool_result("t1", "success", "3", {"json": {"b": 1}})},
            {"toolResult": tool_result("t2", "error", "Error: no")},
            "and",
            picture,
        ),
    ]
    ask(chat, conversation, [ADD], "Be short.", {"tool": {"name": "add"}})
    system, hello, calls, first, second, more = chat.asked[0]
    assert [message.type for message in chat.asked[0]] == ["system", "human", "ai", "tool", "tool", "human"]
    assert (system.content, hello.content) == ("Be short.", "hi\nthere")
    assert isinstance(calls, AIMessage)
    assert [(use["id"], use["name"], use["args"]) for use in calls.tool_calls] == [
        ("t1", "add", {"a": 1}), ("t2", "add", {"INVALID_JSON": '{"a": '}),
    ]  # fmt: skip
    assert "hm" not in str(calls.content)
    assert (first.content, first.status, first.tool_call_id) == ('3\n{"b": 1}', "success", "t1")  # type: ignore[attr-defined]
    assert (second.content, second.status) == ("Error: no", "error")  # type: ignore[attr-defined]
    assert more.content == [
        {"type": "text", "text": "and"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,eHl6"}},
    ]
    (tool,) = chat.keywords[0]["tools"]
    assert tool["function"] == {
        "name": "add",
        "description": "Adds.",
        "parameters": ADD["inputSchema"]["json"],
    }
    assert chat.keywords[0]["tool_choice"] == "add"


def test_half_a_character_is_replaced(ask: Ask) -> None:
    chat = Chat(pieces=[chunk("a")])
    ask(chat, [user("hi \ud800")], [], "be \ud800")
    assert [message.content for message in chat.asked[0]] == ["be \ufffd", "hi \ufffd"]


def test_tools_are_bound_only_if_there_are_any(ask: Ask) -> None:
    chat = Chat(pieces=[chunk("a")])
    ask(chat)
    ask(chat, [user("hi")], [ADD], None, {"any": {}})
    ask(chat, [user("hi")], [ADD])
    assert [keywords.get("tool_choice") for keywords in chat.keywords] == [None, "any", None]
    assert ["tools" in keywords for keywords in chat.keywords] == [False, True, True]


def test_what_cannot_be_sent_is_named(ask: Ask) -> None:
    document: Any = {"document": {"format": "pdf", "name": "d", "source": {"bytes": b"x"}}}
    elsewhere: Any = {"image": {"format": "png", "source": {"location": {"type": "s3"}}}}
    with pytest.raises(ValueError, match="document"):
        ask(Chat(pieces=[]), [user(document)])
    with pytest.raises(ValueError, match="bytes"):
        ask(Chat(pieces=[]), [user(elsewhere)])


def test_settings_are_passed_with_every_call() -> None:
    chat = Chat(pieces=[chunk("a")])
    model = LangChainModel(chat, temperature=0.5)
    list(call_model(model, [user("hi")]))  # type: ignore[arg-type]
    model.update_config(temperature=0.25)
    list(call_model(model, [user("hi")], [ADD]))  # type: ignore[arg-type]
    assert [keywords["temperature"] for keywords in chat.keywords] == [0.5, 0.25]
    assert model.get_config() == {"model_id": "Chat", "temperature": 0.25}


class RateLimitError(Exception):
    """What OpenAI's and Anthropic's clients call it."""


class Overloaded(Exception):
    status_code = 529


@pytest.mark.parametrize(
    ("error", "meant"),
    [
        (ContextOverflowError("too long"), ContextWindowOverflowException),
        (RateLimitError("slow down"), ModelThrottledException),
        (Overloaded("slow down"), ModelThrottledException),
        (ConnectionError("gone"), ConnectionError),
    ],
)
def test_errors(ask: Ask, error: Exception, meant: type[Exception]) -> None:
    with pytest.raises(meant, match=str(error)):
        ask(Chat(pieces=[chunk("a"), error]))


def test_an_answer_without_anything_is_no_answer(ask: Ask) -> None:
    with pytest.raises(Exception, match=r"(?i)empty|no generation|no chunks"):
        ask(Chat(pieces=[]))


class Talk(Chat):
    """One that gives the next of these lists of pieces with every call."""

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        pieces = self.pieces[len(self.asked)]
        self.asked.append(messages)
        yield from (ChatGenerationChunk(message=piece) for piece in pieces)


def test_an_agent_on_a_chat_model(door: Door) -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    chat = Talk(
        pieces=[
            [
                chunk("Let me see."),
                piece('{"a": 1, "b": 2}', 0, "add", "t1"),
                piece('{"a": 3}', 1, "add", "t2"),
            ],
            [chunk("3, and "), chunk("I do not know.")],
        ]
    )
    agent = Agent(chat, tools=[add], callback_handler=None)
    assert str(door(agent, "1 + 2, 3 + ?")) == "3, and I do not know.\n"
    first, second = chat.asked[1][-2:]
    assert (first.content, first.status) == ("3", "success")  # type: ignore[attr-defined]
    assert (second.tool_call_id, second.status) == ("t2", "error")  # type: ignore[attr-defined]
