"""Messages of every style, read and written: the content blocks that a model is given, and what comes back."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from graphkit.checkpoint.serde import register_type
from graphkit.errors import UnknownTypeError, UnserializableStateError
from graphkit.models.scripted import ScriptedModel, Turn
from graphkit.prebuilt import create_react_agent
from graphkit_checkpoint.serde import pack, unpack
from graphkit_prebuilt.content import tool_result
from graphkit_prebuilt.react.chat import ChatMessage, add_chat_messages
from graphkit_prebuilt.react.converse import converse_of
from graphkit_prebuilt.react.reading import (
    UNANSWERED,
    calls_of,
    completed,
    last_answer,
    style_of,
)
from graphkit_prebuilt.react.writing import answer, result, style_for
from tests.prebuilt.conftest import said

PNG = "iVBORw=="
CALL = {"name": "add", "args": {"a": 1}, "id": "c1", "type": "tool_call"}
USAGE = {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content[0] if len(content) == 1 else list(content)}


def calling(*ids: str) -> dict[str, Any]:
    return {"role": "assistant", "content": "", "tool_calls": [{**CALL, "id": call_id} for call_id in ids]}


def told(call_id: str, text: str = "ok") -> dict[str, Any]:
    return {"role": "tool", "content": text, "tool_call_id": call_id}


# --- Reading ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "blocks"),
    [
        ("hi", [{"text": "hi"}]),
        ([{"text": "hi"}], [{"text": "hi"}]),
        (["hi", {"type": "text", "text": "you"}], [{"text": "hi"}, {"text": "you"}]),
        (
            [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}],
            [{"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}],
        ),
        (
            [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}],
            [{"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}],
        ),
        (
            [{"type": "image", "base64": PNG, "mime_type": "image/png"}],
            [{"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}],
        ),
        (
            [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "so"}],
            [{"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}}, {"text": "so"}],
        ),
    ],
)
def test_contents(content: Any, blocks: Any) -> None:
    assert converse_of([{"role": "user", "content": content}]) == ([{"role": "user", "content": blocks}], [])


@pytest.mark.parametrize(
    "part",
    [
        {"type": "video_url"},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        {"type": "image", "url": "https://example.com/a.png"},
    ],
)
def test_contents_that_cannot_be_sent(part: Any) -> None:
    with pytest.raises(ValueError, match="cannot be sent"):
        converse_of([user(part, "x")])


@pytest.mark.parametrize(
    "call",
    [
        CALL,
        {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}},
    ],
)
def test_calls(call: Any) -> None:
    message = {"role": "assistant", "content": "hm", "tool_calls": [call]}
    assert calls_of(message) == [CALL]
    use = {"toolUse": {"toolUseId": "c1", "name": "add", "input": {"a": 1}}}
    blocks = {"role": "assistant", "content": [{"text": "hm"}, use]}
    assert converse_of([user("x"), message, told("c1")])[0][1] == blocks
    assert calls_of(blocks) == [CALL]


@pytest.mark.parametrize("blank", ["", " \n", [" "], [{"type": "text", "text": "\n"}]])
def test_of_an_answer_its_texts_without_a_word_are_not_sent(blank: Any) -> None:
    """Providers refuse them; one that is nothing else is no message."""
    empty = {"role": "assistant", "content": blank}
    found, _ = converse_of([user("x"), empty, {**calling("c1"), "content": blank}, told("c1"), user("y")])
    assert [[*map(next, map(iter, message["content"]))] for message in found] == [
        ["text"],
        ["toolUse"],
        ["toolResult", "text"],
    ]


def test_arguments_that_are_no_json_stay_text() -> None:
    function = {"name": "add", "arguments": '{"a'}
    assert (
        calls_of({"role": "assistant", "tool_calls": [{"id": "c", "function": function}]})[0]["args"] == '{"a'
    )


def test_system_messages_are_apart_and_results_are_one_message() -> None:
    messages, system = converse_of(
        [
            {"role": "system", "content": "be"},
            user("go"),
            calling("c1", "c2"),
            told("c1", "one"),
            {**told("c2", "two"), "status": "error"},
            {"role": "developer", "content": "kind"},
            user("more"),
        ]
    )
    assert system == [{"text": "be"}, {"text": "kind"}]
    assert messages[2:] == [
        {
            "role": "user",
            "content": [
                {"toolResult": tool_result("c1", "success", "one")},
                {"toolResult": tool_result("c2", "error", "two")},
                {"text": "more"},
            ],
        }
    ]


@pytest.mark.parametrize(
    "after",
    [
        [],
        [user("x")],
        [calling("c9"), told("c9")],
        [told("c1")],
        [told("c2"), user("x")],
        [told("c1"), {"role": "assistant", "content": "so"}],
        [user({"toolResult": tool_result("c1", "success", "ok")}, {"text": "x"})],
        [{"role": "system", "content": "s"}, told("c1")],
    ],
)
def test_every_call_has_one_result_right_behind_it(after: list[Any]) -> None:
    messages = [user("go"), calling("c1", "c2"), *after]
    before = copy.deepcopy(messages)
    mixed = any(isinstance(message["content"], list) for message in after)  # which is not done by halves
    for given in (messages,) if mixed else (messages, list(completed(messages))):
        sent, _ = converse_of(given)
        for here, following in zip(sent, [*sent[1:], None], strict=True):
            called = [block["toolUse"]["toolUseId"] for block in here["content"] if "toolUse" in block]
            if called:
                assert following is not None and following["role"] == "user"
                results = [block["toolResult"] for block in following["content"] if "toolResult" in block]
                assert sorted(found["toolUseId"] for found in results) == sorted(called)
                missing = [found for found in results if found["content"] == [{"text": UNANSWERED}]]
                assert all(found["status"] == "error" for found in missing)
                kinds = ["toolResult" in block for block in following["content"]]
                assert kinds == sorted(kinds, reverse=True)  # the results come first
    assert messages == before


def test_a_call_before_a_text_has_a_result_too() -> None:
    use = {"toolUse": {"toolUseId": "c1", "name": "add", "input": {}}}
    messages, _ = converse_of([{"role": "assistant", "content": [use, {"text": "wait"}]}, user("go on")])
    assert [sorted(block) for message in messages for block in message["content"]] == [
        ["toolUse"],
        ["text"],
        ["toolResult"],
        ["text"],
    ]


def test_an_object_is_known_by_its_role_if_its_type_says_nothing() -> None:
    class Said:
        """As a client of a chat API has it."""

        type, role, content = "message", "assistant", "hi"

    assert converse_of([Said()])[0] == [{"role": "assistant", "content": [{"text": "hi"}]}]


def test_the_last_answer_and_its_open_calls() -> None:
    assert last_answer([user("x")]) == (None, [])
    message = calling("c1", "c2")
    found, calls = last_answer([user("x"), message, told("c2"), user("y")])
    assert found is message and [call["id"] for call in calls] == ["c1"]


def test_a_model_is_not_given_what_the_state_holds() -> None:
    """What a model does to its messages does not show in the conversation."""

    def spoil(request: Any) -> str:
        request.messages[0]["content"][0]["text"] = "spoiled"
        return "hi"

    values = create_react_agent(ScriptedModel([spoil]), []).invoke(said("go"))
    assert values["messages"][0].content == "go"


# --- Writing ------------------------------------------------------------------------------------------------


def test_the_style_of_what_is_added() -> None:
    blocks = user([{"text": "x"}])
    assert style_for([]) == style_for([user("x")]) == style_for([blocks, user("x")]) == "chat"
    assert (
        style_for([user("x"), blocks])
        == style_for([blocks, {"role": "assistant", "content": "y"}])
        == "blocks"
    )
    results = user([{"toolResult": tool_result("c", "success", "x")}])
    assert style_for([user("x"), results]) == "chat"
    assert style_of(user([{"type": "text", "text": "x"}])) == "chat"


def test_an_answer_comes_back_as_it_was() -> None:
    """Read what was written: the same blocks."""
    content: list[Any] = [
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
        {"reasoningContent": {"redactedContent": b"\x00\xff"}},
        {"text": "so"},
        {"toolUse": {"toolUseId": "c1", "name": "add", "input": {"a": 1}}},
    ]
    for style in ("chat", "blocks"):
        message = answer(style, content, stop_reason="tool_use", usage=USAGE)
        assert unpack(pack(message)) == message
        assert converse_of([message])[0][0]["content"] == content


def test_reasoning_is_kept() -> None:
    values = create_react_agent(ScriptedModel([Turn(reasoning="hm", text="so")]), []).invoke(said("go"))
    message = values["messages"][-1]
    assert message.text == "so"
    assert message.content == [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "so"}]


def test_results() -> None:
    call: Any = CALL
    image = {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}
    found = result("chat", call, tool_result("c1", "success", "a", {"json": {"b": 1}}))
    assert (found.content, found.tool_call_id, found.name, found.status) == (
        'a\n{"b": 1}',
        "c1",
        "add",
        "success",
    )
    shown = result("chat", call, tool_result("c1", "success", image))  # type: ignore[arg-type]
    assert shown.content[0]["image_url"]["url"] == f"data:image/png;base64,{PNG}"
    assert converse_of([shown])[0][0]["content"][0]["toolResult"]["content"] == [image]


# --- ChatMessage --------------------------------------------------------------------------------------------


def test_a_chat_message_is_a_dict_with_attributes() -> None:
    message = ChatMessage(role="assistant", content="hi", tool_calls=[CALL])
    assert message == {"role": "assistant", "content": "hi", "tool_calls": [CALL]}
    assert json.loads(json.dumps(message)) == message
    assert (message.role, message.type, message.content, message.id, message.name) == (
        "assistant",
        "ai",
        "hi",
        None,
        None,
    )
    assert type(unpack(pack([message]))[0]) is ChatMessage
    assert type(copy.copy(message)) is ChatMessage


def test_add_chat_messages() -> None:
    first = add_chat_messages([], [("user", "a"), "b", {"role": "user", "content": "c"}])
    assert [(type(message), message.content) for message in first] == [(ChatMessage, text) for text in "abc"]
    assert len({message.id for message in first}) == 3
    changed = add_chat_messages(first, {"role": "user", "content": "B", "id": first[1].id})
    assert [message.content for message in changed] == ["a", "B", "c"]


# --- Types that need no registration --------------------------------------------------------------------------


def test_a_name_of_langchain_is_read_where_it_is_known_alone() -> None:
    pytest.importorskip("langchain_core")
    from langchain_core.messages import HumanMessage

    packed = pack(HumanMessage("x", id="1"))
    assert unpack(packed) == HumanMessage("x", id="1")
    for name in (
        b"langchain_core.messages.human:HumanMessags",
        b"langchain_core.messages.humam:HumanMessage",
        b"langchain_core.messages.human:BaseMessage\x00",
    ):
        other = packed.replace(b"langchain_core.messages.human:HumanMessage", name)
        with pytest.raises(UnknownTypeError):
            unpack(other)


def test_other_types_of_langchain_are_refused() -> None:
    tools = pytest.importorskip("langchain_core.tools")
    with pytest.raises(UnserializableStateError, match="register_type"):
        pack(tools.StructuredTool.from_function(said, description="x"))
    assert register_type is not None
